/* Inherit: finds the passed socket by its address, so that what is said about the address on the command line
 * (loopback or not, TLS or not) is judged the same whoever opened the socket. */
#include "http/inherit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"

static bool number_of(const char *variable, uint64_t *out)
{
	const char *text = getenv(variable);

	return text != NULL && bytes_to_u64(bytes_of(text), INT32_MAX, out);
}

static int passed_count(void)
{
	uint64_t pid, count;

	if (!number_of("LISTEN_PID", &pid) || pid != (uint64_t)getpid() || !number_of("LISTEN_FDS", &count))
		return 0;
	return count > INHERIT_MAX ? INHERIT_MAX : (int)count;
}

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in  *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a->sa_family == AF_INET6 && a6->sin6_port == b6->sin6_port &&
	       memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

static bool listens_at(int fd, const struct sockaddr *address)
{
	struct sockaddr_storage at = {0};
	socklen_t               len = sizeof(at), size = sizeof(int);
	int                     listens = 0, type = 0;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM &&
	       getsockname(fd, (struct sockaddr *)&at, &len) == 0 &&
	       same_address((const struct sockaddr *)&at, address);
}

static int copy(int fd)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (own >= 0)
		fcntl(own, F_SETFL, fcntl(own, F_GETFL) | O_NONBLOCK);
	return own;
}

int inherit_find(const struct sockaddr *address)
{
	int count = passed_count();

	for (int i = 0; i < count; i++)
		if (listens_at(INHERIT_FIRST_FD + i, address))
			return copy(INHERIT_FIRST_FD + i);
	return -1;
}
