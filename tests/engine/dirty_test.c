/* Dirty: rows that wait are found in the order of their keys, and a walk over few of them looks at few, however many there are. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/dirty.h"
#include "engine/waiting.h"
#include "random.h"

enum {
	ROWS = 3000,
	STEPS = 60000,
	TABLES = 5,
	VERY_MANY = 200000,
	PAGE = 44,
	LOOKED_AT_MAX = 100, /* for a page: those, and their neighbours in a bucket */
};

/* ---- the order, against a model ---- */

struct world {
	struct dirty  dirty;
	struct row   *rows[ROWS];
	bool          there[ROWS];
	struct random random;
};

/* r table(4) hash(4) rest: some share a hash, and some tables have far more rows than others. */
static struct row *row_make(struct random *random, int number)
{
	struct row *r = mem_zalloc(sizeof(*r) + 13);
	uint32_t table = __builtin_bswap32((uint32_t)(1 + 7 * (random_below(random, 1u << TABLES) % TABLES)));
	uint32_t hash = number % 10 == 0 ? UINT32_MAX : (uint32_t)random_next(random);

	list_init(&r->ring);
	r->key_len = 13;
	r->bytes[0] = 'r';
	memcpy(r->bytes + 1, &table, 4);
	memcpy(r->bytes + 5, &hash, 4);
	memcpy(r->bytes + 9, &number, 4);
	return r;
}

static int expected_between(const struct world *w, uint64_t low, uint64_t high)
{
	int count = 0;

	for (int i = 0; i < ROWS; i++) {
		uint64_t place = dirty_place(row_key(w->rows[i]));

		count += w->there[i] && place >= low && place <= high ? 1 : 0;
	}
	return count;
}

/* Buckets come in their order, and each row between once. */
static void assert_walk(const struct world *w, uint64_t low, uint64_t high, bool backward)
{
	struct dirty_walk walk = {
	        .at = backward ? high : low, .last = backward ? low : high, .backward = backward};
	uint64_t           before = backward ? UINT64_MAX : 0; /* the last place of all buckets so far */
	const struct list *bucket;
	int                found = 0;

	while ((bucket = dirty_next(&w->dirty, &walk)) != NULL) {
		uint64_t edge = before;

		assert_ptr_not_equal(bucket->next, bucket);
		for (const struct list *at = bucket->next; at != bucket; at = at->next) {
			uint64_t place = dirty_place(row_key(LIST_ENTRY(at, struct row, ring)));

			assert_true(backward ? place <= before : place >= before);
			edge = backward ? (place < edge ? place : edge) : (place > edge ? place : edge);
			found += place >= low && place <= high ? 1 : 0;
		}
		before = edge;
	}
	assert_int_equal(found, expected_between(w, low, high));
}

static void assert_walks(struct world *w)
{
	uint64_t a = dirty_place(row_key(w->rows[random_below(&w->random, ROWS)]));
	uint64_t b = dirty_place(row_key(w->rows[random_below(&w->random, ROWS)]));

	for (int backward = 0; backward < 2; backward++) {
		assert_walk(w, 0, UINT64_MAX, backward == 1);
		assert_walk(w, a < b ? a : b, a < b ? b : a, backward == 1);
		assert_walk(w, a, a, backward == 1);
	}
}

/* High and low water, so that buckets become more and fewer. */
static void step(struct world *w, int number)
{
	int  i = (int)random_below(&w->random, ROWS);
	bool comes = random_below(&w->random, 100) < (number / 10000 % 2 == 0 ? 80u : 5u);

	if (comes && !w->there[i])
		dirty_add(&w->dirty, w->rows[i]);
	if (!comes && w->there[i])
		dirty_remove(&w->dirty, w->rows[i]);
	w->there[i] = comes;
}

TEST(dirty, rows_are_found_in_order_up_and_down_as_they_come_and_go)
{
	struct world w = {.random = {7}};

	for (int i = 0; i < ROWS; i++)
		w.rows[i] = row_make(&w.random, i);
	for (int i = 0; i < STEPS; i++) {
		step(&w, i);
		if (i % 100 == 0)
			dirty_trim(&w.dirty);
		if (i % 500 == 0)
			assert_walks(&w);
	}
	for (int i = 0; i < ROWS; i++) {
		if (w.there[i])
			dirty_remove(&w.dirty, w.rows[i]);
		free(w.rows[i]);
	}
	assert_null(dirty_next(&w.dirty, &(struct dirty_walk){.last = UINT64_MAX}));
	dirty_release(&w.dirty);
}

TEST(dirty, a_key_that_is_cut_short_is_before_all_that_begin_with_it)
{
	assert_true(dirty_place(BYTES("r")) == 0);
	assert_true(dirty_place(BYTES("")) == 0);
	assert_true(dirty_place(BYTES("r\1\2\3\4")) == 0x0102030400000000);
	assert_true(dirty_place(BYTES("r\1\2\3\4\5\6\7\10 and more")) == 0x0102030405060708);
}

/* ---- what a page costs ---- */

struct look {
	size_t seen, max;
};

