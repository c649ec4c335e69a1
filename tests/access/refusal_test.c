/* Policy documents that are refused, and the words of the refusal; each bound, at it and one past it. */
#include "support.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

#define ALLOW_ALL "\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\""

#define ONE(members)   "{\"Statement\":[{" members "}]}"
#define CONDITION(x)   ONE(ALLOW_ALL ",\"Sid\":\"S1\",\"Condition\":" x)
#define IN_CONDITION   "Statement[0] (Sid \"S1\"), Condition"
#define ACTION_OF(x)   ONE("\"Effect\":\"Allow\",\"Resource\":\"*\",\"Action\":" x)
#define RESOURCE_OF(x) ONE("\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":" x)

static const struct {
	const char *document, *words;
} not_understood[] = {
        {"[]", "policy: must be an object, not an array"},
        {"null", "policy: must be an object"},
        {"{}", "policy, Statement: missing"},
        {"{\"Statement\":[]}", "policy, Statement: the list must not be empty"},
        {"{\"Statement\":[[]]}", "Statement[0]: must be an object, not an array"},
        {"{\"Statement\":\"x\"}", "Statement[0]: must be an object, not a string"},
        {"{\"Version\":\"2012-10-18\",\"Statement\":[]}", "policy, Version: \"2012-10-18\" is neither"},
        {"{\"Version\":2012,\"Statement\":[]}", "policy, Version: must be a string, not a number"},
        {"{\"Id\":[],\"Statement\":[]}", "policy, Id: must be a string"},
        {"{\"statement\":[]}", "policy: unknown element \"statement\""},
        {"{\"Statement\":[],\"Statement\":[]}", "policy: \"Statement\" is given twice"},
        {ONE(ALLOW_ALL ",\"Principal\":\"*\""), "Statement[0]: \"Principal\" is not allowed"},
        {ONE(ALLOW_ALL ",\"NotPrincipal\":\"*\""), "Statement[0]: \"NotPrincipal\" is not allowed"},
        {ONE(ALLOW_ALL ",\"Comment\":\"\""), "Statement[0]: unknown element \"Comment\""},
        {ONE(ALLOW_ALL ",\"Sid\":\"Two\",\"x\":1"), "Statement[0] (Sid \"Two\"): unknown element \"x\""},
        {ONE(ALLOW_ALL ",\"Effect\":\"Deny\""), "Statement[0]: \"Effect\" is given twice"},
        {ONE(ALLOW_ALL ",\"\\u0041ction\":\"*\""), "Statement[0]: \"Action\" is given twice"},
        {ONE(ALLOW_ALL ",\"Sid\":\"a b\""), "Sid: \"a b\" must contain only letters and digits"},
        {ONE(ALLOW_ALL ",\"Sid\":7"), "Statement[0], Sid: must be a string, not a number"},
        {"{\"Statement\":[{" ALLOW_ALL ",\"Sid\":\"A\"},{" ALLOW_ALL ",\"Sid\":\"A\"}]}",
         "Statement[1] (Sid \"A\"), Sid: Statement[0] has the same one"},
        {ONE("\"Action\":\"*\",\"Resource\":\"*\""), "Statement[0], Effect: missing"},
        {ONE("\"Effect\":\"allow\",\"Action\":\"*\",\"Resource\":\"*\""), "Effect: \"allow\" is neither"},
        {ONE("\"Effect\":true,\"Action\":\"*\",\"Resource\":\"*\""), "Effect: must be a string"},
        {ONE("\"Effect\":\"Allow\",\"Resource\":\"*\""), "Action: missing: give it or NotAction"},
        {ONE(ALLOW_ALL ",\"NotAction\":\"*\""), "Action: not allowed together with NotAction"},
        {ONE("\"Effect\":\"Allow\",\"Action\":\"*\""), "Resource: missing: give it or NotResource"},
        {ONE(ALLOW_ALL ",\"NotResource\":\"*\""), "Resource: not allowed together with NotResource"},
        {ACTION_OF("[]"), "Statement[0], Action: the list must not be empty"},
        {ACTION_OF("[[\"*\"]]"), "Action: must be a string, not an array"},
        {ACTION_OF("[null]"), "Action: must be a string, not null"},
        {ACTION_OF("\"GetItem\""), "Action: \"GetItem\" is not an action"},
        {ACTION_OF("\"\""), "Action: \"\" is not an action"},
        {ACTION_OF("\"dynamodb:\""), "is not an action"},
        {ACTION_OF("\":GetItem\""), "is not an action"},
        {ACTION_OF("\"dyna*:GetItem\""), "is not an action"},
        {ACTION_OF("\"dynamodb:a:b\""), "is not an action"},
        {ACTION_OF("\"dynamodb:${x}\""), "\"dynamodb:${x}\" contains a policy variable"},
        {RESOURCE_OF("[]"), "Statement[0], Resource: the list must not be empty"},
        {RESOURCE_OF("\"\""), "Resource: \"\" is neither * nor an ARN"},
        {RESOURCE_OF("\"table/Users\""), "Resource: \"table/Users\" is neither * nor an ARN"},
        {RESOURCE_OF("\"**\""), "is neither * nor an ARN"},
        {RESOURCE_OF("\"arn:aws\""), "is neither * nor an ARN"},
        {RESOURCE_OF("\"ARN:aws:dynamodb:a:b:table/c\""), "is neither * nor an ARN"},
        {RESOURCE_OF("\"arn:aws:*:a:b:table/c\""), "must name one service"},
        {RESOURCE_OF("\"arn:aws:DynamoDB:a:b:table/c\""), "must name one service, in lower case"},
        {RESOURCE_OF("\"arn:aws::a:b:table/c\""), "must name one service"},
        {RESOURCE_OF("\"arn:aws:dynamodb:*:table/T\""), "not allowed in a partition, region or account"},
        {RESOURCE_OF("\"arn:aws:dynamodb:*:table/*\""), "not allowed in a partition, region or account"},
        {RESOURCE_OF("\"arn:aws:dynamodb:eu-west-1:12\""), "must have six parts, or end in *"},
        {RESOURCE_OF("\"arn:aws:dynamodb\""), "must have six parts, or end in *"},
        {RESOURCE_OF("\"arn:aws:dynamodb:a:b:\""), "must name a resource in its sixth part"},
        {RESOURCE_OF("\"arn:aws:dynamodb:a:b:table/${aws:userid}\""), "contains a policy variable"},
        {CONDITION("[]"), IN_CONDITION ": must be an object, not an array"},
        {CONDITION("{}"), IN_CONDITION ": must not be empty"},
        {CONDITION("{\"StringEquals\":{}}"), IN_CONDITION ", StringEquals: must not be empty"},
        {CONDITION("{\"StringEquals\":\"x\"}"), IN_CONDITION ", StringEquals: must be an object"},
        {CONDITION("{\"StringEqual\":{\"dynamodb:Select\":\"x\"}}"), "unknown operator \"StringEqual\""},
        {CONDITION("{\"stringequals\":{\"dynamodb:Select\":\"x\"}}"), "unknown operator \"stringequals\""},
        {CONDITION("{\"ArnLike\":{\"aws:SourceArn\":\"x\"}}"), "unknown operator \"ArnLike\""},
        {CONDITION("{\"BinaryEquals\":{\"dynamodb:Select\":\"x\"}}"), "unknown operator \"BinaryEquals\""},
        {CONDITION("{\"ForSomeValues:StringEquals\":{\"dynamodb:Select\":\"x\"}}"), "unknown operator"},
        {CONDITION("{\"ForAllValues:ForAnyValue:StringEquals\":{\"dynamodb:Select\":\"x\"}}"),
         "unknown operator"},
        {CONDITION("{\"StringEqualsIfExistsIfExists\":{\"dynamodb:Select\":\"x\"}}"), "unknown operator"},
        {CONDITION("{\"IfExists\":{\"dynamodb:Select\":\"x\"}}"), "unknown operator"},
        {CONDITION("{\"NullIfExists\":{\"dynamodb:Select\":\"true\"}}"), "Null takes no prefix"},
        {CONDITION("{\"ForAllValues:Null\":{\"dynamodb:Select\":\"true\"}}"), "Null takes no prefix"},
        {CONDITION("{\"StringEquals\":{\"aws:PrincipalTag/team\":\"x\"}}"),
         IN_CONDITION ", StringEquals: unknown condition key \"aws:PrincipalTag/team\""},
        {CONDITION("{\"StringEquals\":{\"gatehouse:Tenant\":\"x\"}}"), "unknown condition key"},
        {CONDITION("{\"StringEquals\":{\"dynamodb:Select\":[]}}"),
         IN_CONDITION ", StringEquals, dynamodb:Select: the list must not be empty"},
        {CONDITION("{\"StringEquals\":{\"dynamodb:Select\":1}}"), "must be a string, not a number"},
        {CONDITION("{\"StringEquals\":{\"dynamodb:Select\":\"${aws:userid}\"}}"),
         "dynamodb:Select: \"${aws:userid}\" contains a policy variable"},
        {CONDITION("{\"StringLike\":{\"dynamodb:Select\":\"${*}\"}}"), "contains a policy variable"},
        {CONDITION("{\"StringEquals\":{\"dynamodb:LeadingKeys\":\"x\"}}"),
         "needs ForAllValues: or ForAnyValue:"},
        {CONDITION("{\"StringEquals\":{\"dynamodb:Select\":\"a\",\"dynamodb:Select\":\"b\"}}"),
         "given twice"},
        {CONDITION("{\"StringEquals\":{\"dynamodb:Select\":\"a\",\"DYNAMODB:select\":\"b\"}}"),
         "given twice"},
        {CONDITION("{\"Bool\":{\"aws:SecureTransport\":\"true\"},\"Bool\":{\"aws:SecureTransport\":"
                   "\"false\"}}"),
         "\"Bool\" is given twice"},
        {CONDITION("{\"StringLike\":{\"aws:SourceIp\":\"10.*\"}}"), "cannot compare the values of this key"},
        {CONDITION("{\"IpAddress\":{\"dynamodb:Select\":\"10.0.0.1\"}}"), "cannot compare the values"},
        {CONDITION("{\"NumericEquals\":{\"aws:CurrentTime\":\"1\"}}"), "cannot compare the values"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"10.0.0.0/33\"}}"),
         "\"10.0.0.0/33\" is not an address"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"10.0.0\"}}"), "is not an address"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"010.0.0.1\"}}"), "is not an address"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"10.0.0.0/\"}}"), "is not an address"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"10.0.0.0/-1\"}}"), "is not an address"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"::1/129\"}}"), "is not an address"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"fe80::1%eth0\"}}"), "is not an address"},
        {CONDITION("{\"IpAddress\":{\"aws:SourceIp\":\"10.0.0.1\\u0000\"}}"), "is not an address"},
        {CONDITION("{\"Bool\":{\"aws:SecureTransport\":\"yes\"}}"), "\"yes\" is not true or false"},
        {CONDITION("{\"Null\":{\"dynamodb:Select\":\"\"}}"), "\"\" is not true or false"},
        {CONDITION("{\"NumericEquals\":{\"aws:EpochTime\":\"1e3\"}}"), "\"1e3\" is not a number"},
        {CONDITION("{\"NumericEquals\":{\"aws:EpochTime\":\"1.\"}}"), "is not a number"},
        {CONDITION("{\"NumericEquals\":{\"aws:EpochTime\":\"1.1234567\"}}"), "is not a number"},
        {CONDITION("{\"NumericEquals\":{\"aws:EpochTime\":1.5}}"), "must be a string, not a number"},
        {CONDITION("{\"DateEquals\":{\"aws:CurrentTime\":\"2024\"}}"), "\"2024\" is not a date"},
        {CONDITION("{\"DateEquals\":{\"aws:CurrentTime\":\"2023-02-29\"}}"), "is not a date"},
        {CONDITION("{\"DateEquals\":{\"aws:CurrentTime\":\"2024-01-01T00:00:00\"}}"), "is not a date"},
        {CONDITION("{\"DateEquals\":{\"aws:CurrentTime\":\"2024-01-01T24:00Z\"}}"), "is not a date"},
        {CONDITION("{\"DateEquals\":{\"aws:CurrentTime\":\"2024-01-01T00:00Zx\"}}"), "is not a date"},
        {CONDITION("{\"DateEquals\":{\"aws:CurrentTime\":\"2024-00-01\"}}"), "is not a date"},
        {CONDITION("{\"StringEqualsIgnoreCase\":{\"dynamodb:Select\":\"\xC3\xA9\"}}"),
         "\"\\xc3\\xa9\" must be ASCII"},
};

