/* Conditions: every operator with a value that matches, one that does not, several, and none; the prefixes
 * and the suffix; keys and operators together; and how an unstated set of keys counts. Each row is judged
 * twice, as the condition of an Allow and of a Deny. */
#include "support.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct row {
	const char *condition, *context;
	bool        holds;
};

static bool applies(struct fixture *f, const char *effect, const char *action, const struct row *row)
{
	const char *document = fixture_statement(
	        f, "\"Effect\":\"%s\",\"Action\":\"*\",\"Resource\":\"*\",\"Condition\":{%s}", effect,
	        row->condition);
	enum decision decision = fixture_decide(f, document, action, TABLE, row->context);

	return decision != DECISION_DENIED_BY_DEFAULT;
}

/* DescribeTable: it touches no items, so that IAM's rules for missing keys are seen as they are. */
static void check(const struct row *rows, size_t count)
{
	struct fixture *f = fixture_open();

	for (size_t i = 0; i < count; i++)
		if (applies(f, "Allow", "dynamodb:DescribeTable", &rows[i]) != rows[i].holds ||
		    applies(f, "Deny", "dynamodb:DescribeTable", &rows[i]) != rows[i].holds)
			fail_msg("{%s} on {%s}: expected %d", rows[i].condition, rows[i].context,
			         rows[i].holds);
	fixture_close(f);
}

#define SELECT(operator, values) "\"" operator"\":{\"dynamodb:Select\":" values "}"
#define SELECTED(value)          "\"dynamodb:Select\":\"" value "\""

TEST(condition, strings_are_compared_exactly)
{
	static const struct row rows[] = {
	        {SELECT("StringEquals", "\"COUNT\""), SELECTED("COUNT"), true},
	        {SELECT("StringEquals", "\"COUNT\""), SELECTED("count"), false},
	        {SELECT("StringEquals", "\"COUNT\""), SELECTED("COUNT "), false},
	        {SELECT("StringEquals", "\"COUNT\""), SELECTED(""), false},
	        {SELECT("StringEquals", "\"\""), SELECTED(""), true},
	        {SELECT("StringEquals", "\"C*\""), SELECTED("COUNT"), false},
	        {SELECT("StringEquals", "\"C*\""), SELECTED("C*"), true},
	        {SELECT("StringEquals", "[\"A\",\"COUNT\"]"), SELECTED("COUNT"), true},
	        {SELECT("StringEquals", "[\"A\",\"B\"]"), SELECTED("COUNT"), false},
	        {SELECT("StringEquals", "\"COUNT\""), "", false},
	        {SELECT("StringEqualsIfExists", "\"COUNT\""), "", true},
	        {SELECT("StringEqualsIfExists", "\"COUNT\""), SELECTED("X"), false},
	        {SELECT("StringEqualsIfExists", "\"COUNT\""), SELECTED("COUNT"), true},
	        {SELECT("StringNotEquals", "\"COUNT\""), SELECTED("COUNT"), false},
	        {SELECT("StringNotEquals", "\"COUNT\""), SELECTED("count"), true},
	        {SELECT("StringNotEquals", "[\"A\",\"COUNT\"]"), SELECTED("COUNT"), false},
	        {SELECT("StringNotEquals", "[\"A\",\"B\"]"), SELECTED("COUNT"), true},
	        {SELECT("StringNotEquals", "\"COUNT\""), "", true},
	        {SELECT("StringNotEqualsIfExists", "\"COUNT\""), "", true},
	        {SELECT("StringNotEqualsIfExists", "\"COUNT\""), SELECTED("COUNT"), false},
	        {SELECT("StringEqualsIgnoreCase", "\"Count\""), SELECTED("cOUNT"), true},
	        {SELECT("StringEqualsIgnoreCase", "\"Count\""), SELECTED("counts"), false},
	        {SELECT("StringEqualsIgnoreCase", "\"Count\""), "", false},
	        {SELECT("StringEqualsIgnoreCase", "[\"A\",\"Count\"]"), SELECTED("COUNT"), true},
	        {SELECT("StringNotEqualsIgnoreCase", "\"Count\""), SELECTED("cOUNT"), false},
	        {SELECT("StringNotEqualsIgnoreCase", "\"Count\""), SELECTED("x"), true},
	        {SELECT("StringNotEqualsIgnoreCase", "\"Count\""), "", true},
	        {"\"StringEquals\":{\"DYNAMODB:select\":\"COUNT\"}", SELECTED("COUNT"), true},
	};

	check(rows, COUNT(rows));
}

