/* All registered devices:
 *   GET /v1/devices?platform=…, for broadcasts
 *   POST /v1/devices/feedback, of push providers
 *   POST /v1/devices/cleanup and …/repair, which start jobs */
#include "api/v1_devices.h"
#include "api/v1_jobs.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "service/cursor.h"
#include "service/push_feedback.h"
#include "service/push_job.h"
#include "service/push_list.h"
#include "service/user.h"

enum { FEEDBACK_MAX = 100, FEEDBACK_ERROR_MAX = 64, FEEDBACK_TOKEN_MAX = 16384 };
/* ---- all of a platform ---- */

struct broadcast_call {
	struct push_broadcast      q;
	struct push_broadcast_page page;
};

/* "3#u-1" and "d-1": the shard, and the last device in it; "3#" and nothing: a shard begins. */
static bool place_read(const struct context *ctx, struct bytes cursor, struct push_broadcast *out)
{
	struct bytes pk, sk;
	const char  *hash;
	uint64_t     shard;

	if (!cursor_read(ctx, cursor, &pk, &sk))
		return false;
	hash = memchr(pk.data, '#', pk.len);
	if (hash == NULL ||
	    !bytes_to_u64((struct bytes){pk.data, (size_t)(hash - pk.data)}, DEVICE_SHARDS_MAX, &shard))
		return false;
	out->shard = (uint32_t)shard;
	if (hash + 1 == pk.data + pk.len)
		return sk.len == 0;
	out->after_user = (struct bytes){hash + 1, pk.len - (size_t)(hash + 1 - pk.data)};
	out->after_device = sk;
	return sk.len > 0;
}

static struct bytes place_write(const struct context *ctx, const struct push_broadcast_page *page)
{
	return cursor_write(ctx, arena_printf(ctx->arena, "%u#%.*s", page->shard, BYTES_ARG(page->last_user)),
	                    page->last_device);
}

static enum err_code read_platform(struct v1_call *c, struct bytes *out, struct err *err)
{
	struct bytes platform;

	if (v1_query(c, "platform", &platform, err) != ERR_NONE)
		return err->code;
	for (const char *const *name = push_platforms; platform.data != NULL && *name != NULL; name++)
		if (bytes_is(platform, *name)) {
			*out = bytes_of(*name);
			return ERR_NONE;
		}
	return err_field(err, ERR_INVALID, "platform", "platform: must be ios or android");
}

enum err_code push_broadcast_name(struct v1_call *c, struct err *err)
{
	struct bytes platform;

	if (read_platform(c, &platform, err) != ERR_NONE)
		return err->code;
	v1_resource(c, "platform", platform);
	return ERR_NONE;
}

enum err_code push_broadcast_decode(struct v1_call *c, struct err *err)
{
	struct broadcast_call *b = v1_request(c, sizeof(*b));
	struct bytes           cursor;

	if (v1_device_limit(c, &b->q.limit, err) != ERR_NONE ||
	    read_platform(c, &b->q.platform, err) != ERR_NONE ||
	    v1_query(c, "cursor", &cursor, err) != ERR_NONE)
		return err->code;
	return cursor.data == NULL || place_read(&c->ctx, cursor, &b->q) ? ERR_NONE
	                                                                 : v1_device_cursor_wrong(err);
}

enum err_code push_broadcast_run(struct v1_call *c, struct err *err)
{
	struct broadcast_call *b = c->request;

	b->q.judged = true;
	return push_devices_broadcast(&c->ctx, &b->q, &b->page, err);
}

