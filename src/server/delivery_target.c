/* Delivery to one target: see delivery_target.h. */
#define _GNU_SOURCE
#include "server/delivery_target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "server/delivery_state.h"
#include "server/own_call.h"

/* ---- reading the log ---- */

struct page {
	struct own_call      own;
	struct event_page    events;
	struct window_event *list;
	uint64_t             erasures; /* before it was read; so is the next one */
	int64_t              read_us;
};

static void page_encode(struct page *p)
{
	p->list = arena_array(&p->own.arena, p->events.count, sizeof(*p->list));
	for (uint32_t i = 0; i < p->events.count; i++) {
		const struct event_seen *e = &p->events.list[i];

		p->list[i] = (struct window_event){.shard = e->shard,
		                                   .position = e->position,
		                                   .key = delivery_key(&p->own.ctx, e->subject),
		                                   .id = e->id,
		                                   .type = e->type,
		                                   .subject = e->subject,
		                                   .time = e->time,
		                                   .json = delivery_json(&p->own.arena, &e->row),
		                                   .trace = row_text(&e->row, "correlationid"),
		                                   .erasures = p->erasures,
		                                   .read_us = p->read_us};
	}
}

/* Events were trimmed before they were sent, or the log is shorter than we know: nothing of that comes back, so it is said loudly. */
static void read_on(struct delivery_target *t, struct page *p, const struct err *why)
{
	struct event_cursor next, before = t->window.read;
	struct event_bounds bounds;
	struct err          err;
	struct sender_event said = {0};
	int64_t             skipped;

	if (events_bounds(&p->own.ctx, &bounds, &err) != ERR_NONE)
		return;
	if (why->code == ERR_GONE) {
		event_cursor_first(&bounds, &next);
		event_cursor_advance(&next, &before);
	} else {
		event_cursor_last(&bounds, &next);
		event_cursor_hold_back(&next, &before); /* shards that are as long as we know go on */
	}
	skipped = event_cursor_distance(&before, &next);
	snprintf(said.error, sizeof(said.error),
	         why->code == ERR_GONE
	                 ? "%" PRIi64 " events were trimmed before they were delivered"
	                 : "the log is shorter than what was delivered of it; going on at its end",
	         skipped);
	log_error("target %s: %s", t->name, said.error);
	pthread_mutex_lock(&t->lock);
	window_read(&t->window, &next);
	t->skipped += (uint64_t)skipped;
	t->reading.skipped += (uint64_t)skipped;
	delivery_error_keep(t, &said, store_us(t));
	pthread_mutex_unlock(&t->lock);
}

static void page_add(struct delivery_target *t, const struct page *p)
{
	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < p->events.count; i++)
		window_add(&t->window, &p->list[i]);
	window_read(&t->window, &p->events.next);
	if (p->events.count > 0)
		pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
}

/* One page, if there is room. `read` of the window is only changed here. */
static void page_read(struct delivery_target *t, uint32_t room)
{
	struct page        p;
	struct event_query q = {.after = t->window.read,
	                        .filter = {.types = t->target.types},
	                        .limit = room < DELIVERY_PAGE ? room : DELIVERY_PAGE};
	struct err         err;
	enum err_code      rc;

	pthread_mutex_lock(&t->lock);
	t->woken = false; /* whatever is committed by now is found */
	pthread_mutex_unlock(&t->lock);
	p.erasures = atomic_load(&t->options.services->events.erasures);
	p.read_us = steady_us();
	own_call_init(&p.own, t->options.services, t->options.store);
	own_call_read(&p.own);
	rc = events_read(&p.own.ctx, &q, &p.events, &err);
	t->more = rc == ERR_GONE || rc == ERR_INVALID || (rc == ERR_NONE && p.events.more);
	if (rc == ERR_NONE) {
		page_encode(&p);
		page_add(t, &p);
	} else if (rc == ERR_GONE || rc == ERR_INVALID) {
		read_on(t, &p, &err);
	}
	own_call_read_end(&p.own);
	own_call_release(&p.own);
	t->read_us = steady_us();
}

/* Waits for half a page of room, so that pages do not become crumbs. */
static void fill(struct delivery_target *t)
{
	uint32_t room;
	bool     idle, woken;

	pthread_mutex_lock(&t->lock);
	room = window_room(&t->window);
	idle = t->window.first == t->window.end;
	woken = t->woken;
	pthread_mutex_unlock(&t->lock);
	if (room == 0 || (room < DELIVERY_PAGE / 2 && !idle))
		return;
	if (t->more || (woken && steady_us() - t->read_us >= DELIVERY_READ_GAP_MS * INT64_C(1000)) ||
	    steady_us() - t->read_us >= DELIVERY_LOOK_MS * INT64_C(1000))
		page_read(t, room);
}

/* ---- how it fares ---- */

/* Under lock: when the oldest event in the window happened; 0: it has none. Shards come one after the other, so that is not always the first. */
static int64_t oldest_us(const struct window *w)
{
	int64_t oldest = 0;

	for (uint64_t i = w->first; i < w->end; i++) {
		int64_t us = event_time_us(w->slots[i % WINDOW_SLOTS]->event.time);

		oldest = oldest == 0 || us < oldest ? us : oldest;
	}
	return oldest;
}

