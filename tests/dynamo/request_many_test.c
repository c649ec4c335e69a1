/* Requests for many items: Query, Scan, batches, transactions. */
#include "decode.h"

#define QUERY request_query
#define SCAN  request_scan
#define ONE   "1 validation error detected: "

/* ---- Query and Scan ---- */

TEST(query, everything_is_decoded)
{
	struct decoded d;

	decode_ok(&d, QUERY,
	          "{'TableName':'Reply','IndexName':'PostedBy-Index','Limit':3,'ConsistentRead':true,"
	          "'ProjectionExpression':'Id, PostedBy','KeyConditionExpression':'Id = :v1 AND PostedBy "
	          "BETWEEN :a AND :b',"
	          "'FilterExpression':'x > "
	          ":a','ExpressionAttributeValues':{':v1':{'S':'DynamoDB'},':a':{'S':'A'},"
	          "':b':{'S':'B'}},'ReturnConsumedCapacity':'INDEXES','ScanIndexForward':false,"
	          "'ExclusiveStartKey':{'Id':{'S':'x'}}}");
	assert_bytes(d.request.query.index, "PostedBy-Index");
	assert_int_equal(d.request.query.limit, 3);
	assert_true(d.request.query.consistent && d.request.query.backward);
	assert_bytes(d.request.query.key->hash_name, "Id");
	assert_int_equal(d.request.query.key->range_kind, RANGE_BETWEEN);
	assert_int_equal(d.request.query.projection->count, 2);
	assert_non_null(d.request.query.filter);
	assert_int_equal(d.request.query.start->count, 1);
	assert_int_equal(d.request.capacity, CAPACITY_INDEXES);
	decoded_release(&d);
}

TEST(query, needs_a_key_condition)
{
	decode_detected(QUERY, "{'TableName':'abc'}",
	                "Either the KeyConditions or KeyConditionExpression parameter must be specified in "
	                "the request.");
}

TEST(query, the_limit_is_at_least_one)
{
	decode_accepts(SCAN, "{'TableName':'abc','Limit':1}");
	decode_accepts(SCAN, "{'TableName':'abc','Limit':2147483647}");
	decode_accepts(SCAN, "{'TableName':'abc','Limit':3.7}");
	decode_invalid(
	        SCAN, "{'TableName':'abc','Limit':0}",
	        ONE
	        "Value ~0~ at ~limit~ failed to satisfy constraint: Member must have value greater than or "
	        "equal to 1");
	decode_unreadable(SCAN, "{'TableName':'abc','Limit':2147483648}",
	                  "NUMBER_VALUE cannot be converted to Integer");
	decode_unreadable(SCAN, "{'TableName':'abc','Limit':1e300}",
	                  "DECIMAL_VALUE cannot be converted to Integer");
	decode_unreadable(SCAN, "{'TableName':'abc','Limit':'5'}",
	                  "STRING_VALUE cannot be converted to Integer");
}

TEST(query, index_names_have_a_length)
{
	decode_accepts(SCAN, "{'TableName':'abc','IndexName':'abc'}");
	decode_invalid(SCAN, "{'TableName':'abc','IndexName':'ab'}",
	               ONE "Value ~ab~ at ~indexName~ failed to satisfy constraint: Member must have length "
	                   "greater than "
	                   "or equal to 3");
}

TEST(query, a_bad_starting_key_says_so)
{
	decode_invalid(SCAN, "{'TableName':'abc','ExclusiveStartKey':{'a':{}}}",
	               "The provided starting key is invalid: Supplied AttributeValue is empty, must contain "
	               "exactly one "
	               "of the supported datatypes");
}

