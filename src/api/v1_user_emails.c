/* Addresses of users:
 *   GET and POST /v1/users/{id}/emails
 *   POST /v1/users/{id}/emails/{email_id}/verify, DELETE /v1/users/{id}/emails/{email_id}
 *   PUT /v1/users/{id}/primary-email */
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_users.h"
#include "api/v1_write.h"
#include "service/user_policy.h"

/* ---- answers ---- */

static void write_members(struct json_writer *w, const struct user_email *e)
{
	json_member_text(w, BYTES("id"), e->id);
	json_member_text(w, BYTES("email"), e->email);
	json_member_text(w, BYTES(EMAIL_TYPED), e->typed);
	json_member_bool(w, BYTES("isVerified"), e->verified);
	json_member_bool(w, BYTES("isPrimary"), e->primary);
	json_member_text(w, BYTES("createdAt"), e->created_at);
	json_member_text(w, BYTES("verifiedAt"), e->verified_at);
	if (!e->verified)
		v1_write_time(w, BYTES("expiresAt"), e->expires_s);
}

void v1_write_email(struct json_writer *w, const struct user_email *e)
{
	json_begin_object(w);
	write_members(w, e);
	json_end_object(w);
}

static bool sent_from_here(const struct v1_call *c)
{
	const struct code_post *post = &c->ctx.services->codes;

	return post->on != NULL && post->on(post->ctx);
}

bool v1_tells_code(const struct v1_call *c, const struct email_terms *terms, const struct email_claim *claim)
{
	return !claim->standing.refused && !terms->neutral && !sent_from_here(c);
}

void v1_write_claim(struct v1_call *c, struct json_writer *w, const struct email_claim *claim)
{
	json_begin_object(w);
	write_members(w, &claim->email);
	if (c->has_secret && !c->keeping)
		json_member_text(w, BYTES("code"), code_bytes(&claim->code));
	v1_write_time(w, BYTES("codeExpiresAt"), claim->code_expires_s);
	json_end_object(w);
}

void v1_write_standing(struct v1_call *c, struct json_writer *w, const struct code_standing *s, bool enforce)
{
	v1_write_verdict(w, &s->verdict, c->ctx.now_us);
	if (enforce)
		v1_enforce_verdict(c, &s->verdict, c->ctx.now_us);
}

/* ---- codes ---- */

const struct attempt *v1_read_from(struct v1_call *c, struct fields *f)
{
	struct attempt *from = arena_zalloc(c->ctx.arena, sizeof(*from));

	from->rules = v1_rules(c);
	v1_read_context(c, f, from);
	return from;
}

/* The policies in force. */
static struct email_terms *terms_make(struct v1_call *c, const struct attempt *from)
{
	struct email_terms *terms = arena_zalloc(c->ctx.arena, sizeof(*terms));
	struct user_policy *policy = document_acquire(&c->ctx.services->users);

	v1_hold(c, &policy->base);
	terms->rules = v1_rules(c);
	terms->policy = policy;
	terms->from = from;
	return terms;
}

/* Who may look up every user may also be told that an address is taken; nobody else. */
enum err_code v1_email_terms(struct v1_call *c, const struct attempt *from, const struct email_terms **out,
                             struct err *err)
{
	struct email_terms *terms = terms_make(c, from);

	terms->neutral = !v1_may_all(c, "LookupUser");
	*out = terms;
	if (terms->neutral && !sent_from_here(c))
		return err_set(err, ERR_ACCESS,
		               "the answer would tell this key whether the address is taken: allow the key "
		               "gatehouse:LookupUser on *, with no Deny, or send codes by a webhook (section "
		               "codes of the identity file)");
	return ERR_NONE;
}

static void counts_note(const struct code_counts *counts)
{
	for (uint32_t i = 0; i < counts->count; i++) {
		const struct rule *rule = counts->list[i].rule;

		rule_tally_note(rule, &(struct tally_note){.verdict = counts->list[i].kind,
		                                           .shadow = counts->list[i].shadow,
		                                           .locked = counts->list[i].locked});
		rule_tally_attempt(rule, counts->list[i].outcome, counts->list[i].kind);
	}
}

static void users_note(struct v1_call *c, enum meter_user what)
{
	metric_add(&c->call.loop->meter->users[what], 1);
}

