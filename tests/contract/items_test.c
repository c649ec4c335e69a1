/* Items: get, put, update, delete, and what they return. */
#include "contract/contract.h"

#define KEY         "{'p':{'S':'a'}}"
#define UPDATE(...) "{'TableName':'things','Key':" KEY __VA_ARGS__ "}"
#define ONE         ",'ExpressionAttributeValues':{':v':{'N':'1'}}"
#define SET         ",'ExpressionAttributeValues':{':v':{'SS':['a']}}"

CONTRACT(get, of_an_absent_item_finds_nothing_and_is_no_error)
{
	create(c, "S", "", "", "");
	assert_there(c, KEY, NULL);
}

CONTRACT(get, returns_every_type_as_it_was_put)
{
	const char *item =
	        "{'p':{'S':'a'},'b':{'B':'AP8='},'n':{'N':'-1.5'},'t':{'BOOL':true},'u':{'NULL':true},"
	        "'m':{'M':{'x':{'L':[{'S':''},{'N':'0'}]}}},'ss':{'SS':['b','a']},'ns':{'NS':['2','-3']},"
	        "'bs':{'BS':['AQ==','AA==']}}";

	create(c, "S", "", "", "");
	put(c, item);
	assert_there(c, KEY, item);
}

CONTRACT(get, keeps_38_digits_exactly)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'n':{'N':'12345678901234567890123456789012345678'},'m':{'N':'1e-130'}}");
	assert_there(c, KEY,
	             "{'p':{'S':'a'},'n':{'N':'12345678901234567890123456789012345678'},'m':{'N':'1e-130'}}");
}

CONTRACT(get, with_a_projection_returns_only_those_paths)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'x':{'N':'1'},'m':{'M':{'y':{'N':'2'},'z':{'N':'3'}}},'l':{'L':[{'N':'4'},{'N'"
	       ":'5'}]}}");
	r = ok(c, "GetItem",
	       "{'TableName':'things','Key':" KEY ",'ProjectionExpression':'m.y, l[1], nothing'}");
	assert_item(&c->f, &r.get.item, "{'m':{'M':{'y':{'N':'2'}}},'l':{'L':[{'N':'5'}]}}");
}

CONTRACT(get, that_projects_nothing_still_finds_the_item)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, KEY);
	r = ok(c, "GetItem", "{'TableName':'things','Key':" KEY ",'ProjectionExpression':'nothing'}");
	assert_true(r.get.found);
	assert_int_equal(r.get.item.count, 0);
}

CONTRACT(put, replaces_the_whole_item_and_returns_the_old_one_if_asked)
{
	union answer r;

	create(c, "S", "", "", "");
	r = ok(c, "PutItem",
	       "{'TableName':'things','Item':{'p':{'S':'a'},'x':{'N':'1'}},'ReturnValues':'ALL_OLD'}");
	assert_false(r.write.has_item);
	r = ok(c, "PutItem",
	       "{'TableName':'things','Item':{'p':{'S':'a'},'y':{'N':'2'}},'ReturnValues':'ALL_OLD'}");
	assert_item(&c->f, &r.write.item, "{'p':{'S':'a'},'x':{'N':'1'}}");
	assert_there(c, KEY, "{'p':{'S':'a'},'y':{'N':'2'}}");
}

CONTRACT(put, refuses_return_values_that_only_an_update_has)
{
	create(c, "S", "", "", "");
	refused(c, "PutItem", "{'TableName':'things','Item':" KEY ",'ReturnValues':'ALL_NEW'}", ERR_INVALID,
	        MSG_DETECTED MSG_RETURN_VALUES);
}

CONTRACT(remove, returns_the_old_item_if_asked_and_of_an_absent_one_nothing)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'x':{'N':'1'}}");
	r = ok(c, "DeleteItem", "{'TableName':'things','Key':" KEY ",'ReturnValues':'ALL_OLD'}");
	assert_item(&c->f, &r.write.item, "{'p':{'S':'a'},'x':{'N':'1'}}");
	r = ok(c, "DeleteItem", "{'TableName':'things','Key':" KEY ",'ReturnValues':'ALL_OLD'}");
	assert_false(r.write.has_item);
	assert_there(c, KEY, NULL);
}

CONTRACT(update, of_an_absent_item_creates_it)
{
	create(c, "S", "", "", "");
	ok(c, "UpdateItem", UPDATE(",'UpdateExpression':'SET x = :v'" ONE));
	assert_there(c, KEY, "{'p':{'S':'a'},'x':{'N':'1'}}");
}

