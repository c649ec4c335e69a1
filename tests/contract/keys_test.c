/* Keys and sizes: what is refused, with which text, at each limit and one past it. */
#include "contract/contract.h"

#define LIMITS_KEY(c, p, s) BODY(c, "{'p':{'S':'%s'},'s':{'S':'%s'}}", p, s)

static void refused_everywhere(struct contract *c, const char *key, const char *text)
{
	refused(c, "GetItem", BODY(c, "{'TableName':'things','Key':%s}", key), ERR_INVALID, text);
	refused(c, "DeleteItem", BODY(c, "{'TableName':'things','Key':%s}", key), ERR_INVALID, text);
	refused(c, "UpdateItem", BODY(c, "{'TableName':'things','Key':%s}", key), ERR_INVALID, text);
}

CONTRACT(key, must_be_exactly_the_tables_key_attributes)
{
	create(c, "S", "N", "", "");
	refused_everywhere(c, "{'p':{'S':'a'}}", MSG_KEY_MISMATCH);
	refused_everywhere(c, "{'s':{'N':'1'}}", MSG_KEY_MISMATCH);
	refused_everywhere(c, "{'p':{'S':'a'},'x':{'N':'1'}}", MSG_KEY_MISMATCH);
	refused_everywhere(c, "{'p':{'S':'a'},'s':{'N':'1'},'x':{'N':'1'}}", MSG_KEY_MISMATCH);
}

CONTRACT(key, must_have_the_tables_types)
{
	create(c, "S", "N", "", "");
	refused_everywhere(c, "{'p':{'N':'1'},'s':{'N':'1'}}", MSG_KEY_MISMATCH);
	refused_everywhere(c, "{'p':{'S':'a'},'s':{'S':'1'}}", MSG_KEY_MISMATCH);
	refused_everywhere(c, "{'p':{'B':'AA=='},'s':{'N':'1'}}", MSG_KEY_MISMATCH);
}

CONTRACT(key, of_an_item_to_put_may_not_be_missing_or_of_another_type)
{
	create(c, "S", "N", "", "");
	refused(c, "PutItem", "{'TableName':'things','Item':{'p':{'S':'a'}}}", ERR_INVALID,
	        "One or more parameter values were invalid: Missing the key s in the item");
	refused(c, "PutItem", "{'TableName':'things','Item':{'p':{'S':'a'},'s':{'S':'1'}}}", ERR_INVALID,
	        "One or more parameter values were invalid: Type mismatch for key s expected: N actual: S");
}

CONTRACT(key, may_not_be_empty_text_or_empty_binary)
{
	create(c, "S", "B", "", "");
	refused_everywhere(
	        c, "{'p':{'S':''},'s':{'B':'AA=='}}",
	        "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
	        "contain an empty string value. Key: p");
	refused_everywhere(
	        c, "{'p':{'S':'a'},'s':{'B':''}}",
	        "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
	        "contain an empty binary value. Key: s");
}

CONTRACT(key, of_a_hash_may_have_2048_bytes_and_not_one_more)
{
	create(c, "S", "S", "", "");
	put(c, LIMITS_KEY(c, text_of_length(c, 2048), "1"));
	assert_there(c, LIMITS_KEY(c, text_of_length(c, 2048), "1"),
	             LIMITS_KEY(c, text_of_length(c, 2048), "1"));
	refused(c, "PutItem",
	        BODY(c, "{'TableName':'things','Item':%s}", LIMITS_KEY(c, text_of_length(c, 2049), "1")),
	        ERR_INVALID, MSG_HASH_SIZE);
	refused_everywhere(c, LIMITS_KEY(c, text_of_length(c, 2049), "1"), MSG_HASH_SIZE);
}

CONTRACT(key, of_a_range_may_have_1024_bytes_and_not_one_more)
{
	create(c, "S", "S", "", "");
	put(c, LIMITS_KEY(c, "a", text_of_length(c, 1024)));
	assert_there(c, LIMITS_KEY(c, "a", text_of_length(c, 1024)),
	             LIMITS_KEY(c, "a", text_of_length(c, 1024)));
	refused(c, "PutItem",
	        BODY(c, "{'TableName':'things','Item':%s}", LIMITS_KEY(c, "a", text_of_length(c, 1025))),
	        ERR_INVALID, MSG_RANGE_SIZE);
	refused_everywhere(c, LIMITS_KEY(c, "a", text_of_length(c, 1025)), MSG_RANGE_SIZE);
}

