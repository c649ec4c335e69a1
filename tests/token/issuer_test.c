/* Whole tokens against issuers: rules of header and claims, and the life of key sets, with a clock and a fetch of our own. */
#include "token/issuer.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "test.h"
#include "token/support.h"

#define ISSUER "https://issuer.example/pool"

static const int64_t now_s = 1800000000;

/* What the issuer publishes, by path; NULL: it does not answer. */
struct site {
	const char *discovery, *keys, *other;
	int64_t     date_s; /* of its answers; 0: they have none */
	atomic_int  gets;
	/* a fetch waits at the gate while it is shut */
	pthread_mutex_t lock;
	pthread_cond_t  moved;
	bool            shut;
};

struct world {
	struct arena        a;
	struct json_reader *reader;
	struct clock_manual clock;
	struct site         site;
	struct issuers     *all;
	struct signer       rsa;
	struct jwt          out;
	int64_t             retry_s;
	struct err          err;
};

static enum err_code site_get(void *ctx, const struct token_route *route, struct bytes url, struct arena *a,
                              struct token_fetched *out, struct err *err)
{
	struct site *s = ctx;
	const char  *text = s->other;

	(void)route;
	pthread_mutex_lock(&s->lock);
	while (s->shut)
		pthread_cond_wait(&s->moved, &s->lock);
	pthread_mutex_unlock(&s->lock);
	atomic_fetch_add(&s->gets, 1);
	if (bytes_is(url, ISSUER "/.well-known/openid-configuration"))
		text = s->discovery;
	else if (bytes_is(url, ISSUER "/keys"))
		text = s->keys;
	if (text == NULL)
		return err_set(err, ERR_OVERLOADED, "nobody there");
	*out = (struct token_fetched){arena_copy(a, bytes_of(text)), s->date_s};
	return ERR_NONE;
}

static const struct bytes our_audience[] = {BYTES_INIT("app"), BYTES_INIT("other-app")};

static struct jwt_rules rules_for_app(void)
{
	struct jwt_rules r = jwt_rules_default();

	r.audiences = our_audience;
	r.audience_count = 2;
	return r;
}

static struct bytes set_of(struct world *w, const struct signer *s)
{
	return arena_printf(&w->a, "{\"keys\":[%.*s]}", BYTES_ARG(signer_jwk(s, &w->a, true)));
}

static void world_open(struct world *w)
{
	*w = (struct world){.reader = json_reader_open(), .rsa = signer_open(JWS_RS256, "r1")};
	log_set_level(LOG_ERROR);
	arena_init(&w->a);
	clock_manual_init(&w->clock, now_s * 1000000);
	pthread_mutex_init(&w->site.lock, NULL);
	pthread_cond_init(&w->site.moved, NULL);
	w->all = issuers_open((struct token_fetch){site_get, &w->site}, &w->clock.base);
}

static void world_close(struct world *w)
{
	issuers_drop(w->all);
	signer_close(&w->rsa);
	json_reader_close(w->reader);
	arena_release(&w->a);
}

static void add(struct world *w, struct issuer_options o)
{
	if (issuers_add(w->all, &o, &w->err) != ERR_NONE)
		fail_msg("%s", w->err.text);
}

/* An issuer whose keys are given. */
static void add_fixed(struct world *w, struct jwt_rules rules)
{
	add(w, (struct issuer_options){.issuer = BYTES(ISSUER), .jwks = set_of(w, &w->rsa), .rules = rules});
}

static enum token_outcome verify(struct world *w, struct bytes token)
{
	struct token_call c = {w->reader, &w->a, clock_wall_us(&w->clock.base)};

	return issuers_verify(w->all, &c, token, &w->out, &w->retry_s);
}

/* The same, and once more after the worker had its round. */
static enum token_outcome verify_fetching(struct world *w, struct bytes token)
{
	enum token_outcome outcome = verify(w, token);

	if (w->retry_s == 0)
		return outcome;
	issuers_round(w->all, w->reader, NULL);
	return verify(w, token);
}

static void expect(enum token_outcome got, enum token_outcome expected, const char *what)
{
	if (got != expected)
		fail_msg("%s: got %s, expected %s", what, token_outcome_name(got),
		         token_outcome_name(expected));
}

#define CLAIMS_REST "\"iss\":\"" ISSUER "\",\"sub\":\"u1\",\"exp\":1800000600,\"iat\":1799999990"
#define CLAIMS      "{" CLAIMS_REST ",\"aud\":\"app\"}"

static struct bytes token_of(struct world *w, const char *claims)
{
	return signer_token(&w->rsa, &w->a, signer_header(&w->rsa, &w->a), bytes_of(claims));
}

static struct bytes token_headed(struct world *w, const char *header)
{
	return signer_token(&w->rsa, &w->a, bytes_of(header), BYTES(CLAIMS));
}

/* ---- one token ---- */

TEST(token, a_good_one_of_each_algorithm_is_valid)
{
	struct world     w;
	struct jwt_rules rules = rules_for_app();

	world_open(&w);
	rules.algorithms = (1u << JWS_ALGORITHM_COUNT) - 1;
	for (unsigned i = 0; i < JWS_ALGORITHM_COUNT; i++) {
		struct signer   s = signer_open((enum jws_algorithm)i, "k");
		struct issuers *all = issuers_open((struct token_fetch){0}, &w.clock.base);
		struct issuers *kept = w.all;

		w.all = all;
		add(&w,
		    (struct issuer_options){.issuer = BYTES(ISSUER), .jwks = set_of(&w, &s), .rules = rules});
		expect(verify(&w, signer_token(&s, &w.a, signer_header(&s, &w.a), BYTES(CLAIMS))),
		       TOKEN_VALID, signer_names[i]);
		w.all = kept;
		issuers_drop(all);
		signer_close(&s);
	}
	world_close(&w);
}

