/* Attempts: what is counted where, for how long, and what happens at the maximum. Suites are named after the lists
 * of the documents that the rows come from: count types, journeys. */
#include "service/fixture.h"

/* ---- the count types: "Authentication Attempts" ---- */

TEST(count_types, mfa_code_attempts_are_counted_by_method)
{
	struct service s;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 2, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .notification = "MFA_SMS");
	FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "AUTH_APP");
	assert_row(
	        &s, "alice", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS",
	        "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS'},'count':{'N':'2'},"
	        "'ttl':{'N':'1789000900'},'last_updated':{'N':'1789000000'},'mfa_method_type':{'S':'SMS'},"
	        "'notification_type':{'S':'MFA_SMS'}}");
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#AUTH_APP"), 1);
	assert_int_equal(rows_in_table(&s), 2);
	service_close(&s);
}

TEST(count_types, password_attempts)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	r = FAIL(&s, .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 1);
	assert_int_equal(r.nearest.max, 6);
	assert_int_equal(r.nearest.remaining, 5);
	assert_int_equal(r.nearest.ends_s, START_S + 7200);
	assert_row(&s, "alice", PASSWORDS,
	           "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY'},'count':{'N':'1'},"
	           "'ttl':{'N':'1789007200'},'last_updated':{'N':'1789000000'}}");
	service_close(&s);
}

TEST(count_types, email_attempts)
{
	struct service s;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 3, .journey = "REAUTHENTICATION", .type = "EMAIL_ENTRY");
	FAIL_TIMES(&s, 4, .type = "EMAIL_CODE_ENTRY");
	assert_int_equal(count_in(&s, "alice", "REAUTHENTICATION#ERROR_COUNT#EMAIL_ENTRY"), 3);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#EMAIL_CODE_ENTRY"), 4);
	service_close(&s);
}

TEST(count_types, code_requests_are_counted_by_notification_type_and_add_up)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	SENT_TIMES(&s, 4, .journey = "PASSWORD_RESET", .type = "EMAIL_CODE_REQUEST",
	           .notification = "RESET_PASSWORD");
	r = SENT(&s, .journey = "PASSWORD_RESET", .type = "EMAIL_CODE_REQUEST",
	         .notification = "RESET_PASSWORD_WITH_CODE");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 5);
	assert_row(&s, "alice", "PASSWORD_RESET#REQUEST_COUNT#EMAIL_CODE_REQUEST#RESET_PASSWORD",
	           "{'PK':{'S':'alice'},'SK':{'S':'PASSWORD_RESET#REQUEST_COUNT#EMAIL_CODE_REQUEST#RESET_"
	           "PASSWORD'},"
	           "'count':{'N':'4'},'ttl':{'N':'1789000900'},'last_updated':{'N':'1789000000'},"
	           "'notification_type':{'S':'RESET_PASSWORD'}}");
	assert_int_equal(count_in(&s, "alice",
	                          "PASSWORD_RESET#REQUEST_COUNT#EMAIL_CODE_REQUEST#RESET_PASSWORD_WITH_CODE"),
	                 1);
	r = SENT(&s, .journey = "PASSWORD_RESET", .type = "EMAIL_CODE_REQUEST",
	         .notification = "RESET_PASSWORD");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_int_equal(count_in(&s, "alice", "PASSWORD_RESET#LOCK#EMAIL_CODE_REQUEST"), 1);
	assert_int_equal(rows_in_table(&s), 2); /* and how many there were */
	service_close(&s);
}

TEST(count_types, account_creation_attempts_live_an_hour)
{
	struct service s;

	service_open(&s, NULL);
	FAIL(&s, .journey = "ACCOUNT_CREATION", .type = "EMAIL_CODE_ENTRY");
	assert_int_equal(ttl_in(&s, "alice", "ACCOUNT_CREATION#ERROR_COUNT#EMAIL_CODE_ENTRY"), 3600);
	service_close(&s);
}

