/* Cache: hot rows in front of the store, as encoded bytes, bounded in bytes. Shared by all threads.
 *
 * A committed row comes here first and into the store later (write_back.h), so that a row which changes a hundred
 * times is put into the store once. Until then it is dirty, and stays here whatever the bound says. Only what is new to a large
 * partition goes past it (cache_pass).
 *
 * A row read from the store may be older than a commit that happens meanwhile; so a reader that missed gets a
 * ticket, and offers what it read with it: the offer is dropped if anything in that part of the cache was
 * committed since.
 *
 * (A1) A cached row is the committed one, from the moment on that it is committed.
 * (A2) A row that is not cached is in the store as it was committed.
 *
 * Hashes are the caller's, of the key, keyed (state.h). */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/list.h"

enum { CACHE_SHARDS = 64 };

struct cache;

struct cache *cache_open(size_t bytes_max, struct hash_key hash_key);
void          cache_close(struct cache *c);

enum cache_found {
	CACHE_MISS,
	CACHE_ABSENT, /* there is no such row */
	CACHE_FOUND,
};

struct cache_ticket {
	uint64_t version;
};

/* The value is copied into the arena. After a miss, *ticket is filled. */
enum cache_found cache_get(struct cache *c, uint64_t hash, struct bytes key, struct arena *a,
                           struct bytes *value, struct cache_ticket *ticket);

/* What the store has, which may be that there is no such row. */
void cache_offer(struct cache *c, const struct cache_ticket *ticket, uint64_t hash, struct bytes key,
                 struct bytes value, bool absent);

/* Several rows will be asked for: has the memory on its way, all at once. */
void cache_expect(struct cache *c, const uint64_t *hashes, size_t count);

/* The first half of that, for one row: there is something else to do before the second. */
void cache_expect_bucket(struct cache *c, uint64_t hash);

/* ---- loading a partition: any thread, partition.h ---- */

/* Returns a token; 0: it is not to be loaded. What is offered with it was read from the store since. */
uint32_t cache_load_begin(struct cache *c, struct bytes key);
void     cache_load_row(struct cache *c, uint32_t token, uint64_t hash, struct bytes key, struct bytes value);
/* `complete`: these were all; `large`: there are too many. */
void cache_load_end(struct cache *c, uint32_t token, struct bytes key, bool complete, bool large);

/* ---- one thread at a time: write_back.c's lock ---- */

/* A row as committed; it is dirty from now on. */
struct cache_row {
	struct bytes key, value;
	bool         absent;
	bool         first; /* of its partition: there was none before, for certain */
};
void cache_commit(struct cache *c, uint64_t hash, const struct cache_row *row);

/* Is a row that is new to this partition (the hash of layout.h) to come here? To a large one, such as a log, rows are added that hardly
 * anybody changes: they would wait here for the store, and take the place of others. */
bool cache_wants(struct cache *c, uint64_t partition);

/* Such a row is in the store, or in the tail (tail.h). One of its key that is here goes; or, if it is dirty, is as committed from now
 * on, and says so. */
bool cache_pass(struct cache *c, uint64_t hash, const struct cache_row *row);
/* The same of their partition, by its hash and the key of any of them. */
void cache_pass_partition(struct cache *c, uint64_t partition, struct bytes key);

/* Bytes of dirty rows. */
size_t cache_dirty_bytes(struct cache *c);

struct cache_rows {
	struct cache_row *list;
	size_t            count;
};

/* All rows from low to high, which must be of one partition, if they are known to be cached (partition.h): copies in the arena, in no
 * order, absent ones too. Without write_back.c's lock only by the writer. */
bool cache_partition_between(struct cache *c, struct bytes low, struct bytes high, struct arena *a,
                             struct cache_rows *rows);

/* The same of all rows whose keys begin as this one does (layout_partition_head), if they are few. */
bool cache_partition_small(struct cache *c, struct bytes key, struct arena *a, struct cache_rows *rows);

/* This row, if it is dirty, copied into the arena. */
bool cache_dirty_row(struct cache *c, uint64_t hash, struct bytes key, struct arena *a,
                     struct cache_row *row);

/* The dirty rows of the partition of a key, in no order. They stay as they are while the lock is held. */
typedef void (*cache_each)(void *ctx, const struct cache_row *row);
void cache_dirty_each_in(struct cache *c, struct bytes key, cache_each each, void *ctx);

/* The dirty rows from low to high (excluded), and some that lie next to them, forward or backward: those of one bucket (dirty.h) in no order, but before those
 * of the next one. `enough` is asked before each bucket. */
struct cache_walk {
	struct bytes low, high;
	bool         backward;
	cache_each   each;
	bool (*enough)(const void *ctx);
};
void cache_dirty_walk(struct cache *c, const struct cache_walk *walk, void *ctx);

/* The dirty rows with keys from low to high (excluded) are not to come into the store: their table is gone. */
void cache_forget(struct cache *c, struct bytes low, struct bytes high);

/* Some dirty rows, up to `max`, nearly in the order of their keys. They stay as they are until cache_clean, which says that the store has them; then the next
 * ones are next. */
struct cache_some {
	uint64_t from;  /* where they begin; 0: at the first */
	size_t   count; /* of those that were given */
	bool     more;  /* there were, behind them. If not, the next ones are the first again */
};
void cache_dirty(struct cache *c, struct cache_some *some, struct cache_row *rows, size_t max);
void cache_clean(struct cache *c, struct cache_some *some);

struct cache_stats {
	uint64_t hits, misses;
	size_t   bytes;
};

struct cache_stats cache_stats(struct cache *c);

#endif
