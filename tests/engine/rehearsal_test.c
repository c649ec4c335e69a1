/* Rehearsals: a write's conditions, tested before its turn (engine/rehearsal.h). */
#include <inttypes.h>

#include "engine/fixture.h"
#include "engine/gate.h"
#include "engine/rehearsal.h"

#define KEY(s)   "{'p':{'S':'a'},'s':{'S':'" s "'}}"
#define IS(n)    "'ConditionExpression':'n = :n','ExpressionAttributeValues':{':n':{'N':'" n "'}}"
#define CHECK(s) "{'ConditionCheck':{'TableName':'things','Key':" KEY(s) "," IS("1") "}}"
#define PUT(s)   "{'Put':{'TableName':'things','Item':" KEY(s) "}}"
#define SET(s, n)                                                                                            \
	"{'TableName':'things','Key':" KEY(s) ",'UpdateExpression':'SET n = :n',"                            \
	                                      "'ExpressionAttributeValues':{':n':{'N':'" n "'}}}"

static void set(struct fixture *f, const char *body)
{
	fixture_ok(f, "UpdateItem", body);
}

/* Rows 1 to 3 have n = 1. */
static void open_rows(struct fixture *f)
{
	fixture_open(f);
	fixture_ok(f, "CreateTable", TABLE_PS);
	set(f, SET("1", "1"));
	set(f, SET("2", "1"));
	set(f, SET("3", "1"));
}

/* A write, rehearsed and then run in a turn. */
struct play {
	struct fixture_call   call;
	struct engine_session reader;
	struct dynamo_request q;
	union answer          r;
};

static void play_open(struct play *p, struct fixture *f, const char *operation, const char *body)
{
	bool    transact = strcmp(operation, "TransactWriteItems") == 0;
	decoder decode = transact                               ? request_transact_write
	                 : strcmp(operation, "UpdateItem") == 0 ? request_update
	                                                        : request_delete;

	memset(p, 0, sizeof(*p));
	p->call = (struct fixture_call){
	        .base = {.run = fixture_in_turn, .rehearses = true}, .f = f, .q = &p->q, .r = &p->r};
	p->call.run = transact ? fixture_transact_write : fixture_write;
	assert_int_equal(decode(&f->arena, fixture_json(f, body), &p->q, &f->err), ERR_NONE);
	engine_session_init(&p->reader, f->engine);
}

static enum err_code play_rehearse(struct play *p)
{
	rehearsal_begin(&p->reader, &p->call.f->arena);
	p->call.base.rehearsal = &p->reader.base;
	return p->call.run(&p->call, &p->reader.base);
}

static enum err_code play_run(struct play *p)
{
	return engine_run(p->call.f->engine, &p->call.base, &p->call.f->err);
}

static void play_close(struct play *p)
{
	engine_session_release(&p->reader);
}

/* What the turn has looked at. */
static size_t turn_spent;

static void note_spent(struct fixture *f, struct table *t)
{
	(void)f;
	turn_spent = t->cost.spent;
}

TEST(rehearsal, a_write_that_fails_is_final_and_needs_no_turn)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	play_open(&p, &f, "DeleteItem", "{'TableName':'things','Key':" KEY("1") "," IS("2") "}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_true(p.r.write.condition_failed);
	assert_true(rehearsal_is_final(&p.reader));
	play_close(&p);
	fixture_close(&f);
}

TEST(rehearsal, writes_nothing)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	play_open(&p, &f, "TransactWriteItems",
	          "{'ClientRequestToken':'t','TransactItems':[" PUT("9") "," CHECK("1") "]}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_false(p.r.transact.cancelled);
	assert_false(rehearsal_is_final(&p.reader));
	assert_get(&f, "things", KEY("9"), NULL);
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_false(p.r.transact.cancelled || p.r.transact.repeated);
	assert_get(&f, "things", KEY("9"), KEY("9"));
	play_close(&p);
	fixture_close(&f);
}

TEST(rehearsal, the_turn_tests_no_condition_of_a_row_that_has_not_changed)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	play_open(&p, &f, "TransactWriteItems",
	          "{'TransactItems':[" CHECK("1") "," CHECK("2") "," CHECK("3") "]}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	f.in_turn = note_spent;
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_false(p.r.transact.cancelled);
	assert_int_equal(turn_spent, 0);
	assert_int_equal(p.r.transact.results[0].size_bytes, 7); /* the item is not read */
	play_close(&p);
	fixture_close(&f);
}

TEST(rehearsal, a_row_that_changed_before_the_turn_is_tested_again_and_the_write_fails)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	play_open(&p, &f, "TransactWriteItems",
	          "{'TransactItems':[" PUT("9") "," CHECK("1") "," CHECK("2") "]}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_false(p.r.transact.cancelled);
	set(&f, SET("2", "5"));
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_true(p.r.transact.cancelled);
	assert_int_equal(p.r.transact.reasons[2].code, ERR_CONDITION);
	assert_get(&f, "things", KEY("9"), NULL);
	play_close(&p);
	fixture_close(&f);
}