static void lag_read(struct delivery_target *t)
{
	struct event_cursor last, after;
	struct event_bounds bounds;
	struct own_call     c;
	struct err          err;
	int64_t             since_us, now_us = store_us(t);
	enum err_code       rc;

	pthread_mutex_lock(&t->lock);
	after = t->window.after;
	since_us = oldest_us(&t->window);
	pthread_mutex_unlock(&t->lock);
	own_call_init(&c, t->options.services, t->options.store);
	own_call_read(&c);
	rc = events_bounds(&c.ctx, &bounds, &err);
	own_call_read_end(&c);
	own_call_release(&c);
	if (rc != ERR_NONE)
		return;
	event_cursor_last(&bounds, &last);
	pthread_mutex_lock(&t->lock);
	t->reading.lag_events = event_cursor_distance(&after, &last);
	t->reading.lag_s = since_us > 0 && since_us < now_us ? (now_us - since_us) / SECOND_US : 0;
	t->reading.state = !t->target.enabled     ? TARGET_DISABLED
	                   : t->window.pauses > 0 ? TARGET_FAILING
	                                          : TARGET_WELL;
	pthread_mutex_unlock(&t->lock);
	t->lag_us = steady_us();
}

static bool sends(const struct delivery_target *t)
{
	return t->loaded && t->target.enabled;
}

/* What its row says: people take dead letters away, and of a target that does not send nobody else says how far it is. */
static void row_show(struct delivery_target *t)
{
	struct own_call  c;
	struct target    now;
	struct event_lag lag = {0};
	struct err       err;
	bool             good, still = !sends(t);

	own_call_init(&c, t->options.services, t->options.store);
	own_call_read(&c);
	good = target_get(&c.ctx, bytes_of(t->name), &now, &err) == ERR_NONE &&
	       (!still || events_lag(&c.ctx, &now.after, now.types, &lag, &err) == ERR_NONE);
	own_call_read_end(&c);
	pthread_mutex_lock(&t->lock);
	if (good) {
		t->reading.waiting = now.waiting;
		t->reading.dead = now.dead;
	}
	if (good && still) {
		t->reading.lag_events = lag.events;
		t->reading.lag_s = lag.seconds;
	}
	pthread_mutex_unlock(&t->lock);
	own_call_release(&c);
	t->shown_us = steady_us();
}

/* ---- the reader ---- */

/* Did somebody change the row? A target that is gone is not loaded any more. */
static bool row_changed(struct delivery_target *t)
{
	struct own_call c;
	struct target   now;
	struct err      err;
	enum err_code   rc;
	bool            changed;

	own_call_init(&c, t->options.services, t->options.store);
	own_call_read(&c);
	rc = target_get(&c.ctx, bytes_of(t->name), &now, &err);
	changed = rc == ERR_NOT_FOUND ||
	          (rc == ERR_NONE &&
	           (!t->loaded || !bytes_equal(now.id, t->target.id) || now.version != t->target.version));
	own_call_read_end(&c);
	own_call_release(&c);
	return changed;
}

/* Once the old secret is not good any more, messages are signed with the new one alone. */
static bool secret_expired(const struct delivery_target *t)
{
	return t->two_secrets && store_us(t) / SECOND_US >= t->target.previous_until_s;
}

static void reload_if_due(struct delivery_target *t)
{
	bool changed;

	pthread_mutex_lock(&t->lock);
	changed = t->changed;
	t->changed = false;
	pthread_mutex_unlock(&t->lock);
	if (t->loaded && !t->reload && secret_expired(t))
		t->reload = true;
	if (changed && !t->reload && row_changed(t))
		t->reload = true;
	if (t->reload && t->loaded && t->window_made)
		delivery_target_write(t); /* what is known is not sent again, also of one that was disabled */
	if (t->reload || (!t->loaded && steady_us() - t->load_us >= DELIVERY_LOOK_MS * INT64_C(1000)))
		delivery_target_load(t);
}

static void round_once(struct delivery_target *t)
{
	reload_if_due(t);
	if (t->mine && steady_us() - t->shown_us >= (t->alone ? 1 : DELIVERY_SHOW_S) * SECOND_US)
		row_show(t);
	if (!sends(t))
		return;
	fill(t);
	delivery_target_write_down(t);
	delivery_target_stay_owner(t);
	if (steady_us() - t->lag_us >= SECOND_US)
		lag_read(t);
}

static int64_t least(int64_t a, int64_t b)
{
	return b >= 0 && b < a ? b : a;
}

/* Under lock: how long the reader may sleep. Lanes are told if something has become due. */
static int64_t sleep_us(struct delivery_target *t)
{
	int64_t us = DELIVERY_LOOK_MS * INT64_C(1000), now_us = store_us(t), next_us;

	if (!sends(t) || !t->window_made)
		return us;
	next_us = window_next_us(&t->window, now_us);
	if (next_us > 0 && next_us <= now_us)
		pthread_cond_broadcast(&t->work);
	else if (next_us > 0)
		us = least(us, next_us - now_us);
	us = least(us, delivery_target_write_due_us(t));
	if ((t->more || t->woken) && window_room(&t->window) >= DELIVERY_PAGE / 2)
		us = least(us, t->more ? 0 : DELIVERY_READ_GAP_MS * 1000);
	return us;
}

