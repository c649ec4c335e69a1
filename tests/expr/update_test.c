/* Update: what becomes of an item, and what is refused with which text, when parsed and when applied. */
#include "support.h"

static const char item_text[] =
        "n:5 s:'text' l:[1 2 3] m:{x:1 y:{z:2}} ss:<'a' 'b'> ns:<1 2> lm:[{a:1} {b:2}] nul:null t:true";

static const char values_text[] =
        "one:1 two:2 big:99999999999999999999999999999999999999 str:'new' list:['x' 'y'] el:[] map:{q:1} "
        "sab:<'a' 'b'> sc:<'c' 'a'> sz:<'z'> n1:<1> n3:<3> bin:x'00' yes:true nil:null huge:9e125";

static enum err_code run(struct fixture *f, const char *text, const struct item *before, struct item *after)
{
	struct expr_update update;
	enum err_code      rc = expr_parse_update(&f->arena, bytes_of(text), &f->scope, &update, &f->err);

	assert_accepted(rc, &f->err, text);
	return expr_update_apply(&f->arena, &update, before, after, &f->err);
}

static const struct {
	const char *before, *text, *after;
} results[] = {
        /* SET */
        {"", "SET a = :one", "a:1"},
        {"a:1", "set a = :str", "a:'new'"},
        {"a:1 c:3", "SET b = :two, d = :one", "a:1 b:2 c:3 d:1"},
        {"a:1", "SET #odd = :one", "a:1 a.b-c:1"},
        {"a:1", "SET b = a", "a:1 b:1"},
        {"a:1 b:2", "SET a = b, b = a", "a:2 b:1"},
        {"a:1", "SET a = a + :one", "a:2"},
        {"a:1", "SET a = a - :two", "a:-1"},
        {"a:1", "SET a = :two + :one", "a:3"},
        {"a:0.1", "SET a = (a + :one)", "a:1.1"},
        {"a:1 b:2", "SET c = ((a)+(b))", "a:1 b:2 c:3"},
        {"a:1 b:2", "SET c = (a)-(b)", "a:1 b:2 c:-1"},
        {"a:1", "SET c = (a)", "a:1 c:1"},
        {"", "SET a = if_not_exists(a, :one)", "a:1"},
        {"a:7", "SET a = if_not_exists(a, :one)", "a:7"},
        {"", "SET a = if_not_exists(a, :one) + :one", "a:2"},
        {"a:7", "SET a = :one + if_not_exists(a, :one)", "a:8"},
        {"b:4", "SET a = if_not_exists(a, if_not_exists(b, :one))", "a:4 b:4"},
        {"l:[1]", "SET l = list_append(l, :list)", "l:[1 'x' 'y']"},
        {"l:[1]", "SET l = list_append(:list, l)", "l:['x' 'y' 1]"},
        {"", "SET l = list_append(if_not_exists(l, :el), :list)", "l:['x' 'y']"},
        {"l:[1]", "SET k = list_append(:el, :el)", "k:[] l:[1]"},
        {"m:{x:1}", "SET m.y = :two", "m:{x:1 y:2}"},
        {"m:{x:1}", "SET m.x = :two, m.a = :one", "m:{a:1 x:2}"},
        {"m:{x:1 y:{z:2}}", "SET m.y.w = m.x", "m:{x:1 y:{w:1 z:2}}"},
        {"m:{x:1 y:2}", "SET m.x = m.y, m.y = m.x", "m:{x:2 y:1}"},
        {"l:[1 2 3]", "SET l[0] = :str, l[2] = l[0]", "l:['new' 2 1]"},
        {"l:[1 2 3]", "SET l[7] = :str", "l:[1 2 3 'new']"},
        {"l:[1]", "SET l[9] = :one, l[5] = :two", "l:[1 2 1]"},
        {"l:[]", "SET l[0] = :one", "l:[1]"},
        {"lm:[{a:1} {b:2}]", "SET lm[1].c = :one", "lm:[{a:1} {b:2 c:1}]"},
        {"a:1", "SET a = :nil, b = :yes, c = :map, d = :sab", "a:null b:true c:{q:1} d:<'a' 'b'>"},
        /* REMOVE */
        {"a:1 b:2", "REMOVE a", "b:2"},
        {"a:1 b:2", "remove b, c", "a:1"},
        {"a:1", "REMOVE a", ""},
        {"m:{x:1 y:2}", "REMOVE m.x", "m:{y:2}"},
        {"m:{x:1}", "REMOVE m.x", "m:{}"},
        {"m:{x:1}", "REMOVE m.q", "m:{x:1}"},
        {"l:[0 1 2 3]", "REMOVE l[1]", "l:[0 2 3]"},
        {"l:[0 1 2 3]", "REMOVE l[2], l[0]", "l:[1 3]"},
        {"l:[0 1]", "REMOVE l[5]", "l:[0 1]"},
        {"l:[0 1 2]", "REMOVE l[0] SET l[1] = :str, l[8] = :two", "l:['new' 2 2]"},
        {"lm:[{a:1 b:2} 0]", "REMOVE lm[0].a, lm[1]", "lm:[{b:2}]"},
        /* ADD */
        {"", "ADD a :one", "a:1"},
        {"a:5", "ADD a :two", "a:7"},
        {"a:5", "add a :two, b :one", "a:7 b:1"},
        {"", "ADD s :sab", "s:<'a' 'b'>"},
        {"s:<'a' 'b'>", "ADD s :sc", "s:<'a' 'b' 'c'>"},
        {"s:<3 1>", "ADD s :n1", "s:<1 3>"},
        {"m:{n:1}", "ADD m.n :two, m.k :one", "m:{k:1 n:3}"},
        {"l:[1]", "ADD l[0] :two", "l:[3]"},
        {"l:[1]", "ADD l[3] :two", "l:[1 2]"},
        /* DELETE */
        {"s:<'a' 'b' 'c'>", "DELETE s :sc", "s:<'b'>"},
        {"s:<'a' 'b'>", "DELETE s :sab", ""},
        {"s:<'a' 'b'>", "delete s :sz", "s:<'a' 'b'>"},
        {"a:1", "DELETE s :sab", "a:1"},
        {"m:{s:<1 2>}", "DELETE m.s :n1", "m:{s:<2>}"},
        {"m:{s:<1>}", "DELETE m.s :n1", "m:{}"},
        {"m:{}", "DELETE m.s :n1", "m:{}"},
        {"l:[1]", "DELETE l[5] :n1", "l:[1]"},
        /* together: all read the item as it was */
        {"a:1 b:2 c:<1> d:4", "SET e = a REMOVE a ADD c :n3 DELETE f :n1", "b:2 c:<1 3> d:4 e:1"},
        {"a:1 b:2", "REMOVE a SET b = a + b ADD c :one", "b:3 c:1"},
        {"n:1", "ADD n :one SET m = n", "n:2 m:1"},
};

