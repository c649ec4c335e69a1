/* A limit in several states: never more passes than with one, and how much less; laid out anew, nothing is forgotten. */
#include "test.h"

#include "random.h"
#include "service/limit_shard.h"

#define S_US    INT64_C(1000000)
#define NOON_US (INT64_C(1789041600) * S_US)

static const enum limit_algorithm algorithms[] = {LIMIT_FIXED, LIMIT_SLIDING, LIMIT_GCRA};

static struct limit_rule rule_of(enum limit_algorithm algorithm, uint64_t limit, uint64_t burst)
{
	return (struct limit_rule){.algorithm = algorithm,
	                           .limit = limit,
	                           .period = {60 * S_US},
	                           .burst = algorithm == LIMIT_GCRA ? burst : 0};
}

static const struct limit_part *of(struct limit_part *part, const struct limit_rule *rule)
{
	part->rule = rule;
	return part;
}

TEST(limit_shard, shares_add_up_to_the_limit)
{
	for (unsigned shards = 1; shards <= LIMIT_SHARDS_MAX; shards++)
		for (uint64_t limit = shards; limit < 100; limit += 7) {
			struct limit_rule rule = rule_of(LIMIT_GCRA, limit, limit + 3);
			uint64_t          limits = 0, bursts = 0;

			for (unsigned i = 0; i < shards; i++) {
				struct limit_rule own = limit_shard_rule(&rule, shards, i);

				assert_true(own.limit > 0 && own.burst > 0);
				limits += own.limit;
				bursts += own.burst;
			}
			assert_int_equal(limits, rule.limit);
			assert_int_equal(bursts, rule.burst);
			assert_true(limit_rule_divides(&rule, shards));
		}
}

TEST(limit_shard, a_limit_smaller_than_its_shards_or_a_shard_that_never_drains_is_none)
{
	struct limit_rule small = rule_of(LIMIT_FIXED, 3, 0), slow = rule_of(LIMIT_GCRA, 3, 4);

	assert_true(limit_rule_divides(&small, 3));
	assert_false(limit_rule_divides(&small, 4));
	slow.limit = 4;
	slow.burst = 3;
	assert_false(limit_rule_divides(&slow, 4));
	slow = (struct limit_rule){
	        .algorithm = LIMIT_GCRA, .limit = 3, .period = {86400 * S_US}, .burst = 3 * 36600};
	assert_true(limit_rule_divides(&slow, 1));
	assert_false(limit_rule_divides(&slow, 2)); /* 54900 units at one a day */
}

/* What a stream of calls takes of one state and of several, over the same times. */
struct race {
	struct limit_rule  rule;
	struct limit_part  all;
	struct limit_state one, many[LIMIT_SHARDS_MAX];
	int64_t            now_us;
	uint64_t           passed_one, passed_many;
};

static void race_open(struct race *r, struct limit_rule rule, unsigned shards)
{
	*r = (struct race){.rule = rule, .all = {shards, 0, shards, NULL}, .now_us = NOON_US};
}

/* As limit_table.c does it: one at random, and all of them if that has too little. */
static bool take(struct race *r, struct random *random, uint64_t cost)
{
	unsigned            i = (unsigned)random_below(random, r->all.shards);
	struct limit_part   one = {r->all.shards, i, 1, NULL};
	struct limit_answer answer;

	limit_part_take(of(&one, &r->rule), &r->many[i], r->now_us, cost, &answer);
	if (!answer.allowed)
		limit_part_take(of(&r->all, &r->rule), r->many, r->now_us, cost, &answer);
	r->passed_many += answer.allowed ? cost : 0;
	return answer.allowed;
}

static uint64_t left(struct race *r)
{
	struct limit_state  copy[LIMIT_SHARDS_MAX];
	struct limit_answer answer;

	memcpy(copy, r->many, sizeof(copy));
	limit_part_take(of(&r->all, &r->rule), copy, r->now_us, 0, &answer);
	return answer.remaining;
}

