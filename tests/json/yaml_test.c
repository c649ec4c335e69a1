/* YAML in: that it makes the tree which the same document makes in JSON, what each plain scalar means, and
 * what is refused, where. */
#include "test.h"

#include "base/buf.h"
#include "json/yaml.h"

struct fixture {
	struct arena        arena;
	struct json_reader *reader;
	struct err          err;
};

static void fixture_open(struct fixture *f)
{
	arena_init(&f->arena);
	f->reader = json_reader_open();
}

static void fixture_close(struct fixture *f)
{
	json_reader_close(f->reader);
	arena_release(&f->arena);
}

static struct json *read_ok(struct fixture *f, struct bytes text)
{
	struct json *tree = NULL;

	if (yaml_read(&f->arena, text, &tree, &f->err) != ERR_NONE)
		fail_msg("\"%.*s\": %s", (int)(text.len < 80 ? text.len : 80), text.data, f->err.text);
	return tree;
}

static void read_same(struct fixture *f, const char *yaml, const char *json)
{
	struct json *expected = NULL, *tree = read_ok(f, bytes_of(yaml));

	assert_int_equal(ERR_NONE, json_read(f->reader, &f->arena, bytes_of(json), &expected, &f->err));
	if (!json_equal(tree, expected))
		fail_msg("\"%s\" is not %s", yaml, json);
}

/* The error's text begins with `where` and contains `what`. */
static void read_refused(struct fixture *f, struct bytes text, const char *where, const char *what)
{
	struct json *tree = NULL;

	if (yaml_read(&f->arena, text, &tree, &f->err) == ERR_NONE)
		fail_msg("accepted \"%.*s\"", (int)(text.len < 80 ? text.len : 80), text.data);
	assert_int_equal(f->err.code, ERR_SERIALIZATION);
	assert_null(tree);
	if (strncmp(f->err.text, where, strlen(where)) != 0 || strstr(f->err.text, what) == NULL)
		fail_msg("\"%.*s\": \"%s\", expected \"%s … %s\"", (int)(text.len < 80 ? text.len : 80),
		         text.data, f->err.text, where, what);
}

static struct bytes repeated(struct fixture *f, const char *piece, size_t n, const char *after, size_t m)
{
	struct buf out;

	buf_init(&out, &f->arena);
	while (n-- > 0)
		buf_add(&out, piece, strlen(piece));
	while (m-- > 0)
		buf_add(&out, after, strlen(after));
	return buf_bytes(&out);
}

TEST(yaml, makes_the_tree_that_json_makes)
{
	struct fixture f;

	fixture_open(&f);
	read_same(
	        &f,
	        "# a policy\n"
	        "Version: 2012-10-17\n"
	        "Statement:\n"
	        "  - Effect: Allow\n"
	        "    Action: [dynamodb:GetItem, 'dynamodb:Query']\n"
	        "    Resource: arn:aws:dynamodb:*:*:table/users\n"
	        "    Condition: {IpAddress: {aws:SourceIp: 10.0.0.0/8}, Bool: {aws:SecureTransport: true}}\n",
	        "{\"Version\": \"2012-10-17\", \"Statement\": [{\"Effect\": \"Allow\", \"Action\": "
	        "[\"dynamodb:GetItem\", \"dynamodb:Query\"], \"Resource\": "
	        "\"arn:aws:dynamodb:*:*:table/users\", \"Condition\": {\"IpAddress\": {\"aws:SourceIp\": "
	        "\"10.0.0.0/8\"}, \"Bool\": {\"aws:SecureTransport\": true}}}]}");
	read_same(&f, "{\"a\": [1, 2.5, null, \"x\\u00e9\\n\"], \"b\": {}}",
	          "{\"a\": [1, 2.5, null, \"x\\u00e9\\n\"], \"b\": {}}");
	read_same(&f, "a: |\n  one\n  two\nb: >-\n  one\n  two\n",
	          "{\"a\": \"one\\ntwo\\n\", \"b\": \"one two\"}");
	read_same(&f, "---\nx\n...\n", "\"x\"");
	fixture_close(&f);
}

TEST(yaml, a_text_without_a_document_is_null)
{
	static const char *const texts[] = {"", "\n\n", "# only a comment\n", "---\n", "---\n...\n"};
	struct fixture           f;
	struct json             *tree;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(JSON_NULL, read_ok(&f, bytes_of(texts[i]))->type);
	assert_int_equal(ERR_NONE, yaml_read(&f.arena, (struct bytes){NULL, 0}, &tree, &f.err));
	assert_int_equal(JSON_NULL, tree->type);
	fixture_close(&f);
}

