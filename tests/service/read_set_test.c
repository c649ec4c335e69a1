/* The read set: what a commit depends on when others write in between, on the rough store. Each test reads, lets others
 * write, and commits. */
#include "service/scene.h"

#include "service/attempt.h"

/* ---- rows that were read by key ---- */

/* n: 0 others do nothing, 1 they change the row that is written, 2 one that was only read, 3 they make one that was
 * absent, 4 one that was not read, in another partition. */
static enum err_code read_two_write_one(struct act *act, struct err *err)
{
	static const char *const touched[] = {NULL, "A#B#C", "A#B#D", "A#B#E"};
	struct looked            row;

	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#C"), &row, err), ERR_NONE);
	assert_true(row.found);
	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#D"), &row, err), ERR_NONE);
	assert_true(row.found);
	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#E"), &row, err), ERR_NONE);
	assert_false(row.found);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "A#B#C", 7));
	if (act->n > 0)
		others_put(act, act->n == 4 ? "q" : "p", act->n == 4 ? "A#B#C" : touched[act->n], 9);
	return commit(act, err);
}

static enum err_code make_two(struct act *act, struct err *err)
{
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "A#B#C", 1));
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "A#B#D", 2));
	return commit(act, err);
}

TEST(read_set, a_commit_fails_if_any_row_that_was_read_by_key_has_changed_since)
{
	static const enum err_code expected[] = {ERR_NONE, ERR_CONDITION, ERR_CONDITION, ERR_CONDITION,
	                                         ERR_NONE};

	for (int n = 0; n <= 4; n++) {
		struct scene x;

		scene_open(&x, 1, true);
		assert_int_equal(play(&x, make_two, 0), ERR_NONE);
		assert_int_equal(play(&x, read_two_write_one, n), expected[n]);
		assert_int_equal(count_in(&x.s, "p", "A#B#C"), expected[n] == ERR_NONE ? 7 : n == 1 ? 9 : 1);
		scene_close(&x);
	}
}

/* Reads a row and adds an attribute to it. n: 1 others add it too, and change nothing else. */
static enum err_code add_attribute(struct act *act, struct err *err)
{
	struct context others = act->ctx;
	struct looked  seen;
	struct row     row;

	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#C"), &seen, err), ERR_NONE);
	row_from(&row, act->ctx.arena, &seen.item);
	row_set_i64(&row, "failures", 1);
	if (act->n == 1) {
		ctx_begin(&others, act->ctx.table);
		ctx_put(&others, TABLE_AUTH_STATE, row_item(&row));
		assert_int_equal(changes_commit(&others.changes, others.table, err), ERR_NONE);
	}
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_item(&row));
	return commit(act, err);
}

TEST(read_set, a_commit_fails_if_others_have_added_the_attribute_that_it_adds)
{
	for (int n = 0; n <= 1; n++) {
		struct scene x;

		scene_open(&x, 1, true);
		assert_int_equal(play(&x, make_two, 0), ERR_NONE);
		assert_int_equal(play(&x, add_attribute, n), n == 0 ? ERR_NONE : ERR_CONDITION);
		scene_close(&x);
	}
}

/* ---- queries ---- */

static enum err_code query(struct act *act, const char *pk, const char *prefix, struct table_query_result *r,
                           struct err *err)
{
	struct expr_key_condition key = {.hash_name = BYTES("PK"), .hash = value_string(bytes_of(pk))};
	struct table_query        q = {.key = &key, .consistent = true};

	if (prefix != NULL) {
		key.range_name = BYTES("SK");
		key.range_kind = RANGE_PREFIX;
		key.low = value_string(bytes_of(prefix));
	}
	return ctx_query(&act->ctx, &q, r, err);
}

/* n: 0 others do nothing, 1 they add a row that the query would have found, 2 they change another partition. What is
 * written is in the partition that was queried, or with n + 10 in another. */
static enum err_code query_and_write(struct act *act, struct err *err)
{
	struct table_query_result r;

	assert_int_equal(query(act, "p", "A#B", &r, err), ERR_NONE);
	assert_int_equal(r.count, 2);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, act->n < 10 ? "p" : "r", "X#Y#Z", 7));
	if (act->n % 10 > 0)
		others_put(act, act->n % 10 == 1 ? "p" : "q", "A#B#E", 9);
	return commit(act, err);
}

