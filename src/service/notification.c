/* Notifications: see notification.h. */
#include "service/notification.h"

#include "service/account.h"
#include "service/cursor.h"
#include "service/push.h"
#include "service/push_list.h"
#include "service/row.h"
#include "service/user.h"

#define KEY_NOTIFICATIONS "NOTIFICATIONS"

const char *const push_state_names[PUSH_STATE_COUNT] = {
#define X(id, name) name,
        PUSH_STATES(X)
#undef X
};

const char *const push_error_names[PUSH_ERROR_COUNT] = {
#define X(name) name,
        PUSH_ERRORS(X)
#undef X
};

static const char *const left_out_names[PUSH_LEFT_OUT_COUNT] = {
#define X(id, name) name,
        PUSH_LEFT_OUTS(X)
#undef X
};

unsigned push_error_of(struct bytes code)
{
	unsigned i = 0;

	while (i < PUSH_ERROR_COUNT - 1 && !bytes_is(code, push_error_names[i]))
		i++;
	return i;
}

/* ---- rows ---- */

static struct item map_of(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){0};
}

static struct notification notification_of(const struct item *row)
{
	const struct value *listed = item_get(row, BYTES("listed"));
	struct item         counts = map_of(row, "counts");
	struct notification n = {.id = row_text(row, "SK"),
	                         .user = row_text(row, "userId"),
	                         .platform = row_text(row, "platform"),
	                         .job = row_text(row, "jobId"),
	                         .caller = row_text(row, "caller"),
	                         .created_at = row_text(row, "createdAt"),
	                         .updated_at = row_text(row, "updatedAt"),
	                         .ended_at = row_text(row, "endedAt"),
	                         .cancelled_at = row_text(row, "cancelledAt"),
	                         .message = row_text(row, "message"),
	                         .ttl_s = row_i64(row, "messageTtl", -1),
	                         .created_s = row_i64(row, "createdSeconds", 0),
	                         .expires_s = row_i64(row, "sendUntil", 0),
	                         .listed = listed != NULL && listed->type == VALUE_BOOL && listed->truth,
	                         .messages = row_i64(row, "messages", 0),
	                         .retries = bytes_is(row_text(row, "onUnknown"), "retry"),
	                         .resent = row_i64(row, "resent", 0),
	                         .devices = row_i64(row, "devices", 0),
	                         .left_out = map_of(row, "leftOut"),
	                         .errors = map_of(row, "errors"),
	                         .disabled = row_i64(row, "disabled", 0),
	                         .row = *row};

	for (int i = 0; i < PUSH_STATE_COUNT; i++)
		n.counts[i] = row_i64(&counts, push_state_names[i], 0);
	return n;
}

bool notification_ended(const struct notification *n)
{
	return n->listed && n->counts[PUSH_QUEUED] + n->counts[PUSH_SENDING] + n->counts[PUSH_ACCEPTED] == 0;
}

bool notification_is_over(const struct context *ctx, const struct notification *n)
{
	return n->id.len == 0 || n->cancelled_at.len > 0 || n->expires_s <= ctx->now_s;
}

static void set_text(struct row *row, const char *name, struct bytes text)
{
	if (text.len > 0)
		row_set_text(row, name, text);
	else
		row_remove(row, name);
}

static void put_map(struct row *row, const char *name, struct item map)
{
	if (map.count > 0)
		row_set(row, name, (struct value){.type = VALUE_M, .map = map});
}

static struct value counts_value(struct context *ctx, const struct notification *n)
{
	struct row counts;

	row_init(&counts, ctx->arena);
	for (int i = 0; i < PUSH_STATE_COUNT; i++)
		if (n->counts[i] != 0)
			row_set_i64(&counts, push_state_names[i], n->counts[i]);
	return (struct value){.type = VALUE_M, .map = row_item(&counts)};
}

