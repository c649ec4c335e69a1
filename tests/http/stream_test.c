/* Stream: Server-Sent Events, from the text of one event to every way in which a stream ends. These run under the thread
 * sanitizer too. */
#include "desk.h"

/* ---- the text of an event ---- */

static void expect_text(struct http_event e, const char *expected)
{
	struct buf text;

	buf_init(&text, NULL);
	assert_true(http_event_add(&text, &e));
	assert_bytes(buf_bytes(&text), expected);
	buf_release(&text);
}

TEST(event, has_the_fields_that_are_given_and_ends_with_an_empty_line)
{
	expect_text(
	        (struct http_event){.id = BYTES("7"), .type = BYTES("t"), .data = BYTES("x"), .retry_ms = 5},
	        "retry: 5\nid: 7\nevent: t\ndata: x\n\n");
	expect_text((struct http_event){.data = BYTES("")}, "data: \n\n");
	expect_text((struct http_event){.id = BYTES("7")}, "id: 7\n\n");
	expect_text((struct http_event){.id = BYTES(""), .data = BYTES(" x")}, "id: \ndata:  x\n\n");
}

TEST(event, data_has_a_field_for_each_of_its_lines_however_they_end)
{
	expect_text((struct http_event){.data = BYTES("a\nb\rc\r\nd")},
	            "data: a\ndata: b\ndata: c\ndata: d\n\n");
	expect_text((struct http_event){.data = BYTES("\n\n")}, "data: \ndata: \ndata: \n\n");
	expect_text((struct http_event){.data = BYTES("\r\n\r")}, "data: \ndata: \ndata: \n\n");
	expect_text((struct http_event){.data = BYTES("x\n\nevent: forged\n\ndata: y")},
	            "data: x\ndata: \ndata: event: forged\ndata: \ndata: data: y\n\n");
}

TEST(event, an_id_or_type_that_could_be_another_line_is_refused)
{
	static const struct bytes bad[] = {BYTES_INIT("a\nb"), BYTES_INIT("a\r"), BYTES_INIT("\0"),
	                                   BYTES_INIT("a\0b")};
	struct buf                text;

	buf_init(&text, NULL);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(http_event_add(&text, &(struct http_event){.id = bad[i], .data = BYTES("x")}));
		assert_false(http_event_add(&text, &(struct http_event){.type = bad[i], .data = BYTES("x")}));
	}
	assert_int_equal(text.len, 0);
}

/* ---- what a peer sees ---- */

TEST(stream, is_chunked_uncached_and_ends_with_the_last_chunk)
{
	struct reply r;
	int          fd;

	serve(1);
	fd = peer_subscribe();
	r = peer_read_reply(fd, true);
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
	assert_non_null(strstr(r.head, "\r\nCache-Control: no-store\r\n"));
	assert_non_null(strstr(r.head, "\r\nTransfer-Encoding: chunked\r\n"));
	assert_non_null(strstr(r.head, "\r\nConnection: close\r\n"));
	assert_non_null(strstr(r.head, "\r\nX-Test: yes\r\n"));
	assert_null(strstr(r.head, "Content-Length"));
	reply_release(&r);
	assert_int_equal(desk_say("one"), 1);
	expect_event(fd, "one");
	assert_int_equal(desk_say("two"), 1);
	expect_event(fd, "two");
	assert_int_equal(http_server_stats(house.server).streams_now, 1);
	desk_close();
	desk_close();
	expect_bytes(fd, LAST_CHUNK);
	peer_expect_end(fd);
	close(fd);
	assert_int_equal(desk_read(&desk.ends[HTTP_END_CLOSED]), 1);
	serve_end();
}

TEST(stream, for_a_peer_of_http_1_0_ends_with_the_connection)
{
	char head[REPLY_HEAD_MAX];
	int  fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "GET /events HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	assert_true(peer_read_head(fd, head));
	assert_null(strstr(head, "Transfer-Encoding"));
	assert_non_null(strstr(head, "Connection: close"));
	desk_say("one");
	expect_bytes(fd, "data: one\n\n");
	desk_close();
	peer_expect_end(fd);
	close(fd);
	serve_end();
}

TEST(stream, a_head_request_gets_the_head_and_no_stream)
{
	struct reply r;
	int          fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "HEAD /events HTTP/1.1\r\n" HOST "\r\n");
	r = peer_read_reply(fd, true);
	assert_int_equal(r.status, 200);
	assert_non_null(strstr(r.head, "\r\nContent-Type: text/event-stream\r\n"));
	assert_non_null(strstr(r.head, "\r\nTransfer-Encoding: chunked\r\n"));
	reply_release(&r);
	peer_expect_end(fd);
	close(fd);
	assert_int_equal(desk_read(&desk.nothing), 1);
	serve_end();
}

TEST(stream, the_handler_can_read_the_last_event_id)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "GET /events HTTP/1.1\r\n" HOST "Last-Event-ID: 0042.17\r\n\r\n");
	expect_head(fd);
	expect_bytes(fd, "23\r\nid: 0042.17\nevent: hello\ndata: hi\n\n\r\n");
	close(fd);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 1);
	serve_end();
}

