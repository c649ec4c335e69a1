/* Stream: events from any thread into a bounded buffer, and from there to the socket. Also the text of an event. */
#include "http/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "http/answer.h"

enum {
	STREAM_DROPPED_BYTES_MAX = 64 * 1024, /* that a peer may send while it is streamed to */
	STREAM_READ_BYTES = 4096,
	CHUNK_FRAME_BYTES_MAX = 12, /* "fffffff\r\n" before the text, "\r\n" behind it */
};

enum stream_state { STREAM_OPEN, STREAM_FULL, STREAM_ENDING, STREAM_OVER, STREAM_STATES };

#define TO(state) (1u << (state))

static const unsigned moves[STREAM_STATES] = {
        [STREAM_OPEN] = TO(STREAM_FULL) | TO(STREAM_ENDING) | TO(STREAM_OVER),
        [STREAM_FULL] = TO(STREAM_OVER), /* a sender found no room: the loop drops the peer */
        [STREAM_ENDING] = TO(STREAM_OVER),
};

struct http_stream {
	/* set once */
	struct loop               *loop;
	struct http_stream_options options;
	bool                       chunked;

	/* shared, under lock */
	pthread_mutex_t   lock;
	enum stream_state state;
	struct buf        pending;
	size_t            waiting_bytes;
	bool              queued; /* the item is in the inbox */
	enum http_end     why;

	/* the loop only */
	struct conn      *conn; /* NULL once it is over */
	struct inbox_item item;
	struct alarm      alarm; /* the next heartbeat */
	int64_t           sent_us;
	struct buf        out;
	size_t            out_sent;
	size_t            dropped_bytes;
};

static void stream_move(struct http_stream *s, enum stream_state to)
{
	assert((moves[s->state] & TO(to)) != 0);
	s->state = to;
}

/* ---- any thread; the lock is held where it says `locked` ---- */

static void queue_locked(struct http_stream *s)
{
	if (s->queued)
		return;
	s->queued = true;
	inbox_push(&s->loop->inbox, &s->item, NULL);
}

/* Doubles, but never beyond what the stream may hold. */
static void pending_reserve_locked(struct http_stream *s, size_t more)
{
	struct buf *b = &s->pending;
	size_t      max = s->options.buffer_bytes_max + CHUNK_FRAME_BYTES_MAX;
	size_t      cap = b->cap * 2 < max ? b->cap * 2 : max;

	if (b->cap - b->len >= more)
		return;
	if (cap < b->len + more)
		cap = b->len + more;
	b->data = mem_realloc(b->data, cap);
	b->cap = cap;
}

static void pending_add_locked(struct http_stream *s, struct bytes text)
{
	buf_add_bytes(&s->pending, text);
	s->waiting_bytes += text.len;
}

/* The line before a chunk's text. */
static struct bytes chunk_line(char line[CHUNK_FRAME_BYTES_MAX], size_t len)
{
	size_t at = CHUNK_FRAME_BYTES_MAX;

	line[--at] = '\n';
	line[--at] = '\r';
	do
		line[--at] = "0123456789abcdef"[len % 16];
	while ((len /= 16) > 0);
	return (struct bytes){line + at, CHUNK_FRAME_BYTES_MAX - at};
}

static bool send_locked(struct http_stream *s, struct bytes text)
{
	char         line[CHUNK_FRAME_BYTES_MAX];
	struct bytes before = {NULL, 0}, after = {NULL, 0};
	bool         fits = text.len <= s->options.buffer_bytes_max;

	if (s->state != STREAM_OPEN)
		return false;
	if (fits && s->chunked) {
		before = chunk_line(line, text.len);
		after = BYTES("\r\n");
	}
	fits = fits && s->waiting_bytes + before.len + text.len + after.len <= s->options.buffer_bytes_max;
	if (!fits) {
		stream_move(s, STREAM_FULL);
		queue_locked(s);
		return false;
	}
	pending_reserve_locked(s, before.len + text.len + after.len);
	pending_add_locked(s, before);
	pending_add_locked(s, text);
	pending_add_locked(s, after);
	queue_locked(s);
	return true;
}

