/* Logs: the newest rows of a log are found by every kind of read, before a checkpoint makes a file of them, while it does and afterwards; what changes among
 * them stays changed; and after a kill at any step all that was acknowledged is there. Every engine of these tests compares what is said to be absent with its
 * store (engine.h, checks_absent). The tail by itself: tail_test.c. */
#include "engine/crew.h"

#include "base/fault.h"
#include "engine/journal.h"
#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/logs.h"
#include "engine/partition.h"
#include "engine/state.h"
#include "engine/view.h"
#include "random.h"

enum {
	LOG_ROWS = PARTITION_WHOLE_ROWS_MAX + ENDS_IN_ORDER + 25, /* after which a log has a tail */
	FILE_ROWS = 400,
	STEP = 10,    /* from one row's number to the next: there is room in between */
	AT_ONCE = 25, /* in a BatchWriteItem */
	NUMBERS = 100000,
	SMALL_CACHE = 160 << 10, /* that others can fill */
	ROUNDS = 14,
	CHECKPOINT_STEPS = 4,
	APPENDS_MAX = 200000,
	APPENDS = 1600,
	TRIM_BEHIND = 100, /* rows: more than a query of the newest looks at */
};

/* ---- which keys are those of a log ---- */

static struct bytes key_in(char text[32], unsigned partition, unsigned number)
{
	snprintf(text, 32, "rTTTT%04u%08u", partition, number);
	return bytes_of(text);
}

static bool takes(struct logs *l, unsigned partition, unsigned number)
{
	char text[32];

	return logs_take(l, key_in(text, partition, number));
}

static bool has_key(const struct logs *l, size_t count, unsigned partition, unsigned number)
{
	char text[32];

	return logs_have(l, count, key_in(text, partition, number));
}

static void flush(struct logs *l)
{
	logs_flush_done(l, logs_flush_begin(l));
}

TEST(log, begins_with_the_first_row_that_comes_after_a_whole_flush)
{
	struct logs l;
	uint64_t    under_way;

	logs_init(&l);
	under_way = logs_flush_begin(&l);
	assert_false(takes(&l, 1, 10));
	logs_flush_done(&l, under_way); /* it was begun before, and may lack rows */
	assert_false(takes(&l, 1, 11));
	flush(&l);
	assert_true(takes(&l, 1, 12));
	assert_true(has_key(&l, 1, 1, 12) && has_key(&l, 1, 1, 99));
	assert_false(has_key(&l, 1, 1, 11) || has_key(&l, 1, 2, 12));
	assert_false(has_key(&l, 0, 1, 12)); /* as of before */
	assert_false(takes(&l, 1, 11));      /* in front of it */
	logs_release(&l);
}

TEST(log, there_are_so_many_and_no_more)
{
	struct logs l;
	char        text[32];

	logs_init(&l);
	for (unsigned i = 0; i <= LOGS_MAX; i++)
		assert_false(takes(&l, i, 1));
	flush(&l);
	for (unsigned i = 0; i < LOGS_MAX; i++)
		assert_true(takes(&l, i, 2));
	assert_false(takes(&l, LOGS_MAX, 2));
	assert_int_equal(logs_count(&l), LOGS_MAX);
	assert_null(logs_found(&l, key_in(text, LOGS_MAX, 2)));
	logs_release(&l);
}

TEST(log, a_range_may_lie_in_one_or_reach_into_it)
{
	struct logs l;
	char        low[32], high[32];
	bool        inside;

	logs_init(&l);
	assert_non_null(logs_found(&l, key_in(low, 5, 50)));
	assert_true(logs_meet(&l, 1, (struct log_range){key_in(low, 5, 50), key_in(high, 5, 60)}, &inside) &&
	            inside);
	assert_true(logs_meet(&l, 1, (struct log_range){key_in(low, 5, 49), key_in(high, 5, 51)}, &inside) &&
	            !inside);
	assert_false(logs_meet(&l, 1, (struct log_range){key_in(low, 5, 10), key_in(high, 5, 50)}, &inside));
	assert_false(logs_meet(&l, 1, (struct log_range){key_in(low, 6, 0), key_in(high, 7, 0)}, &inside));
	assert_false(logs_meet(&l, 0, (struct log_range){key_in(low, 5, 50), key_in(high, 5, 60)}, &inside));
	logs_release(&l);
}

/* ---- in an engine, against a model ---- */

struct trial {
	struct fixture f;
	struct random  random;
	int            n[NUMBERS]; /* of the row with this number; 0: there is none */
	int            end;        /* the next number to append */
	int            left;       /* rows to append before there is a tail */
	uint64_t       files;      /* in earlier lives of the engine */
};

