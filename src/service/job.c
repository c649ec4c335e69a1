/* Jobs: see job.h. */
#include "service/job.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/crypto.h"
#include "service/row.h"
#include "service/user.h"

const char *const job_state_names[] = {"running", "done", "failed", "cancelled", NULL};

#define KEY_JOBS     "JOBS"
#define KEY_RUNNING  "RUNNING"
#define KEY_PERIODIC "PERIODIC"

/* ---- rows ---- */

/* A UUID of version 7: sorted by time, to the millisecond. */
struct bytes job_id_make(struct context *ctx)
{
	uint8_t  bits[16];
	char     hex[2 * sizeof(bits)];
	uint64_t ms = (uint64_t)(ctx->now_us / 1000);

	ctx_random(ctx, bits, sizeof(bits));
	for (int i = 0; i < 6; i++)
		bits[i] = (uint8_t)(ms >> (40 - 8 * i));
	bits[6] = (uint8_t)((bits[6] & 0x0f) | 0x70);
	bits[8] = (uint8_t)((bits[8] & 0x3f) | 0x80);
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, hex);
	return arena_printf(ctx->arena, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
	                    hex + 20);
}

/* A state that is none of ours, which somebody else wrote, has nobody work on it. */
static enum job_state state_of(struct bytes name)
{
	for (int i = 0; job_state_names[i] != NULL; i++)
		if (bytes_is(name, job_state_names[i]))
			return (enum job_state)i;
	return JOB_FAILED;
}

static struct item map_of(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){0};
}

static struct job job_of(const struct item *row)
{
	const struct value *dry = item_get(row, BYTES("dryRun"));

	return (struct job){.id = row_text(row, "SK"),
	                    .kind = row_text(row, "kind"),
	                    .caller = row_text(row, "caller"),
	                    .unique = row_text(row, "unique"),
	                    .error = row_text(row, "error"),
	                    .created_at = row_text(row, "createdAt"),
	                    .updated_at = row_text(row, "updatedAt"),
	                    .ended_at = row_text(row, "endedAt"),
	                    .state = state_of(row_text(row, "state")),
	                    .dry_run = dry != NULL && dry->type == VALUE_BOOL && dry->truth,
	                    .rate = row_i64(row, "rate", 0),
	                    .steps = row_i64(row, "steps", 0),
	                    .cursor = row_text(row, "cursor"),
	                    .args = map_of(row, "args"),
	                    .progress = map_of(row, "progress"),
	                    .row = *row};
}

static void set_text(struct row *row, const char *name, struct bytes text)
{
	if (text.len > 0)
		row_set_text(row, name, text);
	else
		row_remove(row, name);
}

static void set_map(struct row *row, const char *name, struct item map)
{
	if (map.count > 0)
		row_set(row, name, (struct value){.type = VALUE_M, .map = map});
	else
		row_remove(row, name);
}

/* (4) */
static void job_put(struct context *ctx, struct job *j)
{
	struct row row;

	j->updated_at = user_time(ctx->arena, ctx->now_us);
	row_from(&row, ctx->arena, &j->row);
	row_set_text(&row, "PK", BYTES(KEY_JOBS));
	row_set_text(&row, "SK", j->id);
	row_set_text(&row, "kind", j->kind);
	row_set_text(&row, "state", bytes_of(job_state_names[j->state]));
	row_set_text(&row, "unique", j->unique);
	row_set_text(&row, "caller", j->caller);
	row_set_text(&row, "createdAt", j->created_at);
	row_set_text(&row, "updatedAt", j->updated_at);
	row_set(&row, "dryRun", value_bool(j->dry_run));
	row_set_i64(&row, "rate", j->rate);
	row_set_i64(&row, "steps", j->steps);
	set_text(&row, "endedAt", j->ended_at);
	set_text(&row, "error", j->error);
	set_text(&row, "cursor", j->cursor);
	set_map(&row, "args", j->args);
	set_map(&row, "progress", j->progress);
	if (j->state == JOB_RUNNING)
		row_remove(&row, "ttl");
	else
		row_set_i64(&row, "ttl", ctx->now_s + JOB_KEPT_S);
	j->row = row_item(&row);
	ctx_put(ctx, TABLE_JOBS, j->row);
}

static struct bytes running_key(struct arena *a, const struct job *j)
{
	return arena_printf(a, "%.*s#%.*s", BYTES_ARG(j->kind), BYTES_ARG(j->unique));
}

static enum err_code running_look(struct context *ctx, struct bytes key, struct looked *out, struct err *err)
{
	looked_init(out, BYTES(KEY_RUNNING), key);
	return ctx_look_in(ctx, TABLE_JOBS, out, err);
}

