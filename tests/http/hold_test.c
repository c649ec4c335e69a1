/* Hold: requests that a handler parks, and every way in which their wait ends. These run under the thread sanitizer too. */
#include <stdatomic.h>

#include "secure_peer.h"

enum { POLLS_MAX = 8192, ENDS = HTTP_END_SLOW + 1 };

static struct house house;

/* Who waits for the bell, as a handler's own list would be. */
static struct bell {
	pthread_mutex_t      lock;
	struct http_request *waiting[POLLS_MAX];
	unsigned             count;
	unsigned             ends[ENDS];
	unsigned             parked;  /* successful calls of http_park */
	unsigned             again;   /* how often a woken request parks again */
	unsigned             refused; /* for want of room */
} bell = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const end_names[ENDS] = {"woken", "deadline", "gone", "stopping", "closed", "slow"};

static void bell_reset(void)
{
	pthread_mutex_lock(&bell.lock);
	memset(bell.ends, 0, sizeof(bell.ends));
	bell.count = bell.parked = bell.again = bell.refused = 0;
	pthread_mutex_unlock(&bell.lock);
}

static unsigned bell_read(const unsigned *number)
{
	unsigned n;

	pthread_mutex_lock(&bell.lock);
	n = *number;
	pthread_mutex_unlock(&bell.lock);
	return n;
}

static unsigned bell_ends(enum http_end why)
{
	return bell_read(&bell.ends[why]);
}

static unsigned bell_count(void)
{
	return bell_read(&bell.count);
}

static void bell_again(unsigned times)
{
	pthread_mutex_lock(&bell.lock);
	bell.again = times;
	pthread_mutex_unlock(&bell.lock);
}

/* Wakes all; how many of them were not awake already. */
static unsigned bell_ring(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&bell.lock);
	for (unsigned i = 0; i < bell.count; i++)
		n += http_wake(bell.waiting[i]);
	pthread_mutex_unlock(&bell.lock);
	return n;
}

static void bell_enter(struct http_request *r)
{
	pthread_mutex_lock(&bell.lock);
	assert_true(bell.count < POLLS_MAX);
	r->user = (void *)(uintptr_t)bell.count;
	bell.waiting[bell.count++] = r;
	bell.parked++;
	pthread_mutex_unlock(&bell.lock);
}

static void bell_leave(struct http_request *r, enum http_end why)
{
	unsigned at;

	pthread_mutex_lock(&bell.lock);
	at = (unsigned)(uintptr_t)r->user;
	assert_ptr_equal(bell.waiting[at], r);
	bell.waiting[at] = bell.waiting[--bell.count];
	bell.waiting[at]->user = r->user;
	bell.ends[why]++;
	pthread_mutex_unlock(&bell.lock);
}

static int64_t poll_deadline_us(const struct http_request *r)
{
	uint64_t ms = 0;

	bytes_to_u64(r->query, UINT32_MAX, &ms);
	return r->received_us + (int64_t)ms * 1000;
}

static void poll_begin(struct http_request *r);

static void poll_end(struct http_request *r, enum http_end why)
{
	bool again;

	bell_leave(r, why);
	pthread_mutex_lock(&bell.lock);
	again = why == HTTP_END_WOKEN && bell.again > 0;
	bell.again -= again;
	pthread_mutex_unlock(&bell.lock);
	if (again)
		poll_begin(r);
	else
		answer_text(r, bytes_of(end_names[why]));
}

static void poll_begin(struct http_request *r)
{
	if (http_park(r, poll_deadline_us(r), poll_end)) {
		bell_enter(r);
		return;
	}
	pthread_mutex_lock(&bell.lock);
	bell.refused++;
	pthread_mutex_unlock(&bell.lock);
	answer_status(r, 503, false);
}

/* Finds, once it is on the list, that what it waits for is there. */
static void poll_found(struct http_request *r)
{
	poll_begin(r);
	assert_true(http_wake(r));
	assert_false(http_wake(r));
}