static void put_many(struct trial *t, const int *numbers, int count, int n)
{
	struct buf body;

	buf_init(&body, &t->f.arena);
	buf_add_bytes(&body, BYTES("{'RequestItems':{'things':["));
	for (int i = 0; i < count; i++) {
		buf_add_bytes(&body, arena_printf(&t->f.arena,
		                                  "%s{'PutRequest':{'Item':{'p':{'S':'p'},'s':{'N':'%d'},"
		                                  "'n':{'N':'%d'}}}}",
		                                  i == 0 ? "" : ",", numbers[i], n));
		t->n[numbers[i]] = n;
	}
	buf_add(&body, "]}}", sizeof("]}}"));
	fixture_ok(&t->f, "BatchWriteItem", body.data);
	arena_reset(&t->f.arena);
}

static void append(struct trial *t, int count, int n)
{
	for (int done = 0; done < count; done += AT_ONCE) {
		int numbers[AT_ONCE];

		for (int i = 0; i < AT_ONCE; i++, t->end += STEP)
			numbers[i] = t->end;
		put_many(t, numbers, AT_ONCE, n);
	}
}

/* The fewest rows may become a file. */
static void start(struct trial *t)
{
	fixture_start(&t->f);
	t->f.engine->write_back.tail.file_bytes_min = 1;
}

/* What the keys of its rows begin with. */
static void log_low(struct trial *t, struct buf *low)
{
	struct value hash = value_string(BYTES("p"));

	buf_init(low, &t->f.arena);
	layout_partition(low, catalog_find(t->f.engine->catalog, BYTES("things"))->id, &hash);
}

static uint64_t log_number(struct trial *t)
{
	struct buf low;

	log_low(t, &low);
	return layout_partition_number(buf_bytes(&low));
}

static uint64_t files_of(struct trial *t)
{
	return atomic_load(&t->f.engine->write_back.tail.files);
}

static uint64_t rows_put_of(struct trial *t)
{
	return atomic_load(&t->f.engine->write_back.tail.rows_put);
}

/* The journal is the writer's. */
static enum err_code next_segment_run(struct turn_request *w, struct table *t)
{
	return journal_next_segment(((struct engine_session *)t)->engine->journal, &w->err);
}

static enum err_code checkpoint_try(struct trial *t)
{
	struct turn_request next = {.run = next_segment_run};

	assert_int_equal(engine_run(t->f.engine, &next, &t->f.err), ERR_NONE);
	return checkpoint_run(t->f.engine, &t->f.err);
}

static void checkpoint(struct trial *t)
{
	assert_int_equal(checkpoint_try(t), ERR_NONE);
}

static void open_trial(struct trial *t, uint64_t seed)
{
	*t = (struct trial){.random = {seed}, .end = STEP};
	fixture_open(&t->f);
	t->f.engine->write_back.tail.file_bytes_min = 1;
	fixture_ok(&t->f, "CreateTable", TABLE_BY_N);
	engine_build_filter(t->f.engine);
	append(t, LOG_ROWS, 1);
	checkpoint(t); /* (R2): from here on it is a log */
}

static struct bytes row_key_of(struct trial *t, int number)
{
	const struct table_entry *table = catalog_find(t->f.engine->catalog, BYTES("things"));
	struct item               item = key_numbered(&t->f.arena, number);
	struct buf                key;

	buf_init(&key, &t->f.arena);
	layout_row(&key, table->id, &table->schema.keys, &item);
	return buf_bytes(&key);
}

static int number_at(const struct item *item)
{
	return (int)number_in(item);
}

/* All pages of a Query or a Scan; each row once, in order, as the model has it. */
static void assert_pages(struct trial *t, struct table *table, bool scan, bool backward)
{
	struct table_query        q = query_p(&t->f.arena, "");
	struct table_query_result r;
	struct item               start;
	int                       at = backward ? NUMBERS : -1;

	if (scan)
		q.key = NULL;
	q.backward = backward;
	q.limit = (uint32_t)random_below(&t->random, 5000);
	do {
		assert_int_equal(table->backend->query(table, &t->f.arena, &q, &r, &t->f.err), ERR_NONE);
		for (uint32_t i = 0; i <= r.count; i++) {
			int next = i < r.count ? number_at(&r.items[i])
			           : r.more    ? at
			           : backward  ? -1
			                       : NUMBERS;

			for (at += backward ? -1 : 1; backward ? at > next : at < next;
			     at += backward ? -1 : 1)
				assert_int_equal(t->n[at], 0);
			if (i < r.count)
				assert_int_equal(count_in(&r.items[i]), t->n[at]);
			else if (r.more)
				at = next;
		}
		start = r.last_key;
		q.start = &start;
	} while (r.more);
	arena_reset(&t->f.arena);
}

