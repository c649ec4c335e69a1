/* Scope: placeholders and reserved words. */
#include "support.h"

TEST(reserved, words_are_found_in_any_case)
{
	static const char *const yes[] = {"ABORT", "abort",  "Zone", "size", "LOCALTIMESTAMP",
	                                  "name",  "Status", "key",  "ttl",  "user",
	                                  "in",    "SET"};
	static const char *const no[] = {"",   "ABORTS", "abor", "zonee", "LOCALTIMESTAMPS",
	                                 "pk", "email",  "a",    "A1"};

	for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++)
		if (!expr_is_reserved(bytes_of(yes[i])))
			fail_msg("%s is reserved", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
		if (expr_is_reserved(bytes_of(no[i])))
			fail_msg("%s is not reserved", no[i]);
	assert_false(expr_is_reserved((struct bytes){"SET\0X", 5}));
}

/* Binary search misses words of a table that is out of order: the first and last of each letter stand for
 * it. */
TEST(reserved, words_at_the_edges_of_each_letter_are_found)
{
	static const char *const edges[] = {
	        "ABORT",      "AVG",     "BACK",    "BYTE",      "CALL",    "CYCLE",    "DATA",    "DYNAMIC",
	        "EACH",       "EXTRACT", "FAIL",    "FUNCTIONS", "GENERAL", "GROUPING", "HANDLER", "HOUR",
	        "IDENTIFIED", "ITERATE", "JOIN",    "KEY",       "KEYS",    "LAG",      "LOWER",   "MAP",
	        "MULTISET",   "NAME",    "NUMERIC", "OBJECT",    "OWNER",   "PAD",      "PUT",     "QUERY",
	        "QUORUM",     "RAISE",   "RULES",   "SAMPLE",    "SYSTEM",  "TABLE",    "TYPE",    "UNDER",
	        "UUID",       "VACUUM",  "VOID",    "WAIT",      "WRITE",   "YEAR",     "ZONE"};

	for (size_t i = 0; i < sizeof(edges) / sizeof(*edges); i++)
		if (!expr_is_reserved(bytes_of(edges[i])))
			fail_msg("%s is reserved", edges[i]);
}

static enum err_code sort_names(const char *first, const char *second, struct err *err)
{
	struct expr_name  names[2] = {{bytes_of(first), BYTES_INIT("a"), false},
	                              {bytes_of(second), BYTES_INIT("b"), false}};
	struct expr_scope scope = {.names = names, .name_count = 2};

	return expr_scope_sort(&scope, err);
}

static enum err_code sort_value(const char *key, struct err *err)
{
	struct expr_value value = {bytes_of(key), value_i64(1), false};
	struct expr_scope scope = {.values = &value, .value_count = 1};

	return expr_scope_sort(&scope, err);
}

TEST(scope, refuses_malformed_placeholders)
{
	struct err err;

	assert_refused(sort_names("a", "#b", &err), &err, "no #",
	               "ExpressionAttributeNames contains invalid key: Syntax error; key: \"a\"");
	assert_refused(sort_names("#b", "#", &err), &err, "only #",
	               "ExpressionAttributeNames contains invalid key: Syntax error; key: \"#\"");
	assert_refused(sort_names("#a-b", "#b", &err), &err, "minus",
	               "ExpressionAttributeNames contains invalid key: Syntax error; key: \"#a-b\"");
	assert_refused(sort_names("", "#b", &err), &err, "empty",
	               "ExpressionAttributeNames contains invalid key: Syntax error; key: \"\"");
	assert_refused(sort_value("#a", &err), &err, "a name",
	               "ExpressionAttributeValues contains invalid key: Syntax error; key: \"#a\"");
	assert_refused(sort_value(":a.b", &err), &err, "dot",
	               "ExpressionAttributeValues contains invalid key: Syntax error; key: \":a.b\"");
	assert_refused(
	        sort_names("#b", "#b", &err), &err, "twice",
	        "ExpressionAttributeNames contains invalid key: The key occurs more than once; key: \"#b\"");
	assert_int_equal(sort_names("#_0", "#9Z", &err), ERR_NONE);
	assert_int_equal(sort_value(":_0", &err), ERR_NONE);
}

TEST(scope, takes_placeholders_of_255_bytes_and_not_of_256)
{
	char       key[EXPR_PLACEHOLDER_BYTES_MAX + 2];
	struct err err;

	memset(key, 'a', sizeof(key));
	key[0] = ':';
	key[EXPR_PLACEHOLDER_BYTES_MAX + 1] = '\0';
	assert_refused(sort_value(key, &err), &err, "256",
	               "ExpressionAttributeValues contains invalid key: The expression attribute map "
	               "contains a key that is "
	               "too long; size of key: 256");
	key[EXPR_PLACEHOLDER_BYTES_MAX] = '\0';
	assert_int_equal(sort_value(key, &err), ERR_NONE);
}

TEST(scope, tells_which_placeholders_no_expression_used)
{
	struct fixture     f;
	struct expr       *e;
	struct expr_update update;

	fixture_open(&f, "#b=b #a=a #c=c", "x:1 y:2 z:3");
	assert_refused(
	        expr_scope_check_used(&f.scope, &f.err), &f.err, "none used",
	        "Value provided in ExpressionAttributeNames unused in expressions: keys: {#a, #b, #c}");
	assert_int_equal(
	        expr_parse_condition(&f.arena, BYTES("#a = :x AND #c.#b > :y"), &f.scope, &e, &f.err),
	        ERR_NONE);
	assert_refused(expr_scope_check_used(&f.scope, &f.err), &f.err, "z unused",
	               "Value provided in ExpressionAttributeValues unused in expressions: keys: {:z}");
	assert_int_equal(expr_parse_update(&f.arena, BYTES("SET q = :z"), &f.scope, &update, &f.err),
	                 ERR_NONE);
	assert_int_equal(expr_scope_check_used(&f.scope, &f.err), ERR_NONE);
	fixture_close(&f);
}

TEST(scope, that_is_empty_is_fine)
{
	struct expr_scope scope = {0};
	struct err        err;

	assert_int_equal(expr_scope_sort(&scope, &err), ERR_NONE);
	assert_int_equal(expr_scope_check_used(&scope, &err), ERR_NONE);
}
