/* Event hub: see event_hub.h. */
#include "api/event_hub.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/event_ring.h"
#include "base/list.h"
#include "base/log.h"
#include "base/worker.h"

enum {
	BUCKETS = 4096, /* followers of one subject, by its hash; a power of two */
	TAIL_EVENTS = 1000,
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
	bool                live, busy, over;
	int64_t             told_us; /* when it last had an event or a mark */
	char                subject[];
};

struct event_hub {
	/* set once */
	struct event_hub_options options;
	struct worker            worker;

	/* any thread */
	_Atomic uint64_t published;
	atomic_bool      awake, pending;

	/* the hub's thread */
	struct arena arena;
	struct buf   text; /* of the event that is being sent */
	int64_t      looked_us, lag_us, round_us;

	/* under lock */
	pthread_mutex_t        lock;
	struct event_ring      ring;
	uint64_t               generation; /* of the ring: a new one begins at another place */
	uint64_t               fresh;      /* the ring has all that was published when it was so much */
	uint64_t               erasures;   /* when the ring was last emptied for one (6) */
	int64_t                awake_until_us;
	struct list            buckets[BUCKETS]; /* streams of one subject */
	struct list            streams;          /* the others */
	struct list            polls, hungry;
	struct event_hub_stats stats;
	struct arena           lag_arena;
	struct event_hub_lag  *lags;
	uint32_t               lag_count;
};

/* ---- awake and asleep (3) ---- */

static int64_t now_us(const struct event_hub *h)
{
	return clock_steady_us(h->options.clock);
}

void event_hub_wake(void *hub)
{
	struct event_hub *h = hub;

	atomic_fetch_add(&h->published, 1);
	if (atomic_load(&h->awake) && !atomic_exchange(&h->pending, true))
		worker_wake(&h->worker);
}

static void look(struct event_hub *h)
{
	if (!atomic_exchange(&h->pending, true))
		worker_wake(&h->worker);
}

static void ring_begin_locked(struct event_hub *h, const struct event_cursor *at)
{
	event_ring_reset(&h->ring, at);
	h->generation++;
	h->fresh = UINT64_MAX;
}

/* Somebody who has read up to there wants to follow. */
static void awaken_locked(struct event_hub *h, const struct event_cursor *at)
{
	h->awake_until_us = now_us(h) + (int64_t)EVENT_HUB_AWAKE_MS * 1000;
	if (atomic_load(&h->awake))
		return;
	ring_begin_locked(h, at);
	atomic_store(&h->awake, true); /* before the look: what is published from here on wakes */
	look(h);
}

static void fall_asleep(struct event_hub *h)
{
	pthread_mutex_lock(&h->lock);
	if (h->stats.streams == 0 && h->stats.polls == 0 && now_us(h) > h->awake_until_us) {
		atomic_store(&h->awake, false);
		event_ring_release(&h->ring);
	}
	pthread_mutex_unlock(&h->lock);
}

/* ---- streams: sending ---- */

static struct bytes mark_id(struct event_hub *h, char text[EVENT_CURSOR_TEXT_MAX])
{
	const struct event_cursor *tail = &h->ring.tail;
	size_t                     len = 0;

	for (uint32_t i = 0; i < tail->shards; i++)
		len += (size_t)snprintf(text + len, EVENT_CURSOR_TEXT_MAX - len, "%s%lld", i > 0 ? "-" : "",
		                        (long long)tail->after[i]);
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

/* The event as text, once for all streams. Its id is how far the log has been read with it. */
static struct bytes event_text(struct event_hub *h, const struct ring_event *e, struct bytes id)
{
	struct http_event event = {.id = id, .type = e->type, .data = data_of(e, &h->arena)};

	if (h->text.len == 0 && !http_event_add(&h->text, &event))
		http_event_add(&h->text, &(struct http_event){.id = id, .data = event.data});
	return buf_bytes(&h->text);
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
	char         id[EVENT_CURSOR_TEXT_MAX];
	struct bytes text;

