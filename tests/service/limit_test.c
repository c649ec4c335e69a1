/* The three algorithms: at their edges, with clocks that go back, and against exact simulations that compute the same
 * thing in another way. */
#include "test.h"

#include <time.h>

#include "random.h"
#include "service/limit.h"

enum { SIMULATED_REQUESTS = 1000000 };

#define S_US INT64_C(1000000)

static const struct limit_period minute = {60 * S_US}, hour = {3600 * S_US}, month = {0};

static int64_t at(const char *text)
{
	int64_t us;

	assert_true(limit_time_parse(bytes_of(text), &us));
	return us;
}

static struct limit_rule rule(enum limit_algorithm algorithm, uint64_t limit, struct limit_period period)
{
	return (struct limit_rule){.algorithm = algorithm, .limit = limit, .period = period, .burst = limit};
}

static struct limit_answer take(const struct limit_rule *r, struct limit_state *s, int64_t now_us,
                                uint64_t cost)
{
	struct limit_answer a;

	limit_take(r, s, now_us, cost, &a);
	return a;
}

static unsigned take_many(const struct limit_rule *r, struct limit_state *s, int64_t now_us, unsigned count)
{
	unsigned allowed = 0;

	for (unsigned i = 0; i < count; i++)
		allowed += take(r, s, now_us, 1).allowed;
	return allowed;
}

/* ---- windows ---- */

static void assert_window(struct limit_period p, const char *time, const char *start, const char *end)
{
	struct limit_window w = limit_window_at(p, at(time));
	char                text[LIMIT_TIME_TEXT];

	limit_time_format(w.start_us, text);
	assert_bytes((struct bytes){text, sizeof(text)}, start);
	limit_time_format(w.end_us, text);
	assert_bytes((struct bytes){text, sizeof(text)}, end);
}

/* Against the C library, each day that is about as far from the last one as a month. */
TEST(limit_time, is_formatted_as_the_library_does)
{
	char text[LIMIT_TIME_TEXT + 1] = {0}, expected[32];

	for (int64_t seconds = 0; seconds < INT64_C(253402300800); seconds += 2629747) {
		time_t    at = (time_t)seconds;
		struct tm t;

		gmtime_r(&at, &t);
		strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%SZ", &t);
		limit_time_format(seconds * 1000000 + 999999, text);
		assert_string_equal(text, expected);
	}
}

TEST(window, begins_on_the_clock_and_weeks_on_monday)
{
	struct limit_period day = {86400 * S_US}, week = {7 * 86400 * S_US};

	assert_window(minute, "2026-05-04T12:34:56Z", "2026-05-04T12:34:00Z", "2026-05-04T12:35:00Z");
	assert_window(minute, "2026-05-04T12:34:00Z", "2026-05-04T12:34:00Z", "2026-05-04T12:35:00Z");
	assert_window(hour, "2026-05-04T12:59:59Z", "2026-05-04T12:00:00Z", "2026-05-04T13:00:00Z");
	assert_window(day, "2026-05-04T12:34:56Z", "2026-05-04T00:00:00Z", "2026-05-05T00:00:00Z");
	assert_window(week, "2026-05-10T23:59:59Z", "2026-05-04T00:00:00Z", "2026-05-11T00:00:00Z");
}

TEST(window, months_are_the_calendars_with_leap_years_and_turns_of_the_year)
{
	assert_window(month, "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z");
	assert_window(month, "2023-02-01T00:00:00Z", "2023-02-01T00:00:00Z", "2023-03-01T00:00:00Z");
	assert_window(month, "2025-12-31T23:59:59Z", "2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z");
}

TEST(window, text_that_is_no_time_is_refused)
{
	static const char *const bad[] = {"",
	                                  "2026-05-04T12:00:00",
	                                  "2026-05-04 12:00:00Z",
	                                  "2026-13-04T12:00:00Z",
	                                  "2026-02-29T12:00:00Z",
	                                  "2026-05-04T24:00:00Z",
	                                  "2026-05-04T12:00:60Z",
	                                  "-026-05-04T12:00:00Z",
	                                  "1969-12-31T23:59:59Z",
	                                  "2026-05-04T12:00:00z",
	                                  "2026-05-04T12:00:00Z "};
	int64_t                  us;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (limit_time_parse(bytes_of(bad[i]), &us))
			fail_msg("accepted \"%s\"", bad[i]);
	assert_true(limit_time_parse(BYTES("9999-12-31T23:59:59Z"), &us));
}

