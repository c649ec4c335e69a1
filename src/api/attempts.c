/* POST /v1/attempts: counts, evaluates, locks, records and answers, in one durable call. */
#include "service/attempt.h"
#include "service/rule_tally.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"

struct attempts_call {
	struct attempt        q;
	enum outcome          outcome;
	bool                  enforce;
	struct attempt_result r;
	int64_t               now_us;
};

static const char *const outcomes[] = {"failure", "success", "sent", NULL};

static bool notification_known(const struct rule *rule, struct bytes type)
{
	for (uint32_t i = 0; i < rule->notification_count; i++)
		if (bytes_equal(rule->notifications[i], type))
			return true;
	return rule->notification_count == 0;
}

/* The rule, and whether the rest fits to it. */
static void read_rule(struct fields *f, struct attempts_call *a, struct bytes journey)
{
	struct bytes       type = v1_read_name(f, "type", false);
	const struct rule *rule;

	if (f->err->code != ERR_NONE)
		return;
	rule = a->q.rule = rules_find(a->q.rules, journey, type, a->q.method_type);
	if (rule == NULL) {
		fields_fail(f, "type", ERR_INVALID, "the journey %.*s has no type %.*s", BYTES_ARG(journey),
		            BYTES_ARG(type));
		return;
	}
	if (a->outcome == OUTCOME_SENT && rule->counts != COUNT_SENT)
		fields_fail(f, "outcome", ERR_INVALID, "%.*s counts failures: say failure or success",
		            BYTES_ARG(type));
	if (a->outcome == OUTCOME_FAILURE && rule->counts == COUNT_SENT)
		fields_fail(f, "outcome", ERR_INVALID, "%.*s counts what was sent: say sent or success",
		            BYTES_ARG(type));
	v1_check_source(f, &a->q, rule);
	v1_check_qualifier(f, &a->q, rule);
	if (a->q.notification_type.len > 0 && !notification_known(rule, a->q.notification_type))
		fields_fail(f, "notification_type", ERR_INVALID, "is not one of %.*s/%.*s",
		            BYTES_ARG(journey), BYTES_ARG(type));
}

enum err_code attempt_decode(struct v1_call *c, struct err *err)
{
	struct attempts_call *a = arena_zalloc(c->arena, sizeof(*a));
	struct bytes          journey;
	struct fields         f;

	c->request = a;
	a->q.rules = v1_rules(c);
	fields_init(&f, c->body, err);
	v1_read_subjects(c, &f, &a->q);
	journey = v1_read_journey(c, &f, a->q.rules);
	v1_read_method(c, &f, &a->q);
	v1_read_context(c, &f, &a->q);
	a->outcome = (enum outcome)fields_choice(&f, "outcome", outcomes, -1);
	read_rule(&f, a, journey);
	if (a->outcome == OUTCOME_SUCCESS)
		v1_make_device(c, &a->q);
	a->enforce = v1_enforces_status(c, err);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	return v1_check_follows(c, a->q.rule,
	                        a->outcome == OUTCOME_SUCCESS ? &a->q.rule->clears : &a->q.rule->sets, err);
}

enum err_code attempt_run(struct v1_call *c, struct table *t, struct err *err)
{
	struct attempts_call *a = c->request;

	a->now_us = t->now_us;
	if (attempt_record(&a->q, a->outcome, c->services->tables.names[TABLE_AUTH_STATE], t, &c->changes,
	                   &a->r, err) != ERR_NONE)
		return err->code;
	c->has_secret = a->r.device.token.len > 0;
	return ERR_NONE;
}

static void meter_devices(struct meter_shard *m, const struct attempt *q, const struct attempt_result *r)
{
	if (q->token_sent && q->rule->max_device > 0)
		metric_add(&m->devices[r->known_device ? METER_DEVICE_KNOWN : METER_DEVICE_UNKNOWN], 1);
	if (r->device_revoked)
		metric_add(&m->devices[METER_DEVICE_SPENT], 1);
	if (r->device.token.len > 0)
		metric_add(&m->devices[METER_DEVICE_ISSUED], 1);
}

void attempt_committed(struct v1_call *c)
{
	const struct attempts_call *a = c->request;
	struct meter_shard         *m = ((struct api_loop *)c->http->loop_data)->meter;
	struct rule_tally          *tally = a->q.rule->tally;

	metric_add(&tally->verdicts[ASKED_ATTEMPT][a->r.verdict.kind], 1);
	if (a->q.rule->shadow)
		metric_add(&tally->shadows[a->r.shadow.kind], 1);
	if (a->r.first_time && a->q.rule->at_max == AT_MAX_LOCK && !a->q.rule->shadow)
		metric_add(&tally->locks_set, 1);
	meter_devices(m, &a->q, &a->r);
}

/* ---- the answer ---- */

static void write_counts(struct json_writer *w, const struct attempts_call *a)
{
	const struct attempt_result *r = &a->r;

	if (r->nearest.max == 0 ||
	    (r->nearest.count == 0 && r->verdict.kind != VERDICT_ALLOW)) /* a lock took its place */
		return;
	json_key(w, BYTES("counts"));
	json_begin_object(w);
	json_name(w, a->q.rule->type);
	json_begin_object(w);
	v1_write_count(w, &r->nearest, a->now_us);
	json_end_object(w);
	json_end_object(w);
}

static void write_cleared(struct json_writer *w, const struct attempt_result *r)
{
	if (r->cleared_count == 0)
		return;
	json_key(w, BYTES("cleared"));
	json_begin_array(w);
	for (uint32_t i = 0; i < r->cleared_count; i++) {
		json_begin_object(w);
		v1_write_text(w, BYTES("subject"), r->cleared[i].pk);
		v1_write_text(w, BYTES("key"), r->cleared[i].sk);
		v1_write_i64(w, BYTES("count"), r->cleared[i].count);
		json_end_object(w);
	}
	json_end_array(w);
}

/* A token is told once and kept nowhere: a replay says that it was issued, no more. */
static void write_device(const struct v1_call *c, struct json_writer *w, const struct attempts_call *a)
{
	const struct attempt_result *r = &a->r;

	if (a->q.token_sent)
		v1_write_bool(w, BYTES("known_device"), r->known_device);
	if (r->device_revoked)
		v1_write_bool(w, BYTES("device_forgotten"), true);
	if (r->device.token.len == 0)
		return;
	if (c->keeping)
		v1_write_bool(w, BYTES("already_issued"), true);
	else
		v1_write_text(w, BYTES("device_token"), r->device.token);
	v1_write_time(w, BYTES("device_expires"), r->device.expires_s);
}

void attempt_encode(struct v1_call *c, struct json_writer *w)
{
	const struct attempts_call  *a = c->request;
	const struct attempt_result *r = &a->r;

	if (a->enforce)
		v1_enforce_verdict(c, &r->verdict, a->now_us);
	json_begin_object(w);
	v1_write_verdict(w, &r->verdict, a->now_us);
	v1_write_required(w, &r->required);
	v1_write_bool(w, BYTES("counted"), r->counted);
	v1_write_bool(w, BYTES("first_time"), r->first_time);
	write_device(c, w, a);
	write_counts(w, a);
	write_cleared(w, r);
	if (a->q.rule->shadow) {
		json_key(w, BYTES("shadow"));
		json_begin_object(w);
		v1_write_verdict(w, &r->shadow, a->now_us);
		json_end_object(w);
	}
	v1_write_i64(w, BYTES("policy_version"), a->q.rules->base.version);
	json_end_object(w);
}
