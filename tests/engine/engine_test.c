/* The engine through table.h: durability, expiry, indexes, transactions, faults. */
#include "engine/fixture.h"

#include "base/fault.h"
#include "item/messages.h"

#define KEY(p, s) "{'p':{'S':'" p "'},'s':{'S':'" s "'}}"

TEST(engine, what_was_put_is_there_after_a_restart)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem",
	           "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'42'}}}");
	assert_get(&f, "things", KEY("a", "1"), "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'42'}}");
	fixture_restart(&f);
	assert_get(&f, "things", KEY("a", "1"), "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'42'}}");
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'things'}").table.item_count, 1);
	fixture_close(&f);
}

TEST(engine, a_false_condition_writes_nothing_and_returns_the_old_item_if_asked)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem",
	           "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'1'}}}");
	r = fixture_ok(&f, "PutItem",
	               "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'2'}},"
	               "'ConditionExpression':'attribute_not_exists(p)','ReturnValuesOnConditionCheckFailure'"
	               ":'ALL_OLD'}");
	assert_true(r.write.condition_failed);
	assert_item(&f, &r.write.item, "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'1'}}");
	assert_get(&f, "things", KEY("a", "1"), "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'1'}}");
	fixture_close(&f);
}

TEST(engine, an_update_counts_from_nothing_and_returns_what_was_asked)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	for (int i = 1; i <= 3; i++) {
		r = fixture_ok(&f, "UpdateItem",
		               "{'TableName':'things','Key':" KEY(
		                       "a", "1") ",'UpdateExpression':'ADD n :one',"
		                                 "'ExpressionAttributeValues':{':one':{'N':'1'}},"
		                                 "'ReturnValues':'UPDATED_NEW'}");
		assert_int_equal(r.write.item.count, 1);
	}
	assert_item(&f, &r.write.item, "{'n':{'N':'3'}}");
	fixture_fails(
	        &f, "UpdateItem",
	        "{'TableName':'things','Key':" KEY("a", "1") ",'UpdateExpression':'SET p = :v',"
	                                                     "'ExpressionAttributeValues':{':v':{'S':'x'}}}",
	        ERR_INVALID,
	        "One or more parameter values were invalid: Cannot update attribute p. This attribute is "
	        "part of the key");
	fixture_close(&f);
}

/* ---- time to live ---- */

#define TTL_ON "{'TableName':'things','TimeToLiveSpecification':{'Enabled':true,'AttributeName':'ttl'}}"
#define COUNT_UP(ttl)                                                                                        \
	"{'TableName':'things','Key':" KEY("a", "1") ",'UpdateExpression':'ADD n :one SET #t = :ttl',"       \
	                                             "'ExpressionAttributeNames':{'#t':'ttl'},"              \
	                                             "'ExpressionAttributeValues':{':one':{'N':'1'},"        \
	                                             "':ttl':{'N':'" ttl "'}}}"

TEST(expiry, an_item_is_absent_from_the_second_it_expires_and_a_count_starts_again_from_zero)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTimeToLive", TTL_ON);
	fixture_ok(&f, "UpdateItem", COUNT_UP("1789000900"));
	fixture_ok(&f, "UpdateItem", COUNT_UP("1789000900"));
	fixture_set_clock(&f, START_S + 899);
	assert_get(&f, "things", KEY("a", "1"),
	           "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'2'},'ttl':{'N':'1789000900'}}");
	fixture_set_clock(&f, START_S + 900);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	assert_int_equal(fixture_ok(&f, "Scan", "{'TableName':'things'}").query.scanned, 0);
	fixture_ok(&f, "UpdateItem", COUNT_UP("1789009000"));
	assert_get(&f, "things", KEY("a", "1"),
	           "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'1'},'ttl':{'N':'1789009000'}}");
	assert_verified(&f);
	fixture_close(&f);
}

TEST(expiry, time_never_goes_back_also_across_a_restart)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTimeToLive", TTL_ON);
	fixture_ok(&f, "UpdateItem", COUNT_UP("1789000900"));
	fixture_set_clock(&f, START_S + 1000);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	fixture_set_clock(&f, START_S);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("b", "1") "}"); /* stores the clock */
	fixture_restart(&f);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	fixture_close(&f);
}

