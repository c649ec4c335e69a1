/* Sign-outs: see sign_outs.h. */
#include "server/sign_outs.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "service/dead_letter.h"
#include "service/sign_out.h"

enum { NOTE_COST_BYTES = 1024, PACE_SLICE_US = 50 * 1000 };

struct sign_outs_worker {
	struct services *services;
	struct store    *store;
	struct worker    worker;
	unsigned         rounds;  /* its own thread */
	atomic_bool      failing; /* a call of the last round failed: that is said once */

	/* under lock */
	pthread_mutex_t lock;
	int64_t         next_us[PROVIDERS_MAX]; /* when the next call of a provider may begin */
};

/* One round: what is due, shared by those who call. */
struct calling {
	struct sign_outs_worker *w;
	const struct sign_outs  *due;
	atomic_uint              next; /* of the list */
	atomic_bool              failed;
};

/* ---- noting how a call ended ---- */

struct noting {
	struct own_call        own; /* first */
	const struct sign_out *q;
	const char            *why;
};

static enum err_code note_it(struct own_call *own, struct err *err)
{
	struct noting *n = (struct noting *)own;

	return sign_out_note(&own->ctx, n->q, n->why, err);
}

static void note(struct sign_outs_worker *w, const struct sign_out *q, const char *why)
{
	struct noting n = {.q = q, .why = why};
	struct err    err;

	own_call_init(&n.own, w->services, w->store);
	if (own_call_run(&n.own, &(struct own_step){note_it, sizeof(n), NOTE_COST_BYTES}, &err) !=
	    ERR_NONE) /* it is called again: that is harmless */
		log_warn("what became of a sign-out was not stored: %s", err.text);
	own_call_release(&n.own);
}

/* ---- calling ---- */

static bool is_stopping(const struct sign_outs_worker *w)
{
	return atomic_load(&w->worker.stopping);
}

/* Waits until a call of the provider may begin. False: the worker is to stop. */
static bool pace(struct sign_outs_worker *w, const struct providers *all, const struct provider *to)
{
	int64_t *next_us = &w->next_us[to - all->list];
	int64_t  now_us = clock_steady_us(clock_system()), begin_us;

	pthread_mutex_lock(&w->lock);
	begin_us = *next_us > now_us ? *next_us : now_us;
	*next_us = begin_us + 1000000 / (to->rate > 0 ? to->rate : PROVIDER_RATE);
	pthread_mutex_unlock(&w->lock);
	for (; now_us < begin_us && !is_stopping(w); now_us = clock_steady_us(clock_system()))
		usleep((useconds_t)(begin_us - now_us < PACE_SLICE_US ? begin_us - now_us : PACE_SLICE_US));
	return !is_stopping(w);
}

static enum err_code call(struct sign_outs_worker *w, struct arena *a, const struct sign_out *q,
                          struct err *err)
{
	const struct provider_calls *calls = w->services->provider_calls;
	struct providers            *all = providers_acquire(w->services);
	const struct provider       *to = provider_named(all, q->provider);
	struct provider_call         c = {.provider = to, .trace = q->trace, .arena = a};
	enum err_code                rc;

	if (to == NULL || !to->sign_out) /* nobody wants it any more */
		rc = ERR_NONE;
	else if (calls == NULL)
		rc = err_set(err, ERR_OVERLOADED, "no provider can be called");
	else if (!pace(w, all, to))
		rc = err_set(err, ERR_OVERLOADED, "the server stops");
	else
		rc = calls->sign_out(calls->ctx, &c, q->name, err);
	providers_release(all);
	return rc == ERR_NOT_FOUND ? ERR_NONE : rc;
}

/* False: it failed. */
static bool take(struct sign_outs_worker *w, struct arena *a, const struct sign_out *q)
{
	struct sync_numbers *numbers = w->services->sync;
	struct err           err;
	bool                 good = call(w, a, q, &err) == ERR_NONE;

	if (!good && is_stopping(w)) /* it is due when the server starts again */
		return false;
	note(w, q, good ? NULL : err.text);
	metric_add(good ? &numbers->sign_outs : &numbers->sign_out_failures, 1);
	if (!good && !atomic_exchange(&w->failing, true))
		log_warn("a user was not signed out at the provider; it is tried again until it succeeds: %s",
		         err.text);
	return good;
}

