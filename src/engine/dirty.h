/* Dirty: the cached rows that wait for the store, nearly in the order of their keys, so that a walk finds the first ones of its range without a look at the
 * others. Used by cache.c.
 *
 * A key begins with its table and a hash of its partition (layout.c), which spreads evenly. The rows of each table are in buckets by the upper bits of that
 * hash: as many buckets as there are rows, more or less. So a row is put in its place, and taken away, without a comparison, and rows of one bucket, of which
 * there are one or two, are in no order. Keys that were chosen to share a bucket slow down the walks that pass it, and nothing else.
 *
 * One thread at a time: write_back.c's lock. */
#ifndef ENGINE_DIRTY_H
#define ENGINE_DIRTY_H

#include "engine/cache_row.h"

struct dirty_table {
	uint32_t     id;
	unsigned     shift; /* of a hash: what is left is its bucket */
	size_t       count; /* of rows */
	struct list *buckets;
};

struct dirty {
	struct dirty_table *tables; /* in the order of their ids */
	size_t              count, cap;
};

/* Where a key is in that order: its table and hash (layout_partition_number). What is missing of a key that is too short counts as zero. */
uint64_t dirty_place(struct bytes key);

/* The row is in no other ring. */
void dirty_add(struct dirty *d, struct row *r);
void dirty_remove(struct dirty *d, struct row *r);

/* Buckets that have rows, from `at` on to the one of `last`, or down to it: NULL after the last one. Nothing is added meanwhile. */
struct dirty_walk {
	uint64_t at, last;
	bool     backward, over;
	uint64_t
	        first; /* the first place of the bucket that was returned: whatever becomes of buckets, its rows are there or behind */
};
struct list *dirty_next(const struct dirty *d, struct dirty_walk *w);

/* Many were removed: gives back the memory of what is not needed. */
void dirty_trim(struct dirty *d);

/* All rows have been removed. */
void dirty_release(struct dirty *d);

#endif
