/* Pool: what a connection needs only while a request is under way: a buffer to read into, and an exchange
 * (the request with everything around it). A loop keeps a few of each, the last used on top, so that a busy
 * connection never calls malloc and ten thousand idle ones hold nothing. One thread only. */
#ifndef HTTP_POOL_H
#define HTTP_POOL_H

#include "http/inbox.h"
#include "http/receive.h"
#include "http/timers.h"

struct conn;

/* Whether a request is parked: hold.c. The one word of a request that any thread may change. */
enum park_state { PARK_NONE, PARK_WAITS, PARK_WOKEN };

struct park {
	_Atomic enum park_state state;
	size_t                  bytes; /* of the budget */
	struct alarm            alarm;
	void (*fn)(struct http_request *r, enum http_end why);
};

/* One request from its first byte to its answer. It outlives the connection's socket, not the connection. */
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

enum { POOL_KEPT_MAX = 128 }; /* of each kind; beyond it they are freed */

struct pool {
	const struct http_limits *limits;
	struct budget            *budget;
	size_t                    buffer_bytes;
	struct exchange          *exchanges;
	struct read_buffer       *buffers;
	unsigned                  exchange_count, buffer_count;
};

void pool_init(struct pool *p, const struct http_limits *limits, struct budget *budget);
void pool_release(struct pool *p);

struct exchange *exchange_take(struct pool *p, struct conn *c);
void             exchange_give(struct pool *p, struct exchange *x);

struct read_buffer *buffer_take(struct pool *p);
void                buffer_give(struct pool *p, struct read_buffer *b);

static inline struct exchange *exchange_of(struct http_request *r)
{
	return (struct exchange *)(void *)((char *)r - offsetof(struct exchange, request));
}

#endif
