/* Sign: right AWS signatures for the requests of request.h, made with the code that the server itself verifies with
 * (src/dynamo/sigv4.h). All are made before the first is sent, one for each key number, so that signing takes
 * nothing from the server while it is measured. The access key comes from the environment, as an SDK takes it.
 *
 * What always holds: all requests are equally long, because an Authorization header of the same names and the same
 * access key is. Their date, and their time to live, are those of the start: a run ends within SIGV4_SKEW_S. */
#ifndef BENCH_SIGN_H
#define BENCH_SIGN_H

#include <stdlib.h>
#include <time.h>

#include "dynamo/sigv4.h"
#include "request.h"

enum { SIGN_HEADERS = 3, SIGN_KEYS_MAX = 100000 };

struct signer {
	struct sigv4_credential credential;
	struct arena            arena; /* for one signing */
	struct sigv4_header     headers[SIGN_HEADERS];
	struct bytes            body;
	char                   *date;          /* its place in the request */
	char                   *authorization; /* likewise */
	size_t                  authorization_length;
	char                   *texts; /* all requests, in the order of their key numbers */
};

/* Where the value of a header begins; every request has the ones asked for. */
static inline char *signer_value(struct request *r, const char *name, size_t *length)
{
	char *at = memmem(r->text, r->length, name, strlen(name));

	at += strlen(name);
	*length = (size_t)((char *)memchr(at, '\r', r->length - (size_t)(at - r->text)) - at);
	return at;
}

static inline struct bytes signer_header(struct request *r, const char *name)
{
	size_t      length;
	const char *at = signer_value(r, name, &length);

	return (struct bytes){at, length};
}

/* Finds everything again: the request may have grown. */
static inline void signer_attach(struct signer *s, struct request *r)
{
	size_t      date_length;
	const char *head_end = memmem(r->text, r->length, "\r\n\r\n", 4);

	s->date = signer_value(r, "\r\nX-Amz-Date: ", &date_length);
	s->authorization = signer_value(r, "\r\nAuthorization: ", &s->authorization_length);
	s->headers[0] = (struct sigv4_header){BYTES("Host"), signer_header(r, "\r\nHost: ")};
	s->headers[1] = (struct sigv4_header){BYTES("Content-Type"), signer_header(r, "\r\nContent-Type: ")};
	s->headers[2] = (struct sigv4_header){BYTES("X-Amz-Target"), signer_header(r, "\r\nX-Amz-Target: ")};
	s->body = (struct bytes){head_end + 4, r->length - (size_t)(head_end + 4 - r->text)};
}

/* Makes the Authorization header so long. False: the request would exceed REQUEST_BYTES_MAX. */
static inline bool signer_resize(struct signer *s, struct request *r, size_t length)
{
	char  *after = s->authorization + s->authorization_length;
	size_t before_length = (size_t)(s->authorization - r->text);
	size_t after_length = r->length - before_length - s->authorization_length;

	if (before_length + length + after_length > sizeof r->text)
		return false;
	memmove(s->authorization + length, after, after_length);
	for (size_t i = 0; i < r->slot_count; i++)
		r->slots[i].at += length - s->authorization_length;
	r->length = before_length + length + after_length;
	signer_attach(s, r);
	s->authorization_length = length;
	return true;
}

static inline bool signer_sign(struct signer *s, struct request *r)
{
	struct sigv4_request  request = {.method = BYTES("POST"),
	                                 .path = BYTES("/"),
	                                 .headers = s->headers,
	                                 .header_count = SIGN_HEADERS,
	                                 .body = s->body,
	                                 .service = BYTES("dynamodb"),
	                                 .now_us = (int64_t)time(NULL) * 1000000};
	struct sigv4_addition added;
	struct bytes          date, authorization;
	struct err            err;

	arena_reset(&s->arena);
	if (sigv4_sign(&request, &s->credential, &s->arena, &added, &err) != ERR_NONE)
		return false;
	date = added.headers[0].value;
	authorization = added.headers[1].value;
	if (authorization.len != s->authorization_length && !signer_resize(s, r, authorization.len))
		return false;
	memcpy(s->date, date.data, date.len);
	memcpy(s->authorization, authorization.data, authorization.len);
	return true;
}

static inline bool signer_sign_all(struct signer *s, struct request *r, uint64_t keys)
{
	s->texts = malloc(keys * r->length);
	if (s->texts == NULL)
		return false;
	for (uint64_t key = 0; key < keys; key++) {
		request_set_key(r, key);
		if (!signer_sign(s, r))
			return false;
		memcpy(s->texts + key * r->length, r->text, r->length);
	}
	return true;
}

/* False: there is no access key in the environment, the request is not one to sign, or there are too many. */
static inline bool signer_open(struct signer *s, struct request *r, uint64_t keys)
{
	const char *id = getenv("AWS_ACCESS_KEY_ID");
	const char *secret = getenv("AWS_SECRET_ACCESS_KEY");

	if (id == NULL || secret == NULL || keys > SIGN_KEYS_MAX ||
	    memmem(r->text, r->length, "\r\nAuthorization: ", 17) == NULL)
		return false;
	s->credential = (struct sigv4_credential){
	        .key_id = bytes_of(id), .secret = bytes_of(secret), .region = BYTES("local")};
	s->credential.cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	arena_init(&s->arena);
	signer_attach(s, r);
	return signer_sign(s, r) && signer_sign_all(s, r, keys);
}

static inline void signer_close(struct signer *s)
{
	if (s->credential.cache == NULL)
		return;
	sigv4_key_cache_close(s->credential.cache);
	arena_release(&s->arena);
	free(s->texts);
}

#endif
