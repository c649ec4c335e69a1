/* Ticker: see ticker.h. */
#include "engine/ticker.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/worker.h"
#include "engine/backfill.h"
#include "engine/disk.h"
#include "engine/state.h"
#include "engine/sweep.h"

enum { CLOCK_WARN_US = 2000000 };

struct ticker {
	struct engine *engine;
	struct worker  worker;

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

static void tick(struct worker *worker, void *ctx)
{
	struct ticker *t = ctx;
	struct engine *e = t->engine;
	struct err     err;

	(void)worker;
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

bool ticker_goes_on(struct ticker *t)
{
	disk_watch(t->engine);
	make_checkpoint(t->engine);
	return worker_goes_on(&t->worker);
}

/* ---- the thread ---- */

void ticker_wake(struct ticker *t)
{
	if (t != NULL)
		worker_wake(&t->worker);
}

void engine_tick(struct engine *e)
{
	worker_round(&e->ticker->worker);
}

enum err_code ticker_open(struct ticker **out, struct engine *e, struct err *err)
{
	struct ticker        *t = mem_zalloc(sizeof(*t));
	struct worker_options options = {.name = "ticker", .round = tick, .ctx = t};

	t->engine = e;
	options.period_us = INT64_C(1000) * e->options.tick_ms;
	buf_init(&t->sweep.at, NULL);
	worker_init(&t->worker, &options);
	*out = t;
	return worker_start(&t->worker, err);
}

void ticker_stop(struct ticker *t)
{
	worker_join(&t->worker);
}

void ticker_close(struct ticker *t)
{
	ticker_stop(t);
	worker_release(&t->worker);
	buf_release(&t->sweep.at);
	free(t);
}
