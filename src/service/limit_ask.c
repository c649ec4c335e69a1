/* Limit ask: all or nothing, over copies. */
#include "service/limit_ask.h"

#include <assert.h>

/* What it says when nothing is taken: the verdict stays, the numbers are those of now. */
static void look_again(struct limit_ask *ask, struct limit_state *state, int64_t now_us)
{
	if (ask->answer.allowed && ask->cost > 0)
		limit_take(ask->rule, state, now_us, 0, &ask->answer);
}

bool limit_decide(const struct limit_asks *asks, struct limit_state *states, bool may, int64_t now_us)
{
	struct limit_state after[LIMIT_ASKS_MAX];
	bool               asked = may;

	assert(asks->count <= LIMIT_ASKS_MAX);
	for (unsigned i = 0; i < asks->count; i++) {
		struct limit_ask *ask = asks->list[i];

		after[i] = states[i];
		limit_take(ask->rule, &after[i], now_us, ask->cost, &ask->answer);
		ask->changed = asked && limit_block(ask->rule, &after[i], now_us, ask->cost, &ask->answer);
		may = may && !limit_ask_refuses(ask);
	}
	for (unsigned i = 0; i < asks->count; i++) {
		struct limit_ask *ask = asks->list[i];

		ask->changed = ask->changed || (may && ask->answer.allowed && ask->cost > 0);
		if (ask->changed)
			states[i] = after[i];
		else if (!may)
			look_again(ask, &states[i], now_us);
	}
	return may;
}
