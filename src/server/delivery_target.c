/* Delivery to one target: see delivery_target.h. */
#define _GNU_SOURCE
#include "server/delivery_target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "base/worker.h"
#include "server/delivery_window.h"
#include "server/own_call.h"

#define SECOND_US INT64_C(1000000)

enum { SETTLE_COST_BYTES = 16 * 1024 };

struct delivery_target {
	/* set once */
	struct delivery_target_options options;
	char                           name[TARGET_NAME_BYTES_MAX + 1];
	struct worker                  reader, lanes[TARGET_LANES_MAX];

	/* under lock */
	pthread_mutex_t       lock;
	pthread_cond_t        news; /* for the reader */
	pthread_cond_t        work; /* for lanes */
	bool                  stopping, cut_off;
	bool                  woken, changed; /* there may be new events; the row may have changed */
	bool                  poked;          /* the reader is to look */
	bool                  open;           /* lanes may take */
	struct window         window;
	struct sender        *sender;
	unsigned              lanes_max;                 /* lanes above do not take */
	uint64_t              sent, skipped;             /* not written down yet */
	struct target_error   errors[TARGET_ERRORS_MAX]; /* not written down yet, the newest first */
	char                  error_texts[TARGET_ERRORS_MAX][SENDER_ERROR_CHARS];
	char                  error_events[TARGET_ERRORS_MAX][2 * EVENT_ID_CHARS];
	uint32_t              error_count;
	struct target_reading reading; /* counters and gauges */

	/* the reader's thread */
	struct arena  arena;          /* of what was loaded */
	struct target target;         /* as it was loaded or last written */
	bool          loaded, reload; /* reload: at the next round */
	bool          more;           /* there was more in the log */
	bool          alone, two_secrets;
	unsigned      lanes_started;
	int64_t       read_us, written_us, owned_us, lag_us, load_us; /* steady: the last time */
	int64_t       stopped_us;                                     /* when it was told to; the owner's */

	/* changed by the reader, under lock */
	bool                window_made, failing_written;
	struct event_cursor written;
};

static int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

static int64_t store_us(const struct delivery_target *t)
{
	return t->options.store->backend->now_us(t->options.store);
}

static uint64_t random_u64(void)
{
	uint64_t bits;

	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits)) {
		log_error("cannot get random bytes from the system");
		abort();
	}
	return bits;
}

/* ---- lanes ---- */

/* Under lock. The newest first. */
static void error_keep(struct delivery_target *t, const struct sender_event *e, int64_t now_us)
{
	uint32_t last = t->error_count < TARGET_ERRORS_MAX ? t->error_count++ : TARGET_ERRORS_MAX - 1;

	memmove(t->errors + 1, t->errors, last * sizeof(t->errors[0]));
	memmove(t->error_texts + 1, t->error_texts, last * sizeof(t->error_texts[0]));
	memmove(t->error_events + 1, t->error_events, last * sizeof(t->error_events[0]));
	snprintf(t->error_texts[0], sizeof(t->error_texts[0]), "%s", e->error);
	snprintf(t->error_events[0], sizeof(t->error_events[0]), "%.*s", BYTES_ARG(e->id));
	t->errors[0] = (struct target_error){.at_s = now_us / SECOND_US, .status = e->status};
}

/* Under lock. */
static void result_count(struct delivery_target *t, const struct flight *f, const struct sender_event *e)
{
	t->reading.ends[e->end]++;
	t->reading.retries += f->entry != NULL || f->slot->attempts > 0;
	t->sent += e->end == SENDER_SENT;
}

static void event_of_slot(const struct slot *s, struct sender_event *out)
{
	*out = (struct sender_event){.id = s->event.id,
	                             .type = s->event.type,
	                             .subject = s->event.subject,
	                             .time = s->event.time,
	                             .json = s->event.json,
	                             .trace = s->event.trace};
}

static struct bytes json_of(struct arena *a, const struct item *row)
{
	struct json_writer w;
	struct buf         out;

	buf_init(&out, a);
	json_writer_init(&w, &out);
	event_write_json(&w, row);
	return buf_bytes(&out);
}

/* A lane at work. */
struct lane {
	struct delivery_target *t;
	struct flight           flights[WINDOW_BATCH_MAX];
	struct sender_event     events[WINDOW_BATCH_MAX];
	uint32_t                count;
	struct arena            arena;
	bool                    missing, failed; /* of an entry: its event is gone, or was not read */
};

