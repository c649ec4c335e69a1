/* SigV4 case: a request that can be changed freely, with a keyring of two keys and a clock. What the tests of
 * signatures share. */
#ifndef TESTS_DYNAMO_SIGV4_CASE_H
#define TESTS_DYNAMO_SIGV4_CASE_H

#include "test.h"

#include "dynamo/sigv4.h"

enum { CASE_HEADERS_MAX = 100 };

#define CASE_KEY    "AKIDEXAMPLE"
#define CASE_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define CASE_OTHER  "AKIDOTHER" /* another key, of another owner */
#define CASE_NOW_S  1440938160  /* 20150830T123600Z */

struct sigv4_case {
	struct arena            arena;
	struct sigv4_request    request;
	struct sigv4_header     headers[CASE_HEADERS_MAX];
	struct sigv4_credential credential; /* whom case_sign signs as */
	struct bytes            secret;     /* what the keyring says of CASE_KEY; data NULL: no such key */
	struct sigv4_key_cache *cache;
	int64_t                 now_s;
	unsigned                lookups;
	struct sigv4_identity   who;
	struct err              err;
};

static inline struct bytes case_find_secret(void *ctx, struct bytes key_id)
{
	struct sigv4_case *c = ctx;

	c->lookups++;
	if (bytes_is(key_id, CASE_KEY))
		return c->secret;
	if (bytes_is(key_id, CASE_OTHER))
		return BYTES("another secret, of another owner");
	return (struct bytes){0};
}

static inline void case_header(struct sigv4_case *c, const char *name, const char *value)
{
	assert_true(c->request.header_count < CASE_HEADERS_MAX);
	c->headers[c->request.header_count++] = (struct sigv4_header){bytes_of(name), bytes_of(value)};
}

/* The request that a DynamoDB client makes, not signed yet. */
static inline void case_init(struct sigv4_case *c)
{
	memset(c, 0, sizeof(*c));
	arena_init(&c->arena);
	c->request.method = BYTES("POST");
	c->request.path = BYTES("/");
	c->request.headers = c->headers;
	c->request.service = BYTES("dynamodb");
	c->request.body = BYTES("{\"TableName\": \"users\", \"Key\": {\"pk\": {\"S\": \"user#1\"}}}");
	c->secret = BYTES(CASE_SECRET);
	c->credential =
	        (struct sigv4_credential){BYTES(CASE_KEY), BYTES(CASE_SECRET), {0}, BYTES("us-east-1"), NULL};
	c->now_s = CASE_NOW_S;
	case_header(c, "Host", "table.example");
	case_header(c, "X-Amz-Target", "DynamoDB_20120810.UpdateItem");
	case_header(c, "Content-Type", "application/x-amz-json-1.0");
	case_header(c, "User-Agent", "Boto3/1.26.27 Python/3.11.2");
}

static inline void case_release(struct sigv4_case *c)
{
	sigv4_key_cache_close(c->cache);
	arena_release(&c->arena);
}

static inline struct sigv4_header *case_find(struct sigv4_case *c, const char *name)
{
	for (unsigned i = 0; i < c->request.header_count; i++)
		if (bytes_is(c->headers[i].name, name))
			return &c->headers[i];
	fail_msg("no header %s", name);
	return NULL;
}

static inline void case_remove(struct sigv4_case *c, const char *name)
{
	struct sigv4_header *h = case_find(c, name);

	*h = c->headers[--c->request.header_count];
}

/* Signs and adds the headers. */
static inline void case_sign(struct sigv4_case *c)
{
	struct sigv4_addition added;

	c->request.now_us = c->now_s * 1000000;
	if (sigv4_sign(&c->request, &c->credential, &c->arena, &added, &c->err) != ERR_NONE)
		fail_msg("not signed: %s", c->err.text);
	for (unsigned i = 0; i < added.count; i++)
		c->headers[c->request.header_count++] = added.headers[i];
}

/* Replaces the first `old` in the Authorization header. */
static inline void case_authorization(struct sigv4_case *c, const char *old, const char *new)
{
	struct sigv4_header *h = case_find(c, "Authorization");
	const char          *at = memmem(h->value.data, h->value.len, old, strlen(old));
	size_t               before;

	if (at == NULL)
		fail_msg("no %s in %.*s", old, BYTES_ARG(h->value));
	before = (size_t)(at - h->value.data);
	h->value = arena_printf(&c->arena, "%.*s%s%.*s", (int)before, h->value.data, new,
	                        (int)(h->value.len - before - strlen(old)), at + strlen(old));
}

static inline enum err_code case_verify(struct sigv4_case *c)
{
	struct sigv4_keyring keys = {case_find_secret, c, c->cache};

	memset(&c->err, 0, sizeof(c->err));
	c->request.now_us = c->now_s * 1000000 + 999999;
	return sigv4_verify(&c->request, &keys, &c->arena, &c->who, &c->err);
}

static inline void assert_accepted(struct sigv4_case *c)
{
	if (case_verify(c) != ERR_NONE)
		fail_msg("%s: %s", err_name(c->err.code), c->err.text);
}

static inline void assert_refused(struct sigv4_case *c, enum err_code code, const char *text)
{
	enum err_code rc = case_verify(c);

	if (rc != code || strcmp(c->err.text, text) != 0)
		fail_msg("\n  got  %s: %s\n  want %s: %s", err_name(rc), c->err.text, err_name(code), text);
	assert_int_equal(err_status(rc), 400);
}

/* Runs the body on a signed request. */
#define SIGNED_TEST(suite, behaviour)                                                                        \
	static void suite##_##behaviour##_on(struct sigv4_case *c);                                          \
	TEST(suite, behaviour)                                                                               \
	{                                                                                                    \
		struct sigv4_case c;                                                                         \
                                                                                                             \
		case_init(&c);                                                                               \
		case_sign(&c);                                                                               \
		suite##_##behaviour##_on(&c);                                                                \
		case_release(&c);                                                                            \
	}                                                                                                    \
	static void suite##_##behaviour##_on(struct sigv4_case *c)

#endif
