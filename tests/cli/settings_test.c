/* Settings: which of three places wins, what is refused in each and how it is told, and what comes of it. */
#include "test.h"

#include <sys/stat.h>

#include "cli/settings.h"
#include "json/yaml.h"

struct wishes {
	bool        quiet;
	const char *tls_cert;
	const char *data;
	uint64_t    cache_mb;
	const char *config;
	const char *fault;
	bool        help;
};

#define AT(field) offsetof(struct wishes, field)

static const struct option_spec table[] = {
        {"--config", OPTION_CONFIG, "FILE", "the file", AT(config), 0, 0},
        {"--quiet", OPTION_FLAG, NULL, "says less", AT(quiet), 0, 0},
        {"--tls-cert", OPTION_TEXT, "FILE", "a certificate", AT(tls_cert), 0, 0},
        {"--data", OPTION_TEXT, "DIR", "a directory", AT(data), 0, 0},
        {"--cache-mb", OPTION_NUMBER, "N", "memory", AT(cache_mb), 1, 1048576},
        {"--fault", OPTION_TEXT, "NAME", NULL, AT(fault), 0, 0},
        {"--help", OPTION_ACTION, NULL, "this text", AT(help), 0, 0},
};

/* Of another command with the same file. */
static const struct option_spec others[] = {
        {"--cache-kb", OPTION_NUMBER, "N", "close to a name of ours", 0, 0, 0},
};

enum { WORDS_MAX = 16 };

struct fixture {
	struct wishes   wishes;
	struct settings settings;
	struct err      err;
	char            folder[32], path[64];
	bool            opened;
	bool            shares; /* file and environment, with `others` */
};