TEST(refusal, what_is_not_understood_whole_is_refused_with_place_and_value)
{
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < COUNT(not_understood); i++) {
		fixture_refuses(f, bytes_of(not_understood[i].document), not_understood[i].words);
		assert_int_equal(f->err.code, ERR_INVALID);
	}
	fixture_refuses(f, BYTES("{\"Statement\":"), "");
	assert_int_equal(f->err.code, ERR_SERIALIZATION);
	fixture_refuses(f, BYTES(""), "");
	fixture_close(f);
}

/* ---- bounds: at each of them, and one past it ---- */

static void at_the_bound(struct fixture *f, const char *text, bool accepted, const char *words)
{
	if (accepted)
		policy_close(fixture_parse(f, bytes_of(text)));
	else
		fixture_refuses(f, bytes_of(text), words);
}

/* `unit` n times, with commas between. */
static const char *repeated(struct fixture *f, const char *unit, size_t n, const char *comma)
{
	struct buf out;

	buf_init(&out, &f->arena);
	for (size_t i = 0; i < n; i++) {
		buf_add_bytes(&out, bytes_of(i > 0 ? comma : ""));
		buf_add_bytes(&out, bytes_of(unit));
	}
	buf_add_byte(&out, 0);
	return out.data;
}

TEST(refusal, a_document_has_at_most_so_many_bytes)
{
	struct fixture *f = fixture_open();

	for (size_t over = 0; over < 2; over++) {
		size_t len = (size_t)snprintf(f->text, sizeof(f->text), "{\"Statement\":{" ALLOW_ALL "}}");

		memset(f->text + len, ' ', POLICY_BYTES_MAX + over - len);
		f->text[POLICY_BYTES_MAX + over] = '\0';
		at_the_bound(f, f->text, over == 0, "at most 10240 bytes, not 10241");
	}
	fixture_close(f);
}

