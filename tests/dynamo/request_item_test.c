/* Requests for one item: golden bodies, then each rule of the decoder in the order in which DynamoDB applies
 * it. */
#include "decode.h"

#define PUT    request_put
#define GET    request_get
#define UPDATE request_update
#define DELETE request_delete
#define ONE    "1 validation error detected: "

/* ---- golden ---- */

TEST(get_item, the_documented_example_is_decoded)
{
	struct decoded d;

	decode_ok(&d, GET,
	          "{'TableName':'Thread','Key':{'ForumName':{'S':'Amazon DynamoDB'},'Subject':{'S':'How do "
	          "I'}},"
	          "'ProjectionExpression':'LastPostDateTime, Message, Tags','ConsistentRead':true,"
	          "'ReturnConsumedCapacity':'TOTAL'}");
	assert_bytes(d.request.get.table, "Thread");
	assert_int_equal(d.request.get.key.count, 2);
	assert_bytes(item_get(&d.request.get.key, BYTES("Subject"))->text, "How do I");
	assert_true(d.request.get.consistent);
	assert_int_equal(d.request.get.projection->count, 3);
	assert_int_equal(d.request.capacity, CAPACITY_TOTAL);
	decoded_release(&d);
}

TEST(put_item, the_documented_example_is_decoded)
{
	struct decoded d;

	decode_ok(&d, PUT,
	          "{'TableName':'Thread','Item':{'LastPostDateTime':{'S':'201303190422'},'Tags':{'SS':['"
	          "Update','Help']},"
	          "'ForumName':{'S':'DynamoDB'}},'ConditionExpression':'ForumName <> :f and Subject <> :s',"
	          "'ExpressionAttributeValues':{':f':{'S':'x'},':s':{'S':'y'}},'ReturnValues':'ALL_OLD',"
	          "'ReturnValuesOnConditionCheckFailure':'ALL_OLD','ReturnItemCollectionMetrics':'SIZE'}");
	assert_int_equal(d.request.write.kind, TABLE_PUT);
	assert_int_equal(d.request.write.item.count, 3);
	assert_int_equal(d.request.write.condition->kind, EXPR_AND);
	assert_int_equal(d.request.write.returns, RETURN_ALL_OLD);
	assert_true(d.request.write.return_old_on_failure);
	assert_true(d.request.collection_metrics);
	assert_int_equal(d.request.capacity, CAPACITY_NONE);
	decoded_release(&d);
}

TEST(update_item, a_counter_with_names_and_values_is_decoded)
{
	struct decoded d;

	decode_ok(&d, UPDATE,
	          "{'TableName':'auth-state','Key':{'pk':{'S':'a'},'sk':{'S':'b'}},"
	          "'UpdateExpression':'ADD #c :one SET #t = "
	          ":t','ConditionExpression':'attribute_not_exists(blocked)',"
	          "'ExpressionAttributeNames':{'#c':'count','#t':'ttl'},"
	          "'ExpressionAttributeValues':{':one':{'N':'1'},':t':{'N':'1700000000'}},'ReturnValues':'"
	          "UPDATED_NEW'}");
	assert_int_equal(d.request.write.kind, TABLE_UPDATE);
	assert_int_equal(d.request.write.update->count, 2);
	assert_int_equal(d.request.write.condition->kind, EXPR_NOT_EXISTS);
	assert_int_equal(d.request.write.returns, RETURN_UPDATED_NEW);
	decoded_release(&d);
}

TEST(update_item, without_an_expression_it_creates_a_bare_key)
{
	struct decoded d;

	decode_ok(&d, UPDATE, "{'TableName':'abc','Key':{'a':{'S':'x'}}}");
	assert_null(d.request.write.update);
	assert_null(d.request.write.condition);
	decoded_release(&d);
}

