/* The ground: bytes, arenas, buffers, hashing, errors, faults. */
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/debt.h"
#include "base/err.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/list.h"
#include "random.h"

TEST(bytes, compare_is_by_unsigned_bytes_and_a_prefix_comes_first)
{
	assert_true(bytes_compare(BYTES("a"), BYTES("b")) < 0);
	assert_true(bytes_compare(BYTES("a"), BYTES("a\0")) < 0);
	assert_true(bytes_compare(BYTES("\xff"), BYTES("a")) > 0);
	assert_int_equal(bytes_compare(BYTES(""), (struct bytes){NULL, 0}), 0);
	assert_true(bytes_equal(BYTES(""), (struct bytes){NULL, 0}));
	assert_true(bytes_contains(BYTES("abc"), BYTES("bc")));
	assert_true(bytes_contains(BYTES("abc"), BYTES("")));
	assert_false(bytes_contains(BYTES(""), BYTES("a")));
}

static bool naive_contains(struct bytes hay, struct bytes needle)
{
	for (size_t i = 0; i + needle.len <= hay.len; i++)
		if (memcmp(hay.data + i, needle.data, needle.len) == 0)
			return true;
	return false;
}

/* A text of few different letters has periods, which are what a search can get wrong. */
static struct bytes few_letters(struct random *random, char *room, size_t len, unsigned letters)
{
	for (size_t i = 0; i < len; i++)
		room[i] = (char)('a' + random_below(random, letters));
	return (struct bytes){room, len};
}

TEST(bytes, a_search_finds_what_comparing_at_each_place_finds)
{
	struct random random = {7};
	char          hay[64], needle[16];

	for (int i = 0; i < 200000; i++) {
		unsigned     letters = 1 + (unsigned)random_below(&random, 3);
		struct bytes h = few_letters(&random, hay, random_below(&random, sizeof(hay) + 1), letters);
		struct bytes n =
		        few_letters(&random, needle, 1 + random_below(&random, sizeof(needle)), letters);

		if (bytes_contains(h, n) != naive_contains(h, n))
			fail_msg("%.*s in %.*s", BYTES_ARG(n), BYTES_ARG(h));
	}
}

static int64_t used_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return INT64_C(1000000) * t.tv_sec + t.tv_nsec / 1000;
}

/* Of a core: what others do on this machine does not count. */
static int64_t search_us(struct bytes hay, struct bytes needle)
{
	int64_t best_us = INT64_MAX;

	for (int i = 0; i < 5; i++) {
		int64_t began_us = used_us(), took_us;

		assert_false(bytes_contains(hay, needle));
		took_us = used_us() - began_us;
		best_us = took_us < best_us ? took_us : best_us;
	}
	return best_us;
}

/* At the bound of an item. The product of both lengths would take seconds; linear time is about a millisecond. */
TEST(bytes, a_search_takes_linear_time_whatever_is_searched_for)
{
	enum { HAY = 400 * 1024, LINEAR_US_MAX = 40000 };
	char *hay = malloc(HAY), *needle = malloc(HAY / 2);

	memset(hay, 'a', HAY);
	for (size_t len = 2; len <= HAY / 2; len *= 2)
		for (int at = 0; at < 3; at++) {
			memset(needle, 'a', len);
			needle[at == 0 ? 0 : at == 1 ? len / 2 : len - 1] = 'b';
			assert_true(search_us((struct bytes){hay, HAY}, (struct bytes){needle, len}) <
			            LINEAR_US_MAX);
		}
	for (size_t i = 0; i < HAY; i++)
		hay[i] = "ab"[i % 2];
	for (size_t len = 3; len <= HAY / 2; len *= 2) {
		memcpy(needle, hay, len);
		needle[len / 2] = 'a';
		needle[len / 2 + 1] = 'a';
		assert_true(search_us((struct bytes){hay, HAY}, (struct bytes){needle, len}) < LINEAR_US_MAX);
	}
	free(needle);
	free(hay);
}

