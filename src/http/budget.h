/* Budget: how many bytes of large bodies and answers one loop may hold at a time. One thread only. */
#ifndef HTTP_BUDGET_H
#define HTTP_BUDGET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/* A buffer up to this size is not counted: connections_max bounds those. */
enum { BUDGET_FREE_BYTES = 16 * 1024 };

struct budget {
	size_t held_bytes;
	size_t held_bytes_max;
};

static inline size_t budget_cost(size_t cap)
{
	return cap > BUDGET_FREE_BYTES ? cap : 0;
}

/* A buffer goes from one capacity to another. False: there is no room, and nothing changed. */
static inline bool budget_move(struct budget *b, size_t cap_from, size_t cap_to)
{
	size_t held = b->held_bytes - budget_cost(cap_from) + budget_cost(cap_to);

	assert(b->held_bytes >= budget_cost(cap_from));
	if (cap_to > cap_from && held > b->held_bytes_max)
		return false;
	b->held_bytes = held;
	return true;
}

#endif
