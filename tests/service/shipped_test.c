/* What the shipped policies stop, beside passwords: sources that guess and request codes, whole networks of them; and whom they do not
 * stop: the owner on a known device, whatever strangers do to her codes, requests and resets. */
#include "service/fixture.h"

#include "service/resetting.h"

/* One source, each time another account; how many attempts stood. */
static int spray(struct service *s, int times, enum outcome outcome, struct try t)
{
	int stood = 0;

	for (int i = 0; i < times; i++) {
		char name[24];

		snprintf(name, sizeof(name), "account-%d", i);
		t.subject = name;
		stood += service_record(s, outcome, t).counted;
	}
	return stood;
}

/* The same, each time from another /64 of one /48. */
static int spray_network(struct service *s, int networks)
{
	int stood = 0;

	for (int i = 0; i < networks; i++) {
		char name[24], ip[40];

		snprintf(name, sizeof(name), "account-%d", i);
		snprintf(ip, sizeof(ip), "2001:db8:1:%x::1", i);
		stood += FAIL(s, .subject = name, .ip = ip).counted;
	}
	return stood;
}

/* ---- sources ---- */

/* Every type that counts codes has a maximum by source, and none refuses callers that send none. CODE_REQUEST of EMAIL_VERIFICATION
 * is counted with USER_CODE_REQUEST, which has it. */
TEST(shipped, every_entry_and_every_request_of_a_code_is_counted_by_source)
{
	struct service s;
	uint32_t       seen = 0;

	service_open(&s, NULL);
	for (uint32_t i = 0; i < s.rules->count; i++) {
		const struct rule *rule = &s.rules->list[i];

		if (bytes_is(rule->type, "EMAIL_ENTRY") || bytes_is(rule->type, "CODE_REQUEST"))
			continue;
		if (rule->max_source == 0 || rule->max_network < 2 * rule->max_source ||
		    !rule->skips_source || !rule->locks_sources || rule->source_life_s != 900)
			fail_msg("%.*s/%.*s", BYTES_ARG(rule->journey), BYTES_ARG(rule->type));
		assert_bytes(rule->source_lock->name, "SOURCE");
		seen++;
	}
	assert_true(seen > 30);
	service_close(&s);
}

TEST(shipped, a_source_that_guesses_reset_codes_of_many_accounts_is_stopped)
{
	struct service s;
	struct try     entry = {.journey = "PASSWORD_RESET", .type = "CODE_ENTRY", .ip = "192.0.2.1"};

	service_open(&s, NULL);
	assert_int_equal(spray(&s, 750, OUTCOME_FAILURE, entry), 30);
	service_close(&s);
}

TEST(shipped, a_source_that_has_codes_sent_to_many_accounts_is_stopped)
{
	struct service s;
	struct try     request = {.type = "MFA_CODE_REQUEST", .notification = "MFA_SMS", .ip = "192.0.2.1"};

	service_open(&s, NULL);
	assert_int_equal(spray(&s, 750, OUTCOME_SENT, request), 100);
	request.journey = "PASSWORD_RESET";
	assert_int_equal(spray(&s, 750, OUTCOME_SENT, request), 30);
	service_close(&s);
}

TEST(shipped, a_source_that_is_locked_for_passwords_may_neither_guess_nor_request_codes_of_that_journey)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	assert_int_equal(spray(&s, 60, OUTCOME_FAILURE, (struct try){.ip = "192.0.2.1"}), 50);
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_bytes(r.verdict.sk, SOURCE_LOCK);
	r = SENT(&s, .type = "MFA_CODE_REQUEST", .notification = "MFA_SMS", .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SENT(&s, .type = "PASSWORD_RESET_REQUEST", .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = FAIL(&s, .journey = "PASSWORD_RESET", .type = "CODE_ENTRY",
	         .ip = "192.0.2.1"); /* has its own rule */
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .ip = "192.0.2.2");
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = SUCCEED(&s, .ip = "192.0.2.1", .allowed = true); /* since then: the lock holds to its end */
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .ip = "192.0.2.3", .allowed = true);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

