/* Answers: the JSON of each, as AWS documents it, and the errors' bodies. */
#include "decode.h"

#include "dynamo/errors.h"
#include "dynamo/result.h"

struct answer {
	struct arena          arena;
	struct buf            out;
	struct json_writer    w;
	struct dynamo_request q;
	struct dynamo_result  r;
};

static void answer_init(struct answer *x)
{
	memset(x, 0, sizeof(*x));
	arena_init(&x->arena);
	buf_init(&x->out, &x->arena);
	json_writer_init(&x->w, &x->out);
}

static void answer_is(struct answer *x, const char *expected)
{
	struct bytes want = quoted(&x->arena, expected);

	if (!bytes_equal(buf_bytes(&x->out), want))
		fail_msg("\n  got  %.*s\n  want %.*s", BYTES_ARG(buf_bytes(&x->out)), BYTES_ARG(want));
	arena_release(&x->arena);
}

static struct item item_of(struct arena *a, const char *name, struct value value)
{
	struct member *m = arena_zalloc(a, sizeof(*m));

	*m = (struct member){bytes_of(name), value};
	return (struct item){m, 1};
}

static struct item text_item(struct arena *a, const char *name, const char *text)
{
	return item_of(a, name, value_string(bytes_of(text)));
}

TEST(result, an_item_found_or_not)
{
	struct answer x;

	answer_init(&x);
	x.r.get.found = true;
	x.r.get.item = text_item(&x.arena, "a", "q\"");
	assert_int_equal(result_get(&x.w, &x.arena, &x.q, &x.r), ERR_NONE);
	answer_is(&x, "{'Item':{'a':{'S':'q\\''}}}");
	answer_init(&x);
	result_get(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{}");
}

TEST(result, capacity_in_total_and_by_index)
{
	struct index_capacity indexes[] = {{BYTES("loc"), true, 0, 1}, {BYTES("glo"), false, 0, 2}};
	struct answer         x;

	answer_init(&x);
	x.q.capacity = CAPACITY_TOTAL;
	x.r.get.capacity = (struct capacity){.table = BYTES("abc"), .read_units = 0.5};
	result_get(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'ConsumedCapacity':{'TableName':'abc','CapacityUnits':0.5}}");
	answer_init(&x);
	x.q.capacity = CAPACITY_INDEXES;
	x.r.write.capacity = (struct capacity){BYTES("abc"), 0, 1, indexes, 2};
	result_write(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x,
	          "{'ConsumedCapacity':{'TableName':'abc','CapacityUnits':4.0,'Table':{'CapacityUnits':1.0},"
	          "'LocalSecondaryIndexes':{'loc':{'CapacityUnits':1.0}},"
	          "'GlobalSecondaryIndexes':{'glo':{'CapacityUnits':2.0}}}}");
}

TEST(result, a_write_with_attributes_and_its_collection)
{
	struct answer x;

	answer_init(&x);
	x.q.collection_metrics = true;
	x.r.write.has_item = true;
	x.r.write.item = item_of(&x.arena, "count", value_i64(7));
	x.r.write.has_collection = true;
	x.r.write.collection_name = BYTES("pk");
	x.r.write.collection_key = value_string(BYTES("u1"));
	x.r.write.collection_gb = 0.25;
	result_write(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'Attributes':{'count':{'N':'7'}},'ItemCollectionMetrics':{'ItemCollectionKey':{'pk':{"
	              "'S':'u1'}},"
	              "'SizeEstimateRangeGB':[0.0,1.0]}}");
}

TEST(result, a_false_condition_is_an_error_with_the_old_item_if_asked)
{
	struct answer x;

	answer_init(&x);
	x.r.write.condition_failed = true;
	assert_int_equal(result_write(&x.w, &x.arena, &x.q, &x.r), ERR_CONDITION);
	answer_is(
	        &x,
	        "{'__type':'com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException','message':'The "
	        "conditional request failed'}");
	answer_init(&x);
	x.r.write.condition_failed = x.r.write.has_item = true;
	x.r.write.item = text_item(&x.arena, "a", "b");
	result_write(&x.w, &x.arena, &x.q, &x.r);
	answer_is(
	        &x,
	        "{'__type':'com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException','message':'The "
	        "conditional request failed','Item':{'a':{'S':'b'}}}");
}

TEST(result, a_page_of_items_or_their_count)
{
	struct answer x;
	struct item   items[2];

	answer_init(&x);
	items[0] = text_item(&x.arena, "a", "1");
	items[1] = text_item(&x.arena, "a", "2");
	x.r.query = (struct table_query_result){.items = items, .count = 2, .scanned = 5, .more = true};
	x.r.query.last_key = text_item(&x.arena, "a", "2");
	result_query(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'Items':[{'a':{'S':'1'}},{'a':{'S':'2'}}],'Count':2,'ScannedCount':5,'"
	              "LastEvaluatedKey':{'a':"
	              "{'S':'2'}}}");
	answer_init(&x);
	x.q.query.count_only = true;
	x.r.query = (struct table_query_result){.count = 2, .scanned = 5};
	result_query(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'Count':2,'ScannedCount':5}");
}

TEST(result, a_batch_of_gets_asks_again_for_what_was_skipped)
{
	struct decoded          d;
	struct answer           x;
	struct table_get_result results[3] = {{.found = true}, {.found = false}, {.found = true}};
	bool                    skipped[3] = {false, false, true};

	decode_ok(&d, request_batch_get,
	          "{'RequestItems':{'abc':{'Keys':[{'n':{'N':'1'}},{'n':{'N':'2'}}]},'abd':{'ConsistentRead':"
	          "true,"
	          "'Keys':[{'n':{'N':'3'}}],'ProjectionExpression':'#n','ExpressionAttributeNames':{'#n':'n'}"
	          "}},"
	          "'ReturnConsumedCapacity':'TOTAL'}");
	answer_init(&x);
	results[0].item = text_item(&x.arena, "x", "y");
	results[0].capacity = (struct capacity){.table = BYTES("abc"), .read_units = 0.5};
	results[1].capacity = (struct capacity){.table = BYTES("abc"), .read_units = 0.5};
	x.r.gets = (struct table_batch_get_result){.results = results, .skipped = skipped};
	result_batch_get(&x.w, &x.arena, &d.request, &x.r);
	answer_is(&x, "{'Responses':{'abc':[{'x':{'S':'y'}}],'abd':[]},'UnprocessedKeys':{'abd':{'"
	              "ConsistentRead':true,"
	              "'ProjectionExpression':'#n','ExpressionAttributeNames':{'#n':'n'},'Keys':[{'n':{'N':'"
	              "3'}}]}},"
	              "'ConsumedCapacity':[{'TableName':'abc','CapacityUnits':1.0}]}");
	decoded_release(&d);
}

TEST(result, a_batch_of_writes_leaves_nothing_unprocessed)
{
	struct answer x;

	answer_init(&x);
	result_batch_write(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'UnprocessedItems':{}}");
}

TEST(result, collections_are_listed_by_table)
{
	struct table_write writes[3] = {
	        {.table = BYTES("abc")}, {.table = BYTES("abd")}, {.table = BYTES("abc")}};
	struct table_write_result results[3] = {{.has_collection = true}, {0}, {.has_collection = true}};
	struct answer             x;

	answer_init(&x);
	for (unsigned i = 0; i < 3; i++) {
		results[i].collection_name = BYTES("k");
		results[i].collection_key = value_i64(i);
	}
	x.q.collection_metrics = true;
	x.q.batch = (struct request_batch){.writes = writes, .count = 3};
	x.r.batch_write.results = results;
	result_batch_write(&x.w, &x.arena, &x.q, &x.r);
	answer_is(
	        &x,
	        "{'UnprocessedItems':{},'ItemCollectionMetrics':{'abc':[{'ItemCollectionKey':{'k':{'N':'0'}},"
	        "'SizeEstimateRangeGB':[0.0,1.0]},{'ItemCollectionKey':{'k':{'N':'2'}},'SizeEstimateRangeGB':"
	        "[0.0,1.0]}]}}");
}

TEST(result, a_cancelled_transaction_says_why_for_each_action)
{
	struct table_reason reasons[3] = {
	        {.code = ERR_CONDITION, .text = "The conditional request failed", .has_item = true},
	        {.code = ERR_NONE},
	        {.code = ERR_INVALID, .text = "Item size has exceeded the maximum allowed size"}};
	struct answer x;

	answer_init(&x);
	reasons[0].item = text_item(&x.arena, "a", "b");
	x.q.transact_write.count = 3;
	x.r.transact = (struct table_transact_result){.cancelled = true, .reasons = reasons};
	assert_int_equal(result_transact_write(&x.w, &x.arena, &x.q, &x.r), ERR_CANCELLED);
	answer_is(&x, "{'__type':'com.amazonaws.dynamodb.v20120810#TransactionCanceledException','Message':'"
	              "Transaction "
	              "cancelled, please refer cancellation reasons for specific reasons "
	              "[ConditionalCheckFailed, None, "
	              "ValidationError]','CancellationReasons':[{'Code':'ConditionalCheckFailed','Item':{'a':"
	              "{'S':'b'}},"
	              "'Message':'The conditional request "
	              "failed'},{'Code':'None'},{'Code':'ValidationError','Message':"
	              "'Item size has exceeded the maximum allowed size'}]}");
}

TEST(result, a_transaction_tells_reads_and_writes_apart)
{
	struct table_write_result results[2] = {{.capacity = {.table = BYTES("abc"), .write_units = 2}},
	                                        {.capacity = {.table = BYTES("abc"), .write_units = 4}}};
	struct table_get_result   gets[1] = {{.capacity = {.table = BYTES("abc"), .read_units = 2}}};
	struct answer             x;

	answer_init(&x);
	x.q.capacity = CAPACITY_TOTAL;
	x.q.transact_write.count = 2;
	x.r.transact.results = results;
	result_transact_write(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x,
	          "{'ConsumedCapacity':[{'TableName':'abc','CapacityUnits':6.0,'WriteCapacityUnits':6.0}]}");
	answer_init(&x);
	x.q.capacity = CAPACITY_TOTAL;
	x.q.transact_get.count = 1;
	x.r.gets.results = gets;
	result_transact_get(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'Responses':[{}],'ConsumedCapacity':[{'TableName':'abc','CapacityUnits':2.0,"
	              "'ReadCapacityUnits':2.0}]}");
	answer_init(&x);
	x.r.transact.repeated = true;
	x.q.capacity = CAPACITY_TOTAL;
	result_transact_write(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{}");
}

TEST(result, a_table_is_described_in_full)
{
	struct index_schema indexes[2] = {
	        {.name = BYTES("loc"),
	         .local = true,
	         .keys = {{BYTES("pk"), VALUE_S}, {BYTES("at"), VALUE_N}},
	         .projection = PROJECT_KEYS_ONLY},
	        {.name = BYTES("glo"),
	         .keys = {{BYTES("mail"), VALUE_B}, {{0}, VALUE_S}},
	         .projection = PROJECT_INCLUDE,
	         .include = (struct bytes[]){BYTES("x")},
	         .include_count = 1,
	         .status = INDEX_CREATING},
	};
	int64_t       counts[2] = {3, 4}, sizes[2] = {5, 6};
	struct answer x;

	answer_init(&x);
	x.r.table = (struct table_description){
	        .schema = {.name = BYTES("abc"),
	                   .id = BYTES("6d9f6f2c-0000-4000-8000-000000000000"),
	                   .created_us = 1421866952062345,
	                   .keys = {{BYTES("pk"), VALUE_S}, {BYTES("sk"), VALUE_S}},
	                   .indexes = indexes,
	                   .index_count = 2,
	                   .on_demand = true},
	        .item_count = 1,
	        .size_bytes = 2,
	        .index_item_counts = counts,
	        .index_size_bytes = sizes};
	x.q.arn_home = BYTES("arn:aws:dynamodb:local:000000000000:");
	result_described_table(&x.w, &x.arena, &x.q, &x.r);
	answer_is(
	        &x,
	        "{'Table':{'AttributeDefinitions':[{'AttributeName':'pk','AttributeType':'S'},{'"
	        "AttributeName':'sk',"
	        "'AttributeType':'S'},{'AttributeName':'at','AttributeType':'N'},{'AttributeName':'mail',"
	        "'AttributeType':'B'}],'TableName':'abc','KeySchema':[{'AttributeName':'pk','KeyType':'"
	        "HASH'},"
	        "{'AttributeName':'sk','KeyType':'RANGE'}],'TableStatus':'ACTIVE','CreationDateTime':"
	        "1421866952.062,"
	        "'ProvisionedThroughput':{'NumberOfDecreasesToday':0,'ReadCapacityUnits':0,'"
	        "WriteCapacityUnits':0},"
	        "'BillingModeSummary':{'BillingMode':'PAY_PER_REQUEST','LastUpdateToPayPerRequestDateTime':"
	        "1421866952.062},"
	        "'TableClassSummary':{'TableClass':'STANDARD'},'WarmThroughput':{'ReadUnitsPerSecond':12000,"
	        "'WriteUnitsPerSecond':4000,'Status':'ACTIVE'},'TableSizeBytes':2,'ItemCount':1,'"
	        "TableArn':"
	        "'arn:aws:dynamodb:local:000000000000:table/"
	        "abc','TableId':'6d9f6f2c-0000-4000-8000-000000000000',"
	        "'LocalSecondaryIndexes':[{'IndexName':'loc','KeySchema':[{'AttributeName':'pk','KeyType':'"
	        "HASH'},"
	        "{'AttributeName':'at','KeyType':'RANGE'}],'Projection':{'ProjectionType':'KEYS_ONLY'},"
	        "'IndexSizeBytes':5,'ItemCount':3,'IndexArn':'arn:aws:dynamodb:local:000000000000:table/"
	        "abc/index/"
	        "loc'}],'GlobalSecondaryIndexes':[{'IndexName':'glo','KeySchema':[{'AttributeName':'mail','"
	        "KeyType':"
	        "'HASH'}],'Projection':{'ProjectionType':'INCLUDE','NonKeyAttributes':['x']},'IndexStatus':"
	        "'CREATING',"
	        "'Backfilling':true,'ProvisionedThroughput':{'NumberOfDecreasesToday':0,'ReadCapacityUnits'"
	        ":0,"
	        "'WriteCapacityUnits':0},'WarmThroughput':{'ReadUnitsPerSecond':12000,'WriteUnitsPerSecond':"
	        "4000,"
	        "'Status':'CREATING'},'IndexSizeBytes':6,'ItemCount':4,'IndexArn':'arn:aws:dynamodb:"
	        "local:"
	        "000000000000:table/abc/index/glo'}],'DeletionProtectionEnabled':false}}");
}

TEST(result, the_small_ones)
{
	struct bytes  names[2] = {BYTES("abc"), BYTES("abd")};
	struct tag    tags[1] = {{BYTES("k"), BYTES("v")}};
	struct answer x;

	answer_init(&x);
	x.r.list = (struct table_list_result){names, 2, true};
	result_list_tables(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'TableNames':['abc','abd'],'LastEvaluatedTableName':'abd'}");
	answer_init(&x);
	result_list_tables(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'TableNames':[]}");
	answer_init(&x);
	result_ttl(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'TimeToLiveDescription':{'TimeToLiveStatus':'DISABLED'}}");
	answer_init(&x);
	x.r.table.schema.ttl_attribute = BYTES("ttl");
	result_ttl(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'TimeToLiveDescription':{'TimeToLiveStatus':'ENABLED','AttributeName':'ttl'}}");
	answer_init(&x);
	x.q.ttl = (struct request_ttl){BYTES("abc"), true, BYTES("ttl")};
	result_ttl_updated(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
	answer_init(&x);
	x.r.table.schema.tags = tags;
	x.r.table.schema.tag_count = 1;
	result_tags(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'Tags':[{'Key':'k','Value':'v'}]}");
	answer_init(&x);
	result_limits(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'AccountMaxReadCapacityUnits':80000,'AccountMaxWriteCapacityUnits':80000,"
	              "'TableMaxReadCapacityUnits':40000,'TableMaxWriteCapacityUnits':40000}");
	answer_init(&x);
	x.q.host = BYTES("127.0.0.1:8420");
	result_endpoints(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "{'Endpoints':[{'Address':'127.0.0.1:8420','CachePeriodInMinutes':1440}]}");
	answer_init(&x);
	result_nothing(&x.w, &x.arena, &x.q, &x.r);
	answer_is(&x, "");
}

static void error_is(enum err_code code, const char *text, const char *expected)
{
	struct answer x;

	answer_init(&x);
	error_write(&x.w, &x.arena, code, bytes_of(text));
	answer_is(&x, expected);
}

TEST(errors, each_has_its_type_and_message)
{
	error_is(ERR_INVALID, "no",
	         "{'__type':'com.amazon.coral.validate#ValidationException','message':'no'}");
	error_is(ERR_NO_RESOURCE, "no",
	         "{'__type':'com.amazonaws.dynamodb.v20120810#ResourceNotFoundException','message':'no'}");
	error_is(ERR_SERIALIZATION, "no",
	         "{'__type':'com.amazon.coral.service#SerializationException','Message':'no'}");
	error_is(ERR_SERIALIZATION, "", "{'__type':'com.amazon.coral.service#SerializationException'}");
	error_is(ERR_UNKNOWN_OPERATION, "",
	         "{'__type':'com.amazon.coral.service#UnknownOperationException'}");
	error_is(ERR_STORAGE, "no",
	         "{'__type':'com.amazonaws.dynamodb.v20120810#InternalServerError','message':'no'}");
}

TEST(errors, a_text_that_was_cut_within_a_character_is_mended)
{
	error_is(ERR_INVALID, "a\xc3\xa9z\xe2\x82",
	         "{'__type':'com.amazon.coral.validate#ValidationException',"
	         "'message':'a\xc3\xa9z?\?'}");
	error_is(ERR_INVALID, "\xff\xfe",
	         "{'__type':'com.amazon.coral.validate#ValidationException','message':'?\?'}");
}
