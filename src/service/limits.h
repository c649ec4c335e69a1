/* Limits: the service behind /v1/allow, /v1/refund and whoever else asks about limits in the same call (/v1/check).
 *
 * A call is one or several asks, all or nothing, over policies of either engine. Those in memory are taken first, and
 * given back if the table's refuse: so a call that memory refuses never reaches the table, and no lock is held while a
 * table is read.
 *
 *   loop thread                                writer thread (or the loop, if no turn is needed)
 *   limits_needs_turn                          limits_run -> changes, committed by the caller
 *   limits_kept, or limits_failed if that did not work
 *
 * Every call ends with exactly one of the two. All times are the store's.
 *
 * What always holds: a call that is refused has taken nothing anywhere, and a refund that failed has given nothing; an
 * answer is final once run (or failed) returned and its changes were committed. */
#ifndef SERVICE_LIMITS_H
#define SERVICE_LIMITS_H

#include "service/context.h"
#include "service/limit_policy.h"
#include "service/limit_memory.h"
#include "service/limit_top.h"

enum {
	LIMITS_MEMORY_BYTES = 64 << 20, /* unless options say otherwise */
	LIMITS_DENIED_BYTES = 4 << 20,
};

struct limits;

struct limits_options {
	size_t memory_bytes_max; /* of the memory engine, at least LIMIT_MAP_BYTES_MIN; 0: LIMITS_MEMORY_BYTES */
	struct hash_key seed;    /* random */
};

struct limits *limits_open(const struct limits_options *options);
void           limits_close(struct limits *l);

/* Where the policies in force are kept; whoever puts them there initialises and releases it. */
struct document_holder *limits_holder(struct limits *l);

/* The set in force, as a reference to release. Any thread. */
struct limit_policies *limits_policies(struct limits *l);

/* ---- calls ---- */

/* LIMIT_LOOK answers what LIMIT_TAKE would, and takes nothing. */
enum limit_verb { LIMIT_TAKE, LIMIT_LOOK, LIMIT_GIVE };

struct limit_call {
	/* set by the caller */
	enum limit_verb verb;
	struct limit_ask
	         asks[LIMIT_ASKS_MAX]; /* policies of one set, which is held until the call is answered */
	unsigned count;                /* at least 1 */

	/* the verdict */
	bool    allowed;
	bool    degraded;
	int64_t retry_after_us; /* 0 if allowed; LIMIT_NEVER */

	/* the service's own */
	bool reserved; /* memory was taken */
	bool decided;
	bool counted;
};

/* May an ask of that policy be added? No if LIMIT_ASKS_MAX are, or the policy has shards and LIMIT_ASKS_SHARDED_MAX with shards are. */
bool limit_call_has_room(const struct limit_call *c, const struct limit_policy *policy);

/* Adds an ask; the key's text is copied behind the policy's prefix. A key that the policy lists gets its own rule, or its
 * answer. False if that policy and key are asked about already, or there is no room. */
bool limit_call_add(struct limit_call *c, struct arena *a, const struct limit_policy *policy,
                    const struct limit_key *key, uint64_t cost);

/* Does it have to wait for its turn with the writer? Not if it only concerns memory or listed keys, only looks, or asks
 * about a key that is always refused or was a moment ago. */
bool limits_needs_turn(struct limits *l, struct limit_call *c, int64_t now_us);

/* Whose calls run one after the other where tables are elsewhere: the key of its first limit that is kept in one. Empty: none is. */
struct bytes limits_line(const struct limit_call *c);

/* Does deciding it need the table? If not, limits_run only looks at the context's time. */
bool limits_needs_table(const struct limit_call *c);

/* Decides. May be called again if the changes could not be committed because others wrote in between. */
enum err_code limits_run(struct context *ctx, struct limit_call *c, struct err *err);

/* It is not asked any more: an earlier run may have taken something in memory. */
void limits_undo(struct limits *l, struct limit_call *c, int64_t now_us);

/* Its changes are committed: its answer says what is left after it. Before limits_kept. */
void limits_written(struct context *ctx, struct limit_call *c);

/* Its changes are committed, if it had any. Now a refund is given to the limits in memory. */
void limits_kept(struct limits *l, struct limit_call *c, int64_t now_us);

/* It was not decided or not committed: what it took in memory is given back. `rc` says why:
 *   ERR_NONE            an earlier answer is replayed instead
 *   ERR_TOKEN_MISMATCH  its Idempotency-Key is another call's
 *   ERR_CALLER_THROTTLED  whoever calls has too much under way: it was not run
 *   ERR_CONTENDED       too many others changed the same limit at once. That is no failure of the table, whatever the policy is for failures
 *   any other           the table failed, whatever the reason: no input of the caller's gets this far. Allowed and
 *                       degraded if all its policies are open, still refused if it was refused before it failed
 *                       (ERR_NONE). Else the error, nothing taken in memory; one that
 *                       may pass becomes ERR_OVERLOADED, unless the outcome of its commit is unknown. */
enum err_code limits_failed(struct limits *l, struct limit_call *c, int64_t now_us, enum err_code rc,
                            struct err *err);

/* ---- watching ---- */

enum limits_list { LIMITS_HOT, LIMITS_DENIED };

struct limit_top      *limits_top(struct limits *l, enum limits_list which);
struct limit_map_stats limits_memory_stats(struct limits *l);

#endif
