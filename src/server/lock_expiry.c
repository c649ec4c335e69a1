/* Lock expiry: see lock_expiry.h. */
#define _GNU_SOURCE
#include "server/lock_expiry.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "service/lease.h"
#include "service/lock_event.h"
#include "service/push_due.h"

enum {
	BATCH = 12,       /* locks told of in one commit: each takes up to six rows of a hundred … */
	BATCH_ALONE = 24, /* … or four, if nobody else uses the table: event, number, outbox, due row */
	TELL_ROWS =
	        10, /* of a commit that one may take: one whose lock.set waited has two due rows and two events … */
	LOCK_ROWS = 2, /* … and for each id of its lock a row, and the version of its partition */
	STEP_COST_BYTES = 16 * 1024, /* of what waits for its turn */
	TICK_US = 1000000,           /* the longest wait: the store's clock may be moved */
	RETRY_US = 1000000,          /* after a failure */
	SWEEP_S = 3600,              /* after which it looks from the beginning, among others */
};

#define WORK "lock-expiry"

struct lock_expiry {
	/* set once */
	struct services *services;
	struct store    *store;
	struct worker    worker;
	char             holder[LEASE_HOLDER_CHARS];

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	int64_t         next_s; /* the first end that is known of; 0: none */
	int64_t         from_s; /* whatever ended before was told */
	int64_t own_s; /* the last end of a lock that this process set and tells of without the lease */
	bool    tells_all;
	bool    stopping;

	/* the worker's thread */
	bool    alone;   /* nobody else uses the table */
	bool    held;    /* the lease; `tells_all` says the same to others */
	bool    failing; /* the last look failed */
	int64_t asked_s, swept_s, look_s;
};

/* ---- what is known ---- */

static void earlier(int64_t *next_s, int64_t until_s)
{
	if (until_s > 0 && (*next_s == 0 || until_s < *next_s))
		*next_s = until_s;
}

static int64_t now_us(const struct lock_expiry *e)
{
	return e->store->backend->now_us(e->store);
}

/* Without the lease, is this one for us? (2) Under lock. */
static bool is_ours_locked(struct lock_expiry *e, int64_t until_s)
{
	bool soon = until_s - now_us(e) / 1000000 <= LOCK_EXPIRY_OWN_S;

	if (soon && until_s > e->own_s)
		e->own_s = until_s;
	return soon || e->tells_all;
}

