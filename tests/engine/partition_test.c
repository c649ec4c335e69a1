/* Partition: a Query of a partition that is in the cache whole asks the store for nothing, and sees what one that asks the store would
 * see. Every engine of these tests compares both (engine.h, checks_absent). */
#include "engine/crew.h"

#include "engine/layout.h"
#include "engine/partition.h"
#include "engine/settled.h"
#include "engine/view.h"
#include "random.h"

enum {
	SMALL_CACHE = 64 << 10,
	WRITERS = 2,
	READERS = 2,
	WRITES = 600,
	MOVES = 150,
	LARGE = 100,         /* rows: more than are loaded */
	ONE_ROW_BYTES = 250, /* room for a small one, and not for two */
};

#define THINGS                                                                                               \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'},{'AttributeName':'s','AttributeType':'N'}],'KeySchema':[{'AttributeName':'p'" \
	",'KeyType':'HASH'},{'AttributeName':'s','KeyType':'RANGE'}]}"

static void open_with_cache(struct fixture *f, size_t cache_bytes)
{
	char dir[] = "/tmp/gatehouse-test-XXXXXX";

	assert_non_null(mkdtemp(dir));
	fixture_init(f, dir);
	f->options.cache_bytes_max = cache_bytes;
	fixture_start(f);
	fixture_ok(f, "CreateTable", THINGS);
	engine_build_filter(f->engine);
}

static void put(struct fixture *f, const char *p, int number)
{
	fixture_ok(f, "PutItem",
	           arena_printf(&f->arena, "{'TableName':'things','Item':{'p':{'S':'%s'},'s':{'N':'%d'}}}", p,
	                        number)
	                   .data);
}

static void delete (struct fixture *f, const char *p, int number)
{
	fixture_ok(f, "DeleteItem",
	           arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'%s'},'s':{'N':'%d'}}}", p,
	                        number)
	                   .data);
}

static uint32_t query_count(struct fixture *f, const char *p)
{
	return fixture_ok(f, "Query",
	                  arena_printf(&f->arena,
	                               "{'TableName':'things','KeyConditionExpression':'p = :p',"
	                               "'ExpressionAttributeValues':{':p':{'S':'%s'}}}",
	                               p)
	                          .data)
	        .query.count;
}

/* Does the cache know it whole? */
static bool is_whole(struct fixture *f, const char *p)
{
	struct value              hash = value_string(bytes_of(p));
	struct bytes              name = BYTES("things");
	const struct table_entry *entry = catalog_find(f->engine->catalog, name);
	struct cache_rows         rows;
	struct buf                low;
	bool                      whole;

	buf_init(&low, &f->arena);
	layout_partition(&low, entry->id, &hash);
	write_back_hold_rest(&f->engine->write_back);
	whole = cache_partition_between(f->engine->cache, buf_bytes(&low),
	                                layout_after(&f->arena, buf_bytes(&low)), &f->arena, &rows);
	write_back_let_go(&f->engine->write_back);
	return whole;
}

TEST(partition, is_whole_from_its_first_row_on)
{
	struct fixture f;

	open_with_cache(&f, 1 << 20);
	assert_false(is_whole(&f, "a"));
	put(&f, "a", 1);
	assert_true(is_whole(&f, "a"));
	put(&f, "a", 2);
	delete (&f, "a", 1);
	fixture_settle(&f);
	assert_true(is_whole(&f, "a"));
	assert_int_equal(query_count(&f, "a"), 1);
	fixture_close(&f);
}

TEST(partition, is_loaded_whole_by_the_first_query_and_not_by_reading_a_row)
{
	struct fixture f;

	open_with_cache(&f, 1 << 20);
	for (int i = 0; i < 5; i++)
		put(&f, "a", i);
	fixture_restart(&f);
	assert_get(&f, "things", "{'p':{'S':'a'},'s':{'N':'1'}}", "{'p':{'S':'a'},'s':{'N':'1'}}");
	put(&f, "a", 9);
	assert_false(is_whole(&f, "a"));
	assert_int_equal(query_count(&f, "a"), 6);
	assert_true(is_whole(&f, "a"));
	assert_int_equal(query_count(&f, "a"), 6);
	fixture_close(&f);
}

static void query_in_turn(struct fixture *f, struct table *t)
{
	struct table_query        q = query_p(&f->arena, "");
	struct table_query_result r;

	assert_int_equal(t->backend->query(t, &f->arena, &q, &r, &f->err), ERR_NONE);
	assert_int_equal(r.count, 4);
}

