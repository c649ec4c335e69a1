/* The client's side of the protocol: golden messages, and that our own server reads what a client sends as it was meant. Requests are
 * given as people write them; the client prints the trees that come of them. Answers are as AWS documents them. */
#include "decode.h"

#include "dynamo/client.h"

static struct client client_of(struct arena *a, struct buf *out, struct json_writer *w)
{
	buf_init(out, a);
	json_writer_init(w, out);
	return (struct client){w, a};
}

static void send_get(struct client c, const struct dynamo_request *q)
{
	client_get(c, &q->get);
}

static void send_write(struct client c, const struct dynamo_request *q)
{
	client_write(c, &q->write);
}

static void send_query(struct client c, const struct dynamo_request *q)
{
	client_query(c, &q->query);
}

static void send_batch_get(struct client c, const struct dynamo_request *q)
{
	client_batch_get(c, &(struct table_batch_get){q->batch.gets, q->batch.count});
}

static void send_batch_write(struct client c, const struct dynamo_request *q)
{
	client_batch_write(c, &(struct table_batch_write){q->batch.writes, q->batch.count});
}

static void send_transact_get(struct client c, const struct dynamo_request *q)
{
	client_transact_get(c, &q->transact_get);
}

static void send_transact_write(struct client c, const struct dynamo_request *q)
{
	client_transact_write(c, &q->transact_write);
}

static void send_create(struct client c, const struct dynamo_request *q)
{
	client_create_table(c, &q->create, (struct bytes){NULL, 0});
}

static void send_alter(struct client c, const struct dynamo_request *q)
{
	client_update_table(c, &q->alter.alter);
}

static void send_list(struct client c, const struct dynamo_request *q)
{
	client_list_tables(c, &q->list);
}

static void send_ttl(struct client c, const struct dynamo_request *q)
{
	client_update_ttl(c, q->ttl.table, q->ttl.attribute, q->ttl.enabled);
}

/* What is given comes out as `sent`; and what was sent, read and sent again, is the same. */
static void sends(__typeof__(request_get) *decode, void (*send)(struct client, const struct dynamo_request *),
                  const char *given, const char *sent)
{
	for (int round = 0; round < 2; round++) {
		struct decoded     d;
		struct buf         out;
		struct json_writer w;
		struct bytes       want;

		decode_ok(&d, decode, round == 0 ? given : sent);
		send(client_of(&d.arena, &out, &w), &d.request);
		want = quoted(&d.arena, sent);
		if (!bytes_equal(buf_bytes(&out), want))
			fail_msg("\n  got  %.*s\n  want %.*s", BYTES_ARG(buf_bytes(&out)), BYTES_ARG(want));
		decoded_release(&d);
	}
}

TEST(request, of_one_item)
{
	sends(request_get, send_get,
	      "{'TableName':'Thread','Key':{'ForumName':{'S':'Amazon DynamoDB'}},'ProjectionExpression':"
	      "'LastPostDateTime, "
	      "Tags[0].#n','ExpressionAttributeNames':{'#n':'name'},'ConsistentRead':true}",
	      "{'TableName':'Thread','Key':{'ForumName':{'S':'Amazon "
	      "DynamoDB'}},'ProjectionExpression':'#0,#1[0]"
	      ".#2','ExpressionAttributeNames':{'#0':'LastPostDateTime','#1':'Tags','#2':'name'},"
	      "'ConsistentRead':true}");
	sends(request_get, send_get, "{'TableName':'abc','Key':{'p':{'B':'AAE='}}}",
	      "{'TableName':'abc','Key':{'p':{'B':'AAE='}}}");
}

