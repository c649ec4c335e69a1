/* What is told of attempts and states: only where it is switched on, and with personal data only where that may be. */
#include "service/turn.h"

#include "service/attempt_event.h"
#include "service/reservation.h"
#include "service/state.h"

#define RULES                                                                                                \
	"locks: {STANDARD: {duration: 900}}\n"                                                               \
	"journeys:\n"                                                                                        \
	"  SIGN_IN:\n"                                                                                       \
	"    types:\n"                                                                                       \
	"      PASSWORD_ENTRY: {max: 4, life: 7200}\n"                                                       \
	"      SHADOWED: {max: 4, life: 7200, shadow: true}\n"

static struct event_policy *policy_of(int64_t near_limit, uint64_t personal)
{
	struct event_policy *p = document_make(sizeof(*p));

	p->on = EVENT_ALL;
	p->personal = personal;
	p->near_limit = near_limit;
	p->source = BYTES("gatehouse");
	return p;
}

static void open_with(struct service *s, struct event_policy *p)
{
	service_open(s, RULES);
	document_holder_init(&s->all.events.policy);
	document_put(&s->all.events.policy, &p->base);
	event_settings_changed(&s->all.events);
}

static void close_all(struct service *s)
{
	document_holder_release(&s->all.events.policy);
	service_close(s);
}

/* ---- near the limit ---- */

TEST(attempt_events, tell_that_as_few_tries_are_left_as_the_policy_says)
{
	struct service            s;
	struct table_query_result events;
	struct item               data;

	open_with(&s, policy_of(2, 0));
	FAIL(&s, .type = "PASSWORD_ENTRY");
	assert_int_equal(events_of(&s, EVENT_ATTEMPT_NEAR_LIMIT).count, 0);
	FAIL_TIMES(&s, 3, .type = "PASSWORD_ENTRY"); /* the last one locks */
	events = events_of(&s, EVENT_ATTEMPT_NEAR_LIMIT);
	assert_int_equal(events.count, 2);
	data = event_data(&events.items[0]);
	assert_item(
	        &s.f, &data,
	        "{'journey':{'S':'SIGN_IN'},'type':{'S':'PASSWORD_ENTRY'},'count':{'N':'2'},'max':{'N':'4'},"
	        "'remaining':{'N':'2'}}");
	FAIL_TIMES(&s, 3, .type = "SHADOWED", .subject = "bob");
	assert_int_equal(events_of(&s, EVENT_ATTEMPT_NEAR_LIMIT).count, 2);
	close_all(&s);
}

struct step {
	struct turn           turn;
	struct attempt        q;
	enum outcome          outcome;
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
	return attempt_finish(&turn->ctx, &r, step->outcome, &step->r, err);
}

TEST(attempt_events, of_two_steps_come_with_the_second)
{
	for (int failed = 0; failed <= 1; failed++) {
		struct service s;
		struct step    step = {.outcome = failed ? OUTCOME_FAILURE : OUTCOME_SUCCESS};

		open_with(&s, policy_of(9, 0));
		step.q = attempt_of(&s, &(struct try){.type = "PASSWORD_ENTRY", .ip = "192.0.2.1"});
		turn_take(&s, &step.turn, begin_run);
		assert_int_equal(events_of(&s, EVENT_ATTEMPT_NEAR_LIMIT).count, 0);
		turn_take(&s, &step.turn, finish_run);
		assert_int_equal(events_of(&s, EVENT_ATTEMPT_NEAR_LIMIT).count, failed);
		assert_int_equal(events_of(&s, EVENT_ATTEMPT_NEW_SOURCE).count, 1);
		close_all(&s);
	}
}

/* ---- new sources ---- */

static uint32_t sources_told(struct service *s)
{
	return events_of(s, EVENT_ATTEMPT_NEW_SOURCE).count;
}

TEST(attempt_events, tell_of_a_source_once_whether_it_fails_or_succeeds)
{
	struct service s;
	struct item    data;

	open_with(&s, policy_of(0, 0));
	SUCCEED(&s, .type = "PASSWORD_ENTRY", .ip = "192.0.2.1");
	SUCCEED(&s, .type = "PASSWORD_ENTRY", .ip = "192.0.2.1");
	FAIL(&s, .type = "PASSWORD_ENTRY", .ip = "192.0.2.1"); /* the owner's */
	SUCCEED(&s, .type = "PASSWORD_ENTRY");                 /* it did not say where from */
	assert_int_equal(sources_told(&s), 1);
	data = event_data(&events_of(&s, EVENT_ATTEMPT_NEW_SOURCE).items[0]);
	assert_item(&s.f, &data,
	            "{'journey':{'S':'SIGN_IN'},'type':{'S':'PASSWORD_ENTRY'},'outcome':{'S':'success'},"
	            "'first':{'BOOL':true}}");
	FAIL_TIMES(&s, 2, .type = "PASSWORD_ENTRY", .ip = "192.0.2.2");
	assert_int_equal(sources_told(&s), 2);
	SUCCEED(&s, .type = "PASSWORD_ENTRY", .ip = "192.0.2.2"); /* tried before, and now it got in */
	assert_int_equal(sources_told(&s), 3);
	data = event_data(&events_of(&s, EVENT_ATTEMPT_NEW_SOURCE).items[2]);
	assert_item(&s.f, &data,
	            "{'journey':{'S':'SIGN_IN'},'type':{'S':'PASSWORD_ENTRY'},'outcome':{'S':'success'},"
	            "'first':{'BOOL':false}}");
	close_all(&s);
}

