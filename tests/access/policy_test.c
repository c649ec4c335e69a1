/* Policies: actions, resources and the order of Deny, Allow and nothing; a least-privilege policy as it is
 * written for AWS; explanations. */
#include "support.h"

#include <malloc.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

#define ALLOW_ALL "\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\""

static const char least_privilege[] = "{\n"
                                      "  \"Version\": \"2012-10-17\",\n"
                                      "  \"Statement\": [\n"
                                      "    {\n"
                                      "      \"Effect\": \"Allow\",\n"
                                      "      \"Action\": [\n"
                                      "        \"dynamodb:PutItem\",\n"
                                      "        \"dynamodb:GetItem\",\n"
                                      "        \"dynamodb:UpdateItem\",\n"
                                      "        \"dynamodb:DeleteItem\",\n"
                                      "        \"dynamodb:Query\"\n"
                                      "      ],\n"
                                      "      \"Resource\": \"arn:aws:dynamodb:REGION:ACCOUNT:table/"
                                      "photoeditor-ENV-device-tokens\"\n"
                                      "    },\n"
                                      "    {\n"
                                      "      \"Effect\": \"Allow\",\n"
                                      "      \"Action\": [\n"
                                      "        \"kms:Decrypt\",\n"
                                      "        \"kms:GenerateDataKey\"\n"
                                      "      ],\n"
                                      "      \"Resource\": \"arn:aws:kms:REGION:ACCOUNT:key/KMS_KEY_ID\"\n"
                                      "    }\n"
                                      "  ]\n"
                                      "}\n";

#define ALLOW_EVERYTHING "{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\"}"

static struct policy *statements_parse(struct fixture *f, const char *statements)
{
	return fixture_parse(
	        f, arena_printf(&f->arena, "{\"Version\":\"2012-10-17\",\"Statement\":[%s]}", statements));
}

TEST(policy, says_before_a_request_is_read_how_far_it_reaches_with_an_action)
{
	static const struct {
		const char *statements;
		enum reach  reach;
	} cases[] = {
	        {ALLOW_EVERYTHING, REACH_ALL},
	        {"{\"Effect\":\"Allow\",\"Action\":\"dynamodb:putitem\",\"Resource\":\"" TABLE "\"}",
	         REACH_SOME},
	        {"{\"Effect\":\"Allow\",\"Action\":\"*\",\"NotResource\":\"" TABLE "\"}", REACH_SOME},
	        {"{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"Bool\":"
	         "{\"aws:SecureTransport\":\"true\"}}}",
	         REACH_SOME},
	        {"{\"Effect\":\"Allow\",\"Action\":\"dynamodb:GetItem\",\"Resource\":\"*\"}", REACH_NOTHING},
	        {"{\"Effect\":\"Allow\",\"NotAction\":\"dynamodb:P*\",\"Resource\":\"*\"}", REACH_NOTHING},
	        {"{\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":\"*\"}", REACH_NOTHING},
	        {ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"dynamodb:Put*\",\"Resource\":[\"" TABLE
	                          "\",\"*\"]}",
	         REACH_NOTHING},
	        {ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":\"" TABLE "\"}",
	         REACH_DENIES},
	        {ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"dynamodb:GetItem\",\"Resource\":\"*\"}",
	         REACH_ALL},
	        {ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"*\",\"NotResource\":\"*\"}",
	         REACH_DENIES},
	        {ALLOW_EVERYTHING
	         ",{\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"Bool\":"
	         "{\"aws:SecureTransport\":\"false\"}}}",
	         REACH_DENIES},
	};
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct policy *p = statements_parse(f, cases[i].statements);

		if (policy_reach(p, BYTES("dynamodb:PutItem")) != cases[i].reach)
			fail_msg("%s", cases[i].statements);
		policy_close(p);
	}
	fixture_close(f);
}

TEST(policy, says_before_conditions_are_known_whether_a_resource_could_be_allowed)
{
	static const char *const never[] = {
	        "{\"Effect\":\"Allow\",\"Action\":\"*\",\"NotResource\":\"" TABLE "\"}",
	        ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":\"" TABLE "\"}",
	        "{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"" TABLE "x\"}",
	};
	static const char *const maybe[] = {
	        ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":\"" TABLE
	                         "\",\"Condition\":{\"Bool\":{\"aws:SecureTransport\":\"false\"}}}",
	        "{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"" TABLE
	        "\",\"Condition\":{\"Bool\":{\"aws:SecureTransport\":\"false\"}}}",
	};
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < COUNT(never) + COUNT(maybe); i++) {
		bool           could = i >= COUNT(never);
		const char    *statements = could ? maybe[i - COUNT(never)] : never[i];
		struct policy *p = statements_parse(f, statements);

		if (policy_could_allow(p, BYTES("dynamodb:PutItem"), BYTES(TABLE)) != could)
			fail_msg("%s", statements);
		policy_close(p);
	}
	fixture_close(f);
}

