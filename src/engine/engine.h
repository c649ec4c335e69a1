/* Engine: the table backend in this process, durable on one disk.
 *
 *   loop threads                       writer thread                    ticker thread
 *   engine_session_init                 takes all that waits             once a second: free space,
 *   table calls on what is committed   runs each in its turn            sweeping, backfilling (as
 *   engine_submit, engine_gathered ->  commits once, then completes     writer requests)
 *
 * Reads are always consistent: a reader sees every write that was acknowledged before it began, and nothing
 * that is not durable. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/clock.h"
#include "base/metric.h"
#include "expr/eval.h"
#include "table/table.h"

struct engine;
struct catalog;
struct turn;

struct engine_options {
	const char   *path;                  /* the data directory; created if absent */
	size_t        cache_bytes_max;       /* hot rows kept in front of the store */
	size_t        block_cache_bytes;     /* the store's own */
	size_t        queue_bytes_max;       /* what may wait for the writer; past it: ERR_OVERLOADED */
	size_t        expression_bytes_max;  /* what the expressions of one call may look at (expr/eval.h) */
	size_t        disk_reserve_bytes;    /* below this much free space: ERR_DISK_FULL */
	size_t        journal_segment_bytes; /* a file of the journal; checkpoints free whole ones */
	size_t        journal_unit_bytes;    /* what the disk writes at once; 0: ask it */
	int64_t       clock_jump_max_us;     /* between the last commit and the wall clock, when opened */
	bool          accept_clock;          /* whatever it says: time begins with it, also if that is back */
	unsigned      tick_ms;               /* the ticker's period */
	struct clock *clock;
	void (*random)(void *out, size_t len); /* for table ids */
	/* Called once, from a thread of the engine's, when it is to be closed and opened again: a commit failed, and nothing
	 * more is written by this process; or there is room again on a disk that had none when it was opened. */
	void (*on_failure)(void *ctx);
	void *failure_ctx;
};

struct engine_options engine_options_default(const char *path);

enum err_code engine_open(struct engine **out, const struct engine_options *options, struct err *err);

/* Finishes what was submitted, then closes. */
void engine_close(struct engine *e);

/* Can it take writes: no failed commit, disk not full? */
bool engine_ready(const struct engine *e);

/* Had the disk no room when it was opened? Then it can only be read. */
bool engine_starved(const struct engine *e);

/* Has the writer got on since the last call? False if it is still at the same batch: it hangs, if enough time
 * has passed. One caller at a time, now and then. */
bool engine_beats(struct engine *e);

/* ---- sessions ---- */

/* A session: struct table with the engine behind it. On a loop thread it reads what is committed; the writer
 * makes one of its own for each turn. */
struct engine_session {
	struct table          base;
	struct engine        *engine;
	const struct catalog *catalog;
	struct turn          *turn; /* NULL: reads only */
	struct expr_cost      cost; /* of all expressions so far; each call may add expression_bytes_max */
};

void engine_session_init(struct engine_session *r, struct engine *e);
void engine_session_release(struct engine_session *r);

/* The time for a batch or a reader: the clock's, but never before a time already given. */
int64_t engine_now_us(struct engine *e);

/* ---- writing ---- */

/* A write waiting for its turn. Owned by the submitter, who must keep it alive until done is called. */
struct writer_request {
	/* Set by the submitter. run executes on the writer's thread; if it returns non-zero, what it wrote is
	 * undone and w->err must be filled. */
	enum err_code (*run)(struct writer_request *w, struct table *t);
	/* Called once, on the writer's thread, after the commit that holds it is durable or failed, or when it is not run
	 * because too much of callers like this one waits (ERR_THROTTLED); w->rc and w->err say how it ended. Must not block. The request is the submitter's again from here on. */
	void (*done)(struct writer_request *w);
	/* What it counts against the queue's bound; run may set it to what the request has come to hold,
	 * which counts against the batch's. */
	size_t cost_bytes;
	/* On whose behalf: an address to tell callers apart by, never followed. NULL: the engine's own, or unknown. */
	const void *caller;

	enum err_code rc;
	struct err    err;

	struct writer_request *next;   /* the writer's */
	void                  *waiter; /* engine_run's */
};

/* ERR_OVERLOADED at once if the queue is full, ERR_STORAGE after a failed commit; then done is not called. Whoever submits
 * calls engine_gathered afterwards, once for as many as it has: only then is their turn sure to come. */
enum err_code engine_submit(struct engine *e, struct writer_request *w, struct err *err);

void engine_gathered(struct engine *e);

/* Submits and waits: for tests, tools and the ticker. Not for loop threads. */
enum err_code engine_run(struct engine *e, struct writer_request *w, struct err *err);

/* ---- for tests and metrics ---- */

struct engine_stats {
	uint64_t requests, batches, largest_batch, commit_us, swept_rows, cache_hits, cache_misses;
	size_t   cache_bytes, queue_bytes;
	bool     disk_full, failed;           /* why it takes no writes */
	int64_t  clock_ahead_us;              /* the wall clock's, of time as items see it */
	struct metric_reading batch_requests; /* metric_bounds_count */
	struct metric_reading flush_us;       /* metric_bounds_us */
};

struct engine_stats engine_stats(struct engine *e);

/* Does one ticker round now and waits for it: tests move the clock and then sweep. */
void engine_tick(struct engine *e);

/* Compares every row with its index and expiry entries, and every entry with its row. ERR_STORAGE names the
 * first difference. No table may be made or removed meanwhile. (A directory that is not open: check.h.) */
enum err_code engine_verify(struct engine *e, struct err *err);

#endif