/* Single rows, alone and in a transaction. */
static void assert_gets(struct trial *t)
{
	for (int i = 0; i < 200; i++) {
		int near_end = (int)random_below(&t->random, 500);
		int number = i % 2 == 0 ? (int)random_below(&t->random, (uint64_t)t->end + STEP)
		                        : t->end - near_end;
		int other = (int)random_below(&t->random, (uint64_t)t->end + STEP);
		const struct table_get_result *got;
		union answer                   r;

		number = number < 0 ? 0 : number;
		r = fixture_ok(
		        &t->f, "TransactGetItems",
		        arena_printf(&t->f.arena,
		                     "{'TransactItems':[{'Get':{'TableName':'things','Key':{'p':{'S':'p'},"
		                     "'s':{'N':'%d'}}}},{'Get':{'TableName':'things','Key':{'p':{'S':'p'},"
		                     "'s':{'N':'%d'}}}}]}",
		                     number, other == number ? number + 1 : other)
		                .data);
		got = &r.batch_get.results[0];
		assert_int_equal(got->found ? count_in(&got->item) : 0, t->n[number]);
		r = fixture_ok(&t->f, "GetItem",
		               arena_printf(&t->f.arena,
		                            "{'TableName':'things','Key':{'p':{'S':'p'},'s':{'N':'%d'}}}",
		                            number)
		                       .data);
		assert_int_equal(r.get.found ? count_in(&r.get.item) : 0, t->n[number]);
		arena_reset(&t->f.arena);
	}
}

static void assert_model(struct trial *t)
{
	struct fixture_reader reader;

	fixture_reader_begin(&reader, &t->f);
	for (int i = 0; i < 4; i++)
		assert_pages(t, reader.table, i / 2 == 1, i % 2 == 1 && i / 2 == 0);
	fixture_reader_end(&reader);
	assert_gets(t);
}

static void delete_one(struct trial *t, int number)
{
	fixture_ok(&t->f, "DeleteItem",
	           arena_printf(&t->f.arena, "{'TableName':'things','Key':{'p':{'S':'p'},'s':{'N':'%d'}}}",
	                        number)
	                   .data);
	t->n[number] = 0;
	arena_reset(&t->f.arena);
}

/* Mostly among the newest rows: some change, some go, some come in between. */
static void change_some(struct trial *t, int n)
{
	for (int i = 0; i < 30; i++) {
		int back = (int)random_below(&t->random, i % 3 == 0 ? 4000 : 300);
		int number = t->end - STEP - back < 1 ? 1 : t->end - STEP - back;

		if (random_below(&t->random, 2) == 0)
			number = number / STEP * STEP + STEP;
		if (random_below(&t->random, 3) == 0)
			delete_one(t, number < t->end ? number : t->end - STEP);
		else
			put_many(t, (int[]){number < t->end ? number : t->end - STEP}, 1, n);
	}
}

TEST(log, the_rows_of_a_log_become_a_file_with_the_checkpoint_and_are_there_all_the_time)
{
	static struct trial t;
	uint64_t            files, put;

	open_trial(&t, 1);
	files = files_of(&t);
	put = rows_put_of(&t);
	append(&t, FILE_ROWS, 2);
	assert_model(&t);
	checkpoint(&t);
	assert_int_equal(files_of(&t), files + 1);
	assert_int_equal(rows_put_of(&t), put);
	assert_model(&t);
	append(&t, FILE_ROWS, 3);
	assert_model(&t);
	assert_verified(&t.f);
	fixture_restart(&t.f);
	assert_model(&t);
	assert_verified(&t.f);
	fixture_close(&t.f);
}

/* A reader that is late would hide a row from others that have seen it in the tail already. */
TEST(log, a_row_that_a_log_lacks_is_not_cached_as_absent)
{
	static struct trial t;
	struct bytes        key, value;
	struct cache_ticket ticket;
	uint64_t            hash;

	open_trial(&t, 11);
	append(&t, AT_ONCE, 2);
	key = row_key_of(&t, t.end - 1);
	hash = hash_bytes(t.f.engine->hash_key, key);
	assert_false(fixture_ok(&t.f, "GetItem",
	                        arena_printf(&t.f.arena,
	                                     "{'TableName':'things','Key':{'p':{'S':'p'},'s':{'N':'%d'}}}",
	                                     t.end - 1)
	                                .data)
	                     .get.found);
	assert_int_equal(cache_get(t.f.engine->cache, hash, key, &t.f.arena, &value, &ticket), CACHE_MISS);
	fixture_close(&t.f);
}

