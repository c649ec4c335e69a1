/* Answer: one write, head and body together: a small body is copied behind the head, a large one is sent from
 * where it lies. Only what the socket does not take is kept, and only then is epoll asked about it.
 *
 * Small answers to requests that came in one round go out at its end, so a connection may be SENDING with nothing
 * kept: then its answer waits in the outbox. */
#include "http/answer.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "base/bytes.h"

/* Up to here copying the body costs less than telling the kernel of two places. */
enum { BODY_COPIED_BYTES_MAX = 4096 };

static struct iovec part_of(struct bytes b)
{
	return (struct iovec){(void *)b.data, b.len};
}

/* Everything went out. */
static void answer_finish(struct conn *c)
{
	budget_move(&c->loop->budget, c->out.cap, 0);
	buf_release(&c->out);
	if (!c->close_after) {
		conn_move(c, CONN_IDLE);
		return;
	}
	if (!c->linger) {
		conn_close(c);
		return;
	}
	conn_linger(c);
}

/* Copies what is left of the parts after `sent` bytes. False if there is no memory to spend on it. */
static bool keep_rest(struct conn *c, const struct iovec *parts, int count, size_t sent)
{
	size_t total = 0;

	for (int i = 0; i < count; i++)
		total += parts[i].iov_len;
	if (!budget_move(&c->loop->budget, 0, total - sent))
		return false;
	c->out.data = mem_alloc(total - sent);
	c->out.cap = total - sent;
	c->out_sent = 0;
	conn_measure(c);
	for (int i = 0; i < count; i++) {
		size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;

		buf_add(&c->out, (const char *)parts[i].iov_base + skip, parts[i].iov_len - skip);
		sent -= skip;
	}
	return true;
}

static void send_parts(struct conn *c, struct iovec *parts, int count)
{
	size_t  total = parts[0].iov_len + (count > 1 ? parts[1].iov_len : 0);
	ssize_t n = io_write(&c->io, parts, count);

	if (n == (ssize_t)total)
		answer_finish(c);
	else if (n == IO_BROKEN || !keep_rest(c, parts, count, n > 0 ? (size_t)n : 0))
		conn_close(c);
}

void answer_head(struct conn *c, const struct http_response *response, bool stream, struct buf *out)
{
	struct response_facts facts = {
	        .close = c->close_after,
	        .version_1_0 = c->exchange->receive.head.version_1_0,
	        .stream = stream,
	        .date = date_at(&c->loop->date, c->loop->wall_us),
	};

	response_head(out, response, &facts);
}

/* Writes the head behind what waits in the outbox; returns how many parts there are to send. */
static int answer_parts(struct conn *c, const struct http_response *response, bool stream,
                        struct iovec parts[2])
{
	struct buf *out = &c->loop->outbox.text;
	size_t      start = out->len;
	bool        body = response_has_body(response->status) && response->content_type != NULL &&
	            response->body.len > 0 && c->exchange->request.method != HTTP_HEAD;

	answer_head(c, response, stream, out);
	if (body && response->body.len <= BODY_COPIED_BYTES_MAX)
		buf_add_bytes(out, response->body);
	parts[0] = (struct iovec){out->data + start, out->len - start};
	parts[1] = part_of(response->body);
	return body && response->body.len > BODY_COPIED_BYTES_MAX ? 2 : 1;
}

/* Leaves the answer at the end of the outbox, or sends it. */
static void answer_post(struct conn *c, struct iovec *parts, int count)
{
	struct outbox *o = &c->loop->outbox;

	if (o->gathering && count == 1 && o->count < OUTBOX_ANSWERS_MAX) {
		o->conns[o->count] = c;
		o->ends[o->count++] = o->text.len;
		return;
	}
	o->text.len -= parts[0].iov_len;
	send_parts(c, parts, count);
}

static void answer_send(struct conn *c, const struct http_response *response, bool stream)
{
	struct exchange *x = c->exchange;
	struct iovec     parts[2];
	int              count;

	c->close_after = response->close || !x->receive.head.keep_alive || c->loop->stopping ||
	                 x->request.body_refused;
	count = answer_parts(c, response, stream, parts);
	conn_move(c, CONN_SENDING);
	/* The answer may lie in the exchange's arena, so that goes last; but sending may close the
	 * connection, which must not find an exchange to end a second time. */
	c->exchange = NULL;
	answer_post(c, parts, count);
	exchange_give(&c->loop->pool, x);
}

