/* Cursors: what was written is read back, and nothing else is taken for one. */
#include "test.h"

#include "json/base64.h"
#include "service/cursor.h"

static struct services services;
static struct arena    arena;
static struct context  ctx = {.services = &services, .arena = &arena};

static void key_set(const char *secret)
{
	identifier_key_init(&services.identifiers, (const uint8_t *)secret);
}

static void begin(void)
{
	arena_init(&arena);
	key_set("0123456789abcdef0123456789abcdef");
}

static bool reads(struct bytes text)
{
	struct bytes pk, sk;

	return cursor_read(&ctx, text, &pk, &sk);
}

TEST(cursor, is_read_back_whatever_the_key_holds_and_needs_no_escaping_in_a_url)
{
	static const char *const keys[][2] = {{"alice", "SIGN_IN#LOCK#X"},
	                                      {"5:x", "7:"},
	                                      {"a", ""},
	                                      {"\xf0\x9f\x94\x92?>>~~", "\xc3\xbf#"}};

	begin();
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct bytes text = cursor_write(&ctx, bytes_of(keys[i][0]), bytes_of(keys[i][1])), pk, sk;

		for (size_t j = 0; j < text.len; j++)
			assert_null(strchr("+/=%&?#", text.data[j]));
		assert_true(cursor_read(&ctx, text, &pk, &sk));
		assert_bytes(pk, keys[i][0]);
		assert_bytes(sk, keys[i][1]);
	}
	arena_release(&arena);
}

TEST(cursor, the_longest_key_fits_and_one_byte_more_does_not)
{
	static char  text[2049];
	struct bytes pk, sk, cursor;

	memset(text, 'x', sizeof(text));
	begin();
	cursor = cursor_write(&ctx, (struct bytes){text, 2048}, (struct bytes){text, 1024});
	assert_true(cursor.len <= CURSOR_BYTES_MAX);
	assert_true(cursor_read(&ctx, cursor, &pk, &sk));
	assert_true(pk.len == 2048 && sk.len == 1024);
	assert_false(reads(cursor_write(&ctx, (struct bytes){text, 2049}, BYTES("x"))));
	assert_false(reads(cursor_write(&ctx, BYTES("x"), (struct bytes){text, 1025})));
	arena_release(&arena);
}

TEST(cursor, does_not_show_the_row_it_names)
{
	struct bytes text, plain;

	begin();
	text = cursor_write(&ctx, BYTES("USER#ann"), BYTES("PROFILE"));
	assert_true(base64_url_decode(&arena, text, &plain));
	for (size_t i = 0; i + 3 <= plain.len; i++)
		assert_memory_not_equal(plain.data + i, "ann", 3);
	arena_release(&arena);
}

TEST(cursor, what_is_none_is_refused)
{
	/* nothing; no base64; too short; one as they were before, which anybody can make */
	static const char *const bad[] = {"", "!", "a", "YWJj", "MTp4", "MTp4====", "MTp4+"};
	struct bytes             good, changed;

	begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(reads(bytes_of(bad[i])));
	good = cursor_write(&ctx, BYTES("alice"), BYTES("x"));
	assert_true(reads(good));
	assert_false(reads((struct bytes){good.data, good.len - 4}));
	changed = arena_copy(&arena, good);
	((char *)(uintptr_t)changed.data)[20] ^= 1;
	assert_false(reads(changed));
	assert_false(reads(cursor_pack(&arena, BYTES("alice"), BYTES("x"))));
	key_set("another key of thirty-two bytes.");
	assert_false(reads(good));
	arena_release(&arena);
}

TEST(cursor, where_a_job_goes_on_is_read_back_and_nothing_else_is_taken_for_it)
{
	/* nothing; no base64; no number; an empty key; longer than there is; a sign; not UTF-8 */
	static const char *const bad[] = {"",     "!",      "a",      "YWJj",     "MDp4",
	                                  "OTp4", "LTE6eA", "Mjr_-A", "MTp4====", "MTp4+"};
	struct bytes             pk, sk;

	begin();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(cursor_unpack(&arena, bytes_of(bad[i]), &pk, &sk));
	assert_true(cursor_unpack(&arena, BYTES("MTp4"), &pk, &sk));
	assert_true(cursor_unpack(&arena, cursor_pack(&arena, BYTES("5:x"), BYTES("7:")), &pk, &sk));
	assert_bytes(pk, "5:x");
	assert_bytes(sk, "7:");
	arena_release(&arena);
}
