/* POST /v1/check: one verdict over several actions and limits, without counting anything. */
#include "api/v1_check.h"

#include "api/v1_limits.h"
#include "api/v1_name.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_tokens.h"
#include "api/v1_write.h"
#include "service/rules.h"

struct check_call {
	struct check    q;
	struct checked  r;
	struct v1_token token;
	bool            of_token; /* the subject is the token's */
	bool            enforce;
};

static bool is_asked(const struct check *c, const struct rule *rule)
{
	for (uint32_t i = 0; i < c->action_count; i++)
		if (bytes_equal(c->actions[i]->type, rule->type))
			return true;
	return false;
}

static void action_unknown(struct fields *f, const struct rules *rules, struct bytes type,
                           struct bytes journey)
{
	const struct rule *meant = rules_type_meant(rules, journey, type);

	if (meant == NULL)
		fields_fail(f, "actions", ERR_INVALID,
		            "must be a list of types that the journey %.*s has in the policies",
		            BYTES_ARG(journey));
	else
		fields_fail(f, "actions", ERR_INVALID,
		            "the journey %.*s has no type %.*s; did you mean %.*s?", BYTES_ARG(journey),
		            BYTES_ARG(type), BYTES_ARG(meant->type));
}

static void read_action(struct fields *f, struct check *c, const struct json *member, struct bytes journey)
{
	const struct rule *rule = NULL;

	if (member->type == JSON_STRING)
		rule = rules_find(c->who.rules, journey, json_text(member), c->who.method_type);
	if (rule == NULL)
		action_unknown(f, c->who.rules, json_text(member), journey);
	else if (is_asked(c, rule))
		fields_fail(f, "actions", ERR_INVALID, "names %.*s twice", BYTES_ARG(rule->type));
	else
		c->actions[c->action_count++] = rule;
	if (rule != NULL)
		v1_check_source(f, &c->who, rule);
}

static void read_actions(struct fields *f, struct check *c, struct bytes journey)
{
	const struct json *actions = fields_array(f, "actions", CHECK_ACTIONS_MAX);

	if (fields_failed(f))
		return;
	if (actions == NULL || actions->count == 0) {
		fields_fail(f, "actions", ERR_INVALID, "must name at least one type of the journey");
		return;
	}
	for (const struct json *m = fields_first(f, actions); m != NULL; m = fields_next(f, m))
		read_action(f, c, m, journey);
}

static void read_limits(struct v1_call *c, struct fields *f, struct check *out)
{
	if (fields_get(f, "limits") == NULL || !fields_has(f, "limits"))
		return;
	out->limits = arena_zalloc(c->ctx.arena, sizeof(*out->limits));
	out->limits->verb = LIMIT_LOOK;
	limit_call_read_list(c, f, "limits", limit_call_policies(c), out->limits);
}

void check_read(struct v1_call *c, struct fields *f, struct check *out)
{
	struct bytes journey = v1_read_journey(c, f, out->who.rules);

	v1_read_method(c, f, &out->who);
	v1_read_context(c, f, &out->who);
	v1_read_challenge(f, &out->who);
	read_actions(f, out, journey);
}

/* The token's subject is the call's, unless that is given. */
static void read_token(struct v1_call *c, struct fields *f, struct check_call *k)
{
	const struct json *token = fields_get(f, "token");
	struct attempt    *who = &k->q.who;
	struct bytes       email;

	if (token == NULL)
		return;
	if (token->type != JSON_STRING) {
		fields_fail(f, "token", ERR_INVALID, "must be a JSON Web Token, as a string");
		return;
	}
	v1_token_read(c, json_text(token), (struct bytes){NULL, 0}, &k->token);
	k->token.rules = who->rules;
	if (fields_has(f, "subject") || fields_has(f, "subjects") || k->token.outcome != TOKEN_VALID)
		return;
	k->of_token = true;
	who->subjects[0] = token_subject(&c->ctx, k->token.jwt.subject, &email);
	who->subject_count = 1;
	if (who->subjects[0].len == 0)
		fields_fail(f, "subject", ERR_INVALID,
		            "missing, and the token's own cannot be one: it is too long, or looks personal");
}

enum err_code check_actions_name(struct v1_call *c, struct err *err)
{
	struct fields f;