CONTRACT(update, without_an_expression_creates_the_bare_key)
{
	create(c, "S", "", "", "");
	ok(c, "UpdateItem", UPDATE(""));
	assert_there(c, KEY, KEY);
}

CONTRACT(update, of_an_absent_item_that_only_removes_creates_nothing)
{
	create(c, "S", "", "", "");
	assert_false(ok(c, "UpdateItem", UPDATE(",'ReturnValues':'ALL_NEW','UpdateExpression':'REMOVE x'"))
	                     .write.has_item);
	assert_there(c, KEY, NULL);
	ok(c, "UpdateItem", UPDATE(",'UpdateExpression':'DELETE x :v'" SET));
	ok(c, "UpdateItem", UPDATE(",'UpdateExpression':'REMOVE x DELETE y :v'" SET));
	ok(c, "UpdateItem", UPDATE(",'AttributeUpdates':{'x':{'Action':'DELETE'}}"));
	ok(c, "UpdateItem", UPDATE(",'AttributeUpdates':{'x':{'Action':'DELETE','Value':{'SS':['a']}}}"));
	assert_there(c, KEY, NULL);
}

CONTRACT(update, of_an_absent_item_that_removes_and_sets_creates_it)
{
	create(c, "S", "", "", "");
	ok(c, "UpdateItem", UPDATE(",'UpdateExpression':'SET x = :v REMOVE y'" ONE));
	assert_there(c, KEY, "{'p':{'S':'a'},'x':{'N':'1'}}");
}

CONTRACT(update, may_remove_a_part_of_an_absent_item)
{
	create(c, "S", "", "", "");
	ok(c, "UpdateItem", UPDATE(",'UpdateExpression':'REMOVE x.y, z[1]'"));
	assert_there(c, KEY, NULL);
}

CONTRACT(update, of_an_absent_item_may_not_remove_its_key)
{
	create(c, "S", "", "", "");
	refused(c, "UpdateItem", UPDATE(",'UpdateExpression':'REMOVE p'"), ERR_INVALID,
	        "One or more parameter values were invalid: Cannot update attribute p. This attribute is "
	        "part of the key");
}

CONTRACT(transaction, with_an_update_that_only_removes_creates_nothing)
{
	create(c, "S", "", "", "");
	ok(c, "TransactWriteItems",
	   "{'TransactItems':[{'Update':{'TableName':'things','Key':" KEY
	   ",'UpdateExpression':'REMOVE x'}}]}");
	assert_there(c, KEY, NULL);
}

CONTRACT(update, computes_every_action_from_the_item_as_it_was)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'x':{'N':'1'},'y':{'N':'2'}}");
	ok(c, "UpdateItem", UPDATE(",'UpdateExpression':'SET x = y, y = x'"));
	assert_there(c, KEY, "{'p':{'S':'a'},'x':{'N':'2'},'y':{'N':'1'}}");
}

CONTRACT(update, adds_and_deletes_set_elements_and_an_empty_set_is_no_attribute)
{
	create(c, "S", "", "", "");
	ok(c, "UpdateItem",
	   UPDATE(",'UpdateExpression':'ADD t :v','ExpressionAttributeValues':{':v':{'SS':['b','a']}}"));
	assert_there(c, KEY, "{'p':{'S':'a'},'t':{'SS':['a','b']}}");
	ok(c, "UpdateItem",
	   UPDATE(",'UpdateExpression':'DELETE t "
	          ":v','ExpressionAttributeValues':{':v':{'SS':['a','b','z']}}"));
	assert_there(c, KEY, KEY);
}

CONTRACT(update, appends_to_lists_at_either_end)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'l':{'L':[{'N':'1'}]}}");
	ok(c, "UpdateItem",
	   UPDATE(",'UpdateExpression':'SET l = list_append(l, "
	          ":v)','ExpressionAttributeValues':{':v':{'L':[{'N':'2'}]}}"));
	ok(c, "UpdateItem",
	   UPDATE(",'UpdateExpression':'SET l = list_append(:v, "
	          "l)','ExpressionAttributeValues':{':v':{'L':[{'N':'0'}]}}"));
	assert_there(c, KEY, "{'p':{'S':'a'},'l':{'L':[{'N':'0'},{'N':'1'},{'N':'2'}]}}");
}

CONTRACT(update, keeps_what_if_not_exists_finds)
{
	create(c, "S", "", "", "");
	for (int i = 0; i < 2; i++)
		ok(c, "UpdateItem",
		   BODY(c,
		        UPDATE(",'UpdateExpression':'SET x = if_not_exists(x, "
		               ":v)','ExpressionAttributeValues':"
		               "{':v':{'N':'%d'}}"),
		        i));
	assert_there(c, KEY, "{'p':{'S':'a'},'x':{'N':'0'}}");
}

