/* Pool: see pool.h.
 *
 * The worker that fell idle last is called first: its memory is still in the core's caches, and workers that are not needed sleep on.
 * (One condition variable for all would call them in turn, each one cold.)
 *
 * (1) While a turn waits, no worker is idle that was not called. A worker that was called takes the oldest turn, or falls idle again if
 *     another one took it. */
#include "remote/pool.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/worker.h"

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
};

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

/* The request is the submitter's again as soon as done is called. */
static void turn_take(struct pool *p, struct turn_request *turn, struct json_reader *json)
{
	struct remote_session s;

	remote_session_init(&s, p->remote, json, turn->reads);
	s.hurries = true;
	s.deadline_us = clock_steady_us(p->remote->wire_clock) + p->remote->turn_us;
	turn->too_heavy = false;
	turn->rc = turn->run(turn, &s.base);
	remote_session_release(&s);
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

enum err_code pool_submit(struct pool *p, struct turn_request *w, struct err *err)
{
	bool room;

	pthread_mutex_lock(&p->lock);
	room = !p->closing && p->waiting < POOL_WAITING_MAX && p->bytes + w->cost_bytes <= p->bytes_max;
	if (room) {
		w->next = NULL;
		*p->last = w;
		p->last = &w->next;
		p->waiting++;
		p->bytes += w->cost_bytes;
		seat_call(p);
	}
	pthread_mutex_unlock(&p->lock);
	return room ? ERR_NONE
	            : err_set(err, ERR_OVERLOADED, "too many requests are waiting; try again shortly");
}

void pool_read(struct pool *p, uint64_t *turns, size_t *bytes)
{
	pthread_mutex_lock(&p->lock);
	*turns = p->turns;
	*bytes = p->bytes;
	pthread_mutex_unlock(&p->lock);
}
