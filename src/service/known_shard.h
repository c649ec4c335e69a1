/* Known shard: one of the parts that the memory of last_known.h is divided into. Partitions, in lists by their standing (1b), and their rows.
 * Internal to last_known.c. All but open and close under the shard's lock. */
#ifndef SERVICE_KNOWN_SHARD_H
#define SERVICE_KNOWN_SHARD_H

#include <pthread.h>

#include "base/list.h"
#include "service/known_rows.h"

struct known_row {
	struct known_row *next; /* newest first */
	int64_t           learned_us;
	bool              prefix; /* not a row: all that begin like this are known */
	bool              found;
	int64_t           guards_us; /* it stands against somebody until then; 0: it does not */
	uint32_t          sk_len, item_len;
	char              text[]; /* sort key, item */
};

/* (1b) In the order in which they are forgotten; pinned ones are not. */
enum known_standing { STRANGER, RETURNING, GUARDED, PINNED, STANDINGS };

struct known_partition {
	struct list             used; /* among those of its standing, least recently used first */
	enum known_standing     standing;
	struct known_partition *next; /* in the bucket */
	struct known_row       *rows;
	uint32_t                row_count;
	uint32_t                pins;
	int64_t                 denied_us; /* when it was refused; 0: it was not */
	int64_t                 first_us;  /* when something was first put; 0: nothing was */
	int64_t                 guards_us; /* the last end of its rows' */
	bool                    returned;
	size_t                  bytes;
	uint64_t                hash;
	size_t                  pk_len;
	uint8_t                 which;
	char                    pk[];
};

struct known_shard {
	pthread_mutex_t          lock;
	struct known_partition **buckets;
	size_t                   bucket_count;
	struct list              used[STANDINGS];
	size_t                   standing_bytes[STANDINGS];
	size_t                   bytes, bytes_max;
	uint64_t                 partitions, forgotten, guards_forgotten;
};

void known_shard_open(struct known_shard *s, size_t bytes_max);
void known_shard_close(struct known_shard *s);

/* NULL: nothing is known of it. It was used now. */
struct known_partition *known_shard_find(struct known_shard *s, uint64_t hash, enum service_table which,
                                         struct bytes pk);

/* Made, if nothing is known of it. */
struct known_partition *known_shard_get(struct known_shard *s, uint64_t hash, enum service_table which,
                                        struct bytes pk);

/* So many attempts more, or fewer, wait that are about it. */
void known_shard_pin(struct known_shard *s, struct known_partition *p, bool more);

/* items: as they are encoded. */
void known_shard_put(struct known_shard *s, struct known_partition *p, const struct known_write *list,
                     const struct bytes *items, uint32_t count);

/* Where that row is, or would be. */
struct known_row **known_partition_row(struct known_partition *p, struct bytes sk, bool prefix);

#endif
