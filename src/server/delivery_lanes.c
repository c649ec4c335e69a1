/* Lanes of a target: they take events from the window, send them, and tell it what came of it. See delivery_target.h. */
#include "server/delivery_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/own_call.h"

/* Under lock. The newest first. */
void delivery_error_keep(struct delivery_target *t, const struct sender_event *e, int64_t now_us)
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

struct bytes delivery_json(struct arena *a, const struct item *row)
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
	uint32_t                count; /* to send; after them come slots whose events are gone */
	uint32_t                gone;
	struct arena            arena;
	bool                    missing, failed; /* the event of an entry is gone; one was not read */
	int64_t                 took_us;         /* the call */
};

/* As the table has it now. False: it was trimmed, or not read. */
static bool event_read(struct lane *l, const struct delivery_at *at, struct sender_event *out)
{
	struct own_call   c;
	struct event_seen seen;
	struct err        err;
	bool              found = false;

	own_call_init(&c, l->t->options.services, l->t->options.store);
	own_call_read(&c);
	l->failed = delivery_event(&c.ctx, at, &seen, &found, &err) != ERR_NONE || l->failed;
	if (found)
		*out = (struct sender_event){
		        .id = arena_copy(&l->arena, seen.id),
		        .type = arena_copy(&l->arena, seen.type),
		        .subject = arena_copy(&l->arena, seen.subject),
		        .time = arena_copy(&l->arena, seen.time),
		        .json = delivery_json(&l->arena, &seen.row),
		        .trace = arena_copy(&l->arena, row_text(&seen.row, "correlationid"))};
	own_call_read_end(&c);
	own_call_release(&c);
	return found;
}

/* The event of a retry row is read when it is sent. */
static void entry_read(struct lane *l)
{
	const struct entry *e = l->flights[0].entry;
	struct delivery_at  at = {.target = &l->t->target, .shard = e->shard, .position = e->position};

	l->missing = !event_read(l, &at, &l->events[0]) && !l->failed;
}

/* May a user have been erased since it was read? (5) */
static bool is_stale(const struct delivery_target *t, const struct window_event *e)
{
	return e->erasures != atomic_load(&t->options.services->events.erasures) ||
	       (!t->alone && steady_us() - e->read_us >= DELIVERY_FRESH_MS * INT64_C(1000));
}

/* One that has waited here is sent as it is now. False: it is gone, trimmed meanwhile, so that nobody can tell what of it was erased. */
static bool slot_read(struct lane *l, uint32_t i)
{
	const struct window_event *e = &l->flights[i].slot->event;
	struct delivery_at         at = {.target = &l->t->target, .shard = e->shard, .position = e->position};

	event_of_slot(l->flights[i].slot, &l->events[i]);
	return !is_stale(l->t, e) || event_read(l, &at, &l->events[i]) || l->failed;
}

/* Those that are gone come last. A call has one event of a subject, so their order does not matter. */
static void slots_read(struct lane *l)
{
	uint32_t i = 0;

	while (i < l->count) {
		struct flight f = l->flights[i];

		if (slot_read(l, i)) {
			i++;
			continue;
		}
		l->flights[i] = l->flights[--l->count];
		l->flights[l->count] = f;
		l->gone++;
	}
}

/* Outside of the lock: slots in flight belong to the lane, and neither the sender nor the target changes while something flies. */
static void lane_send(struct lane *l)
{
	l->missing = l->failed = false;
	l->gone = 0;
	if (l->flights[0].entry != NULL)
		entry_read(l);
	else
		slots_read(l);
	l->took_us = steady_us();
	if (!l->missing && !l->failed && l->count > 0)
		l->t->sender->kind->send(l->t->sender, l->events, l->count, &l->arena);
	l->took_us = steady_us() - l->took_us;
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
				delivery_error_keep(t, e, now_us);
			delivery_try_keep(t, e, l->took_us, now_us);
			result_count(t, f, e);
			window_done(&t->window, f, e, now_us);
		}
	}
	for (uint32_t i = 0; i < l->gone; i++)
		window_skip(&t->window, &l->flights[l->count + i]);
	t->skipped += l->gone;
	t->reading.skipped += l->gone;
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

void delivery_lane_main(struct worker *w, void *ctx)
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
