/* Loop: rounds. A round waits, then runs events, tells the handler, runs inbox and deadlines, then buries closed connections; the
 * clocks are read once in it. Sockets are level-triggered: what a round leaves unread the next one reports. */
#define _GNU_SOURCE
#include "http/loop.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "http/answer.h"

enum {
	LOOP_EVENTS_MAX = 256, /* a round */
	LOOP_TICK_MS = 100,    /* how late a deadline may be noticed */
	LOOP_LINGER_MS = 2000, /* how long a refused peer may go on sending until the socket is closed */
	LOOP_ACCEPT_BACKOFF_MS = 50,
};

static void inbox_on_event(struct watch *w, uint32_t events)
{
	/* Nothing to do: every round runs the inbox. */
	(void)w;
	(void)events;
}

static void stop_run(struct inbox_item *item)
{
	loop_stop(LIST_ENTRY(item, struct loop, stop));
}

static void beat_run(struct inbox_item *item)
{
	atomic_store(&LIST_ENTRY(item, struct loop, beat)->beating, false);
}

static void durations_set(struct timers *t, const struct http_limits *limits)
{
	t->duration_us[TIMER_IDLE] = limits->idle_ms * 1000;
	t->duration_us[TIMER_HEAD] = limits->head_ms * 1000;
	t->duration_us[TIMER_BODY] = limits->body_ms * 1000;
	t->duration_us[TIMER_SEND] = limits->send_ms * 1000;
	t->duration_us[TIMER_LINGER] = LOOP_LINGER_MS * 1000;
	t->duration_us[TIMER_ACCEPT] = LOOP_ACCEPT_BACKOFF_MS * 1000;
}

/* A loop's share, but never less than one whole body. */
static size_t budget_share(const struct http_limits *limits, unsigned loops)
{
	size_t share = limits->memory_bytes_max / loops;
	size_t least = limits->body_bytes_max * 2; /* growth doubles */

	return share > least ? share : least;
}

static enum err_code loop_open_fds(struct loop *l, struct err *err)
{
	enum err_code rc = inbox_open(&l->inbox, err);

	if (rc != ERR_NONE)
		return rc;
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0) {
		inbox_close(&l->inbox);
		return err_set(err, ERR_STORAGE, "epoll_create1: %s", strerror(errno));
	}
	if (!loop_watch(l, l->inbox.fd, &l->inbox_watch, EPOLLIN | EPOLLET)) {
		rc = err_set(err, ERR_STORAGE, "epoll_ctl: %s", strerror(errno));
		close(l->epoll_fd);
		inbox_close(&l->inbox);
	}
	return rc;
}

static void clocks_read(struct loop *l)
{
	l->now_us = clock_steady_us(l->clock);
	l->wall_us = clock_wall_us(l->clock);
}

enum err_code loop_init(struct loop *l, const struct http_server_options *options,
                        atomic_uint *connections_now, struct err *err)
{
	const struct http_limits *limits = options->limits;

	*l = (struct loop){
	        .limits = limits, .handler = options->handler, .clock = options->clock, .tls = options->tls};
	l->connections_now = connections_now;
	l->inbox_watch.on_event = inbox_on_event;
	l->stop.run = stop_run;
	l->beat.run = beat_run;
	clocks_read(l);
	l->budget.held_bytes_max = budget_share(limits, options->loops);
	timers_init(&l->timers);
	durations_set(&l->timers, limits);
	pool_init(&l->pool, limits, &l->budget);
	date_init(&l->date);
	buf_init(&l->outbox.text, NULL);
	list_init(&l->conns);
	list_init(&l->graves);
	return loop_open_fds(l, err);
}

void loop_release(struct loop *l)
{
	assert(list_empty(&l->conns));
	timers_release(&l->timers);
	pool_release(&l->pool);
	buf_release(&l->outbox.text);
	close(l->epoll_fd);
	inbox_close(&l->inbox);
}

bool loop_watch(struct loop *l, int fd, struct watch *w, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = w};

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Cannot fail on a descriptor that is watched. */
void loop_rewatch(struct loop *l, int fd, struct watch *w, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = w};
	int                rc = epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, fd, &event);

	assert(rc == 0);
	(void)rc;
}

