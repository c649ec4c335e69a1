/* Jobs:
 *   GET /v1/jobs, GET /v1/jobs/{id}
 *   POST /v1/jobs/{id}/cancel and …/resume
 * and the routes that start one:
 *   POST /v1/users/{id}/erase and POST /v1/users/adopt */
#include "api/v1_jobs.h"

#include "api/v1_routes.h"
#include "api/v1_users.h"
#include "service/adopt.h"
#include "service/cursor.h"
#include "service/erase.h"
#include "service/push.h"
#include "service/row.h"

enum { JOBS_PAGE_DEFAULT = 100 };

/* ---- answers ---- */

static void write_texts(struct json_writer *w, const struct value_list *list)
{
	json_begin_array(w);
	for (uint32_t i = 0; i < list->count; i++)
		if (list->items[i].type == VALUE_S)
			json_string(w, list->items[i].text);
	json_end_array(w);
}

/* Texts, whole numbers, truths, and lists of texts; args and progress hold nothing else. */
static void write_map(struct json_writer *w, struct bytes name, const struct item *map)
{
	int64_t number;

	json_name(w, name);
	json_begin_object(w);
	for (uint32_t i = 0; i < map->count; i++) {
		const struct value *v = &map->members[i].value;
		bool                whole = v->type == VALUE_N && number_to_i64(&v->number, &number);

		if (!whole && v->type != VALUE_S && v->type != VALUE_BOOL && v->type != VALUE_L)
			continue;
		json_name(w, map->members[i].name);
		if (whole)
			json_i64(w, number);
		else if (v->type == VALUE_L)
			write_texts(w, &v->list);
		else if (v->type == VALUE_S)
			json_string(w, v->text);
		else
			json_bool(w, v->truth);
	}
	json_end_object(w);
}

void v1_write_job(struct json_writer *w, const struct job *job)
{
	json_begin_object(w);
	json_member_text(w, BYTES("id"), job->id);
	json_member_text(w, BYTES("kind"), job->kind);
	json_member_text(w, BYTES("state"), bytes_of(job_state_names[job->state]));
	json_member_text(w, BYTES("error"), job->error);
	json_member_bool(w, BYTES("dryRun"), job->dry_run);
	if (job->rate > 0)
		json_member_i64(w, BYTES("rate"), job->rate);
	write_map(w, BYTES("args"), &job->args);
	write_map(w, BYTES("progress"), &job->progress);
	json_member_i64(w, BYTES("steps"), job->steps);
	json_member_text(w, BYTES("caller"), job->caller);
	json_member_text(w, BYTES("createdAt"), job->created_at);
	json_member_text(w, BYTES("updatedAt"), job->updated_at);
	json_member_text(w, BYTES("endedAt"), job->ended_at);
	json_end_object(w);
}

void v1_read_job(struct fields *f, struct job_new *out)
{
	out->dry_run = fields_bool_or(f, "dryRun", false);
	out->rate = fields_i64_or(f, "rate", 1, JOB_RATE_MAX, 0);
}

/* ---- one job ---- */

struct job_call {
	struct bytes id;
	struct job   r;
	bool         changed; /* it was not so before */
};

static enum err_code job_decode(struct v1_call *c, struct err *err)
{
	struct job_call *j = v1_request(c, sizeof(*j));

	j->id = c->params[0];
	if (j->id.len > JOB_ID_CHARS || !bytes_hold_only(j->id, "-"))
		return err_field(err, ERR_NOT_FOUND, "id", "id: there is no such job");
	return ERR_NONE;
}

/* Is it about a user that is denied? Then it is as if it did not exist. */
static bool is_hidden(const struct v1_call *c, const struct job *job)
{
	const struct value *users = item_get(&job->args, BYTES("users"));
	struct bytes        user = row_text(&job->args, "userId");

	if (user.len > 0 && v1_denied(c, "user", user))
		return true;
	for (uint32_t i = 0; users != NULL && users->type == VALUE_L && i < users->list.count; i++)
		if (users->list.items[i].type == VALUE_S && v1_denied(c, "user", users->list.items[i].text))
			return true;
	return false;
}

static enum err_code job_find(struct v1_call *c, struct err *err)
{
	struct job_call *j = c->request;

	if (job_get(&c->ctx, j->id, &j->r, err) != ERR_NONE)
		return err->code;
	return is_hidden(c, &j->r) ? job_unknown(err) : ERR_NONE;
}

static void job_encode(struct v1_call *c, struct json_writer *w)
{
	v1_write_job(w, &((const struct job_call *)c->request)->r);
}

enum err_code job_get_decode(struct v1_call *c, struct err *err)
{
	return job_decode(c, err);
}

enum err_code job_get_run(struct v1_call *c, struct err *err)
{
	return job_find(c, err);
}

void job_get_encode(struct v1_call *c, struct json_writer *w)
{
	job_encode(c, w);
}

enum err_code job_cancel_decode(struct v1_call *c, struct err *err)
{
	return job_decode(c, err);
}

enum err_code job_cancel_run(struct v1_call *c, struct err *err)
{
	struct job_call *j = c->request;
	uint32_t         before = c->ctx.changes.count;
	enum err_code    rc = job_find(c, err);

	if (rc == ERR_NONE)
		rc = job_cancel(&c->ctx, j->id, &j->r, err);
	j->changed = c->ctx.changes.count > before;
	return rc;
}

void job_cancel_encode(struct v1_call *c, struct json_writer *w)
{
	job_encode(c, w);
}