TEST(delete_item, the_key_and_an_arn_for_the_table_are_decoded)
{
	struct decoded d;

	decode_ok(
	        &d, DELETE,
	        "{'TableName':'arn:aws:dynamodb:eu-west-2:123456789012:table/users','Key':{'a':{'S':'x'}}}");
	assert_bytes(d.request.write.table, "users");
	assert_int_equal(d.request.write.kind, TABLE_DELETE);
	decoded_release(&d);
	decode_detected(DELETE, "{'TableName':'arn:aws:dynamodb:x:1:stream/users','Key':{}}",
	                "Invalid TableArn");
	decode_detected(DELETE, "{'TableName':'arn:aws:dynamodb:x:1:table/ab','Key':{}}", "Invalid TableArn");
	decode_detected(DELETE, "{'TableName':'arn:','Key':{}}", "Invalid TableArn");
}

TEST(requests, unknown_fields_and_nulls_are_ignored)
{
	decode_accepts(
	        GET,
	        "{'TableName':'abc','Key':{'a':{'S':'x'}},'Surprise':{'deep':[1,2]},'ConsistentRead':null}");
}

/* ---- 1: JSON types ---- */

TEST(requests, a_body_that_is_no_object_is_refused)
{
	decode_unreadable(GET, "null", "");
	decode_unreadable(GET, "[]", "");
	decode_unreadable(GET, "'text'", "");
	decode_unreadable(GET, "7", "");
}

TEST(requests, wrong_types_come_before_everything_else)
{
	decode_unreadable(GET, "{'TableName':1,'Key':7}", "NUMBER_VALUE cannot be converted to String");
	decode_unreadable(GET, "{'TableName':'a','Key':'x'}", "Unexpected field type");
	decode_unreadable(GET, "{'TableName':'a','Key':{'k':{'S':7}}}",
	                  "NUMBER_VALUE cannot be converted to String");
	decode_unreadable(GET, "{'ConsistentRead':'yes'}", "STRING_VALUE cannot be converted to Boolean");
	decode_unreadable(GET, "{'AttributesToGet':'x'}", "Unexpected field type");
	decode_unreadable(GET, "{'AttributesToGet':{}}",
	                  "Start of structure or map found where not expected");
	decode_unreadable(GET, "{'ExpressionAttributeNames':[]}",
	                  "Unrecognized collection type java.util.Map");
	decode_unreadable(
	        PUT, "{'Expected':{'a':[]}}",
	        "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.ExpectedAttributeValue");
	decode_unreadable(GET, "{'TableName':'abc','TableName':'abd'}", "Duplicate field in a map");
	decode_unreadable(GET, "{'TableName':null,'TableName':'abd'}", "Duplicate field in a map");
}

/* ---- 2: constraints ---- */

TEST(constraints, what_is_required_is_named)
{
	decode_invalid(GET, "{}",
	               "2 validation errors detected: Value null at ~tableName~ failed to satisfy "
	               "constraint: Member "
	               "must not be null; Value null at ~key~ failed to satisfy constraint: Member must not "
	               "be null");
	decode_invalid(PUT, "{'TableName':'abc'}",
	               ONE "Value null at ~item~ failed to satisfy constraint: Member must not be null");
}

TEST(constraints, table_names_have_a_length_and_an_alphabet)
{
	char text[400], name[300];

	memset(name, 'a', sizeof(name));
	name[TABLE_NAME_MAX] = '\0';
	snprintf(text, sizeof(text), "{'TableName':'%s','Key':{'a':{'S':'x'}}}", name);
	decode_accepts(GET, text);
	decode_accepts(GET, "{'TableName':'a-_','Key':{'a':{'S':'x'}}}");
	decode_accepts(GET, "{'TableName':'A.9','Key':{'a':{'S':'x'}}}");
	decode_invalid(
	        GET, "{'TableName':'ab','Key':{}}",
	        ONE "Value ~ab~ at ~tableName~ failed to satisfy constraint: Member must have length greater "
	            "than or equal to 3");
	decode_invalid(
	        GET, "{'TableName':'abc;','Key':{}}",
	        ONE "Value ~abc;~ at ~tableName~ failed to satisfy constraint: Member must satisfy regular "
	            "expression pattern: [a-zA-Z0-9_.-]+");
	name[TABLE_NAME_MAX] = 'a';
	name[TABLE_NAME_MAX + 1] = '\0';
	snprintf(text, sizeof(text), "{'TableName':'%s','Key':{}}", name);
	{
		char message[600];

		snprintf(message, sizeof(message),
		         ONE "Value ~%s~ at ~tableName~ failed to satisfy constraint: Member must have "
		             "length less "
		             "than or equal to 255",
		         name);
		decode_invalid(GET, text, message);
	}
}

