/* Writer: the one thread that writes.
 *
 *    any thread                     writer thread
 *    writer_submit … --> pending
 *    writer_gathered ------------>  take what waits
 *         |                         run each in turn   (sees the earlier ones; a failed one is undone alone)
 *         |                         commit once        (one flush for all)
 *         <------ done -----------  complete, oldest first
 *
 * While a flush is under way, requests gather for the next batch: the more load, the larger the batches.
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

#include "base/fault.h"
#include "base/log.h"
#include "engine/checkpoint.h"
#include "engine/layout.h"
#include "engine/state.h"
#include "engine/ticker.h"

enum {
	BATCH_REQUESTS_MAX = 1024,
	BATCH_BYTES_MAX = 8 << 20, /* of what is written; a batch ends with the request that passes it */
	BATCH_COST_MAX = 64 << 20, /* of what its requests hold, once they were run; likewise */
	BODY_KEPT_MAX = 1 << 20,   /* an unusual batch's memory is given back */
	GATHERING_NS_MAX = 500000, /* how long a batch waits for a loop that goes on submitting */
	SEGMENTS_MAX = 8,          /* of the journal; past it the writer waits for a checkpoint */
};

struct writer {
	struct engine *engine;
	pthread_t      thread;
	bool           started;

	/* under lock */
	pthread_mutex_t        lock;
	pthread_cond_t         arrived;
	struct writer_request *first, **last;
	size_t                 pending_bytes;
	bool                   stopping;
	bool                   gathered; /* those who submitted have done so for now */
	bool                   busy;     /* with a batch */
	struct writer_stats    stats;
	uint64_t               steps;      /* batches begun, and batches ended */
	uint64_t               beat_steps; /* when writer_beats last looked */
	bool                   beat_busy;

	/* any thread */
	atomic_bool             failed; /* (W3) */
	struct metric_histogram batch_requests, flush_us;

	/* writer thread only */
	struct turn turn;
	struct buf  body; /* of the record to be written */
};

/* ---- submitting ---- */

static enum err_code refuse(const struct writer *w, struct err *err)
{
	if (atomic_load(&w->failed))
		return err_set(err, ERR_STORAGE,
		               "writing has stopped after a failed flush; the server restarts");
	return err_set(err, ERR_DISK_FULL,
	               "the disk is nearly full; nothing is written until there is room again");
}

enum err_code writer_submit(struct writer *w, struct writer_request *r, struct err *err)
{
	bool full;

	if (atomic_load(&w->failed) || atomic_load(&w->engine->disk_full))
		return refuse(w, err);
	r->next = NULL;
	pthread_mutex_lock(&w->lock);
	full = w->pending_bytes > 0 &&
	       w->pending_bytes + r->cost_bytes > w->engine->options.queue_bytes_max; /* (W4) */
	if (!full) {
		*w->last = r;
		w->last = &r->next;
		w->pending_bytes += r->cost_bytes;
	}
	pthread_mutex_unlock(&w->lock);
	if (full)
		return err_set(err, ERR_OVERLOADED, "too many writes are waiting; try again shortly");
	return ERR_NONE;
}

void writer_gathered(struct writer *w)
{
	bool wake;

	pthread_mutex_lock(&w->lock);
	wake = w->first != NULL && !w->gathered;
	w->gathered = w->first != NULL;
	pthread_mutex_unlock(&w->lock);
	if (wake)
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
	stats.queue_bytes = w->pending_bytes;
	pthread_mutex_unlock(&w->lock);
	metric_read(&w->batch_requests, &stats.batch_requests);
	metric_read(&w->flush_us, &stats.flush_us);
	return stats;
}

/* Is it not at work on the very batch that it was at work on before? */
bool writer_beats(struct writer *w)
{
	bool beats;

	pthread_mutex_lock(&w->lock);
	beats = !w->busy || !w->beat_busy || w->steps != w->beat_steps;
	w->beat_busy = w->busy;
	w->beat_steps = w->steps;
	pthread_mutex_unlock(&w->lock);
	return beats;
}

/* ---- the batch ---- */

