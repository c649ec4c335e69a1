/* Bypasses: ways in which people have got past policies of this kind, or thought a policy held when it did
 * not. Each row is a document that seems to keep something from a request, and the request. None is allowed:
 * either the document is refused, or the request is. */
#include "support.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

#define ALLOW(action, resource)         "\"Effect\":\"Allow\",\"Action\":\"" action "\",\"Resource\":\"" resource "\""
#define EVERYTHING                      "{" ALLOW("*", "*") "}"
#define DOCUMENT(statements)            "{\"Version\":\"2012-10-17\",\"Statement\":[" statements "]}"
#define DENY(members)                   DOCUMENT(EVERYTHING ",{\"Effect\":\"Deny\"," members "}")
#define MINE(condition)                 DOCUMENT("{" ALLOW("dynamodb:*", "*") ",\"Condition\":{" condition "}}")
#define MY_KEYS(operator)               MINE("\"" operator"\":{\"dynamodb:LeadingKeys\":[\"me\"]}")
#define TABLE_OF(region, account, name) "arn:aws:dynamodb:" region ":" account ":table/" name

struct row {
	const char *what, *document, *action, *resource, *context;
};

static void none_allowed(const struct row *rows, size_t count)
{
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < count; i++)
		if (fixture_decide(f, rows[i].document, rows[i].action, rows[i].resource, rows[i].context) ==
		    DECISION_ALLOWED)
			fail_msg("%s", rows[i].what);
	fixture_close(f);
}

TEST(bypass, none_by_the_action)
{
	static const struct row rows[] = {
	        {"case of the request", DENY("\"Action\":\"dynamodb:DeleteItem\",\"Resource\":\"*\""),
	         "dynamodb:deleteITEM", TABLE, ""},
	        {"case of the service", DENY("\"Action\":\"dynamodb:DeleteItem\",\"Resource\":\"*\""),
	         "DynamoDB:DeleteItem", TABLE, ""},
	        {"case of the document", DENY("\"Action\":\"DYNAMODB:DELETE*\",\"Resource\":\"*\""),
	         "dynamodb:DeleteItem", TABLE, ""},
	        {"a Deny before an Allow",
	         DOCUMENT(
	                 "{\"Effect\":\"Deny\",\"Action\":\"dynamodb:Scan\",\"Resource\":\"*\"}," EVERYTHING),
	         "dynamodb:Scan", TABLE, ""},
	        {"Deny with NotAction", DENY("\"NotAction\":\"dynamodb:Get*\",\"Resource\":\"*\""),
	         "dynamodb:PutItem", TABLE, ""},
	        {"Deny with NotAction of another service", DENY("\"NotAction\":\"s3:*\",\"Resource\":\"*\""),
	         "dynamodb:PutItem", TABLE, ""},
	        {"a name that starts alike", DOCUMENT("{" ALLOW("dynamodb:GetItem", "*") "}"),
	         "dynamodb:GetItemX", TABLE, ""},
	        {"a name that ends alike", DOCUMENT("{" ALLOW("dynamodb:GetItem", "*") "}"),
	         "dynamodb:BatchGetItem", TABLE, ""},
	        {"a space after it", DOCUMENT("{" ALLOW("dynamodb:GetItem", "*") "}"), "dynamodb:GetItem ",
	         TABLE, ""},
	        {"a NUL after it", DOCUMENT("{" ALLOW("dynamodb:GetItem", "*") "}"),
	         "dynamodb:GetItem\\u0000", TABLE, ""},
	        {"a long s, which is an s in capitals", DOCUMENT("{" ALLOW("dynamodb:Scan", "*") "}"),
	         "dynamodb:\xC5\xBF"
	         "can",
	         TABLE, ""},
	        {"the same name in another service", DOCUMENT("{" ALLOW("dynamodb:*", "*") "}"),
	         "dynamodbx:Scan", TABLE, ""},
	        {"no service", DOCUMENT("{" ALLOW("dynamodb:Scan", "*") "}"), "Scan", TABLE, ""},
	        {"nothing", DOCUMENT("{" ALLOW("dynamodb:Scan", "*") "}"), "", TABLE, ""},
	};

	none_allowed(rows, COUNT(rows));
}

