/* POST /v1/tokens/verify: is this token good, and may its user act? One verdict. And what other routes do with tokens. */
#include "api/v1_tokens.h"

#include "api/v1_check.h"
#include "api/v1_name.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/outage.h"

struct verify_call {
	struct v1_token     token;
	const struct rules *rules;
	struct check        check; /* nothing in it: no actions were asked about */
	struct checked      checked;
	struct attempt      nobody; /* whom it is about, until the token is judged */
	bool                enforce;
};

static const char foreign_text[] = "the issuer of the token does not speak for this user";

/* ---- tokens, for all routes ---- */

void v1_token_read(struct v1_call *c, struct bytes text, struct bytes audience, struct v1_token *out)
{
	struct verifier  *verifier = c->call.loop->api->parts.verifier;
	struct token_call call = {c->json, c->ctx.arena, c->ctx.now_us};

	*out = (struct v1_token){.given = true, .outcome = TOKEN_ISSUER};
	if (verifier == NULL)
		return;
	out->outcome = verifier_verify(verifier, &call, text, &out->jwt, &out->retry_s);
	if (out->outcome == TOKEN_VALID && audience.len > 0 && !jwt_is_for(&out->jwt, audience))
		out->outcome = TOKEN_AUDIENCE;
}

static void invalid(struct v1_token *t, int64_t now_us)
{
	struct verdict *v = &t->is.verdict;

	*v = (struct verdict){.kind = VERDICT_INVALID_TOKEN, .reason = token_outcome_name(t->outcome)};
	if (t->retry_s > 0) {
		v->until_s = now_us / 1000000 + t->retry_s;
		t->is.wait = (struct verdict_wait){v->until_s, t->retry_s};
	}
	t->judged = true;
}

static enum err_code check_denied(struct v1_call *c, struct bytes user, struct err *err)
{
	if (!v1_denied(c, "user", user))
		return ERR_NONE;
	return err_set(err, ERR_ACCESS, "the policy of this key denies it the user of this token");
}

enum err_code v1_token_judge(struct v1_call *c, struct v1_token *t, const struct token_actions *actions,
                             struct err *err)
{
	struct token_facts facts = {.issuer = t->jwt.issuer,
	                            .jti = t->jwt.id,
	                            .client = t->jwt.client,
	                            .subject = t->jwt.subject,
	                            .provider = t->jwt.provider,
	                            .issued_s = t->jwt.issued_us / 1000000,
	                            .ahead_s = t->jwt.ahead_s};
	enum err_code      rc;

	t->judged = false;
	if (t->outcome != TOKEN_VALID) {
		invalid(t, c->ctx.now_us);
		return ERR_NONE;
	}
	if (check_denied(c, t->jwt.subject, err) != ERR_NONE)
		return err->code;
	if (actions != NULL)
		rc = token_judge_actions(&c->ctx, &facts, actions, &t->is, err);
	else
		rc = token_judge(&c->ctx, &facts, t->rules, &t->is, err);
	if (rc == ERR_NONE && !bytes_equal(t->is.user, t->jwt.subject)) /* the owner of the address */
		rc = check_denied(c, t->is.user, err);
	t->judged = rc == ERR_NONE;
	return rc;
}

enum err_code v1_token_settle(struct v1_call *c, struct v1_token *t, struct err *err)
{
	const struct outage *o = c->ctx.services->outage;

	if (!t->judged || !t->is.unsure)
		return ERR_NONE;
	t->judged = false;
	return err_set(err, ERR_OVERLOADED,
	               "the tables do not answer, and what this server knows of the token's subject is "
	               "older than %lld s, or nothing; try again later",
	               (long long)(known_token_us(o->known) / 1000000));
}

void v1_token_degraded(struct v1_call *c)
{
	if (c->ctx.degraded)
		v1_header(c, BYTES("X-Gatehouse-Degraded"), BYTES("true"));
}

static void write_text(struct json_writer *w, struct bytes name, struct bytes value)
{
	if (value.len > 0)
		json_member_text(w, name, value);
}

void v1_token_write(struct json_writer *w, const struct v1_token *t)
{
	json_member_bool(w, BYTES("valid"), t->judged && t->is.verdict.kind == VERDICT_ALLOW);
	if (t->outcome != TOKEN_VALID)
		return;
	write_text(w, BYTES("subject"), t->jwt.subject);
	write_text(w, BYTES("issuer"), t->jwt.issuer);
	write_text(w, BYTES("client"), t->jwt.client);
	write_text(w, BYTES("token_use"), t->jwt.use);
	v1_write_time(w, BYTES("issued_at"), t->jwt.issued_us / 1000000);
	v1_write_time(w, BYTES("expires_at"), t->jwt.expires_us / 1000000);
	if (t->is.revoked.kind != REVOKED_NOTHING)
		json_member_text(w, BYTES("revoked"), bytes_of(revocation_kind_names[t->is.revoked.kind]));
}