TEST(token, a_valid_one_says_who_and_until_when)
{
	struct world w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	expect(verify(&w, token_of(&w, "{" CLAIMS_REST
	                               ",\"aud\":[\"x\",\"other-app\"],\"jti\":\"j1\",\"client_id\":\"c1\","
	                               "\"nbf\":1799999990.5}")),
	       TOKEN_VALID, "claims");
	assert_bytes(w.out.subject, "u1");
	assert_bytes(w.out.id, "j1");
	assert_bytes(w.out.client, "c1");
	assert_bytes(w.out.issuer, ISSUER);
	assert_int_equal(w.out.expires_us, 1800000600000000);
	assert_int_equal(w.out.issued_us, 1799999990000000);
	assert_int_equal(w.out.not_before_us, 1799999990500000);
	world_close(&w);
}

TEST(token, its_client_is_client_id_or_else_azp)
{
	struct world w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	expect(verify(&w, token_of(&w, "{" CLAIMS_REST ",\"aud\":\"app\",\"azp\":\"web\"}")), TOKEN_VALID,
	       "azp");
	assert_bytes(w.out.client, "web");
	expect(verify(&w,
	              token_of(&w, "{" CLAIMS_REST ",\"aud\":\"app\",\"client_id\":\"c1\",\"azp\":\"web\"}")),
	       TOKEN_VALID, "both");
	assert_bytes(w.out.client, "c1");
	expect(verify(&w, token_of(&w, "{" CLAIMS_REST ",\"aud\":\"app\",\"azp\":7}")), TOKEN_CLAIM,
	       "no text");
	expect(verify(&w, token_of(&w, "{" CLAIMS_REST ",\"aud\":\"x\",\"azp\":\"app\"}")), TOKEN_AUDIENCE,
	       "the client is no audience");
	world_close(&w);
}

TEST(token, every_change_of_one_bit_is_refused)
{
	struct world w;
	struct bytes token;
	char        *text;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	token = token_of(&w, CLAIMS);
	text = (char *)token.data;
	for (size_t i = 0; i < token.len; i++) {
		for (unsigned bit = 0; bit < 8; bit += 3) {
			text[i] ^= (char)(1u << bit);
			if (verify(&w, token) == TOKEN_VALID)
				fail_msg("byte %zu, bit %u", i, bit);
			text[i] ^= (char)(1u << bit);
		}
	}
	for (size_t len = 0; len < token.len; len++)
		assert_int_not_equal(verify(&w, (struct bytes){token.data, len}), TOKEN_VALID);
	expect(verify(&w, token), TOKEN_VALID, "as it was");
	world_close(&w);
}

TEST(token, headers_that_rfc_8725_warns_of_are_refused)
{
	static const struct {
		const char        *header;
		enum token_outcome expected;
	} cases[] = {
	        {"{\"alg\":\"none\",\"kid\":\"r1\"}", TOKEN_ALGORITHM},
	        {"{\"alg\":\"None\",\"kid\":\"r1\"}", TOKEN_ALGORITHM},
	        {"{\"alg\":\"HS256\",\"kid\":\"r1\"}", TOKEN_ALGORITHM},
	        {"{\"alg\":\"rs256\",\"kid\":\"r1\"}", TOKEN_ALGORITHM},
	        {"{\"alg\":\"RS256\\u0000\",\"kid\":\"r1\"}", TOKEN_ALGORITHM},
	        {"{\"alg\":\"RS384\",\"kid\":\"r1\"}", TOKEN_ALGORITHM},
	        {"{\"alg\":\"PS256\",\"kid\":\"r1\"}", TOKEN_ALGORITHM},
	        {"{\"kid\":\"r1\"}", TOKEN_HEADER},
	        {"{\"alg\":7,\"kid\":\"r1\"}", TOKEN_HEADER},
	        {"{\"alg\":[\"RS256\"],\"kid\":\"r1\"}", TOKEN_HEADER},
	        {"{\"alg\":\"RS256\",\"kid\":7}", TOKEN_HEADER},
	        {"{\"alg\":\"RS256\",\"kid\":\"\"}", TOKEN_HEADER},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"jku\":\"https://evil.example/\"}", TOKEN_EMBEDDED_KEY},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"x5u\":\"https://evil.example/\"}", TOKEN_EMBEDDED_KEY},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"jwk\":{\"kty\":\"RSA\"}}", TOKEN_EMBEDDED_KEY},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"x5c\":[\"MII\"]}", TOKEN_EMBEDDED_KEY},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"x5t\":\"abc\"}", TOKEN_VALID},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"crit\":[\"exp\"]}", TOKEN_CRITICAL},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"crit\":[]}", TOKEN_CRITICAL},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"b64\":false,\"crit\":[\"b64\"]}", TOKEN_CRITICAL},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"b64\":false}", TOKEN_CRITICAL},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"zip\":\"DEF\"}", TOKEN_CRITICAL},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"logout+jwt\"}", TOKEN_TYPE},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"dpop+jwt\"}", TOKEN_TYPE},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"JOSE\"}", TOKEN_TYPE},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"\"}", TOKEN_TYPE},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":1}", TOKEN_TYPE},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"jwt\"}", TOKEN_VALID},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"typ\":\"Application/AT+JWT\"}", TOKEN_VALID},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\"}", TOKEN_VALID},
	        {"{\"alg\":\"RS256\"}", TOKEN_VALID}, /* the set has one key */
	        {"{\"alg\":\"RS256\",\"kid\":\"r2\"}", TOKEN_KEY},
	        {"{\"alg\":\"RS256\",\"kid\":\"../../dev/null\"}", TOKEN_KEY},
	        {"{\"alg\":\"RS256\",\"alg\":\"RS256\",\"kid\":\"r1\"}", TOKEN_DUPLICATE},
	        {"{\"alg\":\"none\",\"\\u0061lg\":\"RS256\",\"kid\":\"r1\"}", TOKEN_DUPLICATE},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\",\"x\":[{\"a\":1,\"a\":2}]}", TOKEN_DUPLICATE},
	        {"[]", TOKEN_JSON},
	        {"null", TOKEN_JSON},
	        {" {\"alg\":\"RS256\",\"kid\":\"r1\"}", TOKEN_JSON},
	        {"\xef\xbb\xbf{\"alg\":\"RS256\",\"kid\":\"r1\"}", TOKEN_JSON},
	        {"{\"alg\":\"RS256\",\"kid\":\"r1\"}{}", TOKEN_JSON},
	        {"{\"alg\":\"RS256\",\"kid\":\"\xff\"}", TOKEN_JSON},
	        {"{'alg':'RS256'}", TOKEN_JSON},
	};
	struct world w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect(verify(&w, token_headed(&w, cases[i].header)), cases[i].expected, cases[i].header);
	world_close(&w);
}

