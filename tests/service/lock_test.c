/* Locks: how long each kind holds, what holds beside it, and that no attempt, clock or second lock makes one shorter. */
#include "service/fixture.h"

#include "service/lock.h"

#define KINDS                                                                                                \
	"locks:\n"                                                                                           \
	"  STANDARD: {duration: 900}\n"                                                                      \
	"  REDUCED: {duration: 300}\n"                                                                       \
	"  PERMANENT: {permanent: true}\n"                                                                   \
	"  GROWING: {duration: 60, factor: 2, cap: 200, forget: 1000}\n"                                     \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 2, life: 60}\n"                                                         \
	"      REDUCED: {max: 2, life: 60, lock: REDUCED}\n"                                                 \
	"      PERMANENT: {max: 2, life: 60, lock: PERMANENT}\n"                                             \
	"      GROWING: {max: 2, life: 60, lock: GROWING}\n"                                                 \
	"      BOTH: {max: 2, life: 60, sets: [PASSWORD_ENTRY, OTHER/DOOR]}\n"                               \
	"      GUARDED: {max: 2, life: 60, blocked_by: [OTHER/DOOR, OTHER/GATE]}\n"                          \
	"  OTHER: {locks: [GATE]}\n"

/* ---- the kinds ---- */

TEST(locks, a_standard_lock_takes_the_place_of_its_count_and_is_the_row_that_the_document_draws)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	FAIL_TIMES(&s, 5, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .notification = "MFA_SMS");
	at(&s, 7);
	r = FAIL(&s, .type = "MFA_CODE_ENTRY", .method_type = "SMS", .notification = "MFA_SMS");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_true(r.first_time);
	assert_bytes(r.verdict.block_type, "STANDARD");
	assert_int_equal(r.verdict.until_s, START_S + 7 + 900);
	assert_row(&s, "alice", "SIGN_IN#LOCK#MFA_CODE_ENTRY#SMS",
	           "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#LOCK#MFA_CODE_ENTRY#SMS'},'count':{'N':'1'},"
	           "'ttl':{'N':'1789000907'},'last_updated':{'N':'1789000007'},'block_type':{'S':'STANDARD'},"
	           "'block_duration':{'N':'900'},'mfa_method_type':{'S':'SMS'},'notification_type':{'S':'MFA_"
	           "SMS'},"
	           "'cause':{'S':'SIGN_IN/MFA_CODE_ENTRY'},'policy_version':{'N':'0'}}");
	assert_row(
	        &s, "alice",
	        "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS", /* nothing, but in the sum over devices */
	        "{'PK':{'S':'alice'},'SK':{'S':'SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS'},'count':{'N':'0'},"
	        "'locked_count':{'N':'6'},'ttl':{'N':'1789000900'},'last_updated':{'N':'1789000007'},"
	        "'mfa_method_type':{'S':'SMS'},'notification_type':{'S':'MFA_SMS'}}");
	service_close(&s);
}

TEST(locks, end_at_the_second_and_not_before)
{
	static const struct {
		const char *type;
		int64_t     seconds;
	} kinds[] = {{"PASSWORD_ENTRY", 900}, {"REDUCED", 300}, {"GROWING", 60}};
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	for (size_t i = 0; i < 3; i++)
		FAIL_TIMES(&s, 2, .type = kinds[i].type);
	for (size_t i = 3; i-- > 0;) {
		at(&s, kinds[i].seconds - 1);
		r = SUCCEED(&s, .type = kinds[i].type);
		assert_verdict(&r, VERDICT_LOCKED, false);
		assert_int_equal(
		        clock_seconds_left(r.verdict.until_s, (START_S + kinds[i].seconds - 1) * 1000000LL),
		        1);
		at(&s, kinds[i].seconds);
		r = SUCCEED(&s, .type = kinds[i].type);
		assert_verdict(&r, VERDICT_ALLOW, false);
	}
	service_close(&s);
}

