/* States: interventions in the order of applied_at, demands that a reset voids, fraud checks. */
#include "service/resetting.h"

#include "service/state.h"

#define STATE(name) "ACCOUNT_INTERVENTION#STATE#" name
#define LATEST      "ACCOUNT_INTERVENTION#APPLIED#LATEST"

/* ---- the calls ---- */

struct intervention_turn {
	struct turn                turn;
	struct intervention        q;
	struct intervention_result r;
};

static enum err_code apply_run(struct turn *turn, struct err *err)
{
	struct intervention_turn *i = (struct intervention_turn *)turn;

	return intervention_apply(&turn->ctx, &i->q, &i->r, err);
}

/* One flag, applied so many seconds after the fixture began. */
static struct intervention_result apply(struct service *s, enum intervention_flag flag,
                                        enum flag_change change, int64_t applied)
{
	struct intervention_turn i = {.q = {.subject = BYTES("alice"), .applied_s = START_S + applied}};

	i.q.flags[flag] = change;
	turn_take(s, &i.turn, apply_run);
	return i.r;
}

struct fraud_turn {
	struct turn      turn;
	enum email_fraud state;
	int64_t          duration_s, until_s;
};

static enum err_code fraud_run(struct turn *turn, struct err *err)
{
	struct fraud_turn     *e = (struct fraud_turn *)turn;
	struct email_fraud_new q = {BYTES("alice"), e->state, e->duration_s};

	return email_fraud_set(&turn->ctx, &q, &e->until_s, err);
}

static int64_t fraud(struct service *s, enum email_fraud state)
{
	struct fraud_turn e = {.state = state, .duration_s = EMAIL_FRAUD_DENY_S};

	turn_take(s, &e.turn, fraud_run);
	return e.until_s;
}

struct clear_turn {
	struct turn           turn;
	enum state_family     family;
	struct states_cleared cleared;
};

static enum err_code clear_run(struct turn *turn, struct err *err)
{
	struct clear_turn *c = (struct clear_turn *)turn;

	return states_clear(&turn->ctx, BYTES("alice"), c->family, &c->cleared, err);
}

/* What an attempt would be told, of both ids. */
static struct states_required required(struct service *s)
{
	struct attempt        q = attempt_of(s, &(struct try){.pairwise = "pairwise"});
	struct assessment     now;
	struct fixture_reader reader;

	struct context ctx;

	fixture_reader_begin(&reader, &s->f);
	ctx = service_context(s, reader.table);
	if (assess(&ctx, &q, &now, &s->f.err) != ERR_NONE)
		fail_msg("%s", s->f.err.text);
	fixture_reader_end(&reader);
	return now.required;
}

/* Several flags in one intervention. */
static struct intervention_result
apply_flags(struct service *s, const enum flag_change flags[INTERVENTION_COUNT], int64_t applied)
{
	struct intervention_turn i = {.q = {.subject = BYTES("alice"), .applied_s = START_S + applied}};

	memcpy(i.q.flags, flags, sizeof(i.q.flags));
	turn_take(s, &i.turn, apply_run);
	return i.r;
}

static const enum flag_change suspended_until_reset[INTERVENTION_COUNT] = {
        [INTERVENTION_SUSPENDED] = FLAG_ON, [INTERVENTION_RESET] = FLAG_ON};
static const enum flag_change suspended_until_both[INTERVENTION_COUNT] = {
        [INTERVENTION_SUSPENDED] = FLAG_ON, [INTERVENTION_RESET] = FLAG_ON, [INTERVENTION_REPROVE] = FLAG_ON};

static bool let_in(struct service *s)
{
	return SUCCEED(s).verdict.kind == VERDICT_ALLOW;
}

/* ---- interventions ---- */

