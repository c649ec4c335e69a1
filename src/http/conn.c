/* Conn: the state machine of conn.h. Events and deadlines come in here; conn_move is the only place where
 * the state changes. */
#include "http/conn.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "http/answer.h"
#include "http/stream.h"

enum { LINGER_BYTES_MAX = 64 * 1024 * 1024 };

#define TO(state) (1u << (state))

/* From each state, where it may go. A state that may go to itself has its deadline moved that way. */
static const unsigned moves[CONN_STATES] = {
        [CONN_NEW] = TO(CONN_HANDSHAKE) | TO(CONN_IDLE) | TO(CONN_CLOSED),
        [CONN_HANDSHAKE] = TO(CONN_IDLE) | TO(CONN_LINGER) | TO(CONN_CLOSED),
        [CONN_IDLE] = TO(CONN_HEAD) | TO(CONN_CLOSED),
        [CONN_HEAD] = TO(CONN_BODY) | TO(CONN_HANDLING) | TO(CONN_SENDING) | TO(CONN_CLOSED),
        [CONN_BODY] = TO(CONN_BODY) | TO(CONN_HANDLING) | TO(CONN_SENDING) | TO(CONN_CLOSED),
        [CONN_HANDLING] = TO(CONN_SENDING) | TO(CONN_ABANDONED) | TO(CONN_PARKED) | TO(CONN_STREAM),
        [CONN_PARKED] = TO(CONN_HANDLING) | TO(CONN_ABANDONED),
        [CONN_ABANDONED] = TO(CONN_CLOSED),
        [CONN_SENDING] = TO(CONN_SENDING) | TO(CONN_IDLE) | TO(CONN_LINGER) | TO(CONN_CLOSED),
        [CONN_STREAM] = TO(CONN_STREAM) | TO(CONN_STREAM_WAIT) | TO(CONN_LINGER) | TO(CONN_CLOSED),
        [CONN_STREAM_WAIT] = TO(CONN_STREAM) | TO(CONN_STREAM_WAIT) | TO(CONN_LINGER) | TO(CONN_CLOSED),
        [CONN_LINGER] = TO(CONN_CLOSED),
};

static const enum timer_kind deadlines[CONN_STATES] = {
        [CONN_HANDSHAKE] = TIMER_HEAD,   [CONN_IDLE] = TIMER_IDLE,    [CONN_HEAD] = TIMER_HEAD,
        [CONN_BODY] = TIMER_BODY,        [CONN_SENDING] = TIMER_SEND, [CONN_LINGER] = TIMER_LINGER,
        [CONN_STREAM_WAIT] = TIMER_SEND,
};

void conn_move(struct conn *c, enum conn_state to)
{
	assert((moves[c->state] & TO(to)) != 0);
	c->state = to;
	timers_arm(&c->loop->timers, &c->timer, deadlines[to], c->loop->now_us);
}

static void conn_on_event(struct watch *w, uint32_t events);
static void conn_on_timeout(struct timer *timer);
static void conn_arrive(struct inbox_item *item);

void conn_open(struct loop *l, int fd, struct http_address peer)
{
	struct conn *c = mem_zalloc(sizeof(*c));

	c->watch.on_event = conn_on_event;
	c->loop = l;
	c->io.fd = fd;
	c->peer = peer;
	c->state = CONN_NEW;
	c->arrival.run = conn_arrive;
	timer_init(&c->timer, conn_on_timeout);
	list_init(&c->link);
	list_init(&c->grave);
	buf_init(&c->out, NULL);
	inbox_push(&l->inbox, &c->arrival, NULL);
}

static size_t conn_buffered(const struct conn *c)
{
	return c->in_end - c->in_start;
}

static void conn_arrive(struct inbox_item *item)
{
	struct conn *c = LIST_ENTRY(item, struct conn, arrival);

	list_push_back(&c->loop->conns, &c->link);
	c->interest = EPOLLIN;
	if (!loop_watch(c->loop, c->io.fd, &c->watch, c->interest) ||
	    (c->loop->tls != NULL && !io_secure(&c->io, c->loop->tls))) {
		conn_close(c);
		return;
	}
	conn_move(c, c->loop->tls != NULL ? CONN_HANDSHAKE : CONN_IDLE);
}