TEST(refusal, lists_and_names_are_as_long_as_their_bounds_and_no_longer)
{
	struct fixture *f = fixture_open();

	for (size_t over = 0; over < 2; over++) {
		snprintf(f->text, sizeof(f->text), "{\"Statement\":[%s]}",
		         repeated(f, "{" ALLOW_ALL "}", POLICY_STATEMENTS_MAX + over, ","));
		at_the_bound(f, f->text, over == 0, "at most 100 statements, not 101");
		at_the_bound(f,
		             fixture_statement(f,
		                               "\"Effect\":\"Allow\",\"Resource\":\"*\","
		                               "\"Action\":[%s]",
		                               repeated(f, "\"*\"", POLICY_LIST_MAX + over, ",")),
		             over == 0, "Action: the list must have at most 200 values, not 201");
		at_the_bound(f,
		             fixture_statement(f,
		                               ALLOW_ALL ",\"Condition\":{\"StringEquals\":{"
		                                         "\"dynamodb:Select\":[%s]}}",
		                               repeated(f, "\"x\"", POLICY_LIST_MAX + over, ",")),
		             over == 0, "dynamodb:Select: the list must have at most 200 values, not 201");
		at_the_bound(f,
		             fixture_statement(f, ALLOW_ALL ",\"Sid\":\"%s\"",
		                               repeated(f, "s", POLICY_SID_BYTES_MAX + over, "")),
		             over == 0, "Sid: |must have at most 128 bytes, not 129");
	}
	fixture_close(f);
}

