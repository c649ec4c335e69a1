/* Attempts in two steps: what begin counts, what finish takes back, and what stays. Numbers are of reservation.h. */
#include "service/begun.h"

#include "service/lock.h"

#define RULES                                                                                                \
	"locks: {STANDARD: {duration: 900, factor: 2, cap: 7200}}\n"                                         \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 6, life: 7200, lapse: 40, known_device: {max: 3, devices: 2, after: "   \
	"[PASSWORD_ENTRY]}, clears: [PASSWORD_ENTRY, SESSION]}\n"                                            \
	"      KEPT: {max: 3, life: 7200, clears: []}\n"                                                     \
	"      SOURCES: {max: 6, max_of_source: 3, life: 7200}\n"                                            \
	"      SITES: {max: 9, max_of_source: 2, max_of_network: 4, life: 7200}\n"                           \
	"      METHODS: {max: 6, max_each: 2, qualifier: method, life: 7200, clears: []}\n"                  \
	"      SESSION: {max: 2, life: 7200, at_max: sign_out}\n"                                            \
	"      CODES: {max: 9, max_each: 3, qualifier: method, life: 7200}\n"                                \
	"resets:\n"                                                                                          \
	"  PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY], locks: [SIGN_IN/PASSWORD_ENTRY]}\n"                  \
	"  IDENTITY: {counts: [SIGN_IN/CODES]}\n"

enum { MAX = 6, LAPSE_S = 40 };

/* (1) */
TEST(reservation, of_eight_that_begin_six_are_allowed_and_the_others_reserve_nothing)
{
	struct service s;
	struct step    step;
	uint32_t       rows;

	service_open(&s, RULES);
	for (int i = 0; i < MAX; i++) {
		step = BEGIN(&s);
		assert_true(step.begun.reserved);
		assert_int_equal(step.begun.attempt.verdict.kind, VERDICT_ALLOW);
		assert_int_equal(step.begun.locked, i == MAX - 1);
	}
	rows = rows_in_table(&s);
	for (int i = 0; i < 2; i++) {
		step = BEGIN(&s);
		assert_false(step.begun.reserved);
		assert_verdict(&step.begun.attempt, VERDICT_LOCKED, false);
	}
	assert_int_equal(rows_in_table(&s), rows);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 1);
	service_close(&s);
}

/* (2) */
TEST(reservation, that_is_finished_as_a_failure_or_not_at_all_stays_counted)
{
	struct service        s;
	struct attempt_result r;
	struct step           one, two;

	service_open(&s, RULES);
	one = BEGIN(&s);
	two = BEGIN(&s);
	(void)two;
	r = finish(&s, &one, OUTCOME_FAILURE);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 2);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	at(&s, LAPSE_S + RESERVATION_KEEP_S);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	assert_int_equal(rows_in_table(&s), 1); /* the reservations themselves are forgotten */
	service_close(&s);
}

TEST(reservation, that_set_the_lock_says_so_when_it_is_finished_as_a_failure)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	FAIL_TIMES(&s, MAX - 1);
	step = BEGIN(&s);
	assert_false(step.begun.attempt.first_time);
	r = finish(&s, &step, OUTCOME_FAILURE);
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_true(r.first_time);
	service_close(&s);
}

/* (3) */
TEST(reservation, of_the_right_password_leaves_no_count_and_tells_only_what_others_failed)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	step = BEGIN(&s);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.cleared_count, 0);
	FAIL_TIMES(&s, 2);
	step = BEGIN(&s);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_int_equal(r.cleared_count, 1);
	assert_int_equal(r.cleared[0].count, 2);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 0);
	service_close(&s);
}

TEST(reservation, that_reached_the_maximum_and_was_right_locks_nobody_out)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	FAIL_TIMES(&s, MAX - 1);
	step = BEGIN(&s);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 1);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 1);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_int_equal(r.cleared_count, 1);
	assert_int_equal(r.cleared[0].count, MAX - 1); /* those of others, for the audit */
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 0);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY"), 0);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 1); /* a success clears */
	service_close(&s);
}

