/* Writer: the one thread that writes.
 *
 *    any thread                     writer thread
 *    writer_submit … --> pending
 *    writer_gathered, or many --->  take what waits    (ready; late, if its caller has had more than its share)
 *         |                         run each in turn   (sees the earlier ones; a failed one is undone alone)
 *         |                         commit once        (one flush for all)
 *         <------ done -----------  complete, oldest first
 *
 * While a flush is under way, requests gather for the next batch: the more load, the larger the batches. A batch goes on
 * with what comes while it is run, up to half of the requests that are under way (decision 005). It also ends by the
 * clock, so that what is done gets answered.
 *
 * Fairness: a request that does a lot of work puts its caller into debt. While it is in debt, its requests wait in a line
 * of their own, and batches take turns: one of the ready, one of the late, which ends early if others wait. So what
 * one caller's requests cost another is the longest of them, however many there are. The late line may hold half
 * of the queue. Past that its requests are refused without being run: they would fill the queue, and the others' submits fail.
 *
 * (W1) A request's outcome is set before it is completed, and never after.
 * (W2) It is completed only after the commit that holds it is durable; also one that wrote nothing, since what
 *      it saw may have been written by an earlier one of the same batch.
 * (W3) If the commit fails, every request of the batch fails with "outcome unknown", and so does every later
 *      one: what the disk holds is known only to the process that opens it next.
 * (W4) pending_bytes <= queue_bytes_max: past it submit refuses at once. Only a request that alone costs more is
 *      taken all the same, when nothing else waits: it would never have its turn otherwise. */
#include "engine/writer.h"

#include <stdlib.h>
#include <time.h>

#include "base/debt.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/worker.h"
#include "engine/disk.h"
#include "engine/layout.h"
#include "engine/rehearsal.h"
#include "engine/state.h"
#include "engine/ticker.h"

enum {
	BATCH_REQUESTS_MAX = 1024,
	BATCH_BYTES_MAX = 8 << 20, /* of what is written; a batch ends with the request that passes it */
	BATCH_COST_MAX = 64 << 20, /* of what its requests hold, once they were run; likewise */
	BATCH_US_MAX = 5000,       /* of running its requests; likewise */
	LATE_US_MAX = 1000,        /* the same of late ones while others wait */
	BODY_KEPT_MAX = 1 << 20,   /* an unusual batch's memory is given back */
	GATHERING_US_MAX =
	        500,      /* how long a batch goes on with what comes, and waits for a loop that submits */
	MEAN_OF = 8,      /* batches, about, whose flushes and sizes are remembered */
	RUN_AT = 8,       /* so many that wait are worth waking the writer for, while their loop submits */
	SEGMENTS_MAX = 8, /* of the journal; past it the writer waits for a checkpoint */
	CLOCK_EVERY = 8,  /* light requests from one look at the clock to the next */
};

struct line {
	struct turn_request *first, **last;
	unsigned             count;
};

struct writer {
	struct engine *engine;
	struct worker  worker;

	/* under lock */
	pthread_mutex_t     lock;
	pthread_cond_t      arrived;
	struct line         pending;
	bool                stopping;
	bool                gathering; /* who submitted last may be about to submit more */
	struct writer_stats stats;

	/* any thread */
	atomic_bool   failed;        /* (W3) */
	atomic_size_t pending_bytes; /* (W4): of all that has not had its turn; added to under lock only */
	struct metric_histogram batch_requests, flush_us;

	/* writer thread only */
	struct line  ready, late;
	size_t       late_bytes; /* of what waits in late */
	unsigned     under_way;  /* requests that were, of late: in a batch, or waiting when it ended */
	int64_t      flush_mean_us;
	bool         late_next; /* the next batch is of late ones */
	struct debts debts;
	struct turn  turn;
	struct buf   body; /* of the record to be written */
};

static void line_init(struct line *l)
{
	*l = (struct line){NULL, &l->first, 0};
}

static void line_push(struct line *l, struct turn_request *r)
{
	r->next = NULL;
	*l->last = r;
	l->last = &r->next;
	l->count++;
}

static struct turn_request *line_pop(struct line *l)
{
	struct turn_request *r = l->first;

	if (r == NULL)
		return NULL;
	l->count--;
	l->first = r->next;
	if (l->first == NULL)
		l->last = &l->first;
	return r;
}