static void buffer_end(struct conn *c)
{
	if (c->in != NULL)
		buffer_give(&c->loop->pool, c->in);
	c->in = NULL;
	c->in_start = c->in_end = 0;
}

/* Closing alone would take the socket out of epoll only if no one else held the descriptor: a process that is
 * being started does, until its exec, and events would name a connection that is gone. */
static void socket_end(struct conn *c)
{
	loop_unwatch(c->loop, c->io.fd);
	io_close(&c->io);
	atomic_fetch_sub_explicit(c->loop->connections_now, 1, memory_order_relaxed);
	buffer_end(c);
	budget_move(&c->loop->budget, c->out.cap, 0);
	buf_release(&c->out);
}

/* A request that outlived its socket has been answered by now. */
static void data_end(struct conn *c)
{
	const struct http_handler *h = c->loop->handler;

	if (c->data != NULL)
		h->conn_end(h->ctx, c->data);
	c->data = NULL;
}

void conn_close(struct conn *c)
{
	if (c->stream != NULL)
		stream_over(c);
	if (c->state != CONN_ABANDONED)
		socket_end(c);
	if (c->exchange != NULL)
		exchange_give(&c->loop->pool, c->exchange);
	c->exchange = NULL;
	data_end(c);
	conn_move(c, CONN_CLOSED);
	list_push_back(&c->loop->graves, &c->grave);
}

/* The peer is gone while its request is being handled, maybe by another thread: only the socket ends here. */
static void conn_abandon(struct conn *c)
{
	atomic_store_explicit(&c->exchange->abandoned, true, memory_order_relaxed);
	socket_end(c);
	conn_move(c, CONN_ABANDONED);
	park_end(c, HTTP_END_GONE);
}

/* Closing with bytes unread would reset the connection, and the peer might lose what was said last. */
void conn_linger(struct conn *c)
{
	c->in_start = c->in_end = 0;
	io_finish_sending(&c->io);
	conn_move(c, CONN_LINGER);
}

void conn_free(struct conn *c)
{
	assert(c->state == CONN_CLOSED);
	list_remove(&c->link);
	free(c);
}

static bool is_reading(const struct conn *c)
{
	return c->state == CONN_IDLE || c->state == CONN_HEAD || c->state == CONN_BODY;
}

static void conn_want(struct conn *c, uint32_t events)
{
	if (c->interest == events)
		return;
	c->interest = events;
	loop_rewatch(c->loop, c->io.fd, &c->watch, events);
}

/* What a request says of where it came from. */
static void request_place(struct conn *c)
{
	struct http_request *r = &c->exchange->request;

	r->received_us = c->loop->now_us;
	r->secure = c->io.tls != NULL;
	r->peer = c->peer;
	r->loop_data = c->loop->loop_data;
	r->user = NULL;
}

static void conn_handle(struct conn *c)
{
	const struct http_handler *h = c->loop->handler;
	struct http_request       *r = &c->exchange->request;

	request_place(c);
	metric_up(&c->loop->counts.requests);
	conn_move(c, CONN_HANDLING);
	h->handle(h->ctx, r);
}

/* A large body is taken from those whom the handler knows; false if it has been answered instead. */
static bool conn_admit(struct conn *c)
{
	const struct http_handler *h = c->loop->handler;

	request_place(c);
	if (h->admits == NULL || h->admits(h->ctx, &c->exchange->request)) {
		receive_admit(&c->exchange->receive, h->digests);
		return true;
	}
	c->exchange->request.body_refused = true;
	conn_handle(c);
	return false;
}

void conn_measure(struct conn *c)
{
	c->moving_since_us = c->loop->now_us;
	c->moved_before = 0;
}

bool conn_is_slow(struct conn *c, size_t moved_bytes)
{
	const struct http_limits *limits = c->loop->limits;
	int64_t                   elapsed_us = c->loop->now_us - c->moving_since_us;
	int64_t                   moved = (int64_t)(moved_bytes - c->moved_before);

	if (elapsed_us <= limits->head_ms * 1000)
		return false;
	c->moving_since_us = c->loop->now_us;
	c->moved_before = moved_bytes;
	return moved < limits->rate_min * (elapsed_us / 1000) / 1000;
}

