/* Revoked tokens:
 *   POST /v1/users/{id}/revoke-tokens, POST /v1/tokens/revoke, POST /v1/revoke-all, POST /v1/revoke-users
 *   GET /v1/revocations */
#include "api/v1_jobs.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_tokens.h"
#include "api/v1_users.h"
#include "api/v1_write.h"
#include "service/cursor.h"
#include "service/mass_revocation.h"
#include "service/revocation.h"
#include "service/sign_out.h"
#include "service/sync.h"

enum { REVOCATIONS_PAGE_DEFAULT = 100 };

struct revoke_call {
	struct revocation q;
	struct bytes   personal; /* the subject of the token, if it is an address or a number of a person */
	bool           dry_run;
	struct revoked r;
};

/* ---- reading ---- */

static bool is_one_line(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return true;
}

static struct bytes read_reason(struct fields *f, bool required)
{
	struct bytes reason =
	        required ? fields_text(f, "reason", REVOCATION_REASON_BYTES_MAX)
	                 : fields_text_or(f, "reason", REVOCATION_REASON_BYTES_MAX, (struct bytes){NULL, 0});

	if (!fields_failed(f) && !is_one_line(reason))
		fields_fail(f, "reason", ERR_INVALID, "must not contain control characters");
	return reason;
}

static int64_t read_not_before(struct v1_call *c, struct fields *f, const char *name)
{
	int64_t seconds;

	if (fields_get(f, name) == NULL)
		return 0;
	seconds = v1_read_time(f, name);
	if (!fields_failed(f) && !revocation_not_before_is(seconds, c->ctx.now_us / 1000000))
		fields_fail(f, name, ERR_INVALID, "must be after 1970, and at most %d seconds ahead",
		            REVOCATION_LEEWAY_S);
	return seconds;
}

/* ---- answers ---- */

static void write_members(struct json_writer *w, const struct revoked *r)
{
	json_member_text(w, BYTES("kind"), bytes_of(revocation_kind_names[r->kind]));
	if (r->kind != REVOKED_ALL)
		json_member_text(w,
		                 bytes_of(r->kind == REVOKED_TOKEN ? "hash" : revocation_kind_names[r->kind]),
		                 r->name);
	json_member_text(w, BYTES("issuer"), r->issuer);
	v1_write_time(w, BYTES("not_before"), r->not_before_s);
	v1_write_time(w, BYTES("revoked_at"), r->revoked_s);
	v1_write_time(w, BYTES("expires_at"), r->ends_s);
	json_member_text(w, BYTES("reason"), r->reason);
	json_member_text(w, BYTES("revoked_by"), r->by);
}

static void revoke_encode(struct v1_call *c, struct json_writer *w)
{
	const struct revoke_call *v = c->request;

	json_begin_object(w);
	if (v->q.kind == REVOKED_ALL)
		json_member_bool(w, BYTES("dry_run"), v->dry_run);
	write_members(w, &v->r);
	json_end_object(w);
}

/* ---- a user's ---- */

enum err_code user_revoke_decode(struct v1_call *c, struct err *err)
{
	struct revoke_call *v = v1_request(c, sizeof(*v));
	struct fields       f;

	v->q.kind = REVOKED_USER;
	if (v1_user_param(c, &v->q.name, err) != ERR_NONE)
		return err->code;
	if (c->body == NULL)
		return ERR_NONE;
	fields_init(&f, c->body, err);
	v->q.reason = read_reason(&f, false);
	v->q.not_before_s = read_not_before(c, &f, "notBefore");
	return fields_end(&f);
}

/* Of a user that came from a provider, the refresh tokens there would only fetch others. */
static enum err_code provider_too(struct v1_call *c, struct bytes id, struct err *err)
{
	struct user   u;
	enum err_code rc = user_get(&c->ctx, id, &u, err);

	if (rc == ERR_NONE)
		signout_queue(&c->ctx, &u);
	return rc == ERR_NOT_FOUND ? ERR_NONE : rc;
}

enum err_code user_revoke_run(struct v1_call *c, struct err *err)
{
	struct revoke_call *v = c->request;

