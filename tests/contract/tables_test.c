/* Tables: created, described, listed, altered, removed; tags; how many of what there may be. */
#include "contract/contract.h"

#define DEFINITION(name) "{'AttributeName':'" name "','AttributeType':'S'}"
#define CREATE(name)                                                                                         \
	"{'TableName':'" name "','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[" DEFINITION(       \
	        "p") "],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]}"

CONTRACT(table, is_described_as_it_was_created)
{
	union answer r;

	create(c, "S", "N", ",{'AttributeName':'g','AttributeType':'B'}",
	       ",'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'AttributeName':'g','KeyType':'"
	       "HASH'}],"
	       "'Projection':{'ProjectionType':'INCLUDE','NonKeyAttributes':['x']}}],'Tags':[{'Key':'k','"
	       "Value':'v'}]");
	r = ok(c, "DescribeTable", "{'TableName':'things'}");
	assert_bytes(r.table.schema.name, "things");
	assert_bytes(r.table.schema.keys.hash.name, "p");
	assert_int_equal(r.table.schema.keys.hash.type, VALUE_S);
	assert_bytes(r.table.schema.keys.range.name, "s");
	assert_int_equal(r.table.schema.keys.range.type, VALUE_N);
	assert_true(r.table.schema.on_demand);
	assert_int_equal(r.table.schema.index_count, 1);
	assert_bytes(r.table.schema.indexes[0].name, "by-g");
	assert_int_equal(r.table.schema.indexes[0].keys.hash.type, VALUE_B);
	assert_int_equal(r.table.schema.indexes[0].projection, PROJECT_INCLUDE);
	assert_bytes(r.table.schema.indexes[0].include[0], "x");
	assert_int_equal(r.table.schema.indexes[0].status, INDEX_ACTIVE);
	assert_int_equal(r.table.schema.created_us / 1000000, START_S);
	assert_int_equal(r.table.schema.id.len, 36);
	assert_int_equal(r.table.item_count, 0);
}

CONTRACT(table, counts_its_items_and_those_of_its_indexes)
{
	union answer r;

	create(c, "S", "", ",{'AttributeName':'g','AttributeType':'S'}",
	       ",'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'AttributeName':'g','KeyType':'"
	       "HASH'}],"
	       "'Projection':{'ProjectionType':'ALL'}}]");
	put(c, "{'p':{'S':'a'}}");
	put(c, "{'p':{'S':'b'},'g':{'S':'G'}}");
	put(c, "{'p':{'S':'b'},'g':{'S':'H'}}");
	r = ok(c, "DescribeTable", "{'TableName':'things'}");
	assert_int_equal(r.table.item_count, 2);
	assert_int_equal(r.table.index_item_counts[0], 1);
}

CONTRACT(table, name_can_be_used_once)
{
	create(c, "S", "", "", "");
	refused(c, "CreateTable", CREATE("things"), ERR_RESOURCE_IN_USE, "Table already exists: things");
	ok(c, "CreateTable", CREATE("Things")); /* another name */
}

CONTRACT(table, name_has_3_to_255_characters)
{
	refused(c, "CreateTable", CREATE("ab"), ERR_INVALID, NULL);
	ok(c, "CreateTable", CREATE("abc"));
	for (size_t more = 0; more <= 1; more++) {
		const char *body =
		        BODY(c,
		             "{'TableName':'%s','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':["
		             "{'AttributeName':'p','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p',"
		             "'KeyType':'HASH'}]}",
		             text_of_length(c, TABLE_NAME_MAX + more));

		if (more == 0)
			ok(c, "CreateTable", body);
		else
			refused(c, "CreateTable", body, ERR_INVALID, NULL);
	}
}

CONTRACT(table, that_is_removed_is_gone_with_all_its_items)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'}}");
	r = ok(c, "DeleteTable", "{'TableName':'things'}");
	assert_true(r.table.deleting);
	assert_bytes(r.table.schema.name, "things");
	refused(c, "DescribeTable", "{'TableName':'things'}", ERR_NO_RESOURCE,
	        "Requested resource not found: Table: things not found");
	refused(c, "DeleteTable", "{'TableName':'things'}", ERR_NO_RESOURCE,
	        "Requested resource not found: Table: things not found");
	create(c, "S", "", "", "");
	assert_there(c, "{'p':{'S':'a'}}", NULL);
}

