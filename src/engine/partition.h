/* Partition: which cached rows are of the same partition (layout.h), and whether they are all that there are. A Query of a partition
 * that is known to be whole needs nothing from the store, and costs the same however many other rows there are. Used by cache.c.
 *
 * A partition becomes whole when its first row is committed (the filter knows that there was none before), or when it is loaded:
 *
 *   partition_load_begin     a token
 *   the store is walked      from then on, or from later
 *   partition_join           each row that the cache lacks
 *   partition_load_end       it is whole
 *
 * (P1) Of a whole partition every committed row is cached.
 * (P2) A token is void once any row of the partition has left the cache, or went past it into the store: it may have changed since
 *      the store was walked, so neither what was read of it may be cached, nor is the partition whole. What changes without leaving
 *      does no harm: the cache has it, and partition_join is not called for it.
 *
 * A row enters and leaves under its shard's lock. The partition's lock is taken after that. */
#ifndef ENGINE_PARTITION_H
#define ENGINE_PARTITION_H

#include "base/hash.h"
#include "engine/cache_row.h"

enum {
	PARTITION_BYTES = 64,           /* that one takes, with its bucket and what the allocator takes */
	PARTITION_WHOLE_ROWS_MAX = 256, /* that a whole one may have: a query looks at each */
	PARTITION_COPY_MAX = 256 << 10, /* bytes that are copied for one */
	PARTITION_SMALL_ROWS_MAX = 8,   /* that a small one may have … */
	PARTITION_SMALL_BYTES_MAX = 8 << 10, /* … and their bytes */
};

struct partitions;

/* The key is that of hashes of row keys (state.h). */
struct partitions *partitions_open(struct hash_key hash_key);
/* After all rows have gone. */
void partitions_close(struct partitions *p);

/* The row comes into the cache. `first`: its partition had none before, for certain. */
void partition_enter(struct partitions *p, struct row *r, bool first);
/* The same of one that was loaded. False if the token is void (P2): then it must not come. */
bool partition_join(struct partitions *p, struct row *r, uint32_t token);
/* Another row of the same key takes its place. */
void partition_replace(struct partitions *p, struct row *old, struct row *new);
/* It leaves the cache. */
void partition_leave(struct partitions *p, struct row *r);
/* It became dirty, or clean. */
void partition_sort(struct partitions *p, struct row *r);

/* Was it found to be too large to be whole? By its hash (layout.h). Some that were found so are forgotten again. */
bool partition_is_large(struct partitions *p, uint64_t hash);
/* A row of it went into the store, past the cache. */
void partition_pass(struct partitions *p, uint64_t hash, struct bytes key);

/* 0: not now, since another thread loads it; or not at all, since it was found to be too large. */
uint32_t partition_load_begin(struct partitions *p, struct bytes key);
enum partition_loaded { PARTITION_LOADED, PARTITION_LOAD_FAILED, PARTITION_TOO_LARGE };
void partition_load_end(struct partitions *p, struct bytes key, uint32_t token, enum partition_loaded how);

/* Copies in the arena, in no order, absent ones too: all rows from low to high, if it is whole. Otherwise false. No row may change meanwhile: the caller is the writer, or holds write_back.c's lock. */
bool partition_copy(struct partitions *p, struct bytes low, struct bytes high, struct arena *a,
                    struct cache_rows *rows);
/* The dirty rows of the partition of this key, in no order, by a caller as above. */
void partition_dirty_each(struct partitions *p, struct bytes key, cache_each each, void *ctx);
/* All rows of the partition of this key, if it is whole and small. */
bool partition_copy_small(struct partitions *p, struct bytes key, struct arena *a, struct cache_rows *rows);

#endif