TEST(bypass, none_by_the_resource)
{
	static const struct row rows[] = {
	        {"an index is not its table", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:Query", INDEX,
	         ""},
	        {"a table is not its indexes", DOCUMENT("{" ALLOW("*", TABLE "/index/*") "}"),
	         "dynamodb:Query", TABLE, ""},
	        {"a table is not the start of its indexes", DOCUMENT("{" ALLOW("*", TABLE "/index/*") "}"),
	         "dynamodb:Query", TABLE "/index", ""},
	        {"Deny on a table and all below", DENY("\"Action\":\"*\",\"Resource\":\"" TABLE "*\""),
	         "dynamodb:Query", INDEX, ""},
	        {"a longer name", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:GetItem", TABLE "2", ""},
	        {"another case", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:GetItem",
	         TABLE_OF("eu-west-1", "123456789012", "users"), ""},
	        {"another account", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:GetItem",
	         TABLE_OF("eu-west-1", "123456789013", "Users"), ""},
	        {"another account, in any region",
	         DOCUMENT("{" ALLOW("*", TABLE_OF("*", "123456789012", "Users")) "}"), "dynamodb:GetItem",
	         TABLE_OF("eu-west-1", "123456789013", "Users"), ""},
	        {"an ARN that is not whole", DOCUMENT("{" ALLOW("*", "arn:aws:dynamodb:*") "}"),
	         "dynamodb:GetItem", "arn:aws:dynamodb:eu-west-1", ""},
	        {"another region", DOCUMENT("{" ALLOW("*", TABLE_OF("eu-*", "*", "Users")) "}"),
	         "dynamodb:GetItem", TABLE_OF("us-east-1", "123456789012", "Users"), ""},
	        {"an account's star does not reach into the name",
	         DOCUMENT("{" ALLOW("*", TABLE_OF("eu-west-1", "*", "Users")) "}"), "dynamodb:GetItem",
	         TABLE_OF("eu-west-1", "1", "Secrets:table/Users"), ""},
	        {"a region's star does not reach into the name",
	         DOCUMENT("{" ALLOW("*", TABLE_OF("*", "*", "Users")) "}"), "dynamodb:GetItem",
	         TABLE_OF("r", "a", "x:y:table/Users"), ""},
	        {"a question mark does not stand for a colon",
	         DOCUMENT("{" ALLOW("*", "arn:aws:dynamodb:eu?west-1:1:table/Users") "}"), "dynamodb:GetItem",
	         "arn:aws:dynamodb:eu:west-1:1:table/Users", ""},
	        {"another service", DOCUMENT("{" ALLOW("*", "arn:aws:s3:*:*:table/Users") "}"),
	         "dynamodb:GetItem", TABLE, ""},
	        {"another partition", DOCUMENT("{" ALLOW("*", "arn:aws-cn:dynamodb:*") "}"),
	         "dynamodb:GetItem", TABLE, ""},
	        {"a Cyrillic e", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:GetItem",
	         "arn:aws:dynamodb:eu-west-1:123456789012:table/Us\xD0\xB5rs", ""},
	        {"a NUL", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:GetItem", TABLE "\\u0000", ""},
	        {"a space", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:GetItem", TABLE " ", ""},
	        {"Deny with NotResource", DENY("\"Action\":\"*\",\"NotResource\":\"" TABLE "\""),
	         "dynamodb:Query", INDEX, ""},
	        {"Deny with NotResource, where there is none",
	         DENY("\"Action\":\"*\",\"NotResource\":\"arn:aws:dynamodb:*:*:table/Users\""),
	         "dynamodb:ListTables", "*", ""},
	        {"the pattern as a request", DOCUMENT("{" ALLOW("*", TABLE) "}"), "dynamodb:GetItem", "*",
	         ""},
	        {"no resource", DOCUMENT("{" ALLOW("*", "arn:aws:dynamodb:*") "}"), "dynamodb:GetItem", "",
	         ""},
	};

	none_allowed(rows, COUNT(rows));
}

TEST(bypass, none_by_what_is_missing_or_spelled_otherwise)
{
	static const struct row rows[] = {
	        {"ForAllValues, and a Scan that names no keys", MY_KEYS("ForAllValues:StringEquals"),
	         "dynamodb:Scan", TABLE, ""},
	        {"the same with an empty list", MY_KEYS("ForAllValues:StringEquals"), "dynamodb:Scan", TABLE,
	         "\"dynamodb:LeadingKeys\":[]"},
	        {"the same in another case", MY_KEYS("ForAllValues:StringEquals"), "DynamoDB:SCAN", TABLE,
	         ""},
	        {"the same on an index", MY_KEYS("ForAllValues:StringLike"), "dynamodb:Scan", INDEX, ""},
	        {"the same with IfExists", MY_KEYS("ForAllValues:StringEqualsIfExists"), "dynamodb:Scan",
	         TABLE, ""},
	        {"ForAllValues of a negated operator", MY_KEYS("ForAllValues:StringNotEquals"),
	         "dynamodb:Scan", TABLE, ""},
	        {"ForAnyValue", MY_KEYS("ForAnyValue:StringEquals"), "dynamodb:Scan", TABLE, ""},
	        {"a guard against absence",
	         MINE("\"ForAllValues:StringEquals\":{\"dynamodb:LeadingKeys\":\"me\"},\"Null\":{"
	              "\"dynamodb:LeadingKeys\":\"false\"}"),
	         "dynamodb:DescribeTable", TABLE, ""},
	        {"all attributes, by not saying which",
	         MINE("\"ForAllValues:StringEquals\":{\"dynamodb:Attributes\":[\"id\",\"name\"]}"),
	         "dynamodb:GetItem", TABLE, "\"dynamodb:LeadingKeys\":[\"me\"]"},
	        {"a forbidden attribute, by not saying which",
	         DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"ForAnyValue:StringEquals\":{"
	              "\"dynamodb:Attributes\":\"password\"}}"),
	         "dynamodb:GetItem", TABLE, ""},
	        {"one foreign key in a batch", MY_KEYS("ForAllValues:StringEquals"), "dynamodb:BatchGetItem",
	         TABLE, "\"dynamodb:LeadingKeys\":[\"me\",\"me\",\"you\"]"},
	        {"a key in another case", MY_KEYS("ForAllValues:StringEquals"), "dynamodb:GetItem", TABLE,
	         "\"dynamodb:LeadingKeys\":[\"ME\"]"},
	        {"a key with a NUL", MY_KEYS("ForAllValues:StringEquals"), "dynamodb:GetItem", TABLE,
	         "\"dynamodb:LeadingKeys\":[\"me\\u0000\"]"},
	        {"a key with a space", MY_KEYS("ForAllValues:StringEquals"), "dynamodb:GetItem", TABLE,
	         "\"dynamodb:LeadingKeys\":[\"me \"]"},
	        {"a look-alike of a key", MY_KEYS("ForAllValues:StringEquals"), "dynamodb:GetItem", TABLE,
	         "\"dynamodb:LeadingKeys\":[\"m\xD0\xB5\"]"},
	        {"a star as a key", MY_KEYS("ForAllValues:StringLike"), "dynamodb:GetItem", TABLE,
	         "\"dynamodb:LeadingKeys\":[\"*\"]"},
	        {"an IPv4 address in IPv6 clothes",
	         DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"IpAddress\":{\"aws:SourceIp\":"
	              "\"10.0.0.0/8\"}}"),
	         "dynamodb:GetItem", TABLE, "\"aws:SourceIp\":\"::ffff:10.0.0.1\""},
	        {"no address", MINE("\"IpAddress\":{\"aws:SourceIp\":\"0.0.0.0/0\"}"), "dynamodb:GetItem",
	         TABLE, ""},
	        {"no word about TLS", MINE("\"Bool\":{\"aws:SecureTransport\":\"true\"}"), "dynamodb:GetItem",
	         TABLE, ""},
	        {"no clock", MINE("\"DateLessThan\":{\"aws:CurrentTime\":\"2099-01-01\"}"),
	         "dynamodb:GetItem", TABLE, ""},
	};

	none_allowed(rows, COUNT(rows));
}

/* Written so, a Deny would look as if it held and match nothing, or an Allow would be wider than it looks. */
TEST(bypass, a_document_that_hides_what_it_means_is_refused)
{
	static const char *const documents[] = {
	        DENY("\"Action\":\"dynamodb:DeleteItem \",\"Resource\":\"*\""),
	        DENY("\"Action\":\" dynamodb:DeleteItem\",\"Resource\":\"*\""),
	        DENY("\"Action\":\"dynamodb:Delete\\u0000Item\",\"Resource\":\"*\""),
	        DENY("\"Action\":\"dynamodb:D\xD0\xB5leteItem\",\"Resource\":\"*\""),
	        DENY("\"Action\":\"dynamodb:Delete\\tItem\",\"Resource\":\"*\""),
	        DENY("\"Action\":\"dynamodb:DeleteItem,dynamodb:Scan\",\"Resource\":\"*\""),
	        DENY("\"Action\":[],\"Resource\":\"*\""),
	        DENY("\"NotAction\":[],\"Resource\":\"*\""),
	        DENY("\"Action\":\"*\",\"Resource\":[]"),
	        DENY("\"Action\":\"*\",\"NotResource\":[]"),
	        DENY("\"Action\":\"*\",\"Resource\":\"" TABLE " \""),
	        DENY("\"Action\":\"*\",\"Resource\":\" " TABLE "\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"" TABLE "\\u0000\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"arn:aws:dynamodb:eu-west-1:1:table/Us\xD0\xB5rs\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"arn:aws:dynamodb:eu-west-1:table/Users\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"arn:aws:dynamodb::table/Users\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"Users\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Resource\":\"arn:aws:s3:::x\""),
	        DENY("\"Action\":\"s3:*\",\"Action\":\"*\",\"Resource\":\"*\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Effect\":\"Allow\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"*\",\"effect\":\"Allow\""),
	        DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"StringEquals\":{\"aws:username\":"
	             "\"x\"}}"),
	        DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{\"StringEquals\":{\"dynamodb:"
	             "Select\":null}}"),
	        DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":null"),
	        DENY("\"Action\":\"*\",\"Resource\":\"*\",\"Principal\":{\"AWS\":\"*\"}"),
	        DOCUMENT("{\"Effect\":\"Deny\",\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\"}"),
	        DOCUMENT(""),
	        DOCUMENT("{}"),
	        "{\"Statement\":[" EVERYTHING "],\"Statement\":[" EVERYTHING "]}",
	        DOCUMENT(EVERYTHING) DOCUMENT(EVERYTHING),
	        MY_KEYS("StringEquals"),
	};
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < COUNT(documents); i++)
		fixture_refuses(f, bytes_of(documents[i]), "");
	fixture_close(f);
}

