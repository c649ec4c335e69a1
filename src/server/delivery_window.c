/* Window: the events of the log that are in memory, in their order: how they come in, which of them may go next, and how the place in the log moves along
 * what is settled. See delivery_window.h. */
#include "server/delivery_window.h"

#include <assert.h>
#include <stdlib.h>

#include "server/delivery_window_parts.h"

void window_init(struct window *w, const struct window_limits *limits)
{
	memset(w, 0, sizeof(*w));
	w->limits = *limits;
}

int64_t window_jittered(const struct window *w, int64_t us)
{
	return us / 4 * 3 + (int64_t)(w->limits.random() % ((uint64_t)us / 2 + 1));
}

static bool slot_is(const struct slot *s, const char key[DELIVERY_KEY_CHARS])
{
	return memcmp(s->event.key.data, key, DELIVERY_KEY_CHARS) == 0;
}

/* ---- opening, closing ---- */

static void slot_free(struct window *w, struct slot *s)
{
	w->bytes -= s->event.json.len;
	free(s);
}

void window_release(struct window *w)
{
	for (struct entry *e = w->oldest, *next; e != NULL; e = next) {
		next = e->next;
		entry_free(e);
	}
	for (uint64_t i = w->first; i < w->end; i++)
		slot_free(w, slot_at(w, i));
}

void window_begin(struct window *w, const struct event_cursor *after)
{
	w->read = w->after = *after;
}

/* ---- in ---- */

static struct bytes text_put(char **at, struct bytes text)
{
	struct bytes copy = {*at, text.len};

	if (text.len > 0)
		memcpy(*at, text.data, text.len);
	*at += text.len;
	return copy;
}

static struct slot *slot_make(const struct window_event *e)
{
	struct slot *s = mem_zalloc(sizeof(*s) + e->key.len + e->id.len + e->type.len + e->subject.len +
	                            e->time.len + e->json.len + e->trace.len);
	char        *at = (char *)(s + 1);

	s->event = *e;
	s->event.key = text_put(&at, e->key);
	s->event.id = text_put(&at, e->id);
	s->event.type = text_put(&at, e->type);
	s->event.subject = text_put(&at, e->subject);
	s->event.time = text_put(&at, e->time);
	s->event.json = text_put(&at, e->json);
	s->event.trace = text_put(&at, e->trace);
	return s;
}

struct entry *slot_aside(struct window *w, struct slot *s)
{
	struct entry *e = window_aside(w, &s->event);

	for (uint64_t i = w->first; i < w->end; i++)
		if (slot_at(w, i) != s && slot_at(w, i)->state == SLOT_READY &&
		    slot_is(slot_at(w, i), e->key)) {
			window_aside(w, &slot_at(w, i)->event);
			slot_at(w, i)->state = SLOT_SETTLED;
		}
	e->tries = s->attempts;
	e->next_us = s->next_us;
	e->sent = s->sent;
	return e;
}

/* (1) */
static struct slot *unsettled_before(const struct window *w, const char *key)
{
	for (uint64_t i = w->end; i-- > w->first;)
		if (slot_at(w, i)->state != SLOT_SETTLED && slot_is(slot_at(w, i), key))
			return slot_at(w, i);
	return NULL;
}

void window_add(struct window *w, const struct window_event *e)
{
	struct slot *s;

	assert(e->key.len == DELIVERY_KEY_CHARS && w->end - w->first < WINDOW_SLOTS);
	if (window_has(w,
	               e)) /* its row was written by a commit that had no room to move the position past it */
		return;
	if (window_blocks(w, e->key)) {
		window_aside(w, e);
		entries_head_choose(w,
		                    e->key.data); /* of a target that was moved back, older ones come after */
		return;
	}
	s = slot_make(e);
	s->before = unsettled_before(w, e->key.data);
	w->slots[w->end++ % WINDOW_SLOTS] = s;
	w->bytes += e->json.len;
}

void slots_pop(struct window *w)
{
	uint32_t passed = 0;

	while (w->first < w->end && slot_at(w, w->first)->state == SLOT_SETTLED) {
		struct slot *s = slot_at(w, w->first++);

		w->after.after[s->event.shard] = s->event.position;
		if (s->entry == NULL)
			slot_free(w, s);
	}
	while (passed < w->mark_count && w->marks[passed].seq <= w->first)
		w->after = w->marks[passed++].cursor;
	memmove(w->marks, w->marks + passed, (w->mark_count - passed) * sizeof(w->marks[0]));
	w->mark_count -= passed;
}

