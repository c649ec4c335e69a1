/* Names: where the server is. A URL taken apart, and the addresses of its host.
 *
 * (1) A call never waits for the system's resolver, which cannot be told to hurry: a name is looked up when a handle is
 * opened, and again, after no address could be connected to, by a thread of its own; until that is done the old
 * addresses are tried. A numeric address is never looked up. (2) At most one such thread runs. (3) With loopback_only
 * set, other addresses are left out, whenever they come. */
#ifndef CLIENT_NAMES_H
#define CLIENT_NAMES_H

#include <pthread.h>
#include <sys/socket.h>

#include "gatehouse.h"

enum { NAMES_ADDRESSES_MAX = 8, NAMES_HOST_BYTES_MAX = 256, NAMES_AGAIN_MS = 5000 };

struct address {
	socklen_t               len;
	struct sockaddr_storage at;
};

struct addresses {
	unsigned       count;
	struct address list[NAMES_ADDRESSES_MAX];
};

struct names {
	/* set once */
	char host[NAMES_HOST_BYTES_MAX]; /* without the brackets of an IPv6 address */
	char port[6];
	char authority[NAMES_HOST_BYTES_MAX + 8]; /* as the Host header has it */
	bool tls, numeric, loopback_only;
	/* shared under lock */
	pthread_mutex_t  lock;
	struct addresses addresses;
	pthread_t        thread;
	bool             started, finished; /* a thread that is to be joined; it has nothing left to do */
	int64_t          last_us;           /* when the last look-up began */
};

/* Parses http://HOST[:PORT][/], or https. Only release follows a success. */
enum gatehouse_code names_init(struct names *n, const char *url, struct gatehouse_error *error);
void                names_release(struct names *n);

/* The first look-up, in the caller's thread. A name that nobody knows is an error; a resolver that cannot
 * say just now is not. */
enum gatehouse_code names_resolve(struct names *n, struct gatehouse_error *error);

void names_copy(struct names *n, struct addresses *out);

/* Tells that address `i` of those copied worked, so that it is tried first; or that none did. */
void names_worked(struct names *n, const struct address *one);
void names_failed(struct names *n, int64_t now_us);

#endif