TEST(count_types, reauthentication_attempts_of_the_three_credentials)
{
	static const char *const types[] = {"EMAIL_ENTRY", "PASSWORD_ENTRY", "SECURITY_CODE_ENTRY"};
	struct service           s;
	char                     sk[128];

	service_open(&s, NULL);
	for (int i = 0; i < 3; i++)
		FAIL_TIMES(&s, i + 1, .journey = "REAUTHENTICATION", .type = types[i]);
	for (int i = 0; i < 3; i++) {
		snprintf(sk, sizeof(sk), "REAUTHENTICATION#ERROR_COUNT#%s", types[i]);
		assert_int_equal(count_in(&s, "alice", sk), i + 1);
		assert_int_equal(ttl_in(&s, "alice", sk), 3600);
	}
	service_close(&s);
}

/* ---- every rule that ships: counts to its maximum, ends as it says, and no sooner ---- */

static const char *method_of(const struct rule *r)
{
	return r->method.len > 0 ? r->method.data : r->qualifier == QUALIFY_METHOD ? "SMS" : NULL;
}

static struct try try_of(struct service *s, const struct rule *r)
{
	struct try t = {.journey = arena_printf(&s->f.arena, "%.*s", BYTES_ARG(r->journey)).data,
	                .type = arena_printf(&s->f.arena, "%.*s", BYTES_ARG(r->type)).data};

	if (method_of(r) != NULL)
		t.method_type = arena_printf(&s->f.arena, "%.*s", r->method.len > 0 ? (int)r->method.len : 3,
		                             method_of(r))
		                        .data;
	if (r->notification_count > 0)
		t.notification = arena_printf(&s->f.arena, "%.*s", BYTES_ARG(r->notifications[0])).data;
	return t;
}

static int64_t maximum_of(const struct rule *r)
{
	return r->max_each > 0 && r->max_each < r->max ? r->max_each : r->max;
}

static void shows_its_maximum(struct service *s, const struct rule *rule)
{
	enum outcome          outcome = rule->counts == COUNT_SENT ? OUTCOME_SENT : OUTCOME_FAILURE;
	struct try            t = try_of(s, rule);
	int64_t               max = maximum_of(rule);
	struct attempt_result r;

	for (int64_t i = 1; i < max; i++) {
		r = service_record(s, outcome, t);
		assert_verdict(&r, VERDICT_ALLOW, true);
		assert_false(r.first_time);
		assert_int_equal(r.nearest.remaining, max - i);
	}
	r = service_record(s, outcome, t);
	assert_true(r.counted && r.first_time);
	if (rule->at_max == AT_MAX_SIGN_OUT) {
		assert_int_equal(r.verdict.kind, VERDICT_SIGNED_OUT);
		assert_int_equal(r.verdict.until_s, START_S + rule->life_s);
	} else if (rule->lock->duration_s == 0) {
		assert_int_equal(r.verdict.kind, VERDICT_LOCKED_PERMANENT);
	} else {
		assert_int_equal(r.verdict.kind, VERDICT_LOCKED);
		assert_int_equal(r.verdict.until_s, START_S + rule->lock->duration_s);
	}
	for (int i = 0; i < 3; i++) {
		struct verdict before = r.verdict;

		r = service_record(s, outcome, t);
		assert_false(r.counted || r.first_time);
		assert_int_equal(r.verdict.kind, before.kind);
		assert_int_equal(r.verdict.until_s, before.until_s);
	}
}

TEST(journeys, every_rule_that_ships_counts_to_its_maximum_and_then_ends_as_it_says)
{
	struct service s;
	int            shown = 0;

	service_open(&s, NULL);
	for (uint32_t i = 0; i < s.rules->count; i++) {
		const struct rule *rule = &s.rules->list[i];

		if (maximum_of(rule) > 100)
			continue; /* practically unlimited: shown below */
		shows_its_maximum(&s, rule);
		shown++;
		/* a fresh table for the next: locks are shared by rules of one type */
		fixture_ok(&s.f, "DeleteTable", "{'TableName':'auth-state'}");
	}
	assert_int_equal(shown, s.rules->count - 2);
	service_close(&s);
}