TEST(update, makes_of_an_item_what_dynamodb_would)
{
	struct fixture f;

	fixture_open(&f, "#odd=a.b-c", values_text);
	for (size_t i = 0; i < sizeof(results) / sizeof(*results); i++) {
		struct item before = fixture_item(&f, results[i].before), after;
		struct item copy = item_copy(&f.arena, &before);

		assert_accepted(run(&f, results[i].text, &before, &after), &f.err, results[i].text);
		assert_item(&f, &after, results[i].text, results[i].after);
		assert_true(item_equal(&before, &copy)); /* the old item is not touched */
	}
	fixture_close(&f);
}

#define NO_ATTRIBUTE "The provided expression refers to an attribute that does not exist in the item"
#define BAD_PATH     "The document path provided in the update expression is invalid for update"
#define BAD_TYPE     "An operand in the update expression has an incorrect data type"

static const struct {
	const char *text, *error;
} failures[] = {
        {"SET a = absent", NO_ATTRIBUTE},
        {"SET a = absent + :one", NO_ATTRIBUTE},
        {"SET a = m.absent", NO_ATTRIBUTE},
        {"SET a = l[3]", NO_ATTRIBUTE},
        {"SET a = s.x", NO_ATTRIBUTE},
        {"SET a = list_append(absent, :list)", NO_ATTRIBUTE},
        {"SET a = if_not_exists(absent, gone)", NO_ATTRIBUTE},
        {"SET a = list_append(if_not_exists(absent, gone), l)", NO_ATTRIBUTE},
        {"SET a = s + :one", BAD_TYPE},
        {"SET a = :one - m", BAD_TYPE},
        {"SET a = n + l", BAD_TYPE},
        {"SET a = list_append(ns, if_not_exists(absent, :el))", BAD_TYPE},
        {"SET a = list_append(l, n)", BAD_TYPE},
        {"SET a = n + list_append(l, l)", BAD_TYPE},
        {"SET absent.a = :one", BAD_PATH},
        {"SET absent[1] = :one", BAD_PATH},
        {"SET s.a = :one", BAD_PATH},
        {"SET s[1] = :one", BAD_PATH},
        {"SET m[1] = :one", BAD_PATH},
        {"SET l.a = :one", BAD_PATH},
        {"SET m.absent.a = :one", BAD_PATH},
        {"SET l[3].a = :one", BAD_PATH},
        {"SET ss[0] = :one", BAD_PATH},
        {"REMOVE s.a", BAD_PATH},
        {"REMOVE s[1]", BAD_PATH},
        {"REMOVE absent.a", BAD_PATH},
        {"REMOVE m[1]", BAD_PATH},
        {"REMOVE l.a", BAD_PATH},
        {"ADD s.a :one", BAD_PATH},
        {"ADD absent.a :one", BAD_PATH},
        {"ADD m[0] :one", BAD_PATH},
        {"DELETE s.a :sab", BAD_PATH},
        {"DELETE absent[0] :sab", BAD_PATH},
        {"DELETE l.a :sab", BAD_PATH},
        {"ADD s :one", BAD_TYPE},
        {"ADD ns :one", BAD_TYPE},
        {"ADD n :n1", BAD_TYPE},
        {"ADD ss :n1", BAD_TYPE},
        {"ADD m :n1", BAD_TYPE},
        {"DELETE ss :n1", BAD_TYPE},
        {"DELETE m :n1", BAD_TYPE},
        {"DELETE n :n1", BAD_TYPE},
        {"SET a = :huge + :huge",
         "Number overflow. Attempting to store a number with magnitude larger than supported range"},
        {"SET a = :one SET a = :one",
         "Invalid UpdateExpression: The \"SET\" section can only be used once in an update expression;"},
};