TEST(reservation, that_was_right_puts_back_what_reaching_the_maximum_removed_where_a_success_clears_nothing)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	FAIL_TIMES(&s, 2, .type = "KEPT");
	step = BEGIN(&s, .type = "KEPT");
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#KEPT"), 0);
	finish(&s, &step, OUTCOME_SUCCESS);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#KEPT"), 2);
	r = FAIL(&s, .type = "KEPT");
	assert_verdict(&r, VERDICT_LOCKED, true);
	service_close(&s);
}

TEST(reservation, that_was_right_takes_its_own_off_a_count_that_others_go_on_with)
{
	struct service s;
	struct step    step;

	service_open(&s, RULES);
	step = BEGIN(&s, .type = "SOURCES", .ip = "192.0.2.1");
	FAIL(&s, .type = "SOURCES", .ip = "192.0.2.1", .subject = "bob");
	finish(&s, &step, OUTCOME_SUCCESS);
	FAIL(&s, .type = "SOURCES", .ip = "192.0.2.1", .subject = "carol");
	assert_int_equal(FAIL(&s, .type = "SOURCES", .ip = "192.0.2.1").nearest.count,
	                 3); /* bob's, carol's, hers */
	service_close(&s);
}

/* A count that was cleared and begun again is another one. */
/* Many sign in at once from one office: all were right, and nothing stays counted, in whichever order they end. */
TEST(reservation, of_a_source_that_was_right_does_not_come_back_with_the_count_that_a_lock_removed)
{
	static const int orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}};

	for (int i = 0; i < 3; i++) {
		struct service s;
		struct step    steps[3];

		service_open(&s, RULES);
		steps[0] = BEGIN(&s, .subject = "ann", .type = "SOURCES", .ip = "192.0.2.1");
		steps[1] = BEGIN(&s, .subject = "bob", .type = "SOURCES", .ip = "192.0.2.1");
		steps[2] = BEGIN(&s, .subject = "eve", .type = "SOURCES", .ip = "192.0.2.1");
		assert_true(steps[2].begun.locked);
		for (int j = 0; j < 3; j++)
			assert_int_equal(finish(&s, &steps[orders[i][j]], OUTCOME_SUCCESS).verdict.kind,
			                 VERDICT_ALLOW);
		FAIL_TIMES(&s, 2, .subject = "ann", .type = "SOURCES", .ip = "192.0.2.1");
		assert_int_equal(
		        SUCCEED(&s, .subject = "bob", .type = "SOURCES", .ip = "192.0.2.1").verdict.kind,
		        VERDICT_ALLOW);
		service_close(&s);
	}
}

/* An office: one is wrong, the others are right. */
TEST(reservation, of_a_source_that_was_right_lifts_the_lock_that_it_was_counted_for)
{
	for (int wrong = 0; wrong < 3; wrong++)
		for (int first = 0; first < 2; first++) {
			static const char *const who[] = {"ann", "bob", "eve"};
			struct service           s;
			struct step              steps[3];

			service_open(&s, RULES);
			for (int i = 0; i < 3; i++)
				steps[i] = BEGIN(&s, .subject = who[i], .type = "SOURCES", .ip = "192.0.2.1");
			assert_true(steps[2].begun.locked);
			assert_int_equal(SUCCEED(&s, .subject = "fay", .type = "SOURCES", .ip = "192.0.2.1")
			                         .verdict.kind,
			                 VERDICT_LOCKED);
			if (first == 0)
				finish(&s, &steps[wrong], OUTCOME_FAILURE);
			for (int i = 0; i < 3; i++)
				if (i != wrong)
					assert_int_equal(finish(&s, &steps[i], OUTCOME_SUCCESS).verdict.kind,
					                 VERDICT_ALLOW);
			if (first == 1)
				finish(&s, &steps[wrong], OUTCOME_FAILURE);
			assert_int_equal(SUCCEED(&s, .subject = "fay", .type = "SOURCES", .ip = "192.0.2.1")
			                         .verdict.kind,
			                 VERDICT_ALLOW);
			/* The wrong one stays counted: the second after it locks, for as long as a first lock. */
			FAIL(&s, .subject = "gil", .type = "SOURCES", .ip = "192.0.2.1");
			assert_int_equal(FAIL(&s, .subject = "hal", .type = "SOURCES", .ip = "192.0.2.1")
			                         .verdict.until_s,
			                 START_S + 900);
			service_close(&s);
		}
}