	if (v1_name_journey(c, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	if (fields_get(&f, "limits") != NULL)
		limit_call_name_list(c, &f, "limits", V1_LOOKED);
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code check_actions_decode(struct v1_call *c, struct err *err)
{
	struct check_call *k = v1_request(c, sizeof(*k));
	struct fields      f;

	c->who = &k->q.who;
	k->q.who.rules = v1_rules(c);
	fields_init(&f, c->body, err);
	read_token(c, &f, k);
	if (!k->token.given || fields_has(&f, "subject") || fields_has(&f, "subjects"))
		v1_read_subjects(c, &f, &k->q.who);
	check_read(c, &f, &k->q);
	read_limits(c, &f, &k->q);
	k->enforce = v1_read_enforce(c, &f);
	return fields_end(&f);
}

enum err_code check_actions_run(struct v1_call *c, struct err *err)
{
	struct check_call *k = c->request;

	if (k->token.given && v1_token_judge(c, &k->token, NULL, err) != ERR_NONE)
		return err->code;
	if (k->of_token &&
	    k->token.is.foreign) /* nothing is told of a user whom its issuer does not speak for */
		k->q.who.subject_count = 0;
	if (k->q.who.subject_count == 0) /* nobody knows whose: the token is not valid */
		k->q.action_count = 0;
	if (check_run(&c->ctx, &k->q, &k->r, err) != ERR_NONE)
		return err->code;
	check_join(&k->r, &k->token.is.verdict, k->token.is.wait);
	c->denies = k->r.verdict.kind >= VERDICT_LOCKED && k->q.limits == NULL && !k->token.given;
	return ERR_NONE;
}

static void write_action(struct json_writer *w, const struct check_shown *s, uint32_t at, int64_t now_us)
{
	const struct rule         *rule = s->q->actions[at];
	const struct check_action *a = &s->r->actions[at];

	json_name(w, rule->type);
	json_begin_object(w);
	v1_write_verdict(w, &a->verdict, now_us);
	if (s->q->who.token_sent)
		json_member_bool(w, BYTES("known_device"), a->known_device);
	if (a->nearest.max > 0)
		v1_write_count(w, &a->nearest, now_us);
	if (rule->shadow) {
		json_name(w, BYTES("shadow"));
		json_begin_object(w);
		v1_write_verdict(w, &a->shadow, now_us);
		json_end_object(w);
	}
	json_end_object(w);
}

static void write_limits(struct json_writer *w, const struct limit_call *limits, int64_t now_us)
{
	limit_call_write_results(w, BYTES("limits"), limits, now_us);
	if (limits->degraded)
		json_member_bool(w, BYTES("degraded"), true);
}

/* Of each action its own verdict; limits, which are of all of them, can only make an "allow" of it "limited". */
static void count_verdicts(const struct check_shown *s)
{
	bool limited = s->q->limits != NULL && !s->q->limits->allowed;

	for (uint32_t i = 0; i < s->r->action_count; i++) {
		const struct verdict *v = &s->r->actions[i].verdict;
		enum verdict_kind     kind = v->kind == VERDICT_ALLOW && limited ? VERDICT_LIMITED : v->kind;

		metric_add(&s->q->actions[i]->tally->verdicts[ASKED_CHECK][kind], 1);
		rule_tally_risk(s->q->actions[i], v);
	}
}

void check_write(struct json_writer *w, const struct check_shown *s, int64_t now_us)
{
	count_verdicts(s);
	json_name(w, BYTES("actions"));
	json_begin_object(w);
	for (uint32_t i = 0; i < s->r->action_count; i++)
		write_action(w, s, i, now_us);
	json_end_object(w);
	if (s->q->limits != NULL)
		write_limits(w, s->q->limits, now_us);
	json_member_i64(w, BYTES("policy_version"), s->q->who.rules->base.version);
}

static void write_token(struct json_writer *w, const struct v1_token *t, int64_t now_us)
{
	json_name(w, BYTES("token"));
	json_begin_object(w);
	v1_token_write(w, t);
	v1_write_verdict_wait(w, &t->is.verdict, &t->is.wait, now_us);
	json_end_object(w);
}

void check_actions_encode(struct v1_call *c, struct json_writer *w)
{
	struct check_call *k = c->request;

	v1_token_count(c, &k->token);
	if (k->enforce && k->r.verdict.kind == VERDICT_INVALID_TOKEN)
		v1_token_challenge(c, &k->token);
	else if (k->enforce)
		v1_enforce_wait(c, k->r.verdict.kind, &k->r.wait);
	states_required_join(&k->r.required, &k->token.is.required);
	json_begin_object(w);
	v1_write_verdict_wait(w, &k->r.verdict, &k->r.wait, c->ctx.now_us);
	v1_write_required(w, &k->r.required);
	if (k->token.given)
		write_token(w, &k->token, c->ctx.now_us);
	check_write(w, &(struct check_shown){&k->q, &k->r}, c->ctx.now_us);
	if (k->q.limits == NULL || !k->q.limits->degraded) /* else it is said */
		v1_write_degraded(c, w);
	json_end_object(w);
}