	if (revocation_add(&c->ctx, &v->q, &v->r, err) != ERR_NONE)
		return err->code;
	return provider_too(c, v->q.name, err);
}

void user_revoke_encode(struct v1_call *c, struct json_writer *w)
{
	const struct revoke_call *v = c->request;

	json_begin_object(w);
	json_member_text(w, BYTES("id"), v->r.name);
	v1_write_time(w, BYTES("tokensNotBefore"), v->r.not_before_s);
	v1_write_time(w, BYTES("expiresAt"), v->r.ends_s);
	json_member_text(w, BYTES("reason"), v->r.reason);
	json_end_object(w);
}

void revocation_committed(struct v1_call *c)
{
	const struct revoke_call *v = c->request;

	if (!v->dry_run)
		metric_add(&c->call.loop->meter->users[METER_REVOKED_TOKEN + (v->q.kind - REVOKED_TOKEN)], 1);
}

/* ---- one token's, a user's, a client's ---- */

static void read_token(struct v1_call *c, struct fields *f, struct revocation *q)
{
	q->kind = REVOKED_TOKEN;
	q->name = fields_text(f, "jti", REVOCATION_NAME_BYTES_MAX);
	q->issuer = fields_text(f, "issuer", REVOCATION_NAME_BYTES_MAX);
	if (fields_get(f, "expires_at") != NULL)
		q->expires_s = v1_read_time(f, "expires_at");
	if (!fields_failed(f) && q->expires_s > c->ctx.now_us / 1000000 + REVOCATION_TOKEN_LIFE_MAX_S)
		fields_fail(f, "expires_at", ERR_INVALID, "must be within %d days",
		            REVOCATION_TOKEN_LIFE_MAX_S / 86400);
}

/* Only what its issuer signed is believed. */
static void read_whole_token(struct v1_call *c, struct fields *f, struct revoke_call *v)
{
	struct bytes    text = fields_text(f, "token", TOKEN_BYTES_MAX);
	struct v1_token t;

	if (fields_failed(f))
		return;
	v1_token_read(c, text, (struct bytes){NULL, 0}, &t);
	if (t.outcome != TOKEN_VALID && t.retry_s > 0)
		fields_fail(f, "token", ERR_OVERLOADED, "%s", token_outcome_text(t.outcome));
	else if (t.outcome != TOKEN_VALID)
		fields_fail(f, "token", ERR_INVALID, "cannot be verified: %s", token_outcome_text(t.outcome));
	else if (t.jwt.id.len == 0)
		fields_fail(f, "token", ERR_INVALID, "has no jti; revoke the tokens of its user or client");
	if (fields_failed(f))
		return;
	v->q = (struct revocation){.kind = REVOKED_TOKEN,
	                           .issuer = t.jwt.issuer,
	                           .name = t.jwt.id,
	                           .expires_s = t.jwt.expires_us / 1000000};
	v1_resource(c, "issuer", v->q.issuer);
	if (identifier_looks_like(t.jwt.subject) == NULL)
		v1_resource(c, "user", t.jwt.subject);
	else
		v->personal = t.jwt.subject;
}

/* Whose token it is, if its subject is an address: the user who has verified it, else whoever that is. No refusal says the address. */
static enum err_code check_owner(struct v1_call *c, struct bytes subject, struct err *err)
{
	struct bytes       email, name = token_subject(&c->ctx, subject, &email);
	struct email_owner owner = {0};

	if (email.len > 0 && email_owner_find(&c->ctx, email, &owner, err) != ERR_NONE)
		return err->code;
	if (owner.found && owner.verified)
		name = owner.user;
	return v1_allowed(c, "user", name)
	               ? ERR_NONE
	               : err_set(err, ERR_ACCESS, "the policy of this key denies it the user of this token");
}

static void read_user(struct fields *f, struct revocation *q)
{
	q->kind = REVOKED_USER;
	q->name = fields_text(f, "user", USER_ID_BYTES_MAX);
	if (!fields_failed(f) && !user_id_is(q->name))
		fields_fail(f, "user", ERR_INVALID, "not an id that a user can have");
}

