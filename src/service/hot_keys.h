/* Hot keys: which partition keys take the most write units, of all tables of services. At a DynamoDB endpoint one partition takes
 * about 1,000 write units per second; past that it throttles. Counted where all writes pass (change.c), on tables that are not alone;
 * a process sees its own writes only. The counting is limit_top.h's: bounded memory, counts that fade.
 *
 * A key that takes `warn_units` within a second is told in the log, as a hash, and counted. Any thread. */
#ifndef SERVICE_HOT_KEYS_H
#define SERVICE_HOT_KEYS_H

#include "base/hash.h"
#include "service/identifier.h"
#include "service/limit_top.h"

enum {
	HOT_KEYS_WARN_UNITS = 500, /* unless set */
	HOT_KEYS_WARN_EVERY_S = 10,
	HOT_KEYS_UNIT_BYTES = 1024, /* of an item that is written */
};

struct hot_keys;

struct hot_keys_options {
	struct hash_key              seed; /* random */
	const struct identifier_key *identifiers;
	uint64_t                     warn_units;
};

struct hot_keys *hot_keys_open(const struct hot_keys_options *options);
void             hot_keys_close(struct hot_keys *h);

/* Write units that a partition is asked for, whether or not they are written. h NULL: nobody counts. */
void hot_keys_add(struct hot_keys *h, struct bytes table, struct bytes pk, uint64_t units, int64_t now_us);

/* ---- watching ---- */

struct hot_key {
	struct bytes table, pk; /* pk: cut if it is very long */
	struct bytes hash;      /* as the log tells it */
	uint64_t     units;     /* of about the last two minutes, at most `doubt` too high */
	uint64_t     doubt;
	uint64_t     rate; /* in the last whole second */
};

/* The `max` hottest, in the arena; returns how many. */
unsigned hot_keys_read(struct hot_keys *h, struct arena *a, unsigned max, int64_t now_us,
                       struct hot_key *out);

uint64_t hot_keys_warn_units(const struct hot_keys *h);
uint64_t hot_keys_seconds(struct hot_keys *h); /* in which a key took that much */

#endif