TEST(query, select_and_projections_must_agree)
{
	struct decoded d;

	decode_ok(&d, SCAN, "{'TableName':'abc','Select':'COUNT'}");
	assert_true(d.request.query.count_only);
	decoded_release(&d);
	decode_ok(&d, SCAN, "{'TableName':'abc','Select':'ALL_ATTRIBUTES'}");
	assert_true(d.request.query.all_attributes);
	decoded_release(&d);
	decode_accepts(SCAN, "{'TableName':'abc','IndexName':'abc','Select':'ALL_PROJECTED_ATTRIBUTES'}");
	decode_accepts(SCAN, "{'TableName':'abc','Select':'SPECIFIC_ATTRIBUTES','ProjectionExpression':'a'}");
	decode_invalid(SCAN, "{'TableName':'abc','Select':'COUNT','ProjectionExpression':'a'}",
	               "Cannot specify the ProjectionExpression "
	               "when choosing "
	               "to get only the Count");
	decode_invalid(SCAN, "{'TableName':'abc','Select':'ALL_ATTRIBUTES','AttributesToGet':['a']}",
	               "Cannot specify the AttributesToGet when "
	               "choosing to "
	               "get ALL_ATTRIBUTES");
	decode_invalid(SCAN, "{'TableName':'abc','Select':'SPECIFIC_ATTRIBUTES'}",
	               "Must specify the AttributesToGet or "
	               "ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES");
	decode_invalid(SCAN, "{'TableName':'abc','Select':'ALL_PROJECTED_ATTRIBUTES'}",
	               "ALL_PROJECTED_ATTRIBUTES can be used only when "
	               "Querying using an IndexName");
}

TEST(scan, segments_come_in_pairs_and_in_range)
{
	struct decoded d;

	decode_ok(&d, SCAN, "{'TableName':'abc','Segment':999999,'TotalSegments':1000000}");
	assert_int_equal(d.request.query.segment, 999999);
	assert_int_equal(d.request.query.segments, 1000000);
	assert_null(d.request.query.key);
	decoded_release(&d);
	decode_invalid(
	        SCAN, "{'TableName':'abc','Segment':0}",
	        "The TotalSegments parameter is required but was not present in the request when Segment "
	        "parameter is present");
	decode_invalid(SCAN, "{'TableName':'abc','TotalSegments':1}",
	               "The Segment parameter is required but was not present in the request when parameter "
	               "TotalSegments is present");
	decode_invalid(SCAN, "{'TableName':'abc','Segment':1,'TotalSegments':1}",
	               "The Segment parameter is zero-based and must be less than parameter TotalSegments: "
	               "Segment: 1 is "
	               "not less than TotalSegments: 1");
	decode_invalid(
	        SCAN, "{'TableName':'abc','Segment':-1,'TotalSegments':1000001}",
	        "2 validation errors detected: Value ~-1~ at ~segment~ failed to satisfy constraint: Member "
	        "must "
	        "have value greater than or equal to 0; Value ~1000001~ at ~totalSegments~ failed to satisfy "
	        "constraint: Member must have value less than or equal to 1000000");
}

/* ---- batches ---- */

/* A request with n of `one` (a %u in it is the index) in a list. */
static const char *repeated(struct arena *a, const char *before, const char *one, unsigned n,
                            const char *after)
{
	struct buf out;

	buf_init(&out, a);
	buf_add_bytes(&out, bytes_of(before));
	for (unsigned i = 0; i < n; i++) {
		char text[200];

		snprintf(text, sizeof(text), one, i);
		if (i > 0)
			buf_add_byte(&out, ',');
		buf_add_bytes(&out, bytes_of(text));
	}
	buf_add_bytes(&out, bytes_of(after));
	buf_add_byte(&out, '\0');
	return out.data;
}

TEST(batch_get, tables_become_one_list)
{
	struct decoded d;

	decode_ok(&d, request_batch_get,
	          "{'RequestItems':{'Forum':{'Keys':[{'n':{'S':'a'}},{'n':{'S':'b'}}],'ProjectionExpression':"
	          "'#x',"
	          "'ExpressionAttributeNames':{'#x':'y'}},'Thread':{'Keys':[{'n':{'S':'a'}}],'ConsistentRead'"
	          ":true}},"
	          "'ReturnConsumedCapacity':'TOTAL'}");
	assert_int_equal(d.request.batch.count, 3);
	assert_int_equal(d.request.batch.table_count, 2);
	assert_int_equal(d.request.batch.tables[1].first, 2);
	assert_bytes(d.request.batch.gets[2].table, "Thread");
	assert_true(d.request.batch.gets[2].consistent && !d.request.batch.gets[0].consistent);
	assert_non_null(d.request.batch.gets[1].projection);
	assert_null(d.request.batch.gets[2].projection);
	decoded_release(&d);
}

