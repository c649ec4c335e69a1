/* Limiter and breaker: local limits against a plain model, their bounds, what a server's header says, and when
 * the server is tried. The clock is the tests' own. */
#include "test.h"

#include "breaker.h"
#include "limiter.h"
#include "random.h"

static const uint64_t seed[2] = {1, 2};
static struct limiter limiter;

enum { SECOND = 1000000 };

static void begin(size_t keys, const struct gatehouse_limit *limits, size_t count)
{
	assert_true(limiter_init(&limiter, keys, seed));
	for (size_t i = 0; i < count; i++)
		assert_true(limiter_give(&limiter, &limits[i]));
}

static struct gatehouse_allow_answer decide(const char *key, int64_t cost, int64_t now_us)
{
	struct gatehouse_allow_answer answer = {0};

	assert_true(limiter_decide(&limiter, "p", key, cost, now_us, &answer));
	return answer;
}

TEST(limiter, lets_the_burst_through_at_once_and_then_the_rate)
{
	static const struct gatehouse_limit limit[] = {{"p", 60, 60, 3}};
	struct gatehouse_allow_answer       a;

	begin(100, limit, 1);
	for (int i = 0; i < 3; i++) {
		a = decide("k", 1, 0);
		assert_true(a.allowed);
		assert_int_equal(a.results[0].remaining, 2 - i);
		assert_int_equal(a.results[0].reset_s, i + 1);
	}
	a = decide("k", 1, 0);
	assert_false(a.allowed);
	assert_int_equal(a.retry_after_s, 1);
	assert_int_equal(a.results[0].remaining, 0);
	assert_false(decide("k", 1, SECOND - 1).allowed);
	assert_true(decide("k", 1, SECOND).allowed);
	assert_false(decide("k", 1, SECOND).allowed);
	assert_true(decide("other", 1, SECOND).allowed);
	limiter_release(&limiter);
}

TEST(limiter, costs_are_counted_a_peek_is_not_and_more_than_the_burst_never_fits)
{
	static const struct gatehouse_limit limit[] = {{"p", 10, 100, 0}};
	struct gatehouse_allow_answer       a;

	begin(100, limit, 1);
	a = decide("k", 11, 0);
	assert_false(a.allowed);
	assert_int_equal(a.retry_after_s, 0);
	a = decide("k", 10, 0);
	assert_true(a.allowed);
	assert_int_equal(a.results[0].remaining, 0);
	assert_false(decide("k", 0, 0).allowed);
	assert_int_equal(decide("k", 4, 0).retry_after_s, 40);
	assert_int_equal(decide("k", 0, 40 * SECOND).results[0].remaining, 4);
	assert_true(decide("k", 4, 40 * SECOND).allowed);
	limiter_release(&limiter);
}

TEST(limiter, several_limits_are_all_or_nothing)
{
	static const struct gatehouse_limit limits[] = {{"p", 2, 1, 0}, {"p", 3, 1000, 0}};
	struct gatehouse_allow_answer       a;

	begin(100, limits, 2);
	a = decide("k", 2, 0);
	assert_true(a.allowed && a.results[0].allowed && a.results[1].allowed);
	/* The first has room again, the second for one only; refusing takes from neither. */
	a = decide("k", 2, 2 * SECOND);
	assert_true(!a.allowed && a.results[0].allowed && !a.results[1].allowed);
	assert_int_equal(decide("k", 0, 2 * SECOND).results[0].remaining, 2);
	assert_true(decide("k", 1, 2 * SECOND).allowed);
	assert_false(decide("k", 1, 4 * SECOND).allowed);
	limiter_release(&limiter);
}

TEST(limiter, a_limit_of_zero_refuses_everything)
{
	static const struct gatehouse_limit limit[] = {{"p", 0, 1, 0}};

	begin(100, limit, 1);
	assert_false(decide("k", 1, 0).allowed);
	assert_false(decide("k", 0, 1000 * (int64_t)SECOND).allowed);
	limiter_release(&limiter);
}

/* The bucket that GCRA is equal to, in whole units of a nanosecond's share: exact. */
TEST(limiter, agrees_with_a_leaking_bucket_over_random_requests)
{
	static const struct gatehouse_limit limit[] = {{"p", 100, 10, 25}};
	enum { UNIT_NS = 100000000, REQUESTS = 200000 };
	struct random r = {7};
	int64_t       now_us = 0, level_ns = 0, allowed = 0;

	begin(100, limit, 1);
	for (int i = 0; i < REQUESTS; i++) {
		int64_t step_us = (int64_t)(random_next(&r) % 200000),
		        cost = (int64_t)(random_next(&r) % 4) + 1;
		bool fits;

		now_us += step_us;
		level_ns = level_ns > step_us * 1000 ? level_ns - step_us * 1000 : 0;
		fits = level_ns + cost * UNIT_NS <= 25 * (int64_t)UNIT_NS;
		level_ns += fits ? cost * UNIT_NS : 0;
		allowed += fits;
		assert_int_equal(decide("k", cost, now_us).allowed, fits);
	}
	assert_in_range(allowed, REQUESTS / 10, REQUESTS - REQUESTS / 10);
	limiter_release(&limiter);
}

