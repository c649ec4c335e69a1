/* Io: the two functions through which a connection's bytes pass, and so the place where TLS will stand. */
#ifndef HTTP_IO_H
#define HTTP_IO_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct io {
	int fd; /* -1: closed */
};

enum {
	IO_END = 0,     /* the peer has sent its last byte */
	IO_AGAIN = -1,  /* not now; epoll will say when */
	IO_BROKEN = -2, /* never again */
};

/* Bytes read or written (at least 1), or one of the above. Writing never raises SIGPIPE. */
ssize_t io_read(struct io *io, void *data, size_t len);
ssize_t io_write(struct io *io, struct iovec *parts, int count);

void io_finish_sending(struct io *io);
void io_close(struct io *io);

#endif
