/* Io: the few functions through which a connection's bytes pass, and so the place where TLS stands:
 * everything above reads and writes alike, with it or without. */
#ifndef HTTP_IO_H
#define HTTP_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "http/http.h"

struct tls;

struct io {
	int         fd;  /* -1: closed */
	struct tls *tls; /* NULL: plain */
};

enum {
	IO_END = 0,     /* the peer has sent its last byte */
	IO_AGAIN = -1,  /* not now; epoll will say when */
	IO_BROKEN = -2, /* never again */
};

/* Puts TLS on a fresh socket, to be followed by io_handshake. False if there is no memory. */
bool io_secure(struct io *io, struct http_tls *shared);

/* 1 when it is done, IO_AGAIN, IO_BROKEN. */
ssize_t io_handshake(struct io *io);

/* Bytes read or written (at least 1), or one of the above. Writing never raises SIGPIPE. */
ssize_t io_read(struct io *io, void *data, size_t len);
ssize_t io_write(struct io *io, struct iovec *parts, int count);

/* Reads bytes as they come from the socket, to drop them. */
ssize_t io_discard(struct io *io, void *data, size_t len);

/* Are there bytes to read of which epoll will not tell? */
bool io_pending(const struct io *io);

/* What epoll should wait for after IO_AGAIN; `usually` is what a plain socket would wait for. */
uint32_t io_interest(const struct io *io, uint32_t usually);

/* Both tell a TLS peer that this was the end. */
void io_finish_sending(struct io *io);
void io_close(struct io *io);

/* Tls: one connection's TLS, between io.c and its socket, and the certificates all connections share. The
 * only part that knows OpenSSL; nothing of it shows here.
 *
 * Nothing here waits. What cannot go on now returns IO_AGAIN, and tls_wants says which event to wait for: a
 * read may have to write first, and the other way round.
 *
 * Thread rule: a struct tls belongs to its connection's loop. struct http_tls (http.h) is for any thread. */

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

/* Are there bytes to read that the socket no longer has, so that epoll will not report them? */
bool tls_pending(const struct tls *t);

/* After IO_AGAIN: EPOLLIN or EPOLLOUT; otherwise 0. */
uint32_t tls_wants(const struct tls *t);

#endif