CONTRACT(table, that_is_protected_is_not_removed)
{
	create(c, "S", "", "", ",'DeletionProtectionEnabled':true");
	refused(c, "DeleteTable", "{'TableName':'things'}", ERR_INVALID, MSG_TABLE_PROTECTED);
	ok(c, "UpdateTable", "{'TableName':'things','DeletionProtectionEnabled':false}");
	ok(c, "DeleteTable", "{'TableName':'things'}");
}

CONTRACT(table, billing_can_be_changed)
{
	union answer r;

	create(c, "S", "", "", "");
	ok(c, "UpdateTable",
	   "{'TableName':'things','BillingMode':'PROVISIONED','ProvisionedThroughput':{'ReadCapacityUnits':3,"
	   "'WriteCapacityUnits':4}}");
	r = ok(c, "DescribeTable", "{'TableName':'things'}");
	assert_false(r.table.schema.on_demand);
	assert_int_equal(r.table.schema.read_units, 3);
	assert_int_equal(r.table.schema.write_units, 4);
}

#define UNITS_SAME(what, read, write)                                                                        \
	"The provisioned throughput for the " what " will not change. The requested value equals the "       \
	"current value. Current ReadCapacityUnits provisioned for the " what ": " read                       \
	". Requested ReadCapacityUnits: " read ". Current WriteCapacityUnits provisioned for the " what      \
	": " write ". Requested WriteCapacityUnits: " write                                                  \
	". Refer to the Amazon DynamoDB Developer Guide for current "                                        \
	"limits and how to request higher limits."

CONTRACT(table, units_that_stay_as_they_are_are_refused)
{
	ok(c, "CreateTable",
	   "{'TableName':'things','ProvisionedThroughput':{'ReadCapacityUnits':5,'WriteCapacityUnits':6},"
	   "'AttributeDefinitions':[{'AttributeName':'p','AttributeType':'S'},{'AttributeName':'g',"
	   "'AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}],'"
	   "GlobalSecondaryIndexes':[{"
	   "'IndexName':'by-g','KeySchema':[{'AttributeName':'g','KeyType':'HASH'}],'Projection':{'"
	   "ProjectionType':"
	   "'ALL'},'ProvisionedThroughput':{'ReadCapacityUnits':1,'WriteCapacityUnits':2}}]}");
	refused(c, "UpdateTable",
	        "{'TableName':'things','ProvisionedThroughput':{'ReadCapacityUnits':5,'WriteCapacityUnits':6}"
	        "}",
	        ERR_INVALID, UNITS_SAME("table", "5", "6"));
	refused(c, "UpdateTable",
	        "{'TableName':'things','GlobalSecondaryIndexUpdates':[{'Update':{'IndexName':'by-g',"
	        "'ProvisionedThroughput':{'ReadCapacityUnits':1,'WriteCapacityUnits':2}}}]}",
	        ERR_INVALID, UNITS_SAME("index by-g", "1", "2"));
	ok(c, "UpdateTable",
	   "{'TableName':'things','ProvisionedThroughput':{'ReadCapacityUnits':5,'WriteCapacityUnits':7}}");
}

CONTRACT(table, time_to_live_can_be_switched_on_and_off)
{
	create(c, "S", "", "", "");
	ok(c, "UpdateTimeToLive",
	   "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'e'}}");
	assert_bytes(ok(c, "DescribeTable", "{'TableName':'things'}").table.schema.ttl_attribute, "e");
	ok(c, "UpdateTimeToLive",
	   "{'TableName':'things','TimeToLiveSpecification':{'Enabled':false,'AttributeName':'e'}}");
	assert_bytes(ok(c, "DescribeTable", "{'TableName':'things'}").table.schema.ttl_attribute, "");
}

/* ---- listing ---- */