static void fixture_open(struct fixture *f)
{
	*f = (struct fixture){.folder = "/tmp/gatehouse-set-XXXXXX"};
	assert_non_null(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/g.yaml", f->folder);
}

static void forget(struct fixture *f)
{
	if (f->opened)
		settings_release(&f->settings);
	f->opened = false;
}

static void fixture_close(struct fixture *f)
{
	forget(f);
	unlink(f->path);
	rmdir(f->folder);
}

static void file_write(struct fixture *f, struct bytes text)
{
	FILE *out = fopen(f->path, "we");

	assert_non_null(out);
	assert_int_equal(text.len, fwrite(text.data, 1, text.len, out));
	assert_int_equal(0, fclose(out));
}

/* text: of the file; NULL: there is none. */
static enum err_code read_all(struct fixture *f, const char *text, const char *const *environment,
                              const char *const *words)
{
	char *argv[WORDS_MAX] = {"--config", f->path};
	int   argc = text == NULL ? 0 : 2;

	forget(f);
	if (text != NULL)
		file_write(f, bytes_of(text));
	for (; *words != NULL; words++)
		argv[argc++] = (char *)*words;
	f->wishes = (struct wishes){.data = "data", .cache_mb = 64};
	settings_init(&f->settings, OPTIONS(table), &f->wishes);
	if (f->shares)
		f->settings.others = OPTIONS(others);
	f->opened = true;
	return settings_read(&f->settings, (char *const *)environment, argc, argv, &f->err);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void read_ok(struct fixture *f, const char *text, const char *const *environment,
                    const char *const *words)
{
	if (read_all(f, text, environment, words) != ERR_NONE)
		fail_msg("%s", f->err.text);
}

/* The error is `expected`, after the file's name if it begins with a colon. */
static void read_refused(struct fixture *f, const char *text, const char *const *environment,
                         const char *const *words, const char *expected)
{
	char whole[ERR_TEXT_MAX];

	snprintf(whole, sizeof(whole), "%s%s", *expected == ':' ? f->path : "", expected);
	assert_int_equal(ERR_INVALID, read_all(f, text, environment, words));
	assert_string_equal(whole, f->err.text);
}

TEST(settings, an_argument_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default)
{
	static const char *const file = "data: file\ncache-mb: 1\nquiet: true\ntls-cert: file\n";
	struct fixture           f;

	fixture_open(&f);
	read_ok(&f, file, WORDS(), WORDS());
	assert_string_equal("file", f.wishes.data);
	assert_int_equal(1, f.wishes.cache_mb);
	assert_true(f.wishes.quiet);
	read_ok(&f, file,
	        WORDS("GATEHOUSE_DATA=environment", "GATEHOUSE_CACHE_MB=2", "GATEHOUSE_QUIET=false"),
	        WORDS());
	assert_string_equal("environment", f.wishes.data);
	assert_int_equal(2, f.wishes.cache_mb);
	assert_false(f.wishes.quiet);
	read_ok(&f, file,
	        WORDS("GATEHOUSE_DATA=environment", "GATEHOUSE_CACHE_MB=2", "GATEHOUSE_QUIET=false"),
	        WORDS("--data", "argument", "--quiet", "--cache-mb=3"));
	assert_string_equal("argument", f.wishes.data);
	assert_int_equal(3, f.wishes.cache_mb);
	assert_true(f.wishes.quiet);
	assert_string_equal("file", f.wishes.tls_cert);
	read_ok(&f, file, WORDS(), WORDS("--quiet=false"));
	assert_false(f.wishes.quiet);
	read_ok(&f, NULL, WORDS(), WORDS());
	assert_string_equal("data", f.wishes.data);
	assert_int_equal(64, f.wishes.cache_mb);
	assert_null(f.wishes.tls_cert);
	fixture_close(&f);
}

TEST(settings, the_environment_can_name_the_file_and_an_argument_another)
{
	struct fixture f;
	char           variable[100];

	fixture_open(&f);
	file_write(&f, BYTES("cache-mb: 7\n"));
	snprintf(variable, sizeof(variable), "GATEHOUSE_CONFIG=%s", f.path);
	read_ok(&f, NULL, WORDS("HOME=/", variable), WORDS());
	assert_int_equal(7, f.wishes.cache_mb);
	read_ok(&f, "cache-mb: 8", WORDS("GATEHOUSE_CONFIG=/nowhere"), WORDS());
	assert_int_equal(8, f.wishes.cache_mb);
	read_refused(&f, NULL, WORDS("GATEHOUSE_CONFIG=/nowhere"), WORDS(),
	             "/nowhere: No such file or directory");
	read_refused(&f, NULL, WORDS("GATEHOUSE_CONFIG="), WORDS(), "GATEHOUSE_CONFIG: needs a value: FILE");
	fixture_close(&f);
}

TEST(settings, a_file_of_comments_says_nothing)
{
	struct fixture f;

	fixture_open(&f);
	read_ok(&f, "# data: other\n", WORDS(), WORDS());
	assert_string_equal("data", f.wishes.data);
	read_ok(&f, "", WORDS(), WORDS());
	read_ok(&f, "{}", WORDS(), WORDS());
	fixture_close(&f);
}

TEST(settings, a_value_may_be_quoted_in_the_file)
{
	struct fixture f;

	fixture_open(&f);
	read_ok(&f, "cache-mb: \"9\"\nquiet: 'true'\ndata: '0010'\n", WORDS(), WORDS());
	assert_int_equal(9, f.wishes.cache_mb);
	assert_true(f.wishes.quiet);
	assert_string_equal("0010", f.wishes.data);
	fixture_close(&f);
}

TEST(settings, what_is_wrong_in_the_file_is_told_with_line_value_and_reason)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
	        {"# one\n\ndata: x\ncache-mb: lots\n",
	         ":4: cache-mb: \"lots\" is not a whole number from 1 to 1048576"},
	        {"cache-mb: 0\n", ":1: cache-mb: \"0\" is not a whole number from 1 to 1048576"},
	        {"cache-mb: 1048577\n", ":1: cache-mb: \"1048577\" is not a whole number from 1 to 1048576"},
	        {"cache-mb: -1\n", ":1: cache-mb: \"-1\" is not a whole number from 1 to 1048576"},
	        {"cache-mb: 1.5\n", ":1: cache-mb: \"1.5\" is not a whole number from 1 to 1048576"},
	        {"cache-mb: true\n", ":1: cache-mb: \"true\" is not a whole number from 1 to 1048576"},
	        {"cache-mb:\n", ":1: cache-mb: needs a value: N"},
	        {"cache-mb: [1]\n", ":1: cache-mb: takes N, not an array"},
	        {"quiet: yes\n", ":1: quiet: must be true or false, not \"yes\""},
	        {"quiet: 1\n", ":1: quiet: must be true or false, not \"1\""},
	        {"quiet:\n", ":1: quiet: needs a value: true or false"},
	        {"quiet: {}\n", ":1: quiet: takes true or false, not an object"},
	        {"data: 0010\n", ":1: data: takes DIR, not a number (quote it if it is text)"},
	        {"data: true\n", ":1: data: takes DIR, not a boolean (quote it if it is text)"},
	        {"data: ''\n", ":1: data: needs a value: DIR"},
	        {"data: \"a\\0b\"\n", ":1: data: must not contain a line break or another control character"},
	        {"quiet: true\ntls-cert: |\n  -----BEGIN CERTIFICATE-----\n",
	         ":2: tls-cert: must not contain a line break or another control character"},
	        {"tls_cert: x\n", ":1: unknown setting \"tls_cert\"; did you mean tls-cert?"},
	        {"data: x\ncolour: red\n", ":2: unknown setting \"colour\" (see gatehouse serve --help)"},
	        {"--data: x\n", ":1: unknown setting \"--data\" (see gatehouse serve --help)"},
	        {"config: x\n", ":1: unknown setting \"config\" (see gatehouse serve --help)"},
	        {"help: true\n", ":1: unknown setting \"help\" (see gatehouse serve --help)"},
	        {"fault: commit\n", ":1: unknown setting \"fault\" (see gatehouse serve --help)"},
	        {"\n- data\n", ":2: settings must be NAME: VALUE, one per line, not an array"},
	        {"data\n", ":1: settings must be NAME: VALUE, one per line, not a string"},
	        {"data: a\ndata: b\n", ": line 2, column 1: duplicate key `data` (first on line 1)"},
	};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		read_refused(&f, cases[i].text, WORDS(), WORDS(), cases[i].expected);
	fixture_close(&f);
}

