/* Waiting: a walk over a whole table, or over a partition of which very many rows wait, sees each row once, part by part, and leaves them waiting. Held
 * against a simple model, in turns and out of them, and while others write. */
#include "engine/crew.h"

#include "engine/layout.h"
#include "engine/settled.h"
#include "engine/waiting.h"
#include "random.h"

enum {
	MANY = 2 * WAITING_ROWS_MAX + 100,
	LARGE_BYTES = 100 << 10,
	CACHE_BYTES = 64 << 20,
	ROUNDS = 4,
	WRITES = 800,
};

#define THINGS                                                                                               \
	"{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]}"
#define OTHERS                                                                                               \
	"{'TableName':'others','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'AttributeName':'p'" \
	",'AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]}"

/* ---- by itself ---- */

static struct cache *cache_of_many(int count, size_t value_len)
{
	struct cache *c = cache_open(CACHE_BYTES, HASH_KEY_STABLE);
	char          key[32], *value = mem_zalloc(value_len);

	for (int i = 0; i < count; i++) {
		int mixed = (int)((unsigned)i * 7919u % (unsigned)count); /* in no order: 7919 is a prime */

		snprintf(key, sizeof(key), "rTTTT%08d", mixed);
		cache_commit(c, hash_bytes(HASH_KEY_STABLE, bytes_of(key)),
		             &(struct cache_row){.key = bytes_of(key), .value = {value, value_len}});
	}
	free(value);
	return c;
}

/* With nothing in the tail. */
static void take_from(struct cache *c, const struct waiting_range *range, struct arena *a,
                      struct cache_rows *rows, struct waiting_range *part)
{
	struct tail none;

	tail_init(&none);
	waiting_take((struct waiting_places){c, &none}, range, a, rows, part);
	tail_release(&none);
}

/* Part by part: how often each of them was there. Returns the number of parts. */
static int walk_parts(struct cache *c, struct waiting_range rest, int *seen)
{
	struct cache_rows    rows;
	struct waiting_range part;
	struct arena         a;
	int                  parts = 0;

	arena_init(&a);
	for (; bytes_compare(rest.low, rest.high) < 0; parts++) {
		take_from(c, &rest, &a, &rows, &part);
		assert_true(rows.count <= WAITING_ROWS_MAX);
		for (size_t i = 0; i < rows.count; i++) {
			assert_true(bytes_compare(rows.list[i].key, part.low) >= 0);
			assert_true(bytes_compare(rows.list[i].key, part.high) < 0);
			seen[test_number(rows.list[i].key, 5)]++;
		}
		if (rest.backward)
			rest.high = part.low;
		else
			rest.low = part.high;
	}
	arena_release(&a);
	return parts;
}

static void assert_parts(struct cache *c, bool backward, int low, int high)
{
	static int seen[MANY];
	char       from[32], to[32];

	memset(seen, 0, sizeof(seen));
	snprintf(from, sizeof(from), "rTTTT%08d", low);
	snprintf(to, sizeof(to), "rTTTT%08d", high);
	assert_int_equal(walk_parts(c,
	                            (struct waiting_range){.low = bytes_of(from),
	                                                   .high = bytes_of(to),
	                                                   .backward = backward},
	                            seen),
	                 (high - low + WAITING_ROWS_MAX - 1) / WAITING_ROWS_MAX);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(seen[i], i >= low && i < high ? 1 : 0);
}

TEST(waiting, parts_have_each_row_of_the_range_once_forward_and_backward)
{
	struct cache *c = cache_of_many(MANY, 10);

	for (int backward = 0; backward < 2; backward++) {
		assert_parts(c, backward == 1, 0, MANY);
		assert_parts(c, backward == 1, 7, 7 + WAITING_ROWS_MAX);
		assert_parts(c, backward == 1, 8, 9 + WAITING_ROWS_MAX);
		assert_parts(c, backward == 1, 100, 101);
	}
	cache_close(c);
}

TEST(waiting, a_part_of_large_rows_ends_soon)
{
	struct cache        *c = cache_of_many(10, LARGE_BYTES);
	struct waiting_range all = {.low = BYTES("rTTTT"), .high = BYTES("rTTTU")}, part;
	struct cache_rows    rows;
	struct arena         a;

	arena_init(&a);
	take_from(c, &all, &a, &rows, &part);
	assert_int_equal(rows.count, WAITING_BYTES_MAX / LARGE_BYTES + 1);
	assert_bytes(part.low, "rTTTT");
	assert_true(bytes_compare(part.high, BYTES("rTTTT00000002")) > 0);
	assert_true(bytes_compare(part.high, BYTES("rTTTT00000003")) <= 0);
	arena_release(&a);
	cache_close(c);
}

