/* The worker of jobs, on an engine and on the rough store: it finds jobs, takes their steps in turn, tries again, and ends in order.
 * The numbers are those of server/jobs.h. */
#include "service/turn.h"

#include <semaphore.h>
#include <stdatomic.h>

#include "server/jobs.h"

/* ---- kinds that say what they do ---- */

enum { LOG_MAX = 4096 };

static struct {
	sem_t        ended, under_way, go_on; /* a job's last step; a step that waits; that may end */
	atomic_uint  steps, fetched, troubles;
	_Atomic char order[LOG_MAX]; /* the letter of each step's job */
	atomic_bool  troubled, patient;
} told;

static void tell_reset(void)
{
	memset(&told, 0, sizeof(told));
	sem_init(&told.ended, 0, 0);
	sem_init(&told.under_way, 0, 0);
	sem_init(&told.go_on, 0, 0);
}

/* As many steps as `rows` says. */
static enum err_code count_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	struct bytes letter = row_text(&job->args, "letter");
	unsigned     n = atomic_fetch_add(&told.steps, 1);

	(void)fetched;
	if (n < LOG_MAX - 1 && letter.len == 1)
		told.order[n] = letter.data[0];
	if (atomic_load(&told.troubled) && atomic_fetch_add(&told.troubles, 1) < 2)
		return err_set(err, ERR_OVERLOADED, "not now");
	if (row_i64(&job->args, "rows", 0) < 0)
		return err_set(err, ERR_INVALID, "never");
	job_count(ctx, job, "steps", 1);
	job->handled = 1;
	job->done = row_i64(&job->progress, "steps", 0) >= row_i64(&job->args, "rows", 0);
	return ERR_NONE;
}

static enum err_code fetching(struct context *ctx, const struct job *job, void **out, struct err *err)
{
	(void)err;
	*out = arena_copy(ctx->arena, job->id).data == NULL ? NULL : (void *)"fetched";
	atomic_fetch_add(&told.fetched, 1);
	if (atomic_load(&told.patient)) {
		sem_post(&told.under_way);
		sem_wait(&told.go_on);
	}
	return ERR_NONE;
}

static enum err_code fetched_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	if (fetched == NULL || strcmp(fetched, "fetched") != 0)
		return err_set(err, ERR_INVALID, "nothing was fetched");
	return count_step(ctx, job, fetched, err);
}

static int64_t hourly(const struct services *s)
{
	(void)s;
	return 3600;
}

static const struct job_kind        plain = {.name = "plain", .can_cancel = true, .step = count_step};
static const struct job_kind        fetcher = {.name = "fetcher", .fetch = fetching, .step = fetched_step};
static const struct job_kind        regular = {.name = "regular", .step = count_step, .period_s = hourly};
static const struct job_kind        alarm_kind = {.name = "alarm", .urgent = true, .step = count_step};
static const struct job_kind *const usual_kinds[] = {&plain, &fetcher, &alarm_kind};
static const struct job_kind *const all_kinds[] = {&plain, &fetcher, &alarm_kind, &regular};

/* ---- a server of jobs alone ---- */

struct site {
	struct service s;
	struct jobs   *jobs;
};

static struct store *store_of(struct site *x)
{
	return x->s.rough != NULL ? &x->s.rough->base : engine_store(x->s.f.engine);
}

static void site_start(struct site *x, bool periodic)
{
	struct jobs_options options = {.services = &x->s.all,
	                               .store = store_of(x),
	                               .kinds = periodic ? all_kinds : usual_kinds,
	                               .kind_count = periodic ? 4 : 3};

	assert_int_equal(jobs_open(&x->jobs, &options, &x->s.f.err), ERR_NONE);
}

static void site_open(struct site *x)
{
	tell_reset();
	service_open(&x->s, NULL);
}

static void site_close(struct site *x)
{
	jobs_close(x->jobs);
	service_close(&x->s);
}

struct call {
	struct turn            turn;
	const struct job_kind *kind;
	const char            *letter, *caller; /* NULL: of nobody's */
	int64_t                rows;
	struct bytes           id;
	struct job_started     started;
	struct job             job;
};

static enum err_code start(struct turn *t, struct err *err)
{
	struct call   *c = (struct call *)t;
	struct job_new q = {.kind = c->kind};
	struct row     args;

	if (c->caller != NULL)
		t->ctx.caller = bytes_of(c->caller);
	row_init(&args, t->ctx.arena);
	row_set_i64(&args, "rows", c->rows);
	row_set_text(&args, "letter", bytes_of(c->letter));
	q.args = row_item(&args);
	return job_start(&t->ctx, &q, &c->started, err);
}

