/* The service, in each of its ways: the eight tests of the document it grew out of, by their names; refunds, peeks,
 * shadows; what happens when the table fails. */
#include "service/limit_world.h"

/* 12:00:10 on a day: within a minute that began ten seconds ago. */
enum { NOON_S = 1789041600, NOW_S = NOON_S + 10 };

#define LIMITER "{'limiter':{'limit':3,'per':'minute','engine':'%ENGINE','prefix':'','on_failure':'open'}}"

#define SEED(behaviour)                                                                                      \
	static void seed_##behaviour(struct world *w);                                                       \
	static void seed_##behaviour##_in(enum way way)                                                      \
	{                                                                                                    \
		struct world w;                                                                              \
                                                                                                             \
		world_open(&w, way, LIMITER);                                                                \
		fixture_set_clock(&w.f, NOW_S);                                                              \
		seed_##behaviour(&w);                                                                        \
		world_close(&w);                                                                             \
	}                                                                                                    \
	TEST(DynamoDBRateLimiter, behaviour##_on_memory)                                                     \
	{                                                                                                    \
		seed_##behaviour##_in(MEMORY);                                                               \
	}                                                                                                    \
	TEST(DynamoDBRateLimiter, behaviour##_on_table)                                                      \
	{                                                                                                    \
		seed_##behaviour##_in(TABLE);                                                                \
	}                                                                                                    \
	TEST(DynamoDBRateLimiter, behaviour##_on_a_table_shared_with_others)                                 \
	{                                                                                                    \
		seed_##behaviour##_in(APART);                                                                \
	}                                                                                                    \
	static void seed_##behaviour(struct world *w)

static const char *const alice = "arn:aws:iam::123456789012:user/alice";

SEED(AllowUnderLimit)
{
	for (unsigned i = 0; i < 3; i++)
		assert_true(allowed(w, "limiter", alice));
	assert_true(allowed(w, "limiter", "another"));
}

SEED(AllowAtLimit)
{
	struct limit_call c;

	for (unsigned i = 0; i < 3; i++)
		assert_true(allowed(w, "limiter", alice));
	c = ask(w, LIMIT_TAKE, "limiter", alice, 1);
	assert_false(c.allowed);
	assert_int_equal(c.asks[0].answer.remaining, 0);
	assert_int_equal(remaining(w, "limiter", alice), 0);
}

SEED(WindowRollover)
{
	for (unsigned i = 0; i < 5; i++)
		allowed(w, "limiter", alice);
	fixture_set_clock(&w->f, NOON_S + 59);
	assert_false(allowed(w, "limiter", alice));
	fixture_set_clock(&w->f, NOON_S + 60);
	assert_true(allowed(w, "limiter", alice));
	assert_int_equal(remaining(w, "limiter", alice), 2);
}

/* ---- a table that fails ---- */

static enum err_code broken_get(struct table *t, struct arena *a, const struct table_get *q,
                                struct table_get_result *r, struct err *err)
{
	(void)t, (void)a, (void)q, (void)r;
	return err_set(err, ERR_STORAGE, "broken");
}

static enum err_code broken_transact_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                         struct table_batch_get_result *r, struct err *err)
{
	(void)t, (void)a, (void)q, (void)r;
	return err_set(err, ERR_STORAGE, "broken");
}

static const struct table_backend broken = {
        .name = "broken", .get = broken_get, .transact_get = broken_transact_get};

static enum err_code run_broken(struct world *w, struct limit_call *c)
{
	struct table  t = {.backend = &broken, .now_us = world_now_us(w)};
	enum err_code rc = world_step(w, c, &t, &w->f.arena, &w->f.err);

	return rc == ERR_NONE ? rc : limits_failed(w->limits, c, world_now_us(w), rc, &w->f.err);
}

SEED(FailOpenOnError)
{
	struct limit_call c;

	call_init(&c, LIMIT_TAKE);
	call_add(w, &c, "limiter", alice, 1);
	assert_int_equal(run_broken(w, &c), ERR_NONE);
	assert_true(c.allowed);
	assert_int_equal(c.degraded, w->way != MEMORY); /* memory needs no table */
	assert_int_equal(remaining(w, "limiter", alice), w->way == MEMORY ? 2 : 3);
}

SEED(RetryAfterCalculation)
{
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ask(w, LIMIT_TAKE, "limiter", alice, 1).retry_after_us, 0);
	assert_int_equal(ask(w, LIMIT_TAKE, "limiter", alice, 1).retry_after_us, 50 * 1000000);
	fixture_set_clock(&w->f, NOON_S + 13);
	assert_int_equal(ask(w, LIMIT_TAKE, "limiter", alice, 1).retry_after_us, 47 * 1000000);
	assert_int_equal(ask(w, LIMIT_TAKE, "limiter", alice, 1).asks[0].answer.reset_us, 47 * 1000000);
}

/* ---- many at once ---- */

SEED(ConcurrentRequests)
{
	assert_int_equal(clients_run(w, alice, 16, 4), 3);
}

SEED(KeyFormat)
{
	struct limit_top_key *top;
	unsigned              count;

	assert_true(allowed(w, "limiter", alice));
	top = limit_top_read(limits_top(w->limits, LIMITS_HOT), &w->f.arena, 10, world_now_us(w), &count);
	assert_int_equal(count, 1);
	assert_bytes(top[0].key, alice);
	if (w->way != MEMORY) {
		struct item row = world_row(w, "RL#arn:aws:iam::123456789012:user/alice");

		assert_item(&w->f, &row,
		            "{'PK':{'S':'RL#arn:aws:iam::123456789012:user/"
		            "alice'},'WindowStart':{'S':'2026-09-10T12:00:00Z'},"
		            "'Count':{'N':'1'},'TTL':{'N':'1789045260'}}");
	}
}

/* Window end and an hour; in memory the entry is worthless at the window's end, and goes with the next one that comes. */
SEED(TTLCalculation)
{
	assert_true(allowed(w, "limiter", alice));
	if (w->way != MEMORY) {
		struct item row = world_row(w, "RL#arn:aws:iam::123456789012:user/alice");

		assert_true(
		        value_equal(item_get(&row, BYTES("TTL")),
		                    &(struct value){VALUE_N, .number = number_from_i64(NOON_S + 60 + 3600)}));
		fixture_set_clock(&w->f, NOON_S + 60 + 3599);
		assert_int_not_equal(world_row(w, "RL#arn:aws:iam::123456789012:user/alice").count, 0);
		fixture_set_clock(&w->f, NOON_S + 60 + 3600);
		assert_int_equal(world_row(w, "RL#arn:aws:iam::123456789012:user/alice").count, 0);
	}
	fixture_set_clock(&w->f, NOON_S + 60 + 7200);
	assert_int_equal(remaining(w, "limiter", alice), 3);
}

/* ---- at the edge ---- */

#define EDGE "{'edge':{'limit':96,'per':'minute','engine':'%ENGINE'}}"

/* 64 clients meet a window that has just ended: one of them opens the next, nobody's request is lost or counted twice. */
static void at_the_edge(enum way way)
{
	struct world w;

	world_open(&w, way, EDGE);
	for (int minute = 0; minute < 3; minute++) {
		fixture_set_clock(&w.f, NOON_S + 60 * minute);
		assert_all_pass(&w, way, clients_run(&w, alice, 64, 3), 96);
		assert_int_equal(remaining(&w, "edge", alice), 0);
	}
	world_close(&w);
}

TEST(rollover, with_64_clients_loses_nothing_and_lets_none_through_twice_in_memory)
{
	at_the_edge(MEMORY);
}

TEST(rollover, with_64_clients_loses_nothing_and_lets_none_through_twice_in_the_table)
{
	at_the_edge(TABLE);
}

TEST(rollover, with_64_clients_loses_nothing_and_lets_none_through_twice_in_a_shared_table)
{
	at_the_edge(APART);
}

static void next_minute(struct world *w)
{
	fixture_set_clock(&w->f, NOON_S + 60);
	assert_true(allowed(w, "limiter", alice));
}

/* One reads in the last second of a window; before it writes, another opens the next. */
TEST(rollover, what_was_decided_in_an_old_window_is_decided_anew_in_the_new_one)
{
	struct world w;
	struct item  row;

	world_open(&w, APART, LIMITER);
	fixture_set_clock(&w.f, NOON_S + 59);
	assert_true(allowed(&w, "limiter", alice));
	w.between = next_minute;
	assert_true(allowed(&w, "limiter", alice));
	row = world_row(&w, "RL#arn:aws:iam::123456789012:user/alice");
	assert_item(&w.f, &row,
	            "{'PK':{'S':'RL#arn:aws:iam::123456789012:user/"
	            "alice'},'WindowStart':{'S':'2026-09-10T12:01:00Z'},"
	            "'Count':{'N':'2'},'TTL':{'N':'1789045320'}}");
	world_close(&w);
}

static void clock_goes_back(enum way way, const char *algorithm)
{
	struct world w;
	char         policies[200];

	snprintf(policies, sizeof(policies),
	         "{'p':{'algorithm':'%s','limit':3,'per':'minute','engine':'%%ENGINE'}}", algorithm);
	world_open(&w, way, policies);
	fixture_set_clock(&w.f, NOON_S + 60);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(allowed(&w, "p", alice), i < 3);
	fixture_set_clock(&w.f, NOON_S + 59);
	for (unsigned i = 0; i < 5; i++)
		assert_false(allowed(&w, "p", alice));
	fixture_set_clock(&w.f, NOON_S - 3600);
	assert_false(allowed(&w, "p", alice));
	world_close(&w);
}

TEST(limits, a_clock_that_goes_back_never_reopens_a_window)
{
	for (enum way way = 0; way < WAYS; way++) {
		clock_goes_back(way, "fixed");
		clock_goes_back(way, "sliding");
		clock_goes_back(way, "gcra");
	}
}

/* ---- rows ---- */

TEST(limit_table, rows_of_each_algorithm_look_as_documented_and_go_on_after_a_restart)
{
	struct world w;
	struct item  row;

	world_open(&w, TABLE,
	           "{'s':{'algorithm':'sliding','limit':5,'per':'hour','engine':'table'},"
	           "'g':{'algorithm':'gcra','limit':7,'per':'minute','burst':3,'engine':'table'}}");
	fixture_set_clock(&w.f, NOW_S);
	ask(&w, LIMIT_TAKE, "s", "a", 2);
	fixture_set_clock(&w.f, NOON_S + 3600);
	ask(&w, LIMIT_TAKE, "s", "a", 1);
	ask(&w, LIMIT_TAKE, "g", "a", 1);
	row = world_row(&w, "RL#s#a");
	assert_item(&w.f, &row,
	            "{'PK':{'S':'RL#s#a'},'WindowStart':{'S':'2026-09-10T13:00:00Z'},'Count':{'N':'1'},"
	            "'PrevCount':{'N':'2'},'TTL':{'N':'1789056000'}}");
	row = world_row(&w, "RL#g#a"); /* 60 s / 7 is 8571428 4/7 microseconds */
	assert_item(&w.f, &row,
	            "{'PK':{'S':'RL#g#a'},'TAT':{'N':'1789045208571428'},'TATRest':{'N':'4'},"
	            "'TTL':{'N':'1789048809'}}");
	fixture_restart(&w.f);
	assert_int_equal(remaining(&w, "s", "a"), 2);
	assert_int_equal(remaining(&w, "g", "a"), 2);
	world_close(&w);
}

/* Whatever others put into the row: it is checked, and never crashes or locks out for good. */
TEST(limit_table, a_row_that_makes_no_sense_counts_as_nothing)
{
	static const char *const rows[] = {
	        "{'PK':{'S':'RL#k'}}",
	        "{'PK':{'S':'RL#k'},'WindowStart':{'N':'1'},'Count':{'S':'x'}}",
	        "{'PK':{'S':'RL#k'},'WindowStart':{'S':'yesterday'},'Count':{'N':'3'}}",
	        "{'PK':{'S':'RL#k'},'WindowStart':{'S':'2026-09-10T12:00:00Z'},'Count':{'N':'-5'}}",
	        "{'PK':{'S':'RL#k'},'WindowStart':{'S':'2026-09-10T12:00:00Z'},'Count':{'N':'0.5'}}",
	        "{'PK':{'S':'RL#k'},'WindowStart':{'S':'2026-09-10T11:59:00Z'},'Count':{'N':'1E30'},'more':{'"
	        "M':{}}}",
	};
	struct world w;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		union answer        r;
		struct fixture_call call = {
		        .base = {.run = fixture_in_turn, .cost_bytes = 100}, .f = &w.f, .r = &r};
		char body[300];

		world_open(&w, TABLE, LIMITER);
		fixture_set_clock(&w.f, NOW_S);
		allowed(&w, "limiter", "makes the table");
		call.q = arena_zalloc(&w.f.arena, sizeof(*call.q));
		call.run = fixture_write;
		snprintf(body, sizeof(body), "{'TableName':'rate-limits','Item':%s}", rows[i]);
		assert_int_equal(request_put(&w.f.arena, fixture_json(&w.f, body), call.q, &w.f.err),
		                 ERR_NONE);
		assert_int_equal(near_or_far_run(&w.f, &call.base, &w.f.err), ERR_NONE);
		for (unsigned j = 0; j < 4; j++)
			assert_int_equal(allowed(&w, "limiter", "k"), j < 3);
		world_close(&w);
	}
}