TEST(request, that_writes)
{
	sends(request_put, send_write,
	      "{'TableName':'abc','Item':{'p':{'S':'a'},'n':{'N':'1.50'}},'ConditionExpression':"
	      "'attribute_not_exists(p) OR (n < :v AND n <> "
	      ":w)','ExpressionAttributeValues':{':v':{'N':'5'},':w':"
	      "{'N':'4'}},'ReturnValues':'ALL_OLD','ReturnValuesOnConditionCheckFailure':'ALL_OLD'}",
	      "{'TableName':'abc','Item':{'n':{'N':'1.5'},'p':{'S':'a'}},'ConditionExpression':"
	      "'attribute_not_exists(#0) OR #1<:0 AND #1<>:1','ExpressionAttributeNames':{'#0':'p','#1':'n'},"
	      "'ExpressionAttributeValues':{':0':{'N':'5'},':1':{'N':'4'}},"
	      "'ReturnValuesOnConditionCheckFailure':'ALL_OLD','ReturnValues':'ALL_OLD'}");
	sends(request_update, send_write,
	      "{'TableName':'abc','Key':{'p':{'S':'a'}},'UpdateExpression':'SET a = if_not_exists(a, :z) + "
	      ":o, b.c "
	      "= list_append(b.c, :l) REMOVE d ADD e :o DELETE f "
	      ":s','ExpressionAttributeValues':{':z':{'N':'0'},"
	      "':o':{'N':'1'},':l':{'L':[]},':s':{'SS':['x']}},'ReturnValues':'UPDATED_NEW'}",
	      "{'TableName':'abc','Key':{'p':{'S':'a'}},'UpdateExpression':'SET "
	      "#0=if_not_exists(#0,:0)+:1,#1.#2="
	      "list_append(#1.#2,:2) REMOVE #3 ADD #4 :3 DELETE #5 "
	      ":4','ExpressionAttributeNames':{'#0':'a','#1':"
	      "'b','#2':'c','#3':'d','#4':'e','#5':'f'},'ExpressionAttributeValues':{':0':{'N':'0'},':1':{'N'"
	      ":'1'"
	      "},':2':{'L':[]},':3':{'N':'1'},':4':{'SS':['x']}},'ReturnValues':'UPDATED_NEW'}");
	sends(request_update, send_write, "{'TableName':'abc','Key':{'p':{'S':'a'}}}",
	      "{'TableName':'abc','Key':{'p':{'S':'a'}}}");
	sends(request_delete, send_write,
	      "{'TableName':'abc','Key':{'p':{'S':'a'}},'ReturnValues':'ALL_OLD'}",
	      "{'TableName':'abc','Key':{'p':{'S':'a'}},'ReturnValues':'ALL_OLD'}");
}

TEST(request, for_a_page)
{
	sends(request_query, send_query,
	      "{'TableName':'abc','IndexName':'by-g','KeyConditionExpression':'g = :g AND begins_with(i, "
	      ":i)',"
	      "'FilterExpression':'size(x) > "
	      ":n','ExpressionAttributeValues':{':g':{'S':'G'},':i':{'S':'a'},':n':{"
	      "'N':'3'}},'ProjectionExpression':'x','Limit':7,'ScanIndexForward':false,'ExclusiveStartKey':{'"
	      "g':{"
	      "'S':'G'}}}",
	      "{'TableName':'abc','IndexName':'by-g','KeyConditionExpression':'#0=:0 AND begins_with(#1,:1)',"
	      "'FilterExpression':'size(#2)>:2','ProjectionExpression':'#2','ExpressionAttributeNames':{'#0':"
	      "'g',"
	      "'#1':'i','#2':'x'},'ExpressionAttributeValues':{':0':{'S':'G'},':1':{'S':'a'},':2':{'N':'3'}},"
	      "'ExclusiveStartKey':{'g':{'S':'G'}},'Limit':7,'ScanIndexForward':false}");
	sends(request_query, send_query,
	      "{'TableName':'abc','KeyConditionExpression':'p = :p AND s BETWEEN :a AND :b',"
	      "'ExpressionAttributeValues':{':p':{'S':'x'},':a':{'N':'1'},':b':{'N':'2'}},'Select':'COUNT'}",
	      "{'TableName':'abc','KeyConditionExpression':'#0=:0 AND #1 BETWEEN :1 AND :2',"
	      "'ExpressionAttributeNames':{'#0':'p','#1':'s'},'ExpressionAttributeValues':{':0':{'S':'x'},':"
	      "1':{"
	      "'N':'1'},':2':{'N':'2'}},'Select':'COUNT'}");
	sends(request_scan, send_query,
	      "{'TableName':'abc','Segment':1,'TotalSegments':4,'ConsistentRead':true,'Select':'ALL_"
	      "ATTRIBUTES'}",
	      "{'TableName':'abc','ConsistentRead':true,'Select':'ALL_ATTRIBUTES','Segment':1,'TotalSegments'"
	      ":4}");
}