/* Of the notification as a whole: it was sent if one device or more may have it. */
static void end_publish(struct context *ctx, const struct notification *n)
{
	int64_t sent = n->counts[PUSH_ACCEPTED] + n->counts[PUSH_DELIVERED] + n->counts[PUSH_UNCONFIRMED];
	struct event e = {.type = sent > 0 ? EVENT_PUSH_SENT : EVENT_PUSH_FAILED, .subject = n->user};
	struct row   data;

	if (!ctx_publishes(ctx, e.type) || n->messages == 0)
		return;
	if (e.subject.len == 0)
		e.subject = arena_printf(ctx->arena, "notification:%.*s", BYTES_ARG(n->id));
	row_init(&data, ctx->arena);
	row_set_text(&data, "notificationId", n->id);
	set_text(&data, "platform", n->platform);
	row_set_i64(&data, "messages", n->messages);
	row_set(&data, "counts", counts_value(ctx, n));
	put_map(&data, "errors", n->errors);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* What was accepted, too, until its receipt has come. */
static bool may_send_again(const struct context *ctx, const struct notification *n)
{
	return !n->listed || n->counts[PUSH_QUEUED] + n->counts[PUSH_SENDING] > 0 ||
	       (n->counts[PUSH_ACCEPTED] > 0 && !notification_is_over(ctx, n));
}

void notification_put(struct context *ctx, struct notification *n)
{
	struct row row;

	n->updated_at = user_time(ctx->arena, ctx->now_us);
	if (notification_ended(n) && n->ended_at.len == 0) {
		n->ended_at = n->updated_at;
		end_publish(ctx, n);
	}
	if (!may_send_again(ctx, n))
		n->message = (struct bytes){NULL, 0}; /* (2) */
	row_from(&row, ctx->arena, &n->row);
	row_set_text(&row, "PK", BYTES(KEY_NOTIFICATIONS));
	row_set_text(&row, "SK", n->id);
	set_text(&row, "userId", n->user);
	set_text(&row, "platform", n->platform);
	set_text(&row, "jobId", n->job);
	set_text(&row, "caller", n->caller);
	set_text(&row, "createdAt", n->created_at);
	set_text(&row, "updatedAt", n->updated_at);
	set_text(&row, "endedAt", n->ended_at);
	set_text(&row, "cancelledAt", n->cancelled_at);
	set_text(&row, "message", n->message);
	row_set_i64(&row, "messageTtl", n->ttl_s);
	row_set_i64(&row, "createdSeconds", n->created_s);
	row_set_i64(&row, "sendUntil", n->expires_s);
	row_set(&row, "listed", value_bool(n->listed));
	row_set_i64(&row, "messages", n->messages);
	row_set(&row, "counts", counts_value(ctx, n));
	put_map(&row, "errors", n->errors);
	put_map(&row, "leftOut", n->left_out);
	row_set_i64(&row, "devices", n->devices);
	row_set_text(&row, "onUnknown", n->retries ? BYTES("retry") : BYTES("give_up"));
	row_set_i64(&row, "resent", n->resent);
	row_set_i64(&row, "disabled", n->disabled);
	row_set_i64(&row, "ttl", ctx->now_s + NOTIFICATION_KEPT_S);
	n->row = row_item(&row);
	ctx_put(ctx, TABLE_PUSH, n->row);
}

void notification_move(struct notification *n, enum push_state from, enum push_state to, int64_t count)
{
	n->counts[from] -= count;
	n->counts[to] += count;
}

static void map_add(struct context *ctx, struct item *map, const char *name, int64_t count)
{
	struct value number = value_i64(row_i64(map, name, 0) + count);

	if (count != 0)
		*map = item_with(ctx->arena, map, bytes_of(name), &number);
}

void notification_error(struct context *ctx, struct notification *n, unsigned error, int64_t count)
{
	map_add(ctx, &n->errors, push_error_names[error], count);
}

enum err_code notification_look(struct context *ctx, struct bytes id, struct notification *out,
                                struct err *err)
{
	struct looked row;

	*out = (struct notification){0};
	looked_init(&row, BYTES(KEY_NOTIFICATIONS), id);
	if (ctx_look_in(ctx, TABLE_PUSH, &row, err) != ERR_NONE)
		return err->code;
	if (row.found)
		*out = notification_of(&row.item);
	return ERR_NONE;
}

/* ---- making one ---- */

/* How long it may wait: its `ttl`, its `expiration`, or a day. */
static int64_t send_until(const struct context *ctx, const struct notification_message *m)
{
	int64_t until_s = ctx->now_s + NOTIFICATION_WAIT_S;
	int64_t grace_s = ctx->now_s + NOTIFICATION_GRACE_S;

	if (m->ttl_s >= 0 && ctx->now_s + m->ttl_s < until_s)
		until_s = ctx->now_s + m->ttl_s;
	if (m->expiration_s > 0 && m->expiration_s < until_s)
		until_s = m->expiration_s;
	return until_s > grace_s ? until_s : grace_s;
}

static struct notification notification_make(struct context *ctx, const struct notification_message *m)
{
	return (struct notification){.id = job_id_make(ctx),
	                             .caller = ctx->caller,
	                             .created_at = user_time(ctx->arena, ctx->now_us),
	                             .message = m->members,
	                             .ttl_s = m->ttl_s,
	                             .retries = m->retries,
	                             .created_s = ctx->now_s,
	                             .expires_s = send_until(ctx, m)};
}

static enum err_code check_on(struct context *ctx, struct err *err)
{
	return push_is_on(ctx->services)
	               ? ERR_NONE
	               : err_set(err, ERR_NOT_NOW,
	                         "push is not set up: the identity file (--identity) has no section `push`");
}

/* ---- one user ---- */

/* (3) */
static enum err_code check_user(struct context *ctx, struct bytes user, struct err *err)
{
	struct verdict v = {0};

	if (account_judge_user(ctx, user, &v, err) != ERR_NONE)
		return err->code;
	return v.kind == VERDICT_ALLOW ? ERR_NONE
	                               : err_field(err, ERR_NOT_NOW, "id",
	                                           "id: the user is not active, and gets no messages");
}

struct recipients {
	struct push_recipient *list;
	uint32_t               count, devices;
	int64_t                left_out[PUSH_LEFT_OUT_COUNT];
};

/* Not to one that is signed out, or that Expo cannot reach. */
static void recipient_add(struct recipients *r, const struct push_device *d, bool active)
{
	struct bytes token = d->tokens[PUSH_EXPO];

	r->devices++;
	if (!active)
		r->left_out[PUSH_SIGNED_OUT]++;
	else if (token.len == 0)
		r->left_out[PUSH_NO_EXPO_TOKEN]++;
	else if (!push_token_is(PUSH_EXPO, token))
		r->left_out[PUSH_BAD_EXPO_TOKEN]++;
	else
		r->list[r->count++] = (struct push_recipient){.user = d->user, .device = d->id};
}

static void recipients_count(struct context *ctx, struct notification *n, const struct recipients *r)
{
	n->devices += r->devices;
	for (int i = 0; i < PUSH_LEFT_OUT_COUNT; i++)
		map_add(ctx, &n->left_out, left_out_names[i], r->left_out[i]);
}

static enum err_code find_all(struct context *ctx, struct bytes user, struct recipients *out, struct err *err)
{
	struct push_search q = {.user = user, .limit = PUSH_PAGE_MAX, .inactive = true};
	struct push_page   page;

	do {
		if (push_devices_find(ctx, &q, &page, err) != ERR_NONE)
			return err->code;
		for (uint32_t i = 0; i < page.count; i++) {
			if (out->count == NOTIFY_DEVICES_MAX)
				return err_field(
				        err, ERR_LIMIT, "devices",
				        "devices: the user has more than %d; name those that are meant",
				        NOTIFY_DEVICES_MAX);
			recipient_add(out, &page.list[i], page.list[i].active);
		}
		q.after = page.last;
	} while (page.more);
	return ERR_NONE;
}

/* Those that are not there, or not active, are counted as skipped. */
static enum err_code find_listed(struct context *ctx, const struct notify_request *q, struct recipients *out,
                                 struct err *err)
{
	for (uint32_t i = 0; i < q->device_count; i++) {
		struct push_ref    ref = {q->user, q->devices[i]};
		struct push_device d;
		enum err_code      rc = push_device_get(ctx, &ref, &d, err);

		if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
			return rc;
		if (rc == ERR_NONE)
			recipient_add(out, &d, d.active);
		else
			out->left_out[PUSH_NOT_FOUND]++;
	}
	return ERR_NONE;
}

enum err_code notify_user(struct context *ctx, const struct notify_request *q, struct notification *out,
                          struct err *err)
{
	struct recipients to = {.list = arena_array(ctx->arena, NOTIFY_DEVICES_MAX, sizeof(*to.list))};

	if (check_on(ctx, err) != ERR_NONE || check_user(ctx, q->user, err) != ERR_NONE)
		return err->code;
	if (q->devices == NULL ? find_all(ctx, q->user, &to, err) != ERR_NONE
	                       : find_listed(ctx, q, &to, err) != ERR_NONE)
		return err->code;
	*out = notification_make(ctx, &q->message);
	out->user = q->user;
	out->listed = true;
	recipients_count(ctx, out, &to);
	out->messages = q->devices == NULL ? 0 : q->device_count - to.count;
	out->counts[PUSH_SKIPPED] = out->messages;
	if (push_enqueue(ctx, out, to.list, to.count, err) != ERR_NONE)
		return err->code;
	notification_put(ctx, out);
	return ERR_NONE;
}

/* ---- broadcasts ---- */

enum err_code broadcast_start(struct context *ctx, const struct broadcast *q, struct broadcast_started *out,
                              struct err *err)
{
	struct notification n = notification_make(ctx, &q->message);
	struct job_new      job = {.kind = &broadcast_job, .dry_run = q->dry_run, .rate = q->rate};
	struct job_started  started;
	struct row          args;

	if (check_on(ctx, err) != ERR_NONE)
		return err->code;
	if (job.rate == 0 && !job.dry_run) /* as fast as they are sent, so that few wait */
		job.rate = atomic_load_explicit(&ctx->services->push_rate, memory_order_relaxed);
	if (!ctx->services->tables.device_index)
		return err_set(err, ERR_NOT_NOW,
		               "broadcasts need the index of devices by platform: set --device-index");
	row_init(&args, ctx->arena);
	row_set_text(&args, "notificationId", n.id);
	set_text(&args, "platform", q->platform);
	job.args = row_item(&args);
	job.unique = n.id;
	if (job_start(ctx, &job, &started, err) != ERR_NONE)
		return err->code;
	n.platform = q->platform.len > 0 ? q->platform : BYTES("all");
	n.job = started.job.id;
	notification_put(ctx, &n);
	*out = (struct broadcast_started){n, started.job};
	return ERR_NONE;
}

/* "PLATFORM SHARD KEY": KEY as of a list (lock.h); without: the shard begins. */
struct broadcast_at {
	unsigned              platform;
	struct push_broadcast q;
};

static bool at_read(struct context *ctx, struct bytes cursor, struct broadcast_at *out)
{
	struct bytes parts[3] = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
	uint64_t     platform = 0, shard = 0;

	for (int i = 0; i < 3 && cursor.len > 0; i++) {
		const char *space = memchr(cursor.data, ' ', cursor.len);
		size_t      len = space == NULL ? cursor.len : (size_t)(space - cursor.data);

		parts[i] = (struct bytes){cursor.data, len};
		cursor = space == NULL ? (struct bytes){NULL, 0}
		                       : (struct bytes){space + 1, cursor.len - len - 1};
	}
	if (parts[0].len > 0 &&
	    (!bytes_to_u64(parts[0], 1, &platform) || !bytes_to_u64(parts[1], DEVICE_SHARDS_MAX, &shard)))
		return false;
	*out = (struct broadcast_at){.platform = (unsigned)platform,
	                             .q = {.limit = BROADCAST_PAGE, .shard = (uint32_t)shard}};
	return parts[2].len == 0 ||
	       cursor_unpack(ctx->arena, parts[2], &out->q.after_user, &out->q.after_device);
}

/* The next platform, if all are meant; false: there is none. */
static bool at_next(struct context *ctx, struct job *job, unsigned platform,
                    const struct push_broadcast_page *page)
{
	struct bytes key = {NULL, 0};

	if (page->more && page->last_user.len > 0)
		key = cursor_pack(ctx->arena, page->last_user, page->last_device);
	if (page->more) {
		job->cursor = arena_printf(ctx->arena, "%u %u %.*s", platform, page->shard, BYTES_ARG(key));
		return true;
	}
	if (row_text(&job->args, "platform").len > 0 || push_platforms[platform + 1] == NULL)
		return false;
	job->cursor = arena_printf(ctx->arena, "%u 0", platform + 1);
	return true;
}

/* A dry run only counts. */
static enum err_code enqueue_page(struct context *ctx, struct notification *n,
                                  const struct push_broadcast_page *page, bool dry_run, struct err *err)
{
	struct recipients to = {.list = arena_array(ctx->arena, page->count + 1, sizeof(*to.list))};

	for (uint32_t i = 0; i < page->count; i++)
		recipient_add(&to, &page->list[i], true);
	recipients_count(ctx, n, &to);
	return dry_run ? ERR_NONE : push_enqueue(ctx, n, to.list, to.count, err);
}

static enum err_code broadcast_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct bytes               platform = row_text(&job->args, "platform");
	struct notification        n;
	struct broadcast_at        at;
	struct push_broadcast_page page;

	(void)fetched;
	if (!at_read(ctx, job->cursor, &at))
		return err_set(err, ERR_INVALID, "the job's cursor cannot be read");
	at.q.platform = platform.len > 0 ? platform : bytes_of(push_platforms[at.platform]);
	if (notification_look(ctx, row_text(&job->args, "notificationId"), &n, err) != ERR_NONE)
		return err->code;
	if (n.id.len == 0)
		return err_set(err, ERR_NOT_FOUND, "the notification has expired");
	if (push_devices_broadcast(ctx, &at.q, &page, err) != ERR_NONE)
		return err->code;
	if (enqueue_page(ctx, &n, &page, job->dry_run, err) != ERR_NONE)
		return err->code;
	job->handled = page.count;
	job_count(ctx, job, "devices", page.count);
	job->done = !at_next(ctx, job, at.platform, &page);
	n.listed = job->done;
	if (job->done)
		job->cursor = (struct bytes){NULL, 0};
	notification_put(ctx, &n);
	return ERR_NONE;
}