TEST(read_set, a_commit_fails_if_a_partition_that_was_queried_has_changed_since)
{
	for (int n = 0; n <= 2; n++)
		for (int where = 0; where <= 10; where += 10) {
			struct scene x;

			scene_open(&x, 1, true);
			assert_int_equal(play(&x, make_two, 0), ERR_NONE);
			assert_int_equal(play(&x, query_and_write, n + where),
			                 n == 1 ? ERR_CONDITION : ERR_NONE);
			assert_int_equal(count_in(&x.s, where == 0 ? "p" : "r", "X#Y#Z"), n == 1 ? 0 : 7);
			scene_close(&x);
		}
}

/* n: 0 others do nothing, 1 they change the row that was read by key, 2 they make the one that was absent; both are in
 * another partition than the one that was queried. */
static enum err_code query_and_look(struct act *act, struct err *err)
{
	struct table_query_result r;
	struct looked             row;

	assert_int_equal(query(act, "p", NULL, &r, err), ERR_NONE);
	assert_int_equal(ctx_look(&act->ctx, BYTES("q"), BYTES("A#B#C"), &row, err), ERR_NONE);
	assert_true(row.found);
	assert_int_equal(ctx_look(&act->ctx, BYTES("q"), BYTES("A#B#D"), &row, err), ERR_NONE);
	assert_false(row.found);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "X#Y#Z", 7));
	if (act->n > 0)
		others_put(act, "q", act->n == 1 ? "A#B#C" : "A#B#D", 9);
	return commit(act, err);
}

static enum err_code make_apart(struct act *act, struct err *err)
{
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "A#B#C", 1));
	return commit(act, err);
}

TEST(read_set, the_version_of_a_partition_covers_no_row_of_another)
{
	for (int n = 0; n <= 2; n++) {
		struct scene x;

		scene_open(&x, 1, true);
		assert_int_equal(play(&x, make_apart, 0), ERR_NONE);
		assert_int_equal(play(&x, query_and_look, n), n == 0 ? ERR_NONE : ERR_CONDITION);
		assert_int_equal(count_in(&x.s, "p", "X#Y#Z"), n == 0 ? 7 : 0);
		scene_close(&x);
	}
}

static enum err_code count_rows(struct act *act, struct err *err)
{
	struct table_query_result r;

	assert_int_equal(query(act, "p", NULL, &r, err), ERR_NONE);
	assert_int_equal(r.count, act->n);
	assert_int_equal(r.scanned, act->n);
	return commit(act, err);
}

TEST(read_set, the_version_row_is_not_one_of_the_rows_and_expires)
{
	struct scene x;
	struct item  version;

	scene_open(&x, 1, true);
	assert_int_equal(play(&x, count_rows, 0), ERR_NONE); /* there is no table yet */
	assert_int_equal(play(&x, make_two, 0), ERR_NONE);
	assert_int_equal(play(&x, count_rows, 2), ERR_NONE);
	assert_true(row_find(&x.s, BYTES("p"), BYTES(CHANGES_VERSION_KEY), &version));
	assert_int_equal(row_i64(&version, "ttl", 0), START_S + CHANGES_VERSION_LIFE_S);
	at(&x.s, CHANGES_VERSION_LIFE_S);
	assert_int_equal(play(&x, query_and_write, 0), ERR_NONE);
	assert_int_equal(play(&x, query_and_write, 1), ERR_CONDITION);
	scene_close(&x);
}

static enum err_code nothing_kept(struct act *act, struct err *err)
{
	struct table_query_result r;
	struct looked             row;

	assert_true(act->ctx.table->alone);
	assert_int_equal(query(act, "p", NULL, &r, err), ERR_NONE);
	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#C"), &row, err), ERR_NONE);
	assert_int_equal(act->ctx.changes.row_count + act->ctx.changes.partition_count, 0);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "A#B#C", 1));
	return commit(act, err);
}

TEST(read_set, a_table_that_is_alone_has_neither_conditions_nor_versions)
{
	struct scene x;
	struct item  version;
	struct act   act = {.base = {.run = act_run}, .x = &x, .run = nothing_kept};

	scene_open(&x, 1, true);
	assert_int_equal(engine_run(x.s.f.engine, &act.base, &x.s.f.err), ERR_NONE);
	assert_false(row_find(&x.s, BYTES("p"), BYTES(CHANGES_VERSION_KEY), &version));
	scene_close(&x);
}

