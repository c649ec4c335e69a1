/* Ask: what is asked about a limit, and the states of limits that come back: alike in gatehouse_allow and
 * gatehouse_check. Reading takes any JSON whatever, and keeps what is whole. */
#ifndef CLIENT_ASK_H
#define CLIENT_ASK_H

#include "json.h"
#include "request.h"

/* What a caller's cost means: 0 is the default. */
static inline int64_t ask_cost(int64_t given)
{
	return given != 0 ? given : 1;
}

/* An object of its own, or a member of an array. */
void ask_write(struct request *request, const struct gatehouse_check_limit *limit, int64_t cost);

/* How many states of the list were put into `states`: the first `max` that are whole. */
size_t states_read(struct text list, struct gatehouse_limit_state *states, size_t max);

#endif
