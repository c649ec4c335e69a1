/* Json: what is JSON, what is not, and what is found in it. */
#include "test.h"

#include "json.h"

static bool is_json(const char *text)
{
	struct text value;
	char       *copy = malloc(strlen(text) + 1); /* so that a look past the end is caught */
	bool        good;

	memcpy(copy, text, strlen(text));
	good = json_check((struct text){copy, strlen(text)}, &value);
	free(copy);
	return good;
}

TEST(json, accepts_what_is_json)
{
	static const char *const good[] = {"{}",
	                                   "[]",
	                                   " [1 , 2]\n",
	                                   "\"\"",
	                                   "0",
	                                   "-0",
	                                   "1e5",
	                                   "-1.25E-2",
	                                   "true",
	                                   "null",
	                                   "[[],{}]",
	                                   "{\"a\":{\"b\":[false]}}",
	                                   "\"\\u00e9\\ud83d\\ude00\\n\"",
	                                   "\"\xc3\xa9\xf0\x9f\x98\x80\""};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (!is_json(good[i]))
			fail_msg("refused: %s", good[i]);
}

TEST(json, refuses_what_is_not)
{
	static const char *const bad[] = {"",
	                                  " ",
	                                  "{",
	                                  "}",
	                                  "[1,]",
	                                  "{\"a\":1,}",
	                                  "{\"a\"}",
	                                  "{a:1}",
	                                  "01",
	                                  "+1",
	                                  "1.",
	                                  ".5",
	                                  "1e",
	                                  "-",
	                                  "tru",
	                                  "nul",
	                                  "TRUE",
	                                  "\"",
	                                  "\"\n\"",
	                                  "\"\\x\"",
	                                  "\"\\u12\"",
	                                  "\"\\ud800\"",
	                                  "\"\\udc00\"",
	                                  "\"\\ud800\\u0041\"",
	                                  "\"\xff\"",
	                                  "\"\xc0\x80\"",
	                                  "\"\xed\xa0\x80\"",
	                                  "\"\xf4\x90\x80\x80\"",
	                                  "1 2",
	                                  "{} x",
	                                  "[1 2]",
	                                  "{\"a\" 1}",
	                                  "'a'",
	                                  "[1]]",
	                                  "\"\xc3"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (is_json(bad[i]))
			fail_msg("accepted: %s", bad[i]);
}

TEST(json, is_as_deep_as_its_maximum_and_no_deeper)
{
	char text[2 * (JSON_DEPTH_MAX + 1) + 1];

	for (int deep = JSON_DEPTH_MAX; deep <= JSON_DEPTH_MAX + 1; deep++) {
		memset(text, '[', (size_t)deep);
		memset(text + deep, ']', (size_t)deep);
		text[2 * deep] = '\0';
		assert_int_equal(is_json(text), deep == JSON_DEPTH_MAX);
	}
}

TEST(json, finds_members_by_their_name_however_it_is_written)
{
	struct text
	        o = text_of(
	                "{\"x\":{\"a\":1}, \"\\u0061\" : 2 ,\"b\":[3,{\"a\":4}],\"twice\":1,\"twice\":1}"),
	        v;
	int64_t n;
	size_t  at = 0;

	assert_true(json_find(o, "a", &v) && json_whole(v, &n) && n == 2);
	assert_true(json_find(o, "twice", &v));
	assert_false(json_whole(v, &n));
	assert_false(json_find(o, "c", &v));
	assert_false(json_find(text_of("[1]"), "a", &v));
	assert_true(json_find(o, "b", &v));
	o = v;
	assert_true(json_next(o, &at, &v) && json_whole(v, &n) && n == 3);
	assert_true(json_next(o, &at, &v) && text_is(v, "{\"a\":4}"));
	assert_false(json_next(o, &at, &v));
	at = 0;
	assert_false(json_next(text_of("[]"), &at, &v));
	assert_false(json_next(text_of("{}"), &at, &v));
}

TEST(json, rounds_numbers_up_and_keeps_them_in_range)
{
	static const struct {
		const char *text;
		int64_t     value;
	} cases[] = {{"0", 0},
	             {"-0", 0},
	             {"7", 7},
	             {"899.2", 900},
	             {"0.0000000000000000000000001", 1},
	             {"-1.5", -1},
	             {"1e3", 1000},
	             {"1.5e1", 15},
	             {"25e-1", 3},
	             {"1e-400", 1},
	             {"999999999999999999", INT64_C(999999999999999999)},
	             {"10000000000000000000", INT64_MAX},
	             {"1e99999999999", INT64_MAX},
	             {"-1e300", INT64_MIN},
	             {"100000000000000000000e-20", 1}};
	int64_t n;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(json_whole(text_of(cases[i].text), &n));
		if (n != cases[i].value)
			fail_msg("%s: %lld", cases[i].text, (long long)n);
	}
	assert_false(json_whole(text_of("\"1\""), &n));
	assert_false(json_whole(text_of("1 "), &n));
	assert_false(json_whole(text_of("null"), &n));
}

TEST(json, cuts_strings_between_characters)
{
	char out[6];

	assert_true(json_string(text_of("\"\\ud83d\\ude00\""), out, sizeof(out)));
	assert_string_equal(out, "\xf0\x9f\x98\x80");
	assert_true(json_string(text_of("\"12345\""), out, sizeof(out)));
	assert_string_equal(out, "12345");
	assert_true(json_string(text_of("\"123456\""), out, sizeof(out)));
	assert_string_equal(out, "12345");
	assert_true(json_string(text_of("\"1234\xc3\xa9\""), out, sizeof(out)));
	assert_string_equal(out, "1234");
	assert_true(json_string(text_of("\"a\\u0000b\""), out, sizeof(out)));
	assert_string_equal(out, "a");
	assert_false(json_string(text_of("1"), out, sizeof(out)));
	assert_false(json_string((struct text){"", 0}, out, sizeof(out)));
}