TEST(limit_table, a_time_that_makes_no_sense_counts_as_nothing_and_can_be_refunded)
{
	static const char *const times[] = {"9223372036854775807", "-1", "253402300800000000", "1E30", "0.5"};
	struct world             w;

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		union answer        r;
		struct fixture_call call = {
		        .base = {.run = fixture_in_turn, .cost_bytes = 100}, .f = &w.f, .r = &r};
		char body[200];

		world_open(&w, TABLE, "{'g':{'algorithm':'gcra','limit':3,'per':'month','engine':'table'}}");
		allowed(&w, "g", "makes the table");
		call.q = arena_zalloc(&w.f.arena, sizeof(*call.q));
		call.run = fixture_write;
		snprintf(body, sizeof(body),
		         "{'TableName':'rate-limits','Item':{'PK':{'S':'RL#g#k'},'TAT':{'N':'%s'}}}",
		         times[i]);
		assert_int_equal(request_put(&w.f.arena, fixture_json(&w.f, body), call.q, &w.f.err),
		                 ERR_NONE);
		assert_int_equal(near_or_far_run(&w.f, &call.base, &w.f.err), ERR_NONE);
		assert_int_equal(ask(&w, LIMIT_GIVE, "g", "k", 1).asks[0].answer.remaining, 3);
		for (unsigned j = 0; j < 4; j++)
			assert_int_equal(allowed(&w, "g", "k"), j < 3);
		world_close(&w);
	}
}

