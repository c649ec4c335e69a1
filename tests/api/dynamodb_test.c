/* Calls: every operation from bytes to bytes, on a backend that does nothing but say what it was asked. */
#include "test.h"

#include "api/dynamodb.h"

struct fake {
	struct table table;
	const char  *called; /* the last function of the backend that was called */
	struct err   fails;  /* if its code is set, every call fails so */
	bool         on_demand, condition_failed, cancelled;
	struct bytes ttl;
	char         ttl_text[16];
};

static enum err_code visit(struct table *t, const char *name, struct err *err)
{
	struct fake *f = (struct fake *)t;

	f->called = name;
	if (f->fails.code != ERR_NONE)
		*err = f->fails;
	return f->fails.code;
}

static enum err_code fake_get(struct table *t, struct arena *a, const struct table_get *q,
                              struct table_get_result *r, struct err *err)
{
	(void)a;
	(void)q;
	memset(r, 0, sizeof(*r));
	return visit(t, "get", err);
}

static enum err_code fake_write(struct table *t, struct arena *a, const struct table_write *q,
                                struct table_write_result *r, struct err *err)
{
	(void)a;
	(void)q;
	memset(r, 0, sizeof(*r));
	r->condition_failed = ((struct fake *)t)->condition_failed;
	return visit(t, "write", err);
}

static enum err_code fake_query(struct table *t, struct arena *a, const struct table_query *q,
                                struct table_query_result *r, struct err *err)
{
	(void)a;
	(void)q;
	memset(r, 0, sizeof(*r));
	return visit(t, "query", err);
}

static enum err_code fake_batch_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                    struct table_batch_get_result *r, struct err *err)
{
	r->results = arena_zalloc(a, q->count * sizeof(r->results[0]));
	r->skipped = arena_zalloc(a, q->count * sizeof(r->skipped[0]));
	return visit(t, "batch_get", err);
}

static enum err_code fake_batch_write(struct table *t, struct arena *a, const struct table_batch_write *q,
                                      struct table_batch_write_result *r, struct err *err)
{
	r->results = arena_zalloc(a, q->count * sizeof(r->results[0]));
	return visit(t, "batch_write", err);
}

static enum err_code fake_transact_write(struct table *t, struct arena *a,
                                         const struct table_transact_write *q,
                                         struct table_transact_result *r, struct err *err)
{
	memset(r, 0, sizeof(*r));
	r->cancelled = ((struct fake *)t)->cancelled;
	r->reasons = arena_zalloc(a, q->count * sizeof(r->reasons[0]));
	r->results = arena_zalloc(a, q->count * sizeof(r->results[0]));
	return visit(t, "transact_write", err);
}

static void describe(struct table *t, struct bytes name, struct table_description *r)
{
	struct fake *f = (struct fake *)t;

	memset(r, 0, sizeof(*r));
	r->schema.name = name;
	r->schema.keys.hash.name = BYTES("pk");
	r->schema.on_demand = f->on_demand;
	r->schema.ttl_attribute = f->ttl;
}

static enum err_code fake_create(struct table *t, struct arena *a, const struct table_schema *q,
                                 struct table_description *r, struct err *err)
{
	(void)a;
	describe(t, q->name, r);
	return visit(t, "create", err);
}

static enum err_code fake_describe(struct table *t, struct arena *a, struct bytes name,
                                   struct table_description *r, struct err *err)
{
	(void)a;
	describe(t, name, r);
	return visit(t, "describe", err);
}

static enum err_code fake_remove(struct table *t, struct arena *a, struct bytes name,
                                 struct table_description *r, struct err *err)
{
	(void)a;
	describe(t, name, r);
	return visit(t, "remove", err);
}

static enum err_code fake_list(struct table *t, struct arena *a, const struct table_list *q,
                               struct table_list_result *r, struct err *err)
{
	(void)a;
	(void)q;
	memset(r, 0, sizeof(*r));
	return visit(t, "list", err);
}

/* The request's memory is gone after the call. */
static void ttl_keep(struct fake *f, struct bytes name)
{
	assert_true(name.len <= sizeof(f->ttl_text));
	if (name.len > 0)
		memcpy(f->ttl_text, name.data, name.len);
	f->ttl = (struct bytes){f->ttl_text, name.len};
}

static enum err_code fake_alter(struct table *t, struct arena *a, const struct table_alter *q,
                                struct table_description *r, struct err *err)
{
	(void)a;
	describe(t, q->table, r);
	if (q->changes[0].kind == CHANGE_TTL)
		ttl_keep((struct fake *)t, q->changes[0].ttl_attribute);
	return visit(t, "alter", err);
}

