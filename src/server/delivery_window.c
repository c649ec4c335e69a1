/* Window: see delivery_window.h. */
#include "server/delivery_window.h"

#include <assert.h>
#include <stdlib.h>

#define SECOND_US INT64_C(1000000)

/* Pauses before the second, third … try of an event that was put aside; then the last one. */
static const int64_t delays_s[] = {5, 30, 120, 300, 900, 1800, 3600, 7200, 14400, 28800};

enum { DELAYS = sizeof(delays_s) / sizeof(delays_s[0]) };

void window_init(struct window *w, const struct window_limits *limits)
{
	memset(w, 0, sizeof(*w));
	w->limits = *limits;
}

/* Three quarters to five quarters of it. */
static int64_t jittered(const struct window *w, int64_t us)
{
	return us / 4 * 3 + (int64_t)(w->limits.random() % ((uint64_t)us / 2 + 1));
}

static struct slot *slot_at(const struct window *w, uint64_t seq)
{
	return w->slots[seq % WINDOW_SLOTS];
}

static bool slot_is(const struct slot *s, const char key[DELIVERY_KEY_CHARS])
{
	return memcmp(s->event.key.data, key, DELIVERY_KEY_CHARS) == 0;
}

/* ---- entries ---- */

static struct entry **bucket_of(const struct window *w, const char *key)
{
	uint32_t hash;

	memcpy(&hash, key, sizeof(hash)); /* of a keyed hash: even as it is */
	return (struct entry **)&w->buckets[(hash ^ hash >> 8 ^ hash >> 16) % WINDOW_BUCKETS];
}

static bool is_over(const struct entry *e)
{
	return e->note == ENTRY_SENT || e->note == ENTRY_DEAD;
}

/* One that was sent, and only has to be written down, blocks nobody: if that is lost, it is sent again. A dead one does until it is written down,
 * for it could still be accepted after a restart. */
bool window_blocks(const struct window *w, struct bytes key)
{
	for (const struct entry *e = *bucket_of(w, key.data); e != NULL; e = e->bucket)
		if (e->note != ENTRY_SENT && memcmp(e->key, key.data, DELIVERY_KEY_CHARS) == 0)
			return true;
	return false;
}

static bool is_older(const struct entry *a, const struct entry *b)
{
	return a->shard != b->shard ? a->shard < b->shard : a->position < b->position;
}

/* The oldest of a subject is its head, unless another one flies already, or a dead one is not written down yet. */
static void head_choose(struct window *w, const char *key)
{
	struct entry *oldest = NULL;
	bool          blocked = false;

	w->due_us = 0;
	for (struct entry *e = *bucket_of(w, key); e != NULL; e = e->bucket) {
		if (e->note == ENTRY_SENT || memcmp(e->key, key, DELIVERY_KEY_CHARS) != 0)
			continue;
		e->head = e->flying;
		blocked = blocked || e->flying || e->note == ENTRY_DEAD;
		if (oldest == NULL || is_older(e, oldest))
			oldest = e;
	}
	if (oldest != NULL && !blocked)
		oldest->head = true;
}

static struct entry *entry_add(struct window *w, struct bytes key, uint32_t shard, int64_t position)
{
	struct entry *e = mem_zalloc(sizeof(*e)), **bucket;

	assert(key.len == DELIVERY_KEY_CHARS);
	memcpy(e->key, key.data, DELIVERY_KEY_CHARS);
	e->shard = shard;
	e->position = position;
	bucket = bucket_of(w, e->key);
	e->bucket = *bucket;
	*bucket = e;
	e->prev = w->newest;
	*(w->newest == NULL ? &w->oldest : &w->newest->next) = e;
	w->newest = e;
	w->entry_count++;
	return e;
}

static void entry_free(struct entry *e)
{
	free(e->error);
	free(e->id);
	free(e->type);
	free(e);
}