/* The same of a network of sources, which has a maximum of its own. */
TEST(reservation, of_a_network_that_was_right_lifts_the_lock_that_it_was_counted_for)
{
	static const char *const ips[] = {"2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:1:3::1",
	                                  "2001:db8:1:4::1"};
	struct service           s;
	struct step              steps[4];

	service_open(&s, RULES
	             "sources: {lock: STANDARD}\n"
	             "consecutive: {max: 99, of: [SIGN_IN/SITES], sets: SIGN_IN/ROW, lock: STANDARD}\n");
	for (int i = 0; i < 4; i++)
		steps[i] = BEGIN(&s, .subject = "ann", .type = "SITES", .ip = ips[i]);
	assert_true(steps[3].begun.locked);
	assert_int_equal(SUCCEED(&s, .subject = "fay", .type = "KEPT", .ip = "2001:db8:1:5::1").verdict.kind,
	                 VERDICT_LOCKED);
	finish(&s, &steps[3], OUTCOME_FAILURE);
	assert_int_equal(finish(&s, &steps[0], OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_int_equal(SUCCEED(&s, .subject = "fay", .type = "KEPT", .ip = "2001:db8:1:5::1").verdict.kind,
	                 VERDICT_ALLOW);
	/* Three are left: the next locks, for as long as a first lock. */
	assert_int_equal(FAIL(&s, .subject = "gil", .type = "SITES", .ip = ips[0]).verdict.until_s,
	                 START_S + 900);
	service_close(&s);
}

static void source_counts(struct service *s, const char *ip, int count)
{
	struct bytes pk = hashed(s, IDENTIFIER_IP, ip);

	fixture_ok(&s->f, "UpdateItem",
	           arena_printf(&s->f.arena,
	                        "{'TableName':'auth-state','Key':{'PK':{'S':'%.*s'},'SK':{'S':'SIGN_IN#ERROR_"
	                        "COUNT#SOURCES'}},"
	                        "'UpdateExpression':'SET #c = :n','ExpressionAttributeNames':{'#c':'count'},"
	                        "'ExpressionAttributeValues':{':n':{'N':'%d'}}}%c",
	                        BYTES_ARG(pk), count, 0)
	                   .data);
}

/* Past the maximum, because it was lowered: one that is right does not bring the count below it. */
TEST(reservation, of_a_source_that_was_right_leaves_the_lock_of_a_count_that_is_still_at_its_maximum)
{
	struct service s;
	struct step    right[2], last;

	service_open(&s, RULES);
	right[0] = BEGIN(&s, .subject = "ann", .type = "SOURCES", .ip = "192.0.2.1");
	right[1] = BEGIN(&s, .subject = "bob", .type = "SOURCES", .ip = "192.0.2.1");
	source_counts(&s, "192.0.2.1", 4); /* others, under an earlier policy */
	last = BEGIN(&s, .subject = "eve", .type = "SOURCES", .ip = "192.0.2.1");
	assert_true(!last.begun.reserved &&
	            last.begun.attempt.locked_now); /* the lock was due: this one is not counted */
	finish(&s, &right[0], OUTCOME_SUCCESS);     /* three are left of four */
	assert_int_equal(SUCCEED(&s, .subject = "fay", .type = "SOURCES", .ip = "192.0.2.1").verdict.kind,
	                 VERDICT_LOCKED);
	finish(&s, &right[1], OUTCOME_SUCCESS);
	assert_int_equal(SUCCEED(&s, .subject = "fay", .type = "SOURCES", .ip = "192.0.2.1").verdict.kind,
	                 VERDICT_ALLOW);
	service_close(&s);
}

TEST(reservation, that_was_right_takes_nothing_off_a_later_count)
{
	struct service s;
	struct step    one, two, other;

	service_open(&s, RULES);
	one = BEGIN(&s);
	two = BEGIN(&s);
	finish(&s, &one, OUTCOME_SUCCESS); /* clears both */
	FAIL(&s);
	other = BEGIN(&s);
	(void)other;
	finish(&s, &two, OUTCOME_FAILURE);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	service_close(&s);
}

/* (4) Of six that began, the third is right: it is in, and the lock that the sixth set stays. */
TEST(reservation, that_was_allowed_and_is_right_is_let_in_whatever_began_after_it)
{
	struct service        s;
	struct attempt_result r;
	struct step           steps[MAX];

	service_open(&s, RULES);
	for (int i = 0; i < MAX; i++)
		steps[i] = BEGIN(&s);
	r = finish(&s, &steps[2], OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	for (int i = 0; i < MAX; i++)
		if (i != 2)
			assert_int_equal(finish(&s, &steps[i], OUTCOME_FAILURE).verdict.kind, VERDICT_LOCKED);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 1);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	service_close(&s);
}

TEST(reservation, that_is_right_is_stopped_by_what_people_set_meanwhile_and_stays_counted)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	step = BEGIN(&s);
	row_put(&s, "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#PASSWORD_ENTRY'},'count':{'N':'1'},"
	            "'block_type':{'S':'PERMANENT'},'set_by':{'S':'carol'}}");
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 1);
	service_close(&s);
}

