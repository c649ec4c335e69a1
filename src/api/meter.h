/* Meter: what the door answered, by operation and outcome, and how long it took. Both sets are tables of
 * ours (operations.c, base/err.h), so a peer cannot make them grow.
 *
 * Each loop adds to a shard of its own (with many loops some share one), so that adding stays off the other
 * cores' cache lines; reading adds the shards up. Any thread may read. */
#ifndef API_METER_H
#define API_METER_H

#include <stdalign.h>

#include "api/operations.h"
#include "base/metric.h"

#define METER_ONE_MORE(code, status, name) +1

enum {
	METER_SHARDS = 8,
	METER_OPERATIONS_MAX = 31,                    /* a test holds the table to it */
	METER_OUTCOMES = 1 ERR_CODES(METER_ONE_MORE), /* ERR_NONE and every code */
};

struct meter_row {
	struct metric_counter   outcomes[METER_OUTCOMES];
	struct metric_histogram latency; /* microseconds */
};

struct meter_shard {
	alignas(64) struct meter_row rows[METER_OPERATIONS_MAX + 1]; /* the first: no operation of ours */
};

struct meter {
	struct meter_shard shards[METER_SHARDS];
};

/* One answer. operation: NULL if the request named none of ours. */
void meter_note(struct meter_shard *s, const struct operation *operation, enum err_code outcome,
                int64_t micros);

/* All shards together. */
uint64_t meter_requests(const struct meter *m, const struct operation *operation, enum err_code outcome);
struct metric_reading meter_latency(const struct meter *m, const struct operation *operation);

#endif