TEST(partition, a_query_in_a_turn_sees_the_turns_own_rows_over_a_whole_partition)
{
	struct fixture f;

	open_with_cache(&f, 1 << 20);
	for (int i = 0; i < 3; i++)
		put(&f, "p", i);
	fixture_restart(&f);
	f.in_turn = query_in_turn;
	put(&f, "p", 3);
	assert_true(is_whole(&f, "p"));
	put(&f, "p", 2);
	fixture_close(&f);
}

TEST(partition, is_not_whole_once_a_row_has_left_the_cache)
{
	struct fixture f;

	open_with_cache(&f, SMALL_CACHE);
	for (int i = 0; i < 20; i++)
		put(&f, "a", i);
	assert_true(is_whole(&f, "a"));
	for (int i = 0; i < 2000;
	     i++) { /* of small partitions: what is new to a large one would go past the cache */
		put(&f, arena_printf(&f.arena, "b%d", i / 100).data, i);
		if (i == 1000)
			fixture_settle(&f);
	}
	assert_false(is_whole(&f, "a"));
	assert_int_equal(query_count(&f, "a"), 20);
	fixture_close(&f);
}

TEST(partition, a_large_one_is_not_loaded_and_does_not_stay_whole)
{
	struct fixture f;

	open_with_cache(&f, 8 << 20);
	for (int i = 0; i <= PARTITION_WHOLE_ROWS_MAX; i++) {
		assert_int_equal(is_whole(&f, "a"), i > 0);
		put(&f, "a", i);
	}
	assert_false(is_whole(&f, "a"));
	for (int i = 0; i < LARGE; i++)
		put(&f, "b", i);
	fixture_restart(&f);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(query_count(&f, "a"), PARTITION_WHOLE_ROWS_MAX + 1);
		assert_int_equal(query_count(&f, "b"), LARGE);
		assert_false(is_whole(&f, "a"));
		assert_false(is_whole(&f, "b"));
	}
	fixture_close(&f);
}

/* ---- what goes past the cache ---- */

static void open_with_large(struct fixture *f)
{
	open_with_cache(f, 8 << 20);
	for (int i = 0; i <= PARTITION_WHOLE_ROWS_MAX; i++)
		put(f, "a", i);
}

static void assert_has(struct fixture *f, int number)
{
	const char *item = arena_printf(&f->arena, "{'p':{'S':'a'},'s':{'N':'%d'}}", number).data;

	assert_get(f, "things", item, item);
}

TEST(partition, what_is_new_to_a_large_one_goes_past_the_cache_and_is_seen_at_once)
{
	struct fixture f;
	size_t         dirty;

	open_with_large(&f);
	dirty = cache_dirty_bytes(f.engine->cache);
	put(&f, "a", 1000);
	assert_int_equal(cache_dirty_bytes(f.engine->cache), dirty);
	assert_has(&f, 1000);
	assert_int_equal(query_count(&f, "a"), PARTITION_WHOLE_ROWS_MAX + 2);
	put(&f, "b", 1); /* a small one's does not */
	assert_true(cache_dirty_bytes(f.engine->cache) > dirty);
	fixture_restart(&f);
	assert_has(&f, 1000);
	assert_verified(&f);
	fixture_close(&f);
}

/* Its deletion waits in the cache, and must not be written over what came after it. */
TEST(partition, a_row_that_was_deleted_and_came_back_past_the_cache_stays)
{
	struct fixture f;

	open_with_large(&f);
	put(&f, "a", 1000);
	delete (&f, "a", 1000);
	assert_int_equal(query_count(&f, "a"), PARTITION_WHOLE_ROWS_MAX + 1);
	put(&f, "a", 1000);
	assert_has(&f, 1000);
	fixture_settle(&f);
	assert_has(&f, 1000);
	fixture_restart(&f);
	assert_has(&f, 1000);
	assert_int_equal(query_count(&f, "a"), PARTITION_WHOLE_ROWS_MAX + 2);
	assert_verified(&f);
	fixture_close(&f);
}

/* ---- the cache alone: keys of one partition, r table(4) hash(4) … ---- */

#define KEY(text) BYTES("rTTTTHHHH" text)

#define OTHER(text) BYTES("rTTTTOOOO" text)