/* The event of a retry row is read when it is sent. */
static void entry_read(struct lane *l)
{
	const struct entry *e = l->flights[0].entry;
	struct delivery_at  at = {.target = &l->t->target, .shard = e->shard, .position = e->position};
	struct own_call     c;
	struct event_seen   seen;
	struct err          err;
	bool                found = false;

	own_call_init(&c, l->t->options.services, l->t->options.store);
	own_call_read(&c);
	l->failed = delivery_event(&c.ctx, &at, &seen, &found, &err) != ERR_NONE;
	l->missing = !l->failed && !found;
	if (found)
		l->events[0] = (struct sender_event){
		        .id = arena_copy(&l->arena, seen.id),
		        .type = arena_copy(&l->arena, seen.type),
		        .subject = arena_copy(&l->arena, seen.subject),
		        .time = arena_copy(&l->arena, seen.time),
		        .json = json_of(&l->arena, &seen.row),
		        .trace = arena_copy(&l->arena, row_text(&seen.row, "correlationid"))};
	own_call_read_end(&c);
	own_call_release(&c);
}

/* Outside of the lock: slots in flight belong to the lane, and neither the sender nor the target changes while something flies. */
static void lane_send(struct lane *l)
{
	l->missing = l->failed = false;
	if (l->flights[0].entry != NULL)
		entry_read(l);
	for (uint32_t i = 0; i < l->count && l->flights[i].slot != NULL; i++)
		event_of_slot(l->flights[i].slot, &l->events[i]);
	if (!l->missing && !l->failed)
		l->t->sender->kind->send(l->t->sender, l->events, l->count, &l->arena);
}

/* Under lock. */
static void lane_settle(struct lane *l)
{
	struct delivery_target *t = l->t;
	int64_t                 now_us = store_us(t);

	for (uint32_t i = 0; i < l->count; i++) {
		const struct flight       *f = &l->flights[i];
		const struct sender_event *e = &l->events[i];

		if (l->missing) {
			window_lost(&t->window, f->entry, now_us);
		} else if (l->failed || (t->cut_off && e->end == SENDER_LATER)) {
			window_undo(&t->window, f);
		} else {
			if (e->end != SENDER_SENT)
				error_keep(t, e, now_us);
			result_count(t, f, e);
			window_done(&t->window, f, e, now_us);
		}
	}
	t->poked = true;
	pthread_cond_signal(&t->news);
	pthread_cond_broadcast(&t->work);
}

static uint32_t lane_take(struct lane *l, unsigned number)
{
	struct delivery_target   *t = l->t;
	const struct sender_kind *kind;
	uint32_t                  max;

	if (!t->open || number >= t->lanes_max)
		return 0;
	kind = t->sender->kind;
	max = kind->batch_max < WINDOW_BATCH_MAX ? kind->batch_max : WINDOW_BATCH_MAX;
	return window_take(&t->window, store_us(t), max, kind->batch_bytes_max, l->flights);
}

static void lane_main(struct worker *w, void *ctx)
{
	struct delivery_target *t = ctx;
	struct lane            *l = mem_zalloc(sizeof(*l));

	l->t = t;
	arena_init(&l->arena);
	pthread_mutex_lock(&t->lock);
	while (!t->stopping) {
		l->count = lane_take(l, (unsigned)(w - t->lanes));
		if (l->count == 0) {
			pthread_cond_wait(&t->work, &t->lock);
			continue;
		}
		pthread_mutex_unlock(&t->lock);
		worker_begin(w);
		lane_send(l);
		worker_idle(w);
		pthread_mutex_lock(&t->lock);
		lane_settle(l);
		arena_reset(&l->arena);
	}
	pthread_mutex_unlock(&t->lock);
	arena_release(&l->arena);
	free(l);
}

/* ---- loading ---- */

struct settling {
	struct own_call        own; /* first */
	struct delivery_owner  who;
	struct delivery_settle q;
	struct target          target;
	bool                   mine, lost, alone;
};

static enum err_code own_it(struct own_call *own, struct err *err)
{
	struct settling *s = (struct settling *)own;

	s->alone = own->ctx.table->alone; /* the table is there only now */
	return delivery_own(&own->ctx, &s->who, &s->target, &s->mine, err);
}

