/* The map: what it finds, that it stays within its bytes, and whom it forgets first. */
#include "test.h"

#include <pthread.h>

#include "random.h"
#include "service/limit_memory.h"

#define SEED ((struct hash_key){1, 2})

static uint64_t *put(struct limit_map *m, const char *key, int64_t expiry_us, int64_t now_us)
{
	struct bytes          k = bytes_of(key);
	struct limit_map_hold hold;
	uint64_t             *value;

	limit_map_lock(m, &k, 1, &hold);
	value = limit_map_put(m, k, hold.hashes[0], expiry_us, now_us);
	limit_map_unlock(m, &hold);
	return value;
}

static uint64_t *find(struct limit_map *m, const char *key, int64_t now_us)
{
	struct bytes          k = bytes_of(key);
	struct limit_map_hold hold;
	uint64_t             *value;

	limit_map_lock(m, &k, 1, &hold);
	value = limit_map_find(m, k, hold.hashes[0], now_us);
	limit_map_unlock(m, &hold);
	return value;
}

TEST(limit_map, finds_what_was_put_until_it_expires)
{
	struct limit_map *m = limit_map_open(LIMIT_MAP_BYTES_MIN, SEED);

	assert_null(find(m, "a", 0));
	*put(m, "a", 10, 0) = 7;
	assert_int_equal(*find(m, "a", 9), 7);
	assert_null(find(m, "a", 10));
	assert_null(find(m, "b", 0));
	assert_int_equal(*put(m, "a", 20, 10), 0); /* expired is absent: it begins anew */
	limit_map_close(m);
}

TEST(limit_map, what_is_forgotten_is_absent_and_may_come_again)
{
	struct limit_map     *m = limit_map_open(LIMIT_MAP_BYTES_MIN, SEED);
	struct bytes          k = BYTES("a");
	struct limit_map_hold hold;

	*put(m, "a", 10, 0) = 7;
	limit_map_lock(m, &k, 1, &hold);
	limit_map_forget(m, k, hold.hashes[0]);
	limit_map_forget(m, BYTES("a stranger"), hold.hashes[0]);
	limit_map_unlock(m, &hold);
	assert_null(find(m, "a", 0));
	assert_int_equal(*put(m, "a", 10, 0), 0);
	limit_map_close(m);
}

static const char *name(char text[32], unsigned i)
{
	snprintf(text, 32, "key-%u", i);
	return text;
}

TEST(limit_map, stays_within_its_bytes_and_counts_what_it_had_to_forget)
{
	struct limit_map *m = limit_map_open(LIMIT_MAP_BYTES_MIN, SEED);
	char              text[32];

	for (unsigned i = 0; i < 100000; i++) {
		put(m, name(text, i), 1000 + i, 0);
		if (i % 1000 == 0)
			assert_true(limit_map_stats(m).bytes <= LIMIT_MAP_BYTES_MIN);
	}
	assert_true(limit_map_stats(m).bytes <= LIMIT_MAP_BYTES_MIN);
	assert_true(limit_map_stats(m).entries > 4000);
	assert_int_equal(limit_map_stats(m).evicted, 100000 - limit_map_stats(m).entries);
	limit_map_close(m);
}

/* A shard that is full of the expired and the living makes room without losing one of the living. */
TEST(limit_map, evicts_the_expired_first)
{
	struct limit_map *m = limit_map_open(LIMIT_MAP_BYTES_MIN, SEED);
	char              text[32];

	for (unsigned i = 0; i < 3000; i++)
		put(m, name(text, i), i % 3 == 0 ? 1000000 : 10, 0);
	for (unsigned i = 3000; i < 100000; i++)
		put(m, name(text, i), 20 + i, 19 + i); /* each expires before the next one comes */
	assert_int_equal(limit_map_stats(m).evicted, 0);
	for (unsigned i = 0; i < 3000; i += 3)
		assert_non_null(find(m, name(text, i), 999999));
	limit_map_close(m);
}

/* An entry that was prolonged outlives those that expire before its new time. */
TEST(limit_map, of_the_living_the_one_that_expires_soonest_goes)
{
	struct limit_map *m = limit_map_open(LIMIT_MAP_BYTES_MIN, SEED);
	char              text[32];

	for (unsigned i = 0; i < 1000; i++)
		put(m, name(text, i), 10, 0);
	for (unsigned i = 0; i < 1000; i++)
		put(m, name(text, i), 1000000, 0);
	for (unsigned i = 1000; i < 100000; i++)
		put(m, name(text, i), 500000, 0);
	assert_true(limit_map_stats(m).evicted > 50000);
	for (unsigned i = 0; i < 1000; i++)
		assert_non_null(find(m, name(text, i), 0));
	limit_map_close(m);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 20000 };

static void *work(void *ctx)
{
	struct limit_map     *m = ctx;
	struct random         r = {.state = (uint64_t)(uintptr_t)&r};
	struct limit_map_hold hold;
	char                  text[2][32];

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct bytes keys[2] = {bytes_of(name(text[0], (unsigned)random_below(&r, 50))),
		                        bytes_of(name(text[1], (unsigned)random_below(&r, 50)))};

		limit_map_lock(m, keys, 2, &hold);
		for (unsigned k = 0; k < 2; k++)
			++*(uint64_t *)limit_map_put(m, keys[k], hold.hashes[k], 1000, 0);
		limit_map_unlock(m, &hold);
	}
	return NULL;
}

TEST(limit_map, pairs_of_keys_are_locked_without_a_circle)
{
	struct limit_map *m = limit_map_open(LIMIT_MAP_BYTES_MIN, SEED);
	pthread_t         threads[THREADS];
	uint64_t          sum = 0;
	char              text[32];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, m), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < 50; i++)
		sum += *find(m, name(text, i), 0);
	assert_int_equal(sum, 2 * THREADS * ROUNDS);
	limit_map_close(m);
}
