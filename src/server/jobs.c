/* Jobs: see jobs.h. */
#define _GNU_SOURCE
#include "server/jobs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/trouble.h"
#include "base/worker.h"
#include "server/own_call.h"
#include "service/adopt.h"
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
};

/* A running job. */
struct tracked {
	char     id[ID_BYTES_MAX], key[KEY_BYTES_MAX]; /* end with NUL */
	unsigned kind;
	int64_t  due_us; /* when its next step may be taken, by the steady clock */

	struct trouble trouble;
};

struct jobs {
	/* set once */
	struct jobs_options options;
	struct job_counts   counts[JOB_KINDS_MAX];
	struct worker       worker;

	/* under lock */
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	bool            asked, stopping;

	/* the worker's thread */
	struct tracked list[JOBS_TRACKED_MAX];
	unsigned       count;
	char           after[KEY_BYTES_MAX]; /* where the next look begins; "": at the first */
	bool           more;                 /* others wait */
	int64_t        look_us;              /* when it is due */
	int64_t        wait_us;              /* from the last one until then */
	bool           warned;               /* of a kind that nobody knows */
};

static const struct job_kind *const all_kinds[] = {
        &adopt_job,     &erase_job,          &reconcile_job,   &redrive_job,
        &push_cleanup,  &push_repair,        &push_erase,      &mass_revocation_kind,
        &broadcast_job, &delivery_clean_job, &undelivered_job, NULL};

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

