/* Options: a table of one of each kind, and what is said about wrong arguments. */
#include "test.h"

#include "cli/options.h"
#include "table/schema.h"

struct wishes {
	bool        quiet;
	const char *name;
	uint64_t    count;
	const char *table;
};

static const struct option_spec table[] = {
        {"--quiet", OPTION_FLAG, NULL, "says less", offsetof(struct wishes, quiet), 0, 0},
        {"--name", OPTION_TEXT, "NAME", "who", offsetof(struct wishes, name), 0, 0},
        {"--count", OPTION_NUMBER, "N", "how many", offsetof(struct wishes, count), 2, 9},
        {"--table", OPTION_TABLE, "NAME", "where", offsetof(struct wishes, table), 0, 0},
};

enum { WORDS_MAX = 8 };

static enum err_code parse(struct wishes *w, struct err *err, const char *const *words)
{
	char *argv[WORDS_MAX];
	int   argc = 0;

	*w = (struct wishes){.name = "nobody", .count = 5};
	for (; words[argc] != NULL; argc++)
		argv[argc] = (char *)words[argc];
	return options_parse(OPTIONS(table), w, argc, argv, err);
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
	assert_int_equal(ERR_NONE, PARSE("--quiet", "--quiet=false"));
	assert_false(w.quiet);
	assert_int_equal(ERR_NONE, PARSE("--quiet=true"));
	assert_true(w.quiet);
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
		assert_non_null(strstr(err.text, "--count: "));
		assert_non_null(strstr(err.text, "is not a whole number from 2 to 9"));
		assert_non_null(strstr(err.text, wrong[i]));
		assert_int_equal(5, w.count);
	}
}

TEST(options, the_name_of_a_table_is_taken_at_its_bounds_and_refused_past_them)
{
	static const char *const wrong[] = {"ab", "with space", "a/b/c", "f\xc3\xbcr", "name:1", "a,b"};
	char                     long_name[TABLE_NAME_MAX + 2];
	struct wishes            w;
	struct err               err;

	memset(long_name, 'x', sizeof(long_name));
	long_name[TABLE_NAME_MAX] = '\0';
	assert_int_equal(ERR_NONE, PARSE("--table", long_name));
	assert_string_equal(long_name, w.table);
	assert_int_equal(ERR_NONE, PARSE("--table", "A.b"));
	assert_int_equal(ERR_NONE, PARSE("--table", "my_auth-state.2"));
	long_name[TABLE_NAME_MAX] = 'x';
	long_name[TABLE_NAME_MAX + 1] = '\0';
	assert_int_equal(ERR_INVALID, PARSE("--table", long_name));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(ERR_INVALID, PARSE("--table", wrong[i]));
		assert_non_null(strstr(err.text, "--table: "));
		assert_non_null(strstr(err.text, "is not a table name, which has 3 to 255 letters"));
		assert_non_null(strstr(err.text, wrong[i]));
	}
}

TEST(options, what_is_wrong_is_named)
{
	struct wishes w;
	struct err    err;

	assert_int_equal(ERR_INVALID, PARSE("--nam", "x"));
	assert_string_equal("unknown argument \"--nam\"; did you mean --name?", err.text);
	assert_int_equal(ERR_INVALID, PARSE("stray"));
	assert_string_equal("unknown argument \"stray\" (see --help)", err.text);
	assert_int_equal(ERR_INVALID, PARSE("count", "3"));
	assert_string_equal("unknown argument \"count\"; did you mean --count?", err.text);
	assert_int_equal(ERR_INVALID, PARSE("-"));
	assert_int_equal(ERR_INVALID, PARSE("--"));
	assert_int_equal(ERR_INVALID, PARSE(""));
	assert_int_equal(ERR_INVALID, PARSE("--quiet=yes"));
	assert_string_equal("--quiet: must be true or false, not \"yes\"", err.text);
	assert_int_equal(ERR_INVALID, PARSE("--quiet="));
	assert_string_equal("--quiet: needs a value: true or false", err.text);
	assert_int_equal(ERR_INVALID, PARSE("--quiet", "--name"));
	assert_string_equal("--name: needs a value: NAME", err.text);
	assert_int_equal(ERR_INVALID, PARSE("--name="));
	assert_string_equal("--name: needs a value: NAME", err.text);
}

TEST(options, a_name_is_suggested_when_at_most_two_letters_and_one_in_three_are_wrong)
{
	static const struct option_spec specs[] = {
	        {"--data", OPTION_TEXT, "DIR", "a", 0, 0, 0},
	        {"--listen", OPTION_TEXT, "A", "b", 0, 0, 0},
	        {"--tls-cert", OPTION_TEXT, "FILE", "c", 0, 0, 0},
	        {"--fault", OPTION_TEXT, "N", NULL, 0, 0, 0},
	        {"--help", OPTION_ACTION, NULL, "d", 0, 0, 0},
	        {"--config", OPTION_CONFIG, "FILE", "e", 0, 0, 0},
	};
	static const struct {
		const char       *key;
		enum option_place place;
		const char       *meant;
	} cases[] = {
	        {"dat", OPTION_IN_FILE, "--data"},
	        {"dta", OPTION_IN_FILE, "--data"},
	        {"dt", OPTION_IN_FILE, NULL},
	        {"listne", OPTION_IN_FILE, "--listen"},
	        {"lisxyz", OPTION_IN_FILE, NULL},
	        {"tls_cert", OPTION_IN_FILE, "--tls-cert"},
	        {"tls-certs-", OPTION_IN_FILE, "--tls-cert"},
	        {"tls-certs-x", OPTION_IN_FILE, NULL},
	        {"faul", OPTION_IN_ARGUMENTS, NULL},
	        {"hel", OPTION_IN_ENVIRONMENT, NULL},
	        {"hel", OPTION_IN_ARGUMENTS, "--help"},
	        {"confg", OPTION_IN_FILE, NULL},
	        {"confg", OPTION_IN_ENVIRONMENT, "--config"},
	        {"", OPTION_IN_FILE, NULL},
	};
	char long_key[100];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct option_spec *meant =
		        option_closest(OPTIONS(specs), cases[i].place, bytes_of(cases[i].key));

		if ((meant == NULL) != (cases[i].meant == NULL) ||
		    (meant != NULL && strcmp(meant->name, cases[i].meant) != 0))
			fail_msg("%s: %s", cases[i].key, meant == NULL ? "nothing" : meant->name);
	}
	memset(long_key, 'x', sizeof(long_key)); /* longer than any name */
	assert_null(
	        option_closest(OPTIONS(specs), OPTION_IN_FILE, (struct bytes){long_key, sizeof(long_key)}));
}

TEST(options, a_value_with_a_line_break_is_refused_and_not_shown)
{
	struct wishes w;
	struct err    err;

	assert_int_equal(ERR_INVALID, PARSE("--name", "-----BEGIN PRIVATE KEY-----\nMII"));
	assert_string_equal("--name: must not contain a line break or another control character", err.text);
	assert_int_equal(ERR_INVALID, PARSE("--count", "3\x1B"));
	assert_string_equal("--count: must not contain a line break or another control character", err.text);
}