static struct timespec after_us(int64_t us)
{
	struct timespec ts;
	int64_t         at_ns;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	at_ns = (int64_t)ts.tv_nsec + us * 1000;
	return (struct timespec){.tv_sec = ts.tv_sec + (time_t)(at_ns / 1000000000),
	                         .tv_nsec = (long)(at_ns % 1000000000)};
}

/* False: it is time to end. */
static bool await(struct delivery_target *t)
{
	struct timespec until;
	bool            goes_on;
	int64_t         us;
	int             rc = 0;

	pthread_mutex_lock(&t->lock);
	us = sleep_us(t);
	until = after_us(us);
	while (us > 0 && rc == 0 && !t->stopping && !t->poked)
		rc = pthread_cond_timedwait(&t->news, &t->lock, &until);
	t->poked = false;
	goes_on = !t->stopping;
	pthread_mutex_unlock(&t->lock);
	return goes_on;
}

static void reader_main(struct worker *w, void *ctx)
{
	struct delivery_target *t = ctx;

	do {
		worker_begin(w);
		round_once(t);
		worker_idle(w);
	} while (await(t));
}

/* ---- from other threads ---- */

static void poke(struct delivery_target *t, bool woken, bool changed)
{
	pthread_mutex_lock(&t->lock);
	t->woken = t->woken || woken;
	t->changed = t->changed || changed;
	t->poked = true;
	pthread_cond_signal(&t->news);
	pthread_mutex_unlock(&t->lock);
}

void delivery_target_wake(struct delivery_target *t)
{
	poke(t, true, false);
}

void delivery_target_changed(struct delivery_target *t)
{
	poke(t, false, true);
}

struct bytes delivery_target_name(const struct delivery_target *t)
{
	return bytes_of(t->name);
}

void delivery_target_read(struct delivery_target *t, struct target_reading *out)
{
	pthread_mutex_lock(&t->lock);
	*out = t->reading;
	pthread_mutex_unlock(&t->lock);
}

/* ---- opening, closing ---- */

static enum err_code workers_start(struct delivery_target *t, struct err *err)
{
	for (unsigned i = 0; i < TARGET_LANES_MAX; i++)
		worker_init(&t->lanes[i], &(struct worker_options){.name = "deliver",
		                                                   .main = delivery_lane_main,
		                                                   .ctx = t,
		                                                   .stop_ms = DELIVERY_STOP_MS});
	worker_init(&t->reader,
	            &(struct worker_options){
	                    .name = "target", .main = reader_main, .ctx = t, .stop_ms = DELIVERY_STOP_MS});
	return worker_start(&t->reader, err);
}

enum err_code delivery_target_open(struct delivery_target              **out,
                                   const struct delivery_target_options *options, struct err *err)
{
	struct delivery_target *t = mem_zalloc(sizeof(*t));
	pthread_condattr_t      monotonic;

	t->options = *options;
	snprintf(t->name, sizeof(t->name), "%.*s", BYTES_ARG(options->name));
	t->options.name = bytes_of(t->name);
	snprintf(t->reading.name, sizeof(t->reading.name), "%s", t->name);
	t->reload = true;
	arena_init(&t->arena);
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&t->news, &monotonic);
	pthread_cond_init(&t->work, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = t;
	return workers_start(t, err);
}

void delivery_target_stop(struct delivery_target *t)
{
	pthread_mutex_lock(&t->lock);
	if (!t->stopping)
		t->stopped_us = steady_us();
	t->stopping = true;
	t->poked = true;
	pthread_cond_broadcast(&t->news);
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
}

/* (4) Those of several targets have the same moment, however many there are. */
static void calls_end(struct delivery_target *t)
{
	int64_t         left_us = t->stopped_us + DELIVERY_STOP_MS * INT64_C(1000) - steady_us();
	struct timespec until = after_us(left_us > 0 ? left_us : 0);
	int             rc = 0;

	pthread_mutex_lock(&t->lock);
	while (rc == 0 && t->window_made && t->window.flying > 0)
		rc = pthread_cond_timedwait(&t->news, &t->lock, &until);
	t->cut_off = true;
	if (t->sender != NULL)
		t->sender->kind->stop(t->sender);
	pthread_mutex_unlock(&t->lock);
}

void delivery_target_close(struct delivery_target *t)
{
	delivery_target_stop(t);
	calls_end(t);
	worker_join(&t->reader);
	for (unsigned i = 0; i < TARGET_LANES_MAX; i++) {
		worker_join(&t->lanes[i]);
		worker_release(&t->lanes[i]);
	}
	worker_release(&t->reader);
	if (t->loaded && t->target.enabled && !t->reload)
		delivery_target_write(t);
	delivery_target_unload(t);
	arena_release(&t->arena);
	pthread_cond_destroy(&t->work);
	pthread_cond_destroy(&t->news);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