/* (1) and (2): at every moment, what all shards have left is what one state of the same units would have, but for roundings. */
TEST(limit_shard, of_windows_as_much_passes_as_of_one_state_but_for_less_than_a_unit_a_shard)
{
	struct random random = {.state = 5};

	for (unsigned run = 0; run < 400; run++) {
		enum limit_algorithm algorithm = run % 2 == 0 ? LIMIT_FIXED : LIMIT_SLIDING;
		unsigned             shards = 2 + (unsigned)random_below(&random, LIMIT_SHARDS_MAX - 1);
		struct race          r;
		struct limit_answer  answer;

		race_open(&r, rule_of(algorithm, shards + random_below(&random, 200), 0), shards);
		for (unsigned i = 0; i < 300; i++) {
			uint64_t           cost = 1 + random_below(&random, 1 + r.rule.limit / 4);
			struct limit_state before = r.one;
			uint64_t           room;

			r.now_us += (int64_t)random_below(&random, 2 * 60 * (uint64_t)S_US / 20);
			limit_take(&r.rule, &before, r.now_us, 0, &answer);
			room = answer.remaining;
			assert_true(left(&r) <= room);
			assert_true(left(&r) + (algorithm == LIMIT_FIXED ? 0 : shards - 1) >= room);
			if (!take(&r, &random, cost))
				continue;
			limit_take(&r.rule, &r.one, r.now_us, cost, &answer); /* the same units */
			assert_true(answer.allowed);
		}
	}
}

/* (1), (2) and (3) of GCRA: a stream that asks for more than there is gets the burst and what comes back, less a unit a shard. */
TEST(limit_shard, of_gcra_never_more_passes_than_burst_and_rate_and_under_load_not_much_less)
{
	struct random random = {.state = 6};

	for (unsigned run = 0; run < 200; run++) {
		unsigned shards = 2 + (unsigned)random_below(&random, LIMIT_SHARDS_MAX - 1);
		uint64_t limit = shards + random_below(&random, 300);
		uint64_t burst =
		        3 * shards + random_below(&random, 100); /* no shard is full between two asks */
		struct race r;
		uint64_t    most;

		race_open(&r, rule_of(LIMIT_GCRA, limit, burst), shards);
		for (unsigned i = 0; i < 600; i++) { /* one minute, ten times a second, as many as pass */
			while (take(&r, &random, 1))
				;
			most = burst + limit * (uint64_t)(r.now_us - NOON_US) / (60 * (uint64_t)S_US);
			assert_true(r.passed_many <= most);
			assert_true(r.passed_many + shards > most);
			r.now_us += S_US / 10;
		}
		r.now_us +=
		        (int64_t)((burst + shards - 1) / shards * 60 * (uint64_t)S_US / (limit / shards)) + 1;
		assert_int_equal(left(&r), burst); /* (3) */
	}
}

TEST(limit_shard, a_cost_greater_than_any_share_is_taken_of_several)
{
	for (unsigned a = 0; a < 3; a++) {
		struct limit_rule   rule = rule_of(algorithms[a], 100, 100);
		struct limit_part   all = {4, 0, 4, NULL};
		struct limit_state  states[4] = {{0}};
		struct limit_answer answer;

		limit_part_take(of(&all, &rule), states, NOON_US, 70, &answer);
		assert_true(answer.allowed);
		assert_int_equal(answer.limit, 100);
		assert_int_equal(answer.remaining, 30);
		limit_part_take(of(&all, &rule), states, NOON_US, 31, &answer);
		assert_false(answer.allowed);
		limit_part_take(of(&all, &rule), states, NOON_US, 30, &answer);
		assert_true(answer.allowed);
		assert_int_equal(answer.remaining, 0);
		limit_part_take(of(&all, &rule), states, NOON_US, 101, &answer);
		assert_int_equal(answer.reason, LIMIT_COST_ABOVE);
		assert_int_equal(answer.retry_after_us, LIMIT_NEVER);
	}
}

/* The wait that an answer tells is the first moment at which the call passes. */
TEST(limit_shard, after_the_wait_it_passes_and_not_before)
{
	struct random random = {.state = 7};

	for (unsigned run = 0; run < 300; run++) {
		unsigned            shards = 2 + (unsigned)random_below(&random, LIMIT_SHARDS_MAX - 1);
		struct race         r;
		struct limit_state  copy[LIMIT_SHARDS_MAX];
		struct limit_answer answer;
		uint64_t            cost;

		race_open(&r, rule_of(algorithms[run % 3], shards + random_below(&random, 90), 2 * shards),
		          shards);
		while (take(&r, &random, 1))
			r.now_us += (int64_t)random_below(&random, S_US / 50);
		cost = 1 + random_below(&random, limit_capacity(&r.rule));
		memcpy(copy, r.many, sizeof(copy));
		limit_part_take(of(&r.all, &r.rule), copy, r.now_us, cost, &answer);
		assert_false(answer.allowed);
		assert_true(answer.retry_after_us > 0);
		r.now_us += answer.retry_after_us - 1;
		memcpy(copy, r.many, sizeof(copy));
		limit_part_take(of(&r.all, &r.rule), copy, r.now_us, cost, &answer);
		assert_false(answer.allowed);
		r.now_us++;
		limit_part_take(of(&r.all, &r.rule), copy, r.now_us, cost, &answer);
		assert_true(answer.allowed);
	}
}