/* (1) */
static void running_put(struct context *ctx, const struct job *j)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", BYTES(KEY_RUNNING));
	row_set_text(&row, "SK", running_key(ctx->arena, j));
	row_set_text(&row, "jobId", j->id);
	row_set_text(&row, "kind", j->kind);
	row_set_text(&row, "caller", j->caller);
	ctx_put(ctx, TABLE_JOBS, row_item(&row));
}

static enum err_code job_look(struct context *ctx, struct bytes id, struct looked *out, struct err *err)
{
	looked_init(out, BYTES(KEY_JOBS), id);
	return ctx_look_in(ctx, TABLE_JOBS, out, err);
}

/* ---- starting ---- */

const struct job_kind *job_kind_find(const struct services *s, struct bytes name)
{
	for (unsigned i = 0; i < s->jobs.kind_count; i++)
		if (bytes_is(name, s->jobs.kinds[i]->name))
			return s->jobs.kinds[i];
	return NULL;
}

void jobs_wake(const struct services *s)
{
	if (s->jobs.wake != NULL)
		s->jobs.wake(s->jobs.wake_ctx);
}

enum err_code job_start(struct context *ctx, const struct job_new *q, struct job_started *out,
                        struct err *err)
{
	struct looked running;
	struct job    j = {.id = job_id_make(ctx),
	                   .kind = bytes_of(q->kind->name),
	                   .caller = ctx->caller,
	                   .created_at = user_time(ctx->arena, ctx->now_us),
	                   .dry_run = q->dry_run,
	                   .rate = q->rate > 0 ? q->rate : q->kind->rate,
	                   .args = q->args};

	*out = (struct job_started){0};
	j.unique = q->unique.len > 0 ? q->unique : j.id;
	if (running_look(ctx, running_key(ctx->arena, &j), &running, err) != ERR_NONE)
		return err->code;
	if (running.found) {
		out->existed = true;
		return job_get(ctx, row_text(&running.item, "jobId"), &out->job, err);
	}
	job_put(ctx, &j);
	running_put(ctx, &j);
	out->job = j;
	return ERR_NONE;
}

static bool args_agree(const struct item *a, const struct item *b, const char *name)
{
	const struct value *x = item_get(a, bytes_of(name)), *y = item_get(b, bytes_of(name));

	return x == NULL || y == NULL ? x == y : value_equal(x, y);
}

enum err_code job_started_check(const struct job_started *s, const struct job_new *q,
                                const char *const *names, struct err *err)
{
	bool same = s->job.dry_run == q->dry_run;

	for (; s->existed && *names != NULL; names++)
		same = same && args_agree(&s->job.args, &q->args, *names);
	return !s->existed || same ? ERR_NONE
	                           : err_set(err, ERR_NOT_NOW,
	                                     "job %.*s runs, which was asked for something else; wait for "
	                                     "it, or cancel it",
	                                     BYTES_ARG(s->job.id));
}

enum err_code job_start_periodic(struct context *ctx, const struct job_kind *kind, struct job_started *out,
                                 struct err *err)
{
	int64_t        period_s = kind->period_s == NULL ? 0 : kind->period_s(ctx->services);
	struct job_new q = {.kind = kind, .unique = BYTES(KEY_PERIODIC)};
	struct looked  last;
	struct row     row;

	*out = (struct job_started){.existed = true};
	looked_init(&last, BYTES(KEY_PERIODIC), bytes_of(kind->name));
	if (period_s <= 0)
		return ERR_NONE;
	if (ctx_look_in(ctx, TABLE_JOBS, &last, err) != ERR_NONE)
		return err->code;
	if (last.found && row_i64(&last.item, "startedAt", 0) > ctx->now_s - period_s)
		return ERR_NONE;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", last.pk);
	row_set_text(&row, "SK", last.sk);
	row_set_i64(&row, "startedAt", ctx->now_s);
	ctx_put(ctx, TABLE_JOBS, row_item(&row));
	return job_start(ctx, &q, out, err);
}

/* ---- reading ---- */

enum err_code job_unknown(struct err *err)
{
	return err_field(err, ERR_NOT_FOUND, "id", "id: there is no such job");
}

enum err_code job_get(struct context *ctx, struct bytes id, struct job *out, struct err *err)
{
	struct looked row;

