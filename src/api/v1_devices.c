/* Registered devices:
 *   PUT, GET and DELETE /v1/users/{id}/devices/{device}, POST …/deactivate
 *   GET and DELETE /v1/users/{id}/devices
 *
 * Each may carry a token of the user, in X-Gatehouse-User-Token. Then it is done only if the token is good and of that user. */
#include "api/v1_devices.h"

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_tokens.h"
#include "api/v1_users.h"
#include "service/cursor.h"
#include "service/push_erase.h"
#include "service/push_list.h"
#include "service/push_register.h"
#include "service/user_policy.h"

enum { DEVICES_PAGE_DEFAULT = 100 };

/* ---- reading ---- */

/* The {device} of a path. */
static enum err_code device_param(struct v1_call *c, struct push_ref *out, struct err *err)
{
	if (v1_user_param(c, &out->user, err) != ERR_NONE)
		return err->code;
	out->device = c->params[1];
	if (!push_device_id_is(out->device))
		return err_field(err, ERR_INVALID, "deviceId",
		                 "deviceId: must have 1 to %d bytes, without control characters",
		                 PUSH_DEVICE_ID_BYTES_MAX);
	return ERR_NONE;
}

enum err_code v1_device_limit(struct v1_call *c, uint32_t *out, struct err *err)
{
	struct bytes limit;
	uint64_t     number = DEVICES_PAGE_DEFAULT;

