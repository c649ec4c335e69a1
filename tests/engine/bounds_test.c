/* The engine's bounds, each at it and past it: what waits, what one request may look at, how many tables. */
#include "engine/fixture.h"
#include "engine/gate.h"

#include "base/worker.h"
#include "item/messages.h"

#define KEY(p, s) "{'p':{'S':'" p "'},'s':{'S':'" s "'}}"

/* ---- the queue ---- */

TEST(bounds, past_the_queue_bound_a_write_is_refused_and_nothing_is_done)
{
	struct fixture      f;
	struct gate         gate;
	struct turn_request waits = {.run = run_nothing, .done = done_nothing, .cost_bytes = 900};
	struct turn_request fits = {.run = run_nothing, .done = done_nothing, .cost_bytes = 100};
	struct turn_request last = {.run = run_nothing};
	union answer        r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	f.options.queue_bytes_max = 1000;
	fixture_restart(&f);
	gate_close(&gate, f.engine);
	assert_int_equal(engine_submit(f.engine, &waits, &f.err), ERR_NONE);
	assert_int_equal(engine_submit(f.engine, &fits, &f.err), ERR_NONE);
	engine_gathered(f.engine);
	assert_int_equal(fixture_try(&f, "PutItem", "{'TableName':'things','Item':" KEY("b", "1") "}", &r),
	                 ERR_OVERLOADED);
	gate_open(&gate);
	assert_int_equal(engine_run(f.engine, &last, &f.err), ERR_NONE);
	assert_get(&f, "things", KEY("b", "1"), NULL);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("b", "1") "}");
	fixture_close(&f);
}

TEST(bounds, a_request_larger_than_the_queue_has_its_turn_when_nothing_else_waits)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	f.options.queue_bytes_max = 99; /* the fixture's requests cost 100 */
	fixture_restart(&f);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("b", "1") "}");
	fixture_close(&f);
}

/* ---- what one request looks at ---- */

/* `count` items of about `bytes` each: a/0, a/1, …, all with g = x. */
static void put_large(struct fixture *f, int count, size_t bytes)
{
	char *text = malloc(bytes + 1);

	memset(text, 'x', bytes);
	text[bytes] = '\0';
	for (int i = 0; i < count; i++) {
		struct bytes body =
		        arena_printf(&f->arena,
		                     "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'%d'},'g':{'S':"
		                     "'x'},'text':{'S':'%s'}}}",
		                     i, text);

		fixture_ok(f, "PutItem", body.data);
		arena_reset(&f->arena);
	}
	free(text);
}

#define CHECK(s)                                                                                             \
	"{'ConditionCheck':{'TableName':'things','Key':" KEY(                                                \
	        "a", s) ",'ConditionExpression':'attribute_exists(p)'}}"

TEST(bounds, a_transaction_looks_at_no_more_than_four_megabytes_of_items)
{
	struct fixture f;
	struct buf     body;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	put_large(&f, 11, 400000);
	buf_init(&body, &f.arena);
	for (int i = 0; i < 10; i++)
		buf_add_bytes(&body, arena_printf(&f.arena, "%s" CHECK("%d"), i == 0 ? "" : ",", i));
	fixture_ok(&f, "TransactWriteItems",
	           arena_printf(&f.arena, "{'TransactItems':[%.*s]}", BYTES_ARG(buf_bytes(&body))).data);
	buf_add_bytes(&body, BYTES("," CHECK("10")));
	fixture_fails(&f, "TransactWriteItems",
	              arena_printf(&f.arena, "{'TransactItems':[%.*s]}", BYTES_ARG(buf_bytes(&body))).data,
	              ERR_INVALID, MSG_TRANSACT_SIZE);
	fixture_close(&f);
}

#define TTL_ON "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}"
#define INDEX_ON                                                                                             \
	"{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'S'}],"          \
	"'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by_g','KeySchema':[{'AttributeName':'g',"    \
	"'KeyType':'HASH'}],'Projection':{'ProjectionType':'KEYS_ONLY'}}}]}"
#define BY_G                                                                                                 \
	"'TableName':'things','IndexName':'by_g','KeyConditionExpression':'g = :g',"                         \
	"'ExpressionAttributeValues':{':g':{'S':'x'}}"

TEST(bounds, a_page_of_small_index_entries_ends_after_four_megabytes_of_the_rows_behind_them)
{
	struct fixture f;
	union answer   r;
	uint32_t       seen;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTable", INDEX_ON);
	fixture_ok(&f, "UpdateTimeToLive", TTL_ON); /* so each entry's row must be looked at */
	engine_tick(f.engine);
	put_large(&f, 30, 300000);
	r = fixture_ok(&f, "Query", "{" BY_G "}");
	assert_true(r.query.more);
	assert_int_equal(r.query.count, 14); /* the 14th passes 4 MB */
	for (seen = r.query.count; r.query.more; seen += r.query.count) {
		const char *s = arena_printf(&f.arena, "%.*s",
		                             BYTES_ARG(item_get(&r.query.last_key, BYTES("s"))->text))
		                        .data;
		struct bytes next = arena_printf(&f.arena,
		                                 "{" BY_G ",'ExclusiveStartKey':{'p':{'S':'a'},'s':{'S':'%s'"
		                                 "},'g':{'S':'x'}}}",
		                                 s);

		r = fixture_ok(&f, "Query", next.data);
	}
	assert_int_equal(seen, 30);
	fixture_close(&f);
}

/* ---- tables ---- */

static struct bytes table_body(struct fixture *f, int number)
{
	return arena_printf(&f->arena,
	                    "{'TableName':'table%d','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{"
	                    "'AttributeName':'p','AttributeType':'S'}],'KeySchema':[{'AttributeName':'p',"
	                    "'KeyType':'HASH'}]}",
	                    number);
}

TEST(bounds, there_can_be_as_many_tables_as_the_bound_says_and_no_more)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	for (int i = 0; i < TABLE_COUNT_MAX; i++) {
		fixture_ok(&f, "CreateTable", table_body(&f, i).data);
		arena_reset(&f.arena);
	}
	assert_int_equal(fixture_try(&f, "CreateTable", table_body(&f, TABLE_COUNT_MAX).data, &r), ERR_LIMIT);
	fixture_close(&f);
}

TEST(bounds, a_writer_that_hangs_is_noticed_and_an_idle_one_is_not_taken_for_one)
{
	struct fixture f;
	struct gate    gate;

	fixture_open(&f);
	for (int i = 0; i < 3; i++)
		assert_true(workers_beat());
	gate_close(&gate, f.engine);
	assert_true(workers_beat()); /* a batch has begun since */
	for (int i = 0; i < 3; i++)
		assert_false(workers_beat());
	gate_open(&gate);
	assert_true(workers_beat());
	gate_close(&gate, f.engine); /* another batch: it gets on */
	assert_true(workers_beat());
	gate_open(&gate);
	fixture_close(&f);
}
