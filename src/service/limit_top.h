/* Limit top: which keys are asked about most, which are refused most, which are written most (hot_keys.h), in bounded memory however many keys there are
 * (Metwally's space-saving sketch: a new key takes the place of the rarest one, and inherits its count as doubt).
 *
 * Counts fade: they are halved every LIMIT_TOP_HALF_LIFE_S, so that the list says what goes on now. A key whose share
 * is large is never missed; counts are at most `doubt` too high. Any thread. */
#ifndef SERVICE_LIMIT_TOP_H
#define SERVICE_LIMIT_TOP_H

#include "base/arena.h"

enum {
	LIMIT_TOP_SHARDS = 16,
	LIMIT_TOP_SLOTS = 16, /* a shard */
	LIMIT_TOP_MAX = LIMIT_TOP_SHARDS * LIMIT_TOP_SLOTS,
	LIMIT_TOP_HALF_LIFE_S = 60,
	LIMIT_TOP_KEY_BYTES_MAX = 384, /* a longer key is cut off */
};

struct limit_top;

struct limit_top *limit_top_open(void);
void              limit_top_close(struct limit_top *t);

struct limit_top_ask {
	struct bytes key;
	uint64_t     hash;   /* any good one of the key, always the same */
	bool         hashed; /* the key holds nothing that a caller sent */
};

/* Returns how many units the key has had in this second. */
uint64_t limit_top_add(struct limit_top *t, const struct limit_top_ask *ask, uint64_t units, int64_t now_us);

struct limit_top_key {
	struct bytes key;
	bool         hashed;
	uint64_t     count, doubt;
	uint64_t     rate; /* units in the last whole second */
};

/* The `max` most frequent, most frequent first, in the arena; *count says how many. */
struct limit_top_key *limit_top_read(struct limit_top *t, struct arena *a, unsigned max, int64_t now_us,
                                     unsigned *count);

#endif