TEST(attempt_events, remember_so_many_sources_and_nobody_pushes_out_those_that_succeeded)
{
	struct service s;
	struct item    row;

	open_with(&s, policy_of(0, EVENT_ALL));
	SUCCEED(&s, .type = "PASSWORD_ENTRY", .ip = "192.0.2.1");
	for (int i = 0; i < 3 * SOURCES_SEEN_MAX; i++) {
		FAIL(&s, .type = "PASSWORD_ENTRY",
		     .ip = arena_printf(&s.f.arena, "198.51.100.%d%c", i, '\0').data);
		SUCCEED(&s, .type = "PASSWORD_ENTRY", .ip = "192.0.2.1"); /* or it would be locked */
	}
	assert_int_equal(sources_told(&s), 1 + 3 * SOURCES_SEEN_MAX);
	row = event_data(&events_of(&s, EVENT_ATTEMPT_NEW_SOURCE).items[0]);
	assert_true(identifier_is(row_text(&row, "source"), IDENTIFIER_IP));
	assert_true(row_find(&s, BYTES("alice"), BYTES("SOURCE#SEEN#RECENT"), &row));
	assert_int_equal(row_text(&row, "tried").len, SOURCES_SEEN_MAX * 13 - 1);
	assert_int_equal(row_text(&row, "known").len, 12);
	for (int i = 0; i < SOURCES_SEEN_MAX; i++)
		SUCCEED(&s, .type = "PASSWORD_ENTRY",
		        .ip = arena_printf(&s.f.arena, "203.0.113.%d%c", i, '\0').data);
	assert_true(row_find(&s, BYTES("alice"), BYTES("SOURCE#SEEN#RECENT"), &row));
	assert_int_equal(row_text(&row, "known").len, SOURCES_SEEN_MAX * 13 - 1);
	SUCCEED(&s, .type = "PASSWORD_ENTRY",
	        .ip = "192.0.2.1"); /* the oldest: it was pushed out by successes */
	assert_int_equal(sources_told(&s), 2 + 4 * SOURCES_SEEN_MAX);
	close_all(&s);
}

TEST(attempt_events, that_are_off_write_no_row)
{
	struct service s;

	service_open(&s, RULES);
	s.all.events.on = EVENT_ALL & ~event_types_of(BYTES("attempt.*"));
	SUCCEED(&s, .type = "PASSWORD_ENTRY", .ip = "192.0.2.1");
	FAIL_TIMES(&s, 3, .type = "PASSWORD_ENTRY", .ip = "192.0.2.1");
	assert_false(has_events(&s));
	assert_false(row_there(&s, "alice", "SOURCE#SEEN#RECENT"));
	service_close(&s);
}

/* ---- states ---- */

struct state_turn {
	struct turn                turn;
	struct intervention        q;
	struct intervention_result r;
	struct states_cleared      cleared;
	struct demand_met          met;
	enum state_family          family;
	int64_t                    until_s;
};

static enum err_code apply_run(struct turn *turn, struct err *err)
{
	struct state_turn *t = (struct state_turn *)turn;

	return intervention_apply(&turn->ctx, &t->q, &t->r, err);
}

static enum err_code meet_run(struct turn *turn, struct err *err)
{
	struct state_turn *t = (struct state_turn *)turn;

	return demand_meet(&turn->ctx, t->q.subject, INTERVENTION_RESET, &t->met, err);
}

static enum err_code states_clear_run(struct turn *turn, struct err *err)
{
	struct state_turn *t = (struct state_turn *)turn;

	return states_clear(&turn->ctx, t->q.subject, t->family, &t->cleared, err);
}

static enum err_code fraud_run(struct turn *turn, struct err *err)
{
	struct state_turn     *t = (struct state_turn *)turn;
	struct email_fraud_new q = {.subject = t->q.subject, .state = EMAIL_FRAUD_DENY, .duration_s = 100};

	return email_fraud_set(&turn->ctx, &q, &t->until_s, err);
}

static void assert_state(struct service *s, uint32_t at, const char *expected)
{
	struct table_query_result events = events_of(s, EVENT_STATE_CHANGED);
	struct item               data;

	assert_int_equal(events.count, at + 1);
	data = event_data(&events.items[at]);
	assert_item(&s->f, &data, expected);
}

TEST(state_events, tell_what_was_set_and_what_was_cleared)
{
	struct service    s;
	struct state_turn t = {.q = {.subject = BYTES("alice"), .applied_s = START_S}};

	open_with(&s, policy_of(0, 0));
	t.q.flags[INTERVENTION_SUSPENDED] = t.q.flags[INTERVENTION_RESET] = FLAG_ON;
	turn_take(&s, &t.turn, apply_run);
	assert_state(
	        &s, 0,
	        "{'family':{'S':'intervention'},'set':{'L':[{'S':'suspended'},{'S':'reset_password'}]}}");
	turn_take(&s, &t.turn, meet_run); /* with the suspension that came with it */
	assert_state(
	        &s, 1,
	        "{'family':{'S':'intervention'},'cleared':{'L':[{'S':'reset_password'},{'S':'suspended'}]}}");
	turn_take(&s, &t.turn, meet_run);
	assert_int_equal(events_of(&s, EVENT_STATE_CHANGED).count, 2); /* there was nothing to end */
	turn_take(&s, &t.turn, fraud_run);
	assert_state(&s, 2,
	             "{'family':{'S':'email_fraud'},'set':{'L':[{'S':'DENY'}]},'until':{'S':'2026-09-10T00:"
	             "28:20Z'}}");
	t.family = FAMILY_EMAIL_FRAUD;
	turn_take(&s, &t.turn, states_clear_run);
	assert_state(&s, 3, "{'family':{'S':'email_fraud'},'cleared':{'L':[{'S':'DENY'}]}}");
	close_all(&s);
}
