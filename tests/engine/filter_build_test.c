/* Building the filter, step by step: whenever the builder gives up the lock under which rows are published, some are. And builds that do not come to their end.
 * What is there is never said to be absent. */
#include "engine/fixture.h"

#include "base/fault.h"
#include "engine/layout.h"
#include "engine/state.h"
#include "item/codec.h"

enum {
	BUILDS = 5,
	AT_ONCE = 40,          /* rows */
	STEP_ROWS = 4096,      /* of filter_builder.c */
	STEPS = 24,            /* in which rows are written back, at least, … */
	WRITTEN_AT_ONCE = 512, /* … of so many rows (write_back.c) */
};

struct building {
	struct fixture             f;
	struct buf                 value; /* of each row */
	uint32_t                   rows;  /* so far */
	_Atomic(pthread_mutex_t *) lock; /* after which rows are published; NULL: not now. Any thread looks */
	bool                       inside;
};

static struct building building; /* which the function below must find */

/* A row of a partition of its own. */
static struct bytes row_numbered(struct arena *a, uint32_t number)
{
	struct value hash = value_i64(number);
	struct buf   key;

	buf_init(&key, a);
	layout_partition(&key, TABLE_ID_FIRST, &hash);
	return buf_bytes(&key);
}

/* What publishing does with rows. */
static void publish(struct building *b, int count)
{
	struct engine *e = b->f.engine;
	struct arena   a;

	arena_init(&a);
	write_back_hold_rest(&e->write_back);
	for (int i = 0; i < count; i++) {
		struct bytes key = row_numbered(&a, b->rows++);
		uint64_t     hash = hash_bytes(e->hash_key, key);

		filter_add(e->filter, layout_partition_hash(e->hash_key, key));
		filter_add(e->filter, hash);
		cache_commit(e->cache, hash, &(struct cache_row){.key = key, .value = buf_bytes(&b->value)});
	}
	write_back_let_go(&e->write_back);
	arena_release(&a);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);

/* The linker puts it in place of the library's own in our code (Makefile), and not in RocksDB's. While a filter is built, no other thread uses that lock. */
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	struct building *b = &building;
	int              rc = __real_pthread_mutex_unlock(lock);

	if (lock == b->lock && !b->inside) {
		b->inside = true;
		publish(b, AT_ONCE);
		b->inside = false;
	}
	return rc;
}

static void building_open(struct building *b)
{
	struct item item = {0};

	memset(b, 0, sizeof(*b));
	fixture_open(&b->f);
	fixture_ok(&b->f, "CreateTable", TABLE_PS);
	engine_tick(b->f.engine); /* which the new table woke: it takes the lock, too */
	engine_build_filter(b->f.engine);
	assert_true(filter_stats(b->f.engine->filter).complete);
	buf_init(&b->value, NULL);
	item_encode(&b->value, &item);
}

static void building_close(struct building *b)
{
	fixture_close(&b->f);
	buf_release(&b->value);
}

static uint64_t build(struct building *b)
{
	filter_note_deleted(b->f.engine->filter, UINT32_MAX); /* which makes it due */
	engine_build_filter(b->f.engine);
	return filter_stats(b->f.engine->filter).builds;
}

static void assert_lacks_none(struct building *b)
{
	struct engine *e = b->f.engine;

	for (uint32_t i = 0; i < b->rows; i++) {
		struct bytes key = row_numbered(&b->f.arena, i);

		assert_false(filter_lacks(e->filter, hash_bytes(e->hash_key, key)));
		assert_false(filter_lacks(e->filter, layout_partition_hash(e->hash_key, key)));
		arena_reset(&b->f.arena);
	}
}

TEST(filter_build, has_the_rows_that_come_between_any_two_of_its_steps)
{
	struct building *b = &building;

	building_open(b);
	for (uint64_t i = 0; i < BUILDS; i++) {
		uint64_t builds = filter_stats(b->f.engine->filter).builds;
		uint32_t before;

		publish(b, STEPS * WRITTEN_AT_ONCE);
		before = b->rows;
		b->lock = &b->f.engine->write_back.lock;
		assert_int_equal(build(b), builds + 1);
		b->lock = NULL;
		assert_true(b->rows > before + STEPS * AT_ONCE); /* rows came between any two steps */
		assert_lacks_none(b);
	}
	building_close(b);
}

TEST(filter_build, one_that_is_told_to_end_is_not_in_use)
{
	struct building *b = &building;
	uint64_t         builds;

	building_open(b);
	publish(b, 2 * STEP_ROWS);
	builds = filter_stats(b->f.engine->filter).builds;
	for (long passes = 1; passes < 3; passes++) { /* after one step and after two */
		fault_arm(FAULT_STOP, passes);
		assert_int_equal(build(b), builds);
		fault_disarm(FAULT_STOP);
		assert_false(filter_is_building(b->f.engine->filter));
		assert_lacks_none(b);
	}
	assert_int_equal(build(b), builds + 1);
	assert_lacks_none(b);
	building_close(b);
}