/* The only one that waits. */
static void clean_one(struct cache *c)
{
	struct cache_some some = {0};
	struct cache_row  row[2];

	cache_dirty(c, &some, row, 2);
	assert_int_equal(some.count, 1);
	cache_clean(c, &some);
}

/* Of the shard that the hash names; clean from here on. */
static void commit_clean(struct cache *c, uint64_t hash, struct bytes key, bool first)
{
	cache_commit(c, hash, &(struct cache_row){.key = key, .value = BYTES("new"), .first = first});
	clean_one(c);
}

static bool holds_hashed(struct cache *c, uint64_t hash, struct bytes key)
{
	struct cache_ticket ticket;
	struct bytes        value;
	struct arena        a;
	bool                found;

	arena_init(&a);
	found = cache_get(c, hash, key, &a, &value, &ticket) == CACHE_FOUND;
	arena_release(&a);
	return found;
}

static bool holds(struct cache *c, struct bytes key)
{
	return holds_hashed(c, 0, key);
}

static bool knows(struct cache *c, size_t rows)
{
	struct cache_rows found;
	struct arena      a;
	bool              whole;

	arena_init(&a);
	whole = cache_partition_between(c, KEY(""), KEY("~"), &a, &found) && found.count == rows;
	arena_release(&a);
	return whole;
}

TEST(partition, what_was_loaded_makes_it_whole)
{
	struct cache *c = cache_open(1 << 20, HASH_KEY_STABLE);
	uint32_t      token = cache_load_begin(c, KEY("a"));

	assert_true(token != 0);
	assert_int_equal(cache_load_begin(c, KEY("b")), 0); /* one at a time */
	cache_load_row(c, token, 0, KEY("a"), BYTES("old"));
	cache_commit(c, 0, &(struct cache_row){.key = KEY("b"), .value = BYTES("new")}); /* meanwhile */
	cache_load_row(c, token, 0, KEY("b"), BYTES("old"));
	assert_false(knows(c, 2));
	cache_load_end(c, token, KEY("a"), true, false);
	assert_true(knows(c, 2));
	cache_close(c);
}

/* (P2) b is changed, written back and pushed out while it is loaded: what was read of it before is old. */
TEST(partition, what_left_the_cache_while_it_was_loaded_is_not_taken_from_what_was_read_before)
{
	struct cache *c = cache_open(0, HASH_KEY_STABLE);
	uint32_t      token = cache_load_begin(c, KEY("a"));

	cache_commit(c, 0, &(struct cache_row){.key = KEY("b"), .value = BYTES("new")});
	clean_one(c); /* there is no room: it goes */
	assert_false(holds(c, KEY("b")));
	cache_load_row(c, token, 0, KEY("b"), BYTES("old"));
	assert_false(holds(c, KEY("b")));
	cache_load_end(c, token, KEY("a"), true, false);
	assert_false(knows(c, 0));
	assert_false(knows(c, 1));
	cache_close(c);
}

/* Two rows in two shards, of which each has room for one: another row takes the place of the second. */
TEST(partition, is_not_whole_if_one_row_of_two_has_left)
{
	struct cache *c = cache_open(CACHE_SHARDS * ONE_ROW_BYTES, HASH_KEY_STABLE);

	commit_clean(c, 0, KEY("a"), true);
	commit_clean(c, 1, KEY("b"), false);
	assert_true(knows(c, 2));
	commit_clean(c, 1, OTHER("c"), true);
	commit_clean(c, 1, OTHER("d"), false);
	assert_true(holds_hashed(c, 0, KEY("a")));
	assert_false(holds_hashed(c, 1, KEY("b")));
	assert_false(knows(c, 1));
	assert_false(knows(c, 2));
	cache_close(c);
}

/* (P2) The same while it is loaded: what was read of b before it left may be old, and must not come. */
TEST(partition, a_row_that_left_while_it_was_loaded_does_not_come_back_as_it_was)
{
	struct cache *c = cache_open(CACHE_SHARDS * ONE_ROW_BYTES, HASH_KEY_STABLE);
	uint32_t      token = cache_load_begin(c, KEY("a"));

	cache_load_row(c, token, 0, KEY("a"), BYTES("x"));
	commit_clean(c, 1, KEY("b"), false);
	commit_clean(c, 1, OTHER("c"), true);
	commit_clean(c, 1, OTHER("d"), false);
	assert_false(holds_hashed(c, 1, KEY("b")));
	cache_load_row(c, token, 1, KEY("b"), BYTES("old"));
	assert_false(holds_hashed(c, 1, KEY("b")));
	cache_load_end(c, token, KEY("a"), true, false);
	assert_false(knows(c, 1));
	assert_false(knows(c, 2));
	cache_close(c);
}

