/* Limit ask: all or nothing, over copies. */
#include "service/limit_ask.h"

#include <assert.h>

/* What it says when nothing is taken: the verdict stays, the numbers are those of now. */
static void look_again(struct limit_ask *ask, struct limit_state *state, int64_t now_us)
{
	if (ask->answer.allowed && ask->cost > 0)
		limit_take(&ask->policy->rule, state, now_us, 0, &ask->answer);
}

bool limit_decide(struct limit_ask *const *asks, struct limit_state *states, unsigned count, bool may,
                  int64_t now_us)
{
	struct limit_state after[LIMIT_ASKS_MAX];

	assert(count <= LIMIT_ASKS_MAX);
	for (unsigned i = 0; i < count; i++) {
		after[i] = states[i];
		limit_take(&asks[i]->policy->rule, &after[i], now_us, asks[i]->cost, &asks[i]->answer);
		may = may && !limit_ask_refuses(asks[i]);
	}
	if (may)
		memcpy(states, after, count * sizeof(*states));
	for (unsigned i = 0; i < count && !may; i++)
		look_again(asks[i], &states[i], now_us);
	return may;
}