CONTRACT(list, is_sorted_and_comes_by_page)
{
	union answer r;

	ok(c, "CreateTable", CREATE("bbb"));
	ok(c, "CreateTable", CREATE("ccc"));
	ok(c, "CreateTable", CREATE("aaa"));
	r = ok(c, "ListTables", "{'Limit':2}");
	assert_int_equal(r.list.count, 2);
	assert_bytes(r.list.names[0], "aaa");
	assert_bytes(r.list.names[1], "bbb");
	assert_true(r.list.more);
	r = ok(c, "ListTables", "{'Limit':2,'ExclusiveStartTableName':'bbb'}");
	assert_int_equal(r.list.count, 1);
	assert_bytes(r.list.names[0], "ccc");
	assert_false(r.list.more);
}

CONTRACT(list, may_start_at_a_name_that_is_not_there)
{
	union answer r;

	ok(c, "CreateTable", CREATE("aaa"));
	ok(c, "CreateTable", CREATE("ccc"));
	r = ok(c, "ListTables", "{'ExclusiveStartTableName':'bbb'}");
	assert_int_equal(r.list.count, 1);
	assert_bytes(r.list.names[0], "ccc");
}

static void create_numbered(struct contract *c, int count)
{
	for (int i = 0; i < count; i++)
		ok(c, "CreateTable",
		   BODY(c,
		        "{'TableName':'table-%04d','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
		        "AttributeName':"
		        "'p','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}]}",
		        i));
}

CONTRACT(list, holds_100_names_at_most)
{
	union answer r;

	create_numbered(c, TABLE_LIST_MAX);
	r = ok(c, "ListTables", "{}");
	assert_int_equal(r.list.count, TABLE_LIST_MAX);
	assert_false(r.list.more);
	ok(c, "CreateTable", CREATE("zzz"));
	r = ok(c, "ListTables", "{}");
	assert_int_equal(r.list.count, TABLE_LIST_MAX);
	assert_true(r.list.more);
	refused(c, "ListTables", BODY(c, "{'Limit':%d}", TABLE_LIST_MAX + 1), ERR_INVALID, NULL);
}

/* ---- tags ---- */

#define ARN "arn:aws:dynamodb:local:000000000000:table/things"

static const struct tag *tag_named(struct contract *c, const char *key)
{
	union answer r = ok(c, "DescribeTable", "{'TableName':'things'}");

	for (uint32_t i = 0; i < r.table.schema.tag_count; i++)
		if (bytes_is(r.table.schema.tags[i].key, key))
			return &r.table.schema.tags[i];
	return NULL;
}

CONTRACT(tag, is_set_replaced_and_removed)
{
	create(c, "S", "", "", "");
	ok(c, "TagResource",
	   "{'ResourceArn':'" ARN "','Tags':[{'Key':'b','Value':'1'},{'Key':'a','Value':''}]}");
	assert_bytes(tag_named(c, "b")->value, "1");
	assert_bytes(tag_named(c, "a")->value, "");
	ok(c, "TagResource", "{'ResourceArn':'" ARN "','Tags':[{'Key':'b','Value':'2'}]}");
	assert_bytes(tag_named(c, "b")->value, "2");
	ok(c, "UntagResource", "{'ResourceArn':'" ARN "','TagKeys':['b','nothing']}");
	assert_null(tag_named(c, "b"));
	assert_non_null(tag_named(c, "a"));
}

CONTRACT(tag, of_a_table_there_are_50_at_most)
{
	create(c, "S", "", "", "");
	for (int i = 0; i < TABLE_TAG_MAX; i++)
		ok(c, "TagResource",
		   BODY(c, "{'ResourceArn':'" ARN "','Tags':[{'Key':'%d','Value':'v'}]}", i));
	ok(c, "TagResource", "{'ResourceArn':'" ARN "','Tags':[{'Key':'0','Value':'w'}]}"); /* not one more */
	refused(c, "TagResource", "{'ResourceArn':'" ARN "','Tags':[{'Key':'more','Value':'v'}]}",
	        ERR_INVALID, NULL);
	assert_null(tag_named(c, "more"));
}

/* ---- how many indexes ---- */

