/* Dead letters of event targets:
 *   GET /v1/dead-letters, POST /v1/dead-letters/redrive
 *   GET and DELETE /v1/dead-letters/{target}/{id}, POST /v1/dead-letters/{target}/{id}/redrive */
#include "api/v1_events.h"
#include "api/v1_jobs.h"
#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "service/cursor.h"
#include "service/undelivered.h"

enum { LETTERS_PAGE_DEFAULT = 100, TYPE_CHARS_MAX = 64 };

/* ---- what is asked for ---- */

static enum err_code target_check(struct bytes name, struct err *err)
{
	if (name.len == 0 || target_name_is(name))
		return ERR_NONE;
	return err_field(err, ERR_INVALID, "target",
	                 "target: must have letters, digits, '-', '_' and '.' only");
}

static enum err_code type_check(struct bytes type, struct err *err)
{
	if (type.len == 0 || event_type_named(type) != EVENT_TYPE_COUNT)
		return ERR_NONE;
	return err_field(err, ERR_INVALID, "type", "type: there are no events of this type");
}

/* ---- answers ---- */

static void write_letter(struct v1_call *c, struct json_writer *w, const struct undelivered *u)
{
	json_member_text(w, BYTES("target"), u->target);
	json_member_text(w, BYTES("id"), undelivered_key_text(c->ctx.arena, u));
	json_member_text(w, BYTES("eventId"), row_text(&u->event, "id"));
	json_member_text(w, BYTES("type"), row_text(&u->event, "type"));
	json_member_text(w, BYTES("subject"), row_text(&u->event, "subject"));
	json_member_text(w, BYTES("time"), row_text(&u->event, "time"));
	json_member_i64(w, BYTES("seq"), row_i64(&u->event, "seq", 0));
	if (u->status != 0)
		json_member_i64(w, BYTES("status"), u->status);
	json_member_text(w, BYTES("error"), u->error);
	json_member_i64(w, BYTES("tries"), u->tries);
	v1_write_time(w, BYTES("firstFailedAt"), u->since_s);
	v1_write_time(w, BYTES("diedAt"), u->died_s);
}

/* ---- all ---- */

struct dead_call {
	struct undelivered_search q;
	struct undelivered_page   page;
	struct undelivered_all    all;
	struct job_started        started;
};

/* As in GET /v1/events: an address is never part of a URL. */
static enum err_code read_subject(struct v1_call *c, struct bytes *out, struct err *err)
{
	struct bytes text;

	*out = (struct bytes){NULL, 0};
	if (v1_query(c, "subject", &text, err) != ERR_NONE)
		return err->code;
	return text.data == NULL ? ERR_NONE : v1_subject_query(c, "subject", text, out, err);
}

static enum err_code subject_decode(struct v1_call *c, struct dead_call *d, struct err *err)
{
	struct bytes subject;

	if (read_subject(c, &subject, err) != ERR_NONE)
		return err->code;
	if (subject.len > 0)
		d->q.subject_key = delivery_key(&c->ctx, subject);
	return ERR_NONE;
}

static enum err_code page_decode(struct v1_call *c, struct dead_call *d, struct err *err)
{
	struct bytes limit, cursor;
	uint64_t     number = LETTERS_PAGE_DEFAULT;

	if (v1_query(c, "limit", &limit, err) != ERR_NONE || v1_query(c, "cursor", &cursor, err) != ERR_NONE)
		return err->code;
	if (limit.data != NULL && (!bytes_to_u64(limit, UNDELIVERED_PAGE_MAX, &number) || number < 1))
		return err_field(err, ERR_INVALID, "limit", "limit: must be from 1 to %d",
		                 UNDELIVERED_PAGE_MAX);
	d->q.limit = (uint32_t)number;
	if (cursor.data != NULL && !cursor_read(&c->ctx, cursor, &d->q.after_target, &d->q.after))
		return err_field(err, ERR_INVALID, "cursor", "cursor: not a cursor returned by this API");
	return ERR_NONE;
}