TEST(expiry, a_wall_clock_that_jumps_neither_ends_an_item_nor_makes_it_last)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "UpdateTimeToLive", TTL_ON);
	fixture_ok(&f, "UpdateItem", COUNT_UP("1789000900"));
	clock_manual_jump(&f.clock, INT64_C(3600) * 1000000);
	fixture_set_clock(&f, START_S + 899);
	assert_get(&f, "things", KEY("a", "1"),
	           "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'1'},'ttl':{'N':'1789000900'}}");
	clock_manual_jump(&f.clock, INT64_C(-7200) * 1000000);
	fixture_set_clock(&f, START_S + 900);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	fixture_close(&f);
}

TEST(expiry, the_sweeper_removes_expired_rows_and_their_index_entries_and_no_others)
{
	const int      far_s = START_S + 500 * 86400; /* later than rows lapse (engine/lapse.h) */
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable",
	           "{'TableName':'things','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':[{'"
	           "AttributeName':'p',"
	           "'AttributeType':'S'},{'AttributeName':'g','AttributeType':'N'}],'KeySchema':[{'"
	           "AttributeName':'p',"
	           "'KeyType':'HASH'}],'GlobalSecondaryIndexes':[{'IndexName':'by-g','KeySchema':[{'"
	           "AttributeName':'g',"
	           "'KeyType':'HASH'}],'Projection':{'ProjectionType':'KEYS_ONLY'}}]}");
	fixture_ok(&f, "UpdateTimeToLive", TTL_ON);
	for (int i = 0; i < 300; i++) {
		char body[256];

		snprintf(body, sizeof(body),
		         "{'TableName':'things','Item':{'p':{'S':'%d'},'g':{'N':'1'},'ttl':{'N':'%d'}}}", i,
		         far_s + (i % 3 == 0 ? 100000 : 60));
		fixture_ok(&f, "PutItem", body);
	}
	fixture_set_clock(&f, far_s + 5000);
	r = fixture_ok(&f, "Query",
	               "{'TableName':'things','IndexName':'by-g','KeyConditionExpression':'g = :g',"
	               "'ExpressionAttributeValues':{':g':{'N':'1'}}}");
	assert_int_equal(r.query.count,
	                 100); /* hidden before they are swept, also where the index lacks the time */
	engine_tick(f.engine);
	assert_int_equal(engine_stats(f.engine).swept_rows, 200);
	assert_verified(&f);
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'things'}").table.item_count, 100);
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'things'}").table.index_item_counts[0],
	                 100);
	fixture_close(&f);
}

TEST(expiry, switching_time_to_live_on_later_also_sweeps_what_was_there_before)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	for (int i = 0; i < 150; i++) {
		char body[256];

		snprintf(body, sizeof(body),
		         "{'TableName':'things','Item':{'p':{'S':'%d'},'s':{'S':'x'},'ttl':{'N':'%d'}}}", i,
		         START_S + 60);
		fixture_ok(&f, "PutItem", body);
	}
	fixture_ok(&f, "UpdateTimeToLive", TTL_ON);
	engine_tick(f.engine);
	assert_verified(&f);
	fixture_set_clock(&f, START_S + 5000);
	engine_tick(f.engine);
	assert_int_equal(engine_stats(f.engine).swept_rows, 150);
	fixture_close(&f);
}

/* ---- transactions ---- */

#define TRANSFER(token, condition)                                                                           \
	"{'ClientRequestToken':'" token "','TransactItems':[{'Update':{'TableName':'things','Key':" KEY(     \
	        "a", "1") ",'UpdateExpression':'ADD n :m','ExpressionAttributeValues':{':m':{'N':'-1'}}}},"  \
	                  "{'Update':{'TableName':'things','Key':" KEY(                                      \
	                          "b", "1") ",'UpdateExpression':'ADD n "                                    \
	                                    ":m','ExpressionAttributeValues':{':m':{'N':'1'}}}},"            \
	                                    "{'ConditionCheck':{'TableName':'things','Key':" KEY(            \
	                                            "c", "1") ",'ConditionExpression':'" condition "'}}]}"

TEST(transaction, all_actions_or_none_and_the_reasons_say_which_failed)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	r = fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_exists(p)"));
	assert_true(r.transact.cancelled);
	assert_int_equal(r.transact.reasons[0].code, ERR_NONE);
	assert_int_equal(r.transact.reasons[2].code, ERR_CONDITION);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	r = fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(p)"));
	assert_false(r.transact.cancelled);
	assert_get(&f, "things", KEY("a", "1"), "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'-1'}}");
	fixture_close(&f);
}