void window_read(struct window *w, const struct event_cursor *next)
{
	w->read = *next;
	if (w->mark_count == WINDOW_MARKS || (w->mark_count > 0 && w->marks[w->mark_count - 1].seq == w->end))
		w->mark_count--; /* the later one says more */
	w->marks[w->mark_count++] = (struct window_mark){w->end, *next};
	slots_pop(w);
}

/* (4) */
static void relieve(struct window *w)
{
	struct slot *s = slot_at(w, w->first);

	if (s->state == SLOT_FLYING && w->sent > s->sent) {
		s->entry = slot_aside(w, s);
		s->entry->flying = true;
		w->entries_flying++;
	} else if (s->state == SLOT_READY && s->attempts > 0 && w->sent > s->sent) {
		slot_aside(w, s);
	} else {
		return;
	}
	entries_head_choose(w, s->event.key.data);
	s->state = SLOT_SETTLED;
	slots_pop(w);
}

uint32_t window_room(struct window *w)
{
	if (w->end - w->first == WINDOW_SLOTS || w->bytes >= WINDOW_BYTES_MAX)
		relieve(w);
	if (w->entry_count >= DELIVERY_WAITING_MAX || w->bytes >= WINDOW_BYTES_MAX)
		return 0;
	return (uint32_t)(WINDOW_SLOTS - (w->end - w->first));
}

/* ---- out ---- */

static bool slot_may(const struct slot *s, int64_t now_us)
{
	return s->state == SLOT_READY && s->next_us <= now_us && s->before == NULL;
}

static bool entry_may(const struct entry *e, int64_t now_us)
{
	return e->head && !e->flying && e->note != ENTRY_SENT && e->note != ENTRY_DEAD &&
	       e->next_us <= now_us;
}

static struct flight fly_slot(struct window *w, struct slot *s)
{
	s->state = SLOT_FLYING;
	if (s->attempts == 0)
		s->sent = w->sent;
	w->flying++;
	return (struct flight){.slot = s};
}

static struct flight fly_entry(struct window *w, struct entry *e)
{
	e->flying = true;
	w->flying++;
	w->entries_flying++;
	w->due_us = 0;
	return (struct flight){.entry = e};
}