TEST(journeys, do_not_count_each_others_attempts)
{
	static const char *const journeys[] = {"SIGN_IN",           "REAUTHENTICATION",   "ACCOUNT_CREATION",
	                                       "PASSWORD_RESET",    "PASSWORD_RESET_MFA", "ACCOUNT_RECOVERY",
	                                       "ACCOUNT_MANAGEMENT"};
	struct service           s;
	struct attempt_result    r;

	service_open(&s, NULL);
	for (size_t i = 0; i < 7; i++)
		FAIL_TIMES(&s, 5, .journey = journeys[i], .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	for (size_t i = 0; i < 7; i++) {
		r = FAIL(&s, .journey = journeys[i], .type = "MFA_CODE_ENTRY", .method_type = "SMS");
		assert_true(r.first_time);
		assert_verdict(&r, i == 1 ? VERDICT_SIGNED_OUT : VERDICT_LOCKED, true);
	}
	service_close(&s);
}

TEST(journeys, an_auth_app_code_is_practically_unlimited_while_registering_and_counted_apart_from_sms)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	r = FAIL_TIMES(&s, 50, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY",
	               .method_type = "AUTH_APP");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 50);
	r = FAIL_TIMES(&s, 5, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 5);
	r = FAIL(&s, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_bytes(r.verdict.block_type, "REDUCED");
	assert_int_equal(count_in(&s, "alice", "ACCOUNT_CREATION#ERROR_COUNT#MFA_CODE_ENTRY#AUTH_APP"), 50);
	service_close(&s);
}

TEST(journeys, a_lock_of_the_whole_journey_bars_each_of_its_types)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL(&s);
	fixture_ok(&s.f, "PutItem",
	           "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'AUTHENTICATION#LOCK#SIGN_"
	           "IN'},"
	           "'count':{'N':'1'}}}");
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	r = FAIL(&s, .journey = "REAUTHENTICATION");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

/* ---- devices: each has a maximum, and all of a subject together ---- */

#define MFA "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY"

TEST(mfa_devices, one_device_at_its_maximum_is_locked_and_the_others_are_not)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 3, .type = "MFA_CODE_ENTRY", .method_id = "EF444945", .method_type = "SMS");
	FAIL_TIMES(&s, 2, .type = "MFA_CODE_ENTRY", .method_id = "72CB4E28", .method_type = "SMS");
	r = FAIL_TIMES(&s, 3, .type = "MFA_CODE_ENTRY", .method_id = "EF444945", .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_bytes(r.verdict.sk, "SIGN_IN#LOCK#MFA_CODE_ENTRY#EF444945");
	assert_int_equal(count_in(&s, "alice", MFA "#EF444945"), 0);
	assert_int_equal(count_in(&s, "alice", MFA "#72CB4E28"), 2);
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_id = "72CB4E28", .method_type = "SMS");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(mfa_devices, the_sum_over_all_devices_locks_all_of_them)
{
	static const char *const devices[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
	struct service           s;
	struct attempt_result    r;

	service_open(&s, NULL);
	for (int i = 0; i < 10; i++) {
		r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_id = devices[i]);
		assert_verdict(&r, VERDICT_ALLOW, true);
	}
	assert_int_equal(r.nearest.count, 10);
	assert_int_equal(r.nearest.remaining, 1);
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_id = devices[10]);
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_bytes(r.verdict.sk, "SIGN_IN#LOCK#MFA_CODE_ENTRY");
	assert_int_equal(rows_in_table(&s), 2); /* the lock took the place of all counts; and its level */
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_id = "new");
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

TEST(mfa_devices, what_a_lock_of_one_took_off_its_count_stays_in_the_sum)
{
	static const char *const devices[] = {"a", "b", "c"};
	struct service           s;
	int                      counted = 0;

	service_open(&s, NULL);
	for (int i = 0; i < 60; i++)
		counted += FAIL(&s, .type = "MFA_CODE_ENTRY", .method_id = devices[i / 20]).counted;
	assert_int_equal(counted, 11);
	service_close(&s);
}

TEST(mfa_devices, a_device_that_is_locked_by_its_first_failure_is_in_the_sum)
{
	static const char *const devices[] = {"a", "b", "c", "d"};
	struct service           s;
	int                      counted = 0;

	service_open(
	        &s,
	        "locks: {STANDARD: {duration: 900}}\n"
	        "journeys: {SIGN_IN: {types: {MFA_CODE_ENTRY: {max: 3, max_each: 1, qualifier: method, life: "
	        "900}}}}\n");
	for (int i = 0; i < 4; i++)
		counted += FAIL(&s, .type = "MFA_CODE_ENTRY", .method_id = devices[i]).counted;
	assert_int_equal(counted, 3);
	service_close(&s);
}