/* One row stops the journey: nothing is written for its other types. */
TEST(shipped, the_lock_of_a_source_is_one_row)
{
	struct service s;
	struct item    row;
	struct bytes   source;

	service_open(&s, NULL);
	source = hashed(&s, IDENTIFIER_IP, "192.0.2.1");
	spray(&s, 50, OUTCOME_FAILURE, (struct try){.ip = "192.0.2.1"});
	assert_true(row_find(&s, source, BYTES(SOURCE_LOCK), &row));
	assert_bytes(row_text(&row, "cause"), "SIGN_IN/PASSWORD_ENTRY");
	assert_false(row_find(&s, source, BYTES(PASSWORD_LOCK), &row));
	assert_false(row_find(&s, source, BYTES("SIGN_IN#LOCK#MFA_CODE_ENTRY"), &row));
	service_close(&s);
}

/* At the maximum of a source nobody is signed out who only shares it. */
TEST(shipped, a_source_that_fails_to_reauthenticate_is_locked_and_its_neighbours_are_not_signed_out)
{
	struct service        s;
	struct attempt_result r;
	struct try entry = {.journey = "REAUTHENTICATION", .type = "PASSWORD_ENTRY", .ip = "192.0.2.1"};

	service_open(&s, NULL);
	assert_int_equal(spray(&s, 60, OUTCOME_FAILURE, entry), 50);
	r = service_record(&s, OUTCOME_SUCCESS, entry);
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_bytes(r.verdict.sk, "REAUTHENTICATION#LOCK#SOURCE");
	entry.ip = "192.0.2.2";
	r = FAIL_TIMES(&s, 6, .journey = "REAUTHENTICATION", .ip = "192.0.2.2");
	assert_verdict(&r, VERDICT_SIGNED_OUT, true); /* the subject's maximum is as it was */
	service_close(&s);
}

TEST(shipped, the_networks_of_one_site_are_counted_together)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	assert_int_equal(spray_network(&s, 300), 200);
	r = FAIL(&s, .subject = "zoe", .ip = "2001:db8:1:ffff::1");
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_bytes(r.verdict.block_type, "SOURCE");
	r = FAIL(&s, .subject = "zoe", .ip = "2001:db8:2::1");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(shipped, a_network_is_not_its_first_source_and_ipv4_has_none)
{
	struct service s;
	struct bytes   network, other, source;

	service_open(&s, NULL);
	network = network_of(&s, "2001:db8:1::1");
	other = network_of(&s, "2001:db8:1:ffff::9");
	source = hashed(&s, IDENTIFIER_IP, "2001:db8:1::");
	assert_true(bytes_equal(network, other));
	assert_false(bytes_equal(network, source));
	assert_true(identifier_is(network, IDENTIFIER_IP));
	assert_int_equal(network_of(&s, "192.0.2.1").len, 0);
	service_close(&s);
}

/* ---- known devices ---- */

static struct bytes sign_in(struct service *s)
{
	struct attempt_result r = SUCCEED(s, .type = "MFA_CODE_ENTRY", .method_type = "SMS");

	assert_int_equal(r.device.token.len, DEVICE_TOKEN_CHARS);
	return r.device.token;
}

TEST(shipped, whoever_has_the_password_does_not_lock_the_second_factor_of_the_owners_device)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, NULL);
	token = sign_in(&s);
	r = FAIL_TIMES(&s, 6, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED, true);
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .token = token);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
	service_close(&s);
}

