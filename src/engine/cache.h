/* Cache: hot rows in front of the store, as encoded bytes, bounded in bytes. Shared by all threads.
 *
 * A committed row comes here first and into the store later (settle.h), so that a row which changes a hundred
 * times is put into the store once. Until then it is unsettled, and stays here whatever the bound says.
 *
 * A row read from the store may be older than a commit that happens meanwhile; so a reader that missed gets a
 * ticket, and offers what it read with it: the offer is dropped if anything in that part of the cache was
 * committed since.
 *
 * (A1) A cached row is the committed one, from the moment on that it is committed.
 * (A2) A row that is not cached is in the store as it was committed. */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/list.h"

enum { CACHE_SHARDS = 64 };

/* An immutable row, counted references. A row can say that there is none (absent). */
struct row {
	atomic_uint  refs;
	bool         absent;
	uint64_t     hash;       /* of the key, the caller's, keyed (state.h) */
	struct bytes key, value; /* in the same allocation */

	/* the cache's, under its lock */
	bool        used; /* since the hand passed */
	bool        unsettled;
	struct row *next; /* in the bucket */
	struct list ring;
};

struct row *row_make(uint64_t hash, struct bytes key, struct bytes value,
                     bool absent); /* with one reference */
void        row_release(struct row *r);

struct cache;

struct cache_ticket {
	uint64_t version;
};

struct cache *cache_open(size_t bytes_max);
void          cache_close(struct cache *c);

/* A new reference to the cached row, or NULL and a ticket. */
struct row *cache_get(struct cache *c, uint64_t hash, struct bytes key, struct cache_ticket *ticket);

/* Takes its own reference if it keeps the row. */
void cache_offer(struct cache *c, const struct cache_ticket *ticket, struct row *row);

/* ---- one thread at a time: settle.c's lock ---- */

/* A committed row; takes over the reference. `settled`: the store has it already. */
void cache_commit(struct cache *c, struct row *row, bool settled);

/* Bytes of unsettled rows. */
size_t cache_unsettled_bytes(struct cache *c);

/* The unsettled rows of one shard, in no order: up to `max` are put into `rows`. Returns how many there are.
 * They stay as they are until cache_settled, which says that the store has all of the shard's. */
size_t cache_unsettled(struct cache *c, unsigned shard, struct row **rows, size_t max);
void   cache_settled(struct cache *c, unsigned shard);

struct cache_stats {
	uint64_t hits, misses;
	size_t   bytes;
};

struct cache_stats cache_stats(struct cache *c);

#endif
