/* Condition: what holds for which item, and what is refused with which text. */
#include "support.h"

static const char item_text[] =
        "s:'hello' n:5 big:12345678901234567890123456789012345678 b:x'0aff' t:true f:false nul:null "
        "m:{x:1 y:{z:'deep'}} l:[1 'two' [3 4]] ss:<'a' 'b' 'c'> ns:<1 2.50 -3> bs:<x'00' x'ff'> e:'' "
        "el:[] em:{} k2:5.0";

static const char values_text[] =
        "five:5 six:6 three:3 one:1 zero:0 two:2 hello:'hello' he:'he' ell:'ell' zzz:'zzz' a:'a' d:'d' "
        "empty:'' bin:x'0aff' bin0:x'0a' yes:true no:false nil:null list:[1 'two' [3 4]] l34:[3 4] "
        "map:{x:1 y:{z:'deep'}} ssx:<'c' 'b' 'a'> nsx:<2.5 1 -3> S:'S' N:'N' B:'B' BOOL:'BOOL' NULL:'NULL' "
        "M:'M' L:'L' SS:'SS' NS:'NS' BS:'BS' n25:2.5 bff:x'ff' "
        "three38:12345678901234567890123456789012345678";

static const struct {
	const char *text;
	bool        holds;
} truths[] = {
        /* comparisons */
        {"n = :five", true},
        {"n = :six", false},
        {":five = n", true},
        {"n = k2", true},
        {"n <> :six", true},
        {"n <> :five", false},
        {"n < :six", true},
        {"n < :five", false},
        {"n <= :five", true},
        {"n > :three", true},
        {"n > :five", false},
        {"n >= :five", true},
        {"s = :hello", true},
        {"s > :he", true},
        {"b = :bin", true},
        {"b > :bin0", true},
        {"big = :three38", true},
        {"t = :yes", true},
        {"t = :no", false},
        {"f = :no", true},
        {"nul = :nil", true},
        {"l = :list", true},
        {"m = :map", true},
        {"ss = :ssx", true},
        {"ns = :nsx", true},
        {":five = :five", true},
        {":five > :six", false},
        {"e = :empty", true},
        /* other types, absent attributes */
        {"s = :five", false},
        {"s <> :five", true},
        {"s < :five", false},
        {"s >= :five", false},
        {"absent = :five", false},
        {"absent <> :five", true},
        {"absent < :five", false},
        {"absent = gone", false},
        {"absent <> gone", true},
        /* paths */
        {"m.x = :one", true},
        {"m.y.z = :hello", false},
        {"m.y.z > :he", false},
        {"m . x = :one", true},
        {"l[0] = :one", true},
        {"l[2][1] > :three", true},
        {"l [ 2 ] [ 0 ] = :three", true},
        {"l[3] = :one", false},
        {"l[2147483647] = :one", false},
        {"l.x = :one", false},
        {"m[0] = :one", false},
        {"s.x = :one", false},
        {"(m).x = :one", true},
        {"((m).y).z <> :one", true},
        {"(l[2])[0] = :three", true},
        {"#m.#x = :one", true},
        {"#dotted = :one", false},
        /* BETWEEN and IN */
        {"n BETWEEN :three AND :six", true},
        {"n between :five and :five", true},
        {"n BETWEEN :zero AND :three", false},
        {"s BETWEEN :he AND :zzz", true},
        {"s BETWEEN :a AND :a", false},
        {"n BETWEEN m.x AND :six", true},
        {":three BETWEEN m.x AND n", true},
        {"absent BETWEEN :zero AND :six", false},
        {"(n)between(:three)and(:six)", true},
        {"n BETWEEN :three AND :six AND s = :hello", true},
        {"n BETWEEN :three AND :six AND s = :he", false},
        {"NOT n BETWEEN :three AND :six", false},
        {"size(s) BETWEEN :five AND size(s)", true},
        {"n IN (:one, :five)", true},
        {"n IN (:one, :six)", false},
        {"n in (m.x, size(s))", true},
        {":five IN (n)", true},
        {"absent IN (:one)", false},
        {"l IN (:list)", true},
        {"NOT n IN (:one)", true},
        /* logic and precedence */
        {"n = :five AND s = :hello", true},
        {"n = :five AND s = :he", false},
        {"n = :six OR s = :hello", true},
        {"n = :six OR s = :he", false},
        {"NOT n = :six", true},
        {"NOT NOT n = :five", true},
        {"not (n = :five and s = :hello)", false},
        {"n = :five OR n = :six AND n = :six", true},
        {"(n = :five OR n = :six) AND n = :six", false},
        {"NOT n = :five OR n = :five", true},
        {"NOT (n = :five OR n = :six)", false},
        {"NOT n = :six AND NOT s = :he", true},
        {"((n = :five) AND (s = :hello))", true},
        {"(n = :five)", true},
        {"(n) = (:five)", true},
        {"n=:five\tAND\r\ns=:hello", true},
        {"n=:five aNd(s=:hello)oR(s=:he)", true},
        /* functions */
        {"attribute_exists(n)", true},
        {"attribute_exists(nul)", true},
        {"attribute_exists(m.y.z)", true},
        {"attribute_exists(m.y.q)", false},
        {"attribute_exists (absent)", false},
        {"attribute_not_exists(absent)", true},
        {"attribute_not_exists(l[0])", false},
        {"attribute_not_exists((l)[9])", true},
        {"(attribute_exists(n))", true},
        {"attribute_type(s, :S)", true},
        {"attribute_type(s, :N)", false},
        {"attribute_type(n, :N)", true},
        {"attribute_type(b, :B)", true},
        {"attribute_type(t, :BOOL)", true},
        {"attribute_type(nul, :NULL)", true},
        {"attribute_type(m, :M)", true},
        {"attribute_type(l, :L)", true},
        {"attribute_type(ss, :SS)", true},
        {"attribute_type(ns, :NS)", true},
        {"attribute_type(bs, :BS)", true},
        {"attribute_type(absent, :S)", false},
        {"attribute_type(:five, :N)", true},
        {"attribute_type(:five, :S)", false},
        {"begins_with(s, :he)", true},
        {"begins_with(s, :ell)", false},
        {"begins_with(s, :empty)", true},
        {"begins_with(b, :bin0)", true},
        {"begins_with(s, :bin0)", false},
        {"begins_with(n, :he)", false},
        {"begins_with(n, k2)", false},
        {"begins_with(absent, :he)", false},
        {"begins_with(:hello, s)", true},
        {"contains(s, :ell)", true},
        {"contains(s, :zzz)", false},
        {"contains(s, :five)", false},
        {"contains(b, :bff)", true},
        {"contains(ss, :a)", true},
        {"contains(ss, :d)", false},
        {"contains(ss, :one)", false},
        {"contains(ns, :n25)", true},
        {"contains(ns, :two)", false},
        {"contains(bs, :bff)", true},
        {"contains(l, :one)", true},
        {"contains(l, :l34)", true},
        {"contains(l, :two)", false},
        {"contains(m, :one)", false},
        {"contains(n, :five)", false},
        {"contains(absent, :five)", false},
        {"contains(:hello, s)", true},
        {"size(s) = :five", true},
        {":five = size(s)", true},
        {"size(b) = :two", true},
        {"size(ss) = :three", true},
        {"size(l) = :three", true},
        {"size(m) = :two", true},
        {"size(el) = :zero", true},
        {"size(em) = :zero", true},
        {"size(e) = :zero", true},
        {"size(n) = :one", false},
        {"size(t) = :one", false},
        {"size(nul) = :one", false},
        {"size(absent) = :zero", false},
        {"size(absent) <> :zero", true},
        {"size(s) = :he", false},
        {"size(s) > size(m)", true},
        {"size(:hello) = size(s)", true},
        {"size(s) = n", true},
        {"(size(s)) >= (n)", true},
};