/* Two requests of one batch: what the first writes is in no commit yet when the second is run. */
TEST(rehearsal, a_row_that_changed_earlier_in_the_same_batch_is_tested_again)
{
	struct fixture f;
	struct play    first, second;
	struct gate    gate;

	open_rows(&f);
	play_open(&first, &f, "UpdateItem", SET("1", "2"));
	play_open(&second, &f, "DeleteItem", "{'TableName':'things','Key':" KEY("1") "," IS("1") "}");
	assert_int_equal(play_rehearse(&second), ERR_NONE);
	assert_false(second.r.write.condition_failed);
	gate_close(&gate, f.engine);
	first.call.base.done = done_nothing;
	second.call.base.done = done_nothing;
	assert_int_equal(engine_submit(f.engine, &first.call.base, &f.err), ERR_NONE);
	assert_int_equal(engine_submit(f.engine, &second.call.base, &f.err), ERR_NONE);
	engine_gathered(f.engine);
	gate_open(&gate);
	assert_int_equal(engine_run(f.engine, &(struct turn_request){.run = run_nothing}, &f.err), ERR_NONE);
	assert_true(second.r.write.condition_failed);
	assert_get(&f, "things", KEY("1"), "{'p':{'S':'a'},'s':{'S':'1'},'n':{'N':'2'}}");
	play_close(&first);
	play_close(&second);
	fixture_close(&f);
}

TEST(rehearsal, a_failure_is_not_final_if_a_row_changed_while_it_was_found_out)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	play_open(&p, &f, "DeleteItem", "{'TableName':'things','Key':" KEY("1") "," IS("2") "}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	set(&f, SET("1", "2"));
	assert_false(rehearsal_is_final(&p.reader));
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_false(p.r.write.condition_failed);
	assert_get(&f, "things", KEY("1"), NULL);
	play_close(&p);
	fixture_close(&f);
}

TEST(rehearsal, an_item_that_expires_before_the_turn_is_tested_again)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'AttributeName':'e','Enabled':true}}");
	fixture_ok(&f, "PutItem",
	           "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'4'},'n':{'N':'1'},'e':{'N':'"
	           "1789000010'}}}");
	play_open(&p, &f, "TransactWriteItems", "{'TransactItems':[" CHECK("4") "]}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_false(p.r.transact.cancelled);
	fixture_set_clock(&f, START_S + 11);
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_true(p.r.transact.cancelled);
	play_close(&p);
	fixture_close(&f);
}

TEST(rehearsal, an_item_that_expires_because_the_table_was_told_how_is_tested_again)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	fixture_ok(&f, "PutItem",
	           "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'4'},'n':{'N':'1'},'e':{'N':'"
	           "1788999999'}}}");
	play_open(&p, &f, "TransactWriteItems", "{'TransactItems':[" CHECK("4") "]}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_false(p.r.transact.cancelled);
	fixture_ok(&f, "UpdateTimeToLive",
	           "{'TableName':'things','TimeToLiveSpecification':{'AttributeName':'e','Enabled':true}}");
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_true(p.r.transact.cancelled);
	play_close(&p);
	fixture_close(&f);
}

TEST(rehearsal, of_a_table_that_was_made_anew_says_nothing)
{
	struct fixture f;
	struct play    p, failing;

	open_rows(&f);
	play_open(&p, &f, "TransactWriteItems", "{'TransactItems':[" CHECK("1") "]}");
	play_open(&failing, &f, "DeleteItem", "{'TableName':'things','Key':" KEY("1") "," IS("2") "}");
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_int_equal(play_rehearse(&failing), ERR_NONE);
	fixture_ok(&f, "DeleteTable", "{'TableName':'things'}");
	fixture_ok(&f, "CreateTable", TABLE_PS);
	assert_false(rehearsal_is_final(&failing.reader));
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_true(p.r.transact.cancelled);
	play_close(&p);
	play_close(&failing);
	fixture_close(&f);
}

/* Or the answer to a transaction that was done would be that it failed. */
TEST(rehearsal, of_a_transaction_whose_token_was_used_is_not_final)
{
	static const char *const body =
	        "{'ClientRequestToken':'t','TransactItems':[{'Update':{'TableName':'things','Key':" KEY(
	                "1") ","
	                     "'UpdateExpression':'SET n = :m','ConditionExpression':'n = "
	                     ":n','ExpressionAttributeValues':{':n':{'N':'1'},':m':{'N':'2'}}}}]}";
	struct fixture f;
	struct play    p;

	open_rows(&f);
	assert_false(fixture_ok(&f, "TransactWriteItems", body).transact.cancelled);
	play_open(&p, &f, "TransactWriteItems", body);
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_false(rehearsal_is_final(&p.reader));
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_true(p.r.transact.repeated);
	play_close(&p);
	fixture_close(&f);
}