/* Moves all of `from` to the end of `to`. */
static void line_join(struct line *to, struct line *from)
{
	if (from->first == NULL)
		return;
	*to->last = from->first;
	to->last = from->last;
	to->count += from->count;
	line_init(from);
}

/* ---- submitting ---- */

static enum err_code refuse(const struct writer *w, struct err *err)
{
	if (atomic_load(&w->failed))
		return err_set(err, ERR_STORAGE, MSG_WRITER_FAILED);
	return err_set(err, ERR_DISK_FULL, "the disk is nearly full; writes are refused until there is room");
}

enum err_code writer_submit(struct writer *w, struct turn_request *r, struct err *err)
{
	size_t waiting;
	bool   full, many = false;

	if (atomic_load(&w->failed) || atomic_load(&w->engine->disk_full))
		return refuse(w, err);
	pthread_mutex_lock(&w->lock);
	waiting = atomic_load(&w->pending_bytes);
	full = waiting > 0 && waiting + r->cost_bytes > w->engine->options.queue_bytes_max; /* (W4) */
	if (!full) {
		line_push(&w->pending, r);
		atomic_fetch_add(&w->pending_bytes, r->cost_bytes);
		w->gathering = true;
		many = w->pending.count == RUN_AT;
	}
	pthread_mutex_unlock(&w->lock);
	if (many)
		pthread_cond_signal(&w->arrived);
	if (full)
		return err_set(err, ERR_OVERLOADED, "too many writes are waiting; try again shortly");
	return ERR_NONE;
}

void writer_gathered(struct writer *w)
{
	bool gathering;

	pthread_mutex_lock(&w->lock);
	gathering = w->gathering;
	w->gathering = false;
	pthread_mutex_unlock(&w->lock);
	if (gathering)
		pthread_cond_signal(&w->arrived);
}

bool writer_failed(const struct writer *w)
{
	return atomic_load(&w->failed);
}

struct writer_stats writer_stats(struct writer *w)
{
	struct writer_stats stats;

	pthread_mutex_lock(&w->lock);
	stats = w->stats;
	stats.queue_bytes = atomic_load(&w->pending_bytes);
	pthread_mutex_unlock(&w->lock);
	metric_read(&w->batch_requests, &stats.batch_requests);
	metric_read(&w->flush_us, &stats.flush_us);
	return stats;
}

/* ---- taking ---- */

static struct timespec in_us(int64_t us)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += us * 1000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

/* Is there something to run now? If a loop has more to submit, only if many wait: it is worth waiting for the others. */
static bool is_due(const struct writer *w)
{
	return w->stopping || w->pending.count >= RUN_AT || (w->pending.count > 0 && !w->gathering);
}

/* Waits for requests of a loop that submits some, under lock. */
static void await_rest(struct writer *w, int64_t us)
{
	struct timespec until = in_us(us);

	while (!is_due(w) && w->gathering && pthread_cond_timedwait(&w->arrived, &w->lock, &until) == 0)
		;
}

/* Waits for requests, under lock. */
static void await(struct writer *w)
{
	if (w->pending.count > 0)
		await_rest(w, GATHERING_US_MAX);
	else
		while (!is_due(w))
			pthread_cond_wait(&w->arrived, &w->lock);
}

/* Waits for requests, unless some are left, and takes them; false when there will be none any more. */
static bool take(struct writer *w)
{
	bool left = w->ready.first != NULL || w->late.first != NULL;

	worker_idle(&w->worker);
	pthread_mutex_lock(&w->lock);
	if (!left)
		await(w);
	line_join(&w->ready, &w->pending);
	left = left || w->ready.first != NULL;
	pthread_mutex_unlock(&w->lock);
	if (left)
		worker_begin(&w->worker);
	return left;
}

/* Takes what came while a batch was run, and what its loop is about to submit: the larger the batch, the less a flush
 * costs each. */
static bool take_more(struct writer *w, int64_t us_left)
{
	if (us_left <= 0)
		return false;
	pthread_mutex_lock(&w->lock);
	await_rest(w, us_left);
	line_join(&w->ready, &w->pending);
	pthread_mutex_unlock(&w->lock);
	return w->ready.first != NULL;
}

/* ---- running ---- */