/* Does nothing to a descriptor that is not watched. */
void loop_unwatch(struct loop *l, int fd)
{
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* Deadlines are checked every tick, not slept towards: the clock may be one that a test moves. */
static int wait_ms(const struct loop *l)
{
	int64_t next_us = timers_next_us(&l->timers);
	int64_t left_ms;

	if (l->stopping && l->drain_end_us < next_us)
		next_us = l->drain_end_us;
	if (next_us == INT64_MAX)
		return -1;
	left_ms = (next_us - l->now_us + 999) / 1000;
	if (left_ms < 0)
		return 0;
	return left_ms < LOOP_TICK_MS ? (int)left_ms : LOOP_TICK_MS;
}

static void run_events(struct loop *l)
{
	struct epoll_event events[LOOP_EVENTS_MAX];
	int                count = epoll_wait(l->epoll_fd, events, LOOP_EVENTS_MAX, wait_ms(l));

	if (count < 0 && errno != EINTR)
		log_error("epoll_wait: %s", strerror(errno));
	clocks_read(l);
	for (int i = 0; i < count; i++) {
		struct watch *w = events[i].data.ptr;

		answers_gather(l);
		w->on_event(w, events[i].events);
	}
	answers_send(l);
}

static void run_timers(struct loop *l)
{
	struct timer *timer;
	struct alarm *alarm;

	while ((timer = timers_expired(&l->timers, l->now_us)) != NULL)
		timer->expire(timer);
	/* One that is set again is for the next round, or a handler that parks in vain could keep this one for ever. */
	for (unsigned left = l->timers.alarm_count; left > 0; left--) {
		alarm = alarms_expired(&l->timers, l->now_us);
		if (alarm == NULL)
			break;
		alarm->ring(alarm);
	}
}

static void bury(struct loop *l)
{
	struct list *grave;

	while ((grave = list_pop_front(&l->graves)) != NULL)
		conn_free(LIST_ENTRY(grave, struct conn, grave));
}

static void for_each_conn(struct loop *l, void (*fn)(struct conn *c))
{
	/* Connections leave the list only in bury, so the walk is safe whatever fn closes. */
	for (struct list *at = l->conns.next; at != &l->conns; at = at->next)
		fn(LIST_ENTRY(at, struct conn, link));
}

void loop_stop(struct loop *l)
{
	l->stopping = true;
	l->drain_end_us = l->now_us + l->limits->drain_ms * 1000;
	for_each_conn(l, conn_stop);
}

bool loop_beats(struct loop *l)
{
	if (atomic_exchange(&l->beating, true))
		return false;
	inbox_push(&l->inbox, &l->beat, NULL);
	return true;
}

static void run_drain(struct loop *l)
{
	if (!l->stopping || l->now_us < l->drain_end_us)
		return;
	l->drain_end_us = INT64_MAX;
	for_each_conn(l, conn_abort);
}

static void tell_handler(const struct loop *l)
{
	if (l->handler->round != NULL)
		l->handler->round(l->handler->ctx);
}

static void run_round(struct loop *l)
{
	run_events(l);
	tell_handler(l);
	inbox_run(&l->inbox);
	run_timers(l);
	run_drain(l);
	tell_handler(l); /* a connection that was answered may have had its next request ready */
	bury(l);
}

void *loop_main(void *loop)
{
	struct loop               *l = loop;
	const struct http_handler *h = l->handler;

	l->self = pthread_self();
	pthread_setname_np(l->self, "http"); /* for ps -T and top -H */
	l->loop_data = h->loop_open != NULL ? h->loop_open(h->ctx) : NULL;
	while (!l->stopping || !list_empty(&l->conns))
		run_round(l);
	inbox_run(&l->inbox); /* streams that ended with their item in it are freed there */
	if (h->loop_close != NULL)
		h->loop_close(h->ctx, l->loop_data);
	return NULL;
}

/* ---- the inbox: push with compare-and-swap, take with one exchange. The release on push and the acquire on take hand the
 * item's memory from one thread to the other. ---- */

enum err_code inbox_open(struct inbox *in, struct err *err)
{
	atomic_init(&in->newest, NULL);
	atomic_init(&in->pushing, 0);
	in->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->fd < 0)
		return err_set(err, ERR_STORAGE, "eventfd: %s", strerror(errno));
	return ERR_NONE;
}

/* The loop may have run the last item before its pusher got to write the eventfd. */
void inbox_close(struct inbox *in)
{
	while (atomic_load_explicit(&in->pushing, memory_order_acquire) > 0)
		sched_yield();
	close(in->fd);
}

static void wake(struct inbox *in)
{
	const uint64_t one = 1;
	ssize_t        n;

	/* It can only fail by reaching its maximum, 2^64 - 2, which no one lives to see. */
	do
		n = write(in->fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
}

static void leave(struct inbox *in)
{
	atomic_fetch_sub_explicit(&in->pushing, 1, memory_order_release);
}

/* Unless it has woken by itself, and taken all. */
static void wake_late(void *inbox)
{
	struct inbox *in = inbox;

	if (atomic_load_explicit(&in->newest, memory_order_relaxed) != NULL)
		wake(in);
	leave(in);
}

void inbox_push(struct inbox *in, struct inbox_item *item, struct wakes *wakes)
{
	struct inbox_item *newest;

	atomic_fetch_add_explicit(&in->pushing, 1, memory_order_relaxed);
	newest = atomic_load_explicit(&in->newest, memory_order_relaxed);
	do
		item->next = newest;
	while (!atomic_compare_exchange_weak_explicit(&in->newest, &newest, item, memory_order_release,
	                                              memory_order_relaxed));
	if (newest == NULL && !wakes_has(wakes, in)) {
		if (wakes_add(wakes, wake_late, in))
			return; /* it leaves when it has woken the loop */
		wake(in);
	}
	leave(in);
}

static struct inbox_item *reversed(struct inbox_item *newest)
{
	struct inbox_item *oldest = NULL;

	while (newest != NULL) {
		struct inbox_item *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

void inbox_run(struct inbox *in)
{
	struct inbox_item *item;

	if (atomic_load_explicit(&in->newest, memory_order_relaxed) == NULL)
		return;
	item = reversed(atomic_exchange_explicit(&in->newest, NULL, memory_order_acquire));
	while (item != NULL) {
		struct inbox_item *next = item->next;

		item->run(item);
		item = next;
	}
}