/* ---- many at once ---- */

enum { THREADS = 4, ROUNDS = 200 };

struct adder {
	pthread_t      thread;
	struct fixture f; /* this thread's arena and reader of JSON, on the engine of all */
	unsigned       added;
};

static int64_t number_of(struct fixture *f)
{
	union answer r = fixture_ok(f, "GetItem", "{'TableName':'things','Key':" KEY("1") "}");
	int64_t      number = 0;

	assert_true(number_to_i64(&item_get(&r.get.item, BYTES("n"))->number, &number));
	return number;
}

/* Adds 1, if the number is still what it was: what was rehearsed is often no longer so in its turn. */
static void *add(void *arg)
{
	struct adder *me = arg;

	for (int i = 0; i < ROUNDS; i++) {
		int64_t      was = number_of(&me->f);
		struct bytes body =
		        arena_printf(&me->f.arena,
		                     "{'TableName':'things','Key':" KEY(
		                             "1") ",'UpdateExpression':'SET n = :m',"
		                                  "'ConditionExpression':'n = :n',"
		                                  "'ExpressionAttributeValues':{':n':{'N':'%" PRId64
		                                  "'},':m':{'N':'%" PRId64 "'}}}",
		                     was, was + 1);
		struct play p;

		play_open(&p, &me->f, "UpdateItem", body.data);
		assert_int_equal(play_rehearse(&p), ERR_NONE);
		if (!rehearsal_is_final(&p.reader)) {
			assert_int_equal(play_run(&p), ERR_NONE);
			me->added += p.r.write.condition_failed ? 0 : 1;
		}
		play_close(&p);
	}
	return NULL;
}

TEST(rehearsal, of_many_who_add_to_a_number_at_once_none_overwrites_another)
{
	struct fixture f;
	struct adder   adders[THREADS];
	unsigned       added = 1;

	open_rows(&f);
	for (int i = 0; i < THREADS; i++) {
		adders[i] = (struct adder){.f = {.engine = f.engine, .json = json_reader_open()}};
		arena_init(&adders[i].f.arena);
		assert_int_equal(pthread_create(&adders[i].thread, NULL, add, &adders[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(adders[i].thread, NULL);
		json_reader_close(adders[i].f.json);
		arena_release(&adders[i].f.arena);
		added += adders[i].added;
	}
	assert_int_equal(number_of(&f), added);
	fixture_close(&f);
}

/* ---- what a turn may cost without one ---- */

static void put_large(struct fixture *f)
{
	struct buf text;

	buf_init(&text, &f->arena);
	buf_add_bytes(&text,
	              BYTES("{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'large'},'t':{'S':'"));
	for (int i = 0; i < 390000; i++)
		buf_add_bytes(&text, BYTES("x"));
	buf_add_bytes(&text, BYTES("'}}}"));
	buf_add_bytes(&text, (struct bytes){"", 1});
	fixture_ok(f, "PutItem", text.data);
}

#define SEARCH                                                                                               \
	"{'TableName':'things','Key':" KEY("large") ",'ConditionExpression':'NOT contains(t, :y)',"          \
	                                            "'ExpressionAttributeValues':{':y':{'S':'y'}}}"

TEST(rehearsal, a_turn_ends_early_if_it_is_too_heavy_and_was_not_rehearsed_and_afterwards_it_is_run)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	put_large(&f);
	play_open(&p, &f, "DeleteItem", SEARCH);
	assert_int_equal(play_run(&p), ERR_THROTTLED);
	assert_true(p.call.base.too_heavy);
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	assert_false(rehearsal_is_final(&p.reader));
	f.in_turn = note_spent;
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_false(p.call.base.too_heavy);
	assert_int_equal(turn_spent, 0);
	f.in_turn = NULL;
	assert_get(&f, "things", KEY("large"), NULL);
	play_close(&p);
	fixture_close(&f);
}

/* Whoever keeps changing what was rehearsed is not sent round for ever. */
TEST(rehearsal, a_rehearsed_write_has_its_turn_however_heavy_it_is_by_then)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	put_large(&f);
	play_open(&p, &f, "DeleteItem", SEARCH);
	assert_int_equal(play_rehearse(&p), ERR_NONE);
	put_large(&f);
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_false(p.r.write.condition_failed);
	play_close(&p);
	fixture_close(&f);
}

TEST(rehearsal, a_condition_on_one_item_of_the_largest_size_is_not_too_heavy)
{
	struct fixture f;
	struct play    p;

	open_rows(&f);
	put_large(&f);
	play_open(
	        &p, &f, "DeleteItem",
	        "{'TableName':'things','Key':" KEY("large") ",'ConditionExpression':'attribute_exists(t)'}");
	assert_int_equal(play_run(&p), ERR_NONE);
	assert_get(&f, "things", KEY("large"), NULL);
	play_close(&p);
	fixture_close(&f);
}
