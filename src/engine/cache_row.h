/* Cache row: a cached row as cache.c and partition.c share it. Nobody else knows it. */
#ifndef ENGINE_CACHE_ROW_H
#define ENGINE_CACHE_ROW_H

#include <stdatomic.h>

#include "engine/cache.h"

struct part;

struct row {
	/* under the shard's lock */
	struct row *next; /* in the bucket */
	uint64_t    hash;
	struct list ring;
	uint32_t    key_len, value_len, room; /* room: for the value */
	atomic_bool used;                     /* since the hand passed. Any thread may set it */

	/* changed under the shard's lock and write_back.c's: whoever holds either may read it */
	bool absent; /* there is none: no value */
	bool dirty;

	/* under the lock of its partition */
	struct list  in_part;
	struct part *part; /* set once, before others see the row */

	char bytes[]; /* key, value: as `absent` */
};

static inline struct bytes row_key(const struct row *r)
{
	return (struct bytes){r->bytes, r->key_len};
}

static inline struct bytes row_value(const struct row *r)
{
	return (struct bytes){r->bytes + r->key_len, r->value_len};
}

static inline void row_use(struct row *r)
{
	atomic_store_explicit(&r->used, true, memory_order_relaxed);
}

#endif
