/* Risk: what rules make of the score that a caller sends with an attempt. */
#include "service/turn.h"

#include "service/check.h"
#include "service/reservation.h"

#define RULES                                                                                                \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 3, life: 7200, at_risk: {from: 70, verdict: challenge}, known_device: " \
	"{max: 3}}\n"                                                                                        \
	"      STEPS: {max: 3, life: 7200, at_risk: [{from: 40}, {from: 90, verdict: blocked}]}\n"           \
	"      SHADOWED: {max: 3, life: 7200, shadow: true, at_risk: {from: 70, verdict: blocked}}\n"        \
	"      PLAIN: {max: 3, life: 7200}\n"                                                                \
	"      CODES: {counts: sent, max: 3, life: 7200, at_risk: {from: 70}}\n"

static void assert_risk(const struct verdict *v, enum verdict_kind kind)
{
	assert_int_equal(v->kind, kind);
	assert_string_equal(v->reason, "risk");
	assert_int_equal(v->until_s, 0);
}

TEST(risk, from_the_rules_line_on_a_success_does_not_stand_until_a_challenge_was_passed)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, RULES);
	FAIL(&s);
	assert_int_equal(SUCCEED(&s, .type = "PLAIN", .risk = 100).verdict.kind, VERDICT_ALLOW);
	r = SUCCEED(&s, .risk = 70);
	assert_risk(&r.verdict, VERDICT_CHALLENGE);
	assert_int_equal(r.cleared_count, 0);
	assert_int_equal(count_in(&s, "alice", PASSWORDS), 1);
	assert_int_equal(SUCCEED(&s, .risk = 70, .passed = true).verdict.kind, VERDICT_ALLOW);
	assert_int_equal(SUCCEED(&s, .risk = 69).verdict.kind, VERDICT_ALLOW);
	service_close(&s);
}

/* Else whoever looks risky could guess for ever. */
TEST(risk, that_asks_for_a_challenge_still_counts_failures_and_they_lock)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, RULES);
	r = FAIL(&s, .risk = 99);
	assert_risk(&r.verdict, VERDICT_CHALLENGE);
	assert_true(r.counted);
	r = FAIL_TIMES(&s, 2, .risk = 99);
	assert_verdict(&r, VERDICT_LOCKED, true);
	assert_int_equal(SUCCEED(&s, .risk = 99).verdict.until_s, START_S + 900); /* the lock's end is told */
	service_close(&s);
}

TEST(risk, that_blocks_counts_nothing_and_no_challenge_opens_it)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, RULES);
	r = FAIL(&s, .type = "STEPS", .risk = 90);
	assert_risk(&r.verdict, VERDICT_BLOCKED);
	assert_false(r.counted);
	r = SUCCEED(&s, .type = "STEPS", .risk = 100, .passed = true);
	assert_risk(&r.verdict, VERDICT_BLOCKED);
	r = SUCCEED(&s, .type = "STEPS", .risk = 89);
	assert_risk(&r.verdict, VERDICT_CHALLENGE);
	assert_int_equal(SUCCEED(&s, .type = "STEPS", .risk = 89, .passed = true).verdict.kind,
	                 VERDICT_ALLOW);
	service_close(&s);
}

/* The try is over at once; when the next one may stand is what the lock says. */
TEST(risk, that_blocks_tells_when_a_lock_that_also_stands_ends)
{
	struct service        s;
	struct attempt_result r;
	struct verdict_lock   lock;

	service_open(&s, RULES);
	FAIL_TIMES(&s, 3, .type = "STEPS");
	r = SUCCEED(&s, .type = "STEPS", .risk = 95);
	assert_int_equal(r.verdict.kind, VERDICT_BLOCKED);
	assert_string_equal(r.verdict.reason, "risk");
	assert_int_equal(r.verdict.until_s, START_S + 900);
	lock = verdict_lock(&r.verdict);
	assert_true(lock.stands);
	assert_bytes(lock.sk, "SIGN_IN#LOCK#STEPS");
	assert_bytes(lock.block_type, "STANDARD");
	assert_int_equal(lock.until_s, START_S + 900);
	at(&s, 900);
	r = SUCCEED(&s, .type = "STEPS", .risk = 95);
	assert_risk(&r.verdict, VERDICT_BLOCKED);
	assert_false(verdict_lock(&r.verdict).stands);
	service_close(&s);
}

TEST(verdict, of_what_is_graver_than_a_lock_the_lock_that_ends_last_is_kept)
{
	struct verdict v = {0}, blocked = {.kind = VERDICT_BLOCKED, .reason = "source_denied"};
	struct verdict one = {.kind = VERDICT_LOCKED, .reason = "lock", .sk = BYTES("ONE"), .until_s = 5};
	struct verdict two = {.kind = VERDICT_LOCKED, .reason = "lock", .sk = BYTES("TWO"), .until_s = 9};
	struct verdict ever = {.kind = VERDICT_LOCKED_PERMANENT, .reason = "lock", .sk = BYTES("EVER")};

	verdict_add(&v, &one);
	assert_bytes(verdict_lock(&v).sk, "ONE");
	verdict_add(&v, &blocked);
	assert_bytes(verdict_lock(&v).sk, "ONE");
	assert_int_equal(v.until_s, 0); /* that it is blocked does not end with the lock */
	verdict_add(&v, &two);
	assert_bytes(verdict_lock(&v).sk, "TWO");
	verdict_add(&v, &ever);
	assert_bytes(verdict_lock(&v).sk, "EVER");
	verdict_add(&v, &two);
	assert_bytes(verdict_lock(&v).sk, "EVER");
	assert_int_equal(v.kind, VERDICT_BLOCKED);
}