TEST(settings, what_is_wrong_in_the_environment_is_told_with_the_variable)
{
	struct fixture f;

	fixture_open(&f);
	read_refused(&f, NULL, WORDS("GATEHOUSE_CACHE_MB=lots"), WORDS(),
	             "GATEHOUSE_CACHE_MB: \"lots\" is not a whole number from 1 to 1048576");
	read_refused(&f, NULL, WORDS("GATEHOUSE_QUIET=1"), WORDS(),
	             "GATEHOUSE_QUIET: must be true or false, not \"1\"");
	read_refused(&f, NULL, WORDS("GATEHOUSE_DATA="), WORDS(), "GATEHOUSE_DATA: needs a value: DIR");
	read_refused(&f, NULL, WORDS("GATEHOUSE_TLS_CRET=x"), WORDS(),
	             "GATEHOUSE_TLS_CRET: unknown setting; did you mean GATEHOUSE_TLS_CERT?");
	read_refused(&f, NULL, WORDS("GATEHOUSE_data=x"), WORDS(),
	             "GATEHOUSE_data: unknown setting; did you mean GATEHOUSE_DATA?");
	fixture_close(&f);
}

TEST(settings, variables_of_others_and_of_what_is_an_argument_only_are_left_alone)
{
	struct fixture f;

	fixture_open(&f);
	read_ok(&f, NULL,
	        WORDS("GATEHOUSE_PORT=tcp://10.0.0.1:8420", "GATEHOUSE_HELP=true", "GATEHOUSE_FAULT=commit",
	              "GATEHOUSE_", "DATA=x", "XGATEHOUSE_DATA=x", "GATEHOUSE_RESTARTS=1@2"),
	        WORDS());
	assert_string_equal("data", f.wishes.data);
	assert_false(f.wishes.help);
	assert_null(f.wishes.fault);
	fixture_close(&f);
}

TEST(settings, what_another_command_knows_is_left_alone_in_the_file_and_the_environment_but_is_no_argument)
{
	struct fixture f;

	fixture_open(&f);
	f.shares = true;
	read_ok(&f, "cache-kb: 7\ncache-mb: 8\n", WORDS("GATEHOUSE_CACHE_KB=9"), WORDS());
	assert_int_equal(8, f.wishes.cache_mb);
	assert_int_equal(ERR_INVALID, read_all(&f, NULL, WORDS(), WORDS("--cache-kb", "7")));
	f.shares = false;
	read_refused(&f, "cache-kb: 7\n", WORDS(), WORDS(),
	             ":1: unknown setting \"cache-kb\"; did you mean cache-mb?");
	fixture_close(&f);
}

