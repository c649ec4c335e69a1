/* Expiry: an item whose time has come is absent, at the second, for every call there is. */
#include "contract/contract.h"

#define GSI                                                                                                  \
	",'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'AttributeName':'g','KeyType':'HASH'}" \
	"],'Projection':"                                                                                    \
	"{'ProjectionType':'KEYS_ONLY'}}]"
#define KEY "{'p':{'S':'a'},'s':{'S':'1'}}"
/* Expires at START_S + 100. */
#define ITEM "{'p':{'S':'a'},'s':{'S':'1'},'g':{'S':'G'},'n':{'N':'5'},'e':{'N':'1789000100'}}"
#define ONE  ",'ExpressionAttributeValues':{':v':{'N':'1'}}"

/* A table with time to live on e, and ITEM in it. */
static void begin(struct contract *c)
{
	create(c, "S", "S", ",{'AttributeName':'g','AttributeType':'S'}", GSI);
	ok(c, "UpdateTimeToLive",
	   "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'e'}}");
	put(c, ITEM);
}

static void begin_expired(struct contract *c)
{
	begin(c);
	fixture_set_clock(&c->f, START_S + 100);
}

CONTRACT(expired, begins_at_the_second_and_not_before)
{
	begin(c);
	fixture_set_clock(&c->f, START_S + 99);
	assert_there(c, KEY, ITEM);
	fixture_set_clock(&c->f, START_S + 100);
	assert_there(c, KEY, NULL);
}

CONTRACT(expired, is_absent_for_query_and_scan_and_not_counted)
{
	union answer r;

	begin_expired(c);
	put(c, "{'p':{'S':'a'},'s':{'S':'2'}}");
	r = ok(c, "Query",
	       "{'TableName':'things','KeyConditionExpression':'p = "
	       ":p','ExpressionAttributeValues':{':p':{'S':'a'}}}");
	assert_order(c, &r.query, "2");
	assert_int_equal(r.query.scanned, 1);
	r = ok(c, "Scan", "{'TableName':'things'}");
	assert_order(c, &r.query, "2");
}

CONTRACT(expired, does_not_count_against_a_limit)
{
	union answer r;

	begin_expired(c);
	put(c, "{'p':{'S':'a'},'s':{'S':'2'}}");
	r = ok(c, "Query",
	       "{'TableName':'things','KeyConditionExpression':'p = "
	       ":p','Limit':1,'ExpressionAttributeValues':{':p':{'S':"
	       "'a'}}}");
	assert_order(c, &r.query, "2");
}

CONTRACT(expired, is_absent_from_an_index_that_does_not_hold_the_time)
{
	begin_expired(c);
	assert_int_equal(ok(c, "Query",
	                    "{'TableName':'things','IndexName':'by-g','KeyConditionExpression':'g = :g',"
	                    "'ExpressionAttributeValues':{':g':{'S':'G'}}}")
	                         .query.count,
	                 0);
	assert_int_equal(ok(c, "Scan", "{'TableName':'things','IndexName':'by-g'}").query.scanned, 0);
}

CONTRACT(expired, is_absent_for_batch_get_and_transact_get)
{
	begin_expired(c);
	assert_false(ok(c, "BatchGetItem", "{'RequestItems':{'things':{'Keys':[" KEY "]}}}")
	                     .batch_get.results[0]
	                     .found);
	assert_false(
	        ok(c, "TransactGetItems", "{'TransactItems':[{'Get':{'TableName':'things','Key':" KEY "}}]}")
	                .batch_get.results[0]
	                .found);
}

CONTRACT(expired, is_absent_for_conditions_and_return_values)
{
	union answer r;

	begin_expired(c);
	r = ok(c, "PutItem",
	       "{'TableName':'things','Item':" KEY
	       ",'ConditionExpression':'attribute_not_exists(p)','ReturnValues':'ALL_OLD'}");
	assert_false(r.write.condition_failed);
	assert_false(r.write.has_item);
}

CONTRACT(expired, a_count_starts_again_from_nothing)
{
	begin_expired(c);
	ok(c, "UpdateItem", "{'TableName':'things','Key':" KEY ",'UpdateExpression':'ADD n :v'" ONE "}");
	assert_there(c, KEY, "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'1'}}");
}

CONTRACT(expired, stays_absent_after_an_update_that_only_removes)
{
	begin_expired(c);
	ok(c, "UpdateItem", "{'TableName':'things','Key':" KEY ",'UpdateExpression':'REMOVE e'}");
	assert_there(c, KEY, NULL);
	put(c, ITEM);
	ok(c, "TransactWriteItems",
	   "{'TransactItems':[{'Update':{'TableName':'things','Key':" KEY
	   ",'UpdateExpression':'REMOVE e'}}]}");
	assert_there(c, KEY, NULL);
}

CONTRACT(expired, is_absent_for_a_transactions_checks)
{
	union answer r;

	begin_expired(c);
	r = ok(c, "TransactWriteItems",
	       "{'TransactItems':[{'ConditionCheck':{'TableName':'things','Key':" KEY
	       ",'ConditionExpression':'attribute_exists(p)','ReturnValuesOnConditionCheckFailure':'ALL_OLD'}"
	       "}]}");
	assert_true(r.transact.cancelled);
	assert_false(r.transact.reasons[0].has_item);
}

CONTRACT(expired, stays_absent_after_it_was_swept)
{
	begin(c);
	fixture_set_clock(&c->f, START_S + 100000);
	c->host->finish_background(&c->f);
	assert_there(c, KEY, NULL);
	assert_int_equal(ok(c, "DescribeTable", "{'TableName':'things'}").table.item_count, 0);
}

/* ---- what is no time ---- */

static void assert_stays(struct contract *c, const char *time)
{
	const char *item = BODY(c, "{'p':{'S':'a'},'s':{'S':'1'},'e':%s}", time);

	begin(c);
	put(c, item);
	fixture_set_clock(&c->f, START_S + 1000);
	assert_there(c, KEY, item);
}

CONTRACT(expiry, of_text_is_none)
{
	assert_stays(c, "{'S':'1789000100'}");
}

CONTRACT(expiry, of_a_fraction_is_none)
{
	assert_stays(c, "{'N':'1789000100.5'}");
}

CONTRACT(expiry, of_zero_and_less_is_none)
{
	assert_stays(c, "{'N':'0'}");
}

CONTRACT(expiry, more_than_five_years_back_is_none)
{
	assert_stays(c, BODY(c, "{'N':'%d'}", START_S - 5 * 365 * 24 * 3600));
}

CONTRACT(expiry, just_within_five_years_counts)
{
	begin(c);
	put(c, BODY(c, "{'p':{'S':'a'},'s':{'S':'1'},'e':{'N':'%d'}}", START_S - 5 * 365 * 24 * 3600 + 1));
	assert_there(c, KEY, NULL);
}

CONTRACT(expiry, without_time_to_live_an_attribute_is_just_a_number)
{
	create(c, "S", "S", "", "");
	put(c, ITEM);
	fixture_set_clock(&c->f, START_S + 1000);
	assert_there(c, KEY, ITEM);
}
