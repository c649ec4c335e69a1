/* Worker: the one shape of background work: a named thread that is started, woken, watched, measured and stopped.
 *
 *   periodic      period_us is set: a round when it has passed, or when somebody wakes the worker
 *   queue-driven  no period: submit puts work into the owner's queue and wakes; a round empties the queue
 *   long jobs     ask worker_goes_on between two steps
 *   own waiting   `main` instead of `round`: it waits as it likes, and says worker_begin and worker_idle
 *
 * (1) Wakes are never lost: a round begins after every worker_wake. Several wakes may share one round.
 * (2) Rounds of a worker never overlap.
 * (3) A worker is in the register, which the watchdog and the metrics read, from worker_start until it has stopped.
 *
 * The owner's one thread calls init, start, stop, join and release. Any thread wakes and reads. */
#ifndef BASE_WORKER_H
#define BASE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/err.h"
#include "base/list.h"

enum {
	WORKER_NAME_MAX = 15, /* the kernel's */
	WORKER_STOP_MS = 10000,
	WORKER_NAMES_MAX = 32, /* that the metrics tell apart */
};

struct worker;

struct worker_options {
	/* Of the thread (ps -T, top -H) and in the metrics. Stays valid. Several workers may share a name: their
	 * metrics are added up. */
	const char *name;
	void (*round)(struct worker *w, void *ctx);
	void (*main)(struct worker *w, void *ctx); /* instead of round; returns once its owner wants it to */
	void   *ctx;
	int64_t period_us; /* from the end of a round to the begin of the next; 0: only when woken */
	/* Rounds that find nothing to do (worker_found) are followed by longer waits, each twice as long as the last, up to this one;
	 * 0: none is longer than period_us. For rounds that ask somebody over a network. A wake ends any wait. */
	int64_t rest_us;
	/* How long its thread asks the kernel to run at a time; 0: as long as others. A thread that asks for longer gives way to
	 * others as soon as they wake up. Its share of the cores stays the same, so a lock that it holds is not held longer. */
	int64_t  slice_us;
	bool     drains;  /* a stop lets it do the round that it was woken for */
	bool     vital;   /* if it hangs, so does the server (workers_beat) */
	unsigned stop_ms; /* the bound of worker_stop; 0: WORKER_STOP_MS */
};

struct worker {
	/* set once */
	struct worker_options options;

	/* the owner's thread */
	pthread_t thread;
	bool      started; /* and not joined */

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	uint64_t        asked, done; /* rounds */
	bool            ended;       /* its function has returned */

	/* its own thread */
	int64_t wait_us; /* before the next round */
	bool    found;   /* in the last one */

	/* any thread; set under lock */
	atomic_bool stopping;

	/* written by its own thread, read by any: plain loads and stores, no locked instructions */
	_Atomic uint64_t runs, steps, busy_us;
	_Atomic int64_t  began_us; /* the run under way; 0: idle */
	_Atomic int64_t  step_us;  /* when it last made progress */
	_Atomic int64_t  ended_us; /* the last run; 0: none yet */

	/* under the register's lock */
	struct list link;
	uint64_t    seen_steps; /* when worker_beats last looked */
	bool        seen_busy;
};

void worker_init(struct worker *w, const struct worker_options *options);
/* ERR_STORAGE if no thread can be had; then it can still be woken, to no effect, and stopped. */
enum err_code worker_start(struct worker *w, struct err *err);

/* A round now, or right after the one under way. Any thread, also after it stopped (to no effect). */
void worker_wake(struct worker *w);
/* The same, and waits until that round has ended, or the worker has. Not from its own thread. */
void worker_round(struct worker *w);

/* Lets the worker end, and waits for at most stop_ms. False: it still runs, which is logged with its name. Then whatever it
 * uses must stay. May be called again; true if it never started. */
bool worker_stop(struct worker *w);
/* Waits for as long as it takes, for an owner who cannot do without. Logged as above, each time stop_ms has passed. */
void worker_join(struct worker *w);
/* After it has stopped, or if it never started. */
void worker_release(struct worker *w);

/* ---- from its own thread ---- */

/* It made progress by a step. Each round counts as one by itself. */
void worker_beat(struct worker *w);
/* Between two steps of a long job: shall I go on? Counts as a step. */
bool worker_goes_on(struct worker *w);
/* Of `main`: a run begins; it is over, and the worker waits. */
void worker_begin(struct worker *w);
void worker_idle(struct worker *w);

/* ---- watching ---- */

/* False if it is still at the very step that it was at when asked last: it hangs, if enough time has passed. One that is idle or
 * stopping never does. */
bool worker_beats(struct worker *w);

/* The same of every vital worker of this process; those that hang are logged. */
bool workers_beat(void);

struct worker_reading {
	const char *name;
	uint64_t    runs, busy_us;
	int64_t     last_run_us; /* when the last run ended, by the wall clock; 0: none yet */
	int64_t     stuck_us;    /* how long it has been at the same step; 0: idle */
};

/* One reading per name, in the order of their start. Returns how many. */
unsigned workers_read(struct worker_reading out[WORKER_NAMES_MAX]);

/* By a round: there was something to do. */
static inline void worker_found(struct worker *w)
{
	w->found = true;
}

/* How long to wait after a look, if the last wait took so long; for those that wait as they like, too. */
static inline int64_t worker_rest_us(int64_t last_us, int64_t period_us, int64_t rest_us, bool found)
{
	if (found || rest_us <= period_us)
		return period_us;
	return 2 * last_us < rest_us ? 2 * last_us : rest_us;
}

/* How long it waits after a round. */
static inline int64_t worker_next_wait_us(const struct worker *w)
{
	return worker_rest_us(w->wait_us, w->options.period_us, w->options.rest_us, w->found);
}

#endif
