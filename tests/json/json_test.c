/* JSON in and out: what is read, what is refused, and that writing a tree and reading it again changes
 * nothing. */
#include "test.h"

#include "json/json.h"
#include "json/write.h"

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
	struct json *json = NULL;

	if (json_read(f->reader, &f->arena, text, &json, &f->err) != ERR_NONE)
		fail_msg("\"%.*s\": %s", (int)(text.len < 80 ? text.len : 80), text.data, f->err.text);
	return json;
}

static void read_refused(struct fixture *f, struct bytes text)
{
	struct json *json = NULL;

	if (json_read(f->reader, &f->arena, text, &json, &f->err) == ERR_NONE)
		fail_msg("accepted \"%.*s\"", (int)(text.len < 80 ? text.len : 80), text.data);
	assert_int_equal(f->err.code, ERR_SERIALIZATION);
	assert_null(json);
}

static struct bytes written(struct fixture *f, const struct json *tree)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, &f->arena);
	json_writer_init(&w, &out);
	json_tree(&w, tree);
	return buf_bytes(&out);
}

/* n opening brackets and n closing ones. */
static struct bytes nested(struct fixture *f, const char *open, const char *close, size_t n)
{
	struct buf out;

	buf_init(&out, &f->arena);
	for (size_t i = 0; i < n; i++)
		buf_add_bytes(&out, bytes_of(open));
	for (size_t i = 0; i < n; i++)
		buf_add_bytes(&out, bytes_of(close));
	return buf_bytes(&out);
}

TEST(json_get, of_what_is_no_object_or_not_there_is_null)
{
	struct json text = {.type = JSON_STRING};

	assert_null(json_get(NULL, BYTES("a")));
	assert_null(json_get(&text, BYTES("a")));
}

TEST(json, every_type_is_read)
{
	struct fixture f;
	struct json   *json;

	fixture_open(&f);
	json = read_ok(&f, BYTES(" {\"s\":\"a\",\"i\":-7,\"d\":1.5,\"t\":true,\"f\":false,\"n\":null,\"l\":["
	                         "1,2],\"o\":{}} "));
	assert_int_equal(json->type, JSON_OBJECT);
	assert_int_equal(json->count, 8);
	assert_bytes(json_text(json_get(json, BYTES("s"))), "a");
	assert_int_equal(json_integer(json_get(json, BYTES("i"))), -7);
	assert_true(json_real(json_get(json, BYTES("d"))) == 1.5);
	assert_true(json_truth(json_get(json, BYTES("t"))));
	assert_false(json_truth(json_get(json, BYTES("f"))));
	assert_int_equal(json_get(json, BYTES("n"))->type, JSON_NULL);
	assert_int_equal(json_get(json, BYTES("l"))->count, 2);
	assert_int_equal(json_integer(json_children(json_get(json, BYTES("l")))->next), 2);
	assert_int_equal(json_get(json, BYTES("o"))->type, JSON_OBJECT);
	assert_null(json_get(json, BYTES("x")));
	assert_null(json_get(json_get(json, BYTES("l")), BYTES("x")));
	fixture_close(&f);
}

TEST(json, a_value_of_another_type_has_no_text_no_number_no_truth_and_no_children)
{
	static const char *const texts[] = {"null", "true", "7", "0.5", "\"text\"", "[1]", "{\"a\":1}"};
	struct fixture           f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct json *v = read_ok(&f, bytes_of(texts[i]));
		bool               has_children = v->type == JSON_ARRAY || v->type == JSON_OBJECT;

		assert_bytes(json_text(v), v->type == JSON_STRING ? "text" : "");
		assert_non_null(json_text(v).data);
		assert_int_equal(json_truth(v), v->type == JSON_BOOL);
		assert_int_equal(json_integer(v), v->type == JSON_INT ? 7 : 0);
		assert_true(json_real(v) == (v->type == JSON_DOUBLE ? 0.5 : 0));
		assert_int_equal(json_children(v) != NULL, has_children);
		assert_int_equal(v->count, has_children);
	}
	assert_int_equal(json_text(NULL).len, 0);
	assert_null(json_children(NULL));
	fixture_close(&f);
}

