/* Server: the loops, the listener and their threads, put together and taken apart. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "http/listener.h"

struct http_server {
	/* any thread */
	atomic_uint connections_now;
	/* set before the threads start */
	struct http_limits  limits;
	struct http_handler handler;
	unsigned            port;
	unsigned            loop_count;
	struct loop        *loops;
	/* loop 0's thread */
	struct listener   listener;
	struct inbox_item stop;
};

enum { HTTP_LOOPS_MAX = 256 };

struct http_limits http_limits_default(void)
{
	return (struct http_limits){
	        .head_bytes_max = 16 * 1024,
	        .body_bytes_max = 17 * 1024 * 1024,
	        .target_bytes_max = 8 * 1024,
	        .connections_max = 20000,
	        .memory_bytes_max = 256 * 1024 * 1024,
	        .idle_ms = 75 * 1000,
	        .head_ms = 10 * 1000,
	        .body_ms = 20 * 1000,
	        .request_ms = 60 * 1000,
	        .rate_min = 1024,
	        .send_ms = 20 * 1000,
	        .drain_ms = 10 * 1000,
	};
}

/* Sockets are what this process is for: take every descriptor it may have. Best effort; EMFILE is handled. */
static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void loops_release(struct http_server *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		loop_release(&s->loops[i]);
}

static enum err_code loops_init(struct http_server *s, const struct http_server_options *options,
                                struct err *err)
{
	struct http_server_options own = *options;

	own.limits = &s->limits;
	own.handler = &s->handler;
	for (unsigned i = 0; i < s->loop_count; i++) {
		enum err_code rc = loop_init(&s->loops[i], &own, &s->connections_now, err);

		if (rc != ERR_NONE) {
			loops_release(s, i);
			return rc;
		}
	}
	return ERR_NONE;
}

/* Listener first, so that a connection it still deals out is in its loop's inbox before the word to stop. */
static void stop_run(struct inbox_item *item)
{
	struct http_server *s = LIST_ENTRY(item, struct http_server, stop);

	listener_stop(&s->listener);
	for (unsigned i = 1; i < s->loop_count; i++)
		inbox_push(&s->loops[i].inbox, &s->loops[i].stop, NULL);
	inbox_push(&s->loops[0].inbox, &s->loops[0].stop, NULL);
}

/* Loop 0 is started last, so that until then there is nothing to stop but threads that wait. */
static enum err_code threads_start(struct http_server *s, struct err *err)
{
	unsigned at = s->loop_count;
	int      rc = 0;

	while (at > 0 && rc == 0) {
		at--;
		rc = pthread_create(&s->loops[at].thread, NULL, loop_main, &s->loops[at]);
	}
	if (rc == 0)
		return ERR_NONE;
	for (unsigned i = at + 1; i < s->loop_count; i++) {
		inbox_push(&s->loops[i].inbox, &s->loops[i].stop, NULL);
		pthread_join(s->loops[i].thread, NULL);
	}
	return err_set(err, ERR_STORAGE, "start a thread: %s", strerror(rc));
}

/* Signals are for the thread that runs main. */
static enum err_code threads_start_deaf(struct http_server *s, struct err *err)
{
	sigset_t      all, before;
	enum err_code rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = threads_start(s, err);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static enum err_code server_start(struct http_server *s, int fd, struct err *err)
{
	enum err_code rc = listener_init(&s->listener, fd, s->loops, s->loop_count, err);

	if (rc != ERR_NONE)
		return rc;
	rc = threads_start_deaf(s, err);
	if (rc != ERR_NONE)
		listener_release(&s->listener);
	return rc;
}

static enum err_code server_init(struct http_server *s, const struct http_server_options *options,
                                 struct err *err)
{
	enum err_code rc = loops_init(s, options, err);
	int           fd;

	if (rc != ERR_NONE)
		return rc;
	rc = address_listen(options->listen, &fd, err);
	if (rc == ERR_NONE) {
		s->port = address_port(fd);
		rc = server_start(s, fd, err);
	}
	if (rc != ERR_NONE)
		loops_release(s, s->loop_count);
	return rc;
}

static void server_free(struct http_server *s)
{
	free(s->loops);
	free(s);
}

enum err_code http_server_open(struct http_server **out, const struct http_server_options *options,
                               struct err *err)
{
	struct http_server *s;
	enum err_code       rc;

	if (options->loops == 0 || options->loops > HTTP_LOOPS_MAX)
		return err_set(err, ERR_INVALID, "loops: must be from 1 to %d", HTTP_LOOPS_MAX);
	if (options->limits->head_bytes_max > PARSE_HEAD_BYTES_MAX)
		return err_set(err, ERR_INVALID, "head_bytes_max: must be at most %d", PARSE_HEAD_BYTES_MAX);
	descriptors_raise();
	s = mem_zalloc(sizeof(*s));
	s->limits = *options->limits;
	s->handler = *options->handler;
	s->loop_count = options->loops;
	s->loops = mem_zalloc(s->loop_count * sizeof(*s->loops));
	s->stop.run = stop_run;
	rc = server_init(s, options, err);
	if (rc != ERR_NONE) {
		server_free(s);
		return rc;
	}
	*out = s;
	return ERR_NONE;
}

unsigned http_server_port(const struct http_server *s)
{
	return s->port;
}

static uint64_t counter(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

struct http_stats http_server_stats(const struct http_server *s)
{
	struct http_stats sum = {.connections_now = atomic_load(&s->connections_now)};

	for (unsigned i = 0; i < s->loop_count; i++) {
		const struct loop_counts *c = &s->loops[i].counts;

		sum.accepted += counter(&c->accepted);
		sum.refused += counter(&c->refused);
		sum.requests += counter(&c->requests);
		sum.timeouts += counter(&c->timeouts);
		sum.bad_requests += counter(&c->bad_requests);
		sum.handshakes_failed += counter(&c->handshakes_failed);
		sum.parked_now += counter(&c->parked_now);
		sum.streams_now += counter(&c->streams_now);
		sum.streams_slow += counter(&c->streams_slow);
	}
	return sum;
}

bool http_server_beats(struct http_server *s)
{
	bool all = true;

	for (unsigned i = 0; i < s->loop_count; i++)
		all = loop_beats(&s->loops[i]) && all;
	return all;
}

void http_server_close(struct http_server *s)
{
	inbox_push(&s->loops[0].inbox, &s->stop, NULL);
	for (unsigned i = 0; i < s->loop_count; i++)
		pthread_join(s->loops[i].thread, NULL);
	loops_release(s, s->loop_count);
	server_free(s);
}