	if (job_look(ctx, id, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return job_unknown(err);
	*out = job_of(&row.item);
	return ERR_NONE;
}

static bool is_sought(const struct jobs_search *q, const struct item *row)
{
	return (q->kind.len == 0 || bytes_equal(row_text(row, "kind"), q->kind)) &&
	       (q->state.len == 0 || bytes_equal(row_text(row, "state"), q->state));
}

enum err_code jobs_find(struct context *ctx, const struct jobs_search *q, struct jobs_page *out,
                        struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(KEY_JOBS), (struct bytes){NULL, 0});
	struct item               start = row_key_two(ctx->arena, BYTES(KEY_JOBS), q->before);
	struct table_query        query = {.key = &key,
	                                   .limit = JOBS_EXAMINED_MAX,
	                                   .backward = true,
	                                   .consistent = true,
	                                   .start = q->before.len > 0 ? &start : NULL};
	struct table_query_result r;

	*out = (struct jobs_page){.list = arena_array(ctx->arena, q->limit, sizeof(*out->list))};
	if (ctx_query_in(ctx, TABLE_JOBS, &query, &r, err) != ERR_NONE)
		return err->code;
	out->more = r.more;
	if (r.more)
		out->last = row_text(&r.last_key, "SK");
	for (uint32_t i = 0; i < r.count; i++) {
		if (row_expired(&r.items[i], "ttl", ctx->now_us) || !is_sought(q, &r.items[i]))
			continue;
		if (out->count == q->limit) { /* one more than fits: the next page begins with it */
			out->more = true;
			out->last = out->list[out->count - 1].id;
			break;
		}
		out->list[out->count++] = job_of(&r.items[i]);
	}
	return ERR_NONE;
}

/* ---- ending, and going on ---- */

/* (1) The row of RUNNING goes, if it is this job's. */
static enum err_code running_drop(struct context *ctx, const struct job *j, struct err *err)
{
	struct looked running;

	if (running_look(ctx, running_key(ctx->arena, j), &running, err) != ERR_NONE)
		return err->code;
	if (running.found && bytes_equal(row_text(&running.item, "jobId"), j->id))
		ctx_delete(ctx, TABLE_JOBS, row_key_two(ctx->arena, running.pk, running.sk));
	return ERR_NONE;
}

static enum err_code job_end(struct context *ctx, struct job *j, enum job_state state, struct err *err)
{
	if (running_drop(ctx, j, err) != ERR_NONE)
		return err->code;
	j->state = state;
	j->ended_at = user_time(ctx->arena, ctx->now_us);
	if (state == JOB_DONE) /* nobody goes on from there, and it may name a user */
		j->cursor = (struct bytes){NULL, 0};
	job_put(ctx, j);
	return ERR_NONE;
}

static enum err_code not_now(struct err *err, const char *what)
{
	return err_field(err, ERR_NOT_NOW, "id", "id: the job %s", what);
}

enum err_code job_cancel(struct context *ctx, struct bytes id, struct job *out, struct err *err)
{
	const struct job_kind *kind;

	if (job_get(ctx, id, out, err) != ERR_NONE)
		return err->code;
	if (out->state == JOB_CANCELLED)
		return ERR_NONE;
	kind = job_kind_find(ctx->services, out->kind);
	if (out->state != JOB_RUNNING && (kind == NULL || kind->cancelled == NULL))
		return not_now(err, "has ended");
	if (kind != NULL && !kind->can_cancel)
		return not_now(err, "cannot be cancelled: half of it would be left undone");
	if (kind != NULL && kind->cancelled != NULL && kind->cancelled(ctx, out, err) != ERR_NONE)
		return err->code;
	return job_stop(ctx, out, err);
}

enum err_code job_stop(struct context *ctx, struct job *job, struct err *err)
{
	return job_end(ctx, job, JOB_CANCELLED, err);
}

enum err_code job_resume(struct context *ctx, struct bytes id, struct job *out, struct err *err)
{
	const struct job_kind *kind;
	struct looked          running;