TEST(update, that_does_not_fit_the_item_fails_with_dynamodbs_text)
{
	struct fixture f;
	struct item    before, after;

	fixture_open(&f, "", values_text);
	before = fixture_item(&f, item_text);
	for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
		struct expr_update update;
		enum err_code      rc =
		        expr_parse_update(&f.arena, bytes_of(failures[i].text), &f.scope, &update, &f.err);

		if (rc == ERR_NONE)
			rc = expr_update_apply(&f.arena, &update, &before, &after, &f.err);
		assert_refused(rc, &f.err, failures[i].text, failures[i].error);
	}
	fixture_close(&f);
}

static const struct {
	const char *text, *error; /* behind "Invalid UpdateExpression: " */
} refusals[] = {
        {"", "The expression can not be empty;"},
        {"INVALID SYNTAX HERE", "Syntax error; token: \"INVALID\", near: \"INVALID SYNTAX\""},
        {"SET", "Syntax error; token: \"<EOF>\", near: \"SET\""},
        {"set a", "Syntax error; token: \"<EOF>\", near: \"a\""},
        {"add a", "Syntax error; token: \"<EOF>\", near: \"a\""},
        {"set a=set", "Syntax error; token: \"set\", near: \"=set\""},
        {"remove a = b", "Syntax error; token: \"=\", near: \"a = b\""},
        {"add a = b", "Syntax error; token: \"=\", near: \"a = b\""},
        {"delete a b", "Syntax error; token: \"b\", near: \"a b\""},
        {"add a if_not_exists(b)", "Syntax error; token: \"if_not_exists\", near: \"a if_not_exists(\""},
        {"add a : incr", "Syntax error; token: \":\", near: \"a : incr\""},
        {"set :one = b", "Syntax error; token: \":one\", near: \"set :one =\""},
        {"remove :one", "Syntax error; token: \":one\", near: \"remove :one\""},
        {"set a = b / c", "Syntax error; token: \"/\", near: \"b / c\""},
        {"set a[1] = \"eight\"", "Syntax error; token: \"\"\", near: \"= \"eight\""},
        {"set a[1] = 1", "Syntax error; token: \"1\", near: \"= 1\""},
        {"SET a = if_not_exists(a, 100)", "Syntax error; token: \"100\", near: \", 100)\""},
        {"SET if_not_exists(a, b) = a", "Syntax error; token: \"(\", near: \"if_not_exists(a\""},
        {"set (a = (b + c))", "Syntax error; token: \"(\", near: \"set (a\""},
        {"set a = (b.c).d + e", "Syntax error; token: \".\", near: \").d\""},
        {"set a = b + c + d", "Syntax error; token: \"+\", near: \"c + d\""},
        {"set a = (b + c", "Syntax error; token: \"<EOF>\", near: \"c\""},
        {"set a = (b", "Syntax error; token: \"<EOF>\", near: \"b\""},
        {"set a = b)", "Syntax error; token: \")\", near: \"b)\""},
        {"set a = if_not_exists(b, c + d)", "Syntax error; token: \"+\", near: \"c + d\""},
        {"set a = :one, b = :two,", "Syntax error; token: \"<EOF>\", near: \",\""},
        {"set a = :one AND b = :two", "Syntax error; token: \"AND\", near: \":one AND b\""},
        {"set a = :one, REMOVE b", "Syntax error; token: \"REMOVE\", near: \", REMOVE b\""},
        {"set a = ((b))", "The expression has redundant parentheses;"},
        {"set a = ((b + c))", "The expression has redundant parentheses;"},
        {"set a = list_append(((b)), c)", "The expression has redundant parentheses;"},
        {"set #nope = :nope set abOrt = b", "Attribute name is a reserved keyword; reserved keyword: abOrt"},
        {"remove Absolute", "Attribute name is a reserved keyword; reserved keyword: Absolute"},
        {"set #nope = if_not_exist(:nope) set c = d", "Invalid function name; function: if_not_exist"},
        {"set a = size(b)", "The function is not allowed in an update expression; function: size"},
        {"set a = attribute_exists(b)",
         "The function is not allowed in an update expression; function: attribute_exists"},
        {"remove #nope set a = b remove e",
         "The \"REMOVE\" section can only be used once in an update expression;"},
        {"add #nope :e set a = b add e :f",
         "The \"ADD\" section can only be used once in an update expression;"},
        {"delete a :e delete b :f", "The \"DELETE\" section can only be used once in an update expression;"},
        {"SET a = :nope, #nope = if_not_exists(:c)",
         "An expression attribute name used in the document path is not defined; attribute name: #nope"},
        {"SET #a = if_not_exists(:nope)",
         "An expression attribute value used in expression is not defined; attribute value: :nope"},
        {"set a = b remove a", "Two document paths overlap with each other; must remove or rewrite one of "
                               "these paths; path one: [a], "
                               "path two: [a]"},
        {"set c.b.#a = a, c = a", "Two document paths overlap with each other; must remove or rewrite one of "
                                  "these paths; path one: [c, b, "
                                  "a], path two: [c]"},
        {"set d[1] = a, d.b = a, c[1].a = a, #c = if_not_exists(a)",
         "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
         "[c, [1], "
         "a], path two: [c]"},
        {"remove c, b, #c.a", "Two document paths overlap with each other; must remove or rewrite one of "
                              "these paths; path one: [c], "
                              "path two: [c, a]"},
        {"remove a.#c set a[1] = b", "Two document paths conflict with each other; must remove or rewrite "
                                     "one of these paths; path one: [a, c], "
                                     "path two: [a, [1]]"},
        {"set c[3].d = a, c.e[3] = if_not_exists(a)", "Two document paths conflict with each other; must "
                                                      "remove or rewrite one of these paths; path one: [c, "
                                                      "[3], d], path two: [c, e, [3]]"},
        {"set b = list_append(:str, a), c = if_not_exists(a) add a.b :str",
         "Incorrect operand type for operator or function; operator: ADD, operand type: STRING, typeSet: "
         "ALLOWED_FOR_ADD_OPERAND"},
        {"delete a :one",
         "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER, "
         "typeSet: ALLOWED_FOR_DELETE_OPERAND"},
        {"add a :nil",
         "Incorrect operand type for operator or function; operator: ADD, operand type: NULL, typeSet: "
         "ALLOWED_FOR_ADD_OPERAND"},
        {"add a :yes",
         "Incorrect operand type for operator or function; operator: ADD, operand type: BOOLEAN, "
         "typeSet: ALLOWED_FOR_ADD_OPERAND"},
        {"delete a :bin",
         "Incorrect operand type for operator or function; operator: DELETE, operand type: BINARY, "
         "typeSet: ALLOWED_FOR_DELETE_OPERAND"},
        {"add a :map",
         "Incorrect operand type for operator or function; operator: ADD, operand type: MAP, typeSet: "
         "ALLOWED_FOR_ADD_OPERAND"},
        {"add a :list", "Incorrect operand type for operator or function; operator: ADD, operand type: LIST, "
                        "typeSet: ALLOWED_FOR_ADD_OPERAND"},
        {"set a = if_not_exists(c)",
         "Incorrect number of operands for operator or function; operator or function: "
         "if_not_exists, number of operands: 1"},
        {"set a = list_append(b, c, d, e)",
         "Incorrect number of operands for operator or function; operator or "
         "function: list_append, number of operands: 4"},
        {"set a = if_not_exists(:one, c)",
         "Operator or function requires a document path; operator or function: if_not_exists"},
        {"set a = if_not_exists(if_not_exists(a, b), c)",
         "Operator or function requires a document path; operator or function: if_not_exists"},
        {"set a = list_append(:str, b)", "Incorrect operand type for operator or function; operator or "
                                         "function: list_append, operand type: S"},
        {"set a = list_append(b, :sab)", "Incorrect operand type for operator or function; operator or "
                                         "function: list_append, operand type: SS"},
        {"set a = list_append(list_append(b, c), :list)",
         "The function is not allowed to be used this way in an expression; function: list_append"},
        {"set a = list_append(b, (list_append(b, c)))",
         "The function is not allowed to be used this way in an expression; function: list_append"},
        {"set a = if_not_exists(b, list_append(b, c))",
         "The function is not allowed to be used this way in an expression; function: list_append"},
        {"set a = a + :str",
         "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
        {"set a = :list - a",
         "Incorrect operand type for operator or function; operator or function: -, operand type: L"},
};

TEST(update, is_refused_with_dynamodbs_text)
{
	struct fixture f;

	fixture_open(&f, "#a=a #c=c", values_text);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct expr_update update;
		struct bytes       expected =
		        arena_printf(&f.arena, "Invalid UpdateExpression: %s%c", refusals[i].error, 0);
		enum err_code rc =
		        expr_parse_update(&f.arena, bytes_of(refusals[i].text), &f.scope, &update, &f.err);

		assert_refused(rc, &f.err, refusals[i].text, expected.data);
	}
	fixture_close(&f);
}

