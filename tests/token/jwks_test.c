/* Key sets: which keys are taken, which are passed over, and that a key verifies for its own algorithm only. */
#include "token/jwks.h"

#include "test.h"
#include "json/base64.h"
#include "token/support.h"

struct world {
	struct arena        a;
	struct json_reader *reader;
	struct err          err;
	struct jwks        *set;
};

static void world_open(struct world *w)
{
	*w = (struct world){.reader = json_reader_open()};
	arena_init(&w->a);
}

static void world_close(struct world *w)
{
	jwks_drop(w->set);
	json_reader_close(w->reader);
	arena_release(&w->a);
}

static enum err_code read_set(struct world *w, struct bytes text)
{
	jwks_drop(w->set);
	w->set = NULL;
	return jwks_read(w->reader, &w->a, text, &w->set, &w->err);
}

/* A set of these members of "keys". */
static enum err_code read_keys(struct world *w, struct bytes keys)
{
	return read_set(w, arena_printf(&w->a, "{\"keys\":[%.*s]}", BYTES_ARG(keys)));
}

/* ---- vectors of the RFCs ---- */

static const char rsa_key[] = "\"kty\":\"RSA\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_"
                              "wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1"
                              "Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-"
                              "bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-"
                              "KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_"
                              "I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2et"
                              "hFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\",\"e\":\"AQAB\"";
static const char ec_key[] =
        "\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
        "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"";
static const char ed_key[] =
        "\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"";

#define JOE "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"

static const struct vector {
	const char        *key;
	enum jws_algorithm algorithm;
	const char        *text, *signature;
} vectors[] = {
        {rsa_key, JWS_RS256, "eyJhbGciOiJSUzI1NiJ9." JOE, /* RFC 7515, A.2 */
         "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_"
         "O8W2Fp5jujGbds9uJdbF9CU"
         "Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_"
         "eSN9383LcOLn6_d"
         "O--xi12jzDwusC-"
         "eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0ig"
         "cN_IoypGlUPQGe77Rw"},
        {ec_key, JWS_ES256, "eyJhbGciOiJFUzI1NiJ9." JOE, /* A.3 */
         "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
        {ed_key, JWS_EDDSA, "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc", /* RFC 8037, A.4 */
         "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"},
};

static struct bytes unurl64(struct world *w, const char *text)
{
	struct bytes out;

	assert_true(base64_url_decode(&w->a, bytes_of(text), &out));
	return out;
}

TEST(jwks, verifies_the_vectors_of_the_rfcs)
{
	struct world w;

	world_open(&w);
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		struct bytes         signature = unurl64(&w, v->signature), cut = signature;

		assert_int_equal(read_keys(&w, arena_printf(&w.a, "{%s}", v->key)), ERR_NONE);
		assert_int_equal(
		        jwk_verify(jwks_find(w.set, BYTES("")), v->algorithm, bytes_of(v->text), signature),
		        TOKEN_VALID);
		((char *)signature.data)[3] ^= 1;
		assert_int_equal(
		        jwk_verify(jwks_find(w.set, BYTES("")), v->algorithm, bytes_of(v->text), signature),
		        TOKEN_SIGNATURE);
		((char *)signature.data)[3] ^= 1;
		cut.len--;
		assert_int_equal(
		        jwk_verify(jwks_find(w.set, BYTES("")), v->algorithm, bytes_of(v->text), cut),
		        TOKEN_SIGNATURE);
	}
	world_close(&w);
}

/* ---- algorithms ---- */

static bool same_family(enum jws_algorithm a, enum jws_algorithm b)
{
	return a == b || (a <= JWS_PS256 && b <= JWS_PS256);
}

