/* Desk: a handler whose streams of events are kept in a list under a lock, as http.h asks for, and what a test needs to see
 * them from both sides. */
#ifndef TESTS_HTTP_DESK_H
#define TESTS_HTTP_DESK_H

#include "peer.h"

enum { READERS_MAX = 4096, ENDS = HTTP_END_SLOW + 1, TEXT_MAX = 1 << 20 };

static struct house house;

/* One stream, as a handler would keep it: in a list, under a lock. */
struct reader {
	struct http_stream *stream;
	unsigned            at;   /* in the list */
	unsigned            left; /* events of a replay that are still to be sent */
};

static struct desk {
	pthread_mutex_t lock;
	struct reader  *readers[READERS_MAX];
	unsigned        count;
	unsigned        opened, refused, drained, nothing;
	unsigned        ends[ENDS];
	size_t          buffer_bytes_max; /* for streams opened from now on */
	int64_t         heartbeat_ms;
} desk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __attribute__((unused)) void desk_reset(void)
{
	pthread_mutex_lock(&desk.lock);
	desk.count = desk.opened = desk.refused = desk.drained = desk.nothing = 0;
	memset(desk.ends, 0, sizeof(desk.ends));
	desk.buffer_bytes_max = 0;
	desk.heartbeat_ms = 0;
	pthread_mutex_unlock(&desk.lock);
}

static __attribute__((unused)) unsigned desk_read(const unsigned *number)
{
	unsigned n;

	pthread_mutex_lock(&desk.lock);
	n = *number;
	pthread_mutex_unlock(&desk.lock);
	return n;
}

/* To every reader; how many took it. */
static __attribute__((unused)) unsigned desk_send(struct bytes text)
{
	unsigned n = 0;

	pthread_mutex_lock(&desk.lock);
	for (unsigned i = 0; i < desk.count; i++)
		n += http_stream_send(desk.readers[i]->stream, text);
	pthread_mutex_unlock(&desk.lock);
	return n;
}

static __attribute__((unused)) unsigned desk_say(const char *data)
{
	struct http_event e = {.data = bytes_of(data)};
	struct buf        text;
	unsigned          n;

	buf_init(&text, NULL);
	assert_true(http_event_add(&text, &e));
	n = desk_send(buf_bytes(&text));
	buf_release(&text);
	return n;
}

static __attribute__((unused)) size_t desk_room(void)
{
	size_t room;

	pthread_mutex_lock(&desk.lock);
	room = http_stream_room(desk.readers[0]->stream);
	pthread_mutex_unlock(&desk.lock);
	return room;
}

static __attribute__((unused)) void desk_close(void)
{
	pthread_mutex_lock(&desk.lock);
	for (unsigned i = 0; i < desk.count; i++)
		http_stream_close(desk.readers[i]->stream);
	pthread_mutex_unlock(&desk.lock);
}

static __attribute__((unused)) void reader_ended(void *arg, enum http_end why)
{
	struct reader *reader = arg;

	pthread_mutex_lock(&desk.lock);
	assert_ptr_equal(desk.readers[reader->at], reader);
	desk.readers[reader->at] = desk.readers[--desk.count];
	desk.readers[reader->at]->at = reader->at;
	desk.ends[why]++;
	pthread_mutex_unlock(&desk.lock);
	free(reader);
}

/* A replay goes on as far as there is room. */
static __attribute__((unused)) void reader_drained(void *arg)
{
	struct reader *reader = arg;
	char           text[64];

	pthread_mutex_lock(&desk.lock);
	desk.drained++;
	while (reader->left > 0 && http_stream_room(reader->stream) >= sizeof(text)) {
		int len = snprintf(text, sizeof(text), "id: %u\ndata: replayed\n\n", reader->left--);

		assert_true(http_stream_send(reader->stream, (struct bytes){text, (size_t)len}));
		if (reader->left == 0)
			http_stream_close(reader->stream);
	}
	pthread_mutex_unlock(&desk.lock);
}

/* The first event says what the reader has seen. */
static __attribute__((unused)) void reader_greet(struct reader *reader, struct bytes seen)
{
	struct http_event e = {.id = seen, .type = BYTES("hello"), .data = BYTES("hi")};
	struct buf        text;

	buf_init(&text, NULL);
	assert_true(http_event_add(&text, &e));
	assert_true(http_stream_send(reader->stream, buf_bytes(&text)));
	buf_release(&text);
}