enum err_code dead_list_name(struct v1_call *c, struct err *err)
{
	struct bytes target, subject;

	if (v1_query(c, "target", &target, err) != ERR_NONE || read_subject(c, &subject, err) != ERR_NONE)
		return err->code;
	if (target.len > 0)
		v1_resource(c, "target", target);
	if (subject.len > 0)
		v1_resource_used(c, V1_TOUCHED, "user", subject);
	return ERR_NONE;
}

enum err_code dead_list_decode(struct v1_call *c, struct err *err)
{
	struct dead_call *d = v1_request(c, sizeof(*d));

	if (page_decode(c, d, err) != ERR_NONE || v1_query(c, "target", &d->q.target, err) != ERR_NONE ||
	    v1_query(c, "type", &d->q.type, err) != ERR_NONE || subject_decode(c, d, err) != ERR_NONE ||
	    target_check(d->q.target, err) != ERR_NONE)
		return err->code;
	return type_check(d->q.type, err);
}

/* A name that is mistyped must not look like a target without letters. */
static enum err_code target_find(struct v1_call *c, struct bytes name, struct err *err)
{
	struct target t;

	if (name.len == 0 || target_get(&c->ctx, name, &t, err) == ERR_NONE)
		return ERR_NONE;
	return err->code == ERR_NOT_FOUND
	               ? err_field(err, ERR_NOT_FOUND, "target", "target: there is no such target")
	               : err->code;
}

enum err_code dead_list_run(struct v1_call *c, struct err *err)
{
	struct dead_call *d = c->request;

	if (target_find(c, d->q.target, err) != ERR_NONE)
		return err->code;
	return undelivered_find(&c->ctx, &d->q, &d->page, err);
}

/* Those of types and users that are denied to the key are as if they were not there. */
static bool is_hidden(const struct v1_call *c, const struct undelivered *u)
{
	return v1_denied(c, "event", row_text(&u->event, "type")) ||
	       v1_denied(c, "user", row_text(&u->event, "subject"));
}

void dead_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct undelivered_page *page = &((const struct dead_call *)c->request)->page;

	json_begin_object(w);
	json_key(w, BYTES("deadLetters"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++) {
		if (!v1_allowed(c, "target", page->list[i].target) || is_hidden(c, &page->list[i]))
			continue;
		json_begin_object(w);
		write_letter(c, w, &page->list[i]);
		json_end_object(w);
	}
	json_end_array(w);
	json_member_bool(w, BYTES("more"), page->more);
	if (page->more)
		json_member_text(w, BYTES("cursor"), cursor_write(&c->ctx, page->last_target, page->last));
	json_end_object(w);
}

static const struct json no_body = {.type = JSON_OBJECT};

static struct bytes body_subject(struct v1_call *c, struct fields *f)
{
	const struct json *subject = fields_get(f, "subject");

	return subject == NULL ? (struct bytes){NULL, 0}
	                       : identifier_read_past(&c->ctx.services->identifiers, c->ctx.arena, f,
	                                              "subject", subject);
}

/* Without a target it is about all of them; without a subject, about all users. */
enum err_code dead_redrive_all_name(struct v1_call *c, struct err *err)
{
	struct bytes  target, subject;
	struct fields f;