TEST(token, an_hmac_with_the_public_key_as_secret_is_refused_even_if_all_algorithms_are_allowed)
{
	struct world     w;
	struct jwt_rules rules = rules_for_app();
	struct bytes     text, secret;
	uint8_t          mac[32];
	size_t           len;

	world_open(&w);
	rules.algorithms = (1u << JWS_ALGORITHM_COUNT) - 1;
	add_fixed(&w, rules);
	text = arena_printf(&w.a, "%.*s.%.*s",
	                    BYTES_ARG(url64(&w.a, BYTES("{\"alg\":\"HS256\",\"kid\":\"r1\"}"))),
	                    BYTES_ARG(url64(&w.a, BYTES(CLAIMS))));
	secret = signer_public(&w.rsa, &w.a);
	assert_non_null(EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, secret.data, secret.len,
	                          (const uint8_t *)text.data, text.len, mac, sizeof(mac), &len));
	expect(verify(&w, arena_printf(&w.a, "%.*s.%.*s", BYTES_ARG(text),
	                               BYTES_ARG(url64(&w.a, (struct bytes){(const char *)mac, len})))),
	       TOKEN_ALGORITHM, "HS256");
	/* Allowed by the issuer, but the key says RS256. */
	expect(verify(&w, token_headed(&w, "{\"alg\":\"PS256\",\"kid\":\"r1\"}")), TOKEN_KEY_ALGORITHM,
	       "PS256");
	expect(verify(&w, token_headed(&w, "{\"alg\":\"ES256\",\"kid\":\"r1\"}")), TOKEN_KEY_ALGORITHM,
	       "ES256");
	expect(verify(&w, token_headed(&w, "{\"alg\":\"EdDSA\",\"kid\":\"r1\"}")), TOKEN_KEY_ALGORITHM,
	       "EdDSA");
	world_close(&w);
}

TEST(token, claims_are_required_and_typed)
{
	static const struct {
		const char        *claims;
		enum token_outcome expected;
	} cases[] = {
	        {CLAIMS, TOKEN_VALID},
	        {"{" CLAIMS_REST ",\"aud\":[\"a\",\"app\"]}", TOKEN_VALID},
	        {"{" CLAIMS_REST "}", TOKEN_AUDIENCE},
	        {"{" CLAIMS_REST ",\"aud\":\"App\"}", TOKEN_AUDIENCE},
	        {"{" CLAIMS_REST ",\"aud\":[]}", TOKEN_AUDIENCE},
	        {"{" CLAIMS_REST ",\"aud\":[\"app\",7]}", TOKEN_CLAIM},
	        {"{" CLAIMS_REST ",\"aud\":{\"app\":1}}", TOKEN_CLAIM},
	        {"{" CLAIMS_REST ",\"aud\":[[\"app\"]]}", TOKEN_CLAIM},
	        {"{" CLAIMS_REST ",\"aud\":\"app\",\"aud\":\"x\"}", TOKEN_DUPLICATE},
	        {"{" CLAIMS_REST ",\"aud\":\"app\",\"jti\":7}", TOKEN_CLAIM},
	        {"{" CLAIMS_REST ",\"aud\":\"app\",\"scope\":[]}", TOKEN_CLAIM},
	        {"{" CLAIMS_REST ",\"aud\":\"app\",\"nbf\":\"1\"}", TOKEN_CLAIM},
	        {"{" CLAIMS_REST ",\"aud\":\"app\",\"nbf\":null}", TOKEN_CLAIM},
	        {"{" CLAIMS_REST ",\"aud\":\"app\",\"nbf\":1800000060}", TOKEN_VALID},
	        {"{" CLAIMS_REST ",\"aud\":\"app\",\"nbf\":1800000060.1}", TOKEN_NOT_YET},
	        {"{\"iss\":\"" ISSUER "\",\"aud\":\"app\",\"exp\":1800000600,\"iat\":1799999990}",
	         TOKEN_CLAIM},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"\",\"exp\":1800000600,\"iat\":1799999990}",
	         TOKEN_CLAIM},
	        {"{\"iss\":\"" ISSUER "\",\"aud\":\"app\",\"sub\":\"u\",\"iat\":1799999990}", TOKEN_CLAIM},
	        {"{\"iss\":\"" ISSUER "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600}", TOKEN_CLAIM},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":\"1800000600\",\"iat\":1799999990}",
	         TOKEN_CLAIM},
	        {"{\"iss\":\"" ISSUER "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1e300,\"iat\":1799999990}",
	         TOKEN_CLAIM},
	        {"{\"iss\":\"" ISSUER "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600,\"iat\":-1}",
	         TOKEN_CLAIM},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1799999940,\"iat\":1799999000}",
	         TOKEN_EXPIRED},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1799999941,\"iat\":1799999000}",
	         TOKEN_VALID},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600,\"iat\":1800000060}",
	         TOKEN_VALID},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600,\"iat\":1800000061}",
	         TOKEN_FUTURE},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600,\"iat\":1799913540}",
	         TOKEN_VALID},
	        {"{\"iss\":\"" ISSUER
	         "\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600,\"iat\":1799913539}",
	         TOKEN_TOO_OLD},
	        {"{\"iss\":\"" ISSUER
	         "/\",\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600,\"iat\":1799999990}",
	         TOKEN_ISSUER},
	        {"{\"iss\":7,\"aud\":\"app\",\"sub\":\"u\",\"exp\":1800000600,\"iat\":1799999990}",
	         TOKEN_ISSUER},
	        {"{}", TOKEN_ISSUER},
	        {"\"text\"", TOKEN_JSON},
	};
	struct world w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect(verify(&w, token_of(&w, cases[i].claims)), cases[i].expected, cases[i].claims);
	world_close(&w);
}