/* Nothing flies from here on; it waits for what does. */
static void lanes_close(struct delivery_target *t)
{
	pthread_mutex_lock(&t->lock);
	t->open = false;
	while (t->window_made && t->window.flying > 0)
		pthread_cond_wait(&t->news, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

static void unload(struct delivery_target *t)
{
	struct sender *sender;

	lanes_close(t);
	pthread_mutex_lock(&t->lock);
	sender = t->sender;
	t->sender = NULL; /* nobody stops it from here on */
	if (t->window_made)
		window_release(&t->window);
	t->window_made = false;
	t->sent = t->skipped = 0;
	pthread_mutex_unlock(&t->lock);
	if (sender != NULL)
		sender->kind->close(sender);
	t->loaded = false;
}

static enum err_code rows_load(struct delivery_target *t, struct err *err)
{
	struct delivery_page page = {.more = true};
	struct own_call      c;
	enum err_code        rc = ERR_NONE;

	while (page.more && rc == ERR_NONE) {
		own_call_init(&c, t->options.services, t->options.store);
		own_call_read(&c);
		rc = delivery_load(&c.ctx, &t->target, page.last, &page, err);
		for (uint32_t i = 0; rc == ERR_NONE && i < page.count; i++)
			window_restore(&t->window, &page.list[i], t->target.success_s * SECOND_US);
		page.last = arena_copy(&t->arena, page.last);
		own_call_read_end(&c);
		own_call_release(&c);
	}
	window_restored(&t->window);
	return rc;
}

static void window_make(struct delivery_target *t)
{
	struct window_limits limits = {
	        .tries = t->target.tries, .lanes = t->target.lanes, .random = random_u64};

	window_init(&t->window, &limits);
	t->window_made = true;
	window_begin(&t->window, &t->target.after);
	t->window.success_us = t->target.success_s * SECOND_US;
	t->window.failing_us = t->target.failing_s * SECOND_US;
	t->window.dead_full = t->target.dead >= DELIVERY_DEAD_MAX;
	t->written = t->target.after;
	t->failing_written = t->target.failing_s > 0;
	t->lanes_max = (unsigned)t->target.lanes;
	t->woken = t->more = true;
}

static enum err_code sender_make(struct delivery_target *t, struct err *err)
{
	struct context ctx = {.services = t->options.services, .arena = &t->arena};
	enum err_code  rc;

	ctx.now_us = store_us(t);
	ctx.now_s = ctx.now_us / SECOND_US;
	rc = target_sender_open_stored(t->options.senders, &ctx, &t->target, &t->sender, err);
	if (rc != ERR_NONE)
		log_warn("target %s: %s", t->name, err->text);
	t->two_secrets = t->target.previous_until_s > ctx.now_s;
	return rc;
}

static void state_set(struct delivery_target *t, enum target_state state)
{
	pthread_mutex_lock(&t->lock);
	t->reading.state = state;
	pthread_mutex_unlock(&t->lock);
}

/* As many as the target has; those that it had before stay, and take nothing. */
static bool lanes_start(struct delivery_target *t, struct err *err)
{
	while (t->lanes_started < t->target.lanes) {
		if (worker_start(&t->lanes[t->lanes_started], err) != ERR_NONE)
			return false;
		t->lanes_started++;
	}
	return true;
}

/* Is it ours? Then t->target is its row, in our own arena. */
static bool own(struct delivery_target *t)
{
	struct settling s = {.who = {bytes_of(t->name), t->options.owner}};
	struct err      err;
	bool            good;

	own_call_init(&s.own, t->options.services, t->options.store);
	good = own_call_run(&s.own, own_it, SETTLE_COST_BYTES, &err) == ERR_NONE && s.mine;
	t->alone = good && s.alone;
	if (good) {
		struct item row = item_copy(&t->arena, &s.target.row);

		t->target = target_of(&t->arena, &row);
	}
	own_call_release(&s.own);
	return good;
}

/* Ours and enabled, its rows in memory, a sender open? Then lanes may go. If not, it is tried again later. (2) */
static void load(struct delivery_target *t)
{
	struct err err;

	unload(t);
	arena_reset(&t->arena);
	t->reload = false;
	t->load_us = t->owned_us = steady_us();
	if (!own(t))
		return;
	state_set(t, !t->target.enabled ? TARGET_DISABLED : TARGET_WELL);
	t->loaded = true;
	if (!t->target.enabled)
		return;
	pthread_mutex_lock(&t->lock);
	window_make(t);
	pthread_mutex_unlock(&t->lock);
	t->loaded =
	        rows_load(t, &err) == ERR_NONE && sender_make(t, &err) == ERR_NONE && lanes_start(t, &err);
	if (!t->loaded) {
		state_set(t, TARGET_FAILING);
		return;
	}
	pthread_mutex_lock(&t->lock);
	t->open = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
}

/* ---- reading the log ---- */

struct page {
	struct own_call      own;
	struct event_page    events;
	struct window_event *list;
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
		                                   .json = json_of(&p->own.arena, &e->row),
		                                   .trace = row_text(&e->row, "correlationid")};
	}
}

