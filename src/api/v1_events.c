/* Events:
 *   GET /v1/events                                  a page, at once or as soon as there is something (?wait=)
 *   GET /v1/events with Accept: text/event-stream   a stream of Server-Sent Events */
#include "api/v1_events.h"

#include "api/v1_read.h"
#include "api/v1_routes.h"

enum {
	FROM_TRIES_MAX = 5, /* to read from a place that is trimmed meanwhile */
	FROM_BYTES_MAX = 64,
};

struct events_call {
	struct v1_events_wait       waiting; /* first */
	struct event_query          query;
	struct bytes                from; /* "first", "last", a time; empty: `after` says where */
	bool                        streams, unnamed;
	struct event_texts          page;
	struct event_stream_request stream;
};

/* ---- waiting ---- */

void v1_events_mark(struct v1_call *c, struct v1_events_wait *w)
{
	if (!w->marked)
		w->mark = *c->ctx.arena;
	w->marked = true;
}

static struct v1_events_wait *wait_of(struct http_request *r)
{
	return ((struct v1_call *)r->user)->request;
}

/* On the loop. What the last run allocated is given back, so that a request that is woken often does not grow. */
static void woken(struct http_request *r, enum http_end why)
{
	struct v1_call        *c = r->user;
	struct v1_events_wait *w = wait_of(r);
	struct api            *api = c->call.loop->api;
	bool                   same = event_hub_waited(api->parts.events, &w->wait);
	bool                   late = clock_steady_us(api->parts.clock) >= w->deadline_us;
	bool once_more = same && (why == HTTP_END_WOKEN || (why == HTTP_END_DEADLINE && !late));

	w->waited(c, once_more);
	if (once_more)
		arena_rewind(c->ctx.arena, w->mark);
	dispatch_resume(&c->call, once_more);
}

bool v1_events_park(struct v1_call *c, struct v1_events_wait *w, int64_t until_us)
{
	struct api *api = c->call.loop->api;
	int64_t     until = until_us > 0 && until_us < w->deadline_us ? until_us : w->deadline_us;

	if (api->parts.events == NULL || clock_steady_us(api->parts.clock) >= w->deadline_us)
		return false;
	w->wait.set = c->call.who.set;
	w->wait.use = c->call.who.key == NULL ? NULL : c->call.who.key->use;
	if (!event_hub_wait(api->parts.events, &w->wait, c->call.http, until, woken))
		return false;
	call_reader_end(&c->call);
	return true;
}

/* Nothing that passes came by: the next call may begin further on. */
static void events_waited(struct v1_call *c, bool once_more)
{
	struct events_call *e = c->request;

	if (once_more)
		e->query.after = e->waiting.wait.after;
	else
		e->page.next = e->waiting.wait.after;
}

static bool events_wait(struct v1_call *c)
{
	struct events_call *e = c->request;

	if (e->page.count > 0 || e->page.more)
		return false;
	e->waiting.wait.filter = e->query.filter;
	e->waiting.wait.after = e->page.next;
	return v1_events_park(c, &e->waiting, 0);
}

/* ---- the stream ---- */

static bool events_stream(struct v1_call *c)
{
	struct events_call *e = c->request;
	struct http_header  headers[] = {{BYTES("X-Request-Id"), c->call.request_id},
	                                 {BYTES("X-Accel-Buffering"), BYTES("no")}};

	e->stream = (struct event_stream_request){.filter = e->query.filter,
	                                          .unnamed = e->unnamed,
	                                          .after = e->query.after,
	                                          .who = c->call.who,
	                                          .headers = headers,
	                                          .header_count = 2};
	c->call.who = (struct caller){0};
	return event_hub_stream(c->call.loop->api->parts.events, c->call.http, &e->stream);
}

/* ---- what is asked for ---- */

static void types_name(struct v1_call *c, uint64_t types)
{
	for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++)
		if ((types >> i & 1) != 0)
			v1_resource(c, "event", bytes_of(event_type_name((enum event_type)i)));
}

/* 0: none are asked for. */
static enum err_code read_types(struct v1_call *c, uint64_t *types, struct err *err)
{
	struct bytes list, name;
	uint64_t     some;