static void look(void *ctx, const struct cache_row *row)
{
	(void)row;
	((struct look *)ctx)->seen++;
}

static bool has_seen_enough(const void *ctx)
{
	const struct look *l = ctx;

	return l->seen > l->max;
}

/* Rows of a table, spread as hashes are; and ten of another one. */
static void commit_many(struct cache *c, char table, int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t hash = hash_bytes(HASH_KEY_STABLE, (struct bytes){(const char *)&i, sizeof(i)});
		char     key[13] = {'r', 0, 0, 0, table};

		memcpy(key + 5, &hash, sizeof(hash));
		cache_commit(c, hash,
		             &(struct cache_row){.key = {key, sizeof(key)}, .value = BYTES("value")});
	}
}

static size_t looked_at(struct cache *c, char table, bool backward)
{
	const char        low[5] = {'r', 0, 0, 0, table}, high[5] = {'r', 0, 0, 0, (char)(table + 1)};
	struct cache_walk walk = {{low, 5}, {high, 5}, backward, look, has_seen_enough};
	struct look       l = {.max = PAGE};

	cache_dirty_walk(c, &walk, &l);
	return l.seen;
}

TEST(dirty, a_page_looks_at_few_rows_however_many_wait)
{
	struct cache *c = cache_open((size_t)1 << 30, HASH_KEY_STABLE);

	commit_many(c, 7, VERY_MANY);
	commit_many(c, 8, 10);
	for (int backward = 0; backward < 2; backward++) {
		assert_true(looked_at(c, 7, backward == 1) > PAGE);
		assert_true(looked_at(c, 7, backward == 1) <= LOOKED_AT_MAX);
		assert_int_equal(looked_at(c, 8, backward == 1), 10);
		assert_int_equal(looked_at(c, 6, backward == 1), 0);
	}
	cache_close(c);
}

/* ---- writing back ---- */

TEST(dirty, rows_are_written_back_in_turn_and_each_once)
{
	struct cache     *c = cache_open((size_t)1 << 30, HASH_KEY_STABLE);
	struct cache_some some = {0};
	struct cache_row  rows[PAGE];
	struct bytes      before = BYTES("");
	int               count = 0;
	struct arena      a;

	arena_init(&a);
	commit_many(c, 7, ROWS);
	commit_many(c, 8, ROWS);
	do {
		cache_dirty(c, &some, rows, PAGE);
		assert_true(some.count == PAGE || !some.more);
		count += (int)some.count;
		for (size_t i = 0; i < some.count; i++)
			assert_true(dirty_place(rows[i].key) >> 40 >= dirty_place(before) >> 40);
		before = arena_copy(&a, rows[some.count - 1].key);
		cache_clean(c, &some);
	} while (some.more);
	assert_int_equal(count, 2 * ROWS);
	assert_int_equal(cache_dirty_bytes(c), 0);
	assert_true(some.from == 0); /* the next one begins again */
	arena_release(&a);
	cache_close(c);
}

/* r table(4) hash(4), the hash as a number. */
static void commit_at(struct cache *c, uint32_t hash)
{
	uint32_t big = __builtin_bswap32(hash);
	char     key[9] = {'r', 0, 0, 0, 7};

	memcpy(key + 5, &big, sizeof(big));
	cache_commit(c, hash, &(struct cache_row){.key = {key, sizeof(key)}, .value = BYTES("value")});
}

static bool waits_at(struct cache *c, uint32_t hash)
{
	uint32_t         big = __builtin_bswap32(hash);
	char             key[9] = {'r', 0, 0, 0, 7};
	struct cache_row row;
	struct arena     a;
	bool             waits;

	arena_init(&a);
	memcpy(key + 5, &big, sizeof(big));
	waits = cache_dirty_row(c, hash, (struct bytes){key, sizeof(key)}, &a, &row);
	arena_release(&a);
	return waits;
}

/* A step may end within a bucket, and before the next one there are more buckets: none of those that waited when the round began may be passed by, or a checkpoint
 * would forget it. */
TEST(dirty, a_round_misses_no_row_although_buckets_become_more_or_fewer_between_its_steps)
{
	struct random random = {7};

	for (int trial = 0; trial < 200; trial++) {
		struct cache     *c = cache_open((size_t)1 << 30, HASH_KEY_STABLE);
		struct cache_some some = {0};
		struct cache_row  rows[3];
		uint32_t          waiting[200];
		size_t            count = 1 + random_below(&random, 200);

		for (size_t i = 0; i < count; i++)
			commit_at(c, waiting[i] = (uint32_t)random_next(&random));
		for (int step = 0; step == 0 || some.more; step++) {
			cache_dirty(c, &some, rows, 1 + random_below(&random, 3));
			cache_clean(c, &some);
			for (uint64_t more = step % 4 == 0 && step < 40 ? random_below(&random, 100) : 0;
			     more > 0; more--)
				commit_at(c, (uint32_t)random_next(&random));
		}
		for (size_t i = 0; i < count; i++)
			assert_false(waits_at(c, waiting[i]));
		cache_close(c);
	}
}
