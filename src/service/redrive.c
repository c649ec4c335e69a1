/* Redrive: see redrive.h. */
#include "service/redrive.h"

#include "service/row.h"

/* One that nobody can deliver any more, because its user was deleted, is counted and stays: a person may look at it. */
static enum err_code letter_deliver(struct context *ctx, struct job *job, const struct dead_letter *letter,
                                    struct err *err)
{
	struct dead_letter_key key = {letter->record.provider, letter->record.id};
	struct sync_delivery   r;
	enum err_code          rc;

	job_count(ctx, job, "letters", 1);
	if (job->dry_run)
		return ERR_NONE;
	rc = dead_letter_redrive(ctx, &key, &r, err);
	if (rc != ERR_NONE && rc != ERR_NOT_NOW)
		return rc;
	job_count(ctx, job, sync_outcome_names[rc == ERR_NONE ? r.result.outcome : SYNC_REFUSED], 1);
	return ERR_NONE;
}

static enum err_code step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct dead_letters_search q = {
	        .error = row_text(&job->args, "error"), .limit = 1, .after = job->cursor};
	struct dead_letters_page page;

	(void)fetched;
	if (dead_letters_find(ctx, &q, &page, err) != ERR_NONE)
		return err->code;
	job->handled = 1;
	job->done = !page.more;
	if (page.count > 0 && letter_deliver(ctx, job, &page.list[0], err) != ERR_NONE)
		return err->code;
	if (page.more)
		job->cursor = page.last;
	return ERR_NONE;
}

const struct job_kind redrive_job = {
        .name = "redrive", .rate = REDRIVE_RATE, .can_cancel = true, .step = step};

enum err_code redrive_start(struct context *ctx, const struct redrive *q, struct job_started *out,
                            struct err *err)
{
	static const char *const terms[] = {"error", NULL};
	struct job_new           job = {
	                  .kind = &redrive_job, .dry_run = q->dry_run, .rate = q->rate, .unique = BYTES("all")};
	struct row args;

	row_init(&args, ctx->arena);
	if (q->error.len > 0)
		row_set_text(&args, "error", q->error);
	job.args = row_item(&args);
	if (job_start(ctx, &job, out, err) != ERR_NONE)
		return err->code;
	return job_started_check(out, &job, terms, err);
}
