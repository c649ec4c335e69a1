/* Exchange: one request with everything around it, from its first byte to its answer. It outlives the connection's socket, not
 * the connection. A loop keeps a few, and buffers to read into, the last used on top, so that a busy connection never calls
 * malloc and ten thousand idle ones hold nothing. One thread only, but for one word, which says whether the request is parked:
 *
 *   park.state   NONE --http_park--> WAITS --http_wake, from any thread--> WOKEN, and in the inbox
 *                  ^                     |                                     |
 *                  |     deadline, peer gone, stop: on the loop      the loop runs its inbox
 *                  |                     v                                     v
 *                  '--------------------fn(r, why)----------------------------fn(r, HTTP_END_WOKEN)
 *
 * (1) Only the thread that moves the state away from WAITS causes fn to be called: the loop at once, a waker through the inbox. So
 *     it is called once, and a request with a wake under way is left alone by deadline and stop.
 * (2) In PARKED the connection has a socket and its exchange. If the peer goes, it is ABANDONED as in HANDLING. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "http/loop.h"
#include "http/receive.h"

/* Any thread may change it. */
enum park_state { PARK_NONE, PARK_WAITS, PARK_WOKEN };

struct park {
	_Atomic enum park_state state;
	size_t                  bytes; /* of the budget */
	struct alarm            alarm;
	void (*fn)(struct http_request *r, enum http_end why);
};

struct exchange {
	struct http_request request; /* what the handler sees */
	struct receive      receive;
	struct conn        *conn;
	atomic_bool         abandoned; /* any thread may look */
	struct inbox_item   item;      /* on the way back from another thread */
	void (*resume)(struct http_request *r);
	struct park      park;
	struct exchange *next; /* in the pool */
};

struct read_buffer {
	struct read_buffer *next; /* in the pool */
	char                data[];
};

void pool_init(struct pool *p, const struct http_limits *limits, struct budget *budget);
void pool_release(struct pool *p);

struct exchange *exchange_take(struct pool *p, struct conn *c);
void             exchange_give(struct pool *p, struct exchange *x);

struct read_buffer *buffer_take(struct pool *p);
void                buffer_give(struct pool *p, struct read_buffer *b);

/* The one that a handler's request is part of. */
#define exchange_of(r) LIST_ENTRY(r, struct exchange, request)

/* Ends the wait of a connection's request, unless it is not parked or a wake is on its way. */
void park_end(struct conn *c, enum http_end why);

#endif