#define HOME "arn:aws:gatehouse:local:000000000000:"

TEST(policy, says_whether_it_could_deny_something_of_a_kind)
{
	static const struct {
		const char *denied; /* what a Deny names */
		bool        users;
	} cases[] = {
	        {"\"Resource\":\"*\"", true},
	        {"\"Resource\":\"" HOME "user/ann\"", true},
	        {"\"Resource\":\"" HOME "user/a*\"", true},
	        {"\"Resource\":\"" HOME "us?r/ann\"", true},
	        {"\"Resource\":\"" HOME "*ann\"", true},
	        {"\"Resource\":\"arn:aws:gatehouse:*\"", true},
	        {"\"Resource\":\"arn:aws:gatehouse:*:*:user/ann\"", true},
	        {"\"Resource\":[\"" HOME "journey/A\",\"" HOME "user/ann\"]", true},
	        {"\"NotResource\":\"" HOME "user/bob\"", true},
	        {"\"Resource\":\"" HOME "users/ann\"", false},
	        {"\"Resource\":\"" HOME "journey/*\"", false},
	        {"\"Resource\":\"" TABLE "\"", false},
	};
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct bytes statements =
		        arena_printf(&f->arena, ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"*\",%s}",
		                     cases[i].denied);
		struct policy *p = statements_parse(f, statements.data);

		if (policy_could_deny(p, BYTES("gatehouse:GetUser"), BYTES(HOME "user/")) != cases[i].users)
			fail_msg("%s", cases[i].denied);
		policy_close(p);
	}
	fixture_close(f);
}

TEST(policy, says_whether_a_request_is_allowed_on_whatever_there_is)
{
	static const struct {
		const char *statements;
		bool        all;
	} cases[] = {
	        {ALLOW_EVERYTHING, true},
	        {"{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"Bool\":"
	         "{\"aws:SecureTransport\":\"true\"}}}",
	         true},
	        {"{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"Bool\":"
	         "{\"aws:SecureTransport\":\"false\"}}}",
	         false},
	        {"{\"Effect\":\"Allow\",\"Action\":\"*\",\"NotResource\":\"" TABLE "\"}", false},
	        {ALLOW_EVERYTHING ",{\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":\"" TABLE "\"}",
	         false},
	        {"{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"arn:aws:gatehouse:*\"}", false},
	};
	struct access_value   secure = {.key = ACCESS_SECURE_TRANSPORT, .truth = true};
	struct access_request request = {BYTES("gatehouse:GetUser"), BYTES("*"), &secure, 1};
	struct fixture       *f = fixture_open();

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct policy *p = statements_parse(f, cases[i].statements);

		if (policy_allows_all(p, &request) != cases[i].all)
			fail_msg("%s", cases[i].statements);
		policy_close(p);
	}
	fixture_close(f);
}

TEST(policy, the_least_privilege_policy_of_the_device_tokens_works_as_it_is)
{
	static const char table[] = "arn:aws:dynamodb:REGION:ACCOUNT:table/photoeditor-ENV-device-tokens";
	static const struct {
		const char   *action, *resource;
		enum decision expected;
	} rows[] = {
	        {"dynamodb:PutItem", table, DECISION_ALLOWED},
	        {"dynamodb:GetItem", table, DECISION_ALLOWED},
	        {"dynamodb:UpdateItem", table, DECISION_ALLOWED},
	        {"dynamodb:DeleteItem", table, DECISION_ALLOWED},
	        {"dynamodb:Query", table, DECISION_ALLOWED},
	        {"dynamodb:Scan", table, DECISION_DENIED_BY_DEFAULT},
	        {"dynamodb:DeleteTable", table, DECISION_DENIED_BY_DEFAULT},
	        {"dynamodb:BatchGetItem", table, DECISION_DENIED_BY_DEFAULT},
	        {"dynamodb:GetItem", TABLE, DECISION_DENIED_BY_DEFAULT},
	        {"dynamodb:Query",
	         "arn:aws:dynamodb:REGION:ACCOUNT:table/photoeditor-ENV-device-tokens/index/byUser",
	         DECISION_DENIED_BY_DEFAULT},
	        {"dynamodb:GetItem", "arn:aws:kms:REGION:ACCOUNT:key/KMS_KEY_ID", DECISION_DENIED_BY_DEFAULT},
	        {"kms:Decrypt", "arn:aws:kms:REGION:ACCOUNT:key/KMS_KEY_ID", DECISION_ALLOWED},
	};
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < COUNT(rows); i++)
		if (fixture_decide(f, least_privilege, rows[i].action, rows[i].resource, "") !=
		    rows[i].expected)
			fail_msg("%s on %s", rows[i].action, rows[i].resource);
	fixture_close(f);
}