/* From any thread. One that has ended already came late: then what was told before is looked at again. */
static void due(void *ctx, int64_t until_s)
{
	struct lock_expiry *e = ctx;
	int64_t             before;

	pthread_mutex_lock(&e->lock);
	before = e->next_s;
	if (is_ours_locked(e, until_s))
		earlier(&e->next_s, until_s);
	if (until_s < e->from_s)
		e->from_s = until_s;
	if (e->next_s != before)
		pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

/* Where to look from. What is told from here on counts again. */
static int64_t look_begin(struct lock_expiry *e)
{
	int64_t from_s;

	pthread_mutex_lock(&e->lock);
	e->next_s = 0;
	from_s = e->from_s > DUE_MARGIN_S ? e->from_s - DUE_MARGIN_S : 0;
	pthread_mutex_unlock(&e->lock);
	return from_s;
}

static void look_end(struct lock_expiry *e, int64_t now_s, int64_t next_s)
{
	pthread_mutex_lock(&e->lock);
	if (e->tells_all || next_s <= e->own_s) /* the others are the holder's */
		earlier(&e->next_s, next_s);
	if (now_s > e->from_s)
		e->from_s = now_s;
	pthread_mutex_unlock(&e->lock);
	atomic_store(&e->services->events.expiries_told_s, now_s);
}

/* It is tried again. */
static void look_fail(struct lock_expiry *e, int64_t now_s)
{
	pthread_mutex_lock(&e->lock);
	earlier(&e->next_s, now_s);
	pthread_mutex_unlock(&e->lock);
	atomic_store(&e->services->events.expiries_told_s, 0);
}

/* ---- telling ---- */

struct telling {
	struct own_call     own; /* first */
	struct lock_expiry *e;
	const struct due   *list;
	uint32_t            count, done;
	uint32_t            lock_rows; /* of those that are done: each adds a version to the commit */
	bool                held;      /* of `ask` */
};

static enum err_code tell(struct own_call *own, struct err *err)
{
	struct telling *t = (struct telling *)own;
	bool            told;

	t->lock_rows = 0;
	for (t->done = 0; t->done < t->count; t->done++) {
		const struct due *d = &t->list[t->done];

		if (t->done > 0 &&
		    changes_room(&own->ctx.changes) < t->lock_rows + TELL_ROWS + LOCK_ROWS * d->rows)
			break;
		if ((d->device.len > 0 ? push_due_tell(&own->ctx, d, &told, err)
		                       : due_tell(&own->ctx, d, &told, err)) != ERR_NONE)
			return err->code;
		t->lock_rows += d->rows;
	}
	return ERR_NONE;
}

static enum err_code page_tell(struct telling *t, const struct due_page *page, struct err *err)
{
	uint32_t most = t->e->alone ? BATCH_ALONE : BATCH;

	for (uint32_t i = 0; i < page->count && worker_goes_on(&t->e->worker); i += t->done) {
		t->list = &page->list[i];
		t->count = page->count - i < most ? page->count - i : most;
		if (own_call_run(&t->own, &(struct own_step){tell, sizeof(*t), STEP_COST_BYTES}, err) !=
		    ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* The next page. *again: others are due. */
static enum err_code page_look(struct lock_expiry *e, struct due_places *places, bool *again, struct err *err)
{
	struct telling   t = {.e = e};
	int64_t          from_s = look_begin(e), now_s;
	struct due_page *page;
	enum err_code    rc;

	own_call_init(&t.own, e->services, e->store);
	page = arena_alloc(&t.own.arena, sizeof(*page));
	own_call_read(&t.own);
	now_s = t.own.ctx.now_s;
	rc = dues_read(&t.own.ctx, from_s, places, page, err);
	own_call_read_end(&t.own);
	if (rc == ERR_NONE)
		rc = page_tell(&t, page, err);
	if (rc == ERR_NONE)
		dues_pass(places, page);
	*again = rc == ERR_NONE && page->more;
	if (rc == ERR_NONE && !page->more)
		look_end(e, now_s, page->next_s);
	else if (rc != ERR_NONE)
		look_fail(e, now_s);
	own_call_release(&t.own);
	return rc;
}

static void look(struct lock_expiry *e)
{
	struct due_places places = {0};
	struct err        err;
	bool              again = true;

	while (again && worker_goes_on(&e->worker)) {
		bool good = page_look(e, &places, &again, &err) == ERR_NONE;

		if (!good && !e->failing)
			log_warn("could not publish lock.expired and device.expired events; retrying every "
			         "second: %s",
			         err.text);
		e->failing = !good || (e->failing && again); /* pages before the one that fails say nothing */
	}
}

/* ---- the lease ---- */

static enum err_code ask(struct own_call *own, struct err *err)
{
	struct telling     *t = (struct telling *)own;
	struct lock_expiry *e = t->e;

	e->alone = own->ctx.table->alone;
	return lease_take(&own->ctx, BYTES(WORK), (struct bytes){e->holder, sizeof(e->holder)}, &t->held,
	                  err);
}

/* Whoever gets the lease looks at once: nobody knows what the last one has seen. */
static void held_set(struct lock_expiry *e, bool held)
{
	if (held && !e->held)
		e->look_s = 0;
	e->held = held;
	pthread_mutex_lock(&e->lock);
	e->tells_all = held;
	pthread_mutex_unlock(&e->lock);
}

static void lease_ask(struct lock_expiry *e, int64_t now_s)
{
	struct telling t = {.e = e};
	struct err     err;

	if (e->alone || (e->asked_s > 0 && now_s - e->asked_s < LEASE_S / 3))
		return;
	own_call_init(&t.own, e->services, e->store);
	held_set(e, own_call_run(&t.own, &(struct own_step){ask, sizeof(t), STEP_COST_BYTES}, &err) ==
	                            ERR_NONE &&
	                    t.held);
	e->asked_s = now_s;
	own_call_release(&t.own);
}

static enum err_code drop(struct own_call *own, struct err *err)
{
	struct lock_expiry *e = ((struct telling *)own)->e;

	return lease_drop(&own->ctx, BYTES(WORK), (struct bytes){e->holder, sizeof(e->holder)}, err);
}

/* So that another process goes on at once. */
static void lease_give_up(struct lock_expiry *e)
{
	struct telling t = {.e = e};
	struct err     err;

	if (e->alone || !e->held)
		return;
	own_call_init(&t.own, e->services, e->store);
	(void)own_call_run(&t.own, &(struct own_step){drop, sizeof(t), STEP_COST_BYTES},
	                   &err); /* else it runs out */
	own_call_release(&t.own);
}

/* ---- the worker ---- */

static bool is_due(struct lock_expiry *e, int64_t now_s)
{
	int64_t next_s;

	pthread_mutex_lock(&e->lock);
	if (!e->alone && e->held && now_s - e->swept_s >= SWEEP_S) {
		e->swept_s = now_s;
		e->from_s = 0;
	}
	next_s = e->next_s;
	pthread_mutex_unlock(&e->lock);
	if (next_s > 0 && next_s <= now_s)
		return true;
	return e->held && (e->look_s == 0 || (!e->alone && now_s - e->look_s >= LOCK_EXPIRY_LOOK_S));
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

/* How long until the next one ends. */
static int64_t wait_us(const struct lock_expiry *e)
{
	int64_t us = e->next_s == 0 ? TICK_US : e->next_s * 1000000 - now_us(e);

	if (e->failing)
		return RETRY_US;
	return us < 1000 ? 1000 : us < TICK_US ? us : TICK_US;
}

/* False: it is time to end. */
static bool await(struct lock_expiry *e)
{
	struct timespec until;
	int64_t         seen_s;
	bool            goes_on;
	int             rc = 0;

	pthread_mutex_lock(&e->lock);
	seen_s = e->next_s;
	until = after_us(wait_us(e));
	while (!e->stopping && e->next_s == seen_s && rc == 0)
		rc = pthread_cond_timedwait(&e->changed, &e->lock, &until);
	goes_on = !e->stopping;
	pthread_mutex_unlock(&e->lock);
	return goes_on;
}

static void expiry_main(struct worker *w, void *ctx)
{
	struct lock_expiry *e = ctx;

	do {
		int64_t now_s = now_us(e) / 1000000;

		worker_begin(w);
		lease_ask(e, now_s);
		if (is_due(e, now_s)) {
			look(e);
			e->look_s = now_s;
		}
		worker_idle(w);
	} while (await(e));
	lease_give_up(e);
}

enum err_code lock_expiry_open(struct lock_expiry **out, struct services *services, struct store *store,
                               struct err *err)
{
	struct lock_expiry *e = mem_zalloc(sizeof(*e));
	pthread_condattr_t  monotonic;

	e->services = services;
	e->store = store;
	lease_holder_make(services, e->holder);
	pthread_mutex_init(&e->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&e->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	services->expiry_post = (struct expiry_post){due, e};
	worker_init(&e->worker, &(struct worker_options){.name = WORK, .main = expiry_main, .ctx = e});
	*out = e;
	return worker_start(&e->worker, err);
}

/* Nobody calls a service any more. */
void lock_expiry_close(struct lock_expiry *e)
{
	if (e == NULL)
		return;
	pthread_mutex_lock(&e->lock);
	e->stopping = true;
	pthread_cond_signal(&e->changed);
	pthread_mutex_unlock(&e->lock);
	worker_join(&e->worker);
	e->services->expiry_post = (struct expiry_post){0};
	worker_release(&e->worker);
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->lock);
	free(e);
}