/* ---- rows that have expired, and are still there ---- */

static struct item ending(struct context *ctx, const char *sk, int64_t ttl)
{
	struct row  row;
	struct item old = row_with_count(ctx, "p", sk, 1);

	row_from(&row, ctx->arena, &old);
	row_set_i64(&row, "ttl", ttl);
	return row_item(&row);
}

static enum err_code make_expired(struct act *act, struct err *err)
{
	ctx_put(&act->ctx, TABLE_AUTH_STATE, ending(&act->ctx, "A#B#C", act->ctx.now_s - 1));
	ctx_put(&act->ctx, TABLE_AUTH_STATE, ending(&act->ctx, "A#B#D", act->ctx.now_s - 1));
	return commit(act, err);
}

/* n: 1 others bring the row to life that is only read, 2 the one that is written. */
static enum err_code read_expired(struct act *act, struct err *err)
{
	struct looked row;

	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#C"), &row, err), ERR_NONE);
	assert_false(row.found);
	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#D"), &row, err), ERR_NONE);
	assert_false(row.found);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "A#B#C", 7));
	if (act->n > 0)
		others_put(act, "p", act->n == 1 ? "A#B#D" : "A#B#C", 9);
	return commit(act, err);
}

/* Time does not pass for a version here: its row stays, too. */
static enum err_code follow_expired(struct act *act, struct err *err)
{
	struct table_query_result r;

	assert_int_equal(query(act, "p", NULL, &r, err), ERR_NONE);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "p", "X#Y#Z", 7));
	if (act->n == 1)
		others_put(act, "p", "A#B#E", 9);
	return commit(act, err);
}

TEST(read_set, a_row_that_has_expired_is_absent_where_the_table_does_not_hide_it)
{
	for (int n = 0; n <= 2; n++) {
		struct scene x;

		scene_open(&x, 1, true);
		fixture_ok(
		        &x.s.f, "CreateTable",
		        "{'TableName':'auth-state','BillingMode':'PAY_PER_REQUEST','KeySchema':["
		        "{'AttributeName':'PK','KeyType':'HASH'},{'AttributeName':'SK','KeyType':'RANGE'}],"
		        "'AttributeDefinitions':[{'AttributeName':'PK','AttributeType':'S'},"
		        "{'AttributeName':'SK','AttributeType':'S'}]}");
		assert_int_equal(play(&x, make_expired, 0), ERR_NONE);
		assert_int_equal(play(&x, read_expired, n), n == 0 ? ERR_NONE : ERR_CONDITION);
		at(&x.s, CHANGES_VERSION_LIFE_S);
		assert_int_equal(play(&x, follow_expired, n), n == 1 ? ERR_CONDITION : ERR_NONE);
		scene_close(&x);
	}
}

/* ---- many rows ---- */

/* n rows are read by key; others change the last one, if n is odd. */
static enum err_code read_many(struct act *act, struct err *err)
{
	struct looked *rows = arena_array(act->ctx.arena, (size_t)act->n, sizeof(*rows));

	for (int i = 0; i < act->n; i++) {
		looked_init(&rows[i], arena_printf(act->ctx.arena, "p%d", i % 3),
		            arena_printf(act->ctx.arena, "A#B#%d", i));
		rows[i].next = i + 1 < act->n ? &rows[i + 1] : NULL;
	}
	assert_int_equal(ctx_look_all(&act->ctx, rows, err), ERR_NONE);
	assert_true(act->ctx.changes.uncovered <= CHANGES_READS_MAX);
	assert_true(changes_room(&act->ctx.changes) >= CHANGES_MAX - CHANGES_READS_MAX);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "X#Y#Z", act->n));
	if (act->n % 2 == 1)
		others_put(act, arena_printf(act->ctx.arena, "p%d%c", (act->n - 1) % 3, '\0').data,
		           arena_printf(act->ctx.arena, "A#B#%d%c", act->n - 1, '\0').data, 9);
	return commit(act, err);
}

