/* Inherit: listening sockets that a service manager opened and passed on (socket activation): $LISTEN_FDS of
 * them from descriptor 3 on, for the process $LISTEN_PID. */
#ifndef HTTP_INHERIT_H
#define HTTP_INHERIT_H

#include <sys/socket.h>

enum { INHERIT_FIRST_FD = 3, INHERIT_MAX = 16 };

/* A non-blocking copy of the passed socket that listens at exactly this address; -1: there is none. The
 * passed one stays open, also across exec: connections wait there while the program starts again. */
int inherit_find(const struct sockaddr *address);

#endif