/* What the index holds of a device. Those of users that are denied are left out. */
void push_broadcast_encode(struct v1_call *c, struct json_writer *w)
{
	const struct push_broadcast_page *page = &((const struct broadcast_call *)c->request)->page;
	struct user_filter                users = v1_users_denied(c);

	json_begin_object(w);
	json_name(w, BYTES("devices"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++) {
		if (user_filter_hides(&users, page->list[i].user))
			continue;
		json_begin_object(w);
		json_member_text(w, BYTES("userId"), page->list[i].user);
		json_member_text(w, BYTES("deviceId"), page->list[i].id);
		json_member_text(w, BYTES("expoPushToken"), page->list[i].tokens[PUSH_EXPO]);
		json_end_object(w);
	}
	json_end_array(w);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"), place_write(&c->ctx, page));
	json_end_object(w);
}

/* ---- feedback ---- */

struct feedback_call {
	struct push_feedback      *list;
	enum push_feedback_outcome outcomes[FEEDBACK_MAX];
	uint32_t                   count;
};

/* "ok", or an error as Expo names it, or FCM's and APNs' words for the same. */
static bool says_not_registered(struct bytes error)
{
	return bytes_is(error, "DeviceNotRegistered") || bytes_is(error, "UNREGISTERED") ||
	       bytes_is(error, "Unregistered") || bytes_is(error, "BadDeviceToken");
}

/* The device that it was sent to: needed for rows that others wrote alone. */
static void read_device(struct fields *f, struct push_ref *out)
{
	out->user = fields_text_or(f, "userId", USER_ID_BYTES_MAX, (struct bytes){NULL, 0});
	out->device = fields_text_or(f, "deviceId", PUSH_DEVICE_ID_BYTES_MAX, (struct bytes){NULL, 0});
	if (!fields_failed(f) && (out->user.len > 0) != (out->device.len > 0))
		fields_fail(f, out->user.len > 0 ? "deviceId" : "userId", ERR_INVALID,
		            "missing; send userId and deviceId, or neither");
}

/* One that is empty is no token, as any other nonsense: the other results count. */
static struct bytes read_feedback_token(struct fields *f)
{
	const struct json *token = fields_get(f, "token");

	if (json_is(token, JSON_STRING) && json_text(token).len == 0)
		return BYTES("");
	return fields_text(f, "token", FEEDBACK_TOKEN_MAX);
}

static void read_feedback(struct v1_call *c, struct fields *f, struct push_feedback *out)
{
	struct bytes token = read_feedback_token(f);
	struct bytes error = fields_text(f, "error", FEEDBACK_ERROR_MAX);

	if (fields_has(f, "sentAt"))
		out->sent_s = v1_read_time(f, "sentAt");
	read_device(f, &out->to);
	if (fields_failed(f))
		return;
	out->kind = push_token_kind(token);
	out->token = push_token_normal(c->ctx.arena, out->kind, token);
	out->not_registered = says_not_registered(error);
}

/* Users that are named must not be denied. Those that turn up by a token are as if they had none. */
enum err_code push_feedback_name(struct v1_call *c, struct err *err)
{
	const struct json *list;
	struct fields      f, within;

	fields_init(&f, c->body, err);
	list = fields_array(&f, "results", FEEDBACK_MAX);
	for (const struct json *m = fields_first(&f, list); m != NULL; m = fields_next(&f, m)) {
		struct push_ref to = {0};

		fields_enter(&within, &f, BYTES("results"), m);
		read_device(&within, &to);
		if (to.user.len > 0)
			v1_resource_used(c, V1_TOUCHED, "user", to.user);
	}
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code push_feedback_decode(struct v1_call *c, struct err *err)
{
	struct feedback_call *b = v1_request(c, sizeof(*b));
	struct user_filter    users = v1_users_denied(c);
	const struct json    *list;
	struct fields         f, within;

	fields_init(&f, c->body, err);
	list = fields_array(&f, "results", FEEDBACK_MAX);
	if (!fields_failed(&f) && (list == NULL || list->count == 0))
		fields_fail(&f, "results", ERR_INVALID, "missing; send what became of at least one message");
	if (list != NULL)
		b->list = arena_zalloc(c->ctx.arena, (list->count + 1) * sizeof(*b->list));
	for (const struct json *m = fields_first(&f, list); m != NULL; m = fields_next(&f, m)) {
		fields_enter(&within, &f, arena_printf(c->ctx.arena, "results[%u]", b->count), m);
		b->list[b->count].users = users;
		read_feedback(c, &within, &b->list[b->count++]);
		fields_end(&within);
	}
	return fields_end(&f);
}

enum err_code push_feedback_run(struct v1_call *c, struct err *err)
{
	struct feedback_call *b = c->request;

	for (uint32_t i = 0; i < b->count; i++)
		if (push_feedback_take(&c->ctx, &b->list[i], &b->outcomes[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

void push_feedback_encode(struct v1_call *c, struct json_writer *w)
{
	const struct feedback_call *b = c->request;
	bool                        more = false;

	json_begin_object(w);
	json_name(w, BYTES("outcomes"));
	json_begin_array(w);
	for (uint32_t i = 0; i < b->count; i++) {
		json_string(w, bytes_of(push_feedback_names[b->outcomes[i]]));
		more = more || b->outcomes[i] == FEEDBACK_DEFERRED;
	}
	json_end_array(w);
	json_member_bool(w, BYTES("more"), more);
	json_end_object(w);
}

void push_feedback_committed(struct v1_call *c)
{
	const struct feedback_call *b = c->request;

	for (uint32_t i = 0; i < b->count; i++)
		metric_add(&c->call.loop->meter->push_feedback[b->outcomes[i]], 1);
}

/* ---- jobs over all devices ---- */

struct devices_job_call {
	struct job_new     q;
	int64_t            days;
	struct job_started r;
};

static enum err_code job_decode(struct v1_call *c, const struct job_kind *kind, struct err *err)
{
	struct devices_job_call *j = v1_request(c, sizeof(*j));
	struct fields            f;

	j->q.kind = kind;
	fields_init(&f, c->body, err);
	v1_read_job(&f, &j->q);
	if (kind == &push_cleanup)
		j->days = fields_i64_or(&f, "inactiveDays", 1, PUSH_INACTIVE_DAYS_MAX, PUSH_INACTIVE_DAYS);
	return fields_end(&f);
}

static enum err_code job_run(struct v1_call *c, struct err *err)
{
	struct devices_job_call *j = c->request;

	return push_job_start(&c->ctx, &j->q, j->days, &j->r, err);
}

/* One that runs already is the answer, too. */
static void job_encode(struct v1_call *c, struct json_writer *w)
{
	c->status = 202;
	v1_write_job(w, &((const struct devices_job_call *)c->request)->r.job);
}

enum err_code push_cleanup_decode(struct v1_call *c, struct err *err)
{
	return job_decode(c, &push_cleanup, err);
}

enum err_code push_cleanup_run(struct v1_call *c, struct err *err)
{
	return job_run(c, err);
}

void push_cleanup_encode(struct v1_call *c, struct json_writer *w)
{
	job_encode(c, w);
}

enum err_code push_repair_decode(struct v1_call *c, struct err *err)
{
	return job_decode(c, &push_repair, err);
}

enum err_code push_repair_run(struct v1_call *c, struct err *err)
{
	return job_run(c, err);
}

void push_repair_encode(struct v1_call *c, struct json_writer *w)
{
	job_encode(c, w);
}