TEST(read_set, more_rows_than_are_remembered_are_watched_by_the_versions_of_their_partitions)
{
	static const int counts[] = {CHANGES_READS_MAX - 1,
	                             CHANGES_READS_MAX,
	                             CHANGES_READS_MAX + 1,
	                             CHANGES_READS_MAX + 2,
	                             301,
	                             300};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct scene x;

		scene_open(&x, 1, true);
		assert_int_equal(play(&x, read_many, counts[i]),
		                 counts[i] % 2 == 1 ? ERR_CONDITION : ERR_NONE);
		assert_int_equal(count_in(&x.s, "q", "X#Y#Z"), counts[i] % 2 == 1 ? 0 : counts[i]);
		scene_close(&x);
	}
}

/* n rows are read by key, and then one is written: it needs a place, and so does its version. */
static enum err_code measure_room(struct act *act, struct err *err)
{
	struct looked row;

	for (int i = 0; i < act->n; i++)
		assert_int_equal(
		        ctx_look(&act->ctx, BYTES("p"), arena_printf(act->ctx.arena, "A#B#%d", i), &row, err),
		        ERR_NONE);
	assert_int_equal(changes_room(&act->ctx.changes), CHANGES_MAX - act->n);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "X#Y#Z", 1));
	assert_int_equal(changes_room(&act->ctx.changes), CHANGES_MAX - act->n - 2);
	return commit(act, err);
}

TEST(read_set, what_was_read_takes_room_from_what_is_written)
{
	struct scene x;

	scene_open(&x, 1, true);
	assert_int_equal(play(&x, measure_room, 1), ERR_NONE);
	assert_int_equal(play(&x, measure_room, CHANGES_READS_MAX), ERR_NONE);
	scene_close(&x);
}

/* Looks for a user, of whom nobody made the table, and writes to another one. */
static enum err_code look_elsewhere(struct act *act, struct err *err)
{
	struct looked row;

	looked_init(&row, BYTES("USER#ann"), BYTES("PROFILE"));
	assert_int_equal(ctx_look_in(&act->ctx, TABLE_USERS, &row, err), ERR_NONE);
	assert_true(row.no_table && !row.found);
	ctx_put(&act->ctx, TABLE_AUTH_STATE, row_with_count(&act->ctx, "q", "X#Y#Z", 1));
	if (act->n == 1)
		ctx_put(&act->ctx, TABLE_USERS, row_with_count(&act->ctx, "USER#bob", "PROFILE", 1));
	return commit(act, err);
}

TEST(read_set, no_table_is_made_because_a_row_was_looked_for_in_it_5)
{
	struct scene x;

	scene_open(&x, 1, true);
	assert_int_equal(play(&x, look_elsewhere, 0), ERR_NONE);
	assert_int_equal(fixture_ok(&x.s.f, "ListTables", "{}").list.count, 1);
	assert_int_equal(play(&x, look_elsewhere, 1), ERR_NONE);
	assert_int_equal(fixture_ok(&x.s.f, "ListTables", "{}").list.count, 2);
	scene_close(&x);
}

/* n changes, each in a partition of its own: each moves a version. */
static enum err_code write_partitions(struct act *act, struct err *err)
{
	for (int i = 0; i < act->n; i++)
		ctx_put(&act->ctx, TABLE_AUTH_STATE,
		        row_with_count(&act->ctx, arena_printf(act->ctx.arena, "p%d%c", i, '\0').data,
		                       "A#B#C", 1));
	return commit(act, err);
}

TEST(read_set, versions_count_against_the_budget)
{
	struct scene x;

	scene_open(&x, 1, true);
	assert_int_equal(play(&x, write_partitions, TABLE_TRANSACT_MAX / 2 + 1), ERR_LIMIT);
	assert_int_equal(rows_in_table(&x.s), 0);
	assert_int_equal(play(&x, write_partitions, TABLE_TRANSACT_MAX / 2), ERR_NONE);
	assert_int_equal(rows_in_table(&x.s), TABLE_TRANSACT_MAX / 2);
	scene_close(&x);
}

/* ---- nothing is written ---- */

static enum err_code read_and_confirm(struct act *act, struct err *err)
{
	struct looked row;

