/* Outage: what services do while the tables, which are elsewhere, do not answer.
 *
 *   a call that cannot reach its tables -> the same call, on what was last known (last_known.h)      -> "degraded": true
 *   an attempt that changes something   -> and a record in the spool (spool.h), durable before it is answered
 *   the tables answer again             -> outage_merge, record by record: the attempt is recorded at its own time
 *
 * What always holds
 * (1) An attempt that was answered is counted once: by its own commit or by the merge of its record, never by both. The merge writes a
 *     marker (idempotency.h) in the same transaction as the counts: the caller's Idempotency-Key, or a random one. So whatever
 *     crashes between the commit and the end of the record, a second merge finds the first. An attempt that is older than its marker could be
 *     is void: one with the caller's key after OUTAGE_KEYED_S, because its own commit may have kept that key's row; others after
 *     OUTAGE_MARK_S.
 * (2) A call whose own commit may have been done is taken over only if it has an Idempotency-Key: then the merge finds what was done.
 *     Without one it is answered as unknown.
 * (3) Attempts of one subject are merged in the order they were made in, also those of several subjects. While some of a subject's wait, calls about it go on being
 *     answered from what is known here, and recorded here: the tables lack what waits.
 * (4) A merge happens at the time of its attempt. A count or lock that would have ended meanwhile is over; what others
 *     changed since stands (context.h, `late`).
 *     Nothing is written about whoever was erased since, or is being erased (erased.h): the attempt is void. So is one of the minute after an
 *     erasure: the clocks of the two processes may differ by that.
 * (5) Of a subject of which nothing is known, the policy decides: `on_failure: closed` refuses, `open` lets it try.
 * (6) A token is judged many times, and nobody counts it. So what is known of its subject has a greatest age (`token_us`): past it the policy
 *     decides as if nothing were known. What stands against somebody does so at any age.
 * (7) No process sees what others count meanwhile. So a failure counts for as many as there are processes, and the budget of a subject is divided between them. A process
 *     allows one guess at least. The record is one failure, and so is what is merged.
 *
 * Any thread. */
#ifndef SERVICE_OUTAGE_H
#define SERVICE_OUTAGE_H

#include <pthread.h>

#include "base/metric.h"
#include "service/attempt.h"
#include "service/idempotency.h"
#include "service/last_known.h"
#include "service/spool.h"

enum {
	OUTAGE_RETRY_S = 5, /* what a caller is told to wait who is refused because of (5) */
	OUTAGE_KNOWN_MB = 64,
	OUTAGE_LIMITS_MB = 8,
	OUTAGE_SPOOL_MB = 64,
	OUTAGE_SPOOL_RECORDS = 200000,
	OUTAGE_SUBJECT_RECORDS = 1000, /* of one subject: nobody fills the spool alone */
	OUTAGE_DENIED_MS = 1000,
	OUTAGE_TOKEN_S = 60,
	OUTAGE_MARK_S = 90 * 86400, /* (1) */
	OUTAGE_KEYED_S = 7 * 86400, /* the same; less than IDEMPOTENCY_MARK_S */
};

/* What (5) and (6) say. */
#define OUTAGE_REASON "outage"

/* Whose the marker is of an attempt without a key (1). */
#define OUTAGE_CALLER "spool"

struct outage {
	struct known *known;
	struct known *
	        limit_rows; /* of limits: never an answer, only what the next write of a row begins with (single.h) */
	struct spool *spool;
	unsigned      processes; /* that are expected to share the tables; 0: 1 */
	/* One decision at a time, so that each sees what the one before it changed. */
	pthread_mutex_t turn;

	struct metric_counter answers; /* from what was known */
	struct metric_counter denied;  /* answers that were remembered, with all in order */
	struct metric_counter spooled, merged, found,
	        void_;                 /* found: had been merged; void: not countable any more */
	struct metric_counter refused; /* the spool was full, or its share for the subject */
	struct metric_counter retried; /* merges that failed, and are tried again */
};

/* The subject's part of (3), and of known_denied. NULL services->outage: tables are here. */
bool outage_holds(struct outage *o, const struct attempt *who);

/* So many attempts of one of its subjects wait that no more are taken. */
bool outage_share_is_full(struct outage *o, const struct attempt *who);

/* For assess.h: (5), on a session that lacked something. */
void outage_judge(const struct context *ctx, bool closed, struct verdict *v);

/* For token_judge.h: (6). True: it is refused, and only because too little is known. */
bool outage_judge_token(const struct context *ctx, bool closed, struct verdict *v);

/* ---- records ---- */

/* An attempt as it was made. */
struct spooled {
	struct attempt     q;     /* its rule is found by the next; its subjects are all ids of the person */
	uint32_t           named; /* of these, so many were named: the first; 0: all */
	struct bytes       journey, type;
	enum outcome       outcome;
	int64_t            at_us;
	struct idempotency once; /* (1) */
	int                status;
	struct bytes       body; /* what it was answered, for a keyed one */
	struct bytes       trace;
};

void          spooled_encode(struct buf *out, const struct spooled *s);
enum err_code spooled_decode(struct arena *a, struct bytes in, struct spooled *out, struct err *err);

/* Under `turn`. Pins its subjects. Then, without it, spool_sync. ERR_OVERLOADED: no room. */
enum err_code outage_record(struct outage *o, struct arena *a, const struct spooled *s, uint64_t *number,
                            struct err *err);

/* After a start: what waits is pinned, and what was answered to keyed calls is known. */
void outage_recall(struct outage *o, struct services *services);

/* When the attempt was made that waits for longest; 0: none waits. */
int64_t outage_oldest_us(struct outage *o);

/* Decides, as the attempt's own call would have: what it adds is committed by the caller, in a turn. *end says how. One that is too old is
 * void by (1). */
enum spooled_end { SPOOLED_MERGED, SPOOLED_FOUND, SPOOLED_VOID, SPOOLED_TOO_OLD };

enum err_code outage_merge(struct context *ctx, const struct spooled *s, const struct rules *rules,
                           enum spooled_end *end, struct err *err);

/* It is committed, or needs no commit. */
void outage_merged(struct outage *o, uint64_t number, const struct spooled *s, enum spooled_end end);

#endif