TEST(bytes, only_well_formed_utf8_is_utf8)
{
	static const struct bytes good[] = {BYTES_INIT(""),
	                                    BYTES_INIT("plain"),
	                                    BYTES_INIT("\xc2\x80"),
	                                    BYTES_INIT("\xe0\xa0\x80"),
	                                    BYTES_INIT("\xed\x9f\xbf"),
	                                    BYTES_INIT("\xf0\x90\x80\x80"),
	                                    BYTES_INIT("\xf4\x8f\xbf\xbf"),
	                                    BYTES_INIT("\0")};
	static const struct bytes bad[] = {BYTES_INIT("\x80"),
	                                   BYTES_INIT("\xc0\x80"),
	                                   BYTES_INIT("\xc1\xbf"),
	                                   BYTES_INIT("\xe0\x9f\xbf"),
	                                   BYTES_INIT("\xed\xa0\x80"),
	                                   BYTES_INIT("\xf0\x8f\xbf\xbf"),
	                                   BYTES_INIT("\xf4\x90\x80\x80"),
	                                   BYTES_INIT("\xf5\x80\x80\x80"),
	                                   BYTES_INIT("\xe2\x82"),
	                                   BYTES_INIT("a\xffz")};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(bytes_is_utf8(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(bytes_is_utf8(bad[i]));
}

TEST(bytes, whole_numbers_are_read_up_to_their_bound_and_not_past_it)
{
	uint64_t n;

	assert_true(bytes_to_u64(BYTES("18446744073709551615"), UINT64_MAX, &n));
	assert_int_equal(n, UINT64_MAX);
	assert_false(bytes_to_u64(BYTES("18446744073709551616"), UINT64_MAX, &n));
	assert_true(bytes_to_u64(BYTES("100"), 100, &n));
	assert_false(bytes_to_u64(BYTES("101"), 100, &n));
	assert_false(bytes_to_u64(BYTES(""), 100, &n));
	assert_false(bytes_to_u64(BYTES("-1"), 100, &n));
	assert_false(bytes_to_u64(BYTES("1 "), 100, &n));
}

TEST(arena, memory_is_aligned_distinct_and_survives_until_reset)
{
	struct random r = {1};
	struct arena  a;
	char         *blocks[500];
	size_t        sizes[500];

	arena_init(&a);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 500; i++) {
			sizes[i] = random_below(&r, i % 50 == 0 ? 100000 : 200);
			blocks[i] = arena_alloc(&a, sizes[i]);
			assert_int_equal((uintptr_t)blocks[i] % 16, 0);
			memset(blocks[i], i & 0xff, sizes[i]);
		}
		for (int i = 0; i < 500; i++)
			for (size_t at = 0; at < sizes[i]; at++)
				assert_int_equal((uint8_t)blocks[i][at], i & 0xff);
		arena_reset(&a);
		assert_true(a.used_bytes <= 16 * 1024);
	}
	arena_release(&a);
	assert_int_equal(a.used_bytes, 0);
}

/* Each number of digits, at its ends, and the ends of the range. */
TEST(buf, adds_numbers_as_printf_would)
{
	struct buf b;
	char       text[64];

	buf_init(&b, NULL);
	for (int64_t power = 1; power < INT64_MAX / 10; power *= 10)
		for (int64_t number = power - 2; number <= power + 2; number++) {
			buf_reset(&b);
			buf_add_i64(&b, number);
			buf_add_i64(&b, -number);
			snprintf(text, sizeof(text), "%" PRIi64 "%" PRIi64, number, -number);
			assert_bytes(buf_bytes(&b), text);
		}
	buf_reset(&b);
	buf_add_i64(&b, INT64_MIN);
	buf_add_byte(&b, ' ');
	buf_add_i64(&b, INT64_MAX);
	assert_bytes(buf_bytes(&b), "-9223372036854775808 9223372036854775807");
	buf_release(&b);
}

TEST(arena, rewinding_gives_back_what_came_since_and_keeps_what_was_there)
{
	struct arena a, then, empty;
	char        *kept, *given_back;

	arena_init(&a);
	empty = a;
	kept = arena_alloc(&a, 8);
	memcpy(kept, "as ever", 8);
	then = a;
	given_back = arena_alloc(&a, 10);
	arena_alloc(&a, 400000);
	arena_alloc(&a, 3000000);
	arena_alloc(&a, 10);
	arena_rewind(&a, then);
	assert_int_equal(a.used_bytes, then.used_bytes);
	assert_string_equal(kept, "as ever");
	assert_ptr_equal(arena_alloc(&a, 10), given_back);
	arena_rewind(&a, empty);
	assert_int_equal(a.used_bytes, 0);
	arena_release(&a);
}

TEST(buf, grows_on_the_heap_and_in_an_arena)
{
	struct arena a;
	struct buf   bufs[2];

	arena_init(&a);
	buf_init(&bufs[0], NULL);
	buf_init(&bufs[1], &a);
	for (int which = 0; which < 2; which++) {
		for (int i = 0; i < 10000; i++)
			buf_add(&bufs[which], &i, sizeof(i));
		for (int i = 0; i < 10000; i++)
			assert_memory_equal(bufs[which].data + (size_t)i * sizeof(i), &i, sizeof(i));
		buf_release(&bufs[which]);
	}
	arena_release(&a);
}

