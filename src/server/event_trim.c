/* Event trimming: see event_trim.h. */
#include "server/event_trim.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "service/event_trim.h"
#include "service/lease.h"

enum {
	STEP_COST_BYTES = 64 * 1024,
	WARN_S = 3600, /* between two warnings */
};

#define WORK "event-trim"

struct event_trimmer {
	struct services *services;
	struct store    *store;
	struct worker    worker;
	char             holder[LEASE_HOLDER_CHARS];

	/* the worker's thread */
	bool     failing;
	int64_t  warned_s;
	uint64_t unread; /* since the last warning */
};

struct step {
	struct own_call       own; /* first */
	struct event_trimmer *t;
	uint32_t              shard;
	struct trim_readers  *readers;
	struct trim_step      out;
	bool                  held;
};

static enum err_code lease_run(struct own_call *own, struct err *err)
{
	struct step *s = (struct step *)own;

	return lease_take(&own->ctx, BYTES(WORK), (struct bytes){s->t->holder, sizeof(s->t->holder)},
	                  &s->held, err);
}

static enum err_code step_run(struct own_call *own, struct err *err)
{
	struct step *s = (struct step *)own;

	if (trim_readers_read(&own->ctx, s->readers, err) != ERR_NONE)
		return err->code;
	return event_trim(&own->ctx, s->shard, s->readers, &s->out, err);
}

/* At once, and then at most once per hour. */
static void note(struct event_trimmer *t, const struct step *s)
{
	struct event_numbers *numbers = t->services->event_numbers;
	int64_t               now_s = s->own.ctx.now_s;

	if (numbers != NULL) {
		metric_add(&numbers->trimmed, s->out.trimmed);
		metric_add(&numbers->trimmed_unread, s->out.unread);
	}
	t->unread += s->out.unread;
	if (t->unread == 0 || (t->warned_s > 0 && now_s - t->warned_s < WARN_S))
		return;
	log_error("%" PRIu64
	          " events were removed although \"%.*s\" has not read them: it is further behind than the "
	          "policies of events allow (lag_max)",
	          t->unread, BYTES_ARG(s->out.reader));
	t->warned_s = now_s;
	t->unread = 0;
}

/* Said once, until it is well again. */
static void note_outcome(struct event_trimmer *t, bool good, const struct err *err)
{
	if (!good && !t->failing)
		log_warn("old events were not removed; it is tried again: %s", err->text);
	t->failing = !good;
}

/* Is it this process that trims? */
static bool takes_turn(struct event_trimmer *t)
{
	struct step s = {.t = t};
	struct err  err;
	bool        good;

	own_call_init(&s.own, t->services, t->store);
	good = own_call_run(&s.own, &(struct own_step){lease_run, sizeof(s), STEP_COST_BYTES}, &err) ==
	       ERR_NONE;
	note_outcome(t, good, &err);
	own_call_release(&s.own);
	return good && s.held;
}

/* One commit. False: there is nothing more to do. */
static bool step(struct event_trimmer *t, uint32_t shard)
{
	struct step s = {.t = t, .shard = shard};
	struct err  err;
	bool        good;

	own_call_init(&s.own, t->services, t->store);
	s.readers = arena_alloc(&s.own.arena, sizeof(*s.readers));
	good = own_call_run(&s.own, &(struct own_step){step_run, sizeof(s), STEP_COST_BYTES}, &err) ==
	       ERR_NONE;
	if (good)
		note(t, &s);
	if (s.out.trimmed > 0)
		worker_found(&t->worker);
	note_outcome(t, good, &err);
	own_call_release(&s.own);
	return good && s.out.more;
}

/* The lease is for all shards: who holds it for one holds it for the others. */
static void trim(struct worker *w, void *arg)
{
	struct event_trimmer *t = arg;

	if (!takes_turn(t))
		return;
	for (uint32_t shard = 0; shard < event_shards(t->services); shard++)
		while (worker_goes_on(w) && step(t, shard))
			continue;
}

enum err_code event_trim_open(struct event_trimmer **out, struct services *services, struct store *store,
                              struct err *err)
{
	struct event_trimmer *t = mem_zalloc(sizeof(*t));

	t->services = services;
	t->store = store;
	lease_holder_make(services, t->holder);
	worker_init(&t->worker, &(struct worker_options){.name = WORK,
	                                                 .round = trim,
	                                                 .ctx = t,
	                                                 .period_us = EVENT_TRIM_PERIOD_S * INT64_C(1000000),
	                                                 .rest_us = store_rest_us(store, EVENT_TRIM_REST_S)});
	*out = t;
	return worker_start(&t->worker, err);
}

void event_trim_close(struct event_trimmer *t)
{
	if (t == NULL)
		return;
	worker_join(&t->worker);
	worker_release(&t->worker);
	free(t);
}