TEST(partition, a_load_that_failed_leaves_it_unknown)
{
	struct cache *c = cache_open(1 << 20, HASH_KEY_STABLE);
	uint32_t      token = cache_load_begin(c, KEY("a"));

	cache_load_row(c, token, 0, KEY("a"), BYTES("x"));
	cache_load_end(c, token, KEY("a"), false, false);
	assert_false(knows(c, 1));
	token = cache_load_begin(c, KEY("a"));
	assert_true(token != 0);
	cache_load_end(c, token, KEY("a"), false, true);
	assert_int_equal(cache_load_begin(c, KEY("a")), 0); /* it was too large: not again */
	cache_close(c);
}

/* However the rows came: a query would look at each. */
TEST(partition, a_load_does_not_make_one_whole_that_has_become_large_meanwhile)
{
	struct cache *c = cache_open(1 << 20, HASH_KEY_STABLE);
	uint32_t      token = cache_load_begin(c, KEY("a"));

	for (int i = 0; i <= PARTITION_WHOLE_ROWS_MAX; i++) {
		char key[16];
		int  len = snprintf(key, sizeof(key), "rTTTTHHHH%d", i);

		cache_commit(c, 0, &(struct cache_row){.key = {key, (size_t)len}, .value = BYTES("new")});
	}
	cache_load_end(c, token, KEY("a"), true, false);
	assert_false(knows(c, PARTITION_WHOLE_ROWS_MAX + 1));
	cache_close(c);
}

/* What write_back.c says of a row that went past the cache. */
static void pass(struct cache *c, struct bytes key)
{
	cache_pass(c, 0, &(struct cache_row){.key = key, .value = BYTES("new")});
	cache_pass_partition(c, layout_partition_hash(HASH_KEY_STABLE, key), key);
}

/* (P2) The store was walked before the row came there. */
TEST(partition, a_load_does_not_make_it_whole_if_a_row_went_past_the_cache_meanwhile)
{
	struct cache *c = cache_open(1 << 20, HASH_KEY_STABLE);
	uint32_t      token = cache_load_begin(c, KEY("a"));

	cache_load_row(c, token, 0, KEY("a"), BYTES("x"));
	pass(c, KEY("b"));
	cache_load_end(c, token, KEY("a"), true, false);
	assert_false(knows(c, 1));
	commit_clean(c, 0, OTHER("c"), true);
	cache_close(c);
}

TEST(partition, is_not_whole_once_a_row_went_past_the_cache)
{
	struct cache *c = cache_open(1 << 20, HASH_KEY_STABLE);

	commit_clean(c, 0, KEY("a"), true);
	assert_true(knows(c, 1));
	pass(c, KEY("b"));
	assert_false(knows(c, 1));
	cache_close(c);
}

/* A reader that asked the store too early says that there is no such row: before it went past, or after. */
TEST(partition, a_row_that_went_past_the_cache_is_not_taken_for_absent)
{
	struct cache       *c = cache_open(1 << 20, HASH_KEY_STABLE);
	struct cache_ticket early, late;
	struct bytes        value;
	struct arena        a;

	arena_init(&a);
	assert_int_equal(cache_get(c, 0, KEY("a"), &a, &value, &early), CACHE_MISS);
	assert_int_equal(cache_get(c, 0, KEY("b"), &a, &value, &late), CACHE_MISS);
	cache_offer(c, &early, 0, KEY("a"), BYTES(""), true);
	pass(c, KEY("a"));
	pass(c, KEY("b"));
	cache_offer(c, &late, 0, KEY("b"), BYTES(""), true);
	assert_int_equal(cache_get(c, 0, KEY("a"), &a, &value, &early), CACHE_MISS);
	assert_int_equal(cache_get(c, 0, KEY("b"), &a, &value, &late), CACHE_MISS);
	arena_release(&a);
	cache_close(c);
}

/* ---- while rows come and go, and leave the cache ---- */