/* Takes one after the other until none is left. own: the worker, on its own thread; NULL: a helper. */
static void take_all(struct calling *c, struct worker *own)
{
	struct arena a;

	arena_init(&a);
	while (!is_stopping(c->w)) {
		unsigned i = atomic_fetch_add(&c->next, 1);

		if (i >= c->due->count)
			break;
		if (!take(c->w, &a, &c->due->list[i]))
			atomic_store(&c->failed, true);
		arena_reset(&a);
		if (own != NULL)
			worker_beat(own);
	}
	arena_release(&a);
}

static void *help(void *arg)
{
	take_all(arg, NULL);
	return NULL;
}

/* Without help it takes longer. */
static void call_all(struct calling *c)
{
	pthread_t helpers[SIGN_OUTS_AT_ONCE - 1];
	unsigned  count = 0;

	while (count < SIGN_OUTS_AT_ONCE - 1 && count + 1 < c->due->count &&
	       pthread_create(&helpers[count], NULL, help, c) == 0)
		count++;
	take_all(c, &c->w->worker);
	while (count > 0)
		pthread_join(helpers[--count], NULL);
}

/* ---- rounds ---- */

static void count_letters(struct sign_outs_worker *w, struct context *ctx)
{
	struct dead_letter_groups groups;
	struct err                err;

	if (w->rounds++ % SIGN_OUTS_COUNT_ROUNDS == 0 &&
	    dead_letters_group(ctx, &(struct user_filter){0}, &groups, &err) == ERR_NONE)
		atomic_store(&w->services->sync->dead_letters, groups.letters);
}

static void look(struct worker *worker, void *arg)
{
	struct sign_outs_worker *w = arg;
	struct own_call          c;
	struct sign_outs         due = {0};
	struct calling           calling = {.w = w, .due = &due};
	struct err               err;

	own_call_init(&c, w->services, w->store);
	own_call_read(&c);
	if (sign_outs_find(&c.ctx, &due, &err) == ERR_NONE)
		atomic_store(&w->services->sync->sign_outs_pending, due.pending);
	count_letters(w, &c.ctx);
	own_call_read_end(&c);
	if (due.pending > 0)
		worker_found(worker);
	if (worker_goes_on(worker))
		call_all(&calling);
	if (!atomic_load(&calling.failed)) /* others that work say nothing of the one that fails */
		atomic_store(&w->failing, false);
	if (due.count == SIGN_OUTS_ROUND_MAX) /* others are due; those that failed are not */
		worker_wake(worker);
	own_call_release(&c);
}

static void wake(void *ctx)
{
	worker_wake(&((struct sign_outs_worker *)ctx)->worker);
}

enum err_code sign_outs_open(struct sign_outs_worker **out, struct services *services, struct store *store,
                             struct err *err)
{
	struct sign_outs_worker *w = mem_zalloc(sizeof(*w));

	w->services = services;
	w->store = store;
	pthread_mutex_init(&w->lock, NULL);
	worker_init(&w->worker, &(struct worker_options){.name = "sign-outs",
	                                                 .round = look,
	                                                 .ctx = w,
	                                                 .period_us = SIGN_OUTS_LOOK_S * INT64_C(1000000),
	                                                 .rest_us = store_rest_us(store, SIGN_OUTS_REST_S)});
	services->sign_out_post = (struct sign_out_post){wake, w};
	*out = w;
	return worker_start(&w->worker, err);
}

void sign_outs_close(struct sign_outs_worker *w)
{
	if (w == NULL)
		return;
	worker_join(&w->worker);
	w->services->sign_out_post = (struct sign_out_post){0};
	worker_release(&w->worker);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
