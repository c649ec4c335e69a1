/* Failures in a row together with everything else: attempts in two steps, resets, what is told, locks of people. streak_rules_test.c has races and policies that change.
 * Numbers are of streak.h. */
#include "service/begun.h"

#include "service/lock.h"

#define LOCK_OF_STREAK "SIGN_IN#LOCK#TOO_MANY"

/* Ten in a row, and an account lock that comes later than that: so a test reaches the one without the other. */
#define ROWS                                                                                                 \
	"locks: {STANDARD: {duration: 900, factor: 2, cap: 86400, forget: 86400}, PERMANENT: {permanent: "   \
	"true}}\n"                                                                                           \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 6, life: 60, lapse: 40, known_device: {max: 50, max_all: 90, after: "   \
	"[CODE]}}\n"                                                                                         \
	"      CODE: {max: 6, life: 60, known_device: {max: 50, max_all: 90, after: [CODE]}}\n"              \
	"consecutive: {max: 10, sets: SIGN_IN/TOO_MANY, of: [SIGN_IN/PASSWORD_ENTRY, SIGN_IN/CODE], "        \
	"ended_by: [SIGN_IN/CODE]}\n"                                                                        \
	"resets:\n"                                                                                          \
	"  PASSWORD: {counts: [SIGN_IN/PASSWORD_ENTRY], locks: [SIGN_IN/TOO_MANY, "                          \
	"SIGN_IN/PASSWORD_ENTRY]}\n"

enum { MAX_IN_A_ROW = 10 };

/* One every hundred seconds: no other count grows. */
static void fail_apart(struct service *s, int *now, int times, struct try t)
{
	for (int i = 0; i < times; i++, *now += 100) {
		at(s, *now);
		assert_true(service_record(s, OUTCOME_FAILURE, t).counted);
	}
	at(s, *now);
}

static bool is_for_good(const struct attempt_result *r)
{
	return r->verdict.kind == VERDICT_LOCKED_PERMANENT &&
	       strcmp(r->verdict.reason, "too_many_failures") == 0;
}

/* ---- attempts in two steps ---- */

/* reservation.h, (3): what a known device fails meanwhile is in the same row, and is none of the lock. */
TEST(streak_begun,
     a_right_password_takes_back_the_lock_that_its_begin_set_though_a_known_device_failed_meanwhile)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          token;
	struct item           row;
	int                   now = 0;

	service_open(&s, ROWS);
	s.all.events.on = EVENT_BIT(EVENT_LOCK_SET) | EVENT_BIT(EVENT_LOCK_CLEARED);
	token = SUCCEED(&s, .type = "CODE").device.token;
	fail_apart(&s, &now, MAX_IN_A_ROW - 1, (struct try){0});
	step = BEGIN(&s);
	assert_true(step.begun.locked);
	assert_int_equal(count_in(&s, "alice", LOCK_OF_STREAK), 1);
	assert_true(FAIL(&s, .token = token).known_device);
	r = finish(&s, &step, OUTCOME_SUCCESS);
	assert_verdict(&r, VERDICT_ALLOW, false);
	assert_true(row_find(&s, BYTES("alice"), BYTES(LOCK_OF_STREAK), &row));
	assert_int_equal(row_i64(&row, "count", 1), 0);
	assert_int_equal(streak_of_row(&row, false), 0);
	assert_int_equal(streak_of_row(&row, true), 1); /* the device's own stays */
	assert_true(row_i64(&row, "ttl", 0) > START_S + now);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	at(&s, now + 100);
	assert_int_equal(events_of(&s, EVENT_LOCK_SET).count, 0);
	service_close(&s);
}

TEST(streak_begun, a_wrong_one_publishes_the_lock_that_its_begin_set_though_a_known_device_failed_meanwhile)
{
	struct service        s;
	struct attempt_result r;
	struct step           step;
	struct bytes          token;
	int                   now = 0;

	service_open(&s, ROWS);
	s.all.events.on = EVENT_BIT(EVENT_LOCK_SET) | EVENT_BIT(EVENT_LOCK_CLEARED);
	token = SUCCEED(&s, .type = "CODE").device.token;
	fail_apart(&s, &now, MAX_IN_A_ROW - 1, (struct try){0});
	step = BEGIN(&s);
	FAIL(&s, .token = token);
	assert_int_equal(events_of(&s, EVENT_LOCK_SET).count, 0);
	r = finish(&s, &step, OUTCOME_FAILURE);
	assert_true(is_for_good(&r) && r.first_time);
	assert_int_equal(events_of(&s, EVENT_LOCK_SET).count, 1);
	service_close(&s);
}

