/* Link: one connection to the server, plain or TLS, and the waiting for it. Every function that waits takes the
 * instant at which it must be back; sockets never block. */
#ifndef CLIENT_LINK_H
#define CLIENT_LINK_H

#include "names.h"
#include "tls.h"

struct link {
	int         fd; /* -1: closed */
	struct tls *tls;
};

enum link_result {
	LINK_OK,
	LINK_TIMEOUT,
	LINK_REFUSED,   /* nobody at any address */
	LINK_UNTRUSTED, /* TLS failed; *why may say more */
	LINK_BROKEN,    /* the peer closed, or the connection broke */
	LINK_NO_MEMORY, /* or no descriptor */
};

/* Connects to the addresses in turn, each with its share of the time that is left. */
enum link_result link_open(struct link *l, struct names *names, struct tls_context *tls, int64_t deadline_us,
                           const char **why);
void             link_close(struct link *l);

enum link_result link_send(struct link *l, const char *data, size_t len, int64_t deadline_us);

/* At least one byte: *len says how many. */
enum link_result link_receive(struct link *l, char *data, size_t size, int64_t deadline_us, size_t *len);

/* Is it open, with nothing to read? */
bool link_is_idle(struct link *l);

/* Microseconds of a clock that never goes back. */
int64_t clock_us(void);

#endif
