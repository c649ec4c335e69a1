/* Indexes: which items are in them, what they show, and in which order. */
#include "contract/contract.h"

#define DEFINED ",{'AttributeName':'g','AttributeType':'S'},{'AttributeName':'i','AttributeType':'N'}"
#define GSI(projection)                                                                                      \
	",'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'AttributeName':'g','KeyType':'HASH'}" \
	","                                                                                                  \
	"{'AttributeName':'i','KeyType':'RANGE'}],'Projection':{" projection "}}]"
#define LSI(projection)                                                                                      \
	",'LocalSecondaryIndexes':[{'IndexName':'by-i','KeySchema':[{'AttributeName':'p','KeyType':'HASH'}," \
	"{'AttributeName':'i','KeyType':'RANGE'}],'Projection':{" projection "}}]"
#define ALL       "'ProjectionType':'ALL'"
#define KEYS      "'ProjectionType':'KEYS_ONLY'"
#define INCLUDE_X "'ProjectionType':'INCLUDE','NonKeyAttributes':['x']"

#define QUERY_G                                                                                              \
	"'TableName':'things','IndexName':'by-g','KeyConditionExpression':'g = "                             \
	":g','ExpressionAttributeValues':{':g':{'S':'G'}}"
#define QUERY_P                                                                                              \
	"'TableName':'things','IndexName':'by-i','KeyConditionExpression':'p = "                             \
	":p','ExpressionAttributeValues':{':p':{'S':'a'}}"

/* An item with everything. */
#define FULL "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'G'},'i':{'N':'5'},'x':{'N':'7'},'y':{'N':'8'}}"

static void global(struct contract *c, const char *projection)
{
	create(c, "S", "S", DEFINED, projection);
}

static void local(struct contract *c, const char *projection)
{
	create(c, "S", "S", ",{'AttributeName':'i','AttributeType':'N'}", projection);
}

CONTRACT(index, holds_only_items_with_all_its_key_attributes)
{
	union answer r;

	global(c, GSI(ALL));
	put(c, "{'p':{'S':'a'},'s':{'S':'none'}}");
	put(c, "{'p':{'S':'a'},'s':{'S':'half'},'g':{'S':'G'}}");
	put(c, "{'p':{'S':'a'},'s':{'S':'full'},'g':{'S':'G'},'i':{'N':'1'}}");
	r = ok(c, "Query", "{" QUERY_G "}");
	assert_order(c, &r.query, "full");
	r = ok(c, "Scan", "{'TableName':'things','IndexName':'by-g'}");
	assert_order(c, &r.query, "full");
}

CONTRACT(index, follows_every_change_of_the_item)
{
	union answer r;

	global(c, GSI(ALL));
	put(c, FULL);
	ok(c, "UpdateItem",
	   "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'1'}},'UpdateExpression':'SET i = :i, x = "
	   ":i',"
	   "'ExpressionAttributeValues':{':i':{'N':'6'}}}");
	r = ok(c, "Query", "{" QUERY_G "}");
	assert_int_equal(r.query.count, 1);
	assert_item(&c->f, &r.query.items[0],
	            "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'G'},'i':{'N':'6'},'x':{'N':'6'},'y':{'N':'8'}}");
	ok(c, "UpdateItem",
	   "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'1'}},'UpdateExpression':'REMOVE g'}");
	assert_int_equal(ok(c, "Query", "{" QUERY_G "}").query.count, 0);
	put(c, FULL);
	assert_int_equal(ok(c, "Query", "{" QUERY_G "}").query.count, 1);
	ok(c, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'1'}}}");
	assert_int_equal(ok(c, "Query", "{" QUERY_G "}").query.count, 0);
}

CONTRACT(index, may_hold_many_items_under_one_key)
{
	union answer r;

	global(c, GSI(ALL));
	for (int i = 0; i < 4; i++)
		put(c, BODY(c, "{'p':{'S':'%d'},'s':{'S':'%d'},'g':{'S':'G'},'i':{'N':'1'}}", i, i));
	r = ok(c, "Query", "{" QUERY_G "}");
	assert_int_equal(r.query.count, 4);
}

CONTRACT(index, goes_by_its_own_range_key_both_ways)
{
	union answer r;

	global(c, GSI(ALL));
	put(c, "{'p':{'S':'c'},'s':{'S':'two'},'g':{'S':'G'},'i':{'N':'2'}}");
	put(c, "{'p':{'S':'b'},'s':{'S':'minus'},'g':{'S':'G'},'i':{'N':'-1'}}");
	put(c, "{'p':{'S':'a'},'s':{'S':'ten'},'g':{'S':'G'},'i':{'N':'10'}}");
	r = ok(c, "Query", "{" QUERY_G "}");
	assert_order(c, &r.query, "minus,two,ten");
	r = ok(c, "Query", "{" QUERY_G ",'ScanIndexForward':false}");
	assert_order(c, &r.query, "ten,two,minus");
}

