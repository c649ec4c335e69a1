/* The dispatcher over a socket: every way out of a call is answered, metered and audited once, and gives back its caller, its session and its
 * documents. Calls that are served late are in dispatch_late_test.c, those of the real protocols in dispatch_protocols_test.c. */
#include "api/dispatch_house.h"

/* ---- refused ---- */

TEST(dispatch, a_stranger_is_refused_before_anything_is_decoded)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.fails_at = IDENTIFY};
	assert_int_equal(ask(&h), 400);
	assert_once(&h, ERR_INVALID);
	assert_int_equal(atomic_load(&h.decoded), 0);
	house_close(&h);
}

TEST(dispatch, who_is_refused_at_once_is_not_even_identified)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.refused = true};
	assert_int_equal(ask(&h), err_status(ERR_ORIGIN));
	assert_once(&h, ERR_ORIGIN);
	assert_int_equal(atomic_load(&h.identified), 0);
	house_close(&h);
}

TEST(dispatch, a_key_that_could_never_do_it_is_refused_before_anything_is_read)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.fails_at = FORESEE, .keyed = true};
	assert_int_equal(ask(&h), 400);
	assert_once(&h, ERR_INVALID);
	assert_int_equal(atomic_load(&h.named), 0);
	assert_int_equal(atomic_load(&h.decoded), 0);
	house_close(&h);
}

TEST(dispatch, a_request_that_cannot_be_decoded_or_may_not_be_is_not_run)
{
	static struct house h;

	house_open(&h);
	for (enum step step = NAME; step <= DECODE; step++)
		for (enum call_kind kind = READ; kind <= WRITE; kind++) {
			h.plan = (struct plan){.fails_at = step, .kind = kind, .reads = true, .keyed = true};
			assert_int_equal(ask(&h), 400);
			assert_once(&h, ERR_INVALID);
			assert_int_equal(atomic_exchange(&h.decoded, 0), step == DECODE);
		}
	assert_int_equal(atomic_load(&h.ran), 0);
	house_close(&h);
}

TEST(dispatch, a_key_past_its_limits_is_refused_and_past_its_connections_cut_off)
{
	static struct house h;
	int                 first, second;
	char                byte;

	house_open(&h);
	h.plan = (struct plan){.keyed = true};
	h.key.limits.requests_per_second_max = 1;
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(ask(&h), err_status(ERR_CALLER_THROTTLED));
	assert_once(&h, ERR_CALLER_THROTTLED);
	h.key.limits = (struct key_limits){.connections_max = 1};
	first = dial(&h);
	send_to(first, "", "{}");
	assert_int_equal(receive(&h, first), 200);
	assert_once(&h, ERR_NONE);
	second = dial(&h);
	send_to(second, "", "{}");
	assert_int_equal(receive(&h, second), err_status(ERR_CALLER_THROTTLED));
	assert_int_equal(recv(second, &byte, 1, 0), 0);
	assert_once(&h, ERR_CALLER_THROTTLED);
	assert_int_equal(atomic_load(&h.decoded), 2);
	close(first);
	close(second);
	house_close(&h);
}

/* ---- reads ---- */

TEST(dispatch, a_read_runs_at_once_in_a_session_that_has_ended_by_then)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.kind = READ, .reads = true, .keyed = true};
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.had_backend));
	h.plan.fails_at = RUN;
	assert_int_equal(ask(&h), 400);
	assert_once(&h, ERR_INVALID);
	assert_int_equal(atomic_load(&h.ran), 2);
	house_close(&h);
}

TEST(dispatch, a_read_without_a_table_has_the_stores_time_and_no_session)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.kind = READ, .tableless = true};
	clock_manual_set(&h.clock, START_US + 5);
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_false(atomic_load(&h.had_backend));
	assert_int_equal(h.ran_us, START_US + 5);
	house_close(&h);
}

/* No loop may wait for a network: the store has it run, as it does writes. */
TEST(dispatch, a_read_of_a_store_over_a_network_is_submitted_and_has_one_turn)
{
	static struct house         h;
	static struct store_backend network;

	house_open(&h);
	network = scripted_backend;
	network.reads_wait = true;
	h.store.base.backend = &network;
	h.plan = (struct plan){.kind = READ, .keyed = true, .turns = 3};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.ran), 1);
	assert_int_equal(ask_ending(&h, THROTTLES), err_status(ERR_CALLER_THROTTLED));
	assert_once(&h, ERR_CALLER_THROTTLED);
	assert_int_equal(atomic_load(&h.asked_again), 0);
	h.store.refuses = true;
	assert_int_equal(ask(&h), 503);
	assert_once(&h, ERR_OVERLOADED);
	h.plan = (struct plan){.kind = READ, .tableless = true}; /* looks at no table: runs at once */
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	house_close(&h);
}

/* ---- writes ---- */