	*types = 0;
	if (v1_query(c, "types", &list, err) != ERR_NONE)
		return err->code;
	while (list.data != NULL) { /* also what comes after the last comma, if it is nothing */
		const char *comma = list.len > 0 ? memchr(list.data, ',', list.len) : NULL;

		name = (struct bytes){list.data, comma != NULL ? (size_t)(comma - list.data) : list.len};
		some = event_types_of(name);
		if (some == 0)
			return err_field(err, ERR_INVALID, "types",
			                 "types: there is no event type \"%.*s\"; docs/events lists them",
			                 name.len > 64 ? 64 : (int)name.len, name.data);
		*types |= some;
		list = comma != NULL ? (struct bytes){comma + 1, list.len - name.len - 1}
		                     : (struct bytes){NULL, 0};
	}
	return ERR_NONE;
}

static enum err_code read_subject(struct v1_call *c, struct bytes *out, struct err *err)
{
	struct bytes text;

	*out = (struct bytes){NULL, 0};
	if (v1_query(c, "subject", &text, err) != ERR_NONE)
		return err->code;
	if (text.data == NULL)
		return ERR_NONE;
	return v1_subject_query(c, "subject", text, out, err);
}

/* Types that are asked for, all of which the caller must be allowed; or, if none are, those that it may have. */
enum err_code events_list_name(struct v1_call *c, struct err *err)
{
	struct bytes subject;
	uint64_t     types;

	if (read_types(c, &types, err) != ERR_NONE || read_subject(c, &subject, err) != ERR_NONE)
		return err->code;
	c->any_will_do = types == 0;
	types_name(c, types == 0 ? EVENTS_ALL_TYPES : types);
	if (subject.len > 0)
		v1_resource_used(c, V1_TOUCHED, "user", subject);
	return ERR_NONE;
}

static enum err_code read_number(struct v1_call *c, const char *name, uint64_t most, uint64_t *out,
                                 struct err *err)
{
	struct bytes text;
	uint64_t     least = bytes_is(bytes_of(name), "wait") ? 0 : 1;

	if (v1_query(c, name, &text, err) != ERR_NONE)
		return err->code;
	if (text.data != NULL && (!bytes_to_u64(text, most, out) || *out < least))
		return err_field(err, ERR_INVALID, name, "%s: must be from %d to %d", name, (int)least,
		                 (int)most);
	return ERR_NONE;
}

enum err_code v1_events_check_denied(const struct v1_call *c, uint64_t types, struct err *err)
{
	for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++)
		if ((types >> i & 1) != 0 &&
		    v1_check_denied(c, "event", bytes_of(event_type_name((enum event_type)i)), err) !=
		            ERR_NONE)
			return err->code;
	return ERR_NONE;
}

bool v1_events_from_is(struct bytes from)
{
	int64_t seconds;

	return bytes_is(from, "first") || bytes_is(from, "last") || v1_time_is(from, &seconds);
}

struct bytes v1_from_read(struct fields *f, struct bytes otherwise)
{
	struct bytes from = fields_text_or(f, "from", FROM_BYTES_MAX, otherwise);

	if (!fields_failed(f) && from.len > 0 && !v1_events_from_is(from))
		fields_fail(f, "from", ERR_INVALID,
		            "must be first, last or a time like 2026-11-15T22:00:00Z");
	return from;
}

void v1_after_read(struct v1_call *c, struct fields *f, struct bytes text, struct event_cursor *out)
{
	if (!fields_failed(f) && text.data != NULL &&
	    !event_cursor_read(text, event_shards(c->ctx.services), out))
		fields_fail(f, "after", ERR_INVALID, "not a cursor returned by this API");
}

void v1_seek_read(struct v1_call *c, struct fields *f, struct v1_seek *out)
{
	struct bytes none = {NULL, 0};

	out->from = v1_from_read(f, none);
	v1_after_read(c, f, fields_text_or(f, "after", EVENT_CURSOR_TEXT_MAX, none), &out->to);
	if (!fields_failed(f) && (out->from.len > 0) == (out->to.shards > 0))
		fields_fail(f, "from", ERR_INVALID, "send either from or after");
}