/* ---- refunds, peeks, denials that are remembered ---- */

TEST(limits, a_refused_key_of_the_table_is_refused_again_without_a_turn_until_a_refund)
{
	struct world w;
	unsigned     before;

	world_open(&w, TABLE, LIMITER);
	fixture_set_clock(&w.f, NOW_S);
	for (unsigned i = 0; i < 4; i++)
		allowed(&w, "limiter", alice);
	before = atomic_load(&w.turns);
	for (unsigned i = 0; i < 100; i++) {
		struct limit_call c = ask(&w, LIMIT_TAKE, "limiter", alice, 1);

		assert_false(c.allowed);
		assert_int_equal(c.retry_after_us, 50 * 1000000);
	}
	assert_int_equal(atomic_load(&w.turns), before);
	assert_int_equal(ask(&w, LIMIT_GIVE, "limiter", alice, 1).asks[0].answer.remaining, 1);
	assert_true(allowed(&w, "limiter", alice));
	assert_false(allowed(&w, "limiter", alice));
	world_close(&w);
}

/* Five refused units say nothing about one. */
TEST(limits, a_smaller_cost_than_the_refused_one_is_asked)
{
	struct world w;

	world_open(&w, TABLE, LIMITER);
	fixture_set_clock(&w.f, NOW_S);
	assert_false(ask(&w, LIMIT_TAKE, "limiter", alice, 5).allowed);
	assert_int_equal(ask(&w, LIMIT_TAKE, "limiter", alice, 5).retry_after_us, LIMIT_NEVER);
	assert_true(ask(&w, LIMIT_TAKE, "limiter", alice, 3).allowed);
	world_close(&w);
}

