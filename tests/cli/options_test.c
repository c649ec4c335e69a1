/* Options: a table of one of each kind, and what is said about wrong arguments. */
#include "test.h"

#include "cli/options.h"

struct wishes {
	bool        quiet;
	const char *name;
	uint64_t    count;
};

static const struct option_spec table[] = {
        {"--quiet", OPTION_FLAG, NULL, "says less", offsetof(struct wishes, quiet), 0, 0},
        {"--name", OPTION_TEXT, "NAME", "who", offsetof(struct wishes, name), 0, 0},
        {"--count", OPTION_NUMBER, "N", "how many", offsetof(struct wishes, count), 2, 9},
};

enum { WORDS_MAX = 8 };

static enum err_code parse(struct wishes *w, struct err *err, const char *const *words)
{
	char *argv[WORDS_MAX];
	int   argc = 0;

	*w = (struct wishes){.name = "nobody", .count = 5};
	for (; words[argc] != NULL; argc++)
		argv[argc] = (char *)words[argc];
	return options_parse(table, OPTIONS_COUNT(table), w, argc, argv, err);
}

#define PARSE(...) parse(&w, &err, (const char *const[]){__VA_ARGS__, NULL})

TEST(options, fill_the_struct_and_leave_alone_what_is_not_said)
{
	struct wishes w;
	struct err    err;

	assert_int_equal(ERR_NONE, PARSE("--quiet", "--name", "ann", "--count=7"));
	assert_true(w.quiet);
	assert_string_equal("ann", w.name);
	assert_int_equal(7, w.count);
	assert_int_equal(ERR_NONE, PARSE("--name=a=b"));
	assert_string_equal("a=b", w.name);
	assert_false(w.quiet);
	assert_int_equal(5, w.count);
	assert_int_equal(ERR_NONE, PARSE("--name", "--quiet")); /* a value may look like an option */
	assert_string_equal("--quiet", w.name);
}

TEST(options, the_last_word_wins)
{
	struct wishes w;
	struct err    err;

	assert_int_equal(ERR_NONE, PARSE("--name", "ann", "--name=bob"));
	assert_string_equal("bob", w.name);
}

TEST(options, a_number_is_taken_at_its_bounds_and_refused_past_them)
{
	static const char *const wrong[] = {"1", "10", "-3", "3x", "0x3", "18446744073709551618", " 3"};
	struct wishes            w;
	struct err               err;

	assert_int_equal(ERR_NONE, PARSE("--count", "2"));
	assert_int_equal(2, w.count);
	assert_int_equal(ERR_NONE, PARSE("--count", "9"));
	assert_int_equal(9, w.count);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(ERR_INVALID, PARSE("--count", wrong[i]));
		assert_non_null(strstr(err.text, "--count takes a whole number from 2 to 9"));
		assert_non_null(strstr(err.text, wrong[i]));
		assert_int_equal(5, w.count);
	}
}

TEST(options, what_is_wrong_is_named)
{
	struct wishes w;
	struct err    err;

	assert_int_equal(ERR_INVALID, PARSE("--nam", "x"));
	assert_non_null(strstr(err.text, "unknown argument \"--nam\""));
	assert_int_equal(ERR_INVALID, PARSE("stray"));
	assert_non_null(strstr(err.text, "\"stray\""));
	assert_int_equal(ERR_INVALID, PARSE("--quiet=yes"));
	assert_string_equal("--quiet takes no value", err.text);
	assert_int_equal(ERR_INVALID, PARSE("--quiet", "--name"));
	assert_string_equal("--name needs a value: NAME", err.text);
	assert_int_equal(ERR_INVALID, PARSE("--name="));
	assert_string_equal("--name needs a value: NAME", err.text);
}
