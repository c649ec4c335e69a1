/* Listener: accepts connections on loop 0 and deals them out to all loops in turn; and the sockets and addresses for that. */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "http/loop.h"

struct listener {
	struct watch watch;
	struct timer pause; /* armed while accepting rests for want of descriptors */
	struct loop *loops;
	unsigned     loop_count;
	unsigned     next; /* whose turn it is */
	int          fd;
	int          spare_fd; /* given up for a moment to be able to turn a peer away */
};

/* Takes over fd, success or not. loops[0] is the one that accepts. */
enum err_code listener_init(struct listener *li, int fd, struct loop *loops, unsigned loop_count,
                            struct err *err);

/* On loop 0's thread: accepts what waits already, then stops listening. */
void listener_stop(struct listener *li);

/* For when loop 0 never ran. */
void listener_release(struct listener *li);

/* ---- addresses ---- */

/* As the system has it. */
union address {
	struct sockaddr     any;
	struct sockaddr_in  v4;
	struct sockaddr_in6 v6;
};

/* A non-blocking socket that listens there, passed on by the service manager or opened.
 * ERR_INVALID: malformed. ERR_RESOURCE_IN_USE: someone else has it.
 */
enum err_code address_listen(const char *text, int *fd, struct err *err);

/* Which port a socket is bound to. */
unsigned address_port(int fd);

/* What accept said of a peer, in the form that handlers get. */
struct http_address address_of_peer(const union address *peer);

/* Listening sockets that a service manager opened and passed on (socket activation): $LISTEN_FDS of them from descriptor 3
 * on, for the process $LISTEN_PID. */
enum { INHERIT_FIRST_FD = 3, INHERIT_MAX = 16 };

/* A non-blocking copy of the passed socket that listens at exactly this address; -1: there is none. The
 * passed one stays open, also across exec: connections wait there while the program starts again. */
int inherit_find(const struct sockaddr *address);

#endif