static enum err_code get(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return job_get(&t->ctx, c->id, &c->job, err);
}

static struct bytes started(struct site *x, const struct job_kind *kind, const char *letter, int64_t rows)
{
	struct call c = {.kind = kind, .letter = letter, .rows = rows};

	turn_take(&x->s, &c.turn, start);
	jobs_wake(&x->s.all);
	return c.started.job.id;
}

/* By a caller whose name is the letter. */
static struct bytes started_by(struct site *x, const char *letter, int64_t rows)
{
	struct call c = {.kind = &plain, .letter = letter, .caller = letter, .rows = rows};

	turn_take(&x->s, &c.turn, start);
	jobs_wake(&x->s.all);
	return c.started.job.id;
}

/* Asks until it has ended: each answer waits for the turns before it. */
static struct job ended(struct site *x, struct bytes id)
{
	struct call c = {.id = id};

	do
		turn_take(&x->s, &c.turn, get);
	while (c.job.state == JOB_RUNNING);
	return c.job;
}

/* ---- */

TEST(jobs, a_job_runs_to_its_end_when_the_worker_is_woken)
{
	struct site x;
	struct job  j;

	site_open(&x);
	site_start(&x, false);
	j = ended(&x, started(&x, &plain, "a", 5));
	assert_int_equal(j.state, JOB_DONE);
	assert_int_equal(j.steps, 5);
	assert_bytes(j.caller, "-");
	site_close(&x);
}

TEST(jobs, a_job_that_was_left_running_goes_on_after_a_start)
{
	struct site  x;
	struct bytes id;

	site_open(&x);
	id = started(&x, &plain, "a", 3); /* nobody hears the wake */
	site_start(&x, false);
	assert_int_equal(ended(&x, id).state, JOB_DONE);
	site_close(&x);
}

/* (2) */
TEST(jobs, two_jobs_take_their_steps_in_turn)
{
	struct site  x;
	struct bytes a, b;

	site_open(&x);
	a = started(&x, &plain, "a", 20);
	b = started(&x, &plain, "b", 20);
	site_start(&x, false);
	assert_int_equal(ended(&x, a).steps + ended(&x, b).steps, 40);
	if (x.s.rough == NULL) /* there steps are also decided again */
		for (unsigned i = 1; i < 40; i++)
			assert_int_not_equal(told.order[i], told.order[i - 1]);
	site_close(&x);
}

/* (1) */
TEST(jobs, more_jobs_than_are_under_way_at_once_all_end)
{
	enum { MANY = 2 * JOBS_TRACKED_MAX + 1 };
	struct site  x;
	struct bytes ids[MANY];

	site_open(&x);
	for (int i = 0; i < MANY; i++)
		ids[i] = started(&x, &plain, "a", 2);
	site_start(&x, false);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(ended(&x, ids[i]).state, JOB_DONE);
	site_close(&x);
}

/* Steps of all jobs until the n-th of that letter. */
static unsigned steps_until(char letter, unsigned n)
{
	unsigned at = 0;

	for (unsigned seen = 0; at < LOG_MAX && seen < n; at++)
		seen += told.order[at] == letter;
	return at;
}

/* (1), (2) */
TEST(jobs, a_caller_with_many_jobs_does_not_keep_another_waiting)
{
	enum { MANY = 3 * JOBS_TRACKED_MAX, STEPS = 5 };
	struct site  x;
	struct bytes b;

	site_open(&x);
	for (int i = 0; i < MANY; i++)
		started_by(&x, "a", 15);
	site_start(&x, false);
	while (atomic_load(&told.steps) < JOBS_TRACKED_MAX) /* the first ones are under way */
		;
	b = started_by(&x, "b", STEPS);
	assert_int_equal(ended(&x, b).state, JOB_DONE);
	if (x.s.rough == NULL) /* there steps are also decided again */
		assert_in_range(steps_until('b', STEPS) - steps_until('b', 1), 2 * STEPS - 2, 2 * STEPS + 2);
	assert_in_range(steps_until('b', STEPS), STEPS, 1000); /* of about 2880 */
	site_close(&x);
}

/* (1) */
TEST(jobs, callers_share_what_can_be_under_way_and_all_jobs_end)
{
	enum { CALLERS = 5, EACH = JOBS_TRACKED_MAX / 2 };
	static const char *const letters[CALLERS] = {"a", "b", "c", "d", "e"};
	struct site              x;
	struct bytes             ids[CALLERS][EACH];

	site_open(&x);
	for (int c = 0; c < CALLERS; c++)
		for (int i = 0; i < EACH; i++)
			ids[c][i] = started_by(&x, letters[c], 3);
	site_start(&x, false);
	for (int c = 0; c < CALLERS; c++)
		for (int i = 0; i < EACH; i++)
			assert_int_equal(ended(&x, ids[c][i]).state, JOB_DONE);
	if (x.s.rough == NULL)
		for (int c = 0; c < CALLERS; c++)
			assert_in_range(steps_until(letters[c][0], 1), 1, CALLERS);
	site_close(&x);
}