/* What was taken since a refusal counts in the next one, whether or not the first is remembered. */
TEST(limits, a_cost_that_is_refused_again_is_told_what_is_left_now)
{
	for (enum way way = 0; way < WAYS; way++) {
		struct world      w;
		struct limit_call c;

		world_open(
		        &w, way,
		        "{'slow':{'algorithm':'gcra','limit':10,'per':'day','burst':5,'engine':'%ENGINE'}}");
		fixture_set_clock(&w.f, NOW_S);
		assert_true(ask(&w, LIMIT_TAKE, "slow", alice, 2).allowed);
		c = ask(&w, LIMIT_TAKE, "slow", alice, 4);
		assert_int_equal(c.asks[0].answer.remaining, 3);
		assert_int_equal(c.retry_after_us, 8640 * INT64_C(1000000));
		assert_true(ask(&w, LIMIT_TAKE, "slow", alice, 1).allowed);
		c = ask(&w, LIMIT_TAKE, "slow", alice, 4);
		assert_int_equal(c.asks[0].answer.remaining, 2);
		assert_int_equal(c.retry_after_us, 2 * 8640 * INT64_C(1000000));
		world_close(&w);
	}
}

TEST(limits, a_policy_that_changed_forgets_what_was_refused_and_keeps_what_was_counted)
{
	for (enum way way = 0; way < WAYS; way++) {
		struct world w;

		world_open(&w, way, LIMITER);
		fixture_set_clock(&w.f, NOW_S);
		for (unsigned i = 0; i < 4; i++)
			allowed(&w, "limiter", alice);
		world_use(&w, "{'limiter':{'limit':4,'per':'minute','engine':'%ENGINE','prefix':''}}");
		assert_true(allowed(&w, "limiter", alice));
		assert_false(allowed(&w, "limiter", alice));
		world_close(&w);
	}
}

