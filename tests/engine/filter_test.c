/* Filter: what it says is absent is absent: while it is built, after it was replaced, while rows come and go. Every engine of these tests
 * looks up in its store whatever its filter lacks, and ends the process if it is there (engine.h, checks_absent). */
#include "engine/crew.h"

#include "engine/settled.h"
#include "random.h"

enum {
	ENTRIES = 20000,
	REBUILDS = 300,
	ROWS = 500,
	WRITERS = 3,
	READERS = 2,
	ROUNDS = 60, /* of building */
	TINY_BYTES = 4096,
	MANY = 40, /* rows of a commit */
	COMMITS = 60,
	PAD_BYTES = 1000,
};

#define TABLE_PS_NUMBERED                                                                                    \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'s','AttributeType':'N'}],'KeySchema':[{'AttributeName':'p'" \
	",'KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}]}"

static uint64_t hash_of(uint64_t n)
{
	return hash_bytes(HASH_KEY_STABLE, (struct bytes){(const char *)&n, sizeof(n)});
}

/* Builds one that has the numbers below `count`. */
static void build(struct filter *f, uint64_t count)
{
	assert_true(filter_build_begin(f, count));
	for (uint64_t i = 0; i < count; i++)
		filter_build_add(f, hash_of(i));
	filter_build_end(f, true);
}

static unsigned lacking(const struct filter *f, uint64_t from, uint64_t to)
{
	unsigned count = 0;

	for (uint64_t i = from; i < to; i++)
		count += filter_lacks(f, hash_of(i)) ? 1 : 0;
	return count;
}

TEST(filter, lacks_nothing_before_it_is_complete_and_after_a_build_that_was_given_up)
{
	struct filter *f = filter_open(1 << 20);

	assert_false(filter_lacks(NULL, 1));
	assert_int_equal(lacking(f, 0, 100), 0);
	assert_true(filter_is_due(f, 1));
	assert_true(filter_build_begin(f, 100));
	filter_add(f, hash_of(1));
	assert_int_equal(lacking(f, 0, 100), 0);
	filter_build_end(f, false);
	assert_int_equal(lacking(f, 0, 100), 0);
	assert_true(filter_is_due(f, 1));
	filter_close(f);
}

TEST(filter, has_what_was_there_before_it_and_what_came_while_and_after_it_was_built)
{
	struct filter *f = filter_open(1 << 20);

	for (int round = 0; round < 5; round++) {
		assert_true(filter_build_begin(f, ENTRIES));
		for (uint64_t i = 0; i < 100; i++)
			filter_build_add(f, hash_of(i));
		for (uint64_t i = 100; i < 200; i++)
			filter_add(f, hash_of(i));
		assert_int_equal(lacking(f, 0, 200), 0); /* also in the one before */
		filter_build_end(f, true);
		for (uint64_t i = 200; i < 300; i++)
			filter_add(f, hash_of(i));
		assert_int_equal(lacking(f, 0, 300), 0);
		assert_true(lacking(f, 1000, 2000) > 990);
	}
	assert_int_equal(filter_stats(f).builds, 5);
	filter_close(f);
}

TEST(filter, chooses_what_it_does_not_lack)
{
	struct filter *f = filter_open(1 << 20);
	uint64_t       hashes[4] = {hash_of(1), hash_of(1000), hash_of(2), hash_of(1001)}, chosen[4];

	assert_int_equal(filter_choose(f, hashes, 4, chosen), 4); /* it is not complete */
	build(f, 3);
	assert_int_equal(filter_choose(f, hashes, 4, chosen), 2);
	assert_true(chosen[0] == hash_of(1) && chosen[1] == hash_of(2));
	filter_close(f);
}

TEST(filter, a_full_one_takes_at_most_three_of_a_hundred_absent_rows_for_present_ones)
{
	struct filter *f = filter_open(1 << 20);

	build(f, ENTRIES);
	assert_int_equal(lacking(f, 0, ENTRIES), 0);
	assert_true(lacking(f, ENTRIES, 2 * ENTRIES) > ENTRIES / 100 * 97);
	filter_close(f);
}

TEST(filter, is_due_again_when_it_is_full_or_half_of_it_may_be_deleted)
{
	struct filter *f = filter_open(1 << 20);
	uint64_t       i = ENTRIES;

	build(f, ENTRIES);
	assert_false(filter_is_due(f, 1));
	while (!filter_is_due(f, 1) && i < 4 * ENTRIES)
		filter_add(f, hash_of(i++));
	assert_true(i > ENTRIES && i < 2 * ENTRIES);
	build(f, 2 * ENTRIES);
	assert_false(filter_is_due(f, 1));
	for (i = 0; i <= ENTRIES; i++)
		filter_note_deleted(f, 1);
	assert_true(filter_is_due(f, 1));
	assert_false(filter_is_due(f, 2 * ENTRIES)); /* too few to be worth it */
	build(f, ENTRIES);
	assert_false(filter_is_due(f, 1));
	filter_close(f);
}

