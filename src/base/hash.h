/* Hash: SipHash-1-3. Keyed per process for tables in memory, so that a peer cannot choose colliding keys;
 * with a fixed key (HASH_KEY_STABLE) where the result is stored on disk. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/bytes.h"

struct hash_key {
	uint64_t k0, k1;
};

#define HASH_KEY_STABLE ((struct hash_key){0x0706050403020100u, 0x0f0e0d0c0b0a0908u})

uint64_t hash_bytes(struct hash_key key, struct bytes b);

/* FNV-1a, for rows that are spread over shards: the same for ever, since a row's shard is part of its key. Texts one after the other: begin
 * with HASH_FNV, and put a byte between them that neither holds. */
#define HASH_FNV UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_fnv(uint64_t hash, struct bytes b)
{
	for (size_t i = 0; i < b.len; i++)
		hash = (hash ^ (uint8_t)b.data[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static inline uint32_t hash_shard(uint64_t hash, uint32_t shards)
{
	return shards > 1 ? (uint32_t)((hash >> 32) % shards) : 0;
}

#endif