	if (!f->live || e->position <= f->after.after[e->shard] || !event_passes(&f->filter, &e->traits))
		return;
	text = event_text(h, e, mark_id(h, id));
	if (http_stream_room(f->stream) < text.len) {
		fall_behind_locked(h, f, before);
		return;
	}
	http_stream_send(f->stream, text);
	f->told_us = now_us(h);
	h->stats.sent++;
}

/* ---- the end of the log ---- */

static void polls_offer_locked(struct event_hub *h, const struct ring_event *e,
                               const struct event_cursor *before)
{
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		if (w->settled || e->position <= w->after.after[e->shard] ||
		    !event_passes(&w->filter, &e->traits))
			continue;
		event_cursor_advance(&w->after, before);
		w->settled = true;
		http_wake(w->request);
	}
}

static struct list *bucket_of(struct event_hub *h, uint64_t subject_hash)
{
	return &h->buckets[subject_hash & (BUCKETS - 1)];
}

static void streams_offer_locked(struct event_hub *h, struct list *list, const struct ring_event *e,
                                 const struct event_cursor *before)
{
	for (struct list *l = list->next; l != list; l = l->next)
		stream_offer_locked(h, LIST_ENTRY(l, struct follower, link), e, before);
}

/* (6) It goes on from here. Streams have been sent what was in it, and others read the table. */
static void ring_forget_locked(struct event_hub *h)
{
	struct event_cursor tail = h->ring.tail;

	event_ring_reset(&h->ring, &tail);
}

static void tail_add_locked(struct event_hub *h, const struct event_seen *seen)
{
	struct event_cursor      before = h->ring.tail;
	const struct ring_event *e;

	e = event_ring_add(&h->ring, seen);
	buf_reset(&h->text);
	h->stats.events++;
	polls_offer_locked(h, e, &before);
	streams_offer_locked(h, bucket_of(h, e->traits.subject_hash), e, &before);
	streams_offer_locked(h, &h->streams, e, &before);
}

static void stream_queue_locked(struct event_hub *h, struct follower *f)
{
	if (!f->busy && !f->over && list_empty(&f->hungry))
		list_push_back(&h->hungry, &f->hungry);
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

/* What comes next is not there: everyone reads for himself and is told. (1) */
static void tail_lose_locked(struct event_hub *h, const struct event_cursor *last)
{
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		w->settled = true;
		http_wake(w->request);
	}
	for (unsigned i = 0; i < BUCKETS; i++)
		list_lose_locked(h, &h->buckets[i]);
	list_lose_locked(h, &h->streams);
	ring_begin_locked(h, last);
}

static struct context read_begin(struct event_hub *h)
{
	struct store  *store = h->options.store;
	struct context ctx = {
	        .services = h->options.services, .arena = &h->arena, .caller = BYTES("gatehouse")};

	ctx_begin(&ctx, store->backend->read_begin(store, &h->arena));
	return ctx;
}

static void read_end(struct event_hub *h, struct context *ctx)
{
	h->options.store->backend->read_end(h->options.store, ctx->table);
}

static void tail_lost(struct event_hub *h, struct context *ctx)
{
	struct event_bounds bounds;
	struct event_cursor last;
	struct err          err;

	if (events_bounds(ctx, &bounds, &err) != ERR_NONE)
		return;
	event_cursor_last(&bounds, &last);
	pthread_mutex_lock(&h->lock);
	tail_lose_locked(h, &last);
	pthread_mutex_unlock(&h->lock);
}