TEST(condition, patterns_match_any_run_and_any_one_character)
{
	static const struct row rows[] = {
	        {SELECT("StringLike", "\"*\""), SELECTED("x"), true},
	        {SELECT("StringLike", "\"*\""), SELECTED(""), true},
	        {SELECT("StringLike", "\"*\""), "", false},
	        {SELECT("StringLike", "\"?\""), SELECTED(""), false},
	        {SELECT("StringLike", "\"?\""), SELECTED("x"), true},
	        {SELECT("StringLike", "\"?\""), SELECTED("xy"), false},
	        {SELECT("StringLike", "\"x?\""), SELECTED("xyz"), false},
	        {SELECT("StringLike", "\"?\""), SELECTED("\xC3\xA9"), true},
	        {SELECT("StringLike", "\"??\""), SELECTED("\xC3\xA9"), false},
	        {SELECT("StringLike", "\"*?\""), SELECTED("\xC3\xA9"), true},
	        {SELECT("StringLike", "\"*??\""), SELECTED("\xC3\xA9"), false},
	        {SELECT("StringLike", "\"*??*\""), SELECTED("\xC3\xA9"), false},
	        {SELECT("StringLike", "\"*??*\""), SELECTED("\xC3\xA9y"), true},
	        {SELECT("StringLike", "\"a*\""), SELECTED("abc"), true},
	        {SELECT("StringLike", "\"a*\""), SELECTED("a"), true},
	        {SELECT("StringLike", "\"a*\""), SELECTED("ba"), false},
	        {SELECT("StringLike", "\"*c\""), SELECTED("abc"), true},
	        {SELECT("StringLike", "\"*c\""), SELECTED("c"), true},
	        {SELECT("StringLike", "\"a*a\""), SELECTED("a"), false},
	        {SELECT("StringLike", "\"a*a\""), SELECTED("aa"), true},
	        {SELECT("StringLike", "\"a*b*c\""), SELECTED("a-b-b-c"), true},
	        {SELECT("StringLike", "\"a*b*c\""), SELECTED("a-c-b"), false},
	        {SELECT("StringLike", "\"*ab*ab*\""), SELECTED("abab"), true},
	        {SELECT("StringLike", "\"*ab*ab*\""), SELECTED("aab"), false},
	        {SELECT("StringLike", "\"*a?c*\""), SELECTED("aacabc"), true},
	        {SELECT("StringLike", "\"*a?c*\""), SELECTED("aab"), false},
	        {SELECT("StringLike", "\"a?*c\""), SELECTED("ac"), false},
	        {SELECT("StringLike", "\"a**c\""), SELECTED("ac"), true},
	        {SELECT("StringLike", "\"\""), SELECTED(""), true},
	        {SELECT("StringLike", "\"\""), SELECTED("x"), false},
	        {SELECT("StringLike", "\"a.c\""), SELECTED("abc"), false},
	        {SELECT("StringLike", "[\"x*\",\"*c\"]"), SELECTED("abc"), true},
	        {SELECT("StringLikeIfExists", "\"a*\""), "", true},
	        {SELECT("StringNotLike", "\"a*\""), SELECTED("abc"), false},
	        {SELECT("StringNotLike", "\"a*\""), SELECTED("b"), true},
	        {SELECT("StringNotLike", "[\"x*\",\"*c\"]"), SELECTED("abc"), false},
	        {SELECT("StringNotLike", "[\"x*\",\"*d\"]"), SELECTED("abc"), true},
	        {SELECT("StringNotLike", "\"a*\""), "", true},
	};

	check(rows, COUNT(rows));
}