TEST(mfa_devices, more_of_them_than_are_removed_at_once_are_still_all_counted)
{
	struct service        s;
	struct attempt_result r;
	char                  id[16];

	service_open(&s, "locks: {STANDARD: {duration: 9}}\n"
	                 "journeys: {SIGN_IN: {types: {CODE: {max: 70, life: 60, qualifier: method}}}}\n");
	for (int i = 1; i < 70; i++) {
		snprintf(id, sizeof(id), "device-%02d", i);
		r = FAIL(&s, .type = "CODE", .method_id = id);
		assert_verdict(&r, VERDICT_ALLOW, true);
		assert_int_equal(r.nearest.count, i);
	}
	r = FAIL(&s, .type = "CODE", .method_id = id); /* the last of them, whose row is past those kept */
	assert_verdict(&r, VERDICT_LOCKED, true);
	service_close(&s);
}

TEST(mfa_devices, the_same_id_under_another_method_goes_on_counting_in_its_row)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 3, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY", .method_id = "d",
	           .method_type = "AUTH_APP");
	r = FAIL(&s, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY", .method_id = "d",
	         .method_type = "SMS");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 4);
	r = FAIL(&s, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY", .method_id = "d");
	assert_int_equal(r.nearest.count, 5);
	assert_int_equal(rows_in_table(&s), 1);
	service_close(&s);
}

/* A type whose name begins like another's is another type. */
TEST(mfa_devices, a_longer_name_with_the_same_beginning_does_not_count)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, "locks: {STANDARD: {duration: 9}}\n"
	                 "journeys: {SIGN_IN: {types: {CODE: {max: 3, life: 60, qualifier: method}, "
	                 "CODE_TWO: {max: 9, "
	                 "life: 60, qualifier: method}}}}\n");
	FAIL_TIMES(&s, 5, .type = "CODE_TWO", .method_id = "a");
	r = FAIL(&s, .type = "CODE", .method_id = "a");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 1);
	service_close(&s);
}

/* ---- subjects ---- */

TEST(subjects, counts_of_a_subject_and_its_pairwise_id_add_up_whichever_comes_first)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 2, .subject = "pairwise");
	FAIL_TIMES(&s, 2);
	r = FAIL(&s, .subject = "alice", .pairwise = "pairwise");
	assert_int_equal(r.nearest.count, 5);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 3); /* the first is written to */
	assert_int_equal(count_in(&s, "pairwise", PASSWORDS), 2);
	r = FAIL(&s, .subject = "pairwise", .pairwise = "alice");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_int_equal(rows_in_table(&s), 4); /* each with its level */
	r = FAIL(&s, .subject = "alice", .pairwise = "pairwise");
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

TEST(subjects, that_were_counted_together_are_locked_together)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 5, .subject = "pairwise");
	r = FAIL(&s, .subject = "alice", .pairwise = "pairwise");
	assert_verdict(&r, VERDICT_LOCKED, true);
	r = FAIL(&s, .subject = "pairwise");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

TEST(subjects, do_not_share_counts_or_locks_with_others)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 6, .subject = "mallory");
	r = FAIL(&s, .subject = "bob");
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 1);
	service_close(&s);
}

/* ---- how long a count lives ---- */

TEST(life, a_fixed_life_runs_from_the_first_failure_and_ends_at_the_second)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL(&s, .journey = "REAUTHENTICATION", .type = "EMAIL_ENTRY");
	at(&s, 3599);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "EMAIL_ENTRY");
	assert_int_equal(r.nearest.count, 2);
	assert_int_equal(r.nearest.ends_s, START_S + 3600);
	at(&s, 3600);
	assert_int_equal(count_in(&s, "alice", "REAUTHENTICATION#ERROR_COUNT#EMAIL_ENTRY"), 0);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "EMAIL_ENTRY");
	assert_int_equal(r.nearest.count, 1);
	assert_int_equal(r.nearest.ends_s, START_S + 7200);
	service_close(&s);
}