/* One page of what is new. True: there is more. */
static bool tail_read(struct event_hub *h)
{
	struct event_query q = {.filter = {.types = EVENTS_ALL_TYPES}, .limit = TAIL_EVENTS};
	uint64_t           published = atomic_load(&h->published), generation;
	struct event_page  page = {0};
	struct context     ctx;
	enum err_code      rc;
	struct err         err;

	pthread_mutex_lock(&h->lock);
	q.after = h->ring.tail;
	generation = h->generation;
	h->stats.reads++;
	pthread_mutex_unlock(&h->lock);
	ctx = read_begin(h);
	rc = events_read(&ctx, &q, &page, &err);
	if (rc == ERR_GONE || rc == ERR_INVALID)
		tail_lost(h, &ctx);
	pthread_mutex_lock(&h->lock);
	if (rc == ERR_NONE && generation == h->generation) {
		for (uint32_t i = 0; i < page.count; i++)
			tail_add_locked(h, &page.list[i]);
		if (!page.more)
			h->fresh = published;
	}
	pthread_mutex_unlock(&h->lock);
	read_end(h, &ctx);
	arena_reset(&h->arena);
	return rc == ERR_NONE && page.more && page.count > 0;
}

/* ---- streams that are behind (2) ---- */

static void follower_free(struct follower *f)
{
	auth_release(&f->who);
	free(f);
}

/* Sends what there is room for. True: all of the page. */
static bool page_send_locked(struct event_hub *h, struct follower *f, const struct event_page *page)
{
	for (uint32_t i = 0; i < page->count; i++) {
		const struct event_seen *e = &page->list[i];
		struct ring_event   event = {.shard = e->shard, .position = e->position, .type = e->type};
		struct event_cursor next = f->after;
		struct json_writer  w;
		struct buf          json;

		next.after[e->shard] = e->position;
		buf_init(&json, &h->arena);
		json_writer_init(&w, &json);
		event_write_json(&w, &e->row);
		event.json = buf_bytes(&json);
		buf_reset(&h->text);
		event_text(h, &event, event_cursor_text(&h->arena, &next));
		if (http_stream_room(f->stream) < h->text.len)
			return false;
		http_stream_send(f->stream, buf_bytes(&h->text));
		f->after = next;
		f->told_us = now_us(h);
		h->stats.sent++;
	}
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
	awaken_locked(h, &f->after);
	if (!event_cursor_reaches(&f->after, &h->ring.tail)) {
		stream_queue_locked(h, f);
		return;
	}
	f->live = true;
	h->stats.streams_behind--;
}

/* err: of a page that could not be read; NULL: it was. */
static void replay_settle_locked(struct event_hub *h, struct follower *f, const struct event_page *page,
                                 const struct err *err)
{
	f->busy = false;
	if (f->over)
		follower_free(f);
	else if (err != NULL && (err->code == ERR_GONE || err->code == ERR_INVALID))
		refuse_locked(h, f, err);
	else if (err != NULL || !page_send_locked(h, f, page))
		return; /* until its peer has taken what was sent, or until the next look */
	else if (page->more)
		stream_queue_locked(h, f);
	else
		catch_up_locked(h, f);
}

/* A page for one of those that are behind. False: there is none. */
static bool replay_one(struct event_hub *h)
{
	struct event_query q = {.limit = REPLAY_EVENTS, .examined_max = REPLAY_ROWS};
	struct event_page  page = {0};
	struct err         err;
	enum err_code      rc;
	struct follower   *f = NULL;
	struct list       *node;
	struct context     ctx;

	pthread_mutex_lock(&h->lock);
	node = list_pop_front(&h->hungry);
	if (node != NULL) {
		f = LIST_ENTRY(node, struct follower, hungry);
		f->busy = true;
		q.after = f->after;
		q.filter = f->filter;
	}
	pthread_mutex_unlock(&h->lock);
	if (f == NULL)
		return false;
	ctx = read_begin(h);
	rc = events_read(&ctx, &q, &page, &err);
	pthread_mutex_lock(&h->lock);
	replay_settle_locked(h, f, &page, rc == ERR_NONE ? NULL : &err);
	pthread_mutex_unlock(&h->lock);
	read_end(h, &ctx);
	arena_reset(&h->arena);
	return true;
}

