/* Time-outs: each limit in http_limits that is a time, one step before it and at it. The clock is the test's.
 *
 * A loop reads the clock once a round, so whatever a round did (an answer the test has read) was timed before
 * the test moved the clock: no test here depends on how fast anything runs. */
#include "peer.h"

enum { FIRST_REPLY_BYTES = 1024 };

static struct house house;

static void serve(void)
{
	house_init(&house);
	house.limits.idle_ms = 75000;
	house.limits.head_ms = 10000;
	house.limits.body_ms = 20000;
	house.limits.request_ms = 60000;
	house.limits.send_ms = 30000;
	house_open(&house, 1, &house.manual.base);
}

/* A connection that has been served and is idle since now. */
static int idle_peer(void)
{
	int fd = peer_connect(&house);

	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(fd, 200, NULL);
	return fd;
}

/* One that has been served, with the start of the next request received in the same round. */
static int peer_with_partial_head(void)
{
	int fd = peer_connect(&house);

	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\nPOST /echo HTTP/1.1\r\nHo");
	peer_expect(fd, 200, NULL);
	return fd;
}

/* One whose body is awaited since now. */
static int peer_with_partial_body(void)
{
	int fd = peer_connect(&house);

	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 60000\r\n\r\n");
	peer_expect(fd, 100, NULL);
	return fd;
}

/* Returns when the server has read everything sent so far and looked at its deadlines: there is one loop, and
 * serving another connection takes it more than a round. */
static void let_it_look(void)
{
	peer_expect_service(&house);
	peer_expect_service(&house);
}

static void expect_timeouts(uint64_t count)
{
	assert_int_equal(http_server_stats(house.server).timeouts, count);
}

TEST(timeout, an_idle_connection_is_closed_at_its_time_and_not_before)
{
	int fd;

	serve();
	fd = idle_peer();
	house_pass_ms(&house, 74999);
	let_it_look();
	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(fd, 200, NULL);
	house_pass_ms(&house, 75000);
	peer_expect_end(fd);
	expect_timeouts(1);
	close(fd);
	house_close(&house);
}

TEST(timeout, a_connection_that_never_sends_is_closed)
{
	int fd;

	serve();
	fd = peer_connect(&house);
	let_it_look();
	house_pass_ms(&house, 75000);
	peer_expect_end(fd);
	close(fd);
	house_close(&house);
}

TEST(timeout, a_head_that_trickles_is_answered_408_counted_from_its_first_byte)
{
	int fd, late;

	serve();
	fd = peer_with_partial_head();
	late = peer_with_partial_head();
	house_pass_ms(&house, 9999);
	let_it_look();
	peer_send(fd, "st: t\r\nContent-Length: 2\r\n\r\nok");
	peer_expect(fd, 200, "ok");
	peer_send(late, "st");
	house_pass_ms(&house, 1);
	peer_expect(late, 408, NULL);
	peer_expect_end(late);
	expect_timeouts(1);
	peer_expect_service(&house);
	close(fd);
	close(late);
	house_close(&house);
}

TEST(timeout, a_body_that_stops_coming_is_answered_408)
{
	int fd;

	serve();
	fd = peer_with_partial_body();
	house_pass_ms(&house, 19999);
	let_it_look();
	expect_timeouts(0);
	house_pass_ms(&house, 1);
	peer_expect(fd, 408, NULL);
	peer_expect_end(fd);
	expect_timeouts(1);
	close(fd);
	house_close(&house);
}

static void send_body(int fd, size_t len)
{
	static const char zeros[60000];

	assert_true(peer_try_send(fd, zeros, len));
}

TEST(timeout, a_body_that_keeps_coming_fast_enough_is_not)
{
	int fd;

	serve();
	fd = peer_with_partial_body();
	for (int i = 0; i < 3; i++) {
		send_body(fd, 19999);
		let_it_look();
		house_pass_ms(&house, 19000);
		let_it_look();
	}
	send_body(fd, 60000 - 3 * 19999);
	peer_expect(fd, 200, NULL);
	expect_timeouts(0);
	close(fd);
	house_close(&house);
}