TEST(policy, a_statement_applies_to_its_actions_and_resources_only)
{
	static const struct {
		const char *statement, *action, *resource;
		bool        allowed;
	} rows[] = {
#define ACTION(pattern) "\"Effect\":\"Allow\",\"Resource\":\"*\",\"Action\":" pattern
	        {ACTION("\"*\""), "dynamodb:Scan", TABLE, true},
	        {ACTION("\"dynamodb:*\""), "dynamodb:Scan", TABLE, true},
	        {ACTION("\"dynamodb:*\""), "gatehouse:Check", "*", false},
	        {ACTION("\"DYNAMODB:getITEM\""), "dynamodb:GetItem", TABLE, true},
	        {ACTION("\"dynamodb:GetItem\""), "DynamoDB:GETITEM", TABLE, true},
	        {ACTION("\"dynamodb:Get*\""), "dynamodb:GetItem", TABLE, true},
	        {ACTION("\"dynamodb:Get*\""), "dynamodb:BatchGetItem", TABLE, false},
	        {ACTION("\"dynamodb:*Item\""), "dynamodb:BatchGetItem", TABLE, true},
	        {ACTION("\"dynamodb:*Item\""), "dynamodb:TransactGetItems", TABLE, false},
	        {ACTION("\"dynamodb:???Item\""), "dynamodb:PutItem", TABLE, true},
	        {ACTION("\"dynamodb:???Item\""), "dynamodb:UpdateItem", TABLE, false},
	        {ACTION("\"dynamodb:*et*te*\""), "dynamodb:BatchGetItem", TABLE, true},
	        {ACTION("[\"dynamodb:Query\",\"dynamodb:Scan\"]"), "dynamodb:Scan", TABLE, true},
	        {ACTION("[\"dynamodb:Query\",\"dynamodb:Scan\"]"), "dynamodb:GetItem", TABLE, false},
#define NOT_ACTION(pattern) "\"Effect\":\"Allow\",\"Resource\":\"*\",\"NotAction\":" pattern
	        {NOT_ACTION("\"dynamodb:Delete*\""), "dynamodb:GetItem", TABLE, true},
	        {NOT_ACTION("\"dynamodb:Delete*\""), "dynamodb:DeleteItem", TABLE, false},
	        {NOT_ACTION("[\"dynamodb:Delete*\",\"dynamodb:Scan\"]"), "dynamodb:scan", TABLE, false},
#define RESOURCE(pattern) "\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":" pattern
	        {RESOURCE("\"" TABLE "\""), "dynamodb:GetItem", TABLE, true},
	        {RESOURCE("\"" TABLE "\""), "dynamodb:Query", INDEX, false},
	        {RESOURCE("\"" TABLE "/index/*\""), "dynamodb:Query", INDEX, true},
	        {RESOURCE("\"" TABLE "/index/*\""), "dynamodb:Query", TABLE, false},
	        {RESOURCE("\"" TABLE "*\""), "dynamodb:Query", INDEX, true},
	        {RESOURCE("\"arn:aws:dynamodb:*:*:table/Users\""), "dynamodb:Query", TABLE, true},
	        {RESOURCE("\"arn:aws:dynamodb:eu-*:*:table/U*s\""), "dynamodb:Query", TABLE, true},
	        {RESOURCE("\"arn:aws:dynamodb:us-*:*:table/U*s\""), "dynamodb:Query", TABLE, false},
	        {RESOURCE("\"arn:aws:dynamodb:eu-west-?:12345678901?:table/User?\""), "dynamodb:Query", TABLE,
	         true},
	        {RESOURCE("\"arn:aws:dynamodb:*\""), "dynamodb:Query", INDEX, true},
	        {RESOURCE("\"arn:aws:dynamodb:eu-west-1:*\""), "dynamodb:Query", INDEX, true},
	        {RESOURCE("\"arn:aws:dynamodb:eu-west-2:*\""), "dynamodb:Query", INDEX, false},
	        {RESOURCE("\"arn:*:dynamodb:*:*:*\""), "dynamodb:Query", INDEX, true},
	        {RESOURCE("\"arn:aws:dynamodb:*:*:table/users\""), "dynamodb:Query", TABLE, false},
	        {RESOURCE("\"arn:aws:dynamodb:*:*:*\""), "dynamodb:ListTables", "*", false},
	        {RESOURCE("\"*\""), "dynamodb:ListTables", "*", true},
	        {RESOURCE("[\"arn:aws:s3:::bucket/*\",\"" TABLE "\"]"), "dynamodb:GetItem", TABLE, true},
#define NOT_RESOURCE(pattern) "\"Effect\":\"Allow\",\"Action\":\"*\",\"NotResource\":" pattern
	        {NOT_RESOURCE("\"arn:aws:dynamodb:*:*:table/Secrets*\""), "dynamodb:GetItem", TABLE, true},
	        {NOT_RESOURCE("\"" TABLE "\""), "dynamodb:GetItem", TABLE, false},
	        {NOT_RESOURCE("\"*\""), "dynamodb:GetItem", TABLE, false},
	};
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < COUNT(rows); i++) {
		enum decision expected = rows[i].allowed ? DECISION_ALLOWED : DECISION_DENIED_BY_DEFAULT;

		if (fixture_decide(f, fixture_statement(f, "%s", rows[i].statement), rows[i].action,
		                   rows[i].resource, "") != expected)
			fail_msg("row %zu: %s, %s on %s", i, rows[i].statement, rows[i].action,
			         rows[i].resource);
	}
	fixture_close(f);
}