#define IP(operator, values) "\"" operator"\":{\"aws:SourceIp\":" values "}"
#define FROM(address)        "\"aws:SourceIp\":\"" address "\""

TEST(condition, addresses_are_in_ranges)
{
	static const struct row rows[] = {
	        {IP("IpAddress", "\"10.1.2.3\""), FROM("10.1.2.3"), true},
	        {IP("IpAddress", "\"10.1.2.3\""), FROM("10.1.2.4"), false},
	        {IP("IpAddress", "\"10.0.0.0/8\""), FROM("10.255.0.1"), true},
	        {IP("IpAddress", "\"10.0.0.0/8\""), FROM("11.0.0.0"), false},
	        {IP("IpAddress", "\"10.9.9.9/8\""), FROM("10.1.1.1"), true},
	        {IP("IpAddress", "\"192.168.4.0/22\""), FROM("192.168.7.255"), true},
	        {IP("IpAddress", "\"192.168.4.0/22\""), FROM("192.168.8.0"), false},
	        {IP("IpAddress", "\"192.168.5.9/22\""), FROM("192.168.7.255"), true},
	        {IP("IpAddress", "\"10.0.0.0/31\""), FROM("10.0.0.1"), true},
	        {IP("IpAddress", "\"10.0.0.0/31\""), FROM("10.0.0.2"), false},
	        {IP("IpAddress", "\"0.0.0.0/0\""), FROM("203.0.113.9"), true},
	        {IP("IpAddress", "\"0.0.0.0/0\""), FROM("2001:db8::1"), false},
	        {IP("IpAddress", "\"::/0\""), FROM("2001:db8::1"), true},
	        {IP("IpAddress", "\"::/0\""), FROM("203.0.113.9"), false},
	        {IP("IpAddress", "\"2001:db8::/33\""), FROM("2001:db8:7fff::1"), true},
	        {IP("IpAddress", "\"2001:db8::/33\""), FROM("2001:db8:8000::1"), false},
	        {IP("IpAddress", "\"2001:DB8::1\""), FROM("2001:db8:0::1"), true},
	        {IP("IpAddress", "\"10.0.0.0/8\""), FROM("::ffff:10.1.1.1"), true},
	        {IP("IpAddress", "\"::ffff:10.0.0.0/104\""), FROM("10.1.1.1"), true},
	        {IP("IpAddress", "[\"10.0.0.0/8\",\"2001:db8::/32\"]"), FROM("2001:db8::1"), true},
	        {IP("IpAddress", "\"10.0.0.0/8\""), "", false},
	        {IP("IpAddressIfExists", "\"10.0.0.0/8\""), "", true},
	        {IP("NotIpAddress", "\"10.0.0.0/8\""), FROM("10.1.1.1"), false},
	        {IP("NotIpAddress", "\"10.0.0.0/8\""), FROM("11.1.1.1"), true},
	        {IP("NotIpAddress", "[\"10.0.0.0/8\",\"11.0.0.0/8\"]"), FROM("11.1.1.1"), false},
	        {IP("NotIpAddress", "\"10.0.0.0/8\""), "", true},
	};

	check(rows, COUNT(rows));
}

#define SECURE(values) "\"Bool\":{\"aws:SecureTransport\":" values "}"
#define TLS(value)     "\"aws:SecureTransport\":" value
#define ABSENT(values) "\"Null\":{\"dynamodb:Select\":" values "}"