static void body_progress(struct conn *c)
{
	size_t len = c->exchange->receive.body.len;

	if (c->state == CONN_HEAD) {
		conn_measure(c);
		c->body_seen = len;
		conn_move(c, CONN_BODY);
	} else if (c->loop->now_us - c->began_us >= c->loop->limits->request_ms * 1000) {
		answer_refuse(c, (struct refusal){408, "the request took too long to arrive"});
	} else if (conn_is_slow(c, len)) {
		answer_refuse(c, (struct refusal){408, "the request's body arrived too slowly"});
	} else if (len > c->body_seen) {
		c->body_seen = len;
		conn_move(c, CONN_BODY);
	}
}

/* The request is not whole yet and all bytes at hand are used, or are the start of a head. */
static void conn_wait(struct conn *c)
{
	struct receive *r = &c->exchange->receive;

	if (r->part == RECEIVE_HEAD) {
		if (c->in_start > 0)
			memmove(c->in->data, c->in->data + c->in_start, conn_buffered(c));
		c->in_end -= c->in_start;
		c->in_start = 0;
		return;
	}
	if (r->continue_wanted) {
		r->continue_wanted = false;
		answer_continue(c);
	}
	if (c->state != CONN_CLOSED)
		body_progress(c);
}

static enum receive_step conn_feed(struct conn *c)
{
	struct receive   *r = &c->exchange->receive;
	enum receive_step step;
	size_t            used;

	if (c->took > 0) {
		used = c->took;
		c->took = 0;
		return receive_took(r, used);
	}
	step = receive_feed(r, (struct bytes){c->in->data + c->in_start, conn_buffered(c)}, &used);
	c->in_start += used;
	return step;
}

/* Uses what has been read; true if there may be another request in it. */
static bool conn_step(struct conn *c)
{
	enum receive_step step;

	if (conn_buffered(c) == 0 && c->took == 0)
		return false;
	if (c->state == CONN_IDLE) {
		c->exchange = exchange_take(&c->loop->pool, c);
		c->began_us = c->loop->now_us;
		conn_move(c, CONN_HEAD);
	}
	step = conn_feed(c);
	if (step == RECEIVE_LARGE) {
		if (!conn_admit(c))
			return false;
		step = conn_feed(c);
	}
	switch (step) {
	case RECEIVE_DONE:
		conn_handle(c);
		return true;
	case RECEIVE_REFUSED:
		answer_refuse(c, c->exchange->receive.refusal);
		return false;
	case RECEIVE_LARGE: /* asked once */
	case RECEIVE_MORE:
		break;
	}
	conn_wait(c);
	return false;
}

/* Interest follows the state, except in HANDLING: most peers send nothing then, and need no system call. */
static void conn_follow_state(struct conn *c)
{
	if (conn_buffered(c) == 0)
		buffer_end(c);
	if (is_reading(c) || c->state == CONN_HANDSHAKE)
		conn_want(c, io_interest(&c->io, EPOLLIN));
	else if (c->state == CONN_LINGER || c->state == CONN_STREAM)
		conn_want(c, EPOLLIN);
	else if (c->state == CONN_SENDING && c->out.len > 0)
		conn_want(c, io_interest(&c->io, EPOLLOUT));
	else if (c->state == CONN_PARKED)
		conn_want(c, EPOLLRDHUP);
	else if (c->state == CONN_STREAM_WAIT)
		conn_want(c, EPOLLIN | io_interest(&c->io, EPOLLOUT));
}

/* Where the next bytes go: large bodies straight to their place. */
static ssize_t conn_fill(struct conn *c)
{
	size_t  room;
	char   *place = NULL;
	ssize_t n;

	if (c->exchange != NULL && conn_buffered(c) == 0)
		place = receive_room(&c->exchange->receive, &room);
	if (place != NULL) {
		n = io_read(&c->io, place, room);
		c->took = n > 0 ? (size_t)n : 0;
		return n;
	}
	if (c->in == NULL)
		c->in = buffer_take(&c->loop->pool);
	assert(c->in_end < c->loop->pool.buffer_bytes);
	n = io_read(&c->io, c->in->data + c->in_end, c->loop->pool.buffer_bytes - c->in_end);
	if (n > 0)
		c->in_end += (size_t)n;
	return n;
}

