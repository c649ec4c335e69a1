/* Loop: one thread that waits for sockets, its inbox and its deadlines, and runs whatever is due. Everything
 * of a connection happens on its loop, so nothing of it is locked. */
#ifndef HTTP_LOOP_H
#define HTTP_LOOP_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/metric.h"
#include "base/wakes.h"
#include "http/receive.h"
#include "http/timers.h"

/* Inbox: how other threads reach a loop: a lock-free stack that the loop takes whole and reads oldest first.
 * The thread that puts the first item into an empty inbox wakes the loop, at once or with its list of wakes; later ones need not.
 *
 * Thread rule: inbox_push from any thread; everything else by the loop's own. */

/* Embedded in whatever is sent. run is called on the loop's thread, and the item is not touched after. */
struct inbox_item {
	struct inbox_item *next;
	void (*run)(struct inbox_item *item);
};

struct inbox {
	/* any thread */
	_Atomic(struct inbox_item *) newest;
	atomic_uint
	        pushing; /* threads that push, or will wake the loop: inbox_close waits for them to leave */
	/* set once */
	int fd; /* an eventfd, to be watched edge-triggered: each write is an edge, so it is never read */
};

enum err_code inbox_open(struct inbox *in, struct err *err);

/* No push may start after this; one that is under way ends first, and so do wakes. */
void inbox_close(struct inbox *in);

/* The loop is woken when the list is run. NULL: now. */
void inbox_push(struct inbox *in, struct inbox_item *item, struct wakes *wakes);

/* Runs everything that was in it, oldest first. */
void inbox_run(struct inbox *in);

/* Something epoll watches. Embedded in whoever is told. */
struct watch {
	void (*on_event)(struct watch *w, uint32_t events);
};

struct conn;
struct exchange;
struct read_buffer;

/* Written by the loop alone, read by anyone: plain loads and stores, no locked instructions. */
struct loop_counts {
	_Atomic uint64_t accepted, refused, requests, timeouts, bad_requests, handshakes_failed;
	_Atomic uint64_t parked_now, streams_now, streams_slow;
};

enum { OUTBOX_ANSWERS_MAX = 32 };

/* Answers that go out together, once the requests that came together have all been read: answer.c. */
struct outbox {
	bool         gathering;
	struct buf   text; /* one behind the other */
	struct conn *conns[OUTBOX_ANSWERS_MAX];
	size_t       ends[OUTBOX_ANSWERS_MAX]; /* of each conn's answer */
	unsigned     count;
};

enum { DATE_BYTES = 29 }; /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* The Date header's text, made anew when the second changes. One thread only. */
struct date {
	int64_t second; /* -1: never made */
	char    text[DATE_BYTES + 1];
};

enum { POOL_KEPT_MAX = 128 }; /* of each kind; beyond it they are freed */

/* Spare ones of what a connection needs only while a request is under way: exchange.c. */
struct pool {
	const struct http_limits *limits;
	struct budget            *budget;
	size_t                    buffer_bytes;
	struct exchange          *exchanges;
	struct read_buffer       *buffers;
	unsigned                  exchange_count, buffer_count;
};

struct loop {
	/* any thread */
	struct inbox       inbox;
	struct loop_counts counts;
	atomic_uint       *connections_now; /* the server's, all loops together */
	struct inbox_item  beat;            /* in the inbox while beating */
	atomic_bool        beating;

	/* set before the thread starts */
	const struct http_limits  *limits;
	const struct http_handler *handler;
	struct clock              *clock;
	struct http_tls           *tls; /* NULL: plain */
	int                        epoll_fd;
	pthread_t                  thread; /* for whoever joins it */

	/* this thread only */
	pthread_t         self;
	void             *loop_data;
	int64_t           now_us;  /* steady, read once a round */
	int64_t           wall_us; /* the same moment by the wall clock, for Date */
	struct watch      inbox_watch;
	struct timers     timers;
	struct budget     budget;
	struct pool       pool;
	struct date       date;
	struct outbox     outbox;
	struct list       conns;
	struct list       graves; /* closed this round, freed at its end: an event may still name them */
	struct inbox_item stop;
	bool              stopping;
	int64_t           drain_end_us;
};

/* One of options->loops; what the options point at must outlive it. */
enum err_code loop_init(struct loop *l, const struct http_server_options *options,
                        atomic_uint *connections_now, struct err *err);
/* After the thread has ended, or if it never started. */
void loop_release(struct loop *l);

/* The thread's function; ends some time after loop_stop, when no connection is left. */
void *loop_main(void *loop);

/* From this loop's thread: finish what is under way and take nothing new. */
void loop_stop(struct loop *l);

/* From any one thread: false if what the last call put into the inbox has not been seen there yet. */
bool loop_beats(struct loop *l);

/* False if the kernel refuses. */
bool loop_watch(struct loop *l, int fd, struct watch *w, uint32_t events);
void loop_rewatch(struct loop *l, int fd, struct watch *w, uint32_t events);
void loop_unwatch(struct loop *l, int fd);

#endif