/* Returns the work that it was: what it came to hold, and what its expressions examined. */
static size_t run_one(struct writer *w, struct turn_request *r, int64_t now_us)
{
	struct engine_session session = {
	        .base = {.backend = &engine_backend, .now_us = now_us, .alone = true},
	        .engine = w->engine,
	        .turn = &w->turn,
	        .rehearsal = r->rehearsal != NULL ? ((struct engine_session *)r->rehearsal)->rehearsal : NULL,
	        .light = r->rehearses && r->rehearsal == NULL};
	struct turn_mark mark = turn_mark(&w->turn);

	atomic_fetch_sub(&w->pending_bytes, r->cost_bytes);
	r->rc = r->run(r, &session.base);
	r->too_heavy = session.too_heavy;
	if (r->rc != ERR_NONE)
		turn_rollback(&w->turn, mark);
	else
		turn_keep(&w->turn, mark);
	return r->cost_bytes + session.base.cost.spent;
}

/* With its outcome set. After done it is the submitter's. (W1) */
static void finish(struct turn_request *r, struct wakes *wakes)
{
	r->wakes = wakes;
	r->done(r);
}

/* Lets it wait, or completes it now. As in (W4), one that alone costs more waits all the same. */
static void put_off(struct writer *w, struct turn_request *r)
{
	size_t bytes = w->late_bytes + r->cost_bytes;

	if (w->late.first == NULL || bytes <= w->engine->options.queue_bytes_max / 2) {
		w->late_bytes = bytes;
		line_push(&w->late, r);
		return;
	}
	atomic_fetch_sub(&w->pending_bytes, r->cost_bytes);
	r->rc = err_set(&r->err, ERR_CALLER_THROTTLED,
	                "too many heavy writes are waiting; try again shortly");
	finish(r, NULL);
}

static struct turn_request *pop_late(struct writer *w)
{
	struct turn_request *r = line_pop(&w->late);

	if (r != NULL)
		w->late_bytes -= r->cost_bytes;
	return r;
}

/* The next request of a batch of that kind. */
static struct turn_request *next(struct writer *w, bool late, int64_t now_us)
{
	struct turn_request *r;

	if (late)
		return pop_late(w);
	while ((r = line_pop(&w->ready)) != NULL && debts_owe(&w->debts, r->caller, now_us))
		put_off(w, r);
	return r;
}

static bool others_wait(struct writer *w)
{
	bool wait = w->ready.first != NULL;

	pthread_mutex_lock(&w->lock);
	wait = wait || w->pending.first != NULL;
	pthread_mutex_unlock(&w->lock);
	return wait;
}

/* A batch while it is run. */
struct run {
	bool     late;
	int64_t  began_us, at_us; /* steady; at_us: when the clock was last read */
	uint64_t count;
	size_t   cost_bytes;
};

/* Clients that wait for their answers come in step: if one batch took them all, the loops would have nothing to do
 * while it is run and flushed, and the writer nothing while they are answered. So a batch of half of them is enough,
 * once running it takes long beside the flush. */
static bool is_half(const struct writer *w, const struct run *run, int64_t elapsed_us)
{
	return run->count >= w->under_way / 2 && elapsed_us > w->flush_mean_us / 3;
}

/* Is the batch to end with the request that was just run? */
static bool run_ends(struct writer *w, const struct run *run)
{
	int64_t elapsed_us = run->at_us - run->began_us;

	return is_half(w, run, elapsed_us) || w->turn.bytes > BATCH_BYTES_MAX ||
	       run->cost_bytes > BATCH_COST_MAX || run->count == BATCH_REQUESTS_MAX ||
	       elapsed_us >= BATCH_US_MAX || (run->late && elapsed_us >= LATE_US_MAX && others_wait(w));
}

/* The next request of a batch, also of those that came since it began. */
static struct turn_request *next_of(struct writer *w, struct run *run, struct clock *clock)
{
	struct turn_request *r = next(w, run->late, run->at_us);

	if (r != NULL || run->late)
		return r;
	run->at_us = clock_steady_us(clock);
	return take_more(w, run->began_us + GATHERING_US_MAX - run->at_us) ? next(w, false, run->at_us)
	                                                                   : NULL;
}

