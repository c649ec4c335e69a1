/* Event hub: one reader of the log's end for all who follow it, so that each new event is read and encoded once per process.
 *
 *   a commit that published --wake-->  the hub's thread: reads what is new, keeps it in a ring, and for each event
 *                                        wakes the parked requests that it concerns (long polls)
 *                                        sends it to the streams that it concerns (Server-Sent Events)
 *                                      and reads on for each stream that is behind, a page at a time
 *
 * Followers of one subject are found by that subject, so an event costs as much as it has followers. A request whose
 * cursor the ring covers is answered from there, any other from the table: see (6).
 *
 * What always holds
 * (1) A follower misses nothing: it gets each event that passes its filter, in order, or is told to begin anew.
 * (2) Nobody waits for a slow reader: a stream without room for an event is behind from then on, and is read for again
 *     when its peer has taken what was sent. Its memory is its buffer.
 * (3) The hub sleeps while nobody follows: publishing then costs one atomic load. Whoever comes wakes it, and it begins with what they have read.
 * (4) On a table that others write to, it looks once per second as well.
 * (5) If keys change, those who follow with the old ones are let go: parked requests are answered, streams end. They
 *     come back and are asked anew.
 * (6) What was erased is not answered from memory: once a user was erased, the ring forgets what it has. On a table that others write to, where somebody
 *     else may have erased a user, pages are always read from the table; the ring says only for whom there is something new. A stream is sent what was
 *     read a moment before, whoever erases.
 * (7) A key has at most followers_per_key streams and waiting requests, and of those that are behind keys take turns. A loop waits for the hub's lock for as long as
 *     one event takes to be offered, at most: pages are encoded without it, and the hub gives way to loops that wait.
 *
 * Any thread, unless it says otherwise. */
#ifndef API_EVENT_HUB_H
#define API_EVENT_HUB_H

#include "api/authorise.h"
#include "base/list.h"
#include "service/consumer.h"

enum {
	EVENT_HUB_PERIOD_MS = 1000,
	EVENT_HUB_PACE_US = 3000, /* from one look at the log to the next, at least: many events share one */
	EVENT_HUB_AWAKE_MS = 10000,         /* after the last who asked */
	EVENT_STREAM_BYTES = 16 * 1024,     /* that may wait for a stream's peer */
	EVENT_STREAM_EVENT_MAX = 12 * 1024, /* a longer event is sent without its data */
	EVENT_STREAM_HEARTBEAT_MS = 15000,
	EVENT_STREAM_MARK_MS = 60000, /* how often a stream is told how far it is, if it had no event */
	EVENT_STREAM_RETRY_MS = 1000, /* how long a peer should wait before it connects again */
	EVENT_FOLLOWERS_MAX = 20000,
	EVENT_FOLLOWERS_PER_KEY = 2000, /* unless set: streams, and requests that wait */
	EVENT_HUB_LAG_MS = 2000,
	EVENT_HUB_LAG_REST_S = 16, /* … at most, over a network, while there is no consumer */
};

struct event_hub;

struct event_hub_options {
	struct services *services;
	struct store    *store;
	struct keyring  *keyring; /* NULL: none */
	struct clock    *clock;
	unsigned         followers_per_key; /* 0: EVENT_FOLLOWERS_PER_KEY */
};

/* Also makes itself the one who is told of events (services.h), through event_hub_wake. */
enum err_code event_hub_open(struct event_hub **out, const struct event_hub_options *options,
                             struct err *err);

/* After the HTTP server: nobody follows any more. */
void event_hub_close(struct event_hub *h); /* NULL: nothing */

/* Something was published. Never waits. */
void event_hub_wake(void *hub);

/* ---- pages ---- */

struct event_text {
	uint32_t     shard;
	int64_t      position;
	uint64_t     subject_hash;
	struct bytes json;
};

/* The texts live in the context's arena. */
struct event_texts {
	struct event_text  *list;
	uint32_t            count;
	struct event_cursor next;
	bool                more;
};

/* As events_read, from the ring if that will do. What was published by a call that has been answered is among it, or `more` is
 * set. A hub of NULL reads from the table. */
enum err_code event_hub_read(struct event_hub *h, struct context *ctx, const struct event_query *q,
                             struct event_texts *out, struct err *err);

/* ---- requests that wait ---- */

struct follower;

/* A parked request; in its arena. */
struct event_wait {
	struct event_filter filter; /* what it waits for */
	struct event_cursor
	            after; /* what it has read; event_hub_waited moves it past what it need not read again */
	uint64_t    group; /* of those whom event_hub_touch wakes together; 0: none */
	struct list link;  /* the hub's, as all below */
	struct http_request      *request;
	const struct credentials *set;
	struct key_use           *use;     /* of the caller's key, which `set` keeps; NULL: it has none */
	bool                      settled; /* `after` is not to be moved */
};

/* Parks the request until there is an event that passes. On its loop. False: it cannot wait, and is to be answered. */
bool event_hub_wait(struct event_hub *h, struct event_wait *w, struct http_request *r, int64_t deadline_us,
                    void (*fn)(struct http_request *r, enum http_end why));

/* First thing in fn. False: keys have changed, and it is to be answered now. */
bool event_hub_waited(struct event_hub *h, struct event_wait *w);

/* Wakes all requests of a group: what they wait for has changed. */
void event_hub_touch(struct event_hub *h, uint64_t group);

/* ---- streams ---- */

struct event_stream_request {
	struct event_filter filter; /* copied, its subject too; its users are v1_users_denied's */
	struct event_cursor after;
	bool                unnamed; /* its events have no `event:` line: a browser's onmessage gets them */
	struct caller       who;     /* the hub's from now on, whatever comes of it */
	const struct http_header *headers;
	unsigned                  header_count;
};

/* Has the key as many followers as it may have? (7) */
bool event_hub_is_full_for(const struct event_hub *h, const struct key_use *use);

/* Answers the request with a stream. On its loop. False: there is no room; the request is as it was. */
bool event_hub_stream(struct event_hub *h, struct http_request *r, const struct event_stream_request *q);

/* ---- for the metrics and tests ---- */

struct event_hub_stats {
	uint64_t events, sent, reads; /* read by the hub; sent to streams; pages of the log that it read */
	uint64_t ring_hits, ring_misses;
	uint32_t polls, streams, streams_behind;
	bool     awake; /* (3) */
};

struct event_hub_stats event_hub_stats(struct event_hub *h);

/* Every consumer's lag, as it was EVENT_HUB_LAG_MS ago or less; of the first one, EVENT_HUB_LAG_REST_S: appended, in the arena. */
struct event_hub_lag {
	struct bytes     name;
	struct event_lag lag;
	uint32_t         members;
};

uint32_t event_hub_lags(struct event_hub *h, struct arena *a, struct event_hub_lag **out);

#endif
