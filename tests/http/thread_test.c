/* Threads: requests answered by way of other threads, peers that vanish, graceful stops, too many
 * connections. These are the tests to run under the thread sanitizer. */
#include <stdatomic.h>
#include <sys/resource.h>

#include "http/loop.h"
#include "peer.h"

enum { PEERS = 16, REQUESTS_EACH = 300 };

static struct house house;

static void serve(unsigned loops)
{
	house_init(&house);
	house_open(&house, loops, clock_system());
}

struct load {
	pthread_t thread;
	unsigned  seed;
	unsigned  right;
};

/* Sends requests a few at a time, half of them by way of the worker, and checks each answer. */
static void *load_main(void *arg)
{
	struct load *load = arg;
	int          fd = peer_connect(&house);
	char         text[128], expected[32];

	for (unsigned i = 0; i < REQUESTS_EACH; i += 3) {
		for (unsigned j = 0; j < 3; j++) {
			int len = snprintf(expected, sizeof(expected), "%u.%u", load->seed, i + j);

			snprintf(text, sizeof(text),
			         "POST %s HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n%s",
			         (i + j) % 2 ? "/later" : "/echo", len, expected);
			/* Under a stop the server may be gone; the answers that are missing will tell. */
			peer_try_send(fd, text, strlen(text));
		}
		for (unsigned j = 0; j < 3; j++) {
			struct reply r = peer_read_reply(fd, false);

			snprintf(expected, sizeof(expected), "%u.%u", load->seed, i + j);
			load->right += r.status == 200 && strcmp(r.body, expected) == 0;
			reply_release(&r);
		}
	}
	close(fd);
	return NULL;
}

TEST(thread, answers_from_another_thread_reach_the_right_peer_under_load)
{
	struct load loads[PEERS] = {0};

	serve(3);
	for (unsigned i = 0; i < PEERS; i++) {
		loads[i].seed = i;
		assert_int_equal(pthread_create(&loads[i].thread, NULL, load_main, &loads[i]), 0);
	}
	for (unsigned i = 0; i < PEERS; i++) {
		pthread_join(loads[i].thread, NULL);
		assert_int_equal(loads[i].right, REQUESTS_EACH);
	}
	assert_int_equal(http_server_stats(house.server).requests, PEERS * REQUESTS_EACH);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	house_close(&house);
}

TEST(thread, sixteen_connections_spread_evenly_over_the_loops)
{
	int fds[PEERS];

	serve(4);
	for (int i = 0; i < PEERS; i++)
		fds[i] = peer_connect(&house);
	for (int i = 0; i < PEERS; i++) {
		peer_send(fds[i], "GET /say HTTP/1.1\r\n" HOST "\r\n");
		peer_expect(fds[i], 200, NULL);
		close(fds[i]);
	}
	house_close(&house);
	for (int i = 0; i < 4; i++)
		assert_int_equal(house.loop_requests[i], 4);
}

/* Closes at once and with a reset, so that nothing of the connection is left. */
static void peer_vanish(int fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

TEST(thread, a_peer_may_vanish_while_its_request_is_with_another_thread)
{
	enum { VANISHING = 40 };
	int fds[VANISHING];

	serve(2);
	for (int i = 0; i < VANISHING; i++) {
		fds[i] = peer_connect(&house);
		/* Some leave bytes behind that nobody will read. */
		peer_send(fds[i], i % 2 ? "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok"
		                        : "POST /hold HTTP/1.1\r\n" HOST
		                          "Content-Length: 2\r\n\r\nokGET /say");
	}
	house_wait_held(&house, VANISHING);
	for (int i = 0; i < VANISHING; i++)
		peer_vanish(fds[i]);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	pthread_mutex_lock(&house.lock);
	for (unsigned i = 0; i < house.held_count; i++)
		assert_bytes(house.held[i]->body, "ok");
	pthread_mutex_unlock(&house.lock);
	house_let_go(&house);
	peer_expect_service(&house);
	house_close(&house);
}

TEST(thread, whoever_holds_a_request_can_see_that_nobody_waits_for_the_answer)
{
	int gone, there;

	serve(1);
	gone = peer_connect(&house);
	there = peer_connect(&house);
	peer_send(gone, "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\ngone");
	house_wait_held(&house, 1);
	peer_send(there, "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nthere");
	house_wait_held(&house, 2);
	peer_vanish(gone);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 1);
	assert_true(http_abandoned(house.held[0]));
	assert_false(http_abandoned(house.held[1]));
	house_let_go(&house);
	close(there);
	house_close(&house);
}

