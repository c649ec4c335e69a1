/* Jobs over all registered devices: see push_job.h. */
#include "service/push_job.h"

#include "base/date.h"
#include "service/cursor.h"

enum err_code push_job_start(struct context *ctx, const struct job_new *q, int64_t days,
                             struct job_started *out, struct err *err)
{
	static const char *const terms[] = {"inactiveDays", NULL};
	struct job_new           all = *q;
	struct row               args;

	row_init(&args, ctx->arena);
	if (q->kind == &push_cleanup)
		row_set_i64(&args, "inactiveDays", days);
	all.args = row_item(&args);
	all.unique = BYTES("all");
	if (job_start(ctx, &all, out, err) != ERR_NONE)
		return err->code;
	return job_started_check(out, &all, terms, err);
}

/* ---- walking through a table ---- */

/* A cursor is the key of the last row that was dealt with; of a repair, # stands before it once it is at the markers. */
struct walk {
	struct context           *ctx;
	struct job               *job;
	enum service_table        which;
	struct table_query_result page;
	struct item               start;
};

static enum err_code walk_read(struct walk *w, struct bytes cursor, struct err *err)
{
	struct table_query q = {.limit = PUSH_STEP_ROWS};
	struct bytes       pk, sk;

	if (cursor.len > 0 && !cursor_unpack(w->ctx->arena, cursor, &pk, &sk))
		return err_set(err, ERR_INVALID, "the job's cursor cannot be read");
	if (cursor.len > 0) {
		w->start = row_key_in(w->ctx->arena, w->which, pk, sk);
		q.start = &w->start;
	}
	return ctx_query_in(w->ctx, w->which, &q, &w->page, err);
}

static struct bytes cursor_of(const struct walk *w, const struct item *row)
{
	const struct service_table_shape *shape = service_table_shape(w->which);

	return cursor_pack(w->ctx->arena, row_text(row, shape->hash),
	                   shape->range[0] == '\0' ? (struct bytes){NULL, 0} : row_text(row, shape->range));
}

/* Rows before `next` are dealt with. True: so is the whole table. */
static bool walk_end(struct walk *w, uint32_t next, struct bytes *cursor)
{
	w->job->handled += next;
	job_count(w->ctx, w->job, "examined", next);
	if (next == w->page.count && !w->page.more)
		return true;
	if (next == w->page.count && w->page.more) /* a page may be empty */
		*cursor = cursor_of(w, &w->page.last_key);
	else if (next > 0)
		*cursor = cursor_of(w, &w->page.items[next - 1]);
	return false;
}

/* ---- clean-up ---- */

/* Since when, in seconds. A row without a time that can be read stays. */
static bool inactive_since(const struct item *row, int64_t *out)
{
	struct push_device d = push_device_of(row);
	int64_t            micros;

	if (d.active || !date_read_iso(d.updated_at, &micros))
		return false;
	*out = micros / 1000000;
	return true;
}

static enum err_code cleanup_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	int64_t     cutoff_s = ctx->now_s - row_i64(&job->args, "inactiveDays", PUSH_INACTIVE_DAYS) * 86400;
	struct walk w = {.ctx = ctx, .job = job, .which = TABLE_DEVICES};
	uint32_t    i, removed = 0, skipped = 0;
	int64_t     since_s;
	bool        fits = true;

	(void)fetched;
	if (walk_read(&w, job->cursor, err) != ERR_NONE)
		return err->code;
	for (i = 0; i < w.page.count; i++) {
		const struct item *row = &w.page.items[i];

		if (!inactive_since(row, &since_s) || since_s >= cutoff_s)
			continue;
		if (!job->dry_run &&
		    push_device_remove_found(ctx, row, REMOVED_INACTIVE, &fits, err) != ERR_NONE)
			return err->code;
		if (!fits && removed > 0)
			break;
		removed += fits;
		skipped += !fits; /* it has more lanes than any commit has room for */
		fits = true;
	}
	job_count(ctx, job, "removed", removed);
	job_count(ctx, job, "skipped", skipped);
	job->done = walk_end(&w, i, &job->cursor);
	if (job->done)
		job->cursor = (struct bytes){NULL, 0};
	return ERR_NONE;
}