/* Rows are in whole seconds: last_updated + block_duration = ttl, and what a caller is told is when it ends. */
TEST(locks, that_begin_within_a_second_hold_to_the_moment_that_was_told)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	clock_manual_set(&s.f.clock, START_S * 1000000LL + 400000);
	r = FAIL_TIMES(&s, 2, .type = "REDUCED");
	assert_int_equal(r.verdict.until_s, START_S + 300);
	assert_int_equal(clock_seconds_left(r.verdict.until_s, START_S * 1000000LL + 400000), 300);
	clock_manual_set(&s.f.clock, (START_S + 300) * 1000000LL - 1);
	r = FAIL(&s, .type = "REDUCED");
	assert_verdict(&r, VERDICT_LOCKED, false);
	at(&s, 300);
	r = FAIL(&s, .type = "REDUCED");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(locks, a_permanent_one_has_no_end)
{
	struct service        s;
	struct attempt_result r;
	struct item           row;

	service_open(&s, NULL);
	r = SENT_TIMES(&s, 6, .subject = "phone:x", .journey = "PHONE_NUMBER", .type = "INTERNATIONAL_SMS");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, true);
	assert_int_equal(r.verdict.until_s, 0);
	assert_true(row_find(&s, BYTES("phone:x"), BYTES("PHONE_NUMBER#LOCK#INTERNATIONAL_SMS"), &row));
	assert_null(item_get(&row, BYTES("ttl")));
	assert_null(item_get(&row, BYTES("block_duration")));
	assert_bytes(row_text(&row, "block_type"), "PERMANENT");
	at(&s, 10LL * 366 * 86400);
	r = SENT(&s, .subject = "phone:x", .journey = "PHONE_NUMBER", .type = "INTERNATIONAL_SMS");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	service_close(&s);
}

TEST(locks, growing_ones_double_up_to_their_cap_and_are_forgotten_in_time)
{
	static const int64_t  durations[] = {60, 120, 200, 200};
	struct service        s;
	struct attempt_result r;
	int64_t               now = 0;

	service_open(&s, KINDS);
	for (size_t i = 0; i < 4; i++) {
		r = FAIL_TIMES(&s, 2, .type = "GROWING");
		assert_int_equal(r.verdict.until_s, START_S + now + durations[i]);
		assert_int_equal(count_in(&s, "alice", "SIGN_IN#LOCK_LEVEL#GROWING"), i + 1);
		now += durations[i];
		at(&s, now);
	}
	now += 999; /* one second before it is forgotten */
	at(&s, now);
	r = FAIL_TIMES(&s, 2, .type = "GROWING");
	assert_int_equal(r.verdict.until_s, START_S + now + 200);
	now += 200 + 1000;
	at(&s, now);
	r = FAIL_TIMES(&s, 2, .type = "GROWING");
	assert_int_equal(r.verdict.until_s, START_S + now + 60);
	service_close(&s);
}

TEST(locks, that_grow_do_not_grow_by_what_happens_to_another_subject_or_type)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	FAIL_TIMES(&s, 2, .type = "GROWING");
	FAIL_TIMES(&s, 2);
	r = FAIL_TIMES(&s, 2, .type = "GROWING", .subject = "bob");
	assert_int_equal(r.verdict.until_s, START_S + 60);
	service_close(&s);
}

/* ---- what else holds ---- */

TEST(locks, attempts_while_locked_neither_count_nor_extend)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	FAIL_TIMES(&s, 2);
	for (int i = 1; i < 900; i += 31) {
		at(&s, i);
		r = FAIL(&s);
		assert_verdict(&r, VERDICT_LOCKED, false);
		assert_false(r.first_time);
		assert_int_equal(r.verdict.until_s, START_S + 900);
	}
	assert_int_equal(rows_in_table(&s), 1);
	at(&s, 900);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	assert_int_equal(r.nearest.count, 1);
	service_close(&s);
}

TEST(locks, a_rule_may_set_several_and_is_barred_by_those_of_others_that_it_names)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	r = FAIL_TIMES(&s, 2, .type = "BOTH");
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_int_equal(count_in(&s, "alice", PASSWORD_LOCK), 1);
	assert_int_equal(count_in(&s, "alice", "OTHER#LOCK#DOOR"), 1);
	r = FAIL(&s, .type = "PASSWORD_ENTRY");
	assert_verdict(&r, VERDICT_LOCKED, false);
	r = FAIL(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_LOCKED, false);
	assert_bytes(r.verdict.sk, "OTHER#LOCK#DOOR");
	r = FAIL(&s, .type = "REDUCED");
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

