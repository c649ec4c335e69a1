/* Entries: the events of a target that were put aside: one failed, or waits behind one of its subject. They are found by subject, and of each subject the oldest
 * is tried. What becomes of an entry is noted, and written to its row (service/delivery.h). See delivery_window.h. */
#include <assert.h>
#include <stdlib.h>

#include "server/delivery_window_parts.h"

/* Pauses before the second, third … try of an event that was put aside; then the last one. */
static const int64_t delays_s[] = {ENTRY_FIRST_S, 30, 120, 300, 900, 1800, 3600, 7200, 14400, 28800};

enum { DELAYS = sizeof(delays_s) / sizeof(delays_s[0]) };

static struct entry **bucket_of(const struct window *w, const char *key)
{
	uint32_t hash;

	memcpy(&hash, key, sizeof(hash)); /* of a keyed hash: even as it is */
	return (struct entry **)&w->buckets[(hash ^ hash >> 8 ^ hash >> 16) % WINDOW_BUCKETS];
}

static bool entry_is_over(const struct entry *e)
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

bool window_has(const struct window *w, const struct window_event *event)
{
	for (const struct entry *e = *bucket_of(w, event->key.data); e != NULL; e = e->bucket)
		if (e->position == event->position && e->shard == event->shard)
			return true;
	return false;
}

static bool is_older(const struct entry *a, const struct entry *b)
{
	return a->shard != b->shard ? a->shard < b->shard : a->position < b->position;
}

void entries_head_choose(struct window *w, const char *key)
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

void entry_free(struct entry *e)
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

struct entry *window_aside(struct window *w, const struct window_event *e)
{
	struct entry *made = entry_add(w, e->key, e->shard, e->position);

	made->id = text_copy(e->id);
	made->type = text_copy(e->type);
	made->note = ENTRY_PUT;
	w->dirty = true;
	return made;
}

/* ---- what became of one ---- */

void entry_error(struct entry *e, const struct sender_event *r)
{
	free(e->error);
	e->error = text_copy(bytes_of(r->error));
	e->status = r->status;
}

void entry_end(struct window *w, struct entry *e, enum entry_note note)
{
	e->note = note;
	e->head = false;
	w->dirty = true;
	entries_head_choose(w, e->key);
}

void entry_failed(struct window *w, struct entry *e, int64_t tries, int64_t now_us)
{
	int64_t at = tries < DELAYS ? tries : DELAYS;

	e->tries = tries;
	e->failed_us = now_us;
	e->sent = w->sent;
	e->restored = false;
	e->next_us = now_us + window_jittered(w, delays_s[at > 0 ? at - 1 : 0] * SECOND_US);
	e->note = ENTRY_PUT;
	w->dirty = true;
	w->due_us = 0;
	if (tries >= w->limits.tries && !w->dead_full)
		entry_end(w, e, ENTRY_DEAD);
}

/* ---- from the rows ---- */

void window_restore(struct window *w, const struct delivery_waiting *row, int64_t success_us)
{
	struct entry *e;

	if (row->key.len != DELIVERY_KEY_CHARS || row->shard >= w->after.shards || row->position < 1)
		return; /* not one of ours */
	e = entry_add(w, row->key, row->shard, row->position);
	e->tries = row->tries >= 0 && row->tries <= TARGET_TRIES_MAX ? row->tries : 0;
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
		entries_head_choose(w, e->key);
}

/* ---- to the rows ---- */

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
	if (!entry_is_over(e))
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
	entries_head_choose(w, key);
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