static enum err_code create_with(struct contract *c, const char *kind, const char *keys, int count,
                                 int include)
{
	struct buf   out;
	union answer r;

	buf_init(&out, &c->f.arena);
	for (int i = 0; i < count; i++) {
		buf_add_bytes(&out,
		              bytes_of(BODY(c, "%s{'IndexName':'index-%d','KeySchema':[%s],'Projection':{",
		                            i > 0 ? "," : "", i, keys)));
		buf_add_bytes(&out, include == 0 ? BYTES("'ProjectionType':'ALL'}}")
		                                 : BYTES("'ProjectionType':'INCLUDE','NonKeyAttributes':["));
		for (int k = 0; k < include; k++)
			buf_add_bytes(&out, bytes_of(BODY(c, "%s'x%d'", k > 0 ? "," : "", k)));
		buf_add_bytes(&out, include == 0 ? BYTES("") : BYTES("]}}"));
	}
	buf_add_byte(&out, 0);
	return attempt(c, "CreateTable",
	               BODY(c,
	                    "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':"
	                    "[" DEFINITION("p") "," DEFINITION("s") "," DEFINITION(
	                            "g") "],'KeySchema':[{'AttributeName':'p',"
	                                 "'KeyType':'HASH'},{'AttributeName':"
	                                 "'s','KeyType':'RANGE'}],'%s':[%s]}",
	                    kind, out.data),
	               &r);
}

#define GLOBAL "GlobalSecondaryIndexes", "{'AttributeName':'g','KeyType':'HASH'}"
#define LOCAL                                                                                                \
	"LocalSecondaryIndexes",                                                                             \
	        "{'AttributeName':'p','KeyType':'HASH'},{'AttributeName':'g','KeyType':'RANGE'}"

CONTRACT(limit, of_global_indexes_is_20)
{
	assert_int_equal(create_with(c, GLOBAL, TABLE_GSI_MAX + 1, 0), ERR_INVALID);
	assert_string_equal(c->f.err.text, MSG_GSI_MAX);
	assert_int_equal(create_with(c, GLOBAL, TABLE_GSI_MAX, 0), ERR_NONE);
	refused(c, "UpdateTable",
	        "{'TableName':'things','AttributeDefinitions':[" DEFINITION(
	                "g") "],'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'one-more','KeySchema':"
	                     "[{'AttributeName'"
	                     ":'g','KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}}]}",
	        ERR_LIMIT, MSG_GSI_MAX);
}

CONTRACT(limit, of_local_indexes_is_5)
{
	assert_int_equal(create_with(c, LOCAL, TABLE_LSI_MAX + 1, 0), ERR_INVALID);
	assert_string_equal(c->f.err.text, MSG_LSI_MAX);
	assert_int_equal(create_with(c, LOCAL, TABLE_LSI_MAX, 0), ERR_NONE);
}

CONTRACT(limit, of_attributes_included_in_indexes_is_100)
{
	assert_int_equal(create_with(c, GLOBAL, 1, TABLE_INCLUDE_MAX + 1), ERR_INVALID);
	assert_int_equal(create_with(c, GLOBAL, 6, TABLE_INCLUDE_MAX / 5), ERR_INVALID);
	assert_string_equal(c->f.err.text, MSG_INCLUDE_MAX);
	assert_int_equal(create_with(c, GLOBAL, 5, TABLE_INCLUDE_MAX / 5), ERR_NONE);
}

CONTRACT(limit, of_tables_is_2500)
{
	create_numbered(c, TABLE_COUNT_MAX);
	refused(c, "CreateTable", CREATE("one-more"), ERR_LIMIT, NULL);
	ok(c, "DeleteTable", "{'TableName':'table-0000'}");
	ok(c, "CreateTable", CREATE("one-more"));
}

CONTRACT(limit, of_local_indexes_they_need_a_range_key_and_the_tables_hash_key)
{
	refused(c, "CreateTable",
	        "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[" DEFINITION(
	                "p") "," DEFINITION("g") "],'KeySchema':[{'AttributeName':'p','KeyType':'HASH'}],'"
	                                         "LocalSecondaryIndexes':[{'IndexName':"
	                                         "'index','KeySchema':[{'AttributeName':'p','KeyType':'HASH'}"
	                                         ",{'AttributeName':'g','KeyType':"
	                                         "'RANGE'}],'Projection':{'ProjectionType':'ALL'}}]}",
	        ERR_INVALID, MSG_LSI_NO_RANGE);
}
