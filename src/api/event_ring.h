/* Event ring: the newest events of the log, as JSON, in memory: bounded, and in the order in which they were read. Encoded once,
 * they are sent to everyone who follows the log closely. Not for several threads: the hub has a lock. */
#ifndef API_EVENT_RING_H
#define API_EVENT_RING_H

#include "service/event_log.h"

enum {
	EVENT_RING_MAX = 8192,
	EVENT_RING_BYTES_MAX = 8 * 1024 * 1024,
};

struct ring_event {
	uint32_t            shard;
	int64_t             position;
	struct event_traits traits;
	struct bytes        type, json; /* and traits.subject: in the same piece of memory */
	size_t              bytes;
};

/* It holds all events after `start`, up to `tail`. */
struct event_ring {
	struct ring_event  *list[EVENT_RING_MAX];
	uint32_t            first, count;
	size_t              bytes;
	struct event_cursor start, tail;
};

/* Empty, at that place of the log. */
void event_ring_reset(struct event_ring *r, const struct event_cursor *at);
void event_ring_release(struct event_ring *r);

/* The next event of its shard. The oldest make room for it. */
const struct ring_event *event_ring_add(struct event_ring *r, const struct event_seen *e);

/* Does it hold all that comes after the cursor? */
bool event_ring_covers(const struct event_ring *r, const struct event_cursor *after);

/* The index of an event such that all before it are before the cursor, which it covers. */
uint32_t event_ring_find(const struct event_ring *r, const struct event_cursor *after);

static inline const struct ring_event *event_ring_at(const struct event_ring *r, uint32_t index)
{
	return r->list[(r->first + index) % EVENT_RING_MAX];
}

#endif