TEST(log, few_rows_become_no_file_of_their_own)
{
	static struct trial    t;
	struct rocks_snapshot *snapshot;

	open_trial(&t, 2);
	t.f.engine->write_back.tail.file_bytes_min = TAIL_FILE_BYTES_MIN;
	append(&t, AT_ONCE, 2);
	checkpoint(&t);
	assert_int_equal(files_of(&t), 0);
	assert_model(&t);
	t.f.engine->write_back.tail.file_bytes_min = FILE_ROWS; /* far less than so many rows have … */
	append(&t, FILE_ROWS, 3);
	assert_int_equal(view_snapshot_open(t.f.engine, &snapshot, &t.f.err), ERR_NONE);
	rocks_snapshot_close(t.f.engine->rocks, snapshot); /* … which are in the store now */
	put_many(&t, &t.end, 1, 4);
	t.end += STEP;
	checkpoint(&t);
	assert_int_equal(files_of(&t), 0);
	assert_model(&t);
	fixture_close(&t.f);
}

TEST(log, a_walk_that_begins_before_a_long_tail_takes_nothing_of_it)
{
	static struct trial   t;
	struct waiting_places places;
	struct waiting_range  range, part;
	struct cache_rows     rows;
	struct buf            low;

	open_trial(&t, 9);
	checkpoint(&t);
	append(&t, 2 * WAITING_ROWS_MAX, 2);
	places = (struct waiting_places){t.f.engine->cache, &t.f.engine->write_back.tail};
	log_low(&t, &low);
	range = (struct waiting_range){.low = buf_bytes(&low),
	                               .high = layout_after(&t.f.arena, buf_bytes(&low))};
	waiting_take(places, &range, &t.f.arena, &rows, &part);
	assert_int_equal(rows.count, 0);
	range.low = part.high;
	waiting_take(places, &range, &t.f.arena, &rows, &part);
	assert_int_equal(rows.count, WAITING_ROWS_MAX);
	assert_model(&t);
	checkpoint(&t);
	assert_model(&t);
	fixture_close(&t.f);
}

TEST(log, what_changes_among_its_rows_stays_changed_before_and_after_the_checkpoint)
{
	static struct trial t;

	for (int written_back = 0; written_back < 2; written_back++) {
		open_trial(&t, 3);
		append(&t, FILE_ROWS, 2);
		change_some(&t, 3);
		if (written_back == 1)
			assert_int_equal(write_back_all(&t.f.engine->write_back, &t.f.err), ERR_NONE);
		assert_model(&t);
		checkpoint(&t);
		assert_model(&t);
		change_some(&t, 4);
		assert_model(&t);
		assert_int_equal(engine_compact(t.f.engine, &t.f.err), ERR_NONE);
		assert_model(&t);
		assert_verified(&t.f);
		fixture_restart(&t.f);
		assert_model(&t);
		fixture_close(&t.f);
	}
}

/* The cache forgets that the partition is large, as it does once others have been found to be. */
static void forget_large(struct engine *e)
{
	for (uint32_t i = 0; i < 100000; i++) {
		char         text[32];
		struct bytes key = {text, (size_t)snprintf(text, sizeof(text), "rTTT%c%c%c%c%c%08u",
		                                           (int)(i >> 24 & 255), (int)(i >> 16 & 255),
		                                           (int)(i >> 8 & 255), (int)(i & 255), 'x', i)};
		uint32_t     token = cache_load_begin(e->cache, key);

		if (token != 0)
			cache_load_end(e->cache, token, key, false, true);
	}
}

/* With rows of another table: those that were deleted leave it. */
static void fill_cache(struct trial *t)
{
	fixture_ok(&t->f, "CreateTable",
	           "{'TableName':'others','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	           "AttributeName':'p',"
	           "'AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]}");
	for (int i = 0; i < 2000; i++) {
		fixture_ok(
		        &t->f, "PutItem",
		        arena_printf(&t->f.arena, "{'TableName':'others','Item':{'p':{'S':'%d'}}}", i).data);
		arena_reset(&t->f.arena);
	}
}

