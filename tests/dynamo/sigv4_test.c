/* SigV4: which signatures pass, and what is said of those that do not. That the canonical form is AWS's own
 * is shown by tests/e2e/test_sigv4_botocore.py; keys and limits are in sigv4_key_test.c, mutations in
 * sigv4_mutation_test.c. */
#define _GNU_SOURCE /* memmem */
#include "sigv4_case.h"

#include "dynamo/sigv4_parts.h"
#include "item/messages.h"

#define HOST_TEXT "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."

/* ---- accepted ---- */

SIGNED_TEST(verify, what_was_signed_passes_and_says_whose_it_is)
{
	assert_accepted(c);
	assert_bytes(c->who.key_id, CASE_KEY);
	assert_bytes(c->who.region, "us-east-1");
	assert_int_equal(c->who.token.len, 0);
	assert_int_equal(c->lookups, 1);
}

TEST(verify, a_session_token_is_signed_and_handed_on)
{
	struct sigv4_case c;

	case_init(&c);
	c.credential.token = BYTES("FwoGZXIvYXdzEJr//token");
	case_sign(&c);
	assert_accepted(&c);
	assert_bytes(c.who.token, "FwoGZXIvYXdzEJr//token");
	case_find(&c, "X-Amz-Security-Token")->value = BYTES("another");
	assert_refused(&c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	case_release(&c);
}

SIGNED_TEST(verify, separators_may_be_commas_blanks_or_both)
{
	case_authorization(c, ", SignedHeaders", ",SignedHeaders");
	case_authorization(c, ", Signature", " \t, \tSignature");
	assert_accepted(c);
	case_authorization(c, ",SignedHeaders", "  SignedHeaders");
	assert_accepted(c);
}

SIGNED_TEST(verify, the_body_may_be_known_by_its_hash)
{
	uint8_t digest[SHA256_BYTES];

	sha256(c->request.body, digest);
	c->request.body_sha256 = digest;
	c->request.body = BYTES("");
	assert_accepted(c);
	digest[31] ^= 1;
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
}

SIGNED_TEST(verify, white_space_around_and_within_a_value_does_not_count)
{
	case_find(c, "Content-Type")->value = BYTES("  application/x-amz-json-1.0\t ");
	assert_accepted(c);
	case_find(c, "Content-Type")->value = BYTES("application/ x-amz-json-1.0");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
}

SIGNED_TEST(verify, headers_that_were_not_signed_may_change)
{
	case_find(c, "User-Agent")->value = BYTES("a proxy");
	case_header(c, "Via", "1.1 proxy");
	assert_accepted(c);
}

TEST(verify, any_region_passes)
{
	struct sigv4_case c;

	case_init(&c);
	c.credential.region = BYTES("Mars_north-17");
	case_sign(&c);
	assert_accepted(&c);
	case_release(&c);
}

TEST(verify, the_declared_hash_of_the_body_must_be_right)
{
	static const char *const wrong[] = {
	        "UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "",
	        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"};
	struct sigv4_case c;
	char              hex[SHA256_HEX_CHARS + 1] = {0};

	case_init(&c);
	sha256_hex(c.request.body, hex);
	case_header(&c, "X-Amz-Content-SHA256", hex);
	case_sign(&c);
	assert_accepted(&c);
	case_release(&c);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		case_init(&c);
		case_header(&c, "X-Amz-Content-SHA256", wrong[i]);
		case_sign(&c);
		assert_refused(&c, ERR_SIGNATURE, MSG_SIGN_PAYLOAD);
		assert_int_equal(c.lookups, 0);
		case_release(&c);
	}
}

/* ---- not there, not whole ---- */

SIGNED_TEST(refuse, a_request_without_signature)
{
	case_find(c, "Authorization")->value = BYTES("Bearer abc");
	assert_refused(c, ERR_NO_CREDENTIAL, "Request is missing Authentication Token");
	case_find(c, "Authorization")->value = BYTES("");
	assert_refused(c, ERR_NO_CREDENTIAL, "Request is missing Authentication Token");
	case_remove(c, "Authorization");
	assert_refused(c, ERR_NO_CREDENTIAL, "Request is missing Authentication Token");
	assert_string_equal(err_name(c->err.code), "MissingAuthenticationTokenException");
	c->request.header_count = 0;
	assert_refused(c, ERR_NO_CREDENTIAL, "Request is missing Authentication Token");
}

SIGNED_TEST(refuse, a_signature_in_the_query)
{
	c->request.query = BYTES("a=b&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=00");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_BOTH);
	case_remove(c, "Authorization");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_QUERY);
}

