/* Limit policies: the limits that callers name. A set is decoded from a tree, so from YAML and JSON alike:
 *
 *   login-ip:
 *     algorithm: gcra          # fixed, sliding or gcra
 *     limit: 20                # units per period
 *     per: minute              # second … month, or a number of seconds
 *     burst: 10                # gcra: units at once; defaults to `limit`
 *     engine: memory           # memory (this process, fast) or table (durable, shared)
 *     on_failure: open         # open (allowed, degraded) or closed (503)
 *     shadow: false            # true: counted and reported, never refused
 *     near: 0.8                # the used share from which an answer says "near"
 *     prefix: "login-ip#"      # of the key as it is stored; "" for none
 *     block: 300               # seconds for which a key that was refused stays refused
 *     shards: 4                # table: rows that share a key's limit; 1 unless set
 *     inline:                  # callers may send `limit` and `per` with a key, up to these
 *       limit: 1000000
 *       per: day
 *     keys:, allow:, deny:     # keys that are treated in their own way: limit_keys.h
 *
 * A set is a document (document.h): immutable but for its counters, and counted. */
#ifndef SERVICE_LIMIT_POLICY_H
#define SERVICE_LIMIT_POLICY_H

#include "base/metric.h"
#include "json/write.h"
#include "service/document.h"
#include "service/limit_keys.h"
#include "service/limit_shard.h"

enum {
	LIMIT_POLICIES_MAX = 200,
	LIMIT_NAME_MAX = 64,
	LIMIT_PREFIX_MAX = LIMIT_NAME_MAX + 1,
	LIMIT_BLOCK_S_MAX = LIMIT_PERIOD_S_MAX,
	LIMIT_INLINE_UNITS = 1000000, /* that a caller may ask for, unless the policy says otherwise */
	LIMIT_INLINE_MARK_MAX = 24,   /* "1000000000/31622400#" */
};

/* The policy of calls that send a limit and name no policy. */
#define LIMIT_POLICY_CUSTOM "custom"

enum limit_engine { LIMIT_MEMORY, LIMIT_TABLE };

struct limit_policy {
	struct bytes         name;
	struct bytes         prefix;
	struct limit_rule    rule;
	struct limit_keys    keys;
	enum limit_engine    engine;
	bool                 fail_closed;
	bool                 shadow;
	unsigned             shards;        /* that a key's limit is divided over; 1: it is not */
	uint64_t             inline_limit;  /* the highest that a call may bring along; 0: it may not */
	struct limit_period  inline_period; /* the longest */
	struct limit_counts *counts;
};

/* What a policy has answered since its set came into force. */
struct limit_counts {
	struct metric_counter allowed, denied;
	struct metric_counter
	        remembered; /* of the denied: without looking, because it was denied just before */
	struct metric_counter shadowed; /* would have been denied, but the policy only watches */
	struct metric_counter degraded; /* of the allowed: the engine failed, and the policy is open */
	struct metric_counter near;
};

struct limit_policies {
	struct document      base;
	struct limit_policy *list; /* sorted by name */
	uint32_t             count;
};

/* document_kind's parse: an object with a policy a member, as above. */
enum err_code limit_policies_parse(const struct json *tree, struct document **out, struct err *err);

static inline void limit_policies_release(struct limit_policies *p)
{
	document_release(&p->base);
}

/* NULL if there is none. */
const struct limit_policy *limit_policies_find(const struct limit_policies *p, struct bytes name);

/* The limit that a call brings along: its members `limit` and `per`, under the policy's algorithm. Errors go into f. NULL: it brings none, or it is refused. */
const struct limit_rule *limit_policy_inline(const struct limit_policy *p, struct fields *f, struct arena *a);

/* What tells the state of a key under such a limit from its state under another: "100/60#". */
struct bytes limit_inline_mark(struct arena *a, const struct limit_rule *asked);

/* As parse reads it, with every field said. */
void limit_policy_write(struct json_writer *w, const struct limit_policy *p);

/* ---- asking ----
 *
 * One question ("may this key take so much of that limit?") and its answer; and how several are decided
 * together, all or nothing. The engines fetch the states, and keep them if they changed. */

enum {
	LIMIT_ASKS_MAX = 16,        /* in one call */
	LIMIT_ASKS_SHARDED_MAX = 4, /* of these, with shards: all of their rows fit into one transaction */
	LIMIT_STATES_MAX =
	        LIMIT_ASKS_MAX - LIMIT_ASKS_SHARDED_MAX + LIMIT_ASKS_SHARDED_MAX * LIMIT_SHARDS_MAX,
};

struct limit_ask {
	const struct limit_policy *policy;
	const struct limit_rule   *rule;   /* the policy's, or the key's own */
	struct bytes               key;    /* as it is kept: the policy's prefix, and the caller's */
	bool                       hashed; /* the caller's, by us: it tells nobody who is meant */
	uint64_t                   cost;
	struct limit_part part; /* set by the engine: the states it has at hand; all zeros: the one */

	struct limit_answer answer;
	bool                listed;     /* its key is always allowed, or always refused: no engine is asked */
	bool                remembered; /* denied a moment ago: not asked again */
	int64_t             remembered_us; /* when the answer was what it says */
	bool                changed;       /* by limit_decide: its state is to be kept */
	bool                degraded;      /* the engine failed */
};

/* Those of a call that one engine answers. */
struct limit_asks {
	struct limit_ask *list[LIMIT_ASKS_MAX];
	unsigned          count;
};

/* Is this a reason to refuse the call? */
static inline bool limit_ask_refuses(const struct limit_ask *ask)
{
	return !ask->answer.allowed && !ask->policy->shadow;
}

/* Is it answered before an engine is asked? */
static inline bool limit_ask_answered(const struct limit_ask *ask)
{
	return ask->listed || ask->remembered;
}

/* Answers each ask over its states, which are in a row, as many as its part has. Units are taken, of all of them, only if `may` and none refuses; true then. If not,
 * the answers say what is there without this call. If `may`, those that refuse may begin a block. */
bool limit_decide(const struct limit_asks *asks, struct limit_state *states, bool may, int64_t now_us);

#endif
