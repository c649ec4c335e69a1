/* Logs: which rows of the store are in the family of logs (rocks.h R2), by their keys. Knows nothing of RocksDB.
 *
 *   rocks.c    a key, or a range of keys: in which family? logs_found, of those that a start finds in the store
 *   a writer   logs_take: a row behind all others of its partition. If the partition is no log yet, one is wanted, and begins with a row that comes after a
 *              whole flush: rows that were deleted there before have then left the files of the other family, too
 *
 * A log stays one until the process ends, and where it begins does not change. So a number of logs says which there were at some moment: readers of a
 * snapshot ask with that of then.
 *
 * Any thread asks; one at a time takes. */
#ifndef ENGINE_LOGS_H
#define ENGINE_LOGS_H

#include <stdatomic.h>

#include "base/arena.h"

enum { LOGS_MAX = 16 };

struct log_range {
	struct bytes low, high; /* from its first row to the end of its partition */
};

struct log_wanted {
	uint64_t number;      /* of its partition (layout.h) */
	uint64_t after_flush; /* the first that holds what was applied before it was wanted */
};

struct logs {
	/* any thread, as many as `count` says */
	struct log_range list[LOGS_MAX];
	atomic_size_t    count;

	atomic_ullong flushes_begun, flush_done; /* whole ones; the last that was done */

	/* the thread that takes */
	struct arena      arena;
	struct log_wanted wanted[LOGS_MAX];
	size_t            wanted_count;
};

void logs_init(struct logs *l);
void logs_release(struct logs *l);

size_t logs_count(const struct logs *l);

/* Of the first `count`: is the key in one of them? Does the range reach into one? *inside: it is all of one. */
bool logs_have(const struct logs *l, size_t count, struct bytes key);
bool logs_meet(const struct logs *l, size_t count, struct log_range range, bool *inside);

/* A log that is in the store; the key is that of its first row. NULL: there are too many. */
const struct log_range *logs_found(struct logs *l, struct bytes key);

/* rocks.h, rocks_log_takes */
bool logs_take(struct logs *l, struct bytes key);

/* All that was applied before is in the store's files, if it is done. */
uint64_t logs_flush_begin(struct logs *l);
void     logs_flush_done(struct logs *l, uint64_t flush);

#endif
