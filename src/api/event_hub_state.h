/* Event hub, as its own files see it: event_hub.c (the hub's thread, and the end of the log), event_streams.c (streams) and event_pages.c (pages, and
 * requests that wait). What they share is one struct under one lock. Nobody else includes this. */
#ifndef API_EVENT_HUB_STATE_H
#define API_EVENT_HUB_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/event_hub.h"
#include "api/event_ring.h"
#include "base/worker.h"

enum { EVENT_HUB_BUCKETS = 4096 }; /* followers of one subject, by its hash; a power of two */

struct event_hub {
	/* set once */
	struct event_hub_options options;
	struct worker            worker;

	/* any thread */
	_Atomic uint64_t published;
	atomic_bool      awake, pending;
	atomic_uint      waiting; /* threads that want the lock, but the hub's own */

	/* the hub's thread */
	struct arena arena;
	struct buf   text;    /* of the event that is being sent */
	struct buf   unnamed; /* the same for streams whose events have no names */
	int64_t      looked_us, round_us;
	int64_t      lag_us, lag_wait_us; /* the last look at consumers, and the wait until the next */

	/* under lock */
	pthread_mutex_t        lock;
	struct event_ring      ring;
	uint64_t               generation; /* of the ring: a new one begins at another place */
	uint64_t               fresh;      /* the ring has all that was published when it was so much */
	uint64_t               erasures;   /* when the ring was last emptied for one (6) */
	int64_t                awake_until_us;
	struct list            buckets[EVENT_HUB_BUCKETS]; /* streams of one subject */
	struct list            streams;                    /* the others */
	struct list            polls, hungry;              /* hungry: streams to read for */
	const struct key_use  *fed;                        /* whose stream was read for last (7) */
	struct event_hub_stats stats;
	struct arena           lag_arena;
	struct event_hub_lag  *lags;
	uint32_t               lag_count;
};

static inline int64_t hub_now_us(const struct event_hub *h)
{
	return clock_steady_us(h->options.clock);
}

/* A loop is served before the hub's thread, which would have the lock again before a thread that was woken for it can run. (7) */
static inline void hub_lock(struct event_hub *h)
{
	atomic_fetch_add(&h->waiting, 1);
	pthread_mutex_lock(&h->lock);
	atomic_fetch_sub(&h->waiting, 1);
}

/* ---- event_hub.c ---- */

/* The hub's thread, with the lock: lets those who wait for it have it. */
void hub_give_way_locked(struct event_hub *h);

/* Has its thread look now. */
void hub_look(struct event_hub *h);

/* Somebody who has read up to there wants to follow. */
void hub_awaken_locked(struct event_hub *h, const struct event_cursor *at);

/* The hub's thread: a context that reads, in its arena. */
struct context hub_read_begin(struct event_hub *h);
void           hub_read_end(struct event_hub *h, struct context *ctx);

/* ---- event_streams.c ---- */

/* An event has come. before: where the ring ended until then. */
void streams_offer_locked(struct event_hub *h, const struct ring_event *e, const struct event_cursor *before);

/* What comes next is not there: each is read for by itself, and told. */
void streams_lose_locked(struct event_hub *h);

/* Now and then: keys (5), marks, and streams whose page could not be read. */
void streams_look_locked(struct event_hub *h, const struct credentials *set);

/* A page for one of those that are behind. False: there is none. */
bool streams_replay_one(struct event_hub *h);

/* ---- event_pages.c ---- */

/* As of streams. */
void polls_offer_locked(struct event_hub *h, const struct ring_event *e, const struct event_cursor *before);
void polls_lose_locked(struct event_hub *h);
void polls_look_locked(struct event_hub *h, const struct credentials *set);

#endif