TEST(batch_get, ends_at_a_hundred_keys)
{
	struct arena a;

	arena_init(&a);
	decode_accepts(request_batch_get, repeated(&a, "{'RequestItems':{'abc':{'Keys':[", "{'n':{'N':'%u'}}",
	                                           TABLE_BATCH_GET_MAX, "]}}}"));
	decode_invalid(request_batch_get,
	               repeated(&a, "{'RequestItems':{'abc':{'Keys':[", "{'n':{'N':'%u'}}",
	                        TABLE_BATCH_GET_MAX + 1, "]}}}"),
	               ONE "Value ~[...]~ at ~requestItems.abc.member.keys~ failed to satisfy constraint: "
	                   "Member must have "
	                   "length less than or equal to 100");
	decode_invalid(request_batch_get,
	               repeated(&a, "{'RequestItems':{'abd':{'Keys':[{'n':{'N':'1'}}]},'abc':{'Keys':[",
	                        "{'n':{'N':'%u'}}", TABLE_BATCH_GET_MAX, "]}}}"),
	               "Too many items requested for the BatchGetItem call");
	arena_release(&a);
}

TEST(batch_get, keys_do_not_repeat)
{
	decode_invalid(request_batch_get,
	               "{'RequestItems':{'abc':{'Keys':[{'n':{'N':'1'}},{'n':{'N':'1.0'}}]}}}",
	               "Provided list of item keys contains duplicates");
}

TEST(batch_get, constraints_reach_into_the_map)
{
	decode_invalid(request_batch_get, "{'RequestItems':{}}",
	               ONE "Value ~{}~ at ~requestItems~ failed to satisfy constraint: Member must have "
	                   "length greater than "
	                   "or equal to 1");
	decode_invalid(request_batch_get, "{'RequestItems':{'abc':{}}}",
	               ONE "Value null at ~requestItems.abc.member.keys~ failed to satisfy constraint: "
	                   "Member must not be "
	                   "null");
	decode_invalid(
	        request_batch_get, "{'RequestItems':{'abc':{'Keys':[]}}}",
	        ONE
	        "Value ~[]~ at ~requestItems.abc.member.keys~ failed to satisfy constraint: Member must have "
	        "length greater than or equal to 1");
	decode_invalid(
	        request_batch_get, "{'RequestItems':{'ab':{'Keys':[{}]}}}",
	        ONE "Value ~{...}~ at ~requestItems~ failed to satisfy constraint: Map keys must satisfy "
	            "constraint: [Member must have length less than or equal to 255, Member must have length "
	            "greater than or equal to 3, Member must satisfy regular expression pattern: "
	            "[a-zA-Z0-9_.-]+]");
	decode_unreadable(request_batch_get, "{'RequestItems':{'abc':{'Keys':[{}]},'abc':{'Keys':[{}]}}}",
	                  "Duplicate field in a map");
}

TEST(batch_write, puts_and_deletes_become_one_list)
{
	struct decoded d;

	decode_ok(&d, request_batch_write,
	          "{'RequestItems':{'Forum':[{'PutRequest':{'Item':{'n':{'S':'a'}}}},"
	          "{'DeleteRequest':{'Key':{'n':{'S':'b'}}}}],'Thread':[{'PutRequest':{'Item':{'n':{'S':'c'}}"
	          "}}]}}");
	assert_int_equal(d.request.batch.count, 3);
	assert_int_equal(d.request.batch.writes[0].kind, TABLE_PUT);
	assert_int_equal(d.request.batch.writes[1].kind, TABLE_DELETE);
	assert_int_equal(d.request.batch.writes[1].key.count, 1);
	assert_bytes(d.request.batch.writes[2].table, "Thread");
	decoded_release(&d);
}

TEST(batch_write, ends_at_twenty_five)
{
	const char  *put = "{'PutRequest':{'Item':{'n':{'N':'%u'}}}}";
	struct arena a;

	arena_init(&a);
	decode_accepts(request_batch_write,
	               repeated(&a, "{'RequestItems':{'abc':[", put, TABLE_BATCH_WRITE_MAX, "]}}"));
	decode_invalid(
	        request_batch_write,
	        repeated(&a, "{'RequestItems':{'abc':[", put, TABLE_BATCH_WRITE_MAX + 1, "]}}"),
	        ONE
	        "Value ~[...]~ at ~requestItems.abc.member~ failed to satisfy constraint: Member must have "
	        "length less than or equal to 25");
	decode_invalid(request_batch_write,
	               repeated(&a, "{'RequestItems':{'abd':[{'DeleteRequest':{'Key':{}}}],'abc':[", put,
	                        TABLE_BATCH_WRITE_MAX, "]}}"),
	               "Too many items requested for the BatchWriteItem call");
	arena_release(&a);
}

