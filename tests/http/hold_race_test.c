/* Hold, with everything at once: wakes, deadlines, stops and peers that leave. Also over TLS. These run under the thread
 * sanitizer too. */
#include <stdatomic.h>

#include "bell.h"
#include "secure_peer.h"

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
