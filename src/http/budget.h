/* Budget: how many bytes of large bodies, of what was decoded from them, and of answers one loop may hold at a time. One
 * thread only. */
#ifndef HTTP_BUDGET_H
#define HTTP_BUDGET_H

#include <assert.h>

#include "http/http.h"

/* A buffer up to this size is not counted: connections_max bounds those. */
enum { BUDGET_FREE_BYTES = HTTP_SMALL_BODY_BYTES };

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

/* More for a request that holds `own` bytes of it already. One that is alone always gets it: later would be no better. */
static inline bool budget_take(struct budget *b, size_t own, size_t bytes)
{
	assert(b->held_bytes >= own);
	if (b->held_bytes > own && b->held_bytes + bytes > b->held_bytes_max)
		return false;
	b->held_bytes += bytes;
	return true;
}

#endif