TEST(request, of_a_batch)
{
	sends(request_batch_get, send_batch_get,
	      "{'RequestItems':{'abc':{'Keys':[{'p':{'S':'a'}},{'p':{'S':'b'}}],'ConsistentRead':true},'def':"
	      "{"
	      "'Keys':[{'q':{'N':'1'}}],'ProjectionExpression':'x'}}}",
	      "{'RequestItems':{'abc':{'Keys':[{'p':{'S':'a'}},{'p':{'S':'b'}}],'ConsistentRead':true},'def':"
	      "{"
	      "'Keys':[{'q':{'N':'1'}}],'ProjectionExpression':'#0','ExpressionAttributeNames':{'#0':'x'}}}"
	      "}");
	sends(request_batch_write, send_batch_write,
	      "{'RequestItems':{'abc':[{'PutRequest':{'Item':{'p':{'S':'a'}}}},{'DeleteRequest':{'Key':{'p':{"
	      "'S':"
	      "'b'}}}}]}}",
	      "{'RequestItems':{'abc':[{'PutRequest':{'Item':{'p':{'S':'a'}}}},{'DeleteRequest':{'Key':{'p':{"
	      "'S':"
	      "'b'}}}}]}}");
}

TEST(request, of_a_transaction)
{
	sends(request_transact_get, send_transact_get,
	      "{'TransactItems':[{'Get':{'TableName':'abc','Key':{'p':{'S':'a'}}}}]}",
	      "{'TransactItems':[{'Get':{'TableName':'abc','Key':{'p':{'S':'a'}}}}]}");
	sends(request_transact_write, send_transact_write,
	      "{'ClientRequestToken':'t','TransactItems':[{'Put':{'TableName':'abc','Item':{'p':{'S':'a'}}}},"
	      "{"
	      "'Update':{'TableName':'abc','Key':{'p':{'S':'b'}},'UpdateExpression':'REMOVE x'}},{'Delete':{"
	      "'TableName':'abc','Key':{'p':{'S':'c'}}}},{'ConditionCheck':{'TableName':'abc','Key':{'p':{'S'"
	      ":'d'"
	      "}},'ConditionExpression':'attribute_exists(p)','ReturnValuesOnConditionCheckFailure':'ALL_OLD'"
	      "}}]}",
	      "{'ClientRequestToken':'t','TransactItems':[{'Put':{'TableName':'abc','Item':{'p':{'S':'a'}}}},"
	      "{"
	      "'Update':{'TableName':'abc','Key':{'p':{'S':'b'}},'UpdateExpression':'REMOVE #0',"
	      "'ExpressionAttributeNames':{'#0':'x'}}},{'Delete':{'TableName':'abc','Key':{'p':{'S':'c'}}}},{"
	      "'ConditionCheck':{'TableName':'abc','Key':{'p':{'S':'d'}},'ConditionExpression':"
	      "'attribute_exists(#0)','ExpressionAttributeNames':{'#0':'p'},"
	      "'ReturnValuesOnConditionCheckFailure':'ALL_OLD'}}]}");
}

#define STRING(name) "{'AttributeName':'" name "','AttributeType':'S'}"

TEST(request, about_tables)
{
	sends(request_create_table, send_create,
	      "{'TableName':'abc','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[" STRING(
	              "p") "," STRING("s") "," STRING("g") "],'KeySchema':[{'AttributeName':'p','KeyType':'"
	                                                   "HASH'},{"
	                                                   "'AttributeName':'s','KeyType':'RANGE'}],'"
	                                                   "GlobalSecondaryIndexes':[{"
	                                                   "'IndexName':'by-g','KeySchema':[{'AttributeName':"
	                                                   "'g','KeyType':'HASH'}"
	                                                   "],'Projection':{'ProjectionType':'INCLUDE','"
	                                                   "NonKeyAttributes':['x']}}],"
	                                                   "'DeletionProtectionEnabled':true,'Tags':[{'Key':'"
	                                                   "k','Value':''}]}",
	      "{'TableName':'abc','AttributeDefinitions':[" STRING("p") "," STRING("s") "," STRING(
	              "g") "],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'},{'AttributeName':'s','"
	                   "KeyType':"
	                   "'RANGE'}],'BillingMode':'PAY_PER_REQUEST','GlobalSecondaryIndexes':[{'IndexName':"
	                   "'by-g','KeySchema':[{'AttributeName':'g','KeyType':'HASH'}],'Projection':{"
	                   "'ProjectionType':'INCLUDE','NonKeyAttributes':['x']}}],'"
	                   "DeletionProtectionEnabled':"
	                   "true,'Tags':[{'Key':'k','Value':''}]}");
	sends(request_update_table, send_alter,
	      "{'TableName':'abc','BillingMode':'PROVISIONED','ProvisionedThroughput':{'ReadCapacityUnits':3,"
	      "'WriteCapacityUnits':4},'GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'by-g'}}]}",
	      "{'TableName':'abc','BillingMode':'PROVISIONED','ProvisionedThroughput':{'ReadCapacityUnits':3,"
	      "'WriteCapacityUnits':4},'GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'by-g'}}]}");
	sends(request_list_tables, send_list, "{'ExclusiveStartTableName':'abc','Limit':3}",
	      "{'ExclusiveStartTableName':'abc','Limit':3}");
	sends(request_update_ttl, send_ttl,
	      "{'TableName':'abc','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}",
	      "{'TableName':'abc','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}");
}