	fields_init(&f, c->body == NULL ? &no_body : c->body, err);
	subject = body_subject(c, &f);
	target = fields_text_or(&f, "target", TARGET_NAME_BYTES_MAX, (struct bytes){NULL, 0});
	c->everything = target.len == 0;
	c->all_users = subject.len == 0;
	if (target.len > 0)
		v1_resource(c, "target", target);
	v1_resource_used(c, V1_TOUCHED, "user", subject);
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code dead_redrive_all_decode(struct v1_call *c, struct err *err)
{
	struct dead_call *d = v1_request(c, sizeof(*d));
	struct job_new    job = {0};
	struct fields     f;

	fields_init(&f, c->body == NULL ? &no_body : c->body, err);
	d->all.target = fields_text_or(&f, "target", TARGET_NAME_BYTES_MAX, (struct bytes){NULL, 0});
	d->all.type = fields_text_or(&f, "type", TYPE_CHARS_MAX, (struct bytes){NULL, 0});
	d->all.subject = body_subject(c, &f);
	v1_read_job(&f, &job);
	d->all.dry_run = job.dry_run;
	d->all.rate = job.rate;
	if (fields_end(&f) != ERR_NONE || target_check(d->all.target, err) != ERR_NONE ||
	    type_check(d->all.type, err) != ERR_NONE)
		return err->code;
	return v1_events_check_denied(
	        c, d->all.type.len == 0 ? EVENTS_ALL_TYPES : UINT64_C(1) << event_type_named(d->all.type),
	        err);
}

enum err_code dead_redrive_all_run(struct v1_call *c, struct err *err)
{
	struct dead_call *d = c->request;

	if (target_find(c, d->all.target, err) != ERR_NONE)
		return err->code;
	return undelivered_redrive_all(&c->ctx, &d->all, &d->started, err);
}

void dead_redrive_all_encode(struct v1_call *c, struct json_writer *w)
{
	const struct dead_call *d = c->request;

	c->status = d->started.existed ? 200 : 202;
	v1_write_job(w, &d->started.job);
}

/* ---- one ---- */

struct one_call {
	struct undelivered_key key;
	struct undelivered     letter;
};

static enum err_code one_decode(struct v1_call *c, struct err *err)
{
	struct one_call *o = v1_request(c, sizeof(*o));

	if (target_check(c->params[0], err) != ERR_NONE)
		return err->code;
	if (!undelivered_key_read(c->params[1], &o->key))
		return err_field(err, ERR_INVALID, "id",
		                 "id: not the id of a dead letter, which is like 0-42");
	o->key.target = c->params[0];
	return ERR_NONE;
}

static enum err_code one_find(struct v1_call *c, struct err *err)
{
	struct one_call *o = c->request;

	if (undelivered_get(&c->ctx, &o->key, &o->letter, err) != ERR_NONE)
		return err->code;
	return is_hidden(c, &o->letter) ? undelivered_unknown(err) : ERR_NONE;
}

enum err_code dead_get_decode(struct v1_call *c, struct err *err)
{
	return one_decode(c, err);
}

enum err_code dead_get_run(struct v1_call *c, struct err *err)
{
	return one_find(c, err);
}

void dead_get_encode(struct v1_call *c, struct json_writer *w)
{
	const struct undelivered *u = &((const struct one_call *)c->request)->letter;

	json_begin_object(w);
	write_letter(c, w, u);
	if (item_get(&u->event, BYTES("time")) != NULL) { /* it was not trimmed */
		json_key(w, BYTES("event"));
		event_write_json(w, &u->event);
	}
	json_end_object(w);
}

enum err_code dead_delete_decode(struct v1_call *c, struct err *err)
{
	return one_decode(c, err);
}

enum err_code dead_delete_run(struct v1_call *c, struct err *err)
{
	if (one_find(c, err) != ERR_NONE)
		return err->code;
	return undelivered_delete(&c->ctx, &((struct one_call *)c->request)->key, err);
}

void dead_delete_encode(struct v1_call *c, struct json_writer *w)
{
	(void)c;
	json_begin_object(w);
	json_member_bool(w, BYTES("deleted"), true);
	json_end_object(w);
}

enum err_code dead_redrive_decode(struct v1_call *c, struct err *err)
{
	return one_decode(c, err);
}

enum err_code dead_redrive_run(struct v1_call *c, struct err *err)
{
	struct one_call *o = c->request;

	if (one_find(c, err) != ERR_NONE)
		return err->code;
	return undelivered_redrive(&c->ctx, &o->key, &o->letter, err);
}

void dead_redrive_encode(struct v1_call *c, struct json_writer *w)
{
	(void)c;
	json_begin_object(w);
	json_member_bool(w, BYTES("redriven"), true);
	json_end_object(w);
}