TEST(condition, truths_and_absence)
{
	static const struct row rows[] = {
	        {SECURE("\"true\""), TLS("true"), true},
	        {SECURE("true"), TLS("true"), true},
	        {SECURE("\"True\""), TLS("true"), true},
	        {SECURE("\"true\""), TLS("false"), false},
	        {SECURE("\"false\""), TLS("false"), true},
	        {SECURE("[\"true\",\"false\"]"), TLS("false"), true},
	        {SECURE("\"false\""), "", false},
	        {"\"BoolIfExists\":{\"aws:SecureTransport\":\"true\"}", "", true},
	        {"\"BoolIfExists\":{\"aws:SecureTransport\":\"true\"}", TLS("false"), false},
	        {ABSENT("\"true\""), "", true},
	        {ABSENT("\"true\""), SELECTED(""), false},
	        {ABSENT("\"false\""), SELECTED("x"), true},
	        {ABSENT("false"), "", false},
	        {"\"Null\":{\"dynamodb:LeadingKeys\":\"true\"}", "\"dynamodb:LeadingKeys\":[]", true},
	        {"\"Null\":{\"dynamodb:LeadingKeys\":\"false\"}", "\"dynamodb:LeadingKeys\":[\"a\"]", true},
	};

	check(rows, COUNT(rows));
}

#define EPOCH(operator, values) "\"" operator"\":{\"aws:EpochTime\":" values "}"
#define DATE(operator, values)  "\"" operator"\":{\"aws:CurrentTime\":" values "}"
#define AT(seconds)             "\"aws:EpochTime\":" seconds
#define ON(date)                "\"aws:CurrentTime\":\"" date "\""

TEST(condition, numbers_and_dates_have_an_order)
{
	static const struct row rows[] = {
	        {EPOCH("NumericEquals", "\"1700000000\""), AT("1700000000"), true},
	        {EPOCH("NumericEquals", "1700000000"), AT("1700000000"), true},
	        {EPOCH("NumericEquals", "[1,2]"), AT("2"), true},
	        {EPOCH("NumericEquals", "\"2.0\""), AT("2"), true},
	        {EPOCH("NumericEquals", "\"2.000001\""), AT("2"), false},
	        {EPOCH("NumericEquals", "\"-2\""), AT("-2"), true},
	        {EPOCH("NumericEquals", "1"), "", false},
	        {EPOCH("NumericNotEquals", "1"), AT("1"), false},
	        {EPOCH("NumericNotEquals", "[1,2]"), AT("3"), true},
	        {EPOCH("NumericNotEquals", "1"), "", true},
	        {EPOCH("NumericLessThan", "5"), AT("4"), true},
	        {EPOCH("NumericLessThan", "5"), AT("5"), false},
	        {EPOCH("NumericLessThan", "[1,5]"), AT("4"), true},
	        {EPOCH("NumericLessThanEquals", "5"), AT("5"), true},
	        {EPOCH("NumericLessThanEquals", "5"), AT("6"), false},
	        {EPOCH("NumericGreaterThan", "5"), AT("6"), true},
	        {EPOCH("NumericGreaterThan", "5"), AT("5"), false},
	        {EPOCH("NumericGreaterThanEquals", "5"), AT("5"), true},
	        {EPOCH("NumericGreaterThanEquals", "5"), AT("4"), false},
	        {EPOCH("NumericGreaterThan", "5"), AT("9223372036854775807"), true},
	        {EPOCH("NumericGreaterThanEqualsIfExists", "5"), "", true},
	        {DATE("DateEquals", "\"2024-02-29\""), ON("2024-02-29T00:00:00Z"), true},
	        {DATE("DateEquals", "\"2024-02-29T12:30Z\""), ON("2024-02-29T12:30:00Z"), true},
	        {DATE("DateEquals", "\"2024-02-29T12:30:00+02:00\""), ON("2024-02-29T10:30:00Z"), true},
	        {DATE("DateEquals", "\"2024-02-29T12:30:00.5-02:00\""), ON("2024-02-29T14:30:00Z"), false},
	        {DATE("DateEquals", "\"1709164800\""), ON("2024-02-29T00:00:00Z"), true},
	        {DATE("DateEquals", "1709164800"), ON("2024-02-29"), true},
	        {DATE("DateEquals", "\"2024-02-29\""), "", false},
	        {DATE("DateNotEquals", "\"2024-02-29\""), ON("2024-02-29"), false},
	        {DATE("DateNotEquals", "\"2024-02-29\""), "", true},
	        {DATE("DateLessThan", "\"2000-03-01\""), ON("2000-02-29T23:59:59Z"), true},
	        {DATE("DateLessThan", "\"2000-03-01\""), ON("2000-03-01"), false},
	        {DATE("DateLessThanEquals", "\"2000-03-01\""), ON("2000-03-01"), true},
	        {DATE("DateLessThanEquals", "\"2000-03-01\""), ON("2000-03-02"), false},
	        {DATE("DateGreaterThan", "\"1970-01-01\""), ON("1970-01-01T00:00:01Z"), true},
	        {DATE("DateGreaterThan", "\"2100-02-28T23:59:59Z\""), ON("2100-03-01"), true},
	        {DATE("DateGreaterThan", "\"9999-12-31T23:59:59Z\""), ON("9999-12-31T23:59:59Z"), false},
	        {DATE("DateGreaterThanEquals", "\"2024-01-01\""), ON("2024-01-01"), true},
	        {DATE("DateGreaterThanEquals", "\"2024-01-01\""), ON("2023-12-31T23:59:59Z"), false},
	        {EPOCH("DateGreaterThan", "\"2024-02-28T23:59:59Z\""), AT("1709164800"), true},
	};

	check(rows, COUNT(rows));
}