/* A path of `steps` steps ending where a value of `depth` levels is put. */
static enum err_code nest(struct fixture *f, uint32_t steps, unsigned depth, struct item *after)
{
	struct bytes open = repeated(&f->arena, "{a:", steps - 2),
	             close = repeated(&f->arena, "}", steps - 2);
	struct bytes item = arena_printf(&f->arena, "a:%.*s{}%.*s%c", BYTES_ARG(open), BYTES_ARG(close), 0);
	struct item  before = fixture_item(f, item.data);
	struct bytes path = repeated(&f->arena, "a.", steps - 1);
	struct value deep = value_i64(1);
	struct expr_update update;

	for (unsigned i = 0; i < depth; i++) {
		struct value *inner = arena_alloc(&f->arena, sizeof(*inner));

		*inner = deep;
		deep = (struct value){.type = VALUE_L, .list = {inner, 1}};
	}
	f->scope.values[0].value = deep;
	assert_accepted(expr_parse_update(&f->arena,
	                                  arena_printf(&f->arena, "SET %.*sb = :v", BYTES_ARG(path)),
	                                  &f->scope, &update, &f->err),
	                &f->err, "nest");
	return expr_update_apply(&f->arena, &update, &before, after, &f->err);
}

TEST(update, nests_values_to_the_limit_and_not_one_level_deeper)
{
	struct fixture f;
	struct item    after;

	fixture_open(&f, "", "v:1");
	assert_accepted(nest(&f, 2, VALUE_DEPTH_MAX - 1, &after), &f.err, "at the limit");
	assert_int_equal(value_depth(&after.members[0].value), VALUE_DEPTH_MAX);
	assert_refused(nest(&f, 2, VALUE_DEPTH_MAX, &after), &f.err, "past the limit",
	               "Nesting Levels have exceeded supported limits: Attributes in the item have nested "
	               "levels beyond "
	               "supported limit");
	assert_accepted(nest(&f, 20, VALUE_DEPTH_MAX - 19, &after), &f.err, "at the limit, in a path");
	assert_int_equal(nest(&f, 20, VALUE_DEPTH_MAX - 18, &after), ERR_INVALID);
	fixture_close(&f);
}

