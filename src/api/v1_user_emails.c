/* Addresses of users:
 *   GET and POST /v1/users/{id}/emails
 *   POST /v1/users/{id}/emails/{email_id}/verify, DELETE /v1/users/{id}/emails/{email_id}
 *   PUT /v1/users/{id}/primary-email */
#include "api/v1_routes.h"
#include "api/v1_users.h"

/* ---- answers ---- */

static void write_members(struct json_writer *w, const struct user_email *e)
{
	json_member_text(w, BYTES("id"), e->id);
	json_member_text(w, BYTES("email"), e->email);
	json_member_bool(w, BYTES("isVerified"), e->verified);
	json_member_bool(w, BYTES("isPrimary"), e->primary);
	json_member_text(w, BYTES("createdAt"), e->created_at);
	json_member_text(w, BYTES("verifiedAt"), e->verified_at);
	if (!e->verified)
		v1_write_time(w, BYTES("expiresAt"), e->expires_s);
}

static void write_email(struct json_writer *w, const struct user_email *e)
{
	json_begin_object(w);
	write_members(w, e);
	json_end_object(w);
}

void v1_write_claim(struct v1_call *c, struct json_writer *w, const struct email_claim *claim)
{
	json_begin_object(w);
	write_members(w, &claim->email);
	if (!c->keeping)
		json_member_text(w, BYTES("code"), (struct bytes){claim->code, EMAIL_CODE_CHARS});
	v1_write_time(w, BYTES("codeExpiresAt"), claim->code_expires_s);
	json_end_object(w);
}

/* ---- the list, and adding ---- */

struct emails_call {
	struct bytes       user, email;
	struct user_emails list;
	struct email_claim claim;
};

enum err_code email_list_decode(struct v1_call *c, struct err *err)
{
	struct emails_call *e = arena_zalloc(c->ctx.arena, sizeof(*e));

	c->request = e;
	return v1_user_param(c, &e->user, err);
}

enum err_code email_list_run(struct v1_call *c, struct err *err)
{
	struct emails_call *e = c->request;

	return user_emails_find(&c->ctx, e->user, &e->list, err);
}

void email_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct emails_call *e = c->request;

	json_begin_object(w);
	json_name(w, BYTES("emails"));
	json_begin_array(w);
	for (uint32_t i = 0; i < e->list.count; i++)
		write_email(w, &e->list.list[i]);
	json_end_array(w);
	json_end_object(w);
}

enum err_code email_add_decode(struct v1_call *c, struct err *err)
{
	struct emails_call *e = arena_zalloc(c->ctx.arena, sizeof(*e));
	struct fields       f;

	c->request = e;
	if (v1_user_param(c, &e->user, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	e->email = v1_read_email(c, &f, "email");
	return fields_end(&f);
}

enum err_code email_add_run(struct v1_call *c, struct err *err)
{
	struct emails_call *e = c->request;

	c->has_secret = true;
	return user_email_add(&c->ctx, e->user, e->email, &e->claim, err);
}

void email_add_encode(struct v1_call *c, struct json_writer *w)
{
	const struct emails_call *e = c->request;

	c->status = e->claim.again ? 200 : 201;
	v1_write_claim(c, w, &e->claim);
}

/* ---- one address ---- */

enum { EMAIL_ID_BYTES_MAX = 64, CODE_BYTES_MAX = 64 };

struct email_call {
	struct email_entry   q;
	struct user_match    match;
	struct email_verdict verdict;
	struct user          user;
};

static enum err_code email_decode(struct v1_call *c, struct err *err)
{
	struct email_call *e = arena_zalloc(c->ctx.arena, sizeof(*e));

	c->request = e;
	if (v1_user_param(c, &e->q.user, err) != ERR_NONE)
		return err->code;
	e->q.email_id = c->params[1];
	if (e->q.email_id.len > EMAIL_ID_BYTES_MAX || !bytes_hold_only(e->q.email_id, "-_"))
		return err_field(err, ERR_INVALID, "email_id",
		                 "email_id: must have 1 to %d letters, digits, '-' and '_'",
		                 EMAIL_ID_BYTES_MAX);
	return ERR_NONE;
}

enum err_code email_verify_decode(struct v1_call *c, struct err *err)
{
	struct fields f;

	if (email_decode(c, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	((struct email_call *)c->request)->q.code = fields_text(&f, "code", CODE_BYTES_MAX);
	return fields_end(&f);
}

enum err_code email_verify_run(struct v1_call *c, struct err *err)
{
	struct email_call *e = c->request;

	return user_email_verify(&c->ctx, &e->q, &e->verdict, err);
}

void email_verify_encode(struct v1_call *c, struct json_writer *w)
{
	const struct email_verdict *v = &((const struct email_call *)c->request)->verdict;

	json_begin_object(w);
	json_member_bool(w, BYTES("verified"), v->outcome == ENTRY_RIGHT);
	if (v->outcome == ENTRY_WRONG) {
		json_member_text(w, BYTES("reason"), BYTES("wrong_code"));
		json_member_i64(w, BYTES("triesLeft"), v->tries_left);
	} else if (v->outcome == ENTRY_NO_CODE) {
		json_member_text(w, BYTES("reason"), BYTES("no_code"));
	}
	json_name(w, BYTES("email"));
	write_email(w, &v->email);
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
	struct email_call *e = arena_zalloc(c->ctx.arena, sizeof(*e));
	struct fields      f;

	c->request = e;
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
