/* Transactions: all or nothing, reasons for each action, tokens, limits. */
#include "contract/contract.h"

#define ACTION_PUT(p)    "{'Put':{'TableName':'things','Item':{'p':{'S':'" p "'}}}}"
#define ACTION_DELETE(p) "{'Delete':{'TableName':'things','Key':{'p':{'S':'" p "'}}}}"
#define ACTION_COUNT(p)                                                                                      \
	"{'Update':{'TableName':'things','Key':{'p':{'S':'" p                                                \
	"'}},'UpdateExpression':'ADD n :one','ExpressionAttributeValues':{':one':{'N':'1'}}}}"
#define ACTION_CHECK(p, condition)                                                                           \
	"{'ConditionCheck':{'TableName':'things','Key':{'p':{'S':'" p                                        \
	"'}},'ConditionExpression':'" condition "',"                                                         \
	"'ReturnValuesOnConditionCheckFailure':'ALL_OLD'}}"
#define TRANSACT(actions) "{'TransactItems':[" actions "]}"

/* count actions on count items. */
static const char *actions_of(struct contract *c, const char *format, int count)
{
	struct buf out;

	buf_init(&out, &c->f.arena);
	buf_add_bytes(&out, BYTES("{'TransactItems':["));
	for (int i = 0; i < count; i++) {
		char action[200];
		int  len = snprintf(action, sizeof(action), format, i > 0 ? "," : "", i);

		buf_add(&out, action, (size_t)len);
	}
	buf_add(&out, "]}", 3);
	return out.data;
}

CONTRACT(transaction, of_all_kinds_of_actions_does_all)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'d'}}");
	put(c, "{'p':{'S':'e'}}");
	assert_false(ok(c, "TransactWriteItems",
	                TRANSACT(ACTION_PUT("a") "," ACTION_COUNT("b") "," ACTION_DELETE(
	                        "d") "," ACTION_CHECK("e", "attribute_exists(p)")))
	                     .transact.cancelled);
	assert_there(c, "{'p':{'S':'a'}}", "{'p':{'S':'a'}}");
	assert_there(c, "{'p':{'S':'b'}}", "{'p':{'S':'b'},'n':{'N':'1'}}");
	assert_there(c, "{'p':{'S':'d'}}", NULL);
}

CONTRACT(transaction, with_a_false_condition_does_nothing_and_says_which_it_was)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'d'}}");
	put(c, "{'p':{'S':'e'},'x':{'N':'7'}}");
	r = ok(c, "TransactWriteItems",
	       TRANSACT(ACTION_PUT("a") "," ACTION_CHECK("e", "attribute_not_exists(p)") "," ACTION_DELETE(
	               "d") "," ACTION_CHECK("nobody", "attribute_exists(p)")));
	assert_true(r.transact.cancelled);
	assert_int_equal(r.transact.reasons[0].code, ERR_NONE);
	assert_int_equal(r.transact.reasons[1].code, ERR_CONDITION);
	assert_string_equal(r.transact.reasons[1].text, MSG_CONDITION_FAILED);
	assert_item(&c->f, &r.transact.reasons[1].item, "{'p':{'S':'e'},'x':{'N':'7'}}");
	assert_int_equal(r.transact.reasons[2].code, ERR_NONE);
	assert_int_equal(r.transact.reasons[3].code, ERR_CONDITION);
	assert_false(r.transact.reasons[3].has_item);
	assert_there(c, "{'p':{'S':'a'}}", NULL);
	assert_there(c, "{'p':{'S':'d'}}", "{'p':{'S':'d'}}");
}

CONTRACT(transaction, with_an_update_that_cannot_be_computed_is_cancelled_for_that_reason)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'b'},'n':{'S':'no number'}}");
	r = ok(c, "TransactWriteItems", TRANSACT(ACTION_PUT("a") "," ACTION_COUNT("b")));
	assert_true(r.transact.cancelled);
	assert_int_equal(r.transact.reasons[0].code, ERR_NONE);
	assert_int_equal(r.transact.reasons[1].code, ERR_INVALID);
	assert_string_equal(r.transact.reasons[1].text, MSG_APPLY_TYPE);
	assert_there(c, "{'p':{'S':'a'}}", NULL);
}

CONTRACT(transaction, gives_every_action_that_fails_its_reason)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'b'},'n':{'S':'no number'}}");
	r = ok(c, "TransactWriteItems",
	       TRANSACT("{'Put':{'TableName':'things','Item':{'p':{'N':'1'}}}},"
	                "{'Put':{'TableName':'things','Item':{'x':{'N':'1'}}}}," ACTION_PUT(
	                        "a") "," ACTION_COUNT("b") "," ACTION_CHECK("c", "attribute_exists(p)")));
	assert_true(r.transact.cancelled);
	assert_int_equal(r.transact.reasons[0].code, ERR_INVALID);
	assert_int_equal(r.transact.reasons[1].code, ERR_INVALID);
	assert_string_equal(r.transact.reasons[1].text,
	                    "One or more parameter values were invalid: Missing the key p in the item");
	assert_int_equal(r.transact.reasons[2].code, ERR_NONE);
	assert_int_equal(r.transact.reasons[3].code, ERR_INVALID);
	assert_int_equal(r.transact.reasons[4].code, ERR_CONDITION);
	assert_there(c, "{'p':{'S':'a'}}", NULL);
}

