/* Foresight: how many requests a decision takes on a store whose reads wait, and what it may rest on. On the rough store, which counts
 * them; it is calm, so each is one. */
#include "service/scene.h"

/* An act as the dispatcher runs it; returns how many requests it took. */
static unsigned requests(struct scene *x, enum err_code (*run)(struct act *, struct err *), int n)
{
	struct act act = {.n = n};
	unsigned   before = x->rough->calls;

	act.run = run;
	play_together(x, &act, 1);
	return x->rough->calls - before;
}

static void look(struct act *act, enum service_table which, const char *pk, const char *sk,
                 struct looked *out)
{
	struct err err;

	looked_init(out, bytes_of(pk), bytes_of(sk));
	assert_int_equal(ctx_look_in(&act->ctx, which, out, &err), ERR_NONE);
}

static enum err_code make_rows(struct act *act, struct err *err)
{
	for (int i = 0; i < act->n; i++) {
		const char *sk = arena_printf(act->ctx.arena, "A#B#%03d", i).data;

		ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", sk, i));
	}
	ctx_put(&act->ctx, TABLE_USERS, row_with_count(&act->ctx, "u", "PROFILE", 1));
	return commit(act, err);
}

/* ---- rounds ---- */

/* n: 1 they are there. */
static enum err_code read_two_tables(struct act *act, struct err *err)
{
	struct looked row, user;

	look(act, TABLE_USERS, "u", "PROFILE", &user);
	look(act, TABLE_AUTH_STATE, "p", "A#B#000", &row);
	look(act, TABLE_AUTH_STATE, "p", "A#B#001", &row);
	look(act, TABLE_AUTH_STATE, "p", "A#B#000", &row); /* once more */
	if (!ctx_guesses(&act->ctx))
		assert_true(user.found == (act->n == 1) && row.found == (act->n == 1));
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "A#B#C", 7));
	return commit(act, err);
}

TEST(foresight, rows_of_several_tables_take_one_request_and_the_commit_another)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, 3);
	assert_int_equal(requests(&x, read_two_tables, 1), 2);
	assert_int_equal(count_in(&x.s, "q", "A#B#C"), 7);
	scene_close(&x);
}

/* Each row names the next. n: how many there are. */
static enum err_code read_a_chain(struct act *act, struct err *err)
{
	struct looked row;
	int64_t       at = 0;

	for (int i = 0; i < act->n; i++) {
		look(act, TABLE_AUTH_STATE, "p", arena_printf(act->ctx.arena, "A#B#%03d", (int)at).data,
		     &row);
		at = row.found ? row_i64(&row.item, "count", 0) + 1 : -1;
		if (!row.found)
			break;
	}
	if (!ctx_guesses(&act->ctx))
		assert_int_equal(at, act->n);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "A#B#C", at));
	return commit(act, err);
}

TEST(foresight, a_chain_takes_a_request_for_each_link_also_past_the_most_passes)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, 12);
	assert_int_equal(requests(&x, read_a_chain, 2), 3);
	assert_int_equal(requests(&x, read_a_chain, FORESIGHT_PASSES_MAX), FORESIGHT_PASSES_MAX + 1);
	assert_int_equal(requests(&x, read_a_chain, FORESIGHT_PASSES_MAX + 1), FORESIGHT_PASSES_MAX + 2);
	assert_int_equal(requests(&x, read_a_chain, 12), 13);
	assert_int_equal(count_in(&x.s, "q", "A#B#C"), 12);
	scene_close(&x);
}

/* ---- what a run leaves behind ---- */

/* Of one call: how often its function ran, whatever it is told, and what it has counted itself. */
struct counting {
	struct act act; /* first */
	unsigned   runs, decisions;
	struct {
		unsigned runs;
		bool     found;
	} told;
};

/* The first decision finds others in its way. */
static enum err_code count_runs(struct act *act, struct err *err)
{
	struct counting *c = (struct counting *)act;
	struct looked    row;

	c->runs++;
	c->told.runs++;
	look(act, TABLE_AUTH_STATE, "p", "A#B#000", &row);
	c->told.found = c->told.found || (row.found && row_i64(&row.item, "count", 0) == 0);
	if (!ctx_guesses(&act->ctx) && c->decisions++ == 0)
		others_put(act, "p", "A#B#000", 7);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "A#B#C", 1));
	return commit(act, err);
}

TEST(foresight, a_run_begins_with_what_its_caller_gave_it_not_with_what_the_run_before_left)
{
	struct scene    x;
	struct counting c = {.act = {.run = count_runs}};

	scene_open(&x, 1, true);
	requests(&x, make_rows, 1);
	ctx_state(&c.act.ctx, &c.told, sizeof(c.told));
	play_together(&x, &c.act, 1);
	assert_int_equal(c.runs, 4); /* two decisions, each with a guess before it */
	assert_int_equal(c.told.runs, 1);
	assert_false(c.told.found); /* what the first decision saw is gone */
	scene_close(&x);
}

