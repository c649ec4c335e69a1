/* Bell: a handler that parks requests until a bell rings, with the list and the lock that http.h asks for. */
#ifndef TESTS_HTTP_BELL_H
#define TESTS_HTTP_BELL_H

#include "peer.h"

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

static __attribute__((unused)) void bell_reset(void)
{
	pthread_mutex_lock(&bell.lock);
	memset(bell.ends, 0, sizeof(bell.ends));
	bell.count = bell.parked = bell.again = bell.refused = 0;
	pthread_mutex_unlock(&bell.lock);
}

static __attribute__((unused)) unsigned bell_read(const unsigned *number)
{
	unsigned n;

	pthread_mutex_lock(&bell.lock);
	n = *number;
	pthread_mutex_unlock(&bell.lock);
	return n;
}

static __attribute__((unused)) unsigned bell_ends(enum http_end why)
{
	return bell_read(&bell.ends[why]);
}

static __attribute__((unused)) unsigned bell_count(void)
{
	return bell_read(&bell.count);
}

static __attribute__((unused)) void bell_again(unsigned times)
{
	pthread_mutex_lock(&bell.lock);
	bell.again = times;
	pthread_mutex_unlock(&bell.lock);
}

/* Wakes all; how many of them were not awake already. */
static __attribute__((unused)) unsigned bell_ring(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&bell.lock);
	for (unsigned i = 0; i < bell.count; i++)
		n += http_wake(bell.waiting[i]);
	pthread_mutex_unlock(&bell.lock);
	return n;
}

static __attribute__((unused)) void bell_enter(struct http_request *r)
{
	pthread_mutex_lock(&bell.lock);
	assert_true(bell.count < POLLS_MAX);
	r->user = (void *)(uintptr_t)bell.count;
	bell.waiting[bell.count++] = r;
	bell.parked++;
	pthread_mutex_unlock(&bell.lock);
}

static __attribute__((unused)) void bell_leave(struct http_request *r, enum http_end why)
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

static __attribute__((unused)) int64_t poll_deadline_us(const struct http_request *r)
{
	uint64_t ms = 0;

	bytes_to_u64(r->query, UINT32_MAX, &ms);
	return r->received_us + (int64_t)ms * 1000;
}

static __attribute__((unused)) void poll_begin(struct http_request *r);

static __attribute__((unused)) void poll_end(struct http_request *r, enum http_end why)
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

static __attribute__((unused)) void poll_begin(struct http_request *r)
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
static __attribute__((unused)) void poll_found(struct http_request *r)
{
	poll_begin(r);
	assert_true(http_wake(r));
	assert_false(http_wake(r));
}

/* /poll?MS waits for the bell for so long; /found-poll is woken at once by the handler itself. /slow-poll is held until house_let_go, and parks only then. */
static __attribute__((unused)) bool poll_route(struct house *h, struct http_request *r)
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

static __attribute__((unused)) void house_park_held(struct house *h)
{
	pthread_mutex_lock(&h->lock);
	for (unsigned i = 0; i < h->held_count; i++)
		http_resume(h->held[i], poll_begin);
	h->held_count = 0;
	pthread_mutex_unlock(&h->lock);
}

static __attribute__((unused)) void serve_limits(unsigned loops, struct clock *clock, size_t memory_bytes_max)
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

static __attribute__((unused)) void serve(unsigned loops)
{
	serve_limits(loops, clock_system(), 0);
}

/* By a clock that the test moves. */
static __attribute__((unused)) void serve_still(void)
{
	serve_limits(1, NULL, 0);
}

static __attribute__((unused)) void serve_end(void)
{
	WAIT_UNTIL(bell_count() == 0 && http_server_stats(house.server).parked_now == 0);
	house_close(&house);
}

#define POLL(ms) "GET /poll?" #ms " HTTP/1.1\r\n" HOST "\r\n"

static __attribute__((unused)) int peer_poll(const char *text)
{
	unsigned before = bell_count();
	int      fd = peer_connect(&house);

	peer_send(fd, text);
	WAIT_UNTIL(bell_count() == before + 1);
	return fd;
}

#endif
