/* Torn: the journal has a commit, and the store does not take all of it. Whoever reads from then on is refused, so that nobody sees a part of the commit. The next
 * start publishes it whole. */
#include "engine/crew.h"

#include "base/fault.h"
#include "engine/state.h"

enum {
	SMALL_CACHE = 64 << 10,
	LARGE_PAD = 60 << 10,  /* more than may wait in a small cache */
	ENTRIES_ENOUGH = 3000, /* commits, each with its counts: more than may wait in the list */
};

/* Whatever the builder of filters and the ticker, which a new table wakes, put into the store is there before a fault is armed: it would meet them. */
static void create_table(struct fixture *f)
{
	engine_build_filter(f->engine);
	fixture_ok(f, "CreateTable", TABLE_BY_N);
	engine_tick(f->engine);
}

static void open_with_cache(struct fixture *f, size_t cache_bytes)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(f, dir);
	log_set_level((enum log_level)(LOG_ERROR + 1)); /* failures are no news here */
	f->options.cache_bytes_max = cache_bytes;
	fixture_start(f);
	create_table(f);
}

/* With an index entry if it has an n. */
static enum err_code put(struct fixture *f, int number, int n, int pad)
{
	static char  xs[LARGE_PAD];
	struct bytes attribute = n > 0 ? arena_printf(&f->arena, ",'n':{'N':'%d'}", n) : BYTES("");
	struct buf   body;
	union answer r;

	memset(xs, 'x', sizeof(xs));
	buf_init(&body, &f->arena);
	buf_add_bytes(&body, arena_printf(&f->arena,
	                                  "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'}%.*s,"
	                                  "'pad':{'S':'",
	                                  number, BYTES_ARG(attribute)));
	buf_add(&body, xs, (size_t)pad);
	buf_add(&body, "'}}}", sizeof("'}}}")); /* with its zero */
	return fixture_try(f, "PutItem", body.data, &r);
}

static void put_ok(struct fixture *f, int number, int n, int pad)
{
	assert_int_equal(put(f, number, n, pad), ERR_NONE);
	arena_reset(&f->arena);
}

static uint32_t count_of(struct fixture *f, const char *index)
{
	return fixture_ok(f, "Query",
	                  arena_printf(&f->arena,
	                               "{'TableName':'things'%s,'KeyConditionExpression':'p=:p',"
	                               "'ExpressionAttributeValues':{':p':{'S':'p'}}}",
	                               index)
	                          .data)
	        .query.count;
}

#define KEY_1  "{'p':{'S':'p'},'s':{'N':'1'}}"
#define BY_P   "'KeyConditionExpression':'p=:p','ExpressionAttributeValues':{':p':{'S':'p'}}"
#define THINGS "'TableName':'things'"

/* Each operation that reads rows, and one that writes. */
static void assert_refused(struct fixture *f)
{
	static const char *const calls[][2] = {
	        {"GetItem", "{" THINGS ",'Key':" KEY_1 "}"},
	        {"Query", "{" THINGS "," BY_P "}"},
	        {"Query", "{" THINGS ",'IndexName':'by-n'," BY_P "}"},
	        {"Query", "{" THINGS ",'IndexName':'by-n','Select':'ALL_ATTRIBUTES'," BY_P "}"},
	        {"Scan", "{" THINGS "}"},
	        {"BatchGetItem", "{'RequestItems':{'things':{'Keys':[" KEY_1 "]}}}"},
	        {"TransactGetItems", "{'TransactItems':[{'Get':{" THINGS ",'Key':" KEY_1 "}}]}"},
	        {"PutItem", "{" THINGS ",'Item':" KEY_1 "}"},
	};

	assert_false(engine_ready(f->engine));
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		fixture_fails(f, calls[i][0], calls[i][1], ERR_STORAGE, MSG_WRITER_FAILED);
	engine_tick(f->engine); /* which may make a checkpoint, and may not drop the commit */
	engine_build_filter(f->engine);
	fixture_fails(f, calls[0][0], calls[0][1], ERR_STORAGE, MSG_WRITER_FAILED);
}

static void fail_put(struct fixture *f, int number, int n, int pad)
{
	assert_int_equal(put(f, number, n, pad), ERR_STORAGE);
	assert_string_equal(f->err.text, "the outcome is unknown: a fault was injected");
	fault_disarm(FAULT_APPLY); /* however well the store is by now */
	assert_refused(f);
}

