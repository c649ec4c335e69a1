/* Worker: a thread, what it is asked to do, and a register of all that run.
 *
 *   any thread                     the worker's thread
 *   worker_wake --> asked  ------> waits for asked or the period
 *                                  round; its steps and times are stored as it goes
 *   worker_round <-- done  <------ done = asked, as it was when the round began
 *   worker_stop --> stopping ----> ended */
#define _GNU_SOURCE
#include "base/worker.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"

static struct {
	pthread_mutex_t lock;
	struct list     all; /* of struct worker.link */
} workers = {PTHREAD_MUTEX_INITIALIZER, {&workers.all, &workers.all}};

/* The system's own clock, whatever clock the rest goes by: a hang is one of real time. A coarse reading is some milliseconds old,
 * and costs next to nothing. */
static int64_t read_clock_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t now_us(void)
{
	return read_clock_us(CLOCK_MONOTONIC);
}

static struct timespec after_us(int64_t us)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	us += t.tv_nsec / 1000;
	t.tv_sec += us / 1000000;
	t.tv_nsec = us % 1000000 * 1000;
	return t;
}

/* ---- its own thread ---- */

/* Only the worker's thread changes them. */
static void add(_Atomic uint64_t *to, uint64_t more)
{
	atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + more,
	                      memory_order_relaxed);
}

static void set(_Atomic int64_t *to, int64_t value)
{
	atomic_store_explicit(to, value, memory_order_relaxed);
}

static int64_t read_time(const _Atomic int64_t *from)
{
	return atomic_load_explicit(from, memory_order_relaxed);
}

void worker_beat(struct worker *w)
{
	set(&w->step_us, read_clock_us(CLOCK_MONOTONIC_COARSE));
	add(&w->steps, 1);
}

bool worker_goes_on(struct worker *w)
{
	worker_beat(w);
	return !atomic_load(&w->stopping) && !fault_fires(FAULT_STOP);
}

void worker_begin(struct worker *w)
{
	int64_t now = now_us();

	set(&w->step_us, now);
	set(&w->began_us, now);
	add(&w->steps, 1);
}

void worker_idle(struct worker *w)
{
	int64_t began = read_time(&w->began_us), now;

	if (began == 0)
		return;
	now = now_us();
	set(&w->began_us, 0);
	set(&w->ended_us, now);
	add(&w->busy_us, (uint64_t)(now - began));
	add(&w->runs, 1);
	add(&w->steps, 1);
}

/* Waits for a wake or the period; false when it is time to end. *asked is what will have been done after the next round. */
static bool await_round(struct worker *w, uint64_t *asked)
{
	struct timespec until = after_us(w->wait_us);
	bool            due = false, ends;

	pthread_mutex_lock(&w->lock);
	while (!due && w->asked == w->done && !atomic_load(&w->stopping)) {
		if (w->options.period_us == 0)
			pthread_cond_wait(&w->changed, &w->lock);
		else
			due = pthread_cond_timedwait(&w->changed, &w->lock, &until) == ETIMEDOUT;
	}
	*asked = w->asked;
	ends = atomic_load(&w->stopping) && !(w->options.drains && w->asked != w->done);
	pthread_mutex_unlock(&w->lock);
	return !ends;
}

static void run_rounds(struct worker *w)
{
	uint64_t asked;

	w->wait_us = w->options.period_us;
	while (await_round(w, &asked)) {
		worker_begin(w);
		w->found = asked != w->done; /* woken */
		w->options.round(w, w->options.ctx);
		w->wait_us = worker_next_wait_us(w);
		worker_idle(w);
		pthread_mutex_lock(&w->lock);
		w->done = asked;
		pthread_cond_broadcast(&w->changed);
		pthread_mutex_unlock(&w->lock);
	}
}

