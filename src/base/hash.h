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

#endif