TEST(token, each_bound_holds_and_one_past_it_does_not)
{
	struct world w;
	struct buf   claims;
	struct bytes text;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	buf_init(&claims, &w.a);
	buf_add_bytes(&claims, BYTES("{" CLAIMS_REST ",\"aud\":\"app\""));
	for (int i = 5; i < TOKEN_MEMBERS_MAX; i++)
		buf_add_bytes(&claims, arena_printf(&w.a, ",\"m%d\":0", i));
	text = arena_printf(&w.a, "%.*s}", BYTES_ARG(buf_bytes(&claims)));
	expect(verify(&w, token_of(&w, text.data)), TOKEN_VALID, "members");
	text = arena_printf(&w.a, "%.*s,\"one\":1}", BYTES_ARG(buf_bytes(&claims)));
	expect(verify(&w, token_of(&w, text.data)), TOKEN_TOO_LARGE, "one member more");
	text = arena_printf(&w.a, "{" CLAIMS_REST ",\"aud\":\"app\",\"pad\":\"%0*d\"}", TOKEN_BYTES_MAX, 0);
	expect(verify(&w, token_of(&w, text.data)), TOKEN_TOO_LARGE, "a long token");
	text = arena_printf(&w.a, "{\"alg\":\"RS256\",\"kid\":\"r1\",\"pad\":\"%0*d\"}",
	                    TOKEN_HEADER_CHARS_MAX, 0);
	expect(verify(&w, token_headed(&w, text.data)), TOKEN_TOO_LARGE, "a long header");
	text = arena_printf(&w.a, "{\"alg\":\"RS256\",\"kid\":\"%0*d\"}", TOKEN_KID_BYTES_MAX, 0);
	expect(verify(&w, token_headed(&w, text.data)), TOKEN_KEY, "the longest kid");
	text = arena_printf(&w.a, "{\"alg\":\"RS256\",\"kid\":\"%0*d\"}", TOKEN_KID_BYTES_MAX + 1, 0);
	expect(verify(&w, token_headed(&w, text.data)), TOKEN_HEADER, "a longer kid");
	world_close(&w);
}

TEST(token, other_spellings_of_the_same_bytes_are_refused)
{
	static const char *const odd[] = {"",
	                                  ".",
	                                  "..",
	                                  "...",
	                                  "a.b",
	                                  "a.b.c",
	                                  "a.b.c.d",
	                                  "e30.e30.",
	                                  ".e30.e30",
	                                  "e30..e30",
	                                  "e30=.e30.AA",
	                                  "e30.e30.AA==",
	                                  "e30.e30.AA.AA",
	                                  "e31.e30.AA",
	                                  "e30.e30.AB",
	                                  "e30\n.e30.AA",
	                                  " e30.e30.AA",
	                                  "e3+.e30.AA",
	                                  "e30.e30.A"};
	struct world             w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		expect(verify(&w, bytes_of(odd[i])), TOKEN_MALFORMED, odd[i]);
	world_close(&w);
}

/* ---- Cognito ---- */

#define POOL         "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbC123"
#define COGNITO_REST "\"sub\":\"u1\",\"exp\":1800000600,\"iat\":1799999990"

