/* Limit ask: one question ("may this key take so much of that limit?") and its answer; and how several are decided
 * together, all or nothing. The engines fetch the states, and keep them if they changed. */
#ifndef SERVICE_LIMIT_ASK_H
#define SERVICE_LIMIT_ASK_H

#include "service/limit_policy.h"

enum {
	LIMIT_ASKS_MAX = 16, /* in one call */
	LIMIT_KEY_MAX = 256, /* as callers say it */
};

struct limit_ask {
	const struct limit_policy *policy;
	struct bytes               key; /* as it is kept: the policy's prefix, and the caller's */
	uint64_t                   cost;

	struct limit_answer answer;
	bool                remembered; /* denied a moment ago: not asked again */
	bool                degraded;   /* the engine failed */
};

/* Is this a reason to refuse the call? */
static inline bool limit_ask_refuses(const struct limit_ask *ask)
{
	return !ask->answer.allowed && !ask->policy->shadow;
}

/* Answers each ask over its state. The states change, all of them, only if `may` and none refuses; true then. If not,
 * the answers say what is there without this call. */
bool limit_decide(struct limit_ask *const *asks, struct limit_state *states, unsigned count, bool may,
                  int64_t now_us);

#endif
