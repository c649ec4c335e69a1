/* Mass revocation: see mass_revocation.h. */
#include "service/mass_revocation.h"

#include <inttypes.h>

#include "service/cursor.h"
#include "service/revocation.h"
#include "service/row.h"
#include "service/sign_out.h"

/* ---- starting ---- */

static struct value users_value(struct context *ctx, const struct mass_revocation *q)
{
	struct value_list list = {arena_array(ctx->arena, q->user_count, sizeof(struct value)),
	                          q->user_count};

	for (uint32_t i = 0; i < q->user_count; i++)
		list.items[i] = value_string(q->users[i]);
	return (struct value){.type = VALUE_L, .list = list};
}

static struct item args_of(struct context *ctx, const struct mass_revocation *q)
{
	struct row args;

	row_init(&args, ctx->arena);
	if (q->users != NULL) {
		row_set(&args, "users", users_value(ctx, q));
		row_set_i64(&args, "userCount", q->user_count);
	}
	if (q->status != MASS_REVOCATION_ANY_STATUS)
		row_set_text(&args, "status", bytes_of(user_status_names[q->status]));
	if (q->created_before_s > 0)
		row_set_text(&args, "createdBefore", user_time(ctx->arena, q->created_before_s * 1000000));
	if (q->provider.len > 0)
		row_set_text(&args, "provider", q->provider);
	row_set_text(&args, "reason", q->reason);
	row_set_i64(&args, "notBefore", q->not_before_s > 0 ? q->not_before_s : ctx->now_s); /* (1) */
	return row_item(&args);
}

enum err_code mass_revocation_start(struct context *ctx, const struct mass_revocation *q,
                                    struct job_started *out, struct err *err)
{
	struct job_new job = {.kind = &mass_revocation_kind, .dry_run = q->dry_run, .rate = q->rate};

	if (q->users == NULL && q->status == MASS_REVOCATION_ANY_STATUS && q->created_before_s == 0 &&
	    q->provider.len == 0)
		return err_field(
		        err, ERR_INVALID, "users",
		        "users: at least one of users, status, createdBefore and provider is required; "
		        "for everyone, use POST /v1/revoke-all");
	job.args = args_of(ctx, q);
	return job_start(ctx, &job, out, err);
}

/* ---- a step ---- */

static bool has_filter(const struct job *job)
{
	return row_text(&job->args, "status").len > 0 || row_text(&job->args, "createdBefore").len > 0 ||
	       row_text(&job->args, "provider").len > 0;
}

static bool fits(const struct job *job, const struct user *u)
{
	struct bytes status = row_text(&job->args, "status"), before = row_text(&job->args, "createdBefore"),
	             provider = row_text(&job->args, "provider");

	return (status.len == 0 || bytes_is(status, user_status_names[u->status])) &&
	       (before.len == 0 || bytes_compare(u->created_at, before) < 0) &&
	       (provider.len == 0 || bytes_equal(row_text(&u->row, "provider"), provider));
}

/* u NULL: there is no such user. */
static enum err_code one_revoke(struct context *ctx, struct job *job, struct bytes id, const struct user *u,
                                struct err *err)
{
	struct revocation q = {.kind = REVOKED_USER,
	                       .name = id,
	                       .not_before_s = row_i64(&job->args, "notBefore", ctx->now_s),
	                       .reason = row_text(&job->args, "reason")};
	struct revoked    r;

	job_count(ctx, job, "matched", 1);
	if (job->dry_run) /* (3) */
		return ERR_NONE;
	if (revocation_add(ctx, &q, &r, err) != ERR_NONE)
		return err->code;
	if (u != NULL) /* (2) */
		signout_queue(ctx, u);
	job_count(ctx, job, "revoked", 1);
	return ERR_NONE;
}

static enum err_code listed_revoke(struct context *ctx, struct job *job, struct bytes id, struct err *err)
{
	struct user   u;
	enum err_code rc = user_get(ctx, id, &u, err);

	if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
		return rc;
	job_count(ctx, job, "examined", 1);
	if (rc == ERR_NOT_FOUND)
		job_count(ctx, job, "unknown", 1);
	if (rc == ERR_NOT_FOUND ? has_filter(job) : !fits(job, &u))
		return ERR_NONE;
	return one_revoke(ctx, job, id, rc == ERR_NONE ? &u : NULL, err);
}

/* The cursor is how many were done. */
static enum err_code list_step(struct context *ctx, struct job *job, const struct value_list *users,
                               struct err *err)
{
	uint64_t at = 0;

	if (job->cursor.len > 0 && !bytes_to_u64(job->cursor, users->count, &at))
		at = users->count;
	for (; at < users->count && job->handled < MASS_REVOCATION_STEP; at++, job->handled++)
		if (listed_revoke(ctx, job, value_text(&users->items[at]), err) != ERR_NONE)
			return err->code;
	job->cursor = arena_printf(ctx->arena, "%" PRIu64, at);
	job->done = at >= users->count;
	return ERR_NONE;
}

/* The cursor is where the page before ended. Whoever is created meanwhile has tokens that are younger than the job. */
static enum err_code table_step(struct context *ctx, struct job *job, struct err *err)
{
	struct users_search q = {.limit = MASS_REVOCATION_STEP};
	struct users_page   page;

	if (job->cursor.len > 0 && !cursor_unpack(ctx->arena, job->cursor, &q.after_pk, &q.after_sk))
		return err_set(err, ERR_INVALID, "the job's cursor cannot be read");
	if (users_find(ctx, &q, &page, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < page.count; i++) {
		job_count(ctx, job, "examined", 1);
		if (fits(job, &page.list[i]) &&
		    one_revoke(ctx, job, page.list[i].id, &page.list[i], err) != ERR_NONE)
			return err->code;
	}
	job->handled = page.count > 0 ? page.count : 1;
	job->done = !page.more;
	if (page.more)
		job->cursor = cursor_pack(ctx->arena, page.last_pk, page.last_sk);
	return ERR_NONE;
}

static enum err_code step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	const struct value *users = item_get(&job->args, BYTES("users"));

	(void)fetched;
	job->handled = 0;
	return users != NULL && users->type == VALUE_L ? list_step(ctx, job, &users->list, err)
	                                               : table_step(ctx, job, err);
}

const struct job_kind mass_revocation_kind = {.name = "revoke-users",
                                              .rate = MASS_REVOCATION_RATE,
                                              .can_cancel = true,
                                              .urgent = true,
                                              .step = step};
