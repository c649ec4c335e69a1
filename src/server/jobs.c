/* Jobs: see jobs.h. */
#define _GNU_SOURCE
#include "server/jobs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/trouble.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "service/adopt.h"
#include "service/user_counts.h"
#include "service/erase.h"
#include "service/mass_revocation.h"
#include "service/notification.h"
#include "service/push_erase.h"
#include "service/push_job.h"
#include "service/reconcile.h"
#include "service/redrive.h"
#include "service/undelivered.h"

enum {
	ID_BYTES_MAX = 64,
	KEY_BYTES_MAX = 512,
	STEP_COST_BYTES = 64 * 1024, /* of what waits for its turn */
	LOOK_ROWS = 500,
	LOOK_PAGES = 20, /* of one look; the next one goes on from there */
};

/* A running job. */
struct tracked {
	char     id[ID_BYTES_MAX], key[KEY_BYTES_MAX]; /* end with NUL */
	unsigned kind;
	uint64_t caller; /* a hash of who started it */
	uint64_t turn;   /* when it last took a step, among all of its lane */
	uint64_t round;  /* the last one in which its caller had a step */
	int64_t  due_us; /* when its next step may be taken, by the steady clock */

	struct trouble trouble;
};

/* Jobs of some kinds, and the thread that takes their steps. */
struct lane {
	/* set once */
	struct jobs  *jobs;
	bool          urgent; /* those of urgent kinds; else the others */
	struct worker worker;

	/* under the lock of jobs */
	pthread_cond_t changed;
	bool           asked, stopping;

	/* the worker's thread */
	struct tracked list[JOBS_TRACKED_MAX];
	unsigned       count;
	uint64_t       turns, rounds;
	char           after[KEY_BYTES_MAX]; /* where the next look begins; "": at the first */
	bool           more;                 /* others wait */
	int64_t        look_us;              /* when it is due */
	int64_t        wait_us;              /* from the last one until then */
	bool           warned;               /* of a kind that nobody knows */
};

enum { LANE_COMMON, LANE_URGENT, LANES };

struct jobs {
	/* set once */
	struct jobs_options options;
	struct job_counts   counts[JOB_KINDS_MAX];

	pthread_mutex_t lock;
	struct lane     lanes[LANES];
};

static const struct job_kind *const all_kinds[] = {&adopt_job,
                                                   &erase_job,
                                                   &reconcile_job,
                                                   &redrive_job,
                                                   &restore_job,
                                                   &push_cleanup,
                                                   &push_repair,
                                                   &push_erase,
                                                   &mass_revocation_kind,
                                                   &broadcast_job,
                                                   &user_counts_job,
                                                   &delivery_clean_job,
                                                   &undelivered_job,
                                                   NULL};

const struct job_kind *const *jobs_kinds(unsigned *count)
{
	*count = sizeof(all_kinds) / sizeof(all_kinds[0]) - 1; /* NULL last */
	return all_kinds;
}

/* Rates and waits are of real time, whatever the store's clock says. */
static int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

static const struct job_kind *kind_of(const struct lane *l, const struct tracked *t)
{
	return l->jobs->options.kinds[t->kind];
}

/* ---- a call of a service ---- */

struct calling {
	struct own_call own; /* first */

	const struct job_kind *kind; /* to be started, if it is due */
	struct job_started     started;
	struct job_turn        turn;
	const char            *why; /* the job fails for good; NULL: it takes a step */
	struct job_stepped     stepped;
};

static void calling_init(struct calling *c, struct lane *l)
{
	*c = (struct calling){0};
	own_call_init(&c->own, l->jobs->options.services, l->jobs->options.store);
}

/* ---- looking for jobs ---- */

static bool copy(char *to, size_t room, struct bytes text)
{
	if (text.len == 0 || text.len >= room)
		return false;
	memcpy(to, text.data, text.len);
	to[text.len] = '\0';
	return true;
}

static bool is_tracked(const struct lane *l, const struct job_running *r)
{
	for (unsigned i = 0; i < l->count; i++)
		if (bytes_is(r->id, l->list[i].id))
			return true;
	return false;
}

/* A kind that this program does not know is left to one that does. */
static bool find_kind(struct lane *l, const struct job_running *r, unsigned *out)
{
	const struct jobs_options *o = &l->jobs->options;

	for (*out = 0; *out < o->kind_count; ++*out)
		if (bytes_is(r->kind, o->kinds[*out]->name))
			return o->kinds[*out]->urgent == l->urgent;
	if (!l->warned)
		log_warn("a job is running of a kind that this program does not know; it waits");
	l->warned = true;
	return false;
}

static void untrack(struct lane *l, unsigned at)
{
	memmove(&l->list[at], &l->list[at + 1], (l->count - at - 1) * sizeof(l->list[0]));
	l->count--;
}

