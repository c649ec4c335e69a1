/* Legacy parameters become the trees that the matching expressions become: each is compared with its
 * expression, printed. */
#include "decode.h"

#include "expr/print.h"

#define BAD "One or more parameter values were invalid: "

/* Condition of a put with this Expected, printed with placeholders. */
static void expected_prints(const char *expected, const char *text)
{
	struct decoded      d;
	struct expr_printer p;
	char                body[1000];

	snprintf(body, sizeof(body), "{'TableName':'abc','Item':{},'Expected':%s}", expected);
	decode_ok(&d, request_put, body);
	expr_printer_init(&p, &d.arena);
	assert_non_null(d.request.write.condition);
	assert_bytes(expr_print_condition(&p, d.request.write.condition), text);
	decoded_release(&d);
}

static void expected_refused(const char *expected, const char *message)
{
	char body[1000];

	snprintf(body, sizeof(body), "{'TableName':'abc','Item':{},'Expected':%s}", expected);
	decode_detected(request_put, body, message);
}

/* The printed form of an expression, for comparison. */
static void same_condition(const char *operator_name, const char *values, const char *expression,
                           const char *expression_values)
{
	struct decoded      one, two;
	struct expr_printer p, q;
	struct bytes        printed;
	char                body[1000];

	snprintf(body, sizeof(body),
	         "{'TableName':'abc','ScanFilter':{'a':{'ComparisonOperator':'%s','AttributeValueList':%s}}}",
	         operator_name, values);
	decode_ok(&one, request_scan, body);
	snprintf(body, sizeof(body), "{'TableName':'abc','FilterExpression':'%s'%s%s%s}", expression,
	         expression_values[0] ? ",'ExpressionAttributeValues':{" : "", expression_values,
	         expression_values[0] ? "}" : "");
	decode_ok(&two, request_scan, body);
	expr_printer_init(&p, &one.arena);
	expr_printer_init(&q, &two.arena);
	printed = expr_print_condition(&q, two.request.query.filter);
	if (!bytes_equal(expr_print_condition(&p, one.request.query.filter), printed))
		fail_msg("%s is not %.*s", operator_name, BYTES_ARG(printed));
	assert_int_equal(p.scope.value_count, q.scope.value_count);
	for (uint32_t i = 0; i < p.scope.value_count; i++)
		assert_true(value_equal(&p.scope.values[i].value, &q.scope.values[i].value));
	decoded_release(&one);
	decoded_release(&two);
}

TEST(legacy, every_operator_has_its_expression)
{
	const char *v = "':v':{'S':'x'}";

	same_condition("EQ", "[{'S':'x'}]", "a = :v", v);
	same_condition("NE", "[{'S':'x'}]", "a <> :v", v);
	same_condition("LT", "[{'S':'x'}]", "a < :v", v);
	same_condition("LE", "[{'S':'x'}]", "a <= :v", v);
	same_condition("GT", "[{'S':'x'}]", "a > :v", v);
	same_condition("GE", "[{'S':'x'}]", "a >= :v", v);
	same_condition("BEGINS_WITH", "[{'S':'x'}]", "begins_with(a, :v)", v);
	same_condition("CONTAINS", "[{'S':'x'}]", "contains(a, :v)", v);
	same_condition("NOT_CONTAINS", "[{'S':'x'}]", "attribute_exists(a) AND NOT contains(a, :v)", v);
	same_condition("NULL", "[]", "attribute_not_exists(a)", "");
	same_condition("NOT_NULL", "[]", "attribute_exists(a)", "");
	same_condition("BETWEEN", "[{'N':'1'},{'N':'2'}]", "a BETWEEN :v AND :w",
	               "':v':{'N':'1'},':w':{'N':'2'}");
	same_condition("IN", "[{'N':'1'},{'N':'2'}]", "a IN (:v, :w)", "':v':{'N':'1'},':w':{'N':'2'}");
}