SIGNED_TEST(refuse, a_signature_that_lacks_parts_names_them_all)
{
	case_find(c, "Authorization")->value = BYTES("AWS4-HMAC-SHA256");
	case_remove(c, "X-Amz-Date");
	assert_refused(
	        c, ERR_SIGNATURE_INCOMPLETE,
	        "Authorization header requires 'Credential' parameter. "
	        "Authorization header requires 'Signature' parameter. "
	        "Authorization header requires 'SignedHeaders' parameter. "
	        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ");
	assert_string_equal(err_name(c->err.code), "IncompleteSignatureException");
	case_find(c, "Authorization")->value =
	        BYTES("AWS4-HMAC-SHA256 Credential=, SignedHeaders=host, Signature=");
	case_header(c, "X-Amz-Date", "20150830T123600Z");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE,
	               "Authorization header requires 'Credential' parameter. "
	               "Authorization header requires 'Signature' parameter. ");
}

SIGNED_TEST(refuse, what_is_not_a_list_of_pairs)
{
	case_authorization(c, ", Signature=", ", Signature");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_EQUAL);
	case_authorization(c, ", Signature", ",, Signature=");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_EQUAL);
	case_authorization(c, ",, Signature=", ", Signatur=");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_UNKNOWN);
	case_authorization(c, ", Signatur=", ", Signature=1, Signature=");
	assert_refused(c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_UNKNOWN);
}

SIGNED_TEST(refuse, a_header_that_must_be_single_but_is_not)
{
	static const char *const names[] = {"AUTHORIZATION", "x-amz-date", "host", "X-Amz-Content-Sha256"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		case_header(c, names[i], "1");
		case_header(c, names[i], "1");
		assert_int_equal(case_verify(c), ERR_SIGNATURE_INCOMPLETE);
		assert_non_null(strstr(c->err.text, "must not repeat the header"));
		c->request.header_count -= 2;
	}
	assert_accepted(c);
}

SIGNED_TEST(refuse, another_algorithm)
{
	case_authorization(c, "AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256");
	assert_refused(
	        c, ERR_SIGNATURE_INCOMPLETE,
	        "Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256' (only AWS4-HMAC-SHA256 for now). ");
}

/* ---- dates ---- */

SIGNED_TEST(date, fifteen_minutes_pass_and_one_second_more_does_not)
{
	c->now_s = CASE_NOW_S + SIGV4_SKEW_S;
	assert_accepted(c);
	c->now_s++;
	assert_refused(c, ERR_SIGNATURE,
	               "Signature expired: 20150830T123600Z is now earlier than 20150830T123601Z "
	               "(20150830T125101Z - 15 min.)");
	assert_string_equal(err_name(c->err.code), "InvalidSignatureException");
	c->now_s = CASE_NOW_S - SIGV4_SKEW_S;
	assert_accepted(c);
	c->now_s--;
	assert_refused(c, ERR_SIGNATURE,
	               "Signature not yet current: 20150830T123600Z is still later than 20150830T123559Z "
	               "(20150830T122059Z + 15 min.)");
}

SIGNED_TEST(date, what_is_no_date_is_refused)
{
	static const char *const wrong[] = {"201",
	                                    "20150830T123600",
	                                    "20150830T123600Zz",
	                                    "20150830t123600Z",
	                                    "20150230T123600Z",
	                                    "20151330T123600Z",
	                                    "20150830T243600Z",
	                                    "20150830T126000Z",
	                                    "20150830T123660Z",
	                                    "+0150830T123600Z",
	                                    "00000000T000000Z",
	                                    "19690830T123600Z",
	                                    "Sun, 30 Aug 2015 12:36:00 GMT"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char text[100];

		case_find(c, "X-Amz-Date")->value = bytes_of(wrong[i]);
		snprintf(text, sizeof(text), "Date must be in ISO-8601 'basic format'. Got '%s'.", wrong[i]);
		assert_refused(c, ERR_SIGNATURE_INCOMPLETE, text);
	}
}

SIGNED_TEST(date, the_date_header_serves_if_there_is_no_other)
{
	static const char *const same[] = {"20150830T123600Z", "Sun, 30 Aug 2015 12:36:00 GMT",
	                                   "Sun, 30 Aug 2015 12:36:00 -0000"};
	static const char *const wrong[] = {"Sun, 30 Aug 2015 12:36:00 PST", "Sun, 30 Agu 2015 12:36:00 GMT",
	                                    "Sun, 30 Aug 2015 12:36:00 ",    "Sunday, 30-Aug-15 12:36:00 GMT",
	                                    "Sun, 31 Feb 2015 12:36:00 GMT", "Sun, 30 Aug 2015"};

	/* The signature is of another request: it must come down to comparing it. */
	case_remove(c, "X-Amz-Date");
	case_authorization(c, ";x-amz-date", "");
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		case_header(c, "Date", same[i]);
		assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
		c->request.header_count--;
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		case_header(c, "Date", wrong[i]);
		assert_int_equal(case_verify(c), ERR_SIGNATURE_INCOMPLETE);
		assert_non_null(strstr(c->err.text, "Date must be"));
		c->request.header_count--;
	}
}

TEST(date, every_day_returns_as_it_was_written)
{
	char    text[DATE_BASIC_CHARS + 1] = {0};
	int64_t back;

	for (int64_t seconds = 0; seconds < 253402300800; seconds += 86400 - 1) {
		date_write_basic(seconds, text);
		assert_true(date_read_basic(bytes_of(text), &back));
		assert_true(back == seconds);
	}
	date_write_basic(951827696, text);
	assert_string_equal(text, "20000229T123456Z");
	date_write_basic(253402300799, text);
	assert_string_equal(text, "99991231T235959Z");
}