/* ---- now and then: keys (5), marks, and streams whose page could not be read ---- */

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
	if (now_us(h) - f->told_us < (int64_t)EVENT_STREAM_MARK_MS * 1000)
		return;
	buf_reset(&h->text);
	http_event_add(&h->text, &(struct http_event){.id = mark_id(h, id)});
	if (event_cursor_reaches(&h->ring.tail, &f->after) && http_stream_room(f->stream) >= h->text.len)
		http_stream_send(f->stream, buf_bytes(&h->text));
	f->told_us = now_us(h);
}

static void streams_look_locked(struct event_hub *h, struct list *list, const struct credentials *set)
{
	for (struct list *l = list->next; l != list; l = l->next)
		stream_look_locked(h, LIST_ENTRY(l, struct follower, link), set);
}

static void look_at_all(struct event_hub *h)
{
	const struct credentials *set =
	        h->options.keyring != NULL ? keyring_acquire(h->options.keyring) : NULL;

	pthread_mutex_lock(&h->lock);
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		if (w->set != set)
			http_wake(w->request);
	}
	for (unsigned i = 0; h->stats.streams > 0 && i < BUCKETS; i++)
		streams_look_locked(h, &h->buckets[i], set);
	streams_look_locked(h, &h->streams, set);
	pthread_mutex_unlock(&h->lock);
	if (set != NULL)
		credentials_release(set);
}

/* How far consumers are behind, for the metrics. */
static void lags_look(struct event_hub *h)
{
	struct context        ctx = read_begin(h);
	struct consumers      all = {0};
	struct arena          arena, old;
	struct event_hub_lag *list;
	struct err            err;
	uint32_t              count = 0;

	if (consumers_all(&ctx, &all, &err) != ERR_NONE)
		all.count = 0;
	arena_init(&arena);
	list = arena_array(&arena, all.count, sizeof(*list));
	for (uint32_t i = 0; i < all.count; i++) {
		list[count] = (struct event_hub_lag){.name = arena_copy(&arena, all.list[i].name),
		                                     .members = all.list[i].member_count};
		count += consumer_lag(&ctx, &all.list[i], &list[count].lag, &err) == ERR_NONE;
	}
	read_end(h, &ctx);
	arena_reset(&h->arena);
	pthread_mutex_lock(&h->lock);
	old = h->lag_arena;
	h->lag_arena = arena;
	h->lags = list;
	h->lag_count = count;
	pthread_mutex_unlock(&h->lock);
	arena_release(&old);
}

uint32_t event_hub_lags(struct event_hub *h, struct arena *a, struct event_hub_lag **out)
{
	uint32_t count;

	pthread_mutex_lock(&h->lock);
	count = h->lag_count;
	*out = arena_array(a, count, sizeof(**out));
	for (uint32_t i = 0; i < count; i++) {
		(*out)[i] = h->lags[i];
		(*out)[i].name = arena_copy(a, h->lags[i].name);
	}
	pthread_mutex_unlock(&h->lock);
	return count;
}

static void hub_round(struct worker *worker, void *ctx)
{
	struct event_hub *h = ctx;
	int64_t           now = now_us(h), early_us = h->round_us + EVENT_HUB_PACE_US - now;
	bool              more;

	if (early_us > 0 && early_us <= EVENT_HUB_PACE_US) /* what is published meanwhile is read at once */
		usleep((useconds_t)early_us);
	h->round_us = now_us(h);
	atomic_store(&h->pending, false);
	if (now - h->looked_us >= (int64_t)EVENT_HUB_PERIOD_MS * 1000) {
		h->looked_us = now;
		fall_asleep(h);
		look_at_all(h);
	}
	if (now - h->lag_us >= (int64_t)EVENT_HUB_LAG_MS * 1000) {
		h->lag_us = now;
		lags_look(h);
	}
	if (!atomic_load(&h->awake))
		return;
	do {
		more = tail_read(h);
		more = replay_one(h) || more;
	} while (more && worker_goes_on(worker));
}

/* ---- pages ---- */

static bool ring_read_locked(struct event_hub *h, struct arena *a, const struct event_query *q,
                             struct event_texts *out)
{
	const struct event_ring *r = &h->ring;
	uint32_t                 i = event_ring_find(r, &q->after);