/* ---- the edge ---- */

TEST(fixed, lets_twice_the_limit_through_around_the_edge_and_says_so)
{
	struct limit_rule  r = rule(LIMIT_FIXED, 10, minute);
	struct limit_state s = {0};

	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:00:59Z"), 20), 10);
	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:01:00Z"), 20), 10);
}

TEST(sliding, does_not_double_at_the_edge)
{
	struct limit_rule  r = rule(LIMIT_SLIDING, 10, minute);
	struct limit_state s = {0};

	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:00:59Z"), 20), 10);
	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:01:00Z"), 20), 0);
	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:01:30Z"), 20),
	                 5); /* half of the old ones weigh */
	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:03:00Z"), 20), 10);
}

TEST(gcra, has_no_edge_and_lets_the_burst_through_at_once)
{
	struct limit_rule  r = rule(LIMIT_GCRA, 60, minute);
	struct limit_state s = {0};

	r.burst = 5;
	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:00:59Z"), 20), 5);
	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:01:00Z"), 20), 1);
	assert_int_equal(take_many(&r, &s, at("2026-05-04T12:01:03Z"), 20), 3);
	assert_int_equal(take_many(&r, &s, at("2026-05-04T13:00:00Z"), 20), 5);
}

/* ---- answers ---- */

TEST(windows, of_which_nothing_was_taken_have_nothing_to_wait_for)
{
	const enum limit_algorithm algorithms[] = {LIMIT_FIXED, LIMIT_SLIDING};

	for (int i = 0; i < 2; i++) {
		struct limit_rule  r = rule(algorithms[i], 3, minute);
		struct limit_state s = {0};

		assert_int_equal(take(&r, &s, at("2026-05-04T12:00:10Z"), 0).reset_us, 0);
		assert_true(take(&r, &s, at("2026-05-04T12:00:10Z"), 1).reset_us > 0);
	}
}

TEST(fixed, answers_what_is_left_and_when_to_come_back)
{
	struct limit_rule   r = rule(LIMIT_FIXED, 3, minute);
	struct limit_state  s = {0};
	struct limit_answer a = take(&r, &s, at("2026-05-04T12:00:10Z"), 2);

	assert_true(a.allowed);
	assert_int_equal(a.limit, 3);
	assert_int_equal(a.remaining, 1);
	assert_int_equal(a.reset_us, 50 * S_US);
	assert_int_equal(a.retry_after_us, 0);
	a = take(&r, &s, at("2026-05-04T12:00:40Z"), 2);
	assert_false(a.allowed);
	assert_int_equal(a.remaining, 1);
	assert_int_equal(a.retry_after_us, 20 * S_US);
}

/* At the time the answer names, and not a microsecond before, the same request passes: the wait is exact. */
static void assert_wait_is_exact(const struct limit_rule *r, const struct limit_state *s, int64_t now_us,
                                 uint64_t cost)
{
	struct limit_state copy = *s;
	int64_t            wait_us = take(r, &copy, now_us, cost).retry_after_us;

	assert_true(wait_us > 0);
	if (take(r, &copy, now_us + wait_us - 1, cost).allowed ||
	    !take(r, &copy, now_us + wait_us, cost).allowed)
		fail_msg("algorithm %d, limit %lu, cost %lu: wait %ld", r->algorithm, r->limit, cost,
		         wait_us);
}

