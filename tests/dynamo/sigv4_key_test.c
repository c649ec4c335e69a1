/* SigV4 keys and bounds: whose key passes, what the cache may keep, every limit and one past it, and the
 * canonical form where botocore does not tell. */
#define _GNU_SOURCE /* memmem */
#include "sigv4_case.h"

#include "dynamo/sigv4_parts.h"
#include "item/messages.h"

/* ---- keys ---- */

SIGNED_TEST(key, an_unknown_one_is_refused_even_with_a_right_signature)
{
	c->secret = (struct bytes){0};
	assert_refused(c, ERR_UNKNOWN_KEY, "The security token included in the request is invalid.");
	assert_string_equal(err_name(c->err.code), "UnrecognizedClientException");
}

TEST(key, the_secret_that_stands_in_for_unknown_ones_opens_nothing)
{
	struct sigv4_case c;

	case_init(&c);
	c.cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	c.credential.key_id = BYTES("AKIDNOBODY");
	c.credential.secret = BYTES("no key has this forty-character secret..");
	case_sign(&c);
	assert_refused(&c, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
	assert_refused(&c, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
	case_release(&c);
}

SIGNED_TEST(key, another_owners_key_does_not_fit)
{
	case_authorization(c, CASE_KEY, CASE_OTHER);
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
}

SIGNED_TEST(key, a_signature_of_another_form_is_refused)
{
	struct sigv4_header *h = case_find(c, "Authorization");
	struct bytes         right = h->value;

	h->value.len--;
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	h->value = arena_printf(&c->arena, "%.*s0", BYTES_ARG(right));
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
}

/* ---- the cache ---- */

static bool kept(struct sigv4_case *c, struct bytes credential, struct bytes secret)
{
	struct sigv4_scope scope;

	assert_int_equal(sigv4_scope_read(credential, &scope, &c->err), ERR_NONE);
	return sigv4_key_find(c->cache, &scope, secret) != NULL;
}

SIGNED_TEST(cache, keeps_a_key_after_the_first_right_signature_only)
{
	struct bytes credential = BYTES(CASE_KEY "/20150830/us-east-1/dynamodb/aws4_request");

	c->cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	case_authorization(c, "Signature=", "Signature=0");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	assert_false(kept(c, credential, c->secret));
	case_authorization(c, "Signature=0", "Signature=");
	assert_accepted(c);
	assert_true(kept(c, credential, c->secret));
	assert_false(kept(c, credential, BYTES("another")));
	assert_accepted(c);
	case_authorization(c, "Signature=", "Signature=0");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
}

SIGNED_TEST(cache, does_not_outlive_a_revoked_or_changed_secret)
{
	c->cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	assert_accepted(c);
	c->secret = BYTES("changed");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	c->secret = (struct bytes){0};
	assert_refused(c, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
	c->secret = BYTES(CASE_SECRET);
	assert_accepted(c);
}

TEST(cache, more_keys_than_it_holds_push_out_the_oldest_and_all_keep_passing)
{
	enum { MANY = 4 * SIGV4_CACHE_WAYS * SIGV4_CACHE_SETS };
	struct sigv4_case       c;
	struct sigv4_key_cache *cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	unsigned                held = 0;

	for (unsigned i = 0; i < MANY; i++) {
		char region[20];

		case_init(&c);
		snprintf(region, sizeof(region), "region-%u", i);
		c.credential.region = bytes_of(region);
		case_sign(&c);
		c.cache = cache;
		assert_accepted(&c);
		assert_accepted(&c);
		c.cache = NULL;
		case_release(&c);
	}
	case_init(&c);
	c.cache = cache;
	for (unsigned i = 0; i < MANY; i++)
		held += kept(&c,
		             arena_printf(&c.arena, CASE_KEY "/20150830/region-%u/dynamodb/aws4_request", i),
		             c.secret);
	assert_in_range(held, SIGV4_CACHE_WAYS * SIGV4_CACHE_SETS / 2, SIGV4_CACHE_WAYS * SIGV4_CACHE_SETS);
	assert_true(kept(
	        &c, arena_printf(&c.arena, CASE_KEY "/20150830/region-%u/dynamodb/aws4_request", MANY - 1),
	        c.secret));
	case_release(&c);
}

/* ---- limits ---- */

static void names_add(struct sigv4_case *c, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		case_header(c, arena_printf(&c->arena, "n%u", i).data, "v");
}

TEST(limits, signed_headers)
{
	struct sigv4_case     c;
	struct sigv4_addition added;

	case_init(&c);
	names_add(&c, SIGV4_SIGNED_MAX - 4); /* beside three that are signed, and the date */
	case_sign(&c);
	assert_accepted(&c);
	case_authorization(&c, "x-amz-target,", "x-amz-target;z,");
	case_header(&c, "Z", "1");
	assert_int_equal(case_verify(&c), ERR_SIGNATURE);
	assert_non_null(strstr(c.err.text, "SignedHeaders must be"));
	case_release(&c);
	case_init(&c);
	names_add(&c, SIGV4_SIGNED_MAX - 3);
	assert_int_equal(sigv4_sign(&c.request, &c.credential, &c.arena, &added, &c.err), ERR_SIGNATURE);
	case_release(&c);
}

SIGNED_TEST(limits, authorization)
{
	struct sigv4_header *h = case_find(c, "Authorization");
	int                  room = SIGV4_AUTHORIZATION_MAX - (int)h->value.len;

	/* The trailing blanks are trimmed before it is measured, leading ones within are not. */
	h->value = arena_printf(&c->arena, "AWS4-HMAC-SHA256%*s%s", room, "",
	                        arena_printf(&c->arena, "%.*s", BYTES_ARG(h->value)).data + 16);
	assert_int_equal(h->value.len, SIGV4_AUTHORIZATION_MAX);
	assert_accepted(c);
	case_authorization(c, "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 ");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE,
	               "Authorization header must not be longer than 4096 bytes");
}

TEST(limits, key_id_secret_and_scope)
{
	/* beside the region: "20150830/" and "/dynamodb/aws4_request" */
	enum { REGION_MAX = SIGV4_SCOPE_MAX - 9 - 22 };
	char                  text[SIGV4_SCOPE_MAX + SIGV4_KEY_ID_MAX];
	struct sigv4_case     c;
	struct sigv4_addition added;

	memset(text, 'a', sizeof(text));
	case_init(&c);
	c.cache = sigv4_key_cache_open(HASH_KEY_STABLE);
	c.credential.region = (struct bytes){text, REGION_MAX};
	c.credential.secret = c.secret = (struct bytes){text, SIGV4_SECRET_MAX};
	case_sign(&c);
	assert_accepted(&c);
	assert_accepted(&c);
	case_authorization(&c, "/aaa", "/aaaa");
	assert_refused(&c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_CREDENTIAL);
	c.credential.secret.len++;
	assert_int_equal(sigv4_sign(&c.request, &c.credential, &c.arena, &added, &c.err),
	                 ERR_SIGNATURE_INCOMPLETE);
	case_release(&c);
	case_init(&c);
	c.credential.key_id = (struct bytes){text, SIGV4_KEY_ID_MAX};
	case_sign(&c);
	assert_refused(&c, ERR_UNKNOWN_KEY, MSG_SIGN_KEY);
	case_authorization(&c, "=aaa", "=aaaa");
	assert_refused(&c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_CREDENTIAL);
	case_release(&c);
}

TEST(limits, query_parameters)
{
	struct sigv4_case c;
	char              query[2 * (SIGV4_QUERY_MAX + 1)];

	for (unsigned i = 0; i <= SIGV4_QUERY_MAX; i++)
		memcpy(query + 2 * i, "a&", 2);
	case_init(&c);
	c.request.query = (struct bytes){query, 2 * SIGV4_QUERY_MAX - 1};
	case_sign(&c);
	assert_accepted(&c);
	c.request.query.len += 1;
	assert_refused(&c, ERR_SIGNATURE_INCOMPLETE,
	               "A signed request must not have more than 128 query parameters");
	case_release(&c);
}

/* ---- the canonical form, where botocore does not tell ---- */

static void assert_canonical(const char *path, const char *query, const char *value, const char *expected)
{
	struct sigv4_case  c;
	struct sigv4_names names;
	struct buf         out;
	char               hex[SHA256_HEX_CHARS];

	case_init(&c);
	c.request.path = bytes_of(path);
	c.request.query = bytes_of(query);
	case_find(&c, "Host")->value = bytes_of(value);
	assert_int_equal(sigv4_names_read(BYTES("host"), &names, &c.err), ERR_NONE);
	memset(hex, '0', sizeof(hex));
	buf_init(&out, &c.arena);
	assert_int_equal(sigv4_canonical_write(&out, &c.request, &names, hex, &c.err), ERR_NONE);
	out.len -= sizeof(hex);
	assert_bytes(buf_bytes(&out), expected);
	case_release(&c);
}

TEST(canonical, a_line_break_in_a_value_separates_two_values)
{
	assert_canonical("/", "", "a\r\n  b \n c", "POST\n/\n\nhost:a,b,c\n\nhost\n");
	assert_canonical("/", "", "\na\n", "POST\n/\n\nhost:a\n\nhost\n");
	assert_canonical("/", "", " \n ", "POST\n/\n\nhost:\n\nhost\n");
}

TEST(canonical, a_query_is_decoded_and_encoded_in_one_way_but_plus_stays)
{
	assert_canonical("/", "b=%7e%2f%2F/&a=x=y&a=%", "h",
	                 "POST\n/\na=%25&a=x%3Dy&b=~%2F%2F%2F\nhost:h\n\nhost\n");
	assert_canonical("/", "a=1+2&a=1%2B2&a=1%202", "h",
	                 "POST\n/\na=1%202&a=1%2B2&a=1+2\nhost:h\n\nhost\n");
	assert_canonical("/", "\xe1\x88\xb4=bar&&a", "h", "POST\n/\n=&%E1%88%B4=bar&a=\nhost:h\n\nhost\n");
}

TEST(canonical, a_path_is_normalised_and_encoded_once_more)
{
	assert_canonical("", "", "h", "POST\n/\n\nhost:h\n\nhost\n");
	assert_canonical("//a/./b/../c//", "", "h", "POST\n/a/c/\n\nhost:h\n\nhost\n");
	assert_canonical("/../../", "", "h", "POST\n/\n\nhost:h\n\nhost\n");
	assert_canonical("/a%20b/\n", "", "h", "POST\n/a%2520b/%0A\n\nhost:h\n\nhost\n");
}

SIGNED_TEST(canonical, a_method_is_letters_only)
{
	c->request.method = BYTES("POST\n");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	c->request.method = BYTES("");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	c->request.method = BYTES("ABCDEFGHIJKLMNOPQ");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
}

/* ---- what is never said ---- */

/* A secret in a place that error texts repeat: 32 bytes are shown, the 33rd is not. */
SIGNED_TEST(refuse, a_misplaced_secret_is_cut)
{
	_Static_assert(sizeof(CASE_SECRET) - 1 > SIGV4_SHOWN_MAX, "as long as real ones");
	case_find(c, "X-Amz-Date")->value = BYTES("12345678901234567890123456789012");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE,
	               "Date must be in ISO-8601 'basic format'. Got '12345678901234567890123456789012'.");
	case_find(c, "X-Amz-Date")->value = BYTES("123456789012345678901234567890123");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE,
	               "Date must be in ISO-8601 'basic format'. Got '12345678901234567890123456789012'.");
	case_find(c, "X-Amz-Date")->value = BYTES("20150830T123600Z");
	case_authorization(c, "AWS4-HMAC-SHA256", "AWS4-" CASE_SECRET);
	assert_int_equal(case_verify(c), ERR_SIGNATURE_INCOMPLETE);
	assert_null(strstr(c->err.text, CASE_SECRET));
	case_authorization(c, "AWS4-" CASE_SECRET, "AWS4-HMAC-SHA256");
	case_header(c, "X-Amz-" CASE_SECRET, "1");
	assert_int_equal(case_verify(c), ERR_SIGNATURE);
	assert_null(strstr(c->err.text, CASE_SECRET));
}

SIGNED_TEST(refuse, no_text_repeats_a_secret_or_the_signature)
{
	struct bytes value = case_find(c, "Authorization")->value;
	struct bytes signature = {value.data + value.len - SHA256_HEX_CHARS, SHA256_HEX_CHARS};

	for (size_t i = 0; i < value.len - SHA256_HEX_CHARS; i++) {
		struct bytes changed = arena_copy(&c->arena, value);

		((char *)(uintptr_t)changed.data)[i] ^= 1;
		case_find(c, "Authorization")->value = changed;
		if (case_verify(c) == ERR_NONE)
			continue; /* a separator */
		assert_false(bytes_contains(bytes_of(c->err.text), signature));
		assert_false(bytes_contains(bytes_of(c->err.text), BYTES(CASE_SECRET)));
	}
}