/* The same of a lock over several ids, of which one has the device's failures. */
TEST(streak_begun, a_right_password_takes_back_the_lock_on_every_id)
{
	struct service s;
	struct step    step;
	struct bytes   token;
	int            now = 0;

	service_open(&s, ROWS);
	s.all.events.on = EVENT_BIT(EVENT_LOCK_SET);
	token = SUCCEED(&s, .type = "CODE", .pairwise = "pair").device.token;
	fail_apart(&s, &now, MAX_IN_A_ROW - 1, (struct try){.pairwise = "pair"});
	step = BEGIN(&s, .pairwise = "pair");
	assert_int_equal(count_in(&s, "pair", LOCK_OF_STREAK), 1);
	assert_true(FAIL(&s, .pairwise = "pair", .token = token).known_device);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_int_equal(count_in(&s, "alice", LOCK_OF_STREAK), 0);
	assert_int_equal(count_in(&s, "pair", LOCK_OF_STREAK), 0);
	assert_int_equal(SUCCEED(&s, .subject = "pair").verdict.kind, VERDICT_ALLOW);
	at(&s, now + 100);
	assert_int_equal(events_of(&s, EVENT_LOCK_SET).count, 0);
	service_close(&s);
}

/* The device that begins is no stranger: its part is taken back, and the strangers' stays as they left it. */
TEST(streak_begun, one_in_a_lane_takes_back_its_own_and_nothing_of_strangers)
{
	struct service s;
	struct step    step;
	struct bytes   token;
	struct item    row;
	int            now = 0;

	service_open(&s, ROWS);
	token = SUCCEED(&s, .type = "CODE").device.token;
	fail_apart(&s, &now, 3, (struct try){0});
	FAIL(&s, .token = token);
	step = BEGIN(&s, .token = token);
	FAIL(&s);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_true(row_find(&s, BYTES("alice"), BYTES(LOCK_OF_STREAK), &row));
	assert_int_equal(streak_of_row(&row, false), 4);
	assert_int_equal(streak_of_row(&row, true), 0);
	service_close(&s);
}