TEST(limit, retry_after_is_exact_to_the_microsecond)
{
	struct random random = {.state = 7};

	for (unsigned i = 0; i < 20000; i++) {
		struct limit_rule  r = rule((enum limit_algorithm)(LIMIT_FIXED + random_below(&random, 3)),
		                            1 + random_below(&random, 50), i % 3 == 0 ? month : minute);
		struct limit_state s = {0}, before;
		int64_t            now = at("2026-01-31T23:59:30Z");
		uint64_t           cost = 1 + random_below(&random, r.limit);

		for (unsigned j = 0; j < 80; j++) {
			now += (int64_t)random_below(&random, 2 * S_US);
			if (!take(&r, &s, now, 1 + random_below(&random, r.limit)).allowed)
				break;
		}
		before = s;
		if (!take(&r, &before, now, cost).allowed)
			assert_wait_is_exact(&r, &s, now, cost);
	}
}

TEST(limit, a_cost_of_all_passes_and_one_more_never_does)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule  r = rule(i, LIMIT_UNITS_MAX, month);
		struct limit_state s = {0};

		assert_int_equal(take(&r, &s, at("2026-05-04T12:00:00Z"), LIMIT_UNITS_MAX + 1).retry_after_us,
		                 LIMIT_NEVER);
		assert_true(take(&r, &s, at("2026-05-04T12:00:00Z"), LIMIT_UNITS_MAX).allowed);
		assert_false(take(&r, &s, at("2026-05-04T12:00:00Z"), 1).allowed);
	}
}

TEST(limit, peeking_and_refusing_change_nothing)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule  r = rule(i, 5, hour);
		struct limit_state s = {0}, before;
		int64_t            now = at("2026-05-04T12:00:00Z");

		assert_int_equal(take(&r, &s, now, 3).remaining, 2);
		before = s;
		assert_int_equal(take(&r, &s, now + 1, 0).remaining, 2);
		assert_false(take(&r, &s, now + 1, 4).allowed);
		assert_memory_equal(&s, &before, sizeof(s));
	}
}

TEST(limit, near_is_said_from_the_policys_share_on)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule  r = rule(i, 10, hour);
		struct limit_state s = {0};
		int64_t            now = at("2026-05-04T12:00:00Z");

		assert_false(take(&r, &s, now, 9).near);
		s = (struct limit_state){0};
		r.near_permille = 800;
		assert_false(take(&r, &s, now, 7).near);
		assert_true(take(&r, &s, now, 1).near);
		assert_true(take(&r, &s, now, 5).near);
	}
}

/* ---- refunds ---- */

TEST(limit, a_refund_gives_back_what_was_taken_and_never_more)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule   r = rule(i, 5, hour);
		struct limit_state  s = {0};
		int64_t             now = at("2026-05-04T12:00:00Z");
		struct limit_answer a;

		take(&r, &s, now, 4);
		limit_give(&r, &s, now, 3, &a);
		assert_int_equal(a.remaining, 4);
		limit_give(&r, &s, now, LIMIT_UNITS_MAX, &a);
		assert_int_equal(a.remaining, 5);
		assert_int_equal(take_many(&r, &s, now, 20), 5);
	}
}

TEST(sliding, a_refund_after_the_edge_comes_off_the_window_before)
{
	struct limit_rule   r = rule(LIMIT_SLIDING, 10, minute);
	struct limit_state  s = {0};
	struct limit_answer a;

	take(&r, &s, at("2026-05-04T12:00:59Z"), 10);
	limit_give(&r, &s, at("2026-05-04T12:01:00Z"), 4, &a);
	assert_int_equal(a.remaining, 4);
}

/* ---- time ---- */

TEST(limit, a_clock_that_goes_back_never_reopens_a_window)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule  r = rule(i, 5, minute);
		struct limit_state s = {0};

		assert_int_equal(take_many(&r, &s, at("2026-05-04T12:01:00Z"), 20), 5);
		assert_int_equal(take_many(&r, &s, at("2026-05-04T12:00:59Z"), 20), 0);
		assert_int_equal(take_many(&r, &s, at("2026-05-04T11:00:00Z"), 20), 0);
		assert_int_equal(take(&r, &s, at("2026-05-04T12:00:50Z"), 5).retry_after_us,
		                 (i == LIMIT_SLIDING ? 130 : 70) * S_US);
		assert_int_equal(take_many(&r, &s, at("2026-05-04T12:03:00Z"), 20), 5);
	}
}

