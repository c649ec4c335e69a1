/* Address: numeric addresses only, so that starting never waits for a name server. */
#include "http/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#include "http/inherit.h"

enum { LISTEN_BACKLOG = 1024 };

/* The host without brackets, and the port, of "host:port" or "[host]:port". */
static bool split(const char *text, char host[INET6_ADDRSTRLEN], uint64_t *port, bool *bracketed)
{
	const char *colon = strrchr(text, ':');
	size_t      len = colon == NULL ? 0 : (size_t)(colon - text);

	*bracketed = len >= 2 && text[0] == '[' && text[len - 1] == ']';
	if (*bracketed) {
		text++;
		len -= 2;
	}
	if (len == 0 || len >= INET6_ADDRSTRLEN)
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	return bytes_to_u64(bytes_of(colon + 1), UINT16_MAX, port);
}

static bool parse(const char *text, union address *out, socklen_t *len)
{
	char     host[INET6_ADDRSTRLEN];
	bool     bracketed;
	uint64_t port;

	*out = (union address){0};
	if (!split(text, host, &port, &bracketed))
		return false;
	if (bracketed) {
		out->v6.sin6_family = AF_INET6;
		out->v6.sin6_port = htons((uint16_t)port);
		*len = sizeof(out->v6);
		return inet_pton(AF_INET6, host, &out->v6.sin6_addr) == 1;
	}
	out->v4.sin_family = AF_INET;
	out->v4.sin_port = htons((uint16_t)port);
	*len = sizeof(out->v4);
	return inet_pton(AF_INET, host, &out->v4.sin_addr) == 1;
}

static enum err_code bind_error(const char *text, struct err *err)
{
	if (errno == EADDRINUSE)
		return err_set(err, ERR_RESOURCE_IN_USE, "listen on %s: the port is in use", text);
	return err_set(err, ERR_STORAGE, "listen on %s: %s", text, strerror(errno));
}

static enum err_code refuse_malformed(const char *text, struct err *err)
{
	return err_set(err, ERR_INVALID, "listen address \"%s\": expected 127.0.0.1:8420 or [::1]:8420",
	               text);
}

enum err_code address_check(const char *text, struct err *err)
{
	union address address;
	socklen_t     len;

	return parse(text, &address, &len) ? ERR_NONE : refuse_malformed(text, err);
}

enum err_code address_listen(const char *text, int *fd, struct err *err)
{
	const int     on = 1;
	union address address;
	socklen_t     len;

	if (!parse(text, &address, &len))
		return refuse_malformed(text, err);
	*fd = inherit_find(&address.any);
	if (*fd >= 0)
		return ERR_NONE;
	*fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return err_set(err, ERR_STORAGE, "socket: %s", strerror(errno));
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(*fd, &address.any, len) != 0 || listen(*fd, LISTEN_BACKLOG) != 0) {
		enum err_code rc = bind_error(text, err);

		close(*fd);
		return rc;
	}
	return ERR_NONE;
}

unsigned address_port(int fd)
{
	union address address = {0};
	socklen_t     len = sizeof(address);

	if (getsockname(fd, &address.any, &len) != 0)
		return 0;
	return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

struct http_address address_of_peer(const union address *peer)
{
	struct http_address out = {{0}};

	if (peer->any.sa_family == AF_INET6) {
		memcpy(out.bytes, &peer->v6.sin6_addr, sizeof(out.bytes));
	} else if (peer->any.sa_family == AF_INET) {
		out.bytes[10] = out.bytes[11] = 0xff;
		memcpy(out.bytes + 12, &peer->v4.sin_addr, sizeof(peer->v4.sin_addr));
	}
	return out;
}
