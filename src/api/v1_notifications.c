/* Push messages:
 *   POST /v1/users/{id}/notify
 *   POST /v1/notifications, a broadcast; GET /v1/notifications, GET /v1/notifications/{id}
 *   POST /v1/notifications/{id}/cancel */
#include "api/v1_jobs.h"
#include "api/v1_routes.h"
#include "api/v1_users.h"
#include "service/cursor.h"
#include "service/push.h"

enum {
	NOTIFICATIONS_PAGE_DEFAULT = 100,
	TEXT_BYTES_MAX = NOTIFICATION_BYTES_MAX,
	ID_BYTES_MAX = 256,
	TTL_S_MAX = 28 * 86400,
	DATA_MEMBERS_MAX = 256,
};

/* ---- the message: Expo's fields by Expo's names ---- */

static const char *const priorities[] = {"default", "normal", "high", NULL};
static const char *const levels[] = {"active", "critical", "passive", "time-sensitive", NULL};

static void text_member(struct fields *f, const char *name, size_t most, struct json_writer *w)
{
	struct bytes text = fields_text_or(f, name, most, (struct bytes){NULL, 0});

	if (!fields_failed(f))
		json_member_text(w, bytes_of(name), text);
}

static void choice_member(struct fields *f, const char *name, const char *const *names, struct json_writer *w)
{
	int which;

	if (!fields_has(f, name))
		return;
	which = fields_choice(f, name, names, -1);
	if (!fields_failed(f))
		json_member_text(w, bytes_of(name), bytes_of(names[which]));
}

static void bool_member(struct fields *f, const char *name, struct json_writer *w)
{
	bool truth, there = fields_has(f, name);

	truth = fields_bool_or(f, name, false);
	if (there && !fields_failed(f))
		json_member_bool(w, bytes_of(name), truth);
}

static void tree_member(struct json_writer *w, const char *name, const struct json *tree)
{
	json_name(w, bytes_of(name));
	json_tree(w, tree);
}

/* A name, null, or what iOS needs for critical alerts. */
static void sound_member(struct fields *f, struct json_writer *w)
{
	const struct json *sound;

	fields_get(f, "sound"); /* counts as known; null is not absent here */
	sound = fields_failed(f) ? NULL : json_get(f->object, BYTES("sound"));
	if (sound == NULL)
		return;
	if (sound->type != JSON_STRING && sound->type != JSON_NULL && sound->type != JSON_OBJECT)
		fields_fail(f, "sound", ERR_INVALID, "must be a string, null or an object");
	else
		tree_member(w, "sound", sound);
}

static void rich_member(struct fields *f, struct json_writer *w)
{
	const struct json *rich = fields_object(f, "richContent", 8);
	struct fields      within;

	if (rich == NULL || fields_failed(f))
		return;
	fields_enter(&within, f, BYTES("richContent"), rich);
	fields_text(&within, "image", TEXT_BYTES_MAX);
	if (fields_end(&within) == ERR_NONE)
		tree_member(w, "richContent", rich);
}

static void number_member(struct fields *f, const char *name, int64_t most, struct json_writer *w)
{
	int64_t number = fields_i64_or(f, name, 0, most, -1);

	if (!fields_failed(f) && number >= 0)
		json_member_i64(w, bytes_of(name), number);
}

static void data_member(struct fields *f, struct json_writer *w)
{
	const struct json *data = fields_object(f, "data", DATA_MEMBERS_MAX);

	if (data != NULL && !fields_failed(f))
		tree_member(w, "data", data);
}

/* The members of the object that Expo gets, but `to` and `ttl`. */
static void write_members(struct fields *f, struct json_writer *w)
{
	text_member(f, "title", TEXT_BYTES_MAX, w);
	text_member(f, "subtitle", TEXT_BYTES_MAX, w);
	text_member(f, "body", TEXT_BYTES_MAX, w);
	data_member(f, w);
	sound_member(f, w);
	choice_member(f, "priority", priorities, w);
	number_member(f, "badge", INT32_MAX, w);
	text_member(f, "channelId", ID_BYTES_MAX, w);
	text_member(f, "categoryId", ID_BYTES_MAX, w);
	text_member(f, "collapseId", ID_BYTES_MAX, w);
	text_member(f, "tag", ID_BYTES_MAX, w);
	text_member(f, "icon", TEXT_BYTES_MAX, w);
	choice_member(f, "interruptionLevel", levels, w);
	bool_member(f, "mutableContent", w);
	bool_member(f, "_contentAvailable", w);
	rich_member(f, w);
}