TEST(policy, a_deny_wins_wherever_it_stands_and_silence_denies)
{
	struct fixture *f = fixture_open();
	struct policy  *allow = fixture_parse(f, bytes_of(fixture_statement(f, ALLOW_ALL)));
	struct policy  *deny = fixture_parse(
	         f, BYTES("{\"Statement\":[{\"Effect\":\"Allow\",\"Action\":\"dynamodb:Query\",\"Resource\":"
	                   "\"*\"},"
	                   "{\"Effect\":\"Deny\",\"Action\":\"dynamodb:Delete*\",\"Resource\":\"*\"}]}"));
	const struct policy  *orders[][2] = {{allow, deny}, {deny, allow}};
	struct access_request drop = fixture_request(f, "dynamodb:DeleteTable", TABLE, "");
	struct access_request get = fixture_request(f, "dynamodb:GetItem", TABLE, "");
	struct explanation    why;

	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(policy_evaluate(orders[i], 2, &drop, &why), DECISION_DENIED_EXPLICITLY);
		assert_int_equal(why.policy, 1 - i);
		assert_int_equal(why.statement, 1);
		assert_int_equal(policy_evaluate(orders[i], 2, &get, &why), DECISION_ALLOWED);
		assert_int_equal(why.policy, i);
	}
	assert_int_equal(policy_evaluate(&orders[1][0], 1, &get, NULL), DECISION_DENIED_BY_DEFAULT);
	assert_int_equal(policy_evaluate(NULL, 0, &get, &why), DECISION_DENIED_BY_DEFAULT);
	assert_int_equal(why.decision, DECISION_DENIED_BY_DEFAULT);
	policy_close(allow);
	policy_close(deny);
	fixture_close(f);
}

/* ---- the rest of the interface ---- */

TEST(policy, it_says_which_keys_a_request_must_state)
{
	struct fixture *f = fixture_open();
	struct policy  *plain = fixture_parse(f, bytes_of(fixture_statement(f, ALLOW_ALL)));
	struct policy  *keyed = fixture_parse(
	         f, bytes_of(fixture_statement(f, ALLOW_ALL ",\"Condition\":{\"ForAllValues:StringEquals\":{"
	                                                     "\"DYNAMODB:leadingkeys\":\"a\"}}")));
	const struct policy *both[] = {plain, keyed};

	assert_false(policy_asks(both, 1, ACCESS_LEADING_KEYS));
	assert_true(policy_asks(both, 2, ACCESS_LEADING_KEYS));
	assert_false(policy_asks(both, 2, ACCESS_ATTRIBUTES));
	policy_close(plain);
	policy_close(keyed);
	fixture_close(f);
}