TEST(intervention, blocked_is_the_row_of_the_document_and_keeps_out_until_it_is_lifted)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	at(&s, 60);
	assert_true(apply(&s, INTERVENTION_BLOCKED, FLAG_ON, 50).flags[INTERVENTION_BLOCKED]);
	assert_row(&s, "alice", STATE("BLOCKED"),
	           "{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#STATE#BLOCKED'},'count':{'N':'1'},"
	           "'last_updated':{'N':'1789000060'},'applied_at':{'N':'1789000050'},"
	           "'block_type':{'S':'PERMANENT'},'intervention_state':{'S':'BLOCKED'}}");
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_string_equal(r.verdict.reason, "intervention_blocked");
	assert_false(apply(&s, INTERVENTION_BLOCKED, FLAG_OFF, 60).flags[INTERVENTION_BLOCKED]);
	assert_false(row_there(&s, "alice", STATE("BLOCKED")));
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(intervention, each_flag_has_a_row_of_its_own_and_leaves_the_others_as_they_are)
{
	struct service             s;
	struct intervention_result r;
	struct attempt_result      tried;

	service_open(&s, NULL);
	for (int i = 0; i < INTERVENTION_COUNT; i++)
		r = apply(&s, (enum intervention_flag)i, FLAG_ON, i);
	for (int i = 0; i < INTERVENTION_COUNT; i++)
		assert_true(r.flags[i]);
	assert_true(row_there(&s, "alice", STATE("BLOCKED")));
	assert_true(row_there(&s, "alice", STATE("SUSPENDED")));
	assert_row(&s, "alice", STATE("REPROVE_IDENTITY"),
	           "{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#STATE#REPROVE_IDENTITY'},"
	           "'count':{'N':'1'},'last_updated':{'N':'1789000000'},'applied_at':{'N':'1789000002'},"
	           "'intervention_state':{'S':'REPROVE_IDENTITY'}}");
	apply(&s, INTERVENTION_BLOCKED, FLAG_OFF, 9);
	tried = FAIL(&s); /* a demand does not keep out */
	assert_verdict(&tried, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(intervention, a_suspension_bars_unless_something_is_demanded_that_would_end_it)
{
	struct service        s;
	struct attempt_result tried;

	service_open(&s, NULL);
	apply(&s, INTERVENTION_SUSPENDED, FLAG_ON, 0);
	tried = FAIL(&s);
	assert_verdict(&tried, VERDICT_BLOCKED, false);
	assert_string_equal(tried.verdict.reason, "intervention_suspended");
	for (int i = INTERVENTION_REPROVE; i <= INTERVENTION_RESET; i++) {
		apply(&s, (enum intervention_flag)i, FLAG_ON, i);
		tried = FAIL(&s);
		assert_verdict(&tried, VERDICT_ALLOW, true);
		apply(&s, (enum intervention_flag)i, FLAG_OFF, i);
		tried = FAIL(&s);
		assert_verdict(&tried, VERDICT_BLOCKED, false);
	}
	service_close(&s);
}

TEST(intervention, older_than_the_latest_changes_nothing_and_one_as_old_is_applied)
{
	struct service             s;
	struct intervention_result r;

	service_open(&s, NULL);
	apply(&s, INTERVENTION_BLOCKED, FLAG_OFF, 100); /* lifted, before it comes to be known here */
	r = apply(&s, INTERVENTION_BLOCKED, FLAG_ON, 99);
	assert_false(r.applied);
	assert_false(r.flags[INTERVENTION_BLOCKED]);
	assert_int_equal(r.latest_s, START_S + 100);
	assert_int_equal(rows_in_table(&s), 1);
	assert_row(&s, "alice", LATEST,
	           "{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#APPLIED#LATEST'},"
	           "'applied_at':{'N':'1789000100'},'last_updated':{'N':'1789000000'}}");
	r = apply(&s, INTERVENTION_BLOCKED, FLAG_ON, 100);
	assert_true(r.applied && r.flags[INTERVENTION_BLOCKED]);
	service_close(&s);
}

TEST(intervention, a_demand_for_a_new_password_ends_with_the_reset)
{
	struct service s;

	service_open(&s, NULL);
	apply(&s, INTERVENTION_RESET, FLAG_ON, 0);
	assert_int_equal(required(&s).count, 1);
	assert_string_equal(required(&s).list[0], "reset_password");
	at(&s, 10);
	assert_true(reset(&s).met.demand_ended);
	assert_int_equal(required(&s).count, 0);
	assert_false(row_there(&s, "alice", STATE("RESET_PASSWORD")));
	assert_false(reset(&s).met.demand_ended);
	service_close(&s);
}

TEST(intervention, a_demand_that_comes_late_is_void_and_a_later_one_is_not)
{
	struct service             s;
	struct intervention_result r;

	service_open(&s, NULL);
	at(&s, 10);
	reset(&s);
	assert_row(&s, "alice", "ACCOUNT_INTERVENTION#RESET#PASSWORD",
	           "{'PK':{'S':'alice'},'SK':{'S':'ACCOUNT_INTERVENTION#RESET#PASSWORD'},"
	           "'reset_at':{'N':'1789000010'},'last_updated':{'N':'1789000010'}}");
	r = apply(&s, INTERVENTION_RESET, FLAG_ON, 9);
	assert_true(r.applied && r.is_void[INTERVENTION_RESET]);
	assert_false(r.flags[INTERVENTION_RESET]);
	assert_int_equal(required(&s).count, 0);
	r = apply(&s, INTERVENTION_RESET, FLAG_ON, 10); /* in the same second: it stands */
	assert_false(r.is_void[INTERVENTION_RESET]);
	assert_int_equal(required(&s).count, 1);
	service_close(&s);
}

TEST(intervention, a_void_demand_that_is_in_the_table_all_the_same_is_not_told)
{
	struct service s;

	service_open(&s, NULL);
	at(&s, 10);
	reset(&s);
	row_put(&s, "{'PK':{'S':'alice'},'SK':{'S':'" STATE(
	                    "RESET_PASSWORD") "'},'applied_at':{'N':'1789000009'}}");
	assert_int_equal(required(&s).count, 0);
	service_close(&s);
}

TEST(intervention, meeting_the_demand_ends_the_suspension_that_came_with_it)
{
	struct service      s;
	struct reset_result r;

	service_open(&s, NULL);
	apply_flags(&s, suspended_until_reset, 0);
	assert_true(let_in(&s)); /* to set a new password */
	at(&s, 10);
	r = reset(&s);
	assert_true(r.met.demand_ended && r.met.suspension_ended);
	assert_true(let_in(&s));
	assert_false(row_there(&s, "alice", STATE("SUSPENDED")));
	service_close(&s);
}

TEST(intervention, a_suspension_with_two_demands_ends_when_both_are_met)
{
	struct service s;

	service_open(&s, NULL);
	apply_flags(&s, suspended_until_both, 0);
	at(&s, 10);
	assert_false(reset(&s).met.suspension_ended);
	assert_true(row_there(&s, "alice", STATE("SUSPENDED")));
	assert_string_equal(required(&s).list[0], "reprove_identity");
	assert_true(prove_identity(&s).met.suspension_ended);
	assert_int_equal(required(&s).count, 0);
	assert_true(let_in(&s));
	service_close(&s);
}

TEST(intervention, a_suspension_of_its_own_or_a_later_one_stays_when_a_demand_is_met)
{
	struct service s;

	service_open(&s, NULL);
	apply(&s, INTERVENTION_RESET, FLAG_ON, 0);
	apply(&s, INTERVENTION_SUSPENDED, FLAG_ON, 5); /* without a demand */
	at(&s, 10);
	assert_false(reset(&s).met.suspension_ended);
	assert_false(let_in(&s));
	service_close(&s);
}

TEST(intervention, blocked_stays_when_a_demand_is_met)
{
	static const enum flag_change all[INTERVENTION_COUNT] = {FLAG_ON, FLAG_ON, FLAG_ON, FLAG_ON};
	struct service                s;

	service_open(&s, NULL);
	apply_flags(&s, all, 0);
	at(&s, 10);
	reset(&s);
	prove_identity(&s);
	assert_false(let_in(&s));
	assert_true(row_there(&s, "alice", STATE("BLOCKED")));
	service_close(&s);
}

TEST(intervention, that_comes_after_its_demand_was_met_suspends_nobody)
{
	struct service             s;
	struct intervention_result r;

	service_open(&s, NULL);
	at(&s, 10);
	reset(&s);
	r = apply_flags(&s, suspended_until_reset, 9);
	assert_true(r.is_void[INTERVENTION_RESET] && r.is_void[INTERVENTION_SUSPENDED]);
	assert_false(r.flags[INTERVENTION_SUSPENDED]);
	assert_true(let_in(&s));
	r = apply_flags(&s, suspended_until_both, 9); /* one of two is still to be met */
	assert_false(r.is_void[INTERVENTION_SUSPENDED]);
	assert_true(r.flags[INTERVENTION_SUSPENDED] && r.flags[INTERVENTION_REPROVE]);
	service_close(&s);
}

TEST(intervention, written_at_the_same_time_as_the_reset_suspends_nobody)
{
	struct service s;

	service_open(&s, NULL);
	at(&s, 10);
	reset(&s);
	row_put(&s, "{'PK':{'S':'alice'},'SK':{'S':'" STATE(
	                    "RESET_PASSWORD") "'},'applied_at':{'N':'1789000009'}}");
	row_put(&s,
	        "{'PK':{'S':'alice'},'SK':{'S':'" STATE("SUSPENDED") "'},'applied_at':{'N':'1789000009'}}");
	assert_true(let_in(&s));
	row_put(&s,
	        "{'PK':{'S':'alice'},'SK':{'S':'" STATE("SUSPENDED") "'},'applied_at':{'N':'1789000008'}}");
	assert_false(let_in(&s)); /* that one came alone */
	service_close(&s);
}

TEST(intervention, a_demand_made_again_takes_its_suspension_along)
{
	struct service s;

	service_open(&s, NULL);
	apply_flags(&s, suspended_until_reset, 0);
	apply(&s, INTERVENTION_RESET, FLAG_ON, 5);
	at(&s, 10);
	assert_true(reset(&s).met.suspension_ended);
	assert_true(let_in(&s));
	service_close(&s);
}

TEST(intervention, sent_again_after_the_reset_changes_nothing_even_if_its_clock_is_ahead)
{
	struct service             s;
	struct intervention_result r;

	service_open(&s, NULL);
	at(&s, 10);
	apply_flags(&s, suspended_until_reset, 100); /* 90 seconds ahead */
	assert_true(reset(&s).met.suspension_ended);
	assert_false(reset(&s).met.demand_ended);
	r = apply_flags(&s, suspended_until_reset, 100);
	assert_true(r.is_void[INTERVENTION_RESET] && r.is_void[INTERVENTION_SUSPENDED]);
	assert_true(let_in(&s));
	apply_flags(&s, suspended_until_reset, 101); /* another one */
	assert_int_equal(required(&s).count, 1);
	service_close(&s);
}

TEST(intervention, a_suspension_whose_demand_was_withdrawn_stands_alone)
{
	struct service s;

	service_open(&s, NULL);
	apply_flags(&s, suspended_until_reset, 0);
	apply(&s, INTERVENTION_RESET, FLAG_OFF, 1);
	at(&s, 10);
	reset(&s);
	assert_false(let_in(&s));
	service_close(&s);
}

TEST(states, what_is_required_is_told_once_for_all_ids_of_a_subject)
{
	struct service         s;
	struct states_required r;

	service_open(&s, NULL);
	r = required(&s);
	assert_true(r.count == 0 && !r.email_fraud_pending);
	apply(&s, INTERVENTION_REPROVE, FLAG_ON, 0);
	apply(&s, INTERVENTION_RESET, FLAG_ON, 0);
	row_put(&s, "{'PK':{'S':'pairwise'},'SK':{'S':'" STATE("RESET_PASSWORD") "'},'count':{'N':'1'}}");
	row_put(&s, "{'PK':{'S':'pairwise'},'SK':{'S':'EMAIL_FRAUD#STATE#PENDING'},'count':{'N':'1'}}");
	r = required(&s);
	assert_int_equal(r.count, 2);
	assert_int_equal(FAIL(&s, .pairwise = "pairwise").required.count, 2); /* an attempt says the same */
	assert_string_equal(r.list[0], "reset_password");
	assert_string_equal(r.list[1], "reprove_identity");
	assert_true(r.email_fraud_pending);
	service_close(&s);
}

/* ---- email fraud ---- */

TEST(email_fraud, denied_is_the_row_of_the_document_and_ends_at_the_second)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	assert_int_equal(fraud(&s, EMAIL_FRAUD_DENY), START_S + 900);
	assert_row(&s, "alice", "EMAIL_FRAUD#STATE#BLOCKED",
	           "{'PK':{'S':'alice'},'SK':{'S':'EMAIL_FRAUD#STATE#BLOCKED'},'count':{'N':'1'},"
	           "'last_updated':{'N':'1789000000'},'ttl':{'N':'1789000900'},'block_type':{'S':'STANDARD'},"
	           "'block_duration':{'N':'900'},'intervention_state':{'S':'FRAUD_BLOCKED'}}");
	at(&s, 899);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_BLOCKED, false);
	assert_string_equal(r.verdict.reason, "email_fraud_denied");
	at(&s, 900);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	service_close(&s);
}

