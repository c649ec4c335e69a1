/* Lapse, while clocks jump: the wall clock is set forward and backward by hours, with restarts and without. A row and its index entries are seen until the row
 * expires by the engine's time, and all of them at once no longer; none is dropped early (engine/lapse.h X4), and none comes back. */
#include "lapsing_indexes.h"

#include "random.h"

enum {
	HOUR_S = 3600,
	JUMP_S = 5 * HOUR_S,
	NAMES = 12,
	STEPS = 400,
	SHIFT_MAX_S = 9 * DAY_S, /* with what passes meanwhile, a start does not refuse it */
};

static void jump(struct fixture *f, int64_t by_s)
{
	clock_manual_jump(&f->clock, by_s * 1000000);
}

static void assert_there(struct fixture *f, const char *name, const char *owner, bool there)
{
	struct bytes body = arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'%s'}}}", name);

	assert_int_equal(fixture_ok(f, "GetItem", body.data).get.found, there);
	assert_shown(f, owner, there ? 1 : 0);
}

/* A row of this hour, and one of hours from now. */
static void open_with_two(struct fixture *f)
{
	open_with_indexes(f);
	put(f, "soon", "ann", SOON_S);
	put(f, "later", "bob", START_S + 10 * HOUR_S);
}

TEST(lapse_clock, a_wall_clock_that_is_set_forward_neither_hides_nor_closes_anything)
{
	struct fixture f;

	open_with_two(&f);
	jump(&f, JUMP_S);
	engine_tick(f.engine);
	compact(&f);
	assert_there(&f, "soon", "ann", true);
	assert_there(&f, "later", "bob", true);
	tick_at(&f,
	        CLOSED_S - 1); /* an hour is closed by the engine's time too, not by the wall clock alone */
	assert_int_equal(look(&f).index_entries, 4);
	tick_at(&f, CLOSED_S);
	assert_int_equal(look(&f).index_entries, 2);
	assert_sound(&f);
	fixture_close(&f);
}

TEST(lapse_clock, entries_stay_while_a_wall_clock_that_was_set_back_has_not_caught_up)
{
	struct fixture f;

	open_with_two(&f);
	jump(&f, -JUMP_S);
	tick_at(&f, CLOSED_S + JUMP_S - 1);
	assert_there(&f, "soon", "ann", false); /* by the engine's time */
	assert_int_equal(look(&f).index_entries, 4);
	assert_counts(&f, 2);
	tick_at(&f, CLOSED_S + JUMP_S);
	assert_int_equal(look(&f).index_entries, 2);
	assert_counts(&f, 1);
	assert_sound(&f);
	fixture_close(&f);
}

/* Nobody wrote anything meanwhile: what was seen as absent stays so, and is dropped when the right clock allows it. */
TEST(lapse_clock, a_start_with_a_clock_that_was_ahead_costs_no_entry_if_it_is_set_right_within_an_hour)
{
	struct fixture f;

	open_with_two(&f);
	engine_close(f.engine);
	jump(&f, JUMP_S);
	fixture_start(&f);
	engine_tick(f.engine);
	assert_there(&f, "soon", "ann", false);
	assert_there(&f, "later", "bob", true);
	fixture_set_clock(&f, START_S + 30);
	engine_tick(f.engine);
	compact(&f);
	assert_int_equal(look(&f).index_entries, 4);
	engine_close(f.engine);
	jump(&f, -JUMP_S);
	fixture_start(&f);
	assert_there(&f, "soon", "ann", false);
	assert_sound(&f);
	tick_at(&f, CLOSED_S - 1);
	assert_int_equal(look(&f).index_entries, 4);
	tick_at(&f, CLOSED_S);
	assert_int_equal(look(&f).index_entries, 2);
	fixture_close(&f);
}

/* Somebody did: time does not go back behind that commit. What expired stays hidden, and is dropped once the right clock allows it. */
TEST(lapse_clock, after_a_commit_with_a_clock_that_was_ahead_entries_stay_hidden_and_are_not_dropped_early)
{
	struct fixture f;

	open_with_two(&f);
	engine_close(f.engine);
	jump(&f, JUMP_S);
	fixture_start(&f);
	put(&f, "new", "cat", START_S + 20 * HOUR_S);
	engine_close(f.engine);
	jump(&f, -JUMP_S);
	fixture_start(&f);
	for (int64_t second = START_S + 60; second < CLOSED_S; second += 600) {
		tick_at(&f, second);
		compact(&f);
		assert_there(&f, "soon", "ann", false);
		assert_there(&f, "later", "bob", true);
		assert_int_equal(look(&f).index_entries, 6);
	}
	tick_at(&f, CLOSED_S);
	assert_int_equal(look(&f).index_entries, 4);
	assert_sound(&f);
	fixture_close(&f);
}

