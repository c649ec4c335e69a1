/* Hash: SipHash with one compression round per word and three at the end. */
#include "base/hash.h"

static inline uint64_t rotate_left(uint64_t x, int by)
{
	return (x << by) | (x >> (64 - by));
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate_left(v[1], 13) ^ v[0];
	v[0] = rotate_left(v[0], 32);
	v[2] += v[3];
	v[3] = rotate_left(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate_left(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate_left(v[1], 17) ^ v[2];
	v[2] = rotate_left(v[2], 32);
}

/* The last few bytes, less than a word, the first one lowest. */
static inline uint64_t rest_of(struct bytes b, size_t count)
{
	uint64_t word = 0;

	if (count == 0)
		return 0;
	if (b.len >= 8) { /* at once, with some that were hashed already */
		memcpy(&word, b.data + b.len - 8, 8);
		return word >> (64 - 8 * count);
	}
	memcpy(&word, b.data, count);
	return word;
}

uint64_t hash_bytes(struct hash_key key, struct bytes b)
{
	uint64_t v[4] = {key.k0 ^ 0x736f6d6570736575u, key.k1 ^ 0x646f72616e646f6du,
	                 key.k0 ^ 0x6c7967656e657261u, key.k1 ^ 0x7465646279746573u};
	uint64_t word;
	size_t   at = 0;

	for (; at + 8 <= b.len; at += 8) {
		memcpy(&word, b.data + at, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	word = (uint64_t)b.len << 56 | rest_of(b, b.len - at);
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