/* /poll?MS waits for the bell for so long; /found-poll is woken at once by the handler itself. /slow-poll is held until house_let_go, and parks only then. */
static bool poll_route(struct house *h, struct http_request *r)
{
	if (bytes_is(r->path, "/poll"))
		poll_begin(r);
	else if (bytes_is(r->path, "/found-poll"))
		poll_found(r);
	else if (bytes_is(r->path, "/slow-poll"))
		house_keep(h, h->held, &h->held_count, r);
	else
		return false;
	return true;
}

static void house_park_held(struct house *h)
{
	pthread_mutex_lock(&h->lock);
	for (unsigned i = 0; i < h->held_count; i++)
		http_resume(h->held[i], poll_begin);
	h->held_count = 0;
	pthread_mutex_unlock(&h->lock);
}

static void serve_limits(unsigned loops, struct clock *clock, size_t memory_bytes_max)
{
	bell_reset();
	house_init(&house);
	house.route = poll_route;
	if (memory_bytes_max > 0) {
		house.limits.body_bytes_max = 1;
		house.limits.memory_bytes_max = memory_bytes_max;
	}
	house_open(&house, loops, clock != NULL ? clock : &house.manual.base);
}

static void serve(unsigned loops)
{
	serve_limits(loops, clock_system(), 0);
}

/* By a clock that the test moves. */
static void serve_still(void)
{
	serve_limits(1, NULL, 0);
}

static void serve_end(void)
{
	struct http_stats stats;

	WAIT_UNTIL(bell_count() == 0);
	stats = http_server_stats(house.server);
	assert_int_equal(stats.parked_now, 0);
	house_close(&house);
}

#define POLL(ms) "GET /poll?" #ms " HTTP/1.1\r\n" HOST "\r\n"

static int peer_poll(const char *text)
{
	unsigned before = bell_count();
	int      fd = peer_connect(&house);

	peer_send(fd, text);
	WAIT_UNTIL(bell_count() == before + 1);
	return fd;
}

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

/* ---- races ---- */

enum { RACERS = 8, RACES_EACH = 400 };

static atomic_bool racing;

static void *ringer_main(void *arg)
{
	(void)arg;
	while (atomic_load(&racing)) {
		bell_ring();
		sched_yield();
	}
	return NULL;
}

/* Polls for 0 to 3 ms; leaves after every third without reading the answer. */
static void *racer_main(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	int      fd = -1;

	for (unsigned i = 0; i < RACES_EACH; i++) {
		char         text[128];
		struct reply r;

		if (fd < 0)
			fd = peer_connect(&house);
		snprintf(text, sizeof(text), "GET /poll?%u HTTP/1.1\r\n" HOST "\r\n", (seed + i) % 4);
		peer_send(fd, text);
		if ((seed + i) % 3 == 0) {
			close(fd);
			fd = -1;
			continue;
		}
		r = peer_read_reply(fd, false);
		assert_int_equal(r.status, 200);
		reply_release(&r);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

TEST(hold, wakes_deadlines_and_peers_that_leave_race_and_each_request_ends_once)
{
	pthread_t racers[RACERS], ringers[2];
	unsigned  ended = 0;

	serve(2);
	bell_again(500);
	atomic_store(&racing, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&ringers[i], NULL, ringer_main, NULL), 0);
	for (uintptr_t i = 0; i < RACERS; i++)
		assert_int_equal(pthread_create(&racers[i], NULL, racer_main, (void *)i), 0);
	for (int i = 0; i < RACERS; i++)
		pthread_join(racers[i], NULL);
	WAIT_UNTIL(http_server_stats(house.server).connections_now == 0 && bell_count() == 0);
	atomic_store(&racing, false);
	for (int i = 0; i < 2; i++)
		pthread_join(ringers[i], NULL);
	for (int why = 0; why < ENDS; why++)
		ended += bell.ends[why];
	assert_int_equal(ended, bell.parked);
	assert_true(bell.ends[HTTP_END_WOKEN] > 0);
	serve_end();
}

/* Woken thousands of times a second, to no end. */
TEST(hold, others_are_served_during_a_storm_of_wakes)
{
	enum { WAITING = 200, SERVED = 200 };
	int       fds[WAITING];
	pthread_t ringers[2];

	serve(1);
	bell_again(UINT32_MAX);
	for (int i = 0; i < WAITING; i++) {
		fds[i] = peer_connect(&house);
		peer_send(fds[i], POLL(600000));
	}
	WAIT_UNTIL(bell_count() == WAITING);
	atomic_store(&racing, true);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&ringers[i], NULL, ringer_main, NULL), 0);
	for (int i = 0; i < SERVED; i++)
		peer_expect_service(&house);
	assert_true(bell_ends(HTTP_END_WOKEN) > SERVED);
	assert_true(bell_count() <= WAITING);
	atomic_store(&racing, false);
	for (int i = 0; i < 2; i++)
		pthread_join(ringers[i], NULL);
	bell_again(0);
	bell_ring();
	for (int i = 0; i < WAITING; i++) {
		peer_expect(fds[i], 200, "woken");
		close(fds[i]);
	}
	serve_end();
}