TEST(timeout, a_body_below_the_least_rate_is_answered_408)
{
	int fd;

	serve();
	fd = peer_with_partial_body();
	/* 10 s and 1 ms for 1024 bytes a second: 10240 would do, one less does not. */
	house_pass_ms(&house, 10001);
	send_body(fd, 10239);
	peer_expect(fd, 408, NULL);
	close(fd);
	fd = peer_with_partial_body();
	house_pass_ms(&house, 10001);
	send_body(fd, 10241);
	let_it_look();
	send_body(fd, 60000 - 10241);
	peer_expect(fd, 200, NULL);
	close(fd);
	house_close(&house);
}

/* 50,000 bytes at once would be enough for 48 s, if they counted for longer than the interval they came in. */
TEST(timeout, a_fast_start_buys_no_slow_rest)
{
	int fd;

	serve();
	fd = peer_with_partial_body();
	send_body(fd, 50000);
	let_it_look();
	house_pass_ms(&house, 10001);
	send_body(fd, 1);
	let_it_look();
	expect_timeouts(0);
	house_pass_ms(&house, 10001);
	send_body(fd, 1);
	peer_expect(fd, 408, NULL);
	expect_timeouts(1);
	close(fd);
	house_close(&house);
}

/* 14,900 bytes every 14 s are fast enough, but not for ever. */
TEST(timeout, a_request_has_a_deadline_however_fast_its_body_comes)
{
	int fd, in_time;

	serve();
	fd = peer_with_partial_body();
	in_time = peer_with_partial_body();
	for (int i = 0; i < 4; i++) {
		house_pass_ms(&house, 14000);
		send_body(fd, 14900);
		send_body(in_time, 14900);
		let_it_look();
	}
	house_pass_ms(&house, 3999);
	send_body(in_time, 60000 - 4 * 14900);
	peer_expect(in_time, 200, NULL);
	house_pass_ms(&house, 1);
	send_body(fd, 1);
	peer_expect(fd, 408, NULL);
	expect_timeouts(1);
	close(fd);
	close(in_time);
	house_close(&house);
}

TEST(timeout, a_reader_that_does_not_read_is_closed)
{
	char start[FIRST_REPLY_BYTES];
	int  fd;

	serve();
	fd = peer_connect(&house);
	peer_send(fd, "GET /big?50000000 HTTP/1.1\r\n" HOST "\r\n");
	assert_true(recv(fd, start, sizeof(start), 0) > 0);
	house_pass_ms(&house, 29999);
	let_it_look();
	expect_timeouts(0);
	house_pass_ms(&house, 1);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	expect_timeouts(1);
	peer_expect_service(&house);
	close(fd);
	house_close(&house);
}

/* The kernel would take all of it, and the connection would pass for an idle one. */
TEST(timeout, a_reader_that_does_not_read_an_answer_of_a_megabyte_is_closed_too)
{
	char start[FIRST_REPLY_BYTES];
	int  fd;

	serve();
	fd = peer_connect(&house);
	peer_send(fd, "GET /big?1000000 HTTP/1.1\r\n" HOST "\r\n");
	assert_true(recv(fd, start, sizeof(start), 0) > 0);
	let_it_look();
	house_pass_ms(&house, 30000);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	expect_timeouts(1);
	close(fd);
	house_close(&house);
}

static size_t read_bytes(int fd, size_t count)
{
	static char piece[65536];
	size_t      got = 0;

	while (got < count) {
		ssize_t n = recv(fd, piece, count - got < sizeof(piece) ? count - got : sizeof(piece), 0);

		if (n <= 0)
			return got;
		got += (size_t)n;
	}
	return got;
}