static const struct table_backend backend = {
        .name = "fake",
        .get = fake_get,
        .write = fake_write,
        .query = fake_query,
        .batch_get = fake_batch_get,
        .batch_write = fake_batch_write,
        .transact_get = fake_batch_get,
        .transact_write = fake_transact_write,
        .create = fake_create,
        .describe = fake_describe,
        .list = fake_list,
        .alter = fake_alter,
        .remove = fake_remove,
};

struct outcome {
	struct arena arena;
	struct bytes body;
	int          status;
};

/* Single quotes stand for double ones. */
static struct bytes quoted(struct arena *a, const char *text)
{
	struct bytes copy = arena_copy(a, bytes_of(text));

	for (size_t i = 0; i < copy.len; i++)
		if (copy.data[i] == '\'')
			((char *)copy.data)[i] = '"';
	return copy;
}

static void call(struct fake *f, const char *target, const char *body, struct outcome *o)
{
	struct json_reader  *reader = json_reader_open();
	struct dynamodb_call c = {.arena = &o->arena};
	struct buf           out;
	struct err           err;
	enum err_code        rc;

	f->table.backend = &backend;
	f->called = "nothing";
	arena_init(&o->arena);
	buf_init(&out, &o->arena);
	rc = dynamodb_read(&c, reader, bytes_of(target), quoted(&o->arena, body), &err);
	if (rc == ERR_NONE)
		rc = dynamodb_decode(&c, &err);
	if (rc == ERR_NONE)
		rc = dynamodb_run(&c, &f->table, &err);
	o->status = rc == ERR_NONE ? err_status(dynamodb_encode(&c, &out))
	                           : dynamodb_encode_error(&o->arena, rc, &err, &out);
	o->body = buf_bytes(&out);
	json_reader_close(reader);
}

static void call_is(struct fake *f, const char *target, const char *body, int status, const char *expected)
{
	struct outcome o;

	call(f, target, body, &o);
	if (o.status != status || !bytes_equal(o.body, quoted(&o.arena, expected)))
		fail_msg("%s %s\n  got  %d %.*s\n  want %d %s", target, body, o.status, BYTES_ARG(o.body),
		         status, expected);
	arena_release(&o.arena);
}

#define TARGET(name) "DynamoDB_20120810." name
#define UNKNOWN      "{'__type':'com.amazon.coral.service#UnknownOperationException'}"
#define GARBLED      "{'__type':'com.amazon.coral.service#SerializationException'}"

