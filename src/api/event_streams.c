/* Event streams: those who follow the log by Server-Sent Events. A stream is live, and is sent each event as the hub reads it; or it is behind, and the hub's
 * thread reads on for it, a page at a time, whenever its peer has taken what was sent. It begins behind, and falls behind again when its peer is slow. See
 * event_hub.h, (1), (2) and (5). */
#include "api/event_hub_state.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	REPLAY_EVENTS = 100,
	REPLAY_ROWS = 500, /* examined for a stream that is behind, before it is another's turn */
};

/* A stream. */
struct follower {
	struct event_hub   *hub;
	struct list         link;   /* in a bucket or in `streams` */
	struct list         hungry; /* in the hub's list of those to read for */
	struct event_filter filter;
	struct event_cursor after; /* LIVE: nothing before it is sent again. Behind: what was sent */
	struct http_stream *stream;
	struct caller       who;
	struct v1_denial    denied; /* of filter.users */
	bool                live, busy, over;
	bool                unnamed; /* its events have no names */
	bool                counted; /* among the followers of its key */
	int64_t             told_us; /* when it last had an event or a mark */
	char                subject[];
};

static struct list *bucket_of(struct event_hub *h, uint64_t subject_hash)
{
	return &h->buckets[subject_hash & (EVENT_HUB_BUCKETS - 1)];
}

static void stream_queue_locked(struct event_hub *h, struct follower *f)
{
	if (!f->busy && !f->over && list_empty(&f->hungry))
		list_push_back(&h->hungry, &f->hungry);
}

/* ---- sending ---- */

/* How far a stream is that is live: it was read for further than the hub has read, in some shards. */
static struct bytes mark_id(struct event_hub *h, const struct follower *f, char text[EVENT_CURSOR_TEXT_MAX])
{
	struct event_cursor at = h->ring.tail;
	size_t              len = 0;

	event_cursor_advance(&at, &f->after);
	for (uint32_t i = 0; i < at.shards; i++)
		len += (size_t)snprintf(text + len, EVENT_CURSOR_TEXT_MAX - len, "%s%lld", i > 0 ? "-" : "",
		                        (long long)at.after[i]);
	return (struct bytes){text, len};
}

/* An event that does not fit is told of; its reader asks for it by its position. */
static struct bytes data_of(const struct ring_event *e, struct arena *a)
{
	if (e->json.len <= EVENT_STREAM_EVENT_MAX)
		return e->json;
	return arena_printf(a,
	                    "{\"specversion\":\"1.0\",\"type\":\"%.*s\",\"shard\":%u,\"position\":%lld,"
	                    "\"toolarge\":true}",
	                    BYTES_ARG(e->type), e->shard, (long long)e->position);
}

/* The event as text, once for all streams: with its type as its name, or without. Its id is how far the log has been read with it. */
static struct bytes event_text(struct event_hub *h, const struct ring_event *e, struct bytes id, bool unnamed)
{
	struct buf       *text = unnamed ? &h->unnamed : &h->text;
	struct http_event event = {.id = id, .data = data_of(e, &h->arena)};

	if (!unnamed)
		event.type = e->type;
	if (text->len == 0 && !http_event_add(text, &event))
		http_event_add(text, &(struct http_event){.id = id, .data = event.data});
	return buf_bytes(text);
}

static void texts_reset(struct event_hub *h)
{
	buf_reset(&h->text);
	buf_reset(&h->unnamed);
}

static void fall_behind_locked(struct event_hub *h, struct follower *f, const struct event_cursor *before)
{
	event_cursor_advance(&f->after, before);
	f->live = false;
	h->stats.streams_behind++;
}

static void stream_offer_locked(struct event_hub *h, struct follower *f, const struct ring_event *e,
                                const struct event_cursor *before)
{
	bool         ahead; /* its id is another than those of most streams */
	char         id[EVENT_CURSOR_TEXT_MAX];
	struct bytes text;

	if (!f->live || e->position <= f->after.after[e->shard] || !event_passes(&f->filter, &e->traits))
		return;
	ahead = !event_cursor_reaches(&h->ring.tail, &f->after);
	if (ahead)
		texts_reset(h);
	text = event_text(h, e, mark_id(h, f, id), f->unnamed);
	if (http_stream_room(f->stream) < text.len) {
		fall_behind_locked(h, f, before);
	} else {
		http_stream_send(f->stream, text);
		f->told_us = hub_now_us(h);
		h->stats.sent++;
	}
	if (ahead)
		texts_reset(h);
}