/* ---- cancelling ---- */

/* All that waits, in this commit: its rows are removed by those who would have sent them (push.h). */
static enum err_code drop_waiting(struct context *ctx, struct notification *n, struct err *err)
{
	if (n->cancelled_at.len > 0)
		return ERR_NONE;
	if (n->listed && n->counts[PUSH_QUEUED] + n->counts[PUSH_SENDING] == 0)
		return err_field(
		        err, ERR_NOT_NOW, "id",
		        "id: nothing of the notification is left to send, so nothing can be cancelled");
	n->cancelled_at = user_time(ctx->arena, ctx->now_us);
	n->listed = true;
	notification_move(n, PUSH_QUEUED, PUSH_CANCELLED, n->counts[PUSH_QUEUED]);
	notification_put(ctx, n);
	return ERR_NONE;
}

static enum err_code broadcast_cancelled(struct context *ctx, struct job *job, struct err *err)
{
	struct notification n;

	if (notification_look(ctx, row_text(&job->args, "notificationId"), &n, err) != ERR_NONE)
		return err->code;
	if (n.id.len == 0) /* it has expired */
		return job->state == JOB_RUNNING ? ERR_NONE
		                                 : err_field(err, ERR_NOT_NOW, "id", "id: the job has ended");
	return drop_waiting(ctx, &n, err);
}