TEST(log, a_log_of_which_the_store_has_few_rows_is_not_taken_for_a_small_partition)
{
	static struct trial t;

	open_trial(&t, 8);
	t.f.options.cache_bytes_max = SMALL_CACHE;
	engine_close(t.f.engine);
	start(&t);
	append(&t, LOG_ROWS, 1);
	checkpoint(&t);
	append(&t, AT_ONCE, 2);
	for (int number = STEP; number < t.end - 2 * AT_ONCE * STEP; number += STEP)
		delete_one(&t, number);
	assert_int_equal(write_back_all(&t.f.engine->write_back, &t.f.err), ERR_NONE);
	fill_cache(&t);
	forget_large(t.f.engine);
	assert_true(tail_has(&t.f.engine->write_back.tail, log_number(&t)));
	assert_model(&t);
	append(&t, AT_ONCE, 3);
	assert_model(&t);
	fixture_close(&t.f);
}

TEST(log, a_snapshot_does_not_see_rows_that_came_later_as_a_file)
{
	static struct trial    t;
	struct rocks_snapshot *snapshot;
	struct rocks_cursor   *c;
	struct bytes           key, value;
	int                    rows = 0, before;

	open_trial(&t, 4);
	append(&t, AT_ONCE, 2);
	before = t.end / STEP - 1;
	assert_int_equal(view_snapshot_open(t.f.engine, &snapshot, &t.f.err), ERR_NONE);
	append(&t, FILE_ROWS, 3);
	checkpoint(&t);
	assert_int_equal(files_of(&t), 0); /* they were put there row by row */
	c = rocks_cursor_open(t.f.engine->rocks, snapshot, BYTES("r"), BYTES("s"), false);
	for (; rocks_cursor_at(c, &key, &value); rocks_cursor_next(c))
		rows++;
	assert_int_equal(rows, before);
	rocks_cursor_close(c);
	rocks_snapshot_close(t.f.engine->rocks, snapshot);
	assert_model(&t);
	append(&t, FILE_ROWS, 4);
	checkpoint(&t);
	assert_int_equal(files_of(&t), 1);
	assert_model(&t);
	fixture_close(&t.f);
}

TEST(log, rows_of_a_deleted_table_are_gone)
{
	static struct trial t;

	for (int filed = 0; filed < 2; filed++) {
		open_trial(&t, 5);
		append(&t, FILE_ROWS, 2);
		if (filed == 1)
			checkpoint(&t);
		fixture_ok(&t.f, "DeleteTable", "{'TableName':'things'}");
		fixture_ok(&t.f, "CreateTable", TABLE_BY_N);
		memset(t.n, 0, sizeof(t.n));
		checkpoint(&t);
		assert_model(&t);
		assert_verified(&t.f);
		fixture_restart(&t.f);
		assert_verified(&t.f);
		fixture_close(&t.f);
	}
}

/* Rows that come backward are no log's. They are gone again, and the numbers are free. */
static void rows_that_were(struct trial *t)
{
	for (int number = NUMBERS - STEP; number > NUMBERS - STEP - LOG_ROWS * STEP; number -= STEP)
		put_many(t, &number, 1, 1);
}

static void delete_those_that_were(struct trial *t)
{
	for (int number = NUMBERS - STEP; number > NUMBERS - STEP - LOG_ROWS * STEP; number -= STEP)
		delete_one(t, number);
	assert_int_equal(write_back_all(&t->f.engine->write_back, &t->f.err), ERR_NONE);
}

static void open_with_rows_that_were(struct trial *t)
{
	*t = (struct trial){.random = {10}, .end = STEP};
	fixture_open(&t->f);
	t->f.engine->write_back.tail.file_bytes_min = 1;
	fixture_ok(&t->f, "CreateTable", TABLE_BY_N);
	rows_that_were(t);
	engine_close(t->f.engine); /* ends.h does not know them */
	start(t);
	engine_build_filter(t->f.engine);
}

/* (R2) on the disk, too: what was deleted before a log began there does not come back. */
TEST(log, rows_that_were_deleted_where_a_log_begins_are_gone_after_a_kill_at_any_step)
{
	static struct trial t;

	for (long step = 0; step < CHECKPOINT_STEPS; step++) {
		open_with_rows_that_were(&t);
		delete_those_that_were(&t);
		append(&t, LOG_ROWS + FILE_ROWS, 2);
		fault_arm(FAULT_CHECKPOINT, step);
		checkpoint_try(&t);
		fault_disarm(FAULT_CHECKPOINT);
		fixture_die(&t.f);
		start(&t);
		assert_model(&t);
		assert_verified(&t.f);
		append(&t, LOG_ROWS + FILE_ROWS, 3);
		checkpoint(&t);
		append(&t, FILE_ROWS, 4);
		checkpoint(&t);
		assert_true(files_of(&t) > 0);
		assert_model(&t);
		fixture_close(&t.f);
	}
}