TEST(condition, holds_or_not_as_in_dynamodb)
{
	struct fixture f;
	struct item    item;

	fixture_open(&f, "#m=m #x=x #dotted=m.x", values_text);
	item = fixture_item(&f, item_text);
	for (size_t i = 0; i < sizeof(truths) / sizeof(*truths); i++) {
		struct expr  *e;
		enum err_code rc =
		        expr_parse_condition(&f.arena, bytes_of(truths[i].text), &f.scope, &e, &f.err);

		assert_accepted(rc, &f.err, truths[i].text);
		if (holds(e, &item) != truths[i].holds)
			fail_msg("%s: %s", truths[i].text, truths[i].holds ? "does not hold" : "holds");
	}
	fixture_close(&f);
}

TEST(condition, is_decided_with_just_the_bytes_that_it_needs_and_given_up_with_one_less)
{
	struct fixture f;
	struct item    item;

	fixture_open(&f, "#m=m #x=x #dotted=m.x", values_text);
	item = fixture_item(&f, item_text);
	for (size_t i = 0; i < sizeof(truths) / sizeof(*truths); i++) {
		struct expr_cost cost = {0, SIZE_MAX}, enough, short_of_it;
		struct expr     *e;

		assert_accepted(
		        expr_parse_condition(&f.arena, bytes_of(truths[i].text), &f.scope, &e, &f.err),
		        &f.err, truths[i].text);
		expr_holds(e, &item, &cost);
		assert_true(cost.spent > 0);
		enough = (struct expr_cost){0, cost.spent};
		assert_int_equal(expr_holds(e, &item, &enough), truths[i].holds);
		assert_false(expr_cost_exceeded(&enough));
		short_of_it = (struct expr_cost){0, cost.spent - 1};
		expr_holds(e, &item, &short_of_it);
		assert_true(expr_cost_exceeded(&short_of_it));
	}
	fixture_close(&f);
}

