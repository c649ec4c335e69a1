/* Conditions: a false one is a result, not an error, and writes nothing. */
#include "contract/contract.h"

#define ITEM                                                                                                 \
	"{'p':{'S':'a'},'n':{'N':'5'},'t':{'S':'abc'},'b':{'B':'AQI='},'ss':{'SS':['x','y']},'l':{'L':[{'N'" \
	":'1'}]},"                                                                                           \
	"'m':{'M':{'k':{'S':'v'}}},'y':{'BOOL':true}}"

/* Does the condition hold for ITEM? Values: :n 5, :m 10, :t "ab", :b, :x "x". */
static bool holds(struct contract *c, const char *condition)
{
	static const struct {
		const char *name, *value;
	} values[] = {{":n", "{'N':'5'}"},    {":m", "{'N':'10'}"}, {":t", "{'S':'ab'}"},
	              {":b", "{'B':'AQ=='}"}, {":x", "{'S':'x'}"},  {":y", "{'BOOL':true}"}};
	const char *used = "";
	bool        any = false;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (strstr(condition, values[i].name) != NULL) {
			used = BODY(c, "%s%s'%s':%s", used, any ? "," : "", values[i].name, values[i].value);
			any = true;
		}
	return !ok(c, "DeleteItem",
	           BODY(c,
	                "{'TableName':'things','Key':{'p':{'S':'a'}},'ConditionExpression':'%s AND n <> "
	                ":never'"
	                ",'ExpressionAttributeValues':{':never':{'S':'never'}%s%s}}",
	                condition, any ? "," : "", used))
	                .write.condition_failed;
}

/* One that holds deletes the item, so it is put anew. */
static void assert_holds(struct contract *c, const char *condition, bool expected)
{
	put(c, ITEM);
	if (holds(c, condition) != expected)
		fail_msg("%s is %s", condition, expected ? "false" : "true");
	assert_there(c, "{'p':{'S':'a'}}", expected ? NULL : ITEM);
}

CONTRACT(condition, compares_values_of_one_type)
{
	create(c, "S", "", "", "");
	assert_holds(c, "n = :n", true);
	assert_holds(c, "n <> :n", false);
	assert_holds(c, "n < :m", true);
	assert_holds(c, "n >= :m", false);
	assert_holds(c, "n BETWEEN :n AND :m", true);
	assert_holds(c, "t > :t", true);
	assert_holds(c, "b > :b", true);
	assert_holds(c, "y = :y", true);
}

CONTRACT(condition, between_values_of_two_types_only_unequal_holds)
{
	create(c, "S", "", "", "");
	assert_holds(c, "t = :n", false);
	assert_holds(c, "t <> :n", true);
	assert_holds(c, "t < :n", false);
	assert_holds(c, "t >= :n", false);
}

CONTRACT(condition, on_what_is_absent_only_unequal_and_not_exists_hold)
{
	create(c, "S", "", "", "");
	assert_holds(c, "z = :n", false);
	assert_holds(c, "z <> :n", true);
	assert_holds(c, "z < :n", false);
	assert_holds(c, "attribute_exists(z)", false);
	assert_holds(c, "attribute_not_exists(z)", true);
	assert_holds(c, "attribute_not_exists(m.k)", false);
	assert_holds(c, "size(z) >= :n", false);
}

CONTRACT(condition, has_functions)
{
	create(c, "S", "", "", "");
	assert_holds(c, "begins_with(t, :t)", true);
	assert_holds(c, "begins_with(b, :b)", true);
	assert_holds(c, "contains(ss, :x)", true);
	assert_holds(c, "contains(t, :x)", false);
	assert_holds(c, "attribute_exists(l[0])", true);
	assert_holds(c, "attribute_exists(l[1])", false);
	assert_holds(c, "size(ss) < :n", true);
	assert_holds(c, "n IN (:m, :n)", true);
	assert_holds(c, "n IN (:m, :t)", false);
}

CONTRACT(condition, binds_not_before_and_before_or)
{
	create(c, "S", "", "", "");
	assert_holds(c, "(n = :n OR n = :m AND t = :m)", true);
	assert_holds(c, "((n = :n OR n = :m) AND t = :m)", false);
	assert_holds(c, "NOT n = :m", true);
	assert_holds(c, "(NOT n = :n OR n = :n)", true);
	assert_holds(c, "NOT (n = :n OR n = :m)", false);
}

CONTRACT(condition, that_fails_returns_the_old_item_only_if_asked)
{
	union answer r;

	create(c, "S", "", "", "");
	put(c, "{'p':{'S':'a'},'n':{'N':'5'}}");
	r = ok(c, "PutItem",
	       "{'TableName':'things','Item':{'p':{'S':'a'}},'ConditionExpression':'attribute_not_exists(p)',"
	       "'ReturnValues':'ALL_OLD'}");
	assert_true(r.write.condition_failed);
	assert_false(r.write.has_item);
	r = ok(c, "UpdateItem",
	       "{'TableName':'things','Key':{'p':{'S':'a'}},'UpdateExpression':'REMOVE "
	       "n','ConditionExpression':"
	       "'attribute_not_exists(p)','ReturnValuesOnConditionCheckFailure':'ALL_OLD'}");
	assert_true(r.write.condition_failed);
	assert_item(&c->f, &r.write.item, "{'p':{'S':'a'},'n':{'N':'5'}}");
	assert_there(c, "{'p':{'S':'a'}}", "{'p':{'S':'a'},'n':{'N':'5'}}");
}

CONTRACT(condition, that_fails_on_an_absent_item_has_no_old_item_to_return)
{
	union answer r;

	create(c, "S", "", "", "");
	r = ok(c, "DeleteItem",
	       "{'TableName':'things','Key':{'p':{'S':'a'}},'ConditionExpression':'attribute_exists(p)',"
	       "'ReturnValuesOnConditionCheckFailure':'ALL_OLD'}");
	assert_true(r.write.condition_failed);
	assert_false(r.write.has_item);
}

CONTRACT(condition, is_tested_before_the_update_is_computed)
{
	create(c, "S", "", "", "");
	assert_true(ok(c, "UpdateItem",
	               "{'TableName':'things','Key':{'p':{'S':'a'}},'UpdateExpression':'SET x = "
	               "y','ConditionExpression':"
	               "'attribute_exists(p)'}")
	                    .write.condition_failed);
}