/* Runs requests in turn, of the line whose turn it is if it has any, and puts them into *ran. */
static uint64_t run_all(struct writer *w, int64_t now_us, struct line *ran)
{
	struct clock        *clock = w->engine->options.clock;
	struct run           run = {.late = w->late_next, .began_us = clock_steady_us(clock)};
	struct turn_request *r = next(w, run.late, run.began_us);

	run.at_us = run.began_us;
	if (r == NULL) {
		run.late = !run.late;
		r = next(w, run.late, run.began_us);
	}
	turn_begin(&w->turn, w->engine->catalog); /* only this thread changes it */
	for (; r != NULL; r = next_of(w, &run, clock)) {
		size_t work = run_one(w, r, now_us);

		line_push(ran, r);
		run.count++;
		run.cost_bytes += r->cost_bytes;
		if (work >= DEBT_HEAVY_BYTES || run.count % CLOCK_EVERY == 0)
			run.at_us = clock_steady_us(clock);
		debts_add(&w->debts, r->caller, work, run.at_us);
		if (run_ends(w, &run))
			break;
	}
	w->late_next = !run.late && w->late.first != NULL;
	return run.count;
}

/* ---- committing ---- */

/* The turn's changes as the body of a record; false if there are none. */
static bool gather(struct writer *w)
{
	buf_reset(&w->body);
	for (const struct change *c = w->turn.first; c != NULL; c = c->next) {
		if (!c->written)
			continue;
		op_encode(&w->body, &(struct op){c->deleted ? OP_DELETE : OP_PUT, c->key, c->value});
		if (c->key.data[0] == KIND_ROW)
			change_log_add(w->engine->change_log, c->hash); /* (H1) */
	}
	/* Last, because ids are never used again: nothing written above may survive in a deleted table. */
	for (const struct range_delete *d = w->turn.ranges; d != NULL; d = d->next)
		op_encode(&w->body, &(struct op){OP_DELETE_RANGE, d->low, d->high});
	return w->body.len > 0;
}

static enum err_code flush(struct writer *w, int64_t now_us, struct err *err)
{
	int64_t       began = clock_steady_us(w->engine->options.clock), took;
	enum err_code rc;

	if (fault_fires(FAULT_COMMIT))
		rc = err_set(err, ERR_STORAGE, "a fault was injected");
	else if (fault_fires(FAULT_NO_ROOM))
		rc = err_set(err, ERR_DISK_FULL, "a fault was injected");
	else
		rc = journal_append(w->engine->journal, now_us, buf_bytes(&w->body), err);
	took = clock_steady_us(w->engine->options.clock) - began;
	w->flush_mean_us += (took - w->flush_mean_us) / MEAN_OF;
	metric_observe(&w->flush_us, &metric_bounds_us, (uint64_t)took);
	return rc;
}

/* A segment of the journal is full, and all in it is published: what it holds is to go into the store's files.
 * The ticker sees to that, unless it lags behind. */
static enum err_code turn_over(struct writer *w, struct err *err)
{
	struct engine *e = w->engine;

	if (!journal_is_long(e->journal))
		return ERR_NONE;
	if (journal_next_segment(e->journal, err) != ERR_NONE)
		return err->code;
	ticker_wake(e->ticker);
	return checkpoint_lag(e) > SEGMENTS_MAX ? checkpoint_run(e, err) : ERR_NONE;
}

/* What the full disk did not take was not begun: it is put off until there is room. */
static bool is_put_off(struct writer *w, enum err_code rc)
{
	if (rc == ERR_DISK_FULL)
		disk_is_full(w->engine);
	return rc == ERR_DISK_FULL;
}

static enum err_code commit(struct writer *w, int64_t now_us, struct err *err)
{
	int64_t       began = clock_steady_us(w->engine->options.clock);
	enum err_code rc;