TEST(limit_shard, a_refund_gives_back_what_was_taken_and_no_more)
{
	for (unsigned a = 0; a < 3; a++) {
		struct random       random = {.state = 8 + a};
		struct limit_answer answer;
		struct race         r;

		race_open(&r, rule_of(algorithms[a], 50, 50), 4);
		for (unsigned i = 0; i < 30; i++)
			assert_true(take(&r, &random, 1));
		limit_part_give(of(&r.all, &r.rule), r.many, r.now_us, 12, &answer);
		assert_true(answer.allowed);
		assert_int_equal(answer.remaining, 32);
		limit_part_give(of(&r.all, &r.rule), r.many, r.now_us, 1000, &answer);
		assert_int_equal(answer.remaining, 50);
		for (unsigned i = 0; i < 50; i++)
			assert_true(take(&r, &random, 1));
		assert_false(take(&r, &random, 1));
	}
}

TEST(limit_shard, a_refund_of_a_sliding_count_takes_the_newest_first)
{
	struct random       random = {.state = 9};
	struct limit_answer answer;
	struct race         r;
	uint64_t            counts = 0, before = 0;

	race_open(&r, rule_of(LIMIT_SLIDING, 50, 0), 4);
	for (unsigned i = 0; i < 40; i++)
		take(&r, &random, 1);
	r.now_us += 110 * S_US;
	for (unsigned i = 0; i < 5; i++)
		assert_true(take(&r, &random, 1));
	limit_part_give(of(&r.all, &r.rule), r.many, r.now_us, 7, &answer);
	for (unsigned i = 0; i < 4; i++) {
		counts += r.many[i].count;
		before += r.many[i].previous;
	}
	assert_int_equal(counts, 0);
	assert_int_equal(before, 38);
}

TEST(limit_shard, a_block_holds_for_every_shard_and_asking_does_not_prolong_it)
{
	struct limit_rule   rule = rule_of(LIMIT_FIXED, 8, 0);
	struct limit_part   all = {4, 0, 4, NULL}, one = {4, 2, 1, NULL};
	struct limit_state  states[4] = {{0}};
	struct limit_answer answer;

	rule.block_us = 100 * S_US;
	limit_part_take(of(&all, &rule), states, NOON_US, 8, &answer);
	limit_part_take(of(&all, &rule), states, NOON_US, 1, &answer);
	assert_true(limit_part_block(of(&all, &rule), states, NOON_US, 1, &answer));
	assert_int_equal(answer.reason, LIMIT_BLOCKED);
	assert_int_equal(answer.retry_after_us, 100 * S_US);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(states[i].blocked_us, NOON_US);
	limit_part_take(of(&one, &rule), &states[2], NOON_US + 61 * S_US, 1, &answer);
	assert_false(answer.allowed);
	assert_int_equal(answer.reason, LIMIT_BLOCKED);
	assert_false(limit_part_block(of(&one, &rule), &states[2], NOON_US + 61 * S_US, 1, &answer));
	limit_part_take(of(&all, &rule), states, NOON_US + 61 * S_US, 1, &answer);
	assert_int_equal(answer.retry_after_us, 39 * S_US);
	assert_false(limit_part_block(of(&all, &rule), states, NOON_US + 61 * S_US, 1, &answer));
	limit_part_take(of(&all, &rule), states, NOON_US + 100 * S_US, 8, &answer);
	assert_true(answer.allowed);
}