TEST(log, a_snapshot_has_the_rows_that_were_deleted_before_a_log_began_there)
{
	static struct trial    t;
	struct rocks_snapshot *snapshot;
	struct rocks_cursor   *c;
	struct bytes           low, high, key, value;
	struct buf             out;
	bool                   found;
	int                    rows = 0;

	open_with_rows_that_were(&t);
	assert_int_equal(view_snapshot_open(t.f.engine, &snapshot, &t.f.err), ERR_NONE);
	delete_those_that_were(&t);
	append(&t, LOG_ROWS, 2);
	checkpoint(&t);
	append(&t, FILE_ROWS, 3);
	assert_true(tail_has(&t.f.engine->write_back.tail, log_number(&t)));
	low = row_key_of(&t, NUMBERS - LOG_ROWS * STEP);
	high = layout_after(&t.f.arena, layout_partition_head(low));
	c = rocks_cursor_open(t.f.engine->rocks, snapshot, low, high, true);
	for (; rocks_cursor_at(c, &key, &value); rocks_cursor_next(c))
		rows++;
	rocks_cursor_close(c);
	assert_int_equal(rows, LOG_ROWS);
	buf_init(&out, &t.f.arena);
	assert_int_equal(rocks_get(t.f.engine->rocks, snapshot, low, &out, &found, &t.f.err), ERR_NONE);
	assert_true(found);
	rocks_snapshot_close(t.f.engine->rocks, snapshot);
	assert_model(&t);
	fixture_close(&t.f);
}

