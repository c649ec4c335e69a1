/* Last known: what was last read or written of a few tables that are elsewhere, and a table that answers from it. While the endpoint
 * does not answer, services decide on that table as they do on any: a lock that was known still locks, a state that blocks still
 * blocks, a count goes on where it was. It also answers for subjects that were refused a moment ago (known_denied), so that an
 * attack on a locked subject costs its reads once.
 *
 *   context.h reads, change.h commits -> known_learn …           a session of known_begin reads, and writes back
 *
 * What always holds
 * (1) Memory is bounded by bytes; partitions that nobody asked about for longest are forgotten first, except those that are pinned.
 *     A partition keeps KNOWN_ROWS_MAX rows.
 * (1b) Strangers push out strangers. What stands against somebody (a lock, a state, a user who is not active, a revocation) has up to half
 *     of the memory, and with those who came again after KNOWN_RETURN_S up to seven eighths: whoever tries many names once makes
 *     nobody forgotten whom a lock keeps out. The same holds for the rows of a partition: what stands against somebody is the last to go.
 * (2) That a row is absent is knowledge too. A row of which nothing is known is absent to a session, which then says so: `unknown`. If a
 *     row is not remembered, neither is that all rows with its prefix are. A row that a query of all no longer finds is gone.
 * (3) What is learned of a pinned partition is not taken: it lacks what waits to be merged (outage.h). Locks and states that this
 *     process committed are.
 * (4) Nothing older than the session's `since_us` is known to it.
 *
 * Any thread; sessions belong to one each. */
#ifndef SERVICE_LAST_KNOWN_H
#define SERVICE_LAST_KNOWN_H

#include "base/hash.h"
#include "service/row.h"
#include "table/table.h"

enum {
	KNOWN_SHARDS = 16,
	KNOWN_ROWS_MAX = 128,            /* of one partition, with the prefixes that were asked for */
	KNOWN_ROW_BYTES_MAX = 16 * 1024, /* a larger one is not remembered */
	KNOWN_BYTES_MIN = 1 << 20,
	KNOWN_RETURN_S = 60,
};

struct known;

struct known_options {
	size_t  bytes_max;
	int64_t denied_us; /* how long a refusal is remembered; 0: not at all */
	int64_t token_us;  /* how old what is known of a token's subject may be; 0: nothing is new enough */
	bool    of_limits; /* it remembers rows of limits, and nothing else */
	struct hash_key seed; /* random */
};

struct known *known_open(const struct known_options *options);
void          known_close(struct known *k);

/* ---- learning ---- */

/* item NULL: there is no such row. sk.data NULL: the table has no sort key. */
void known_learn(struct known *k, enum service_table which, const struct looked *row, int64_t now_us);

/* All rows of a partition whose sort keys begin like that. */
void known_learn_rows(struct known *k, enum service_table which, const struct expr_key_condition *key,
                      const struct table_query_result *rows, int64_t now_us);

/* This was committed at the endpoint. */
void known_wrote(struct known *k, const struct service_tables *tables, const struct table_write *list,
                 uint32_t count, int64_t now_us);

/* ---- subjects ---- */

/* (3), as often as it is unpinned. A partition of a table: a subject, or an answer that is kept. */
void     known_pin(struct known *k, enum service_table which, struct bytes pk);
void     known_unpin(struct known *k, enum service_table which, struct bytes pk);
uint32_t known_pins(struct known *k, struct bytes subject);

/* It was refused now; was it, less than denied_us ago? */
void known_deny(struct known *k, struct bytes subject, int64_t now_us);
bool known_denied(struct known *k, struct bytes subject, int64_t now_us);

/* ---- sessions ---- */

struct known_session {
	struct table                 base; /* first */
	struct known                *known;
	const struct service_tables *tables;
	int64_t                      since_us; /* (4) */
	struct bytes                 source;   /* a partition that may be unknown */
	bool                         unknown;  /* a row was asked for of which nothing is known */
	int64_t oldest_us; /* since then this was not learned again of subjects, users or tokens that was asked for */
};

/* A session that is alone. Its writes are remembered as if they had been read. */
void known_begin(struct known_session *s, struct known *k, const struct service_tables *tables,
                 int64_t now_us);

/* Of a table: is it such a session, and did it lack something? */
bool known_lacked(const struct table *t);

/* … and is something that it was asked for, or lacked, too old to judge a token by? */
bool known_is_old(const struct table *t);

/* NULL: it is no such session. */
const struct known_session *known_session_of(const struct table *t);

struct known_numbers {
	uint64_t partitions, forgotten;
	uint64_t guards_forgotten; /* of these: something stood against them */
	size_t   bytes;
};

struct known_numbers known_read(struct known *k);
int64_t              known_denied_us(const struct known *k);
int64_t              known_token_us(const struct known *k);

#endif