TEST(limit, a_state_of_another_algorithm_counts_as_empty)
{
	struct limit_rule  fixed = rule(LIMIT_FIXED, 5, minute), gcra = rule(LIMIT_GCRA, 5, minute);
	struct limit_state s = {0};
	int64_t            now = at("2026-05-04T12:00:00Z");

	take(&fixed, &s, now, 5);
	assert_int_equal(take_many(&gcra, &s, now, 20), 5);
	assert_int_equal(take_many(&fixed, &s, now, 20), 5);
}

TEST(limit, a_rule_with_longer_windows_goes_on_with_the_count)
{
	struct limit_rule  r = rule(LIMIT_FIXED, 5, minute);
	struct limit_state s = {0};

	take(&r, &s, at("2026-05-04T12:34:00Z"), 3);
	r.period = hour;
	assert_int_equal(take(&r, &s, at("2026-05-04T12:35:00Z"), 1).remaining, 1);
	assert_int_equal(take(&r, &s, at("2026-05-04T13:00:00Z"), 1).remaining, 4);
}

/* From the expiry on, and not a microsecond before, a state answers like an empty one. */
TEST(limit, an_expired_state_is_like_none)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule  r = rule(i, 7, minute);
		struct limit_state s = {0};
		int64_t            expiry;

		take(&r, &s, at("2026-05-04T12:00:07Z"), 7);
		expiry = limit_expiry(&r, &s);
		assert_int_equal(take(&r, &s, expiry, 0).remaining, 7);
		assert_int_equal(take(&r, &s, expiry - 2, 0).remaining, i == LIMIT_FIXED ? 0 : 6);
	}
}

/* ---- looks, blocks, what is reported ---- */

TEST(limit, a_look_at_an_exhausted_limit_is_refused_with_the_wait_for_one_unit)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule   r = rule(i, 6, minute);
		struct limit_state  s = {0};
		struct limit_answer look, one;
		int64_t             now = at("2026-05-04T12:00:15Z");

		assert_true(take(&r, &s, now, 0).allowed);
		take(&r, &s, now, 5);
		assert_true(take(&r, &s, now, 0).allowed);
		take(&r, &s, now, 1);
		look = take(&r, &s, now, 0);
		one = take(&r, &s, now, 1);
		assert_false(look.allowed);
		assert_true(look.retry_after_us > 0 && look.retry_after_us == one.retry_after_us);
		assert_true(take(&r, &s, now + look.retry_after_us, 0).allowed);
	}
}

TEST(gcra, reports_the_configured_limit_and_what_is_left_of_the_burst)
{
	struct limit_rule   r = rule(LIMIT_GCRA, 60, minute);
	struct limit_state  s = {0};
	struct limit_answer a;

	r.burst = 20;
	a = take(&r, &s, at("2026-05-04T12:00:00Z"), 1);
	assert_int_equal(a.limit, 60);
	assert_int_equal(a.remaining, 19);
	a = take(&r, &s, at("2026-05-04T12:00:00Z"), 21);
	assert_int_equal(a.limit, 60);
	assert_int_equal(a.reason, LIMIT_COST_ABOVE);
}

static bool refuse_and_block(const struct limit_rule *r, struct limit_state *s, int64_t now, uint64_t cost,
                             struct limit_answer *out)
{
	limit_take(r, s, now, cost, out);
	return limit_block(r, s, now, cost, out);
}

