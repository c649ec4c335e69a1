/* Io: plain sockets here, TLS by way of tls.c. */
#include "http/io.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t io_error(void)
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? IO_AGAIN : IO_BROKEN;
}

bool io_secure(struct io *io, struct http_tls *shared)
{
	io->tls = tls_open(shared, io->fd);
	return io->tls != NULL;
}

ssize_t io_handshake(struct io *io)
{
	return tls_handshake(io->tls);
}

ssize_t io_read(struct io *io, void *data, size_t len)
{
	return io->tls != NULL ? tls_read(io->tls, data, len) : io_discard(io, data, len);
}

ssize_t io_discard(struct io *io, void *data, size_t len)
{
	ssize_t n = recv(io->fd, data, len, 0);

	return n >= 0 ? n : io_error();
}

/* Part after part: the next only if the one before went out whole. */
static ssize_t write_secure(struct io *io, const struct iovec *parts, int count)
{
	ssize_t sum = 0, n;

	for (int i = 0; i < count; i++) {
		n = tls_write(io->tls, parts[i].iov_base, parts[i].iov_len);
		if (n < 0)
			return sum > 0 ? sum : n;
		sum += n;
		if (n < (ssize_t)parts[i].iov_len)
			break;
	}
	return sum;
}

ssize_t io_write(struct io *io, struct iovec *parts, int count)
{
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
	ssize_t       n;

	if (io->tls != NULL)
		return write_secure(io, parts, count);
	n = count == 1 ? send(io->fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
	               : sendmsg(io->fd, &message, MSG_NOSIGNAL);
	return n > 0 ? n : io_error();
}

bool io_pending(const struct io *io)
{
	return io->tls != NULL && tls_pending(io->tls);
}

uint32_t io_interest(const struct io *io, uint32_t usually)
{
	uint32_t wants = io->tls != NULL ? tls_wants(io->tls) : 0;

	return wants != 0 ? wants : usually;
}

void io_finish_sending(struct io *io)
{
	if (io->tls != NULL)
		tls_finish(io->tls);
	shutdown(io->fd, SHUT_WR);
}

void io_close(struct io *io)
{
	if (io->tls != NULL) {
		tls_finish(io->tls);
		tls_close(io->tls);
	}
	io->tls = NULL;
	if (io->fd >= 0)
		close(io->fd);
	io->fd = -1;
}