void answers_gather(struct loop *l)
{
	if (l->outbox.count == OUTBOX_ANSWERS_MAX)
		answers_send(l);
	l->outbox.gathering = true;
}

/* Nothing is gathered meanwhile: what a connection has pipelined is answered at once. Nothing else happens to a
 * connection whose answer waits, because an event comes to it once a round. */
void answers_send(struct loop *l)
{
	struct outbox *o = &l->outbox;
	size_t         at = 0;

	o->gathering = false;
	for (unsigned i = 0; i < o->count; at = o->ends[i++]) {
		struct iovec part = {o->text.data + at, o->ends[i] - at};

		send_parts(o->conns[i], &part, 1);
		conn_drive(o->conns[i]);
	}
	o->count = 0;
	buf_reset(&o->text);
}

void http_respond(struct http_request *r, const struct http_response *response)
{
	struct conn *c = exchange_of(r)->conn;

	assert(pthread_equal(c->loop->self, pthread_self()));
	if (c->state == CONN_ABANDONED) {
		conn_close(c);
		return;
	}
	assert(c->state == CONN_HANDLING && c->exchange == exchange_of(r));
	c->linger = c->in_end > c->in_start || io_pending(&c->io) || r->body_refused;
	answer_send(c, response, false);
	conn_drive(c);
}

void answer_stream_head(struct conn *c, const struct http_response *response)
{
	c->linger = c->in_end > c->in_start || io_pending(&c->io);
	answer_send(c, response, true);
	conn_drive(c);
}

struct http_response answer_error(const struct http_handler *h, struct arena *a, const struct http_error *e)
{
	struct http_response response = {.status = e->status, .content_type = "text/plain", .close = true};

	if (h->error_body != NULL)
		response.body = h->error_body(h->ctx, a, e, &response.content_type);
	else
		response.body = arena_printf(a, "%s\n", e->text);
	return response;
}

void answer_refuse(struct conn *c, struct refusal refusal)
{
	struct http_request *r = &c->exchange->request;
	struct http_error    error = {refusal.status, refusal.text, r->path};
	struct http_response response = answer_error(c->loop->handler, &r->arena, &error);

	metric_up(refusal.status == 408 ? &c->loop->counts.timeouts : &c->loop->counts.bad_requests);
	c->linger = true;
	answer_send(c, &response, false);
}

/* So few bytes fit into a socket that has nothing else to send; one where they do not is broken. */
void answer_continue(struct conn *c)
{
	struct bytes text = BYTES("HTTP/1.1 100 Continue\r\n\r\n");
	struct iovec part = part_of(text);

	if (io_write(&c->io, &part, 1) != (ssize_t)text.len)
		conn_close(c);
}

void answer_flush(struct conn *c)
{
	struct iovec part = {c->out.data + c->out_sent, c->out.len - c->out_sent};
	ssize_t      n = io_write(&c->io, &part, 1);

	if (n == IO_AGAIN)
		return;
	if (n == IO_BROKEN) {
		conn_close(c);
		return;
	}
	c->out_sent += (size_t)n;
	if (c->out_sent == c->out.len) {
		answer_finish(c);
	} else if (conn_is_slow(c, c->out_sent)) {
		metric_up(&c->loop->counts.timeouts);
		conn_close(c);
	} else {
		conn_move(c, CONN_SENDING); /* a byte was taken: the deadline moves */
	}
}

/* ---- the head as bytes: by hand, because printf would be a tenth of a request's time ---- */

void date_init(struct date *d)
{
	*d = (struct date){.second = -1};
}