TEST(batch_write, a_null_among_the_writes_is_named)
{
	decode_invalid(request_batch_write, "{'RequestItems':{'abc':[null]}}",
	               ONE "Value null at ~requestItems.abc.member.1.member~ failed to satisfy constraint: "
	                   "Member must not "
	                   "be null");
	decode_invalid(
	        request_batch_write, "{'RequestItems':{'abc':null}}",
	        ONE
	        "Value null at ~requestItems.abc.member~ failed to satisfy constraint: Member must not be "
	        "null");
	decode_invalid(request_batch_write, "{'RequestItems':null}",
	               ONE
	               "Value null at ~requestItems~ failed to satisfy constraint: Member must not be null");
	decode_invalid(request_batch_write, "{'RequestItems':{'abc':[{'PutRequest':{}}]}}",
	               ONE
	               "Value null at ~requestItems.abc.member.1.member.putRequest.item~ failed to satisfy "
	               "constraint: Member must not be null");
}

TEST(batch_write, a_write_is_one_of_two)
{
	decode_invalid(
	        request_batch_write, "{'RequestItems':{'abc':[{}]}}",
	        "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes");
	decode_invalid(
	        request_batch_write,
	        "{'RequestItems':{'abc':[{'PutRequest':{'Item':{}},'DeleteRequest':{'Key':{}}}]}}",
	        "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the "
	        "supported datatypes");
}

/* ---- transactions ---- */

#define CHECK                                                                                                \
	"{'ConditionCheck':{'TableName':'abc','Key':{'n':{'N':'%u'}},'ConditionExpression':'attribute_"      \
	"exists(n)'}}"

TEST(transact_write, all_four_actions_are_decoded)
{
	struct decoded d;

	decode_ok(&d, request_transact_write,
	          "{'ClientRequestToken':'token','TransactItems':["
	          "{'Put':{'TableName':'abc','Item':{'a':{'S':'1'}},'ConditionExpression':'attribute_not_"
	          "exists(a)',"
	          "'ReturnValuesOnConditionCheckFailure':'ALL_OLD'}},"
	          "{'Update':{'TableName':'abc','Key':{'a':{'S':'2'}},'UpdateExpression':'SET b = :b',"
	          "'ExpressionAttributeValues':{':b':{'N':'1'}}}},"
	          "{'Delete':{'TableName':'abc','Key':{'a':{'S':'3'}}}},"
	          "{'ConditionCheck':{'TableName':'abc','Key':{'a':{'S':'4'}},'ConditionExpression':'a = :a',"
	          "'ExpressionAttributeValues':{':a':{'S':'4'}}}}]}");
	assert_int_equal(d.request.transact_write.count, 4);
	assert_bytes(d.request.transact_write.token, "token");
	for (unsigned i = TABLE_PUT; i <= TABLE_CHECK; i++)
		assert_int_equal(d.request.transact_write.writes[i].kind, i);
	assert_true(d.request.transact_write.writes[0].return_old_on_failure);
	assert_non_null(d.request.transact_write.writes[3].condition);
	decoded_release(&d);
}

TEST(transact_write, ends_at_a_hundred_actions)
{
	struct arena a;

	arena_init(&a);
	decode_accepts(request_transact_write,
	               repeated(&a, "{'TransactItems':[", CHECK, TABLE_TRANSACT_MAX, "]}"));
	decode_invalid(
	        request_transact_write,
	        repeated(&a, "{'TransactItems':[", CHECK, TABLE_TRANSACT_MAX + 1, "]}"),
	        ONE
	        "Value ~[...]~ at ~transactItems~ failed to satisfy constraint: Member must have length less "
	        "than or equal to 100");
	decode_invalid(
	        request_transact_write, "{'TransactItems':[]}",
	        ONE
	        "Value ~[]~ at ~transactItems~ failed to satisfy constraint: Member must have length greater "
	        "than or equal to 1");
	arena_release(&a);
}

TEST(transact_write, an_action_is_one_of_four)
{
	const char *text = "TransactItems can only contain one of Check, Put, Update or Delete";

	decode_invalid(request_transact_write, "{'TransactItems':[{}]}", text);
	decode_invalid(request_transact_write,
	               "{'TransactItems':[{'Delete':{'TableName':'abc','Key':{}},'Put':{'TableName':'abc','"
	               "Item':{}}}]}",
	               text);
	decode_invalid(request_transact_write, "{'TransactItems':[{'Update':{'TableName':'abc','Key':{}}}]}",
	               ONE "Value null at ~transactItems.1.member.update.updateExpression~ failed to satisfy "
	                   "constraint: "
	                   "Member must not be null");
}