/* ---- repair: devices ---- */

struct repair {
	struct context *ctx;
	struct job     *job;
	uint32_t        markers, taken, indexed, stale;
	struct err     *err;
};

/* Does the device that a marker names have the token? Its row, if so. */
static enum err_code holder_look(struct repair *r, const struct looked *marker, const struct push_marker *m,
                                 struct looked *out)
{
	struct push_ref ref;

	out->found = false;
	if (!marker->found)
		return ERR_NONE;
	ref = (struct push_ref){row_text(&marker->item, "userId"), row_text(&marker->item, "deviceId")};
	if (ref.user.len == 0 || ref.device.len == 0)
		return ERR_NONE;
	if (push_device_look(r->ctx, &ref, out, r->err) != ERR_NONE)
		return r->err->code;
	out->found = out->found && bytes_equal(row_text(&out->item, push_kind_names[m->kind]), m->token);
	return ERR_NONE;
}

/* A row that loses a token, and goes if that was its last (push_device.h, 1). */
static enum err_code row_lose(struct repair *r, const struct item *row, const struct push_marker *m)
{
	struct row left;
	bool       others = false, fits;

	row_from(&left, r->ctx->arena, row);
	row_remove(&left, push_kind_names[m->kind]);
	for (int kind = 0; kind < PUSH_KINDS; kind++)
		others = others || row_text(&left.item, push_kind_names[kind]).len > 0;
	if (r->job->dry_run)
		return ERR_NONE;
	if (!others)
		return push_device_remove_found(r->ctx, row, REMOVED_MOVED, &fits, r->err);
	push_row_put(r->ctx, &left);
	return ERR_NONE;
}

/* Two devices have one token: the one that was seen last keeps it. */
static enum err_code token_settle(struct repair *r, const struct push_marker *m, const struct item *row,
                                  const struct item *holder)
{
	r->taken++;
	if (push_seen_of(row) <= push_seen_of(holder))
		return row_lose(r, row, m);
	if (row_lose(r, holder, m) != ERR_NONE)
		return r->err->code;
	if (!r->job->dry_run)
		push_marker_put(r->ctx, m, row);
	return ERR_NONE;
}

static enum err_code token_repair(struct repair *r, const struct push_marker *m, const struct item *row)
{
	struct push_device d = push_device_of(row);
	struct looked      marker, holder;

	if (push_marker_look(r->ctx, m, &marker, r->err) != ERR_NONE)
		return r->err->code;
	if (push_marker_names(&marker, d.user, d.id)) {
		if (row_i64(&marker.item, "expiresAt", 0) == d.expires_s)
			return ERR_NONE;
	} else if (holder_look(r, &marker, m, &holder) != ERR_NONE) {
		return r->err->code;
	} else if (holder.found) {
		return token_settle(r, m, row, &holder.item);
	}
	r->markers++;
	if (!r->job->dry_run)
		push_marker_put(r->ctx, m, row);
	return ERR_NONE;
}

/* A row that this commit changes already is looked at by the next repair. */
static enum err_code device_repair(struct repair *r, const struct item *row)
{
	struct push_device d = push_device_of(row);
	struct row         indexed;

