/* Ends: a log's rows are not in the filter, and no row is said to be absent that is there: behind the end, in front of it, after a restart, while
 * others add, delete and read. Every engine of these tests looks up in its store what is said to be absent (engine.h, checks_absent). */
#include "engine/crew.h"

#include "engine/layout.h"
#include "engine/partition.h"
#include "engine/state.h"
#include "random.h"

enum {
	LOG_ROWS = PARTITION_WHOLE_ROWS_MAX + ENDS_IN_ORDER + 10, /* after which it is left out */
	MORE_ROWS = 150,
	STEP = 10, /* from one row's number to the next: there is room in between */
	READERS = 2,
	APPENDS = 600,
};

/* ---- by itself ---- */

static struct bytes key_of(char text[8], unsigned number)
{
	snprintf(text, 8, "%06u", number);
	return bytes_of(text);
}

/* Notes the numbers from `from` to `to`; returns how often it said that enough have come. */
static int note_all(struct ends *e, uint64_t partition, unsigned from, unsigned to)
{
	char text[8];
	int  enough = 0;

	for (unsigned i = from; i < to; i++)
		enough += ends_note(e, partition, key_of(text, i)) ? 1 : 0;
	return enough;
}

TEST(ends, enough_have_come_after_so_many_in_order_and_not_before)
{
	struct ends e;

	ends_init(&e);
	assert_int_equal(note_all(&e, 1, 0, ENDS_IN_ORDER), 0); /* the first is behind none */
	assert_int_equal(note_all(&e, 1, ENDS_IN_ORDER, ENDS_IN_ORDER + 1), 1);
	assert_false(ends_has(&e, 1)); /* it is for the caller to say */
	assert_int_equal(note_all(&e, 1, ENDS_IN_ORDER + 1, 2 * ENDS_IN_ORDER), 0);
	assert_int_equal(note_all(&e, 1, 7, 8), 0); /* out of order: it begins anew */
	assert_int_equal(note_all(&e, 1, 2 * ENDS_IN_ORDER, 3 * ENDS_IN_ORDER - 1), 0);
	assert_int_equal(note_all(&e, 1, 3 * ENDS_IN_ORDER - 1, 3 * ENDS_IN_ORDER), 1);
	ends_release(&e);
}

TEST(ends, of_a_partition_that_is_left_out_what_is_behind_the_last_row_is_absent)
{
	struct ends e;
	char        text[8];

	ends_init(&e);
	note_all(&e, 1, 0, 10);
	assert_false(ends_is_behind(&e, 1, key_of(text, 11)));
	assert_false(ends_any(&e));
	ends_leave_out(&e, 1);
	assert_true(ends_has(&e, 1) && ends_any(&e));
	assert_true(ends_is_behind(&e, 1, key_of(text, 10)));
	assert_false(ends_is_behind(&e, 1, key_of(text, 9)));
	note_all(&e, 1, 3, 4);
	assert_false(ends_is_behind(&e, 1, key_of(text, 9)));
	note_all(&e, 1, 20, 21);
	assert_false(ends_is_behind(&e, 1, key_of(text, 20)));
	assert_true(ends_is_behind(&e, 1, key_of(text, 21)));
	ends_release(&e);
}

TEST(ends, two_partitions_in_one_place_take_turns_until_one_is_left_out)
{
	struct ends e;
	char        text[8];

	ends_init(&e);
	note_all(&e, 1, 0, ENDS_IN_ORDER);
	assert_int_equal(note_all(&e, 1 + ENDS_MAX, 0, 1), 0);
	assert_int_equal(note_all(&e, 1, ENDS_IN_ORDER, ENDS_IN_ORDER + 1), 0); /* it begins anew */
	ends_leave_out(&e, 1);
	assert_int_equal(note_all(&e, 1 + ENDS_MAX, 0, 2 * ENDS_IN_ORDER), 0);
	assert_false(ends_has(&e, 1 + ENDS_MAX) || ends_has(&e, 0));
	assert_false(ends_is_behind(&e, 1 + ENDS_MAX, key_of(text, 5000)));
	assert_true(ends_is_behind(&e, 1, key_of(text, ENDS_IN_ORDER + 1)));
	ends_release(&e);
}

/* ---- in an engine ---- */

