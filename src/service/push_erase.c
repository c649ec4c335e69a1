/* Erasing the devices of a user: see push_erase.h. */
#include "service/push_erase.h"

#include "service/erase.h"
#include "service/event.h"
#include "service/idempotency.h"
#include "service/push.h"
#include "service/row.h"
#include "service/scan.h"

/* Whose, and of which time: what came after the call is not its affair. */
struct forgetting {
	struct erasing e;
	int64_t        before_s;
};

static struct forgetting forgetting_of(const struct job *job)
{
	return (struct forgetting){.e = {.id = row_text(&job->args, "userId")},
	                           .before_s = row_i64(&job->args, "before", 0)};
}

/* ---- markers ---- */

static bool owns_marker(struct context *ctx, const struct forgetting *f, const struct item *row)
{
	struct push_marker m;

	(void)ctx;
	return push_marker_read(row, &m) && bytes_equal(row_text(row, "userId"), f->e.id);
}

/* One of a device that was registered since stays. */
static enum err_code marker_clear(struct context *ctx, const struct forgetting *f, const struct item *row,
                                  struct err *err)
{
	struct push_ref    ref = {f->e.id, row_text(row, "deviceId")};
	struct push_marker m;
	struct looked      device;

	if (!push_marker_read(row, &m))
		return ERR_NONE;
	if (push_device_look(ctx, &ref, &device, err) != ERR_NONE)
		return err->code;
	if (!device.found || !bytes_equal(row_text(&device.item, push_kind_names[m.kind]), m.token))
		push_marker_delete(ctx, &m);
	return ERR_NONE;
}

/* ---- messages ---- */

static bool owns_message(struct context *ctx, const struct forgetting *f, const struct item *row)
{
	int64_t made_s = row_i64(row, "since", 0) / 1000000; /* of a batch */

	made_s = made_s > 0 ? made_s : row_i64(row, "createdSeconds", 0); /* of a notification */
	return made_s <= f->before_s && push_owns(ctx, &f->e, row);
}

static bool is_waiting(const struct item *row)
{
	const struct value *counts = item_get(row, BYTES("counts"));

	return counts != NULL && counts->type == VALUE_M &&
	       row_i64(&counts->map, push_state_names[PUSH_QUEUED], 0) +
	                       row_i64(&counts->map, push_state_names[PUSH_SENDING], 0) >
	               0;
}

/* The text stays until nothing is left to send: its recipients are gone, so it is sent to nobody. */
static enum err_code message_clear(struct context *ctx, const struct forgetting *f, const struct item *row,
                                   struct err *err)
{
	struct item  blank = push_blank(ctx, &f->e, row);
	struct bytes text = row_text(row, "message");
	struct row   left;

	(void)err;
	row_from(&left, ctx->arena, &blank);
	if (text.len > 0 && is_waiting(row))
		row_set_text(&left, "message", text);
	ctx_put(ctx, TABLE_PUSH, row_item(&left));
	return ERR_NONE;
}

/* ---- kept answers ---- */

/* Of registrations, and of messages to the user. */
static bool owns_answer(struct context *ctx, const struct forgetting *f, const struct item *row)
{
	struct bytes named = arena_printf(ctx->arena, "\"userId\":\"%.*s\"", BYTES_ARG(f->e.id));

	return idempotency_kept_s(row) <= f->before_s && bytes_contains(row_text(row, "body"), named);
}

static enum err_code answer_clear(struct context *ctx, const struct forgetting *f, const struct item *row,
                                  struct err *err)
{
	(void)f;
	(void)err;
	ctx_delete(ctx, TABLE_IDEMPOTENCY, row_key_one(ctx->arena, row_text(row, "PK")));
	return ERR_NONE;
}

/* ---- sweeps: tables that are read ---- */

struct sweep {
	enum service_table table;
	const char        *counted; /* its name in the receipt */
	bool (*owns)(struct context *ctx, const struct forgetting *f, const struct item *row);
	enum err_code (*clear)(struct context *ctx, const struct forgetting *f, const struct item *row,
	                       struct err *err);
};

static const struct sweep sweeps[] = {
        {TABLE_PUSH_TOKENS, "markers", owns_marker, marker_clear},
        {TABLE_PUSH, "messages", owns_message, message_clear},
        {TABLE_IDEMPOTENCY, "answers", owns_answer, answer_clear},
};
enum { SWEEPS = sizeof(sweeps) / sizeof(sweeps[0]) };

/* "1 KEY": which sweep, and where it goes on. Empty: the devices come first. */
struct at {
	unsigned     stage; /* 0: devices; n: sweeps[n - 1] */
	struct bytes cursor;
};

static struct at at_read(const struct job *job)
{
	struct bytes c = job->cursor;
	struct at    at = {0};

	if (c.len == 0 || c.data[0] < '1' || c.data[0] > '0' + SWEEPS)
		return at;
	at.stage = (unsigned)(c.data[0] - '0');
	if (c.len > 2)
		at.cursor = (struct bytes){c.data + 2, c.len - 2};
	return at;
}