TEST(waiting, nothing_waits_in_a_range_without_rows)
{
	struct cache        *c = cache_of_many(10, 10);
	struct waiting_range other = {.low = BYTES("rTTTV"), .high = BYTES("rTTTW")}, part;
	struct cache_rows    rows;
	struct arena         a;

	arena_init(&a);
	take_from(c, &other, &a, &rows, &part);
	assert_int_equal(rows.count, 0);
	assert_bytes(part.high, "rTTTW");
	arena_release(&a);
	cache_close(c);
}

/* ---- in the engine, against a model ---- */

struct trial {
	struct fixture base;
	struct random  random;
	int            n[MANY]; /* 0: there is none */
	int            in_turn; /* scans so far */
};

static void open_with_table(struct fixture *f)
{
	fixture_open(f);
	f->options.cache_bytes_max = CACHE_BYTES;
	fixture_restart(f);
	engine_build_filter(f->engine); /* which puts all that waits into the store, when it begins */
	fixture_ok(f, "CreateTable", THINGS);
}

static void put(struct fixture *f, int number, int n)
{
	fixture_ok(f, "PutItem",
	           arena_printf(&f->arena, "{'TableName':'things','Item':{'p':{'S':'p%d'},'n':{'N':'%d'}}}",
	                        number, n)
	                   .data);
}

static void delete (struct fixture *f, int number)
{
	fixture_ok(f, "DeleteItem",
	           arena_printf(&f->arena, "{'TableName':'things','Key':{'p':{'S':'p%d'}}}", number).data);
}

static int number_of(const struct item *item)
{
	struct bytes text = item_get(item, BYTES("p"))->text;
	int          number = 0;

	for (size_t i = 1; i < text.len; i++)
		number = 10 * number + text.data[i] - '0';
	return number;
}

/* All pages, each of at most so many. */
static void scan_all(struct fixture *f, struct table *t, uint32_t limit, int *n)
{
	struct table_query        q = {.table = BYTES("things"), .limit = limit};
	struct table_query_result r;
	struct item               start;

	do {
		assert_int_equal(t->backend->query(t, &f->arena, &q, &r, &f->err), ERR_NONE);
		for (uint32_t i = 0; i < r.count; i++) {
			assert_int_equal(n[number_of(&r.items[i])], 0); /* each is seen once */
			n[number_of(&r.items[i])] = (int)count_in(&r.items[i]);
		}
		start = r.last_key;
		q.start = &start;
	} while (r.more);
}

static void assert_scan(struct trial *t, struct table *table, uint32_t limit)
{
	static int n[MANY];

	memset(n, 0, sizeof(n));
	scan_all(&t->base, table, limit, n);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(n[i], t->n[i]);
}

static void scan_in_turn(struct fixture *f, struct table *table)
{
	struct trial *t = (struct trial *)f;

	assert_scan(t, table, 0);
	t->in_turn++;
}

static void assert_scan_out_of_turn(struct trial *t, uint32_t limit)
{
	struct fixture_reader reader;

	fixture_reader_begin(&reader, &t->base);
	assert_scan(t, reader.table, limit);
	fixture_reader_end(&reader);
}

/* Some are changed, some go, some come; most of them wait. */
static void change_many(struct trial *t, int round)
{
	for (int i = 0; i < MANY; i++) {
		uint64_t what = random_below(&t->random, 4);

		if (what == 0)
			continue;
		t->n[i] = what == 1 ? 0 : round;
		if (what == 1)
			delete (&t->base, i);
		else
			put(&t->base, i, round);
		arena_reset(&t->base.arena);
	}
}

TEST(waiting, scans_see_what_a_model_of_the_table_holds_and_leave_it_waiting)
{
	struct trial t = {.random = {7}};
	size_t       waiting;

	open_with_table(&t.base);
	for (int round = 1; round <= ROUNDS; round++) {
		change_many(&t, round);
		waiting = cache_dirty_bytes(t.base.engine->cache);
		assert_scan_out_of_turn(&t, 0);
		assert_scan_out_of_turn(&t, 1 + (uint32_t)random_below(&t.random, 2000));
		assert_int_equal(cache_dirty_bytes(t.base.engine->cache), waiting);
		t.base.in_turn = scan_in_turn;
		t.n[round] = 1000 + round;
		put(&t.base, round, 1000 + round);
		t.base.in_turn = NULL;
		if (round % 2 == 0)
			fixture_settle(&t.base);
		if (round % 4 == 0)
			fixture_restart(&t.base);
		arena_reset(&t.base.arena);
	}
	assert_int_equal(t.in_turn, ROUNDS);
	assert_verified(&t.base);
	fixture_close(&t.base);
}

/* ---- tables that come and go ---- */