static void read_client(struct fields *f, struct revocation *q)
{
	q->kind = REVOKED_CLIENT;
	q->name = fields_text(f, "client", REVOCATION_NAME_BYTES_MAX);
}

/* Of a whole token, only what its issuer signed says whose it is. */
enum err_code token_revoke_name(struct v1_call *c, struct err *err)
{
	struct revoke_call *v = v1_request(c, sizeof(*v));
	struct fields       f;

	fields_init(&f, c->body, err);
	v->q.kind = REVOKED_TOKEN;
	if (fields_has(&f, "token") + fields_has(&f, "jti") + fields_has(&f, "user") +
	            fields_has(&f, "client") !=
	    1)
		fields_fail(&f, NULL, ERR_INVALID,
		            "exactly one of token, jti (with issuer), user and client is required");
	else if (fields_has(&f, "token"))
		read_whole_token(c, &f, v);
	else if (fields_has(&f, "jti"))
		v1_resource(c, "issuer", fields_text(&f, "issuer", REVOCATION_NAME_BYTES_MAX));
	else if (fields_has(&f, "user"))
		v1_resource(c, "user", fields_text(&f, "user", USER_ID_BYTES_MAX));
	else
		v1_resource(c, "client", fields_text(&f, "client", REVOCATION_NAME_BYTES_MAX));
	c->all_users = fields_has(&f, "client"); /* each of them may have a token of it */
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code token_revoke_decode(struct v1_call *c, struct err *err)
{
	struct revoke_call *v = c->request;
	struct fields       f;

	fields_init(&f, c->body, err);
	fields_get(&f, "token"); /* read already */
	if (fields_has(&f, "jti"))
		read_token(c, &f, &v->q);
	else if (fields_has(&f, "user"))
		read_user(&f, &v->q);
	else if (fields_has(&f, "client"))
		read_client(&f, &v->q);
	v->q.reason = read_reason(&f, false);
	if (v->q.kind != REVOKED_TOKEN)
		v->q.not_before_s = read_not_before(c, &f, "not_before");
	return fields_end(&f);
}

enum err_code token_revoke_run(struct v1_call *c, struct err *err)
{
	struct revoke_call *v = c->request;

	if (v->personal.len > 0 && check_owner(c, v->personal, err) != ERR_NONE)
		return err->code;
	if (revocation_add(&c->ctx, &v->q, &v->r, err) != ERR_NONE)
		return err->code;
	if (v->q.kind == REVOKED_USER)
		c->about = v->q.name;
	return v->q.kind == REVOKED_USER ? provider_too(c, v->q.name, err) : ERR_NONE;
}

void token_revoke_encode(struct v1_call *c, struct json_writer *w)
{
	revoke_encode(c, w);
}

/* ---- everyone's: one row ---- */

enum err_code revoke_all_decode(struct v1_call *c, struct err *err)
{
	struct revoke_call *v = v1_request(c, sizeof(*v));
	struct fields       f;

	v->q.kind = REVOKED_ALL;
	fields_init(&f, c->body, err);
	v->q.reason = read_reason(&f, true);
	v->q.not_before_s = read_not_before(c, &f, "not_before");
	v->dry_run = fields_bool_or(&f, "dry_run", false);
	if (v->dry_run)
		c->call.kind = READ;
	return fields_end(&f);
}

/* A dry run shows the row as it would be: of a call that only reads, nothing is committed. */
enum err_code revoke_all_run(struct v1_call *c, struct err *err)
{
	struct revoke_call *v = c->request;

	return revocation_add(&c->ctx, &v->q, &v->r, err);
}

void revoke_all_encode(struct v1_call *c, struct json_writer *w)
{
	revoke_encode(c, w);
}

/* ---- some users': a job ---- */

struct revoke_users_call {
	struct mass_revocation q;
	struct job_started     r;
};

static void read_users(struct v1_call *c, struct fields *f, struct mass_revocation *q)
{
	const struct json *list = fields_array(f, "users", MASS_REVOCATION_USERS_MAX);

	if (list == NULL)
		return;
	if (list->count == 0)
		fields_fail(f, "users", ERR_INVALID, "must not be empty");
	q->users = arena_array(c->ctx.arena, list->count + 1, sizeof(*q->users));
	for (const struct json *m = fields_first(f, list); m != NULL; m = fields_next(f, m)) {
		if (m->type != JSON_STRING || !user_id_is(json_text(m)))
			fields_fail(f, "users", ERR_INVALID, "must be a list of ids that users can have");
		else
			q->users[q->user_count++] = json_text(m);
	}
}

enum err_code revoke_users_decode(struct v1_call *c, struct err *err)
{
	struct revoke_users_call *v = v1_request(c, sizeof(*v));
	struct job_new            job = {0};
	struct fields             f;

