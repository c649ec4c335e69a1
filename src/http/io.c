/* Io: plain sockets. */
#include "http/io.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t io_error(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? IO_AGAIN : IO_BROKEN;
}

ssize_t io_read(struct io *io, void *data, size_t len)
{
	ssize_t n = recv(io->fd, data, len, 0);

	return n >= 0 ? n : io_error();
}

ssize_t io_write(struct io *io, struct iovec *parts, int count)
{
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
	ssize_t       n = count == 1 ? send(io->fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
	                             : sendmsg(io->fd, &message, MSG_NOSIGNAL);

	return n > 0 ? n : io_error();
}

void io_finish_sending(struct io *io)
{
	shutdown(io->fd, SHUT_WR);
}

void io_close(struct io *io)
{
	if (io->fd >= 0)
		close(io->fd);
	io->fd = -1;
}