TEST(shipped, strangers_do_not_stop_the_requests_and_resets_of_the_owners_device)
{
	static const struct {
		const char  *journey, *type, *notification, *method;
		enum outcome outcome;
	} all[] = {{"SIGN_IN", "MFA_CODE_REQUEST", "MFA_SMS", NULL, OUTCOME_SENT},
	           {"SIGN_IN", "EMAIL_CODE_REQUEST", "VERIFY_EMAIL", NULL, OUTCOME_SENT},
	           {"SIGN_IN", "EMAIL_CODE_ENTRY", NULL, NULL, OUTCOME_FAILURE},
	           {"SIGN_IN", "PASSWORD_RESET_REQUEST", NULL, NULL, OUTCOME_SENT},
	           {"PASSWORD_RESET", "EMAIL_CODE_REQUEST", "RESET_PASSWORD", NULL, OUTCOME_SENT},
	           {"PASSWORD_RESET", "MFA_CODE_REQUEST", "MFA_SMS", NULL, OUTCOME_SENT},
	           {"PASSWORD_RESET", "CODE_ENTRY", NULL, NULL, OUTCOME_FAILURE},
	           {"PASSWORD_RESET", "MFA_CODE_ENTRY", NULL, "SMS", OUTCOME_FAILURE},
	           {"PASSWORD_RESET_MFA", "MFA_CODE_REQUEST", "MFA_SMS", NULL, OUTCOME_SENT},
	           {"PASSWORD_RESET_MFA", "MFA_CODE_ENTRY", NULL, "SMS", OUTCOME_FAILURE},
	           {"REAUTHENTICATION", "MFA_CODE_REQUEST", "MFA_SMS", NULL, OUTCOME_SENT},
	           {"ACCOUNT_RECOVERY", "EMAIL_CODE_ENTRY", NULL, NULL, OUTCOME_FAILURE},
	           {"ACCOUNT_RECOVERY", "MFA_CODE_ENTRY", NULL, "SMS", OUTCOME_FAILURE},
	           {"ACCOUNT_RECOVERY", "MFA_CODE_REQUEST", "MFA_SMS", NULL, OUTCOME_SENT},
	           {"ACCOUNT_MANAGEMENT", "PASSWORD_ENTRY", NULL, NULL, OUTCOME_FAILURE},
	           {"ACCOUNT_MANAGEMENT", "MFA_CODE_ENTRY", NULL, "SMS", OUTCOME_FAILURE},
	           {"ACCOUNT_MANAGEMENT", "EMAIL_CODE_ENTRY", NULL, NULL, OUTCOME_FAILURE},
	           {"ACCOUNT_MANAGEMENT", "EMAIL_CODE_REQUEST", "VERIFY_EMAIL", NULL, OUTCOME_SENT},
	           {"ACCOUNT_MANAGEMENT", "MFA_CODE_REQUEST", "VERIFY_PHONE_NUMBER", NULL, OUTCOME_SENT}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct service        s;
		struct attempt_result r;
		struct try            t = {.journey = all[i].journey,
		                           .type = all[i].type,
		                           .notification = all[i].notification,
		                           .method_type = all[i].method};

		service_open(&s, NULL);
		t.token = sign_in(&s);
		for (int n = 0; n < 7; n++) {
			struct try stranger = t;

			stranger.token = (struct bytes){NULL, 0};
			r = service_record(&s, all[i].outcome, stranger);
		}
		assert_verdict(&r, VERDICT_LOCKED, false);
		r = service_record(&s, all[i].outcome, t);
		if (r.verdict.kind != VERDICT_ALLOW || !r.known_device)
			fail_msg("%s/%s", all[i].journey, all[i].type);
		service_close(&s);
	}
}

/* Before there is an account no device is known to it; a number has none; and codes of addresses are asked for by users who are
 * signed in. */
static bool is_without_devices(struct bytes journey)
{
	return bytes_is(journey, "ACCOUNT_CREATION") || bytes_is(journey, "EMAIL_VERIFICATION") ||
	       bytes_is(journey, "PHONE_NUMBER");
}