TEST(legacy, operators_take_their_number_of_values_of_their_types)
{
	expected_refused("{'a':{'ComparisonOperator':'EQ','AttributeValueList':[]}}",
	                 BAD "Invalid number of argument(s) for the EQ ComparisonOperator");
	expected_refused("{'a':{'ComparisonOperator':'NULL','AttributeValueList':[{'S':'x'}]}}",
	                 BAD "Invalid number of argument(s) for the NULL ComparisonOperator");
	expected_refused("{'a':{'ComparisonOperator':'LT','AttributeValueList':[{'SS':['x']}]}}",
	                 BAD "ComparisonOperator LT is not valid for SS AttributeValue type");
	expected_refused("{'a':{'ComparisonOperator':'BEGINS_WITH','AttributeValueList':[{'N':'1'}]}}",
	                 BAD "ComparisonOperator BEGINS_WITH is not valid for N AttributeValue type");
	expected_refused(
	        "{'a':{'ComparisonOperator':'BETWEEN','AttributeValueList':[{'N':'2'},{'N':'1'}]}}",
	        "The BETWEEN condition was provided a range where the lower bound is greater than the upper "
	        "bound");
	expected_refused("{'a':{'ComparisonOperator':'IN','AttributeValueList':[{'N':'2'},{'S':'1'}]}}",
	                 BAD "AttributeValues inside AttributeValueList must be of same type");
}

TEST(legacy, expectations_by_value_or_existence)
{
	expected_prints("{'a':{'Value':{'S':'x'}}}", "#0=:0");
	expected_prints("{'a':{'Value':{'S':'x'},'Exists':true}}", "#0=:0");
	expected_prints("{'a':{'Exists':false}}", "attribute_not_exists(#0)");
	expected_prints("{'a':{'Value':{'N':'1'},'ComparisonOperator':'GT'}}", "#0>:0");
	expected_refused("{'a':{}}", BAD "Value must be provided when Exists is null for Attribute: a");
	expected_refused("{'a':{'Exists':true}}",
	                 BAD "Value must be provided when Exists is true for Attribute: a");
	expected_refused("{'a':{'Exists':false,'Value':{'S':'x'}}}",
	                 BAD "Value cannot be used when Exists is false for Attribute: a");
	expected_refused("{'a':{'Exists':true,'Value':{'S':'x'},'ComparisonOperator':'EQ'}}",
	                 BAD "Exists and ComparisonOperator cannot be used together for Attribute: a");
	expected_refused("{'a':{'Value':{'S':'x'},'AttributeValueList':[]}}",
	                 BAD "Value and AttributeValueList cannot be used together for Attribute: a");
	expected_refused("{'a':{'AttributeValueList':[]}}", BAD
	                 "AttributeValueList can only be used with a ComparisonOperator for Attribute: a");
	expected_refused(
	        "{'a':{'ComparisonOperator':'EQ'}}",
	        BAD "Value or AttributeValueList must be used with ComparisonOperator: EQ for Attribute: a");
}

TEST(legacy, conditions_are_joined_by_the_operator)
{
	struct decoded d;

	decode_ok(&d, request_put,
	          "{'TableName':'abc','Item':{},'ConditionalOperator':'OR','Expected':{'a':{'Exists':false},"
	          "'b':{'Exists':false},'c':{'Exists':false}}}");
	assert_int_equal(d.request.write.condition->kind, EXPR_OR);
	assert_int_equal(d.request.write.condition->left->kind, EXPR_OR);
	decoded_release(&d);
	decode_ok(&d, request_put,
	          "{'TableName':'abc','Item':{},'Expected':{'a':{'Exists':false},'b':{'Exists':false}}}");
	assert_int_equal(d.request.write.condition->kind, EXPR_AND);
	decoded_release(&d);
	decode_detected(request_put, "{'TableName':'abc','Item':{},'ConditionalOperator':'OR'}",
	                BAD "ConditionalOperator cannot be used without Filter or Expected");
	decode_detected(
	        request_put,
	        "{'TableName':'abc','Item':{},'ConditionalOperator':'OR','Expected':{'a':{'Exists':false}}}",
	        BAD "ConditionalOperator can only be used when Filter or Expected has two or more elements");
}