/* Both read a quarter at once, pause for less than send_ms, and go on: the same average, another limit. */
TEST(timeout, a_reader_below_the_least_rate_is_closed_and_one_above_it_is_not)
{
	enum { WHOLE = 20000000, QUARTER = WHOLE / 4 };
	int fd;

	for (int slow = 0; slow < 2; slow++) {
		house_init(&house);
		house.limits.head_ms = 10000;
		house.limits.send_ms = 30000;
		house.limits.rate_min = slow ? 1000000 : 100000;
		house_open(&house, 1, &house.manual.base);
		fd = peer_connect(&house);
		peer_send(fd, "GET /big?20000000 HTTP/1.1\r\n" HOST "\r\n");
		assert_int_equal(read_bytes(fd, QUARTER), QUARTER);
		let_it_look();
		house_pass_ms(&house, 20001);
		assert_int_equal(read_bytes(fd, WHOLE - QUARTER) < WHOLE - QUARTER, slow);
		expect_timeouts((uint64_t)slow);
		close(fd);
		house_close(&house);
	}
}

TEST(timeout, a_request_with_the_handler_is_never_timed_out)
{
	int fd;

	serve();
	fd = peer_connect(&house);
	peer_send(fd, "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	house_wait_held(&house, 1);
	house_pass_ms(&house, 1000000);
	let_it_look();
	house_let_go(&house);
	peer_expect(fd, 200, "ok");
	expect_timeouts(0);
	close(fd);
	house_close(&house);
}

TEST(timeout, a_refused_peer_that_keeps_the_connection_is_closed)
{
	int fd;

	serve();
	fd = peer_connect(&house);
	peer_send(fd, "nonsense\r\n\r\n");
	peer_expect(fd, 400, NULL);
	peer_expect_end(fd);
	/* Our side is not closed: the server waits for that, but not long. */
	assert_int_equal(http_server_stats(house.server).connections_now, 1);
	house_pass_ms(&house, 2000);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	close(fd);
	house_close(&house);
}

TEST(timeout, a_thousand_slow_heads_do_not_hold_up_the_others)
{
	enum { SLOW = 1000 };
	static int fds[SLOW];

	serve();
	for (int i = 0; i < SLOW; i++) {
		fds[i] = peer_connect(&house);
		peer_send(fds[i], "GET /say HTTP/1.1\r\nX-");
	}
	for (int i = 0; i < 10; i++)
		peer_expect_service(&house);
	WAIT_UNTIL(http_server_stats(house.server).accepted == SLOW + 10);
	let_it_look();
	house_pass_ms(&house, 10000);
	for (int i = 0; i < SLOW; i++) {
		peer_expect(fds[i], 408, NULL);
		close(fds[i]);
	}
	house_close(&house);
}

TEST(timeout, the_date_header_follows_the_clock)
{
	struct reply r;
	int          fd;

	serve();
	fd = peer_connect(&house);
	clock_manual_set(&house.manual, INT64_C(784111777) * 1000000);
	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	r = peer_read_reply(fd, false);
	assert_non_null(strstr(r.head, "\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
	reply_release(&r);
	house_pass_ms(&house, 1000);
	peer_send(fd, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	r = peer_read_reply(fd, false);
	assert_non_null(strstr(r.head, "\r\nDate: Sun, 06 Nov 1994 08:49:38 GMT\r\n"));
	reply_release(&r);
	close(fd);
	house_close(&house);
}

static void *close_house(void *arg)
{
	house_close(arg);
	return NULL;
}

TEST(timeout, a_stop_gives_peers_drain_ms_and_then_cuts_them_off)
{
	int       in_time, late;
	pthread_t closer;
	unsigned  port;

	house_init(&house);
	house.limits.head_ms = 1000000000; /* so that nothing else ends the wait */
	house.limits.drain_ms = 10000;
	house_open(&house, 1, &house.manual.base);
	port = http_server_port(house.server);
	in_time = peer_with_partial_head();
	late = peer_with_partial_head();
	assert_int_equal(pthread_create(&closer, NULL, close_house, &house), 0);
	WAIT_UNTIL(peer_is_refused(port));
	house_pass_ms(&house, 9999);
	peer_send(in_time, "st: t\r\nContent-Length: 2\r\n\r\nok");
	peer_expect(in_time, 200, "ok");
	/* The round that began to stop may have read the clock after it was moved: twice the time is enough.
	 */
	house_pass_ms(&house, 10000);
	peer_expect_end(late);
	pthread_join(closer, NULL);
	close(in_time);
	close(late);
}