TEST(stream, sends_a_comment_after_each_quiet_interval_and_none_after_an_event)
{
	int fd;

	serve_init();
	desk.heartbeat_ms = 15000;
	house_open(&house, 1, &house.manual.base);
	fd = peer_subscribe();
	expect_head(fd);
	house_pass_ms(&house, 15000);
	expect_bytes(fd, "3\r\n:\n\n\r\n");
	house_pass_ms(&house, 10000);
	desk_say("x");
	expect_event(fd, "x");
	house_pass_ms(&house, 14999);
	peer_expect_service(&house); /* rounds went by */
	assert_int_equal(recv(fd, &(char){0}, 1, MSG_DONTWAIT), -1);
	house_pass_ms(&house, 1);
	expect_bytes(fd, "3\r\n:\n\n\r\n");
	house_pass_ms(&house, 600000); /* no idle timeout cuts it */
	expect_bytes(fd, "3\r\n:\n\n\r\n");
	close(fd);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 1);
	serve_end();
}

TEST(stream, a_replay_larger_than_its_buffer_goes_out_as_the_peer_takes_it)
{
	enum { EVENTS_SENT = 20000 };
	static char text[TEXT_MAX * 2];
	unsigned    seen = 0;
	size_t      len = 0;
	ssize_t     n;
	int         fd;

	serve_init();
	desk.buffer_bytes_max = 2048;
	house_open(&house, 1, clock_system());
	fd = peer_connect(&house);
	peer_send(fd, "GET /events HTTP/1.0\r\nX-Replay: 20000\r\n\r\n");
	expect_head(fd);
	while ((n = recv(fd, text + len, sizeof(text) - 1 - len, 0)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	for (char *at = text; (at = strstr(at, "id: ")) != NULL; at++) {
		assert_int_equal(strtoul(at + 4, NULL, 10), EVENTS_SENT - seen);
		seen++;
	}
	assert_int_equal(seen, EVENTS_SENT);
	assert_true(desk_read(&desk.drained) > 100);
	close(fd);
	serve_end();
}

/* ---- how it ends ---- */

static int peer_block_loop(void)
{
	int fd = peer_connect(&house);

	peer_send(fd, "GET /block HTTP/1.1\r\n" HOST "\r\n");
	house_wait_blocked(&house);
	return fd;
}

/* The loop is kept from sending, so that everything stays in the buffer. */
static unsigned fill_buffer(size_t bytes_past_it)
{
	static char       text[HTTP_STREAM_BYTES_MIN + 16];
	struct http_stats stats;
	int               fd, blocker;
	unsigned          taken;

	serve_init();
	desk.buffer_bytes_max = HTTP_STREAM_BYTES_MIN;
	house_open(&house, 1, clock_system());
	fd = peer_subscribe();
	expect_head(fd);
	blocker = peer_block_loop();
	memset(text, 'x', sizeof(text));
	/* "3f9\r\n" and "\r\n" go around it. */
	assert_int_equal(desk_room(), HTTP_STREAM_BYTES_MIN - 12);
	taken = desk_send((struct bytes){text, HTTP_STREAM_BYTES_MIN - 7 + bytes_past_it});
	if (taken == 1)
		assert_int_equal(desk_room(), 0);
	house_let_go(&house);
	if (taken == 1) {
		expect_bytes(fd, "3f9\r\nxxx");
		desk_close();
	} else {
		peer_expect_end(fd); /* without a last chunk: it has missed something */
	}
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	stats = http_server_stats(house.server);
	assert_int_equal(stats.streams_slow, taken == 1 ? 0 : 1);
	assert_int_equal(desk.ends[taken == 1 ? HTTP_END_CLOSED : HTTP_END_SLOW], 1);
	close(fd);
	close(blocker);
	serve_end();
	return taken;
}

TEST(stream, its_buffer_takes_its_maximum_and_one_byte_more_drops_the_peer)
{
	assert_int_equal(fill_buffer(0), 1);
	assert_int_equal(fill_buffer(1), 0);
}

TEST(stream, a_reader_that_does_not_read_is_dropped_and_the_others_get_everything)
{
	static char data[1000];
	unsigned    sent = 0;
	int         slow, quick;

	serve(1);
	slow = peer_subscribe();
	peer_receive_little(slow);
	quick = peer_subscribe();
	expect_head(quick);
	memset(data, 'y', 200);
	while (desk_read(&desk.ends[HTTP_END_SLOW]) == 0) {
		desk_say(data);
		expect_event(quick, data);
		assert_true(++sent < 100000);
	}
	assert_int_equal(desk_say("after"), 1);
	expect_event(quick, "after");
	assert_int_equal(http_server_stats(house.server).streams_slow, 1);
	assert_int_equal(http_server_stats(house.server).connections_now, 1);
	close(slow);
	close(quick);
	WAIT_UNTIL(desk_read(&desk.count) == 0);
	serve_end();
}

/* Sends until the socket takes no more: something stays in the buffer. */
static void fill_socket(size_t event_bytes)
{
	static char data[32 * 1024];

	assert_true(event_bytes < sizeof(data));
	memset(data, 'z', event_bytes);
	data[event_bytes] = '\0';
	while (desk_room() > event_bytes * 2) {
		unsigned drained = desk_read(&desk.drained);

		assert_int_equal(desk_say(data), 1);
		for (int i = 0; i < 50 && desk_read(&desk.drained) == drained; i++)
			poll(NULL, 0, 1);
	}
}

TEST(stream, a_reader_that_takes_nothing_for_too_long_is_dropped)
{
	int fd;

	serve_still();
	fd = peer_subscribe();
	peer_receive_little(fd);
	fill_socket(2000);
	house_pass_ms(&house, house.limits.send_ms + 1);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_SLOW]) == 1);
	assert_int_equal(http_server_stats(house.server).timeouts, 1);
	close(fd);
	serve_end();
}