/* (4) From any layout to any other, also with another limit: never more units are left than one state would have. */
TEST(limit_shard, laid_out_anew_nothing_is_forgotten)
{
	struct random random = {.state = 10};

	for (unsigned run = 0; run < 600; run++) {
		unsigned            from = 1 + (unsigned)random_below(&random, LIMIT_SHARDS_MAX);
		unsigned            to = 1 + (unsigned)random_below(&random, LIMIT_SHARDS_MAX);
		struct limit_state  laid[LIMIT_SHARDS_MAX];
		struct limit_answer answer;
		struct race         r;
		uint64_t            was;

		race_open(&r,
		          rule_of(algorithms[run % 3], 16 + random_below(&random, 300),
		                  16 + random_below(&random, 50)),
		          from);
		for (unsigned i = 0; i < 200; i++) {
			take(&r, &random, 1);
			r.now_us += (int64_t)random_below(&random, S_US);
		}
		was = left(&r);
		limit_shards_lay(&r.rule, (struct limit_states){r.many, from},
		                 (struct limit_states){laid, to}, r.now_us);
		memcpy(r.many, laid, sizeof(laid));
		r.all = (struct limit_part){to, 0, to, NULL};
		assert_true(left(&r) <=
		            was + (r.rule.algorithm == LIMIT_FIXED ? 0 : from)); /* its own roundings */
		assert_true(left(&r) + from + 3 * (uint64_t)to >= was);
		limit_part_take(of(&r.all, &r.rule), r.many, r.now_us, left(&r) + 1, &answer);
		assert_false(answer.allowed);
	}
}

TEST(limit_shard, laid_out_for_a_lower_limit_no_shard_has_room_that_the_limit_has_not)
{
	struct limit_rule   rule = rule_of(LIMIT_FIXED, 100, 0);
	struct limit_state  before[4] = {{LIMIT_FIXED, NOON_US, 25, 0, 0}}, after[4];
	struct limit_part   all = {4, 0, 4, NULL};
	struct limit_answer answer;

	for (unsigned i = 1; i < 4; i++)
		before[i] = (struct limit_state){LIMIT_FIXED, NOON_US, 0, 0, 0};
	rule.limit = 8;
	limit_part_take(of(&all, &rule), before, NOON_US, 0, &answer);
	assert_int_equal(answer.remaining, 6); /* as they lie: three shards know nothing of the first */
	limit_shards_lay(&rule, (struct limit_states){before, 4}, (struct limit_states){after, 4}, NOON_US);
	limit_part_take(of(&all, &rule), after, NOON_US, 0, &answer);
	assert_int_equal(answer.remaining, 0);
}

TEST(limit_shard, layouts_keep_blocks_and_survive_limits_that_are_smaller_than_they)
{
	for (unsigned a = 0; a < 3; a++) {
		struct limit_rule   rule = rule_of(algorithms[a], 2, 2);
		struct limit_state  before[LIMIT_SHARDS_MAX], after;
		struct limit_part   one = {1, 0, 1, NULL};
		struct limit_answer answer;

		rule.block_us = 100 * S_US;
		for (unsigned i = 0; i < LIMIT_SHARDS_MAX; i++)
			before[i] = (struct limit_state){algorithms[a], NOON_US + (a == 2 ? 60 * S_US : 0), 1,
			                                 0, i == 3 ? NOON_US : 0};
		limit_shards_lay(&rule, (struct limit_states){before, LIMIT_SHARDS_MAX},
		                 (struct limit_states){&after, 1}, NOON_US + S_US);
		limit_part_take(of(&one, &rule), &after, NOON_US + S_US, 1, &answer);
		assert_false(answer.allowed);
		assert_int_equal(answer.reason, LIMIT_BLOCKED);
	}
}

/* No state that is touched now is worth something later than that. */
TEST(limit_shard, no_state_outlives_the_longest_one)
{
	struct random random = {.state = 11};

	for (unsigned run = 0; run < 300; run++) {
		struct limit_rule   rule = rule_of(algorithms[run % 3], 1 + random_below(&random, 50),
		                                   1 + random_below(&random, 90));
		struct limit_state  s = {0};
		struct limit_answer answer;
		int64_t             now_us = NOON_US;

		rule.block_us = run % 2 == 0 ? 0 : (int64_t)random_below(&random, 300) * S_US;
		for (unsigned i = 0; i < 100; i++) {
			now_us += (int64_t)random_below(&random, 2 * S_US);
			limit_take(&rule, &s, now_us, 1, &answer);
			limit_block(&rule, &s, now_us, 1, &answer);
			assert_true(limit_expiry(&rule, &s) <= limit_expiry_max(&rule, now_us));
		}
	}
}