	fields_init(&f, c->body, err);
	read_users(c, &f, &v->q);
	v->q.status = fields_choice(&f, "status", user_status_names, MASS_REVOCATION_ANY_STATUS);
	if (fields_get(&f, "createdBefore") != NULL)
		v->q.created_before_s = v1_read_time(&f, "createdBefore");
	v->q.provider = fields_text_or(&f, "provider", SYNC_PROVIDER_BYTES_MAX, (struct bytes){NULL, 0});
	v->q.reason = read_reason(&f, true);
	v->q.not_before_s = read_not_before(c, &f, "notBefore");
	v1_read_job(&f, &job);
	v->q.dry_run = job.dry_run;
	v->q.rate = job.rate;
	return fields_end(&f);
}

enum err_code revoke_users_run(struct v1_call *c, struct err *err)
{
	struct revoke_users_call *v = c->request;

	return mass_revocation_start(&c->ctx, &v->q, &v->r, err);
}

void revoke_users_encode(struct v1_call *c, struct json_writer *w)
{
	c->status = 202;
	v1_write_job(w, &((const struct revoke_users_call *)c->request)->r.job);
}

void revoke_users_committed(struct v1_call *c)
{
	jobs_wake(c->ctx.services);
}

/* ---- what is revoked ---- */

struct list_call {
	struct revocations_search q;
	struct revocations_page   page;
};

static enum err_code read_kind(struct bytes name, enum revocation_kind *out, struct err *err)
{
	for (int kind = REVOKED_TOKEN; kind <= REVOKED_ALL; kind++)
		if (bytes_is(name, revocation_kind_names[kind])) {
			*out = (enum revocation_kind)kind;
			return ERR_NONE;
		}
	return err_field(err, ERR_INVALID, "kind", "kind: must be token, user, client or all");
}

enum err_code revocation_list_decode(struct v1_call *c, struct err *err)
{
	struct list_call *l = v1_request(c, sizeof(*l));
	struct bytes      kind, limit, cursor, none;
	uint64_t          number = REVOCATIONS_PAGE_DEFAULT;

	if (v1_query(c, "kind", &kind, err) != ERR_NONE || v1_query(c, "limit", &limit, err) != ERR_NONE ||
	    v1_query(c, "cursor", &cursor, err) != ERR_NONE)
		return err->code;
	if (kind.data != NULL && read_kind(kind, &l->q.kind, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, REVOCATIONS_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d",
		                 REVOCATIONS_PAGE_MAX);
	l->q.limit = (uint32_t)number;
	if (cursor.data != NULL && !cursor_read(&c->ctx, cursor, &l->q.after, &none))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

enum err_code revocation_list_run(struct v1_call *c, struct err *err)
{
	struct list_call *l = c->request;

	return revocations_find(&c->ctx, &l->q, &l->page, err);
}

/* Of users and clients that the key may not see nothing is told. */
static bool is_hidden(struct v1_call *c, const struct revoked *r)
{
	return (r->kind == REVOKED_USER || r->kind == REVOKED_CLIENT) &&
	       !v1_allowed(c, revocation_kind_names[r->kind], r->name);
}

void revocation_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct revocations_page *page = &((const struct list_call *)c->request)->page;

	json_begin_object(w);
	json_name(w, BYTES("revocations"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++) {
		if (is_hidden(c, &page->list[i]))
			continue;
		json_begin_object(w);
		write_members(w, &page->list[i]);
		json_end_object(w);
	}
	json_end_array(w);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, page->last, BYTES("")));
	json_end_object(w);
}