TEST(settings, a_wrong_value_is_refused_also_where_another_place_has_the_last_word)
{
	struct fixture f;

	fixture_open(&f);
	read_refused(&f, "cache-mb: lots", WORDS("GATEHOUSE_CACHE_MB=2"), WORDS("--cache-mb=3"),
	             ":1: cache-mb: \"lots\" is not a whole number from 1 to 1048576");
	read_refused(&f, NULL, WORDS("GATEHOUSE_CACHE_MB=x"), WORDS("--cache-mb=3"),
	             "GATEHOUSE_CACHE_MB: \"x\" is not a whole number from 1 to 1048576");
	fixture_close(&f);
}

TEST(settings, the_arguments_are_there_also_if_the_file_is_refused)
{
	struct fixture f;

	fixture_open(&f);
	read_refused(&f, "]", WORDS(), WORDS("--help"),
	             ": line 1, column 1: not valid YAML: did not find expected node content");
	assert_true(f.wishes.help);
	fixture_close(&f);
}

TEST(settings, a_file_that_is_none_or_too_long_is_refused)
{
	struct fixture f;
	char           text[100];
	char          *big = malloc(YAML_BYTES_MAX + 1);

	fixture_open(&f);
	snprintf(text, sizeof(text), "%s: cannot be read; it must be a file", f.folder);
	read_refused(&f, NULL, WORDS(), WORDS("--config", f.folder), text);
	memset(big, '#', YAML_BYTES_MAX + 1);
	file_write(&f, (struct bytes){big, YAML_BYTES_MAX});
	read_ok(&f, NULL, WORDS(), WORDS("--config", f.path));
	file_write(&f, (struct bytes){big, YAML_BYTES_MAX + 1});
	snprintf(text, sizeof(text), "%s: must have at most %d bytes", f.path, YAML_BYTES_MAX);
	read_refused(&f, NULL, WORDS(), WORDS("--config", f.path), text);
	free(big);
	fixture_close(&f);
}

TEST(settings, what_is_printed_says_where_it_comes_from_and_is_a_file_that_says_the_same)
{
	struct fixture f;
	struct buf     out;
	char           expected[400], *copy;

	fixture_open(&f);
	read_ok(&f, "\ndata: \"with \\\"quotes\\\" # and more\"\n", WORDS("GATEHOUSE_QUIET=true"),
	        WORDS("--cache-mb", "5"));
	buf_init(&out, NULL);
	settings_print(&f.settings, &out);
	snprintf(expected, sizeof(expected),
	         "quiet: true                                  # GATEHOUSE_QUIET\n"
	         "# tls-cert:                                  # not set\n"
	         "data: \"with \\\"quotes\\\" # and more\"           # %s:2\n"
	         "cache-mb: 5                                  # --cache-mb\n",
	         f.path);
	assert_bytes(buf_bytes(&out), expected);
	copy = strndup(out.data, out.len);
	read_ok(&f, copy, WORDS(), WORDS());
	assert_true(f.wishes.quiet);
	assert_string_equal("with \"quotes\" # and more", f.wishes.data);
	assert_int_equal(5, f.wishes.cache_mb);
	free(copy);
	buf_release(&out);
	fixture_close(&f);
}

TEST(settings, become_arguments_that_need_no_file)
{
	struct fixture f;
	char          *argv[OPTIONS_COUNT(table)];
	struct wishes  again = {.data = "data", .cache_mb = 64};
	struct err     err;
	size_t         count;

	fixture_open(&f);
	read_ok(&f, "data: a=b c\nquiet: true\n", WORDS("GATEHOUSE_CACHE_MB=5", "GATEHOUSE_QUIET=false"),
	        WORDS("--fault", "commit:1"));
	count = settings_arguments(&f.settings, argv);
	assert_int_equal(4, count);
	assert_int_equal(ERR_NONE, options_parse(OPTIONS(table), &again, (int)count, argv, &err));
	assert_string_equal("a=b c", again.data);
	assert_string_equal("commit:1", again.fault);
	assert_int_equal(5, again.cache_mb);
	assert_false(again.quiet);
	assert_null(again.config);
	assert_null(again.tls_cert);
	fixture_close(&f);
}
