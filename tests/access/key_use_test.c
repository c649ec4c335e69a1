/* Key use: exactly as much as a limit allows, at it and one past it, from one thread and from many. */
#include "test.h"

#include <pthread.h>

#include "access/credential.h"

enum { SECOND_US = 1000000, THREADS = 4 };

TEST(key_use, a_connection_past_the_limit_is_refused_until_another_ends)
{
	struct key_limits limits = {.connections_max = 2};
	struct key_use   *u = key_use_open();

	assert_true(key_use_connect(u, &limits));
	assert_true(key_use_connect(u, &limits));
	assert_false(key_use_connect(u, &limits));
	key_use_disconnect(u);
	assert_true(key_use_connect(u, &limits));
	assert_false(key_use_connect(u, &limits));
	key_use_disconnect(u);
	key_use_disconnect(u);
	key_use_release(u);
}

TEST(key_use, without_limits_there_are_none_and_connections_count_for_one_set_later)
{
	struct key_limits none = {0}, limits = {.connections_max = 10};
	struct key_use   *u = key_use_open();

	for (int i = 0; i < 10; i++) {
		assert_true(key_use_connect(u, &none));
		for (int j = 0; j < 1000; j++)
			assert_true(key_use_request(u, &none, 5));
	}
	assert_false(key_use_connect(u, &limits));
	for (int i = 0; i < 10; i++)
		key_use_disconnect(u);
	key_use_release(u);
}

/* How many of `tries` get in at that moment. */
static uint32_t requests_at(struct key_use *u, uint32_t per_second_max, int64_t now_us, uint32_t tries)
{
	struct key_limits limits = {.requests_per_second_max = per_second_max};
	uint32_t          got = 0;

	for (uint32_t i = 0; i < tries; i++)
		got += key_use_request(u, &limits, now_us);
	return got;
}

TEST(key_use, a_seconds_worth_may_come_at_once_and_then_as_time_allows)
{
	static const uint32_t rates[] = {1, 3, 7, 1000, KEY_LIMIT_MAX};

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		uint32_t        rate = rates[i];
		int64_t         now_us = 77 * SECOND_US;
		struct key_use *u = key_use_open();

		assert_int_equal(requests_at(u, rate, now_us, rate), rate);
		assert_int_equal(requests_at(u, rate, now_us, 1), 0);
		assert_int_equal(requests_at(u, rate, now_us - 1000, 1), 0); /* another loop's clock */
		now_us += SECOND_US / rate + 1;
		assert_true(requests_at(u, rate, now_us, rate + 1) >= 1);
		assert_int_equal(requests_at(u, rate, now_us, 1), 0);
		now_us += 60 * (int64_t)SECOND_US; /* rest does not add up */
		assert_int_equal(requests_at(u, rate, now_us, rate + 1), rate);
		key_use_release(u);
	}
}

TEST(key_use, over_ten_seconds_of_steady_pressure_the_rate_is_kept)
{
	struct key_use *u = key_use_open();
	uint32_t        got = 0;

	for (int64_t ms = 0; ms < 10000; ms++)
		got += requests_at(u, 50, SECOND_US + ms * 1000, 3);
	assert_in_range(got, 50 * 10, 50 * 11);
	key_use_release(u);
}

/* ---- threads ---- */

struct pressing {
	struct key_use *use;
	uint32_t        connections, requests;
};

static void *press(void *arg)
{
	struct pressing  *p = arg;
	struct key_limits limits = {.connections_max = 1000, .requests_per_second_max = 1500};

	for (int i = 0; i < 1000; i++) {
		p->connections += key_use_connect(p->use, &limits);
		p->requests += key_use_request(p->use, &limits, SECOND_US);
	}
	return NULL;
}

TEST(key_use, of_many_threads_exactly_as_many_get_in_as_there_is_room_for)
{
	struct key_use *u = key_use_open();
	struct pressing pressings[THREADS];
	pthread_t       threads[THREADS];
	uint32_t        connections = 0, requests = 0;

	for (int i = 0; i < THREADS; i++) {
		pressings[i] = (struct pressing){.use = u};
		assert_int_equal(pthread_create(&threads[i], NULL, press, &pressings[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		connections += pressings[i].connections;
		requests += pressings[i].requests;
	}
	assert_int_equal(connections, 1000);
	assert_int_equal(requests, 1500);
	for (uint32_t i = 0; i < connections; i++)
		key_use_disconnect(u);
	key_use_release(u);
}

static void *come_and_go(void *arg)
{
	struct pressing  *p = arg;
	struct key_limits limits = {.connections_max = THREADS};

	for (int i = 0; i < 2000; i++) {
		p->connections += key_use_connect(p->use, &limits);
		key_use_disconnect(p->use);
	}
	return NULL;
}

TEST(key_use, threads_that_keep_to_the_limit_together_are_never_refused)
{
	struct key_use *u = key_use_open();
	struct pressing pressings[THREADS];
	pthread_t       threads[THREADS];

	for (int i = 0; i < THREADS; i++) {
		pressings[i] = (struct pressing){.use = u};
		assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &pressings[i]), 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(pressings[i].connections, 2000);
	}
	assert_int_equal(atomic_load(&u->connections), 0);
	key_use_release(u);
}