TEST(transact_write, a_token_has_a_length)
{
	decode_accepts(
	        request_transact_write,
	        "{'ClientRequestToken':'123456789012345678901234567890123456','TransactItems':[{'Delete':"
	        "{'TableName':'abc','Key':{}}}]}");
	decode_invalid(
	        request_transact_write,
	        "{'ClientRequestToken':'1234567890123456789012345678901234567','TransactItems':[{'Delete':"
	        "{'TableName':'abc','Key':{}}}]}",
	        ONE "Value ~1234567890123456789012345678901234567~ at ~clientRequestToken~ failed to satisfy "
	            "constraint: Member must have length less than or equal to 36");
	decode_invalid(
	        request_transact_write,
	        "{'ClientRequestToken':'','TransactItems':[{'Delete':{'TableName':'abc','Key':{}}}]}",
	        ONE "Value ~~ at ~clientRequestToken~ failed to satisfy constraint: Member must have length "
	            "greater than or equal to 1");
}

TEST(transact_write, the_digest_tells_a_retry_from_another_request)
{
	struct decoded one, same, other;

	decode_ok(&one, request_transact_write,
	          "{'ClientRequestToken':'a','TransactItems':[{'Delete':{'TableName':'abc','Key':{'a':{'S':'"
	          "\\u0041'}}}}]}");
	decode_ok(&same, request_transact_write,
	          "{ 'TransactItems' : "
	          "[{'Delete':{'TableName':'abc','Key':{'a':{'S':'A'}}}}],'ClientRequestToken':'b'}");
	decode_ok(&other, request_transact_write,
	          "{'ClientRequestToken':'a','TransactItems':[{'Delete':{'TableName':'abc','Key':{'a':{'S':'"
	          "B'}}}}]}");
	assert_memory_equal(one.request.transact_write.digest, same.request.transact_write.digest, 32);
	assert_memory_not_equal(one.request.transact_write.digest, other.request.transact_write.digest, 32);
	decoded_release(&one);
	decoded_release(&same);
	decoded_release(&other);
}

TEST(transact_get, gets_are_decoded_and_required)
{
	struct decoded d;

	decode_ok(&d, request_transact_get,
	          "{'TransactItems':[{'Get':{'TableName':'abc','Key':{'a':{'S':'1'}},'ProjectionExpression':'"
	          "#b',"
	          "'ExpressionAttributeNames':{'#b':'b'}}},{'Get':{'TableName':'abd','Key':{'a':{'S':'1'}}}}]"
	          "}");
	assert_int_equal(d.request.transact_get.count, 2);
	assert_non_null(d.request.transact_get.gets[0].projection);
	assert_bytes(d.request.transact_get.gets[1].table, "abd");
	decoded_release(&d);
	decode_invalid(
	        request_transact_get, "{'TransactItems':[{}]}",
	        ONE
	        "Value null at ~transactItems.1.member.get~ failed to satisfy constraint: Member must not be "
	        "null");
}

TEST(wording, of_a_query_has_the_beginning_that_a_scan_lacks)
{
	decode_detected(QUERY, "{'TableName':'abc','Select':'SPECIFIC_ATTRIBUTES'}",
	                "Must specify the AttributesToGet or ProjectionExpression when choosing to get "
	                "SPECIFIC_ATTRIBUTES");
	decode_detected(QUERY, "{'TableName':'abc','KeyConditionExpression':''}",
	                "Invalid KeyConditionExpression: The expression can not be empty;");
	decode_detected(
	        QUERY,
	        "{'TableName':'abc','KeyConditionExpression':'a = :v','ExpressionAttributeNames':{'#n':'b'},"
	        "'ExpressionAttributeValues':{':v':{'S':'x'}}}",
	        "Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}");
	decode_invalid(SCAN, "{'TableName':'abc','FilterExpression':''}",
	               "Invalid FilterExpression: The expression can not be empty;");
	decode_invalid(
	        QUERY, "{'TableName':'abc','Limit':0}",
	        "1 validation error detected: Value ~0~ at ~limit~ failed to satisfy constraint: Member must "
	        "have value greater than or equal to 1");
}
