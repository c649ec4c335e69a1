/* Success: what it clears, what it returns for the audit, and what it leaves alone. */
#include "service/fixture.h"

static bool cleared(const struct attempt_result *r, const char *pk, const char *sk, int64_t count)
{
	for (uint32_t i = 0; i < r->cleared_count; i++)
		if (bytes_is(r->cleared[i].pk, pk) && bytes_is(r->cleared[i].sk, sk))
			return r->cleared[i].count == count;
	return false;
}

TEST(success, clears_the_count_and_returns_it)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 5, .type = "PASSWORD_ENTRY");
	r = SUCCEED(&s, .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.cleared_count, 1);
	assert_true(cleared(&r, "alice", PASSWORDS, 5));
	assert_int_equal(r.nearest.count, 0);
	assert_int_equal(r.nearest.remaining, 6);
	assert_int_equal(rows_in_table(&s), 0);
	r = FAIL_TIMES(&s, 5, .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(success, without_any_failure_writes_nothing_and_makes_no_table)
{
	struct service        s;
	struct attempt_result r;
	union answer          a;

	service_open(&s, NULL);
	r = SUCCEED(&s, .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.cleared_count, 0);
	memset(&a, 0, sizeof(a));
	assert_int_equal(fixture_try(&s.f, "Scan", "{'TableName':'auth-state'}", &a), ERR_NO_RESOURCE);
	service_close(&s);
}

TEST(success, clears_the_counts_of_every_method_and_of_pairwise_ids_but_of_no_other_type_or_subject)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	FAIL(&s, .type = "MFA_CODE_ENTRY", .method_id = "app-1", .method_type = "AUTH_APP");
	FAIL(&s, .type = "MFA_CODE_ENTRY", .subject = "pairwise", .method_type = "SMS");
	FAIL(&s, .type = "MFA_CODE_ENTRY", .subject = "bob", .method_type = "SMS");
	FAIL(&s, .type = "EMAIL_CODE_ENTRY");
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .pairwise = "pairwise", .method_type = "SMS",
	            .forgetful = true);
	assert_int_equal(r.cleared_count, 3);
	assert_true(cleared(&r, "alice", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS", 1));
	assert_true(cleared(&r, "alice", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#app-1", 1));
	assert_true(cleared(&r, "pairwise", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS", 1));
	assert_int_equal(rows_in_table(&s), 2);
	assert_int_equal(count_in(&s, "bob", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS"), 1);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#EMAIL_CODE_ENTRY"), 1);
	service_close(&s);
}

TEST(success, clears_the_other_types_that_its_rule_names)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, "locks: {STANDARD: {duration: 9}}\n"
	                 "journeys:\n"
	                 "  SIGN_IN:\n"
	                 "    types:\n"
	                 "      PASSWORD_ENTRY: {max: 6, life: 60}\n"
	                 "      CODE: {max: 6, life: 60, qualifier: method}\n"
	                 "      LAST: {max: 6, life: 60, clears: [LAST, CODE, OTHER/CODE]}\n"
	                 "      KEEPS: {max: 6, life: 60, clears: []}\n"
	                 "  OTHER: {types: {CODE: {max: 6, life: 60}}}\n");
	FAIL(&s, .type = "LAST");
	FAIL(&s, .type = "CODE", .method_type = "SMS");
	FAIL(&s, .type = "CODE", .method_type = "EMAIL");
	FAIL(&s, .type = "CODE", .journey = "OTHER");
	FAIL(&s, .type = "PASSWORD_ENTRY");
	FAIL(&s, .type = "KEEPS");
	r = SUCCEED(&s, .type = "LAST", .method_type = "SMS");
	assert_int_equal(r.cleared_count, 4);
	assert_true(cleared(&r, "alice", "OTHER#ERROR_COUNT#CODE", 1));
	assert_true(cleared(&r, "alice", "SIGN_IN#ERROR_COUNT#CODE#EMAIL", 1));
	r = SUCCEED(&s, .type = "KEEPS");
	assert_int_equal(r.cleared_count, 0);
	assert_int_equal(rows_in_table(&s), 2);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 1);
	service_close(&s);
}

/* "clears: [CODE]" names a count, whatever rules its methods have. */
TEST(success, clears_also_the_methods_that_have_a_rule_of_their_own)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, "locks: {STANDARD: {duration: 9}}\n"
	                 "journeys:\n"
	                 "  SIGN_IN:\n"
	                 "    types:\n"
	                 "      CODE: {max: 6, life: 60, qualifier: method}\n"
	                 "      CODE/AUTH_APP: {max: 60, life: 60, qualifier: method}\n"
	                 "      LAST: {max: 6, life: 60, clears: [CODE]}\n");
	for (int last = 0; last <= 1; last++) {
		FAIL(&s, .type = "CODE", .method_type = "SMS");
		FAIL(&s, .type = "CODE", .method_id = "a", .method_type = "AUTH_APP");
		r = last ? SUCCEED(&s, .type = "LAST")
		         : SUCCEED(&s, .type = "CODE", .method_id = "a", .method_type = "AUTH_APP");
		assert_int_equal(r.cleared_count, 2);
		assert_int_equal(rows_in_table(&s), 0);
	}
	service_close(&s);
}

TEST(success, of_a_code_that_was_sent_clears_the_requests_for_it)
{
	struct service s;

	service_open(&s, NULL);
	SENT_TIMES(&s, 3, .type = "EMAIL_CODE_REQUEST", .notification = "VERIFY_EMAIL");
	SUCCEED(&s, .type = "EMAIL_CODE_REQUEST", .notification = "VERIFY_EMAIL");
	assert_int_equal(rows_in_table(&s), 0);
	service_close(&s);
}

TEST(success, while_locked_clears_nothing_and_is_refused)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 6, .type = "MFA_CODE_ENTRY", .method_type = "SMS"); /* that method is locked */
	FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "AUTH_APP");
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_int_equal(r.cleared_count, 0);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#AUTH_APP"), 1);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK#MFA_CODE_ENTRY#SMS"), 1);
	service_close(&s);
}

TEST(success, does_not_clear_what_a_source_did_to_others)
{
	struct service s;
	struct bytes   ip;
	struct item    row;

	service_open(
	        &s,
	        "locks: {STANDARD: {duration: 9}}\n"
	        "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 6, max_from_source: 3, max_of_source: 9, "
	        "life: 60}}}}\n");
	FAIL(&s, .subject = "bob", .ip = "192.0.2.1");
	FAIL(&s, .ip = "192.0.2.1");
	SUCCEED(&s, .ip = "192.0.2.1");
	ip = hashed(&s, IDENTIFIER_IP, "192.0.2.1");
	assert_true(row_find(&s, ip, BYTES(PASSWORDS), &row));
	assert_int_equal(row_i64(&row, "count", 0), 2);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 0);
	assert_int_equal(rows_in_table(&s), 3); /* bob's, bob's from there, and the source's */
	service_close(&s);
}
