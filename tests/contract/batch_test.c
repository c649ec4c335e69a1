/* Batches: many items in one call, not all or none but each for itself; no item twice. */
#include "contract/contract.h"

/* "make(0),make(1),…": a list of count elements, each printed from its number. */
static const char *list_of(struct contract *c, const char *format, int count)
{
	struct buf out;

	buf_init(&out, &c->f.arena);
	for (int i = 0; i < count; i++) {
		char element[256];
		int  len = snprintf(element, sizeof(element), format, i);

		if (i > 0)
			buf_add_byte(&out, ',');
		buf_add(&out, element, (size_t)len);
	}
	buf_add_byte(&out, 0);
	return out.data;
}

static const char *puts_of(struct contract *c, int count)
{
	return BODY(c, "{'RequestItems':{'things':[%s]}}",
	            list_of(c, "{'PutRequest':{'Item':{'p':{'S':'%d'}}}}", count));
}

static const char *gets_of(struct contract *c, int count)
{
	return BODY(c, "{'RequestItems':{'things':{'Keys':[%s]}}}", list_of(c, "{'p':{'S':'%d'}}", count));
}

CONTRACT(batch_write, takes_25_writes_and_not_26)
{
	create(c, "S", "", "", "");
	ok(c, "BatchWriteItem", puts_of(c, TABLE_BATCH_WRITE_MAX));
	assert_int_equal(ok(c, "Scan", "{'TableName':'things'}").query.count, TABLE_BATCH_WRITE_MAX);
	refused(c, "BatchWriteItem", puts_of(c, TABLE_BATCH_WRITE_MAX + 1), ERR_INVALID, NULL);
}

CONTRACT(batch_write, puts_and_deletes_in_one_call)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'}}");
	ok(c, "BatchWriteItem",
	   "{'RequestItems':{'things':[{'DeleteRequest':{'Key':{'p':{'S':'a'}}}},{'PutRequest':{'Item':{'p':{"
	   "'S':'b'}}}}]}}");
	assert_there(c, "{'p':{'S':'a'}}", NULL);
	assert_there(c, "{'p':{'S':'b'}}", "{'p':{'S':'b'}}");
}

CONTRACT(batch_write, refuses_two_writes_of_one_item_and_does_nothing)
{
	create(c, "S", "", "", "");
	refused(c, "BatchWriteItem",
	        "{'RequestItems':{'things':[{'PutRequest':{'Item':{'p':{'S':'b'}}}},{'DeleteRequest':{'Key':{"
	        "'p':{'S':'a'}}}},"
	        "{'PutRequest':{'Item':{'p':{'S':'a'},'x':{'N':'1'}}}}]}}",
	        ERR_INVALID, MSG_BATCH_TWICE);
	assert_there(c, "{'p':{'S':'b'}}", NULL);
}

CONTRACT(batch_write, refuses_all_if_one_item_is_invalid)
{
	create(c, "S", "", "", "");
	refused(c, "BatchWriteItem",
	        "{'RequestItems':{'things':[{'PutRequest':{'Item':{'p':{'S':'b'}}}},{'PutRequest':{'Item':{'"
	        "p':{'N':'1'}}}}]}}",
	        ERR_INVALID, MSG_KEY_MISMATCH);
	assert_there(c, "{'p':{'S':'b'}}", NULL);
}

CONTRACT(batch_get, takes_100_keys_and_not_101)
{
	create(c, "S", "", "", "");
	ok(c, "BatchGetItem", gets_of(c, TABLE_BATCH_GET_MAX));
	refused(c, "BatchGetItem", gets_of(c, TABLE_BATCH_GET_MAX + 1), ERR_INVALID, NULL);
}

CONTRACT(batch_get, answers_each_key_in_its_place_found_or_not)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'0'},'x':{'N':'1'},'y':{'N':'2'}}");
	put(c, "{'p':{'S':'2'}}");
	r = ok(c, "BatchGetItem", gets_of(c, 3));
	assert_item(&c->f, &r.batch_get.results[0].item, "{'p':{'S':'0'},'x':{'N':'1'},'y':{'N':'2'}}");
	assert_false(r.batch_get.results[1].found);
	assert_true(r.batch_get.results[2].found);
	r = ok(c, "BatchGetItem",
	       "{'RequestItems':{'things':{'Keys':[{'p':{'S':'0'}}],'ProjectionExpression':'y'}}}");
	assert_item(&c->f, &r.batch_get.results[0].item, "{'y':{'N':'2'}}");
}

CONTRACT(batch_get, refuses_a_key_that_comes_twice_also_if_written_differently)
{
	create(c, "N", "", "", "");
	refused(c, "BatchGetItem", "{'RequestItems':{'things':{'Keys':[{'p':{'N':'1'}},{'p':{'N':'1.0'}}]}}}",
	        ERR_INVALID, MSG_BATCH_TWICE);
}

/* Items of 400 KB: forty fit into 16 MB. */
CONTRACT(batch_get, leaves_for_the_next_call_what_does_not_fit_into_16_megabytes)
{
	enum { FIT = TABLE_BATCH_GET_BYTES_MAX / ITEM_BYTES_MAX, TOTAL = FIT + 2 };
	union answer r;

	create(c, "S", "", "", "");
	for (int i = 0; i < TOTAL; i++) {
		const char *key = BODY(c, "%02d", i);

		put(c,
		    BODY(c, "{'p':{'S':'%s'},'x':{'S':'%s'}}", key, text_of_length(c, ITEM_BYTES_MAX - 4)));
	}
	r = ok(c, "BatchGetItem",
	       BODY(c, "{'RequestItems':{'things':{'Keys':[%s]}}}", list_of(c, "{'p':{'S':'%02d'}}", TOTAL)));
	for (int i = 0; i < TOTAL; i++)
		assert_int_equal(r.batch_get.skipped[i], i >= FIT);
	assert_int_equal(r.batch_get.results[FIT - 1].size_bytes, ITEM_BYTES_MAX);
}
