/* Event hub: its thread, which reads the end of the log for all who follow it, and when it sleeps. See event_hub.h. */
#include "api/event_hub.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/event_hub_state.h"

enum { TAIL_EVENTS = 1000, GIVE_WAY_MAX = 1000 };

/* ---- awake and asleep (3) ---- */

void event_hub_wake(void *hub)
{
	struct event_hub *h = hub;

	if (!atomic_load(&h->awake)) /* the look that comes with waking up finds what was committed before */
		return;
	atomic_fetch_add(&h->published, 1);
	if (!atomic_exchange(&h->pending, true))
		worker_wake(&h->worker);
}

void hub_look(struct event_hub *h)
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

void hub_awaken_locked(struct event_hub *h, const struct event_cursor *at)
{
	h->awake_until_us = hub_now_us(h) + (int64_t)EVENT_HUB_AWAKE_MS * 1000;
	if (atomic_load(&h->awake))
		return;
	ring_begin_locked(h, at);
	atomic_store(&h->awake, true); /* before the look: what is published from here on wakes */
	hub_look(h);
}

static void fall_asleep(struct event_hub *h)
{
	pthread_mutex_lock(&h->lock);
	if (h->stats.streams == 0 && h->stats.polls == 0 && hub_now_us(h) > h->awake_until_us) {
		atomic_store(&h->awake, false);
		event_ring_release(&h->ring);
	}
	pthread_mutex_unlock(&h->lock);
}

void hub_give_way_locked(struct event_hub *h)
{
	if (atomic_load(&h->waiting) == 0)
		return;
	pthread_mutex_unlock(&h->lock);
	for (unsigned i = 0; i < GIVE_WAY_MAX && atomic_load(&h->waiting) > 0; i++)
		sched_yield();
	pthread_mutex_lock(&h->lock);
}

/* ---- the end of the log ---- */

static void tail_add_locked(struct event_hub *h, const struct event_seen *seen)
{
	struct event_cursor      before = h->ring.tail;
	const struct ring_event *e = event_ring_add(&h->ring, seen);

	h->stats.events++;
	polls_offer_locked(h, e, &before);
	streams_offer_locked(h, e, &before);
}

struct context hub_read_begin(struct event_hub *h)
{
	struct store  *store = h->options.store;
	struct context ctx = {
	        .services = h->options.services, .arena = &h->arena, .caller = BYTES("gatehouse")};

	ctx_begin(&ctx, store->backend->read_begin(store, &h->arena));
	return ctx;
}

void hub_read_end(struct event_hub *h, struct context *ctx)
{
	h->options.store->backend->read_end(h->options.store, ctx->table);
}

/* What comes next is not there: everyone reads for himself and is told. (1) */
static void tail_lost(struct event_hub *h, struct context *ctx)
{
	struct event_bounds bounds;
	struct event_cursor last;
	struct err          err;

	if (events_bounds(ctx, &bounds, &err) != ERR_NONE)
		return;
	event_cursor_last(&bounds, &last);
	pthread_mutex_lock(&h->lock);
	polls_lose_locked(h);
	streams_lose_locked(h);
	ring_begin_locked(h, &last);
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
	ctx = hub_read_begin(h);
	rc = events_read(&ctx, &q, &page, &err);
	if (rc == ERR_GONE || rc == ERR_INVALID)
		tail_lost(h, &ctx);
	pthread_mutex_lock(&h->lock);
	for (uint32_t i = 0; rc == ERR_NONE && i < page.count && generation == h->generation; i++) {
		tail_add_locked(h, &page.list[i]);
		hub_give_way_locked(h);
	}
	if (rc == ERR_NONE && generation == h->generation && !page.more)
		h->fresh = published;
	pthread_mutex_unlock(&h->lock);
	hub_read_end(h, &ctx);
	arena_reset(&h->arena);
	return rc == ERR_NONE && page.more && page.count > 0;
}

/* ---- now and then ---- */

static void look_at_all(struct event_hub *h)
{
	const struct credentials *set =
	        h->options.keyring != NULL ? keyring_acquire(h->options.keyring) : NULL;

	pthread_mutex_lock(&h->lock);
	polls_look_locked(h, set);
	streams_look_locked(h, set);
	pthread_mutex_unlock(&h->lock);
	if (set != NULL)
		credentials_release(set);
}

/* How far consumers are behind, for the metrics. */
static void lags_look(struct event_hub *h)
{
	struct context        ctx = hub_read_begin(h);
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
	hub_read_end(h, &ctx);
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

	hub_lock(h);
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
	int64_t           now = hub_now_us(h), early_us = h->round_us + EVENT_HUB_PACE_US - now;
	bool              more;

	if (early_us > 0 && early_us <= EVENT_HUB_PACE_US) /* what is published meanwhile is read at once */
		usleep((useconds_t)early_us);
	h->round_us = hub_now_us(h);
	atomic_store(&h->pending, false);
	if (now - h->looked_us >= (int64_t)EVENT_HUB_PERIOD_MS * 1000) {
		h->looked_us = now;
		fall_asleep(h);
		look_at_all(h);
	}
	if (now - h->lag_us >= h->lag_wait_us) {
		h->lag_us = now;
		lags_look(h);
		h->lag_wait_us = worker_rest_us(h->lag_wait_us, (int64_t)EVENT_HUB_LAG_MS * 1000,
		                                store_rest_us(h->options.store, EVENT_HUB_LAG_REST_S),
		                                h->lag_count > 0);
	}
	if (!atomic_load(&h->awake))
		return;
	do {
		more = tail_read(h);
		more = streams_replay_one(h) || more;
	} while (more && worker_goes_on(worker));
}

/* ---- life ---- */

enum err_code event_hub_open(struct event_hub **out, const struct event_hub_options *options, struct err *err)
{
	struct event_hub *h = mem_zalloc(sizeof(*h));

	h->options = *options;
	if (h->options.followers_per_key == 0)
		h->options.followers_per_key = EVENT_FOLLOWERS_PER_KEY;
	h->lag_wait_us = (int64_t)EVENT_HUB_LAG_MS * 1000;
	arena_init(&h->arena);
	arena_init(&h->lag_arena);
	buf_init(&h->text, NULL);
	buf_init(&h->unnamed, NULL);
	pthread_mutex_init(&h->lock, NULL);
	for (unsigned i = 0; i < EVENT_HUB_BUCKETS; i++)
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
	buf_release(&h->unnamed);
	arena_release(&h->arena);
	arena_release(&h->lag_arena);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

struct event_hub_stats event_hub_stats(struct event_hub *h)
{
	struct event_hub_stats out;

	hub_lock(h);
	out = h->stats;
	out.awake = atomic_load(&h->awake);
	pthread_mutex_unlock(&h->lock);
	return out;
}