/* Two rows of a pair are changed together, in one transaction: their sum stays. */
static void move_between(struct worker *w)
{
	struct random random = {(uint64_t)w->number + 1};

	for (int i = 0; i < WRITES && worker_goes_on(w); i++) {
		int64_t            from = (int64_t)random_below(&random, 30);
		int64_t            to = 30 + (int64_t)random_below(&random, 10);
		int64_t            by = 1 + (int64_t)random_below(&random, 5);
		struct table_write both[2] = {counting(&w->arena, from, -by), counting(&w->arena, to, by)};
		struct crew_write  q = {.writes = both, .count = 2};

		if (!worker_write(w, &q))
			return;
	}
}

static void add_up(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct table_query        q = query_p(&w->arena, "");
		struct table_query_result r;
		int64_t                   sum = 0;

		if (worker_query(w, &q, &r) != ERR_NONE) {
			worker_note(w, "a query: %s", w->err.text);
			return;
		}
		for (uint32_t i = 0; i < r.count; i++)
			sum += count_in(&r.items[i]);
		if (sum != 0)
			worker_note(w, "the sum is %lld", (long long)sum);
	}
}

/* Pushes the others' rows out of a small cache. */
static void fill_cache(struct worker *w)
{
	for (int64_t i = 100; worker_goes_on(w); i = 100 + (i + 1) % 400) {
		struct table_write write = counting(&w->arena, i, 1);
		struct value       p = value_string(BYTES("another"));
		struct crew_write  q = {.writes = &write, .count = 1};

		write.key = item_with(&w->arena, &write.key, BYTES("p"), &p);
		if (!worker_write(w, &q))
			return;
	}
}

static void assert_sums_stay(size_t cache_bytes)
{
	struct crew c = {0};

	open_with_cache(&c.f, cache_bytes);
	crew_hire(&c, WRITERS, false, move_between);
	crew_hire(&c, READERS, true, add_up);
	crew_hire(&c, 1, true, fill_cache);
	crew_work(&c);
	assert_verified(&c.f);
	fixture_close(&c.f);
}

TEST(partition, a_query_sees_whole_commits_where_all_stays_in_the_cache)
{
	assert_sums_stay(8 << 20);
}

TEST(partition, a_query_sees_whole_commits_where_rows_come_and_go)
{
	assert_sums_stay(SMALL_CACHE);
}

/* ---- in turns, while rows are written back by another thread ---- */

struct move {
	struct turn_request base;
	struct worker      *worker;
	int64_t             from, to, sum;
};

/* Adds up a partition that the turn knows (known.h), and moves something in it. */
static enum err_code move_run(struct turn_request *base, struct table *t)
{
	struct move              *m = (struct move *)base;
	struct arena             *a = &m->worker->arena;
	struct table_query        q = query_p(a, "");
	struct table_write        both[2] = {counting(a, m->from, -1), counting(a, m->to, 1)};
	struct table_query_result r;
	struct table_write_result written;

	if (t->backend->query(t, a, &q, &r, &base->err) != ERR_NONE)
		return base->err.code;
	for (uint32_t i = 0; i < r.count; i++)
		m->sum += count_in(&r.items[i]);
	for (int i = 0; i < 2; i++)
		if (t->backend->write(t, a, &both[i], &written, &base->err) != ERR_NONE)
			return base->err.code;
	return ERR_NONE;
}

static void move_in_turns(struct worker *w)
{
	struct random random = {(uint64_t)w->number + 1};

	for (int i = 0; i < MOVES && worker_goes_on(w); i++) {
		struct move m = {.base = {.run = move_run, .cost_bytes = 100},
		                 .worker = w,
		                 .from = (int64_t)random_below(&random, 3),
		                 .to = 3 + (int64_t)random_below(&random, 3)};

		if (engine_run(w->crew->f.engine, &m.base, &w->err) != ERR_NONE)
			worker_note(w, "a move: %s", w->err.text);
		else if (m.sum != 0)
			worker_note(w, "the sum is %lld", (long long)m.sum);
	}
}

static void write_back_always(struct worker *w)
{
	while (worker_goes_on(w))
		if (write_back_all(&w->crew->f.engine->write_back, &w->err) != ERR_NONE)
			worker_note(w, "writing back: %s", w->err.text);
}

TEST(partition, a_turn_knows_it_as_it_is_while_its_rows_are_written_back)
{
	struct crew c = {0};

	open_with_cache(&c.f, 8 << 20);
	crew_hire(&c, WRITERS, false, move_in_turns);
	crew_hire(&c, 1, true, write_back_always);
	crew_work(&c);
	assert_verified(&c.f);
	fixture_close(&c.f);
}