	out->list = arena_array(a, q->limit, sizeof(*out->list));
	for (; i < r->count && out->count < q->limit; i++) {
		const struct ring_event *e = event_ring_at(r, i);

		if (e->position <= out->next.after[e->shard])
			continue;
		out->next.after[e->shard] = e->position;
		if (event_passes(&q->filter, &e->traits))
			out->list[out->count++] = (struct event_text){
			        e->shard, e->position, e->traits.subject_hash, arena_copy(a, e->json)};
	}
	out->more = i < r->count || h->fresh != atomic_load(&h->published);
	return out->count > 0 || !out->more;
}

/* False: the table must be asked. */
static bool ring_read(struct event_hub *h, struct context *ctx, const struct event_query *q,
                      struct event_texts *out)
{
	uint64_t erasures = atomic_load(&h->options.services->events.erasures);
	bool     read = false;

	if (h->options.store->backend->reads_wait) /* (6) */
		return false;
	pthread_mutex_lock(&h->lock);
	if (erasures != h->erasures)
		ring_forget_locked(h);
	h->erasures = erasures;
	if (atomic_load(&h->awake) && event_ring_covers(&h->ring, &q->after)) {
		h->awake_until_us = now_us(h) + (int64_t)EVENT_HUB_AWAKE_MS * 1000;
		read = ring_read_locked(h, ctx->arena, q, out);
	}
	if (read)
		h->stats.ring_hits++;
	else
		h->stats.ring_misses++;
	pthread_mutex_unlock(&h->lock);
	return read;
}

static struct event_text text_of(struct arena *a, const struct event_seen *e)
{
	struct json_writer w;
	struct buf         json;

	buf_init(&json, a);
	json_writer_init(&w, &json);
	event_write_json(&w, &e->row);
	return (struct event_text){e->shard, e->position, event_subject_hash(e->subject), buf_bytes(&json)};
}

enum err_code event_hub_read(struct event_hub *h, struct context *ctx, const struct event_query *q,
                             struct event_texts *out, struct err *err)
{
	struct event_page page;

	*out = (struct event_texts){.next = q->after};
	if (h != NULL && ring_read(h, ctx, q, out))
		return ERR_NONE;
	if (events_read(ctx, q, &page, err) != ERR_NONE)
		return err->code;
	*out = (struct event_texts){.next = page.next, .more = page.more, .count = page.count};
	out->list = arena_array(ctx->arena, q->limit, sizeof(*out->list));
	for (uint32_t i = 0; i < page.count; i++)
		out->list[i] = text_of(ctx->arena, &page.list[i]);
	return ERR_NONE;
}

/* ---- requests that wait ---- */

/* Is there something for it in the ring already, or nobody knows? */
static bool is_due_locked(struct event_hub *h, const struct event_wait *w)
{
	const struct event_ring *r = &h->ring;

	if (event_cursor_reaches(&w->after, &r->tail))
		return false;
	if (!event_ring_covers(r, &w->after))
		return true;
	for (uint32_t i = event_ring_find(r, &w->after); i < r->count; i++) {
		const struct ring_event *e = event_ring_at(r, i);

		if (e->position > w->after.after[e->shard] && event_passes(&w->filter, &e->traits))
			return true;
	}
	return false;
}

bool event_hub_wait(struct event_hub *h, struct event_wait *w, struct http_request *r, int64_t deadline_us,
                    void (*fn)(struct http_request *r, enum http_end why))
{
	if (!http_park(r, deadline_us, fn))
		return false;
	pthread_mutex_lock(&h->lock);
	w->request = r;
	list_push_back(&h->polls, &w->link);
	h->stats.polls++;
	awaken_locked(h, &w->after);
	w->settled = is_due_locked(h, w);
	if (w->settled)
		http_wake(r);
	pthread_mutex_unlock(&h->lock);
	return true;
}