TEST(hold, a_stop_may_race_with_wakes_and_deadlines)
{
	enum { WAITING = 200 };
	int       fds[WAITING];
	pthread_t ringer;

	for (int round = 0; round < 5; round++) {
		serve(2);
		for (int i = 0; i < WAITING; i++) {
			fds[i] = peer_connect(&house);
			peer_send(fds[i], i % 2 ? POLL(60000) : POLL(1));
		}
		WAIT_UNTIL(bell_read(&bell.parked) == WAITING);
		atomic_store(&racing, true);
		assert_int_equal(pthread_create(&ringer, NULL, ringer_main, NULL), 0);
		house_close(&house);
		atomic_store(&racing, false);
		pthread_join(ringer, NULL);
		assert_int_equal(bell_count(), 0);
		for (int i = 0; i < WAITING; i++) {
			peer_expect(fds[i], 200, NULL);
			close(fds[i]);
		}
	}
}

/* ---- over TLS ---- */

static void serve_secure(unsigned loops)
{
	static struct http_tls_files files;
	struct err                   err;

	certificates_make();
	files = (struct http_tls_files){.certificate = strdup(in_dir("ec.crt")),
	                                .key = strdup(in_dir("ec.key"))};
	bell_reset();
	house_init(&house);
	house.route = poll_route;
	assert_int_equal(http_tls_open(&house.tls, &files, &err), ERR_NONE);
	house_open(&house, loops, clock_system());
	free((char *)(uintptr_t)files.certificate);
	free((char *)(uintptr_t)files.key);
}

static void secure_end(void)
{
	house_close(&house);
	assert_int_equal(bell_count(), 0);
	http_tls_close(house.tls);
}

TEST(hold, over_tls_it_is_woken_left_and_stopped_alike)
{
	struct secure woken, left, stays;

	serve_secure(1);
	woken = secure_connect(&house);
	secure_say(&woken, POLL(60000) "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nok");
	WAIT_UNTIL(bell_count() == 1);
	bell_ring();
	secure_expect(&woken, 200, "woken");
	secure_expect(&woken, 200, "ok");
	left = secure_connect(&house);
	secure_say(&left, POLL(60000));
	WAIT_UNTIL(bell_count() == 1);
	SSL_shutdown(left.ssl);
	secure_close(&left);
	WAIT_UNTIL(bell_ends(HTTP_END_GONE) == 1);
	stays = secure_connect(&house);
	secure_say(&stays, POLL(600000));
	WAIT_UNTIL(bell_count() == 1);
	secure_close(&woken);
	secure_end();
	secure_expect(&stays, 200, "stopping");
	secure_expect_goodbye(&stays);
	secure_close(&stays);
}
