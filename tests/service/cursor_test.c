/* Cursors: what was written is read back, and nothing else is taken for one. */
#include "test.h"

#include "service/cursor.h"

static bool reads(struct arena *a, const char *text)
{
	struct bytes pk, sk;

	return cursor_read(a, bytes_of(text), &pk, &sk);
}

TEST(cursor, is_read_back_whatever_the_key_holds_and_needs_no_escaping_in_a_url)
{
	static const char *const keys[][2] = {{"alice", "SIGN_IN#LOCK#X"},
	                                      {"5:x", "7:"},
	                                      {"a", ""},
	                                      {"\xf0\x9f\x94\x92?>>~~", "\xc3\xbf#"}};
	struct arena             a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct bytes text = cursor_write(&a, bytes_of(keys[i][0]), bytes_of(keys[i][1])), pk, sk;

		for (size_t j = 0; j < text.len; j++)
			assert_null(strchr("+/=%&?#", text.data[j]));
		assert_true(cursor_read(&a, text, &pk, &sk));
		assert_bytes(pk, keys[i][0]);
		assert_bytes(sk, keys[i][1]);
	}
	arena_release(&a);
}

TEST(cursor, the_longest_key_fits_and_one_byte_more_does_not)
{
	struct arena a;
	static char  text[2049];
	struct bytes pk, sk, cursor;

	memset(text, 'x', sizeof(text));
	arena_init(&a);
	cursor = cursor_write(&a, (struct bytes){text, 2048}, (struct bytes){text, 1024});
	assert_true(cursor.len <= CURSOR_BYTES_MAX);
	assert_true(cursor_read(&a, cursor, &pk, &sk));
	assert_true(pk.len == 2048 && sk.len == 1024);
	assert_false(cursor_read(&a, cursor_write(&a, (struct bytes){text, 2049}, BYTES("x")), &pk, &sk));
	assert_false(cursor_read(&a, cursor_write(&a, BYTES("x"), (struct bytes){text, 1025}), &pk, &sk));
	arena_release(&a);
}

TEST(cursor, what_is_none_is_refused)
{
	/* nothing; no base64; no number; an empty key; longer than there is; a sign; not UTF-8 */
	static const char *const bad[] = {"",     "!",      "a",      "YWJj",     "MDp4",
	                                  "OTp4", "LTE6eA", "Mjr_-A", "MTp4====", "MTp4+"};
	struct arena             a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(reads(&a, bad[i]));
	assert_true(reads(&a, "MTp4"));
	arena_release(&a);
}
