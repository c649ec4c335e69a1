/* The verifier: issuers in force, replaced while others verify; and its worker, which fetches what a token wants. */
#include "token/verifier.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "test.h"
#include "token/support.h"

#define ISSUER "https://issuer.example"

struct world {
	struct arena        a;
	struct signer       rsa, newer;
	struct verifier    *verifier;
	struct json_reader *reader;
	atomic_int          gets;
	atomic_bool         rotated, down;
	atomic_bool         stop;
	struct err          err;
};

static struct bytes jwks_of(const struct signer *s, struct arena *a)
{
	return arena_printf(a, "{\"keys\":[%.*s]}", BYTES_ARG(signer_jwk(s, a, true)));
}

static enum err_code get(void *ctx, const struct token_route *route, struct bytes url, struct arena *a,
                         struct token_fetched *out, struct err *err)
{
	struct world *w = ctx;

	(void)route;
	(void)url;
	atomic_fetch_add(&w->gets, 1);
	if (atomic_load(&w->down))
		return err_set(err, ERR_OVERLOADED, "nobody there");
	*out = (struct token_fetched){.body = jwks_of(atomic_load(&w->rotated) ? &w->newer : &w->rsa, a)};
	return ERR_NONE;
}

static struct issuers *issuers_of(struct world *w, const char *audience)
{
	struct issuers       *all = issuers_open((struct token_fetch){get, w}, clock_system());
	struct bytes          ours = bytes_of(audience);
	struct issuer_options o = {
	        .issuer = BYTES(ISSUER), .jwks_url = BYTES(ISSUER "/keys"), .rules = jwt_rules_default()};

	o.rules.audiences = &ours;
	o.rules.audience_count = 1;
	assert_int_equal(issuers_add(all, &o, &w->err), ERR_NONE);
	return all;
}

static void world_open(struct world *w)
{
	*w = (struct world){.reader = json_reader_open(),
	                    .rsa = signer_open(JWS_RS256, "r1"),
	                    .newer = signer_open(JWS_RS256, "r2")};
	log_set_level(LOG_ERROR);
	arena_init(&w->a);
	assert_int_equal(verifier_open(&w->verifier, clock_system(), &w->err), ERR_NONE);
}

static void world_close(struct world *w)
{
	verifier_close(w->verifier);
	json_reader_close(w->reader);
	signer_close(&w->rsa);
	signer_close(&w->newer);
	arena_release(&w->a);
}

static struct bytes token_of(struct world *w, const struct signer *s)
{
	long long    now = (long long)time(NULL);
	struct bytes claims = arena_printf(
	        &w->a, "{\"iss\":\"" ISSUER "\",\"sub\":\"ann\",\"aud\":\"app\",\"iat\":%lld,\"exp\":%lld}",
	        now - 5, now + 600);

	return signer_token(s, &w->a, signer_header(s, &w->a), claims);
}

static enum token_outcome verify(struct world *w, struct bytes token, int64_t *retry_s)
{
	struct arena        a;
	struct json_reader *reader = json_reader_open();
	struct token_call   c = {reader, &a, clock_wall_us(clock_system())};
	struct jwt          out;
	enum token_outcome  outcome;

	arena_init(&a);
	outcome = verifier_verify(w->verifier, &c, token, &out, retry_s);
	arena_release(&a);
	json_reader_close(reader);
	return outcome;
}

/* Until the worker has done what it was woken for. */
static void verify_until(struct world *w, struct bytes token, enum token_outcome expected)
{
	struct timespec pause = {.tv_nsec = 1000000};
	int64_t         retry_s;

	for (int i = 0; verify(w, token, &retry_s) != expected; i++) {
		if (i == 20000)
			fail_msg("the worker did not fetch");
		nanosleep(&pause, NULL);
	}
	assert_int_equal(retry_s, 0);
}

TEST(verifier, without_issuers_no_token_is_valid)
{
	struct world w;
	int64_t      retry_s;

	world_open(&w);
	assert_int_equal(verify(&w, token_of(&w, &w.rsa), &retry_s), TOKEN_ISSUER);
	assert_int_equal(retry_s, 0);
	assert_int_equal(verifier_count(w.verifier, TOKEN_ISSUER), 1);
	world_close(&w);
}

TEST(verifier, keys_are_fetched_once_the_issuers_are_there)
{
	struct world w;

	world_open(&w);
	verifier_put(w.verifier, issuers_of(&w, "app"));
	verify_until(&w, token_of(&w, &w.rsa), TOKEN_VALID);
	assert_int_equal(w.gets, 1);
	world_close(&w);
}

TEST(verifier, issuers_that_replace_others_share_their_keys_and_their_fetches)
{
	struct world          w;
	struct issuers       *all;
	struct issuer_numbers n;
	int64_t               retry_s;

	world_open(&w);
	verifier_put(w.verifier, issuers_of(&w, "app"));
	verify_until(&w, token_of(&w, &w.rsa), TOKEN_VALID);
	verifier_put(w.verifier, issuers_of(&w, "other"));
	assert_int_equal(verify(&w, token_of(&w, &w.rsa), &retry_s), TOKEN_AUDIENCE);
	atomic_store(&w.rotated, true);
	assert_int_equal(verify(&w, token_of(&w, &w.newer), &retry_s), TOKEN_KEY); /* fetched a moment ago */
	assert_int_equal(retry_s, ISSUER_AGAIN_S);
	all = verifier_issuers(w.verifier);
	assert_true(issuers_read(all, 0, &n));
	assert_int_equal(n.fetches, 1);
	assert_int_equal(n.keys, 1);
	issuers_drop(all);
	assert_int_equal(w.gets, 1);
	world_close(&w);
}

struct asker {
	struct world *w;
	struct bytes  token;
};

static void *verify_on(void *ctx)
{
	struct asker *k = ctx;
	struct world *w = k->w;
	int64_t       retry_s;
	long          bad = 0;

	while (!atomic_load(&w->stop)) {
		enum token_outcome outcome = verify(w, k->token, &retry_s);

		bad += outcome != TOKEN_VALID && outcome != TOKEN_AUDIENCE;
	}
	return (void *)bad;
}

TEST(verifier, issuers_are_replaced_while_others_verify)
{
	struct world w;
	pthread_t    threads[3];
	struct asker k = {.w = &w};
	void        *bad;

	world_open(&w);
	k.token = token_of(&w, &w.rsa);
	verifier_put(w.verifier, issuers_of(&w, "app"));
	verify_until(&w, token_of(&w, &w.rsa), TOKEN_VALID);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, verify_on, &k);
	for (int i = 0; i < 200; i++)
		verifier_put(w.verifier, issuers_of(&w, i % 2 == 0 ? "other" : "app"));
	atomic_store(&w.stop, true);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
	assert_int_equal(w.gets, 1);
	world_close(&w);
}
