/* Locks that grow as shipped, and failures in a row. Numbers are of streak.h. */
#include "service/resetting.h"

#include "service/lock.h"
#include "service/reservation.h"

/* ---- each lock is longer ---- */

/* Six failures at that time. */
static int64_t lock_lasts(struct service *s, int64_t now)
{
	struct attempt_result r;

	at(s, now);
	r = FAIL_TIMES(s, 6);
	assert_verdict(&r, VERDICT_LOCKED, true);
	return r.verdict.until_s - START_S - now;
}

static enum err_code streak_clear(struct turn *turn, struct err *err)
{
	bool held;

	return lock_clear(&turn->ctx, BYTES("alice"), BYTES(STREAK), &held, err);
}

#define GROWING                                                                                              \
	"locks: {STANDARD: {duration: 900, factor: 2, cap: 7200}}\n"                                         \
	"journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max: 2, life: 7200}}}}\n"

TEST(shipped_locks, each_is_twice_as_long_as_the_one_before_up_to_a_day)
{
	static const int64_t want[] = {900, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 86400};
	struct service       s;
	int64_t              now = 0;

	service_open(&s, NULL);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		assert_int_equal(lock_lasts(&s, now), want[i]);
		now += want[i];
	}
	service_close(&s);
}

TEST(shipped_locks, a_success_makes_the_next_one_a_first_one_again)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(lock_lasts(&s, 0), 900);
	assert_int_equal(lock_lasts(&s, 900), 1800);
	at(&s, 2700);
	SUCCEED(&s);
	assert_int_equal(lock_lasts(&s, 2700), 900);
	service_close(&s);
}

/* Whatever became of the failures in a row meanwhile. */
TEST(shipped_locks, a_success_makes_the_next_one_a_first_one_again_though_the_streak_was_ended_before)
{
	for (int how = 0; how < 2; how++) {
		struct service s;
		struct turn    turn = {0};

		service_open(&s, NULL);
		assert_int_equal(lock_lasts(&s, 0), 900);
		at(&s, 900);
		if (how == 0)
			SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS"); /* the last factor */
		else
			turn_take(&s, &turn, streak_clear); /* an operator */
		SUCCEED(&s);
		assert_int_equal(lock_lasts(&s, 900), 900);
		service_close(&s);
	}
}

/* A type that failed before the policies counted it. */
TEST(shipped_locks, a_success_makes_the_next_one_a_first_one_again_though_no_streak_knew_of_its_failures)
{
	struct service s;

	service_open(&s, GROWING);
	assert_int_equal(FAIL_TIMES(&s, 2).verdict.until_s, START_S + 900);
	service_rules(
	        &s, GROWING
	        "consecutive: {max: 99, sets: SIGN_IN/B, of: [SIGN_IN/PASSWORD_ENTRY], lock: STANDARD}\n");
	at(&s, 900);
	SUCCEED(&s);
	assert_int_equal(FAIL_TIMES(&s, 2).verdict.until_s, START_S + 900 + 900);
	service_close(&s);
}

TEST(shipped_locks, a_day_after_its_end_the_next_one_is_a_first_one_again)
{
	struct service s;

	service_open(&s, NULL);
	assert_int_equal(lock_lasts(&s, 0), 900);
	assert_int_equal(lock_lasts(&s, 900 + 86399), 1800);
	assert_int_equal(lock_lasts(&s, 900 + 86399 + 1800 + 86400), 900);
	service_close(&s);
}

/* Whoever has the password guesses codes: entering it again and again does not shorten the locks of codes. */
TEST(shipped_locks, a_password_does_not_forget_the_locks_of_codes)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 6, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	at(&s, 900);
	SUCCEED(&s);
	r = FAIL_TIMES(&s, 6, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_int_equal(r.verdict.until_s, START_S + 900 + 1800);
	at(&s, 900 + 1800);
	SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	r = FAIL_TIMES(&s, 6, .type = "MFA_CODE_ENTRY", .method_type = "SMS");
	assert_int_equal(r.verdict.until_s, START_S + 900 + 1800 + 900);
	service_close(&s);
}