TEST(token, cognitos_two_kinds_do_not_pass_for_each_other)
{
	static const struct {
		const char        *claims;
		uint32_t           uses;
		enum token_outcome expected;
	} cases[] = {
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"access\",\"client_id\":\"app\"," COGNITO_REST "}", 3,
	         TOKEN_VALID},
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"id\",\"aud\":\"app\"," COGNITO_REST "}", 3,
	         TOKEN_VALID},
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"access\",\"client_id\":\"app\"," COGNITO_REST "}", 2,
	         TOKEN_USE},
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"id\",\"aud\":\"app\"," COGNITO_REST "}", 1,
	         TOKEN_USE},
	        {"{\"iss\":\"" POOL "\",\"client_id\":\"app\",\"aud\":\"app\"," COGNITO_REST "}", 3,
	         TOKEN_USE},
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"refresh\",\"client_id\":\"app\"," COGNITO_REST "}", 3,
	         TOKEN_USE},
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"access\",\"aud\":\"app\"," COGNITO_REST "}", 3,
	         TOKEN_CLAIM},
	        {"{\"iss\":\"" POOL
	         "\",\"token_use\":\"access\",\"client_id\":\"x\",\"aud\":\"app\"," COGNITO_REST "}",
	         3, TOKEN_AUDIENCE},
	        {"{\"iss\":\"" POOL
	         "\",\"token_use\":\"access\",\"client_id\":\"app\",\"aud\":7," COGNITO_REST "}",
	         3, TOKEN_CLAIM},
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"id\",\"client_id\":\"app\"," COGNITO_REST "}", 3,
	         TOKEN_CLAIM},
	        {"{\"iss\":\"" POOL
	         "\",\"token_use\":\"id\",\"client_id\":\"app\",\"aud\":\"x\"," COGNITO_REST "}",
	         3, TOKEN_AUDIENCE},
	        {"{\"iss\":\"" POOL "\",\"token_use\":\"id\",\"aud\":[\"app\"]," COGNITO_REST "}", 3,
	         TOKEN_CLAIM},
	        {"{\"iss\":\"https://issuer-cognito-idp.eu-west-1.amazonaws.com/"
	         "eu-west-1_AbC123\",\"token_use\":\"access\","
	         "\"client_id\":\"app\"," COGNITO_REST "}",
	         3, TOKEN_VALID},
	        {"{\"iss\":\"https://cognito-idp.eu-west-1.amazonaws.com/"
	         "eu-west-1_Other\",\"token_use\":\"access\","
	         "\"client_id\":\"app\"," COGNITO_REST "}",
	         3, TOKEN_ISSUER},
	};
	struct world w;

	world_open(&w);
	w.site.other = set_of(&w, &w.rsa).data;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cognito_options pool = {.pool = BYTES("eu-west-1_AbC123"), .rules = rules_for_app()};

		issuers_drop(w.all);
		w.all = issuers_open((struct token_fetch){site_get, &w.site}, &w.clock.base);
		pool.rules.cognito_uses = cases[i].uses;
		assert_int_equal(issuers_add_cognito(w.all, &pool, &w.err), ERR_NONE);
		assert_int_equal(issuers_round(w.all, w.reader, NULL), 0);
		expect(verify(&w, token_of(&w, cases[i].claims)), cases[i].expected, cases[i].claims);
	}
	world_close(&w);
}

TEST(issuers, options_that_would_accept_too_much_are_refused)
{
	struct world             w;
	struct issuer_options    good = {.issuer = BYTES(ISSUER), .rules = rules_for_app()}, o = good;
	struct cognito_options   pool = {.rules = rules_for_app()};
	static const char *const pools[] = {"pool", "eu_a/../b", "_a"};

	world_open(&w);
	o.rules.audience_count = 0;
	assert_int_equal(issuers_add(w.all, &o, &w.err), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "audiences"));
	o = good;
	o.rules.algorithms = 0;
	assert_int_equal(issuers_add(w.all, &o, &w.err), ERR_INVALID);
	o.rules.algorithms = 1u << JWS_ALGORITHM_COUNT;
	assert_int_equal(issuers_add(w.all, &o, &w.err), ERR_INVALID);
	o = good;
	o.rules.leeway_us = (ISSUER_LEEWAY_S_MAX + 1) * 1000000LL;
	assert_int_equal(issuers_add(w.all, &o, &w.err), ERR_INVALID);
	o = good;
	o.rules.age_max_us = 0;
	assert_int_equal(issuers_add(w.all, &o, &w.err), ERR_INVALID);
	o = good;
	o.issuer = BYTES("joe");
	assert_int_equal(issuers_add(w.all, &o, &w.err), ERR_INVALID);
	o = good;
	o.jwks_url = BYTES("http://issuer.example/keys");
	assert_int_equal(issuers_add(w.all, &o, &w.err), ERR_INVALID);
	assert_int_equal(issuers_add(w.all, &good, &w.err), ERR_NONE);
	assert_int_equal(issuers_add(w.all, &good, &w.err), ERR_INVALID);
	assert_non_null(strstr(w.err.text, "twice"));
	pool.rules.cognito_uses = JWT_USE_ACCESS;
	for (unsigned i = 0; i < 3; i++) {
		pool.pool = bytes_of(pools[i]);
		assert_int_equal(issuers_add_cognito(w.all, &pool, &w.err), ERR_INVALID);
	}
	world_close(&w);
}

/* ---- clocks that are ahead ---- */

static int64_t ahead_of(struct world *w, int64_t iat_s)
{
	struct bytes claims =
	        arena_printf(&w->a,
	                     "{\"iss\":\"" ISSUER "\",\"sub\":\"u1\",\"aud\":\"app\",\"exp\":%lld,"
	                     "\"iat\":%lld}",
	                     (long long)iat_s + 600, (long long)iat_s);

	expect(verify(w, token_of(w, claims.data)), TOKEN_VALID, claims.data);
	return w->out.ahead_s;
}

