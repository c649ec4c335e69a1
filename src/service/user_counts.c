/* How many users there are: see user_counts.h. */
#include "service/user_counts.h"

#include "service/cursor.h"
#include "service/row.h"
#include "service/sync.h"

#define KEY_RESULT      "RESULT"
#define KIND            "count-users"
#define PROVIDER_PREFIX "provider:" /* of a number of the job's progress */

/* ---- starting, and what came of it ---- */

enum err_code user_counts_start(struct context *ctx, int64_t rate, struct job_started *out, struct err *err)
{
	struct job_new job = {.kind = &user_counts_job, .unique = BYTES("all"), .rate = rate};

	return job_start(ctx, &job, out, err);
}

static struct item map_of(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){0};
}

enum err_code user_counts_get(struct context *ctx, struct user_counts *out, struct err *err)
{
	struct looked row;

	looked_init(&row, BYTES(KEY_RESULT), BYTES(KIND));
	if (ctx_look_in(ctx, TABLE_JOBS, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return err_set(err, ERR_NOT_FOUND,
		               "the users were not counted yet; POST /v1/user-counts counts them");
	*out = (struct user_counts){.users = row_i64(&row.item, "users", 0),
	                            .by_status = map_of(&row.item, "byStatus"),
	                            .by_provider = map_of(&row.item, "byProvider"),
	                            .started_at = row_text(&row.item, "startedAt"),
	                            .ended_at = row_text(&row.item, "endedAt"),
	                            .job = row_text(&row.item, "jobId")};
	return ERR_NONE;
}

/* ---- the job ---- */

/* Outside of any turn: a page of the table is much to read. */
static enum err_code page_fetch(struct context *ctx, const struct job *job, void **out, struct err *err)
{
	struct users_search q = {.limit = USERS_PAGE_MAX};
	struct users_page  *page = arena_zalloc(ctx->arena, sizeof(*page));

	if (job->cursor.len > 0 && !cursor_unpack(ctx->arena, job->cursor, &q.after_pk, &q.after_sk))
		return err_set(err, ERR_INVALID, "the job's cursor cannot be read");
	*out = page;
	return users_find(ctx, &q, page, err);
}

static uint32_t providers_so_far(const struct job *job)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < job->progress.count; i++)
		count += bytes_starts_with(job->progress.members[i].name, BYTES(PROVIDER_PREFIX)) ? 1 : 0;
	return count;
}

/* (3) What others wrote there may be anything, also an address. */
static const char *provider_number(struct context *ctx, const struct job *job, const struct user *u)
{
	struct bytes provider = row_text(&u->row, "provider"), name;

	if (provider.len == 0)
		return PROVIDER_PREFIX NO_PROVIDER;
	if (!sync_provider_is(provider) || identifier_looks_like(provider) != NULL)
		return PROVIDER_PREFIX OTHER_PROVIDERS;
	name = arena_printf(ctx->arena, PROVIDER_PREFIX "%.*s", BYTES_ARG(provider));
	if (item_get(&job->progress, name) == NULL && providers_so_far(job) >= USER_COUNTS_PROVIDERS_MAX)
		return PROVIDER_PREFIX OTHER_PROVIDERS;
	return name.data; /* arena_printf ends it */
}

/* Of the progress: numbers whose names begin so, without that; or those that have no such beginning, but for the sum. */
static struct value numbers_of(struct arena *a, const struct job *job, bool of_providers)
{
	struct row out;

	row_init(&out, a);
	for (uint32_t i = 0; i < job->progress.count; i++) {
		const struct member *m = &job->progress.members[i];
		bool                 is = bytes_starts_with(m->name, BYTES(PROVIDER_PREFIX));
		size_t               skip = is ? strlen(PROVIDER_PREFIX) : 0;

		if (is == of_providers && !bytes_is(m->name, "users"))
			row_set(&out,
			        arena_printf(a, "%.*s", (int)(m->name.len - skip), m->name.data + skip).data,
			        m->value);
	}
	return (struct value){.type = VALUE_M, .map = row_item(&out)};
}

static void result_put(struct context *ctx, const struct job *job)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", BYTES(KEY_RESULT));
	row_set_text(&row, "SK", BYTES(KIND));
	row_set_i64(&row, "users", row_i64(&job->progress, "users", 0));
	row_set(&row, "byStatus", numbers_of(ctx->arena, job, false));
	row_set(&row, "byProvider", numbers_of(ctx->arena, job, true));
	row_set_text(&row, "startedAt", job->created_at);
	row_set_text(&row, "endedAt", user_time(ctx->arena, ctx->now_us));
	row_set_text(&row, "jobId", job->id);
	ctx_put(ctx, TABLE_JOBS, row_item(&row));
}

/* One runs at a time, so the last to end has the newest numbers. */
static enum err_code count_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	const struct users_page *page = fetched;

	(void)err;
	job_count(ctx, job, "users", 0);
	for (uint32_t i = 0; i < page->count; i++) {
		const struct user *u = &page->list[i];

		if (u->status == USER_ERASING) /* (2) */
			continue;
		job_count(ctx, job, "users", 1);
		job_count(ctx, job, user_status_names[u->status], 1);
		job_count(ctx, job, provider_number(ctx, job, u), 1);
	}
	job->handled = page->count > 0 ? page->count : 1;
	job->done = !page->more;
	if (page->more)
		job->cursor = cursor_pack(ctx->arena, page->last_pk, page->last_sk);
	else
		result_put(ctx, job);
	return ERR_NONE;
}

const struct job_kind user_counts_job = {
        .name = KIND, .rate = USER_COUNTS_RATE, .can_cancel = true, .fetch = page_fetch, .step = count_step};