/* Takes what TLS holds of a record already; true if there was something. */
static bool conn_refill(struct conn *c)
{
	ssize_t n;

	if (!is_reading(c) || !io_pending(&c->io))
		return false;
	if (conn_buffered(c) == 0)
		c->in_start = c->in_end = 0;
	n = conn_fill(c);
	if (n == IO_END || n == IO_BROKEN)
		conn_close(c);
	return n > 0;
}

void conn_drive(struct conn *c)
{
	if (c->driving)
		return;
	c->driving = true;
	while (is_reading(c) && (conn_step(c) || conn_refill(c)))
		;
	c->driving = false;
	if (c->state != CONN_CLOSED && c->state != CONN_ABANDONED)
		conn_follow_state(c);
}

static void conn_read(struct conn *c)
{
	ssize_t n = conn_fill(c);

	if (n == IO_END || n == IO_BROKEN)
		conn_close(c);
	else
		conn_drive(c);
}

/* A peer often sends its first request right behind its part of the handshake. */
static void conn_handshake(struct conn *c)
{
	ssize_t n = io_handshake(&c->io);

	if (n > 0) {
		conn_move(c, CONN_IDLE);
		conn_read(c);
		return;
	}
	if (n != IO_AGAIN) {
		metric_up(&c->loop->counts.handshakes_failed);
		conn_linger(c);
	}
	conn_follow_state(c);
}

/* Reads what a refused peer still sends. */
static void conn_discard(struct conn *c)
{
	ssize_t n;

	if (c->in == NULL)
		c->in = buffer_take(&c->loop->pool);
	n = io_discard(&c->io, c->in->data, c->loop->pool.buffer_bytes);
	buffer_end(c);
	if (n == IO_AGAIN)
		return;
	c->lingered_bytes += n > 0 ? (size_t)n : 0;
	if (n <= 0 || c->lingered_bytes > LINGER_BYTES_MAX)
		conn_close(c);
}

static void conn_on_event(struct watch *w, uint32_t events)
{
	struct conn *c = LIST_ENTRY(w, struct conn, watch);

	switch (c->state) {
	case CONN_HANDSHAKE:
		conn_handshake(c);
		break;
	case CONN_IDLE:
	case CONN_HEAD:
	case CONN_BODY:
		conn_read(c);
		break;
	case CONN_HANDLING:
		if (events & (EPOLLHUP | EPOLLERR))
			conn_abandon(c);
		else
			conn_want(c, 0); /* pipelined bytes, or the end of them: later */
		break;
	case CONN_PARKED:
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			conn_abandon(c);
		break;
	case CONN_SENDING:
		answer_flush(c);
		conn_drive(c);
		break;
	case CONN_STREAM:
	case CONN_STREAM_WAIT:
		stream_on_event(c, events);
		break;
	case CONN_LINGER:
		conn_discard(c);
		break;
	case CONN_NEW:
	case CONN_ABANDONED:
	case CONN_CLOSED: /* earlier in this round */
	case CONN_STATES:
		break;
	}
}

static void conn_on_timeout(struct timer *timer)
{
	struct conn *c = LIST_ENTRY(timer, struct conn, timer);

	if (c->state == CONN_HEAD || c->state == CONN_BODY) {
		answer_refuse(c, (struct refusal){408, "the request did not arrive in time"});
		conn_drive(c);
		return;
	}
	metric_up(&c->loop->counts.timeouts);
	if (c->stream != NULL)
		stream_on_timeout(c);
	else
		conn_close(c);
}

/* A request may have come that no event has told of yet. */
void conn_stop(struct conn *c)
{
	if (c->state == CONN_IDLE)
		conn_read(c);
	if (c->state == CONN_IDLE || c->state == CONN_HANDSHAKE)
		conn_close(c);
	else if (c->state == CONN_PARKED)
		park_end(c, HTTP_END_STOPPING);
	else if (c->stream != NULL)
		stream_finish(c, HTTP_END_STOPPING);
}

void conn_abort(struct conn *c)
{
	if (c->state == CONN_HANDLING || c->state == CONN_PARKED)
		conn_abandon(c);
	else if (c->state != CONN_ABANDONED && c->state != CONN_CLOSED)
		conn_close(c);
}
