/* Pool: see pool.h.
 *
 * The worker that fell idle last is called first: its memory is still in the core's caches, and workers that are not needed sleep on.
 * (One condition variable for all would call them in turn, each one cold.)
 *
 * (1) While a turn waits, no worker is idle that was not called. A worker that was called takes the oldest turn, or falls idle again if
 *     another one took it. A turn that becomes the first of its subject because another one has run (line.h) is taken by the worker that ran the
 *     other one, or sooner by one that is not idle: nobody is called for it.
 * (2) A turn that was put behind another one has its time from then on. If half of it went by, it is not run: what is left might
 *     be too little to learn what became of its write. */
#include "remote/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/worker.h"
#include "remote/line.h"

/* A worker, as those who submit see it. Under the pool's lock. */
struct seat {
	struct pool   *pool; /* set once */
	pthread_cond_t called;
	struct seat   *below;   /* who fell idle before it */
	bool           is_idle; /* it is among those who are idle, and not called */
};

struct pool {
	/* set once */
	struct remote *remote;
	unsigned       worker_count;
	size_t         bytes_max;
	struct worker *workers;
	struct seat   *seats; /* one a worker */

	/* under lock */
	pthread_mutex_t      lock;
	struct seat         *idle;          /* the one who fell idle last */
	struct turn_request *first, **last; /* what waits, oldest first */
	uint32_t             waiting;
	size_t               bytes;
	uint64_t             turns;
	bool                 closing;
	struct lines         lines;
};

/* ---- what waits ---- */

/* Under lock. It is counted already if it was behind another one. */
static void queue_add(struct pool *p, struct turn_request *turn)
{
	turn->next = NULL;
	*p->last = turn;
	p->last = &turn->next;
}

/* ---- workers ---- */

/* Under lock. Until it is called. */
static void seat_wait(struct seat *s, struct worker *w)
{
	struct pool *p = s->pool;

	s->below = p->idle;
	p->idle = s;
	s->is_idle = true;
	worker_idle(w);
	while (s->is_idle)
		pthread_cond_wait(&s->called, &p->lock);
	worker_begin(w);
}

/* Under lock. False: nobody is idle. */
static bool seat_call(struct pool *p)
{
	struct seat *s = p->idle;

	if (s == NULL)
		return false;
	p->idle = s->below;
	s->is_idle = false;
	pthread_cond_signal(&s->called);
	return true;
}

/* Under lock. NULL: it is over. */
static struct turn_request *next_turn(struct seat *s, struct worker *w)
{
	struct pool         *p = s->pool;
	struct turn_request *turn;

	while (p->first == NULL && !p->closing)
		seat_wait(s, w);
	turn = p->first;
	if (turn == NULL)
		return NULL;
	p->first = turn->next;
	if (p->first == NULL)
		p->last = &p->first;
	p->waiting--;
	p->bytes -= turn->cost_bytes;
	p->turns++;
	return turn;
}

static enum err_code turn_run(struct pool *p, struct turn_request *turn, struct json_reader *json)
{
	int64_t               now = clock_steady_us(p->remote->wire_clock);
	int64_t               since = turn->line.since_us == 0 ? now : turn->line.since_us;
	struct remote_session s;
	enum err_code         rc;

	turn->too_heavy = false;
	if (now - since > p->remote->turn_us / 2) /* (2) */
		return err_set(&turn->err, ERR_CONTENDED,
		               "other requests about the same subject took too long; try again shortly");
	remote_session_init(&s, p->remote, json, turn->reads);
	s.hurries = true;
	s.turn = turn;
	s.deadline_us = since + p->remote->turn_us;
	rc = turn->run(turn, &s.base);
	remote_session_release(&s);
	return rc;
}

/* Under lock. The next one of its subject waits like any other: others that came before have their turn first. False: there is none. */
static bool turn_leave(struct pool *p, struct turn_request *turn)
{
	struct turn_request *next = line_leave(&p->lines, turn);

	if (next != NULL)
		queue_add(p, next);
	return next != NULL;
}

