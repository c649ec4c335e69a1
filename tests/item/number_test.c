/* Numbers: exact, canonical, bounded. */
#include "test.h"

#include "item/codec.h"
#include "item/messages.h"
#include "random.h"

static const char *canonical(const char *text)
{
	static char       out[NUMBER_TEXT_MAX + 1];
	struct number     n;
	static struct err err;

	if (number_parse(bytes_of(text), &n, &err) != ERR_NONE)
		return err.text;
	out[number_format(&n, out)] = '\0';
	return out;
}

static struct number parsed(const char *text)
{
	struct number     n;
	static struct err err;

	assert_int_equal(number_parse(bytes_of(text), &n, &err), ERR_NONE);
	return n;
}

static const char *sum(const char *a, const char *b)
{
	static char       out[NUMBER_TEXT_MAX + 1];
	struct number     x = parsed(a), y = parsed(b), n;
	static struct err err;

	if (number_add(&x, &y, &n, &err) != ERR_NONE)
		return err.text;
	out[number_format(&n, out)] = '\0';
	return out;
}

TEST(number, canonical_text_is_plain_decimal_without_superfluous_zeros)
{
	static const char *const table[][2] = {
	        {"0", "0"},
	        {"-0", "0"},
	        {"-0.00e5", "0"},
	        {"0e999999999", "0"},
	        {"00042", "42"},
	        {"+5", "5"},
	        {"1.0", "1"},
	        {"1.50", "1.5"},
	        {"1.5E2", "150"},
	        {"-12e-3", "-0.012"},
	        {".5", "0.5"},
	        {"5.", "5"},
	        {"100e-2", "1"},
	        {"12345678901234567890123456789012345678", "12345678901234567890123456789012345678"},
	        {"99999999999999999999999999999999999999", "99999999999999999999999999999999999999"},
	        {"123456789012345678901234567890.12345678", "123456789012345678901234567890.12345678"},
	        {"1e40", "10000000000000000000000000000000000000000"},
	        {"1e-5", "0.00001"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_string_equal(canonical(table[i][0]), table[i][1]);
}

TEST(number, the_largest_and_smallest_magnitudes_are_taken_and_the_next_are_refused)
{
	assert_int_equal(strlen(canonical("9.9999999999999999999999999999999999999e125")), 126);
	assert_int_equal(strlen(canonical("1e-130")), 132);
	assert_int_equal(strlen(canonical("-1.2345678901234567890123456789012345678e-130")), 170);
	assert_string_equal(canonical("1e126"), MSG_NUMBER_OVERFLOW);
	assert_string_equal(canonical("-1e126"), MSG_NUMBER_OVERFLOW);
	assert_string_equal(canonical("9.9e-131"), MSG_NUMBER_UNDERFLOW);
	assert_string_equal(canonical("1e99999999999"), MSG_NUMBER_OVERFLOW);
}

TEST(number, thirty_eight_digits_are_taken_and_thirty_nine_refused)
{
	assert_string_equal(canonical("1.2345678901234567890123456789012345678"),
	                    "1.2345678901234567890123456789012345678");
	assert_string_equal(canonical("1.23456789012345678901234567890123456789"), MSG_NUMBER_PRECISION);
	assert_string_equal(canonical("123456789012345678901234567890123456789"), MSG_NUMBER_PRECISION);
	assert_string_equal(canonical("123456789012345678901234567890123456780"),
	                    "123456789012345678901234567890123456780");
}

TEST(number, text_that_is_no_number_is_refused_with_the_text_named)
{
	static const char *const bad[] = {"a",     "1a", "--1", "1e",   "1e+", "e5",       ".",     "+",
	                                  "1.2.3", " 1", "1 ",  "0x10", "NaN", "Infinity", "1_000", "1,5"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char expected[200];

		snprintf(expected, sizeof(expected), MSG_NUMBER_BAD, (int)strlen(bad[i]), bad[i]);
		assert_string_equal(canonical(bad[i]), expected);
	}
	assert_string_equal(canonical(""), MSG_NUMBER_EMPTY);
}

TEST(number, text_of_the_longest_length_is_taken_and_one_more_refused)
{
	char          text[NUMBER_INPUT_MAX + 2];
	struct number n;
	struct err    err;

	memset(text, '0', sizeof(text));
	assert_int_equal(number_parse((struct bytes){text, NUMBER_INPUT_MAX}, &n, &err), ERR_NONE);
	assert_int_equal(number_parse((struct bytes){text, NUMBER_INPUT_MAX + 1}, &n, &err), ERR_INVALID);
}

TEST(number, sums_are_exact_or_refused)
{
	assert_string_equal(sum("0.1", "0.2"), "0.3");
	assert_string_equal(sum("1", "-1"), "0");
	assert_string_equal(sum("-5", "3"), "-2");
	assert_string_equal(sum("99999999999999999999999999999999999999", "1"),
	                    "100000000000000000000000000000000000000");
	assert_string_equal(sum("1e38", "-1"), "99999999999999999999999999999999999999");
	assert_string_equal(sum("1e38", "1"), MSG_NUMBER_PRECISION);
	assert_string_equal(sum("1e125", "1"), MSG_NUMBER_PRECISION);
	assert_string_equal(sum("9e125", "9e125"), MSG_NUMBER_OVERFLOW);
	assert_string_equal(sum("0", "1e-130"), canonical("1e-130"));
	assert_string_equal(
	        sum("9.9999999999999999999999999999999999999", "9.9999999999999999999999999999999999999"),
	        MSG_NUMBER_PRECISION);
}

TEST(number, sixty_four_bit_integers_come_and_go)
{
	static const int64_t values[] = {0, 1, -1, 10, 900, INT64_MAX, INT64_MIN, 1789000000};
	int64_t              out;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		struct number n = number_from_i64(values[i]);

		assert_true(number_to_i64(&n, &out));
		assert_int_equal(out, values[i]);
	}
	assert_false(number_to_i64(&(struct number){0, 5, -1, false}, &out));
	struct number big = parsed("9223372036854775808");
	assert_false(number_to_i64(&big, &out));
}

/* A number of 1 to 38 digits whose size is often near that of others. */
static struct number random_number(struct random *r)
{
	char   text[80];
	size_t len = 0, digits = 1 + random_below(r, random_below(r, 4) == 0 ? 38 : 3);

	if (random_below(r, 2) == 0)
		text[len++] = '-';
	for (size_t i = 0; i < digits; i++)
		text[len++] = (char)('0' + random_below(r, 10));
	len += (size_t)snprintf(text + len, sizeof(text) - len, "e%d", (int)random_below(r, 7) - 3);
	text[len] = '\0';
	return parsed(text);
}

TEST(number, key_bytes_sort_as_numbers_do_and_are_equal_for_equal_numbers_only)
{
	struct random r = {42};
	struct arena  arena;

	arena_init(&arena);
	for (int i = 0; i < 200000; i++) {
		struct value a = {.type = VALUE_N, .number = random_number(&r)};
		struct value b = {.type = VALUE_N, .number = random_number(&r)};
		struct buf   x, y;
		int          by_value = number_compare(&a.number, &b.number), by_bytes;

		buf_init(&x, &arena);
		buf_init(&y, &arena);
		key_encode(&x, &a);
		key_encode(&y, &b);
		by_bytes = bytes_compare(buf_bytes(&x), buf_bytes(&y));
		assert_int_equal((by_value > 0) - (by_value < 0), (by_bytes > 0) - (by_bytes < 0));
		arena_reset(&arena);
	}
	arena_release(&arena);
}

TEST(number, subtracting_what_was_added_gives_the_number_back)
{
	struct random r = {43};
	struct err    err;

	for (int i = 0; i < 200000; i++) {
		struct number a = random_number(&r), b = random_number(&r), both, back;

		if (number_add(&a, &b, &both, &err) != ERR_NONE)
			continue;
		assert_int_equal(number_subtract(&both, &b, &back, &err), ERR_NONE);
		assert_int_equal(number_compare(&a, &back), 0);
	}
}
