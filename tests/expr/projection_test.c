/* Projection: which parts of an item remain, and which projections are refused. */
#include "support.h"

static const struct {
	const char *text, *result;
} results[] = {
        {"a", "a:1"},
        {"b, a", "a:1 b:'x'"},
        {"absent", ""},
        {"absent, a", "a:1"},
        {"m", "m:{x:1 y:{w:3 z:2}}"},
        {"m.x", "m:{x:1}"},
        {"m.y.z", "m:{y:{z:2}}"},
        {"m.y.z, m.x", "m:{x:1 y:{z:2}}"},
        {"m.absent", ""},
        {"m.absent, m.x", "m:{x:1}"},
        {"l[1]", "l:[20]"},
        {"l[2], l[0]", "l:[10 {p:1 q:2}]"},
        {"l[2].p, l[0]", "l:[10 {p:1}]"},
        {"l[9]", ""},
        {"l.x", ""},
        {"m[0]", ""},
        {"a.b", ""},
        {"#odd", "a.b:7"},
        {"#odd.x, a", "a:1"},
};

TEST(projection, keeps_the_named_parts_and_their_places)
{
	struct fixture f;
	struct item    item, out;

	fixture_open(&f, "#odd=a.b", "");
	item = fixture_item(&f, "a:1 b:'x' a.b:7 m:{x:1 y:{z:2 w:3}} l:[10 20 {p:1 q:2}]");
	for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++) {
		struct expr_projection projection;

		assert_accepted(expr_parse_projection(&f.arena, bytes_of(results[i].text), &f.scope,
		                                      &projection, &f.err),
		                &f.err, results[i].text);
		out = expr_project(&f.arena, &projection, &item);
		assert_item(&f, &out, results[i].text, results[i].result);
	}
	fixture_close(&f);
}

TEST(projection, built_in_code_need_not_be_sorted)
{
	struct fixture         f;
	struct expr_step       steps[2] = {{.name = BYTES_INIT("b")}, {.name = BYTES_INIT("a")}};
	struct expr_path       paths[2] = {{&steps[0], 1}, {&steps[1], 1}};
	struct expr_projection projection = {paths, 2};
	struct item            item, out;

	fixture_open(&f, "", "");
	item = fixture_item(&f, "a:1 b:2 c:3");
	out = expr_project(&f.arena, &projection, &item);
	assert_item(&f, &out, "b, a", "a:1 b:2");
	fixture_close(&f);
}

static const struct {
	const char *text, *error; /* behind "Invalid ProjectionExpression: " */
} refusals[] = {
        {"", "The expression can not be empty;"},
        {"a b", "Syntax error; token: \"b\", near: \"a b\""},
        {"a,", "Syntax error; token: \"<EOF>\", near: \",\""},
        {",a", "Syntax error; token: \",\", near: \",a\""},
        {"l[a]", "Syntax error; token: \"a\", near: \"[a]\""},
        {"a, :b", "Syntax error; token: \":b\", near: \", :b\""},
        {"(a)", "Syntax error; token: \"(\", near: \"(a\""},
        {"size(a)", "Syntax error; token: \"(\", near: \"size(a\""},
        {"[0]", "Syntax error; token: \"[\", near: \"[0\""},
        {"a, between", "Attribute name is a reserved keyword; reserved keyword: between"},
        {"#nope",
         "An expression attribute name used in the document path is not defined; attribute name: #nope"},
        {"l[2147483648]", "List index is not within the allowable range; index: [2147483648]"},
        {"a, b, a",
         "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
         "[a], path two: [a]"},
        {"#a.b, a",
         "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
         "[a, b], path two: [a]"},
        {"a.b[1], a.b[2], a.b", "Two document paths overlap with each other; must remove or rewrite one of "
                                "these paths; path one: [a, b, "
                                "[1]], path two: [a, b]"},
        {"a[0], a.b",
         "Two document paths conflict with each other; must remove or rewrite one of these paths; path "
         "one: [a, [0]], path two: [a, b]"},
};

TEST(projection, is_refused_with_dynamodbs_text)
{
	struct fixture f;

	fixture_open(&f, "#a=a", "");
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct expr_projection projection;
		struct bytes           expected =
		        arena_printf(&f.arena, "Invalid ProjectionExpression: %s%c", refusals[i].error, 0);
		enum err_code rc = expr_parse_projection(&f.arena, bytes_of(refusals[i].text), &f.scope,
		                                         &projection, &f.err);

		assert_refused(rc, &f.err, refusals[i].text, expected.data);
	}
	fixture_close(&f);
}
