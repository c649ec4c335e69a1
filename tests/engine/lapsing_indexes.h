/* Lapsing indexes: a table whose rows lapse (lapsing.h), with two indexes by owner, and what they show. */
#ifndef TESTS_ENGINE_LAPSING_INDEXES_H
#define TESTS_ENGINE_LAPSING_INDEXES_H

#include "lapsing.h"

#define GSI(name, projection)                                                                                \
	"{'IndexName':'" name "','KeySchema':[{'AttributeName':'owner','KeyType':'HASH'}],'Projection':{'"   \
	"ProjectionType':'" projection "'}}"
#define OWNER "{'AttributeName':'owner','AttributeType':'S'}"

/* One index has the time to live, and the other one asks the table. */
static inline void open_with_indexes(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable",
	           "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	           "AttributeName':'p','AttributeType':'S'}," OWNER "],'KeySchema':[{'AttributeName':'p','"
	           "KeyType':'HASH'}],'GlobalSecondaryIndexes':[" GSI("all", "ALL") "," GSI(
	                   "keys", "KEYS_ONLY") "]}");
	set_ttl(f, "ttl");
	engine_tick(f->engine);
}

/* expires_s 0: it does not. */
static inline union answer put(struct fixture *f, const char *name, const char *owner, int64_t expires_s)
{
	struct bytes ttl = expires_s == 0
	                           ? (struct bytes){"", 0}
	                           : arena_printf(&f->arena, ",'ttl':{'N':'%lld'}", (long long)expires_s);

	return fixture_ok(f, "PutItem",
	                  arena_printf(&f->arena,
	                               "{'TableName':'things','ReturnConsumedCapacity':'INDEXES','Item':{'p':"
	                               "{'S':'%s'},'owner':{'S':'%s'},'other':{'N':'%d'}%.*s}}",
	                               name, owner, START_S + 30 * DAY_S, BYTES_ARG(ttl))
	                          .data);
}

/* How many rows of the owner an index shows. */
static inline unsigned shown(struct fixture *f, const char *index, const char *owner)
{
	struct bytes body = arena_printf(
	        &f->arena,
	        "{'TableName':'things','IndexName':'%s','KeyConditionExpression':'#o = :o','"
	        "ExpressionAttributeNames':{'#o':'owner'},'ExpressionAttributeValues':{':o':{'S':'%s'}}}",
	        index, owner);
	struct bytes all = arena_printf(&f->arena, "{'TableName':'things','IndexName':'%s'}", index);
	unsigned     count = fixture_ok(f, "Query", body.data).query.count;

	assert_true(fixture_ok(f, "Scan", all.data).query.count >= count);
	return count;
}

static inline void assert_shown(struct fixture *f, const char *owner, unsigned count)
{
	assert_int_equal(shown(f, "all", owner), count);
	assert_int_equal(shown(f, "keys", owner), count);
}

/* ItemCount of the table and of each index. */
static inline void assert_counts(struct fixture *f, int64_t rows)
{
	struct table_description d = fixture_ok(f, "DescribeTable", "{'TableName':'things'}").table;

	assert_int_equal(d.item_count, rows);
	for (uint32_t i = 0; i < d.schema.index_count; i++)
		assert_int_equal(d.index_item_counts[i], rows);
}

#endif