TEST(json, the_tree_outlives_the_text_and_the_next_document)
{
	struct fixture f;
	char           text[] = "{\"name\":\"value \\u00e9\"}";
	struct json   *json;

	fixture_open(&f);
	json = read_ok(&f, bytes_of(text));
	memset(text, 'x', sizeof(text));
	read_ok(&f, BYTES("[\"something else entirely, and longer than before\"]"));
	assert_bytes(json_text(json_get(json, BYTES("name"))), "value \xc3\xa9");
	fixture_close(&f);
}

TEST(json, escapes_are_undone_and_made_again_only_where_they_must_be)
{
	struct fixture f;
	struct json   *json;

	fixture_open(&f);
	json = read_ok(&f, BYTES("\"\\u0041\\n\\t\\\"\\\\\\/\\u0001\\ud83d\\ude00\""));
	assert_bytes(json_text(json), "A\n\t\"\\/\x01\xf0\x9f\x98\x80");
	assert_bytes(written(&f, json), "\"A\\n\\t\\\"\\\\/\\u0001\xf0\x9f\x98\x80\"");
	fixture_close(&f);
}

TEST(json, a_nul_within_a_string_is_kept)
{
	struct fixture f;
	struct json   *json;

	fixture_open(&f);
	json = read_ok(&f, BYTES("\"a\\u0000b\""));
	assert_int_equal(json_text(json).len, 3);
	assert_bytes(written(&f, json), "\"a\\u0000b\"");
	fixture_close(&f);
}

TEST(json, malformed_text_is_refused)
{
	static const char *const bad[] = {
	        "",        " ",      "{",    "}",   "[1,]",  "{\"a\"}", "{\"a\":}",    "{a:1}",
	        "'a'",     "\"a",    "01",   "1.",  "+1",    "nul",     "[1 2]",       "{} {}",
	        "\"\\x\"", "\"\t\"", "[1]]", "NaN", "1e999", "// {}",   "\"\\ud800\"", "\xef\xbb\xbf{}"};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		read_refused(&f, bytes_of(bad[i]));
	read_ok(&f, BYTES("{}")); /* the reader still works */
	fixture_close(&f);
}

TEST(json, text_that_is_not_utf8_is_refused)
{
	struct fixture f;

	fixture_open(&f);
	read_refused(&f, BYTES("\"\xff\""));
	read_refused(&f, BYTES("\"\xc0\x80\""));         /* overlong */
	read_refused(&f, BYTES("\"\xed\xa0\x80\""));     /* a surrogate */
	read_refused(&f, BYTES("\"\xf4\x90\x80\x80\"")); /* past the last code point */
	read_refused(&f, BYTES("{\"\xe2\x82\":1}"));     /* cut off */
	fixture_close(&f);
}

TEST(json, nesting_ends_at_the_limit)
{
	struct fixture f;

	fixture_open(&f);
	read_ok(&f, nested(&f, "[", "]", JSON_DEPTH_MAX));
	read_refused(&f, nested(&f, "[", "]", JSON_DEPTH_MAX + 1));
	read_refused(&f, nested(&f, "[", "]", 100000));
	read_refused(&f, nested(&f, "{\"a\":[", "]}", 100000));
	fixture_close(&f);
}

