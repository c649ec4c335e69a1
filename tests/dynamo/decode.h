/* Decode: requests as text, for the tests of dynamo/. */
#ifndef TESTS_DYNAMO_DECODE_H
#define TESTS_DYNAMO_DECODE_H

#include "test.h"

#include "dynamo/request.h"
#include "json/write.h"

struct decoded {
	struct arena          arena;
	struct json_reader   *reader;
	struct dynamo_request request;
	struct err            err;
	enum err_code         rc;
};

static inline void decoded_release(struct decoded *d)
{
	json_reader_close(d->reader);
	arena_release(&d->arena);
}

/* Single quotes stand for double ones, so that bodies can be read; ~ stands for a single quote. */
static inline struct bytes quoted(struct arena *a, const char *text)
{
	struct bytes copy = arena_copy(a, bytes_of(text));
	char        *at = (char *)copy.data;

	for (size_t i = 0; i < copy.len; i++)
		at[i] = (char)(at[i] == '\'' ? '"' : at[i] == '~' ? '\'' : at[i]);
	return copy;
}

static inline void decode_bytes(struct decoded *d, __typeof__(request_get) *decode, struct bytes text)
{
	struct json *json;

	d->err.text[0] = '\0';
	d->rc = json_read(d->reader, &d->arena, text, &json, &d->err);
	if (d->rc == ERR_NONE)
		d->rc = decode(&d->arena, json, &d->request, &d->err);
}

static inline void decoded_init(struct decoded *d)
{
	memset(d, 0, sizeof(*d));
	arena_init(&d->arena);
	d->reader = json_reader_open();
}

static inline void decode_ok(struct decoded *d, __typeof__(request_get) *decode, const char *text)
{
	decoded_init(d);
	decode_bytes(d, decode, quoted(&d->arena, text));
	if (d->rc != ERR_NONE)
		fail_msg("%s: %s", text, d->err.text);
}

static inline void decode_accepts(__typeof__(request_get) *decode, const char *text)
{
	struct decoded d;

	decode_ok(&d, decode, text);
	decoded_release(&d);
}

/* The whole text must match; ~ in it stands for a single quote, as in the request. */
static inline void decode_fails(__typeof__(request_get) *decode, const char *text, enum err_code code,
                                const char *message)
{
	struct decoded d;
	struct bytes   expected;

	decoded_init(&d);
	decode_bytes(&d, decode, quoted(&d.arena, text));
	expected = quoted(&d.arena, message);
	if (d.rc != code || !bytes_equal(bytes_of(d.err.text), expected))
		fail_msg("%s:\n  got  %s: %s\n  want %s: %.*s", text, err_name(d.rc), d.err.text,
		         err_name(code), BYTES_ARG(expected));
	decoded_release(&d);
}

static inline void decode_invalid(__typeof__(request_get) *decode, const char *text, const char *message)
{
	decode_fails(decode, text, ERR_INVALID, message);
}

/* As PutItem, UpdateItem, DeleteItem and Query say it. */
static inline void decode_detected(__typeof__(request_get) *decode, const char *text, const char *message)
{
	char whole[2048];

	snprintf(whole, sizeof(whole), "1 validation error detected: %s", message);
	decode_fails(decode, text, ERR_INVALID, whole);
}

static inline void decode_unreadable(__typeof__(request_get) *decode, const char *text, const char *message)
{
	decode_fails(decode, text, ERR_SERIALIZATION, message);
}

#endif