static unsigned jobs_of(const struct lane *l, uint64_t caller)
{
	unsigned count = 0;

	for (unsigned i = 0; i < l->count; i++)
		count += l->list[i].caller == caller;
	return count;
}

/* (1) The last job of the caller that has most gives way, if that caller still has no fewer then. */
static bool share_make(struct lane *l, uint64_t caller)
{
	unsigned most = 0, at = 0;

	for (unsigned i = 0; i < l->count; i++)
		if (jobs_of(l, l->list[i].caller) >= most) {
			most = jobs_of(l, l->list[i].caller);
			at = i;
		}
	if (most < jobs_of(l, caller) + 2)
		return false;
	untrack(l, at);
	return true;
}

/* False: there is no room for it. */
static bool track(struct lane *l, const struct job_running *r)
{
	struct tracked t = {.due_us = steady_us(), .caller = hash_fnv(HASH_FNV, r->caller)};

	if (is_tracked(l, r) || !find_kind(l, r, &t.kind) || !copy(t.id, sizeof(t.id), r->id) ||
	    !copy(t.key, sizeof(t.key), r->key))
		return true;
	if (l->count == JOBS_TRACKED_MAX && !share_make(l, t.caller))
		return false;
	l->list[l->count++] = t;
	return true;
}

/* (1) */
static void make_room(struct lane *l)
{
	for (unsigned i = 0; l->more && l->count == JOBS_TRACKED_MAX && i < l->count;)
		if (l->list[i].trouble.failures > 0)
			untrack(l, i);
		else
			i++;
}

static void count_running(struct lane *l)
{
	struct jobs *j = l->jobs;
	uint64_t     running[JOB_KINDS_MAX] = {0};

	for (unsigned i = 0; i < l->count; i++)
		running[l->list[i].kind]++;
	for (unsigned i = 0; i < j->options.kind_count; i++)
		if (j->options.kinds[i]->urgent == l->urgent)
			atomic_store_explicit(&j->counts[i].running, running[i], memory_order_relaxed);
}

/* One page of rows, from `after` on; after the last one that is the first again. False: it could not be read. */
static bool page_look(struct lane *l, struct bytes kind)
{
	struct jobs_look    q = {.kind = kind, .after = bytes_of(l->after), .limit = LOOK_ROWS};
	struct calling      c;
	struct jobs_running found = {0};
	struct err          err;
	bool                good;

	calling_init(&c, l);
	own_call_read(&c.own);
	good = jobs_running(&c.own.ctx, &q, &found, &err) == ERR_NONE;
	for (uint32_t i = 0; i < found.count; i++) {
		if (!track(l, &found.list[i]))
			l->more = true;
		copy(l->after, sizeof(l->after), found.list[i].key);
	}
	own_call_read_end(&c.own);
	own_call_release(&c.own);
	if (good && !found.more)
		l->after[0] = '\0';
	return good;
}

/* All that run, or LOOK_PAGES of them and the others with the next looks: a caller with one job may be behind one with many. */
static void look_common(struct lane *l)
{
	bool wraps = l->after[0] != '\0', over = false;

	for (unsigned pages = 0; pages < LOOK_PAGES && !over; pages++) {
		bool good = page_look(l, (struct bytes){NULL, 0}), ended = l->after[0] == '\0';

		over = !good || (ended && !wraps);
		wraps = wraps && !ended;
	}
	l->more = l->more || l->after[0] != '\0';
}

/* Few: each kind is asked for by itself, however many others run. */
static void look_urgent(struct lane *l)
{
	const struct jobs_options *o = &l->jobs->options;

	for (unsigned i = 0; i < o->kind_count; i++) {
		bool over = !o->kinds[i]->urgent;

		l->after[0] = '\0';
		for (unsigned pages = 0; pages < LOOK_PAGES && !over; pages++)
			over = !page_look(l, bytes_of(o->kinds[i]->name)) || l->after[0] == '\0';
	}
}

static void look(struct lane *l)
{
	make_room(l);
	l->more = false;
	if (l->urgent)
		look_urgent(l);
	else
		look_common(l);
}

static enum err_code start_periodic(struct own_call *own, struct err *err)
{
	struct calling *c = (struct calling *)own;

	return job_start_periodic(&own->ctx, c->kind, &c->started, err);
}

static void start_due(struct lane *l)
{
	const struct jobs_options *o = &l->jobs->options;

	for (unsigned i = 0; i < o->kind_count && worker_goes_on(&l->worker); i++) {
		struct calling c;
		struct err     err;

		if (o->kinds[i]->period_s == NULL || o->kinds[i]->urgent != l->urgent)
			continue;
		calling_init(&c, l);
		c.kind = o->kinds[i];
		if (own_call_run(&c.own, &(struct own_step){start_periodic, sizeof(c), STEP_COST_BYTES},
		                 &err) == ERR_NONE &&
		    !c.started.existed)
			log_info("started the job %.*s, which is due: %s", BYTES_ARG(c.started.job.id),
			         c.kind->name);
		own_call_release(&c.own);
	}
}

