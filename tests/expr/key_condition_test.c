/* Key condition: how a KeyConditionExpression comes apart, and which are refused. */
#include "support.h"

static const char values_text[] = "a:'a' b:'b' one:1 two:2 yes:true bin:x'00'";

static const struct {
	const char          *text, *hash_name, *hash;
	const char          *range_name;
	enum expr_range_kind kind;
	const char          *low, *high; /* literals */
} parts[] = {
        {"pk = :a", "pk", "'a'", "", RANGE_NONE, NULL, NULL},
        {":a = pk", "pk", "'a'", "", RANGE_NONE, NULL, NULL},
        {"(pk = :a)", "pk", "'a'", "", RANGE_NONE, NULL, NULL},
        {"#p = :a AND sk = :b", "pk", "'a'", "sk", RANGE_EQ, "'b'", NULL},
        {"pk = :a AND sk < :one", "pk", "'a'", "sk", RANGE_LT, "1", NULL},
        {"pk = :a and sk <= :one", "pk", "'a'", "sk", RANGE_LE, "1", NULL},
        {"pk = :a AND sk > :one", "pk", "'a'", "sk", RANGE_GT, "1", NULL},
        {"pk = :a AND sk >= :one", "pk", "'a'", "sk", RANGE_GE, "1", NULL},
        {"pk = :a AND :one < sk", "pk", "'a'", "sk", RANGE_GT, "1", NULL},
        {"pk = :a AND :one <= sk", "pk", "'a'", "sk", RANGE_GE, "1", NULL},
        {"pk = :a AND :one > sk", "pk", "'a'", "sk", RANGE_LT, "1", NULL},
        {"pk = :a AND :one >= sk", "pk", "'a'", "sk", RANGE_LE, "1", NULL},
        {"(pk = :a) AND (sk BETWEEN :one AND :two)", "pk", "'a'", "sk", RANGE_BETWEEN, "1", "2"},
        {"pk = :a AND begins_with(sk, :b)", "pk", "'a'", "sk", RANGE_PREFIX, "'b'", NULL},
        {"begins_with(sk, :b) AND pk = :a", "pk", "'a'", "sk", RANGE_PREFIX, "'b'", NULL},
        {"sk > :one AND pk = :a", "pk", "'a'", "sk", RANGE_GT, "1", NULL},
        {"sk = :b AND pk = :a", "sk", "'b'", "pk", RANGE_EQ, "'a'", NULL}, /* the first is called the hash */
        {"pk = :yes", "pk", "true", "", RANGE_NONE, NULL, NULL},           /* the schema refuses it later */
};

static void assert_value(struct fixture *f, const struct value *actual, const char *literal, const char *what)
{
	struct literal l = {&f->arena, literal};
	struct value   expected = literal_value(&l);

	if (!value_equal(actual, &expected))
		fail_msg("%s: not %s", what, literal);
}

TEST(key_condition, comes_apart_into_a_hash_and_a_range)
{
	struct fixture f;

	fixture_open(&f, "#p=pk", values_text);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		struct expr_key_condition k;
		const char               *text = parts[i].text;

		assert_accepted(expr_parse_key_condition(&f.arena, bytes_of(text), &f.scope, &k, &f.err),
		                &f.err, text);
		assert_bytes(k.hash_name, parts[i].hash_name);
		assert_value(&f, &k.hash, parts[i].hash, text);
		assert_int_equal(k.range_kind, parts[i].kind);
		assert_bytes(k.range_name, parts[i].range_name);
		if (parts[i].low != NULL)
			assert_value(&f, &k.low, parts[i].low, text);
		if (parts[i].high != NULL)
			assert_value(&f, &k.high, parts[i].high, text);
	}
	fixture_close(&f);
}