CONTRACT(transaction, of_reads_with_keys_that_do_not_fit_is_cancelled_and_says_which)
{
	union answer r;

	create(c, "S", "", "", "");
	assert_int_equal(
	        attempt(c, "TransactGetItems",
	                TRANSACT("{'Get':{'TableName':'things','Key':{'p':{'S':'a'}}}},{'Get':{'TableName':'"
	                         "things','Key':{'p':{'N':'1'}}}},{'Get':{'TableName':'things','Key':{}}}"),
	                &r),
	        ERR_INVALID);
	assert_non_null(r.batch_get.reasons);
	assert_int_equal(r.batch_get.reasons[0].code, ERR_NONE);
	assert_int_equal(r.batch_get.reasons[1].code, ERR_INVALID);
	assert_string_equal(r.batch_get.reasons[1].text, MSG_KEY_MISMATCH);
	assert_int_equal(r.batch_get.reasons[2].code, ERR_INVALID);
}

CONTRACT(transaction, of_reads_with_an_empty_key_is_refused_as_a_whole)
{
	union answer r;

	create(c, "S", "", "", "");
	assert_int_equal(attempt(c, "TransactGetItems",
	                         TRANSACT("{'Get':{'TableName':'things','Key':{'p':{'S':''}}}}"), &r),
	                 ERR_INVALID);
	assert_null(r.batch_get.reasons);
}

CONTRACT(transaction, may_delete_more_than_4_megabytes)
{
	create(c, "S", "", "", "");
	for (int i = 0; i < 50; i++)
		put(c, BODY(c, "{'p':{'S':'%d'},'x':{'S':'%s'}}", i, text_of_length(c, 100 * 1024)));
	assert_false(ok(c, "TransactWriteItems",
	                actions_of(c, "%s{'Delete':{'TableName':'things','Key':{'p':{'S':'%d'}}}}", 50))
	                     .transact.cancelled);
	assert_int_equal(ok(c, "Scan", "{'TableName':'things'}").query.count, 0);
}

CONTRACT(transaction, may_not_touch_one_item_twice)
{
	create(c, "S", "", "", "");
	refused(c, "TransactWriteItems",
	        TRANSACT(ACTION_PUT("a") "," ACTION_CHECK("a", "attribute_exists(p)")), ERR_INVALID,
	        MSG_TRANSACT_TWICE);
	refused(c, "TransactGetItems",
	        TRANSACT("{'Get':{'TableName':'things','Key':{'p':{'S':'a'}}}},{'Get':{'TableName':'things','"
	                 "Key':{'p':"
	                 "{'S':'a'}}}}"),
	        ERR_INVALID, MSG_TRANSACT_TWICE);
}

CONTRACT(transaction, takes_100_actions_and_not_101)
{
	static const char writes[] = "%s{'Put':{'TableName':'things','Item':{'p':{'S':'%d'}}}}",
	                  reads[] = "%s{'Get':{'TableName':'things','Key':{'p':{'S':'%d'}}}}";

	create(c, "S", "", "", "");
	ok(c, "TransactWriteItems", actions_of(c, writes, TABLE_TRANSACT_MAX));
	assert_int_equal(ok(c, "Scan", "{'TableName':'things'}").query.count, TABLE_TRANSACT_MAX);
	refused(c, "TransactWriteItems", actions_of(c, writes, TABLE_TRANSACT_MAX + 1), ERR_INVALID, NULL);
	ok(c, "TransactGetItems", actions_of(c, reads, TABLE_TRANSACT_MAX));
	refused(c, "TransactGetItems", actions_of(c, reads, TABLE_TRANSACT_MAX + 1), ERR_INVALID, NULL);
}

/* Puts of ten full items and one that makes up the rest. */
static const char *puts_of_bytes(struct contract *c, size_t total)
{
	struct buf out;

	buf_init(&out, &c->f.arena);
	buf_add_bytes(&out, BYTES("{'TransactItems':["));
	for (int i = 0; total > 0; i++) {
		size_t bytes = total < ITEM_BYTES_MAX ? total : ITEM_BYTES_MAX;

		buf_add_bytes(
		        &out,
		        bytes_of(BODY(
		                c,
		                "%s{'Put':{'TableName':'things','Item':{'p':{'S':'%02d'},'x':{'S':'%s'}}}}",
		                i > 0 ? "," : "", i, text_of_length(c, bytes - 4))));
		total -= bytes;
	}
	buf_add(&out, "]}", 3);
	return out.data;
}

