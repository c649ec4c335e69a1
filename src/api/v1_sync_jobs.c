/* Work on many users of identity providers:
 *   POST /v1/sync/reconcile, GET /v1/sync/missing, POST /v1/sync/missing/restore
 *   POST /v1/sync/dead-letters/redrive */
#include "api/v1_jobs.h"
#include "api/v1_routes.h"
#include "api/v1_sync.h"
#include "service/cursor.h"
#include "service/reconcile.h"
#include "service/redrive.h"

/* ---- starting ---- */

struct start_call {
	struct reconcile   reconcile;
	struct redrive     redrive;
	struct restore     restore;
	struct job_started r;
};

static void started_encode(struct v1_call *c, struct json_writer *w)
{
	const struct start_call *s = c->request;

	c->status = s->r.existed ? 200 : 202;
	v1_write_job(w, &s->r.job);
}

/* A body may be missing. */
static struct start_call *start_begin(struct v1_call *c, struct fields *f, struct err *err)
{
	static const struct json nothing = {.type = JSON_OBJECT};
	struct start_call       *s = v1_request(c, sizeof(*s));

	fields_init(f, c->body == NULL ? &nothing : c->body, err);
	return s;
}

/* Empty: it does not say. */
static struct bytes read_provider(struct fields *f)
{
	struct bytes name = fields_text_or(f, "provider", SYNC_PROVIDER_BYTES_MAX, (struct bytes){NULL, 0});

	if (!fields_failed(f) && name.len > 0 && !sync_provider_is(name))
		fields_fail(f, "provider", ERR_INVALID, "must have letters, digits, '-', '_' and '.' only");
	return name;
}

enum err_code reconcile_decode(struct v1_call *c, struct err *err)
{
	static const char *const repairs[] = {"report", "suspend", NULL};
	struct job_new           job = {0};
	struct fields            f;
	struct start_call       *s = start_begin(c, &f, err);

	s->reconcile.provider = read_provider(&f);
	s->reconcile.percent = fields_i64_or(&f, "missingPercentMax", 1, 100, 0);
	s->reconcile.suspend = fields_choice(&f, "missing", repairs, 0) == 1;
	v1_read_job(&f, &job);
	s->reconcile.dry_run = job.dry_run;
	s->reconcile.rate = job.rate;
	return fields_end(&f);
}

enum err_code reconcile_run(struct v1_call *c, struct err *err)
{
	struct start_call *s = c->request;

	return reconcile_start(&c->ctx, &s->reconcile, &s->r, err);
}

void reconcile_encode(struct v1_call *c, struct json_writer *w)
{
	started_encode(c, w);
}

enum err_code missing_restore_decode(struct v1_call *c, struct err *err)
{
	struct job_new     job = {0};
	struct fields      f;
	struct start_call *s = start_begin(c, &f, err);

	s->restore.provider = read_provider(&f);
	v1_read_job(&f, &job);
	s->restore.dry_run = job.dry_run;
	s->restore.rate = job.rate;
	return fields_end(&f);
}

enum err_code missing_restore_run(struct v1_call *c, struct err *err)
{
	struct start_call *s = c->request;

	return restore_start(&c->ctx, &s->restore, &s->r, err);
}

void missing_restore_encode(struct v1_call *c, struct json_writer *w)
{
	started_encode(c, w);
}

enum { ERROR_BYTES_MAX = 64 };

enum err_code letters_redrive_decode(struct v1_call *c, struct err *err)
{
	struct job_new     job = {0};
	struct fields      f;
	struct start_call *s = start_begin(c, &f, err);

	s->redrive.error = fields_text_or(&f, "error", ERROR_BYTES_MAX, (struct bytes){NULL, 0});
	v1_read_job(&f, &job);
	s->redrive.dry_run = job.dry_run;
	s->redrive.rate = job.rate;
	return fields_end(&f);
}

enum err_code letters_redrive_run(struct v1_call *c, struct err *err)
{
	struct start_call *s = c->request;

	return redrive_start(&c->ctx, &s->redrive, &s->r, err);
}

void letters_redrive_encode(struct v1_call *c, struct json_writer *w)
{
	started_encode(c, w);
}

/* ---- who is missing at the provider ---- */

enum { MISSING_PAGE_DEFAULT = 100 };

struct missing_call {
	struct bytes        after;
	uint32_t            limit;
	struct missing_page page;
};

enum err_code missing_list_decode(struct v1_call *c, struct err *err)
{
	struct missing_call *m = v1_request(c, sizeof(*m));
	struct bytes         limit, cursor, prefix;
	uint64_t             number = MISSING_PAGE_DEFAULT;

	if (v1_query(c, "limit", &limit, err) != ERR_NONE || v1_query(c, "cursor", &cursor, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, MISSING_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d", MISSING_PAGE_MAX);
	m->limit = (uint32_t)number;
	if (cursor.data != NULL && !cursor_read(&c->ctx, cursor, &prefix, &m->after))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

enum err_code missing_list_run(struct v1_call *c, struct err *err)
{
	struct missing_call *m = c->request;

	return missing_find(&c->ctx, m->after, m->limit, &m->page, err);
}

void missing_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct missing_page *page = &((const struct missing_call *)c->request)->page;

	json_begin_object(w);
	json_name(w, BYTES("missing"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++) {
		if (!v1_allowed(c, "user", page->list[i].user))
			continue;
		json_begin_object(w);
		json_member_text(w, BYTES("id"), page->list[i].user);
		json_member_text(w, BYTES("provider"), page->list[i].provider);
		json_member_text(w, BYTES("foundAt"), page->list[i].found_at);
		json_member_bool(w, BYTES("suspended"), page->list[i].suspended);
		json_end_object(w);
	}
	json_end_array(w);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, BYTES("sync"), page->last));
	json_end_object(w);
}