/* It is absent, whatever the tail says of it (lapse.h X1): it is new to a large partition when it comes again. */
TEST(log, a_row_that_has_lapsed_there_and_comes_again_is_the_new_one)
{
	static struct trial t;
	const char         *put = "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'},'n':{'N':'%d'},"
	                          "'ttl':{'N':'%lld'}}}";
	int                 number;

	open_trial(&t, 9);
	fixture_ok(&t.f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	for (int i = 0; i < 10; i++)
		engine_tick(t.f.engine);
	append(&t, AT_ONCE, 2);
	number = t.end;
	fixture_ok(&t.f, "PutItem", arena_printf(&t.f.arena, put, number, 3, (long long)START_S + 60).data);
	t.end += STEP;
	append(&t, AT_ONCE, 4);
	fixture_set_clock(&t.f, START_S + 3 * 3600);
	assert_int_equal(lapse_close(t.f.engine, &t.f.err), ERR_NONE);
	assert_true(tail_has(&t.f.engine->write_back.tail, log_number(&t)));
	assert_model(&t);
	put_many(&t, &number, 1, 5);
	assert_model(&t);
	checkpoint(&t);
	assert_model(&t);
	assert_verified(&t.f);
	fixture_die(&t.f);
	start(&t);
	assert_model(&t);
	fixture_close(&t.f);
}

/* The place that a checkpoint notes is on the disk only after all that lies before it. */
TEST(log, after_a_kill_at_any_step_of_a_checkpoint_all_rows_are_there)
{
	static struct trial t;

	for (long step = 0; step <= CHECKPOINT_STEPS; step++) {
		open_trial(&t, 6);
		checkpoint(&t);
		append(&t, FILE_ROWS, 2);
		change_some(&t, 3);
		fault_arm(FAULT_CHECKPOINT, step);
		assert_int_equal(checkpoint_try(&t), step < CHECKPOINT_STEPS ? ERR_STORAGE : ERR_NONE);
		fault_disarm(FAULT_CHECKPOINT);
		assert_model(&t);
		change_some(&t, 4);
		fixture_die(&t.f);
		start(&t);
		assert_model(&t);
		assert_verified(&t.f);
		append(&t, LOG_ROWS + FILE_ROWS, 5);
		checkpoint(&t);
		assert_model(&t);
		assert_verified(&t.f);
		fixture_close(&t.f);
	}
}

TEST(log, a_checkpoint_that_failed_after_rows_were_sealed_is_made_up_for_by_the_next)
{
	static struct trial    t;
	struct rocks_snapshot *snapshot;

	open_trial(&t, 7);
	checkpoint(&t);
	snapshot = rocks_snapshot_open(t.f.engine->rocks); /* no file is taken */
	append(&t, FILE_ROWS, 2);
	assert_int_equal(write_back_all(&t.f.engine->write_back, &t.f.err), ERR_NONE);
	fault_arm(FAULT_APPLY, 0); /* nor a row */
	assert_int_equal(checkpoint_try(&t), ERR_STORAGE);
	fault_disarm(FAULT_APPLY);
	rocks_snapshot_close(t.f.engine->rocks, snapshot);
	append(&t, FILE_ROWS, 3);
	change_some(&t, 4);
	assert_model(&t);
	checkpoint(&t);
	assert_model(&t);
	fixture_die(&t.f);
	start(&t);
	assert_model(&t);
	assert_verified(&t.f);
	fixture_close(&t.f);
}

/* Rows are read, and put into the store for a snapshot, while a file waits for room. */
static void checkpoint_without_room(struct trial *t)
{
	struct rocks_snapshot *snapshot;

	log_set_level((enum log_level)(LOG_ERROR + 1)); /* what it says is no news */
	fault_arm(FAULT_STORE_FULL, (long)random_below(&t->random, 3));
	checkpoint_try(t);
	assert_model(t);
	if (random_below(&t->random, 2) == 0 &&
	    view_snapshot_open(t->f.engine, &snapshot, &t->f.err) == ERR_NONE)
		rocks_snapshot_close(t->f.engine->rocks, snapshot);
	assert_model(t);
	fault_disarm(FAULT_STORE_FULL);
	while (rocks_is_waiting(t->f.engine->rocks))
		;
	engine_tick(t->f.engine);
	log_set_level(LOG_ERROR);
}

static void checkpoint_with_snapshot(struct trial *t)
{
	struct rocks_snapshot *snapshot;

	assert_int_equal(view_snapshot_open(t->f.engine, &snapshot, &t->f.err), ERR_NONE);
	append(t, AT_ONCE, 202);
	checkpoint(t);
	rocks_snapshot_close(t->f.engine->rocks, snapshot);
}

static void delete_all(struct trial *t)
{
	for (int number = 0; number < t->end; number++)
		if (t->n[number] != 0)
			delete_one(t, number);
}

/* What happens to the engine between two rounds. */
static void pass(struct trial *t, uint64_t what)
{
	if (what == 0)
		return;
	if (what == 12) {
		checkpoint_without_room(t);
		return;
	}
	if (what == 13) {
		checkpoint_with_snapshot(t);
		return;
	}
	if (what == 14) {
		fault_arm(FAULT_APPLY, (long)random_below(&t->random, 4));
		checkpoint_try(t);
		fault_disarm(FAULT_APPLY);
		return;
	}
	if (what == 15) {
		delete_all(t);
		return;
	}
	if (what <= 7) {
		checkpoint(t);
		return;
	}
	if (what == 8) {
		rocks_compact(t->f.engine->rocks);
		return;
	}
	if (what == 9) {
		fault_arm(FAULT_CHECKPOINT, (long)random_below(&t->random, CHECKPOINT_STEPS));
		checkpoint_try(t);
		fault_disarm(FAULT_CHECKPOINT);
		return;
	}
	t->files += files_of(t);
	if (what == 10)
		fixture_die(&t->f);
	else
		engine_close(t->f.engine);
	start(t);
	t->left = LOG_ROWS;
}

TEST(log, a_log_is_what_a_model_of_it_holds_whatever_happens)
{
	static struct trial t;

	for (uint64_t seed = 1; seed <= 2; seed++) {
		open_trial(&t, seed);
		for (int round = 2; round < ROUNDS; round++) {
			append(&t, t.left + (int)random_below(&t.random, 2) * FILE_ROWS, round);
			t.left = 0;
			if (round % 3 == 0) /* rows that have changed become no file */
				change_some(&t, 100 + round);
			assert_model(&t);
			for (int trimmed = 0; trimmed < 40; trimmed++)
				delete_one(&t, STEP * (1 + (int)random_below(&t.random,
				                                             (uint64_t)t.end / STEP / 2)));
			pass(&t, random_below(&t.random, 16));
			assert_model(&t);
		}
		assert_verified(&t.f);
		assert_true(t.files + files_of(&t) > 0);
		fixture_close(&t.f);
	}
}

/* ---- while others read ---- */

static atomic_llong appended; /* the last one that was answered */

/* Has a test that wants files of the log had one? On a busy machine a snapshot may be open at each of many checkpoints. */
static bool file_taken(const struct worker *w)
{
	struct tail *t = &w->crew->f.engine->write_back.tail;

	return t->file_bytes_min > 1 || atomic_load(&t->files) > 0;
}

static void append_fast(struct worker *w)
{
	for (int64_t i = 1; (i <= APPENDS || (i <= APPENDS_MAX && !file_taken(w))) && worker_goes_on(w);
	     i++) {
		struct table_write write = counting(&w->arena, i, 1);
		struct crew_write  q = {.writes = &write, .count = 1};

		if (!worker_write(w, &q))
			return;
		atomic_store(&appended, i);
		write = counting(&w->arena, i, 1);
		if (i % 8 == 0 && !worker_write(w, &q)) /* it leaves the tail */
			return;
	}
}

/* Whatever was answered before is there, in order, up to some row, and nothing behind it. */
static void query_newest(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct table_query        q = query_p(&w->arena, "");
		struct table_query_result r;
		int64_t                   last = atomic_load(&appended), first;

		q.backward = true;
		q.limit = 50;
		if (worker_query(w, &q, &r) != ERR_NONE) {
			worker_note(w, "a query: %s", w->err.text);
			return;
		}
		first = r.count == 0 ? 0 : number_in(&r.items[0]);
		if (first < last)
			worker_note(w, "row %lld was answered, and %lld is the last", (long long)last,
			            (long long)first);
		for (uint32_t i = 0; i < r.count; i++)
			if (number_in(&r.items[i]) != first - i)
				worker_note(w, "row %lld is missing", (long long)first - i);
	}
}