TEST(limits, a_row_that_others_removed_is_seen_within_seconds)
{
	struct world w;

	world_open(&w, TABLE, "{'limiter':{'limit':1,'per':'month','engine':'table','prefix':''}}");
	fixture_set_clock(&w.f, NOW_S);
	assert_true(allowed(&w, "limiter", "k"));
	assert_false(allowed(&w, "limiter", "k"));
	{
		union answer        r;
		struct fixture_call call = {
		        .base = {.run = fixture_in_turn, .cost_bytes = 100}, .f = &w.f, .r = &r};

		call.q = arena_zalloc(&w.f.arena, sizeof(*call.q));
		call.run = fixture_write;
		assert_int_equal(
		        request_delete(
		                &w.f.arena,
		                fixture_json(&w.f, "{'TableName':'rate-limits','Key':{'PK':{'S':'RL#k'}}}"),
		                call.q, &w.f.err),
		        ERR_NONE);
		assert_int_equal(near_or_far_run(&w.f, &call.base, &w.f.err), ERR_NONE);
	}
	fixture_set_clock(&w.f, NOW_S + 5);
	assert_true(allowed(&w, "limiter", "k"));
	world_close(&w);
}

TEST(limits, peeks_take_nothing_and_need_no_turn)
{
	for (enum way way = 0; way < WAYS; way++) {
		struct world w;

		world_open(&w, way, LIMITER);
		fixture_set_clock(&w.f, NOW_S);
		for (unsigned i = 0; i < 10; i++)
			assert_int_equal(remaining(&w, "limiter", alice), 3);
		assert_int_equal(atomic_load(&w.turns), 0);
		world_close(&w);
	}
}