/* ---- steps ---- */

static enum err_code take_step(struct own_call *own, struct err *err)
{
	struct calling *c = (struct calling *)own;

	return c->why == NULL ? job_step(&own->ctx, &c->turn, &c->stepped, err)
	                      : job_fail(&own->ctx, &c->turn, c->why, &c->stepped, err);
}

/* What the step needs from elsewhere. Sets the step that it was fetched for. */
static enum err_code fetch(struct calling *c, const struct job_kind *kind, struct err *err)
{
	struct job    job;
	enum err_code rc;

	own_call_read(&c->own);
	rc = job_get(&c->own.ctx, c->turn.running.id, &job, err);
	if (rc == ERR_NOT_FOUND || (rc == ERR_NONE && job.state != JOB_RUNNING)) {
		rc = ERR_NONE; /* the step sees to it */
	} else if (rc == ERR_NONE) {
		c->turn.steps = job.steps;
		c->turn.cursor = job.cursor;
		rc = kind->fetch(&c->own.ctx, &job, &c->turn.fetched, err);
	}
	own_call_read_end(&c->own);
	return rc;
}

static enum err_code step_run(struct calling *c, const struct job_kind *kind, struct err *err)
{
	struct err    again;
	enum err_code rc = kind->fetch == NULL ? ERR_NONE : fetch(c, kind, err);

	if (rc == ERR_NONE)
		rc = own_call_run(&c->own, &(struct own_step){take_step, sizeof(*c), STEP_COST_BYTES}, err);
	if (rc == ERR_NONE || job_fails_for_now(rc))
		return rc;
	c->why = err->text;
	if (own_call_run(&c->own, &(struct own_step){take_step, sizeof(*c), STEP_COST_BYTES}, &again) ==
	    ERR_NONE)
		return ERR_NONE;
	*err = again;
	return ERR_OVERLOADED; /* and this, later */
}

static int64_t wait_us(const struct job *job)
{
	return job->rate <= 0 ? 0 : (int64_t)job->handled * 1000000 / job->rate;
}

static void back_off(struct lane *l, struct tracked *t, const struct err *err)
{
	if (trouble_begins(&t->trouble, steady_us()))
		log_warn("the job %s (%s) is tried again: %s", t->id, kind_of(l, t)->name, err->text);
	metric_add(&l->jobs->counts[t->kind].retries, 1);
	t->due_us = t->trouble.due_us;
}

/* It took a step, or ended. False: it is no longer ours. */
static bool stepped(struct lane *l, struct tracked *t, const struct calling *c)
{
	const struct job  *job = &c->stepped.job;
	struct job_counts *counts = &l->jobs->counts[t->kind];

	trouble_ends(&t->trouble);
	t->due_us = steady_us();
	if (!c->stepped.taken)
		return job->state == JOB_RUNNING && job->id.len > 0;
	metric_add(&counts->steps, 1);
	atomic_store_explicit(&counts->last_step_us, c->own.ctx.now_us, memory_order_relaxed);
	t->due_us += wait_us(job);
	if (job->state == JOB_RUNNING)
		return true;
	metric_add(&counts->ended[job->state], 1);
	if (job->state == JOB_FAILED)
		log_error("the job %s (%s) failed: %.*s", t->id, kind_of(l, t)->name, BYTES_ARG(job->error));
	return false;
}

/* False: the job has ended. */
static bool step(struct lane *l, struct tracked *t)
{
	struct calling c;
	struct err     err;
	bool           goes_on = true;

	calling_init(&c, l);
	c.turn = (struct job_turn){.running = {.id = bytes_of(t->id),
	                                       .kind = bytes_of(kind_of(l, t)->name),
	                                       .key = bytes_of(t->key)},
	                           .steps = JOB_ANY_STEP};
	if (step_run(&c, kind_of(l, t), &err) == ERR_NONE)
		goes_on = stepped(l, t, &c);
	else
		back_off(l, t, &err);
	own_call_release(&c.own);
	return goes_on;
}

/* Of the jobs that are due, and whose callers have not had a step in this round: the one that has waited for longest. */
static struct tracked *next_due(struct lane *l)
{
	struct tracked *next = NULL;
	int64_t         now_us = steady_us();

	for (struct tracked *t = l->list; t < l->list + l->count; t++)
		if (t->due_us <= now_us && t->round != l->rounds && (next == NULL || t->turn < next->turn))
			next = t;
	return next;
}