TEST(dynamodb, every_operation_reaches_its_function_of_the_backend)
{
	static const struct {
		const char *name, *body, *called;
		int         status; /* 200 unless set */
	} rows[] = {
	        {"UpdateItem", "{'TableName':'abc','Key':{}}", "write", 0},
	        {"GetItem", "{'TableName':'abc','Key':{}}", "get", 0},
	        {"PutItem", "{'TableName':'abc','Item':{}}", "write", 0},
	        {"Query",
	         "{'TableName':'abc','KeyConditionExpression':'a = "
	         ":a','ExpressionAttributeValues':{':a':{'S':'x'}}}",
	         "query", 0},
	        {"DeleteItem", "{'TableName':'abc','Key':{}}", "write", 0},
	        {"TransactWriteItems", "{'TransactItems':[{'Delete':{'TableName':'abc','Key':{}}}]}",
	         "transact_write", 0},
	        {"TransactGetItems", "{'TransactItems':[{'Get':{'TableName':'abc','Key':{}}}]}", "batch_get",
	         0},
	        {"BatchGetItem", "{'RequestItems':{'abc':{'Keys':[{}]}}}", "batch_get", 0},
	        {"BatchWriteItem", "{'RequestItems':{'abc':[{'DeleteRequest':{'Key':{}}}]}}", "batch_write",
	         0},
	        {"Scan", "{'TableName':'abc'}", "query", 0},
	        {"DescribeTable", "{'TableName':'abc'}", "describe", 0},
	        {"ListTables", "{}", "list", 0},
	        {"CreateTable",
	         "{'TableName':'abc','BillingMode':'PAY_PER_REQUEST','KeySchema':[{'AttributeName':'a','"
	         "KeyType':'HASH'}],"
	         "'AttributeDefinitions':[{'AttributeName':'a','AttributeType':'S'}]}",
	         "create", 0},
	        {"UpdateTable", "{'TableName':'abc','DeletionProtectionEnabled':true}", "alter", 0},
	        {"DeleteTable", "{'TableName':'abc'}", "remove", 0},
	        {"UpdateTimeToLive",
	         "{'TableName':'abc','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'t'}}",
	         "alter", 0},
	        {"DescribeTimeToLive", "{'TableName':'abc'}", "describe", 0},
	        {"TagResource",
	         "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc','Tags':[{'Key':'k','Value':''}]}", "alter",
	         0},
	        {"UntagResource", "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc','TagKeys':['k']}", "alter",
	         0},
	        {"ListTagsOfResource", "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc'}", "describe", 0},
	        {"DescribeLimits", "{}", "nothing", 0},
	        {"DescribeEndpoints", "{}", "nothing", 0},
	        {"DescribeContinuousBackups", "{'TableName':'abc'}", "describe", 0},
	        {"DescribeContributorInsights", "{'TableName':'abc'}", "describe", 0},
	        {"DescribeKinesisStreamingDestination", "{'TableName':'abc'}", "describe", 0},
	        {"DescribeTableReplicaAutoScaling", "{'TableName':'abc'}", "describe", 0},
	        {"GetResourcePolicy", "{'ResourceArn':'arn:aws:dynamodb:x:0:table/abc'}", "describe", 400},
	        {"DescribeGlobalTable", "{}", "nothing", 400},
	        {"DescribeGlobalTableSettings", "{}", "nothing", 400},
	        {"DescribeImport", "{}", "nothing", 400},
	        {"DescribeExport", "{}", "nothing", 400},
	        {"DescribeBackup", "{}", "nothing", 400},
	        {"ListContributorInsights", "{}", "nothing", 0},
	        {"ListGlobalTables", "{}", "nothing", 0},
	        {"ListImports", "{}", "nothing", 0},
	        {"ListExports", "{}", "nothing", 0},
	        {"ListBackups", "{}", "nothing", 0},
	};
	unsigned covered = 0;

	for (unsigned i = 0; operation_at(i) != NULL; i++) {
		for (unsigned j = 0; j < sizeof(rows) / sizeof(rows[0]); j++) {
			struct fake    f = {0};
			struct outcome o;
			char           target[64];

			if (!bytes_is(operation_at(i)->name, rows[j].name))
				continue;
			snprintf(target, sizeof(target), TARGET("%s"), rows[j].name);
			call(&f, target, rows[j].body, &o);
			if (o.status != (rows[j].status == 0 ? 200 : rows[j].status) ||
			    strcmp(f.called, rows[j].called) != 0)
				fail_msg("%s called %s: %.*s", rows[j].name, f.called, BYTES_ARG(o.body));
			arena_release(&o.arena);
			covered++;
		}
		assert_int_equal(covered, i + 1); /* an operation without a row here */
	}
}

TEST(dynamodb, writes_are_marked_as_such)
{
	for (unsigned i = 0; operation_at(i) != NULL; i++) {
		struct bytes name = operation_at(i)->name;
		bool reads = bytes_contains(name, BYTES("Get")) || bytes_contains(name, BYTES("Describe")) ||
		             bytes_contains(name, BYTES("List")) || bytes_is(name, "Query") ||
		             bytes_is(name, "Scan");

		assert_int_equal(operation_at(i)->kind, reads ? READ : WRITE);
	}
}

TEST(dynamodb, other_targets_are_unknown_operations)
{
	struct fake f = {0};

	call_is(&f, "", "{}", 400, UNKNOWN);
	call_is(&f, "GetItem", "{}", 400, UNKNOWN);
	call_is(&f, TARGET(""), "{}", 400, UNKNOWN);
	call_is(&f, TARGET("getitem"), "{}", 400, UNKNOWN);
	call_is(&f, TARGET("GetItemx"), "{}", 400, UNKNOWN);
	call_is(&f, TARGET("ExecuteStatement"), "{}", 400, UNKNOWN);
	call_is(&f, TARGET("UpdateContinuousBackups"), "{}", 400, UNKNOWN);
	call_is(&f, "DynamoDBStreams_20120810.ListStreams", "{}", 400, UNKNOWN);
	assert_string_equal(f.called, "nothing");
}

/* The texts about broken JSON are the library's. */
static void is_not_json(struct fake *f, const char *target, const char *body)
{
	struct outcome o;

	call(f, target, body, &o);
	assert_int_equal(o.status, 400);
	assert_true(bytes_contains(o.body, BYTES("#SerializationException")));
	assert_true(bytes_contains(o.body, BYTES("not valid JSON")));
	arena_release(&o.arena);
}

TEST(dynamodb, bodies_that_killed_other_servers_are_refused)
{
	struct fake  f = {0};
	struct arena a;
	char        *deep;

	is_not_json(&f, TARGET("GetItem"), "");
	call_is(&f, TARGET("GetItem"), "null", 400, GARBLED);
	call_is(&f, TARGET("BatchWriteItem"), "[null]", 400, GARBLED);
	is_not_json(&f, TARGET("GetItem"), "{'TableName'");
	arena_init(&a);
	deep = arena_zalloc(&a, 50000);
	strcpy(deep, "{'TableName':'abc','Item':{'a':");
	for (unsigned i = 0; i < 5000; i++)
		strcat(deep + 30, "{'L':[");
	is_not_json(&f, TARGET("PutItem"), deep);
	arena_release(&a);
}

