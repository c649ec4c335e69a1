/* Identity providers:
 *   POST /v1/sync/users
 *   POST /v1/sync/events: the same, from senders that do not come back */
#include "api/v1_sync.h"

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_users.h"
#include "base/date.h"

/* ---- a record ---- */

/* To the millisecond. */
static bool time_is(struct bytes text, int64_t *ms)
{
	int64_t micros = 0;
	bool    is = date_read_rfc3339(text, &micros);

	*ms = micros / 1000;
	return is;
}

/* How old it is. */
static void read_age(struct fields *f, struct sync_record *out)
{
	const struct json *when = fields_get(f, "updatedAt");

	out->has_time = when != NULL;
	if (when != NULL && when->type != JSON_STRING)
		out->time_ms = v1_read_time(f, "updatedAt") * 1000;
	else if (when != NULL && !time_is(json_text(when), &out->time_ms))
		fields_fail(f, "updatedAt", ERR_INVALID,
		            "must be whole seconds since 1970, or a UTC time like 2026-11-15T22:00:00.123Z");
	out->has_sequence = fields_has(f, "sequence");
	out->sequence = fields_i64_or(f, "sequence", 0, INT64_MAX - 1, 0);
}

static enum err_code read_record(struct v1_call *c, struct sync_record *out, struct err *err)
{
	struct fields f;

	fields_init(&f, c->body, err);
	out->provider = fields_text(&f, "provider", SYNC_PROVIDER_BYTES_MAX);
	if (!fields_failed(&f) && !sync_provider_is(out->provider))
		fields_fail(&f, "provider", ERR_INVALID, "must have letters, digits, '-', '_' and '.' only");
	out->id = v1_read_user_id(&f);
	out->name = fields_text_or(&f, "username", SYNC_NAME_BYTES_MAX, (struct bytes){NULL, 0});
	if (fields_has(&f, "email"))
		out->email = v1_read_email(c, &f, "email", &out->email_typed);
	out->email_verified = fields_bool_or(&f, "emailVerified", false);
	v1_read_user_fields(c, &f, true, &out->fields);
	out->complete = fields_bool_or(&f, "complete", false);
	read_age(&f, out);
	return fields_end(&f);
}

/* An answer that depends on whether the address has an account is for those who may look up every user, and nobody else
 * (v1_email_terms). Others are told that the record was accepted, whatever became of it. */
static bool is_neutral(const struct v1_call *c, const struct sync_record *q)
{
	return q->email.len > 0 && q->email_verified && !v1_may_all(c, "LookupUser");
}

static void write_accepted(struct json_writer *w)
{
	json_begin_object(w);
	json_member_text(w, BYTES("outcome"), BYTES("accepted"));
	json_end_object(w);
}

/* ---- POST /v1/sync/users ---- */

struct sync_call {
	struct sync_record   q;
	bool                 neutral;
	struct sync_delivery d; /* of one that is not, only the result */
};

enum err_code sync_user_decode(struct v1_call *c, struct err *err)
{
	struct sync_call *s = v1_request(c, sizeof(*s));

	if (read_record(c, &s->q, err) != ERR_NONE)
		return err->code;
	s->neutral = is_neutral(c, &s->q);
	return ERR_NONE;
}

enum err_code sync_user_run(struct v1_call *c, struct err *err)
{
	struct sync_call *s = c->request;

	c->about = s->q.id;
	return s->neutral ? sync_apply_neutral(&c->ctx, &s->q, &s->d, err)
	                  : sync_apply(&c->ctx, &s->q, &s->d.result, err);
}

void sync_user_encode(struct v1_call *c, struct json_writer *w)
{
	const struct sync_call   *s = c->request;
	const struct sync_result *r = &s->d.result;

	if (s->neutral) {
		c->status = 202;
		write_accepted(w);
		return;
	}
	c->status = r->outcome == SYNC_CREATED ? 201 : 200;
	v1_user_etag(c, &r->user);
	json_begin_object(w);
	json_member_text(w, BYTES("outcome"), bytes_of(sync_outcome_names[r->outcome]));
	json_name(w, BYTES("user"));
	json_begin_object(w);
	v1_write_user_members(w, &r->user);
	json_end_object(w);
	json_end_object(w);
}

void sync_user_committed(struct v1_call *c)
{
	sync_count(c->ctx.services, ((const struct sync_call *)c->request)->d.result.outcome);
}

/* ---- POST /v1/sync/events, and triggers (lambda.c) ---- */

static bool fails_for_now(enum err_code rc)
{
	return rc == ERR_OVERLOADED || rc == ERR_CONTENDED || rc == ERR_THROTTLED ||
	       rc == ERR_CALLER_THROTTLED || rc == ERR_STORAGE || rc == ERR_DISK_FULL;
}

enum err_code v1_deliver(struct v1_call *c, struct v1_delivery *d, struct err *err)
{
	c->about = d->q.id;
	return d->giving_up ? sync_give_up(&c->ctx, &d->q, d->why, &d->r, err)
	                    : sync_deliver(&c->ctx, &d->q, &d->r, err);
}

/* Both kinds of call begin with their delivery. */
bool v1_deliver_again(struct v1_call *c, enum err_code rc, bool last, int64_t *pause_us)
{
	struct v1_delivery *d = c->request;

	if (!fails_for_now(rc) || d->giving_up)
		return false;
	d->giving_up = ++d->tries >= SYNC_TRIES_MAX || last;
	d->why = rc;
	*pause_us = d->giving_up ? 0 : (int64_t)SYNC_PAUSE_MS * 1000 << (d->tries - 1);
	return true;
}

enum err_code sync_event_decode(struct v1_call *c, struct err *err)
{
	struct v1_delivery *d = v1_request(c, sizeof(*d));

	c->again = v1_deliver_again;
	if (read_record(c, &d->q, err) != ERR_NONE)
		return err->code;
	d->neutral = is_neutral(c, &d->q);
	if (d->q.has_time || d->q.has_sequence)
		return ERR_NONE;
	d->q.has_time = true; /* a redrive, days later, must not replace what came since */
	d->q.time_ms = c->ctx.now_us / 1000;
	return ERR_NONE;
}

enum err_code sync_event_run(struct v1_call *c, struct err *err)
{
	return v1_deliver(c, c->request, err);
}

void sync_event_encode(struct v1_call *c, struct json_writer *w)
{
	const struct v1_delivery *d = c->request;

	if (d->neutral)
		write_accepted(w);
	else
		v1_write_delivery(w, &d->r);
}

void v1_write_delivery(struct json_writer *w, const struct sync_delivery *r)
{
	json_begin_object(w);
	json_member_text(w, BYTES("outcome"), bytes_of(sync_outcome_names[r->result.outcome]));
	json_member_text(w, BYTES("error"), r->error);
	json_end_object(w);
}

void sync_event_committed(struct v1_call *c)
{
	sync_count(c->ctx.services, ((const struct v1_delivery *)c->request)->r.result.outcome);
}

enum err_code sync_event_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	(void)err;
	if (rc != ERR_NONE)
		sync_count(c->ctx.services, SYNC_REFUSED);
	return rc;
}