/* (2) */
static void step_callers(struct lane *l)
{
	struct tracked *t;

	l->rounds++;
	while (worker_goes_on(&l->worker) && (t = next_due(l)) != NULL) {
		t->turn = ++l->turns;
		for (unsigned i = 0; i < l->count; i++)
			if (l->list[i].caller == t->caller)
				l->list[i].round = l->rounds;
		if (!step(l, t))
			untrack(l, (unsigned)(t - l->list));
	}
}

/* ---- the worker ---- */

/* Others that wait are looked for as soon as there is room. */
static bool look_is_due(const struct lane *l)
{
	return steady_us() >= l->look_us || (l->more && l->count < JOBS_TRACKED_MAX / 2);
}

static int64_t next_due_us(const struct lane *l)
{
	int64_t due_us = look_is_due(l) ? 0 : l->look_us;

	for (unsigned i = 0; i < l->count; i++)
		if (l->list[i].due_us < due_us)
			due_us = l->list[i].due_us;
	return due_us;
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

/* Until something is due or somebody asks. False: it is time to end. */
static bool await(struct lane *l)
{
	int64_t         us = next_due_us(l) - steady_us();
	struct timespec until = after_us(us > 0 ? us : 0);
	bool            goes_on;
	int             rc = us > 0 ? 0 : ETIMEDOUT;

	pthread_mutex_lock(&l->jobs->lock);
	while (!l->asked && !l->stopping && rc == 0)
		rc = pthread_cond_timedwait(&l->changed, &l->jobs->lock, &until);
	if (l->asked)
		l->look_us = 0;
	l->asked = false;
	goes_on = !l->stopping;
	pthread_mutex_unlock(&l->jobs->lock);
	return goes_on;
}

static void wait_set(struct lane *l)
{
	bool found = l->count > 0 || l->look_us == 0; /* or somebody asked */

	l->wait_us = worker_rest_us(l->wait_us, JOBS_LOOK_S * INT64_C(1000000),
	                            store_rest_us(l->jobs->options.store, JOBS_REST_S), found);
	l->look_us = steady_us() + l->wait_us;
}

static void lane_main(struct worker *w, void *ctx)
{
	struct lane *l = ctx;

	do {
		worker_begin(w);
		if (look_is_due(l)) {
			start_due(l);
			look(l);
			wait_set(l);
		}
		step_callers(l);
		count_running(l);
		worker_idle(w);
	} while (await(l));
}

static void wake(void *ctx)
{
	struct jobs *j = ctx;

	pthread_mutex_lock(&j->lock);
	for (unsigned i = 0; i < LANES; i++) {
		j->lanes[i].asked = true;
		pthread_cond_signal(&j->lanes[i].changed);
	}
	pthread_mutex_unlock(&j->lock);
}

static void lane_init(struct jobs *j, unsigned which)
{
	static const char *const names[LANES] = {[LANE_COMMON] = "jobs", [LANE_URGENT] = "jobs-urgent"};
	struct lane             *l = &j->lanes[which];
	pthread_condattr_t       monotonic;

	l->jobs = j;
	l->urgent = which == LANE_URGENT;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&l->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	worker_init(&l->worker, &(struct worker_options){.name = names[which], .main = lane_main, .ctx = l});
}

enum err_code jobs_open(struct jobs **out, const struct jobs_options *options, struct err *err)
{
	struct jobs  *j = mem_zalloc(sizeof(*j));
	enum err_code rc = ERR_NONE;

	assert(options->kind_count <= JOB_KINDS_MAX);
	j->options = *options;
	pthread_mutex_init(&j->lock, NULL);
	for (unsigned i = 0; i < LANES; i++)
		lane_init(j, i);
	options->services->jobs = (struct jobs_settings){.kinds = options->kinds,
	                                                 .counts = j->counts,
	                                                 .kind_count = options->kind_count,
	                                                 .wake = wake,
	                                                 .wake_ctx = j};
	*out = j;
	for (unsigned i = 0; rc == ERR_NONE && i < LANES; i++)
		rc = worker_start(&j->lanes[i].worker, err);
	return rc;
}

void jobs_close(struct jobs *j)
{
	pthread_mutex_lock(&j->lock);
	for (unsigned i = 0; i < LANES; i++) {
		j->lanes[i].stopping = true;
		pthread_cond_signal(&j->lanes[i].changed);
	}
	pthread_mutex_unlock(&j->lock);
	for (unsigned i = 0; i < LANES; i++)
		worker_join(&j->lanes[i].worker);
	j->options.services->jobs = (struct jobs_settings){0};
	for (unsigned i = 0; i < LANES; i++) {
		worker_release(&j->lanes[i].worker);
		pthread_cond_destroy(&j->lanes[i].changed);
	}
	pthread_mutex_destroy(&j->lock);
	free(j);
}