void v1_claim_committed(struct v1_call *c, struct bytes user, const struct email_claim *claim)
{
	const struct code_post *post = &c->ctx.services->codes;
	struct bytes            typed = claim->hidden ? claim->owner_typed : claim->email.typed;
	struct code_message     m = {.kind = claim->hidden ? CODE_MESSAGE_IN_USE : CODE_MESSAGE_VERIFY,
	                             .user = claim->hidden ? claim->owner : user,
	                             .email = typed.len > 0 ? typed : claim->email.email,
	                             .expires_s = claim->code_expires_s,
	                             .trace = c->ctx.trace};

	counts_note(&claim->standing.counts);
	users_note(c, claim->standing.refused ? METER_CODE_REFUSED : METER_CODE_MADE);
	if (claim->standing.refused || c->has_secret || post->post == NULL)
		return;
	if (!claim->hidden) {
		m.email_id = claim->email.id;
		m.code = code_bytes(&claim->code);
	}
	post->post(post->ctx, &m);
}

enum err_code user_conflict(struct v1_call *c, enum err_code rc, struct err *err)
{
	(void)err;
	if (rc == ERR_EMAIL_TAKEN)
		users_note(c, METER_CONFLICT_EMAIL);
	else if (rc == ERR_USER_EXISTS)
		users_note(c, METER_CONFLICT_ID);
	else if (rc == ERR_MODIFIED || rc == ERR_STALE)
		users_note(c, METER_CONFLICT_VERSION);
	return rc;
}

/* ---- the list, and adding ---- */

struct emails_call {
	struct email_add   q;
	bool               enforce;
	struct user_emails list;
	struct email_claim claim;
};

enum err_code email_list_decode(struct v1_call *c, struct err *err)
{
	struct emails_call *e = v1_request(c, sizeof(*e));

	return v1_user_param(c, &e->q.user, err);
}

enum err_code email_list_run(struct v1_call *c, struct err *err)
{
	struct emails_call *e = c->request;

	return user_emails_find(&c->ctx, e->q.user, &e->list, err);
}

void email_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct emails_call *e = c->request;

	json_begin_object(w);
	json_name(w, BYTES("emails"));
	json_begin_array(w);
	for (uint32_t i = 0; i < e->list.count; i++)
		v1_write_email(w, &e->list.list[i]);
	json_end_array(w);
	json_end_object(w);
}

enum err_code email_add_decode(struct v1_call *c, struct err *err)
{
	struct emails_call   *e = v1_request(c, sizeof(*e));
	const struct attempt *from;
	struct fields         f;