static void list_offer_locked(struct event_hub *h, struct list *list, const struct ring_event *e,
                              const struct event_cursor *before)
{
	for (struct list *l = list->next; l != list; l = l->next)
		stream_offer_locked(h, LIST_ENTRY(l, struct follower, link), e, before);
}

void streams_offer_locked(struct event_hub *h, const struct ring_event *e, const struct event_cursor *before)
{
	texts_reset(h);
	list_offer_locked(h, bucket_of(h, e->traits.subject_hash), e, before);
	list_offer_locked(h, &h->streams, e, before);
}

static void list_lose_locked(struct event_hub *h, struct list *list)
{
	for (struct list *l = list->next; l != list; l = l->next) {
		struct follower *f = LIST_ENTRY(l, struct follower, link);

		if (f->live)
			fall_behind_locked(h, f, &h->ring.tail);
		stream_queue_locked(h, f);
	}
}

void streams_lose_locked(struct event_hub *h)
{
	for (unsigned i = 0; i < EVENT_HUB_BUCKETS; i++)
		list_lose_locked(h, &h->buckets[i]);
	list_lose_locked(h, &h->streams);
}

/* ---- those that are behind (2) ---- */

static void follower_free(struct follower *f)
{
	if (f->counted)
		key_use_unfollow(f->who.key->use);
	auth_release(&f->who);
	free(f);
}

/* The texts of a page, one after the other, as far as a stream could have room for them. */
struct page_text {
	struct buf text;
	size_t     ends[REPLAY_EVENTS]; /* of each event */
	uint32_t   count;
};

/* Without the lock: it takes as long as reading the page. */
static void page_encode(struct event_hub *h, const struct follower *f, const struct event_page *page,
                        struct page_text *out)
{
	struct event_cursor next = f->after;

	out->count = 0;
	buf_init(&out->text, &h->arena);
	for (uint32_t i = 0; i < page->count && out->text.len < EVENT_STREAM_BYTES; i++) {
		const struct event_seen *e = &page->list[i];
		struct ring_event  event = {.shard = e->shard, .position = e->position, .type = e->type};
		struct json_writer w;
		struct buf         json;

		next.after[e->shard] = e->position;
		buf_init(&json, &h->arena);
		json_writer_init(&w, &json);
		event_write_json(&w, &e->row);
		event.json = buf_bytes(&json);
		texts_reset(h);
		buf_add_bytes(&out->text,
		              event_text(h, &event, event_cursor_text(&h->arena, &next), f->unnamed));
		out->ends[out->count++] = out->text.len;
	}
}

/* Sends what there is room for, at once. True: all of the page. */
static bool page_send_locked(struct event_hub *h, struct follower *f, const struct event_page *page,
                             const struct page_text *t)
{
	size_t   room = http_stream_room(f->stream);
	uint32_t sent = 0;

	while (sent < t->count && t->ends[sent] <= room)
		sent++;
	for (uint32_t i = 0; i < sent; i++)
		f->after.after[page->list[i].shard] = page->list[i].position;
	if (sent > 0) {
		http_stream_send(f->stream, (struct bytes){t->text.data, t->ends[sent - 1]});
		f->told_us = hub_now_us(h);
		h->stats.sent += sent;
	}
	if (sent < page->count)
		return false;
	f->after = page->next;
	return true;
}

/* What it wants next is no longer there: the stream's last event says so. */
static void refuse_locked(struct event_hub *h, struct follower *f, const struct err *err)
{
	struct buf         json;
	struct json_writer w;

	buf_init(&json, &h->arena);
	json_writer_init(&w, &json);
	json_begin_object(&w);
	json_member_text(&w, BYTES("type"), bytes_of(err_v1_type(err->code)));
	json_member_text(&w, BYTES("title"), bytes_of(err_v1_title(err->code)));
	json_member_i64(&w, BYTES("status"), err_v1_status(err->code));
	json_member_text(&w, BYTES("detail"), bytes_of(err->text));
	json_member_text(&w, BYTES("after"), bytes_of(err->after));
	json_end_object(&w);
	buf_reset(&h->text);
	http_event_add(&h->text, &(struct http_event){.type = BYTES("problem"), .data = buf_bytes(&json)});
	http_stream_send(f->stream, buf_bytes(&h->text));
	http_stream_close(f->stream);
}

