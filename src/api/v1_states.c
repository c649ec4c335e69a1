/* What interventions and fraud checks say of a subject, and what replacing a credential clears:
 *   PUT and DELETE /v1/subjects/{id}/states/{family}
 *   POST /v1/subjects/{id}/reset */
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/subject.h"
#include "service/state.h"

static enum err_code read_path(struct v1_call *c, struct bytes *subject, enum state_family *family,
                               struct err *err)
{
	if (v1_subject_param(c, 0, subject, err) != ERR_NONE)
		return err->code;
	for (int i = 0; state_family_names[i] != NULL; i++) {
		if (!bytes_is(c->params[1], state_family_names[i]))
			continue;
		*family = (enum state_family)i;
		return ERR_NONE;
	}
	return err_field(err, ERR_INVALID, "family", "family: must be intervention or email_fraud");
}

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

		if (fields_get(f, name) == NULL)
			continue;
		any = true;
		q->flags[i] = fields_bool_or(f, name, false) ? FLAG_ON : FLAG_OFF;
	}
	if (!any)
		fields_fail(f, NULL, ERR_INVALID,
		            "at least one of blocked, suspended, reprove_identity and reset_password is "
		            "required");
}

static void intervention_read(struct fields *f, struct intervention *q)
{
	read_flags(f, q);
	q->applied_s = v1_read_time(f, "applied_at");
}

/* An intervention from the future would keep all others out until then. */
static enum err_code intervention_run(struct v1_call *c, struct intervention_call *i, struct err *err)
{
	if (i->q.applied_s > c->ctx.now_us / 1000000 + STATE_AHEAD_MAX_S)
		return err_field(err, ERR_INVALID, "applied_at",
		                 "applied_at: must be at most %d seconds in the future", STATE_AHEAD_MAX_S);
	return intervention_apply(&c->ctx, &i->q, &i->r, err);
}

/* What was met since, and is therefore not set. */
static void write_void(struct json_writer *w, const struct intervention_result *r)
{
	bool any = false;

	for (int n = 0; n < INTERVENTION_COUNT; n++)
		any |= r->is_void[n];
	if (!any)
		return;
	json_name(w, BYTES("void"));
	json_begin_array(w);
	for (int n = 0; n < INTERVENTION_COUNT; n++)
		if (r->is_void[n])
			json_string(w, bytes_of(intervention_name((enum intervention_flag)n)));
	json_end_array(w);
}

static void intervention_write(struct json_writer *w, const struct intervention_call *i)
{
	json_member_bool(w, BYTES("applied"), i->r.applied);
	if (!i->r.applied)
		json_member_text(w, BYTES("reason"), BYTES("older_than_latest"));
	v1_write_time(w, BYTES("latest_applied_at"), i->r.latest_s);
	json_name(w, BYTES("states"));
	json_begin_object(w);
	for (int n = 0; n < INTERVENTION_COUNT; n++)
		json_member_bool(w, bytes_of(intervention_name((enum intervention_flag)n)), i->r.flags[n]);
	json_end_object(w);
	write_void(w, &i->r);
}

/* ---- email fraud ---- */

struct fraud_call {
	enum email_fraud state;
	int64_t          duration_s, until_s;
};

static void fraud_read(struct fields *f, struct fraud_call *e)
{
	e->state = (enum email_fraud)fields_choice(f, "state", email_fraud_names, -1);
	e->duration_s = fields_i64_or(f, "duration", 1, RULE_SECONDS_MAX, EMAIL_FRAUD_DENY_S);
	if (e->state != EMAIL_FRAUD_DENY && fields_has(f, "duration"))
		fields_fail(f, "duration", ERR_INVALID, "only valid if `state` is DENY");
}

static void fraud_write(struct json_writer *w, const struct fraud_call *e, int64_t now_us)
{
	json_member_text(w, BYTES("state"), bytes_of(email_fraud_names[e->state]));
	v1_write_time(w, BYTES("until"), e->until_s);
	if (e->until_s > 0)
		json_member_i64(w, BYTES("retry_after"), clock_seconds_left(e->until_s, now_us));
}

/* ---- setting ---- */

struct state_set_call {
	struct bytes             subject;
	enum state_family        family;
	struct intervention_call intervention;
	struct fraud_call        fraud;
};

enum err_code state_set_decode(struct v1_call *c, struct err *err)
{
	struct state_set_call *s = v1_request(c, sizeof(*s));
	struct fields          f;

	if (read_path(c, &s->subject, &s->family, err) != ERR_NONE)
		return err->code;
	s->intervention.q.subject = s->subject;
	fields_init(&f, c->body, err);
	if (s->family == FAMILY_INTERVENTION)
		intervention_read(&f, &s->intervention.q);
	else
		fraud_read(&f, &s->fraud);
	return fields_end(&f);
}

enum err_code state_set_run(struct v1_call *c, struct err *err)
{
	struct state_set_call *s = c->request;

