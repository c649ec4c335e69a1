/* Filter: which rows, and which partitions, may be there. "It lacks this one" is certain and costs one line of memory, where the store
 * would look into its files. What was deleted stays in the filter until it is made anew.
 *
 *   none        nothing is known: it lacks nothing
 *   building    filter_build_begin: what is committed from here on goes in as it is published (write_back.c); what was there before
 *               is read from a snapshot meanwhile (filter_builder.c). One that is complete stays in use
 *   complete    filter_build_end
 *
 * (F1) A row that is committed, and its partition, are in a complete filter before anyone can see the row.
 * (F2) A filter that is replaced under a reader's eyes lacks nothing.
 *
 * Hashes: of the row's key, and of the partition (layout.h), both keyed (state.h).
 * Any thread asks, without a lock. The rest is said at each function. */
#ifndef ENGINE_FILTER_H
#define ENGINE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct filter;

/* Takes no memory before it is built. NULL if there is no address space: then the engine does without. */
struct filter *filter_open(size_t bytes_max);
void           filter_close(struct filter *f);

/* Is it certain that there is none? Also of NULL. */
bool filter_lacks(const struct filter *f, uint64_t hash);
/* It will be asked for, or added: has its memory on the way. */
void filter_expect(const struct filter *f, uint64_t hash);
/* Several at once: puts those that it does not lack into `out`, and returns how many. */
size_t filter_choose(const struct filter *f, const uint64_t *hashes, size_t count, uint64_t *out);

/* ---- one thread at a time: write_back.c's lock ---- */

/* Is a new one being built? Also of NULL. */
bool filter_is_building(const struct filter *f);

void filter_add(struct filter *f, uint64_t hash);

/* Begins a new one, with room for so many entries, if bytes_max allows. False if there is no memory. */
bool filter_build_begin(struct filter *f, uint64_t entries);
/* If it is complete, it is in use from now on; otherwise it is given up. */
void filter_build_end(struct filter *f, bool complete);

/* ---- the thread that builds ---- */

void filter_build_add(struct filter *f, uint64_t hash);

/* ---- any thread ---- */

/* So many rows are there no longer. */
void filter_note_deleted(struct filter *f, uint64_t rows);

/* Is there none, or is the one in use too full, or full of what was deleted? */
bool filter_is_due(const struct filter *f, uint64_t entries_min);

struct filter_stats {
	bool     complete;
	uint64_t builds, entries;
	size_t   bytes;
};

struct filter_stats filter_stats(const struct filter *f);

#endif