/* n absent rows of a table that has no versions. */
static enum err_code read_many(struct act *act, struct err *err)
{
	struct looked row;

	for (int i = 0; i < act->n; i++) {
		look(act, TABLE_USERS, arena_printf(act->ctx.arena, "u%d", i).data, "PROFILE", &row);
		assert_false(row.found);
	}
	return commit(act, err);
}

TEST(foresight, rounds_hold_what_a_request_may_and_past_the_most_rows_each_is_read_alone)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, 1);
	assert_int_equal(requests(&x, read_many, TABLE_BATCH_GET_MAX), 1);
	assert_int_equal(requests(&x, read_many, TABLE_BATCH_GET_MAX + 1), 2);
	assert_int_equal(requests(&x, read_many, FORESIGHT_ROWS_MAX), 4);
	assert_true(requests(&x, read_many, FORESIGHT_ROWS_MAX + 2) >= 4 + 2);
	scene_close(&x);
}

TEST(foresight, a_table_that_is_not_there_is_an_empty_one)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, read_two_tables, 0);
	assert_int_equal(count_in(&x.s, "q", "A#B#C"), 7);
	scene_close(&x);
}

/* ---- what a commit rests on ---- */

static bool others_came;

/* Others change a row after the last pass was told of it. n: 1 one that it used; 2 one that only the first pass asked for. */
static enum err_code use_one_of_two(struct act *act, struct err *err)
{
	struct looked used, other;

	look(act, TABLE_AUTH_STATE, "p", "A#B#000", &used);
	if (!used.found)
		look(act, TABLE_AUTH_STATE, "p", "A#B#001", &other);
	ctx_put(&act->ctx, TABLE_USERS, row_with_count(&act->ctx, "q", "PROFILE", 1));
	if (!ctx_guesses(&act->ctx) && !others_came) {
		others_came = true;
		others_put(act, "p", act->n == 1 ? "A#B#000" : "A#B#001", 9);
	}
	return commit(act, err);
}

TEST(foresight, a_commit_rests_on_what_the_last_pass_was_told_and_on_nothing_else)
{
	struct scene x;
	unsigned     once, again;

	scene_open(&x, 1, true);
	requests(&x, make_rows, 2);
	others_came = false;
	once = requests(&x, use_one_of_two, 2);
	others_came = false;
	again = requests(&x, use_one_of_two, 1);
	assert_int_equal(once, 3);  /* read, the others', commit */
	assert_int_equal(again, 5); /* … which failed: read, commit */
	scene_close(&x);
}

/* ---- one condition for many rows (6) ---- */

enum { CROWD = 8 };

/* Reads several rows of a partition and one of another. n: 1 writes to the first; 2 elsewhere; 3 nowhere, and wants to be sure;
 * 11 to 13: others change the last row of the partition after it was read. */
static enum err_code read_a_crowd(struct act *act, struct err *err)
{
	struct looked row;

	for (int i = 0; i < CROWD; i++)
		look(act, TABLE_AUTH_STATE, "p", arena_printf(act->ctx.arena, "A#B#%03d", i).data, &row);
	look(act, TABLE_AUTH_STATE, "alone", "A#B#C", &row);
	if (act->n % 10 == 3)
		changes_confirm(&act->ctx.changes);
	else if (act->n % 10 == 1)
		ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "A#B#000", 7));
	else
		ctx_put(&act->ctx, TABLE_USERS, row_with_count(&act->ctx, "q", "PROFILE", 7));
	if (!ctx_guesses(&act->ctx) && act->n > 10 && !others_came) {
		others_came = true;
		others_put(act, "p", "A#B#007", 9);
	}
	return commit(act, err);
}

TEST(foresight, several_rows_of_a_partition_are_one_condition_6)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, CROWD);
	assert_int_equal(requests(&x, read_a_crowd, 1), 2);
	assert_int_equal(x.rough->actions, 3); /* the row, the version, the row that is alone */
	assert_int_equal(requests(&x, read_a_crowd, 2), 2);
	assert_int_equal(x.rough->actions, 3); /* the row, a look at the version, the row that is alone */
	others_came = false;
	assert_int_equal(requests(&x, read_a_crowd, 11),
	                 5); /* read, the others', commit, which failed; read, commit */
	others_came = false;
	assert_int_equal(requests(&x, read_a_crowd, 12), 5);
	scene_close(&x);
}

TEST(foresight, what_was_read_at_one_moment_and_changes_nothing_needs_no_commit)
{
	struct scene x;
	unsigned     before;

	scene_open(&x, 1, true);
	requests(&x, make_rows, CROWD);
	before = x.rough->snapshots;
	assert_int_equal(requests(&x, read_a_crowd, 3), 1);
	assert_int_equal(x.rough->snapshots, before + 1);
	x.rough->in_the_way = true; /* then it was read in pieces */
	assert_int_equal(requests(&x, read_a_crowd, 3), 3);
	assert_int_equal(x.rough->actions, CROWD + 1);
	others_came = false;
	assert_int_equal(requests(&x, read_a_crowd, 13), 7);
	scene_close(&x);
}

