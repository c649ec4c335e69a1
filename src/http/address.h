/* Address: "127.0.0.1:8420" or "[::1]:8420" as a listening socket; and where peers are. */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "http/http.h"

/* As the system has it. */
union address {
	struct sockaddr     any;
	struct sockaddr_in  v4;
	struct sockaddr_in6 v6;
};

/* Is it well formed? ERR_INVALID: no. Opens nothing. */
enum err_code address_check(const char *text, struct err *err);

/* A non-blocking socket that listens there, passed on by the service manager (inherit.h) or opened.
 * ERR_INVALID: malformed. ERR_RESOURCE_IN_USE: someone else has it.
 */
enum err_code address_listen(const char *text, int *fd, struct err *err);

/* Which port a socket is bound to. */
unsigned address_port(int fd);

/* What accept said of a peer, in the form that handlers get. */
struct http_address address_of_peer(const union address *peer);

#endif