TEST(limiter, remembers_the_fullest_keys_when_there_are_more_than_it_has_room_for)
{
	static const struct gatehouse_limit limit[] = {{"p", 10, 1000, 0}};
	char                                key[32];

	begin(LIMITER_WAYS, limit, 1);
	assert_true(decide("hot", 10, 1).allowed);
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_true(decide(key, 1, 1).allowed);
	}
	assert_false(decide("hot", 1, 1).allowed);
	limiter_release(&limiter);
}

TEST(limiter, notes_what_the_server_allowed_but_never_beyond_the_burst)
{
	static const struct gatehouse_limit limit[] = {{"p", 2, 10, 0}};

	begin(100, limit, 1);
	for (int i = 0; i < 100; i++)
		limiter_note(&limiter, "p", "k", 1, 0);
	limiter_note(&limiter, "unknown", "k", 1, 0);
	assert_int_equal(decide("k", 1, 0).retry_after_s, 5);
	assert_true(decide("k", 1, 5 * SECOND).allowed);
	limiter_release(&limiter);
}

TEST(limiter, takes_limits_up_to_their_maxima)
{
	static const struct gatehouse_limit good[] = {{"a", LIMITER_LIMIT_MAX, 1, LIMITER_LIMIT_MAX},
	                                              {"b", 1, LIMITER_WINDOW_S_MAX, LIMITER_LIMIT_MAX}},
	                                    bad[] = {{"c", LIMITER_LIMIT_MAX + 1, 1, 0},
	                                             {"c", 1, LIMITER_WINDOW_S_MAX + 1, 0},
	                                             {"c", 1, 1, LIMITER_LIMIT_MAX + 1},
	                                             {"c", -1, 1, 0},
	                                             {"c", 1, 0, 0},
	                                             {"c", 1, 1, -1},
	                                             {NULL, 1, 1, 0}};
	struct gatehouse_limit        one = {"p", 1, 1, 0};
	struct gatehouse_allow_answer answer;
	char                          name[LIMITER_NAME_BYTES_MAX + 1];

	begin(100, good, 2);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(limiter_give(&limiter, &bad[i]));
	for (int i = 0; i < LIMITER_LIMITS_MAX; i++)
		assert_true(limiter_give(&limiter, &one));
	assert_false(limiter_give(&limiter, &one));
	memset(name, 'n', sizeof(name));
	name[LIMITER_NAME_BYTES_MAX] = '\0';
	one.policy = name;
	assert_false(limiter_give(&limiter, &one));
	name[LIMITER_NAME_BYTES_MAX - 1] = '\0';
	assert_true(limiter_give(&limiter, &one));
	for (int i = 0; i < 2; i++) {
		answer = (struct gatehouse_allow_answer){0};
		assert_true(limiter_decide(&limiter, good[i].policy, "k", 1, INT64_C(1) << 50, &answer));
		assert_true(answer.allowed);
	}
	limiter_release(&limiter);
}

TEST(limiter, learns_policies_up_to_their_maximum_and_never_over_given_ones)
{
	static const struct gatehouse_limit limit[] = {{"p", 5, 10, 0}};
	struct gatehouse_allow_answer       answer;
	char                                name[32];

	begin(100, limit, 1);
	limiter_learn(&limiter, "p", text_of("\"p\";q=1;w=10"));
	assert_int_equal(decide("k", 0, 0).results[0].limit, 5);
	for (int i = 1; i <= LIMITER_POLICIES_MAX; i++) {
		snprintf(name, sizeof(name), "learned-%d", i);
		limiter_learn(&limiter, name, text_of("\"x\";q=1;w=10"));
		assert_int_equal(limiter_decide(&limiter, name, "k", 0, 0, &answer),
		                 i < LIMITER_POLICIES_MAX);
	}
	limiter_learn(&limiter, "learned-1", text_of("\"x\";q=3;w=10"));
	limiter_learn(&limiter, "learned-1", text_of("nonsense"));
	assert_true(limiter_decide(&limiter, "learned-1", "k", 0, 0, &answer));
	assert_int_equal(answer.results[0].limit, 3);
	limiter_release(&limiter);
}