CONTRACT(index, stops_a_page_at_a_key_of_index_and_table)
{
	union answer r;

	global(c, GSI(ALL));
	for (int i = 0; i < 4; i++)
		put(c, BODY(c, "{'p':{'S':'a'},'s':{'S':'%d'},'g':{'S':'G'},'i':{'N':'1'}}", i));
	r = ok(c, "Query", "{" QUERY_G ",'Limit':2}");
	assert_order(c, &r.query, "0,1");
	assert_item(&c->f, &r.query.last_key, "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'G'},'i':{'N':'1'}}");
	r = ok(c, "Query",
	       "{" QUERY_G ",'ExclusiveStartKey':{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'G'},'i':{'N':'1'}}}");
	assert_order(c, &r.query, "2,3");
}

/* ---- what it shows ---- */

static void assert_shows(struct contract *c, const char *query, const char *expected)
{
	union answer r;

	put(c, FULL);
	r = ok(c, "Query", query);
	assert_int_equal(r.query.count, 1);
	assert_item(&c->f, &r.query.items[0], expected);
}

CONTRACT(projection, all_shows_the_whole_item)
{
	global(c, GSI(ALL));
	assert_shows(c, "{" QUERY_G "}", FULL);
}

CONTRACT(projection, keys_only_shows_the_keys_of_table_and_index)
{
	global(c, GSI(KEYS));
	assert_shows(c, "{" QUERY_G "}", "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'G'},'i':{'N':'5'}}");
}

CONTRACT(projection, include_shows_those_attributes_too)
{
	global(c, GSI(INCLUDE_X));
	assert_shows(c, "{" QUERY_G "}",
	             "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'G'},'i':{'N':'5'},'x':{'N':'7'}}");
}

CONTRACT(projection, a_global_index_refuses_what_it_does_not_hold)
{
	global(c, GSI(INCLUDE_X));
	put(c, FULL);
	refused(c, "Query", "{" QUERY_G ",'ProjectionExpression':'y'}", ERR_INVALID,
	        "One or more parameter values were invalid: Global secondary index by-g does not project y");
	refused(c, "Query", "{" QUERY_G ",'Select':'ALL_ATTRIBUTES'}", ERR_INVALID,
	        "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not supported for "
	        "global "
	        "secondary index by-g because its projection type is not ALL");
}

CONTRACT(projection, a_local_index_fetches_what_it_does_not_hold)
{
	local(c, LSI(KEYS));
	assert_shows(c, "{" QUERY_P ",'Select':'ALL_ATTRIBUTES'}", FULL);
	assert_shows(c, "{" QUERY_P ",'ProjectionExpression':'y'}", "{'y':{'N':'8'}}");
	assert_shows(c, "{" QUERY_P "}", "{'p':{'S':'a'},'s':{'S':'1'},'i':{'N':'5'}}");
}

CONTRACT(index, refuses_a_start_key_without_its_own_key)
{
	global(c, GSI(ALL));
	put(c, FULL);
	refused(c, "Query", "{" QUERY_G ",'ExclusiveStartKey':{'p':{'S':'a'},'s':{'S':'1'}}}", ERR_INVALID,
	        MSG_START_KEY_BAD);
}

/* ---- rules ---- */

CONTRACT(index, key_must_have_its_type_and_not_be_empty)
{
	global(c, GSI(ALL));
	refused(c, "PutItem", "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'},'g':{'N':'1'}}}",
	        ERR_INVALID,
	        "One or more parameter values were invalid: Type mismatch for Index Key g Expected: S "
	        "Actual: N IndexName: "
	        "by-g");
	refused(c, "PutItem", "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':''}}}",
	        ERR_INVALID,
	        "One or more parameter values are not valid. A value specified for a secondary index key is "
	        "not supported. "
	        "The AttributeValue for a key attribute cannot contain an empty string value. IndexName: "
	        "by-g, IndexKey: g");
	put(c, FULL);
	refused(c, "UpdateItem",
	        "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'1'}},'UpdateExpression':'SET i = :i',"
	        "'ExpressionAttributeValues':{':i':{'S':'x'}}}",
	        ERR_INVALID, NULL);
	assert_there(c, "{'p':{'S':'a'},'s':{'S':'1'}}", FULL);
}

CONTRACT(index, key_of_a_hash_may_have_2048_bytes_and_not_one_more)
{
	global(c, GSI(ALL));
	put(c,
	    BODY(c, "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'%s'},'i':{'N':'1'}}", text_of_length(c, 2048)));
	refused(c, "PutItem",
	        BODY(c, "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'%s'}}}",
	             text_of_length(c, 2049)),
	        ERR_INVALID, NULL);
}