/* The score is of this try, not of the account: it locks nobody out, and a stolen token is no way round it. */
TEST(risk, applies_to_known_devices_and_to_codes_that_are_sent)
{
	struct service        s;
	struct attempt_result r;
	struct bytes          token;

	service_open(&s, RULES);
	token = SUCCEED(&s).device.token;
	r = SUCCEED(&s, .token = token, .risk = 80);
	assert_true(r.known_device);
	assert_risk(&r.verdict, VERDICT_CHALLENGE);
	assert_int_equal(r.device.token.len, 0);
	r = SENT(&s, .type = "CODES", .risk = 70);
	assert_risk(&r.verdict, VERDICT_CHALLENGE);
	assert_false(r.counted);
	service_close(&s);
}

TEST(risk, of_a_rule_in_shadow_mode_is_only_told)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, RULES);
	r = SUCCEED(&s, .type = "SHADOWED", .risk = 70);
	assert_int_equal(r.verdict.kind, VERDICT_ALLOW);
	assert_risk(&r.shadow, VERDICT_BLOCKED);
	service_close(&s);
}

struct step {
	struct turn           turn;
	struct attempt        q;
	struct begin_result   begun;
	struct attempt_result r;
};

static enum err_code begin_run(struct turn *turn, struct err *err)
{
	struct step *step = (struct step *)turn;

	return attempt_begin(&turn->ctx, &step->q, BYTES("one"), &step->begun, err);
}

static enum err_code finish_run(struct turn *turn, struct err *err)
{
	struct step       *step = (struct step *)turn;
	struct reservation r;

	if (reservation_find(&turn->ctx, BYTES("one"), turn->s->rules, &r, err) != ERR_NONE)
		return err->code;
	return attempt_finish(&turn->ctx, &r, OUTCOME_SUCCESS, &step->r, err);
}

TEST(risk, is_judged_when_an_attempt_begins_and_not_again_when_it_is_finished)
{
	struct service s;
	struct step    step = {.turn = {.s = NULL}};

	service_open(&s, RULES);
	step.q = attempt_of(&s, &(struct try){.risk = 70});
	turn_take(&s, &step.turn, begin_run);
	assert_false(step.begun.reserved);
	assert_risk(&step.begun.attempt.verdict, VERDICT_CHALLENGE);
	step.q = attempt_of(&s, &(struct try){.risk = 70, .passed = true});
	turn_take(&s, &step.turn, begin_run);
	assert_true(step.begun.reserved);
	turn_take(&s, &step.turn, finish_run);
	assert_int_equal(step.r.verdict.kind, VERDICT_ALLOW);
	service_close(&s);
}

static void assert_refused(const char *at_risk, const char *what)
{
	struct service   s;
	struct json     *tree;
	struct document *d;
	struct bytes     yaml;

	service_open(&s, NULL);
	yaml = arena_printf(
	        &s.f.arena,
	        "{\"locks\":{\"STANDARD\":{\"duration\":900}},\"journeys\":{\"SIGN_IN\":{\"types\":{\"A\":"
	        "{\"max\":3,\"life\":9,\"at_risk\":%s}}}}}",
	        at_risk);
	{
		struct json_reader *reader = json_reader_open();

		assert_int_equal(json_read(reader, &s.f.arena, yaml, &tree, &s.f.err), ERR_NONE);
		json_reader_close(reader);
	}
	assert_int_not_equal(rules_parse(tree, &d, &s.f.err), ERR_NONE);
	if (strstr(s.f.err.text, what) == NULL)
		fail_msg("%s", s.f.err.text);
	service_close(&s);
}

TEST(risk, in_policies_is_read_strictly)
{
	assert_refused("{\"from\":0}", "at_risk.from");
	assert_refused("{\"from\":101}", "at_risk.from");
	assert_refused("{\"from\":70.5}", "at_risk.from");
	assert_refused("{\"from\":70,\"verdict\":\"locked\"}", "at_risk.verdict");
	assert_refused("{}", "at_risk.from");
	assert_refused("7", "at_risk");
	assert_refused("[]", "at_risk");
	assert_refused("[{\"from\":70},{\"from\":80}]", "at_risk[1]");
	assert_refused("[{\"from\":70},{\"from\":70,\"verdict\":\"blocked\"}]", "above");
	assert_refused("[{\"from\":70},{\"from\":80,\"verdict\":\"blocked\"},{\"from\":90}]", "at_risk");
}