	if (row_expired(row, "expiresAt", r->ctx->now_us) ||
	    changes_find(&r->ctx->changes, TABLE_DEVICES, d.user, d.id) != NULL)
		return ERR_NONE;
	ctx_found_in(r->ctx, TABLE_DEVICES, row);
	for (int kind = 0; kind < PUSH_KINDS; kind++) {
		struct push_marker m = {(enum push_kind)kind, d.tokens[kind]};

		if (push_token_is(m.kind, m.token) && token_repair(r, &m, row) != ERR_NONE)
			return r->err->code;
		if (changes_find(&r->ctx->changes, TABLE_DEVICES, d.user, d.id) != NULL)
			return ERR_NONE;
	}
	row_from(&indexed, r->ctx->arena, row);
	push_row_index(r->ctx, &indexed);
	if (!push_index_differs(row, &indexed.item))
		return ERR_NONE;
	r->indexed++;
	if (!r->job->dry_run)
		push_row_put(r->ctx, &indexed);
	return ERR_NONE;
}

static enum err_code devices_repair(struct repair *r)
{
	struct walk w = {.ctx = r->ctx, .job = r->job, .which = TABLE_DEVICES};
	uint32_t    i;

	if (walk_read(&w, r->job->cursor, r->err) != ERR_NONE)
		return r->err->code;
	for (i = 0; i < w.page.count && job_room(r->ctx) >= PUSH_REMOVE_ROOM; i++)
		if (device_repair(r, &w.page.items[i]) != ERR_NONE)
			return r->err->code;
	if (walk_end(&w, i, &r->job->cursor))
		r->job->cursor = BYTES("#");
	return ERR_NONE;
}

/* ---- repair: markers ---- */

/* One that names a device which does not have the token goes. */
static enum err_code marker_repair(struct repair *r, const struct item *row)
{
	struct push_marker m;
	struct looked      marker, holder;

	if (!push_marker_read(row, &m))
		return ERR_NONE;
	if (push_marker_look(r->ctx, &m, &marker, r->err) != ERR_NONE ||
	    holder_look(r, &marker, &m, &holder) != ERR_NONE)
		return r->err->code;
	if (!marker.found || holder.found)
		return ERR_NONE;
	r->stale++;
	if (!r->job->dry_run)
		push_marker_delete(r->ctx, &m);
	return ERR_NONE;
}

static enum err_code markers_repair(struct repair *r)
{
	struct job  *job = r->job;
	struct walk  w = {.ctx = r->ctx, .job = job, .which = TABLE_PUSH_TOKENS};
	struct bytes cursor = {job->cursor.data + 1, job->cursor.len - 1};
	uint32_t     i;

	if (walk_read(&w, cursor, r->err) != ERR_NONE)
		return r->err->code;
	for (i = 0; i < w.page.count && job_room(r->ctx) >= PUSH_REMOVE_ROOM; i++)
		if (marker_repair(r, &w.page.items[i]) != ERR_NONE)
			return r->err->code;
	job->done = walk_end(&w, i, &cursor);
	job->cursor =
	        job->done ? (struct bytes){NULL, 0} : arena_printf(r->ctx->arena, "#%.*s", BYTES_ARG(cursor));
	return ERR_NONE;
}

static enum err_code repair_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct repair r = {.ctx = ctx, .job = job, .err = err};
	bool          markers = job->cursor.len > 0 && job->cursor.data[0] == '#';

	(void)fetched;
	if ((markers ? markers_repair(&r) : devices_repair(&r)) != ERR_NONE)
		return err->code;
	job_count(ctx, job, "markersWritten", r.markers);
	job_count(ctx, job, "markersRemoved", r.stale);
	job_count(ctx, job, "tokensTaken", r.taken);
	job_count(ctx, job, "rowsIndexed", r.indexed);
	return ERR_NONE;
}

const struct job_kind push_cleanup = {
        .name = "device-cleanup", .rate = PUSH_JOB_RATE, .can_cancel = true, .step = cleanup_step};
/* Rows that others wrote come into the index. */
static int64_t repair_period_s(const struct services *s)
{
	return s->tables.device_index ? PUSH_REPAIR_S : 0;
}

const struct job_kind push_repair = {.name = "device-repair",
                                     .rate = PUSH_JOB_RATE,
                                     .can_cancel = true,
                                     .period_s = repair_period_s,
                                     .step = repair_step};