static bool told_ahead(struct world *w)
{
	struct issuer_numbers n;

	assert_true(issuers_read(w->all, 0, &n));
	return n.ahead;
}

TEST(clocks, an_issuer_that_was_never_ahead_may_be_so_by_a_second_8)
{
	struct world w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	assert_int_equal(ahead_of(&w, now_s - 5), ISSUER_AHEAD_S);
	assert_int_equal(ahead_of(&w, now_s), ISSUER_AHEAD_S);
	assert_false(told_ahead(&w));
	world_close(&w);
}

TEST(clocks, one_that_was_seen_ahead_may_be_so_by_its_leeway_for_a_day_8)
{
	struct world w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	assert_int_equal(ahead_of(&w, now_s + ISSUER_LEEWAY_S - 1), ISSUER_LEEWAY_S);
	assert_true(told_ahead(&w));
	assert_int_equal(ahead_of(&w, now_s - 5), ISSUER_LEEWAY_S); /* another token of it */
	clock_manual_set(&w.clock, w.clock.now_us + ISSUER_AHEAD_KEPT_S * INT64_C(1000000) - 1);
	assert_int_equal(ahead_of(&w, now_s + ISSUER_AHEAD_KEPT_S - 5), ISSUER_LEEWAY_S);
	clock_manual_set(&w.clock, w.clock.now_us + 1);
	assert_int_equal(ahead_of(&w, now_s + ISSUER_AHEAD_KEPT_S - 5), ISSUER_AHEAD_S);
	world_close(&w);
}

/* A clock that is ahead by a fraction of a second may show the next one already: that says nothing of other tokens. */
TEST(clocks, a_token_that_is_ahead_by_less_than_a_second_counts_alone_8)
{
	struct world w;

	world_open(&w);
	add_fixed(&w, rules_for_app());
	clock_manual_set(&w.clock, w.clock.now_us + 999999);
	assert_int_equal(ahead_of(&w, now_s + 1), ISSUER_LEEWAY_S);
	assert_false(told_ahead(&w));
	assert_int_equal(ahead_of(&w, now_s), ISSUER_AHEAD_S);
	world_close(&w);
}

TEST(clocks, an_issuer_without_leeway_is_never_ahead_and_one_that_was_stays_so_when_it_is_read_again_8)
{
	struct world     w;
	struct jwt_rules rules = rules_for_app();
	struct issuers  *before;

	world_open(&w);
	rules.leeway_us = 0;
	add_fixed(&w, rules);
	assert_int_equal(ahead_of(&w, now_s), 0);
	issuers_drop(w.all);
	w.all = issuers_open((struct token_fetch){site_get, &w.site}, &w.clock.base);
	add_fixed(&w, rules_for_app());
	ahead_of(&w, now_s + 30);
	before = w.all;
	w.all = issuers_open((struct token_fetch){site_get, &w.site}, &w.clock.base);
	add_fixed(&w, rules_for_app());
	issuers_inherit(w.all, before);
	assert_int_equal(ahead_of(&w, now_s), ISSUER_LEEWAY_S);
	issuers_drop(before);
	world_close(&w);
}

/* ---- the life of keys ---- */

static void pass(struct world *w, int64_t seconds)
{
	clock_manual_set(&w->clock, w->clock.now_us + seconds * 1000000);
}

static void add_fetched(struct world *w)
{
	add(w, (struct issuer_options){
	               .issuer = BYTES(ISSUER), .jwks_url = BYTES(ISSUER "/keys"), .rules = rules_for_app()});
	w->site.keys = set_of(w, &w->rsa).data;
}