static void entry_remove(struct window *w, struct entry *e)
{
	struct entry **at = bucket_of(w, e->key);

	while (*at != e)
		at = &(*at)->bucket;
	*at = e->bucket;
	*(e->prev == NULL ? &w->oldest : &e->prev->next) = e->next;
	*(e->next == NULL ? &w->newest : &e->next->prev) = e->prev;
	w->entry_count--;
	entry_free(e);
}

static char *text_copy(struct bytes text)
{
	char *copy = mem_alloc(text.len + 1);

	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	return copy;
}

static void entry_error(struct entry *e, const struct sender_event *r)
{
	free(e->error);
	e->error = text_copy(bytes_of(r->error));
	e->status = r->status;
}

/* It will not be tried again: sent or dead. The next one of its subject may go. */
static void entry_end(struct window *w, struct entry *e, enum entry_note note)
{
	e->note = note;
	e->head = false;
	w->dirty = true;
	head_choose(w, e->key);
}

/* A failure of which the event is to blame. */
static void entry_failed(struct window *w, struct entry *e, int64_t tries, int64_t now_us)
{
	int64_t at = tries < DELAYS ? tries : DELAYS;

	e->tries = tries;
	e->failed_us = now_us;
	e->sent = w->sent;
	e->restored = false;
	e->next_us = now_us + jittered(w, delays_s[at > 0 ? at - 1 : 0] * SECOND_US);
	e->note = ENTRY_PUT;
	w->dirty = true;
	w->due_us = 0;
	if (tries >= w->limits.tries && !w->dead_full)
		entry_end(w, e, ENTRY_DEAD);
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

void window_restore(struct window *w, const struct delivery_waiting *row, int64_t success_us)
{
	struct entry *e;

	if (row->key.len != DELIVERY_KEY_CHARS) /* not one of ours */
		return;
	e = entry_add(w, row->key, row->shard, row->position);
	e->tries = row->tries;
	e->next_us = row->next_us;
	e->failed_us = row->failed_us;
	e->restored = true;
	e->copied = row->copied;
	e->known = true;
	if (success_us > w->success_us)
		w->success_us = success_us;
}

void window_restored(struct window *w)
{
	for (struct entry *e = w->oldest; e != NULL; e = e->next)
		head_choose(w, e->key);
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

/* It waits behind another one of its subject, or has failed. */
static struct entry *aside(struct window *w, const struct window_event *e)
{
	struct entry *made = entry_add(w, e->key, e->shard, e->position);

	made->id = text_copy(e->id);
	made->type = text_copy(e->type);
	made->note = ENTRY_PUT;
	w->dirty = true;
	return made;
}

/* The slot has an entry now; so have later ones of its subject that were read already. */
static struct entry *slot_aside(struct window *w, struct slot *s)
{
	struct entry *e = aside(w, &s->event);

	for (uint64_t i = w->first; i < w->end; i++)
		if (slot_at(w, i) != s && slot_at(w, i)->state == SLOT_READY &&
		    slot_is(slot_at(w, i), e->key)) {
			aside(w, &slot_at(w, i)->event);
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
	if (window_blocks(w, e->key)) {
		aside(w, e);
		return;
	}
	s = slot_make(e);
	s->before = unsettled_before(w, e->key.data);
	w->slots[w->end++ % WINDOW_SLOTS] = s;
	w->bytes += e->json.len;
}

/* Gives up the slots at the front that are settled, and moves `after` along. (2) */
static void slots_pop(struct window *w)
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
	head_choose(w, s->event.key.data);
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

uint32_t window_take(struct window *w, int64_t now_us, uint32_t max, size_t bytes_max, struct flight *out)
{
	uint32_t count;

	if (w->gone || w->paused_us > now_us)
		return 0;
	if (w->pauses > 0)
		return w->flying > 0 ? 0 : probe_take(w, now_us, out);
	count = entry_take(w, now_us, out);
	return count > 0 ? count : slots_take(w, now_us, max, bytes_max, out);
}

/* From here on it is a slot of the window, or an entry. */
static struct flight landed(struct window *w, const struct flight *f)
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
	struct flight now = landed(w, f);

	if (now.slot != NULL)
		now.slot->state = SLOT_READY;
}

/* ---- what came of it ---- */

/* Those of its subject may go. */
static void slot_settle(struct window *w, struct slot *s)
{
	s->state = SLOT_SETTLED;
	for (uint64_t i = w->first; i < w->end; i++)
		if (slot_at(w, i)->before == s)
			slot_at(w, i)->before = NULL;
}

static void accepted(struct window *w, const struct flight *f, int64_t now_us)
{
	w->sent++;
	w->success_us = now_us;
	w->failing_us = w->paused_us = 0;
	w->later = w->refused = w->pauses = 0;
	if (f->entry != NULL)
		entry_end(w, f->entry, ENTRY_SENT);
	else
		slot_settle(w, f->slot);
}

/* The target's fault, as far as anybody knows: it is tried again, and is not blamed. */
static void spared(struct window *w, const struct flight *f, int64_t now_us)
{
	if (f->entry != NULL) {
		f->entry->next_us = now_us + jittered(w, delays_s[0] * SECOND_US);
		return;
	}
	f->slot->attempts++;
	f->slot->state = SLOT_READY;
	f->slot->next_us = now_us + jittered(w, SECOND_US);
}

static void blamed(struct window *w, const struct flight *f, const struct sender_event *r, int64_t now_us)
{
	struct entry *e = f->entry;

	if (e == NULL) {
		e = slot_aside(w, f->slot);
		slot_settle(w, f->slot);
		head_choose(w, e->key);
	}
	entry_error(e, r);
	entry_failed(w, e, e->tries + 1, now_us);
}

/* Did the target accept another one since this one flew for the first time, or last failed? (3) */
static bool others_pass(const struct window *w, const struct flight *f)
{
	if (f->entry == NULL)
		return w->sent > f->slot->sent;
	return f->entry->restored ? w->success_us > f->entry->failed_us : w->sent > f->entry->sent;
}

static void pause_begin(struct window *w, int64_t wait_s, int64_t now_us)
{
	int64_t pause_s = w->pauses < 10 ? INT64_C(1) << w->pauses : WINDOW_PAUSE_S_MAX;

	if (w->paused_us > now_us && wait_s == 0) /* of a call that began before */
		return;
	pause_s = pause_s < WINDOW_PAUSE_S_MAX ? pause_s : WINDOW_PAUSE_S_MAX;
	w->pauses++;
	w->paused_us = now_us + (wait_s > pause_s ? wait_s * SECOND_US : jittered(w, pause_s * SECOND_US));
}

static void fails(struct window *w, int64_t now_us)
{
	if (w->failing_us == 0)
		w->failing_us = now_us;
}

static void put_off(struct window *w, const struct flight *f, const struct sender_event *r, int64_t now_us)
{
	bool passes = others_pass(w, f);

	w->later++;
	fails(w, now_us);
	if (passes)
		blamed(w, f, r, now_us);
	else
		spared(w, f, now_us);
	if (w->later >= WINDOW_LATER_MAX || w->pauses > 0 || r->wait_s > 0)
		pause_begin(w, r->wait_s, now_us);
}

static void refused(struct window *w, const struct flight *f, const struct sender_event *r, int64_t now_us)
{
	if (++w->refused < WINDOW_REFUSED_MAX) {
		blamed(w, f, r, now_us);
		return;
	}
	fails(w, now_us);
	spared(w, f, now_us);
	pause_begin(w, 0, now_us);
}

void window_done(struct window *w, const struct flight *f, const struct sender_event *e, int64_t now_us)
{
	struct flight now = landed(w, f);

	switch (e->end) {
	case SENDER_SENT:
		accepted(w, &now, now_us);
		break;
	case SENDER_LATER:
		put_off(w, &now, e, now_us);
		break;
	case SENDER_REFUSED:
		refused(w, &now, e, now_us);
		break;
	case SENDER_GONE:
		w->gone = true;
		spared(w, &now, now_us);
		break;
	}
	slots_pop(w);
}

void window_skip(struct window *w, const struct flight *f)
{
	struct flight now = landed(w, f);

	if (now.entry != NULL) /* it got one while it flew (4) */
		entry_end(w, now.entry, ENTRY_SENT);
	else
		slot_settle(w, now.slot);
	slots_pop(w);
}

void window_lost(struct window *w, struct entry *e, int64_t now_us)
{
	struct sender_event r = {.error = "the event was trimmed from the log before it could be delivered"};

	landed(w, &(struct flight){.entry = e});
	e->failed_us = now_us;
	entry_error(e, &r);
	entry_end(w, e, ENTRY_DEAD);
}

int64_t window_next_us(struct window *w, int64_t now_us)
{
	int64_t next;

	if (w->paused_us > now_us)
		return w->paused_us;
	next = entries_due(w);
	for (uint64_t i = w->first; i < w->end; i++)
		if (slot_may(slot_at(w, i), INT64_MAX))
			next = sooner(next,
			              slot_at(w, i)->next_us > now_us ? slot_at(w, i)->next_us : now_us);
	return next;
}

/* ---- what is to be written ---- */

static struct bytes text_of(struct arena *a, const char *text)
{
	return text == NULL ? BYTES("") : arena_copy(a, bytes_of(text));
}

static struct delivery_note note_of(struct arena *a, const struct entry *e)
{
	return (struct delivery_note){.kind = e->note == ENTRY_SENT   ? DELIVERY_SENT
	                                      : e->note == ENTRY_DEAD ? DELIVERY_DEAD
	                                                              : DELIVERY_WAITS,
	                              .known = e->known,
	                              .shard = e->shard,
	                              .position = e->position,
	                              .key = arena_copy(a, (struct bytes){e->key, DELIVERY_KEY_CHARS}),
	                              .id = text_of(a, e->id),
	                              .type = text_of(a, e->type),
	                              .tries = e->tries,
	                              .next_us = e->next_us,
	                              .failed_us = e->failed_us,
	                              .status = e->status,
	                              .error = text_of(a, e->error)};
}

/* It goes to the table as it is now. What happens to it meanwhile is noted anew. */
static void note_take(struct entry *e)
{
	e->noting = e->note;
	if (!is_over(e))
		e->note = ENTRY_CLEAN;
}

uint32_t window_notes(struct window *w, struct arena *a, struct delivery_note *out, bool *all)
{
	uint32_t count = 0, reads = 0;

	*all = true;
	for (struct entry *e = w->oldest, *next; e != NULL; e = next) {
		next = e->next;
		if (e->note == ENTRY_CLEAN)
			continue;
		if (e->note == ENTRY_SENT && !e->known) { /* it never had a row */
			entry_remove(w, e);
			continue;
		}
		out[count] = note_of(a, e);
		reads += delivery_note_reads(&out[count]);
		if (count == DELIVERY_NOTES_MAX - 1 || reads > DELIVERY_READS_MAX) {
			*all = false;
			break;
		}
		note_take(e);
		count++;
	}
	w->dirty = !*all;
	return count;
}

/* Its end is written down. */
static void entry_over(struct window *w, struct entry *e)
{
	char key[DELIVERY_KEY_CHARS];

	memcpy(key, e->key, sizeof(key));
	entry_remove(w, e);
	head_choose(w, key);
}

void window_noted(struct window *w, bool done)
{
	w->dirty = w->dirty || !done;
	for (struct entry *e = w->oldest, *next; e != NULL; e = next) {
		enum entry_note noting = e->noting;

		next = e->next;
		e->noting = ENTRY_CLEAN;
		if (noting == ENTRY_PUT && done)
			e->known = true;
		else if (noting == ENTRY_PUT && e->note == ENTRY_CLEAN)
			e->note = ENTRY_PUT;
		else if (noting != ENTRY_CLEAN && noting != ENTRY_PUT && done)
			entry_over(w, e);
	}
}

void window_kept(const struct window *w, struct event_cursor *out)
{
	*out = w->after;
	for (const struct entry *e = w->oldest; e != NULL; e = e->next)
		if (!e->copied && e->position - 1 < out->after[e->shard])
			out->after[e->shard] = e->position - 1;
}