TEST(legacy, attribute_updates_become_actions)
{
	struct decoded            d;
	const struct expr_update *u;

	decode_ok(&d, request_update,
	          "{'TableName':'abc','Key':{},'AttributeUpdates':{'a':{'Value':{'S':'x'}},'b':{'Action':'"
	          "PUT','Value':"
	          "{'S':'x'}},'c':{'Action':'ADD','Value':{'N':'1'}},'d':{'Action':'DELETE'},'e':{'Action':'"
	          "DELETE',"
	          "'Value':{'SS':['x']}},'f':{'Action':'ADD','Value':{'L':[]}}}}");
	u = d.request.write.update;
	assert_int_equal(u->count, 6);
	assert_int_equal(u->actions[0].kind, ACTION_SET);
	assert_int_equal(u->actions[1].kind, ACTION_SET);
	assert_int_equal(u->actions[2].kind, ACTION_ADD);
	assert_int_equal(u->actions[3].kind, ACTION_REMOVE);
	assert_int_equal(u->actions[4].kind, ACTION_DELETE);
	assert_int_equal(u->actions[5].kind, ACTION_SET);
	assert_int_equal(u->actions[5].term.kind, TERM_LIST_APPEND);
	decoded_release(&d);
}

TEST(legacy, attribute_updates_of_the_wrong_kind_are_refused)
{
#define WITH(update) "{'TableName':'abc','Key':{},'AttributeUpdates':{'a':" update "}}"
	decode_detected(request_update, WITH("{}"),
	                BAD "Only DELETE action is allowed when no attribute value is specified");
	decode_detected(request_update, WITH("{'Action':'ADD','Value':{'S':'x'}}"),
	                BAD "ADD action is not supported for the type S");
	decode_detected(request_update, WITH("{'Action':'DELETE','Value':{'S':'x'}}"),
	                BAD "DELETE action with value is not supported for the type S");
	decode_unreadable(
	        request_update,
	        "{'TableName':'abc','Key':{},'AttributeUpdates':{'a':{'Action':'DELETE'},'a':{'Action':"
	        "'DELETE'}}}",
	        "Duplicate field in a map");
}

TEST(legacy, key_conditions_become_a_key_condition)
{
	struct decoded d;

	decode_ok(&d, request_query,
	          "{'TableName':'abc','KeyConditions':{'r':{'ComparisonOperator':'BETWEEN','"
	          "AttributeValueList':"
	          "[{'N':'1'},{'N':'2'}]},'h':{'ComparisonOperator':'EQ','AttributeValueList':[{'S':'x'}]}},"
	          "'FilterExpression':'a > b'}");
	assert_bytes(d.request.query.key->hash_name, "h");
	assert_bytes(d.request.query.key->range_name, "r");
	assert_int_equal(d.request.query.key->range_kind, RANGE_BETWEEN);
	decoded_release(&d);
#define KEYS(conditions) "{'TableName':'abc','KeyConditions':{" conditions "}}"
	decode_detected(request_query, KEYS(""), "Conditions can be of length 1 or 2 only");
	decode_detected(request_query,
	                KEYS("'h':{'ComparisonOperator':'LT','AttributeValueList':[{'S':'x'}]}"),
	                "Query key condition not supported");
	decode_detected(request_query,
	                KEYS("'h':{'ComparisonOperator':'NE','AttributeValueList':[{'S':'x'}]}"),
	                "Attempted conditional constraint is not an indexable operation");
}

