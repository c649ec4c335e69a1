/* Budget: how many bytes of large bodies, of what was decoded from them, and of answers one loop may hold at a time; and of
 * parked requests and streams. One thread only. */
#ifndef HTTP_BUDGET_H
#define HTTP_BUDGET_H

#include <assert.h>

#include "http/http.h"

/* A buffer up to this size is not counted: connections_max bounds those. */
enum { BUDGET_FREE_BYTES = HTTP_SMALL_BODY_BYTES };

struct budget {
	size_t held_bytes;
	size_t held_bytes_max;
	size_t parked_bytes; /* for as long as a peer likes, so of a share of its own */
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

/* For a parked request or a stream. These may have half as much again as everything else, and never take from it. */
static inline bool budget_park(struct budget *b, size_t bytes)
{
	if (bytes > b->held_bytes_max / 2 - b->parked_bytes)
		return false;
	b->parked_bytes += bytes;
	return true;
}

static inline void budget_unpark(struct budget *b, size_t bytes)
{
	assert(b->parked_bytes >= bytes);
	b->parked_bytes -= bytes;
}

#endif