TEST(dispatch, a_write_is_answered_only_once_it_is_done_and_metered_until_then)
{
	static struct house   h;
	struct metric_reading latency;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .reads = true, .keyed = true};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	latency = meter_latency(&h.api.meter, 0);
	assert_int_equal(latency.sum, STEPS_MAX_US);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.ran), 1);
	house_close(&h);
}

TEST(dispatch, a_write_that_fails_is_answered_once_wherever_it_fails)
{
	static struct house h;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .fails_at = RUN};
	assert_int_equal(ask_ending(&h, COMMITS), 400);
	assert_once(&h, ERR_INVALID);
	h.plan.fails_at = NOWHERE;
	assert_int_equal(ask_ending(&h, FAILS), 500);
	assert_once(&h, ERR_STORAGE);
	assert_int_equal(ask_ending(&h, THROTTLES), err_status(ERR_CALLER_THROTTLED));
	assert_once(&h, ERR_CALLER_THROTTLED);
	h.store.refuses = true;
	assert_int_equal(ask(&h), 503);
	assert_once(&h, ERR_OVERLOADED);
	assert_int_equal(atomic_load(&h.ran), 2);
	house_close(&h);
}

/* ---- further turns ---- */

TEST(dispatch, a_write_that_failed_has_as_many_turns_as_its_protocol_says_and_is_answered_once)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 2};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	store_end(&h.store, store_take(&h.store), FAILS);
	store_end(&h.store, store_take(&h.store), COMMITS);
	assert_int_equal(receive(&h, fd), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_exchange(&h.asked_again, 0), 2);
	send_to(fd, "", "{}");
	for (int i = 0; i < 3; i++)
		store_end(&h.store, store_take(&h.store), FAILS);
	assert_int_equal(receive(&h, fd), 500);
	assert_once(&h, ERR_STORAGE);
	atomic_store(&h.asked_again, 0);
	h.store.refuses = true; /* a store that takes none is asked as often */
	send_to(fd, "", "{}");
	assert_int_equal(receive(&h, fd), 503);
	assert_once(&h, ERR_OVERLOADED);
	assert_int_equal(atomic_load(&h.asked_again), 3);
	close(fd);
	house_close(&h);
}

/* The loop looks at its clock when something comes in. */
static void pass_time(struct house *h, int64_t us)
{
	int fd = dial(h);

	clock_manual_set(&h->clock, START_US + us);
	assert_int_equal(send(fd, "P", 1, MSG_NOSIGNAL), 1);
	close(fd);
}

static struct http_stats await_parked(struct house *h)
{
	struct http_stats stats;

	while (stats = http_server_stats(h->http), stats.parked_now == 0)
		usleep(100);
	return stats;
}

TEST(dispatch, between_two_turns_it_waits_parked_and_no_longer_than_the_pause)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 1, .pause_us = 100000};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	await_parked(&h);
	assert_true(is_silent(fd));
	pass_time(&h, 200000);
	store_end(&h.store, store_take(&h.store), COMMITS);
	assert_int_equal(receive(&h, fd), 200);
	assert_once(&h, ERR_NONE);
	assert_false(atomic_load(&h.was_last));
	close(fd);
	house_close(&h);
}

TEST(dispatch, a_peer_that_goes_during_the_pause_does_not_end_what_it_asked_for)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 2, .pause_us = 100000};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	await_parked(&h);
	close(fd);
	store_end(&h.store, store_take(&h.store), THROTTLES); /* at once */
	store_end(&h.store, store_take(&h.store), COMMITS);   /* the protocol is told that it is the last */
	while (atomic_load(&h.released) == 0)
		usleep(100);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.was_last));
	house_close(&h);
}

TEST(dispatch, a_stop_during_the_pause_lets_the_call_have_its_last_turn)
{
	static struct house h;
	pthread_t           stopper;
	int                 fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .keyed = true, .turns = 1, .pause_us = 100000};
	fd = dial(&h);
	send_to(fd, "", "{}");
	store_end(&h.store, store_take(&h.store), THROTTLES);
	await_parked(&h);
	assert_int_equal(pthread_create(&stopper, NULL, house_stop, &h), 0);
	store_end(&h.store, store_take(&h.store), COMMITS);
	pthread_join(stopper, NULL);
	assert_once(&h, ERR_NONE);
	close(fd);
	arena_release(&h.store.arena);
	key_use_release(h.key.use);
}

TEST(dispatch, a_connection_goes_on_after_every_way_out)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	fd = dial(&h);
	for (enum step step = NOWHERE; step <= RUN; step++) {
		h.plan = (struct plan){.kind = READ, .reads = true, .keyed = true, .fails_at = step};
		send_to(fd, "", "{}");
		assert_int_equal(receive(&h, fd), step == NOWHERE ? 200 : 400);
		assert_once(&h, step == NOWHERE ? ERR_NONE : ERR_INVALID);
	}
	close(fd);
	house_close(&h);
}
