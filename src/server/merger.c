/* Merger: see merger.h. */
#include "server/merger.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/worker.h"
#include "server/own_call.h"

enum {
	LOOK_US = 200 * 1000, /* how often a lane looks for work */
	SKIPS_MAX = 24,       /* rounds that a lane passes over after failures: 5 s */
	RECOVER_ROUNDS = 5,   /* between two tries to write a spool that failed: 1 s */
	PROGRESS = 1000,      /* records between two lines of the log */
	MERGE_COST_BYTES = 4096,
};

struct lane {
	struct merger *m;
	uint32_t       number;
	struct worker  worker;
	/* its own thread */
	unsigned skips, skipped;
	uint64_t
	        held; /* a record that could not be merged yet: it keeps those behind it waiting, and no others */
	struct bytes record;
	struct arena arena; /* its bytes */
	/* of the first lane */
	bool     spool_failed;
	unsigned rounds; /* since it failed */
};

struct merger {
	struct merger_options options;
	struct outage         outage;
	struct lane           lanes[MERGER_LANES];
	_Atomic uint64_t      merging; /* since it was last told of */
	_Atomic uint64_t      too_old; /* the same */
};

/* ---- one record ---- */

struct merging {
	struct own_call  call; /* first */
	struct spooled   s;
	struct rules    *rules;
	enum spooled_end end;
};

static enum err_code decide(struct own_call *c, struct err *err)
{
	struct merging *x = (struct merging *)c;

	return outage_merge(&c->ctx, &x->s, x->rules, &x->end, err);
}

/* What no repetition changes must not keep those behind it waiting. */
static bool is_hopeless(enum err_code rc)
{
	return rc == ERR_INVALID || rc == ERR_LIMIT || rc == ERR_NOT_NOW;
}

/* One that cannot be read was whole when it was written, by another version. It names nobody who is pinned. */
static enum err_code merge(struct merger *m, uint64_t number, struct bytes record, struct err *err)
{
	struct merging x = {.end = SPOOLED_VOID};
	enum err_code  rc;

	own_call_init(&x.call, m->options.services, m->options.store);
	rc = spooled_decode(&x.call.arena, record, &x.s, err);
	if (rc != ERR_NONE) {
		log_error("an attempt that was recorded during an outage is not counted: %s", err->text);
		rc = ERR_NONE;
	} else {
		x.call.ctx.trace = x.s.trace;
		x.rules = document_acquire(&m->options.services->rules);
		rc = own_call_run(&x.call, &(struct own_step){decide, sizeof(x), MERGE_COST_BYTES}, err);
		document_release(&x.rules->base);
	}
	if (is_hopeless(rc)) {
		log_error("an attempt that was recorded during an outage is not counted: %s", err->text);
		x.end = SPOOLED_VOID;
		rc = ERR_NONE;
	}
	if (rc == ERR_NONE) {
		outage_merged(&m->outage, number, &x.s, x.end);
		m->too_old += x.end == SPOOLED_TOO_OLD;
	}
	own_call_release(&x.call);
	return rc;
}

/* ---- a lane ---- */

static bool is_out(struct merger *m)
{
	struct store *store = m->options.store;
	struct arena  a;
	struct table *t;
	bool          out;

	arena_init(&a);
	t = store->backend->read_begin(store, &a);
	out = t->backend->out != NULL && t->backend->out(t);
	store->backend->read_end(store, t);
	arena_release(&a);
	return out;
}

static void progress(struct merger *m, bool all)
{
	uint64_t count = all ? atomic_exchange(&m->merging, 0) : atomic_fetch_add(&m->merging, 1) + 1;

	if (all && count > 0)
		log_info("all attempts that were recorded during the outage are merged: %llu",
		         (unsigned long long)count);
	else if (!all && count % PROGRESS == 0)
		log_info("%llu attempts of the outage are merged, %u wait", (unsigned long long)count,
		         spool_read(m->outage.spool).records);
}

/* Once per sweep of a lane, with those that other lanes dropped meanwhile. */
static void tell_too_old(struct merger *m)
{
	uint64_t count = atomic_exchange(&m->too_old, 0);

	if (count > 0)
		log_warn("%llu attempts that were recorded during an outage are not counted: they waited for "
		         "more than %d days, or for more than %d with an Idempotency-Key",
		         (unsigned long long)count, OUTAGE_MARK_S / 86400, OUTAGE_KEYED_S / 86400);
}

static void failed(struct lane *l, const struct err *err)
{
	l->skips = l->skips * 2 + 1 < SKIPS_MAX ? l->skips * 2 + 1 : SKIPS_MAX;
	l->skipped = 0;
	metric_add(&l->m->outage.retried, 1);
	if (l->skips == 1)
		log_warn("an attempt that was recorded during an outage could not be merged yet: %s",
		         err->text);
}

static bool lane_take(struct lane *l)
{
	if (l->held > 0)
		return true;
	arena_reset(&l->arena);
	l->held = spool_take(l->m->outage.spool, &l->arena, &l->record);
	return l->held > 0;
}