static void assert_whole(struct fixture *f, uint32_t rows, uint32_t entries)
{
	fixture_restart(f);
	assert_int_equal(count_of(f, ""), rows);
	assert_int_equal(count_of(f, ",'IndexName':'by-n'"), entries);
	assert_verified(f);
	assert_int_equal(engine_verify_counts(f->engine, &f->err), ERR_NONE);
	put_ok(f, 1000000, 1, 0);
	fixture_close(f);
}

TEST(torn, nobody_sees_a_row_without_its_index_entry)
{
	struct fixture f;

	open_with_cache(&f, 1 << 20);
	put_ok(&f, 1, 1, 0);
	fault_arm(FAULT_APPLY, 0);
	fail_put(&f, 2, 2, 0);
	assert_whole(&f, 2, 2);
}

/* A row that is new to a large partition goes into the store with the index entries, or not at all. */
TEST(torn, nobody_sees_a_commit_without_its_row_that_goes_past_the_cache)
{
	struct fixture f;

	open_with_cache(&f, 0);
	for (int i = 1; i <= 200; i++)
		put_ok(&f, i, i, 0);
	fault_arm(FAULT_APPLY, 0);
	fail_put(&f, 201, 201, 0);
	assert_whole(&f, 201, 201);
}

TEST(torn, a_commit_whose_row_finds_no_room_among_those_that_wait_is_there_after_a_restart)
{
	struct fixture f;

	open_with_cache(&f, SMALL_CACHE);
	put_ok(&f, 1, 1, 0);
	fault_arm(FAULT_APPLY, 1); /* the entry is taken, the row is not */
	fail_put(&f, 2, 2, LARGE_PAD);
	assert_whole(&f, 2, 2);
}

TEST(torn, a_commit_whose_counts_find_no_room_in_the_list_is_there_after_a_restart)
{
	struct fixture f;
	int            rows = 1;

	open_with_cache(&f, 8 << 20);
	put_ok(&f, 1, 1, 0);
	fault_arm(FAULT_APPLY, 0);
	while (rows < ENTRIES_ENOUGH && put(&f, 2 + rows % 30, 0, rows % 31) == ERR_NONE) {
		arena_reset(&f.arena);
		rows++;
	}
	assert_in_range(rows, 1000, ENTRIES_ENOUGH - 1); /* and not before */
	fault_disarm(FAULT_APPLY);
	assert_refused(&f);
	assert_whole(&f, 31, 1);
}

/* The rows that waited are forgotten, those in the store are not deleted. */
TEST(torn, nobody_sees_half_of_a_deleted_table)
{
	struct fixture f;
	union answer   r;

	open_with_cache(&f, 1 << 20);
	put_ok(&f, 1, 1, 0);
	assert_int_equal(write_back_all(&f.engine->write_back, &f.err), ERR_NONE);
	put_ok(&f, 2, 0, 0);
	for (long passed = 0; passed < 2; passed++) { /* the list's entries, the deletion itself */
		fault_arm(FAULT_APPLY, passed);
		assert_int_equal(fixture_try(&f, "DeleteTable", "{'TableName':'things'}", &r), ERR_STORAGE);
		fault_disarm(FAULT_APPLY);
		assert_refused(&f);
		fixture_restart(&f);
		assert_int_equal(fixture_ok(&f, "ListTables", "{}").list.count, 0);
		create_table(&f);
		put_ok(&f, 2, 0, 0);
	}
	assert_whole(&f, 1, 0);
}

/* Nothing of the commit was published: what was there before can be read. */
TEST(torn, a_flush_that_failed_leaves_whole_what_was_there_before)
{
	struct fixture f;

	open_with_cache(&f, 1 << 20);
	put_ok(&f, 1, 1, 0);
	fault_arm(FAULT_COMMIT, 0);
	assert_int_equal(put(&f, 2, 2, 0), ERR_STORAGE);
	fault_disarm(FAULT_COMMIT);
	assert_int_equal(count_of(&f, ""), 1);
	assert_int_equal(count_of(&f, ",'IndexName':'by-n'"), 1);
	fixture_close(&f);
}