/* The request is the submitter's again as soon as done is called. */
static void turn_take(struct pool *p, struct turn_request *turn, struct json_reader *json)
{
	turn->rc = turn_run(p, turn, json);
	if (line_has(turn)) {
		pthread_mutex_lock(&p->lock);
		turn_leave(p, turn);
		pthread_mutex_unlock(&p->lock);
	}
	turn->done(turn);
}

static void work(struct worker *w, void *ctx)
{
	struct seat         *s = ctx;
	struct pool         *p = s->pool;
	struct json_reader  *json = json_reader_open();
	struct turn_request *turn;

	worker_begin(w);
	pthread_mutex_lock(&p->lock);
	while ((turn = next_turn(s, w)) != NULL) {
		pthread_mutex_unlock(&p->lock);
		turn_take(p, turn, json);
		worker_beat(w);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	worker_idle(w);
	json_reader_close(json);
}

/* ---- life ---- */

static enum err_code workers_start(struct pool *p, struct err *err)
{
	for (unsigned i = 0; i < p->worker_count; i++)
		if (worker_start(&p->workers[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

enum err_code pool_open(struct pool **out, struct remote *r, unsigned workers, size_t bytes_max,
                        struct err *err)
{
	struct pool *p = mem_zalloc(sizeof(*p));

	p->remote = r;
	p->worker_count = workers;
	p->bytes_max = bytes_max;
	p->last = &p->first;
	random_bytes(&p->lines.key, sizeof(p->lines.key));
	pthread_mutex_init(&p->lock, NULL);
	p->workers = mem_zalloc(workers * sizeof(*p->workers));
	p->seats = mem_zalloc(workers * sizeof(*p->seats));
	for (unsigned i = 0; i < workers; i++) {
		p->seats[i].pool = p;
		pthread_cond_init(&p->seats[i].called, NULL);
		worker_init(&p->workers[i],
		            &(struct worker_options){.name = "remote", .main = work, .ctx = &p->seats[i]});
	}
	*out = p;
	return workers_start(p, err);
}

void pool_close(struct pool *p)
{
	if (p == NULL)
		return;
	pthread_mutex_lock(&p->lock);
	p->closing = true;
	while (seat_call(p))
		continue;
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->worker_count; i++) {
		worker_join(&p->workers[i]);
		worker_release(&p->workers[i]);
		pthread_cond_destroy(&p->seats[i].called);
	}
	free(p->workers);
	free(p->seats);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* ---- any thread ---- */

/* Under lock. */
static enum err_code turn_enter(struct pool *p, struct turn_request *w, struct err *err)
{
	struct turn_request *first;

	if (p->closing || p->waiting >= POOL_WAITING_MAX || p->bytes + w->cost_bytes > p->bytes_max)
		return err_set(err, ERR_OVERLOADED, "too many requests are waiting; try again shortly");
	first = line_find(&p->lines, w);
	if (first != NULL && !line_join(first, w))
		return err_set(err, ERR_CONTENDED,
		               "too many requests about the same subject are waiting; try again shortly");
	p->waiting++;
	p->bytes += w->cost_bytes;
	if (first != NULL) {
		w->line.since_us = clock_steady_us(p->remote->wire_clock);
		return ERR_NONE;
	}
	line_begin(&p->lines, w);
	queue_add(p, w);
	seat_call(p);
	return ERR_NONE;
}

enum err_code pool_submit(struct pool *p, struct turn_request *w, struct err *err)
{
	enum err_code rc;

	pthread_mutex_lock(&p->lock);
	rc = turn_enter(p, w, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pool_make_way(struct pool *p, struct turn_request *turn)
{
	pthread_mutex_lock(&p->lock);
	if (turn_leave(p, turn)) /* this worker is not free for it */
		seat_call(p);
	pthread_mutex_unlock(&p->lock);
}

void pool_read(struct pool *p, uint64_t *turns, size_t *bytes)
{
	pthread_mutex_lock(&p->lock);
	*turns = p->turns;
	*bytes = p->bytes;
	pthread_mutex_unlock(&p->lock);
}