/* (5) */
TEST(reservation, cannot_be_finished_from_its_lapse_on_and_nothing_is_cleared)
{
	struct service        s;
	struct attempt_result r;
	struct step           one, two;

	service_open(&s, RULES);
	one = BEGIN(&s);
	two = BEGIN(&s);
	at(&s, LAPSE_S - 1);
	assert_int_equal(finish(&s, &one, OUTCOME_FAILURE).verdict.kind, VERDICT_ALLOW);
	at(&s, LAPSE_S);
	r = finish(&s, &two, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_LAPSED, true);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 2);
	at(&s, LAPSE_S + RESERVATION_KEEP_S);
	assert_int_equal(finish_try(&s, &two, OUTCOME_SUCCESS), ERR_NOT_FOUND);
	service_close(&s);
}

/* (6) Whoever has the old password is not let in after the new one was set, however the two cross. */
TEST(reservation, that_was_begun_before_a_reset_of_its_credential_cannot_be_finished_as_a_success)
{
	struct service        s;
	struct attempt_result r;
	struct step           before, after, other;

	service_open(&s, RULES);
	FAIL_TIMES(&s, 2);
	before = BEGIN(&s);
	other = BEGIN(&s, .subject = "bob");
	reset(&s);
	after = BEGIN(&s);
	r = finish(&s, &before, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_LAPSED, true);
	assert_string_equal(r.verdict.reason, "reset");
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 1); /* nothing is taken back */
	assert_int_equal(finish(&s, &after, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_int_equal(finish(&s, &other, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	service_close(&s);
}

TEST(reservation, is_not_ended_by_a_reset_of_another_credential_nor_by_one_from_before)
{
	struct service s;
	struct step    step;

	service_open(&s, RULES);
	reset(&s);
	step = BEGIN(&s);
	prove_identity(&s);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	step = BEGIN(&s);
	at(&s, 30);
	reset(&s);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_LAPSED);
	service_close(&s);
}

/* As long as any attempt can be open. */
TEST(reservation, that_was_begun_before_a_reset_is_ended_by_it_up_to_its_lapse)
{
	struct service s;
	struct step    step;

	service_open(&s, "locks: {STANDARD: {duration: 900}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 6, life: 7200, lapse: 3600}}}}\n"
	                 "resets: {PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY]}}\n");
	step = BEGIN(&s);
	reset(&s);
	at(&s, 3599);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_LAPSED);
	assert_string_equal(step.r.verdict.reason, "reset");
	service_close(&s);
}

TEST(reservation, is_finished_once)
{
	struct service s;
	struct step    step;

	service_open(&s, RULES);
	step = BEGIN(&s);
	finish(&s, &step, OUTCOME_FAILURE);
	assert_int_equal(finish_try(&s, &step, OUTCOME_SUCCESS), ERR_FINISHED);
	assert_string_equal(s.f.err.text, "attempt: already finished, as a failure");
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 1);
	step.name = BYTES("nobody-began-it");
	assert_int_equal(finish_try(&s, &step, OUTCOME_SUCCESS), ERR_NOT_FOUND);
	service_close(&s);
}