static bool member_is(const struct fields *f, const char *name, const char *text)
{
	const struct json *v = json_get(f->object, bytes_of(name));

	return v != NULL && v->type == JSON_STRING && (text == NULL || bytes_is(json_text(v), text));
}

/* Unless it says so: a message that is urgent, or that replaces its repeat on the phone, is sent again if there was no answer. */
static bool read_on_unknown(struct v1_call *c, struct fields *f)
{
	static const char *const names[] = {"retry", "give_up", NULL};
	int usual = atomic_load_explicit(&c->ctx.services->push_on_unknown, memory_order_relaxed);
	int otherwise = usual == PUSH_ON_UNKNOWN_RETRY;

	if (usual == PUSH_ON_UNKNOWN_AUTO && !fields_failed(f))
		otherwise = member_is(f, "priority", "high") || member_is(f, "collapseId", NULL) ||
		            member_is(f, "tag", NULL);
	return fields_choice(f, "onUnknown", names, otherwise ? 0 : 1) == 0;
}

static void read_message(struct v1_call *c, struct fields *f, struct notification_message *out)
{
	struct json_writer w;
	struct buf         text;

	buf_init(&text, c->ctx.arena);
	json_writer_init(&w, &text);
	json_begin_object(&w);
	write_members(f, &w);
	out->retries = read_on_unknown(c, f);
	out->ttl_s = fields_i64_or(f, "ttl", 0, TTL_S_MAX, -1);
	out->expiration_s = fields_i64_or(f, "expiration", 1, INT64_C(1) << 40, 0);
	if (!fields_failed(f) && text.len == 1)
		fields_fail(f, "title", ERR_INVALID, "missing; send title, body or data");
	if (!fields_failed(f) && out->expiration_s > 0)
		json_member_i64(&w, BYTES("expiration"), out->expiration_s);
	if (!fields_failed(f) && text.len + 1 > NOTIFICATION_BYTES_MAX)
		fields_fail(f, NULL, ERR_TOO_LARGE, "a message may have at most %d bytes as JSON, not %zu",
		            NOTIFICATION_BYTES_MAX, text.len + 1);
	if (text.len > 0)
		out->members = (struct bytes){text.data + 1, text.len - 1};
}

/* ---- answers ---- */

static void write_numbers(struct json_writer *w, const struct item *map)
{
	json_begin_object(w);
	for (uint32_t i = 0; i < map->count; i++) {
		json_name(w, map->members[i].name);
		json_i64(w, value_to_i64(&map->members[i].value, 0));
	}
	json_end_object(w);
}

static void write_counts(struct json_writer *w, const struct notification *n)
{
	json_key(w, BYTES("counts"));
	json_begin_object(w);
	for (int i = 0; i < PUSH_STATE_COUNT; i++)
		json_member_i64(w, bytes_of(push_state_names[i]), n->counts[i]);
	json_end_object(w);
	json_key(w, BYTES("errors"));
	write_numbers(w, &n->errors);
	json_member_i64(w, BYTES("resent"), n->resent);
	json_member_i64(w, BYTES("disabled"), n->disabled);
}

static struct bytes state_of(const struct notification *n, const struct job *job)
{
	bool stopped = job != NULL && (job->state == JOB_FAILED || job->state == JOB_CANCELLED);

	if (n->cancelled_at.len > 0)
		return BYTES("cancelled");
	return stopped ? bytes_of(job_state_names[job->state])
	               : bytes_of(notification_ended(n) ? "done" : "running");
}

/* `job`: of a broadcast that has not seen all devices yet; NULL: there is none, or it has just begun. */
static void write_notification(struct json_writer *w, const struct notification *n, const struct job *job)
{
	json_begin_object(w);
	json_member_text(w, BYTES("id"), n->id);
	json_member_text(w, BYTES("state"), state_of(n, job));
	json_member_text(w, BYTES("userId"), n->user);
	json_member_text(w, BYTES("platform"), n->platform);
	json_member_text(w, BYTES("jobId"), n->job);
	json_member_i64(w, BYTES("devices"), n->devices);
	json_key(w, BYTES("leftOut"));
	write_numbers(w, &n->left_out);
	json_member_text(w, BYTES("onUnknown"), n->retries ? BYTES("retry") : BYTES("give_up"));
	json_member_i64(w, BYTES("messages"), n->messages);
	write_counts(w, n);
	json_member_text(w, BYTES("caller"), n->caller);
	json_member_text(w, BYTES("createdAt"), n->created_at);
	json_member_text(w, BYTES("updatedAt"), n->updated_at);
	json_member_text(w, BYTES("cancelledAt"), n->cancelled_at);
	json_member_text(w, BYTES("endedAt"), n->ended_at);
	json_end_object(w);
}