TEST(filter, one_that_may_not_grow_is_still_right_and_not_built_again_and_again)
{
	struct filter *f = filter_open(TINY_BYTES);

	build(f, ENTRIES);
	assert_int_equal(filter_stats(f).bytes, TINY_BYTES);
	assert_int_equal(lacking(f, 0, ENTRIES), 0);
	assert_false(filter_is_due(f, 1));
	filter_close(f);
}

TEST(memory, is_shared_out_among_rows_blocks_and_filter_and_no_more_than_there_is)
{
	struct engine_options o = engine_options_default("none");

	engine_options_set_memory(&o, 800 << 20);
	assert_int_equal(o.cache_bytes_max, 500 << 20);
	assert_int_equal(o.block_cache_bytes, 200 << 20);
	assert_int_equal(o.filter_bytes_max, 100 << 20);
}

/* ---- readers beside it: (F2) ---- */

struct looker {
	struct filter *filter;
	atomic_bool    over;
	atomic_ullong  wrong;
};

static void *look(void *arg)
{
	struct looker *l = arg;

	while (!atomic_load(&l->over))
		atomic_fetch_add(&l->wrong, lacking(l->filter, 0, 200));
	return NULL;
}

TEST(filter, a_reader_never_misses_what_is_there_while_filters_are_replaced)
{
	struct looker l = {.filter = filter_open(1 << 20)};
	pthread_t     threads[READERS];

	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, &l), 0);
	for (int i = 0; i < REBUILDS; i++)
		build(l.filter, i % 2 == 0 ? 200 : 2000);
	atomic_store(&l.over, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&l.wrong), 0);
	filter_close(l.filter);
}

/* ---- in an engine ---- */

static void write_row(struct fixture *f, const char *operation, int number)
{
	const char *format = strcmp(operation, "PutItem") == 0
	                             ? "{'TableName':'things','Item':{'p':{'S':'p%d'},'s':{'S':'x'}}}"
	                             : "{'TableName':'things','Key':{'p':{'S':'p%d'},'s':{'S':'x'}}}";

	fixture_ok(f, operation, arena_printf(&f->arena, format, number).data);
	arena_reset(&f->arena);
}

static bool is_there(struct fixture *f, int number)
{
	union answer r = fixture_ok(
	        f, "GetItem",
	        arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'p%d'},'s':{'S':'x'}}}",
	                     number)
	                .data);

	return r.get.found;
}

static uint64_t misses(struct fixture *f)
{
	return engine_stats(f->engine).cache_misses;
}

static void open_with_rows(struct fixture *f, int rows)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_PS);
	for (int i = 0; i < rows; i++)
		write_row(f, "PutItem", i);
	engine_build_filter(f->engine);
}

/* How many rows that are not there take a look into the cache, and so into the store. */
static int looked_for(struct fixture *f, int from, int to)
{
	uint64_t before = misses(f);

	for (int i = from; i < to; i++)
		assert_false(is_there(f, i));
	return (int)(misses(f) - before);
}

TEST(absent, rows_cost_no_look_into_the_store_once_the_filter_is_built)
{
	struct fixture f;

	open_with_rows(&f, ROWS);
	assert_true(filter_stats(f.engine->filter).complete);
	for (int i = 0; i < ROWS; i++)
		assert_true(is_there(&f, i));
	assert_true(looked_for(&f, ROWS, 2 * ROWS) < ROWS / 10);
	fixture_close(&f);
}

TEST(absent, after_a_restart_the_filter_has_what_the_store_and_what_the_journal_held)
{
	struct fixture f;

	open_with_rows(&f, ROWS);
	fixture_restart(&f); /* into the store */
	for (int i = ROWS; i < ROWS + 50; i++)
		write_row(&f, "PutItem", i);
	engine_build_filter(f.engine);
	fixture_restart(&f);
	engine_build_filter(f.engine);
	for (int i = 0; i < ROWS + 50; i++)
		assert_true(is_there(&f, i));
	assert_true(looked_for(&f, 2 * ROWS, 3 * ROWS) < ROWS / 10);
	fixture_close(&f);
}

TEST(absent, deleted_rows_leave_the_filter_when_it_is_built_again)
{
	struct fixture f;
	uint64_t       builds;

	open_with_rows(&f, 2 * ROWS);
	builds = filter_stats(f.engine->filter).builds;
	for (int i = 0; i < 2 * ROWS - 1; i++)
		write_row(&f, "DeleteItem", i);
	write_row(&f, "PutItem", 7);
	fixture_settle(&f);
	engine_build_filter(f.engine);
	assert_true(filter_stats(f.engine->filter).builds > builds);
	assert_true(filter_stats(f.engine->filter).entries < 50);
	assert_true(is_there(&f, 7));
	assert_true(is_there(&f, 2 * ROWS - 1));
	assert_false(is_there(&f, 8));
	fixture_close(&f);
}