TEST(refusal, patterns_are_as_long_as_their_bounds_and_no_longer)
{
	struct fixture *f = fixture_open();

	for (size_t over = 0; over < 2; over++) {
		const char *name =
		        repeated(f, "a", POLICY_PATTERN_BYTES_MAX - strlen("dynamodb:") + over, "");
		const char *value = repeated(f, "v", POLICY_VALUE_BYTES_MAX + over, "");
		const char *run = repeated(f, "r", POLICY_SEARCH_BYTES_MAX - 1 + over, "");

		at_the_bound(f,
		             fixture_statement(f,
		                               "\"Effect\":\"Deny\",\"Resource\":\"*\","
		                               "\"Action\":\"dynamodb:%s\"",
		                               name),
		             over == 0, "Action: |must have at most 1024 bytes, not 1025");
		at_the_bound(f,
		             fixture_statement(f,
		                               ALLOW_ALL ",\"Condition\":{\"StringEquals\":{"
		                                         "\"dynamodb:Select\":\"%s\"}}",
		                               value),
		             over == 0, "dynamodb:Select: |must have at most 2048 bytes, not 2049");
		at_the_bound(f,
		             fixture_statement(f,
		                               ALLOW_ALL ",\"Condition\":{\"StringLike\":{"
		                                         "\"dynamodb:Select\":\"*%s?*\"}}",
		                               run),
		             over == 0, "dynamodb:Select: |too costly to match|at most 256 bytes");
		at_the_bound(f,
		             fixture_statement(f,
		                               "\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":"
		                               "\"arn:aws:s3:::*%s?*\"",
		                               run),
		             over == 0, "Resource: |too costly to match|at most 256 bytes");
	}
	fixture_close(f);
}