/* ---- to a user ---- */

struct notify_call {
	struct notify_request q;
	struct notification   r;
};

static bool has_device(const struct notify_request *q, struct bytes id)
{
	for (uint32_t i = 0; i < q->device_count; i++)
		if (bytes_equal(q->devices[i], id))
			return true;
	return false;
}

static void read_devices(struct v1_call *c, struct fields *f, struct notify_request *q)
{
	const struct json *list = fields_array(f, "devices", NOTIFY_LISTED_MAX);
	struct bytes      *ids;

	if (list == NULL)
		return;
	q->devices = ids = arena_array(c->ctx.arena, list->count + 1, sizeof(*ids));
	for (const struct json *m = fields_first(f, list); m != NULL; m = fields_next(f, m)) {
		struct bytes id = json_text(m);

		if (!push_device_id_is(id))
			fields_fail(f, "devices", ERR_INVALID, "must be a list of device ids");
		else if (has_device(q, id))
			fields_fail(f, "devices", ERR_INVALID, "names a device twice");
		else
			ids[q->device_count++] = id;
	}
	if (list->count == 0)
		fields_fail(f, "devices", ERR_INVALID, "is empty; leave it out to mean all devices");
}

enum err_code notify_decode(struct v1_call *c, struct err *err)
{
	struct notify_call *n = v1_request(c, sizeof(*n));
	struct fields       f;

	if (v1_user_param(c, &n->q.user, err) != ERR_NONE)
		return err->code;
	fields_init(&f, c->body, err);
	read_message(c, &f, &n->q.message);
	read_devices(c, &f, &n->q);
	return fields_end(&f);
}

enum err_code notify_run(struct v1_call *c, struct err *err)
{
	struct notify_call *n = c->request;

	return notify_user(&c->ctx, &n->q, &n->r, err);
}

void notify_encode(struct v1_call *c, struct json_writer *w)
{
	c->status = 202;
	write_notification(w, &((const struct notify_call *)c->request)->r, NULL);
}

/* ---- to all devices ---- */

struct broadcast_call {
	struct broadcast         q;
	struct broadcast_started r;
};

/* It goes to whoever has a device of the platforms. */
enum err_code broadcast_name(struct v1_call *c, struct err *err)
{
	struct fields f;
	int           platform;

	fields_init(&f, c->body, err);
	platform = fields_has(&f, "platform") ? fields_choice(&f, "platform", push_platforms, -1) : -1;
	for (int i = 0; push_platforms[i] != NULL; i++)
		if (platform < 0 || platform == i)
			v1_resource(c, "platform", bytes_of(push_platforms[i]));
	c->all_users = true;
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code broadcast_decode(struct v1_call *c, struct err *err)
{
	struct broadcast_call *b = v1_request(c, sizeof(*b));
	struct job_new         job = {0};
	struct fields          f;
	int                    platform;

	fields_init(&f, c->body, err);
	read_message(c, &f, &b->q.message);
	if (fields_has(&f, "platform")) {
		platform = fields_choice(&f, "platform", push_platforms, -1);
		b->q.platform = bytes_of(push_platforms[platform < 0 ? 0 : platform]);
	}
	v1_read_job(&f, &job);
	b->q.dry_run = job.dry_run;
	b->q.rate = job.rate;
	return fields_end(&f);
}

enum err_code broadcast_run(struct v1_call *c, struct err *err)
{
	struct broadcast_call *b = c->request;

	return broadcast_start(&c->ctx, &b->q, &b->r, err);
}

void broadcast_encode(struct v1_call *c, struct json_writer *w)
{
	c->status = 202;
	write_notification(w, &((const struct broadcast_call *)c->request)->r.notification, NULL);
}

/* ---- reading ---- */

struct get_call {
	struct bytes        id;
	struct notification r;
	struct job          job; /* of a broadcast; its id is empty: there is none */
	bool                changed;
};

enum err_code notification_get_decode(struct v1_call *c, struct err *err)
{
	struct get_call *g = v1_request(c, sizeof(*g));

