/* An attack, on a clock that the test sets: a thousand sources guess at one subject for an hour, as fast as they
 * like, while the owner's known device goes on signing in. The owner is never refused. The attackers get no more
 * guesses than the policy says; the bound is worked out here, from the policy's numbers alone. */
#include "service/fixture.h"

enum {
	HOUR_S = 3600,
	ATTACKERS = 1000,
	GUESSES_A_SECOND = 5,
	OWNER_EVERY_S = 30,

	MAX = 6,
	LOCK_S = 900,
	PAIR_MAX = 2,
};

/* Guesses that are counted are those that a caller lets through: a lock answers the rest. In each round MAX guesses
 * go through and a lock of LOCK_S follows; rounds that begin within the hour count. The first one begins at 0. */
static int64_t guesses_allowed(int64_t seconds)
{
	int64_t rounds = 0;

	for (int64_t begins = 0; begins < seconds; begins += LOCK_S)
		rounds++;
	return rounds * MAX;
}

static struct attempt_result attack_once(struct service *s, int number, bool sources)
{
	char ip[32], device[32];

	snprintf(ip, sizeof(ip), "203.0.%d.%d", number % ATTACKERS / 250, number % ATTACKERS % 250);
	snprintf(device, sizeof(device), "attacker-%d", number % ATTACKERS);
	return service_record(s, OUTCOME_FAILURE, (struct try){.ip = sources ? ip : NULL, .device = device});
}

/* Mistypes now and then, and then gets it right. */
static void owner_signs_in(struct service *s, int second)
{
	struct attempt_result r;

	if (second % (4 * OWNER_EVERY_S) == 0) {
		r = FAIL(s, .ip = "198.51.100.7", .device = "owner");
		assert_verdict(&r, VERDICT_ALLOW, true);
		assert_true(r.known_device);
	}
	r = SUCCEED(s, .ip = "198.51.100.7", .device = "owner");
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
}

static int64_t attack(struct service *s, bool sources)
{
	int64_t counted = 0;
	int     number = 0;

	SUCCEED(s, .ip = "198.51.100.7", .device = "owner");
	for (int second = 0; second < HOUR_S; second++) {
		at(s, second);
		for (int i = 0; i < GUESSES_A_SECOND; i++)
			counted += attack_once(s, number++, sources).counted;
		if (second % OWNER_EVERY_S == 0)
			owner_signs_in(s, second);
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
	assert_int_equal(guesses_allowed(HOUR_S), 24);
	assert_int_equal(attack(&s, false), guesses_allowed(HOUR_S));
	service_close(&s);
}

TEST(attack, with_the_policies_that_ship_it_ends_the_same)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(attack(&s, true), guesses_allowed(HOUR_S));
	service_close(&s);
}

/* With pairs alone each source has a budget of its own: the bound is the number of sources. */
TEST(attack, by_pairs_each_source_gets_its_own_and_no_more)
{
	struct service s;
	int64_t        counted = 0;

	service_open(&s, "locks: {STANDARD: {duration: 900}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max_from_source: 2, life: 7200, "
	                 "known_device: {max: "
	                 "6}}}}}\n");
	SUCCEED(&s, .ip = "198.51.100.7", .device = "owner");
	for (int i = 0; i < 5 * ATTACKERS; i++) {
		counted += attack_once(&s, i, true).counted;
		if (i % ATTACKERS == 0)
			owner_signs_in(&s, 0);
	}
	assert_int_equal(counted, PAIR_MAX * ATTACKERS);
	service_close(&s);
}
