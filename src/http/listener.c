/* Listener: a bounded number of connections a round, so that a flood of them leaves room for requests.
 * Running out of descriptors neither stops it for good nor makes it spin: the spare one lets the first in
 * line be turned away, and then accepting rests for a moment. */
#define _GNU_SOURCE /* accept4 */
#include "http/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "http/address.h"
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
		loop_count(&l->counts.refused);
		turn_away(l, fd);
		return;
	}
	loop_count(&l->counts.accepted);
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

	loop_count(&li->loops[0].counts.refused);
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