bool http_stream_send(struct http_stream *s, struct bytes text)
{
	bool sent;

	assert(text.len > 0); /* an empty chunk would be the last */
	pthread_mutex_lock(&s->lock);
	sent = send_locked(s, text);
	pthread_mutex_unlock(&s->lock);
	return sent;
}

size_t http_stream_room(struct http_stream *s)
{
	size_t taken, max = s->options.buffer_bytes_max;

	pthread_mutex_lock(&s->lock);
	taken = s->waiting_bytes + (s->chunked ? CHUNK_FRAME_BYTES_MAX : 0);
	if (s->state != STREAM_OPEN)
		taken = max;
	pthread_mutex_unlock(&s->lock);
	return taken < max ? max - taken : 0;
}

static void stream_end(struct http_stream *s, enum http_end why)
{
	pthread_mutex_lock(&s->lock);
	if (s->state == STREAM_OPEN) {
		stream_move(s, STREAM_ENDING);
		s->why = why;
		if (s->chunked)
			pending_add_locked(s, BYTES("0\r\n\r\n"));
		queue_locked(s);
	}
	pthread_mutex_unlock(&s->lock);
}

void http_stream_close(struct http_stream *s)
{
	stream_end(s, HTTP_END_CLOSED);
}

/* ---- the loop ---- */

/* Both buffers at their largest. */
static size_t stream_bytes(const struct http_stream_options *options)
{
	return sizeof(struct conn) + sizeof(struct http_stream) + 2 * options->buffer_bytes_max;
}