TEST(transaction, a_repeated_token_does_nothing_twice_also_after_a_restart_until_ten_minutes_have_passed)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(p)"));
	assert_true(fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(p)"))
	                    .transact.repeated);
	fixture_restart(&f);
	fixture_set_clock(&f, START_S + 599);
	assert_true(fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(p)"))
	                    .transact.repeated);
	fixture_fails(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(s)"), ERR_TOKEN_MISMATCH,
	              MSG_TOKEN_MISMATCH);
	assert_get(&f, "things", KEY("a", "1"), "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'-1'}}");
	fixture_set_clock(&f, START_S + 601);
	assert_false(fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(p)"))
	                     .transact.repeated);
	assert_get(&f, "things", KEY("a", "1"), "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'-2'}}");
	fixture_close(&f);
}

TEST(transaction, a_repeated_one_costs_reading_and_names_its_tables)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(p)"));
	r = fixture_ok(&f, "TransactWriteItems", TRANSFER("t1", "attribute_not_exists(p)"));
	assert_bytes(r.transact.results[0].capacity.table, "things");
	assert_true(r.transact.results[0].capacity.read_units == 2);
	assert_true(r.transact.results[0].capacity.write_units == 0);
	fixture_close(&f);
}

TEST(transaction, two_actions_on_one_item_are_refused)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_fails(&f, "TransactWriteItems",
	              "{'TransactItems':[{'Put':{'TableName':'things','Item':" KEY(
	                      "a", "1") "}},"
	                                "{'Delete':{'TableName':'things','Key':" KEY("a", "1") "}}]}",
	              ERR_INVALID, MSG_TRANSACT_TWICE);
	fixture_close(&f);
}

/* ---- indexes ---- */

TEST(index, an_index_created_later_is_filled_with_what_was_there_and_follows_what_comes)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	for (int i = 0; i < 200; i++) {
		char body[200];

		snprintf(body, sizeof(body),
		         "{'TableName':'things','Item':{'p':{'S':'%d'},'s':{'S':'x'},'g':{'S':'%d'}}}", i,
		         i % 2);
		fixture_ok(&f, "PutItem", body);
	}
	r = fixture_ok(
	        &f, "UpdateTable",
	        "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'g','AttributeType':'S'}],"
	        "'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by-g','KeySchema':[{'AttributeName':'"
	        "g',"
	        "'KeyType':'HASH'}],'Projection':{'ProjectionType':'ALL'}}}]}");
	assert_int_equal(r.table.schema.indexes[0].status, INDEX_CREATING);
	fixture_ok(&f, "PutItem",
	           "{'TableName':'things','Item':{'p':{'S':'new'},'s':{'S':'x'},'g':{'S':'1'}}}");
	engine_tick(f.engine);
	r = fixture_ok(&f, "DescribeTable", "{'TableName':'things'}");
	assert_int_equal(r.table.schema.indexes[0].status, INDEX_ACTIVE);
	assert_int_equal(r.table.index_item_counts[0], 201);
	r = fixture_ok(&f, "Query",
	               "{'TableName':'things','IndexName':'by-g','KeyConditionExpression':'g = :g',"
	               "'ExpressionAttributeValues':{':g':{'S':'1'}}}");
	assert_int_equal(r.query.count, 101);
	assert_verified(&f);
	fixture_restart(&f);
	assert_verified(&f);
	fixture_close(&f);
}

/* The ticker is woken by the first, so the second comes while it fills. */
TEST(index, an_index_created_while_another_is_filled_is_filled_as_well)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	for (int i = 0; i < 300; i++) {
		char body[200];

		snprintf(body, sizeof(body),
		         "{'TableName':'things','Item':{'p':{'S':'%d'},'s':{'S':'x'},'g':{'S':'g'},'h':{'S':'"
		         "h'}}}",
		         i);
		fixture_ok(&f, "PutItem", body);
	}
	for (const char *name = "gh"; *name != '\0'; name++) {
		char body[400];

		snprintf(body, sizeof(body),
		         "{'TableName':'things','AttributeDefinitions':[{'AttributeName':'%c','AttributeType'"
		         ":'S'}],"
		         "'GlobalSecondaryIndexUpdates':[{'Create':{'IndexName':'by-%c','KeySchema':[{'"
		         "AttributeName':"
		         "'%c','KeyType':'HASH'}],'Projection':{'ProjectionType':'KEYS_ONLY'}}}]}",
		         *name, *name, *name);
		fixture_ok(&f, "UpdateTable", body);
	}
	engine_tick(f.engine);
	r = fixture_ok(&f, "DescribeTable", "{'TableName':'things'}");
	assert_int_equal(r.table.schema.indexes[0].status, INDEX_ACTIVE);
	assert_int_equal(r.table.schema.indexes[1].status, INDEX_ACTIVE);
	assert_int_equal(r.table.index_item_counts[0], 300);
	assert_int_equal(r.table.index_item_counts[1], 300);
	assert_verified(&f);
	fixture_close(&f);
}

