/* An attack, on a clock that the test sets: a thousand sources guess at one subject for an hour, as fast as they
 * like, while the owner's known device goes on signing in. The owner is never refused. The attackers get no more
 * guesses than the policy says; the bound is worked out here, from the policy's numbers alone. */
#include "service/fixture.h"

enum {
	HOUR_S = 3600,
	ATTACKERS = 1000,
	GUESSES_A_SECOND = 2,
	OWNER_EVERY_S = 30,

	MAX = 6,
	LOCK_S = 900,
	PAIR_MAX = 2,
};

/* Guesses that are counted are those that a caller lets through: a lock answers the rest. In each round MAX guesses
 * go through and a lock of LOCK_S follows, or one that is `factor` times as long as the one before; rounds that begin within the hour
 * count. The first one begins at 0. */
static int64_t guesses_allowed(int64_t seconds, int64_t factor)
{
	int64_t rounds = 0;

	for (int64_t begins = 0, lock_s = LOCK_S; begins < seconds; begins += lock_s, lock_s *= factor)
		rounds++;
	return rounds * MAX;
}

static struct attempt_result attack_once(struct service *s, int number, bool sources)
{
	char ip[32];

	snprintf(ip, sizeof(ip), "203.0.%d.%d", number % ATTACKERS / 250, number % ATTACKERS % 250);
	return service_record(s, OUTCOME_FAILURE,
	                      (struct try){.ip = sources ? ip : NULL, .token = BYTES("attackers-know-none")});
}

/* What the owner's browser keeps. */
struct cookie {
	char text[DEVICE_TOKEN_CHARS];
};

static struct bytes cookie_bytes(const struct cookie *c)
{
	return (struct bytes){c->text, sizeof(c->text)};
}

/* The last step of a sign-in, which is the code where the policy has one. */
static void owner_gets_in(struct service *s, struct cookie *cookie, bool code)
{
	struct attempt_result r =
	        SUCCEED(s, .type = code ? "MFA_CODE_ENTRY" : NULL, .ip = "198.51.100.7",
	                .token = cookie->text[0] == '\0' ? (struct bytes){NULL, 0} : cookie_bytes(cookie));

	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.device.token.len, DEVICE_TOKEN_CHARS);
	memcpy(cookie->text, r.device.token.data, DEVICE_TOKEN_CHARS);
}

/* Mistypes now and then, and then gets it right. */
static void owner_signs_in(struct service *s, int second, struct cookie *cookie, bool code)
{
	struct attempt_result r;

	if (second % (4 * OWNER_EVERY_S) == 0) {
		r = FAIL(s, .ip = "198.51.100.7", .token = cookie_bytes(cookie));
		assert_verdict(&r, VERDICT_ALLOW, true);
		assert_true(r.known_device);
	}
	if (code) {
		r = SUCCEED(s, .ip = "198.51.100.7", .token = cookie_bytes(cookie));
		assert_verdict(&r, VERDICT_ALLOW, false);
		assert_true(r.known_device);
	}
	owner_gets_in(s, cookie, code);
}

static int64_t attack(struct service *s, bool sources, bool code)
{
	struct cookie cookie = {{0}};
	int64_t       counted = 0;
	int           number = 0;

	owner_gets_in(s, &cookie, code);
	for (int second = 0; second < HOUR_S; second++) {
		at(s, second);
		for (int i = 0; i < GUESSES_A_SECOND; i++)
			counted += attack_once(s, number++, sources).counted;
		if (second % OWNER_EVERY_S == 0)
			owner_signs_in(s, second, &cookie, code);
		if (second % 60 == 0)
			arena_reset(&s->f.arena);
	}
	return counted;
}

TEST(attack, a_thousand_sources_in_an_hour_get_what_the_policy_allows_and_the_owner_is_never_refused)
{
	struct service s;

	service_open(&s, "locks: {STANDARD: {duration: 900}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 6, life: 7200, renewed: true, "
	                 "known_device: "
	                 "{max: 6, remember: 7776000}}}}}\n");
	assert_int_equal(guesses_allowed(HOUR_S, 1), 24);
	assert_int_equal(attack(&s, false, false), guesses_allowed(HOUR_S, 1));
	service_close(&s);
}

/* The owner's success on her own device does not shorten the locks that strangers caused. */
TEST(attack, with_the_policies_that_ship_it_ends_the_same_and_each_lock_is_twice_as_long)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(guesses_allowed(HOUR_S, 2), 18);
	assert_int_equal(attack(&s, true, true), guesses_allowed(HOUR_S, 2));
	service_close(&s);
}

/* With pairs alone each source has a budget of its own: the bound is the number of sources. */
TEST(attack, by_pairs_each_source_gets_its_own_and_no_more)
{
	struct service s;
	struct cookie  cookie = {{0}};
	int64_t        counted = 0;

	service_open(&s, "locks: {STANDARD: {duration: 900}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max_from_source: 2, life: 7200, "
	                 "known_device: {max: "
	                 "6}}}}}\n");
	owner_gets_in(&s, &cookie, false);
	for (int i = 0; i < (PAIR_MAX + 1) * ATTACKERS; i++) {
		counted += attack_once(&s, i, true).counted;
		if (i % ATTACKERS == 0)
			owner_signs_in(&s, 0, &cookie, false);
	}
	assert_int_equal(counted, PAIR_MAX * ATTACKERS);
	service_close(&s);
}
