/* Listener: a bounded number of connections per round, so that a flood of them leaves room for requests.
 * Running out of descriptors neither stops it for good nor makes it spin: the spare one lets the first in
 * line be turned away, and then accepting rests for a moment. */
#define _GNU_SOURCE /* accept4 */
#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "http/answer.h"

enum {
	ACCEPT_BATCH_MAX = 64,
	ACCEPT_LAST_MAX = 2048, /* when stopping: what the backlog can hold, and some */
	TURN_AWAY_BYTES_MAX = 4096,
	/* What the kernel may keep of an answer beyond what is on its way. By itself it takes megabytes for
	 * a peer that reads nothing, out of our count, and calls them sent. */
	UNSENT_BYTES_MAX = 128 * 1024,
};

static int spare_open(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_on_event(struct watch *w, uint32_t events);
static void listener_on_pause_end(struct timer *timer);

enum err_code listener_init(struct listener *li, int fd, struct loop *loops, unsigned loop_count,
                            struct err *err)
{
	*li = (struct listener){.loops = loops, .loop_count = loop_count, .fd = fd};
	li->watch.on_event = listener_on_event;
	timer_init(&li->pause, listener_on_pause_end);
	li->spare_fd = spare_open();
	if (loop_watch(&loops[0], fd, &li->watch, EPOLLIN))
		return ERR_NONE;
	listener_release(li);
	return err_set(err, ERR_STORAGE, "epoll_ctl: %s", strerror(errno));
}

void listener_release(struct listener *li)
{
	if (li->fd >= 0)
		close(li->fd);
	if (li->spare_fd >= 0)
		close(li->spare_fd);
	li->fd = li->spare_fd = -1;
}

/* Answers 503 as far as one write goes. */
static void turn_away_say(struct loop *l, struct io *io)
{
	struct http_error     error = {.status = 503, .text = "too many connections; try again shortly"};
	struct response_facts facts = {.close = true};
	struct arena          arena;
	struct http_response  response;
	struct iovec          part;
	struct buf            text;

	arena_init(&arena);
	buf_init(&text, &arena);
	response = answer_error(l->handler, &arena, &error);
	facts.date = date_at(&l->date, l->wall_us);
	response_head(&text, &response, &facts);
	buf_add_bytes(&text, response.body);
	part = (struct iovec){text.data, text.len};
	io_write(io, &part, 1);
	arena_release(&arena);
}

/* What the peer has sent already is read, for closing with bytes unread would reset the connection and might
 * take the answer with it. Under TLS there is none: that would take the handshake there is no room for. */
static void turn_away(struct loop *l, int fd)
{
	struct io io = {.fd = fd};
	char      dropped[TURN_AWAY_BYTES_MAX];

	if (l->tls == NULL)
		turn_away_say(l, &io);
	io_finish_sending(&io);
	io_discard(&io, dropped, sizeof(dropped));
	io_close(&io);
}

static void deal(struct listener *li, int fd, struct http_address peer)
{
	struct loop *l = &li->loops[0];
	const int    on = 1, unsent = UNSENT_BYTES_MAX;

	if (atomic_load_explicit(l->connections_now, memory_order_relaxed) >= l->limits->connections_max) {
		metric_up(&l->counts.refused);
		turn_away(l, fd);
		return;
	}
	metric_up(&l->counts.accepted);
	atomic_fetch_add_explicit(l->connections_now, 1, memory_order_relaxed);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
	conn_open(&li->loops[li->next], fd, peer);
	li->next = (li->next + 1) % li->loop_count;
}

static void rest(struct listener *li)
{
	struct loop *l = &li->loops[0];

	loop_rewatch(l, li->fd, &li->watch, 0);
	timers_arm(&l->timers, &li->pause, TIMER_ACCEPT, l->now_us);
}

static void listener_on_pause_end(struct timer *timer)
{
	struct listener *li = LIST_ENTRY(timer, struct listener, pause);

	if (li->spare_fd < 0)
		li->spare_fd = spare_open();
	loop_rewatch(&li->loops[0], li->fd, &li->watch, EPOLLIN);
}

/* No descriptor left. The first in line would wait without end and keep epoll awake: close on him. */
static void accept_without_descriptors(struct listener *li)
{
	int fd;

	metric_up(&li->loops[0].counts.refused);
	if (li->spare_fd >= 0)
		close(li->spare_fd);
	fd = accept4(li->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	li->spare_fd = spare_open();
	rest(li);
}

/* False: no more for now. */
static bool accept_one(struct listener *li)
{
	union address peer = {0};
	socklen_t     len = sizeof(peer);
	int           fd = accept4(li->fd, &peer.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd >= 0) {
		deal(li, fd, address_of_peer(&peer));
		return true;
	}
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return false;
	if (errno == EMFILE || errno == ENFILE) {
		accept_without_descriptors(li);
		return false;
	}
	if (errno == ENOBUFS || errno == ENOMEM) {
		rest(li);
		return false;
	}
	return true; /* that one went away, or its network did */
}

static void accept_up_to(struct listener *li, int count)
{
	while (count-- > 0 && accept_one(li))
		;
}

static void listener_on_event(struct watch *w, uint32_t events)
{
	(void)events;
	accept_up_to(LIST_ENTRY(w, struct listener, watch), ACCEPT_BATCH_MAX);
}

void listener_stop(struct listener *li)
{
	accept_up_to(li, ACCEPT_LAST_MAX);
	timers_arm(&li->loops[0].timers, &li->pause, TIMER_NONE, 0);
	listener_release(li);
}

/* ---- addresses: numeric only, so that starting never waits for a name server ---- */

enum { LISTEN_BACKLOG = 1024 };

/* The host without brackets, and the port, of "host:port" or "[host]:port". */
static bool address_split(const char *text, char host[INET6_ADDRSTRLEN], uint64_t *port, bool *bracketed)
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

static bool address_parse(const char *text, union address *out, socklen_t *len)
{
	char     host[INET6_ADDRSTRLEN];
	bool     bracketed;
	uint64_t port;

	*out = (union address){0};
	if (!address_split(text, host, &port, &bracketed))
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

static enum err_code refuse_malformed(const char *text, struct err *err)
{
	return err_set(err, ERR_INVALID, "listen address \"%s\": expected 127.0.0.1:8420 or [::1]:8420",
	               text);
}

enum err_code http_address_check(const char *text, struct err *err)
{
	union address address;
	socklen_t     len;

	return address_parse(text, &address, &len) ? ERR_NONE : refuse_malformed(text, err);
}

enum err_code address_listen(const char *text, int *fd, struct err *err)
{
	const int     on = 1;
	union address address;
	socklen_t     len;

	if (!address_parse(text, &address, &len))
		return refuse_malformed(text, err);
	*fd = inherit_find(&address.any);
	if (*fd >= 0)
		return ERR_NONE;
	*fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return err_set(err, ERR_STORAGE, "socket: %s", strerror(errno));
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(*fd, &address.any, len) != 0 || listen(*fd, LISTEN_BACKLOG) != 0) {
		int error = errno;

		close(*fd);
		if (error == EADDRINUSE)
			return err_set(err, ERR_RESOURCE_IN_USE, "listen on %s: the port is in use", text);
		return err_set(err, ERR_STORAGE, "listen on %s: %s", text, strerror(error));
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

/* ---- sockets that were passed on. They are found by address, so that what is said about the address on the command line
 * (loopback or not, TLS or not) is judged the same whoever opened the socket. ---- */

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

static int passed_copy(int fd)
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
			return passed_copy(INHERIT_FIRST_FD + i);
	return -1;
}
