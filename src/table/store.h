/* Store: what holds the tables, as api/ and server/ see it. It gives sessions (struct table) for reading, takes
 * functions that write and runs each in its turn, and says how it is. engine/ is one; remote/ (any DynamoDB
 * endpoint) is another. Only server/ knows which.
 *
 *   any thread                          a thread of the store's
 *   read_begin … read_end
 *   submit, gathered ---------------->  run, in its turn
 *                    <----------------  done: durable, or failed
 *
 * All functions may be called by any thread. */
#ifndef TABLE_STORE_H
#define TABLE_STORE_H

#include "base/metric.h"
#include "base/wakes.h"
#include "table/table.h"

struct store;

/* A store's: where a request stands among those about its subject (remote/line.h). */
struct turn_line {
	struct turn_request *beside;      /* the first one of another subject */
	struct turn_request *next, *last; /* who is behind it, by their `next` */
	uint32_t             count;
	int64_t              since_us; /* when it was put behind another one; 0: it was not */
	bool                 left;     /* it has made way for the next one */
};

/* A function that writes, waiting for its turn. Owned by the submitter, who keeps it alive until done is called. */
struct turn_request {
	/* Set by the submitter. Runs on a thread of the store's. It makes one writing call at most, as its last: nothing
	 * undoes an earlier one. If it returns non-zero it has filled w->err. */
	enum err_code (*run)(struct turn_request *w, struct table *t);
	/* Called once, on a thread of the store's, when what it wrote is durable, or has failed, or when it is not run because
	 * too much of callers like this one waits (ERR_CALLER_THROTTLED); w->rc and w->err say how it ended. Must not block. The
	 * request is the submitter's again from here on. */
	void (*done)(struct turn_request *w);
	/* For done: whoever it wakes may sleep until the others of its batch are done as well, if it puts them here. NULL, as the
	 * submitter leaves it: they are woken at once. A store that completes many sets it before it calls done. */
	struct wakes *wakes;
	/* What it counts against the bound of what may wait; run may set it to what the request has come to hold. */
	size_t cost_bytes;
	/* On whose behalf: an address to tell callers apart by, never followed. NULL: nobody's, or unknown. */
	const void *caller;
	/* Whom it writes about, kept until done; empty: nobody in particular. A store whose turns run side by side runs those of one
	 * subject one after the other. */
	struct bytes subject;
	/* The session that its write was rehearsed on, which stays open until done; or NULL. Without one, a write that `rehearses`
	 * may be too heavy for a turn: nothing was done then, too_heavy is set, and rc is ERR_THROTTLED. */
	struct table *rehearsal;
	bool          rehearses, too_heavy;
	bool          reads; /* it writes nothing: what it reads need not be remembered (table->alone) */

	enum err_code rc;
	struct err    err;

	struct turn_request *next;   /* the store's */
	struct turn_line     line;   /* the same */
	void                *waiter; /* store_run's */
};

/* For the metrics. What a store does not have stays 0. */
struct store_stats {
	uint64_t requests, batches, largest_batch, commit_us, swept_rows, cache_hits, cache_misses;
	size_t   cache_bytes, queue_bytes;
	bool     disk_full, failed;           /* why it takes no writes */
	int64_t  clock_ahead_us;              /* the wall clock's, of time as items see it */
	struct metric_reading batch_requests; /* metric_bounds_count */
	struct metric_reading flush_us;       /* metric_bounds_us */
};

struct store_backend {
	const char *name;
	bool        reads_wait; /* its reads go over a network: no loop may wait for one, it submits it */

	/* A session that reads what is committed at each call. It lives in the arena until read_end, and belongs to one
	 * thread at a time. */
	struct table *(*read_begin)(struct store *s, struct arena *a);
	void (*read_end)(struct store *s, struct table *t);

	/* From here on a conditional write that is called on this session is rehearsed, once: all is tested, and nothing
	 * is written. Afterwards, rehearsed: is its outcome final? It is if the write fails and so is not to be submitted any
	 * more; what it read was so at one moment. Both NULL: this backend has no use for that. */
	void (*rehearse)(struct store *s, struct table *t, struct arena *a);
	bool (*rehearsed)(struct store *s, struct table *t);

	/* ERR_OVERLOADED at once if too much waits, ERR_STORAGE after a failed commit; then done is not called. Whoever
	 * submits calls gathered afterwards, once for as many as it has: only then is their turn sure to come. */
	enum err_code (*submit)(struct store *s, struct turn_request *w, struct err *err);
	void (*gathered)(struct store *s);

	/* The time of a turn or a session that began now: it never goes back. */
	int64_t (*now_us)(struct store *s);

	/* Can it take writes? */
	bool (*ready)(const struct store *s);

	void (*stats)(struct store *s, struct store_stats *out);
};

struct store {
	const struct store_backend *backend;
};

/* worker_options.rest_us: how long a worker that finds nothing may rest, where each look costs a request. */
static inline int64_t store_rest_us(const struct store *s, int64_t rest_s)
{
	return s->backend->reads_wait ? rest_s * 1000000 : 0;
}

/* Submits and waits, for threads that may: not for loops. Sets w->done. */
enum err_code store_run(struct store *s, struct turn_request *w, struct err *err);

#endif