/* An hour that is closed stays closed with all its entries, and takes no new row. */
TEST(lapse_clock, entries_that_are_gone_stay_gone_after_a_start_with_an_earlier_clock)
{
	for (int merged = 0; merged < 2; merged++) {
		struct fixture f;

		open_with_two(&f);
		close_without_merge(&f, CLOSED_S);
		if (merged == 1)
			compact(&f);
		engine_close(f.engine);
		jump(&f, -JUMP_S);
		fixture_start(&f);
		assert_there(&f, "soon", "ann", false);
		assert_int_equal(look(&f).index_entries, merged == 1 ? 2 : 4);
		assert_counts(&f, 1);
		assert_sound(&f);
		put(&f, "soon", "ann", CLOSED_S + 60); /* the same keys, in the table and in the indexes */
		engine_tick(f.engine);
		compact(&f);
		assert_there(&f, "soon", "ann", true);
		assert_int_equal(look(&f).index_entries, 4);
		assert_counts(&f, 2);
		fixture_set_clock(&f, CLOSED_S + 60);
		assert_there(&f, "soon", "ann", false);
		assert_sound(&f);
		fixture_close(&f);
	}
}

/* ---- any jumps ---- */

struct trial {
	struct fixture base;
	struct random  random;
	int64_t        expires_s[NAMES]; /* 0: it was never written */
	unsigned       closed;
};

/* (X4) At the moment at which it is. */
static void assert_closed_in_time(struct trial *t)
{
	struct engine *e = t->base.engine;
	int64_t        now_us = engine_now_us(e), wall_us = clock_wall_us(&t->base.clock.base);
	unsigned       closed = atomic_load(&e->lapse.closed);

	assert_true(closed >= t->closed);
	if (closed > t->closed)
		assert_true(((int64_t)closed + 1) * HOUR_S * 1000000 <=
		            (now_us < wall_us ? now_us : wall_us));
	t->closed = closed;
}

static void assert_all(struct trial *t)
{
	struct fixture *f = &t->base;
	int64_t         now_s = engine_now_us(f->engine) / 1000000;

	for (int i = 0; i < NAMES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "name-%d", i);
		assert_there(f, name, name, now_s < t->expires_s[i]);
	}
	arena_reset(&f->arena);
}

static void put_any(struct trial *t)
{
	struct fixture *f = &t->base;
	uint64_t        number = random_below(&t->random, NAMES);
	char            name[16];

	snprintf(name, sizeof(name), "name-%d", (int)number);
	t->expires_s[number] =
	        engine_now_us(f->engine) / 1000000 - HOUR_S + (int64_t)random_below(&t->random, 8 * HOUR_S);
	put(f, name, name, t->expires_s[number]);
}

static void jump_any(struct trial *t)
{
	int64_t by_s = (int64_t)random_below(&t->random, 24 * HOUR_S) - 12 * HOUR_S;
	int64_t shift_s = t->base.clock.shift_us / 1000000 + by_s;

	if (shift_s < SHIFT_MAX_S && shift_s > -SHIFT_MAX_S)
		jump(&t->base, by_s);
}

static void step(struct trial *t)
{
	struct fixture *f = &t->base;
	uint64_t        what = random_below(&t->random, 100);

	if (what < 40)
		put_any(t);
	else if (what < 60)
		fixture_set_clock(f, f->clock.now_us / 1000000 + (int64_t)random_below(&t->random, HOUR_S));
	else if (what < 80)
		engine_tick(f->engine);
	else if (what < 88)
		jump_any(t);
	else if (what < 96)
		fixture_restart(f);
	else
		compact(f);
}

TEST(lapse_clock, rows_and_entries_expire_together_whatever_the_clock_does)
{
	static const uint64_t seeds[] = {1, 2};

	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		struct trial t = {.random = {seeds[i]}};
		int          hours = 0; /* in which some were closed */

		open_with_indexes(&t.base);
		for (int at = 0; at < STEPS; at++) {
			unsigned before = t.closed;

			step(&t);
			assert_closed_in_time(&t);
			hours += t.closed > before;
			assert_all(&t);
			if (at % 50 == 0)
				assert_sound(&t.base);
		}
		assert_in_range(hours, 3, STEPS);
		assert_sound(&t.base);
		fixture_close(&t.base);
	}
}