static void get_newest(struct worker *w)
{
	while (worker_goes_on(w)) {
		int64_t last = atomic_load(&appended), n;

		if (last > 0 && worker_get(w, last, &n) && n < 1)
			worker_note(w, "row %lld is %lld", (long long)last, (long long)n);
	}
}

static void checkpoint_often(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct write_back *b = &w->crew->f.engine->write_back;

		pthread_mutex_lock(&b->checkpoint_lock);
		if (write_back_logs(b, &w->err) != ERR_NONE || rocks_flush(b->rocks, &w->err) != ERR_NONE)
			worker_note(w, "a checkpoint: %s", w->err.text);
		pthread_mutex_unlock(&b->checkpoint_lock);
	}
}

static void snapshot_often(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct rocks_snapshot *snapshot;

		if (view_snapshot_open(w->crew->f.engine, &snapshot, &w->err) == ERR_NONE)
			rocks_snapshot_close(w->crew->f.engine->rocks, snapshot);
	}
}

/* Every row has its index entry, and every entry its row, at whatever moment somebody looks. */
static void verify_often(struct worker *w)
{
	while (worker_goes_on(w))
		if (engine_verify(w->crew->f.engine, &w->err) != ERR_NONE)
			worker_note(w, "verifying: %s", w->err.text);
}

/* Those that are long answered for go, as the oldest of a log do. */
static void trim_often(struct worker *w)
{
	for (int64_t next = 1; worker_goes_on(w);) {
		struct table_write write = {.kind = TABLE_DELETE, .table = BYTES("things")};
		struct crew_write  q = {.writes = &write, .count = 1};

		if (atomic_load(&appended) - next < TRIM_BEHIND)
			continue;
		write.key = key_numbered(&w->arena, next++);
		if (!worker_write(w, &q))
			return;
	}
}

TEST(log, a_log_is_whole_at_every_moment_while_it_grows_and_is_trimmed)
{
	struct crew c = {0};

	atomic_store(&appended, 0);
	fixture_open(&c.f);
	fixture_ok(&c.f, "CreateTable", TABLE_BY_N);
	crew_hire(&c, 1, false, append_fast);
	crew_hire(&c, 1, true, trim_often);
	crew_hire(&c, 1, true, query_newest);
	crew_hire(&c, 1, true, checkpoint_often);
	crew_hire(&c, 1, true, verify_often);
	crew_work(&c);
	assert_verified(&c.f);
	fixture_die(&c.f);
	fixture_start(&c.f);
	assert_verified(&c.f);
	fixture_close(&c.f);
}

TEST(log, nothing_is_missed_while_rows_move_into_the_store)
{
	struct crew c = {0};

	atomic_store(&appended, 0);
	fixture_open(&c.f);
	fixture_ok(&c.f, "CreateTable", TABLE_BY_N);
	c.f.engine->write_back.tail.file_bytes_min = 1;
	crew_hire(&c, 1, false, append_fast);
	crew_hire(&c, 1, true, query_newest);
	crew_hire(&c, 1, true, get_newest);
	crew_hire(&c, 1, true, checkpoint_often);
	crew_hire(&c, 1, true, snapshot_often);
	crew_work(&c);
	assert_true(atomic_load(&c.f.engine->write_back.tail.files) > 0);
	assert_verified(&c.f);
	fixture_close(&c.f);
}
