/* Missing: see missing.h. */
#include "service/missing.h"

#include "service/row.h"

#define KEY_MISSING "MISSING"

/* ---- rows ---- */

struct bytes missing_key(struct arena *a, struct bytes user, struct bytes provider)
{
	return arena_printf(a, "%.*s#%.*s", BYTES_ARG(user), BYTES_ARG(provider));
}

static struct missing missing_of(const struct item *row)
{
	const struct value *suspended = item_get(row, BYTES("suspended"));

	return (struct missing){.user = row_text(row, "userId"),
	                        .provider = row_text(row, "provider"),
	                        .found_at = row_text(row, "foundAt"),
	                        .job = row_text(row, "job"),
	                        .suspended = suspended != NULL && suspended->type == VALUE_BOOL &&
	                                     suspended->truth};
}

void missing_put(struct context *ctx, const struct missing *m)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", BYTES(KEY_MISSING));
	row_set_text(&row, "SK", missing_key(ctx->arena, m->user, m->provider));
	row_set_text(&row, "userId", m->user);
	row_set_text(&row, "provider", m->provider);
	row_set_text(&row, "foundAt", m->found_at.len > 0 ? m->found_at : user_time(ctx->arena, ctx->now_us));
	row_set_text(&row, "job", m->job);
	row_set(&row, "suspended", value_bool(m->suspended));
	if (!m->suspended) /* (2) */
		row_set_i64(&row, "ttl", ctx->now_s + MISSING_KEPT_S);
	ctx_put(ctx, TABLE_SYNC, row_item(&row));
}

void missing_delete(struct context *ctx, struct bytes user, struct bytes provider)
{
	ctx_delete(ctx, TABLE_SYNC,
	           row_key_two(ctx->arena, BYTES(KEY_MISSING), missing_key(ctx->arena, user, provider)));
}

enum err_code missing_get(struct context *ctx, struct missing *m, bool *found, struct err *err)
{
	struct looked row;

	looked_init(&row, BYTES(KEY_MISSING), missing_key(ctx->arena, m->user, m->provider));
	if (ctx_look_in(ctx, TABLE_SYNC, &row, err) != ERR_NONE)
		return err->code;
	*found = row.found;
	if (row.found)
		*m = missing_of(&row.item);
	return ERR_NONE;
}

enum err_code missing_find(struct context *ctx, struct bytes after, uint32_t limit, struct missing_page *out,
                           struct err *err)
{
	struct expr_key_condition key = row_prefix(BYTES(KEY_MISSING), BYTES(""));
	struct item               start = row_key_two(ctx->arena, BYTES(KEY_MISSING), after);
	struct table_query        q = {
	               .key = &key, .limit = limit, .start = after.len > 0 ? &start : NULL, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_SYNC, &q, &r, err) != ERR_NONE)
		return err->code;
	*out = (struct missing_page){.list = arena_array(ctx->arena, r.count + 1, sizeof(*out->list)),
	                             .more = r.more,
	                             .last = r.more ? row_text(&r.last_key, "SK") : BYTES("")};
	for (uint32_t i = 0; i < r.count; i++)
		if (!row_expired(&r.items[i], "ttl", ctx->now_us))
			out->list[out->count++] = missing_of(&r.items[i]);
	return ERR_NONE;
}

enum err_code missing_erase(struct context *ctx, struct bytes user, struct err *err)
{
	struct expr_key_condition key =
	        row_prefix(BYTES(KEY_MISSING), missing_key(ctx->arena, user, BYTES("")));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_SYNC, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count && changes_room(&ctx->changes) > 0; i++)
		ctx_delete(ctx, TABLE_SYNC,
		           row_key_two(ctx->arena, row_text(&r.items[i], "PK"), row_text(&r.items[i], "SK")));
	return ERR_NONE;
}

/* ---- the way back ---- */

/* (1) Its row goes if the user is gone for good. */
static enum err_code restore_one(struct context *ctx, struct job *job, const struct missing *m,
                                 struct err *err)
{
	struct user_patch patch = {.id = m->user,
	                           .reason = BYTES("restored: it was missing at the provider")};
	struct missing    left = *m;
	struct user       u;
	enum err_code     rc = user_take(ctx, m->user, &patch.match, &u, err);
	bool              gone = rc == ERR_NOT_FOUND || rc == ERR_NOT_NOW,
	     ours = !gone && bytes_is(u.suspended_by, USER_BY_MISSING);

	if (rc != ERR_NONE && !gone)
		return rc;
	job_count(ctx, job, ours ? "restored" : "kept", 1);
	if (job->dry_run)
		return ERR_NONE;
	if (ours && user_become(ctx, &patch, USER_ACTIVE, &u, err) != ERR_NONE)
		return err->code;
	left.suspended = false;
	if (gone)
		missing_delete(ctx, m->user, m->provider);
	else
		missing_put(ctx, &left);
	return ERR_NONE;
}

static enum err_code restore_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct bytes        only = row_text(&job->args, "provider");
	struct missing_page page = {0};

	(void)fetched;
	if (missing_find(ctx, job->cursor, RESTORE_STEP_MAX, &page, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < page.count; i++)
		if (page.list[i].suspended && (only.len == 0 || bytes_equal(only, page.list[i].provider)) &&
		    restore_one(ctx, job, &page.list[i], err) != ERR_NONE)
			return err->code;
	job->handled = page.count > 0 ? page.count : 1;
	job->done = !page.more;
	if (page.more)
		job->cursor = page.last;
	return ERR_NONE;
}

const struct job_kind restore_job = {
        .name = "restore", .rate = RESTORE_RATE, .can_cancel = true, .step = restore_step};

enum err_code restore_start(struct context *ctx, const struct restore *q, struct job_started *out,
                            struct err *err)
{
	static const char *const terms[] = {"provider", NULL};
	struct job_new           job = {
	                  .kind = &restore_job, .dry_run = q->dry_run, .rate = q->rate, .unique = BYTES("all")};
	struct row args;

	row_init(&args, ctx->arena);
	if (q->provider.len > 0)
		row_set_text(&args, "provider", q->provider);
	job.args = row_item(&args);
	if (job_start(ctx, &job, out, err) != ERR_NONE)
		return err->code;
	return job_started_check(out, &job, terms, err);
}
