/* Aws wire: messages of HTTP/1.1 on blocking sockets, as far as a proxy between our client and a DynamoDB endpoint needs them: a head, a
 * Content-Length, a body, one message at a time. For aws_like.h. */
#ifndef TESTS_REMOTE_AWS_WIRE_H
#define TESTS_REMOTE_AWS_WIRE_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"

enum { WIRE_HEAD_BYTES_MAX = 64 * 1024, WIRE_BODY_BYTES_MAX = 64 << 20, WIRE_READ_BYTES = 16 * 1024 };

struct wire_message {
	struct buf raw; /* on the heap */
	size_t     head_len;
};

static inline struct bytes wire_body(const struct wire_message *m)
{
	return (struct bytes){m->raw.data + m->head_len, m->raw.len - m->head_len};
}

static inline struct bytes wire_head(const struct wire_message *m)
{
	return (struct bytes){m->raw.data, m->head_len};
}

/* Where it begins, or NULL. */
static inline char *wire_find(struct bytes hay, struct bytes needle)
{
	for (size_t i = 0; i + needle.len <= hay.len; i++)
		if (memcmp(hay.data + i, needle.data, needle.len) == 0)
			return (char *)(uintptr_t)hay.data + i;
	return NULL;
}

static inline bool wire_send(int fd, struct bytes text)
{
	while (text.len > 0) {
		ssize_t n = send(fd, text.data, text.len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		text = (struct bytes){text.data + n, text.len - (size_t)n};
	}
	return true;
}

/* The value of a header, or nothing. */
static inline struct bytes wire_header(struct bytes head, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i + len + 1 < head.len; i++) {
		const char *end;

		if (head.data[i] != '\n' || strncasecmp(head.data + i + 1, name, len) != 0 ||
		    head.data[i + 1 + len] != ':')
			continue;
		i += len + 2;
		end = memchr(head.data + i, '\r', head.len - i);
		return bytes_trimmed((struct bytes){head.data + i, (size_t)(end - head.data) - i});
	}
	return BYTES("");
}

/* Where the head ends; 0: not yet. */
static inline size_t wire_head_end(const struct buf *raw)
{
	const char *end = wire_find(buf_bytes(raw), BYTES("\r\n\r\n"));

	return end == NULL ? 0 : (size_t)(end - raw->data) + 4;
}

static inline bool wire_more(int fd, struct buf *raw)
{
	ssize_t n;

	buf_reserve(raw, WIRE_READ_BYTES);
	n = recv(fd, raw->data + raw->len, WIRE_READ_BYTES, 0);
	if (n <= 0)
		return false;
	raw->len += (size_t)n;
	return true;
}

/* One whole message. False: the peer has closed, or sent none of ours. */
static inline bool wire_read(int fd, struct wire_message *m)
{
	uint64_t length = 0;

	m->raw.len = 0;
	for (m->head_len = 0; m->head_len == 0; m->head_len = wire_head_end(&m->raw))
		if (m->raw.len > WIRE_HEAD_BYTES_MAX || !wire_more(fd, &m->raw))
			return false;
	if (wire_header(wire_head(m), "Content-Length").len > 0 &&
	    !bytes_to_u64(wire_header(wire_head(m), "Content-Length"), WIRE_BODY_BYTES_MAX, &length))
		return false;
	if (wire_header(wire_head(m), "Expect").len > 0 &&
	    !wire_send(fd, BYTES("HTTP/1.1 100 Continue\r\n\r\n")))
		return false;
	while (m->raw.len < m->head_len + length)
		if (!wire_more(fd, &m->raw))
			return false;
	return true;
}

static inline int wire_status(const struct wire_message *m)
{
	return m->head_len > 12 ? atoi(m->raw.data + 9) : 0;
}

/* Nagle's wait would be longer than an answer takes. */
static inline void wire_quick(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
}

static inline int wire_connect(unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) {
		wire_quick(fd);
		return fd;
	}
	close(fd);
	return -1;
}

/* On loopback; *port: 0 picks one. -1: not there. */
static inline int wire_listen(unsigned *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
	socklen_t          len = sizeof(at);
	int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1024) != 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
		close(fd);
		return -1;
	}
	*port = ntohs(at.sin_port);
	return fd;
}

/* Has the peer closed a connection that nothing is expected on? */
static inline bool wire_gone(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, 0) != 0;
}

#endif