static const struct job_kind *kind_of(const struct jobs *j, const struct tracked *t)
{
	return j->options.kinds[t->kind];
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

static void calling_init(struct calling *c, struct jobs *j)
{
	*c = (struct calling){0};
	own_call_init(&c->own, j->options.services, j->options.store);
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

static bool is_tracked(const struct jobs *j, const struct job_running *r)
{
	for (unsigned i = 0; i < j->count; i++)
		if (bytes_is(r->id, j->list[i].id))
			return true;
	return false;
}

/* A kind that this program does not know is left to one that does. */
static bool find_kind(struct jobs *j, const struct job_running *r, unsigned *out)
{
	for (*out = 0; *out < j->options.kind_count; ++*out)
		if (bytes_is(r->kind, j->options.kinds[*out]->name))
			return true;
	if (!j->warned)
		log_warn("a job is running of a kind that this program does not know; it waits");
	j->warned = true;
	return false;
}

static void track(struct jobs *j, const struct job_running *r)
{
	struct tracked t = {.due_us = steady_us()};

	if (!is_tracked(j, r) && find_kind(j, r, &t.kind) && copy(t.id, sizeof(t.id), r->id) &&
	    copy(t.key, sizeof(t.key), r->key))
		j->list[j->count++] = t;
}

static void untrack(struct jobs *j, unsigned at)
{
	memmove(&j->list[at], &j->list[at + 1], (j->count - at - 1) * sizeof(j->list[0]));
	j->count--;
}

/* (1) */
static void make_room(struct jobs *j)
{
	for (unsigned i = 0; j->more && j->count == JOBS_TRACKED_MAX && i < j->count;)
		if (j->list[i].trouble.failures > 0)
			untrack(j, i);
		else
			i++;
}

static void count_running(struct jobs *j)
{
	uint64_t running[JOB_KINDS_MAX] = {0};

	for (unsigned i = 0; i < j->count; i++)
		running[j->list[i].kind]++;
	for (unsigned i = 0; i < j->options.kind_count; i++)
		atomic_store_explicit(&j->counts[i].running, running[i], memory_order_relaxed);
}

/* Takes on what there is room for, and remembers where it stopped. Whoever came in before that is found after the last. */
static void track_all(struct jobs *j, const struct jobs_running *found)
{
	unsigned before = j->count;
	bool     wraps = j->after[0] != '\0', whole = !found->more;

	for (uint32_t i = 0; i < found->count; i++) {
		if (j->count == JOBS_TRACKED_MAX) {
			whole = false;
			break;
		}
		track(j, &found->list[i]);
		copy(j->after, sizeof(j->after), found->list[i].key);
	}
	if (whole)
		j->after[0] = '\0';
	j->more = (!whole || wraps) && (j->count > before || j->count == JOBS_TRACKED_MAX);
}

static void look(struct jobs *j)
{
	struct calling      c;
	struct jobs_running found;
	struct err          err;

	make_room(j);
	calling_init(&c, j);
	own_call_read(&c.own);
	if (jobs_running(&c.own.ctx, bytes_of(j->after), JOBS_TRACKED_MAX, &found, &err) == ERR_NONE)
		track_all(j, &found);
	own_call_read_end(&c.own);
	own_call_release(&c.own);
}

static enum err_code start_periodic(struct own_call *own, struct err *err)
{
	struct calling *c = (struct calling *)own;

	return job_start_periodic(&own->ctx, c->kind, &c->started, err);
}

static void start_due(struct jobs *j)
{
	for (unsigned i = 0; i < j->options.kind_count && worker_goes_on(&j->worker); i++) {
		struct calling c;
		struct err     err;

		if (j->options.kinds[i]->period_s == NULL)
			continue;
		calling_init(&c, j);
		c.kind = j->options.kinds[i];
		if (own_call_run(&c.own, start_periodic, STEP_COST_BYTES, &err) == ERR_NONE &&
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
		rc = own_call_run(&c->own, take_step, STEP_COST_BYTES, err);
	if (rc == ERR_NONE || job_fails_for_now(rc))
		return rc;
	c->why = err->text;
	if (own_call_run(&c->own, take_step, STEP_COST_BYTES, &again) == ERR_NONE)
		return ERR_NONE;
	*err = again;
	return ERR_OVERLOADED; /* and this, later */
}

static int64_t wait_us(const struct job *job)
{
	return job->rate <= 0 ? 0 : (int64_t)job->handled * 1000000 / job->rate;
}

static void back_off(struct jobs *j, struct tracked *t, const struct err *err)
{
	if (trouble_begins(&t->trouble, steady_us()))
		log_warn("the job %s (%s) is tried again: %s", t->id, kind_of(j, t)->name, err->text);
	metric_add(&j->counts[t->kind].retries, 1);
	t->due_us = t->trouble.due_us;
}

/* It took a step, or ended. False: it is no longer ours. */
static bool stepped(struct jobs *j, struct tracked *t, const struct calling *c)
{
	const struct job  *job = &c->stepped.job;
	struct job_counts *counts = &j->counts[t->kind];

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
		log_error("the job %s (%s) failed: %.*s", t->id, kind_of(j, t)->name, BYTES_ARG(job->error));
	return false;
}

/* False: the job has ended. */
static bool step(struct jobs *j, struct tracked *t)
{
	struct calling c;
	struct err     err;
	bool           goes_on = true;

	calling_init(&c, j);
	c.turn = (struct job_turn){.running = {.id = bytes_of(t->id),
	                                       .kind = bytes_of(kind_of(j, t)->name),
	                                       .key = bytes_of(t->key)},
	                           .steps = JOB_ANY_STEP};
	if (step_run(&c, kind_of(j, t), &err) == ERR_NONE)
		goes_on = stepped(j, t, &c);
	else
		back_off(j, t, &err);
	own_call_release(&c.own);
	return goes_on;
}

/* (2) */
static void step_all(struct jobs *j)
{
	for (unsigned i = 0; i < j->count && worker_goes_on(&j->worker);) {
		if (j->list[i].due_us > steady_us() || step(j, &j->list[i]))
			i++;
		else
			untrack(j, i);
	}
}

/* ---- the worker ---- */

/* Others that wait are looked for as soon as there is room. */
static bool look_is_due(const struct jobs *j)
{
	return steady_us() >= j->look_us || (j->more && j->count < JOBS_TRACKED_MAX / 2);
}

static int64_t next_due_us(const struct jobs *j)
{
	int64_t due_us = look_is_due(j) ? 0 : j->look_us;

	for (unsigned i = 0; i < j->count; i++)
		if (j->list[i].due_us < due_us)
			due_us = j->list[i].due_us;
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
static bool await(struct jobs *j)
{
	int64_t         us = next_due_us(j) - steady_us();
	struct timespec until = after_us(us > 0 ? us : 0);
	bool            goes_on;
	int             rc = us > 0 ? 0 : ETIMEDOUT;

	pthread_mutex_lock(&j->lock);
	while (!j->asked && !j->stopping && rc == 0)
		rc = pthread_cond_timedwait(&j->changed, &j->lock, &until);
	if (j->asked)
		j->look_us = 0;
	j->asked = false;
	goes_on = !j->stopping;
	pthread_mutex_unlock(&j->lock);
	return goes_on;
}

static void wait_set(struct jobs *j)
{
	bool found = j->count > 0 || j->look_us == 0; /* or somebody asked */

	j->wait_us = worker_rest_us(j->wait_us, JOBS_LOOK_S * INT64_C(1000000),
	                            store_rest_us(j->options.store, JOBS_REST_S), found);
	j->look_us = steady_us() + j->wait_us;
}

static void jobs_main(struct worker *w, void *ctx)
{
	struct jobs *j = ctx;

	do {
		worker_begin(w);
		if (look_is_due(j)) {
			start_due(j);
			look(j);
			wait_set(j);
		}
		step_all(j);
		count_running(j);
		worker_idle(w);
	} while (await(j));
}

static void wake(void *ctx)
{
	struct jobs *j = ctx;

	pthread_mutex_lock(&j->lock);
	j->asked = true;
	pthread_cond_signal(&j->changed);
	pthread_mutex_unlock(&j->lock);
}

enum err_code jobs_open(struct jobs **out, const struct jobs_options *options, struct err *err)
{
	struct jobs       *j = calloc(1, sizeof(*j));
	pthread_condattr_t monotonic;

	assert(j != NULL && options->kind_count <= JOB_KINDS_MAX);
	j->options = *options;
	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&j->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	options->services->jobs = (struct jobs_settings){.kinds = options->kinds,
	                                                 .counts = j->counts,
	                                                 .kind_count = options->kind_count,
	                                                 .wake = wake,
	                                                 .wake_ctx = j};
	worker_init(&j->worker, &(struct worker_options){.name = "jobs", .main = jobs_main, .ctx = j});
	*out = j;
	return worker_start(&j->worker, err);
}

void jobs_close(struct jobs *j)
{
	pthread_mutex_lock(&j->lock);
	j->stopping = true;
	pthread_cond_signal(&j->changed);
	pthread_mutex_unlock(&j->lock);
	worker_join(&j->worker);
	j->options.services->jobs = (struct jobs_settings){0};
	worker_release(&j->worker);
	pthread_cond_destroy(&j->changed);
	pthread_mutex_destroy(&j->lock);
	free(j);
}