TEST(json, values_are_counted_outside_of_strings_only)
{
	static const struct {
		const char *text;
		size_t      count;
	} cases[] = {{"", 1},
	             {"1", 1},
	             {"[]", 2},
	             {"[1,2,3]", 4},
	             {"{\"a\":[1,{\"b\":2}],\"c\":3}", 6},
	             {"\"[,,{\"", 1},
	             {"[\"a,\\\",\",2]", 3},
	             {"[\"\\\\\",2]", 3},
	             {"[\"\\\\\\\",[\",2]", 3},
	             {"[\"never ends,,,", 2}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (json_count(bytes_of(cases[i].text)) != cases[i].count)
			fail_msg("%s: %zu", cases[i].text, json_count(bytes_of(cases[i].text)));
}

/* [0,0,…]: the array counts too. */
static struct bytes zeros(struct fixture *f, size_t count)
{
	char *text = arena_alloc(&f->arena, 2 * count + 1);

	for (size_t i = 0; i < count; i++) {
		text[2 * i] = i == 0 ? '[' : ',';
		text[2 * i + 1] = '0';
	}
	text[2 * count] = ']';
	return (struct bytes){text, 2 * count + 1};
}

TEST(json, a_document_of_too_many_values_is_refused_before_anything_is_built)
{
	struct fixture f;
	struct bytes   text;
	size_t         before;

	fixture_open(&f);
	assert_int_equal(read_ok(&f, zeros(&f, JSON_VALUES_MAX - 1))->count, JSON_VALUES_MAX - 1);
	text = zeros(&f, JSON_VALUES_MAX);
	before = f.arena.used_bytes;
	read_refused(&f, text);
	assert_string_equal(f.err.text, "the document holds more than 1048576 values");
	assert_int_equal(f.arena.used_bytes, before);
	fixture_close(&f);
}

TEST(json, numbers_at_the_edges_of_64_bits)
{
	struct fixture f;

	fixture_open(&f);
	assert_int_equal(json_integer(read_ok(&f, BYTES("9223372036854775807"))), INT64_MAX);
	assert_int_equal(json_integer(read_ok(&f, BYTES("-9223372036854775808"))), INT64_MIN);
	assert_int_equal(read_ok(&f, BYTES("18446744073709551615"))->type, JSON_DOUBLE);
	read_refused(&f, BYTES("18446744073709551616"));
	fixture_close(&f);
}

TEST(json, what_is_refused_says_why_in_plain_words)
{
	struct fixture f;
	struct fields  in;
	struct json   *json;

	fixture_open(&f);
	read_refused(&f, BYTES("{\"limit\": 1000000000000000000000000000000}"));
	assert_non_null(strstr(f.err.text, "too large"));
	read_refused(&f, BYTES("[1e400]"));
	assert_non_null(strstr(f.err.text, "too large"));
	read_refused(&f, BYTES(" "));
	assert_non_null(strstr(f.err.text, "empty"));
	assert_int_equal(ERR_NONE, json_read(f.reader, &f.arena, BYTES("[]"), &json, &f.err));
	fields_init(&in, json, &f.err);
	assert_string_equal("the body must be an object, not an array", f.err.text);
	fields_init(&in, NULL, &f.err);
	assert_string_equal("the body is missing: send a JSON object", f.err.text);
	fixture_close(&f);
}

TEST(fields, a_member_that_is_null_or_was_only_looked_for_is_known)
{
	struct fixture f;
	struct fields  in;

	fixture_open(&f);
	fields_init(&in, read_ok(&f, BYTES("{\"email\": null}")), &f.err);
	assert_false(fields_has(&in, "email"));
	assert_int_equal(ERR_NONE, fields_end(&in));
	fields_init(&in, read_ok(&f, BYTES("{\"emal\": 1}")), &f.err);
	assert_false(fields_has(&in, "email"));
	assert_int_equal(ERR_INVALID, fields_end(&in));
	assert_non_null(strstr(f.err.text, "did you mean `email`?"));
	fields_init(&in, read_ok(&f, BYTES("{\"email\": 1}")), &f.err);
	assert_true(fields_has(&in, "email"));
	assert_int_equal(ERR_INVALID, fields_end(&in)); /* nobody asked for it */
	fixture_close(&f);
}

TEST(fields, after_the_first_mistake_every_member_is_absent_and_lists_end)
{
	struct fixture     f;
	struct fields      at;
	const struct json *list, *first;

	fixture_open(&f);
	fields_init(
	        &at,
	        read_ok(&f, BYTES("{\"list\":[1,2],\"text\":\"t\",\"number\":5,\"twice\":1,\"twice\":2}")),
	        &f.err);
	list = fields_array(&at, "list", 2);
	first = fields_first(&at, list);
	assert_int_equal(json_integer(fields_next(&at, first)), 2);
	assert_null(fields_get(&at, "twice")); /* the mistake */
	assert_null(fields_next(&at, first));
	assert_null(fields_first(&at, list));
	assert_null(fields_get(&at, "list"));
	assert_false(fields_has(&at, "text"));
	assert_int_equal(fields_text(&at, "text", 9).len, 0);
	assert_int_equal(fields_i64(&at, "number", 1, 9), 1);
	assert_int_equal(fields_end(&at), ERR_SERIALIZATION);
	assert_string_equal(f.err.text, "twice: given twice");
	fixture_close(&f);
}

TEST(json, a_long_document_is_read_and_the_reader_shrinks_again)
{
	struct fixture f;
	struct buf     text;
	struct json   *json;

	fixture_open(&f);
	buf_init(&text, &f.arena);
	buf_add_byte(&text, '[');
	while (text.len < 3 * JSON_KEEP_BYTES_MAX)
		buf_add_bytes(&text, BYTES("\"0123456789\","));
	buf_add_bytes(&text, BYTES("null]"));
	json = read_ok(&f, buf_bytes(&text));
	assert_bytes(json_text(json_children(json)), "0123456789");
	assert_true(bytes_equal(written(&f, json), buf_bytes(&text)));
	assert_bytes(json_text(json_children(read_ok(&f, BYTES("[\"small\"]")))), "small");
	fixture_close(&f);
}

TEST(json, what_is_written_reads_as_the_same_tree)
{
	static const char *const texts[] = {
	        "{\"a\":[1,-2,3.25,1e300,-1.5e-7,true,false,null,{\"b\":\"\\\"\"}],\"\":[]}",
	        "[[[]],{},0.1,123456789012345678,18446744073709551615,0.30000000000000004]"};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct json *one = read_ok(&f, bytes_of(texts[i]));
		struct json *two = read_ok(&f, written(&f, one));

		assert_true(json_equal(one, two));
	}
	assert_false(json_equal(read_ok(&f, BYTES("[1]")), read_ok(&f, BYTES("[1,2]"))));
	assert_false(json_equal(read_ok(&f, BYTES("{\"a\":1}")), read_ok(&f, BYTES("{\"b\":1}"))));
	assert_false(json_equal(read_ok(&f, BYTES("1")), read_ok(&f, BYTES("1.0"))));
	fixture_close(&f);
}