/* ---- shadow ---- */

TEST(limits, a_shadow_policy_reports_and_never_refuses)
{
	for (enum way way = 0; way < WAYS; way++) {
		struct world           w;
		struct limit_policies *set;

		world_open(&w, way,
		           "{'s':{'limit':1,'per':'minute','engine':'%ENGINE','shadow':true},"
		           "'p':{'limit':2,'per':'minute','engine':'%ENGINE'}}");
		fixture_set_clock(&w.f, NOW_S);
		for (unsigned i = 0; i < 3; i++) {
			struct limit_call c;

			call_init(&c, LIMIT_TAKE);
			call_add(&w, &c, "s", alice, 1);
			call_add(&w, &c, "p", alice, 1);
			assert_int_equal(world_run(&w, &c, &w.f.arena, &w.f.err), ERR_NONE);
			assert_int_equal(c.allowed, i < 2);
			assert_int_equal(c.asks[0].answer.allowed, i == 0);
		}
		set = limits_policies(w.limits);
		assert_int_equal(metric_value(&limit_policies_find(set, BYTES("s"))->counts->shadowed), 2);
		assert_int_equal(metric_value(&limit_policies_find(set, BYTES("s"))->counts->denied), 0);
		assert_int_equal(metric_value(&limit_policies_find(set, BYTES("p"))->counts->denied), 1);
		limit_policies_release(set);
		world_close(&w);
	}
}

/* ---- failing ---- */

#define MIXED                                                                                                \
	"{'memory':{'limit':5,'per':'minute'},'open':{'limit':3,'per':'minute','engine':'table'},"           \
	"'closed':{'limit':3,'per':'minute','engine':'table','on_failure':'closed'}}"

static void two_asks(struct world *w, struct limit_call *c, const char *second)
{
	call_init(c, LIMIT_TAKE);
	call_add(w, c, "memory", alice, 1);
	call_add(w, c, second, alice, 1);
}

TEST(limits, a_closed_policy_refuses_when_its_table_fails_and_takes_nothing)
{
	struct world      w;
	struct limit_call c;

	world_open(&w, TABLE, MIXED);
	two_asks(&w, &c, "closed");
	assert_int_equal(run_broken(&w, &c), ERR_OVERLOADED);
	assert_int_equal(remaining(&w, "memory", alice), 5);
	two_asks(&w, &c, "open");
	assert_int_equal(run_broken(&w, &c), ERR_NONE);
	assert_true(c.allowed && c.degraded);
	assert_int_equal(remaining(&w, "memory", alice), 4);
	world_close(&w);
}

TEST(limits, a_call_that_never_reached_the_table_still_asks_memory)
{
	struct world      w;
	struct limit_call c;

	world_open(&w, TABLE, MIXED);
	for (unsigned i = 0; i < 6; i++) {
		two_asks(&w, &c, "open");
		assert_int_equal(limits_failed(w.limits, &c, world_now_us(&w), ERR_OVERLOADED, &w.f.err),
		                 ERR_NONE);
		assert_int_equal(c.allowed, i < 5);
	}
	world_close(&w);
}

/* Its Idempotency-Key could not be kept, say: that is no reason to allow it. */
TEST(limits, a_refusal_whose_commit_failed_is_still_a_refusal)
{
	struct world      w;
	struct limit_call c;

	world_open(&w, TABLE, MIXED);
	ask(&w, LIMIT_TAKE, "open", alice, 3);
	two_asks(&w, &c, "open");
	assert_int_equal(world_run(&w, &c, &w.f.arena, &w.f.err), ERR_NONE);
	assert_false(c.allowed);
	assert_int_equal(limits_failed(w.limits, &c, world_now_us(&w), ERR_STORAGE, &w.f.err), ERR_NONE);
	assert_false(c.allowed || c.degraded);
	assert_int_equal(remaining(&w, "memory", alice), 5);
	world_close(&w);
}

