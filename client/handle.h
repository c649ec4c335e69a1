/* Handle: what gatehouse_open makes. All threads share it; the parts that change have a lock each, and no two of
 * them are held at a time. */
#ifndef CLIENT_HANDLE_H
#define CLIENT_HANDLE_H

#include "answer.h"
#include "breaker.h"
#include "limiter.h"
#include "link.h"

enum { HANDLE_KEY_BYTES_MAX = 512 };

/* A connection and the answer that is read from it: the caller's alone, or in the idle list. */
struct conn {
	struct conn  *next;
	struct link   link;
	struct answer answer;
};

struct gatehouse {
	/* set once */
	char                key[HANDLE_KEY_BYTES_MAX + 1]; /* empty: none */
	int                 deadline_ms;
	unsigned            connections_max;
	bool                deny_when_unknown;
	struct tls_context *tls; /* NULL: plain HTTP */
	/* with locks of their own */
	struct names   names;
	struct limiter limiter;
	/* shared under lock */
	pthread_mutex_t lock;
	pthread_cond_t  changed; /* a connection is free, or the breaker has opened */
	struct breaker  breaker;
	struct conn    *idle; /* the one used last is first */
	unsigned        made; /* idle or in use; at most connections_max */
};

/* Random bytes from the kernel. False: it has none, which does not happen after start-up. */
bool random_fill(void *out, size_t len);

#endif