CONTRACT(transaction, may_write_4_megabytes_and_not_a_byte_more)
{
	create(c, "S", "", "", "");
	refused(c, "TransactWriteItems", puts_of_bytes(c, TABLE_TRANSACT_BYTES_MAX + 1), ERR_INVALID,
	        MSG_TRANSACT_SIZE);
	assert_there(c, "{'p':{'S':'00'}}", NULL);
	ok(c, "TransactWriteItems", puts_of_bytes(c, TABLE_TRANSACT_BYTES_MAX));
	assert_int_equal(ok(c, "GetItem", "{'TableName':'things','Key':{'p':{'S':'00'}}}").get.size_bytes,
	                 ITEM_BYTES_MAX);
}

CONTRACT(transaction, may_read_4_megabytes_and_not_a_byte_more)
{
	static const char reads[] = "%s{'Get':{'TableName':'things','Key':{'p':{'S':'%02d'}}}}";

	create(c, "S", "", "", "");
	ok(c, "TransactWriteItems", puts_of_bytes(c, TABLE_TRANSACT_BYTES_MAX));
	ok(c, "TransactGetItems", actions_of(c, reads, 12));
	put(c, "{'p':{'S':'11'}}");
	refused(c, "TransactGetItems", actions_of(c, reads, 12), ERR_INVALID, MSG_TRANSACT_SIZE);
}

CONTRACT(transaction, reads_each_item_in_its_place_found_or_not)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'x':{'N':'1'},'y':{'N':'2'}}");
	r = ok(c, "TransactGetItems",
	       TRANSACT("{'Get':{'TableName':'things','Key':{'p':{'S':'a'}},'ProjectionExpression':'y'}},{'"
	                "Get':{'TableName':"
	                "'things','Key':{'p':{'S':'b'}}}}"));
	assert_item(&c->f, &r.batch_get.results[0].item, "{'y':{'N':'2'}}");
	assert_false(r.batch_get.results[1].found);
}

/* ---- tokens: each rule has one of its own, since an endpoint may serve all of them ---- */

#define WITH_TOKEN(token, actions) "{'ClientRequestToken':'" token "','TransactItems':[" actions "]}"

/* Whether it was seen before, if the host can tell. */
static void assert_repeated(struct contract *c, const union answer *r, bool repeated)
{
	assert_int_equal(r->transact.repeated, repeated && c->host->knows_repeats);
}

CONTRACT(token, makes_the_same_transaction_count_once)
{
	create(c, "S", "", "", "");
	for (int i = 0; i < 2; i++) {
		union answer r = ok(c, "TransactWriteItems", WITH_TOKEN("once", ACTION_COUNT("a")));

		assert_repeated(c, &r, i > 0);
	}
	assert_there(c, "{'p':{'S':'a'}}", "{'p':{'S':'a'},'n':{'N':'1'}}");
}

CONTRACT(token, used_for_another_transaction_is_refused)
{
	create(c, "S", "", "", "");
	ok(c, "TransactWriteItems", WITH_TOKEN("other", ACTION_COUNT("a")));
	refused(c, "TransactWriteItems", WITH_TOKEN("other", ACTION_COUNT("b")), ERR_TOKEN_MISMATCH,
	        MSG_TOKEN_MISMATCH);
	assert_there(c, "{'p':{'S':'b'}}", NULL);
}

CONTRACT(token, of_a_cancelled_transaction_is_free_again)
{
	create(c, "S", "", "", "");
	assert_true(ok(c, "TransactWriteItems",
	               WITH_TOKEN("freed", ACTION_CHECK("a", "attribute_exists(p)") "," ACTION_COUNT("b")))
	                    .transact.cancelled);
	put(c, "{'p':{'S':'a'}}");
	assert_false(ok(c, "TransactWriteItems",
	                WITH_TOKEN("freed", ACTION_CHECK("a", "attribute_exists(p)") "," ACTION_COUNT("b")))
	                     .transact.repeated);
	assert_there(c, "{'p':{'S':'b'}}", "{'p':{'S':'b'},'n':{'N':'1'}}");
}

CONTRACT(token, may_have_36_characters_and_not_37)
{
	create(c, "S", "", "", "");
	ok(c, "TransactWriteItems", WITH_TOKEN("012345678901234567890123456789012345", ACTION_COUNT("a")));
	refused(c, "TransactWriteItems",
	        WITH_TOKEN("0123456789012345678901234567890123456", ACTION_COUNT("a")), ERR_INVALID, NULL);
}

CONTRACT(token, is_kept_for_ten_minutes)
{
	union answer r;

	create(c, "S", "", "", "");
	ok(c, "TransactWriteItems", WITH_TOKEN("kept", ACTION_COUNT("a")));
	fixture_set_clock(&c->f, START_S + TABLE_TOKEN_LIFE_S - 1);
	r = ok(c, "TransactWriteItems", WITH_TOKEN("kept", ACTION_COUNT("a")));
	assert_repeated(c, &r, true);
	assert_there(c, "{'p':{'S':'a'}}", "{'p':{'S':'a'},'n':{'N':'1'}}");
}
