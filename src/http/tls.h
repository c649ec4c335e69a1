/* Tls: one connection's TLS, between io.c and its socket, and the certificates all connections share. The
 * only part that knows OpenSSL; nothing of it shows here.
 *
 * Nothing here waits. What cannot go on now returns IO_AGAIN, and tls_wants says which event to wait for: a
 * read may have to write first, and the other way round.
 *
 * Thread rule: a struct tls belongs to its connection's loop. struct http_tls (http.h) is for any thread. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "http/http.h"

struct tls;

/* With the certificates of this moment, which it keeps whatever is loaded later. Does not take over fd. NULL
 * if there is no memory. */
struct tls *tls_open(struct http_tls *shared, int fd);

/* Says goodbye to a peer that is there to hear it, as far as one write goes. */
void tls_finish(struct tls *t);
void tls_close(struct tls *t);

/* 1 when the peer is known to speak TLS and has shown what it must; IO_AGAIN, IO_BROKEN. */
ssize_t tls_handshake(struct tls *t);

/* As io_read and io_write. */
ssize_t tls_read(struct tls *t, void *data, size_t len);
ssize_t tls_write(struct tls *t, const void *data, size_t len);

/* Are there bytes to read that the socket no longer has, so that epoll will not tell of them? */
bool tls_pending(const struct tls *t);

/* After IO_AGAIN: EPOLLIN or EPOLLOUT; otherwise 0. */
uint32_t tls_wants(const struct tls *t);

#endif
