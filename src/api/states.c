/* PUT and DELETE /v1/subjects/{id}/states/…: what interventions and fraud checks say of a subject. */
#include "service/state.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"

/* ---- interventions ---- */

struct intervention_call {
	struct intervention        q;
	struct intervention_result r;
};

static void read_flags(struct fields *f, struct intervention *q)
{
	bool any = false;

	for (int i = 0; i < INTERVENTION_COUNT; i++) {
		const char *name = intervention_name((enum intervention_flag)i);

		if (!fields_has(f, name))
			continue;
		any = true;
		q->flags[i] = fields_bool_or(f, name, false) ? FLAG_ON : FLAG_OFF;
	}
	if (!any)
		fields_fail(f, NULL, ERR_INVALID,
		            "must say one of blocked, suspended, reprove_identity, reset_password");
}

enum err_code intervention_set_decode(struct v1_call *c, struct err *err)
{
	struct intervention_call *i = arena_zalloc(c->arena, sizeof(*i));
	struct fields             f;

	c->request = i;
	v1_resource(c, "state", BYTES("intervention"));
	if (v1_subject_param(c, 0, &i->q.subject, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	read_flags(&f, &i->q);
	i->q.applied_s = v1_read_time(&f, "applied_at");
	return fields_end(&f);
}

/* An intervention from the future would keep all others out until then. */
enum err_code intervention_set_run(struct v1_call *c, struct table *t, struct err *err)
{
	struct intervention_call *i = c->request;

	if (i->q.applied_s > t->now_us / 1000000 + STATE_AHEAD_MAX_S)
		return err_field(err, ERR_INVALID, "applied_at",
		                 "applied_at: is more than %d seconds in the future", STATE_AHEAD_MAX_S);
	return intervention_apply(&i->q, c->services->tables.names[TABLE_AUTH_STATE], t, &c->changes, &i->r,
	                          err);
}

void intervention_set_encode(struct v1_call *c, struct json_writer *w)
{
	const struct intervention_call *i = c->request;

	json_begin_object(w);
	v1_write_bool(w, BYTES("applied"), i->r.applied);
	if (!i->r.applied)
		v1_write_text(w, BYTES("reason"), BYTES("older_than_latest"));
	v1_write_time(w, BYTES("latest_applied_at"), i->r.latest_s);
	json_name(w, BYTES("states"));
	json_begin_object(w);
	for (int n = 0; n < INTERVENTION_COUNT; n++)
		v1_write_bool(w, bytes_of(intervention_name((enum intervention_flag)n)), i->r.flags[n]);
	json_end_object(w);
	if (i->r.is_void)
		v1_write_text(w, BYTES("void"), BYTES("reset_password"));
	json_end_object(w);
}

/* ---- email fraud ---- */

struct fraud_call {
	struct bytes     subject;
	enum email_fraud state;
	int64_t          duration_s, until_s, now_us;
};

enum err_code email_fraud_set_decode(struct v1_call *c, struct err *err)
{
	struct fraud_call *e = arena_zalloc(c->arena, sizeof(*e));
	struct fields      f;

	c->request = e;
	v1_resource(c, "state", BYTES("email_fraud"));
	if (v1_subject_param(c, 0, &e->subject, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	e->state = (enum email_fraud)fields_choice(&f, "state", email_fraud_names, -1);
	e->duration_s = fields_i64_or(&f, "duration", 1, RULE_SECONDS_MAX, EMAIL_FRAUD_DENY_S);
	if (e->state != EMAIL_FRAUD_DENY && fields_has(&f, "duration"))
		fields_fail(&f, "duration", ERR_INVALID, "is for DENY only");
	return fields_end(&f);
}

enum err_code email_fraud_set_run(struct v1_call *c, struct table *t, struct err *err)
{
	struct fraud_call *e = c->request;

	(void)err;
	e->now_us = t->now_us;
	email_fraud_set(e->subject, e->state, e->duration_s, c->services->tables.names[TABLE_AUTH_STATE],
	                t->now_us, &c->changes, &e->until_s);
	return ERR_NONE;
}

void email_fraud_set_encode(struct v1_call *c, struct json_writer *w)
{
	const struct fraud_call *e = c->request;

	json_begin_object(w);
	v1_write_text(w, BYTES("state"), bytes_of(email_fraud_names[e->state]));
	v1_write_time(w, BYTES("until"), e->until_s);
	if (e->until_s > 0)
		v1_write_i64(w, BYTES("retry_after"), verdict_retry_after(e->until_s, e->now_us));
	json_end_object(w);
}

/* ---- clearing ---- */

struct state_clear_call {
	struct bytes      subject;
	enum state_family family;
	const char       *names[STATES_MAX];
	uint32_t          count;
};

enum err_code state_clear_decode(struct v1_call *c, struct err *err)
{
	struct state_clear_call *s = arena_zalloc(c->arena, sizeof(*s));

	c->request = s;
	if (v1_subject_param(c, 0, &s->subject, err) != ERR_NONE)
		return err->code;
	for (int i = 0; state_family_names[i] != NULL; i++) {
		if (!bytes_is(c->params[1], state_family_names[i]))
			continue;
		s->family = (enum state_family)i;
		v1_resource(c, "state", c->params[1]);
		return ERR_NONE;
	}
	return err_field(err, ERR_INVALID, "family", "family: must be intervention or email_fraud");
}

enum err_code state_clear_run(struct v1_call *c, struct table *t, struct err *err)
{
	struct state_clear_call *s = c->request;

	return states_clear(s->subject, s->family, c->services->tables.names[TABLE_AUTH_STATE], t,
	                    &c->changes, s->names, &s->count, err);
}

void state_clear_encode(struct v1_call *c, struct json_writer *w)
{
	const struct state_clear_call *s = c->request;

	json_begin_object(w);
	v1_write_bool(w, BYTES("cleared"), s->count > 0);
	json_name(w, BYTES("states"));
	json_begin_array(w);
	for (uint32_t i = 0; i < s->count; i++)
		json_string(w, bytes_of(s->names[i]));
	json_end_array(w);
	json_end_object(w);
}
