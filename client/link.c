/* Link: see link.h. */
#include "link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- waiting ---- */

/* Until the socket can do it. A signal handler's interruption is not the end of the wait. */
static enum link_result wait_for(int fd, short events, int64_t deadline_us)
{
	struct pollfd p = {fd, events, 0};

	for (;;) {
		int64_t left_us = deadline_us - clock_us();
		int     rc;

		if (left_us <= 0)
			return LINK_TIMEOUT;
		rc = poll(&p, 1, (int)((left_us + 999) / 1000));
		if (rc > 0)
			return LINK_OK;
		if (rc < 0 && errno != EINTR)
			return LINK_BROKEN;
	}
}

/* What to do about a result that is not a number of bytes: wait and go on (LINK_OK), or give up. */
static enum link_result wait_as_told(int fd, ssize_t told, int64_t deadline_us)
{
	if (told == IO_WANTS_READ)
		return wait_for(fd, POLLIN, deadline_us);
	if (told == IO_WANTS_WRITE)
		return wait_for(fd, POLLOUT, deadline_us);
	return LINK_BROKEN;
}

/* ---- opening ---- */

/* On loopback, when nobody listens, the kernel may pick the very port that is called as the caller's own, and connect
 * the socket to itself. */
static bool is_own_echo(int fd)
{
	struct sockaddr_storage near = {0}, far = {0};
	socklen_t               near_len = sizeof(near), far_len = sizeof(far);

	return getsockname(fd, (struct sockaddr *)&near, &near_len) == 0 &&
	       getpeername(fd, (struct sockaddr *)&far, &far_len) == 0 && near_len == far_len &&
	       memcmp(&near, &far, near_len) == 0;
}

static enum link_result connect_finish(int fd, int64_t deadline_us)
{
	enum link_result rc = wait_for(fd, POLLOUT, deadline_us);
	int              failure = 0;
	socklen_t        len = sizeof(failure);

	if (rc != LINK_OK)
		return rc;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &len) != 0 || failure != 0)
		return LINK_REFUSED;
	return LINK_OK;
}

static enum link_result connect_to(const struct address *a, int64_t deadline_us, int *fd)
{
	enum link_result rc = LINK_OK;
	int              one = 1;

	*fd = socket(a->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return errno == EAFNOSUPPORT ? LINK_REFUSED : LINK_NO_MEMORY;
	setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(*fd, (const struct sockaddr *)&a->at, a->len) != 0)
		rc = errno == EINPROGRESS || errno == EINTR ? connect_finish(*fd, deadline_us) : LINK_REFUSED;
	if (rc == LINK_OK && is_own_echo(*fd))
		rc = LINK_REFUSED;
	if (rc != LINK_OK)
		close(*fd);
	return rc;
}

static enum link_result connect_any(struct names *names, int64_t deadline_us, int *fd)
{
	struct addresses addresses;
	enum link_result rc = LINK_REFUSED;

	names_copy(names, &addresses);
	for (unsigned i = 0; i < addresses.count; i++) {
		int64_t now_us = clock_us();
		int64_t share_us = (deadline_us - now_us) / (addresses.count - i);

		rc = connect_to(&addresses.list[i], now_us + share_us, fd);
		if (rc == LINK_OK)
			names_worked(names, &addresses.list[i]);
		if (rc == LINK_OK || rc == LINK_NO_MEMORY)
			return rc;
	}
	names_failed(names, clock_us());
	return rc;
}

static enum link_result shake_hands(struct link *l, int64_t deadline_us, const char **why)
{
	ssize_t told;

	while ((told = tls_handshake(l->tls, why)) != 1) {
		enum link_result rc = wait_as_told(l->fd, told, deadline_us);

		if (rc != LINK_OK)
			return rc == LINK_BROKEN ? LINK_UNTRUSTED : rc;
	}
	return LINK_OK;
}

enum link_result link_open(struct link *l, struct names *names, struct tls_context *tls, int64_t deadline_us,
                           const char **why)
{
	enum link_result rc;

	*why = NULL;
	*l = (struct link){.fd = -1};
	rc = connect_any(names, deadline_us, &l->fd);
	if (rc != LINK_OK) {
		l->fd = -1;
		return rc;
	}
	if (tls == NULL)
		return LINK_OK;
	l->tls = tls_open(tls, l->fd, names->host, names->numeric);
	rc = l->tls == NULL ? LINK_NO_MEMORY : shake_hands(l, deadline_us, why);
	if (rc != LINK_OK)
		link_close(l);
	return rc;
}

void link_close(struct link *l)
{
	tls_close(l->tls);
	if (l->fd >= 0)
		close(l->fd);
	*l = (struct link){.fd = -1};
}

/* ---- bytes ---- */

static ssize_t told_by(ssize_t n, ssize_t wants)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? wants : IO_BROKEN;
}

static ssize_t write_some(struct link *l, const char *data, size_t len)
{
	if (l->tls != NULL)
		return tls_write(l->tls, data, len);
	return told_by(send(l->fd, data, len, MSG_NOSIGNAL), IO_WANTS_WRITE);
}

static ssize_t read_some(struct link *l, char *data, size_t size)
{
	if (l->tls != NULL)
		return tls_read(l->tls, data, size);
	return told_by(recv(l->fd, data, size, 0), IO_WANTS_READ);
}

enum link_result link_send(struct link *l, const char *data, size_t len, int64_t deadline_us)
{
	while (len > 0) {
		ssize_t          n = write_some(l, data, len);
		enum link_result rc;

		if (n > 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		rc = wait_as_told(l->fd, n, deadline_us);
		if (rc != LINK_OK)
			return rc;
	}
	return LINK_OK;
}

/* The deadline is looked at before every read: a peer that always has one more byte does not get past it. */
enum link_result link_receive(struct link *l, char *data, size_t size, int64_t deadline_us, size_t *len)
{
	ssize_t n;

	if (clock_us() >= deadline_us)
		return LINK_TIMEOUT;
	while ((n = read_some(l, data, size)) <= 0) {
		enum link_result rc = wait_as_told(l->fd, n, deadline_us);

		if (rc != LINK_OK)
			return rc;
	}
	*len = (size_t)n;
	return LINK_OK;
}

bool link_is_idle(struct link *l)
{
	char one;

	if (l->tls != NULL)
		return tls_is_idle(l->tls);
	return told_by(recv(l->fd, &one, 1, MSG_PEEK), IO_WANTS_READ) == IO_WANTS_READ;
}
