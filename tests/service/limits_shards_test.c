/* Limits that are divided over several rows, through the service: in a turn, and among others. */
#include "service/limit_world.h"

enum { NOON_S = 1789041600, NOW_S = NOON_S + 10 };

#define POLICY(algorithm, limit, more)                                                                       \
	"{'p':{'algorithm':'" algorithm "','limit':" limit ",'per':'minute','engine':'table'" more "}}"

#define IN_BOTH(behaviour)                                                                                   \
	static void both_##behaviour(struct world *w);                                                       \
	static void both_##behaviour##_in(enum way way)                                                      \
	{                                                                                                    \
		struct world w;                                                                              \
                                                                                                             \
		world_open(&w, way, POLICY("fixed", "20", ",'shards':4"));                                   \
		fixture_set_clock(&w.f, NOW_S);                                                              \
		both_##behaviour(&w);                                                                        \
		world_close(&w);                                                                             \
	}                                                                                                    \
	TEST(limits_shards, behaviour##_in_a_turn)                                                           \
	{                                                                                                    \
		both_##behaviour##_in(TABLE);                                                                \
	}                                                                                                    \
	TEST(limits_shards, behaviour##_among_others)                                                        \
	{                                                                                                    \
		both_##behaviour##_in(APART);                                                                \
	}                                                                                                    \
	static void both_##behaviour(struct world *w)

static const char *const algorithms[] = {"fixed", "sliding", "gcra"};

static void use(struct world *w, const char *algorithm, unsigned limit, unsigned shards)
{
	char text[200];

	snprintf(text, sizeof(text),
	         "{'p':{'algorithm':'%s','limit':%u,'per':'minute','engine':'table','shards':%u}}", algorithm,
	         limit, shards);
	world_use(w, text);
}

static unsigned passed(struct world *w, unsigned asked)
{
	unsigned count = 0;

	for (unsigned i = 0; i < asked; i++)
		count += allowed(w, "p", "k");
	return count;
}

static struct item shard_row(struct world *w, unsigned shard)
{
	char pk[40];

	snprintf(pk, sizeof(pk), shard == 0 ? "RL#p#k" : "RLS#%u#p#k", shard);
	return world_row(w, pk);
}

static int64_t number(const struct item *item, const char *name)
{
	return row_i64(item, name, -1);
}

IN_BOTH(exactly_the_limit_passes_however_it_is_divided)
{
	for (unsigned a = 0; a < 3; a++)
		for (unsigned shards = 1; shards <= LIMIT_SHARDS_MAX; shards += 5) {
			fixture_set_clock(&w->f, NOW_S + 7200 * (1 + (int64_t)(a * 20 + shards)));
			use(w, algorithms[a], 20, shards);
			assert_int_equal(passed(w, 30), 20);
		}
}

IN_BOTH(rows_have_shares_and_say_so)
{
	int64_t sum = 0, ttl;

	assert_int_equal(passed(w, 11), 11);
	ttl = number(&(struct item){0}, "TTL");
	for (unsigned i = 0; i < 4; i++) {
		struct item row = shard_row(w, i);

		assert_int_equal(number(&row, "Shards"), 4);
		assert_bytes(row_text(&row, "ShardsOf"), "20");
		assert_true(ttl == -1 || ttl == number(&row, "TTL")); /* they end together */
		ttl = number(&row, "TTL");
		assert_true(number(&row, "Count") <= 5);
		sum += number(&row, "Count");
	}
	assert_int_equal(sum, 11);
	assert_int_equal(shard_row(w, 4).count, 0);
}

IN_BOTH(a_look_tells_all_that_is_left_and_writes_nothing)
{
	struct limit_call c;

	assert_int_equal(remaining(w, "p", "k"), 20);
	assert_int_equal(shard_row(w, 0).count, 0);
	passed(w, 7);
	assert_int_equal(remaining(w, "p", "k"), 13);
	c = ask(w, LIMIT_LOOK, "p", "k", 13);
	assert_true(c.allowed);
	c = ask(w, LIMIT_LOOK, "p", "k", 14);
	assert_false(c.allowed);
	assert_int_equal(remaining(w, "p", "k"), 13);
}

/* What a take says is left is left of the row that it took from: at least that much is there. */
IN_BOTH(after_a_take_at_least_what_it_says_remains)
{
	for (unsigned i = 0; i < 20; i++) {
		struct limit_call c = ask(w, LIMIT_TAKE, "p", "k", 1);

		assert_true(c.allowed);
		assert_int_equal(c.asks[0].answer.limit, 20);
		assert_true(c.asks[0].answer.remaining <= remaining(w, "p", "k"));
	}
}

IN_BOTH(a_cost_that_no_row_has_is_taken_of_several)
{
	assert_true(ask(w, LIMIT_TAKE, "p", "k", 13).allowed);
	assert_false(ask(w, LIMIT_TAKE, "p", "k", 8).allowed);
	assert_true(ask(w, LIMIT_TAKE, "p", "k", 7).allowed);
	assert_int_equal(remaining(w, "p", "k"), 0);
	assert_int_equal(ask(w, LIMIT_TAKE, "p", "k", 21).asks[0].answer.reason, LIMIT_COST_ABOVE);
}

IN_BOTH(the_next_window_begins_anew_in_all_rows)
{
	assert_int_equal(passed(w, 25), 20);
	assert_int_equal(ask(w, LIMIT_TAKE, "p", "k", 1).retry_after_us, 50 * 1000000);
	fixture_set_clock(&w->f, NOON_S + 60);
	assert_int_equal(passed(w, 25), 20);
	fixture_set_clock(&w->f, NOON_S + 59); /* no window opens again */
	assert_int_equal(passed(w, 5), 0);
}

IN_BOTH(a_refund_gives_back_to_any_row)
{
	passed(w, 20);
	assert_int_equal(ask(w, LIMIT_GIVE, "p", "k", 8).asks[0].answer.remaining, 8);
	assert_int_equal(passed(w, 20), 8);
	assert_int_equal(ask(w, LIMIT_GIVE, "p", "k", 100).asks[0].answer.remaining, 20);
	assert_int_equal(passed(w, 30), 20);
	assert_int_equal(ask(w, LIMIT_GIVE, "p", "nobody", 8).asks[0].answer.remaining, 20);
	assert_int_equal(world_row(w, "RL#p#nobody").count, 0);
}

IN_BOTH(a_block_holds_in_all_rows)
{
	world_use(w, POLICY("fixed", "20", ",'shards':4,'block':300"));
	assert_int_equal(passed(w, 21), 20);
	fixture_set_clock(&w->f, NOW_S + 200);
	assert_int_equal(passed(w, 20), 0);
	assert_int_equal(ask(w, LIMIT_TAKE, "p", "k", 1).asks[0].answer.reason, LIMIT_BLOCKED);
	assert_int_equal(remaining(w, "p", "k"), 0);
	fixture_set_clock(&w->f, NOW_S + 300);
	assert_int_equal(passed(w, 30), 20);
}

/* ---- another number of shards, while units are taken ---- */

IN_BOTH(another_number_of_shards_does_not_open_the_limit)
{
	static const unsigned numbers[] = {1, 4, 16, 3, 1, 2, 7, 1};

	for (unsigned a = 0; a < 3; a++) {
		unsigned sum = 0;

		fixture_set_clock(&w->f, NOW_S + 7200 * (int64_t)(1 + a));
		for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
			use(w, algorithms[a], 100, numbers[i]);
			sum += passed(w, 9);
		}
		sum += passed(w, 100);
		assert_true(sum <= 100);
		assert_true(sum >= (a == 0 ? 60 : 50)); /* three units per shard and change, at most */
	}
}

IN_BOTH(rows_that_are_no_longer_used_go)
{
	use(w, "fixed", 20, 16);
	passed(w, 5);
	assert_int_not_equal(shard_row(w, 15).count, 0);
	fixture_set_clock(&w->f, NOW_S + 61); /* not so soon that it is held */
	use(w, "fixed", 20, 2);
	assert_int_equal(passed(w, 25), 20);
	assert_int_equal(shard_row(w, 2).count, 0);
	assert_int_equal(shard_row(w, 15).count, 0);
	fixture_set_clock(&w->f, NOW_S + 180);
	use(w, "fixed", 20, 1);
	assert_int_equal(passed(w, 25), 20);
	assert_int_equal(shard_row(w, 1).count, 0);
	assert_int_equal(number(&(struct item){shard_row(w, 0).members, shard_row(w, 0).count}, "Shards"),
	                 -1);
}

/* Processes whose policies differ for a while do not lay out the rows in turn. */
IN_BOTH(a_layout_that_was_made_a_moment_ago_is_kept)
{
	struct item row;

	use(w, "fixed", 100, 4);
	passed(w, 3);
	for (unsigned i = 0; i < 10; i++) {
		use(w, "fixed", 100, i % 2 == 0 ? 8 : 4);
		assert_int_equal(passed(w, 3), 3);
		row = shard_row(w, 0);
		assert_int_equal(number(&row, "Shards"), 4);
	}
	assert_int_equal(remaining(w, "p", "k"), 67);
	use(w, "fixed", 100, 8);
	fixture_set_clock(&w->f, NOW_S + 45);
	assert_int_equal(passed(w, 100), 67);
	fixture_set_clock(&w->f, NOW_S + 60);
	passed(w, 1);
	row = shard_row(w, 0);
	assert_int_equal(number(&row, "Shards"), 8);
}

IN_BOTH(a_lower_limit_is_not_opened_by_rows_that_lie_unevenly)
{
	use(w, "fixed", 100, 4);
	assert_true(ask(w, LIMIT_TAKE, "p", "k", 25).allowed);
	use(w, "fixed", 8, 4);
	assert_int_equal(passed(w, 10), 0);
	assert_int_equal(remaining(w, "p", "k"), 0);
}

/* Of a key that is asked about for days, the rows never end one by one: they are laid out again before. */
IN_BOTH(rows_that_are_in_use_outlive_their_day)
{
	struct item row;

	for (unsigned day = 0; day < 4; day++) {
		fixture_set_clock(&w->f, NOW_S + 86400 * (int64_t)day + 7200 * (int64_t)day);
		assert_int_equal(passed(w, 30), 20);
		row = shard_row(w, 0);
		for (unsigned i = 1; i < 4; i++) {
			struct item other = shard_row(w, i);

			assert_int_equal(number(&other, "TTL"), number(&row, "TTL"));
		}
		assert_true(number(&row, "TTL") >= NOON_S + 86400 * (int64_t)day + 60 + 3600);
	}
}

IN_BOTH(several_limits_are_all_or_nothing_also_with_shards)
{
	struct limit_call c;

	world_use(w, "{'a':{'limit':10,'per':'minute','engine':'table','shards':4},"
	             "'b':{'limit':5,'per':'minute','engine':'table','shards':3},"
	             "'c':{'limit':50,'per':'minute','engine':'table'}}");
	for (unsigned i = 0; i < 8; i++) {
		call_init(&c, LIMIT_TAKE);
		call_add(w, &c, "a", "k", 1);
		call_add(w, &c, "b", "k", 1);
		call_add(w, &c, "c", "k", 1);
		assert_int_equal(world_run(w, &c, &w->f.arena, &w->f.err), ERR_NONE);
		assert_int_equal(c.allowed, i < 5);
	}
	assert_int_equal(remaining(w, "a", "k"), 5);
	assert_int_equal(remaining(w, "b", "k"), 0);
	assert_int_equal(remaining(w, "c", "k"), 45);
}

TEST(limits_shards, a_call_has_room_for_four_limits_with_shards)
{
	struct world               w;
	struct limit_call          c;
	struct limit_policies     *set;
	const struct limit_policy *sharded, *plain;

	world_open(&w, TABLE,
	           "{'s':{'limit':50,'per':'minute','engine':'table','shards':16},"
	           "'t':{'limit':50,'per':'minute','engine':'table'}}");
	fixture_set_clock(&w.f, NOW_S);
	set = limits_policies(w.limits);
	sharded = limit_policies_find(set, BYTES("s"));
	plain = limit_policies_find(set, BYTES("t"));
	call_init(&c, LIMIT_TAKE);
	for (unsigned i = 0; i < LIMIT_ASKS_SHARDED_MAX; i++)
		call_add(&w, &c, "s", i == 0 ? "a" : i == 1 ? "b" : i == 2 ? "c" : "d", 1);
	assert_false(limit_call_has_room(&c, sharded));
	for (char key[2] = "e"; c.count < LIMIT_ASKS_MAX; key[0]++)
		call_add(&w, &c, "t", key, 1);
	assert_false(limit_call_has_room(&c, plain));
	assert_int_equal(world_run(&w, &c, &w.f.arena, &w.f.err), ERR_NONE);
	assert_true(c.allowed);
	limit_policies_release(set);
	world_close(&w);
}

/* ---- many at once ---- */

static void race_in(enum way way)
{
	struct world w;

	world_open(&w, way, POLICY("fixed", "100", ",'shards':4"));
	for (unsigned a = 0; a < 3; a++) {
		fixture_set_clock(&w.f, NOW_S + 7200 * (int64_t)a);
		use(&w, algorithms[a], 100, 4);
		assert_all_pass(&w, way, clients_run(&w, "k", 64, 4), 100);
	}
	world_close(&w);
}

TEST(limits_shards, of_64_callers_exactly_as_many_pass_as_the_limit_in_turns)
{
	race_in(TABLE);
}

TEST(limits_shards, of_64_callers_exactly_as_many_pass_as_the_limit_among_others)
{
	race_in(APART);
}

/* While some lay the rows out anew, others take. */
static void *layout_main(void *arg)
{
	struct client *me = arg;

	for (unsigned i = 0; i < 12; i++) {
		use(me->w, "fixed", 100 - i % 2, 2 + i % 5); /* another limit: it is not held */
		client_main(me);
	}
	return NULL;
}

TEST(limits_shards, layouts_that_change_under_callers_do_not_open_the_limit)
{
	struct world  w;
	struct client other = {.w = &w, .key = "k", .requests = 2};
	unsigned      sum;

	world_open(&w, APART, POLICY("fixed", "100", ",'shards':4"));
	fixture_set_clock(&w.f, NOW_S);
	assert_int_equal(pthread_create(&other.thread, NULL, layout_main, &other), 0);
	sum = clients_run(&w, "k", 16, 12);
	pthread_join(other.thread, NULL);
	assert_true(sum + other.allowed <= 100);
	assert_true(sum + other.allowed >= 20);
	world_close(&w);
}

/* ---- just in between ---- */

static void lay_out_and_fill(struct world *w)
{
	use(w, "fixed", 19, 4); /* another limit: so the layout is not held */
	while (allowed(w, "p", "k"))
		;
}

/* Its row had room when it was read; now it has less of the limit, and none of that is left. */
TEST(limits_shards, a_row_that_was_laid_out_anew_meanwhile_is_not_added_to)
{
	struct world           w;
	struct limit_policies *set;

	world_open(&w, APART, POLICY("fixed", "20", ",'shards':2"));
	fixture_set_clock(&w.f, NOW_S);
	if (w.f.store == NULL) { /* on a remote engine nothing comes in between */
		assert_int_equal(passed(&w, 10), 10);
		set = limits_policies(w.limits);
		w.between = lay_out_and_fill;
		assert_false(allowed(&w, "p", "k"));
		limit_policies_release(set);
	}
	world_close(&w);
}

TEST(limits_shards, rows_of_others_that_make_no_sense_are_laid_out_as_they_should_be)
{
	struct world w;

	world_open(&w, TABLE, POLICY("fixed", "20", ",'shards':4"));
	fixture_set_clock(&w.f, NOW_S);
	assert_int_equal(passed(&w, 8), 8);
	fixture_ok(&w.f, "DeleteItem", "{'TableName':'rate-limits','Key':{'PK':{'S':'RL#p#k'}}}");
	assert_true(passed(&w, 30) <= 20); /* what was in it is forgotten, as it is of one row */
	world_close(&w);
}