TEST(yaml, plain_scalars_mean_what_the_core_schema_says)
{
	static const struct {
		const char *yaml, *json;
	} cases[] = {
	        {"null", "null"},
	        {"~", "null"},
	        {"true", "true"},
	        {"false", "false"},
	        {"12", "12"},
	        {"-12", "-12"},
	        {"+12", "12"},
	        {"010", "10"},
	        {"0o17", "15"},
	        {"0xfF", "255"},
	        {"0x", "\"0x\""},
	        {"0o8", "\"0o8\""},
	        {"-0x1", "\"-0x1\""},
	        {"1.5", "1.5"},
	        {"-.5", "-0.5"},
	        {"1.", "1.0"},
	        {"1e3", "1000.0"},
	        {"1E+2", "100.0"},
	        {"1e-400", "0.0"},
	        {".", "\".\""},
	        {"-", "[null]"}, /* a sequence of nothing, not a minus */
	        {"+", "\"+\""},
	        {"1e", "\"1e\""},
	        {"1e+", "\"1e+\""},
	        {"1.2.3", "\"1.2.3\""},
	        {"1_000", "\"1_000\""},
	        {"12:30", "\"12:30\""},
	        {"2012-10-17", "\"2012-10-17\""},
	        {"127.0.0.1:8420", "\"127.0.0.1:8420\""},
	        {"yes", "\"yes\""},
	        {"on", "\"on\""},
	        {"True", "\"True\""},
	        {"NULL", "\"NULL\""},
	        {"'12'", "\"12\""},
	        {"\"true\"", "\"true\""},
	        {"''", "\"\""},
	        {"|\n  12", "\"12\""},
	        {"9223372036854775807", "9223372036854775807"},
	        {"-9223372036854775808", "-9223372036854775808"},
	        {"0xffffffffffffffff", "18446744073709551615"},
	        {"18446744073709551615", "18446744073709551615"},
	};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		read_same(&f, cases[i].yaml, cases[i].json);
	read_same(&f, "a:\nb: \nc: ~", "{\"a\": null, \"b\": null, \"c\": null}");
	fixture_close(&f);
}

TEST(yaml, a_number_that_the_tree_cannot_hold_is_refused)
{
	static const char *const texts[] = {
	        "18446744073709551616",
	        "-9223372036854775809",
	        "0x10000000000000000",
	        "1e400",
	        "-1e400",
	        ".inf",
	        "-.Inf",
	        "+.INF",
	        ".nan",
	        ".NaN",
	};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		read_refused(&f, bytes_of(texts[i]), "line 1, column 1: ", "the number is too large");
	fixture_close(&f);
}

TEST(yaml, a_scalar_that_is_a_key_is_its_text)
{
	struct fixture f;

	fixture_open(&f);
	read_same(
	        &f, "1: a\ntrue: b\n~: c\n0x1: d\n? e\n: f\n\"<<\": g\n",
	        "{\"1\": \"a\", \"true\": \"b\", \"~\": \"c\", \"0x1\": \"d\", \"e\": \"f\", \"<<\": \"g\"}");
	fixture_close(&f);
}

TEST(yaml, a_node_knows_its_line_and_json_has_none)
{
	struct fixture     f;
	const struct json *tree, *list;
	struct json       *json;

	fixture_open(&f);
	tree = read_ok(&f, BYTES("# one\na: 1\n\nlist:\n  - x\n  -\n    y\nlong:\n\n  value\nnothing:\n"));
	assert_int_equal(2, tree->line);
	assert_int_equal(2, json_get(tree, BYTES("a"))->line);
	list = json_get(tree, BYTES("list"));
	assert_int_equal(4, list->line);
	assert_int_equal(5, json_children(list)->line);
	assert_int_equal(7, json_children(list)->next->line);
	assert_int_equal(8, json_get(tree, BYTES("long"))->line); /* where its name is */
	assert_int_equal(11, json_get(tree, BYTES("nothing"))->line);
	assert_int_equal(ERR_NONE, json_read(f.reader, &f.arena, BYTES("\n[1]"), &json, &f.err));
	assert_int_equal(0, json->line);
	assert_int_equal(0, json_children(json)->line);
	fixture_close(&f);
}