static void wait_ended(unsigned count)
{
	pthread_mutex_lock(&house.lock);
	while (house.conns_ended < count)
		pthread_cond_wait(&house.changed, &house.lock);
	pthread_mutex_unlock(&house.lock);
}

TEST(thread, what_a_handler_keeps_with_a_connection_is_its_own_and_comes_back_once_at_the_end)
{
	int fds[4];

	serve(2);
	for (int i = 0; i < 4; i++) {
		fds[i] = peer_connect(&house);
		peer_send(fds[i], "GET /kept HTTP/1.1\r\n" HOST "\r\n");
		peer_expect(fds[i], 200, "1");
		peer_send(fds[i], "GET /kept HTTP/1.1\r\n" HOST "\r\n");
		peer_expect(fds[i], 200, "2");
	}
	/* One is in the middle of a request when its peer vanishes: it ends when that is answered. */
	peer_send(fds[3], "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
	house_wait_held(&house, 1);
	for (int i = 0; i < 4; i++)
		peer_vanish(fds[i]);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	wait_ended(3);
	pthread_mutex_lock(&house.lock);
	assert_int_equal(house.conns_ended, 3);
	pthread_mutex_unlock(&house.lock);
	house_let_go(&house);
	wait_ended(4);
	house_close(&house);
	assert_int_equal(house.conns_ended, 4);
	assert_int_equal(house.kept_total, 4 * 2);
}

TEST(thread, a_loop_that_hangs_is_noticed_and_an_idle_one_is_not_taken_for_one)
{
	int fd;

	serve(2);
	for (int i = 0; i < 3; i++)
		WAIT_UNTIL(http_server_beats(house.server));
	fd = peer_connect(&house);
	peer_send(fd, "POST /block HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	pthread_mutex_lock(&house.lock);
	while (!house.blocked)
		pthread_cond_wait(&house.changed, &house.lock);
	pthread_mutex_unlock(&house.lock);
	http_server_beats(house.server); /* whatever it says: it may have come round since the last */
	for (int i = 0; i < 3; i++)
		assert_false(http_server_beats(house.server));
	house_let_go(&house);
	peer_expect(fd, 200, "ok");
	WAIT_UNTIL(http_server_beats(house.server));
	close(fd);
	house_close(&house);
}

enum { TOGETHER = 2 * OUTBOX_ANSWERS_MAX + 5 };

/* What the i-th of many peers sends: one request, two, one that is refused, one with a long answer, or one and goodbye. */
static void send_together(int fd, int i)
{
	switch (i % 5) {
	case 0:
		peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\none");
		break;
	case 1:
		peer_send(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nfirst"
		              "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\nsecond");
		break;
	case 2:
		peer_send(fd, "GET say HTTP/1.1\r\n" HOST "\r\n");
		break;
	case 3:
		peer_send(fd, "GET /big?5000 HTTP/1.1\r\n" HOST "\r\n");
		break;
	default:
		peer_send(fd, "GET /close HTTP/1.1\r\n" HOST "\r\n");
		break;
	}
}

static void expect_together(int fd, int i)
{
	struct reply r = peer_read_reply(fd, false);

	assert_int_equal(r.status, i % 5 == 2 ? 400 : 200);
	if (i % 5 == 1)
		assert_string_equal(r.body, "first");
	if (i % 5 == 3)
		assert_int_equal(r.body_len, 5000);
	reply_release(&r);
	if (i % 5 == 1)
		peer_expect(fd, 200, "second");
	if (i % 5 == 2 || i % 5 == 4)
		peer_expect_end(fd);
}

/* The loop is kept until all of them wait, so that it finds them in one round. */
TEST(thread, requests_that_came_together_are_all_answered_each_to_its_own_peer)
{
	int fds[TOGETHER], blocker;

	serve(1);
	for (int i = 0; i < TOGETHER; i++)
		fds[i] = peer_connect(&house);
	peer_expect_service(&house); /* and so they have all been accepted */
	blocker = peer_connect(&house);
	peer_send(blocker, "POST /block HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	pthread_mutex_lock(&house.lock);
	while (!house.blocked)
		pthread_cond_wait(&house.changed, &house.lock);
	pthread_mutex_unlock(&house.lock);
	for (int i = 0; i < TOGETHER; i++)
		send_together(fds[i], i);
	house_let_go(&house);
	peer_expect(blocker, 200, "ok");
	for (int i = TOGETHER - 1; i >= 0; i--) {
		expect_together(fds[i], i);
		close(fds[i]);
	}
	close(blocker);
	house_close(&house);
}

TEST(thread, a_peer_may_vanish_at_any_other_moment)
{
	static const char *const starts[] = {
	        "",
	        "GET /sa",
	        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n12345",
	        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n12345",
	        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\n12",
	        "GET /big?10000000 HTTP/1.1\r\n" HOST "\r\n",
	        "nonsense\r\n\r\n",
	};

	serve(2);
	for (int i = 0; i < 70; i++) {
		int fd = peer_connect(&house);

		peer_send(fd, starts[i % 7]);
		if (i % 2)
			peer_expect_service(&house);
		if (i % 3)
			peer_vanish(fd);
		else
			close(fd);
	}
	peer_expect_service(&house);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0);
	house_close(&house);
}

static void *close_house(void *arg)
{
	house_close(arg);
	return NULL;
}

TEST(thread, a_stop_finishes_what_was_accepted)
{
	int          held[4], partial, idle[2], unread;
	pthread_t    closer;
	unsigned     port;
	struct reply r;

	serve(2);
	port = http_server_port(house.server);
	for (int i = 0; i < 4; i++) {
		held[i] = peer_connect(&house);
		peer_send(held[i], "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nheld");
	}
	house_wait_held(&house, 4);
	/* One on each loop: when both have ended, both loops know of the stop. */
	for (int i = 0; i < 2; i++) {
		idle[i] = peer_connect(&house);
		peer_send(idle[i], "GET /say HTTP/1.1\r\n" HOST "\r\n");
		peer_expect(idle[i], 200, NULL);
	}
	partial = peer_connect(&house);
	peer_send(partial,
	          "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
	peer_expect(partial, 100, NULL);
	unread = peer_connect(&house);
	peer_send(unread, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 6\r\n\r\nunread");
	assert_int_equal(pthread_create(&closer, NULL, close_house, &house), 0);
	for (int i = 0; i < 2; i++) {
		peer_expect_end(idle[i]);
		close(idle[i]);
	}
	WAIT_UNTIL(peer_is_refused(port));
	peer_expect(unread, 200, "unread");
	peer_send(partial, "body");
	r = peer_read_reply(partial, false);
	assert_int_equal(r.status, 200);
	assert_string_equal(r.body, "body");
	assert_non_null(strstr(r.head, "Connection: close\r\n"));
	reply_release(&r);
	peer_expect_end(partial);
	house_let_go(&house);
	for (int i = 0; i < 4; i++) {
		peer_expect(held[i], 200, "held");
		peer_expect_end(held[i]);
		close(held[i]);
	}
	pthread_join(closer, NULL);
	close(partial);
	close(unread);
}

TEST(thread, a_stop_waits_for_requests_that_other_threads_hold_even_past_drain_ms)
{
	pthread_t closer;
	int       fd;

	house_init(&house);
	house.limits.drain_ms = 0;
	house_open(&house, 2, clock_system());
	fd = peer_connect(&house);
	peer_send(fd, "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nheld");
	house_wait_held(&house, 1);
	assert_int_equal(pthread_create(&closer, NULL, close_house, &house), 0);
	peer_expect_end(fd);
	assert_bytes(house.held[0]->body, "held");
	house_let_go(&house);
	pthread_join(closer, NULL);
	close(fd);
}

TEST(thread, stops_under_load_without_losing_an_answer_it_began)
{
	struct load loads[PEERS] = {0};

	serve(3);
	for (unsigned i = 0; i < PEERS; i++) {
		loads[i].seed = i;
		assert_int_equal(pthread_create(&loads[i].thread, NULL, load_main, &loads[i]), 0);
	}
	WAIT_UNTIL(http_server_stats(house.server).requests > PEERS);
	WAIT_UNTIL(http_server_stats(house.server).accepted == PEERS);
	house_close(&house);
	for (unsigned i = 0; i < PEERS; i++)
		pthread_join(loads[i].thread, NULL);
}

TEST(thread, serves_connections_max_and_turns_away_one_more)
{
	int fds[8], extra;

	house_init(&house);
	house.limits.connections_max = 8;
	house_open(&house, 2, clock_system());
	for (int i = 0; i < 8; i++) {
		fds[i] = peer_connect(&house);
		peer_send(fds[i], "GET /say HTTP/1.1\r\n" HOST "\r\n");
		peer_expect(fds[i], 200, NULL);
	}
	extra = peer_connect(&house);
	peer_expect(extra, 503, "too many connections; try again shortly\n");
	peer_expect_end(extra);
	close(extra);
	assert_int_equal(http_server_stats(house.server).refused, 1);
	assert_int_equal(http_server_stats(house.server).connections_now, 8);
	close(fds[0]);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 7);
	peer_expect_service(&house);
	for (int i = 1; i < 8; i++)
		close(fds[i]);
	house_close(&house);
}

/* A clock that stands still and counts how often a loop looks at it: once a round. */
struct counting_clock {
	struct clock base;
	atomic_uint  rounds;
};

static int64_t counting_steady_us(struct clock *c)
{
	atomic_fetch_add(&((struct counting_clock *)(void *)c)->rounds, 1);
	return 0;
}

static int64_t counting_wall_us(struct clock *c)
{
	(void)c;
	return 0;
}

/* Is there a moment in which the loop does nothing? One that spins has none. */
static bool is_quiet(struct counting_clock *clock)
{
	unsigned before = atomic_load(&clock->rounds);

	poll(NULL, 0, 20);
	return atomic_load(&clock->rounds) == before;
}

TEST(thread, bytes_that_wait_their_turn_do_not_keep_the_loop_busy)
{
	struct counting_clock clock = {{counting_wall_us, counting_steady_us}, 0};
	int                   held, slow;
	char                  first;

	house_init(&house);
	house_open(&house, 1, &clock.base);
	held = peer_connect(&house);
	peer_send(held, "POST /hold HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	house_wait_held(&house, 1);
	peer_send(held, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\nnext");
	WAIT_UNTIL(is_quiet(&clock));
	slow = peer_connect(&house);
	peer_send(slow, "GET /big?20000000 HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(recv(slow, &first, 1, MSG_PEEK), 1);
	peer_send(slow, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	WAIT_UNTIL(is_quiet(&clock));
	house_let_go(&house);
	peer_expect(held, 200, "ok");
	peer_expect(held, 200, "next");
	peer_expect(slow, 200, NULL);
	peer_expect(slow, 200, NULL);
	close(held);
	close(slow);
	house_close(&house);
}

TEST(thread, survives_running_out_of_descriptors)
{
	enum { ROOM = 20 };
	struct rlimit before, tight;
	int           fds[200], first, fd;
	unsigned      made = 0;

	serve(2);
	first = peer_connect(&house);
	peer_send(first, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(first, 200, NULL);
	getrlimit(RLIMIT_NOFILE, &before);
	tight = before;
	tight.rlim_cur = (rlim_t)first + ROOM;
	setrlimit(RLIMIT_NOFILE, &tight);
	/* Both ends come out of the same few descriptors: take them all on this side. */
	while ((fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0)
		fds[made++] = fd;
	assert_in_range(made, 5, ROOM);
	for (unsigned i = 0; i < made; i++) {
		struct sockaddr_in address = {.sin_family = AF_INET,
		                              .sin_port = htons((uint16_t)http_server_port(house.server)),
		                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

		assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof(address)), 0);
	}
	/* Each is turned away in its turn, none waits for ever, and the connection that is open is served. */
	for (unsigned i = 0; i < made; i++)
		peer_expect_end(fds[i]);
	peer_send(first, "GET /say HTTP/1.1\r\n" HOST "\r\n");
	peer_expect(first, 200, NULL);
	assert_int_equal(http_server_stats(house.server).refused, made);
	for (unsigned i = 0; i < made; i++)
		close(fds[i]);
	peer_expect_service(&house);
	setrlimit(RLIMIT_NOFILE, &before);
	close(first);
	house_close(&house);
}