/* It is dated by an issuer whose clock is ahead, and was issued before the first token that this process has seen. */
TEST(clocks, an_issuer_whose_answers_are_dated_ahead_is_ahead_before_any_token_of_it_was_seen_8)
{
	static const struct {
		int64_t date_s;
		bool    ahead;
	} cases[] = {
	        {0, false}, {now_s - 3600, false}, {now_s, false}, {now_s + 1, true}, {now_s + 30, true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world w;

		world_open(&w);
		w.site.date_s = cases[i].date_s;
		add_fetched(&w);
		assert_int_equal(issuers_round(w.all, w.reader, NULL), 0);
		assert_int_equal(told_ahead(&w), cases[i].ahead);
		assert_int_equal(ahead_of(&w, now_s - 5), cases[i].ahead ? ISSUER_LEEWAY_S : ISSUER_AHEAD_S);
		world_close(&w);
	}
}

TEST(keys, are_fetched_for_the_first_token_and_kept)
{
	struct world w;

	world_open(&w);
	add_fetched(&w);
	expect(verify(&w, token_of(&w, CLAIMS)), TOKEN_NO_KEYS, "before");
	for (int i = 0; i < 10; i++)
		expect(verify_fetching(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "after");
	assert_int_equal(w.site.gets, 1);
	expect(verify(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "without waiting");
	world_close(&w);
}

TEST(keys, random_kids_cause_one_fetch_in_thirty_seconds)
{
	struct world w;

	world_open(&w);
	add_fetched(&w);
	expect(verify_fetching(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "first");
	for (int second = 0; second < 300; second++) {
		for (int i = 0; i < 10; i++) {
			struct bytes header =
			        arena_printf(&w.a, "{\"alg\":\"RS256\",\"kid\":\"x%d.%d\"}", second, i);

			expect(verify_fetching(&w, token_headed(&w, header.data)), TOKEN_KEY, "random");
		}
		pass(&w, 1);
	}
	assert_int_equal(w.site.gets, 10);
	world_close(&w);
}

/* Some issuers do that while they move to another kind of key. */
TEST(keys, of_two_with_one_kid_each_verifies_its_own)
{
	struct world     w;
	struct signer    rsa = signer_open(JWS_RS256, "r1"), ec = signer_open(JWS_ES256, "r1"), none;
	struct jwt_rules rules = rules_for_app();

	world_open(&w);
	none = signer_open(JWS_RS256, "r1");
	rules.algorithms = 1u << JWS_RS256 | 1u << JWS_ES256;
	add(&w, (struct issuer_options){.issuer = BYTES(ISSUER),
	                                .jwks = arena_printf(&w.a, "{\"keys\":[%.*s,%.*s,%.*s]}",
	                                                     BYTES_ARG(signer_jwk(&ec, &w.a, true)),
	                                                     BYTES_ARG(signer_jwk(&rsa, &w.a, true)),
	                                                     BYTES_ARG(signer_jwk(&w.rsa, &w.a, true))),
	                                .rules = rules});
	expect(verify(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "the third");
	expect(verify(&w, signer_token(&rsa, &w.a, signer_header(&rsa, &w.a), BYTES(CLAIMS))), TOKEN_VALID,
	       "the second");
	expect(verify(&w, signer_token(&ec, &w.a, signer_header(&ec, &w.a), BYTES(CLAIMS))), TOKEN_VALID,
	       "the first");
	expect(verify(&w, signer_token(&none, &w.a, signer_header(&none, &w.a), BYTES(CLAIMS))),
	       TOKEN_SIGNATURE, "another");
	signer_close(&none);
	signer_close(&rsa);
	signer_close(&ec);
	world_close(&w);
}

/* A stranger sends kids that never were, so that the set is always young. */
TEST(keys, a_made_up_kid_does_not_make_the_key_of_a_rotation_final)
{
	struct world  w;
	struct signer next = signer_open(JWS_RS256, "r2");
	struct bytes  old, young;

	world_open(&w);
	add_fetched(&w);
	expect(verify_fetching(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "before");
	pass(&w, ISSUER_AGAIN_S);
	expect(verify_fetching(&w, token_headed(&w, "{\"alg\":\"RS256\",\"kid\":\"made-up\"}")), TOKEN_KEY,
	       "made up");
	assert_int_equal(w.site.gets, 2);
	w.site.keys = set_of(&w, &next).data; /* the rotation, a moment after the fetch */
	pass(&w, 5);
	young = signer_token(&next, &w.a, signer_header(&next, &w.a),
	                     BYTES("{\"iss\":\"" ISSUER
	                           "\",\"sub\":\"u1\",\"exp\":1800000600,\"iat\":1800000032,"
	                           "\"aud\":\"app\"}"));
	expect(verify(&w, young), TOKEN_KEY, "the set is older");
	assert_int_equal(w.retry_s, ISSUER_AGAIN_S - 5);
	old = signer_token(&next, &w.a, signer_header(&next, &w.a),
	                   BYTES("{\"iss\":\"" ISSUER
	                         "\",\"sub\":\"u1\",\"exp\":1800000600,\"iat\":1799999900,"
	                         "\"aud\":\"app\"}"));
	expect(verify(&w, old), TOKEN_KEY, "the set is younger by more than the leeway");
	assert_int_equal(w.retry_s, 0);
	pass(&w, ISSUER_AGAIN_S - 5);
	expect(verify_fetching(&w, young), TOKEN_VALID, "after");
	signer_close(&next);
	world_close(&w);
}

TEST(keys, a_rotated_key_is_found_and_the_old_one_is_gone)
{
	struct world  w;
	struct signer next = signer_open(JWS_RS256, "r2");
	struct bytes  token;

	world_open(&w);
	add_fetched(&w);
	token = signer_token(&next, &w.a, signer_header(&next, &w.a), BYTES(CLAIMS));
	expect(verify_fetching(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "old");
	w.site.keys = set_of(&w, &next).data;
	pass(&w, ISSUER_AGAIN_S - 1);
	expect(verify_fetching(&w, token), TOKEN_KEY, "too early");
	pass(&w, 1);
	expect(verify_fetching(&w, token), TOKEN_VALID, "new");
	expect(verify_fetching(&w, token_of(&w, CLAIMS)), TOKEN_KEY, "old");
	signer_close(&next);
	world_close(&w);
}

TEST(keys, the_last_good_set_stays_while_the_issuer_is_down_or_talks_nonsense)
{
	static const char *const bad[] = {NULL, "", "{\"keys\":[]}", "<html>",
	                                  "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\"}]}"};
	struct world             w;
	struct issuer_numbers    n;

	world_open(&w);
	add_fetched(&w);
	assert_int_equal(issuers_round(w.all, w.reader, NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		w.site.keys = bad[i];
		clock_manual_set(&w.clock, w.clock.now_us + ISSUER_REFRESH_S * 1000000LL);
		assert_int_equal(issuers_round(w.all, w.reader, NULL), 1);
		clock_manual_jump(&w.clock, -ISSUER_REFRESH_S * 1000000LL); /* the token shall not expire */
		expect(verify(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "known key");
	}
	assert_true(issuers_read(w.all, 0, &n));
	assert_int_equal(n.failures, 5);
	assert_int_equal(n.fetches, 6);
	assert_int_equal(n.keys, 1);
	assert_false(issuers_read(w.all, 1, &n));
	world_close(&w);
}

TEST(keys, a_round_fetches_by_age_alone)
{
	struct world w;

	world_open(&w);
	add_fetched(&w);
	issuers_round(w.all, w.reader, NULL);
	pass(&w, ISSUER_REFRESH_S - 1);
	issuers_round(w.all, w.reader, NULL);
	assert_int_equal(w.site.gets, 1);
	pass(&w, 1);
	issuers_round(w.all, w.reader, NULL);
	assert_int_equal(w.site.gets, 2);
	world_close(&w);
}

TEST(keys, discovery_counts_only_for_the_same_issuer)
{
	static const struct {
		const char        *document;
		enum token_outcome expected;
	} cases[] = {
	        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"" ISSUER "/keys\"}", TOKEN_VALID},
	        {"{\"issuer\":\"" ISSUER "/\",\"jwks_uri\":\"" ISSUER "/keys\"}", TOKEN_NO_KEYS},
	        {"{\"issuer\":\"https://evil.example\",\"jwks_uri\":\"" ISSUER "/keys\"}", TOKEN_NO_KEYS},
	        {"{\"issuer\":\"" ISSUER "\",\"issuer\":\"x\",\"jwks_uri\":\"" ISSUER "/keys\"}",
	         TOKEN_NO_KEYS},
	        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"http://issuer.example/pool/keys\"}",
	         TOKEN_NO_KEYS},
	        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"file:///etc/keys\"}", TOKEN_NO_KEYS},
	        {"{\"issuer\":\"" ISSUER "\"}", TOKEN_NO_KEYS},
	        {"{\"jwks_uri\":\"" ISSUER "/keys\"}", TOKEN_NO_KEYS},
	        {"[]", TOKEN_NO_KEYS},
	        {"", TOKEN_NO_KEYS},
	        {NULL, TOKEN_NO_KEYS},
	};
	struct world w;

	world_open(&w);
	w.site.keys = set_of(&w, &w.rsa).data;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		issuers_drop(w.all);
		w.all = issuers_open((struct token_fetch){site_get, &w.site}, &w.clock.base);
		add(&w, (struct issuer_options){.issuer = BYTES(ISSUER), .rules = rules_for_app()});
		w.site.discovery = cases[i].document;
		expect(verify_fetching(&w, token_of(&w, CLAIMS)), cases[i].expected,
		       cases[i].document == NULL ? "silence" : cases[i].document);
	}
	world_close(&w);
}

TEST(keys, of_one_issuer_verify_nothing_of_another)
{
	struct world  w;
	struct signer evil = signer_open(JWS_RS256, "r1");

	world_open(&w);
	add_fixed(&w, rules_for_app());
	add(&w, (struct issuer_options){.issuer = BYTES("https://evil.example"),
	                                .jwks = set_of(&w, &evil),
	                                .rules = rules_for_app()});
	expect(verify(&w, signer_token(&evil, &w.a, signer_header(&evil, &w.a), BYTES(CLAIMS))),
	       TOKEN_SIGNATURE, "signed by the other");
	signer_close(&evil);
	world_close(&w);
}

/* ---- threads ---- */

static void *fetch_once(void *ctx)
{
	struct world       *w = ctx;
	struct json_reader *reader = json_reader_open();

	issuers_round(w->all, reader, NULL);
	json_reader_close(reader);
	return NULL;
}

TEST(keys, nobody_waits_for_a_fetch_under_way_and_it_serves_all_who_asked)
{
	struct world w;
	pthread_t    thread;

	world_open(&w);
	add_fetched(&w);
	w.site.shut = true;
	pthread_create(&thread, NULL, fetch_once, &w);
	for (int i = 0; i < 100; i++) {
		expect(verify(&w, token_of(&w, CLAIMS)), TOKEN_NO_KEYS, "meanwhile");
		assert_int_equal(w.retry_s, 1);
	}
	pthread_mutex_lock(&w.site.lock);
	w.site.shut = false;
	pthread_cond_broadcast(&w.site.moved);
	pthread_mutex_unlock(&w.site.lock);
	pthread_join(thread, NULL);
	expect(verify(&w, token_of(&w, CLAIMS)), TOKEN_VALID, "afterwards");
	assert_int_equal(w.retry_s, 0);
	assert_int_equal(w.site.gets, 1);
	world_close(&w);
}

static void *rotate(void *ctx)
{
	struct world       *w = ctx;
	struct json_reader *reader = json_reader_open();

	for (int i = 0; i < 200; i++) {
		pass(w, ISSUER_REFRESH_S);
		clock_manual_jump(&w->clock, -ISSUER_REFRESH_S * 1000000LL);
		issuers_round(w->all, reader, NULL);
	}
	json_reader_close(reader);
	return NULL;
}

TEST(keys, a_set_that_is_replaced_stays_with_those_who_use_it)
{
	struct world w;
	pthread_t    thread;
	struct bytes token;

	world_open(&w);
	add_fetched(&w);
	issuers_round(w.all, w.reader, NULL);
	token = token_of(&w, CLAIMS);
	pthread_create(&thread, NULL, rotate, &w);
	for (int i = 0; i < 500; i++) {
		enum token_outcome outcome = verify(&w, token);

		/* The clock moves in two steps, and is read in two: in between the token has expired, or was issued in the
		 * future. */
		assert_true(outcome == TOKEN_VALID || outcome == TOKEN_EXPIRED || outcome == TOKEN_FUTURE ||
		            outcome == TOKEN_NOT_YET);
	}
	pthread_join(thread, NULL);
	world_close(&w);
}