CONTRACT(update, that_cannot_be_computed_is_refused_and_changes_nothing)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'x':{'S':'text'}}");
	refused(c, "UpdateItem", UPDATE(",'UpdateExpression':'SET y = :v, x = x + :v'" ONE), ERR_INVALID,
	        MSG_APPLY_TYPE);
	refused(c, "UpdateItem", UPDATE(",'UpdateExpression':'SET y = z + :v'" ONE), ERR_INVALID,
	        MSG_APPLY_NO_ATTRIBUTE);
	refused(c, "UpdateItem", UPDATE(",'UpdateExpression':'SET y.z = :v'" ONE), ERR_INVALID,
	        MSG_APPLY_PATH);
	refused(c, "UpdateItem", UPDATE(",'UpdateExpression':'ADD x :v'" ONE), ERR_INVALID, MSG_APPLY_TYPE);
	assert_there(c, KEY, "{'p':{'S':'a'},'x':{'S':'text'}}");
}

CONTRACT(update, refuses_a_sum_of_more_than_38_digits)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'x':{'N':'99999999999999999999999999999999999999'}}");
	ok(c, "UpdateItem", UPDATE(",'UpdateExpression':'ADD x :v'" ONE)); /* 1e38 is one digit */
	assert_there(c, KEY, "{'p':{'S':'a'},'x':{'N':'1e38'}}");
	refused(c, "UpdateItem", UPDATE(",'UpdateExpression':'ADD x :v'" ONE), ERR_INVALID,
	        MSG_NUMBER_PRECISION);
}

CONTRACT(update, may_not_touch_the_key)
{
	create(c, "S", "S", "", "");
	refused(c, "UpdateItem",
	        "{'TableName':'things','Key':{'p':{'S':'a'},'s':{'S':'b'}},'UpdateExpression':'REMOVE s'}",
	        ERR_INVALID,
	        "One or more parameter values were invalid: Cannot update attribute s. This attribute is "
	        "part of the key");
}

/* ---- what an update returns ---- */

static union answer update_returning(struct contract *c, const char *what)
{
	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'x':{'N':'1'},'m':{'M':{'y':{'N':'2'},'z':{'N':'3'}}},'w':{'N':'9'}}");
	return ok(c, "UpdateItem",
	          BODY(c,
	               UPDATE(",'ReturnValues':'%s','UpdateExpression':'SET x = :v, m.y = :v REMOVE "
	                      "w','ExpressionAttribute"
	                      "Values':{':v':{'N':'7'}}"),
	               what));
}

CONTRACT(returns, none_is_nothing)
{
	assert_false(update_returning(c, "NONE").write.has_item);
}

CONTRACT(returns, all_old_is_the_item_before)
{
	union answer r = update_returning(c, "ALL_OLD");

	assert_item(&c->f, &r.write.item,
	            "{'p':{'S':'a'},'x':{'N':'1'},'m':{'M':{'y':{'N':'2'},'z':{'N':'3'}}},'w':{'N':'9'}}");
}

CONTRACT(returns, all_new_is_the_item_after)
{
	union answer r = update_returning(c, "ALL_NEW");

	assert_item(&c->f, &r.write.item,
	            "{'p':{'S':'a'},'x':{'N':'7'},'m':{'M':{'y':{'N':'7'},'z':{'N':'3'}}}}");
}

CONTRACT(returns, updated_old_is_what_the_expression_touched_as_it_was)
{
	union answer r = update_returning(c, "UPDATED_OLD");

	assert_item(&c->f, &r.write.item, "{'x':{'N':'1'},'m':{'M':{'y':{'N':'2'}}},'w':{'N':'9'}}");
}

CONTRACT(returns, updated_new_is_what_the_expression_touched_as_it_is_now)
{
	union answer r = update_returning(c, "UPDATED_NEW");

	assert_item(&c->f, &r.write.item, "{'x':{'N':'7'},'m':{'M':{'y':{'N':'7'}}}}");
}

CONTRACT(returns, of_an_item_that_was_not_there_old_is_nothing)
{
	create(c, "S", "", "", "");
	assert_false(
	        ok(c, "UpdateItem", UPDATE(",'ReturnValues':'ALL_OLD','UpdateExpression':'SET x = :v'" ONE))
	                .write.has_item);
}