TEST(json, a_whole_number_is_whole_however_it_is_spelt)
{
	static const struct {
		const char *text;
		bool        whole;
		int64_t     number;
	} cases[] = {{"1", true, 1},
	             {"1.0", true, 1},
	             {"1e3", true, 1000},
	             {"-0.0", true, 0},
	             {"9007199254740992.0", true, 9007199254740992},
	             {"9007199254740994.0", false, 0}, /* past 2^53 a double may stand for its neighbours */
	             {"9223372036854775807", true, INT64_MAX},
	             {"9223372036854775808", false, 0},
	             {"1.5", false, 0},
	             {"\"1\"", false, 0}};
	struct fixture f;

	fixture_open(&f);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t number = 0;

		if (json_whole(read_ok(&f, bytes_of(cases[i].text)), &number) != cases[i].whole)
			fail_msg("%s", cases[i].text);
		assert_true(number == cases[i].number);
	}
	fixture_close(&f);
}

static struct bytes canonical(struct fixture *f, const char *text)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, &f->arena);
	json_writer_init(&w, &out);
	json_tree_canonical(&w, read_ok(f, bytes_of(text)), &f->arena);
	return buf_bytes(&out);
}

TEST(json, trees_that_mean_the_same_have_one_canonical_text)
{
	struct fixture f;

	fixture_open(&f);
	assert_bytes(
	        canonical(&f, " { \"b\" : [ 1.0, 2.5e0, {\"d\":null,\"c\":\"\\u0041/\\/\"} ], \"a\":true } "),
	        "{\"a\":true,\"b\":[1,2.5,{\"c\":\"A//\",\"d\":null}]}");
	assert_bytes(canonical(&f, "{\"b\":2,\"ab\":1,\"a\":0,\"\":[]}"),
	             "{\"\":[],\"a\":0,\"ab\":1,\"b\":2}");
	/* what does not mean the same: the order of an array, which of two comes last */
	assert_bytes(canonical(&f, "[2,1]"), "[2,1]");
	assert_bytes(canonical(&f, "{\"a\":2,\"a\":1}"), "{\"a\":2,\"a\":1}");
	fixture_close(&f);
}