#define INDEX_LATER                                                                                          \
	"{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'S'},{'"         \
	"AttributeName':'i','AttributeType':'S'}],'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'"   \
	"by-g',"                                                                                             \
	"'KeySchema':[{'AttributeName':'g','KeyType':'HASH'},{'AttributeName':'i','KeyType':'RANGE'}],'"     \
	"Projection':{'ProjectionType':'ALL'}}}]}"

CONTRACT(index, created_later_leaves_out_rows_whose_key_is_too_long_for_it)
{
	create(c, "S", "S", "", "");
	put(c,
	    BODY(c, "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'%s'},'i':{'S':'x'}}", text_of_length(c, 2048)));
	put(c,
	    BODY(c, "{'p':{'S':'a'},'s':{'S':'2'},'g':{'S':'%s'},'i':{'S':'x'}}", text_of_length(c, 2049)));
	put(c,
	    BODY(c, "{'p':{'S':'a'},'s':{'S':'3'},'g':{'S':'G'},'i':{'S':'%s'}}", text_of_length(c, 1024)));
	put(c,
	    BODY(c, "{'p':{'S':'a'},'s':{'S':'4'},'g':{'S':'G'},'i':{'S':'%s'}}", text_of_length(c, 1025)));
	ok(c, "UpdateTable", INDEX_LATER);
	c->host->finish_background(&c->f);
	assert_int_equal(ok(c, "Scan", "{'TableName':'things','IndexName':'by-g'}").query.count, 2);
	ok(c, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'2'}}}");
	ok(c, "UpdateItem",
	   "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'4'}},'UpdateExpression':'SET i = :i',"
	   "'ExpressionAttributeValues':{':i':{'S':'y'}}}");
	assert_int_equal(ok(c, "Scan", "{'TableName':'things','IndexName':'by-g'}").query.count, 3);
}

CONTRACT(index, that_is_global_has_no_consistent_reads_and_a_local_one_has)
{
	global(c, GSI(ALL) LSI(ALL));
	refused(c, "Query", "{" QUERY_G ",'ConsistentRead':true}", ERR_INVALID, MSG_GSI_CONSISTENT);
	ok(c, "Query", "{" QUERY_P ",'ConsistentRead':true}");
}

CONTRACT(index, that_is_not_there_is_refused_by_name)
{
	create(c, "S", "S", "", "");
	refused(c, "Scan", "{'TableName':'things','IndexName':'nothing'}", ERR_INVALID,
	        "The table does not have the specified index: nothing");
}

CONTRACT(index, created_later_holds_what_was_there_before_and_what_comes)
{
	union answer r;

	create(c, "S", "S", "", "");
	put(c, FULL);
	ok(c, "UpdateTable",
	   "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'S'},{'"
	   "AttributeName':'i',"
	   "'AttributeType':'N'}],'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by-g','KeySchema':[{"
	   "'AttributeName'"
	   ":'g','KeyType':'HASH'},{'AttributeName':'i','KeyType':'RANGE'}],'Projection':{'ProjectionType':'"
	   "ALL'}}}]}");
	put(c, "{'p':{'S':'b'},'s':{'S':'2'},'g':{'S':'G'},'i':{'N':'6'}}");
	c->host->finish_background(&c->f);
	r = ok(c, "Query", "{" QUERY_G "}");
	assert_order(c, &r.query, "1,2");
}

CONTRACT(index, deleted_is_gone_and_its_name_can_be_used_again)
{
	global(c, GSI(ALL));
	put(c, FULL);
	ok(c, "UpdateTable",
	   "{'TableName':'things','GlobalSecondaryIndexUpdates':[{'Delete':{'IndexName':'by-g'}}]}");
	c->host->finish_background(&c->f);
	refused(c, "Query", "{" QUERY_G "}", ERR_INVALID,
	        "The table does not have the specified index: by-g");
	put(c, "{'p':{'S':'b'},'s':{'S':'2'},'g':{'N':'6'}}"); /* g is no key any more */
	ok(c, "DeleteItem", "{'TableName':'things','Key':{'p':{'S':'b'},'s':{'S':'2'}}}");
	ok(c, "UpdateTable",
	   "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'S'}],"
	   "'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by-g','KeySchema':[{'AttributeName':'g','"
	   "KeyType':'HASH'}]"
	   ",'Projection':{'ProjectionType':'KEYS_ONLY'}}}]}");
	c->host->finish_background(&c->f);
	assert_int_equal(ok(c, "Query", "{" QUERY_G "}").query.count, 1);
}