TEST(stream, a_peer_that_closes_vanishes_stops_sending_or_sends_too_much_is_gone)
{
	static char junk[128 * 1024];
	int         fd;

	serve(1);
	fd = peer_subscribe();
	close(fd);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 1);
	fd = peer_subscribe();
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fd);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 2);
	fd = peer_subscribe();
	shutdown(fd, SHUT_WR);
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 3);
	close(fd);
	fd = peer_subscribe();
	peer_try_send(fd, junk, sizeof(junk));
	WAIT_UNTIL(desk_read(&desk.ends[HTTP_END_GONE]) == 4);
	close(fd);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	serve_end();
}

TEST(stream, requests_pipelined_behind_it_are_dropped_and_its_end_still_arrives)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, EVENTS "GET /say HTTP/1.1\r\n" HOST "\r\n");
	expect_head(fd);
	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	desk_say("one");
	desk_close();
	expect_event(fd, "one");
	expect_bytes(fd, LAST_CHUNK);
	peer_expect_end(fd);
	close(fd);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	assert_int_equal(http_server_stats(house.server).requests, 1);
	serve_end();
}

TEST(stream, one_whose_peer_left_before_it_was_opened_is_none)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "GET /slow-events HTTP/1.1\r\n" HOST "\r\n");
	house_wait_held(&house, 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fd);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	house_open_held(&house);
	WAIT_UNTIL(desk_read(&desk.nothing) == 1);
	serve_end();
}

static void *server_close(void *arg)
{
	house_close(arg);
	return NULL;
}

TEST(stream, a_stop_ends_every_stream_with_all_its_events_and_the_last_chunk_and_opens_no_more)
{
	enum { STREAMS = 300 };
	int       fds[STREAMS], late;
	int64_t   before_us;
	pthread_t closer;

	serve(2);
	for (int i = 0; i < STREAMS; i++) {
		fds[i] = peer_subscribe();
		expect_head(fds[i]);
	}
	late = peer_connect(&house);
	peer_send(late, "GET /slow-events HTTP/1.1\r\n" HOST "\r\n");
	house_wait_held(&house, 1);
	assert_int_equal(desk_say("goodbye"), STREAMS);
	before_us = clock_steady_us(clock_system());
	assert_int_equal(pthread_create(&closer, NULL, server_close, &house), 0);
	for (int i = 0; i < STREAMS; i++) {
		expect_event(fds[i], "goodbye");
		expect_bytes(fds[i], LAST_CHUNK);
		peer_expect_end(fds[i]);
		close(fds[i]);
	}
	house_open_held(&house);
	peer_expect(late, 503, NULL);
	close(late);
	pthread_join(closer, NULL);
	assert_true(clock_steady_us(clock_system()) - before_us < 8 * 1000000);
	assert_int_equal(desk.ends[HTTP_END_STOPPING], STREAMS);
}

TEST(stream, a_reader_that_does_not_read_delays_a_stop_by_its_bound_at_most)
{
	int64_t before_us;
	int     fd;

	serve_init();
	house.limits.drain_ms = 300;
	house_open(&house, 1, clock_system());
	fd = peer_subscribe();
	peer_receive_little(fd);
	fill_socket(2000);
	before_us = clock_steady_us(clock_system());
	house_close(&house);
	assert_in_range(clock_steady_us(clock_system()) - before_us, 300 * 1000, 10 * 1000 * 1000);
	assert_int_equal(desk.count, 0);
	assert_int_equal(desk.ends[HTTP_END_STOPPING], 1);
	close(fd);
}

/* The word that it ends is in the loop's inbox still when the loop is through (AddressSanitizer sees what leaks). */
TEST(stream, a_stop_that_waits_for_nobody_ends_streams_too)
{
	int fd;

	serve_init();
	house.limits.drain_ms = 0;
	house_open(&house, 1, clock_system());
	fd = peer_subscribe();
	house_close(&house);
	assert_int_equal(desk.count, 0);
	assert_int_equal(desk.ends[HTTP_END_STOPPING], 1);
	close(fd);
}