TEST(writer, places_commas_and_writes_every_kind)
{
	struct buf         out;
	struct json_writer w;

	buf_init(&out, NULL);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_name(&w, BYTES("i"));
	json_i64(&w, INT64_MIN);
	json_name(&w, BYTES("d"));
	json_double(&w, 1);
	json_name(&w, BYTES("h"));
	json_double(&w, -2.5);
	json_name(&w, BYTES("b"));
	json_base64(&w, BYTES("\x01\x02"));
	json_name(&w, BYTES("l"));
	json_begin_array(&w);
	json_bool(&w, true);
	json_null(&w);
	json_begin_object(&w);
	json_end_object(&w);
	json_raw(&w, BYTES("7"));
	json_end_array(&w);
	json_end_object(&w);
	assert_bytes(
	        buf_bytes(&out),
	        "{\"i\":-9223372036854775808,\"d\":1.0,\"h\":-2.5,\"b\":\"AQI=\",\"l\":[true,null,{},7]}");
	buf_release(&out);
}

/* Wherever it is: text is looked at in words of eight bytes, and what is left byte by byte. */
TEST(writer, escapes_each_control_character)
{
	struct buf         out;
	struct json_writer w;
	struct fixture     f;

	fixture_open(&f);
	for (unsigned c = 0; c < 128; c++)
		for (size_t at = 0; at < 20; at++) {
			char         text[] = "abcdefghijklmnopqrst";
			struct bytes whole = {text, sizeof(text) - 1};
			struct json *json;

			text[at] = (char)c;
			buf_init(&out, &f.arena);
			json_writer_init(&w, &out);
			json_string(&w, whole);
			json = read_ok(&f, buf_bytes(&out));
			assert_true(bytes_equal(json_text(json), whole));
		}
	fixture_close(&f);
}

TEST(writer, writes_a_key_as_it_writes_a_name)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, NULL);
	json_writer_init(&w, &out);
	json_begin_object(&w);
	json_key(&w, BYTES("a"));
	json_i64(&w, 1);
	json_key(&w, BYTES("b_2"));
	json_begin_object(&w);
	json_key(&w, BYTES("c"));
	json_null(&w);
	json_end_object(&w);
	json_end_object(&w);
	assert_bytes(buf_bytes(&out), "{\"a\":1,\"b_2\":{\"c\":null}}");
	buf_release(&out);
}

TEST(writer, doubles_keep_their_value_in_the_shortest_text)
{
	static const struct {
		double      value;
		const char *text;
	} rows[] = {{0, "0.0"},
	            {0.5, "0.5"},
	            {1, "1.0"},
	            {-0.5, "-0.5"},
	            {12.5, "12.5"},
	            {0.25, "0.25"},
	            {0.1, "0.1"},
	            {999999999.5, "999999999.5"},
	            {1e9, "1000000000.0"},
	            {1e300, "1e+300"},
	            {-1e-7, "-1e-07"},
	            {0.1 + 0.2, "0.30000000000000004"}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct buf         out;
		struct json_writer w;

		buf_init(&out, NULL);
		json_writer_init(&w, &out);
		json_double(&w, rows[i].value);
		assert_bytes(buf_bytes(&out), rows[i].text);
		buf_release(&out);
	}
}