/* ---- signed headers ---- */

SIGNED_TEST(signed_headers, must_hold_the_host)
{
	case_authorization(c, "SignedHeaders=content-type;host;", "SignedHeaders=content-type;");
	assert_refused(c, ERR_SIGNATURE, HOST_TEXT);
}

SIGNED_TEST(signed_headers, must_hold_every_amz_header_that_was_sent)
{
	case_authorization(c, ";x-amz-target", "");
	assert_refused(c, ERR_SIGNATURE, "'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.");
	case_authorization(c, ";x-amz-date", ";x-amz-target");
	assert_refused(c, ERR_SIGNATURE, "'X-Amz-Date' must be a 'SignedHeader' in the AWS Authorization.");
	case_authorization(c, ";x-amz-target", ";x-amz-date;x-amz-target");
	assert_accepted(c);
	case_header(c, "x-AMZ-security-token", "abc");
	assert_refused(c, ERR_SIGNATURE,
	               "'x-AMZ-security-token' must be a 'SignedHeader' in the AWS Authorization.");
}

SIGNED_TEST(signed_headers, must_all_have_been_sent)
{
	case_remove(c, "Content-Type");
	assert_refused(c, ERR_SIGNATURE, MSG_SIGN_MISMATCH);
	assert_int_equal(c->lookups, 0);
}

SIGNED_TEST(signed_headers, are_lower_case_in_order_and_each_once)
{
	static const char *const lists[] = {
	        "SignedHeaders=host;content-type;",      "SignedHeaders=Content-Type;host;",
	        "SignedHeaders=content-type;host;host;", "SignedHeaders=content-type;;host;",
	        "SignedHeaders=;content-type;host;",     "SignedHeaders=content-type;ho:st;",
	        "SignedHeaders=content-type;ho\nst;"};
	char text[200];

	snprintf(text, sizeof(text), MSG_SIGN_HEADERS, SIGV4_SIGNED_MAX);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		case_authorization(c, "SignedHeaders=content-type;host;", lists[i]);
		assert_refused(c, ERR_SIGNATURE, text);
		case_authorization(c, lists[i], "SignedHeaders=content-type;host;");
	}
	case_authorization(c, "x-amz-target,", "x-amz-target;,");
	assert_refused(c, ERR_SIGNATURE, text);
	case_authorization(c, "content-type;host;x-amz-date;x-amz-target;", "");
	assert_refused(c, ERR_SIGNATURE, text);
}

/* ---- scope ---- */

SIGNED_TEST(scope, must_be_of_five_parts)
{
	static const char *const credentials[] = {"AKIDEXAMPLE/20150830/us-east-1/dynamodb",
	                                          "AKIDEXAMPLE/20150830/us-east-1/dynamodb/aws4_request/",
	                                          "AKIDEXAMPLE", "/"};
	const char              *whole = "AKIDEXAMPLE/20150830/us-east-1/dynamodb/aws4_request";

	for (size_t i = 0; i < sizeof(credentials) / sizeof(credentials[0]); i++) {
		case_authorization(c, whole, credentials[i]);
		assert_refused(c, ERR_SIGNATURE_INCOMPLETE, MSG_SIGN_CREDENTIAL);
		case_authorization(c, credentials[i], whole);
	}
	assert_accepted(c);
}

SIGNED_TEST(scope, must_be_of_this_service_and_day)
{
	case_authorization(c, "/dynamodb/", "/s3/");
	assert_refused(c, ERR_SIGNATURE, "Credential should be scoped to correct service: 'dynamodb'. ");
	case_authorization(c, "/s3/", "/dynamodb/");
	case_authorization(c, "/20150830/", "/20150829/");
	assert_refused(c, ERR_SIGNATURE,
	               "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from "
	               "HTTP: '20150829' != '20150830', from '20150830T123600Z'.");
}

SIGNED_TEST(scope, a_signature_for_another_region_than_the_servers_is_refused)
{
	c->request.region = BYTES("us-east-1");
	assert_int_equal(case_verify(c), ERR_NONE);
	c->request.region = BYTES("us-east-10");
	assert_refused(c, ERR_SIGNATURE,
	               "Credential should be scoped to this server's region: 'us-east-10'. ");
	assert_int_equal(c->lookups, 1);
}

SIGNED_TEST(scope, all_that_is_wrong_is_named)
{
	case_authorization(c, "20150830/us-east-1/dynamodb/aws4_request", "b//d/e");
	assert_refused(c, ERR_SIGNATURE,
	               "Credential should be scoped to a valid region. "
	               "Credential should be scoped to correct service: 'dynamodb'. "
	               "Credential should be scoped with a valid terminator: 'aws4_request'. "
	               "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from "
	               "HTTP: 'b' != '20150830', from '20150830T123600Z'.");
	assert_int_equal(c->lookups, 0);
}