TEST(streak_begun, the_first_failure_of_all_is_taken_back_and_the_devices_stays)
{
	struct service s;
	struct step    step;
	struct bytes   token;
	struct item    row;

	service_open(&s, ROWS);
	token = SUCCEED(&s, .type = "CODE").device.token;
	step = BEGIN(&s);
	FAIL(&s, .token = token);
	assert_int_equal(finish(&s, &step, OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_true(row_find(&s, BYTES("alice"), BYTES(LOCK_OF_STREAK), &row));
	assert_int_equal(streak_of_row(&row, false), 0);
	assert_int_equal(streak_of_row(&row, true), 1);
	service_close(&s);
}

/* Of many that begin at once the right one is let in, and of the others none is forgotten. */
TEST(streak_begun, those_that_began_beside_the_right_one_are_ended_by_it)
{
	struct service s;
	struct step    steps[4];
	int            now = 0;

	service_open(&s, ROWS);
	fail_apart(&s, &now, 3, (struct try){0});
	for (int i = 0; i < 4; i++)
		steps[i] = BEGIN(&s);
	assert_int_equal(finish(&s, &steps[2], OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_int_equal(finish(&s, &steps[0], OUTCOME_FAILURE).verdict.kind, VERDICT_ALLOW);
	assert_int_equal(finish(&s, &steps[3], OUTCOME_SUCCESS).verdict.kind, VERDICT_ALLOW);
	assert_false(row_there(&s, "alice", LOCK_OF_STREAK));
	service_close(&s);
}

/* reservation.h, (6) */
TEST(streak_begun, a_reset_ends_the_lock_of_a_begin_and_no_finish_brings_anything_back)
{
	for (int i = 0; i < 2; i++) {
		enum outcome          outcome = i == 0 ? OUTCOME_SUCCESS : OUTCOME_FAILURE;
		struct service        s;
		struct attempt_result r;
		struct step           step;
		int                   now = 0;

		service_open(&s, ROWS);
		s.all.events.on = EVENT_BIT(EVENT_LOCK_SET) | EVENT_BIT(EVENT_LOCK_CLEARED);
		fail_apart(&s, &now, MAX_IN_A_ROW - 1, (struct try){0});
		step = BEGIN(&s);
		reset(&s);
		r = finish(&s, &step, outcome);
		assert_int_equal(r.verdict.kind, i == 0 ? VERDICT_LAPSED : VERDICT_ALLOW);
		assert_false(r.first_time);
		assert_false(row_there(&s, "alice", LOCK_OF_STREAK));
		assert_int_equal(events_of(&s, EVENT_LOCK_SET).count, 0);
		service_close(&s);
	}
}

/* ---- what is told of it ---- */

static void assert_near(struct attempt_result r, int64_t count, const char *of)
{
	const struct count_shown *shown = &r.nearest;

	assert_int_equal(shown->count, count);
	assert_int_equal(shown->remaining, shown->max - count);
	assert_bytes(shown->of, of);
}

TEST(streak_told, the_nearer_count_is_told_and_one_short_of_the_maximum_it_is_the_streak)
{
	struct service s;
	int            now = 0;

	service_open(&s, ROWS);
	s.all.events.on = EVENT_BIT(EVENT_ATTEMPT_NEAR_LIMIT);
	assert_near(FAIL(&s), 1, ""); /* of 6, and 1 of 10 */
	now = 100;
	fail_apart(&s, &now, 3, (struct try){0});
	assert_near(FAIL(&s), 5, "SIGN_IN/TOO_MANY"); /* five are left of both */
	now += 100;
	fail_apart(&s, &now, 3, (struct try){0});
	assert_near(FAIL(&s, .type = "CODE"), 9, "SIGN_IN/TOO_MANY");
	assert_int_equal(events_of(&s, EVENT_ATTEMPT_NEAR_LIMIT).count, 1);
	assert_near(SUCCEED(&s), 0, ""); /* one is left of it, the code's */
	service_close(&s);
}

/* A password that is right says nothing of codes. */
TEST(streak_told, a_success_tells_what_it_does_not_end)
{
	struct service s;
	struct step    step;
	int            now = 0;

	service_open(&s, ROWS);
	fail_apart(&s, &now, 9, (struct try){.type = "CODE"});
	assert_near(SUCCEED(&s), 9, "SIGN_IN/TOO_MANY");
	step = BEGIN(&s, .type = "CODE");
	assert_true(step.begun.locked);
	finish(&s, &step, OUTCOME_SUCCESS);
	step = BEGIN(&s);
	assert_near(finish(&s, &step, OUTCOME_FAILURE), 1, "");
	service_close(&s);
}

/* ---- locks of people on the name of the streak's ---- */

struct by_hand {
	struct turn turn;
	bool        lock;
};

static enum err_code hand_run(struct turn *turn, struct err *err)
{
	struct by_hand *h = (struct by_hand *)turn;
	struct lock_new lock = {.pk = BYTES("alice"),
	                        .journey = BYTES("SIGN_IN"),
	                        .type = BYTES(KEY_LOCK),
	                        .name = BYTES("TOO_MANY"),
	                        .kind = rules_kind(turn->s->rules, BYTES("PERMANENT")),
	                        .set_by = BYTES("op")};
	struct verdict  v;
	bool            held;

	return h->lock ? lock_add(&turn->ctx, &lock, &v, err)
	               : lock_clear(&turn->ctx, BYTES("alice"), BYTES(LOCK_OF_STREAK), &held, err);
}

static void by_hand(struct service *s, bool lock)
{
	struct by_hand h = {.lock = lock};

	turn_take(s, &h.turn, hand_run);
}

TEST(streak_by_hand, a_person_who_locks_and_unlocks_leaves_the_streak_as_it_was)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;
	struct item           row;
	int                   now = 0;

	service_open(&s, ROWS);
	s.all.events.on = EVENT_BIT(EVENT_LOCK_SET) | EVENT_BIT(EVENT_LOCK_CLEARED);
	token = SUCCEED(&s, .type = "CODE").device.token;
	fail_apart(&s, &now, 6, (struct try){0});
	fail_apart(&s, &now, 2, (struct try){.token = token});
	by_hand(&s, true);
	by_hand(&s, true); /* again */
	assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_LOCKED_PERMANENT);
	assert_int_equal(SUCCEED(&s, .token = token).verdict.kind, VERDICT_LOCKED_PERMANENT);
	by_hand(&s, false);
	assert_int_equal(events_of(&s, EVENT_LOCK_CLEARED).count, 1);
	assert_true(row_find(&s, BYTES("alice"), BYTES(LOCK_OF_STREAK), &row));
	assert_int_equal(row_i64(&row, "count", 1), 0);
	assert_int_equal(streak_of_row(&row, false), 6);
	assert_int_equal(streak_of_row(&row, true), 2);
	assert_int_equal(row_i64(&row, "ttl", 0), START_S + now - 100 + 365 * 86400);
	fail_apart(&s, &now, 3, (struct try){0});
	r = FAIL(&s);
	assert_true(is_for_good(&r));
	by_hand(&s, false); /* a rule's lock took its place: so that ends it */
	assert_false(row_there(&s, "alice", LOCK_OF_STREAK));
	service_close(&s);
}

TEST(streak_by_hand, a_reset_ends_the_streak_and_leaves_the_persons_lock)
{
	struct service s;
	int            now = 0;

	service_open(&s, ROWS);
	fail_apart(&s, &now, 9, (struct try){0});
	by_hand(&s, true);
	assert_int_equal(reset(&s).kept, 1);
	assert_int_equal(SUCCEED(&s).verdict.kind, VERDICT_LOCKED_PERMANENT);
	by_hand(&s, false);
	assert_false(row_there(&s, "alice", LOCK_OF_STREAK));
	service_close(&s);
}

/* A lock that there is not is cleared with what is in its row: that is how an operator ends a streak. */
TEST(streak_by_hand, a_person_who_clears_no_lock_ends_the_streak)
{
	struct service s;
	int            now = 0;

	service_open(&s, ROWS);
	fail_apart(&s, &now, 9, (struct try){0});
	by_hand(&s, false);
	assert_false(row_there(&s, "alice", LOCK_OF_STREAK));
	service_close(&s);
}