TEST(life, a_renewed_life_runs_from_the_last_failure_and_ends_at_the_second)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL(&s);
	at(&s, 7199);
	r = FAIL(&s);
	assert_int_equal(r.nearest.count, 2);
	at(&s, 7199 + 7199);
	r = FAIL(&s);
	assert_int_equal(r.nearest.count, 3);
	at(&s, 7199 + 7199 + 7200);
	r = FAIL(&s);
	assert_int_equal(r.nearest.count, 1);
	service_close(&s);
}

/* The table may be the user's own, made without TTL, so that nobody removes what has expired. */
TEST(life, ends_at_the_second_also_in_a_table_without_ttl)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	fixture_ok(&s.f, "CreateTable",
	           "{'TableName':'auth-state','BillingMode':'PAY_PER_REQUEST','AttributeDefinitions':["
	           "{'AttributeName':'PK','AttributeType':'S'},{'AttributeName':'SK','AttributeType':'S'}],"
	           "'KeySchema':[{'AttributeName':'PK','KeyType':'HASH'},{'AttributeName':'SK','KeyType':'"
	           "RANGE'}]}");
	FAIL_TIMES(&s, 5, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	FAIL_TIMES(&s, 6, .type = "EMAIL_CODE_ENTRY");
	at(&s, 899);
	r = FAIL(&s, .type = "EMAIL_CODE_ENTRY");
	assert_verdict(&r, VERDICT_LOCKED, false);
	at(&s, 900);
	r = FAIL(&s, .type = "EMAIL_CODE_ENTRY");
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_int_equal(r.nearest.count, 1);
	service_close(&s);
}

TEST(life, counts_and_locks_survive_a_restart)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 5);
	FAIL_TIMES(&s, 6, .type = "EMAIL_CODE_ENTRY");
	fixture_restart(&s.f);
	r = FAIL(&s, .type = "EMAIL_CODE_ENTRY");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_LOCKED, true);
	service_close(&s);
}

/* ---- the ends that are not locks ---- */

TEST(sign_out, happens_at_the_maximum_without_a_lock_and_holds_until_the_count_expires)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 5, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY");
	at(&s, 100);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_SIGNED_OUT, true);
	assert_true(r.first_time);
	assert_int_equal(r.verdict.until_s, START_S + 3600);
	r = SUCCEED(&s, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_SIGNED_OUT, false);
	assert_int_equal(count_in(&s, "alice", "REAUTHENTICATION#ERROR_COUNT#PASSWORD_ENTRY"), 6);
	assert_int_equal(rows_in_table(&s), 1);
	at(&s, 3599);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_SIGNED_OUT, false);
	at(&s, 3600);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

/* Each factor ends what was counted of that factor: who only knows the password gets no more codes by it. */
TEST(sign_out, ends_with_a_fresh_sign_in_for_the_factors_that_it_proved)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 6, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY");
	FAIL_TIMES(&s, 6, .journey = "REAUTHENTICATION", .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	r = SUCCEED(&s, .type = "PASSWORD_ENTRY");
	assert_int_equal(r.cleared_count, 1);
	assert_bytes(r.cleared[0].sk, "REAUTHENTICATION#ERROR_COUNT#PASSWORD_ENTRY");
	assert_int_equal(r.cleared[0].count, 6);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_SIGNED_OUT, false);
	SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "AUTH_APP");
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(sign_out, says_the_moment_at_which_the_first_of_several_counts_expires)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 2, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY", .subject = "pairwise");
	at(&s, 600);
	r = service_repeat(&s, OUTCOME_FAILURE, 4,
	                   (struct try){.journey = "REAUTHENTICATION",
	                                .type = "PASSWORD_ENTRY",
	                                .pairwise = "pairwise"});
	assert_verdict(&r, VERDICT_SIGNED_OUT, true);
	assert_int_equal(r.verdict.until_s, START_S + 3600);
	at(&s, 3600);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY", .pairwise = "pairwise");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(reset_only, begins_the_count_anew_at_the_maximum_and_bars_nobody)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s,
	             "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 3, life: 60, at_max: reset}}}}\n");
	r = FAIL_TIMES(&s, 3);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_false(r.first_time);
	assert_int_equal(rows_in_table(&s), 0);
	r = FAIL(&s);
	assert_int_equal(r.nearest.count, 1);
	service_close(&s);
}