TEST(constraints, enumerations_list_their_values)
{
	decode_invalid(
	        PUT, "{'TableName':'abc','Item':{},'ReturnConsumedCapacity':'total','ReturnValues':'x'}",
	        "2 validation errors detected: Value ~total~ at ~returnConsumedCapacity~ failed to satisfy "
	        "constraint: Member must satisfy enum value set: [INDEXES, TOTAL, NONE]; Value ~x~ at "
	        "~returnValues~ failed to satisfy constraint: Member must satisfy enum value set: [ALL_NEW, "
	        "UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]");
	decode_invalid(PUT, "{'TableName':'abc','Item':{},'ReturnItemCollectionMetrics':''}",
	               ONE
	               "Value ~~ at ~returnItemCollectionMetrics~ failed to satisfy constraint: Member must "
	               "satisfy enum value set: [SIZE, NONE]");
	decode_invalid(
	        UPDATE, "{'TableName':'abc','Key':{},'AttributeUpdates':{'a':{'Action':'SET'}}}",
	        ONE "Value ~SET~ at ~attributeUpdates.a.member.action~ failed to satisfy constraint: Member "
	            "must satisfy enum value set: [ADD, DELETE, PUT]");
}

TEST(constraints, an_empty_list_of_attributes_is_too_short)
{
	decode_invalid(
	        GET, "{'TableName':'abc','Key':{},'AttributesToGet':[]}",
	        ONE "Value ~[]~ at ~attributesToGet~ failed to satisfy constraint: Member must have length "
	            "greater than or equal to 1");
	decode_invalid(
	        GET, "{'TableName':'abc','Key':{},'AttributesToGet':[null]}",
	        ONE
	        "Value null at ~attributesToGet.1.member~ failed to satisfy constraint: Member must not be "
	        "null");
}

TEST(constraints, no_more_than_ten_are_spelled_out)
{
	struct decoded d;
	struct buf     body;
	unsigned       said = 0;

	decoded_init(&d);
	buf_init(&body, &d.arena);
	buf_add_bytes(&body, BYTES("{\"TableName\":\"abc\",\"Key\":{},\"AttributesToGet\":[null"));
	for (unsigned i = 0; i < 20; i++)
		buf_add_bytes(&body, BYTES(",null"));
	buf_add_bytes(&body, BYTES("]}"));
	decode_bytes(&d, GET, buf_bytes(&body));
	assert_int_equal(d.rc, ERR_INVALID);
	for (const char *at = d.err.text; (at = strstr(at, "Value null")) != NULL; at++)
		said++;
	assert_true(said <= 10);
	assert_non_null(strstr(d.err.text, "21 validation errors detected"));
	decoded_release(&d);
}

/* ---- 3: which parameters go together ---- */

TEST(parameters, expressions_and_legacy_parameters_exclude_each_other)
{
	decode_detected(
	        UPDATE,
	        "{'TableName':'abc','Key':{},'UpdateExpression':'','AttributeUpdates':{},'Expected':{},"
	        "'ConditionExpression':''}",
	        "Can not use both expression and non-expression parameters in the same request: "
	        "Non-expression "
	        "parameters: {AttributeUpdates, Expected} Expression parameters: {UpdateExpression, "
	        "ConditionExpression}");
	decode_invalid(GET, "{'TableName':'abc','Key':{},'ProjectionExpression':'a','AttributesToGet':['a']}",
	               "Can not use both expression and non-expression parameters in the same request: "
	               "Non-expression "
	               "parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}");
}