#define KEYS(operator, values) "\"" operator"\":{\"dynamodb:LeadingKeys\":" values "}"
#define TOUCHED(values)        "\"dynamodb:LeadingKeys\":" values

TEST(condition, sets_are_held_against_every_value_or_any)
{
	static const struct row rows[] = {
	        {KEYS("ForAllValues:StringEquals", "[\"a\",\"b\"]"), TOUCHED("[\"a\"]"), true},
	        {KEYS("ForAllValues:StringEquals", "[\"a\",\"b\"]"), TOUCHED("[\"b\",\"a\",\"b\"]"), true},
	        {KEYS("ForAllValues:StringEquals", "[\"a\",\"b\"]"), TOUCHED("[\"a\",\"c\"]"), false},
	        {KEYS("ForAllValues:StringEquals", "\"a\""), TOUCHED("[]"), true},
	        {KEYS("ForAllValues:StringEquals", "\"a\""), "", true},
	        {KEYS("ForAllValues:StringNotEquals", "\"a\""), TOUCHED("[\"b\",\"c\"]"), true},
	        {KEYS("ForAllValues:StringNotEquals", "\"a\""), TOUCHED("[\"b\",\"a\"]"), false},
	        {KEYS("ForAllValues:StringNotEquals", "[\"a\",\"b\"]"), TOUCHED("[\"b\"]"), false},
	        {KEYS("ForAllValues:StringNotEquals", "\"a\""), "", true},
	        {KEYS("ForAllValues:StringLike", "\"user-*\""), TOUCHED("[\"user-1\",\"user-2\"]"), true},
	        {KEYS("ForAllValues:StringLike", "\"user-*\""), TOUCHED("[\"user-1\",\"admin\"]"), false},
	        {KEYS("ForAllValues:StringEqualsIfExists", "\"a\""), "", true},
	        {KEYS("ForAllValues:StringEqualsIfExists", "\"a\""), TOUCHED("[\"b\"]"), false},
	        {KEYS("ForAnyValue:StringEquals", "\"a\""), TOUCHED("[\"b\",\"a\"]"), true},
	        {KEYS("ForAnyValue:StringEquals", "\"a\""), TOUCHED("[\"b\",\"c\"]"), false},
	        {KEYS("ForAnyValue:StringEquals", "\"a\""), TOUCHED("[]"), false},
	        {KEYS("ForAnyValue:StringEquals", "\"a\""), "", false},
	        {KEYS("ForAnyValue:StringNotEquals", "\"a\""), TOUCHED("[\"a\",\"b\"]"), true},
	        {KEYS("ForAnyValue:StringNotEquals", "\"a\""), TOUCHED("[\"a\"]"), false},
	        {KEYS("ForAnyValue:StringNotEquals", "\"a\""), "", false},
	        {KEYS("ForAnyValue:StringEqualsIfExists", "\"a\""), "", true},
	        {SELECT("ForAllValues:StringEquals", "\"COUNT\""), SELECTED("COUNT"), true},
	        {SELECT("ForAllValues:StringEquals", "\"COUNT\""), "", true},
	        {SELECT("ForAnyValue:StringEquals", "\"COUNT\""), SELECTED("X"), false},
	        {IP("ForAnyValue:IpAddress", "\"10.0.0.0/8\""), FROM("10.0.0.1"), true},
	};

	check(rows, COUNT(rows));
}

