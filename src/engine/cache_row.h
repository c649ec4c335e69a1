/* Cache row: a cached row as cache.c and partition.c share it. Nobody else knows it. */
#ifndef ENGINE_CACHE_ROW_H
#define ENGINE_CACHE_ROW_H

#include <assert.h>
#include <stdatomic.h>

#include "engine/cache.h"

struct part;

/* There are millions: what it takes beside its bytes is one line of memory. */
struct row {
	/* under the shard's lock */
	struct row *next; /* in the bucket */

	/* of a row that may go under the shard's lock, of a dirty one under write_back.c's (dirty.h) */
	struct list ring;

	/* under the lock of its partition */
	struct list  in_part;
	struct part *part; /* set once, before others see the row */

	/* under the shard's lock */
	uint32_t    hash; /* as much of it as says in which shard and bucket (cache.c) */
	uint16_t    key_len;
	atomic_bool used; /* since the hand passed. Any thread may set it */

	/* changed under the shard's lock and write_back.c's: whoever holds either may read it. Rows are written back by any thread, but what a
	 * row is changes with a commit only: so the writer may read that without a lock, and it has no byte in common with `dirty` */
	bool     dirty;
	uint32_t value_len;
	uint32_t room : 31;  /* for the value: set once */
	uint32_t absent : 1; /* there is none: no value */
	char     bytes[];    /* key, value */
};

static_assert(sizeof(struct row) == 64, "a row's head is one line of memory");

static inline struct bytes row_key(const struct row *r)
{
	return (struct bytes){r->bytes, r->key_len};
}

static inline struct bytes row_value(const struct row *r)
{
	return (struct bytes){r->bytes + r->key_len, r->value_len};
}

/* As it lies here. */
static inline struct cache_row row_look(const struct row *r)
{
	return (struct cache_row){.key = row_key(r), .value = row_value(r), .absent = r->absent};
}

static inline void row_use(struct row *r)
{
	atomic_store_explicit(&r->used, true, memory_order_relaxed);
}

#endif