TEST(jwks, a_key_verifies_its_own_algorithm_and_never_another_familys)
{
	struct world w;

	world_open(&w);
	for (unsigned i = 0; i < JWS_ALGORITHM_COUNT; i++) {
		struct signer s = signer_open((enum jws_algorithm)i, "k");
		struct bytes  text = BYTES("a.b"), signature;

		assert_true(base64_url_decode(&w.a, signer_sign(&s, &w.a, text), &signature));
		for (unsigned pinned = 0; pinned < 2; pinned++) {
			assert_int_equal(read_keys(&w, signer_jwk(&s, &w.a, pinned)), ERR_NONE);
			for (unsigned other = 0; other < JWS_ALGORITHM_COUNT; other++) {
				enum token_outcome expected = TOKEN_KEY_ALGORITHM;

				if (i == other)
					expected = TOKEN_VALID;
				else if (!pinned &&
				         same_family((enum jws_algorithm)i, (enum jws_algorithm)other))
					expected = TOKEN_SIGNATURE;
				assert_int_equal(jwk_verify(jwks_find(w.set, BYTES("k")),
				                            (enum jws_algorithm)other, text, signature),
				                 expected);
			}
			assert_int_equal(jwk_verify(jwks_find(w.set, BYTES("k")), (enum jws_algorithm)i,
			                            BYTES("a.c"), signature),
			                 TOKEN_SIGNATURE);
		}
		signer_close(&s);
	}
	world_close(&w);
}

TEST(jwks, signatures_of_zeros_and_of_der_are_refused)
{
	static const char zeros[96] = {0};
	struct world      w;

	world_open(&w);
	assert_int_equal(read_keys(&w, arena_printf(&w.a, "{%s}", ec_key)), ERR_NONE);
	for (size_t len = 0; len <= sizeof(zeros); len++)
		assert_int_equal(jwk_verify(jwks_find(w.set, BYTES("")), JWS_ES256, BYTES("x"),
		                            (struct bytes){zeros, len}),
		                 TOKEN_SIGNATURE);
	world_close(&w);
}

/* ---- which keys are taken ---- */

static void check_passed_over(struct world *w, struct bytes key, const char *why)
{
	assert_int_equal(
	        read_keys(w, arena_printf(&w->a, "%.*s,{%s,\"kid\":\"good\"}", BYTES_ARG(key), ed_key)),
	        ERR_NONE);
	assert_int_equal(jwks_count(w->set), 1);
	assert_int_equal(jwks_passed_over(w->set), 1);
	assert_non_null(jwks_find(w->set, BYTES("good")));
	if (strstr(jwks_first_reason(w->set), why) == NULL)
		fail_msg("got \"%s\", expected \"%s\"", jwks_first_reason(w->set), why);
}

TEST(jwks, keys_of_other_kinds_and_uses_are_passed_over)
{
	struct world w;

	world_open(&w);
	check_passed_over(&w, BYTES("{\"kty\":\"oct\",\"k\":\"AAAA\"}"), "type that is not used");
	check_passed_over(&w, BYTES("{\"kty\":\"AKP\"}"), "type that is not used");
	check_passed_over(&w, BYTES("{}"), "no type");
	check_passed_over(&w, BYTES("7"), "no type");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"use\":\"enc\"}", rsa_key), "not for verifying");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"key_ops\":[\"sign\"]}", rsa_key),
	                  "not for verifying");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"alg\":\"HS256\"}", rsa_key), "alg of a key");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"alg\":\"ES256\"}", rsa_key), "does not fit its type");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"alg\":\"ES384\"}", ec_key), "does not fit its type");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"d\":\"AAAA\"}", rsa_key), "private");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"e\":\"AQAB\"}", rsa_key), "twice");
	check_passed_over(&w, arena_printf(&w.a, "{%s,\"kid\":\"\"}", rsa_key), "kid");
	check_passed_over(&w, BYTES("{\"kty\":\"EC\",\"crv\":\"P-521\"}"), "curve");
	check_passed_over(&w, BYTES("{\"kty\":\"OKP\",\"crv\":\"X25519\"}"), "curve");
	world_close(&w);
}