TEST(jobs, of_an_urgent_kind_wait_for_no_other_not_even_for_a_step_under_way)
{
	struct site x;

	site_open(&x);
	atomic_store(&told.patient, true);
	site_start(&x, false);
	started(&x, &fetcher, "f", 1);
	sem_wait(&told.under_way);
	assert_int_equal(ended(&x, started(&x, &alarm_kind, "u", 3)).state, JOB_DONE);
	atomic_store(&told.patient, false);
	sem_post(&told.go_on);
	site_close(&x);
}

TEST(jobs, a_step_that_fails_for_the_moment_is_tried_again)
{
	struct site x;
	struct job  j;

	site_open(&x);
	log_set_level(LOG_ERROR);
	atomic_store(&told.troubled, true);
	site_start(&x, false);
	j = ended(&x, started(&x, &plain, "a", 1));
	assert_int_equal(j.state, JOB_DONE);
	assert_int_equal(j.steps, 1);
	assert_true(metric_value(&x.s.all.jobs.counts[0].retries) >= 1);
	site_close(&x);
}

TEST(jobs, a_step_that_fails_for_good_ends_the_job_with_its_error)
{
	struct site x;
	struct job  j;

	site_open(&x);
	log_set_level(LOG_ERROR + 1);
	site_start(&x, false);
	j = ended(&x, started(&x, &plain, "a", -1));
	assert_int_equal(j.state, JOB_FAILED);
	assert_bytes(j.error, "never");
	site_close(&x);
}

TEST(jobs, what_is_fetched_reaches_the_step)
{
	struct site x;
	struct job  j;

	site_open(&x);
	site_start(&x, false);
	j = ended(&x, started(&x, &fetcher, "f", 3));
	assert_int_equal(j.state, JOB_DONE);
	assert_true(atomic_load(&told.fetched) >= 3);
	site_close(&x);
}

/* (3) */
TEST(jobs, a_stop_waits_for_the_step_under_way_and_the_next_start_goes_on)
{
	struct site  x;
	struct bytes id;
	struct call  c = {0};

	site_open(&x);
	atomic_store(&told.patient, true);
	site_start(&x, false);
	id = started(&x, &fetcher, "f", 3);
	sem_wait(&told.under_way);
	atomic_store(&told.patient, false);
	sem_post(&told.go_on);
	jobs_close(x.jobs);
	c.id = id;
	turn_take(&x.s, &c.turn, get);
	assert_true(c.job.steps >= 1 || c.job.state == JOB_RUNNING);
	site_start(&x, false);
	assert_int_equal(ended(&x, id).steps, 3);
	site_close(&x);
}

TEST(jobs, of_a_kind_that_is_not_known_wait)
{
	struct site  x;
	struct bytes strange, id;
	struct call  c = {0};

	site_open(&x);
	log_set_level(LOG_ERROR);
	strange = started(&x, &regular, "r", 1);
	id = started(&x, &plain, "a", 1);
	site_start(&x, false);
	assert_int_equal(ended(&x, id).state, JOB_DONE);
	c.id = strange;
	turn_take(&x.s, &c.turn, get);
	assert_int_equal(c.job.state, JOB_RUNNING);
	site_close(&x);
}

/* Asks until the worker has started it. */
static struct bytes regular_one(struct site *x)
{
	struct table_query_result r;

	do
		r = fixture_ok(&x->s.f, "Query",
		               "{'TableName':'gatehouse-jobs','KeyConditionExpression':'PK = :p',"
		               "'FilterExpression':'kind = :k','ExpressionAttributeValues':"
		               "{':p':{'S':'JOBS'},':k':{'S':'regular'}}}")
		            .query;
	while (r.count == 0);
	return row_text(&r.items[0], "SK");
}

TEST(jobs, of_a_kind_with_a_period_are_started_by_the_worker)
{
	struct site x;
	struct job  j;

	site_open(&x);
	started(&x, &plain, "a", 1); /* makes the table */
	site_start(&x, true);
	j = ended(&x, regular_one(&x));
	assert_int_equal(j.state, JOB_DONE);
	assert_bytes(j.caller, "gatehouse");
	site_close(&x);
}