TEST(policy, is_read_from_the_servers_header)
{
	struct limit l[LIMITER_LIMITS_MAX];

	assert_int_equal(limit_parse(text_of("\"a\";q=100;w=60"), l), 1);
	assert_true(l[0].limit == 100 && l[0].window_s == 60 && l[0].burst == 100);
	assert_int_equal(limit_parse(text_of("\"a,\\\"b\";w=60; q=1;x=:YWI=:, "
	                                     "minute;q=2;w=3;qu=\"content-bytes\" ,\"c\";q=5"),
	                             l),
	                 2);
	assert_true(l[1].limit == 2 && l[1].window_s == 3);
	assert_int_equal(limit_parse(text_of("a;q=1;w=1,a;q=1;w=1,a;q=1;w=1,a;q=1;w=1,a;q=9;w=9"), l),
	                 LIMITER_LIMITS_MAX);
	assert_int_equal(limit_parse(text_of("\"a\";q=1.5;w=60"), l), 0);
	assert_int_equal(limit_parse(text_of("\"a\";q=9999999999999999;w=60"), l), 0);
	assert_int_equal(limit_parse(text_of("\"a\";q=1;w=60,"), l), 0);
	assert_int_equal(limit_parse(text_of("\"a;q=1;w=60"), l), 0);
	assert_int_equal(limit_parse(text_of("\"a\";q=1;w=60 x"), l), 0);
	assert_int_equal(limit_parse(text_of("\"a\\"), l), 0);
	assert_int_equal(limit_parse(text_of(""), l), 0);
}

TEST(policy, of_one_key_is_not_taken_for_the_policy_of_others)
{
	struct limit l[LIMITER_LIMITS_MAX];

	assert_int_equal(limit_parse(text_of("\"a\";q=100;w=60;pk=:YWI=:"), l), 0);
	assert_int_equal(limit_parse(text_of("\"a\";pk=:YWI=:;q=100;w=60, \"b\";q=2;w=3"), l), 1);
	assert_true(l[0].limit == 2 && l[0].burst == 2);
}

/* ---- breaker ---- */

static bool fails(struct breaker *b, int64_t now_us)
{
	struct breaker_pass pass;

	if (!breaker_enter(b, now_us, &pass))
		return false;
	breaker_leave(b, &pass, BREAKER_SAW_FAILURE, now_us);
	return true;
}

TEST(breaker, opens_after_its_maximum_of_failures_in_a_row_and_not_before)
{
	struct breaker      b = {.probe_us = 1000};
	struct breaker_pass pass;

	for (int i = 1; i < BREAKER_FAILURES_MAX; i++)
		assert_true(fails(&b, 0));
	assert_true(breaker_enter(&b, 0, &pass));
	breaker_leave(&b, &pass, BREAKER_SAW_SERVER, 0);
	for (int i = 1; i < BREAKER_FAILURES_MAX; i++)
		assert_true(fails(&b, 0));
	assert_true(breaker_enter(&b, 0, &pass));
	breaker_leave(&b, &pass, BREAKER_SAW_NOTHING, 0);
	assert_true(fails(&b, 0));
	assert_false(fails(&b, 999));
}

TEST(breaker, sends_one_probe_at_a_time_and_closes_when_it_finds_the_server)
{
	struct breaker      b = {.probe_us = 1000};
	struct breaker_pass probe, other;

	for (int i = 0; i < BREAKER_FAILURES_MAX; i++)
		fails(&b, 0);
	assert_true(breaker_enter(&b, 1000, &probe));
	assert_true(probe.probe);
	assert_false(breaker_enter(&b, 100000, &other));
	breaker_leave(&b, &probe, BREAKER_SAW_FAILURE, 2000);
	assert_false(breaker_enter(&b, 2999, &other));
	assert_true(breaker_enter(&b, 3000, &probe));
	/* One that came to nothing lets the next go at once. */
	breaker_leave(&b, &probe, BREAKER_SAW_NOTHING, 3001);
	assert_true(breaker_enter(&b, 3001, &probe));
	breaker_leave(&b, &probe, BREAKER_SAW_SERVER, 3500);
	assert_true(breaker_enter(&b, 3500, &other));
	assert_false(other.probe);
}

TEST(breaker, does_not_hold_failures_from_before_against_a_server_that_came_back)
{
	struct breaker      b = {.probe_us = 1000};
	struct breaker_pass old[BREAKER_FAILURES_MAX], probe;

	for (int i = 0; i < BREAKER_FAILURES_MAX; i++)
		assert_true(breaker_enter(&b, 0, &old[i]));
	for (int i = 0; i < BREAKER_FAILURES_MAX; i++)
		fails(&b, 1);
	assert_true(breaker_enter(&b, 2000, &probe));
	breaker_leave(&b, &probe, BREAKER_SAW_SERVER, 2001);
	for (int i = 0; i < BREAKER_FAILURES_MAX; i++)
		breaker_leave(&b, &old[i], BREAKER_SAW_FAILURE, 2002);
	assert_true(breaker_enter(&b, 2002, &probe));
}