TEST(reservation, of_one_method_that_reached_its_maximum_and_was_right_locks_no_device)
{
	struct service s;
	struct step    step;

	service_open(&s, RULES);
	FAIL(&s, .type = "METHODS", .method_id = "phone");
	step = BEGIN(&s, .type = "METHODS", .method_id = "phone");
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK#METHODS#phone"), 1);
	finish(&s, &step, OUTCOME_SUCCESS);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK#METHODS#phone"), 0);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#METHODS#phone"), 1);
	service_close(&s);
}

/* What the lock of one method moved aside were wrong codes too. */
TEST(reservation, of_one_method_that_reached_its_maximum_and_was_right_tells_what_was_wrong_before_it)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	FAIL_TIMES(&s, 2, .type = "CODES", .method_id = "phone");
	step = BEGIN(&s, .type = "CODES", .method_id = "phone");
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_int_equal(r.cleared_count, 1);
	assert_int_equal(r.cleared[0].count, 2);
	FAIL_TIMES(&s, 3, .type = "CODES", .method_id = "phone");
	r = SUCCEED(&s, .type = "CODES", .method_id = "tablet");
	assert_int_equal(r.cleared_count, 1);
	assert_int_equal(r.cleared[0].count, 3);
	service_close(&s);
}

TEST(reservation, that_signed_out_and_was_right_does_not)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	FAIL(&s, .type = "SESSION");
	step = BEGIN(&s, .type = "SESSION");
	assert_true(step.begun.reserved);
	assert_false(BEGIN(&s, .type = "SESSION").begun.reserved);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	r = FAIL(&s, .type = "SESSION");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

/* ---- known devices ---- */

TEST(reservation, that_uses_up_a_device_where_the_maximum_signs_out_does_so_only_if_it_was_wrong)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          token;

	service_open(&s, NULL);
	token = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS").device.token;
	FAIL_TIMES(&s, 5, .journey = "REAUTHENTICATION", .token = token);
	step = BEGIN(&s, .journey = "REAUTHENTICATION", .token = token);
	assert_true(step.begun.reserved);
	assert_int_equal(step.begun.attempt.verdict.kind, VERDICT_ALLOW);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	step = BEGIN(&s, .journey = "REAUTHENTICATION", .token = token);
	r = finish(&s, &step, OUTCOME_FAILURE);
	assert_verdict(&r, VERDICT_SIGNED_OUT, true);
	assert_true(r.device_revoked && r.first_time);
	service_close(&s);
}

TEST(reservation, in_a_lane_uses_the_devices_budget_and_gives_it_back_to_the_right_password)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          token;

	service_open(&s, RULES);
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, MAX); /* strangers are locked out */
	FAIL_TIMES(&s, 2, .token = token);
	step = BEGIN(&s, .token = token); /* the third of three */
	assert_true(step.begun.reserved);
	assert_false(BEGIN(&s, .token = token).begun.reserved); /* spent: it is a stranger now */
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
	assert_true(r.device.token.len > 0);
	r = FAIL_TIMES(&s, 2, .token = r.device.token);
	assert_true(r.known_device);
	service_close(&s);
}