TEST(hash, depends_on_every_byte_the_length_and_the_key)
{
	char     data[64] = {0};
	uint64_t seen[64 * 8 + 65];
	size_t   count = 0;

	for (size_t len = 0; len <= sizeof(data); len++)
		seen[count++] = hash_bytes(HASH_KEY_STABLE, (struct bytes){data, len});
	for (size_t bit = 0; bit < sizeof(data) * 8; bit++) {
		data[bit / 8] = (char)(1 << (bit % 8));
		seen[count++] = hash_bytes(HASH_KEY_STABLE, (struct bytes){data, sizeof(data)});
		data[bit / 8] = 0;
	}
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			assert_true(seen[i] != seen[j]);
	assert_true(hash_bytes((struct hash_key){1, 2}, BYTES("a")) !=
	            hash_bytes((struct hash_key){1, 3}, BYTES("a")));
}

/* On disk: this value may never change (layout.c). It was computed with another implementation of
 * SipHash-1-3, which in turn gives the published value of SipHash-2-4. */
TEST(hash, with_the_stable_key_is_what_it_always_was)
{
	assert_true(hash_bytes(HASH_KEY_STABLE, BYTES("gatehouse")) == 0xac59d6f2b3a6dc9eu);
}

TEST(err, every_code_has_a_status_and_a_name)
{
	struct err err;

	assert_int_equal(err_set(&err, ERR_INVALID, "%s %d", "field", 7), ERR_INVALID);
	assert_string_equal(err.text, "field 7");
	assert_string_equal(err.field, "");
	assert_int_equal(err_field(&err, ERR_STALE, "context.ip", "%d", 8), ERR_STALE);
	assert_string_equal(err.text, "8");
	assert_string_equal(err.field, "context.ip");
#define X(code, status, name, v1_status, v1_title, v1_type)                                                  \
	assert_int_equal(err_status(code), status);                                                          \
	assert_string_equal(err_name(code), name);                                                           \
	assert_int_equal(err_v1_status(code), v1_status);                                                    \
	assert_string_equal(err_v1_title(code), v1_title);                                                   \
	assert_string_equal(err_v1_type(code), ERR_TYPE_PREFIX v1_type);
	ERR_CODES(X)
#undef X
}

TEST(err, no_two_codes_have_the_same_type)
{
	static const char *const types[] = {
#define X(code, status, name, v1_status, v1_title, v1_type) v1_type,
	        ERR_CODES(X)
#undef X
	};
	size_t count = sizeof(types) / sizeof(types[0]);

	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			assert_string_not_equal(types[i], types[j]);
}

TEST(fault, fires_after_the_given_number_of_visits_until_disarmed)
{
	assert_false(fault_fires(FAULT_COMMIT));
	assert_true(fault_parse("disk-full,commit:2"));
	assert_true(fault_fires(FAULT_DISK_FULL));
	fault_disarm(FAULT_DISK_FULL);
	assert_false(fault_fires(FAULT_COMMIT));
	assert_false(fault_fires(FAULT_COMMIT));
	assert_true(fault_fires(FAULT_COMMIT));
	assert_true(fault_fires(FAULT_COMMIT));
	fault_disarm(FAULT_COMMIT);
	assert_false(fault_fires(FAULT_COMMIT));
	assert_true(fault_parse("commit:1:2"));
	assert_false(fault_fires(FAULT_COMMIT));
	assert_true(fault_fires(FAULT_COMMIT));
	assert_true(fault_fires(FAULT_COMMIT));
	assert_false(fault_fires(FAULT_COMMIT));
	assert_false(fault_fires(FAULT_COMMIT));
	fault_disarm(FAULT_COMMIT);
	assert_false(fault_parse("no-such-point"));
	assert_false(fault_parse("no-such-point,check"));
}

TEST(list, keeps_order_and_lets_go)
{
	struct list head, a, b;

	list_init(&head);
	list_init(&a);
	list_init(&b);
	list_push_back(&head, &a);
	list_push_back(&head, &b);
	list_remove(&a);
	assert_true(list_empty(&a));
	assert_ptr_equal(list_pop_front(&head), &b);
	assert_null(list_pop_front(&head));
}

TEST(debt, passes_with_time_and_is_never_made_shorter_by_more_work)
{
	static const char caller = 'A', other = 'B';
	struct debts      d = {0};

	debts_add(&d, &caller, DEBT_HEAVY_BYTES - 1, 0);
	debts_add(&d, NULL, DEBT_HEAVY_BYTES, 0);
	assert_false(debts_owe(&d, &caller, 0));
	assert_false(debts_owe(&d, NULL, 0));
	debts_add(&d, &caller, (size_t)DEBT_BYTES_PER_MS * DEBT_MS_MAX * 2, 5000000);
	assert_true(debts_owe(&d, &caller, 5000000 + DEBT_MS_MAX * 1000 - 1));
	assert_false(debts_owe(&d, &caller, 5000000 + DEBT_MS_MAX * 1000));
	assert_false(debts_owe(&d, &other, 5000000));
	debts_add(&d, &caller, DEBT_HEAVY_BYTES, 1000000); /* of work that began long ago */
	assert_true(debts_owe(&d, &caller, 5000000 + DEBT_MS_MAX * 1000 - 1));
}