/* ---- answers ---- */

struct told {
	struct arena        arena;
	struct json_reader *reader;
	struct json        *body;
	struct err          err;
};

static void told_open(struct told *t, const char *text)
{
	arena_init(&t->arena);
	t->reader = json_reader_open();
	assert_int_equal(json_read(t->reader, &t->arena, quoted(&t->arena, text), &t->body, &t->err),
	                 ERR_NONE);
}

static void told_close(struct told *t)
{
	json_reader_close(t->reader);
	arena_release(&t->arena);
}

static const struct item no_key = {NULL, 0};

TEST(answer, with_an_item_or_none)
{
	struct table_get_result   get;
	struct table_write_result write;
	struct told               t;

	told_open(&t, "{'ConsumedCapacity':{'CapacityUnits':1,'TableName':'Thread'},'Item':{'Tags':{'SS':['"
	              "Update','Help']},'LastPostDateTime':{'S':'201303190436'}}}");
	assert_int_equal(client_read_get(&t.arena, t.body, &no_key, &get, &t.err), ERR_NONE);
	assert_true(get.found);
	assert_bytes(item_get(&get.item, BYTES("LastPostDateTime"))->text, "201303190436");
	assert_int_equal(get.size_bytes, 16 + 12 + 4 + 10);
	told_close(&t);
	told_open(&t, "{}");
	assert_int_equal(client_read_get(&t.arena, t.body, &no_key, &get, &t.err), ERR_NONE);
	assert_false(get.found);
	told_close(&t);
	told_open(&t, "{'Attributes':{'n':{'N':'2'}}}");
	assert_int_equal(client_read_write(&t.arena, t.body,
	                                   &(struct client_action){.returns = RETURN_UPDATED_NEW}, &write,
	                                   &t.err),
	                 ERR_NONE);
	assert_true(write.has_item);
	told_close(&t);
}

TEST(answer, with_an_attribute_that_no_request_may_name_is_read)
{
	struct table_get_result get;
	struct told             t;

	told_open(&t, "{'Item':{'':{'S':'a'},'m':{'M':{'':{'N':'1'}}}}}");
	assert_int_equal(client_read_get(&t.arena, t.body, &no_key, &get, &t.err), ERR_NONE);
	assert_bytes(item_get(&get.item, BYTES(""))->text, "a");
	told_close(&t);
}

TEST(answer, with_a_page)
{
	struct table_schema       schema = {.keys = {.hash = {BYTES("p"), VALUE_S}}};
	struct table_query        q = {.limit = 0};
	struct client_page        asked = {&q, &schema, NULL};
	struct table_query_result r;
	struct told               t;

	told_open(
	        &t,
	        "{'Count':1,'Items':[{'p':{'S':'a'}}],'ScannedCount':5,'LastEvaluatedKey':{'p':{'S':'a'}}}");
	assert_int_equal(client_read_query(&t.arena, t.body, &asked, &r, &t.err), ERR_NONE);
	assert_int_equal(r.count, 1);
	assert_int_equal(r.scanned, 5);
	assert_true(r.more);
	assert_bytes(item_get(&r.last_key, BYTES("p"))->text, "a");
	told_close(&t);
	told_open(&t, "{'Count':17,'ScannedCount':17}");
	assert_int_equal(client_read_query(&t.arena, t.body, &asked, &r, &t.err), ERR_STORAGE);
	q.count_only = true;
	assert_int_equal(client_read_query(&t.arena, t.body, &asked, &r, &t.err), ERR_NONE);
	assert_int_equal(r.count, 17);
	assert_false(r.more);
	told_close(&t);
}