TEST(email_fraud, one_state_takes_the_place_of_another_and_pending_lets_through)
{
	struct service        s;
	struct attempt_result r;

	service_open(&s, NULL);
	fraud(&s, EMAIL_FRAUD_DENY);
	assert_int_equal(fraud(&s, EMAIL_FRAUD_PENDING), 0);
	assert_int_equal(rows_in_table(&s), 1);
	assert_true(required(&s).email_fraud_pending);
	r = FAIL(&s);
	assert_verdict(&r, VERDICT_ALLOW, true);
	fraud(&s, EMAIL_FRAUD_ALLOW);
	assert_false(row_there(&s, "alice", "EMAIL_FRAUD#STATE#PENDING"));
	assert_row(&s, "alice", "EMAIL_FRAUD#STATE#ALLOWED",
	           "{'PK':{'S':'alice'},'SK':{'S':'EMAIL_FRAUD#STATE#ALLOWED'},'count':{'N':'1'},"
	           "'last_updated':{'N':'1789000000'},'intervention_state':{'S':'FRAUD_ALLOWED'}}");
	service_close(&s);
}

TEST(states, clearing_a_family_says_what_was_there_and_still_knows_the_latest)
{
	struct service    s;
	struct clear_turn c = {.family = FAMILY_INTERVENTION};

	service_open(&s, NULL);
	apply(&s, INTERVENTION_SUSPENDED, FLAG_ON, 100);
	apply(&s, INTERVENTION_RESET, FLAG_ON, 100);
	fraud(&s, EMAIL_FRAUD_PENDING);
	turn_take(&s, &c.turn, clear_run);
	assert_int_equal(c.cleared.count, 2);
	assert_string_equal(c.cleared.names[0], "suspended");
	assert_string_equal(c.cleared.names[1], "reset_password");
	assert_int_equal(rows_in_table(&s), 2); /* the latest, and email_fraud */
	assert_false(apply(&s, INTERVENTION_SUSPENDED, FLAG_ON, 99).applied);
	c.family = FAMILY_EMAIL_FRAUD;
	turn_take(&s, &c.turn, clear_run);
	assert_int_equal(c.cleared.count, 1);
	assert_string_equal(c.cleared.names[0], "PENDING");
	turn_take(&s, &c.turn, clear_run);
	assert_int_equal(c.cleared.count, 0);
	service_close(&s);
}
