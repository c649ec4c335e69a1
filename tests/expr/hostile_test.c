/* Hostile: texts made to exhaust a parser, and every bound at its last good value and one past it. */
#include "support.h"

static enum err_code condition(struct fixture *f, struct bytes text)
{
	struct expr  *e;
	enum err_code rc = expr_parse_condition(&f->arena, text, &f->scope, &e, &f->err);
	struct item   item = {NULL, 0};

	if (rc == ERR_NONE)
		holds(e, &item); /* must end */
	return rc;
}

static struct bytes join(struct arena *a, struct bytes x, const char *middle, struct bytes y)
{
	return arena_printf(a, "%.*s%s%.*s", BYTES_ARG(x), middle, BYTES_ARG(y));
}

/* `count` times `text`, with `between` between. */
static struct bytes chain(struct arena *a, const char *text, const char *between, size_t count)
{
	struct bytes rest = repeated(a, arena_printf(a, "%s%s%c", between, text, 0).data, count - 1);

	return arena_printf(a, "%s%.*s", text, BYTES_ARG(rest));
}

TEST(hostile, text_of_4096_parentheses_is_a_syntax_error)
{
	struct fixture     f;
	struct expr_update update;

	fixture_open(&f, "", "v:1");
	assert_refused(condition(&f, repeated(&f.arena, "(", EXPR_BYTES_MAX)), &f.err, "4096 (",
	               "Invalid ConditionExpression: Syntax error; token: \"<EOF>\", near: \"(\"");
	assert_refused(condition(&f, repeated(&f.arena, ")", EXPR_BYTES_MAX)), &f.err, "4096 )",
	               "Invalid ConditionExpression: Syntax error; token: \")\", near: \"))\"");
	assert_refused(condition(&f, repeated(&f.arena, "a(", EXPR_BYTES_MAX / 2)), &f.err, "calls",
	               "Invalid ConditionExpression: The expression contains too many operators; operator "
	               "count: 301");
	assert_refused(expr_parse_update(&f.arena,
	                                 join(&f.arena, BYTES("SET a="), "", repeated(&f.arena, "(", 4090)),
	                                 &f.scope, &update, &f.err),
	               &f.err, "SET ((((",
	               "Invalid UpdateExpression: Syntax error; token: \"<EOF>\", near: \"(\"");
	assert_refused(
	        expr_parse_update(&f.arena,
	                          join(&f.arena, BYTES("SET a="), "", repeated(&f.arena, "b(", 2045)),
	                          &f.scope, &update, &f.err),
	        &f.err, "SET b(b(b(",
	        "Invalid UpdateExpression: The expression contains too many operators; operator count: 301");
	fixture_close(&f);
}

TEST(hostile, nested_parentheses_are_redundant_whatever_their_number)
{
	struct fixture f;

	fixture_open(&f, "", "v:1");
	for (size_t depth = 2; depth <= 2000; depth = depth < 20 ? depth + 1 : depth * 10)
		assert_refused(condition(&f, join(&f.arena, repeated(&f.arena, "(", depth), "a=:v",
		                                  repeated(&f.arena, ")", depth))),
		               &f.err, "nested",
		               "Invalid ConditionExpression: The expression has redundant parentheses;");
	fixture_close(&f);
}

TEST(hostile, parentheses_that_group_may_nest_to_the_operator_limit)
{
	struct fixture f;
	enum { DEPTH = 149 }; /* "a=:v" and DEPTH times "AND (a=:v": 299 operators */

	fixture_open(&f, "", "v:1");
	assert_accepted(condition(&f, join(&f.arena, chain(&f.arena, "a=:v", " AND (", DEPTH + 1), "",
	                                   repeated(&f.arena, ")", DEPTH))),
	                &f.err, "nested ANDs");
	fixture_close(&f);
}