/* ---- shadow mode ---- */

#define SHADOWED                                                                                             \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 3, life: 60, shadow: true}, CODE: {max: 3, "     \
	"life: 60, "                                                                                         \
	"at_max: sign_out, shadow: true}}}}\n"

TEST(shadow, decides_and_reports_and_does_not_enforce)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, SHADOWED);
	r = FAIL_TIMES(&s, 3);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.shadow.kind, VERDICT_LOCKED);
	assert_int_equal(r.shadow.until_s, START_S + 900);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY"), 1);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 0);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.shadow.kind, VERDICT_LOCKED);
	assert_int_equal(r.shadow.until_s, START_S + 900);
	r = FAIL_TIMES(&s, 4, .type = "CODE");
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.shadow.kind, VERDICT_SIGNED_OUT);
	at(&s, 900);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.shadow.kind, VERDICT_ALLOW);
	service_close(&s);
}

/* Whoever a rule in shadow mode would have locked out got in: what others count, and devices, must know. */
TEST(shadow, a_success_that_would_have_been_refused_is_a_success_for_the_rules_in_force)
{
	struct service        s;
	struct attempt_result r;

	service_open(
	        &s,
	        "locks: {STANDARD: {duration: 900}}\n"
	        "journeys:\n"
	        "  SIGN_IN:\n"
	        "    types:\n"
	        "      PASSWORD_ENTRY: {max: 3, life: 60, shadow: true, clears: [PASSWORD_ENTRY, SESSION]}\n"
	        "      SESSION: {max: 2, life: 900, at_max: sign_out, known_device: {max: 2, after: "
	        "[PASSWORD_ENTRY]}}\n");
	FAIL_TIMES(&s, 2, .type = "SESSION");
	FAIL_TIMES(&s, 3);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.shadow.kind, VERDICT_LOCKED);
	assert_int_equal(r.cleared_count, 1);
	assert_int_equal(r.device.token.len, DEVICE_TOKEN_CHARS);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY"), 1);
	r = FAIL(&s, .type = "SESSION");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

#define OVER(settings)                                                                                       \
	"locks: {STANDARD: {duration: 900}, GROWING: {duration: 60, factor: 2, cap: 900}}\n"                 \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {" settings "}}}}\n"

TEST(shadow, who_was_over_the_line_is_over_it_when_the_rule_comes_into_force)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, OVER("max: 3, life: 60, shadow: true"));
	FAIL_TIMES(&s, 3);
	FAIL_TIMES(&s, 2, .subject = "bob");
	at(&s, 50);
	service_rules(&s, OVER("max: 3, life: 60"));
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_int_equal(r.verdict.until_s, START_S + 950);
	assert_true(r.first_time && r.locked_now);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 1);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 0);
	r = SUCCEED(&s, .subject = "bob");
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

