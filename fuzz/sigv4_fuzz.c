/* SigV4 fuzz: the input is a request as lines: method, path, query, then "name:value" headers up to an empty
 * line, then the body. Verifying it as it is must refuse or accept, never crash. Then it is signed and must
 * pass, unless the signer refused it, and must not pass any more with one more byte of body. */
#define _GNU_SOURCE /* memmem */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "dynamo/sigv4.h"

enum { HEADERS_MAX = 80 };

#define SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define NOW_US (1440938160 * (int64_t)1000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what, const struct err *err)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %s\n", what, err->text);
	abort();
}

static struct bytes secret_find(void *ctx, struct bytes key_id)
{
	(void)ctx;
	return bytes_is(key_id, "AKIDEXAMPLE") ? BYTES(SECRET) : (struct bytes){0};
}

static struct bytes line_take(struct bytes *rest)
{
	const char  *end = rest->len == 0 ? NULL : memchr(rest->data, '\n', rest->len);
	struct bytes line = {rest->data, end == NULL ? rest->len : (size_t)(end - rest->data)};
	size_t       taken = line.len + (end != NULL);

	*rest = (struct bytes){rest->data + taken, rest->len - taken};
	return line;
}

static struct sigv4_header header_read(struct bytes line)
{
	const char *colon = memchr(line.data, ':', line.len);
	size_t      len = colon == NULL ? line.len : (size_t)(colon - line.data);

	if (colon == NULL)
		return (struct sigv4_header){line, {0}};
	return (struct sigv4_header){{line.data, len}, {colon + 1, line.len - len - 1}};
}

static void request_read(struct bytes rest, struct sigv4_request *r, struct sigv4_header *headers)
{
	struct bytes line;

	*r = (struct sigv4_request){.headers = headers, .service = BYTES("dynamodb"), .now_us = NOW_US};
	r->method = line_take(&rest);
	r->path = line_take(&rest);
	r->query = line_take(&rest);
	while (r->header_count < HEADERS_MAX && (line = line_take(&rest)).len > 0)
		headers[r->header_count++] = header_read(line);
	r->body = rest;
}

static void verify(const struct sigv4_request *r, struct arena *a, struct sigv4_key_cache *cache,
                   struct err *err)
{
	struct sigv4_keyring  keys = {secret_find, NULL, cache};
	struct sigv4_identity who;
	enum err_code         rc = sigv4_verify(r, &keys, a, &who, err);

	require(rc == err->code, "code", err);
	require(rc == ERR_NONE || err->text[0] != '\0', "refused without a text", err);
	require(rc == ERR_NONE || strstr(err->text, SECRET) == NULL, "told the secret", err);
}

/* Would the header clash with those that signing adds, or mean something by itself? */
static bool header_is_special(struct bytes name)
{
	static const char *const special[] = {"authorization", "x-amz-date", "x-amz-security-token",
	                                      "date",          "host",       "x-amz-content-sha256"};

	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (name.len == strlen(special[i]) && strncasecmp(name.data, special[i], name.len) == 0)
			return true;
	return false;
}

static void sign_and_verify(struct sigv4_request r, struct sigv4_header *headers, struct arena *a,
                            struct sigv4_key_cache *cache)
{
	struct sigv4_credential c = {BYTES("AKIDEXAMPLE"), BYTES(SECRET), BYTES("token"), BYTES("eu-west-1"),
	                             NULL};
	struct sigv4_addition   added;
	struct err              err = {0};
	unsigned                kept = 0;

	for (unsigned i = 0; i < r.header_count; i++)
		if (!header_is_special(headers[i].name))
			headers[kept++] = headers[i];
	headers[kept++] = (struct sigv4_header){BYTES("Host"), BYTES("table.example")};
	r.header_count = kept;
	if (sigv4_sign(&r, &c, a, &added, &err) != ERR_NONE)
		return;
	for (unsigned i = 0; i < added.count; i++)
		headers[r.header_count++] = added.headers[i];
	verify(&r, a, cache, &err);
	require(err.code == ERR_NONE || memmem(r.query.data, r.query.len, "X-Amz-Algorithm=", 16) != NULL,
	        "refused its own", &err);
	r.body = arena_printf(a, "%.*s!", (int)r.body.len, r.body.len == 0 ? "" : r.body.data);
	err = (struct err){0};
	verify(&r, a, cache, &err);
	require(err.code != ERR_NONE, "another body passed", &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sigv4_key_cache *cache; /* reused, as a loop thread reuses its own */
	struct sigv4_header            headers[HEADERS_MAX + 1 + SIGV4_ADDED_MAX];
	struct sigv4_request           r;
	struct arena                   a;
	struct err                     err = {0};

	if (cache == NULL)
		cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	arena_init(&a);
	request_read((struct bytes){(const char *)data, size}, &r, headers);
	verify(&r, &a, cache, &err);
	sign_and_verify(r, headers, &a, cache);
	arena_release(&a);
	return 0;
}