	assert_int_equal(ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#C"), &row, err), ERR_NONE);
	if (act->n >= 10)
		changes_confirm(&act->ctx.changes);
	if (act->n % 10 == 1)
		others_put(act, "p", "A#B#C", 9);
	return commit(act, err);
}

TEST(read_set, a_call_that_changes_nothing_is_checked_if_it_asks_for_it)
{
	struct scene x;

	scene_open(&x, 1, true);
	assert_int_equal(play(&x, read_and_confirm, 10), ERR_NONE); /* there is no table yet */
	assert_int_equal(play(&x, read_and_confirm, 1), ERR_NONE);
	assert_int_equal(play(&x, read_and_confirm, 10), ERR_NONE);
	assert_int_equal(play(&x, read_and_confirm, 11), ERR_NONE); /* the same row, written again */
	assert_int_equal(play(&x, make_two, 0), ERR_NONE);
	assert_int_equal(play(&x, read_and_confirm, 11), ERR_CONDITION);
	scene_close(&x);
}

/* It clears nothing and remembers no device, so it writes nothing. n: 1 others lock the subject meanwhile. */
static enum err_code succeed_meanwhile(struct act *act, struct err *err)
{
	struct attempt q = attempt_of(&act->x->s, &(struct try){.type = "PASSWORD_ENTRY", .forgetful = true});
	struct attempt_result r;

	assert_int_equal(attempt_record(&act->ctx, &q, OUTCOME_SUCCESS, &r, err), ERR_NONE);
	assert_int_equal(r.verdict.kind, VERDICT_ALLOW);
	assert_int_equal(act->ctx.changes.count, 0);
	if (act->n == 1)
		others_put(act, "alice", PASSWORD_LOCK, 1);
	return commit(act, err);
}

static enum err_code fail_once(struct act *act, struct err *err)
{
	struct attempt        q = attempt_of(&act->x->s, &(struct try){.type = "PASSWORD_ENTRY"});
	struct attempt_result r;

	assert_int_equal(attempt_record(&act->ctx, &q, OUTCOME_FAILURE, &r, err), ERR_NONE);
	return commit(act, err);
}

/* Also where a rule in shadow mode would have refused it. */
TEST(read_set, a_success_is_none_if_a_lock_came_before_it_was_committed)
{
	static const char *const modes[] = {"max: 3, life: 60", "max: 1, life: 60, shadow: true"};

	for (int i = 0; i < 2; i++) {
		char         rules[160];
		struct scene x;

		snprintf(rules, sizeof(rules),
		         "locks: {STANDARD: {duration: 900}}\njourneys: {SIGN_IN: {types: {PASSWORD_ENTRY: "
		         "{%s}}}}\n",
		         modes[i]);
		scene_open_with(&x, rules, 1);
		x.rough->calm = true;
		assert_int_equal(play(&x, i == 0 ? make_two : fail_once, 0), ERR_NONE);
		assert_int_equal(play(&x, succeed_meanwhile, 0), ERR_NONE);
		assert_int_equal(play(&x, succeed_meanwhile, 1), ERR_CONDITION);
		scene_close(&x);
	}
}

/* ---- a store that does not always answer ---- */

/* Reads a count, and writes it with one more. */
static enum err_code count_once(struct act *act, struct err *err)
{
	struct looked row;

	if (ctx_look(&act->ctx, BYTES("p"), BYTES("A#B#C"), &row, err) != ERR_NONE)
		return err->code;
	ctx_put(&act->ctx, TABLE_AUTH_STATE,
	        row_with_count(&act->ctx, "p", "A#B#C",
	                       (row.found ? row_i64(&row.item, "count", 0) : 0) + 1));
	return commit(act, err);
}

enum { COUNTERS = 8, COUNTS_EACH = 6 };

static int64_t count_in_parallel(uint64_t seed, bool blind)
{
	struct scene x;
	struct act   acts[COUNTERS];
	int64_t      count;

	scene_open(&x, seed, false);
	x.rough->blind = blind;
	for (int round = 0; round < COUNTS_EACH; round++) {
		memset(acts, 0, sizeof(acts));
		for (int i = 0; i < COUNTERS; i++)
			acts[i].run = count_once;
		play_together(&x, acts, COUNTERS);
	}
	count = count_in(&x.s, "p", "A#B#C");
	scene_close(&x);
	return count;
}

TEST(rough_store, each_of_many_at_once_counts_exactly_once_whatever_goes_wrong)
{
	for (uint64_t seed = 1; seed <= 10; seed++)
		assert_int_equal(count_in_parallel(seed, false), COUNTERS * COUNTS_EACH);
}

TEST(rough_store, without_conditions_counts_are_lost)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		assert_true(count_in_parallel(seed, true) < COUNTERS * COUNTS_EACH);
}