/* A shadow does what the rule would do: behind the lock all begins anew. */
TEST(shadow, a_count_that_it_locked_ends_with_the_lock)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, OVER("max: 3, life: 7200, shadow: true"));
	FAIL_TIMES(&s, 3);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 3);
	at(&s, 900);
	r = FAIL(&s);
	assert_int_equal(r.shadow.kind, VERDICT_ALLOW);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 1);
	service_rules(&s, OVER("max: 3, life: 7200"));
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(shadow, of_one_method_that_was_over_the_line_the_others_are_not)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, OVER("max: 9, max_each: 2, qualifier: method, life: 7200, shadow: true"));
	FAIL_TIMES(&s, 2, .method_type = "SMS");
	service_rules(&s, OVER("max: 9, max_each: 2, qualifier: method, life: 7200"));
	r = SUCCEED(&s, .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK#PASSWORD_ENTRY#SMS"), 1);
	r = SUCCEED(&s, .method_type = "AUTH_APP");
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

/* ---- a maximum that is lowered ---- */

TEST(lowered, a_count_at_its_maximum_stands_against_every_attempt_and_the_next_one_sets_the_lock)
{
	static const enum outcome outcomes[] = {OUTCOME_SUCCESS, OUTCOME_FAILURE};
	struct service            s;
	struct attempt_result     r;

	for (int i = 0; i < 2; i++) {
		service_open(&s, OVER("max: 6, life: 7200"));
		FAIL_TIMES(&s, 4);
		FAIL_TIMES(&s, 2, .subject = "bob");
		service_rules(&s, OVER("max: 3, life: 7200, lock: GROWING"));
		r = service_record(&s, outcomes[i], (struct try){0});
		assert_verdict(&r, VERDICT_LOCKED, false);
		assert_int_equal(r.verdict.until_s, START_S + 60);
		assert_true(r.first_time && r.locked_now);
		assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 1);
		assert_int_equal(count_in(&s, "alice", PASSWORDS), 0);
		r = SUCCEED(&s);
		assert_verdict(&r, VERDICT_LOCKED, false);
		assert_false(r.first_time || r.locked_now);
		r = SUCCEED(&s, .subject = "bob");
		assert_verdict(&r, VERDICT_ALLOW, false);
		at(&s, 60); /* and behind the lock all begins anew */
		r = SUCCEED(&s);
		assert_verdict(&r, VERDICT_ALLOW, false);
		service_close(&s);
	}
}

TEST(lowered, a_source_and_a_challenge_that_locks_are_no_different)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, OVER("max: 9, max_of_source: 9, life: 7200"));
	FAIL_TIMES(&s, 4, .ip = "192.0.2.1");
	service_rules(&s, OVER("max: 9, max_of_source: 3, life: 7200"));
	r = SUCCEED(&s, .subject = "bob", .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .ip = "192.0.2.2");
	assert_verdict(&r, VERDICT_ALLOW, false);
	FAIL_TIMES(&s, 5, .ip = "192.0.2.3", .allowed = true);
	service_rules(&s, OVER("max: 2, at_max: challenge, lock_at: 5, life: 7200"));
	r = SUCCEED(&s, .passed = true);
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

/* Also where subjects are not locked at their maximum: the lock is that of the whole journey, of the kind for sources. */
TEST(lowered, a_network_that_is_over_its_maximum_is_locked_as_sources_are)
{
#define NETWORKS(settings) OVER("max: 99, at_max: sign_out, source_lock: GROWING, life: 7200" settings)
	static const char *const since[] = {NETWORKS(", max_of_network: 3"),
	                                    NETWORKS(", max_of_network: 3, shadow: true")};
	struct service           s;
	struct attempt_result    r;
	struct bytes             network;

	for (int i = 0; i < 2; i++) { /* the maximum is lowered; or the rule is in shadow mode first */
		service_open(&s, i == 0 ? NETWORKS(", max_of_network: 9") : since[1]);
		network = network_of(&s, "2001:db8:1::1");
		FAIL_TIMES(&s, 4, .ip = "2001:db8:1:1::1");
		at(&s, 50);
		service_rules(&s, since[0]);
		r = SUCCEED(&s, .subject = "bob", .ip = "2001:db8:1:2::1");
		assert_verdict(&r, VERDICT_LOCKED, false);
		assert_int_equal(r.verdict.until_s, START_S + 50 + 60);
		assert_true(r.first_time && r.locked_now && r.source_locked);
		assert_true(bytes_equal(r.verdict.pk, network));
		assert_true(bytes_is(r.verdict.sk, "SIGN_IN#LOCK#SOURCE"));
		r = SUCCEED(&s, .subject = "bob", .ip = "2001:db8:2:2::1");
		assert_verdict(&r, VERDICT_ALLOW, false);
		at(&s, 110);
		r = SUCCEED(&s, .subject = "bob", .ip = "2001:db8:1:2::1");
		assert_verdict(&r, VERDICT_ALLOW, false);
		service_close(&s);
	}
}

/* Something else that stands is told, and nothing changes. */
TEST(lowered, no_lock_is_set_while_something_else_stands)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, OVER("max: 6, life: 7200"));
	FAIL_TIMES(&s, 4);
	service_rules(&s, OVER("max: 3, life: 7200"));
	fixture_ok(
	        &s.f, "PutItem",
	        "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#STATE#"
	        "BLOCKED'},'count':{'N':'1'}}}");
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 0);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 4);
	service_close(&s);
}