static void lane_merge(struct lane *l)
{
	struct merger *m = l->m;
	struct spool  *spool = m->outage.spool;
	struct err     err;
	bool           any = false;

	while (worker_goes_on(&l->worker) && lane_take(l)) {
		if (merge(m, l->held, l->record, &err) != ERR_NONE) {
			failed(l, &err);
			break;
		}
		l->held = 0;
		l->skips = 0;
		any = true;
		progress(m, false);
	}
	tell_too_old(m);
	if (any && spool_trim(spool, &err) != ERR_NONE)
		log_error("%s", err.text);
	if (any && spool_read(spool).records == 0)
		progress(m, true);
}

/* ---- a disk that fails, and comes back ---- */

static void spool_watch(struct lane *l)
{
	struct spool_numbers n = spool_read(l->m->outage.spool);
	struct err           err;

	if (n.failed && !l->spool_failed) {
		log_error("the spool in the data directory cannot be written (%s); attempts are not recorded "
		          "until it can be",
		          n.why);
		l->rounds = 0;
	}
	l->spool_failed = n.failed;
	if (!n.failed || l->rounds++ % RECOVER_ROUNDS != 0 ||
	    spool_recover(l->m->outage.spool, &err) != ERR_NONE)
		return;
	l->spool_failed = false;
	log_info("the spool in the data directory can be written again");
}

/* Any request will do. */
static void probe(struct merger *m)
{
	struct own_call c;
	struct looked   row;
	struct err      err;

	own_call_init(&c, m->options.services, m->options.store);
	own_call_read(&c);
	c.ctx.late = true; /* nothing is learned from it */
	ctx_look(&c.ctx, BYTES("#PROBE"), BYTES("#PROBE"), &row, &err);
	own_call_read_end(&c);
	own_call_release(&c);
}

static void look(struct worker *w, void *ctx)
{
	struct lane   *l = ctx;
	struct merger *m = l->m;
	struct store  *store = m->options.store;

	(void)w;
	if (l->number == 0)
		spool_watch(l);
	if (l->number > 0 && spool_read(m->outage.spool).records == 0)
		return;
	if (is_out(m) || l->skipped++ < l->skips)
		return;
	l->skipped = 0;
	if (l->number == 0 && !store->backend->ready(store))
		probe(m);
	if (store->backend->ready(store))
		lane_merge(l);
}

/* ---- life ---- */

bool merger_ready(struct merger *m, struct err *why)
{
	return spool_check_room(m->outage.spool, SPOOL_RECORD_BYTES_MAX, why) == ERR_NONE;
}

static enum err_code outage_open(struct outage *o, const struct merger_options *options, struct err *err)
{
	struct known_options known = {.bytes_max = options->known_bytes_max,
	                              .denied_us = options->denied_us,
	                              .token_us = options->token_us};
	struct spool_options spool = {.dir = options->data,
	                              .bytes_max = options->spool_bytes_max,
	                              .records_max = OUTAGE_SPOOL_RECORDS};

	if (getrandom(&known.seed, sizeof(known.seed), 0) != (ssize_t)sizeof(known.seed))
		return err_set(err, ERR_STORAGE, "cannot get random bytes from the system");
	pthread_mutex_init(&o->turn, NULL);
	o->known = known_open(&known);
	known.bytes_max = OUTAGE_LIMITS_MB << 20;
	known.of_limits = true;
	o->limit_rows = known_open(&known);
	o->processes = options->processes;
	if (spool_open(&o->spool, &spool, err) != ERR_NONE)
		return err->code;
	outage_recall(o, options->services);
	return ERR_NONE;
}

static void outage_close(struct outage *o)
{
	if (o->spool != NULL)
		spool_close(o->spool);
	if (o->known != NULL)
		known_close(o->known);
	if (o->limit_rows != NULL)
		known_close(o->limit_rows);
	pthread_mutex_destroy(&o->turn);
}

static enum err_code lanes_start(struct merger *m, struct err *err)
{
	for (uint32_t i = 0; i < MERGER_LANES; i++)
		if (worker_start(&m->lanes[i].worker, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

enum err_code merger_open(struct merger **out, const struct merger_options *options, struct err *err)
{
	struct merger *m = mem_zalloc(sizeof(*m));

	*out = m;
	m->options = *options;
	for (uint32_t i = 0; i < MERGER_LANES; i++) {
		m->lanes[i].m = m;
		m->lanes[i].number = i;
		arena_init(&m->lanes[i].arena);
		worker_init(&m->lanes[i].worker, &(struct worker_options){.name = "merger",
		                                                          .round = look,
		                                                          .ctx = &m->lanes[i],
		                                                          .period_us = LOOK_US});
	}
	if (outage_open(&m->outage, options, err) != ERR_NONE)
		return err->code;
	options->services->outage = &m->outage;
	if (spool_read(m->outage.spool).records > 0)
		log_info("%u attempts that were recorded during an outage wait to be merged",
		         spool_read(m->outage.spool).records);
	return lanes_start(m, err);
}

void merger_close(struct merger *m)
{
	if (m == NULL)
		return;
	for (uint32_t i = 0; i < MERGER_LANES; i++) {
		worker_join(&m->lanes[i].worker);
		worker_release(&m->lanes[i].worker);
		arena_release(&m->lanes[i].arena);
	}
	m->options.services->outage = NULL;
	outage_close(&m->outage);
	free(m);
}