/* Stars without end, against texts that nearly match: a matcher that tries again would never come back. */
TEST(bypass, hostile_wildcards_are_answered_at_once)
{
	enum { TEXT_BYTES = 2048, STARS = 2 * POLICY_SEARCH_BYTES_MAX };
	struct fixture *f = fixture_open();
	struct buf      glob, text;

	buf_init(&glob, &f->arena);
	buf_init(&text, &f->arena);
	for (int i = 0; i < STARS; i++)
		buf_add(&glob, i % 2 == 0 ? "*a" : "*?", 2);
	buf_add(&glob, "*b", 3);
	for (int i = 0; i < TEXT_BYTES; i++)
		buf_add_byte(&text, 'a');
	buf_add_byte(&text, 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(
		        fixture_decide(
		                f,
		                fixture_statement(f,
		                                  "\"Effect\":\"Allow\",\"Action\":\"*\","
		                                  "\"Resource\":\"*\",\"Condition\":{\"StringLike\":{"
		                                  "\"dynamodb:Select\":\"%s\"}}",
		                                  glob.data),
		                "dynamodb:Query", TABLE,
		                arena_printf(&f->arena, "\"dynamodb:Select\":\"%s\"%c", text.data, 0).data),
		        DECISION_DENIED_BY_DEFAULT);
	fixture_close(f);
}