TEST(refusal, runs_that_take_long_to_look_for_are_added_up_over_the_whole_policy)
{
	struct fixture *f = fixture_open();

	for (size_t over = 0; over < 2; over++) {
		const char *half = repeated(f, "r", POLICY_SEARCH_BYTES_MAX / 2 - 1, "");

		snprintf(
		        f->text, sizeof(f->text),
		        "{\"Statement\":[{\"Effect\":\"Deny\",\"Resource\":\"*\",\"Action\":\"s3:*%s?*\"},"
		        "{\"Effect\":\"Deny\",\"Action\":\"*\",\"Resource\":\"arn:aws:s3:::%s*?%s%s*%s?\"}]}",
		        half, half, half, over == 0 ? "" : "r", half);
		at_the_bound(f, f->text, over == 0, "Statement[1], Resource: |at most 256 bytes");
	}
	fixture_close(f);
}

/* Operators are many enough that a statement can have one condition too many. */
TEST(refusal, a_statement_has_at_most_so_many_conditions)
{
	static const char *const names[] = {"StringEquals",         "StringNotEquals",
	                                    "StringLike",           "StringNotLike",
	                                    "StringEqualsIfExists", "StringNotEqualsIfExists",
	                                    "StringLikeIfExists",   "StringNotLikeIfExists"};
	struct fixture          *f = fixture_open();

	for (size_t over = 0; over < 2; over++) {
		struct buf out;

		buf_init(&out, &f->arena);
		for (size_t i = 0; i < COUNT(names); i++)
			buf_add_bytes(
			        &out,
			        arena_printf(&f->arena,
			                     "\"%s\":{\"dynamodb:Select\":\"x\",\"dynamodb:ReturnValues\":"
			                     "\"x\",\"dynamodb:ReturnConsumedCapacity\":\"x\","
			                     "\"dynamodb:EnclosingOperation\":\"x\"},",
			                     names[i]));
		buf_add_bytes(&out,
		              over == 0 ? BYTES("}") : BYTES("\"Null\":{\"dynamodb:Select\":\"true\"}}"));
		if (over == 0)
			out.data[out.len - 2] = ' ';
		at_the_bound(
		        f, fixture_statement(f, ALLOW_ALL ",\"Condition\":{%.*s", BYTES_ARG(buf_bytes(&out))),
		        over == 0, "Null: must have at most 32 conditions");
	}
	fixture_close(f);
}

