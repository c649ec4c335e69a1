/* Token: what verifying costs beyond the signature. In one run and in turns, on one thread: the whole verification of an RS256
 * token with a cached key, and a bare EVP_DigestVerify of the same bytes with the same key. Prints one line of JSON with the CPU
 * time of each and their ratio (the median of ROUNDS). `--strict`: exits with 1 if the ratio is above RATIO_MAX. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/token/support.h"
#include "token/issuer.h"

enum { ROUNDS = 15, CALLS = 2000 };

static const double ratio_max = 1.3;

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double whole_us(struct issuers *all, struct token_call *c, struct bytes token)
{
	double began = cpu_us();

	for (int i = 0; i < CALLS; i++) {
		struct jwt out;
		int64_t    retry_s;

		if (issuers_verify(all, c, token, &out, &retry_s) != TOKEN_VALID)
			abort();
		arena_reset(c->arena);
	}
	return (cpu_us() - began) / CALLS;
}

static double bare_us(EVP_PKEY *key, struct bytes text, struct bytes signature)
{
	double began = cpu_us();

	for (int i = 0; i < CALLS; i++) {
		EVP_MD_CTX *c = EVP_MD_CTX_new();

		if (EVP_DigestVerifyInit(c, NULL, EVP_sha256(), NULL, key) != 1 ||
		    EVP_DigestVerify(c, (const uint8_t *)signature.data, signature.len,
		                     (const uint8_t *)text.data, text.len) != 1)
			abort();
		EVP_MD_CTX_free(c);
	}
	return (cpu_us() - began) / CALLS;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), by_size);
	return values[ROUNDS / 2];
}

/* The claims of an access token of Cognito's, as long as they usually are. */
static struct bytes claims(struct arena *a)
{
	return arena_printf(
	        a,
	        "{\"sub\":\"aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee\",\"cognito:groups\":[\"admin\",\"staff\"],"
	        "\"iss\":\"https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEf123\",\"version\":2,"
	        "\"client_id\":\"1example23456789\",\"origin_jti\":\"11111111-2222-3333-4444-555555555555\","
	        "\"event_id\":\"66666666-7777-8888-9999-000000000000\",\"token_use\":\"access\","
	        "\"scope\":\"openid profile email\",\"auth_time\":%lld,\"exp\":%lld,\"iat\":%lld,"
	        "\"jti\":\"99999999-8888-7777-6666-555555555555\",\"username\":\"someone@example.org\"}",
	        (long long)time(NULL), (long long)time(NULL) + 3600, (long long)time(NULL));
}

int main(int argc, char **argv)
{
	struct signer         s = signer_open(JWS_RS256, "bench");
	struct issuer_options o = {.rules = jwt_rules_default()};
	struct bytes          client = BYTES("1example23456789"), token;
	struct arena          a, scratch;
	struct token_call     c = {json_reader_open(), &scratch, clock_wall_us(clock_system())};
	struct issuers       *all = issuers_open((struct token_fetch){0}, clock_system());
	struct jwt            parsed;
	struct err            err;
	double                whole[ROUNDS], bare[ROUNDS], ratio[ROUNDS], middle;

	arena_init(&a);
	arena_init(&scratch);
	o.issuer = BYTES("https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_AbCdEf123");
	o.jwks = arena_printf(&a, "{\"keys\":[%.*s]}", BYTES_ARG(signer_jwk(&s, &a, true)));
	o.rules.audiences = &client;
	o.rules.audience_count = 1;
	o.rules.cognito_uses = JWT_USE_ACCESS;
	token = signer_token(&s, &a, signer_header(&s, &a), claims(&a));
	if (issuers_add(all, &o, &err) != ERR_NONE || jwt_parse(c.reader, &a, token, &parsed) != TOKEN_VALID)
		return 2;
	for (int i = -1; i < ROUNDS; i++) { /* one to warm up */
		double with = whole_us(all, &c, token),
		       without = bare_us(s.key, parsed.signed_text, parsed.signature);

		if (i >= 0) {
			whole[i] = with;
			bare[i] = without;
			ratio[i] = with / without;
		}
	}
	middle = median(ratio);
	printf("{\"algorithm\": \"RS256\", \"token_bytes\": %zu, \"verify_us\": %.2f, \"openssl_us\": %.2f, "
	       "\"ratio\": %.3f, \"target\": %.1f}\n",
	       token.len, median(whole), median(bare), middle, ratio_max);
	return argc > 1 && bytes_is(bytes_of(argv[1]), "--strict") && middle > ratio_max;
}
