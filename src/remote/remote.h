/* Remote: the store at a DynamoDB endpoint, somewhere else. The second implementation of table/table.h and table/store.h.
 *
 *   any thread                     a worker (of WORKERS)                        the endpoint
 *   submit -> queue (bounded) -->  run: each table call is a signed request --> one truth for many processes
 *                                  done
 *   read_begin … read_end          the caller's own thread asks, and waits
 *
 * What always holds
 * (1) Turns run side by side, here and in other processes: table->alone is false. What a service reads may change before it writes,
 *     so it writes with conditions. A session that only reads is alone in the sense of table.h: nothing rests on it.
 * (2) ERR_OVERLOADED and ERR_THROTTLED: nothing was written. ERR_STORAGE: nobody knows. A transaction carries a token, so whoever
 *     repeats it with the same token has it done once.
 * (3) An expired item is absent to the second, although the endpoint may keep it for days: reads leave it out; conditions and updates
 *     take it for absent (expiry.h).
 * (4) Reads are consistent, except of global indexes, where DynamoDB has none.
 * (5) No call lasts longer than REMOTE_CALL_MS, and no turn waits longer than REMOTE_TURN_MS for all its calls together; tables excepted,
 *     which take REMOTE_TABLE_S to be made or removed. While the endpoint does not answer a call is refused at once (table->backend->out),
 *     but for the one that probes it. */
#ifndef REMOTE_REMOTE_H
#define REMOTE_REMOTE_H

#include "base/clock.h"
#include "outbound/credentials.h"
#include "outbound/retry.h"
#include "table/store.h"

enum {
	REMOTE_WORKERS_DEFAULT = 64,
	REMOTE_WORKERS_MAX = 512,
	REMOTE_CALL_MS = 10000,   /* one table call, with its second tries, unless set */
	REMOTE_TURN_MS = 8000,    /* all table calls of a turn, unless set */
	REMOTE_ATTEMPT_MS = 2000, /* one try, unless set */
	REMOTE_TABLE_S = 120,     /* until a table is ACTIVE, or gone */
	REMOTE_PREFIX_MAX = 64,
	REMOTE_ANSWER_BYTES_MAX = 64 * 1024 * 1024, /* 16 MB of items, as JSON may write them */
};

struct remote;

struct remote_options {
	const char                 *url;          /* "https://dynamodb.eu-west-1.amazonaws.com" */
	const char                 *region;       /* that requests are signed for */
	const char                 *table_prefix; /* of every table's name there; "": none */
	struct aws_credentials     *credentials;  /* outlives the store */
	unsigned                    workers;      /* 0: REMOTE_WORKERS_DEFAULT */
	size_t                      queue_bytes_max;
	struct clock               *clock;                        /* what items, sessions and expiry go by */
	struct clock               *wire_clock;                   /* deadlines, pauses and signatures */
	const struct retry_profile *retry;                        /* NULL: AWS's, for DynamoDB */
	int64_t                     call_ms, turn_ms, attempt_ms; /* 0: REMOTE_CALL_MS and so on */
};

/* ERR_INVALID: an option is wrong. Nothing is asked of the endpoint yet. */
enum err_code remote_open(struct remote **out, const struct remote_options *options, struct err *err);

/* Finishes what was submitted, then closes. */
void remote_close(struct remote *r);

struct store *remote_store(struct remote *r);

/* Requests that were sent so far, second tries included: what a service call costs. */
uint64_t remote_round_trips(struct remote *r);

#endif