/* By hand, not strftime: its names follow the locale. */
static void date_make(struct date *d, int64_t second)
{
	static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
	static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
	                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	time_t            when = (time_t)second;
	char              text[80]; /* more than a date: the compiler reckons with years of ten digits */
	struct tm         tm;

	gmtime_r(&when, &tm);
	snprintf(text, sizeof(text), "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday], tm.tm_mday,
	         months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
	memcpy(d->text, text, DATE_BYTES);
	d->second = second;
}

struct bytes date_at(struct date *d, int64_t wall_us)
{
	int64_t second = wall_us / 1000000;

	if (second != d->second)
		date_make(d, second);
	return (struct bytes){d->text, DATE_BYTES};
}

#define LINE(status, reason)                                                                                 \
	{                                                                                                    \
		status, BYTES_INIT("HTTP/1.1 " #status " " reason "\r\n")                                    \
	}

static void add_status_line(struct buf *out, int status)
{
	static const struct {
		int          status;
		struct bytes line;
	} lines[] = {
	        LINE(200, "OK"),
	        LINE(201, "Created"),
	        LINE(202, "Accepted"),
	        LINE(204, "No Content"),
	        LINE(304, "Not Modified"),
	        LINE(400, "Bad Request"),
	        LINE(401, "Unauthorized"),
	        LINE(403, "Forbidden"),
	        LINE(404, "Not Found"),
	        LINE(405, "Method Not Allowed"),
	        LINE(406, "Not Acceptable"),
	        LINE(408, "Request Timeout"),
	        LINE(409, "Conflict"),
	        LINE(410, "Gone"),
	        LINE(412, "Precondition Failed"),
	        LINE(413, "Content Too Large"),
	        LINE(414, "URI Too Long"),
	        LINE(415, "Unsupported Media Type"),
	        LINE(417, "Expectation Failed"),
	        LINE(422, "Unprocessable Content"),
	        LINE(423, "Locked"),
	        LINE(428, "Precondition Required"),
	        LINE(429, "Too Many Requests"),
	        LINE(431, "Request Header Fields Too Large"),
	        LINE(500, "Internal Server Error"),
	        LINE(501, "Not Implemented"),
	        LINE(502, "Bad Gateway"),
	        LINE(503, "Service Unavailable"),
	        LINE(504, "Gateway Timeout"),
	        LINE(505, "HTTP Version Not Supported"),
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (lines[i].status == status) {
			buf_add_bytes(out, lines[i].line);
			return;
		}
	buf_add_bytes(out, BYTES("HTTP/1.1 "));
	buf_add_i64(out, status);
	buf_add_bytes(out, BYTES(" Unknown\r\n"));
}

bool response_has_body(int status)
{
	return status >= 200 && status != 204 && status != 304;
}

static void add_header(struct buf *out, struct bytes name, struct bytes value)
{
	buf_add_bytes(out, name);
	buf_add_bytes(out, BYTES(": "));
	buf_add_bytes(out, value);
	buf_add_bytes(out, BYTES("\r\n"));
}

bool text_is_one_line(struct bytes text)
{
	size_t at = 0;

	while (text.len - at >= WORD_BYTES && !word_below(word_at(text.data + at), ' '))
		at += WORD_BYTES;
	for (; at < text.len; at++)
		if (text.data[at] == '\r' || text.data[at] == '\n' || text.data[at] == '\0')
			return false;
	return true;
}

static void add_own_headers(struct buf *out, const struct http_response *response)
{
	for (unsigned i = 0; i < response->header_count; i++) {
		const struct http_header *h = &response->headers[i];

		if (text_is_one_line(h->name) && text_is_one_line(h->value))
			add_header(out, h->name, h->value);
	}
}

static void add_body_headers(struct buf *out, const struct http_response *response,
                             const struct response_facts *facts)
{
	if (!response_has_body(response->status))
		return;
	if (response->content_type != NULL)
		add_header(out, BYTES("Content-Type"), bytes_of(response->content_type));
	if (facts->stream) {
		buf_add_bytes(out, BYTES("Cache-Control: no-store\r\n"));
		if (!facts->version_1_0)
			buf_add_bytes(out, BYTES("Transfer-Encoding: chunked\r\n"));
		return;
	}
	buf_add_bytes(out, BYTES("Content-Length: "));
	buf_add_i64(out, response->content_type == NULL ? 0 : (int64_t)response->body.len);
	buf_add_bytes(out, BYTES("\r\n"));
}

void response_head(struct buf *out, const struct http_response *response, const struct response_facts *facts)
{
	add_status_line(out, response->status);
	add_header(out, BYTES("Date"), facts->date);
	add_body_headers(out, response, facts);
	if (facts->close)
		buf_add_bytes(out, BYTES("Connection: close\r\n"));
	else if (facts->version_1_0)
		buf_add_bytes(out, BYTES("Connection: keep-alive\r\n"));
	add_own_headers(out, response);
	buf_add_bytes(out, BYTES("\r\n"));
}