	if (v1_user_param(c, &e->q.user, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	e->q.email = v1_read_email(c, &f, "email", &e->q.typed);
	e->enforce = v1_read_enforce(c, &f);
	from = v1_read_from(c, &f);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	return v1_email_terms(c, from, &e->q.terms, err);
}

enum err_code email_add_run(struct v1_call *c, struct err *err)
{
	struct emails_call *e = c->request;

	if (user_email_add(&c->ctx, &e->q, &e->claim, err) != ERR_NONE)
		return err->code;
	c->has_secret = v1_tells_code(c, e->q.terms, &e->claim);
	return ERR_NONE;
}

void email_add_committed(struct v1_call *c)
{
	const struct emails_call *e = c->request;

	v1_claim_committed(c, e->q.user, &e->claim);
}

void email_add_encode(struct v1_call *c, struct json_writer *w)
{
	const struct emails_call *e = c->request;

	if (!e->claim.standing.refused) {
		c->status = e->claim.again ? 200 : 201;
		v1_write_claim(c, w, &e->claim);
		return;
	}
	json_begin_object(w);
	v1_write_standing(c, w, &e->claim.standing, e->enforce);
	json_end_object(w);
}

/* ---- one address ---- */

enum { EMAIL_ID_BYTES_MAX = 64, CODE_BYTES_MAX = 64 };

struct email_call {
	struct email_entry   q;
	bool                 enforce;
	struct user_match    match;
	struct email_verdict verdict;
	struct user          user;
};

static enum err_code email_decode(struct v1_call *c, struct err *err)
{
	struct email_call *e = v1_request(c, sizeof(*e));

	if (v1_user_param(c, &e->q.user, err) != ERR_NONE)
		return err->code;
	e->q.email_id = c->params[1];
	if (e->q.email_id.len > EMAIL_ID_BYTES_MAX || !bytes_hold_only(e->q.email_id, "-_"))
		return err_field(err, ERR_INVALID, "email_id",
		                 "email_id: must have 1 to %d letters, digits, '-' and '_'",
		                 EMAIL_ID_BYTES_MAX);
	return ERR_NONE;
}

/* Nothing of the answer depends on whether the caller may look users up: whoever has the code has the mailbox. */
enum err_code email_verify_decode(struct v1_call *c, struct err *err)
{
	struct email_call *e;
	struct fields      f;

	if (email_decode(c, err) != ERR_NONE)
		return err->code;
	e = c->request;
	fields_init(&f, c->body, err);
	e->q.code = fields_text(&f, "code", CODE_BYTES_MAX);
	e->enforce = v1_read_enforce(c, &f);
	e->q.terms = terms_make(c, v1_read_from(c, &f));
	return fields_end(&f);
}

enum err_code email_verify_run(struct v1_call *c, struct err *err)
{
	struct email_call *e = c->request;

	return user_email_verify(&c->ctx, &e->q, &e->verdict, err);
}

void email_verify_committed(struct v1_call *c)
{
	static const enum meter_user outcomes[] = {[ENTRY_RIGHT] = METER_ENTRY_RIGHT,
	                                           [ENTRY_WRONG] = METER_ENTRY_WRONG,
	                                           [ENTRY_NO_CODE] = METER_ENTRY_NO_CODE,
	                                           [ENTRY_LOST] = METER_ENTRY_LOST};
	const struct email_verdict  *v = &((const struct email_call *)c->request)->verdict;

	counts_note(&v->standing.counts);
	users_note(c, v->standing.refused ? METER_ENTRY_REFUSED : outcomes[v->outcome]);
	if (!v->standing.refused && v->outcome == ENTRY_LOST)
		users_note(c, METER_CONFLICT_EMAIL);
}

/* An error that has changed something: the claim is gone. */
static void write_lost(struct v1_call *c, struct json_writer *w)
{
	struct err err;

	err_field(&err, ERR_EMAIL_TAKEN, "email", "Email not available");
	c->status = err_v1_status(ERR_EMAIL_TAKEN);
	c->content_type = PROBLEM_CONTENT_TYPE;
	problem_write_err(w->out, ERR_EMAIL_TAKEN, &err);
}

static void write_entry(struct json_writer *w, const struct email_verdict *v, bool stands)
{
	if (v->outcome == ENTRY_WRONG) {
		if (!stands)
			json_member_text(w, BYTES("reason"), BYTES("wrong_code"));
		json_member_i64(w, BYTES("triesLeft"), v->tries_left);
	} else if (v->outcome == ENTRY_NO_CODE && !stands) {
		json_member_text(w, BYTES("reason"), BYTES("no_code"));
	}
}

void email_verify_encode(struct v1_call *c, struct json_writer *w)
{
	const struct email_call    *e = c->request;
	const struct email_verdict *v = &e->verdict;
	bool                        stands = v->standing.verdict.kind != VERDICT_ALLOW;

	if (!v->standing.refused && v->outcome == ENTRY_LOST) {
		write_lost(c, w);
		return;
	}
	json_begin_object(w);
	json_member_bool(w, BYTES("verified"), v->outcome == ENTRY_RIGHT);
	if (stands)
		v1_write_standing(c, w, &v->standing, e->enforce);
	if (!v->standing.refused)
		write_entry(w, v, stands);
	json_name(w, BYTES("email"));
	v1_write_email(w, &v->email);
	json_end_object(w);
}

enum err_code email_remove_decode(struct v1_call *c, struct err *err)
{
	return email_decode(c, err);
}

enum err_code email_remove_run(struct v1_call *c, struct err *err)
{
	return user_email_remove(&c->ctx, &((struct email_call *)c->request)->q, err);
}

void email_remove_encode(struct v1_call *c, struct json_writer *w)
{
	(void)c;
	json_begin_object(w);
	json_member_bool(w, BYTES("removed"), true);
	json_end_object(w);
}

/* ---- which one is primary ---- */

enum err_code email_primary_decode(struct v1_call *c, struct err *err)
{
	struct email_call *e = v1_request(c, sizeof(*e));
	struct fields      f;

	if (v1_user_param(c, &e->q.user, err) != ERR_NONE || v1_user_match(c, &e->match, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	e->q.email_id = fields_text(&f, "emailId", EMAIL_ID_BYTES_MAX);
	if (!fields_failed(&f) && !bytes_hold_only(e->q.email_id, "-_"))
		fields_fail(&f, "emailId", ERR_INVALID, "must have letters, digits, '-' and '_' only");
	e->match.has_version = fields_has(&f, "version");
	e->match.version = fields_i64_or(&f, "version", 0, INT64_MAX - 1, 0);
	return fields_end(&f);
}

enum err_code email_primary_run(struct v1_call *c, struct err *err)
{
	struct email_call *e = c->request;

	return user_email_prefer(&c->ctx, &e->q, &e->match, &e->user, err);
}

void email_primary_encode(struct v1_call *c, struct json_writer *w)
{
	v1_write_user(c, w, &((const struct email_call *)c->request)->user);
}