/* /events opens a stream. A header X-Replay makes it one of so many events; otherwise it begins with a greeting if
 * there is a Last-Event-ID. /slow-events is held until house_let_go and opened then. */
static __attribute__((unused)) void events_open(struct http_request *r)
{
	struct http_header headers[] = {{BYTES("X-Test"), BYTES("yes")}};
	struct reader     *reader = calloc(1, sizeof(*reader));
	struct bytes       seen = arena_copy(&r->arena, http_header_get(r, "last-event-id"));
	char               id[64] = "";
	uint64_t           replay = 0;

	struct http_stream_options options = {.buffer_bytes_max = desk.buffer_bytes_max,
	                                      .heartbeat_ms = desk.heartbeat_ms,
	                                      .headers = headers,
	                                      .header_count = 1,
	                                      .arg = reader,
	                                      .ended = reader_ended,
	                                      .drained = reader_drained};

	bytes_to_u64(http_header_get(r, "x-replay"), UINT32_MAX, &replay);
	snprintf(id, sizeof(id), "%.*s", BYTES_ARG(seen));
	pthread_mutex_lock(&desk.lock);
	reader->left = (unsigned)replay;
	reader->at = desk.count;
	if (!http_stream_open(r, &options, &reader->stream)) {
		desk.refused++;
		answer_status(r, 503, false);
	} else if (reader->stream == NULL) {
		desk.nothing++;
	} else {
		desk.opened++;
		desk.readers[desk.count++] = reader;
		if (id[0] != '\0')
			reader_greet(reader, bytes_of(id));
		reader = NULL;
	}
	pthread_mutex_unlock(&desk.lock);
	free(reader);
}

static __attribute__((unused)) bool events_route(struct house *h, struct http_request *r)
{
	if (bytes_is(r->path, "/events"))
		events_open(r);
	else if (bytes_is(r->path, "/slow-events"))
		house_keep(h, h->held, &h->held_count, r);
	else
		return false;
	return true;
}

static __attribute__((unused)) void house_open_held(struct house *h)
{
	pthread_mutex_lock(&h->lock);
	for (unsigned i = 0; i < h->held_count; i++)
		http_resume(h->held[i], events_open);
	h->held_count = 0;
	pthread_mutex_unlock(&h->lock);
}

static __attribute__((unused)) void serve_init(void)
{
	desk_reset();
	house_init(&house);
	house.route = events_route;
}

static __attribute__((unused)) void serve(unsigned loops)
{
	serve_init();
	house_open(&house, loops, clock_system());
}

static __attribute__((unused)) void serve_still(void)
{
	serve_init();
	house_open(&house, 1, &house.manual.base);
}

/* A stream is no longer counted just before its handler is told that it ended. */
static __attribute__((unused)) void serve_end(void)
{
	WAIT_UNTIL(http_server_stats(house.server).streams_now == desk_read(&desk.count));
	house_close(&house);
	assert_int_equal(desk.count, 0);
}

#define EVENTS "GET /events HTTP/1.1\r\n" HOST "\r\n"

static __attribute__((unused)) int peer_subscribe(void)
{
	unsigned before = desk_read(&desk.opened);
	int      fd = peer_connect(&house);

	peer_send(fd, EVENTS);
	WAIT_UNTIL(desk_read(&desk.opened) == before + 1);
	return fd;
}

static __attribute__((unused)) void expect_bytes(int fd, const char *text)
{
	char got[512] = "";

	assert_true(strlen(text) < sizeof(got));
	if (recv(fd, got, strlen(text), MSG_WAITALL) != (ssize_t)strlen(text) || strcmp(got, text) != 0)
		fail_msg("got \"%s\", expected \"%s\"", got, text);
}

static __attribute__((unused)) void expect_head(int fd)
{
	char head[REPLY_HEAD_MAX];

	assert_true(peer_read_head(fd, head));
	assert_memory_equal(head, "HTTP/1.1 200 OK\r\n", 17);
}

/* One event in one chunk. */
static __attribute__((unused)) void expect_event(int fd, const char *data)
{
	char text[256], chunk[300];

	snprintf(text, sizeof(text), "data: %s\n\n", data);
	snprintf(chunk, sizeof(chunk), "%zx\r\n%s\r\n", strlen(text), text);
	expect_bytes(fd, chunk);
}

#define LAST_CHUNK "0\r\n\r\n"

static __attribute__((unused)) void peer_receive_little(int fd)
{
	const int little = 4096;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
}

#endif