static void write_row(struct fixture *f, const char *operation, const char *p, int number)
{
	fixture_ok(f, operation,
	           arena_printf(&f->arena, "{'TableName':'things','%s':{'p':{'S':'%s'},'s':{'N':'%d'}}}",
	                        operation[0] == 'P' ? "Item" : "Key", p, number)
	                   .data);
	arena_reset(&f->arena);
}

static void append(struct fixture *f, int from, int to)
{
	for (int i = from; i < to; i++)
		write_row(f, "PutItem", "log", STEP * i);
}

static bool has(struct fixture *f, int number)
{
	union answer r = fixture_ok(
	        f, "GetItem",
	        arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'log'},'s':{'N':'%d'}}}",
	                     number)
	                .data);

	return r.get.found;
}

static uint32_t query_count(struct fixture *f)
{
	return fixture_ok(f, "Query",
	                  "{'TableName':'things','KeyConditionExpression':'p = :p',"
	                  "'ExpressionAttributeValues':{':p':{'S':'log'}}}")
	        .query.count;
}

static uint64_t number_of(struct fixture *f, const char *p)
{
	struct value              hash = value_string(bytes_of(p));
	const struct table_entry *entry = catalog_find(f->engine->catalog, BYTES("things"));
	struct buf                low;

	buf_init(&low, &f->arena);
	layout_partition(&low, entry->id, &hash);
	return layout_partition_number(buf_bytes(&low));
}

static bool is_left_out(struct fixture *f, const char *p)
{
	return ends_has(&f->engine->write_back.ends, number_of(f, p));
}

static uint64_t entries(struct fixture *f)
{
	return filter_stats(f->engine->filter).entries;
}

static void rebuild(struct engine *e)
{
	filter_note_deleted(e->filter, 100000); /* which makes it due */
	engine_build_filter(e);
}

static void open_with_log(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_BY_N);
	engine_build_filter(f->engine);
	append(f, 0, LOG_ROWS);
	assert_true(is_left_out(f, "log"));
}

TEST(ends, rows_of_a_log_are_not_in_the_filter_and_all_are_there)
{
	struct fixture f;
	uint64_t       before, misses;

	open_with_log(&f);
	before = entries(&f);
	misses = engine_stats(f.engine).cache_misses;
	append(&f, LOG_ROWS, LOG_ROWS + MORE_ROWS);
	assert_int_equal(entries(&f), before);
	assert_true(engine_stats(f.engine).cache_misses - misses <
	            10); /* nobody asks the store for a new row */
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < LOG_ROWS + MORE_ROWS; i++)
			assert_true(has(&f, STEP * i));
		assert_false(has(&f, STEP * (LOG_ROWS + MORE_ROWS)));
		assert_false(has(&f, STEP * LOG_ROWS + 1));
		rebuild(f.engine);
		assert_true(entries(&f) < 20);
		assert_int_equal(query_count(&f),
		                 LOG_ROWS + MORE_ROWS); /* nor is the partition said to be absent */
	}
	assert_verified(&f);
	fixture_close(&f);
}

/* Puts it only if it is not there. Was it? */
static bool was_new(struct fixture *f, int number)
{
	const char *format = "{'TableName':'things','Item':{'p':{'S':'log'},'s':{'N':'%d'}},"
	                     "'ConditionExpression':'attribute_not_exists(p)'}";

	return !fixture_ok(f, "PutItem", arena_printf(&f->arena, format, number).data).write.condition_failed;
}

TEST(ends, a_writer_finds_the_last_row_and_one_that_came_in_front_of_it)
{
	struct fixture f;
	int            end = STEP * (LOG_ROWS + MORE_ROWS - 1);

	open_with_log(&f);
	append(&f, LOG_ROWS, LOG_ROWS + MORE_ROWS);
	rebuild(f.engine);
	assert_false(was_new(&f, end));
	assert_false(was_new(&f, 0));
	assert_true(was_new(&f, end - 1));
	assert_false(was_new(&f, end - 1));
	write_row(&f, "DeleteItem", "log", end);
	assert_false(has(&f, end));
	assert_true(was_new(&f, end));
	assert_false(was_new(&f, end));
	assert_true(was_new(&f, end + 1));
	assert_false(was_new(&f, end + 1));
	assert_verified(&f);
	fixture_close(&f);
}

