/* Rows of one moment, from a table whose rows others write: a scripted backend says what each reading finds. */
#include "service/snapshot.h"

#include "test.h"

enum { ROWS = 2 };

struct scripted_table {
	struct table base;           /* first */
	unsigned     refusals;       /* of transact_get */
	const int (*readings)[ROWS]; /* of batch_get: what each row is; 0: absent, -1: skipped */
	unsigned       snapshots, batches, pauses;
	struct arena   arena;
	struct changes changes;
};

static void row_of(struct arena *a, int value, struct table_get_result *out)
{
	struct member *m = arena_alloc(a, sizeof(*m));

	*m = (struct member){BYTES("v"), value_string(arena_printf(a, "%d", value))};
	*out = (struct table_get_result){.found = value > 0, .item = {m, 1}};
}

static void rows_of(struct arena *a, const int *values, struct table_batch_get_result *r)
{
	r->results = arena_zalloc(a, ROWS * sizeof(*r->results));
	r->skipped = arena_zalloc(a, ROWS * sizeof(*r->skipped));
	for (int i = 0; i < ROWS; i++) {
		r->skipped[i] = values[i] < 0;
		row_of(a, values[i], &r->results[i]);
	}
}

static enum err_code scripted_snapshot(struct table *t, struct arena *a, const struct table_batch_get *q,
                                       struct table_batch_get_result *r, struct err *err)
{
	struct scripted_table *s = (struct scripted_table *)t;

	(void)q;
	if (s->snapshots++ < s->refusals)
		return err_set(err, ERR_CONDITION, "a writer is in the way");
	rows_of(a, (const int[ROWS]){7, 7}, r);
	return ERR_NONE;
}

static enum err_code scripted_batch(struct table *t, struct arena *a, const struct table_batch_get *q,
                                    struct table_batch_get_result *r, struct err *err)
{
	struct scripted_table *s = (struct scripted_table *)t;

	(void)q;
	(void)err;
	rows_of(a, s->readings[s->batches++], r);
	return ERR_NONE;
}

static void scripted_pause(struct table *t, int64_t us)
{
	(void)us;
	((struct scripted_table *)t)->pauses++;
}

static void scripted_random(void *out, size_t len)
{
	memset(out, 1, len);
}

static const struct table_backend scripted_backend = {.transact_get = scripted_snapshot,
                                                      .batch_get = scripted_batch,
                                                      .pause = scripted_pause,
                                                      .reads_wait = true};

static void scripted_init(struct scripted_table *s, bool alone, unsigned refusals,
                          const int (*readings)[ROWS])
{
	*s = (struct scripted_table){.base = {.backend = &scripted_backend, .alone = alone},
	                             .refusals = refusals,
	                             .readings = readings};
	arena_init(&s->arena);
	s->changes = (struct changes){.arena = &s->arena, .random = scripted_random};
}

static enum err_code take(struct scripted_table *s, struct table_batch_get_result *r, bool *torn)
{
	struct table_get gets[ROWS] = {0};
	struct err       err;

	return snapshot_get(&s->changes, &s->base, &(struct table_batch_get){gets, ROWS}, r, torn, &err);
}

static bool is_row(const struct table_get_result *r, const char *value)
{
	return r->found && bytes_is(value_text(&r->item.members[0].value), value);
}

TEST(snapshot, is_asked_for_again_when_a_writer_was_in_the_way)
{
	struct table_batch_get_result r;
	struct scripted_table         s;
	bool                          torn;

	scripted_init(&s, true, SNAPSHOT_TRIES_MAX - 1, NULL);
	assert_int_equal(take(&s, &r, &torn), ERR_NONE);
	assert_false(torn);
	assert_true(is_row(&r.results[0], "7"));
	assert_int_equal(s.pauses, SNAPSHOT_TRIES_MAX - 1);
	assert_int_equal(s.batches, 0);
	arena_release(&s.arena);
}

TEST(snapshot, of_rows_that_are_written_all_the_time_is_two_readings_that_are_the_same)
{
	static const int              readings[][ROWS] = {{1, 0}, {1, 2}, {3, -1}, {3, 2}, {3, 2}};
	struct table_batch_get_result r;
	struct scripted_table         s;
	bool                          torn;

	scripted_init(&s, true, UINT32_MAX, readings);
	assert_int_equal(take(&s, &r, &torn), ERR_NONE);
	assert_false(torn);
	assert_int_equal(s.batches, 5);
	assert_true(is_row(&r.results[0], "3"));
	assert_true(is_row(&r.results[1], "2"));
	arena_release(&s.arena);
}

TEST(snapshot, of_rows_that_are_never_twice_the_same_is_no_failure_of_the_tables)
{
	static const int              readings[SNAPSHOT_READINGS_MAX][ROWS] = {{1, 1}, {2, 1}, {2, 2}, {3, 2},
	                                                                       {3, 3}, {4, 3}, {4, 4}, {5, 4}};
	struct table_batch_get_result r;
	struct scripted_table         s;
	bool                          torn;

	scripted_init(&s, true, UINT32_MAX, readings);
	assert_int_equal(take(&s, &r, &torn), ERR_CONDITION);
	assert_int_equal(s.batches, SNAPSHOT_READINGS_MAX);
	arena_release(&s.arena);
}

TEST(snapshot, of_a_call_that_commits_is_read_once_more_in_pieces)
{
	static const int              readings[][ROWS] = {{1, -1}};
	struct table_batch_get_result r;
	struct scripted_table         s;
	bool                          torn;

	scripted_init(&s, false, UINT32_MAX, readings);
	assert_int_equal(take(&s, &r, &torn), ERR_NONE);
	assert_true(torn);
	assert_true(r.skipped[1]);
	assert_int_equal(s.snapshots, 1);
	assert_int_equal(s.batches, 1);
	arena_release(&s.arena);
}