CONTRACT(key, numbers_that_are_equal_are_one_key)
{
	create(c, "N", "", "", "");
	put(c, "{'p':{'N':'1.50'}}");
	assert_there(c, "{'p':{'N':'15e-1'}}", "{'p':{'N':'1.5'}}");
}

/* ---- the size of an item: names and values, p a s 1 and x with its text ---- */

enum { ITEM_REST_BYTES = 5 };

static const char *item_of_size(struct contract *c, size_t bytes)
{
	return BODY(c, "{'p':{'S':'a'},'s':{'S':'1'},'x':{'S':'%s'}}",
	            text_of_length(c, bytes - ITEM_REST_BYTES));
}

CONTRACT(size, an_item_may_have_400_kb_and_not_one_byte_more)
{
	create(c, "S", "S", "", "");
	put(c, item_of_size(c, ITEM_BYTES_MAX));
	assert_int_equal(
	        ok(c, "GetItem", "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'1'}}}").get.size_bytes,
	        ITEM_BYTES_MAX);
	refused(c, "PutItem",
	        BODY(c, "{'TableName':'things','Item':%s}", item_of_size(c, ITEM_BYTES_MAX + 1)), ERR_INVALID,
	        MSG_ITEM_SIZE);
}

CONTRACT(size, an_update_may_make_an_item_of_400_kb_and_not_one_byte_more)
{
	create(c, "S", "S", "", "");
	for (size_t more = 0; more <= 1; more++) {
		const char *body =
		        BODY(c,
		             "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'1'}},'UpdateExpression':"
		             "'SET x = :x','ExpressionAttributeValues':{':x':{'S':'%s'}}}",
		             text_of_length(c, ITEM_BYTES_MAX - ITEM_REST_BYTES + more));

		if (more == 0)
			ok(c, "UpdateItem", body);
		else
			refused(c, "UpdateItem", body, ERR_INVALID, MSG_ITEM_SIZE_UPDATE);
	}
	assert_int_equal(
	        ok(c, "GetItem", "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'1'}}}").get.size_bytes,
	        ITEM_BYTES_MAX);
}

/* So many lists, one in the other. */
static const char *nested(struct contract *c, unsigned depth)
{
	const char *value = "{'S':'x'}";

	for (unsigned i = 0; i < depth; i++)
		value = BODY(c, "{'L':[%s]}", value);
	return BODY(c, "{'TableName':'things','Item':{'p':{'S':'a'},'x':%s}}", value);
}

CONTRACT(size, an_item_may_have_32_levels_and_not_33)
{
	create(c, "S", "", "", "");
	ok(c, "PutItem", nested(c, VALUE_DEPTH_MAX));
	refused(c, "PutItem", nested(c, VALUE_DEPTH_MAX + 1), ERR_INVALID, NULL);
}

CONTRACT(table, that_is_not_there_is_no_resource_for_every_call)
{
	static const struct {
		const char *operation, *body;
	} calls[] = {
	        {"GetItem", "{'TableName':'nothing','Key':{'p':{'S':'a'}}}"},
	        {"PutItem", "{'TableName':'nothing','Item':{'p':{'S':'a'}}}"},
	        {"UpdateItem", "{'TableName':'nothing','Key':{'p':{'S':'a'}}}"},
	        {"DeleteItem", "{'TableName':'nothing','Key':{'p':{'S':'a'}}}"},
	        {"Scan", "{'TableName':'nothing'}"},
	        {"Query",
	         "{'TableName':'nothing','KeyConditionExpression':'p = :v','ExpressionAttributeValues':{':v':"
	         "{'S':'a'}}}"},
	        {"BatchGetItem", "{'RequestItems':{'nothing':{'Keys':[{'p':{'S':'a'}}]}}}"},
	        {"BatchWriteItem", "{'RequestItems':{'nothing':[{'PutRequest':{'Item':{'p':{'S':'a'}}}}]}}"},
	        {"TransactGetItems",
	         "{'TransactItems':[{'Get':{'TableName':'nothing','Key':{'p':{'S':'a'}}}}]}"},
	        {"TransactWriteItems",
	         "{'TransactItems':[{'Put':{'TableName':'nothing','Item':{'p':{'S':'a'}}}}]}"},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		refused(c, calls[i].operation, calls[i].body, ERR_NO_RESOURCE, MSG_NO_TABLE);
}