TEST(shipped_locks, what_a_known_device_does_right_leaves_the_locks_of_strangers_as_they_are)
{
	struct service s;
	struct bytes   token;

	service_open(&s, NULL);
	token = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS").device.token;
	assert_int_equal(lock_lasts(&s, 0), 900);
	at(&s, 900);
	assert_true(SUCCEED(&s, .token = token).known_device);
	assert_int_equal(lock_lasts(&s, 900), 1800);
	service_close(&s);
}

TEST(shipped_locks, the_shorter_kind_grows_as_well_and_stays_shorter)
{
	static const int64_t  want[] = {300, 600, 1200, 2400};
	struct service        s;
	struct attempt_result r;
	int64_t               now = 0;

	service_open(&s, NULL);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		at(&s, now);
		r = FAIL_TIMES(&s, 6, .journey = "ACCOUNT_CREATION", .type = "MFA_CODE_ENTRY",
		               .method_type = "SMS");
		assert_int_equal(r.verdict.until_s, START_S + now + want[i]);
		now += want[i];
	}
	service_close(&s);
}

/* ---- failures in a row ---- */

enum { DAY_S = 86400 };

/* A failure a day: no lock, no count, only the row. */
static struct attempt_result fail_daily(struct service *s, int *day, int times, struct try t)
{
	struct attempt_result r = {0};

	for (int i = 0; i < times; i++) {
		at(s, (int64_t)(*day)++ * DAY_S);
		r = service_record(s, OUTCOME_FAILURE, t);
		assert_true(r.counted);
	}
	return r;
}

static bool is_for_good(const struct attempt_result *r)
{
	return r->verdict.kind == VERDICT_LOCKED_PERMANENT &&
	       strcmp(r->verdict.reason, "too_many_failures") == 0;
}

TEST(streak, the_hundredth_failure_in_a_row_locks_until_someone_helps_however_long_it_took)
{
	struct service        s;
	struct attempt_result r;
	int                   day = 0;

	service_open(&s, NULL);
	r = fail_daily(&s, &day, 99, (struct try){0});
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = fail_daily(&s, &day, 1, (struct try){0});
	assert_true(is_for_good(&r));
	assert_true(r.first_time);
	assert_bytes(r.verdict.sk, STREAK);
	assert_bytes(r.verdict.block_type, "PERMANENT");
	at(&s, (int64_t)day * DAY_S + 9 * 365 * (int64_t)DAY_S);
	r = SUCCEED(&s);
	assert_true(is_for_good(&r));
	r = FAIL(&s);
	assert_true(is_for_good(&r));
	assert_false(r.counted);
	service_close(&s);
}

/* (2) */
TEST(streak, a_success_begins_it_anew)
{
	struct service        s;
	struct attempt_result r;
	int                   day = 0;

	service_open(&s, NULL);
	fail_daily(&s, &day, 99, (struct try){0});
	SUCCEED(&s);
	assert_false(row_there(&s, "alice", STREAK));
	r = fail_daily(&s, &day, 99, (struct try){0});
	assert_verdict(&r, VERDICT_ALLOW, true);
	r = fail_daily(&s, &day, 1, (struct try){0});
	assert_true(is_for_good(&r));
	service_close(&s);
}