TEST(update, cannot_multiply_a_large_attribute_past_the_item_limit)
{
	static const char too_large[] = "Item size to update has exceeded the maximum allowed size";
	struct fixture    f;
	struct item       before, after;
	struct value     *elements;
	enum { COUNT = 100000 };

	fixture_open(&f, "", "v:1");
	before = fixture_item(&f, "a:[]");
	elements = arena_array(&f.arena, COUNT, sizeof(*elements));
	for (size_t i = 0; i < COUNT; i++)
		elements[i] = (struct value){.type = VALUE_NULL};
	before.members[0].value.list = (struct value_list){elements, COUNT};
	assert_accepted(run(&f, "SET b = a", &before, &after), &f.err, "twice");
	assert_refused(run(&f, "SET b = a, c = a, d = a", &before, &after), &f.err, "four times", too_large);

	assert_accepted(run(&f, "SET b = list_append(a, a)", &before, &after), &f.err, "appended");
	assert_int_equal(item_get(&after, BYTES("b"))->list.count, 2 * COUNT);
	assert_refused(run(&f, "SET b = list_append(a, a), c = list_append(a, a), d = list_append(a, a)",
	                   &before, &after),
	               &f.err, "appended three times", too_large);
	fixture_close(&f);
}

static const struct {
	const char *text, *touched;
} touches[] = {
        {"SET n = :one", "n:5"},
        {"SET absent = :one", ""},
        {"SET m.x = :one", "m:{x:1}"},
        {"SET m.y.z = :one, m.q = :two", "m:{y:{z:2}}"},
        {"SET l[2] = :one, l[0] = :two", "l:[1 3]"},
        {"REMOVE l[1] ADD n :one DELETE ss :sz", "l:[2] n:5 ss:<'a' 'b'>"},
        {"REMOVE lm[1].b, lm[0].q", "lm:[{b:2}]"},
};

