/* Hold: requests that a handler parks, and every way in which their wait ends. These run under the thread sanitizer too. */
#include "bell.h"

TEST(hold, a_parked_request_is_answered_when_another_thread_wakes_it)
{
	int fd;

	serve(1);
	fd = peer_poll(POLL(60000));
	assert_int_equal(http_server_stats(house.server).parked_now, 1);
	assert_int_equal(bell_ring(), 1);
	peer_expect(fd, 200, "woken");
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	peer_expect(fd, 200, "ok");
	close(fd);
	serve_end();
}

TEST(hold, a_request_that_is_awake_already_is_not_woken_twice)
{
	int fd, blocker;

	serve(1);
	fd = peer_poll(POLL(60000));
	blocker = peer_connect(&house);
	peer_send(blocker, "GET /block HTTP/1.1\r\n" HOST "\r\n");
	house_wait_blocked(&house);
	assert_int_equal(bell_ring(), 1);
	assert_int_equal(bell_ring(), 0);
	house_let_go(&house);
	peer_expect(fd, 200, "woken");
	assert_int_equal(bell_ends(HTTP_END_WOKEN), 1);
	close(fd);
	close(blocker);
	serve_end();
}

TEST(hold, a_handler_may_wake_a_request_that_it_has_just_parked)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "GET /found-poll?60000 HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(fd, 200, "woken");
	close(fd);
	serve_end();
}

TEST(hold, its_deadline_ends_it_to_the_millisecond_and_no_idle_timeout_cuts_it)
{
	int fd, other;

	serve_still();
	fd = peer_poll(POLL(300000));
	other = peer_poll(POLL(299999));
	house_pass_ms(&house, 299998);
	peer_expect_service(&house); /* rounds went by */
	assert_int_equal(bell_count(), 2);
	house_pass_ms(&house, 1);
	peer_expect(other, 200, "deadline");
	assert_int_equal(bell_count(), 1);
	house_pass_ms(&house, 1);
	peer_expect(fd, 200, "deadline");
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	peer_expect(fd, 200, "ok");
	close(fd);
	close(other);
	serve_end();
}

TEST(hold, a_deadline_past_the_maximum_is_moved_there)
{
	int fd;

	serve_still();
	fd = peer_poll(POLL(4000000));
	house_pass_ms(&house, HTTP_PARK_MS_MAX - 1);
	peer_expect_service(&house);
	assert_int_equal(bell_count(), 1);
	house_pass_ms(&house, 1);
	peer_expect(fd, 200, "deadline");
	close(fd);
	serve_end();
}

TEST(hold, a_deadline_that_has_passed_ends_it_at_once)
{
	int fd;

	serve_still();
	fd = peer_connect(&house);
	peer_send(fd, POLL(0));
	peer_expect(fd, 200, "deadline");
	close(fd);
	serve_end();
}

TEST(hold, a_woken_request_may_park_again_and_keeps_its_deadline)
{
	int fd;

	serve_still();
	bell_again(2);
	fd = peer_poll(POLL(1000));
	for (unsigned i = 1; i <= 2; i++) {
		bell_ring();
		WAIT_UNTIL(bell_ends(HTTP_END_WOKEN) == i && bell_count() == 1);
	}
	house_pass_ms(&house, 1000);
	peer_expect(fd, 200, "deadline");
	assert_int_equal(bell.parked, 3);
	close(fd);
	serve_end();
}

TEST(hold, pipelined_requests_wait_behind_it_and_are_answered_in_order)
{
	int fd;

	serve(1);
	fd = peer_poll(POLL(60000) "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\none" POLL(60000));
	peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\ntwo");
	peer_expect_service(&house);
	assert_int_equal(bell_count(), 1);
	assert_int_equal(recv(fd, &(char){0}, 1, MSG_DONTWAIT), -1);
	bell_ring();
	peer_expect(fd, 200, "woken");
	peer_expect(fd, 200, "one");
	WAIT_UNTIL(bell_ring() == 1);
	peer_expect(fd, 200, "woken");
	peer_expect(fd, 200, "two");
	close(fd);
	serve_end();
}