TEST(parameters, placeholders_need_expressions)
{
	decode_invalid(GET, "{'TableName':'abc','Key':{},'ExpressionAttributeNames':{}}",
	               "ExpressionAttributeNames can only be specified when using expressions");
	decode_invalid(
	        GET, "{'TableName':'abc','Key':{},'ProjectionExpression':'a','ExpressionAttributeNames':{}}",
	        "ExpressionAttributeNames must not be empty");
	decode_detected(PUT, "{'TableName':'abc','Item':{},'ExpressionAttributeValues':{}}",
	                "ExpressionAttributeValues can only be specified when using expressions: "
	                "ConditionExpression is "
	                "null");
	decode_detected(UPDATE, "{'TableName':'abc','Key':{},'ExpressionAttributeValues':{}}",
	                "ExpressionAttributeValues can only be specified when using expressions: "
	                "UpdateExpression and "
	                "ConditionExpression are null");
	decode_detected(
	        PUT, "{'TableName':'abc','Item':{},'ConditionExpression':'a','ExpressionAttributeValues':{}}",
	        "ExpressionAttributeValues must not be empty");
}

/* ---- 4: values and expressions ---- */

TEST(values, those_of_expressions_say_which_one)
{
	decode_detected(PUT,
	                "{'TableName':'abc','Item':{},'ConditionExpression':'a = :v',"
	                "'ExpressionAttributeValues':{':v':{'N':'x'}}}",
	                "ExpressionAttributeValues contains invalid value: The parameter cannot be converted "
	                "to a numeric "
	                "value: x for key :v");
	decode_detected(PUT,
	                "{'TableName':'abc','Item':{},'ConditionExpression':'a = :v',"
	                "'ExpressionAttributeValues':{':v':null}}",
	                "ExpressionAttributeValues contains invalid value: Supplied AttributeValue is empty, "
	                "must contain "
	                "exactly one of the supported datatypes for key :v");
}

TEST(values, placeholders_must_be_used)
{
	decode_detected(PUT,
	                "{'TableName':'abc','Item':{},'ConditionExpression':'a = :v',"
	                "'ExpressionAttributeValues':{':v':{'N':'1'},':w':{'N':'1'}}}",
	                "Value provided in ExpressionAttributeValues unused in expressions: keys: {:w}");
}

TEST(values, the_item_comes_before_the_expressions)
{
	decode_invalid(
	        PUT, "{'TableName':'abc','Item':{'a':{}},'ConditionExpression':'((('}",
	        "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes");
}

TEST(values, puts_and_deletes_return_nothing_but_the_old_item)
{
	decode_detected(PUT, "{'TableName':'abc','Item':{},'ReturnValues':'ALL_NEW'}",
	                "ReturnValues can only be ALL_OLD or NONE");
	decode_detected(DELETE, "{'TableName':'abc','Key':{},'ReturnValues':'UPDATED_OLD'}",
	                "ReturnValues can only be ALL_OLD or NONE");
	decode_accepts(UPDATE, "{'TableName':'abc','Key':{},'ReturnValues':'ALL_NEW'}");
}

TEST(values, expression_errors_name_the_parameter)
{
	struct decoded d;

	decoded_init(&d);
	decode_bytes(&d, UPDATE, quoted(&d.arena, "{'TableName':'abc','Key':{},'UpdateExpression':'SET'}"));
	assert_int_equal(d.rc, ERR_INVALID);
	assert_memory_equal(d.err.text, ONE "Invalid UpdateExpression: ", sizeof(ONE) - 1 + 26);
	decode_bytes(&d, DELETE,
	             quoted(&d.arena, "{'TableName':'abc','Key':{},'ConditionExpression':'a ='}"));
	assert_memory_equal(d.err.text, ONE "Invalid ConditionExpression: ", sizeof(ONE) - 1 + 29);
	decoded_release(&d);
}