TEST(dynamodb, an_expression_of_parentheses_is_refused)
{
	struct fake    f = {0};
	struct outcome o;
	char           body[5000] = "{'TableName':'abc','FilterExpression':'";
	size_t         start = strlen(body);

	memset(body + start, '(', 4096);
	strcpy(body + start + 4096, "'}");
	call(&f, TARGET("Scan"), body, &o);
	assert_int_equal(o.status, 400);
	assert_true(bytes_contains(o.body, BYTES("#ValidationException")));
	arena_release(&o.arena);
}

TEST(dynamodb, an_error_of_the_backend_is_answered_with_its_status)
{
	struct fake f = {0};

	err_set(&f.fails, ERR_NO_RESOURCE, "Requested resource not found");
	call_is(&f, TARGET("GetItem"), "{'TableName':'abc','Key':{}}", 400,
	        "{'__type':'com.amazonaws.dynamodb.v20120810#ResourceNotFoundException','message':'Requested "
	        "resource not "
	        "found'}");
	err_set(&f.fails, ERR_OVERLOADED, "busy");
	call_is(&f, TARGET("GetItem"), "{'TableName':'abc','Key':{}}", 503,
	        "{'__type':'com.amazonaws.dynamodb.v20120810#ServiceUnavailable','message':'busy'}");
}

TEST(dynamodb, false_conditions_and_cancelled_transactions_are_answered_400)
{
	struct fake f = {.condition_failed = true, .cancelled = true};

	call_is(&f, TARGET("PutItem"), "{'TableName':'abc','Item':{}}", 400,
	        "{'__type':'com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException','message':'The "
	        "conditional "
	        "request failed'}");
	call_is(&f, TARGET("TransactWriteItems"),
	        "{'TransactItems':[{'Delete':{'TableName':'abc','Key':{}}}]}", 400,
	        "{'__type':'com.amazonaws.dynamodb.v20120810#TransactionCanceledException','Message':'"
	        "Transaction "
	        "cancelled, please refer cancellation reasons for specific reasons "
	        "[None]','CancellationReasons':[{'Code':"
	        "'None'}]}");
}

#define TTL(enabled, name)                                                                                   \
	"{'TableName':'abc','TimeToLiveSpecification':{'Enabled':" enabled ",'AttributeName':'" name "'}}"
#define INVALID(text) "{'__type':'com.amazon.coral.validate#ValidationException','message':'" text "'}"

TEST(dynamodb, time_to_live_changes_only_what_is_not_so_yet)
{
	struct fake f = {0};

	call_is(&f, TARGET("UpdateTimeToLive"), TTL("false", "t"), 400,
	        INVALID("TimeToLive is already disabled"));
	call_is(&f, TARGET("UpdateTimeToLive"), TTL("true", "t"), 200,
	        "{'TimeToLiveSpecification':{'Enabled':true,'AttributeName':'t'}}");
	assert_bytes(f.ttl, "t");
	call_is(&f, TARGET("UpdateTimeToLive"), TTL("true", "t"), 400,
	        INVALID("TimeToLive is already enabled"));
	call_is(&f, TARGET("UpdateTimeToLive"), TTL("true", "u"), 400,
	        INVALID("TimeToLive is active on a different AttributeName: current AttributeName is t"));
	call_is(&f, TARGET("UpdateTimeToLive"), TTL("false", "t"), 200,
	        "{'TimeToLiveSpecification':{'Enabled':false,'AttributeName':'t'}}");
	assert_int_equal(f.ttl.len, 0);
}

TEST(dynamodb, units_alone_do_not_change_a_table_on_demand)
{
	struct fake    f = {.on_demand = true};
	struct outcome o;
	const char    *body =
	        "{'TableName':'abc','ProvisionedThroughput':{'ReadCapacityUnits':1,'WriteCapacityUnits':1}}";

	call_is(&f, TARGET("UpdateTable"), body, 400,
	        INVALID("One or more parameter values were invalid: Neither ReadCapacityUnits nor "
	                "WriteCapacityUnits can "
	                "be specified when BillingMode is PAY_PER_REQUEST"));
	f.on_demand = false;
	call(&f, TARGET("UpdateTable"), body, &o);
	assert_int_equal(o.status, 200);
	assert_string_equal(f.called, "alter");
	arena_release(&o.arena);
}