enum err_code v1_seek_find(struct v1_call *c, struct v1_seek *q, struct err *err)
{
	return q->from.len > 0 ? v1_events_from(c, q->from, &q->to, err) : ERR_NONE;
}

void v1_write_move(struct json_writer *w, const struct event_move *m)
{
	json_member_i64(w, BYTES("redelivers"), m->redelivers);
	json_member_i64(w, BYTES("skips"), m->skips);
}

/* `after`, or of a stream that comes back Last-Event-ID; or `from`. */
static enum err_code read_begin(struct v1_call *c, struct events_call *e, struct err *err)
{
	struct bytes last =
	        e->streams ? http_header_get(c->call.http, "last-event-id") : (struct bytes){NULL, 0};
	struct bytes after;

	if (v1_query(c, "after", &after, err) != ERR_NONE || v1_query(c, "from", &e->from, err) != ERR_NONE)
		return err->code;
	if (after.data != NULL && e->from.data != NULL)
		return err_field(err, ERR_INVALID, "from", "from: send either after or from, not both");
	if (last.len > 0) { /* a stream that comes back still has its old query */
		after = last;
		e->from = (struct bytes){NULL, 0};
	}
	if (after.data == NULL && e->from.data == NULL)
		e->from = e->streams ? BYTES("last") : BYTES("first");
	if (after.data == NULL && !v1_events_from_is(e->from))
		return err_field(err, ERR_INVALID, "from",
		                 "from: must be first, last or a time like 2026-11-15T22:00:00Z");
	if (after.data != NULL && !event_cursor_read(after, event_shards(c->ctx.services), &e->query.after))
		return err_field(err, ERR_INVALID, last.len > 0 ? "Last-Event-ID" : "after",
		                 "%s: not a cursor returned by this API",
		                 last.len > 0 ? "Last-Event-ID" : "after");
	return ERR_NONE;
}

static bool wants_stream(const struct http_request *r)
{
	struct bytes accept = http_header_get(r, "accept");

	return accept.data != NULL && bytes_contains(accept, BYTES("text/event-stream"));
}

/* Do the events of a stream have their types as names? */
static enum err_code read_named(struct v1_call *c, struct events_call *e, struct err *err)
{
	struct bytes named;

	if (v1_query(c, "named", &named, err) != ERR_NONE)
		return err->code;
	if (named.data == NULL)
		return ERR_NONE;
	if (!e->streams)
		return err_field(err, ERR_INVALID, "named",
		                 "named: only a stream has it (Accept: text/event-stream)");
	e->unnamed = bytes_is(named, "false");
	return e->unnamed || bytes_is(named, "true")
	               ? ERR_NONE
	               : err_field(err, ERR_INVALID, "named", "named: must be true or false");
}

enum err_code events_list_decode(struct v1_call *c, struct err *err)
{
	struct events_call *e = v1_request(c, sizeof(*e));
	uint64_t            limit = EVENTS_LIMIT_DEFAULT, wait = 0;

	e->streams = wants_stream(c->call.http);
	if (read_begin(c, e, err) != ERR_NONE || read_types(c, &e->query.filter.types, err) != ERR_NONE ||
	    read_subject(c, &e->query.filter.subject, err) != ERR_NONE ||
	    read_number(c, "limit", EVENTS_PAGE_MAX, &limit, err) != ERR_NONE ||
	    read_number(c, "wait", EVENTS_WAIT_S_MAX, &wait, err) != ERR_NONE ||
	    read_named(c, e, err) != ERR_NONE)
		return err->code;
	if (e->query.filter.types == 0)
		e->query.filter.types = EVENTS_ALL_TYPES;
	e->query.filter.users = v1_users_denied(c);
	e->query.limit = e->streams ? 1 : (uint32_t)limit;
	e->waiting.deadline_us = c->call.http->received_us + (int64_t)wait * 1000000;
	e->waiting.waited = events_waited;
	c->waits = e->streams ? NULL : events_wait;
	c->stream = e->streams ? events_stream : NULL;
	c->call.streams = e->streams;
	return ERR_NONE;
}

