/* Limit ask: one question ("may this key take so much of that limit?") and its answer; and how several are decided
 * together, all or nothing. The engines fetch the states, and keep them if they changed. */
#ifndef SERVICE_LIMIT_ASK_H
#define SERVICE_LIMIT_ASK_H

#include "service/limit_policy.h"

enum { LIMIT_ASKS_MAX = 16 }; /* in one call */

struct limit_ask {
	const struct limit_policy *policy;
	const struct limit_rule   *rule;   /* the policy's, or the key's own */
	struct bytes               key;    /* as it is kept: the policy's prefix, and the caller's */
	bool                       hashed; /* the caller's, by us: it tells nobody who is meant */
	uint64_t                   cost;

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

/* Answers each ask over its state. Units are taken, of all of them, only if `may` and none refuses; true then. If not,
 * the answers say what is there without this call. If `may`, those that refuse may begin a block. */
bool limit_decide(const struct limit_asks *asks, struct limit_state *states, bool may, int64_t now_us);

#endif
