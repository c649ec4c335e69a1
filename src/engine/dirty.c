/* Dirty: see dirty.h. */
#include "engine/dirty.h"

#include <stdlib.h>

enum {
	HASH_BITS = 32,
	SHIFT_MAX = HASH_BITS - 4,  /* 16 buckets at least */
	SHIFT_MIN = HASH_BITS - 18, /* 4 MB of them: more rows than may wait, unless they are very small */
	STEP_BITS = 2, /* there are four times as many when there are more rows than buckets … */
	FEW = 16,      /* … and a quarter when there is one row in so many of them */
};

uint64_t dirty_place(struct bytes key)
{
	uint64_t place = 0;

	if (key.len > 1)
		memcpy(&place, key.data + 1, key.len - 1 < sizeof(place) ? key.len - 1 : sizeof(place));
	return __builtin_bswap64(place);
}

/* ---- tables ---- */

/* The first of this id or a later one. */
static size_t table_from(const struct dirty *d, uint32_t id)
{
	size_t low = 0, high = d->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (d->tables[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static size_t bucket_count(const struct dirty_table *t)
{
	return (size_t)1 << (HASH_BITS - t->shift);
}

static void buckets_make(struct dirty_table *t)
{
	t->buckets = mem_alloc(bucket_count(t) * sizeof(*t->buckets));
	for (size_t i = 0; i < bucket_count(t); i++)
		list_init(&t->buckets[i]);
}

static struct dirty_table *table_insert(struct dirty *d, size_t at, uint32_t id)
{
	if (d->count == d->cap) {
		d->cap = d->cap == 0 ? 16 : 2 * d->cap;
		d->tables = mem_realloc(d->tables, d->cap * sizeof(*d->tables));
	}
	memmove(&d->tables[at + 1], &d->tables[at], (d->count - at) * sizeof(*d->tables));
	d->count++;
	d->tables[at] = (struct dirty_table){.id = id, .shift = SHIFT_MAX};
	buckets_make(&d->tables[at]);
	return &d->tables[at];
}

static void table_link(struct dirty_table *t, struct row *r)
{
	uint32_t hash = (uint32_t)dirty_place(row_key(r));

	list_push_back(&t->buckets[hash >> t->shift], &r->ring);
}

static void table_resize(struct dirty_table *t, unsigned shift)
{
	struct list *old = t->buckets, *node;
	size_t       count = bucket_count(t);

	t->shift = shift;
	buckets_make(t);
	for (size_t i = 0; i < count; i++)
		while ((node = list_pop_front(&old[i])) != NULL)
			table_link(t, LIST_ENTRY(node, struct row, ring));
	free(old);
}

/* ---- rows ---- */

void dirty_add(struct dirty *d, struct row *r)
{
	uint32_t            id = (uint32_t)(dirty_place(row_key(r)) >> HASH_BITS);
	size_t              at = table_from(d, id);
	struct dirty_table *t =
	        at < d->count && d->tables[at].id == id ? &d->tables[at] : table_insert(d, at, id);

	if (++t->count > bucket_count(t) && t->shift > SHIFT_MIN)
		table_resize(t, t->shift - STEP_BITS);
	table_link(t, r);
}

void dirty_remove(struct dirty *d, struct row *r)
{
	d->tables[table_from(d, (uint32_t)(dirty_place(row_key(r)) >> HASH_BITS))].count--;
	list_remove(&r->ring);
}

/* ---- walking ---- */

static uint64_t bucket_begin(const struct dirty_table *t, size_t bucket)
{
	return ((uint64_t)t->id << HASH_BITS) + ((uint64_t)bucket << t->shift);
}

static uint64_t bucket_end(const struct dirty_table *t, size_t bucket) /* the last place in it */
{
	return bucket_begin(t, bucket) + (((uint64_t)1 << t->shift) - 1);
}

/* The bucket of that place, or the first of a table behind it, or the last of one before it. */
static size_t bucket_at(const struct dirty_table *t, uint64_t place)
{
	if (place < bucket_begin(t, 0))
		return 0;
	return place > bucket_end(t, bucket_count(t) - 1) ? bucket_count(t) - 1 : (uint32_t)place >> t->shift;
}

static struct list *next_up(const struct dirty *d, struct dirty_walk *w)
{
	for (size_t i = table_from(d, (uint32_t)(w->at >> HASH_BITS)); i < d->count; i++) {
		const struct dirty_table *t = &d->tables[i];

		for (size_t b = bucket_at(t, w->at); t->count > 0 && b < bucket_count(t); b++) {
			if (bucket_begin(t, b) > w->last)
				return NULL;
			if (list_empty(&t->buckets[b]))
				continue;
			w->over = bucket_end(t, b) >= w->last;
			w->at = bucket_end(t, b) + 1;
			w->first = bucket_begin(t, b);
			return &t->buckets[b];
		}
	}
	return NULL;
}

static struct list *next_down(const struct dirty *d, struct dirty_walk *w)
{
	size_t end = table_from(d, (uint32_t)(w->at >> HASH_BITS));

	end += end < d->count && d->tables[end].id == (uint32_t)(w->at >> HASH_BITS) ? 1 : 0;
	for (size_t i = end; i-- > 0;) {
		const struct dirty_table *t = &d->tables[i];

		for (size_t b = bucket_at(t, w->at) + 1; t->count > 0 && b-- > 0;) {
			if (bucket_end(t, b) < w->last)
				return NULL;
			if (list_empty(&t->buckets[b]))
				continue;
			w->over = bucket_begin(t, b) <= w->last;
			w->at = bucket_begin(t, b) - 1;
			w->first = bucket_begin(t, b);
			return &t->buckets[b];
		}
	}
	return NULL;
}

struct list *dirty_next(const struct dirty *d, struct dirty_walk *w)
{
	if (w->over)
		return NULL;
	return w->backward ? next_down(d, w) : next_up(d, w);
}

/* ---- memory ---- */

/* A table without rows goes: it may be deleted. */
void dirty_trim(struct dirty *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->count; i++) {
		struct dirty_table t = d->tables[i];

		if (t.count == 0) {
			free(t.buckets);
			continue;
		}
		while (t.shift < SHIFT_MAX && t.count < bucket_count(&t) / FEW)
			table_resize(&t, t.shift + STEP_BITS);
		d->tables[kept++] = t;
	}
	d->count = kept;
}

void dirty_release(struct dirty *d)
{
	dirty_trim(d);
	free(d->tables);
}