TEST(jwks, weak_and_broken_keys_are_passed_over)
{
	struct world  w;
	char          n[JWKS_RSA_BITS_MAX / 8 + 1];
	struct bytes  number = {n, 2048 / 8};
	struct signer weak = {JWS_RS256, "weak", EVP_RSA_gen(1024)};

	world_open(&w);
	check_passed_over(&w, signer_jwk(&weak, &w.a, true), "bits");
	memset(n, 0xff, sizeof(n));
	n[0] = 0x7f; /* 2047 bits */
	check_passed_over(&w,
	                  arena_printf(&w.a, "{\"kty\":\"RSA\",\"n\":\"%.*s\",\"e\":\"AQAB\"}",
	                               BYTES_ARG(url64(&w.a, number))),
	                  "bits");
	number.len = sizeof(n); /* 8199 bits */
	check_passed_over(&w,
	                  arena_printf(&w.a, "{\"kty\":\"RSA\",\"n\":\"%.*s\",\"e\":\"AQAB\"}",
	                               BYTES_ARG(url64(&w.a, number))),
	                  "bits");
	check_passed_over(&w, arena_printf(&w.a, "{%.*sAQ\"}", (int)(strlen(rsa_key) - 5), rsa_key),
	                  "exponent");
	check_passed_over(&w, arena_printf(&w.a, "{%.*sAQAC\"}", (int)(strlen(rsa_key) - 5), rsa_key),
	                  "exponent");
	check_passed_over(&w, arena_printf(&w.a, "{%.*sAQA=\"}", (int)(strlen(rsa_key) - 5), rsa_key),
	                  "base64url");
	check_passed_over(&w,
	                  BYTES("{\"kty\":\"EC\",\"crv\":\"P-256\","
	                        "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
	                        "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a4\"}"),
	                  "not on its curve");
	check_passed_over(&w, BYTES("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}"),
	                  "length");
	check_passed_over(&w, BYTES("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}"), "length");
	signer_close(&weak);
	world_close(&w);
}

TEST(jwks, sets_that_nobody_can_use_are_refused)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	        {"", "not JSON"},
	        {"{", "not JSON"},
	        {"[]", "no array"},
	        {"{}", "no array"},
	        {"{\"keys\":{}}", "no array"},
	        {"{\"keys\":[]}", "none of 0"},
	        {"{\"keys\":[{\"kty\":\"oct\"}]}", "none of 1"},
	        {"{\"keys\":[],\"keys\":[]}", "two arrays"},
	};
	struct world w;
	struct buf   many;

	world_open(&w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(read_set(&w, bytes_of(cases[i].text)), ERR_INVALID);
		assert_non_null(strstr(w.err.text, cases[i].why));
	}
	assert_int_equal(
	        read_keys(&w, arena_printf(&w.a, "{%s,\"kid\":\"a\"},{%s,\"kid\":\"a\"}", ec_key, ed_key)),
	        ERR_NONE); /* issuers_test: each is tried */
	buf_init(&many, &w.a);
	for (int i = 0; i < JWKS_KEYS_MAX; i++)
		buf_add_bytes(&many,
		              arena_printf(&w.a, "%s{%s,\"kid\":\"%d\"}", i == 0 ? "" : ",", ed_key, i));
	assert_int_equal(read_keys(&w, buf_bytes(&many)), ERR_NONE);
	assert_int_equal(jwks_count(w.set), JWKS_KEYS_MAX);
	assert_null(jwks_find(w.set, BYTES("")));
	buf_add_bytes(&many, BYTES(",{}"));
	assert_int_equal(read_keys(&w, buf_bytes(&many)), ERR_INVALID);
	buf_reset(&many);
	while (many.len <= JWKS_BYTES_MAX)
		buf_add_byte(&many, ' ');
	assert_int_equal(read_set(&w, buf_bytes(&many)), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "bytes"));
	world_close(&w);
}