static struct item key_named(struct arena *a, const char *value)
{
	struct member *m = arena_alloc(a, sizeof(*m));

	*m = (struct member){BYTES("p"), value_string(bytes_of(value))};
	return (struct item){m, 1};
}

TEST(answer, to_a_batch_in_any_order)
{
	struct table_batch_get_result r;
	struct table_get              gets[3];
	struct told                   t;

	told_open(&t, "{'Responses':{'abc':[{'p':{'S':'2'},'x':{'N':'1'}},{'p':{'S':'0'}}]},'UnprocessedKeys'"
	              ":{'abc':{'Keys':[{'p':{'S':'1'}}]}}}");
	for (int i = 0; i < 3; i++)
		gets[i] = (struct table_get){.table = BYTES("abc"),
		                             .key = key_named(&t.arena, i == 0   ? "0"
		                                                        : i == 1 ? "1"
		                                                                 : "2")};
	assert_int_equal(
	        client_read_batch_get(&t.arena, t.body, &(struct table_batch_get){gets, 3}, &r, &t.err),
	        ERR_NONE);
	assert_true(r.results[0].found);
	assert_false(r.skipped[0]);
	assert_true(r.skipped[1]);
	assert_true(r.results[2].found);
	assert_int_equal(r.results[2].item.count, 2);
	told_close(&t);
	told_open(&t, "{'Responses':{'abc':[{'p':{'S':'nobody'}}]}}");
	assert_int_equal(
	        client_read_batch_get(&t.arena, t.body, &(struct table_batch_get){gets, 0}, &r, &t.err),
	        ERR_STORAGE);
	told_close(&t);
}

TEST(answer, that_describes_a_table)
{
	struct client_table r;
	struct told         t;

	told_open(&t,
	          "{'Table':{'TableArn':'arn:aws:dynamodb:us-west-2:123456789012:table/"
	          "Thread','AttributeDefinitions':["
	          "{'AttributeName':'ForumName','AttributeType':'S'},{'AttributeName':'At','AttributeType':'"
	          "N'}],"
	          "'CreationDateTime':1.363729002358E9,'ItemCount':7,'KeySchema':[{'AttributeName':'"
	          "ForumName','KeyType':"
	          "'HASH'}],'GlobalSecondaryIndexes':[{'IndexName':'by-at','IndexSizeBytes':9,'ItemCount':3,'"
	          "IndexStatus':"
	          "'CREATING','KeySchema':[{'AttributeName':'At','KeyType':'HASH'}],'Projection':{'"
	          "ProjectionType':"
	          "'KEYS_ONLY'}}],'ProvisionedThroughput':{'NumberOfDecreasesToday':0,'ReadCapacityUnits':5,"
	          "'WriteCapacityUnits':6},'TableName':'Thread','TableSizeBytes':2048,'TableStatus':'ACTIVE'}"
	          "}");
	assert_int_equal(client_read_table(&t.arena, t.body, BYTES("Thread"), &r, &t.err), ERR_NONE);
	assert_bytes(r.status, "ACTIVE");
	assert_bytes(r.description.schema.name, "Thread");
	assert_bytes(r.description.schema.keys.hash.name, "ForumName");
	assert_int_equal(r.description.schema.created_us, 1363729002358000);
	assert_int_equal(r.description.item_count, 7);
	assert_false(r.description.schema.on_demand);
	assert_int_equal(r.description.schema.write_units, 6);
	assert_int_equal(r.description.schema.index_count, 1);
	assert_int_equal(r.description.schema.indexes[0].status, INDEX_CREATING);
	assert_int_equal(r.description.schema.indexes[0].projection, PROJECT_KEYS_ONLY);
	assert_int_equal(r.description.schema.indexes[0].keys.hash.type, VALUE_N);
	told_close(&t);
}