static size_t cost_of(struct fixture *f, const char *text, const struct item *item)
{
	struct expr_cost cost = {0, SIZE_MAX};
	struct expr     *e;

	assert_accepted(expr_parse_condition(&f->arena, bytes_of(text), &f->scope, &e, &f->err), &f->err,
	                text);
	expr_holds(e, item, &cost);
	return cost.spent;
}

/* Each of these walks all of an attribute of 1,000 bytes or elements. */
TEST(condition, pays_for_all_that_it_walks)
{
	enum { LONG = 1000 };
	static const struct {
		const char *text;
		size_t      least;
	} cases[] = {{"s = s2", LONG},
	             {"s <> s2", LONG},
	             {"s < s2", LONG},
	             {"s BETWEEN s2 AND s3", 2 * LONG},
	             {"s IN (:x, s2)", LONG},
	             {"begins_with(s, s2)", LONG},
	             {"contains(s, :x)", LONG * EXPR_SEARCH_COST},
	             {"contains(:x, s)", 0},
	             {"l = l2", LONG * EXPR_NODE_COST},
	             {"contains(l, :x)", LONG * EXPR_NODE_COST},
	             {"contains(n, l)", LONG * EXPR_NODE_COST},
	             {"m = m2", LONG},
	             {"#long = :x", 8 * LONG}}; /* among eight members */
	struct fixture f;
	struct item    item = {0};
	struct value   s, l = {.type = VALUE_L}, n = {.type = VALUE_L}, m = {.type = VALUE_M},
	                one = value_i64(1);
	char text[LONG + 1];

	memset(text, 'x', LONG);
	text[LONG] = '\0';
	fixture_open(&f, "#long=x", "x:'y'");
	s = value_string(arena_copy(&f.arena, (struct bytes){text, LONG}));
	f.scope.names[0].name = s.text;
	l.list = (struct value_list){arena_array(&f.arena, LONG, sizeof(one)), LONG};
	for (int i = 0; i < LONG; i++)
		l.list.items[i] = one;
	n.list = (struct value_list){&l, 1};
	m.map = item_with(&f.arena, &item, s.text, &one);
	for (size_t i = 0; i < 3; i++)
		item = item_with(&f.arena, &item, bytes_of((const char *[]){"s", "s2", "s3"}[i]), &s);
	for (size_t i = 0; i < 2; i++) {
		item = item_with(&f.arena, &item, bytes_of((const char *[]){"l", "l2"}[i]), &l);
		item = item_with(&f.arena, &item, bytes_of((const char *[]){"m", "m2"}[i]), &m);
	}
	item = item_with(&f.arena, &item, BYTES("n"), &n);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t cost = cost_of(&f, cases[i].text, &item);

		if (cost < cases[i].least || cost > cases[i].least + 3 * LONG)
			fail_msg("%s: cost %zu, not about %zu", cases[i].text, cost, cases[i].least);
	}
	fixture_close(&f);
}