TEST(yaml, what_could_surprise_is_refused_where_it_is)
{
	static const struct {
		const char *text, *where, *what;
	} cases[] = {
	        {"a: 1\n---\nb: 2\n",
	         "line 2, column 1: ", "a second document begins here; only one is allowed"},
	        {"a: &x 1\n", "line 1, column 4: ", "anchors"},
	        {"a: &x [1]\n", "line 1, column 4: ", "anchors"},
	        {"&x\na: 1\n", "line 1, column 1: ", "anchors"},
	        {"a: 1\nb: *x\n", "line 2, column 4: ", "aliases"},
	        {"a: !!str 1\n", "line 1, column 4: ", "tags"},
	        {"a: ! 1\n", "line 1, column 4: ", "tags"},
	        {"a: !!set {x}\n", "line 1, column 4: ", "tags"},
	        {"- !seq [x]\n", "line 1, column 3: ", "tags"},
	        {"a:\n  <<: {b: 1}\n", "line 2, column 3: ", "merge keys"},
	        {"a: 1\nb: 2\n\"a\": 3\n", "line 3, column 1: ", "duplicate key `a` (first on line 1)"},
	        {"x: {a: 1, b: 2, a: 3}\n", "line 1, column 17: ", "duplicate key `a` (first on line 1)"},
	        {"[a]: 1\n", "line 1, column 1: ", "a key must be a single value, not a list or an object"},
	        {"? {a: 1}\n: 1\n",
	         "line 1, column 3: ", "a key must be a single value, not a list or an object"},
	        {"a: [1, 2\n", "line 2, column 1: ", "not valid YAML"},
	        {"a: 1\n b: 2\n", "line 2, column 3: ", "not valid YAML"},
	        {"a: b: c\n", "line 1, column 5: ", "not valid YAML"},
	        {"a:\n\t- 1\n", "line 2, column 1: ", "not valid YAML"},
	        {"a: \"\\q\"\n", "line 1, column 5: ", "not valid YAML"},
	        {"a: \"\\ud800\"\n", "line 1, column ", "not valid YAML"},
	        {"a: @b\n", "line 1, column 4: ", "not valid YAML"},
	};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		read_refused(&f, bytes_of(cases[i].text), cases[i].where, cases[i].what);
	fixture_close(&f);
}

TEST(yaml, bytes_that_are_no_text_are_refused_where_they_are)
{
	struct fixture f;

	fixture_open(&f);
	read_same(&f, "\xC3\xA9: \xF0\x9F\x98\x80", "{\"\xC3\xA9\": \"\xF0\x9F\x98\x80\"}");
	read_refused(&f, BYTES("a: 1\n\xC3\xA9: \xFF"), "line 2, column 4: ", "not valid YAML");
	read_refused(&f, BYTES("a: \xC3"), "line 1, column 4: ", "not valid YAML");
	read_refused(&f, BYTES("a: \xC0\x80"), "line 1, column 4: ", "not valid YAML");
	read_refused(&f, BYTES("a: \xED\xA0\x80"), "line 1, column 4: ", "not valid YAML");
	read_refused(&f, BYTES("a: b\0c"), "line 1, column 5: ", "not valid YAML");
	read_refused(&f, BYTES("a: \"\x1B\""), "line 1, column 5: ", "not valid YAML");
	read_refused(&f, BYTES("\xFF\xFE-\0 \0x\0"), "line 1, column 1: ", "not valid YAML"); /* UTF-16 */
	fixture_close(&f);
}

TEST(yaml, depth_is_taken_at_its_bound_and_refused_past_it)
{
	struct fixture f;

	fixture_open(&f);
	read_ok(&f, repeated(&f, "[", YAML_DEPTH_MAX, "]", YAML_DEPTH_MAX));
	read_refused(&f, repeated(&f, "[", YAML_DEPTH_MAX + 1, "]", YAML_DEPTH_MAX + 1),
	             "line 1, column 128: ", "nested more than 127 levels deep");
	read_ok(&f, repeated(&f, "- ", YAML_DEPTH_MAX, "x", 1));
	read_refused(&f, repeated(&f, "- ", YAML_DEPTH_MAX + 1, "x", 1),
	             "line 1, column 255: ", "nested more than 127 levels deep");
	read_refused(&f, repeated(&f, "{a: ", 100000, "}", 0),
	             "line 1, column 509: ", "nested more than 127 levels deep");
	read_refused(&f, repeated(&f, "[", 1000000, "]", 0),
	             "line 1, column 128: ", "nested more than 127 levels deep");
	fixture_close(&f);
}

TEST(yaml, length_is_taken_at_its_bound_and_refused_past_it)
{
	struct fixture f;

	fixture_open(&f);
	read_ok(&f, repeated(&f, "#", YAML_BYTES_MAX, "", 0));
	read_refused(&f, repeated(&f, "#", YAML_BYTES_MAX + 1, "", 0),
	             "the text must have at most 1000000 bytes", "");
	fixture_close(&f);
}

TEST(yaml, the_longest_texts_take_no_squares_of_time)
{
	struct fixture f;
	struct buf     keys;

	fixture_open(&f);
	assert_int_equal(333333, read_ok(&f, repeated(&f, "- \n", 333333, "", 0))->count);
	buf_init(&keys, &f.arena);
	for (unsigned i = 0; i < 125000; i++) {
		char line[16];

		buf_add(&keys, line, (size_t)snprintf(line, sizeof(line), "%x:\n", i + 0x10000));
	}
	assert_int_equal(125000, read_ok(&f, buf_bytes(&keys))->count);
	buf_add(&keys, "10000:", 6);
	read_refused(&f, buf_bytes(&keys),
	             "line 125001, column 1: ", "duplicate key `10000` (first on line 1)");
	fixture_close(&f);
}