/* One event, which was tried least; slots before entries. */
static uint32_t probe_take(struct window *w, int64_t now_us, struct flight *out)
{
	struct slot *best = NULL;

	for (uint64_t i = w->first; i < w->end; i++)
		if ((best == NULL || slot_at(w, i)->attempts < best->attempts) &&
		    slot_may(slot_at(w, i), INT64_MAX))
			best = slot_at(w, i);
	if (best != NULL) {
		*out = fly_slot(w, best);
		return 1;
	}
	for (struct entry *e = w->oldest; e != NULL; e = e->next)
		if (entry_may(e, now_us)) {
			*out = fly_entry(w, e);
			return 1;
		}
	return 0;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

/* When the first entry is due, of those that do not fly; 0: none. Looks only if something changed. */
static int64_t entries_due(struct window *w)
{
	int64_t due = 0;

	if (w->due_us != 0)
		return w->due_us == INT64_MAX ? 0 : w->due_us;
	for (const struct entry *e = w->oldest; e != NULL; e = e->next)
		if (entry_may(e, INT64_MAX))
			due = sooner(due, e->next_us > 0 ? e->next_us : 1);
	w->due_us = due == 0 ? INT64_MAX : due;
	return due;
}

/* Entries never have all lanes, unless there is but one: they may be what the target is slow at. */
static uint32_t entry_take(struct window *w, int64_t now_us, struct flight *out)
{
	uint32_t lanes = w->limits.lanes > 1 ? (uint32_t)w->limits.lanes / 2 : 1;
	int64_t  due = entries_due(w);

	if (w->entries_flying >= lanes || due == 0 || due > now_us)
		return 0;
	for (struct entry *e = w->oldest; e != NULL; e = e->next)
		if (entry_may(e, now_us)) {
			*out = fly_entry(w, e);
			return 1;
		}
	return 0;
}

static uint32_t slots_take(struct window *w, int64_t now_us, uint32_t max, size_t bytes_max,
                           struct flight *out)
{
	uint32_t count = 0;
	size_t   bytes = 0;

	for (uint64_t i = w->first; i < w->end && count < max; i++) {
		struct slot *s = slot_at(w, i);

		if (!slot_may(s, now_us))
			continue;
		bytes += s->event.json.len;
		if (count > 0 && bytes > bytes_max)
			break;
		out[count++] = fly_slot(w, s);
	}
	return count;
}

/* ---- the rate (6): what is taken moves paced_us on; it may be ahead of now by what may come at once ---- */

/* Of so many events, rounded up. */
static int64_t pace_us(const struct window *w, uint32_t count)
{
	return ((int64_t)count * SECOND_US + w->limits.rate - 1) / w->limits.rate;
}

static int64_t pace_ahead_us(const struct window *w)
{
	int64_t one_us = pace_us(w, 1);

	return one_us < SECOND_US / 10 ? SECOND_US / 10 : one_us;
}

/* How many may be taken now, of so many. */
static uint32_t pace_room(struct window *w, int64_t now_us, uint32_t max)
{
	int64_t room;

	if (w->limits.rate == 0)
		return max;
	if (w->paced_us < now_us)
		w->paced_us = now_us;
	room = (now_us + pace_ahead_us(w) - w->paced_us) * w->limits.rate / SECOND_US;
	return room < (int64_t)max ? (uint32_t)(room > 0 ? room : 0) : max;
}

static uint32_t paced(struct window *w, uint32_t count)
{
	if (w->limits.rate > 0)
		w->paced_us += pace_us(w, count);
	return count;
}

/* When the next one may be taken. */
static int64_t pace_next_us(const struct window *w, int64_t now_us)
{
	int64_t room_us;

	if (w->limits.rate == 0)
		return now_us;
	room_us = w->paced_us + pace_us(w, 1) - pace_ahead_us(w);
	if (room_us <= now_us)
		return now_us;
	return room_us > now_us + WINDOW_PACE_US ? room_us : now_us + WINDOW_PACE_US;
}

uint32_t window_take(struct window *w, int64_t now_us, uint32_t max, size_t bytes_max, struct flight *out)
{
	uint32_t count, room = pace_room(w, now_us, max);

	if (w->gone || w->paused_us > now_us || room == 0)
		return 0;
	if (w->pauses > 0)
		return w->flying > 0 ? 0 : paced(w, probe_take(w, now_us, out));
	count = entry_take(w, now_us, out);
	return paced(w, count > 0 ? count : slots_take(w, now_us, room, bytes_max, out));
}

int64_t window_next_us(struct window *w, int64_t now_us)
{
	int64_t next, paced_us = pace_next_us(w, now_us);

	if (w->paused_us > now_us)
		return w->paused_us;
	next = entries_due(w);
	for (uint64_t i = w->first; i < w->end; i++)
		if (slot_may(slot_at(w, i), INT64_MAX))
			next = sooner(next,
			              slot_at(w, i)->next_us > now_us ? slot_at(w, i)->next_us : now_us);
	return next > 0 && next < paced_us ? paced_us : next;
}

/* ---- back ---- */

struct flight window_landed(struct window *w, const struct flight *f)
{
	struct flight now = *f;

	w->flying--;
	if (f->slot != NULL && f->slot->entry != NULL) { /* (4) */
		now = (struct flight){.entry = f->slot->entry};
		slot_free(w, f->slot);
	}
	if (now.entry != NULL) {
		now.entry->flying = false;
		w->entries_flying--;
		w->due_us = 0;
	}
	return now;
}

void window_undo(struct window *w, const struct flight *f)
{
	struct flight now = window_landed(w, f);

	if (now.slot != NULL)
		now.slot->state = SLOT_READY;
}

void slot_settle(struct window *w, struct slot *s)
{
	s->state = SLOT_SETTLED;
	for (uint64_t i = w->first; i < w->end; i++)
		if (slot_at(w, i)->before == s)
			slot_at(w, i)->before = NULL;
}

void window_skip(struct window *w, const struct flight *f)
{
	struct flight now = window_landed(w, f);

	if (now.entry != NULL) /* it got one while it flew (4) */
		entry_end(w, now.entry, ENTRY_SENT);
	else
		slot_settle(w, now.slot);
	slots_pop(w);
}