/* All that was there is sent: from here on the hub sends, or there is more by now. */
static void catch_up_locked(struct event_hub *h, struct follower *f)
{
	hub_awaken_locked(h, &f->after);
	if (!event_cursor_reaches(&f->after, &h->ring.tail)) {
		stream_queue_locked(h, f);
		return;
	}
	f->live = true;
	h->stats.streams_behind--;
}

/* A page that was read for a stream. */
struct replayed {
	struct event_page page;
	struct page_text  text;
	const struct err *err; /* it could not be read; NULL: it was */
};

static void replay_settle_locked(struct event_hub *h, struct follower *f, const struct replayed *r)
{
	const struct err *err = r->err;

	f->busy = false;
	if (f->over)
		follower_free(f);
	else if (err != NULL && (err->code == ERR_GONE || err->code == ERR_INVALID))
		refuse_locked(h, f, err);
	else if (err != NULL || !page_send_locked(h, f, &r->page, &r->text))
		return; /* until its peer has taken what was sent, or until the next look */
	else if (r->page.more)
		stream_queue_locked(h, f);
	else
		catch_up_locked(h, f);
}

static const struct key_use *use_of(const struct follower *f)
{
	return f->who.key == NULL ? NULL : f->who.key->use;
}

/* The first of another key than the one whose turn was last, so that nobody waits behind all streams of one key. (7) NULL: none is hungry. */
static struct follower *hungry_take_locked(struct event_hub *h)
{
	struct follower *first = NULL, *next = NULL;

	for (struct list *l = h->hungry.next; l != &h->hungry && next == NULL; l = l->next) {
		struct follower *f = LIST_ENTRY(l, struct follower, hungry);

		first = first == NULL ? f : first;
		if (use_of(f) != h->fed)
			next = f;
	}
	next = next == NULL ? first : next;
	if (next == NULL)
		return NULL;
	list_remove(&next->hungry);
	h->fed = use_of(next);
	next->busy = true;
	return next;
}

bool streams_replay_one(struct event_hub *h)
{
	struct event_query q = {.limit = REPLAY_EVENTS, .examined_max = REPLAY_ROWS};
	struct replayed    r = {0};
	struct err         err;
	struct follower   *f;
	struct context     ctx;

	pthread_mutex_lock(&h->lock);
	f = hungry_take_locked(h);
	pthread_mutex_unlock(&h->lock);
	if (f == NULL)
		return false;
	q.after = f->after; /* the hub's thread alone moves it, while the stream is behind */
	q.filter = f->filter;
	ctx = hub_read_begin(h);
	if (events_read(&ctx, &q, &r.page, &err) != ERR_NONE)
		r.err = &err;
	else
		page_encode(h, f, &r.page, &r.text);
	pthread_mutex_lock(&h->lock);
	replay_settle_locked(h, f, &r);
	hub_give_way_locked(h);
	pthread_mutex_unlock(&h->lock);
	hub_read_end(h, &ctx);
	arena_reset(&h->arena);
	return true;
}

/* ---- now and then ---- */

static void stream_look_locked(struct event_hub *h, struct follower *f, const struct credentials *set)
{
	char id[EVENT_CURSOR_TEXT_MAX];

	if (f->who.set != NULL && f->who.set != set) {
		http_stream_close(f->stream);
		return;
	}
	if (!f->live) {
		stream_queue_locked(h, f);
		return;
	}
	if (hub_now_us(h) - f->told_us < (int64_t)EVENT_STREAM_MARK_MS * 1000)
		return;
	buf_reset(&h->text);
	http_event_add(&h->text, &(struct http_event){.id = mark_id(h, f, id)});
	if (http_stream_room(f->stream) >= h->text.len)
		http_stream_send(f->stream, buf_bytes(&h->text));
	f->told_us = hub_now_us(h);
}

static void list_look_locked(struct event_hub *h, struct list *list, const struct credentials *set)
{
	for (struct list *l = list->next; l != list; l = l->next)
		stream_look_locked(h, LIST_ENTRY(l, struct follower, link), set);
}