static void row_write(struct service *s, const char *sk, const char *more)
{
	char body[512];

	snprintf(body, sizeof(body),
	         "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'%s'},'count':{'N':'1'}%s}}",
	         sk, more);
	fixture_ok(&s->f, "PutItem", body);
}

/* As the second document draws it: a lock with the count 0 does not hold. */
TEST(locks, that_other_systems_write_hold_unless_their_count_is_0)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	FAIL(&s, .type = "GUARDED");
	fixture_ok(&s.f, "PutItem",
	           "{'TableName':'auth-state','Item':{'PK':{'S':'alice'},'SK':{'S':'OTHER#LOCK#GATE'},'count'"
	           ":{'N':'0'}}}");
	r = SUCCEED(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_ALLOW, false);
	row_write(&s, "OTHER#LOCK#GATE", "");
	r = SUCCEED(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	row_write(&s, "OTHER#LOCK#GATE", ",'ttl':{'N':'1789000060'}");
	r = SUCCEED(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_LOCKED, false);
	at(&s, 60);
	r = SUCCEED(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(locks, of_two_the_graver_is_told_and_of_two_alike_the_one_that_ends_later)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	FAIL(&s);
	row_write(&s, "OTHER#LOCK#DOOR", ",'ttl':{'N':'1789000060'}");
	row_write(&s, "OTHER#LOCK#GATE", ",'ttl':{'N':'1789000090'}");
	r = FAIL(&s, .type = "GUARDED");
	assert_int_equal(r.verdict.until_s, START_S + 90);
	row_write(&s, "OTHER#LOCK#DOOR", "");
	r = FAIL(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	row_write(&s, "EMAIL_FRAUD#STATE#BLOCKED", ",'ttl':{'N':'1789000090'}");
	r = FAIL(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_int_equal(r.verdict.until_s, START_S + 90);
	row_write(&s, "ACCOUNT_INTERVENTION#STATE#BLOCKED", ""); /* without an end: that is later than any */
	r = FAIL(&s, .type = "GUARDED");
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_int_equal(r.verdict.until_s, 0);
	assert_string_equal(r.verdict.reason, "intervention_blocked");
	service_close(&s);
}

TEST(locks, states_bar_every_journey_and_nothing_is_counted)
{
	static const char *const states[] = {"ACCOUNT_INTERVENTION#STATE#BLOCKED",
	                                     "ACCOUNT_INTERVENTION#STATE#SUSPENDED",
	                                     "EMAIL_FRAUD#STATE#BLOCKED"};
	struct service           s;
	struct attempt_result    r;

	service_open(&s, NULL);
	FAIL(&s, .subject = "bob");
	for (int i = 0; i < 3; i++) {
		row_write(&s, states[i], ",'ttl':{'N':'1789000900'}");
		r = FAIL(&s, .journey = "REAUTHENTICATION", .type = "EMAIL_ENTRY");
		assert_verdict(&r, VERDICT_BLOCKED, false);
		r = FAIL(&s, .subject = "x", .pairwise = "alice", .type = "PASSWORD_ENTRY");
		assert_verdict(&r, VERDICT_BLOCKED, false);
		assert_int_equal(rows_in_table(&s), 2);
		fixture_ok(
		        &s.f, "DeleteItem",
		        arena_printf(&s.f.arena,
		                     "{'TableName':'auth-state','Key':{'PK':{'S':'alice'},'SK':{'S':'%s'}}}",
		                     states[i])
		                .data);
	}
	row_write(&s, "EMAIL_FRAUD#STATE#PENDING", "");
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

/* A rule that counts only sources says nothing of subjects, but a person may have locked one. */
TEST(locks, that_a_person_set_hold_also_where_nothing_is_counted)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, "locks: {STANDARD: {duration: 900}}\n"
	                 "journeys: {SIGN_IN: {types: {PASSWORD_ENTRY: {max_from_source: 3, life: 60}}}}\n");
	FAIL(&s, .ip = "192.0.2.1");
	row_write(&s, PASSWORD_LOCK, "");
	r = SUCCEED(&s, .ip = "192.0.2.1");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	r = SUCCEED(&s, .subject = "alice");
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	r = SUCCEED(&s, .ip = "192.0.2.1", .allowed = true);
	assert_verdict(&r, VERDICT_LOCKED_PERMANENT, false);
	service_close(&s);
}

/* ---- setting one where one holds ---- */

struct lock_call {
	struct turn_request base;
	struct service     *s;
	struct lock_new     lock;
	struct verdict      v;
};

static enum err_code lock_in_turn(struct turn_request *w, struct table *t)
{
	struct lock_call *c = (struct lock_call *)w;
	struct context    ctx = service_context(c->s, t);

	if (lock_add(&ctx, &c->lock, &c->v, &w->err) != ERR_NONE)
		return w->err.code;
	return changes_commit(&ctx.changes, t, &w->err);
}

static struct verdict lock(struct service *s, const char *kind, int64_t duration_s)
{
	struct lock_call c = {.base = {.run = lock_in_turn, .cost_bytes = 100},
	                      .s = s,
	                      .lock = {.pk = BYTES("alice"),
	                               .journey = BYTES("SIGN_IN"),
	                               .type = BYTES(KEY_LOCK),
	                               .name = BYTES("PASSWORD_ENTRY"),
	                               .kind = rules_kind(s->rules, bytes_of(kind)),
	                               .duration_s = duration_s}};

	if (service_run(s, &c.base) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	return c.v;
}

TEST(locks, a_second_one_makes_the_first_longer_and_never_shorter)
{
	struct service s;
	struct verdict v;

	service_open(&s, KINDS);
	lock(&s, "STANDARD", 0);
	v = lock(&s, "REDUCED", 0);
	assert_int_equal(v.until_s, START_S + 900);
	v = lock(&s, "STANDARD", 30);
	assert_int_equal(v.until_s, START_S + 900);
	v = lock(&s, "REDUCED", 1000);
	assert_int_equal(v.until_s, START_S + 1000);
	assert_int_equal(ttl_in(&s, "alice", PASSWORD_LOCK), 1000);
	v = lock(&s, "PERMANENT", 0);
	assert_int_equal(v.kind, VERDICT_LOCKED_PERMANENT);
	v = lock(&s, "STANDARD", 0);
	assert_int_equal(v.kind, VERDICT_LOCKED_PERMANENT);
	assert_int_equal(v.until_s, 0);
	service_close(&s);
}

/* ---- the clock ---- */

TEST(clock, that_jumps_in_either_direction_shortens_no_lock_and_no_count)
{
	static const int64_t  jumps_s[] = {86400, -86400, 10LL * 366 * 86400, -20LL * 366 * 86400, 899, -1};
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	FAIL_TIMES(&s, 2);
	FAIL(&s, .subject = "bob");
	for (size_t i = 0; i < sizeof(jumps_s) / sizeof(jumps_s[0]); i++) {
		clock_manual_jump(&s.f.clock, jumps_s[i] * 1000000);
		engine_tick(fixture_engine(&s.f));
		r = SUCCEED(&s);
		assert_verdict(&r, VERDICT_LOCKED, false);
		assert_int_equal(r.verdict.until_s, START_S + 900);
		assert_int_equal(count_in(&s, "bob", "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"), 1);
	}
	at(&s, 899);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	at(&s, 900);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}

TEST(clock, set_back_before_a_restart_neither_ends_a_lock_nor_stops_its_time)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, KINDS);
	FAIL_TIMES(&s, 2);
	clock_manual_jump(&s.f.clock, -3600LL * 1000000);
	fixture_restart(&s.f);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	at(&s, 899);
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_LOCKED, false);
	at(&s, 901); /* what passed between the last commit and the restart may come on top: a second */
	r = SUCCEED(&s);
	assert_verdict(&r, VERDICT_ALLOW, false);
	service_close(&s);
}