TEST(hold, the_handler_learns_that_the_peer_has_closed_vanished_or_stopped_sending)
{
	int fd;

	serve(1);
	fd = peer_poll(POLL(60000));
	close(fd);
	WAIT_UNTIL(bell_ends(HTTP_END_GONE) == 1);
	fd = peer_poll(POLL(60000) "GET /pipelined");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fd);
	WAIT_UNTIL(bell_ends(HTTP_END_GONE) == 2);
	fd = peer_poll(POLL(60000));
	shutdown(fd, SHUT_WR);
	WAIT_UNTIL(bell_ends(HTTP_END_GONE) == 3);
	peer_expect_end(fd);
	close(fd);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	serve_end();
}

TEST(hold, a_request_whose_peer_left_before_it_was_parked_is_told_so)
{
	int fd;

	serve(1);
	fd = peer_connect(&house);
	peer_send(fd, "GET /slow-poll?60000 HTTP/1.1\r\n" HOST "\r\n");
	house_wait_held(&house, 1);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
	close(fd);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	house_park_held(&house);
	WAIT_UNTIL(bell_ends(HTTP_END_GONE) == 1);
	serve_end();
}

TEST(hold, peers_of_http_1_0_are_answered_and_closed)
{
	int fd;

	serve(1);
	fd = peer_poll("GET /poll?60000 HTTP/1.0\r\n\r\n");
	bell_ring();
	peer_expect(fd, 200, "woken");
	peer_expect_end(fd);
	close(fd);
	serve_end();
}

static void *server_close(void *arg)
{
	house_close(arg);
	return NULL;
}

TEST(hold, a_stop_answers_two_thousand_parked_requests_at_once_and_those_that_park_meanwhile)
{
	enum { WAITING = 2000 };
	static int fds[WAITING];
	int        late;
	int64_t    before_us;
	pthread_t  closer;

	serve(2);
	for (int i = 0; i < WAITING; i++) {
		fds[i] = peer_connect(&house);
		peer_send(fds[i], POLL(600000));
	}
	WAIT_UNTIL(bell_count() == WAITING);
	late = peer_connect(&house);
	peer_send(late, "GET /slow-poll?600000 HTTP/1.1\r\n" HOST "\r\n");
	house_wait_held(&house, 1);
	before_us = clock_steady_us(clock_system());
	assert_int_equal(pthread_create(&closer, NULL, server_close, &house), 0);
	for (int i = 0; i < WAITING; i++) {
		struct reply r = peer_read_reply(fds[i], false);

		assert_int_equal(r.status, 200);
		assert_string_equal(r.body, "stopping");
		assert_non_null(strstr(r.head, "Connection: close"));
		reply_release(&r);
		peer_expect_end(fds[i]);
		close(fds[i]);
	}
	house_park_held(&house);
	peer_expect(late, 200, "stopping");
	close(late);
	pthread_join(closer, NULL);
	assert_true(clock_steady_us(clock_system()) - before_us < 8 * 1000000);
	assert_int_equal(bell_ends(HTTP_END_STOPPING), WAITING + 1);
}

/* Parks until there is no room, and answers that one. */
TEST(hold, parked_requests_have_a_share_of_the_memory_and_no_more)
{
	enum { TRIES = 64 };
	int      fds[TRIES];
	unsigned parked;

	serve_limits(1, clock_system(), 200 * 1024);
	for (int i = 0; i < TRIES; i++) {
		fds[i] = peer_connect(&house);
		peer_send(fds[i], POLL(60000));
	}
	WAIT_UNTIL(bell_count() + bell_read(&bell.refused) == TRIES);
	parked = bell_count();
	assert_in_range(parked, 2, 40); /* 100 KB, of 2.5 KB and more each */
	bell_ring();
	for (int i = 0; i < TRIES; i++)
		peer_expect(fds[i], i < (int)parked ? 200 : 503, NULL);
	peer_send(fds[TRIES - 1], POLL(60000));
	WAIT_UNTIL(bell_count() == 1);
	bell_ring();
	peer_expect(fds[TRIES - 1], 200, "woken");
	for (int i = 0; i < TRIES; i++)
		close(fds[i]);
	serve_end();
}