static void stream_free(struct http_stream *s)
{
	buf_release(&s->pending);
	buf_release(&s->out);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void stream_over(struct conn *c)
{
	struct http_stream *s = c->stream;

	pthread_mutex_lock(&s->lock);
	stream_move(s, STREAM_OVER);
	pthread_mutex_unlock(&s->lock);
	c->stream = NULL;
	s->conn = NULL;
	alarm_cancel(&s->loop->timers, &s->alarm);
	budget_unpark(&s->loop->budget, stream_bytes(&s->options));
	metric_down(&s->loop->counts.streams_now);
	if (s->why == HTTP_END_SLOW)
		metric_up(&s->loop->counts.streams_slow);
	s->options.ended(s->options.arg, s->why);
	/* From here on nobody else has it, and (3) nobody can have put it into the inbox since. */
	if (!s->queued)
		stream_free(s);
}

static void stream_drop(struct conn *c, enum http_end why)
{
	pthread_mutex_lock(&c->stream->lock);
	c->stream->why = why;
	pthread_mutex_unlock(&c->stream->lock);
	conn_close(c);
}

/* All is sent, the last chunk too. A peer that has sent bytes which nobody read lingers, or closing would reset
 * the connection and might take the end of the stream with it. */
static void stream_done(struct conn *c)
{
	int unread = 0;

	stream_over(c);
	ioctl(c->io.fd, FIONREAD, &unread);
	if (unread > 0 || io_pending(&c->io))
		conn_linger(c);
	else
		conn_close(c);
}

/* Writes what is left of out. False: the socket takes no more, or has broken and the stream is over. */
static bool out_write(struct conn *c)
{
	struct http_stream *s = c->stream;
	struct iovec        part;
	ssize_t             n;

	if (s->out_sent == s->out.len)
		return true;
	part = (struct iovec){s->out.data + s->out_sent, s->out.len - s->out_sent};
	n = io_write(&c->io, &part, 1);
	if (n == IO_BROKEN) {
		stream_drop(c, HTTP_END_GONE);
		return false;
	}
	if (n > 0) {
		s->sent_us = c->loop->now_us;
		s->out_sent += (size_t)n;
		pthread_mutex_lock(&s->lock);
		s->waiting_bytes -= (size_t)n;
		pthread_mutex_unlock(&s->lock);
	}
	if (s->out_sent == s->out.len)
		return true;
	if (n > 0 || c->state != CONN_STREAM_WAIT)
		conn_move(c, CONN_STREAM_WAIT); /* or its deadline moves: a byte was taken */
	return false;
}

/* out is done with: what has been sent since becomes out. Idle streams keep no buffer. */
static enum stream_state out_refill(struct http_stream *s)
{
	enum stream_state state;

	buf_release(&s->out);
	s->out_sent = 0;
	pthread_mutex_lock(&s->lock);
	state = s->state;
	s->out = s->pending;
	buf_init(&s->pending, NULL);
	pthread_mutex_unlock(&s->lock);
	return state;
}

/* At most two writes: what comes in meanwhile has put the item into the inbox again (2). */
static void stream_flush(struct conn *c)
{
	struct http_stream *s = c->stream;
	enum stream_state   state;

	if (!out_write(c))
		return;
	state = out_refill(s);
	if (!out_write(c))
		return;
	if (state == STREAM_ENDING) {
		stream_done(c);
		return;
	}
	buf_release(&s->out);
	s->out_sent = 0;
	conn_move(c, CONN_STREAM);
	if (s->options.drained != NULL)
		s->options.drained(s->options.arg);
}

static void stream_run(struct inbox_item *item)
{
	struct http_stream *s = LIST_ENTRY(item, struct http_stream, item);
	struct conn        *c = s->conn;
	enum stream_state   state;

	if (c == NULL) {
		stream_free(s);
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->queued = false;
	state = s->state;
	pthread_mutex_unlock(&s->lock);
	if (state == STREAM_FULL) {
		stream_drop(c, HTTP_END_SLOW);
		return;
	}
	if (c->state == CONN_STREAM)
		stream_flush(c);
	conn_drive(c);
}

static void stream_ring(struct alarm *alarm)
{
	struct http_stream *s = LIST_ENTRY(alarm, struct http_stream, alarm);
	int64_t             heartbeat_us = s->options.heartbeat_ms * 1000;
	int64_t             due_us = s->sent_us + heartbeat_us;

	if (due_us <= s->loop->now_us) {
		if (s->conn->state == CONN_STREAM) /* else there is something to take already */
			http_stream_send(s, BYTES(":\n\n"));
		due_us = s->loop->now_us + heartbeat_us;
	}
	alarm_set(&s->loop->timers, &s->alarm, due_us);
}

/* False: it has gone. */
static bool peer_listens(struct conn *c)
{
	char    dropped[STREAM_READ_BYTES];
	ssize_t n;

	while ((n = io_read(&c->io, dropped, sizeof(dropped))) > 0) {
		c->stream->dropped_bytes += (size_t)n;
		if (c->stream->dropped_bytes > STREAM_DROPPED_BYTES_MAX)
			return false;
	}
	return n == IO_AGAIN;
}

/* The write comes last, so that it decides what TLS waits for. */
void stream_on_event(struct conn *c, uint32_t events)
{
	if ((events & ~(uint32_t)EPOLLOUT) != 0 && !peer_listens(c)) {
		stream_drop(c, HTTP_END_GONE);
		return;
	}
	if (c->state == CONN_STREAM_WAIT)
		stream_flush(c);
	conn_drive(c);
}

void stream_on_timeout(struct conn *c)
{
	stream_drop(c, HTTP_END_SLOW);
}

void stream_finish(struct conn *c, enum http_end why)
{
	stream_end(c->stream, why);
}

static struct http_stream *stream_new(struct conn *c, const struct http_stream_options *options)
{
	struct http_stream *s = mem_zalloc(sizeof(*s));

	s->loop = c->loop;
	s->options = *options;
	s->options.headers = NULL; /* they go into the answer's head now, and may not last */
	s->options.header_count = 0;
	s->chunked = !c->exchange->receive.head.version_1_0;
	s->conn = c;
	s->item.run = stream_run;
	s->alarm.ring = stream_ring;
	s->sent_us = c->loop->now_us;
	s->why = HTTP_END_GONE;
	pthread_mutex_init(&s->lock, NULL);
	buf_init(&s->pending, NULL);
	buf_init(&s->out, NULL);
	return s;
}

/* The kernel keeps no more of it unsent than the stream itself may. */
static void socket_bound(struct conn *c, size_t bytes)
{
	const int unsent = (int)bytes;

	setsockopt(c->io.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

/* The connection is the stream's from here on: pipelined requests have been told that this is the last answer. */
static void stream_begin(struct conn *c, struct http_stream *s, const struct http_response *head)
{
	struct loop *l = c->loop;

	c->close_after = true;
	answer_head(c, head, true, &s->pending);
	s->waiting_bytes = s->pending.len;
	exchange_give(&l->pool, c->exchange);
	c->exchange = NULL;
	c->stream = s;
	c->in_start = c->in_end = 0;
	conn_move(c, CONN_STREAM);
	metric_up(&l->counts.streams_now);
	socket_bound(c, s->options.buffer_bytes_max);
	if (s->options.heartbeat_ms > 0)
		alarm_set(&l->timers, &s->alarm, l->now_us + s->options.heartbeat_ms * 1000);
	s->queued = true;
	inbox_push(&l->inbox, &s->item, NULL);
	conn_drive(c);
}

static struct http_stream_options options_fixed(const struct http_stream_options *options)
{
	struct http_stream_options fixed = *options;

	if (fixed.buffer_bytes_max == 0)
		fixed.buffer_bytes_max = HTTP_STREAM_BYTES_DEFAULT;
	assert(fixed.ended != NULL && fixed.buffer_bytes_max >= HTTP_STREAM_BYTES_MIN &&
	       fixed.buffer_bytes_max <= HTTP_STREAM_BYTES_MAX);
	return fixed;
}

bool http_stream_open(struct http_request *r, const struct http_stream_options *options,
                      struct http_stream **out)
{
	struct http_stream_options fixed = options_fixed(options);
	struct http_response       head = {.status = 200,
	                                   .content_type = "text/event-stream",
	                                   .headers = options->headers,
	                                   .header_count = options->header_count,
	                                   .close = true};
	struct conn               *c = exchange_of(r)->conn;

	assert(pthread_equal(c->loop->self, pthread_self()));
	*out = NULL;
	if (c->state == CONN_ABANDONED) {
		conn_close(c);
		return true;
	}
	assert(c->state == CONN_HANDLING);
	if (r->method == HTTP_HEAD) {
		answer_stream_head(c, &head);
		return true;
	}
	if (c->loop->stopping || !budget_park(&c->loop->budget, stream_bytes(&fixed)))
		return false;
	*out = stream_new(c, &fixed);
	stream_begin(c, *out, &head);
	return true;
}

/* ---- the text of an event ---- */

static void field_add(struct buf *out, struct bytes name, struct bytes value)
{
	buf_add_bytes(out, name);
	buf_add_bytes(out, BYTES(": "));
	buf_add_bytes(out, value);
	buf_add_byte(out, '\n');
}

/* A field for each line of the text: CR, LF and CRLF all end one, because readers take each of them for an end. */
static void data_add(struct buf *out, struct bytes text)
{
	size_t at = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] != '\r' && text.data[i] != '\n')
			continue;
		field_add(out, BYTES("data"), (struct bytes){text.data + at, i - at});
		if (text.data[i] == '\r' && i + 1 < text.len && text.data[i + 1] == '\n')
			i++;
		at = i + 1;
	}
	field_add(out, BYTES("data"), (struct bytes){text.data + at, text.len - at});
}

bool http_event_add(struct buf *out, const struct http_event *e)
{
	if ((e->id.data != NULL && !text_is_one_line(e->id)) ||
	    (e->type.data != NULL && !text_is_one_line(e->type)))
		return false;
	if (e->retry_ms > 0) {
		buf_add_bytes(out, BYTES("retry: "));
		buf_add_i64(out, e->retry_ms);
		buf_add_byte(out, '\n');
	}
	if (e->id.data != NULL)
		field_add(out, BYTES("id"), e->id);
	if (e->type.data != NULL)
		field_add(out, BYTES("event"), e->type);
	if (e->data.data != NULL)
		data_add(out, e->data);
	buf_add_byte(out, '\n');
	return true;
}