/* ---- running ---- */

enum err_code v1_events_from(struct v1_call *c, struct bytes from, struct event_cursor *out, struct err *err)
{
	struct event_bounds bounds;
	int64_t             seconds;

	if (!bytes_is(from, "first") && !bytes_is(from, "last")) {
		if (!v1_time_is(from, &seconds))
			return err_field(err, ERR_INVALID, "from",
			                 "from: must be first, last or a time like 2026-11-15T22:00:00Z");
		return events_at_time(&c->ctx, seconds * 1000000, out, err);
	}
	if (events_bounds(&c->ctx, &bounds, err) != ERR_NONE)
		return err->code;
	if (bytes_is(from, "first"))
		event_cursor_first(&bounds, out);
	else
		event_cursor_last(&bounds, out);
	return ERR_NONE;
}

/* Only what the key may have, unless it may have all. */
static void hide_types(struct v1_call *c, struct events_call *e)
{
	if (e->query.filter.types != EVENTS_ALL_TYPES || c->call.reach == REACH_ALL)
		return;
	e->query.filter.types = 0;
	for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++)
		if (v1_allowed(c, "event", bytes_of(event_type_name((enum event_type)i))))
			e->query.filter.types |= UINT64_C(1) << i;
}

/* Whoever asks for the first event gets it, though it may be trimmed just before it is read. */
static enum err_code page_from(struct v1_call *c, struct events_call *e, struct event_hub *hub,
                               struct err *err)
{
	enum err_code rc = ERR_GONE;

	for (unsigned i = 0; rc == ERR_GONE && i < FROM_TRIES_MAX; i++) {
		if (v1_events_from(c, e->from, &e->query.after, err) != ERR_NONE)
			return err->code;
		v1_events_mark(c, &e->waiting);
		rc = event_hub_read(hub, &c->ctx, &e->query, &e->page, err);
	}
	return rc;
}

/* Only whether it can begin there: the hub reads for it. A page that nobody needs may be a look at thousands of events, on a loop. */
static enum err_code stream_check(struct v1_call *c, struct events_call *e, struct event_hub *hub,
                                  struct err *err)
{
	const struct credential *key = c->call.who.key;

	if (hub == NULL)
		return err_set(err, ERR_OVERLOADED, "this server has no streams");
	if (key != NULL && event_hub_is_full_for(hub, key->use))
		return err_set(
		        err, ERR_CALLER_THROTTLED,
		        "The key %.*s has as many streams and waiting requests as it may have. End some, or "
		        "raise the setting followers-per-key.",
		        BYTES_ARG(key->name));
	hide_types(c, e);
	return e->from.data != NULL ? v1_events_from(c, e->from, &e->query.after, err)
	                            : events_check(&c->ctx, &e->query.after, err);
}

enum err_code events_list_run(struct v1_call *c, struct err *err)
{
	struct events_call *e = c->request;
	struct event_hub   *hub = c->call.loop->api->parts.events;

	if (e->streams)
		return stream_check(c, e, hub, err);
	if (!e->waiting.marked) {
		hide_types(c, e);
		if (e->from.data != NULL)
			return page_from(c, e, hub, err);
	}
	v1_events_mark(c, &e->waiting);
	return event_hub_read(hub, &c->ctx, &e->query, &e->page, err);
}

void v1_write_events(struct json_writer *w, struct arena *a, const struct event_texts *page)
{
	json_key(w, BYTES("events"));
	json_begin_array(w);
	for (uint32_t i = 0; i < page->count; i++)
		json_raw(w, page->list[i].json);
	json_end_array(w);
	json_member_text(w, BYTES("after"), event_cursor_text(a, &page->next));
	json_member_bool(w, BYTES("more"), page->more);
}

void events_list_encode(struct v1_call *c, struct json_writer *w)
{
	const struct events_call *e = c->request;

	json_begin_object(w);
	if (!e->streams)
		v1_write_events(w, c->ctx.arena, &e->page);
	json_end_object(w);
}