/* ---- what a row says ---- */

TEST(history, a_lock_over_several_methods_remembers_the_attempts_of_all_in_order)
{
	struct service s;
	struct item    row;
	struct bytes   history;
	char           line[64];

	service_open(&s, NULL);
	for (int i = 0; i < 11; i++) {
		at(&s, i);
		FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = i % 2 == 0 ? "SMS" : "TOTP",
		     .method_id = i % 2 == 0   ? "a"
		                  : i % 4 == 1 ? "b"
		                               : "c");
	}
	assert_true(row_find(&s, BYTES("alice"), BYTES("SIGN_IN#LOCK#MFA_CODE_ENTRY"), &row) ||
	            row_find(&s, BYTES("alice"), BYTES("SIGN_IN#LOCK#MFA_CODE_ENTRY#a"), &row));
	history = row_text(&row, "history");
	assert_true(history.len <= HISTORY_BYTES_MAX);
	for (int i = 0; i < 11; i++) {
		snprintf(line, sizeof(line), "%lld failure v0 %s", (long long)START_S + i,
		         i % 2 == 0 ? "SMS" : "TOTP");
		assert_true(bytes_starts_with(history, bytes_of(line)));
		history = i == 10 ? (struct bytes){NULL, 0}
		                  : (struct bytes){history.data + strlen(line) + 2,
		                                   history.len - strlen(line) - 2};
	}
	service_close(&s);
}

TEST(history, a_row_remembers_the_newest_attempts_and_no_more_than_its_bound)
{
	struct service s;
	struct item    row;
	struct bytes   history;

	service_open(&s, NULL);
	for (int i = 0; i < 30; i++) {
		at(&s, i);
		FAIL(&s, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY", .method_type = "AUTH_APP");
	}
	assert_true(row_find(&s, BYTES("alice"),
	                     BYTES("ACCOUNT_CREATION#ERROR_COUNT#MFA_CODE_ENTRY#AUTH_APP"), &row));
	history = row_text(&row, "history");
	assert_in_range(history.len, HISTORY_BYTES_MAX / 2, HISTORY_BYTES_MAX);
	assert_true(bytes_starts_with(history, BYTES("17890000"))); /* a whole attempt first */
	assert_true(bytes_contains(history,
	                           BYTES("1789000028 failure v0 AUTH_APP, 1789000029 failure v0 AUTH_APP")));
	assert_false(bytes_contains(history, BYTES("1789000010")));
	service_close(&s);
}

/* Through DynamoDB's protocol anyone may have written anything. */
TEST(rows, that_others_wrote_wrongly_count_as_nothing_and_are_put_right)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL(&s);
	fixture_ok(&s.f, "PutItem",
	           "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#ERROR_COUNT#"
	           "PASSWORD_ENTRY'},"
	           "'count':{'S':'many'},'ttl':{'S':'never'},'history':{'N':'1'},'other':{'S':'kept'}}}");
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_row(&s, "alice", PASSWORDS,
	           "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY'},'count':{'N':'1'},"
	           "'ttl':{'N':'1789007200'},'last_updated':{'N':'1789000000'},'other':{'S':'kept'}}");
	service_close(&s);
}

TEST(rows, with_a_count_beyond_all_bounds_are_full_and_not_empty)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL(&s);
	fixture_ok(&s.f, "PutItem",
	           "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#ERROR_COUNT#"
	           "PASSWORD_ENTRY'},'count':{'N':'9223372036854775807'}}}");
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

TEST(tables, are_made_when_first_needed_with_their_ttl)
{
	struct service s;
	union answer   a;

	service_open(&s, NULL);
	assert_int_equal(fixture_ok(&s.f, "ListTables", "{}").list.count, 0);
	FAIL(&s);
	assert_int_equal(fixture_ok(&s.f, "ListTables", "{}").list.count, 1);
	a = fixture_ok(&s.f, "DescribeTable", "{'TableName':'auth-state'}");
	assert_bytes(a.table.schema.ttl_attribute, "ttl");
	assert_verified(&s.f);
	service_close(&s);
}