TEST(absent, so_do_the_rows_of_a_deleted_table)
{
	struct fixture f;
	uint64_t       builds;

	open_with_rows(&f, 2 * ROWS);
	builds = filter_stats(f.engine->filter).builds;
	fixture_ok(&f, "DeleteTable", "{'TableName':'things'}");
	engine_build_filter(f.engine);
	assert_true(filter_stats(f.engine->filter).builds > builds);
	assert_true(filter_stats(f.engine->filter).entries < 50);
	fixture_close(&f);
}

TEST(absent, an_engine_without_a_filter_finds_all_the_same)
{
	struct fixture f;
	char           dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(&f, dir);
	f.options.filter_bytes_max = 0;
	fixture_start(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	write_row(&f, "PutItem", 1);
	engine_build_filter(f.engine);
	assert_true(is_there(&f, 1));
	assert_int_equal(looked_for(&f, 2, 12), 10);
	fixture_close(&f);
}

/* ---- while rows come and go ---- */

/* Rows of its own: each is counted up, and now and then deleted; what it wrote last must be there. */
static void write_and_read(struct worker *w)
{
	struct random random = {(uint64_t)w->number + 1};
	int64_t       last[64] = {0}, n;

	while (worker_goes_on(w)) {
		int                at = (int)random_below(&random, 64);
		int64_t            number = 1000 * (w->number + 1) + at;
		struct table_write write = counting(&w->arena, number, 1);
		struct crew_write  q = {.writes = &write, .count = 1};

		if (random_below(&random, 4) == 0)
			write.kind = TABLE_DELETE;
		if (!worker_write(w, &q))
			return;
		last[at] = write.kind == TABLE_DELETE ? 0 : last[at] + 1;
		at = (int)random_below(&random, 64);
		if (worker_get(w, 1000 * (w->number + 1) + at, &n) && n != last[at])
			worker_note(w, "row %d is %lld and not %lld", at, (long long)n, (long long)last[at]);
	}
}

/* New rows, many in a commit: while they wait for the store, a filter is begun. */
static void add_many(struct worker *w)
{
	struct value pad = {.type = VALUE_B, .text.len = PAD_BYTES};
	int64_t      n, first = 1000000 * (w->number + 1);

	for (int commits = 0; commits < COMMITS && worker_goes_on(w); commits++, first += MANY) {
		struct table_write writes[MANY];
		struct crew_write  q = {.writes = writes, .count = MANY};

		pad.text.data = arena_zalloc(&w->arena, PAD_BYTES);
		for (int i = 0; i < MANY; i++) {
			struct item key = key_numbered(&w->arena, first + i);

			writes[i] =
			        (struct table_write){.kind = TABLE_PUT,
			                             .table = BYTES("things"),
			                             .item = item_with(&w->arena, &key, BYTES("pad"), &pad)};
		}
		if (!worker_write(w, &q))
			return;
		/* Also those of before: a filter that lacks one is in use until the next one is. The engine compares (checks_absent). */
		for (int i = commits < 4 ? -commits * MANY : -4 * MANY; i < MANY; i++)
			worker_get(w, first + i, &n);
	}
}

static void rebuild_once(struct engine *e)
{
	filter_note_deleted(e->filter, 4000); /* which makes it due */
	engine_build_filter(e);
}

static void rebuild(struct worker *w)
{
	for (int round = 0; round < ROUNDS && worker_goes_on(w); round++)
		rebuild_once(w->crew->f.engine);
}

static void rebuild_always(struct worker *w)
{
	while (worker_goes_on(w))
		rebuild_once(w->crew->f.engine);
}

TEST(absent, never_said_of_a_row_that_is_there_while_the_filter_is_built_over_and_over)
{
	struct crew c = {0};

	fixture_open(&c.f);
	fixture_ok(&c.f, "CreateTable", TABLE_BY_N);
	crew_hire(&c, WRITERS, true, write_and_read);
	crew_hire(&c, 1, false, rebuild);
	crew_work(&c);
	assert_true(filter_stats(c.f.engine->filter).builds >= ROUNDS);
	assert_verified(&c.f);
	fixture_close(&c.f);
}

TEST(absent, never_said_of_a_row_that_came_when_a_filter_was_begun)
{
	struct crew c = {0};

	fixture_open(&c.f);
	fixture_ok(&c.f, "CreateTable", TABLE_PS_NUMBERED);
	crew_hire(&c, WRITERS, false, add_many);
	crew_hire(&c, 1, true, rebuild_always);
	crew_work(&c);
	assert_verified(&c.f);
	fixture_close(&c.f);
}