TEST(condition, that_is_absent_holds)
{
	struct item item = {NULL, 0};

	assert_true(holds(NULL, &item));
	assert_false(expr_mentions(NULL, BYTES("a")));
}

TEST(condition, on_an_absent_item_sees_no_attributes)
{
	struct fixture f;
	struct item    item = {NULL, 0};
	struct expr   *e;

	fixture_open(&f, "", "v:1");
	assert_accepted(expr_parse_condition(&f.arena,
	                                     BYTES("attribute_not_exists(a) AND a <> :v AND NOT a = :v"),
	                                     &f.scope, &e, &f.err),
	                &f.err, "absent");
	assert_true(holds(e, &item));
	fixture_close(&f);
}

static const struct {
	const char *text;
	const char *error; /* behind "Invalid FilterExpression: " */
} refusals[] = {
        {"", "The expression can not be empty;"},
        {" \t\n", "The expression can not be empty;"},
        /* syntax: the token and its neighbours */
        {"a x b", "Syntax error; token: \"x\", near: \"a x b\""},
        {"foo", "Syntax error; token: \"<EOF>\", near: \"foo\""},
        {"a = ", "Syntax error; token: \"<EOF>\", near: \"=\""},
        {"a-b", "Syntax error; token: \"-\", near: \"a-b\""},
        {"a > 4", "Syntax error; token: \"4\", near: \"> 4\""},
        {"things are not gonna be ok", "Syntax error; token: \"are\", near: \"things are not\""},
        {"attribute_exists(", "Syntax error; token: \"<EOF>\", near: \"(\""},
        {"attribute_exists()", "Syntax error; token: \")\", near: \"()\""},
        {"attribute_exists(P-R)", "Syntax error; token: \"-\", near: \"P-R\""},
        {"attribute_exists(\"P.R\")", "Syntax error; token: \"\"\", near: \"(\"P\""},
        {"attribute_exists(P..R)", "Syntax error; token: \".\", near: \"..R\""},
        {"attribute_exists(P#c.R)", "Syntax error; token: \"#c\", near: \"P#c.\""},
        {"attribute_exists(q[a])", "Syntax error; token: \"a\", near: \"[a]\""},
        {"attribute_exists(q[])", "Syntax error; token: \"]\", near: \"[])\""},
        {"q[01] = :a", "Syntax error; token: \"1\", near: \"01]\""},
        {"q[4.5] = :a", "Syntax error; token: \".\", near: \"4.5\""},
        {"q[:a] > b", "Syntax error; token: \":a\", near: \"[:a]\""},
        {"a in b, c", "Syntax error; token: \"b\", near: \"in b,\""},
        {"a > between", "Syntax error; token: \"between\", near: \"> between\""},
        {"a in (b,c,)", "Syntax error; token: \")\", near: \",)\""},
        {"a in ()", "Syntax error; token: \")\", near: \"()\""},
        {"(a)between(b.(c.d))and(c)", "Syntax error; token: \"(\", near: \".(c\""},
        {"(a)between(b.c.d)and((c)", "Syntax error; token: \"<EOF>\", near: \")\""},
        {"a between b or c", "Syntax error; token: \"or\", near: \"b or c\""},
        {"a between b", "Syntax error; token: \"<EOF>\", near: \"b\""},
        {"(a between b) and c", "Syntax error; token: \")\", near: \"b) and\""},
        {"#$.b > a", "Syntax error; token: \"#\", near: \"#$\""},
        {"a > :t.s", "Syntax error; token: \".\", near: \":t.s\""},
        {"_a > b", "Syntax error; token: \"_\", near: \"_a\""},
        {"ü > a", "Syntax error; token: \"ü\", near: \"ü >\""},
        {"size(a).b > a", "Syntax error; token: \".\", near: \").b\""},
        {"(size(a)).b > a", "Syntax error; token: \".\", near: \").b\""},
        {"(size(a))[0] > a", "Syntax error; token: \"[\", near: \")[0\""},
        {"a = b = c", "Syntax error; token: \"=\", near: \"b = c\""},
        {"(a = b) = c", "Syntax error; token: \"=\", near: \") = c\""},
        {"a = (b = c)", "Syntax error; token: \"=\", near: \"b = c\""},
        {"a = (b AND c)", "Syntax error; token: \"AND\", near: \"b AND c\""},
        {"a = NOT b", "Syntax error; token: \"NOT\", near: \"= NOT b\""},
        {"size(NOT a) = b", "Syntax error; token: \"NOT\", near: \"(NOT a\""},
        {"a AND b = c", "Syntax error; token: \"AND\", near: \"a AND b\""},
        {"a = b AND c", "Syntax error; token: \"<EOF>\", near: \"c\""},
        {"a = b AND", "Syntax error; token: \"<EOF>\", near: \"AND\""},
        {"AND a = b", "Syntax error; token: \"AND\", near: \"AND a\""},
        {"NOT a", "Syntax error; token: \"<EOF>\", near: \"a\""},
        {"NOT (a)", "Syntax error; token: \"<EOF>\", near: \")\""},
        {"a = b)", "Syntax error; token: \")\", near: \"b)\""},
        {"(a = b", "Syntax error; token: \"<EOF>\", near: \"b\""},
        {"()", "Syntax error; token: \")\", near: \"()\""},
        {"a = b, c = d", "Syntax error; token: \",\", near: \"b, c\""},
        {"a + b = c", "Syntax error; token: \"+\", near: \"a + b\""},
        {"SET a = b", "Syntax error; token: \"a\", near: \"SET a =\""},
        /* parentheses */
        {"((a = b))", "The expression has redundant parentheses;"},
        {"a = ((b))", "The expression has redundant parentheses;"},
        {"(((a))) = b", "The expression has redundant parentheses;"},
        {"(a)between(((b.c)).d)and(c)", "The expression has redundant parentheses;"},
        {"a > whatever((:x), ((a)))", "The expression has redundant parentheses;"},
        {"a=b AND ((a=b AND a=b)) AND a=b", "The expression has redundant parentheses;"},
        {"a=b OR ((a=b OR (a=b OR a=b)))", "The expression has redundant parentheses;"},
        /* functions */
        {"a=b and whatever((:x)) > a", "Invalid function name; function: whatever"},
        {"attRIbute_exIsts((views), #a)", "Invalid function name; function: attRIbute_exIsts"},
        {"SIZE(a) > b", "Invalid function name; function: SIZE"},
        {"a=b and attribute_exists((q), (#a)) > b",
         "The function is not allowed to be used this way in an expression; function: attribute_exists"},
        {"b < attribute_type(q, :S)",
         "The function is not allowed to be used this way in an expression; function: attribute_type"},
        {"begins_with(q, a) > b",
         "The function is not allowed to be used this way in an expression; function: begins_with"},
        {"size(contains(a, b)) > a",
         "The function is not allowed to be used this way in an expression; function: contains"},
        {"size(q)", "The function is not allowed to be used this way in an expression; function: size"},
        {"a = b AND (size(q))",
         "The function is not allowed to be used this way in an expression; function: size"},
        {"a between b and attribute_exists(q)",
         "The function is not allowed to be used this way in an expression; function: attribute_exists"},
        {"a in (b, attribute_exists(q))",
         "The function is not allowed to be used this way in an expression; function: attribute_exists"},
        {"if_not_exists(a, b) = c",
         "The function is not allowed in a condition expression; function: if_not_exists"},
        {"list_append(a, b)", "The function is not allowed in a condition expression; function: list_append"},
        /* reserved words and indexes */
        {"attribute_exists(views, #zz)", "Attribute name is a reserved keyword; reserved keyword: views"},
        {":zz < abOrT", "Attribute name is a reserved keyword; reserved keyword: abOrT"},
        {"a.size = b", "Attribute name is a reserved keyword; reserved keyword: size"},
        {"set = b", "Attribute name is a reserved keyword; reserved keyword: set"},
        {"a[2147483648] = b", "List index is not within the allowable range; index: [2147483648]"},
        {"a[99999999999999999999] = b",
         "List index is not within the allowable range; index: [99999999999999999999]"},
        /* placeholders, in the order written */
        {"attribute_exists(#P.R, :q) and a=b",
         "An expression attribute name used in the document path is not defined; attribute name: #P"},
        {"begins_with(P.#R)",
         "An expression attribute name used in the document path is not defined; attribute name: #R"},
        {"#4g > a",
         "An expression attribute name used in the document path is not defined; attribute name: #4g"},
        {"#_ > a",
         "An expression attribute name used in the document path is not defined; attribute name: #_"},
        {"begins_with(:nope, #a, #b)",
         "An expression attribute value used in expression is not defined; attribute value: :nope"},
        {":_ > a", "An expression attribute value used in expression is not defined; attribute value: :_"},
        {"a = :nope AND b = #nope",
         "An expression attribute value used in expression is not defined; attribute value: :nope"},
        /* number of operands */
        {"attribute_exists(q, a) and a=b", "Incorrect number of operands for operator or function; operator "
                                           "or function: attribute_exists, number "
                                           "of operands: 2"},
        {"attribute_type(q)", "Incorrect number of operands for operator or function; operator or function: "
                              "attribute_type, number of operands: 1"},
        {"begins_with(q, size(a), b)", "Incorrect number of operands for operator or function; operator or "
                                       "function: begins_with, number of operands: 3"},
        {"contains(q)",
         "Incorrect number of operands for operator or function; operator or function: contains, "
         "number of operands: 1"},
        {"size(q, a) > b", "Incorrect number of operands for operator or function; operator or function: "
                           "size, number of operands: 2"},
        /* types of operands */
        {"attribute_type(a, size(a)) and a=b", "Incorrect operand type for operator or function; operator or "
                                               "function: attribute_type, operand type: N"},
        {"attribute_type(a, :N)", "Incorrect operand type for operator or function; operator or function: "
                                  "attribute_type, operand type: N"},
        {"attribute_type(a, :L)", "Incorrect operand type for operator or function; operator or function: "
                                  "attribute_type, operand type: L"},
        {"attribute_type(a, b)", "Incorrect operand type for operator or function; operator or function: "
                                 "attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"},
        {"attribute_type(a, :S)",
         "Invalid attribute type name found; type: text, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
        {"begins_with(a, size(b))", "Incorrect operand type for operator or function; operator or function: "
                                    "begins_with, operand type: N"},
        {"begins_with(a, :N)", "Incorrect operand type for operator or function; operator or function: "
                               "begins_with, operand type: N"},
        {"begins_with(:BOOL, a)", "Incorrect operand type for operator or function; operator or function: "
                                  "begins_with, operand type: BOOL"},
        {"begins_with(a, :SS)", "Incorrect operand type for operator or function; operator or function: "
                                "begins_with, operand type: SS"},
        {"size(size(a)) > :N",
         "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
        {"size(:BOOL) > a",
         "Incorrect operand type for operator or function; operator or function: size, operand type: BOOL"},
        {"attribute_not_exists(size(:NULL))",
         "Incorrect operand type for operator or function; operator or function: size, operand type: NULL"},
        {"attribute_not_exists(size(:S))",
         "Operator or function requires a document path; operator or function: attribute_not_exists"},
        {"attribute_type(size(a), :S)",
         "Operator or function requires a document path; operator or function: attribute_type"},
        {"attribute_exists(:S) and a=b",
         "Operator or function requires a document path; operator or function: attribute_exists"},
        {"a < :BOOL",
         "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL"},
        {":M >= a",
         "Incorrect operand type for operator or function; operator or function: >=, operand type: M"},
        {"a BETWEEN :BOOL AND :BOOL", "Incorrect operand type for operator or function; operator or "
                                      "function: BETWEEN, operand type: BOOL"},
        {"a BETWEEN :N AND :S",
         "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: "
         "AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:text}"},
        {"a BETWEEN :N AND :zero",
         "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound "
         "operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {N:0}"},
        {"a BETWEEN :B AND :b0",
         "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound "
         "operand: AttributeValue: {B:java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]}, upper bound operand: "
         "AttributeValue: {B:java.nio.HeapByteBuffer[pos=0 lim=1 cap=1]}"},
        /* the same operand twice */
        {"a = a AND #nope = b",
         "The first operand must be distinct from the remaining operands for this operator "
         "or function; operator: =, first operand: [a]"},
        {"#a <> a",
         "The first operand must be distinct from the remaining operands for this operator or function; "
         "operator: <>, first operand: [a]"},
        {"contains(q.r[1].a, q.r[1].#a)", "The first operand must be distinct from the remaining operands "
                                          "for this operator or function; operator: "
                                          "contains, first operand: [q, r, [1], a]"},
        {"attribute_type(q[1], q[1])", "The first operand must be distinct from the remaining operands for "
                                       "this operator or function; operator: "
                                       "attribute_type, first operand: [q, [1]]"},
        {"a BETWEEN b AND a",
         "The first operand must be distinct from the remaining operands for this operator or "
         "function; operator: BETWEEN, first operand: [a]"},
        {"a IN (b, c, a)",
         "The first operand must be distinct from the remaining operands for this operator or "
         "function; operator: IN, first operand: [a]"},
        /* which fault counts most */
        {"whatever(views) = :nope AND ((a = b))", "The expression has redundant parentheses;"},
        {"((a = b)) AND c", "Syntax error; token: \"<EOF>\", near: \"c\""},
        {"views = :nope AND whatever(a)", "Invalid function name; function: whatever"},
};

TEST(condition, is_refused_with_dynamodbs_text)
{
	struct fixture f;

	fixture_open(&f, "#a=a #b=b",
	             "S:'text' N:1 B:x'0aff' b0:x'00' BOOL:true NULL:null M:{} L:[] SS:<'a'> zero:0");
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct expr *e;
		struct bytes expected =
		        arena_printf(&f.arena, "Invalid FilterExpression: %s%c", refusals[i].error, 0);
		enum err_code rc =
		        expr_parse_filter(&f.arena, bytes_of(refusals[i].text), &f.scope, &e, &f.err);

		assert_refused(rc, &f.err, refusals[i].text, expected.data);
	}
	fixture_close(&f);
}

TEST(condition, mentions_the_first_names_of_its_paths_only)
{
	struct fixture f;
	struct expr   *e;

	fixture_open(&f, "#n=named", "v:1");
	assert_accepted(expr_parse_filter(&f.arena,
	                                  BYTES("NOT (a.inn = :v OR size(b[0]) > :v) AND c IN (d, #n)"),
	                                  &f.scope, &e, &f.err),
	                &f.err, "mentions");
	assert_true(expr_mentions(e, BYTES("a")));
	assert_true(expr_mentions(e, BYTES("b")));
	assert_true(expr_mentions(e, BYTES("c")));
	assert_true(expr_mentions(e, BYTES("d")));
	assert_true(expr_mentions(e, BYTES("named")));
	assert_false(expr_mentions(e, BYTES("inn")));
	assert_false(expr_mentions(e, BYTES("#n")));
	fixture_close(&f);
}

TEST(condition, that_attributes_are_as_they_were_read_holds_while_they_are)
{
	static const char *const names[] = {"a", "b", NULL};
	static const struct {
		const char *item;
		bool        holds;
	} cases[] = {{"a:1 c:'other'", true}, {"a:1.0 c:3", true}, {"a:1", true}, {"a:2 c:'x'", false},
	             {"a:'1' c:'x'", false},  {"c:'x'", false},    {"", false},   {"a:1 b:1 c:'x'", false}};
	struct fixture f;
	struct expr    e = {.kind = EXPR_SAME, .names = names};

	fixture_open(&f, "", "");
	e.read = fixture_item(&f, "a:1 c:'x'");
	assert_true(holds(&e, &e.read));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct item item = fixture_item(&f, cases[i].item);

		if (holds(&e, &item) != cases[i].holds)
			fail_msg("%s", cases[i].item);
	}
	assert_true(expr_mentions(&e, BYTES("b")));
	assert_false(expr_mentions(&e, BYTES("c")));
	fixture_close(&f);
}