/* (2) */
TEST(streak, passwords_and_codes_of_all_three_journeys_count_together_and_nothing_else_does)
{
	static const struct {
		const char  *journey, *type, *method, *notification;
		enum outcome outcome;
		bool         counts;
	} all[] = {
	        {"SIGN_IN", "PASSWORD_ENTRY", NULL, NULL, OUTCOME_FAILURE, true},
	        {"SIGN_IN", "MFA_CODE_ENTRY", "SMS", NULL, OUTCOME_FAILURE, true},
	        {"SIGN_IN", "EMAIL_CODE_ENTRY", NULL, NULL, OUTCOME_FAILURE, true},
	        {"REAUTHENTICATION", "PASSWORD_ENTRY", NULL, NULL, OUTCOME_FAILURE, true},
	        {"REAUTHENTICATION", "MFA_CODE_ENTRY", "SMS", NULL, OUTCOME_FAILURE, true},
	        {"PASSWORD_RESET", "CODE_ENTRY", NULL, NULL, OUTCOME_FAILURE, true},
	        {"PASSWORD_RESET", "MFA_CODE_ENTRY", "SMS", NULL, OUTCOME_FAILURE, true},
	        {"PASSWORD_RESET_MFA", "MFA_CODE_ENTRY", "SMS", NULL, OUTCOME_FAILURE, true},
	        {"REAUTHENTICATION", "EMAIL_ENTRY", NULL, NULL, OUTCOME_FAILURE, false},
	        {"SIGN_IN", "MFA_CODE_REQUEST", NULL, "MFA_SMS", OUTCOME_SENT, false},
	        {"SIGN_IN", "PASSWORD_RESET_REQUEST", NULL, NULL, OUTCOME_SENT, false},
	        {"ACCOUNT_CREATION", "MFA_CODE_ENTRY", "SMS", NULL, OUTCOME_FAILURE, false},
	        {"ACCOUNT_RECOVERY", "MFA_CODE_ENTRY", "SMS", NULL, OUTCOME_FAILURE, false},
	        {"ACCOUNT_MANAGEMENT", "MFA_CODE_ENTRY", "SMS", NULL, OUTCOME_FAILURE, false},
	};
	struct service s;
	struct item    row;
	int64_t        sum = 0;

	service_open(&s, NULL);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		service_record(&s, all[i].outcome,
		               (struct try){.journey = all[i].journey,
		                            .type = all[i].type,
		                            .method_type = all[i].method,
		                            .notification = all[i].notification});
		sum += all[i].counts;
		assert_true(row_find(&s, BYTES("alice"), BYTES(STREAK), &row));
		assert_int_equal(streak_of_row(&row, false), sum);
		assert_int_equal(row_i64(&row, "count", 1), 0);
		assert_int_equal(row_i64(&row, "ttl", 0), START_S + 365 * DAY_S);
	}
	service_close(&s);
}

/* (2) Else whoever has the password could guess codes for ever. */
TEST(streak, a_password_does_not_end_what_codes_failed_and_a_code_ends_all)
{
	struct service        s;
	struct attempt_result r;
	struct try            code = {.type = "MFA_CODE_ENTRY", .method_type = "SMS"};
	int                   day = 0;

	service_open(&s, NULL);
	for (int i = 0; i < 99; i++) {
		fail_daily(&s, &day, 1, code);
		r = SUCCEED(&s);
		assert_verdict(&r, VERDICT_ALLOW, false);
	}
	r = fail_daily(&s, &day, 1, code);
	assert_true(is_for_good(&r));
	service_close(&s);

	day = 0;
	service_open(&s, NULL);
	fail_daily(&s, &day, 60, code);
	fail_daily(&s, &day, 39, (struct try){.journey = "PASSWORD_RESET", .type = "CODE_ENTRY"});
	service_record(&s, OUTCOME_SUCCESS, code);
	assert_false(row_there(&s, "alice", STREAK));
	service_close(&s);
}