/* Its commit may have been done. */
TEST(limits, a_closed_policy_whose_commit_has_an_unknown_outcome_does_not_say_that_nothing_was_done)
{
	struct world      w;
	struct limit_call c;

	world_open(&w, TABLE, MIXED);
	two_asks(&w, &c, "closed");
	assert_int_equal(world_run(&w, &c, &w.f.arena, &w.f.err), ERR_NONE);
	assert_true(c.allowed);
	assert_int_equal(limits_failed(w.limits, &c, world_now_us(&w), ERR_STORAGE, &w.f.err), ERR_STORAGE);
	assert_int_equal(remaining(&w, "memory", alice), 5);
	world_close(&w);
}

/* Tables that are busy failed, whoever asked. */
TEST(limits, a_busy_table_is_a_failure_like_any_other)
{
	struct world      w;
	struct limit_call c;

	world_open(&w, TABLE, MIXED);
	two_asks(&w, &c, "closed");
	assert_int_equal(limits_failed(w.limits, &c, world_now_us(&w), ERR_THROTTLED, &w.f.err),
	                 ERR_OVERLOADED);
	assert_int_equal(remaining(&w, "memory", alice), 5);
	two_asks(&w, &c, "open");
	assert_int_equal(limits_failed(w.limits, &c, world_now_us(&w), ERR_THROTTLED, &w.f.err), ERR_NONE);
	assert_true(c.allowed && c.degraded);
	assert_int_equal(remaining(&w, "memory", alice), 4);
	world_close(&w);
}

/* Or whoever sends much that is heavy gets by every limit that is open. */
TEST(limits, a_caller_that_asks_too_much_passes_no_limit_and_takes_nothing)
{
	static const char *const policies[] = {"open", "closed"};
	struct world             w;
	struct limit_call        c;

	world_open(&w, TABLE, MIXED);
	for (unsigned i = 0; i < 2; i++)
		for (unsigned run = 0; run < 2;
		     run++) { /* before its turn, or when it is to have another one */
			two_asks(&w, &c, policies[i]);
			if (run == 1)
				assert_int_equal(world_run(&w, &c, &w.f.arena, &w.f.err), ERR_NONE);
			assert_int_equal(
			        limits_failed(w.limits, &c, world_now_us(&w), ERR_CALLER_THROTTLED, &w.f.err),
			        ERR_CALLER_THROTTLED);
			assert_false(c.degraded);
			assert_int_equal(remaining(&w, "memory", alice), 5);
		}
	world_close(&w);
}

TEST(limits, a_call_that_is_replayed_after_all_gives_back_what_it_took)
{
	struct world      w;
	struct limit_call c;

	world_open(&w, TABLE, MIXED);
	two_asks(&w, &c, "open");
	assert_int_equal(world_run(&w, &c, &w.f.arena, &w.f.err), ERR_NONE);
	assert_int_equal(remaining(&w, "memory", alice), 4);
	assert_int_equal(limits_failed(w.limits, &c, world_now_us(&w), ERR_NONE, &w.f.err), ERR_NONE);
	assert_int_equal(remaining(&w, "memory", alice), 5);
	world_close(&w);
}

/* ---- calls ---- */

TEST(limits, a_call_takes_as_many_asks_as_the_bound_says_and_none_twice)
{
	struct world      w;
	struct limit_call c;
	char              key[8];

	world_open(&w, MEMORY, MIXED);
	call_init(&c, LIMIT_TAKE);
	for (unsigned i = 0; i < LIMIT_ASKS_MAX; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		call_add(&w, &c, "memory", key, 1);
	}
	assert_false(limit_call_add(&c, &w.f.arena, c.asks[0].policy,
	                            &(struct limit_key){.text = BYTES("one more")}, 1));
	assert_int_equal(world_run(&w, &c, &w.f.arena, &w.f.err), ERR_NONE);
	assert_true(c.allowed);
	call_init(&c, LIMIT_TAKE);
	call_add(&w, &c, "memory", "k", 1);
	assert_false(
	        limit_call_add(&c, &w.f.arena, c.asks[0].policy, &(struct limit_key){.text = BYTES("k")}, 1));
	world_close(&w);
}