bool event_hub_waited(struct event_hub *h, struct event_wait *w)
{
	const struct credentials *set =
	        h->options.keyring != NULL ? keyring_acquire(h->options.keyring) : NULL;
	bool same = w->set == set;

	pthread_mutex_lock(&h->lock);
	list_remove(&w->link);
	h->stats.polls--;
	if (!w->settled) /* nothing came by that would have passed */
		event_cursor_advance(&w->after, &h->ring.tail);
	pthread_mutex_unlock(&h->lock);
	if (set != NULL)
		credentials_release(set);
	return same;
}

void event_hub_touch(struct event_hub *h, uint64_t group)
{
	pthread_mutex_lock(&h->lock);
	for (struct list *l = h->polls.next; l != &h->polls; l = l->next) {
		struct event_wait *w = LIST_ENTRY(l, struct event_wait, link);

		if (w->group == group)
			http_wake(w->request);
	}
	pthread_mutex_unlock(&h->lock);
}

/* ---- streams: from their beginning to their end ---- */

/* On the loop: its peer has taken all. */
static void stream_drained(void *arg)
{
	struct follower  *f = arg;
	struct event_hub *h = f->hub;
	bool              behind;

	pthread_mutex_lock(&h->lock);
	behind = !f->live;
	if (behind)
		stream_queue_locked(h, f);
	pthread_mutex_unlock(&h->lock);
	if (behind)
		look(h);
}

static void stream_ended(void *arg, enum http_end why)
{
	struct follower  *f = arg;
	struct event_hub *h = f->hub;
	bool              busy;

	(void)why;
	pthread_mutex_lock(&h->lock);
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
	f->after = q->after;
	f->who = q->who;
	f->told_us = now_us(h);
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

	pthread_mutex_lock(&h->lock);
	list_push_back(subject.len > 0 ? bucket_of(h, event_subject_hash(subject)) : &h->streams, &f->link);
	h->stats.streams++;
	h->stats.streams_behind++;
	awaken_locked(h, &f->after);
	stream_queue_locked(h, f);
	pthread_mutex_unlock(&h->lock);
	look(h);
}

static bool has_room(struct event_hub *h)
{
	return event_hub_stats(h).streams < EVENT_FOLLOWERS_MAX;
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
	bool                       opened = has_room(h) && http_stream_open(r, &options, &f->stream);

	if (f->stream == NULL) {
		follower_free(f);
		return opened;
	}
	stream_greet(f);
	stream_enter(h, f);
	return true;
}

/* ---- life ---- */

enum err_code event_hub_open(struct event_hub **out, const struct event_hub_options *options, struct err *err)
{
	struct event_hub *h = mem_zalloc(sizeof(*h));

	h->options = *options;
	arena_init(&h->arena);
	arena_init(&h->lag_arena);
	buf_init(&h->text, NULL);
	pthread_mutex_init(&h->lock, NULL);
	for (unsigned i = 0; i < BUCKETS; i++)
		list_init(&h->buckets[i]);
	list_init(&h->streams);
	list_init(&h->polls);
	list_init(&h->hungry);
	worker_init(&h->worker, &(struct worker_options){.name = "event-hub",
	                                                 .round = hub_round,
	                                                 .ctx = h,
	                                                 .period_us = (int64_t)EVENT_HUB_PERIOD_MS * 1000});
	options->services->event_post = (struct event_post){event_hub_wake, h};
	*out = h;
	return worker_start(&h->worker, err);
}

void event_hub_close(struct event_hub *h)
{
	if (h == NULL)
		return;
	h->options.services->event_post = (struct event_post){NULL, NULL};
	worker_join(&h->worker);
	worker_release(&h->worker);
	assert(h->stats.streams == 0 && h->stats.polls == 0);
	event_ring_release(&h->ring);
	buf_release(&h->text);
	arena_release(&h->arena);
	arena_release(&h->lag_arena);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

struct event_hub_stats event_hub_stats(struct event_hub *h)
{
	struct event_hub_stats out;

	pthread_mutex_lock(&h->lock);
	out = h->stats;
	pthread_mutex_unlock(&h->lock);
	return out;
}