void streams_look_locked(struct event_hub *h, const struct credentials *set)
{
	for (unsigned i = 0; h->stats.streams > 0 && i < EVENT_HUB_BUCKETS; i++)
		list_look_locked(h, &h->buckets[i], set);
	list_look_locked(h, &h->streams, set);
}

/* ---- from their beginning to their end ---- */

/* On the loop: its peer has taken all. */
static void stream_drained(void *arg)
{
	struct follower  *f = arg;
	struct event_hub *h = f->hub;
	bool              behind;

	hub_lock(h);
	behind = !f->live;
	if (behind)
		stream_queue_locked(h, f);
	pthread_mutex_unlock(&h->lock);
	if (behind)
		hub_look(h);
}

static void stream_ended(void *arg, enum http_end why)
{
	struct follower  *f = arg;
	struct event_hub *h = f->hub;
	bool              busy;

	(void)why;
	hub_lock(h);
	list_remove(&f->link);
	list_remove(&f->hungry);
	h->stats.streams--;
	h->stats.streams_behind -= !f->live;
	f->over = true;
	busy = f->busy; /* then the hub's thread frees it */
	pthread_mutex_unlock(&h->lock);
	if (!busy)
		follower_free(f);
}

static struct follower *follower_make(struct event_hub *h, const struct event_stream_request *q)
{
	struct follower *f = mem_zalloc(sizeof(*f) + q->filter.subject.len);

	f->hub = h;
	f->filter = q->filter;
	if (q->filter.subject.len > 0)
		memcpy(f->subject, q->filter.subject.data, q->filter.subject.len);
	f->filter.subject.data = f->subject;
	if (q->filter.users.hides != NULL) {
		v1_denial_copy(&f->denied, q->filter.users.ctx);
		f->filter.users.ctx = &f->denied;
	}
	f->after = q->after;
	f->unnamed = q->unnamed;
	f->who = q->who;
	f->told_us = hub_now_us(h);
	list_init(&f->hungry);
	return f;
}

/* Its first bytes: how long to wait before coming back, and from where. */
static void stream_greet(struct follower *f)
{
	struct buf   text;
	struct arena arena;

	arena_init(&arena);
	buf_init(&text, &arena);
	http_event_add(&text, &(struct http_event){.id = event_cursor_text(&arena, &f->after),
	                                           .retry_ms = EVENT_STREAM_RETRY_MS});
	http_stream_send(f->stream, buf_bytes(&text));
	arena_release(&arena);
}

/* Behind, at first: the hub's thread finds out whether there is anything to replay. */
static void stream_enter(struct event_hub *h, struct follower *f)
{
	struct bytes subject = f->filter.subject;

	hub_lock(h);
	list_push_back(subject.len > 0 ? bucket_of(h, event_subject_hash(subject)) : &h->streams, &f->link);
	h->stats.streams++;
	h->stats.streams_behind++;
	hub_awaken_locked(h, &f->after);
	stream_queue_locked(h, f);
	pthread_mutex_unlock(&h->lock);
	hub_look(h);
}

bool event_hub_is_full_for(const struct event_hub *h, const struct key_use *use)
{
	return atomic_load(&use->followers) >= h->options.followers_per_key;
}

/* (7) */
static bool has_room(struct event_hub *h, struct follower *f)
{
	if (event_hub_stats(h).streams >= EVENT_FOLLOWERS_MAX)
		return false;
	if (f->who.key == NULL)
		return true;
	f->counted = key_use_follow(f->who.key->use, h->options.followers_per_key);
	return f->counted;
}

bool event_hub_stream(struct event_hub *h, struct http_request *r, const struct event_stream_request *q)
{
	struct follower           *f = follower_make(h, q);
	struct http_stream_options options = {.buffer_bytes_max = EVENT_STREAM_BYTES,
	                                      .heartbeat_ms = EVENT_STREAM_HEARTBEAT_MS,
	                                      .headers = q->headers,
	                                      .header_count = q->header_count,
	                                      .arg = f,
	                                      .ended = stream_ended,
	                                      .drained = stream_drained};
	bool                       opened = has_room(h, f) && http_stream_open(r, &options, &f->stream);

	if (f->stream == NULL) {
		follower_free(f);
		return opened;
	}
	stream_greet(f);
	stream_enter(h, f);
	return true;
}
