/* The sketch: it names the heavy ones among very many, in bounded memory, and forgets. */
#include "test.h"

#include "base/hash.h"
#include "random.h"
#include "service/limit_top.h"

#define S_US INT64_C(1000000)

static void add(struct limit_top *t, const char *key, uint64_t units, int64_t now_us)
{
	struct limit_top_ask ask = {bytes_of(key), hash_bytes(HASH_KEY_STABLE, bytes_of(key)), false};

	limit_top_add(t, &ask, units, now_us);
}

TEST(limit_top, names_the_most_frequent_first)
{
	struct limit_top     *t = limit_top_open();
	struct limit_top_key *top;
	struct arena          a;
	unsigned              count;

	arena_init(&a);
	top = limit_top_read(t, &a, 10, S_US, &count);
	assert_int_equal(count, 0);
	add(t, "few", 2, S_US);
	add(t, "many", 5, S_US);
	add(t, "few", 1, S_US);
	top = limit_top_read(t, &a, 10, S_US, &count);
	assert_int_equal(count, 2);
	assert_bytes(top[0].key, "many");
	assert_int_equal(top[0].count, 5);
	assert_bytes(top[1].key, "few");
	assert_int_equal(top[1].count, 3);
	limit_top_read(t, &a, 1, S_US, &count);
	assert_int_equal(count, 1);
	limit_top_close(t);
	arena_release(&a);
}

TEST(limit_top, finds_heavy_keys_among_a_million_others)
{
	struct limit_top     *t = limit_top_open();
	struct random         r = {.state = 3};
	struct limit_top_key *top;
	struct arena          a;
	unsigned              count, heavy = 0;
	char                  text[32];

	arena_init(&a);
	for (unsigned i = 0; i < 1000000; i++) {
		if (i % 20 == 0)
			snprintf(text, sizeof(text), "heavy-%u", (unsigned)random_below(&r, 4));
		else
			snprintf(text, sizeof(text), "light-%u", i);
		add(t, text, 1, S_US);
	}
	top = limit_top_read(t, &a, LIMIT_TOP_MAX, S_US, &count);
	for (unsigned i = 0; i < count; i++)
		heavy += bytes_starts_with(top[i].key, BYTES("heavy-")) && top[i].count >= 12000 &&
		         top[i].count - top[i].doubt <= 13000;
	assert_int_equal(heavy, 4);
	limit_top_close(t);
	arena_release(&a);
}

/* A key that comes again and again is never said to come less often than it does, however many others come between. */
TEST(limit_top, never_counts_too_little)
{
	struct limit_top     *t = limit_top_open();
	struct limit_top_key *top;
	struct arena          a;
	unsigned              count, seen = 0;
	char                  text[32];

	arena_init(&a);
	for (unsigned i = 0; i < 50000; i++) {
		snprintf(text, sizeof(text), "light-%u", i);
		add(t, i % 1000 == 999 ? "again" : text, 1, S_US);
	}
	top = limit_top_read(t, &a, LIMIT_TOP_MAX, S_US, &count);
	for (unsigned i = 0; i < count; i++)
		seen += bytes_is(top[i].key, "again") && top[i].count >= 50;
	assert_int_equal(seen, 1);
	limit_top_close(t);
	arena_release(&a);
}

TEST(limit_top, counts_fade)
{
	struct limit_top *t = limit_top_open();
	struct arena      a;
	unsigned          count;

	arena_init(&a);
	add(t, "a", 8, S_US);
	assert_int_equal(limit_top_read(t, &a, 1, 61 * S_US, &count)[0].count, 4);
	assert_int_equal(limit_top_read(t, &a, 1, 121 * S_US, &count)[0].count, 2);
	limit_top_read(t, &a, 1, 3600 * S_US, &count);
	assert_int_equal(count, 0);
	limit_top_close(t);
	arena_release(&a);
}

TEST(limit_top, a_key_longer_than_the_bound_is_cut)
{
	struct limit_top *t = limit_top_open();
	struct arena      a;
	unsigned          count;
	char              text[LIMIT_TOP_KEY_BYTES_MAX + 2];

	arena_init(&a);
	memset(text, 'x', sizeof(text));
	text[LIMIT_TOP_KEY_BYTES_MAX] = '\0';
	add(t, text, 1, S_US);
	text[LIMIT_TOP_KEY_BYTES_MAX] = 'x';
	text[LIMIT_TOP_KEY_BYTES_MAX + 1] = '\0';
	add(t, text, 1, S_US);
	assert_int_equal(limit_top_read(t, &a, 2, S_US, &count)[0].key.len, LIMIT_TOP_KEY_BYTES_MAX);
	assert_int_equal(limit_top_read(t, &a, 2, S_US, &count)[1].key.len, LIMIT_TOP_KEY_BYTES_MAX);
	limit_top_close(t);
	arena_release(&a);
}

TEST(limit_top, tells_the_rate_of_the_last_whole_second)
{
	struct limit_top    *t = limit_top_open();
	struct limit_top_ask ask = {BYTES("k"), 7, false};
	struct arena         a;
	unsigned             count;

	arena_init(&a);
	assert_int_equal(limit_top_add(t, &ask, 3, 10 * S_US), 3);
	assert_int_equal(limit_top_add(t, &ask, 4, 10 * S_US + 999999), 7);
	assert_int_equal(limit_top_read(t, &a, 1, 10 * S_US + 999999, &count)[0].rate,
	                 0); /* it is not over */
	assert_int_equal(limit_top_add(t, &ask, 5, 11 * S_US), 5);
	assert_int_equal(limit_top_read(t, &a, 1, 11 * S_US, &count)[0].rate, 7);
	assert_int_equal(limit_top_read(t, &a, 1, 12 * S_US, &count)[0].rate, 5);
	assert_int_equal(limit_top_read(t, &a, 1, 13 * S_US, &count)[0].rate, 0);
	limit_top_close(t);
	arena_release(&a);
}