	counts_add_to_turn(w->engine, &w->turn);
	if (w->engine->notes_waits && gather(w))
		engine_note_waits(w->engine, &w->turn);
	if (!gather(w))
		return ERR_NONE;
	rc = flush(w, now_us, err);
	if (rc == ERR_NONE && write_back_publish(&w->engine->write_back, &w->turn, err) != ERR_NONE)
		rc = err->code = ERR_STORAGE; /* whatever it was, the commit is on the disk */
	if (rc == ERR_NONE) {
		w->engine->counts_noted = true;
		w->engine->notes_waits = false;
		change_log_next(w->engine->change_log);
		lapse_publish(w->engine, &w->turn);
		engine_publish_catalog(w->engine, w->turn.catalog);
	} else {
		counts_take_back(w->engine->counts, &w->turn);
	}
	if (w->body.cap > BODY_KEPT_MAX)
		buf_release(&w->body);
	pthread_mutex_lock(&w->lock);
	w->stats.commit_us += (uint64_t)(clock_steady_us(w->engine->options.clock) - began);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* A loop is woken once, when all of its requests are done: one that was woken for the first would answer it, sleep, and be woken for the next. */
static void complete(struct turn_request *r)
{
	struct wakes wakes = {.count = 0};

	while (r != NULL) {
		struct turn_request *next = r->next;

		finish(r, &wakes);
		r = next;
	}
	wakes_run(&wakes);
}

static void fail_all(struct turn_request *r, const char *why)
{
	for (; r != NULL; r = r->next)
		r->rc = err_set(&r->err, ERR_STORAGE, "the outcome is unknown: %s", why);
}

static void refuse_each(struct writer *w, struct turn_request *r)
{
	for (; r != NULL; r = r->next)
		r->rc = refuse(w, &r->err);
}

static void note_batch(struct writer *w, uint64_t count)
{
	unsigned under_way;

	worker_beat(&w->worker);
	metric_observe(&w->batch_requests, &metric_bounds_count, count);
	pthread_mutex_lock(&w->lock);
	under_way = (unsigned)count + w->ready.count + w->pending.count;
	w->stats.requests += count;
	w->stats.batches++;
	if (count > w->stats.largest_batch)
		w->stats.largest_batch = count;
	pthread_mutex_unlock(&w->lock);
	w->under_way -= w->under_way / MEAN_OF;
	if (w->under_way < under_way)
		w->under_way = under_way;
}

void writer_stop(struct writer *w, const char *why)
{
	if (atomic_exchange(&w->failed, true))
		return;
	log_error("a write to the disk failed, so nothing more is written by this process: %s", why);
	if (w->engine->options.on_failure != NULL)
		w->engine->options.on_failure(w->engine->options.failure_ctx);
}

/* (W3), or the disk is full: they have not been run. */
static void refuse_all(struct writer *w)
{
	line_join(&w->ready, &w->late);
	w->late_bytes = 0;
	for (const struct turn_request *r = w->ready.first; r != NULL; r = r->next)
		atomic_fetch_sub(&w->pending_bytes, r->cost_bytes);
	refuse_each(w, w->ready.first);
	complete(w->ready.first);
	line_init(&w->ready);
}

static void batch(struct writer *w)
{
	int64_t     now_us = engine_now_us(w->engine);
	struct line ran;
	uint64_t    count;
	struct err  err;

	if (atomic_load(&w->failed) || atomic_load(&w->engine->disk_full)) {
		refuse_all(w);
		return;
	}
	line_init(&ran);
	count = run_all(w, now_us, &ran);
	if (commit(w, now_us, &err) != ERR_NONE) {
		if (is_put_off(w, err.code)) {
			refuse_each(w, ran.first);
		} else {
			fail_all(ran.first, err.text);
			writer_stop(w, err.text);
		}
	}
	note_batch(w, count);
	complete(ran.first);
	if (!atomic_load(&w->failed) && turn_over(w, &err) != ERR_NONE && !is_put_off(w, err.code))
		writer_stop(w, err.text);
}

static void writer_main(struct worker *worker, void *ctx)
{
	struct writer *w = ctx;

	(void)worker;
	while (take(w))
		batch(w);
}

/* ---- life cycle ---- */

enum err_code writer_open(struct writer **out, struct engine *e, struct err *err)
{
	struct writer     *w = mem_zalloc(sizeof(*w));
	pthread_condattr_t attributes;

	w->engine = e;
	line_init(&w->pending);
	line_init(&w->ready);
	line_init(&w->late);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&w->arrived, &attributes);
	pthread_condattr_destroy(&attributes);
	turn_init(&w->turn, e->hash_key);
	buf_init(&w->body, NULL);
	*out = w;
	worker_init(&w->worker,
	            &(struct worker_options){.name = "writer", .main = writer_main, .ctx = w, .vital = true});
	return worker_start(&w->worker, err);
}

bool writer_close(struct writer *w)
{
	bool failed;

	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->arrived);
	pthread_mutex_unlock(&w->lock);
	worker_join(&w->worker);
	worker_release(&w->worker);
	buf_release(&w->body);
	turn_release(&w->turn);
	pthread_cond_destroy(&w->arrived);
	pthread_mutex_destroy(&w->lock);
	failed = atomic_load(&w->failed);
	free(w);
	return !failed;
}