TEST(waiting, an_index_that_is_added_has_the_rows_that_wait)
{
	struct fixture f;

	open_with_table(&f);
	for (int i = 0; i < MANY; i++)
		put(&f, i, i);
	fixture_ok(&f, "UpdateTable",
	           "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'p','AttributeType':'S'},{"
	           "'AttributeName':'n','AttributeType':'N'}],'GlobalSecondaryIndexUpdates':[{'Create':{"
	           "'IndexName':'by-n','KeySchema':[{'AttributeName':'n','KeyType':'HASH'}],'Projection':{"
	           "'ProjectionType':'KEYS_ONLY'}}}]}");
	engine_tick(f.engine);
	assert_int_equal(fixture_ok(&f, "Scan", "{'TableName':'things','IndexName':'by-n','Select':'COUNT'}")
	                         .query.count,
	                 MANY);
	assert_verified(&f);
	fixture_close(&f);
}

TEST(waiting, rows_of_a_deleted_table_are_forgotten_and_those_of_others_are_not)
{
	struct fixture f;
	size_t         waiting;

	open_with_table(&f);
	fixture_ok(&f, "CreateTable", OTHERS);
	fixture_ok(&f, "PutItem", "{'TableName':'others','Item':{'p':{'S':'o'},'n':{'N':'5'}}}");
	waiting = cache_dirty_bytes(f.engine->cache);
	for (int i = 0; i < 100; i++)
		put(&f, i, i);
	fixture_ok(&f, "DeleteTable", "{'TableName':'things'}");
	assert_int_equal(cache_dirty_bytes(f.engine->cache), waiting);
	fixture_ok(&f, "CreateTable", THINGS);
	assert_int_equal(fixture_ok(&f, "Scan", "{'TableName':'things'}").query.count, 0);
	assert_verified(&f); /* no row of a table that is not */
	assert_get(&f, "others", "{'p':{'S':'o'}}", "{'p':{'S':'o'},'n':{'N':'5'}}");
	fixture_restart(&f);
	assert_verified(&f);
	assert_get(&f, "others", "{'p':{'S':'o'}}", "{'p':{'S':'o'},'n':{'N':'5'}}");
	fixture_close(&f);
}

/* ---- one partition, while others write ---- */

static void count_each(struct worker *w)
{
	struct random random = {(uint64_t)w->number};

	for (int i = 0; i < WRITES && worker_goes_on(w); i++) {
		struct table_write write = counting(&w->arena, (int64_t)random_below(&random, MANY), 1);
		struct crew_write  q = {.writes = &write, .count = 1};

		worker_write(w, &q);
	}
}

/* Each row once, in its order. */
static void expect_all(struct worker *w, struct table_query q)
{
	struct table_query_result r;
	struct item               start;
	int64_t                   next = q.backward ? MANY - 1 : 0;
	bool                      more = true;

	while (more && w->note[0] == '\0') {
		if (worker_query(w, &q, &r) != ERR_NONE) {
			worker_note(w, "a query: %s", w->err.text);
			return;
		}
		for (uint32_t i = 0; i < r.count; i++, next += q.backward ? -1 : 1)
			if (number_in(&r.items[i]) != next)
				worker_note(w, "row %lld came where %lld was to come",
				            (long long)number_in(&r.items[i]), (long long)next);
		start = r.last_key;
		q.start = &start;
		more = r.more;
	}
	if (next != (q.backward ? -1 : MANY))
		worker_note(w, "the walk ended before row %lld", (long long)next);
}

static void walk_often(struct worker *w)
{
	while (worker_goes_on(w)) {
		struct table_query up = query_p(&w->arena, ""), down = up, scan = {.table = BYTES("things")};

		down.backward = true;
		down.limit = 700;
		expect_all(w, up);
		expect_all(w, down);
		expect_all(w, scan);
	}
}

TEST(waiting, walks_see_each_row_once_and_in_order_while_others_change_them)
{
	struct crew c = {0};

	fixture_open(&c.f);
	c.f.options.cache_bytes_max = CACHE_BYTES;
	fixture_restart(&c.f);
	fixture_ok(&c.f, "CreateTable", TABLE_BY_N);
	for (int i = 0; i < MANY; i++) {
		fixture_ok(&c.f, "PutItem",
		           arena_printf(&c.f.arena,
		                        "{'TableName':'things','Item':{'p':{'S':'p'},'s':{'N':'%d'}}}", i)
		                   .data);
		arena_reset(&c.f.arena);
	}
	crew_hire(&c, 2, false, count_each);
	crew_hire(&c, 2, true, walk_often);
	crew_work(&c);
	assert_true(cache_dirty_bytes(c.f.engine->cache) > 0);
	assert_verified(&c.f);
	fixture_close(&c.f);
}
