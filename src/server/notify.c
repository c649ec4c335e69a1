/* Notify: one connected datagram socket, and a thread that pings while the watchdog waits. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "server/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"

enum { SEND_S_MAX = 5 }; /* a manager that does not read must not keep the server from stopping */

/* A name of sun_path's whole length has no NUL; the kernel takes it, we do not. */
static bool address_of(const char *name, struct sockaddr_un *address, socklen_t *len)
{
	size_t name_len = strlen(name);

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if ((name[0] != '/' && name[0] != '@') || name_len < 2 || name_len >= sizeof(address->sun_path))
		return false;
	memcpy(address->sun_path, name, name_len);
	if (name[0] == '@')
		address->sun_path[0] = '\0';
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_len);
	return true;
}

static int socket_open(const char *name)
{
	const struct timeval wait = {.tv_sec = SEND_S_MAX};
	struct sockaddr_un   address;
	socklen_t            len;
	int                  fd;

	if (!address_of(name, &address, &len)) {
		log_warn("NOTIFY_SOCKET must be a path or an abstract name");
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0 &&
	    connect(fd, (const struct sockaddr *)&address, len) == 0)
		return fd;
	log_warn("cannot connect to the service manager's socket: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Half of the watchdog's time; 0: there is no watchdog, or it is another process's. */
static int64_t watchdog_ping_us(void)
{
	const char *period = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	uint64_t    us, whose;

	if (period == NULL || !bytes_to_u64(bytes_of(period), INT64_MAX, &us))
		return 0;
	if (pid != NULL && (!bytes_to_u64(bytes_of(pid), INT32_MAX, &whose) || whose != (uint64_t)getpid()))
		return 0;
	return (int64_t)(us / 2);
}

/* ---- the watchdog's thread ---- */

static void ping(struct worker *worker, void *ctx)
{
	struct notify *n = ctx;

	(void)worker;
	if (n->alive(n->ctx))
		notify_send(n, "WATCHDOG=1");
}

/* ---- life cycle ---- */

void notify_open(struct notify *n, bool (*alive)(void *ctx), void *ctx)
{
	struct worker_options options = {.name = "watchdog", .round = ping, .ctx = n};
	const char           *name = getenv("NOTIFY_SOCKET");
	struct err            err;

	*n = (struct notify){.fd = -1, .alive = alive, .ctx = ctx};
	if (name == NULL)
		return;
	n->fd = socket_open(name);
	options.period_us = watchdog_ping_us();
	if (n->fd < 0 || options.period_us == 0)
		return;
	worker_init(&n->worker, &options);
	worker_wake(&n->worker); /* the first at once */
	n->pinging = worker_start(&n->worker, &err) == ERR_NONE;
	if (n->pinging)
		return;
	worker_release(&n->worker);
	log_warn("%s; the service manager will think that this process hangs", err.text);
}

void notify_send(struct notify *n, const char *state)
{
	if (n->fd < 0)
		return;
	if (send(n->fd, state, strlen(state), MSG_NOSIGNAL) < 0)
		log_warn("cannot tell the service manager %s: %s", state, strerror(errno));
}

void notify_close(struct notify *n)
{
	if (n->pinging) {
		worker_join(&n->worker);
		worker_release(&n->worker);
	}
	if (n->fd >= 0)
		close(n->fd);
}
