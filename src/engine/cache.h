/* Cache: hot rows in front of the store, as encoded bytes, bounded in bytes. Shared by all threads.
 *
 * A row read from the store may be older than a commit that happens meanwhile; so a reader that missed gets a
 * ticket, and offers what it read with it: the offer is dropped if anything in that part of the cache was
 * committed since.
 *
 *   reader                               writer
 *   cache_get: a miss, and a ticket      cache_commit_begin(key): the old row is no longer served
 *   reads the store                      commits to the store
 *   cache_offer(ticket)                  cache_commit_end(row): the new one is
 *
 * (A1) Between begin and end the key is served from the store alone, so no reader sees the new state and then
 *      the old.
 * (A2) A cached row equals the committed one. */
#ifndef ENGINE_CACHE_H
#define ENGINE_CACHE_H

#include <stdatomic.h>

#include "base/bytes.h"

/* An immutable row, counted references. A row can say that the store has none (absent). */
struct row {
	atomic_uint  refs;
	bool         absent;
	struct bytes key, value; /* in the same allocation */
};

struct row *row_make(struct bytes key, struct bytes value, bool absent); /* with one reference */
void        row_release(struct row *r);

struct cache;

struct cache_ticket {
	uint64_t hash, version;
};

struct cache *cache_open(size_t bytes_max);
void          cache_close(struct cache *c);

/* A new reference to the cached row, or NULL and a ticket. Hashes are the caller's, keyed (state.h). */
struct row *cache_get(struct cache *c, uint64_t hash, struct bytes key, struct cache_ticket *ticket);

/* Takes its own reference if it keeps the row. */
void cache_offer(struct cache *c, const struct cache_ticket *ticket, struct row *row);

/* The writer's thread only. Every begin is followed by an end for the same key; a failed commit passes NULL.
 */
void cache_commit_begin(struct cache *c, uint64_t hash, struct bytes key);
void cache_commit_end(struct cache *c, uint64_t hash, struct bytes key, struct row *row);

struct cache_stats {
	uint64_t hits, misses;
	size_t   bytes;
};

struct cache_stats cache_stats(struct cache *c);

#endif