TEST(tables, a_deleted_table_leaves_nothing_and_its_name_can_be_used_again)
{
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("a", "1") "}");
	assert_true(fixture_ok(&f, "DeleteTable", "{'TableName':'things'}").table.deleting);
	fixture_fails(&f, "GetItem", "{'TableName':'things','Key':" KEY("a", "1") "}", ERR_NO_RESOURCE,
	              MSG_NO_TABLE);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	fixture_restart(&f);
	assert_get(&f, "things", KEY("a", "1"), NULL);
	assert_int_equal(fixture_ok(&f, "ListTables", "{}").list.count, 1);
	fixture_close(&f);
}

/* ---- faults ---- */

static void note_failure(void *ctx)
{
	++*(int *)ctx;
}

TEST(fault, after_a_failed_flush_nothing_is_written_and_a_restart_goes_on_from_the_disk)
{
	struct fixture f;
	int            failures = 0;
	union answer   r;

	fixture_open(&f);
	f.options.on_failure = note_failure;
	f.options.failure_ctx = &failures;
	fixture_restart(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("a", "1") "}");
	fault_arm(FAULT_COMMIT, 0);
	assert_int_equal(fixture_try(&f, "PutItem", "{'TableName':'things','Item':" KEY("b", "1") "}", &r),
	                 ERR_STORAGE);
	fault_disarm(FAULT_COMMIT);
	assert_int_equal(failures, 1);
	assert_false(engine_ready(f.engine));
	assert_int_equal(fixture_try(&f, "PutItem", "{'TableName':'things','Item':" KEY("c", "1") "}", &r),
	                 ERR_STORAGE);
	assert_get(&f, "things", KEY("a", "1"), KEY("a", "1"));
	assert_get(&f, "things", KEY("b", "1"), NULL);
	fixture_restart(&f);
	assert_get(&f, "things", KEY("a", "1"), KEY("a", "1"));
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("c", "1") "}");
	fixture_close(&f);
}

TEST(fault, on_a_full_disk_writes_are_refused_reads_go_on_and_it_recovers_by_itself)
{
	struct fixture f;
	union answer   r;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("a", "1") "}");
	fault_arm(FAULT_DISK_FULL, 0);
	engine_tick(f.engine);
	assert_int_equal(fixture_try(&f, "PutItem", "{'TableName':'things','Item':" KEY("b", "1") "}", &r),
	                 ERR_DISK_FULL);
	assert_get(&f, "things", KEY("a", "1"), KEY("a", "1"));
	fault_disarm(FAULT_DISK_FULL);
	engine_tick(f.engine);
	fixture_ok(&f, "PutItem", "{'TableName':'things','Item':" KEY("b", "1") "}");
	fixture_close(&f);
}

TEST(engine, a_second_process_is_kept_out_and_so_is_another_format)
{
	struct fixture f;
	struct engine *second;
	struct err     err;
	char           path[128];
	FILE          *file;

	fixture_open(&f);
	assert_int_equal(engine_open(&second, &f.options, &err), ERR_STORAGE);
	assert_non_null(strstr(err.text, "in use by another process"));
	engine_close(f.engine);
	snprintf(path, sizeof(path), "%s/FORMAT", f.dir);
	file = fopen(path, "w");
	fprintf(file, "gatehouse 999\n");
	fclose(file);
	assert_int_equal(engine_open(&second, &f.options, &err), ERR_STORAGE);
	assert_non_null(strstr(err.text, "written in format 999"));
	file = fopen(path, "w");
	fprintf(file, "gatehouse 3\n");
	fclose(file);
	fixture_start(&f);
	fixture_close(&f);
}