	g->id = c->params[0];
	if (g->id.len > JOB_ID_CHARS || !bytes_hold_only(g->id, "-"))
		return err_field(err, ERR_NOT_FOUND, "id", "id: there is no such notification");
	return ERR_NONE;
}

/* To a user that is denied: it is as if it did not exist. */
static bool is_hidden(const struct v1_call *c, const struct notification *n)
{
	return n->user.len > 0 && v1_denied(c, "user", n->user);
}

/* The job of a broadcast that has not seen all devices yet. */
static enum err_code read_job(struct v1_call *c, const struct notification *n, struct job *out,
                              struct err *err)
{
	enum err_code rc;

	if (n->job.len == 0 || n->listed)
		return ERR_NONE;
	rc = job_get(&c->ctx, n->job, out, err);
	return rc == ERR_NOT_FOUND ? ERR_NONE : rc;
}

enum err_code notification_get_run(struct v1_call *c, struct err *err)
{
	struct get_call *g = c->request;

	if (notification_get(&c->ctx, g->id, &g->r, err) != ERR_NONE)
		return err->code;
	if (is_hidden(c, &g->r))
		return notification_unknown(err);
	return read_job(c, &g->r, &g->job, err);
}

void notification_get_encode(struct v1_call *c, struct json_writer *w)
{
	const struct get_call *g = c->request;

	write_notification(w, &g->r, g->job.id.len > 0 ? &g->job : NULL);
}

/* ---- cancelling ---- */

enum err_code notification_cancel_decode(struct v1_call *c, struct err *err)
{
	return notification_get_decode(c, err);
}

enum err_code notification_cancel_run(struct v1_call *c, struct err *err)
{
	struct get_call *g = c->request;
	uint32_t         before = c->ctx.changes.count;

	if (notification_get(&c->ctx, g->id, &g->r, err) != ERR_NONE)
		return err->code;
	if (is_hidden(c, &g->r))
		return notification_unknown(err);
	if (notification_cancel(&c->ctx, g->id, &g->r, err) != ERR_NONE)
		return err->code;
	g->changed = c->ctx.changes.count > before;
	return ERR_NONE;
}

void notification_cancel_committed(struct v1_call *c)
{
	const struct get_call *g = c->request;

	if (g->changed && g->r.job.len > 0)
		v1_job_cancelled(c, bytes_of(broadcast_job.name));
	push_wake(c->ctx.services);
}

void notification_cancel_encode(struct v1_call *c, struct json_writer *w)
{
	write_notification(w, &((const struct get_call *)c->request)->r, NULL);
}

/* ---- all of them ---- */

struct list_call {
	struct notifications_search q;
	struct notifications_page   page;
	struct job                 *jobs; /* of each; its id is empty: there is none */
};

enum err_code notification_list_decode(struct v1_call *c, struct err *err)
{
	struct list_call *l = v1_request(c, sizeof(*l));
	struct bytes      limit, cursor, partition;
	uint64_t          number = NOTIFICATIONS_PAGE_DEFAULT;

	if (v1_query(c, "limit", &limit, err) != ERR_NONE || v1_query(c, "cursor", &cursor, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, NOTIFICATIONS_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d",
		                 NOTIFICATIONS_PAGE_MAX);
	l->q.limit = (uint32_t)number;
	if (cursor.data != NULL && (!cursor_read(&c->ctx, cursor, &partition, &l->q.before) ||
	                            !bytes_is(partition, "NOTIFICATIONS") || l->q.before.len == 0))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

enum err_code notification_list_run(struct v1_call *c, struct err *err)
{
	struct list_call *l = c->request;

	if (notifications_find(&c->ctx, &l->q, &l->page, err) != ERR_NONE)
		return err->code;
	l->jobs = arena_zalloc(c->ctx.arena, (l->page.count + 1) * sizeof(*l->jobs));
	for (uint32_t i = 0; i < l->page.count; i++)
		if (read_job(c, &l->page.list[i], &l->jobs[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* Those that the key may not see are left out. */
void notification_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct list_call          *l = c->request;
	const struct notifications_page *page = &l->page;

	json_begin_object(w);
	json_name(w, BYTES("notifications"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++)
		if (v1_allowed(c, "notification", page->list[i].id) && !is_hidden(c, &page->list[i]))
			write_notification(w, &page->list[i], l->jobs[i].id.len > 0 ? &l->jobs[i] : NULL);
	json_end_array(w);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"),
		                 cursor_write(&c->ctx, BYTES("NOTIFICATIONS"), page->last));
	json_end_object(w);
}