void v1_job_cancelled(struct v1_call *c, struct bytes kind)
{
	const struct jobs_settings *jobs = &c->ctx.services->jobs;

	for (unsigned i = 0; i < jobs->kind_count; i++)
		if (bytes_is(kind, jobs->kinds[i]->name))
			metric_add(&jobs->counts[i].ended[JOB_CANCELLED], 1);
	push_wake(c->ctx.services); /* of a broadcast: what waited is removed */
}

void job_cancel_committed(struct v1_call *c)
{
	const struct job_call *j = c->request;

	if (j->changed)
		v1_job_cancelled(c, j->r.kind);
}

enum err_code job_resume_decode(struct v1_call *c, struct err *err)
{
	return job_decode(c, err);
}

/* A job that names no user is about all of them: whoever may not start it may not have it go on either. */
static enum err_code check_reach(const struct v1_call *c, const struct job *job, struct err *err)
{
	if (item_get(&job->args, BYTES("userId")) != NULL || item_get(&job->args, BYTES("users")) != NULL ||
	    !v1_could_deny(c, "user"))
		return ERR_NONE;
	return err_set(err, ERR_ACCESS,
	               "the key's policy must not deny gatehouse:%s on any user, because the job is about "
	               "every user",
	               c->route->action);
}

enum err_code job_resume_run(struct v1_call *c, struct err *err)
{
	struct job_call *j = c->request;

	if (job_find(c, err) != ERR_NONE || check_reach(c, &j->r, err) != ERR_NONE)
		return err->code;
	return job_resume(&c->ctx, j->id, &j->r, err);
}

void job_resume_encode(struct v1_call *c, struct json_writer *w)
{
	job_encode(c, w);
}

void job_wake_committed(struct v1_call *c)
{
	jobs_wake(c->ctx.services);
}

/* ---- all of them ---- */

struct list_call {
	struct jobs_search q;
	struct jobs_page   page;
};

static enum err_code read_state(struct bytes state, struct err *err)
{
	if (state.data == NULL)
		return ERR_NONE;
	for (int i = 0; job_state_names[i] != NULL; i++)
		if (bytes_is(state, job_state_names[i]))
			return ERR_NONE;
	return err_field(err, ERR_INVALID, "state", "state: must be running, done, failed or cancelled");
}

static enum err_code read_kind(const struct services *s, struct bytes kind, struct err *err)
{
	if (kind.data == NULL || job_kind_find(s, kind) != NULL)
		return ERR_NONE;
	return err_field(err, ERR_INVALID, "kind", "kind: there is no such kind of job");
}

enum err_code job_list_decode(struct v1_call *c, struct err *err)
{
	struct list_call *l = v1_request(c, sizeof(*l));
	struct bytes      limit, cursor, partition;
	uint64_t          number = JOBS_PAGE_DEFAULT;

	if (v1_query(c, "limit", &limit, err) != ERR_NONE ||
	    v1_query(c, "cursor", &cursor, err) != ERR_NONE ||
	    v1_query(c, "kind", &l->q.kind, err) != ERR_NONE ||
	    v1_query(c, "state", &l->q.state, err) != ERR_NONE || read_state(l->q.state, err) != ERR_NONE ||
	    read_kind(c->ctx.services, l->q.kind, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, JOBS_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d", JOBS_PAGE_MAX);
	l->q.limit = (uint32_t)number;
	if (cursor.data != NULL && (!cursor_read(&c->ctx, cursor, &partition, &l->q.before) ||
	                            !bytes_is(partition, "JOBS") || l->q.before.len == 0))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

enum err_code job_list_run(struct v1_call *c, struct err *err)
{
	struct list_call *l = c->request;

	return jobs_find(&c->ctx, &l->q, &l->page, err);
}

/* Those that the key may not see are left out. */
void job_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct jobs_page *page = &((const struct list_call *)c->request)->page;

	json_begin_object(w);
	json_name(w, BYTES("jobs"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++)
		if (v1_allowed(c, "job", page->list[i].id) && !is_hidden(c, &page->list[i]))
			v1_write_job(w, &page->list[i]);
	json_end_array(w);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, BYTES("JOBS"), page->last));
	json_end_object(w);
}

/* ---- starting ---- */

struct start_call {
	struct bytes       user;
	struct job_new     terms;
	struct job_started r;
};

static void start_encode(struct v1_call *c, struct json_writer *w)
{
	c->status = 202;
	v1_write_job(w, &((const struct start_call *)c->request)->r.job);
}

enum err_code user_erase_decode(struct v1_call *c, struct err *err)
{
	struct start_call *s = v1_request(c, sizeof(*s));

	return v1_user_param(c, &s->user, err);
}

enum err_code user_erase_run(struct v1_call *c, struct err *err)
{
	struct start_call *s = c->request;

	return erase_start(&c->ctx, s->user, &s->r, err);
}

void user_erase_encode(struct v1_call *c, struct json_writer *w)
{
	start_encode(c, w);
}

enum err_code user_adopt_decode(struct v1_call *c, struct err *err)
{
	struct start_call *s = v1_request(c, sizeof(*s));
	struct fields      f;

	fields_init(&f, c->body, err);
	v1_read_job(&f, &s->terms);
	return fields_end(&f);
}

enum err_code user_adopt_run(struct v1_call *c, struct err *err)
{
	struct start_call *s = c->request;

	return adopt_start(&c->ctx, &s->terms, &s->r, err);
}

void user_adopt_encode(struct v1_call *c, struct json_writer *w)
{
	start_encode(c, w);
}