/* Events were trimmed before they were sent, or the log is shorter than we know: nothing of that comes back, so it is said loudly. */
static void read_on(struct delivery_target *t, struct page *p, const struct err *why)
{
	struct event_cursor next, before = t->window.read;
	struct event_bounds bounds;
	struct err          err;
	struct sender_event said = {0};
	int64_t             skipped = 0;

	if (events_bounds(&p->own.ctx, &bounds, &err) != ERR_NONE)
		return;
	if (why->code == ERR_GONE)
		event_cursor_first(&bounds, &next);
	else
		event_cursor_last(&bounds, &next);
	for (uint32_t i = 0; i < next.shards && i < before.shards; i++) {
		if (why->code == ERR_GONE && next.after[i] < before.after[i])
			next.after[i] = before.after[i];
		skipped += next.after[i] > before.after[i] ? next.after[i] - before.after[i] : 0;
	}
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
	error_keep(t, &said, store_us(t));
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

/* ---- writing down ---- */

static enum err_code settle_it(struct own_call *own, struct err *err)
{
	struct settling *s = (struct settling *)own;

	return delivery_settle(&own->ctx, &s->q, &s->target, &s->lost, err);
}

/* Under lock. Why it is to be disabled, if it is; now it has just failed. */
static struct bytes disable_reason(const struct delivery_target *t, struct arena *a, int64_t now_us)
{
	const struct window *w = &t->window;

	if (w->gone)
		return BYTES("the target answered that it is gone (410)");
	if (w->failing_us == 0 || w->pauses == 0 ||
	    now_us - w->failing_us < t->target.disable_after_s * SECOND_US)
		return BYTES("");
	return arena_printf(a, "it accepted nothing for %" PRIi64 " seconds",
	                    (now_us - w->failing_us) / SECOND_US);
}

/* Under lock. They are told once: if the commit fails, the next ones are. */
static const struct target_error *errors_take(struct delivery_target *t, struct arena *a, uint32_t *count)
{
	struct target_error *list = arena_array(a, TARGET_ERRORS_MAX, sizeof(*list));

	for (uint32_t i = 0; i < t->error_count; i++) {
		list[i] = t->errors[i];
		list[i].error = arena_printf(a, "%s", t->error_texts[i]);
		list[i].event = arena_printf(a, "%s", t->error_events[i]);
	}
	*count = t->error_count;
	t->error_count = 0;
	return list;
}

/* Under lock: all that is new, as far as a commit has room for it. */
static void settle_collect(struct delivery_target *t, struct settling *s, struct delivery_note *notes)
{
	struct window *w = &t->window;
	struct arena  *a = &s->own.arena;

	s->q = (struct delivery_settle){.who = s->who,
	                                .id = t->target.id,
	                                .notes = notes,
	                                .after = w->after,
	                                .sent = (int64_t)t->sent,
	                                .skipped = (int64_t)t->skipped,
	                                .success_s = w->success_us / SECOND_US,
	                                .failing_s = w->failing_us / SECOND_US,
	                                .disable = disable_reason(t, a, store_us(t))};
	window_kept(w, &s->q.kept);
	s->q.count = window_notes(w, a, notes, &s->q.moves);
	s->q.errors = errors_take(t, a, &s->q.error_count);
}

/* Under lock: it is in the table. */
static void settle_done(struct delivery_target *t, const struct settling *s)
{
	t->sent -= (uint64_t)s->q.sent;
	t->skipped -= (uint64_t)s->q.skipped;
	for (uint32_t i = 0; i < s->q.count; i++)
		t->reading.died += s->q.notes[i].kind == DELIVERY_DEAD;
	t->reading.waiting = s->target.waiting;
	t->reading.dead = s->target.dead;
	t->window.dead_full = s->target.dead >= DELIVERY_DEAD_MAX;
	if (s->q.moves)
		t->written = s->q.after;
	t->failing_written = s->q.failing_s > 0;
	t->target.version += s->q.disable.len > 0;
	t->target.enabled = s->target.enabled;
}

/* True: another commit is due at once. */
static bool settle(struct delivery_target *t)
{
	struct settling      s = {.who = {bytes_of(t->name), t->options.owner}};
	struct delivery_note notes[DELIVERY_NOTES_MAX];
	struct err           err;
	enum err_code        rc;
	bool                 again;

	own_call_init(&s.own, t->options.services, t->options.store);
	pthread_mutex_lock(&t->lock);
	settle_collect(t, &s, notes);
	pthread_mutex_unlock(&t->lock);
	rc = own_call_run(&s.own, settle_it, SETTLE_COST_BYTES, &err);
	pthread_mutex_lock(&t->lock);
	window_noted(&t->window, rc == ERR_NONE && !s.lost);
	if (rc == ERR_NONE && !s.lost)
		settle_done(t, &s);
	pthread_mutex_unlock(&t->lock);
	t->written_us = steady_us();
	again = rc == ERR_NONE && !s.lost && !s.q.moves;
	if (s.q.disable.len > 0 && rc == ERR_NONE && !s.lost)
		log_error("target %s is disabled: %.*s", t->name, BYTES_ARG(s.q.disable));
	if (rc == ERR_NONE && !s.lost && s.target.version != t->target.version)
		t->reload = true; /* somebody changed it meanwhile */
	if (s.lost || (rc != ERR_NONE && rc != ERR_OVERLOADED && rc != ERR_THROTTLED))
		t->reload = true; /* whatever is in the table now is what holds */
	own_call_release(&s.own);
	return again;
}

/* Under lock: in how many microseconds a commit is due; -1: there is nothing to write. */
static int64_t settle_due_us(const struct delivery_target *t)
{
	const struct window *w = &t->window;
	int64_t              gap_us = -1;

	if (w->dirty || t->sent > 0 || t->error_count > 0 || w->gone ||
	    (w->failing_us > 0) != t->failing_written)
		gap_us = DELIVERY_WRITE_GAP_MS * 1000;
	else if (memcmp(w->after.after, t->written.after, w->after.shards * sizeof(w->after.after[0])) != 0)
		gap_us = DELIVERY_IDLE_WRITE_S * SECOND_US;
	if (gap_us < 0)
		return -1;
	gap_us += t->written_us - steady_us();
	return gap_us > 0 ? gap_us : 0;
}

static void write_down(struct delivery_target *t)
{
	bool due;

	pthread_mutex_lock(&t->lock);
	due = settle_due_us(t) == 0;
	pthread_mutex_unlock(&t->lock);
	while (due && !t->reload && settle(t))
		;
}

/* ---- how it fares ---- */

static void lag_read(struct delivery_target *t)
{
	struct event_cursor last, after;
	struct event_bounds bounds;
	struct own_call     c;
	struct err          err;
	int64_t             since_us = 0, now_us = store_us(t);
	enum err_code       rc;

	pthread_mutex_lock(&t->lock);
	after = t->window.after;
	if (t->window.first < t->window.end)
		since_us = event_time_us(t->window.slots[t->window.first % WINDOW_SLOTS]->event.time);
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

/* A process that writes nothing for a while says that it is still there. On a table that is alone nobody wants to know. */
static void stay_owner(struct delivery_target *t)
{
	struct settling s = {.who = {bytes_of(t->name), t->options.owner}};
	struct err      err;
	int64_t         last_us = t->written_us > t->owned_us ? t->written_us : t->owned_us;

	if (t->alone || steady_us() - last_us < DELIVERY_OWN_S * SECOND_US / 3)
		return;
	t->owned_us = steady_us();
	own_call_init(&s.own, t->options.services, t->options.store);
	if (own_call_run(&s.own, own_it, SETTLE_COST_BYTES, &err) == ERR_NONE && !s.mine)
		t->reload = true;
	own_call_release(&s.own);
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
	if (t->reload && t->loaded && t->target.enabled)
		settle(t); /* what is known is not sent again */
	if (t->reload || (!t->loaded && steady_us() - t->load_us >= DELIVERY_LOOK_MS * INT64_C(1000)))
		load(t);
}

static void round_once(struct delivery_target *t)
{
	reload_if_due(t);
	if (!t->loaded || !t->target.enabled)
		return;
	fill(t);
	write_down(t);
	stay_owner(t);
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

	if (!t->loaded || !t->target.enabled || !t->window_made)
		return us;
	next_us = window_next_us(&t->window, now_us);
	if (next_us > 0 && next_us <= now_us)
		pthread_cond_broadcast(&t->work);
	else if (next_us > 0)
		us = least(us, next_us - now_us);
	us = least(us, settle_due_us(t));
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
		                                                   .main = lane_main,
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
		settle(t);
	unload(t);
	arena_release(&t->arena);
	pthread_cond_destroy(&t->work);
	pthread_cond_destroy(&t->news);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
