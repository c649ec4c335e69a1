/* Hot keys: found by table and partition key where writes are committed; told as hashes; counted by the second. */
#define _GNU_SOURCE
#include "service/limit_world.h"

#include "service/hot_keys.h"

#define S_US INT64_C(1000000)

static const uint8_t secret[IDENTIFIER_KEY_BYTES] = {1, 2, 3};

struct watch {
	struct identifier_key identifiers;
	struct hot_keys      *hot;
	struct arena          a;
	struct hot_key        keys[LIMIT_TOP_MAX];
};

static void watch_open(struct watch *w, uint64_t warn_units)
{
	identifier_key_init(&w->identifiers, secret);
	w->hot = hot_keys_open(&(struct hot_keys_options){{1, 2}, &w->identifiers, warn_units});
	arena_init(&w->a);
}

static void watch_close(struct watch *w)
{
	hot_keys_close(w->hot);
	arena_release(&w->a);
}

TEST(hot_keys, are_told_by_table_and_key_hottest_first)
{
	struct watch w;

	watch_open(&w, 100);
	hot_keys_add(w.hot, BYTES("auth-state"), BYTES("a/b"), 4, S_US);
	hot_keys_add(w.hot, BYTES("users"), BYTES("a/b"), 6, S_US);
	hot_keys_add(w.hot, BYTES("auth-state"), BYTES("a/b"), 4, S_US);
	hot_keys_add(NULL, BYTES("auth-state"), BYTES("a/b"), 4, S_US); /* nobody counts */
	assert_int_equal(hot_keys_read(w.hot, &w.a, 10, S_US, w.keys), 2);
	assert_bytes(w.keys[0].table, "auth-state");
	assert_bytes(w.keys[0].pk, "a/b");
	assert_int_equal(w.keys[0].units, 8);
	assert_bytes(w.keys[1].table, "users");
	assert_int_equal(hot_keys_read(w.hot, &w.a, 10, 2 * S_US, w.keys), 2);
	assert_int_equal(w.keys[0].rate, 8);
	watch_close(&w);
}

/* Without the key, the hash tells nobody who is meant; with it, it is the same in every process. */
TEST(hot_keys, have_a_hash_that_other_processes_give_them_too)
{
	struct watch one, two;

	watch_open(&one, 100);
	watch_open(&two, 100);
	hot_keys_add(one.hot, BYTES("users"), BYTES("alice"), 1, S_US);
	hot_keys_add(two.hot, BYTES("users"), BYTES("alice"), 9, 5 * S_US);
	assert_int_equal(hot_keys_read(one.hot, &one.a, 10, S_US, one.keys), 1);
	assert_int_equal(hot_keys_read(two.hot, &two.a, 10, 5 * S_US, two.keys), 1);
	assert_true(one.keys[0].hash.len >= 16);
	assert_true(bytes_equal(one.keys[0].hash, two.keys[0].hash));
	assert_null(memmem(one.keys[0].hash.data, one.keys[0].hash.len, "alice", 5));
	watch_close(&one);
	watch_close(&two);
}

TEST(hot_keys, a_second_counts_once_if_its_units_reach_the_mark)
{
	struct watch w;

	watch_open(&w, 10);
	for (unsigned i = 0; i < 9; i++)
		hot_keys_add(w.hot, BYTES("users"), BYTES("a"), 1, S_US);
	assert_int_equal(hot_keys_seconds(w.hot), 0);
	for (unsigned i = 0; i < 9; i++)
		hot_keys_add(w.hot, BYTES("users"), BYTES("a"), 1, S_US + 999);
	assert_int_equal(hot_keys_seconds(w.hot), 1);
	hot_keys_add(w.hot, BYTES("users"), BYTES("a"), 9, 2 * S_US);
	hot_keys_add(w.hot, BYTES("users"), BYTES("b"), 9, 2 * S_US);
	assert_int_equal(hot_keys_seconds(w.hot), 1);
	hot_keys_add(w.hot, BYTES("users"), BYTES("b"), 100, 2 * S_US);
	assert_int_equal(hot_keys_seconds(w.hot), 2);
	watch_close(&w);
}

TEST(hot_keys, a_key_longer_than_the_bound_is_cut)
{
	struct watch w;
	char         key[2048];

	watch_open(&w, 10);
	memset(key, 'k', sizeof(key));
	hot_keys_add(w.hot, BYTES("users"), (struct bytes){key, sizeof(key)}, 1, S_US);
	assert_int_equal(hot_keys_read(w.hot, &w.a, 10, S_US, w.keys), 1);
	assert_int_equal(w.keys[0].pk.len, LIMIT_TOP_KEY_BYTES_MAX - 6);
	watch_close(&w);
}

/* A limit that many ask about is one hot key; in shards, it is several that are less so. */
TEST(hot_keys, what_is_committed_among_others_is_counted_and_shards_spread_it)
{
	struct world w;
	struct watch watch;
	unsigned     count;

	world_open(&w, APART,
	           "{'p':{'limit':1000,'per':'hour','engine':'table'},"
	           "'s':{'limit':1000,'per':'hour','engine':'table','shards':8}}");
	watch_open(&watch, 1000000);
	fixture_set_clock(&w.f, 1789041600);
	allowed(&w, "p", "another"); /* makes the table: a try that failed counts, too */
	w.all.hot_keys = watch.hot;
	for (unsigned i = 0; i < 160; i++) {
		allowed(&w, "p", "k");
		allowed(&w, "s", "k");
	}
	if (w.f.store == NULL && w.rough == NULL) { /* where it is known how often each is tried */
		count = hot_keys_read(watch.hot, &watch.a, LIMIT_TOP_MAX, world_now_us(&w), watch.keys);
		assert_int_equal(count, 9);
		assert_bytes(watch.keys[0].table, "rate-limits");
		assert_bytes(watch.keys[0].pk, "RL#p#k");
		assert_int_equal(watch.keys[0].units, 160); /* one write each, which is no transaction */
		for (unsigned i = 1; i < count; i++)
			assert_in_range(watch.keys[i].units, 2, 160);
	}
	w.all.hot_keys = NULL;
	watch_close(&watch);
	world_close(&w);
}

TEST(hot_keys, a_table_that_is_alone_has_no_partitions_and_counts_nothing)
{
	struct world w;
	struct watch watch;

	world_open(&w, TABLE, "{'p':{'limit':1000,'per':'hour','engine':'table'}}");
	watch_open(&watch, 1000000);
	w.all.hot_keys = watch.hot;
	allowed(&w, "p", "k");
	if (w.f.store == NULL && w.rough == NULL)
		assert_int_equal(hot_keys_read(watch.hot, &watch.a, 10, world_now_us(&w), watch.keys), 0);
	w.all.hot_keys = NULL;
	watch_close(&watch);
	world_close(&w);
}
