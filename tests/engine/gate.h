/* Gate: a request that keeps the writer busy until it is let go, so that others wait, and one that does
 * nothing but wait. */
#ifndef TESTS_ENGINE_GATE_H
#define TESTS_ENGINE_GATE_H

#include "test.h"

#include <pthread.h>

#include "engine/engine.h"

struct gate {
	struct turn_request base;
	pthread_mutex_t     lock;
	pthread_cond_t      changed;
	bool                entered, open, done;
};

static inline enum err_code gate_run(struct turn_request *w, struct table *t)
{
	struct gate *g = (struct gate *)w;

	(void)t;
	pthread_mutex_lock(&g->lock);
	g->entered = true;
	pthread_cond_broadcast(&g->changed);
	while (!g->open)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
	return ERR_NONE;
}

static inline void gate_done(struct turn_request *w)
{
	struct gate *g = (struct gate *)w;

	pthread_mutex_lock(&g->lock);
	g->done = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

static inline void gate_close(struct gate *g, struct engine *e)
{
	struct err err;

	*g = (struct gate){.base = {.run = gate_run, .done = gate_done},
	                   .lock = PTHREAD_MUTEX_INITIALIZER,
	                   .changed = PTHREAD_COND_INITIALIZER};
	assert_int_equal(engine_submit(e, &g->base, &err), ERR_NONE);
	engine_gathered(e);
	pthread_mutex_lock(&g->lock);
	while (!g->entered)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static inline void gate_open(struct gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->open = true;
	pthread_cond_broadcast(&g->changed);
	while (!g->done)
		pthread_cond_wait(&g->changed, &g->lock);
	pthread_mutex_unlock(&g->lock);
}

static inline enum err_code run_nothing(struct turn_request *w, struct table *t)
{
	(void)w;
	(void)t;
	return ERR_NONE;
}

static inline void done_nothing(struct turn_request *w)
{
	(void)w;
}

#endif