TEST(policy, an_explanation_has_a_line_for_every_statement)
{
	struct fixture *f = fixture_open();
	struct policy  *p = fixture_parse(
	         f, BYTES("{\"Statement\":["
	                   "{\"Sid\":\"Write\",\"Effect\":\"Allow\",\"Action\":\"dynamodb:Put*\",\"Resource\":"
	                   "\"*\"},"
	                   "{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"" INDEX "\"},"
	                   "{\"Sid\":\"Mine\",\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\","
	                   "\"Condition\":"
	                   "{\"ForAllValues:StringEquals\":{\"dynamodb:LeadingKeys\":\"me\"}}},"
	                   "{\"Effect\":\"Deny\",\"NotAction\":\"dynamodb:Scan\",\"Resource\":\"*\"},"
	                   "{\"Effect\":\"Deny\",\"Action\":\"*\",\"NotResource\":\"" TABLE "\"},"
	                   "{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":"
	                   "{\"StringEquals\":{\"dynamodb:Select\":\"COUNT\"}}},"
	                   "{\"Sid\":\"All\",\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\"}]}"));
	const struct policy  *list[] = {p};
	struct access_request request = fixture_request(f, "dynamodb:Scan", TABLE, "");
	struct buf            out;

	buf_init(&out, &f->arena);
	policy_explain(list, 1, &request, &out);
	assert_bytes(
	        buf_bytes(&out),
	        "allowed by policy[0] Statement[6]\n"
	        "policy[0] Statement[0] (Write) Allow: does not apply: no Action matches\n"
	        "policy[0] Statement[1] Allow: does not apply: no Resource matches\n"
	        "policy[0] Statement[2] (Mine) Allow: does not apply: condition ForAllValues:StringEquals on "
	        "dynamodb:LeadingKeys does not hold (the request touches items and does not say which, so it "
	        "counts as all)\n"
	        "policy[0] Statement[3] Deny: does not apply: NotAction names the action\n"
	        "policy[0] Statement[4] Deny: does not apply: NotResource names the resource\n"
	        "policy[0] Statement[5] Allow: does not apply: condition StringEquals on dynamodb:Select "
	        "does "
	        "not hold (the request does not have the key)\n"
	        "policy[0] Statement[6] (All) Allow: applies\n");
	buf_reset(&out);
	policy_explain(list, 0, &request, &out);
	assert_bytes(buf_bytes(&out), "denied: no statement allows it\n");
	policy_close(p);
	fixture_close(f);
}

TEST(policy, evaluating_allocates_nothing)
{
	struct fixture       *f = fixture_open();
	struct policy        *p = fixture_parse(f, bytes_of(least_privilege));
	const struct policy  *list[] = {p};
	struct access_request request = fixture_request(f, "dynamodb:GetItem", TABLE, "");
	size_t                before = mallinfo2().uordblks;

	for (int i = 0; i < 1000; i++)
		policy_evaluate(list, 1, &request, NULL);
	assert_int_equal(mallinfo2().uordblks, before);
	policy_close(p);
	fixture_close(f);
}

TEST(policy, a_request_written_wrongly_is_refused)
{
	static const struct {
		const char *json, *text;
	} rows[] = {
	        {"[]", "request, action: missing"},
	        {"{\"action\":1}", "request, action: must be a string"},
	        {"{\"action\":\"a\"}", "request, resource: missing"},
	        {"{\"action\":\"a\",\"resource\":\"*\",\"context\":[]}",
	         "request, context: must be an object"},
	        {"{\"action\":\"a\",\"resource\":\"*\",\"context\":{\"x\":1}}",
	         "request, x: unknown condition key"},
	        {"{\"action\":\"a\",\"resource\":\"*\",\"context\":{\"aws:SourceIp\":\"1.2.3\"}}",
	         "request, aws:SourceIp: not a valid value for this key"},
	        {"{\"action\":\"a\",\"resource\":\"*\",\"context\":{\"dynamodb:Select\":[\"a\"]}}",
	         "request, dynamodb:Select: not a valid value for this key"},
	        {"{\"action\":\"a\",\"resource\":\"*\",\"context\":{\"aws:SecureTransport\":true,"
	         "\"AWS:securetransport\":true}}",
	         "request, AWS:securetransport: given twice"},
	};
	struct fixture       *f = fixture_open();
	struct access_request request;
	struct json          *json;

	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_int_equal(json_read(f->reader, &f->arena, bytes_of(rows[i].json), &json, &f->err),
		                 ERR_NONE);
		assert_int_equal(access_request_read(&f->arena, json, &request, &f->err), ERR_INVALID);
		assert_string_equal(f->err.text, rows[i].text);
	}
	fixture_close(f);
}