	if (v1_query(c, "limit", &limit, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, PUSH_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d", PUSH_PAGE_MAX);
	*out = (uint32_t)number;
	return ERR_NONE;
}

enum err_code v1_device_cursor_wrong(struct err *err)
{
	return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
}

/* ---- the user's token ---- */

#define TOKEN_FIELD  "X-Gatehouse-User-Token"
#define TOKEN_SCHEME "Bearer "

/* In decode, once the user is known. */
static void token_read(struct v1_call *c, struct v1_token *out)
{
	struct bytes text = http_header_get(c->call.http, "x-gatehouse-user-token");

	if (text.data == NULL)
		return;
	if (bytes_starts_with(text, BYTES(TOKEN_SCHEME)))
		text = (struct bytes){text.data + strlen(TOKEN_SCHEME), text.len - strlen(TOKEN_SCHEME)};
	v1_token_read(c, text, (struct bytes){NULL, 0}, out);
	out->rules = v1_rules(c);
}

/* In run, first. */
static enum err_code token_check(struct v1_call *c, struct v1_token *t, struct bytes user, struct err *err)
{
	if (!t->given)
		return ERR_NONE;
	if (v1_token_judge(c, t, NULL, err) != ERR_NONE)
		return err->code;
	v1_token_count(c, t);
	if (t->outcome != TOKEN_VALID && t->retry_s > 0)
		return err_field(err, ERR_OVERLOADED, TOKEN_FIELD,
		                 TOKEN_FIELD ": its key is being fetched; try again");
	if (t->is.inactive)
		return err_set(err, ERR_INACTIVE, "Account is not active");
	if (t->is.verdict.kind == VERDICT_INVALID_TOKEN)
		return err_field(err, ERR_USER_TOKEN, TOKEN_FIELD, TOKEN_FIELD ": %s",
		                 t->outcome == TOKEN_VALID ? "the token was revoked"
		                                           : token_outcome_text(t->outcome));
	if (!bytes_equal(t->jwt.subject, user))
		return err_field(err, ERR_ACCESS, TOKEN_FIELD,
		                 TOKEN_FIELD ": the token is of another user than the path names");
	if (t->is.verdict.kind != VERDICT_ALLOW)
		return err_field(err, ERR_ACCESS, TOKEN_FIELD, TOKEN_FIELD ": the user may not act now: %s",
		                 verdict_words[t->is.verdict.kind].name);
	return ERR_NONE;
}

/* ---- answers ---- */

/* As the row has it: times are texts, the end is a number. */
static void write_device(struct json_writer *w, const struct push_device *d)
{
	json_begin_object(w);
	json_member_text(w, BYTES("userId"), d->user);
	json_member_text(w, BYTES("deviceId"), d->id);
	for (int kind = 0; kind < PUSH_KINDS; kind++)
		json_member_text(w, bytes_of(push_kind_names[kind]), d->tokens[kind]);
	json_member_text(w, BYTES("platform"), d->platform);
	json_member_text(w, BYTES("registeredAt"), d->registered_at);
	json_member_text(w, BYTES("updatedAt"), d->updated_at);
	json_member_bool(w, BYTES("isActive"), d->active);
	if (d->expires_s > 0)
		json_member_i64(w, BYTES("expiresAt"), d->expires_s);
	json_end_object(w);
}

/* ---- registering ---- */

struct register_call {
	struct v1_token          token;
	struct push_registration q;
	struct push_registered   r;
};

static void read_token(struct v1_call *c, struct fields *f, enum push_kind kind, struct bytes *out)
{
	const char  *name = push_kind_names[kind];
	struct bytes text = fields_text_or(f, name, PUSH_TOKEN_BYTES_MAX, (struct bytes){NULL, 0});

	if (fields_failed(f) || text.data == NULL)
		return;
	if (!push_token_is(kind, text))
		fields_fail(f, name, ERR_INVALID, "%s", push_kind_forms[kind]);
	else
		*out = push_token_normal(c->ctx.arena, kind, text);
}

static void read_tokens(struct v1_call *c, struct fields *f, struct push_registration *q)
{
	bool any = false;

	for (int kind = 0; kind < PUSH_KINDS; kind++) {
		read_token(c, f, (enum push_kind)kind, &q->tokens[kind]);
		any = any || q->tokens[kind].len > 0;
	}
	if (!fields_failed(f) && !any)
		fields_fail(f, push_kind_names[PUSH_EXPO], ERR_INVALID,
		            "missing; send expoPushToken, fcmToken or apnsToken");
	if (!fields_failed(f) && q->tokens[PUSH_APNS].len > 0 && !bytes_is(q->platform, "ios"))
		fields_fail(f, push_kind_names[PUSH_APNS], ERR_INVALID,
		            "only devices with the platform ios have one");
}

enum err_code push_register_decode(struct v1_call *c, struct err *err)
{
	struct register_call *d = v1_request(c, sizeof(*d));
	struct push_ref       ref;
	struct fields         f;
	struct user_policy   *policy;
	const char           *personal;

	if (device_param(c, &ref, err) != ERR_NONE)
		return err->code;
	personal = identifier_looks_like(ref.device);
	if (personal != NULL)
		return err_field(err, ERR_INVALID, "deviceId",
		                 "deviceId: looks like personal data (%s); send an id that the app made up",
		                 personal);
	policy = document_acquire(&c->ctx.services->users);
	v1_hold(c, &policy->base);
	d->q.devices_max = policy->devices_max;
	d->q.user = ref.user;
	d->q.device = ref.device;
	d->q.users = v1_users_denied(c);
	token_read(c, &d->token);
	fields_init(&f, c->body, err);
	d->q.platform = bytes_of(push_platforms[fields_choice(&f, "platform", push_platforms, -1)]);
	read_tokens(c, &f, &d->q);
	return fields_end(&f);
}

enum err_code push_register_run(struct v1_call *c, struct err *err)
{
	struct register_call *d = c->request;

	if (token_check(c, &d->token, d->q.user, err) != ERR_NONE)
		return err->code;
	return push_device_register(&c->ctx, &d->q, &d->r, err);
}

void push_register_encode(struct v1_call *c, struct json_writer *w)
{
	const struct register_call *d = c->request;

	c->status = d->r.created ? 201 : 200;
	write_device(w, &d->r.device);
}

void push_register_committed(struct v1_call *c)
{
	const struct register_call *d = c->request;
	struct meter_shard         *m = c->call.loop->meter;

	metric_add(&m->push[d->r.created ? METER_PUSH_CREATED : METER_PUSH_REFRESHED], 1);
	metric_add(&m->push[METER_PUSH_MOVED], d->r.moved);
	metric_add(&m->push[METER_PUSH_TRIMMED], d->r.trimmed);
}

/* ---- one device ---- */

struct device_call {
	struct v1_token    token;
	struct push_ref    q;
	struct push_device device;
	struct push_ended  ended;
};

static enum err_code device_decode(struct v1_call *c, struct err *err)
{
	struct device_call *d = v1_request(c, sizeof(*d));

	token_read(c, &d->token);
	return device_param(c, &d->q, err);
}

enum err_code push_get_decode(struct v1_call *c, struct err *err)
{
	return device_decode(c, err);
}

enum err_code push_get_run(struct v1_call *c, struct err *err)
{
	struct device_call *d = c->request;

	if (token_check(c, &d->token, d->q.user, err) != ERR_NONE)
		return err->code;
	return push_device_get(&c->ctx, &d->q, &d->device, err);
}

void push_get_encode(struct v1_call *c, struct json_writer *w)
{
	write_device(w, &((const struct device_call *)c->request)->device);
}

enum err_code push_deactivate_decode(struct v1_call *c, struct err *err)
{
	return device_decode(c, err);
}

enum err_code push_deactivate_run(struct v1_call *c, struct err *err)
{
	struct device_call *d = c->request;

	if (token_check(c, &d->token, d->q.user, err) != ERR_NONE)
		return err->code;
	return push_device_deactivate(&c->ctx, &d->q, &d->ended, err);
}

void push_deactivate_encode(struct v1_call *c, struct json_writer *w)
{
	write_device(w, &((const struct device_call *)c->request)->ended.device);
}

enum err_code push_remove_decode(struct v1_call *c, struct err *err)
{
	return device_decode(c, err);
}

enum err_code push_remove_run(struct v1_call *c, struct err *err)
{
	struct device_call *d = c->request;

	if (token_check(c, &d->token, d->q.user, err) != ERR_NONE)
		return err->code;
	return push_device_remove(&c->ctx, &d->q, &d->ended, err);
}

void push_remove_encode(struct v1_call *c, struct json_writer *w)
{
	const struct device_call *d = c->request;

	json_begin_object(w);
	json_member_bool(w, BYTES("removed"), true);
	json_member_i64(w, BYTES("knownDevicesForgotten"), d->ended.lanes);
	json_end_object(w);
}

/* ---- all of a user ---- */

struct devices_call {
	struct v1_token    token;
	struct push_search q;
	struct push_page   page;
	struct push_erased erased;
	struct job_started receipt;
};

enum err_code push_list_decode(struct v1_call *c, struct err *err)
{
	struct devices_call *d = v1_request(c, sizeof(*d));
	struct bytes         include, cursor, user;

	token_read(c, &d->token);
	if (v1_user_param(c, &d->q.user, err) != ERR_NONE ||
	    v1_device_limit(c, &d->q.limit, err) != ERR_NONE ||
	    v1_query(c, "include", &include, err) != ERR_NONE ||
	    v1_query(c, "cursor", &cursor, err) != ERR_NONE)
		return err->code;
	d->q.inactive = include.data != NULL && bytes_is(include, "inactive");
	if (include.data != NULL && !d->q.inactive)
		return err_field(err, ERR_INVALID, "include", "include: must be `inactive`");
	if (cursor.data != NULL && (!cursor_read(&c->ctx, cursor, &user, &d->q.after) ||
	                            !bytes_equal(user, d->q.user) || d->q.after.len == 0))
		return v1_device_cursor_wrong(err);
	return ERR_NONE;
}

enum err_code push_list_run(struct v1_call *c, struct err *err)
{
	struct devices_call *d = c->request;

	if (token_check(c, &d->token, d->q.user, err) != ERR_NONE)
		return err->code;
	return push_devices_find(&c->ctx, &d->q, &d->page, err);
}

void push_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct devices_call *d = c->request;

	json_begin_object(w);
	json_name(w, BYTES("devices"));
	json_begin_array(w);
	for (uint32_t i = 0; i < d->page.count; i++)
		write_device(w, &d->page.list[i]);
	json_end_array(w);
	json_member_bool(w, BYTES("more"), d->page.more);
	if (d->page.more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, d->q.user, d->page.last));
	json_end_object(w);
}

enum err_code push_erase_decode(struct v1_call *c, struct err *err)
{
	struct devices_call *d = v1_request(c, sizeof(*d));

	token_read(c, &d->token);
	return v1_user_param(c, &d->q.user, err);
}

enum err_code push_erase_run(struct v1_call *c, struct err *err)
{
	struct devices_call *d = c->request;

	if (token_check(c, &d->token, d->q.user, err) != ERR_NONE)
		return err->code;
	return push_erase_start(&c->ctx, d->q.user, &d->erased, &d->receipt, err);
}

void push_erase_encode(struct v1_call *c, struct json_writer *w)
{
	const struct devices_call *d = c->request;

	c->status = d->erased.more ? 202 : 200;
	json_begin_object(w);
	json_member_i64(w, BYTES("removed"), d->erased.devices);
	json_member_i64(w, BYTES("knownDevicesForgotten"), d->erased.lanes);
	json_member_bool(w, BYTES("more"), d->erased.more);
	json_member_text(w, BYTES("receipt"), d->receipt.job.id);
	json_end_object(w);
}
