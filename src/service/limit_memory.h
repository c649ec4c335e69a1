/* Limit memory: the engine that keeps states in this process: fast, bounded, gone with it. Under it a map of small
 * values by key, bounded in bytes, which also remembers what the table engine refused (limit_table.h).
 *
 * The map is divided into shards, each with a lock of its own; several keys are locked together in the order of their
 * shards, so that nobody waits in a circle. Every value has a time from which it is worthless. When a shard is full
 * the expired go first, then the one that expires soonest: forgetting it costs the least.
 *
 * What always holds: bytes counted (entries, their keys, what the allocator and the tables add) <= bytes_max; a value
 * that has expired is never found. */
#ifndef SERVICE_LIMIT_MEMORY_H
#define SERVICE_LIMIT_MEMORY_H

#include "base/hash.h"
#include "service/limit_policy.h"

enum {
	LIMIT_MAP_SHARDS = 64,
	LIMIT_MAP_BYTES_MIN = 1 << 20, /* a shard has room for several of the longest keys */
	LIMIT_MAP_VALUE_BYTES = 40,
	LIMIT_MAP_LOCK_MAX = 16, /* keys locked together */
};

struct limit_map;

/* bytes_max: at least LIMIT_MAP_BYTES_MIN. */
struct limit_map *limit_map_open(size_t bytes_max, struct hash_key seed);
void              limit_map_close(struct limit_map *m);

/* Keys whose shards are locked, by this thread, until unlocked. */
struct limit_map_hold {
	uint64_t hashes[LIMIT_MAP_LOCK_MAX]; /* parallel to the keys */
	uint64_t shards;                     /* bit by shard */
};

void limit_map_lock(struct limit_map *m, const struct bytes *keys, unsigned count,
                    struct limit_map_hold *hold);
void limit_map_unlock(struct limit_map *m, const struct limit_map_hold *hold);

/* ---- with the key's shard locked; `hash` is the hold's; a value is valid until the next put or the unlock ---- */

/* LIMIT_MAP_VALUE_BYTES, aligned for 8; NULL if absent or expired. */
void *limit_map_find(struct limit_map *m, struct bytes key, uint64_t hash, int64_t now_us);

/* The same, but makes it (zeros) if need be; it expires then. */
void *limit_map_put(struct limit_map *m, struct bytes key, uint64_t hash, int64_t expiry_us, int64_t now_us);

/* Expires it now, if it is there. */
void limit_map_forget(struct limit_map *m, struct bytes key, uint64_t hash);

/* ---- any thread ---- */

struct limit_map_stats {
	uint64_t entries, bytes;
	uint64_t evicted; /* while still worth something: the map is too small */
};

struct limit_map_stats limit_map_stats(struct limit_map *m);

/* ---- the engine: any thread ---- */

/* All or nothing, as limit_decide. No two asks have the same key. */
bool limit_memory_take(struct limit_map *m, const struct limit_asks *asks, bool may, int64_t now_us);

/* Gives each ask's cost back; its answer is that of a look afterwards. Without `keep` it only answers. */
void limit_memory_give(struct limit_map *m, const struct limit_asks *asks, bool keep, int64_t now_us);

#endif