TEST(block, a_refused_key_stays_refused_for_so_long_and_asking_again_does_not_prolong_it)
{
	for (enum limit_algorithm i = LIMIT_FIXED; i <= LIMIT_GCRA; i++) {
		struct limit_rule   r = rule(i, 2, (struct limit_period){S_US});
		struct limit_state  s = {0};
		struct limit_answer a;
		int64_t             now = at("2026-05-04T12:00:00Z");

		r.block_us = 30 * S_US;
		take(&r, &s, now, 2);
		assert_true(refuse_and_block(&r, &s, now, 1, &a));
		assert_false(a.allowed);
		assert_int_equal(a.reason, LIMIT_BLOCKED);
		assert_int_equal(a.remaining, 0);
		assert_int_equal(a.retry_after_us, 30 * S_US);
		assert_int_equal(a.reset_us, 30 * S_US);
		assert_true(limit_expiry(&r, &s) >= now + 30 * S_US);
		for (int64_t later = 0; later < 30; later += 7) {
			assert_false(refuse_and_block(&r, &s, now + later * S_US, 1, &a));
			assert_false(a.allowed);
			assert_int_equal(a.retry_after_us, (30 - later) * S_US);
			assert_false(take(&r, &s, now + later * S_US, 0).allowed);
		}
		assert_false(take(&r, &s, now + 30 * S_US - 1, 1).allowed);
		assert_true(take(&r, &s, now + 30 * S_US, 2).allowed);
		assert_true(refuse_and_block(&r, &s, now + 30 * S_US, 1, &a)); /* a new one */
		assert_int_equal(a.retry_after_us, 30 * S_US);
	}
}

TEST(block, lasts_at_least_until_there_is_room)
{
	struct limit_rule   r = rule(LIMIT_FIXED, 2, hour);
	struct limit_state  s = {0};
	struct limit_answer a;
	int64_t             now = at("2026-05-04T12:00:00Z");

	r.block_us = 30 * S_US;
	take(&r, &s, now, 2);
	assert_true(refuse_and_block(&r, &s, now, 1, &a));
	assert_int_equal(a.retry_after_us, 3600 * S_US);
}

TEST(block, is_not_begun_by_a_look_or_by_a_cost_that_could_never_be_met)
{
	struct limit_rule   r = rule(LIMIT_FIXED, 2, minute);
	struct limit_state  s = {0};
	struct limit_answer a;
	int64_t             now = at("2026-05-04T12:00:00Z");

	r.block_us = 3600 * S_US;
	assert_false(refuse_and_block(&r, &s, now, 3, &a));
	assert_int_equal(a.retry_after_us, LIMIT_NEVER);
	take(&r, &s, now, 2);
	assert_false(refuse_and_block(&r, &s, now, 0, &a));
	assert_false(a.allowed);
	assert_true(take(&r, &s, now + 60 * S_US, 1).allowed);
}

TEST(block, is_not_ended_by_a_refund_and_is_by_a_rule_without_one)
{
	struct limit_rule   r = rule(LIMIT_GCRA, 2, minute);
	struct limit_state  s = {0};
	struct limit_answer a;
	int64_t             now = at("2026-05-04T12:00:00Z");

	r.block_us = 3600 * S_US;
	take(&r, &s, now, 2);
	assert_true(refuse_and_block(&r, &s, now, 1, &a));
	limit_give(&r, &s, now, 2, &a);
	assert_true(a.allowed && a.remaining == 0);
	assert_false(take(&r, &s, now, 1).allowed);
	r.block_us = 60 * S_US; /* shorter: from its beginning on */
	assert_int_equal(take(&r, &s, now + S_US, 1).retry_after_us, 59 * S_US);
	r.block_us = 0;
	assert_true(take(&r, &s, now, 1).allowed);
}

/* The clock was an hour ahead when it began: that is no reason to refuse for an hour. */
TEST(block, that_begins_more_than_its_length_from_now_does_not_count)
{
	struct limit_rule  r = rule(LIMIT_GCRA, 2, minute);
	struct limit_state s = {.algorithm = LIMIT_GCRA, .blocked_us = at("2026-05-04T13:00:00Z")};

	r.block_us = 60 * S_US;
	assert_false(take(&r, &s, at("2026-05-04T12:59:00Z"), 0).allowed);
	assert_true(take(&r, &s, at("2026-05-04T12:58:59Z"), 0).allowed);
}

TEST(block, survives_another_algorithm)
{
	struct limit_rule   r = rule(LIMIT_FIXED, 2, minute);
	struct limit_state  s = {0};
	struct limit_answer a;
	int64_t             now = at("2026-05-04T12:00:00Z");

	r.block_us = 60 * S_US;
	take(&r, &s, now, 2);
	assert_true(refuse_and_block(&r, &s, now, 1, &a));
	r.algorithm = LIMIT_GCRA;
	assert_false(take(&r, &s, now, 1).allowed);
	assert_true(take(&r, &s, now + 60 * S_US, 1).allowed);
}