	if (s->family == FAMILY_INTERVENTION)
		return intervention_run(c, &s->intervention, err);
	return email_fraud_set(&c->ctx,
	                       &(struct email_fraud_new){s->subject, s->fraud.state, s->fraud.duration_s},
	                       &s->fraud.until_s, err);
}

void state_set_encode(struct v1_call *c, struct json_writer *w)
{
	const struct state_set_call *s = c->request;

	json_begin_object(w);
	if (s->family == FAMILY_INTERVENTION)
		intervention_write(w, &s->intervention);
	else
		fraud_write(w, &s->fraud, c->ctx.now_us);
	json_end_object(w);
}

/* ---- clearing ---- */

struct state_clear_call {
	struct bytes          subject;
	enum state_family     family;
	struct states_cleared cleared;
};

enum err_code state_clear_decode(struct v1_call *c, struct err *err)
{
	struct state_clear_call *s = v1_request(c, sizeof(*s));

	return read_path(c, &s->subject, &s->family, err);
}

enum err_code state_clear_run(struct v1_call *c, struct err *err)
{
	struct state_clear_call *s = c->request;

	return states_clear(&c->ctx, s->subject, s->family, &s->cleared, err);
}

void state_clear_encode(struct v1_call *c, struct json_writer *w)
{
	const struct state_clear_call *s = c->request;

	json_begin_object(w);
	json_member_bool(w, BYTES("cleared"), s->cleared.count > 0);
	json_name(w, BYTES("states"));
	json_begin_array(w);
	for (uint32_t i = 0; i < s->cleared.count; i++)
		json_string(w, bytes_of(s->cleared.names[i]));
	json_end_array(w);
	json_end_object(w);
}

/* ---- reset: a credential was replaced; clears what the policies say that clears ---- */

struct reset_call {
	struct attempt       who; /* the path's id, and those of the body */
	struct reset_request q;
	struct reset_result  r;
};

enum err_code reset_name(struct v1_call *c, struct err *err)
{
	const struct reset *reset;
	struct bytes        name;
	struct fields       f;

	fields_init(&f, c->body, err);
	name = v1_read_name(&f, "reset", false);
	if (fields_failed(&f))
		return err->code;
	v1_resource(c, "reset", name);
	reset = rules_reset(v1_rules(c), name);
	for (uint32_t i = 0; reset != NULL && i < reset->locks.count; i++)
		v1_resource(c, "journey", reset->locks.list[i].journey);
	for (uint32_t i = 0; reset != NULL && i < reset->counts.count; i++)
		v1_resource(c, "journey", reset->counts.list[i].journey);
	return ERR_NONE;
}

enum err_code reset_decode(struct v1_call *c, struct err *err)
{
	struct reset_call *r = v1_request(c, sizeof(*r));
	struct bytes       name;
	struct fields      f;

	r->q.rules = v1_rules(c);
	if (v1_subject_param(c, 0, &r->q.subject, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	v1_read_others(c, &f, r->q.subject, &r->who);
	r->q.others = &r->who.subjects[1];
	r->q.emails = r->who.emails == NULL ? NULL : &r->who.emails[1];
	r->q.other_count = r->who.subject_count - 1;
	name = v1_read_name(&f, "reset", false);
	r->q.reset = fields_failed(&f) ? NULL : rules_reset(r->q.rules, name);
	if (!fields_failed(&f) && r->q.reset == NULL)
		fields_fail(&f, "reset", ERR_INVALID,
		            "unknown reset %.*s; the policies list them under `resets`", BYTES_ARG(name));
	r->q.operator_locks = fields_bool_or(&f, "operator_locks", false);
	return fields_end(&f);
}

enum err_code reset_run(struct v1_call *c, struct err *err)
{
	struct reset_call *r = c->request;

	return subject_reset(&c->ctx, &r->q, &r->r, err);
}

void reset_encode(struct v1_call *c, struct json_writer *w)
{
	const struct reset_call *r = c->request;

	json_begin_object(w);
	json_member_text(w, BYTES("reset"), r->q.reset->name);
	json_name(w, BYTES("cleared"));
	json_begin_array(w);
	for (uint32_t i = 0; i < r->r.count; i++) {
		json_begin_object(w);
		json_member_text(w, BYTES("subject"), r->r.cleared[i].pk);
		json_member_text(w, BYTES("key"), r->r.cleared[i].sk);
		json_member_i64(w, BYTES("count"), r->r.cleared[i].count);
		json_end_object(w);
	}
	json_end_array(w);
	json_member_i64(w, BYTES("devices_forgotten"), r->r.devices);
	json_member_bool(w, BYTES("demand_ended"), r->r.met.demand_ended);
	if (r->r.met.suspension_ended)
		json_member_bool(w, BYTES("suspension_ended"), true);
	if (r->r.kept > 0)
		json_member_i64(w, BYTES("operator_locks_kept"), r->r.kept);
	json_member_bool(w, BYTES("more"), r->r.more);
	json_end_object(w);
}