enum err_code notification_cancel(struct context *ctx, struct bytes id, struct notification *out,
                                  struct err *err)
{
	struct job    job;
	enum err_code rc;

	if (notification_get(ctx, id, out, err) != ERR_NONE || drop_waiting(ctx, out, err) != ERR_NONE)
		return err->code;
	if (out->job.len == 0)
		return ERR_NONE;
	rc = job_get(ctx, out->job, &job, err);
	if (rc == ERR_NOT_FOUND) /* nobody goes on with it */
		return ERR_NONE;
	return rc != ERR_NONE || job.state == JOB_CANCELLED ? rc : job_stop(ctx, &job, err);
}

const struct job_kind broadcast_job = {
        .name = "broadcast", .can_cancel = true, .step = broadcast_step, .cancelled = broadcast_cancelled};

/* ---- reading ---- */

enum err_code notification_unknown(struct err *err)
{
	return err_field(err, ERR_NOT_FOUND, "id", "id: there is no such notification");
}

enum err_code notification_get(struct context *ctx, struct bytes id, struct notification *out,
                               struct err *err)
{
	if (notification_look(ctx, id, out, err) != ERR_NONE)
		return err->code;
	return out->id.len > 0 ? ERR_NONE : notification_unknown(err);
}

enum err_code notifications_find(struct context *ctx, const struct notifications_search *q,
                                 struct notifications_page *out, struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(KEY_NOTIFICATIONS), (struct bytes){NULL, 0});
	struct item               start = row_key_two(ctx->arena, BYTES(KEY_NOTIFICATIONS), q->before);
	struct table_query        query = {.key = &key,
	                                   .limit = q->limit,
	                                   .backward = true,
	                                   .consistent = true,
	                                   .start = q->before.len > 0 ? &start : NULL};
	struct table_query_result r;

	*out = (struct notifications_page){.list = arena_array(ctx->arena, q->limit + 1, sizeof(*out->list))};
	if (ctx_query_in(ctx, TABLE_PUSH, &query, &r, err) != ERR_NONE)
		return err->code;
	out->more = r.more;
	if (r.more)
		out->last = row_text(&r.last_key, "SK");
	for (uint32_t i = 0; i < r.count; i++)
		if (!row_expired(&r.items[i], "ttl", ctx->now_us))
			out->list[out->count++] = notification_of(&r.items[i]);
	return ERR_NONE;
}