/* (5) */
TEST(streak, a_year_without_a_failure_forgets_it)
{
	struct service        s;
	struct attempt_result r;
	int                   day = 0;

	service_open(&s, NULL);
	fail_daily(&s, &day, 99, (struct try){0});
	day += 365;
	r = fail_daily(&s, &day, 1, (struct try){0});
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

/* ---- who is not stopped ---- */

/* (3) */
TEST(streak, an_owner_on_a_known_device_still_gets_in_and_strangers_stay_out)
{
	struct service        s;
	struct attempt_result r = {0};
	struct bytes          token;

	service_open(&s, NULL);
	token = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS").device.token;
	for (int round = 0, now = 0, lasts = 900; !is_for_good(&r) || round == 0; round++) {
		at(&s, now);
		r = FAIL_TIMES(&s, 6);
		now += lasts;
		lasts = lasts * 2 > DAY_S ? DAY_S : lasts * 2;
		assert_true(round < 17);
	}
	r = SUCCEED(&s, .token = token);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(r.known_device);
	r = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .token = token);
	assert_verdict(&r, VERDICT_ALLOW, false);
	r = SUCCEED(&s, .journey = "PASSWORD_RESET", .type = "CODE_ENTRY", .token = r.device.token);
	assert_verdict(&r, VERDICT_ALLOW, false); /* she can reset it herself */
	r = SUCCEED(&s);
	assert_true(is_for_good(&r));
	service_close(&s);
}

/* (3) In every type that counts, and in all that it stops. */
TEST(streak, what_strangers_failed_stops_no_type_of_the_owners_known_device)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, NULL);
	token = SUCCEED(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS").device.token;
	for (int i = 0; i < 100; i++) {
		at(&s, i * DAY_S / 2);
		r = FAIL(&s);
	}
	assert_true(is_for_good(&r));
	for (uint32_t i = 0; i < s.rules->consecutive.of.count; i++) {
		const struct rule_ref *type = &s.rules->consecutive.of.list[i];
		struct try             t = {
		                    .journey = arena_printf(&s.f.arena, "%.*s%c", BYTES_ARG(type->journey), '\0').data,
		                    .type = arena_printf(&s.f.arena, "%.*s%c", BYTES_ARG(type->name), '\0').data,
		                    .method_type = "SMS",
		                    .token = token,
		                    .forgetful = true};

		r = service_record(&s, OUTCOME_SUCCESS, t);
		if (r.verdict.kind != VERDICT_ALLOW || !r.known_device)
			fail_msg("%s/%s", t.journey, t.type);
	}
	service_close(&s);
}

/* (3) Two types a device, six of each: then the device is forgotten. A hundred in a row over many devices close the lanes. */
#define LANES                                                                                                \
	"locks: {STANDARD: {duration: 900}, PERMANENT: {permanent: true}}\n"                                 \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 6, life: 60, known_device: {max: 50, max_all: 90, after: [CODE]}}\n"    \
	"      CODE: {max: 6, life: 60, known_device: {max: 50, max_all: 90, after: [CODE]}}\n"              \
	"  ACCOUNT: {}\n"                                                                                    \
	"consecutive: {max: 10, sets: SIGN_IN/TOO_MANY, of: [SIGN_IN/PASSWORD_ENTRY, SIGN_IN/CODE], "        \
	"ended_by: [SIGN_IN/CODE]}\n"                                                                        \
	"resets:\n"                                                                                          \
	"  PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY], locks: [SIGN_IN/TOO_MANY]}\n"

TEST(streak, known_devices_have_a_count_of_their_own_that_closes_their_lanes)
{
	struct service s;
	struct bytes   token;

	service_open(&s, LANES);
	token = SUCCEED(&s, .type = "CODE").device.token;
	for (int i = 0; i < 10; i++) {
		at(&s, i * 100);
		assert_true(FAIL(&s, .type = i % 2 == 0 ? "CODE" : NULL, .token = token).known_device);
	}
	assert_false(FAIL(&s, .token = token).known_device);
	assert_true(SUCCEED(&s, .type = "CODE").counted == false); /* a full sign-in, as a stranger */
	assert_true(FAIL(&s, .token = token).known_device);
	service_close(&s);
}