/* The kernel's struct sched_attr, as far as it is needed: many a C library lacks it. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t  nice;
	uint32_t priority;
	uint64_t slice_ns, deadline_ns, period_ns;
};

/* Since Linux 6.12; older ones ignore it. If it fails, all is well, only slower. */
static void set_slice(int64_t slice_us)
{
	struct attributes attributes = {.size = sizeof(attributes), .slice_ns = (uint64_t)slice_us * 1000};

	if (slice_us == 0)
		return;
	attributes.nice = getpriority(PRIO_PROCESS, 0);
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	pthread_setname_np(pthread_self(), w->options.name);
	set_slice(w->options.slice_us);
	if (w->options.main != NULL)
		w->options.main(w, w->options.ctx);
	else
		run_rounds(w);
	pthread_mutex_lock(&w->lock);
	w->ended = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* ---- life cycle ---- */

void worker_init(struct worker *w, const struct worker_options *options)
{
	pthread_condattr_t monotonic;

	assert(strlen(options->name) <= WORKER_NAME_MAX &&
	       (options->round == NULL) != (options->main == NULL));
	*w = (struct worker){.options = *options};
	list_init(&w->link);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* the hour may be set back */
	pthread_cond_init(&w->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

enum err_code worker_start(struct worker *w, struct err *err)
{
	int rc = fault_fires(FAULT_THREAD) ? EAGAIN : pthread_create(&w->thread, NULL, worker_main, w);

	if (rc != 0)
		return err_set(err, ERR_STORAGE, "cannot start the thread \"%s\": %s", w->options.name,
		               strerror(rc));
	w->started = true;
	pthread_mutex_lock(&workers.lock);
	list_push_back(&workers.all, &w->link);
	pthread_mutex_unlock(&workers.lock);
	return ERR_NONE;
}

void worker_wake(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->asked++;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

void worker_round(struct worker *w)
{
	uint64_t asked;

	pthread_mutex_lock(&w->lock);
	asked = ++w->asked;
	pthread_cond_broadcast(&w->changed);
	while (w->done < asked && !w->ended)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static int64_t stop_us(const struct worker *w)
{
	return INT64_C(1000) * (w->options.stop_ms > 0 ? w->options.stop_ms : WORKER_STOP_MS);
}

/* How long the worker has been at the same step. A run that begins at this moment may have begun a little later. */
static int64_t stuck_us(const struct worker *w, int64_t now)
{
	int64_t since = read_time(&w->step_us);

	return read_time(&w->began_us) == 0 || since > now ? 0 : now - since;
}

static bool await_end(struct worker *w)
{
	struct timespec until = after_us(stop_us(w));
	int             rc = 0;
	bool            ended;

	pthread_mutex_lock(&w->lock);
	atomic_store(&w->stopping, true);
	pthread_cond_broadcast(&w->changed);
	while (!w->ended && rc == 0)
		rc = pthread_cond_timedwait(&w->changed, &w->lock, &until);
	ended = w->ended;
	pthread_mutex_unlock(&w->lock);
	return ended;
}

bool worker_stop(struct worker *w)
{
	if (!w->started)
		return true;
	if (!await_end(w)) {
		log_error("the thread \"%s\" has not stopped within %lld ms: for %lld ms it has been at the "
		          "same "
		          "step",
		          w->options.name, (long long)(stop_us(w) / 1000),
		          (long long)(stuck_us(w, now_us()) / 1000));
		return false;
	}
	pthread_mutex_lock(&workers.lock);
	list_remove(&w->link);
	pthread_mutex_unlock(&workers.lock);
	pthread_join(w->thread, NULL);
	w->started = false;
	return true;
}

void worker_join(struct worker *w)
{
	while (!worker_stop(w))
		;
}

void worker_release(struct worker *w)
{
	assert(!w->started);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
}

/* ---- watching ---- */

/* Under the register's lock. */
static bool beats(struct worker *w)
{
	uint64_t steps = atomic_load_explicit(&w->steps, memory_order_relaxed);
	bool     busy = read_time(&w->began_us) != 0 && !atomic_load(&w->stopping);
	bool     beat = !busy || !w->seen_busy || steps != w->seen_steps;

	w->seen_busy = busy;
	w->seen_steps = steps;
	return beat;
}

bool worker_beats(struct worker *w)
{
	bool beat;

	pthread_mutex_lock(&workers.lock);
	beat = beats(w);
	pthread_mutex_unlock(&workers.lock);
	return beat;
}

bool workers_beat(void)
{
	bool all = true;

	pthread_mutex_lock(&workers.lock);
	for (struct list *at = workers.all.next; at != &workers.all; at = at->next) {
		struct worker *w = LIST_ENTRY(at, struct worker, link);

		if (!w->options.vital || beats(w))
			continue;
		log_error("the thread \"%s\" hangs: the watchdog gets no sign of life", w->options.name);
		all = false;
	}
	pthread_mutex_unlock(&workers.lock);
	return all;
}

/* The reading of that name, a new one if there is none; NULL: there are too many names. */
static struct worker_reading *reading_of(const char *name, struct worker_reading *out, unsigned *count)
{
	for (unsigned i = 0; i < *count; i++)
		if (strcmp(out[i].name, name) == 0)
			return &out[i];
	if (*count == WORKER_NAMES_MAX)
		return NULL;
	out[*count] = (struct worker_reading){.name = name};
	return &out[(*count)++];
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Times are steady ones. */
static void read_into(struct worker_reading *r, const struct worker *w, int64_t now)
{
	int64_t began = read_time(&w->began_us);

	r->runs += atomic_load_explicit(&w->runs, memory_order_relaxed);
	r->busy_us += atomic_load_explicit(&w->busy_us, memory_order_relaxed);
	if (began != 0 && began < now)
		r->busy_us += (uint64_t)(now - began);
	r->last_run_us = larger(r->last_run_us, read_time(&w->ended_us));
	r->stuck_us = larger(r->stuck_us, stuck_us(w, now));
}

unsigned workers_read(struct worker_reading out[WORKER_NAMES_MAX])
{
	int64_t  now = now_us(), wall = clock_wall_us(clock_system());
	unsigned count = 0;

	pthread_mutex_lock(&workers.lock);
	for (struct list *at = workers.all.next; at != &workers.all; at = at->next) {
		const struct worker   *w = LIST_ENTRY(at, struct worker, link);
		struct worker_reading *r = reading_of(w->options.name, out, &count);

		if (r != NULL)
			read_into(r, w, now);
	}
	pthread_mutex_unlock(&workers.lock);
	for (unsigned i = 0; i < count; i++)
		if (out[i].last_run_us != 0)
			out[i].last_run_us = wall - (now - out[i].last_run_us);
	return count;
}
