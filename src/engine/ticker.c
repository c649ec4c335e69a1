/* Ticker: see ticker.h. */
#include "engine/ticker.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "engine/backfill.h"
#include "engine/disk.h"
#include "engine/state.h"
#include "engine/sweep.h"

enum { CLOCK_WARN_US = 2000000 };

struct ticker {
	struct engine *engine;
	pthread_t      thread;
	bool           started;

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	uint64_t        asked, done; /* rounds */
	bool            stopping;

	/* ticker thread only */
	struct sweep sweep;
	int64_t      warned_us; /* how far the wall clock was ahead when that was last said */
};

/* ---- one round ---- */

/* Someone set the wall clock. Time goes on as it was; whether to take the new time on is the operator's choice,
 * for what is to last would end that much earlier. */
static void watch_clock(struct ticker *t)
{
	int64_t ahead_us = clock_wall_us(t->engine->options.clock) - engine_now_us(t->engine);
	int64_t change_us = ahead_us - t->warned_us;

	if (change_us < CLOCK_WARN_US && change_us > -CLOCK_WARN_US)
		return;
	t->warned_us = ahead_us;
	log_warn("the wall clock is %lld s ahead of the server's time, by which rows expire; set the clock "
	         "right, or restart the server to take over a clock that is ahead",
	         (long long)(ahead_us / 1000000));
}

static void make_checkpoint(struct engine *e)
{
	struct err err;

	if (!e->starved && checkpoint_is_due(e) && checkpoint_run(e, &err) != ERR_NONE &&
	    err.code != ERR_DISK_FULL) /* that is known */
		log_warn("a checkpoint failed and will be tried again: %s", err.text);
}

static void tick(struct ticker *t)
{
	struct engine *e = t->engine;
	struct err     err;

	disk_watch(e);
	watch_clock(t);
	if (writer_failed(e->writer))
		return;
	make_checkpoint(e);
	if (!engine_ready(e))
		return;
	if (backfill_run(e, &err) != ERR_NONE)
		log_warn("filling an index failed and will be tried again: %s", err.text);
	if (sweep_run(e, &t->sweep, &err) != ERR_NONE)
		log_warn("removing expired rows failed and will be tried again: %s", err.text);
}

/* ---- the thread ---- */

/* Waits for a period or a wake; false when it is time to stop. *round is what will have been done after this
 * one. */
static bool wait_round(struct ticker *t, uint64_t *round)
{
	struct timespec until;
	bool            stopping;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += t->engine->options.tick_ms / 1000;
	until.tv_nsec += (long)(t->engine->options.tick_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&t->lock);
	while (!t->stopping && t->asked == t->done)
		if (pthread_cond_timedwait(&t->changed, &t->lock, &until) == ETIMEDOUT)
			break;
	*round = t->asked;
	stopping = t->stopping;
	pthread_mutex_unlock(&t->lock);
	return !stopping;
}

bool ticker_goes_on(struct ticker *t)
{
	bool stopping;

	disk_watch(t->engine);
	make_checkpoint(t->engine);
	pthread_mutex_lock(&t->lock);
	stopping = t->stopping;
	pthread_mutex_unlock(&t->lock);
	return !stopping;
}

static void *ticker_main(void *arg)
{
	struct ticker *t = arg;
	uint64_t       round;

	while (wait_round(t, &round)) {
		tick(t);
		pthread_mutex_lock(&t->lock);
		t->done = round;
		pthread_cond_broadcast(&t->changed);
		pthread_mutex_unlock(&t->lock);
	}
	return NULL;
}

void ticker_wake(struct ticker *t)
{
	if (t == NULL)
		return;
	pthread_mutex_lock(&t->lock);
	t->asked++;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

void engine_tick(struct engine *e)
{
	struct ticker *t = e->ticker;
	uint64_t       round;

	pthread_mutex_lock(&t->lock);
	round = ++t->asked;
	pthread_cond_broadcast(&t->changed);
	while (t->done < round)
		pthread_cond_wait(&t->changed, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

enum err_code ticker_open(struct ticker **out, struct engine *e, struct err *err)
{
	struct ticker     *t = mem_zalloc(sizeof(*t));
	pthread_condattr_t attributes;

	t->engine = e;
	buf_init(&t->sweep.at, NULL);
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* the hour may be set back */
	pthread_cond_init(&t->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	*out = t;
	t->started = pthread_create(&t->thread, NULL, ticker_main, t) == 0;
	return t->started ? ERR_NONE : err_set(err, ERR_STORAGE, "cannot start the ticker's thread");
}

void ticker_stop(struct ticker *t)
{
	pthread_mutex_lock(&t->lock);
	t->stopping = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	if (t->started)
		pthread_join(t->thread, NULL);
	t->started = false;
}

void ticker_close(struct ticker *t)
{
	ticker_stop(t);
	buf_release(&t->sweep.at);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