void v1_token_challenge(struct v1_call *c, const struct v1_token *t)
{
	struct bytes text = BYTES("Bearer");

	if (t->given && t->retry_s > 0) {
		c->status = 503;
		v1_header(c, BYTES("Retry-After"), arena_printf(c->ctx.arena, "%lld", (long long)t->retry_s));
		return;
	}
	c->status = 401;
	if (t->given)
		text = arena_printf(c->ctx.arena, "Bearer error=\"invalid_token\", error_description=\"%s\"",
		                    t->outcome != TOKEN_VALID ? token_outcome_text(t->outcome)
		                    : t->is.foreign           ? foreign_text
		                                              : "the token was revoked");
	v1_header(c, BYTES("WWW-Authenticate"), text);
}

void v1_token_count(struct v1_call *c, const struct v1_token *t)
{
	struct verifier *verifier = c->call.loop->api->parts.verifier;

	if (verifier == NULL || !t->given || !t->judged || t->outcome != TOKEN_VALID)
		return;
	verifier_judged(verifier, t->is.verdict.kind == VERDICT_ALLOW           ? TOKEN_TAKEN
	                          : t->is.inactive                              ? TOKEN_INACTIVE
	                          : t->is.foreign                               ? TOKEN_BARRED
	                          : t->is.verdict.kind == VERDICT_INVALID_TOKEN ? TOKEN_REVOKED
	                                                                        : TOKEN_BARRED);
}

/* ---- the route ---- */

static bool asks_actions(struct fields *f)
{
	return fields_has(f, "journey") || fields_has(f, "actions");
}

enum err_code token_verify_name(struct v1_call *c, struct err *err)
{
	struct fields f;

	fields_init(&f, c->body, err);
	if (fields_failed(&f))
		return err->code;
	return asks_actions(&f) ? v1_name_journey(c, err) : ERR_NONE;
}

enum err_code token_verify_decode(struct v1_call *c, struct err *err)
{
	struct verify_call *v = v1_request(c, sizeof(*v));
	const struct json  *token;
	struct bytes        audience;
	struct fields       f;

	c->who = &v->nobody;
	v->rules = v1_rules(c);
	fields_init(&f, c->body, err);
	token = fields_get(&f, "token");
	if (token == NULL || token->type != JSON_STRING)
		fields_fail(&f, "token", ERR_INVALID, "must be a JSON Web Token, as a string");
	audience = fields_text_or(&f, "audience", TOKEN_TEXT_BYTES_MAX, (struct bytes){NULL, 0});
	if (asks_actions(&f)) {
		v->check.who.rules = v->rules;
		check_read(c, &f, &v->check);
	}
	v->enforce = v1_read_enforce(c, &f);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	v1_token_read(c, json_text(token), audience, &v->token);
	v->token.rules = v->rules;
	return ERR_NONE;
}

enum err_code token_verify_run(struct v1_call *c, struct err *err)
{
	struct verify_call  *v = c->request;
	struct token_actions actions = {&v->check, &v->checked};

	if (v1_token_judge(c, &v->token, v->check.action_count > 0 ? &actions : NULL, err) != ERR_NONE)
		return err->code;
	if (v1_token_settle(c, &v->token, err) != ERR_NONE)
		return err->code;
	if (v->enforce && v->token.is.inactive) {
		v1_token_count(c, &v->token);
		return err_set(err, ERR_INACTIVE, "Account is not active");
	}
	return ERR_NONE;
}

static void enforce(struct v1_call *c, const struct v1_token *t)
{
	if (t->is.verdict.kind == VERDICT_INVALID_TOKEN)
		v1_token_challenge(c, t);
	else
		v1_enforce_wait(c, t->is.verdict.kind, &t->is.wait);
}

void token_verify_encode(struct v1_call *c, struct json_writer *w)
{
	struct verify_call *v = c->request;
	struct v1_token    *t = &v->token;

	v1_token_count(c, t);
	v1_token_degraded(c);
	if (v->enforce)
		enforce(c, t);
	json_begin_object(w);
	v1_token_write(w, t);
	v1_write_verdict_wait(w, &t->is.verdict, &t->is.wait, c->ctx.now_us);
	if (t->outcome != TOKEN_VALID || t->is.foreign)
		json_member_text(w, BYTES("detail"),
		                 bytes_of(t->is.foreign ? foreign_text : token_outcome_text(t->outcome)));
	v1_write_required(w, &t->is.required);
	if (v->check.action_count > 0 && t->outcome == TOKEN_VALID)
		check_write(w, &(struct check_shown){&v->check, &v->checked}, c->ctx.now_us);
	v1_write_degraded(c, w);
	json_end_object(w);
}