/* ---- simulations ---- */

/* Gaps of all sizes: bursts within a microsecond, a steady load near the limit, quiet for several windows. */
static int64_t random_gap(struct random *r)
{
	static const uint64_t bounds[] = {1, 1000, 100000, 700000};

	return (int64_t)random_below(r, random_below(r, 1000) == 0 ? 40 * (uint64_t)S_US
	                                                           : bounds[random_below(r, 4)]);
}

/* The log of all that was allowed, in two places of a window and one before: counted anew for each request. */
struct log_of_windows {
	int64_t  window[2];
	uint64_t units[2];
};

static uint64_t log_units(const struct log_of_windows *l, int64_t window)
{
	return (l->window[0] == window ? l->units[0] : 0) + (l->window[1] == window ? l->units[1] : 0);
}

static void log_add(struct log_of_windows *l, int64_t window, uint64_t units)
{
	unsigned at_ = (unsigned)(window % 2);

	if (l->window[at_] != window)
		l->units[at_] = 0;
	l->window[at_] = window;
	l->units[at_] += units;
}

TEST(sliding, agrees_with_an_exact_simulation)
{
	struct random         random = {.state = 11};
	struct limit_rule     r = rule(LIMIT_SLIDING, 37, (struct limit_period){7 * S_US});
	struct limit_state    s = {0};
	struct log_of_windows l = {0};
	int64_t  now = at("2026-05-04T00:00:00Z"), start = limit_window_at(r.period, now).start_us;
	unsigned allowed = 0;

	for (unsigned i = 0; i < SIMULATED_REQUESTS; i++) {
		uint64_t cost = random_below(&random, 4);
		int64_t  window, rest;
		__int128 used;
		bool     may;

		now += random_gap(&random);
		window = 2 + (now - start) / (7 * S_US);
		rest = 7 * S_US - (now - start) % (7 * S_US); /* how much of the window before still counts */
		used = (__int128)log_units(&l, window - 1) * rest +
		       (__int128)(log_units(&l, window) + (cost == 0 ? 1 : cost)) * 7 * S_US;
		may = used <= (__int128)37 * 7 * S_US;
		if (take(&r, &s, now, cost).allowed != may)
			fail_msg("request %u differs", i);
		if (may)
			log_add(&l, window, cost);
		allowed += may;
	}
	assert_in_range(allowed, SIMULATED_REQUESTS / 10, SIMULATED_REQUESTS * 9 / 10);
}

/* The other way to see it: a bucket of tokens that fills as time passes. Tokens in 1/period, so it is exact too. */
TEST(gcra, agrees_with_an_exact_simulation)
{
	struct random     random = {.state = 13};
	struct limit_rule r =
	        rule(LIMIT_GCRA, 31, (struct limit_period){7 * S_US}); /* 7 s / 31 is never whole */
	struct limit_state s = {0};
	int64_t            now = at("2026-05-04T00:00:00Z");
	__int128           full = (__int128)19 * 7 * S_US, tokens = full;
	unsigned           allowed = 0;

	r.burst = 19;
	for (unsigned i = 0; i < SIMULATED_REQUESTS; i++) {
		int64_t  gap = random_gap(&random);
		uint64_t cost = random_below(&random, 4);
		bool     may;

		now += gap;
		tokens += (__int128)gap * 31;
		tokens = tokens > full ? full : tokens;
		may = tokens >= (__int128)(cost == 0 ? 1 : cost) * 7 * S_US;
		tokens -= may ? (__int128)cost * 7 * S_US : 0;
		if (take(&r, &s, now, cost).allowed != may)
			fail_msg("request %u differs", i);
		assert_int_equal(take(&r, &s, now, 0).remaining, tokens / (7 * S_US));
		allowed += may;
	}
	assert_in_range(allowed, SIMULATED_REQUESTS / 10, SIMULATED_REQUESTS * 9 / 10);
}