TEST(reservation, that_spent_a_device_says_so_when_it_is_finished_as_a_failure)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          token;

	service_open(&s, RULES);
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 2, .token = token);
	step = BEGIN(&s, .token = token);
	assert_false(step.begun.attempt.device_revoked);
	r = finish(&s, &step, OUTCOME_FAILURE);
	assert_true(r.device_revoked);
	assert_false(FAIL(&s, .token = token).known_device);
	service_close(&s);
}

TEST(reservation, of_a_known_device_that_was_right_clears_what_a_success_at_once_clears)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          token;

	service_open(&s, RULES);
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 2, .type = "SESSION");
	step = BEGIN(&s, .token = token);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_true(r.known_device);
	assert_int_equal(r.cleared_count, 1);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#ERROR_COUNT#SESSION"), 0);
	service_close(&s);
}

static int64_t lanes_count(struct service *s)
{
	return count_in(s, "alice", "SIGN_IN#DEVICE_ERROR_COUNT#PASSWORD_ENTRY");
}

/* As if its success had been recorded at once: the old token lives on for a day, within the bound of two devices. */
TEST(reservation, of_a_devices_last_try_that_was_right_replaces_its_token)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          other, token;

	service_open(&s, RULES);
	other = SUCCEED(&s).device.token;
	at(&s, 1);
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 2, .token = token);
	step = BEGIN(&s, .token = token);
	assert_int_equal(lanes_count(&s), 3);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_true(r.device.replaced);
	assert_int_equal(lanes_count(&s), 0);
	assert_true(FAIL(&s, .token = r.device.token).known_device);
	assert_true(FAIL(&s, .token = other).known_device);
	assert_false(FAIL(&s, .token = token).known_device); /* the third of two */
	service_close(&s);
}

TEST(reservation, of_a_device_gives_its_budget_back_to_the_token_that_is_replaced)
{
	struct service s;
	struct step    step;
	struct bytes   token;

	service_open(&s, RULES);
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 2, .token = token);
	step = BEGIN(&s, .token = token);
	finish(&s, &step, OUTCOME_SUCCESS);
	assert_true(FAIL(&s, .token = token).device_revoked); /* it had one left */
	service_close(&s);
}

/* The one before it was right: so it was not the last. */
TEST(reservation, that_spent_a_device_which_got_some_of_its_budget_back_does_not_forget_it)
{
	struct service        s;
	struct attempt_result r;
	struct step           right, wrong;
	struct bytes          token;

	service_open(&s, RULES);
	token = SUCCEED(&s).device.token;
	FAIL(&s, .token = token);
	right = BEGIN(&s, .token = token);
	wrong = BEGIN(&s, .token = token);
	right.q.making = NULL;
	finish(&s, &right, OUTCOME_SUCCESS);
	r = finish(&s, &wrong, OUTCOME_FAILURE);
	assert_false(r.device_revoked);
	r = FAIL(&s, .token = token);
	assert_true(r.known_device && r.device_revoked);
	service_close(&s);
}

TEST(reservation, of_a_devices_last_try_does_not_bring_back_what_a_reset_forgot)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          token;

	service_open(&s, RULES);
	token = SUCCEED(&s).device.token;
	FAIL_TIMES(&s, 2, .token = token);
	step = BEGIN(&s, .token = token);
	prove_identity(&s); /* it forgets devices, and the password is as it was */
	step.q.making = NULL;
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_false(FAIL(&s, .token = token).known_device);
	service_close(&s);
}

TEST(reservation, keeps_the_history_of_what_was_begun)
{
	struct service s;
	struct item    row;

	service_open(&s, RULES);
	BEGIN(&s);
	assert_true(row_find(&s, BYTES("alice"), BYTES(PASSWORDS), &row));
	assert_true(bytes_contains(row_text(&row, "history"), BYTES(" begun v0")));
	service_close(&s);
}

/* ---- rules in shadow mode, and maxima that were lowered ---- */

#define SHADOW_OF(settings)                                                                                  \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {" settings "}}}}\n"