TEST(condition, keys_and_operators_must_all_hold)
{
	static const struct row rows[] = {
	        {SELECT("StringEquals", "\"COUNT\"") "," SECURE("true"), SELECTED("COUNT") "," TLS("true"),
	         true},
	        {SELECT("StringEquals", "\"COUNT\"") "," SECURE("true"), SELECTED("COUNT") "," TLS("false"),
	         false},
	        {SELECT("StringEquals", "\"COUNT\"") "," SECURE("true"), SELECTED("X") "," TLS("true"),
	         false},
	        {"\"StringEquals\":{\"dynamodb:Select\":\"COUNT\",\"dynamodb:ReturnValues\":\"NONE\"}",
	         SELECTED("COUNT") ",\"dynamodb:ReturnValues\":\"NONE\"", true},
	        {"\"StringEquals\":{\"dynamodb:Select\":\"COUNT\",\"dynamodb:ReturnValues\":\"NONE\"}",
	         SELECTED("COUNT") ",\"dynamodb:ReturnValues\":\"ALL_OLD\"", false},
	        {"\"StringEquals\":{\"dynamodb:ReturnConsumedCapacity\":\"NONE\",\"dynamodb:"
	         "EnclosingOperation\":"
	         "\"TransactWriteItems\"}",
	         "\"dynamodb:ReturnConsumedCapacity\":\"NONE\",\"dynamodb:EnclosingOperation\":"
	         "\"TransactWriteItems\"",
	         true},
	        {SELECT("StringLike", "\"C*\"") "," SELECT("StringNotEquals", "\"COUNT\""), SELECTED("COUNT"),
	         false},
	        {SELECT("StringLike", "\"C*\"") "," SELECT("StringNotEquals", "\"COUNT\""), SELECTED("C"),
	         true},
	};

	check(rows, COUNT(rows));
}

/* The one departure from IAM. */
TEST(condition, a_request_for_items_that_does_not_say_which_counts_as_all)
{
	static const char *const conditions[] = {
	        KEYS("ForAllValues:StringEquals", "\"a\""),
	        KEYS("ForAnyValue:StringEquals", "\"a\""),
	        KEYS("ForAllValues:StringNotEquals", "\"a\""),
	        KEYS("ForAnyValue:StringNotEquals", "\"a\""),
	        KEYS("ForAllValues:StringEqualsIfExists", "\"a\""),
	        "\"ForAllValues:StringEquals\":{\"dynamodb:Attributes\":\"a\"}",
	        "\"ForAnyValue:StringLike\":{\"dynamodb:Attributes\":\"a*\"}",
	};
	static const char *const actions[] = {"dynamodb:Scan", "dynamodb:GetItem", "dynamodb:BatchWriteItem",
	                                      "DYNAMODB:QUERY"};
	struct fixture          *f = fixture_open();

	for (size_t i = 0; i < COUNT(conditions); i++) {
		for (size_t j = 0; j < COUNT(actions); j++) {
			struct row row = {conditions[i], "", false};

			assert_false(applies(f, "Allow", actions[j], &row));
			assert_true(applies(f, "Deny", actions[j], &row));
		}
	}
	assert_true(applies(f, "Allow", "dynamodb:Scan",
	                    &(struct row){"\"Null\":{\"dynamodb:LeadingKeys\":\"true\"}", "", true}));
	assert_true(applies(f, "Allow", "dynamodb:Scan",
	                    &(struct row){SELECT("ForAllValues:StringEquals", "\"COUNT\""), "", true}));
	fixture_close(f);
}