	if (job_get(ctx, id, out, err) != ERR_NONE)
		return err->code;
	if (out->state == JOB_RUNNING)
		return ERR_NONE;
	if (out->state == JOB_DONE)
		return not_now(err, "is done");
	kind = job_kind_find(ctx->services, out->kind);
	if (kind == NULL)
		return not_now(err, "is of a kind that this server does not know");
	if (out->state == JOB_CANCELLED && kind->cancelled != NULL)
		return not_now(err, "was cancelled, and what waited was dropped; start another one");
	if (running_look(ctx, running_key(ctx->arena, out), &running, err) != ERR_NONE)
		return err->code;
	if (running.found)
		return not_now(err, "was followed by another one, which runs; wait for that");
	out->state = JOB_RUNNING;
	out->error = out->ended_at = (struct bytes){NULL, 0};
	job_put(ctx, out);
	running_put(ctx, out);
	return ERR_NONE;
}

/* ---- steps ---- */

void job_count(struct context *ctx, struct job *job, const char *name, int64_t more)
{
	struct value number = value_i64(row_i64(&job->progress, name, 0) + more);

	job->progress = item_with(ctx->arena, &job->progress, bytes_of(name), &number);
}

uint32_t job_room(const struct context *ctx)
{
	return changes_room(&ctx->changes);
}

bool job_fails_for_now(enum err_code rc)
{
	return rc == ERR_CONDITION || rc == ERR_OVERLOADED || rc == ERR_CONTENDED || rc == ERR_THROTTLED ||
	       rc == ERR_STORAGE || rc == ERR_DISK_FULL;
}

enum err_code jobs_running(struct context *ctx, const struct jobs_look *q, struct jobs_running *out,
                           struct err *err)
{
	struct bytes prefix =
	        q->kind.len > 0 ? arena_printf(ctx->arena, "%.*s#", BYTES_ARG(q->kind)) : BYTES("");
	struct expr_key_condition key = row_prefix(BYTES(KEY_RUNNING), prefix);
	struct item               start = row_key_two(ctx->arena, BYTES(KEY_RUNNING), q->after);
	struct table_query        query = {.key = &key,
	                                   .limit = q->limit,
	                                   .consistent = true,
	                                   .start = q->after.len > 0 ? &start : NULL};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_JOBS, &query, &r, err) != ERR_NONE)
		return err->code;
	*out = (struct jobs_running){.list = arena_array(ctx->arena, r.count + 1, sizeof(*out->list)),
	                             .more = r.more};
	for (uint32_t i = 0; i < r.count; i++)
		out->list[out->count++] = (struct job_running){.id = row_text(&r.items[i], "jobId"),
		                                               .kind = row_text(&r.items[i], "kind"),
		                                               .key = row_text(&r.items[i], "SK"),
		                                               .caller = row_text(&r.items[i], "caller")};
	return ERR_NONE;
}

/* A row of RUNNING whose job is not: somebody else removed or changed the job. */
static enum err_code running_sweep(struct context *ctx, const struct job_running *r, struct err *err)
{
	struct looked running;

	if (running_look(ctx, r->key, &running, err) != ERR_NONE)
		return err->code;
	if (running.found && bytes_equal(row_text(&running.item, "jobId"), r->id))
		ctx_delete(ctx, TABLE_JOBS, row_key_two(ctx->arena, running.pk, running.sk));
	return ERR_NONE;
}

/* The job at the step that is to be taken; out->taken says whether it is. */
static enum err_code job_take(struct context *ctx, const struct job_turn *q, struct job_stepped *out,
                              struct err *err)
{
	struct looked row;

	*out = (struct job_stepped){0};
	if (job_look(ctx, q->running.id, &row, err) != ERR_NONE)
		return err->code;
	if (row.found)
		out->job = job_of(&row.item);
	if (!row.found || out->job.state != JOB_RUNNING)
		return running_sweep(ctx, &q->running, err);
	out->taken = q->steps == JOB_ANY_STEP || q->steps == out->job.steps;
	return ERR_NONE;
}

/* Is what was fetched for the place that the job is at now? It may have been cancelled when its step was fetched, and resumed since. */
static bool is_fetched(const struct job_kind *kind, const struct job_turn *q, const struct job *j)
{
	return kind->fetch == NULL || (q->steps != JOB_ANY_STEP && bytes_equal(q->cursor, j->cursor));
}

/* (2) */
enum err_code job_step(struct context *ctx, const struct job_turn *q, struct job_stepped *out,
                       struct err *err)
{
	const struct job_kind *kind = job_kind_find(ctx->services, q->running.kind);
	struct job            *j = &out->job;

	if (job_take(ctx, q, out, err) != ERR_NONE)
		return err->code;
	if (!out->taken)
		return ERR_NONE;
	if (kind == NULL)
		return err_set(err, ERR_INVALID, "this version of the server does not know this kind of job");
	out->taken = is_fetched(kind, q, j);
	if (!out->taken)
		return ERR_NONE;
	job_put(ctx, j); /* first, so that the step counts with these rows */
	running_put(ctx, j);
	if (kind->step(ctx, j, q->fetched, err) != ERR_NONE)
		return err->code;
	j->steps++;
	if (j->done)
		return job_end(ctx, j, JOB_DONE, err);
	job_put(ctx, j);
	return ERR_NONE;
}

/* Cut where a character ends. */
static struct bytes error_text(struct arena *a, const char *why)
{
	struct bytes text = bytes_of(why);

	if (text.len > JOB_ERROR_BYTES_MAX)
		text.len = JOB_ERROR_BYTES_MAX;
	while (text.len > 0 && !bytes_is_utf8(text))
		text.len--;
	return arena_copy(a, text);
}

enum err_code job_fail(struct context *ctx, const struct job_turn *q, const char *why,
                       struct job_stepped *out, struct err *err)
{
	if (job_take(ctx, q, out, err) != ERR_NONE)
		return err->code;
	if (!out->taken)
		return ERR_NONE;
	out->job.error = error_text(ctx->arena, why);
	return job_end(ctx, &out->job, JOB_FAILED, err);
}