TEST(legacy, attributes_to_get_become_a_projection)
{
	struct decoded d;

	decode_ok(&d, request_get, "{'TableName':'abc','Key':{},'AttributesToGet':['a.b','c']}");
	assert_int_equal(d.request.get.projection->count, 2);
	assert_int_equal(d.request.get.projection->paths[0].count, 1);
	assert_bytes(d.request.get.projection->paths[0].steps[0].name, "a.b");
	decoded_release(&d);
	decode_invalid(request_get, "{'TableName':'abc','Key':{},'AttributesToGet':['a','a']}",
	               BAD "Duplicate value in attribute name: a");
}

TEST(legacy, maps_of_conditions_end_at_their_limit)
{
	for (unsigned over = 0; over < 2; over++) {
		struct decoded d;
		struct buf     text;

		decoded_init(&d);
		buf_init(&text, &d.arena);
		buf_add_bytes(&text, BYTES("{\"TableName\":\"abc\",\"Item\":{},\"Expected\":{"));
		for (unsigned i = 0; i < EXPR_OPERATORS_MAX + over; i++)
			buf_add_bytes(&text, arena_printf(&d.arena, "%s\"%u\":{\"Exists\":false}",
			                                  i > 0 ? "," : "", i));
		buf_add_bytes(&text, BYTES("}}"));
		decode_bytes(&d, request_put, buf_bytes(&text));
		assert_int_equal(d.rc, over ? ERR_INVALID : ERR_NONE);
		decoded_release(&d);
	}
}

/* ---- names ---- */

/* The message that each of these requests is refused with, with a name of that length in it. */
static void name_refused(size_t len, const char *what)
{
	static const struct {
		__typeof__(request_get) *decode;
		const char              *format;
	} requests[] = {
	        {request_update,
	         "{'TableName':'abc','Key':{},'UpdateExpression':'SET #n = :v','"
	         "ExpressionAttributeNames':{'#n':'%s'},'ExpressionAttributeValues':{':v':{'N':'1'}}}"},
	        {request_get,
	         "{'TableName':'abc','Key':{},'ProjectionExpression':'#n','ExpressionAttributeNames':{"
	         "'#n':'%s'}}"},
	        {request_update,
	         "{'TableName':'abc','Key':{},'AttributeUpdates':{'%s':{'Value':{'N':'1'}}}}"},
	        {request_put, "{'TableName':'abc','Item':{},'Expected':{'%s':{'Exists':false}}}"},
	        {request_scan, "{'TableName':'abc','ScanFilter':{'%s':{'ComparisonOperator':'NULL'}}}"},
	        {request_query, "{'TableName':'abc','KeyConditions':{'%s':{'ComparisonOperator':'EQ','"
	                        "AttributeValueList':[{'S':'a'}]}}}"},
	        {request_get, "{'TableName':'abc','Key':{},'AttributesToGet':['%s']}"},
	        {request_put, "{'TableName':'abc','Item':{'%s':{'N':'1'}}}"},
	};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct decoded d;
		char          *name;

		decoded_init(&d);
		name = arena_alloc(&d.arena, len + 1);
		memset(name, 'x', len);
		name[len] = '\0';
		decode_bytes(&d, requests[i].decode,
		             quoted(&d.arena, arena_printf(&d.arena, requests[i].format, name).data));
		if (what == NULL ? d.rc != ERR_NONE : d.rc != ERR_INVALID || strstr(d.err.text, what) == NULL)
			fail_msg("%s with %zu bytes: %s", requests[i].format, len, d.err.text);
		decoded_release(&d);
	}
}

TEST(names, of_attributes_have_1_to_65535_bytes_wherever_they_are_given)
{
	name_refused(0, "Empty attribute name");
	name_refused(1, NULL);
	name_refused(NAME_BYTES_MAX, NULL);
	name_refused(NAME_BYTES_MAX + 1, "Attribute name is too large, must be less than 65536 bytes");
}

TEST(names, of_expressions_say_which_one)
{
	decode_invalid(request_get,
	               "{'TableName':'abc','Key':{},'ProjectionExpression':'#n','ExpressionAttributeNames':{'"
	               "#n':''}}",
	               "ExpressionAttributeNames contains invalid value: Empty attribute name for key #n");
}
