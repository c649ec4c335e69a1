/* Waiting: a heap of the first rows seen so far, the last of them on top: a row that comes after it is passed by, another takes its place. They come nearly
 * in their order, so that none does after the bucket in which the heap was full. Those of one partition, and those of a tail, come all. */
#include "engine/waiting.h"

#include <stdlib.h>

#include "engine/layout.h"

struct first {
	const struct waiting_range *range;
	size_t                      count, max;
	bool                        more; /* were there, that come later */
	struct cache_row            heap[];
};

/* Is it further on in the walk? */
static bool is_after(const struct first *f, struct bytes key, struct bytes other)
{
	int order = bytes_compare(key, other);

	return f->range->backward ? order < 0 : order > 0;
}

static void swap(struct cache_row *a, struct cache_row *b)
{
	struct cache_row was = *a;

	*a = *b;
	*b = was;
}

static void sift_up(struct first *f, size_t at)
{
	for (; at > 0 && is_after(f, f->heap[at].key, f->heap[(at - 1) / 2].key); at = (at - 1) / 2)
		swap(&f->heap[at], &f->heap[(at - 1) / 2]);
}

static void sift_down(struct first *f)
{
	size_t at = 0, child;

	while ((child = 2 * at + 1) < f->count) {
		if (child + 1 < f->count && is_after(f, f->heap[child + 1].key, f->heap[child].key))
			child++;
		if (!is_after(f, f->heap[child].key, f->heap[at].key))
			return;
		swap(&f->heap[at], &f->heap[child]);
		at = child;
	}
}

static void offer(void *first, const struct cache_row *row)
{
	struct first *f = first;

	if (bytes_compare(row->key, f->range->low) < 0 || bytes_compare(row->key, f->range->high) >= 0)
		return;
	if (f->count < f->max) {
		f->heap[f->count] = *row;
		sift_up(f, f->count++);
		return;
	}
	f->more = true;
	if (is_after(f, row->key, f->heap[0].key))
		return;
	f->heap[0] = *row;
	sift_down(f);
}

static bool has_enough(const void *first)
{
	return ((const struct first *)first)->more;
}

/* The last of the heap leaves it, into the place behind those that are left: so they end in order. */
static void sort(struct first *f)
{
	size_t count = f->count;

	while (f->count > 1) {
		swap(&f->heap[0], &f->heap[--f->count]);
		sift_down(f);
	}
	f->count = count;
}

static void keep_few_bytes(struct first *f)
{
	size_t bytes = 0, count = 0;

	while (count < f->count && bytes < WAITING_BYTES_MAX) {
		bytes += f->heap[count].key.len + f->heap[count].value.len;
		count++;
	}
	f->more = f->more || count < f->count;
	f->count = count;
}

/* The next key in their order is the same with a zero behind it. */
static struct bytes key_after(struct arena *a, struct bytes key)
{
	char *copy = arena_alloc(a, key.len + 1);

	memcpy(copy, key.data, key.len);
	copy[key.len] = 0;
	return (struct bytes){copy, key.len + 1};
}

static void copy(const struct first *f, struct arena *a, struct cache_rows *rows)
{
	rows->list = arena_array(a, f->count, sizeof(*rows->list));
	rows->count = f->count;
	for (size_t i = 0; i < f->count; i++)
		rows->list[i] = (struct cache_row){.key = arena_copy(a, f->heap[i].key),
		                                   .value = arena_copy(a, f->heap[i].value),
		                                   .absent = f->heap[i].absent};
}

/* The part of a walk before the tail, of which more than one part can have waits: a page that ends before it need not take any of that. Backward, a walk of
 * a log begins there. */
static struct waiting_range before_tail(struct tail *t, const struct waiting_range *range, struct arena *a)
{
	struct tail_walk walk = {range->low, range->high, false, WAITING_ROWS_MAX};
	struct bytes     first = range->backward ? (struct bytes){0} : tail_first(t, &walk, a);

	return (struct waiting_range){.low = range->low,
	                              .high = bytes_compare(first, range->low) > 0 ? first : range->high,
	                              .backward = range->backward};
}

static struct first *first_open(const struct waiting_range *range, uint32_t rows_max)
{
	size_t        max = rows_max > 0 && rows_max < WAITING_ROWS_MAX ? rows_max : WAITING_ROWS_MAX;
	struct first *f = mem_alloc(sizeof(*f) + max * sizeof(f->heap[0]));

	*f = (struct first){.range = range, .max = max};
	return f;
}

void waiting_take(struct waiting_places places, const struct waiting_range *range, struct arena *a,
                  struct cache_rows *rows, struct waiting_range *part)
{
	struct waiting_range near = before_tail(places.tail, range, a);
	struct first        *f = first_open(&near, range->rows_max);
	struct tail_walk     tail = {near.low, near.high, near.backward, f->max + 1};
	struct cache_walk    dirty = {near.low, near.high, near.backward, offer, has_enough};

	if (layout_is_one_partition(near.low, near.high))
		cache_dirty_each_in(places.cache, near.low, offer, f);
	else
		cache_dirty_walk(places.cache, &dirty, f);
	tail_each(places.tail, &tail, offer, f);
	sort(f);
	keep_few_bytes(f);
	copy(f, a, rows);
	*part = near;
	if (f->more && near.backward)
		part->low = rows->list[f->count - 1].key;
	else if (f->more)
		part->high = key_after(a, rows->list[f->count - 1].key);
	free(f);
}