static void at_write(struct context *ctx, struct job *job, const struct at *at)
{
	job->cursor = arena_printf(ctx->arena, "%u %.*s", at->stage, BYTES_ARG(at->cursor));
}

struct seeking {
	const struct sweep *sweep;
	struct forgetting   f;
};

static bool is_owned(struct context *ctx, const void *arg, const struct item *row)
{
	const struct seeking *s = arg;

	return s->sweep->owns(ctx, &s->f, row);
}

static enum err_code erase_fetch(struct context *ctx, const struct job *job, void **out, struct err *err)
{
	struct at      at = at_read(job);
	struct seeking s = {.sweep = at.stage == 0 ? NULL : &sweeps[at.stage - 1], .f = forgetting_of(job)};
	struct scan    q = {.page = ERASE_PAGE,
	                    .found_max = SCAN_FOUND_MAX,
	                    .from = at.cursor,
	                    .wanted = is_owned,
	                    .arg = &s};

	*out = NULL;
	if (s.sweep == NULL)
		return ERR_NONE;
	q.table = s.sweep->table;
	*out = arena_alloc(ctx->arena, sizeof(struct scan_found));
	return scan_read(ctx, &q, *out, err);
}

/* ---- steps ---- */

static enum err_code devices_step(struct context *ctx, struct job *job, struct at *at, struct err *err)
{
	int64_t            until_s = row_i64(&job->args, "until", 0);
	int64_t            devices = job->steps == 0 ? row_i64(&job->args, "devices", 0) : 0;
	int64_t            lanes = job->steps == 0 ? row_i64(&job->args, "knownDevices", 0) : 0;
	struct push_erased erased = {0};

	if (until_s > 0 &&
	    push_devices_erase(ctx, row_text(&job->args, "userId"), until_s, &erased, err) != ERR_NONE)
		return err->code;
	job_count(ctx, job, "devices", devices + erased.devices);
	job_count(ctx, job, "knownDevices", lanes + erased.lanes);
	job->handled = erased.devices;
	at->stage += !erased.more;
	return ERR_NONE;
}

/* The row may have become another one since it was found. */
static enum err_code found_clear(struct context *ctx, const struct seeking *s, struct looked *row,
                                 struct err *err)
{
	if (ctx_look_in(ctx, s->sweep->table, row, err) != ERR_NONE)
		return err->code;
	return row->found && is_owned(ctx, s, &row->item) ? s->sweep->clear(ctx, &s->f, &row->item, err)
	                                                  : ERR_NONE;
}

static enum err_code sweep_step(struct context *ctx, struct job *job, struct at *at,
                                const struct scan_found *found, struct err *err)
{
	struct seeking s = {.sweep = &sweeps[at->stage - 1], .f = forgetting_of(job)};
	uint32_t       before = ctx->changes.count;
	struct looked  row;

	for (uint32_t i = 0; i < found->count; i++) {
		scan_key(found, s.sweep->table, i, &row);
		if (found_clear(ctx, &s, &row, err) != ERR_NONE)
			return err->code;
	}
	job_count(ctx, job, s.sweep->counted, ctx->changes.count - before);
	job->handled = found->read;
	at->cursor = found->whole ? (struct bytes){NULL, 0} : found->next;
	at->stage += found->whole;
	return ERR_NONE;
}

static enum err_code erase_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct at     at = at_read(job);
	enum err_code rc =
	        at.stage == 0 ? devices_step(ctx, job, &at, err) : sweep_step(ctx, job, &at, fetched, err);
	struct row args;

	if (rc != ERR_NONE)
		return rc;
	at_write(ctx, job, &at);
	if (at.stage <= SWEEPS)
		return ERR_NONE;
	row_init(&args, ctx->arena);
	row_set_text(&args, "userHash", row_text(&job->args, "userHash"));
	job->args = row_item(&args);
	job->cursor = (struct bytes){NULL, 0};
	job->done = true;
	return ERR_NONE;
}

const struct job_kind push_erase = {
        .name = "device-erase", .rate = ERASE_RATE, .fetch = erase_fetch, .step = erase_step};

/* ---- starting ---- */

enum err_code push_erase_start(struct context *ctx, struct bytes user, struct push_erased *out,
                               struct job_started *receipt, struct err *err)
{
	struct bytes   hash = event_subject_erased(ctx, user);
	struct row     args;
	struct job_new q = {
	        .kind = &push_erase,
	        .unique = arena_printf(ctx->arena, "%.*s#%lld", BYTES_ARG(hash), (long long)ctx->now_s)};

	if (push_devices_erase(ctx, user, 0, out, err) != ERR_NONE)
		return err->code;
	row_init(&args, ctx->arena);
	row_set_text(&args, "userId", user);
	row_set_text(&args, "userHash", hash);
	row_set_i64(&args, "devices", out->devices); /* that went with the call */
	row_set_i64(&args, "knownDevices", out->lanes);
	row_set_i64(&args, "until", out->more ? ctx->now_s : 0);
	row_set_i64(&args, "before", ctx->now_s);
	q.args = row_item(&args);
	return job_start(ctx, &q, receipt, err);
}