TEST(update, touches_what_its_paths_name_and_nothing_beside_it)
{
	struct fixture f;
	struct item    item, touched;

	fixture_open(&f, "", values_text);
	item = fixture_item(&f, item_text);
	for (size_t i = 0; i < sizeof(touches) / sizeof(*touches); i++) {
		struct expr_update update;

		assert_accepted(
		        expr_parse_update(&f.arena, bytes_of(touches[i].text), &f.scope, &update, &f.err),
		        &f.err, touches[i].text);
		touched = expr_update_touched(&f.arena, &update, &item);
		assert_item(&f, &touched, touches[i].text, touches[i].touched);
	}
	fixture_close(&f);
}

TEST(update, knows_which_top_level_attributes_it_touches)
{
	struct fixture     f;
	struct expr_update update;

	fixture_open(&f, "#k=key", values_text);
	assert_accepted(
	        expr_parse_update(&f.arena, BYTES("SET a.b = c REMOVE #k[0]"), &f.scope, &update, &f.err),
	        &f.err, "touches");
	assert_true(expr_update_touches(&update, BYTES("a")));
	assert_true(expr_update_touches(&update, BYTES("key")));
	assert_false(expr_update_touches(&update, BYTES("b")));
	assert_false(expr_update_touches(&update, BYTES("c")));
	fixture_close(&f);
}