TEST(hostile, expressions_have_at_most_300_operators)
{
	static const char  too_many[] = "Invalid ConditionExpression: The expression contains too many "
	                                "operators; operator count: 301";
	struct fixture     f;
	struct expr_update update;
	struct bytes       sums;

	fixture_open(&f, "", "v:1");
	/* n comparisons and n - 1 ORs */
	assert_accepted(
	        condition(&f, join(&f.arena, BYTES("NOT "), "", chain(&f.arena, "a=:v", " OR ", 150))),
	        &f.err, "300");
	assert_refused(condition(&f, chain(&f.arena, "a=:v", " OR ", 151)), &f.err, "301", too_many);
	assert_accepted(condition(&f, join(&f.arena, repeated(&f.arena, "NOT ", 299), "a=:v", BYTES(""))),
	                &f.err, "299 NOTs");
	assert_refused(condition(&f, join(&f.arena, repeated(&f.arena, "NOT ", 300), "a=:v", BYTES(""))),
	               &f.err, "300 NOTs", too_many);
	assert_refused(condition(&f, repeated(&f.arena, "NOT ", 1000)), &f.err, "only NOTs", too_many);
	assert_refused(condition(&f, repeated(&f.arena, "NOT ", 300)), &f.err, "300 NOTs alone",
	               "Invalid ConditionExpression: Syntax error; token: \"<EOF>\", near: \"NOT\"");

	sums = repeated(&f.arena, "if_not_exists(b,", 250);
	assert_int_equal(expr_parse_update(&f.arena,
	                                   join(&f.arena, join(&f.arena, BYTES("SET a="), "", sums), ":v",
	                                        repeated(&f.arena, ")", 250)),
	                                   &f.scope, &update, &f.err),
	                 ERR_INVALID); /* too long for the bytes: 4252 */
	sums = repeated(&f.arena, "if_not_exists(b,", 240);
	assert_accepted(expr_parse_update(&f.arena,
	                                  join(&f.arena, join(&f.arena, BYTES("SET a="), "", sums), "c",
	                                       repeated(&f.arena, ")", 240)),
	                                  &f.scope, &update, &f.err),
	                &f.err, "240 calls");
	fixture_close(&f);
}

TEST(hostile, set_actions_are_not_operators_but_sums_are)
{
	struct fixture     f;
	struct expr_update update;
	struct buf         text;

	fixture_open(&f, "", "v:1");
	buf_init(&text, &f.arena);
	for (int i = 0; i < 301; i++)
		buf_add_bytes(&text, arena_printf(&f.arena, "%sa%d=b+:v", i == 0 ? "SET " : ",", i));
	assert_refused(
	        expr_parse_update(&f.arena, buf_bytes(&text), &f.scope, &update, &f.err), &f.err, "301 sums",
	        "Invalid UpdateExpression: The expression contains too many operators; operator count: 301");
	buf_reset(&text);
	for (int i = 0; i < 400; i++)
		buf_add_bytes(&text, arena_printf(&f.arena, "%sa%d=:v", i == 0 ? "SET " : ",", i));
	assert_accepted(expr_parse_update(&f.arena, buf_bytes(&text), &f.scope, &update, &f.err), &f.err,
	                "400 SETs");
	assert_int_equal(update.count, 400);
	fixture_close(&f);
}

TEST(hostile, expressions_have_at_most_4096_bytes)
{
	struct fixture         f;
	struct expr_projection projection;
	char                   text[EXPR_BYTES_MAX + 1];

	fixture_open(&f, "", "v:1");
	memset(text, ' ', sizeof(text));
	memcpy(text, "a=:v", 4);
	assert_accepted(condition(&f, (struct bytes){text, EXPR_BYTES_MAX}), &f.err, "4096 bytes");
	assert_refused(condition(&f, (struct bytes){text, EXPR_BYTES_MAX + 1}), &f.err, "4097 bytes",
	               "Invalid ConditionExpression: Expression size has exceeded the maximum allowed size; "
	               "expression "
	               "size: 4097");
	memset(text, 'a', sizeof(text));
	assert_accepted(expr_parse_projection(&f.arena, (struct bytes){text, EXPR_BYTES_MAX}, &f.scope,
	                                      &projection, &f.err),
	                &f.err, "a name of 4096 bytes");
	assert_int_equal(projection.paths[0].steps[0].name.len, EXPR_BYTES_MAX);
	assert_int_equal(expr_parse_projection(&f.arena, (struct bytes){text, EXPR_BYTES_MAX + 1}, &f.scope,
	                                       &projection, &f.err),
	                 ERR_INVALID);
	fixture_close(&f);
}