TEST(shipped, every_type_of_an_account_has_a_lane_for_devices_that_a_full_sign_in_made_known)
{
	struct service s;
	uint32_t       seen = 0;

	service_open(&s, NULL);
	for (uint32_t i = 0; i < s.rules->count; i++) {
		const struct rule *rule = &s.rules->list[i];

		if (is_without_devices(rule->journey))
			continue;
		if (rule->max_device == 0 || rule->known_after.count != 1)
			fail_msg("%.*s/%.*s", BYTES_ARG(rule->journey), BYTES_ARG(rule->type));
		assert_bytes(rule->known_after.list[0].journey, "SIGN_IN");
		assert_bytes(rule->known_after.list[0].name, "MFA_CODE_ENTRY");
		seen++;
	}
	assert_true(seen > 25);
	service_close(&s);
}

/* What strangers failed stops strangers. */
TEST(shipped, strangers_do_not_sign_out_the_owner_on_a_known_device)
{
	static const char *const types[] = {"EMAIL_ENTRY", "PASSWORD_ENTRY", "MFA_CODE_ENTRY",
	                                    "SECURITY_CODE_ENTRY"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct service        s;
		struct attempt_result r;
		struct try t = {.journey = "REAUTHENTICATION", .type = types[i], .method_type = "SMS"};

		service_open(&s, NULL);
		r = service_repeat(&s, OUTCOME_FAILURE, 6, t);
		assert_verdict(&r, VERDICT_SIGNED_OUT, true);
		t.token = sign_in(&s);
		r = service_record(&s, OUTCOME_SUCCESS, t);
		assert_verdict(&r, VERDICT_ALLOW, false);
		assert_true(r.known_device);
		service_close(&s);
	}
}

/* Whoever sits at her open session has six guesses, as a stranger has. */
TEST(shipped, the_sixth_failure_to_reauthenticate_on_a_known_device_signs_out)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, NULL);
	token = sign_in(&s);
	r = FAIL_TIMES(&s, 5, .journey = "REAUTHENTICATION", .token = token);
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = FAIL(&s, .journey = "REAUTHENTICATION", .token = token);
	assert_verdict(&r, VERDICT_SIGNED_OUT, true);
	assert_true(r.device_revoked && r.first_time);
	assert_string_equal(r.verdict.reason, "signed_out");
	assert_int_equal(r.verdict.until_s, 0); /* the device is forgotten: nothing of it ends by itself */
	service_close(&s);
}

/* Also where a caller sends the token with sign-ins only. */
TEST(shipped, a_sign_in_on_a_known_device_ends_that_she_was_signed_out)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, NULL);
	token = sign_in(&s);
	r = FAIL_TIMES(&s, 6, .journey = "REAUTHENTICATION");
	assert_verdict(&r, VERDICT_SIGNED_OUT, true);
	assert_true(SUCCEED(&s, .token = token).known_device);
	r = SUCCEED(&s, .journey = "REAUTHENTICATION");
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

/* A token is worth six of each, as it is of passwords. */
TEST(shipped, the_sixth_wrong_code_forgets_the_device)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, NULL);
	token = sign_in(&s);
	for (int i = 1; i <= 6; i++) {
		r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .token = token);
		assert_int_equal(r.device_revoked, i == 6);
	}
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .token = token);
	assert_false(r.known_device);
	service_close(&s);
}

/* Nothing wrong was entered: requests are bounded by the count over all lanes, which ends. */
TEST(shipped, asking_for_codes_forgets_no_device)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, NULL);
	token = sign_in(&s);
	for (int i = 1; i <= 12; i++) {
		r = service_record(&s, OUTCOME_SENT,
		                   (struct try){.journey = "SIGN_IN",
		                                .type = "EMAIL_CODE_REQUEST",
		                                .notification = "VERIFY_EMAIL",
		                                .token = token});
		assert_int_equal(r.verdict.kind, VERDICT_ALLOW);
		assert_true(r.known_device && !r.device_revoked);
	}
	service_close(&s);
}