static void others_write(struct rough *r, void *ctx)
{
	(void)r;
	others_put(ctx, "p", "A#B#007", 9);
}

/* The version is read after the last row, and others write in between: an old row, and the version of a new one. */
static enum err_code read_in_pieces(struct act *act, struct err *err)
{
	struct looked row;

	for (int i = 0; i < CROWD; i++)
		look(act, TABLE_AUTH_STATE, "p", arena_printf(act->ctx.arena, "A#B#%03d", i).data, &row);
	if (ctx_guesses(&act->ctx) && !others_came) {
		others_came = true;
		act->x->rough->between = others_write;
		act->x->rough->between_ctx = act;
	}
	ctx_put(&act->ctx, TABLE_AUTH_STATE,
	        row_with_count(&act->ctx, "p", "sum", row.found ? row_i64(&row.item, "count", 0) : -1));
	return commit(act, err);
}

TEST(foresight, a_version_that_was_read_in_pieces_with_its_rows_does_not_stand_for_them_3)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, CROWD);
	x.rough->in_the_way = true;
	others_came = false;
	requests(&x, read_in_pieces, 0);
	assert_true(others_came);
	assert_int_equal(count_in(&x.s, "p", "sum"), 9);
	scene_close(&x);
}

/* n: 2 the reservation is read with another row of its partition, and others finish it meanwhile. */
static enum err_code read_a_reservation(struct act *act, struct err *err)
{
	struct looked reservation, row;

	look(act, TABLE_AUTH_STATE, "p", KEY_RESERVATION, &reservation);
	for (int i = 0; i < act->n; i++)
		look(act, TABLE_AUTH_STATE, "p", arena_printf(act->ctx.arena, "A#B#%03d", i).data, &row);
	if (!ctx_guesses(&act->ctx) && !others_came) {
		others_came = true;
		others_put(act, "p", KEY_RESERVATION, 9);
	}
	ctx_put(&act->ctx, TABLE_AUTH_STATE,
	        row_with_count(&act->ctx, "p", "seen",
	                       reservation.found ? row_i64(&reservation.item, "count", 0) : -1));
	return commit(act, err);
}

TEST(foresight, a_version_does_not_stand_for_a_reservation_which_moves_none)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, CROWD);
	others_came = false;
	requests(&x, read_a_reservation, CROWD);
	assert_int_equal(count_in(&x.s, "p", "seen"), 9);
	scene_close(&x);
}

/* ---- queries ---- */

/* n: 1 others add a row after the query. */
static enum err_code query_then_look(struct act *act, struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES("p"), BYTES("A#"));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;
	struct looked             row;

	assert_int_equal(ctx_query(&act->ctx, &q, &r, err), ERR_NONE);
	look(act, TABLE_AUTH_STATE, "p", "X#Y#Z", &row);
	look(act, TABLE_USERS, "u", r.count == 0 ? "NOBODY" : "PROFILE", &row);
	if (!ctx_guesses(&act->ctx) && act->n == 1 && !others_came) {
		others_came = true;
		others_put(act, "p", "A#B#new", 9);
	}
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "A#B#C", r.count));
	return commit(act, err);
}

TEST(foresight, a_query_is_asked_once_and_the_version_before_it_is_a_condition)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, 3);
	/* the version and both rows; the query; the row that depends on it; the commit */
	assert_int_equal(requests(&x, query_then_look, 0), 4);
	assert_int_equal(count_in(&x.s, "q", "A#B#C"), 3);
	others_came = false;
	requests(&x, query_then_look, 1);
	assert_int_equal(count_in(&x.s, "q", "A#B#C"), 4);
	scene_close(&x);
}

/* ---- randomness ---- */

static enum err_code make_random(struct act *act, struct err *err)
{
	struct looked row;
	uint8_t       bits[4];

	ctx_random(&act->ctx, bits, sizeof(bits));
	look(act, TABLE_USERS, arena_printf(act->ctx.arena, "u%u", bits[0] | bits[1] << 8).data, "PROFILE",
	     &row);
	ctx_random(&act->ctx, bits, sizeof(bits));
	ctx_put(&act->ctx, TABLE_USERS, row_with_count(&act->ctx, "last", "PROFILE", bits[0]));
	return commit(act, err);
}

TEST(foresight, passes_draw_the_same_random_bytes_so_that_they_look_for_the_same_row)
{
	struct scene x;

	scene_open(&x, 1, true);
	requests(&x, make_rows, 1);
	for (int i = 0; i < 5; i++)
		assert_int_equal(requests(&x, make_random, 0), 2);
	scene_close(&x);
}