static const struct {
	const char *text, *error;
} refusals[] = {
        {"", "Invalid KeyConditionExpression: The expression can not be empty;"},
        {"a > 4", "Invalid KeyConditionExpression: Syntax error; token: \"4\", near: \"> 4\""},
        {"hash = :a",
         "Invalid KeyConditionExpression: Attribute name is a reserved keyword; reserved keyword: hash"},
        {"a = :nope",
         "Invalid KeyConditionExpression: An expression attribute value used in expression is not "
         "defined; attribute value: :nope"},
        {"((a = :a))", "Invalid KeyConditionExpression: The expression has redundant parentheses;"},
        {"p = :a AND begins_with(q, :one)", "Invalid KeyConditionExpression: Incorrect operand type for "
                                            "operator or function; operator or function: "
                                            "begins_with, operand type: N"},
        {"p = :a AND q < :yes",
         "Invalid KeyConditionExpression: Incorrect operand type for operator or function; "
         "operator or function: <, operand type: BOOL"},
        {"begins_with(q, :one) AND p = :nope", "Invalid KeyConditionExpression: Incorrect operand type for "
                                               "operator or function; operator or function: "
                                               "begins_with, operand type: N"},
        {"a between :two and :one", "Invalid KeyConditionExpression: The BETWEEN operator requires upper "
                                    "bound to be greater than or equal to "
                                    "lower bound; lower bound operand: AttributeValue: {N:2}, upper bound "
                                    "operand: AttributeValue: {N:1}"},
        {"a > b and size(b) > c or a > c", "Invalid operator used in KeyConditionExpression: OR"},
        {"a in (b, size(c), d)", "Invalid operator used in KeyConditionExpression: IN"},
        {"attribute_exists(a)", "Invalid operator used in KeyConditionExpression: attribute_exists"},
        {"attribute_not_exists(a)", "Invalid operator used in KeyConditionExpression: attribute_not_exists"},
        {"contains(a.d, b)", "Invalid operator used in KeyConditionExpression: contains"},
        {"not a > b", "Invalid operator used in KeyConditionExpression: NOT"},
        {"a <> b", "Invalid operator used in KeyConditionExpression: <>"},
        {"p = :a AND (q > :one OR q < :two)", "Invalid operator used in KeyConditionExpression: OR"},
        {":a between size(b) and size(a) and b > :b", "Invalid condition in KeyConditionExpression: BETWEEN "
                                                      "operator must have the key attribute as its first "
                                                      "operand"},
        {"begins_with(:a, b) and a > :b", "Invalid condition in KeyConditionExpression: begins_with operator "
                                          "must have the key attribute as its first "
                                          "operand"},
        {"size(b) > a AND a.b > b AND b > c", "KeyConditionExpressions cannot contain nested operations"},
        {"a > size(b.d)", "KeyConditionExpressions cannot contain nested operations"},
        {"a = size(:a)", "KeyConditionExpressions cannot contain nested operations"},
        {"b > a.b",
         "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
        {"b between c[1] and d",
         "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
        {"begins_with(a, b)",
         "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
        {"b.d > a AND c.d > e.f", "KeyConditionExpressions cannot have conditions on nested attributes"},
        {"b[0] > :a", "KeyConditionExpressions cannot have conditions on nested attributes"},
        {":b > :a AND a < :b", "Invalid condition in KeyConditionExpression: No key attribute specified"},
        {"b > :a AND b < :a and c = :a and d = :a",
         "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"},
        {"(a > :a and b > :a) and (b > :a and c > :a)",
         "Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key"},
        {"a = :a AND b = :b AND c = :a",
         "The number of query conditions (3) exceeds the number of key attributes defined in the schema (2)"},
        {"a > :a", "Query key condition not supported"},
        {"begins_with(a, :a)", "Query key condition not supported"},
        {"a > :a AND b < :b", "Query key condition not supported"},
};

TEST(key_condition, is_refused_with_dynamodbs_text)
{
	struct fixture f;

	fixture_open(&f, "", values_text);
	for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		struct expr_key_condition k;
		enum err_code             rc =
		        expr_parse_key_condition(&f.arena, bytes_of(refusals[i].text), &f.scope, &k, &f.err);

		assert_refused(rc, &f.err, refusals[i].text, refusals[i].error);
	}
	fixture_close(&f);
}

TEST(key_condition, of_the_most_operators_is_counted_not_overrun)
{
	struct fixture            f;
	struct expr_key_condition k;
	struct buf                text;

	fixture_open(&f, "", "v:1");
	buf_init(&text, &f.arena);
	for (int i = 0; i < 150; i++)
		buf_add_bytes(&text, arena_printf(&f.arena, "%sk%d=:v", i > 0 ? " AND " : "", i));
	assert_refused(expr_parse_key_condition(&f.arena, buf_bytes(&text), &f.scope, &k, &f.err), &f.err,
	               "150 names",
	               "The number of query conditions (150) exceeds the number of key attributes defined in "
	               "the schema "
	               "(2)");
	fixture_close(&f);
}