TEST(streak, what_strangers_fail_is_not_the_devices_and_the_other_way_round)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, LANES);
	token = SUCCEED(&s, .type = "CODE").device.token;
	for (int i = 0; i < 9; i++) {
		at(&s, i * 100);
		FAIL(&s, .token = token);
		r = FAIL(&s);
		assert_verdict(&r, VERDICT_ALLOW, true);
	}
	r = FAIL(&s);
	assert_true(is_for_good(&r));
	assert_true(SUCCEED(&s, .token = token, .forgetful = true).known_device);
	for (int i = 0; i < 10; i++) { /* in the row of the lock, which stays one */
		at(&s, 900 + i * 100);
		assert_true(FAIL(&s, .token = token).known_device);
	}
	r = FAIL(&s, .token = token);
	assert_true(is_for_good(&r));
	assert_false(r.known_device);
	service_close(&s);
}

/* ---- what ends it ---- */

static void lock_for_good(struct service *s)
{
	int                   day = 0;
	struct attempt_result r = fail_daily(s, &day, 100, (struct try){0});

	assert_true(is_for_good(&r));
}

TEST(streak, the_owners_reset_ends_it)
{
	struct service        s;
	struct attempt_result r;
	struct reset_result   done;

	service_open(&s, NULL);
	lock_for_good(&s);
	done = reset(&s);
	assert_int_equal(done.kept, 0);
	assert_false(row_there(&s, "alice", STREAK));
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(streak, the_rows_of_several_subjects_count_together_and_are_locked_together)
{
	struct service        s;
	struct attempt_result r;
	int                   day = 0;

	service_open(&s, NULL);
	fail_daily(&s, &day, 40, (struct try){.subject = "pairwise"});
	fail_daily(&s, &day, 59, (struct try){.pairwise = "pairwise"});
	r = fail_daily(&s, &day, 1, (struct try){.pairwise = "pairwise"});
	assert_true(is_for_good(&r));
	r = SUCCEED(&s, .subject = "pairwise");
	assert_true(is_for_good(&r));
	service_close(&s);
}

TEST(streak, one_lock_is_set_by_the_hundredth_and_it_is_published)
{
	struct service            s;
	struct table_query_result events;
	struct item               data;

	service_open(&s, NULL);
	s.all.events.on = EVENT_BIT(EVENT_LOCK_SET);
	for (int i = 0, now = 0; i < 100; i++, now += i % 6 == 0 ? DAY_S : 0) {
		at(&s, now);
		FAIL(&s);
	}
	assert_false(row_there(&s, "alice", PASSWORDS)); /* the lock took its place */
	events = events_of(&s, EVENT_LOCK_SET);
	assert_int_equal(events.count, 17); /* sixteen of six, and this */
	data = event_data(&events.items[16]);
	assert_bytes(row_text(&data, "name"), "CONSECUTIVE_FAILURES");
	assert_bytes(row_text(&data, "reason"), "too_many_failures");
	assert_bytes(row_text(&data, "setBy"), "rule");
	assert_bytes(row_text(&data, "cause"), "SIGN_IN/PASSWORD_ENTRY");
	service_close(&s);
}

/* ---- rules ---- */

TEST(streak, a_rule_in_shadow_mode_counts_nothing_of_it)
{
	struct service s;

	service_open(
	        &s,
	        "locks: {STANDARD: {duration: 9}, PERMANENT: {permanent: true}}\n"
	        "journeys: {A: {}, SIGN_IN: {types: {PASSWORD_ENTRY: {max: 6, life: 60, shadow: true}}}}\n"
	        "consecutive: {max: 2, sets: SIGN_IN/B, of: [SIGN_IN/PASSWORD_ENTRY]}\n");
	for (int i = 0; i < 5; i++) {
		struct attempt_result r = FAIL(&s);

		assert_int_equal(r.verdict.kind, VERDICT_ALLOW);
	}
	assert_false(row_there(&s, "alice", "A#LOCK#B"));
	service_close(&s);
}