TEST(ends, a_partition_whose_rows_come_in_no_order_or_in_front_of_others_stays_in_the_filter)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_BY_N);
	engine_build_filter(f.engine);
	for (int i = 0; i < LOG_ROWS; i++)
		write_row(&f, "PutItem", "down", -i);
	write_row(&f, "PutItem", "front", 1000000);
	for (int i = 0; i < LOG_ROWS; i++)
		write_row(&f, "PutItem", "front", i);
	assert_false(is_left_out(&f, "down") || is_left_out(&f, "front"));
	fixture_close(&f);
}

TEST(ends, trimming_a_log_does_not_make_the_filter_due)
{
	struct fixture f;
	uint64_t       builds;

	open_with_log(&f);
	rebuild(f.engine);
	builds = filter_stats(f.engine->filter).builds;
	append(&f, LOG_ROWS, LOG_ROWS + MORE_ROWS);
	for (int i = 0; i < LOG_ROWS; i++)
		write_row(&f, "DeleteItem", "log", STEP * i);
	engine_build_filter(f.engine);
	assert_int_equal(filter_stats(f.engine->filter).builds, builds);
	assert_false(has(&f, 0));
	assert_true(has(&f, STEP * LOG_ROWS));
	fixture_close(&f);
}

TEST(ends, after_a_restart_a_log_is_left_out_again_and_has_its_rows)
{
	struct fixture f;

	open_with_log(&f);
	append(&f, LOG_ROWS, LOG_ROWS + MORE_ROWS);
	fixture_restart(&f);
	assert_false(is_left_out(&f, "log"));
	engine_build_filter(f.engine);
	append(&f, LOG_ROWS + MORE_ROWS, 2 * LOG_ROWS + MORE_ROWS);
	assert_true(is_left_out(&f, "log"));
	for (int i = 0; i < 2 * LOG_ROWS + MORE_ROWS; i++)
		assert_true(has(&f, STEP * i));
	assert_verified(&f);
	fixture_close(&f);
}

/* ---- while others read, and the filter is built ---- */

static atomic_llong appended; /* the last one that was answered */

/* Mostly behind the end; now and then one goes, or comes in front of it. */
static void append_and_more(struct worker *w)
{
	struct random random = {1};

	for (int64_t i = 1; i <= LOG_ROWS + APPENDS && worker_goes_on(w); i++) {
		struct table_write writes[2] = {counting(&w->arena, STEP * i, 1),
		                                counting(&w->arena, STEP * i - 1, 1)};
		struct crew_write  q = {.writes = writes, .count = 1};

		if (i > LOG_ROWS && random_below(&random, 8) == 0)
			q.count = 2;
		if (!worker_write(w, &q))
			return;
		atomic_store(&appended, i);
		writes[0] = counting(&w->arena, STEP * (int64_t)random_below(&random, (uint64_t)i) + 5, 1);
		q = (struct crew_write){.writes = writes, .count = 1};
		if (i > LOG_ROWS && random_below(&random, 8) == 0 && !worker_write(w, &q))
			return;
	}
}

static void read_any(struct worker *w)
{
	struct random random = {(uint64_t)w->number + 1};

	while (worker_goes_on(w)) {
		int64_t last = atomic_load(&appended), n;
		int64_t at = random_below(&random, 2) == 0 || last == 0
		                     ? last
		                     : 1 + (int64_t)random_below(&random, (uint64_t)last);

		if (at > 0 && worker_get(w, STEP * at, &n) && n != 1)
			worker_note(w, "row %lld of %lld is %lld", (long long)at, (long long)last,
			            (long long)n);
		if (worker_get(w, STEP * (last + 100000), &n) && n != 0)
			worker_note(w, "a row that nobody wrote is there");
	}
}

static void rebuild_often(struct worker *w)
{
	while (worker_goes_on(w))
		rebuild(w->crew->f.engine);
}

TEST(ends, no_row_of_a_log_is_missed_while_it_is_left_out_and_the_filter_is_built)
{
	struct crew c = {0};

	atomic_store(&appended, 0);
	fixture_open(&c.f);
	fixture_ok(&c.f, "CreateTable", TABLE_BY_N);
	crew_hire(&c, 1, false, append_and_more);
	crew_hire(&c, READERS, true, read_any);
	crew_hire(&c, 1, true, rebuild_often);
	crew_work(&c);
	assert_true(is_left_out(&c.f, "p"));
	assert_verified(&c.f);
	fixture_close(&c.f);
}
