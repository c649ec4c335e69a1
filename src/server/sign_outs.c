/* Sign-outs: see sign_outs.h. */
#include "server/sign_outs.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "service/dead_letter.h"
#include "service/sign_out.h"

enum { NOTE_COST_BYTES = 1024 };

struct sign_outs_worker {
	struct services *services;
	struct store    *store;
	struct worker    worker;
	unsigned         rounds;  /* its own thread */
	bool             failing; /* a call of the last round failed: that is said once */
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
	if (own_call_run(&n.own, note_it, NOTE_COST_BYTES, &err) !=
	    ERR_NONE) /* it is called again: that is harmless */
		log_warn("what became of a sign-out was not stored: %s", err.text);
	own_call_release(&n.own);
}

/* ---- calling ---- */

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

	note(w, q, good ? NULL : err.text);
	metric_add(good ? &numbers->sign_outs : &numbers->sign_out_failures, 1);
	if (!good && !w->failing)
		log_warn("a user was not signed out at the provider; it is tried again until it succeeds: %s",
		         err.text);
	w->failing = w->failing || !good;
	return good;
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
	struct err               err;
	bool                     good = true;

	own_call_init(&c, w->services, w->store);
	own_call_read(&c);
	if (sign_outs_find(&c.ctx, &due, &err) == ERR_NONE)
		atomic_store(&w->services->sync->sign_outs_pending, due.pending);
	count_letters(w, &c.ctx);
	own_call_read_end(&c);
	if (due.pending > 0)
		worker_found(worker);
	for (uint32_t i = 0; i < due.count && worker_goes_on(worker); i++)
		good = take(w, &c.arena, &due.list[i]) && good;
	w->failing = w->failing && !good; /* others that work say nothing of the one that fails */
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
	free(w);
}