TEST(answer, that_cancels_a_transaction)
{
	struct client_action  actions[3] = {{.conditional = true}};
	struct client_actions asked = {actions, 3};
	struct table_reason   r[3];
	struct told           t;
	bool                  busy;

	told_open(&t, "{'__type':'com.amazonaws.dynamodb.v20120810#TransactionCanceledException','"
	              "CancellationReasons':[{'Code':"
	              "'None'},{'Code':'ConditionalCheckFailed','Item':{'p':{'S':'a'}},'Message':'The "
	              "conditional request failed'"
	              "},{'Code':'TransactionConflict','Message':'Transaction is ongoing for the "
	              "item'}],'Message':'Transaction "
	              "cancelled'}");
	actions[1] = (struct client_action){.key = key_named(&t.arena, "a"), .conditional = true};
	assert_int_equal(client_read_reasons(&t.arena, t.body, &asked, r, &busy, &t.err), ERR_NONE);
	assert_false(busy);
	assert_int_equal(r[0].code, ERR_NONE);
	assert_int_equal(r[1].code, ERR_CONDITION);
	assert_string_equal(r[1].text, "The conditional request failed");
	assert_true(r[1].has_item);
	assert_int_equal(r[2].code, ERR_CONDITION);
	assert_bytes(client_error_text(t.body), "Transaction cancelled");
	asked.count = 2;
	assert_int_equal(client_read_reasons(&t.arena, t.body, &asked, r, &busy, &t.err), ERR_STORAGE);
	told_close(&t);
}

TEST(answer, about_recovery_and_the_key_of_encryption)
{
	struct client_table table;
	struct told         t;
	bool                on;

	/* the outer status is always ENABLED */
	told_open(&t, "{'ContinuousBackupsDescription':{'ContinuousBackupsStatus':'ENABLED',"
	              "'PointInTimeRecoveryDescription':{'PointInTimeRecoveryStatus':'DISABLED'}}}");
	assert_int_equal(client_read_recovery(t.body, &on, &t.err), ERR_NONE);
	assert_false(on);
	told_close(&t);
	told_open(&t, "{'ContinuousBackupsDescription':{'ContinuousBackupsStatus':'ENABLED',"
	              "'PointInTimeRecoveryDescription':{'PointInTimeRecoveryStatus':'ENABLED'}}}");
	assert_int_equal(client_read_recovery(t.body, &on, &t.err), ERR_NONE);
	assert_true(on);
	assert_int_equal(client_read_table(&t.arena, t.body, BYTES("t"), &table, &t.err), ERR_STORAGE);
	told_close(&t);
	told_open(&t, "{'Table':{'TableName':'t','TableStatus':'ACTIVE','AttributeDefinitions':[{'"
	              "AttributeName':'PK',"
	              "'AttributeType':'S'}],'KeySchema':[{'AttributeName':'PK','KeyType':'HASH'}],"
	              "'SSEDescription':{'Status':'ENABLED','SSEType':'KMS','KMSMasterKeyArn':'arn:key'}}}");
	assert_int_equal(client_read_table(&t.arena, t.body, BYTES("t"), &table, &t.err), ERR_NONE);
	assert_bytes(table.kms_key, "arn:key");
	assert_int_equal(client_read_recovery(t.body, &on, &t.err), ERR_STORAGE);
	told_close(&t);
}

TEST(answer, about_time_to_live_and_tags)
{
	struct table_schema s;
	struct bytes        attribute;
	struct told         t;

	told_open(&t, "{'TimeToLiveDescription':{'AttributeName':'ttl','TimeToLiveStatus':'ENABLED'}}");
	assert_int_equal(client_read_ttl(&t.arena, t.body, &attribute, &t.err), ERR_NONE);
	assert_bytes(attribute, "ttl");
	told_close(&t);
	told_open(&t, "{'TimeToLiveDescription':{'AttributeName':'ttl','TimeToLiveStatus':'DISABLING'}}");
	assert_int_equal(client_read_ttl(&t.arena, t.body, &attribute, &t.err), ERR_NONE);
	assert_bytes(attribute, "");
	told_close(&t);
	told_open(&t, "{'Tags':[{'Key':'b','Value':'1'},{'Key':'a','Value':''}]}");
	assert_int_equal(client_read_tags(&t.arena, t.body, &s, &t.err), ERR_NONE);
	assert_int_equal(s.tag_count, 2);
	assert_bytes(s.tags[0].key, "a");
	told_close(&t);
}