static struct timespec soon(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += GATHERING_NS_MAX;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

/* Waits for requests, under lock. If there are some, and who submits them has not come to an end, it is worth a moment:
 * the larger the batch, the less a flush costs each. */
static void await(struct writer *w)
{
	struct timespec until;

	while (w->first == NULL && !w->stopping)
		pthread_cond_wait(&w->arrived, &w->lock);
	if (!w->gathered) {
		until = soon();
		while (!w->gathered && !w->stopping &&
		       pthread_cond_timedwait(&w->arrived, &w->lock, &until) == 0)
			;
	}
}

/* Waits for requests and takes them, up to BATCH_REQUESTS_MAX; NULL when there will be none any more. */
static struct writer_request *take(struct writer *w)
{
	struct writer_request *taken, *r;
	unsigned               count = 1;

	pthread_mutex_lock(&w->lock);
	w->busy = false;
	await(w);
	taken = w->first;
	w->busy = taken != NULL;
	w->steps++;
	for (r = taken; r != NULL; r = r->next) {
		w->pending_bytes -= r->cost_bytes;
		if (count++ == BATCH_REQUESTS_MAX)
			break;
	}
	w->first = r == NULL ? NULL : r->next;
	w->gathered = w->first != NULL;
	if (w->first == NULL)
		w->last = &w->first;
	if (r != NULL)
		r->next = NULL;
	pthread_mutex_unlock(&w->lock);
	return taken;
}

static void run_one(struct writer *w, struct writer_request *r, int64_t now_us)
{
	struct engine_session session = {{&engine_backend, now_us}, w->engine, NULL, &w->turn};
	struct turn_mark      mark = turn_mark(&w->turn);

	r->rc = r->run(r, &session.base);
	if (r->rc != ERR_NONE)
		turn_rollback(&w->turn, mark);
	else
		turn_keep(&w->turn, mark);
}

/* Runs requests in turn; returns those that did not fit into this batch. */
static struct writer_request *run_all(struct writer *w, struct writer_request *r, int64_t now_us,
                                      uint64_t *count)
{
	size_t cost = 0;

	turn_begin(&w->turn, w->engine->catalog); /* only this thread changes it */
	while (r != NULL) {
		struct writer_request *next = r->next;

		run_one(w, r, now_us);
		++*count;
		cost += r->cost_bytes;
		if (w->turn.bytes > BATCH_BYTES_MAX || cost > BATCH_COST_MAX) {
			r->next = NULL;
			return next;
		}
		r = next;
	}
	return NULL;
}

/* The turn's changes as the body of a record; false if there are none. */
static bool gather(struct writer *w)
{
	buf_reset(&w->body);
	for (const struct change *c = w->turn.first; c != NULL; c = c->next) {
		if (c->dirty)
			op_encode(&w->body, &(struct op){c->deleted ? OP_DELETE : OP_PUT, c->key, c->value});
	}
	/* Last, because ids are never used again: nothing written above may survive in a deleted table. */
	for (const struct range_delete *d = w->turn.ranges; d != NULL; d = d->next)
		op_encode(&w->body, &(struct op){OP_DELETE_RANGE, d->low, d->high});
	return w->body.len > 0;
}

static void count_changes(struct writer *w)
{
	for (const struct change *c = w->turn.first; c != NULL; c = c->next) {
		uint32_t table_id;
		uint16_t index_id;

		if (!c->dirty || !layout_parse_owner(c->key, &table_id, &index_id))
			continue;
		counts_add(w->engine->counts, table_id, index_id,
		           (struct count){(c->deleted ? 0 : 1) - (c->existed ? 1 : 0),
		                          (int64_t)c->value.len - (int64_t)c->existed_bytes});
	}
}

static enum err_code flush(struct writer *w, int64_t now_us, struct err *err)
{
	int64_t       began = clock_steady_us(w->engine->options.clock);
	enum err_code rc;

	if (fault_fires(FAULT_COMMIT))
		rc = err_set(err, ERR_STORAGE, "a fault was injected");
	else
		rc = journal_append(w->engine->journal, now_us, buf_bytes(&w->body), err);
	metric_observe(&w->flush_us, &metric_bounds_us,
	               (uint64_t)(clock_steady_us(w->engine->options.clock) - began));
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

static enum err_code commit(struct writer *w, int64_t now_us, struct err *err)
{
	int64_t       began = clock_steady_us(w->engine->options.clock);
	enum err_code rc;

	if (!gather(w))
		return ERR_NONE;
	rc = flush(w, now_us, err);
	if (rc == ERR_NONE)
		rc = settle_publish(&w->engine->settle, &w->turn, err);
	if (rc == ERR_NONE) {
		count_changes(w);
		engine_publish_catalog(w->engine, w->turn.catalog);
	}
	if (w->body.cap > BODY_KEPT_MAX)
		buf_release(&w->body);
	pthread_mutex_lock(&w->lock);
	w->stats.commit_us += (uint64_t)(clock_steady_us(w->engine->options.clock) - began);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static void complete(struct writer_request *r)
{
	while (r != NULL) {
		struct writer_request *next = r->next; /* after done it is the submitter's */

		r->done(r);
		r = next;
	}
}

static void fail_all(struct writer_request *r, const char *why)
{
	for (; r != NULL; r = r->next)
		r->rc = err_set(&r->err, ERR_STORAGE, "the outcome is unknown: %s", why);
}

static void note_batch(struct writer *w, uint64_t count)
{
	metric_observe(&w->batch_requests, &metric_bounds_count, count);
	pthread_mutex_lock(&w->lock);
	w->stats.requests += count;
	w->stats.batches++;
	w->steps++;
	if (count > w->stats.largest_batch)
		w->stats.largest_batch = count;
	pthread_mutex_unlock(&w->lock);
}

/* (W3) */
static void stop_writing(struct writer *w, const char *why)
{
	log_error("a write to the disk failed, so nothing more is written by this process: %s", why);
	atomic_store(&w->failed, true);
	if (w->engine->options.on_failure != NULL)
		w->engine->options.on_failure(w->engine->options.failure_ctx);
}

static void batch(struct writer *w, struct writer_request *requests)
{
	while (requests != NULL) {
		int64_t                now_us = engine_now_us(w->engine);
		uint64_t               count = 0;
		struct writer_request *rest;
		struct err             err;

		if (atomic_load(&w->failed)) {
			fail_all(requests, "an earlier flush failed");
			complete(requests);
			return;
		}
		rest = run_all(w, requests, now_us, &count);
		if (commit(w, now_us, &err) != ERR_NONE) {
			fail_all(requests, err.text);
			stop_writing(w, err.text);
		}
		note_batch(w, count);
		complete(requests);
		if (!atomic_load(&w->failed) && turn_over(w, &err) != ERR_NONE)
			stop_writing(w, err.text);
		requests = rest;
	}
}

static void *writer_main(void *arg)
{
	struct writer         *w = arg;
	struct writer_request *requests;

	while ((requests = take(w)) != NULL)
		batch(w, requests);
	return NULL;
}

/* ---- life cycle ---- */

enum err_code writer_open(struct writer **out, struct engine *e, struct err *err)
{
	struct writer     *w = mem_zalloc(sizeof(*w));
	pthread_condattr_t attributes;

	w->engine = e;
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&w->arrived, &attributes);
	pthread_condattr_destroy(&attributes);
	turn_init(&w->turn, e->hash_key);
	buf_init(&w->body, NULL);
	*out = w;
	w->started = pthread_create(&w->thread, NULL, writer_main, w) == 0;
	return w->started ? ERR_NONE : err_set(err, ERR_STORAGE, "cannot start the writer's thread");
}

bool writer_close(struct writer *w)
{
	bool failed;

	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->arrived);
	pthread_mutex_unlock(&w->lock);
	if (w->started)
		pthread_join(w->thread, NULL);
	buf_release(&w->body);
	turn_release(&w->turn);
	pthread_cond_destroy(&w->arrived);
	pthread_mutex_destroy(&w->lock);
	failed = atomic_load(&w->failed);
	free(w);
	return !failed;
}