TEST(hostile, in_has_at_most_100_operands)
{
	struct fixture f;

	fixture_open(&f, "", "v:1");
	assert_accepted(condition(&f, join(&f.arena, BYTES("a IN ("), "",
	                                   join(&f.arena, chain(&f.arena, ":v", ",", 100), ")", BYTES("")))),
	                &f.err, "100");
	assert_refused(
	        condition(&f, join(&f.arena, BYTES("a IN ("), "",
	                           join(&f.arena, chain(&f.arena, ":v", ",", 101), ")", BYTES("")))),
	        &f.err, "101",
	        "Invalid ConditionExpression: The IN operator is provided with too many operands; number of "
	        "operands: 101");
	fixture_close(&f);
}

TEST(hostile, paths_have_at_most_32_steps)
{
	struct fixture         f;
	struct expr_projection projection;

	fixture_open(&f, "", "v:1");
	assert_accepted(
	        expr_parse_projection(&f.arena, chain(&f.arena, "a", ".", 32), &f.scope, &projection, &f.err),
	        &f.err, "32 steps");
	assert_refused(
	        expr_parse_projection(&f.arena, chain(&f.arena, "a", ".", 33), &f.scope, &projection, &f.err),
	        &f.err, "33 steps",
	        "Invalid ProjectionExpression: The document path has too many nesting levels; nesting "
	        "levels: 33");
	assert_refused(condition(&f, join(&f.arena, chain(&f.arena, "a", ".", 2000), "=:v", BYTES(""))),
	               &f.err, "2000",
	               "Invalid ConditionExpression: The document path has too many nesting levels; nesting "
	               "levels: 2000");
	assert_int_equal(
	        condition(&f, join(&f.arena, repeated(&f.arena, "(", 800), "a",
	                           join(&f.arena, repeated(&f.arena, ").a", 800), "=:v", BYTES("")))),
	        ERR_INVALID);
	fixture_close(&f);
}

TEST(hostile, many_overlapping_paths_take_little_time_and_memory)
{
	struct fixture         f;
	struct expr_projection projection;

	fixture_open(&f, "", "");
	assert_int_equal(expr_parse_projection(&f.arena, chain(&f.arena, "a", ",", 2048), &f.scope,
	                                       &projection, &f.err),
	                 ERR_INVALID);
	assert_true(f.arena.used_bytes < 4u * 1024 * 1024);
	fixture_close(&f);
}

TEST(hostile, errors_show_long_tokens_in_part_and_cut_between_characters)
{
	struct fixture f;
	struct bytes   text;

	fixture_open(&f, "", "");
	text = join(&f.arena, BYTES("a = "), "x", repeated(&f.arena, "y", 3000));
	assert_int_equal(condition(&f, join(&f.arena, text, " z", BYTES(""))), ERR_INVALID);
	assert_true(strlen(f.err.text) < 700);
	text = join(&f.arena, BYTES("attribute_exists(\""), "", repeated(&f.arena, "\xC3\xBC", 1000));
	assert_int_equal(condition(&f, text), ERR_INVALID);
	assert_true(bytes_is_utf8(bytes_of(f.err.text)));
	fixture_close(&f);
}

/* Every prefix of, and every one-byte change to, some good texts: an answer, whatever it is. */
TEST(hostile, damaged_texts_are_answered)
{
	static const char *const texts[] = {
	        "NOT (a.b[3] = :v AND contains(#n, :v)) OR size((a).c) BETWEEN :v AND b OR a IN (:v, b)",
	        "SET a = if_not_exists(b, :v) + :v, c.d[1] = (#n - :v) REMOVE e[0], f ADD g :v DELETE h :s",
	};
	struct fixture f;

	fixture_open(&f, "#n=name", "v:1 s:<1>");
	for (size_t t = 0; t < 2; t++) {
		struct bytes text = arena_copy(&f.arena, bytes_of(texts[t]));
		char        *data = (char *)(uintptr_t)text.data;

		for (size_t i = 0; i < text.len; i++) {
			for (int c = 0; c < 256; c++) {
				struct expr_update update;
				char               kept = data[i];

				data[i] = (char)c;
				condition(&f, text);
				expr_parse_update(&f.arena, text, &f.scope, &update, &f.err);
				data[i] = kept;
			}
			condition(&f, (struct bytes){text.data, i});
		}
	}
	fixture_close(&f);
}