TEST(reservation, under_a_lock_in_shadow_mode_begin_and_finish_allow_and_say_what_it_would_have_been)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, SHADOW_OF("max: 2, life: 900, shadow: true"));
	FAIL_TIMES(&s, 2);
	for (int i = 0; i < 2; i++) {
		step = BEGIN(&s);
		assert_true(step.begun.reserved);
		assert_int_equal(step.begun.attempt.verdict.kind, VERDICT_ALLOW);
		assert_int_equal(step.begun.attempt.shadow.kind, VERDICT_LOCKED);
		r = finish(&s, &step, i == 0 ? OUTCOME_SUCCESS : OUTCOME_FAILURE);
		assert_int_equal(r.verdict.kind, VERDICT_ALLOW);
		assert_int_equal(r.shadow.kind, VERDICT_LOCKED);
	}
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY"), 1);
	service_close(&s);
}

/* The lock in shadow mode that begin sets itself is withdrawn, as any. */
TEST(reservation, that_reaches_the_maximum_in_shadow_mode_and_is_right_leaves_nothing)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, SHADOW_OF("max: 2, life: 900, shadow: true"));
	FAIL(&s);
	step = BEGIN(&s);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY"), 1);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_int_equal(r.verdict.kind, VERDICT_ALLOW);
	assert_int_equal(r.shadow.kind, VERDICT_ALLOW);
	assert_int_equal(count_in(&s, "alice", "SIGN_IN#SHADOW_LOCK#PASSWORD_ENTRY"), 0);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 0);
	service_close(&s);
}

TEST(reservation, is_refused_by_a_count_above_a_maximum_that_was_lowered_and_sets_its_lock)
{
	struct service s;
	struct step    step;

	service_open(&s, SHADOW_OF("max: 6, life: 900"));
	FAIL_TIMES(&s, 4);
	service_rules(&s, SHADOW_OF("max: 3, life: 900"));
	step = BEGIN(&s);
	assert_false(step.begun.reserved);
	assert_verdict(&step.begun.attempt, VERDICT_LOCKED, false);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 1);
	service_close(&s);
}

/* It was allowed when it began. (4) */
TEST(reservation, that_began_before_the_maximum_was_lowered_is_finished)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, SHADOW_OF("max: 6, life: 900"));
	FAIL_TIMES(&s, 4);
	step = BEGIN(&s);
	service_rules(&s, SHADOW_OF("max: 3, life: 900"));
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

/* ---- what an attempt did first, and is no more ---- */

static enum err_code unlock_run(struct turn *turn, struct err *err)
{
	bool held;

	return lock_clear(&turn->ctx, BYTES("alice"), BYTES(PASSWORD_LOCK), &held, err);
}

static void unlock(struct service *s)
{
	struct turn turn = {0};

	turn_take(s, &turn, unlock_run);
}

TEST(reservation, whose_lock_was_removed_meanwhile_is_not_the_first_to_say_locked)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	FAIL_TIMES(&s, MAX - 1);
	step = BEGIN(&s);
	unlock(&s);
	r = finish(&s, &step, OUTCOME_FAILURE);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_false(r.first_time);
	service_close(&s);
}

/* Whoever set that one was the first. */
TEST(reservation, whose_lock_was_removed_and_set_again_by_another_is_not_the_first_to_say_locked)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;

	service_open(&s, RULES);
	FAIL_TIMES(&s, MAX - 1);
	step = BEGIN(&s);
	unlock(&s);
	at(&s, 1);
	assert_true(FAIL_TIMES(&s, MAX).first_time);
	r = finish(&s, &step, OUTCOME_FAILURE);
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_false(r.first_time);
	service_close(&s);
}

TEST(reservation, that_signed_out_says_so_unless_another_success_ended_that)
{
	for (int ended = 0; ended < 2; ended++) {
		struct service s;
		struct step    step, other;

		service_open(&s, RULES);
		other = BEGIN(&s, .type = "SESSION");
		step = BEGIN(&s, .type = "SESSION");
		if (ended == 1)
			finish(&s, &other, OUTCOME_SUCCESS);
		assert_int_equal(finish(&s, &step, OUTCOME_FAILURE).first_time, ended == 0);
		service_close(&s);
	}
}
