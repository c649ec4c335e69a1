/* SigV4 tool: lets a test written in another language compare with src/dynamo/sigv4*. Each line of standard
 * input is a request as JSON, each line of standard output the answer:
 *
 *   {"method", "path", "query", "service", "headers": [[name, value], ...], "body": base64, "now": seconds,
 *    "key_id", "secret", "token", "region", "sign_headers": [[name, value], ...]}
 *   {"verdict": "" or the error's name, "text", "token", "canonical", "string_to_sign", "authorization"}
 *
 * verdict, canonical and string_to_sign are about the request with `headers`, which are signed already;
 * authorization is our own signature of the request with `sign_headers`. */
#include <stdio.h>
#include <stdlib.h>

#include "dynamo/sigv4_parts.h"
#include "json/base64.h"
#include "json/json.h"
#include "json/write.h"

enum { HEADERS_MAX = 100 };

static struct bytes text_of(const struct json *object, struct bytes name)
{
	const struct json *field = json_get(object, name);

	return field != NULL && field->type == JSON_STRING ? json_text(field) : BYTES("");
}

static struct bytes secret_find(void *ctx, struct bytes key_id)
{
	const struct json *line = ctx;

	return bytes_equal(key_id, text_of(line, BYTES("key_id"))) ? text_of(line, BYTES("secret"))
	                                                           : (struct bytes){0};
}

static void headers_read(const struct json *list, struct sigv4_request *r, struct sigv4_header *headers)
{
	r->headers = headers;
	r->header_count = 0;
	for (const struct json *pair = json_children(list); pair != NULL; pair = pair->next) {
		if (r->header_count == HEADERS_MAX || pair->count != 2)
			abort();
		headers[r->header_count++] = (struct sigv4_header){json_text(json_children(pair)),
		                                                   json_text(json_children(pair)->next)};
	}
}

static void field_write(struct json_writer *w, const char *name, struct bytes text)
{
	json_name(w, bytes_of(name));
	json_string(w, text);
}

static void verdict_write(struct json_writer *w, struct arena *a, struct json *line,
                          const struct sigv4_request *r)
{
	struct sigv4_keyring  keys = {secret_find, line, NULL};
	struct sigv4_identity who = {0};
	struct err            err = {0};
	enum err_code         rc = sigv4_verify(r, &keys, a, &who, &err);

	field_write(w, "verdict", bytes_of(err_name(rc)));
	field_write(w, "text", bytes_of(err.text));
	field_write(w, "token", who.token);
}

/* The texts in between, which verifying keeps to itself. */
static void texts_write(struct json_writer *w, struct arena *a, const struct sigv4_request *r)
{
	struct sigv4_authorization auth;
	struct sigv4_names         names;
	struct sigv4_scope         scope;
	char                       hex[SHA256_HEX_CHARS];
	char                       date[DATE_BASIC_CHARS] = {0};
	int64_t                    seconds;
	struct buf                 canonical, text;
	struct err                 err;

	for (unsigned i = 0; i < r->header_count; i++) {
		struct bytes value = r->headers[i].value;

		if (bytes_equal_lower(BYTES("authorization"), r->headers[i].name) &&
		    (sigv4_authorization_read(value, &auth, &err) != ERR_NONE ||
		     sigv4_names_read(auth.signed_headers, &names, &err) != ERR_NONE ||
		     sigv4_scope_read(auth.credential, &scope, &err) != ERR_NONE))
			return;
		if (bytes_equal_lower(BYTES("x-amz-date"), r->headers[i].name) &&
		    date_read_basic(value, &seconds))
			date_write_basic(seconds, date);
		if (bytes_equal_lower(BYTES("date"), r->headers[i].name) && date_read_http(value, &seconds))
			date_write_basic(seconds, date);
	}
	buf_init(&canonical, a);
	buf_init(&text, a);
	sigv4_body_hex(r, hex);
	if (sigv4_canonical_write(&canonical, r, &names, hex, &err) != ERR_NONE)
		return;
	sigv4_string_write(&text, date, scope.text, buf_bytes(&canonical));
	field_write(w, "canonical", buf_bytes(&canonical));
	field_write(w, "string_to_sign", buf_bytes(&text));
}

static void signature_write(struct json_writer *w, struct arena *a, const struct json *line,
                            const struct sigv4_request *r)
{
	struct sigv4_credential c = {text_of(line, BYTES("key_id")), text_of(line, BYTES("secret")),
	                             text_of(line, BYTES("token")), text_of(line, BYTES("region")), NULL};
	struct sigv4_addition   added;
	struct err              err;

	if (sigv4_sign(r, &c, a, &added, &err) != ERR_NONE)
		field_write(w, "authorization", bytes_of(err.text));
	else
		field_write(w, "authorization", added.headers[added.count - 1].value);
}

static void line_answer(struct json_reader *reader, struct arena *a, struct bytes input, struct buf *out)
{
	struct sigv4_header  headers[HEADERS_MAX], sign_headers[HEADERS_MAX];
	struct sigv4_request r = {0};
	struct sigv4_request to_sign;
	struct json_writer   w;
	struct json         *line;
	struct err           err;

	if (json_read(reader, a, input, &line, &err) != ERR_NONE)
		abort();
	r.method = text_of(line, BYTES("method"));
	r.path = text_of(line, BYTES("path"));
	r.query = text_of(line, BYTES("query"));
	r.service = text_of(line, BYTES("service"));
	if (base64_decode(a, text_of(line, BYTES("body")), &r.body) != BASE64_OK)
		abort();
	r.now_us = json_integer(json_get(line, BYTES("now"))) * 1000000;
	to_sign = r;
	headers_read(json_get(line, BYTES("headers")), &r, headers);
	headers_read(json_get(line, BYTES("sign_headers")), &to_sign, sign_headers);
	json_writer_init(&w, out);
	json_begin_object(&w);
	verdict_write(&w, a, line, &r);
	texts_write(&w, a, &r);
	signature_write(&w, a, line, &to_sign);
	json_end_object(&w);
}

int main(void)
{
	struct json_reader *reader = json_reader_open();
	char               *line = NULL;
	size_t              size = 0;
	ssize_t             len;

	while ((len = getline(&line, &size, stdin)) > 0) {
		struct arena a;
		struct buf   out;

		arena_init(&a);
		buf_init(&out, &a);
		line_answer(reader, &a, (struct bytes){line, (size_t)len}, &out);
		buf_add_byte(&out, '\n');
		if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0)
			return 1;
		arena_release(&a);
	}
	free(line);
	json_reader_close(reader);
	return 0;
}