/* ---- whose resources they are ---- */

static enum err_code home_of(struct fixture *f, const char *resource, const char *region)
{
	struct bytes   text = arena_printf(&f->arena,
	                                   "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Deny\","
	                                     "\"Action\":\"*\",\"Resource\":\"%s\"}]}",
	                                   resource);
	struct policy *p = fixture_parse(f, text);
	enum err_code  rc = policy_check_home(p, bytes_of(region), &f->err);

	policy_close(p);
	return rc;
}

TEST(refusal, a_resource_of_another_region_or_account_is_refused_and_one_that_may_be_ours_is_not)
{
	struct fixture *f = fixture_open();

	assert_int_equal(home_of(f, "*", "mars-1"), ERR_NONE);
	assert_int_equal(home_of(f, "arn:aws:s3:::bucket", "mars-1"), ERR_NONE);
	assert_int_equal(home_of(f, "arn:aws:dynamodb:mars-?:0*0:table/T", "mars-1"), ERR_NONE);
	assert_int_equal(home_of(f, "arn:aws:gatehouse:m*", "mars-1"), ERR_NONE);
	assert_int_equal(home_of(f, "arn:aws:gatehouse:mars-1:000000000000:journey/A", "mars-1"), ERR_NONE);
	assert_int_equal(home_of(f, "arn:aws:dynamodb:mars-1:000000000000:table/T", "mars-2"), ERR_INVALID);
	assert_non_null(strstr(f->err.text, "\"arn:aws:dynamodb:mars-1:000000000000:table/T\""));
	assert_non_null(strstr(f->err.text, "region"));
	assert_non_null(strstr(f->err.text, "\"mars-2\""));
	assert_int_equal(home_of(f, "arn:aws:gatehouse:*:000000000001:journey/A", "mars-1"), ERR_INVALID);
	assert_non_null(strstr(f->err.text, "account"));
	assert_int_equal(home_of(f, "arn:aws:gatehouse:v*", "mars-1"), ERR_INVALID);
	fixture_close(f);
}

TEST(refusal, a_region_has_at_most_so_many_characters_and_is_no_pattern)
{
	static const char long_one[] = "a-region-of-thirty-two-characters";
	struct err        err;

	assert_int_equal(sizeof(long_one) - 1, ACCESS_REGION_BYTES_MAX + 1);
	assert_int_equal(access_region_check((struct bytes){long_one, ACCESS_REGION_BYTES_MAX}, "r", &err),
	                 ERR_NONE);
	assert_int_equal(access_region_check(bytes_of(long_one), "r", &err), ERR_INVALID);
	assert_int_equal(access_region_check(BYTES(""), "r", &err), ERR_INVALID);
	assert_int_equal(access_region_check(BYTES("eu-*"), "r", &err), ERR_INVALID);
	assert_int_equal(access_region_check(BYTES("a:b"), "r", &err), ERR_INVALID);
}
