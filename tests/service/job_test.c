/* Jobs: what job.h promises, on the engine or the rough store, and races on the rough store. The numbers are those of job.h. */
#include "service/scene.h"
#include "service/turn.h"

#include "service/job.h"

/* ---- a kind that puts as many rows as its args say, a few with each step ---- */

enum { ROWS_A_STEP = 3 };

static enum err_code fill_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	int64_t rows = row_i64(&job->args, "rows", 0), done = row_i64(&job->progress, "written", 0);

	(void)fetched;
	if (rows < 0)
		return err_set(err, rows == -1 ? ERR_INVALID : ERR_OVERLOADED, "no good: %lld",
		               (long long)rows);
	for (int i = 0; i < ROWS_A_STEP && done < rows; i++, done++) {
		struct row row;

		row_init(&row, ctx->arena);
		row_set_text(&row, "PK", BYTES("filled"));
		row_set_text(&row, "SK", arena_printf(ctx->arena, "A#B#%lld", (long long)done));
		row_set_i64(&row, "count", 1);
		ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
		job->handled++;
	}
	job_count(ctx, job, "written", job->handled);
	job->cursor = arena_printf(ctx->arena, "%lld", (long long)done);
	job->done = done == rows;
	return ERR_NONE;
}

static int64_t daily(const struct services *s)
{
	(void)s;
	return 86400;
}

static const struct job_kind fill = {.name = "fill", .rate = 1000, .can_cancel = true, .step = fill_step};
static const struct job_kind firm = {.name = "firm", .step = fill_step};
static const struct job_kind nightly = {.name = "nightly", .step = fill_step, .period_s = daily};
static const struct job_kind *const kinds[] = {&fill, &firm, &nightly};

static struct job_counts counts[3];

static void jobs_on(struct services *all)
{
	all->jobs = (struct jobs_settings){.kinds = kinds, .counts = counts, .kind_count = 3};
}

/* ---- calls ---- */

struct call {
	struct turn            turn;
	const struct job_kind *kind;
	int64_t                rows, rate;
	struct bytes           unique, id;
	struct job_turn        q;
	const char            *why;
	struct job_started     started;
	struct job_stepped     stepped;
	struct job             job;
	struct jobs_search     search;
	struct jobs_page       page;
	struct jobs_running    running;
};

static struct job_new new_of(struct arena *a, const struct call *c)
{
	struct row args;

	row_init(&args, a);
	row_set_i64(&args, "rows", c->rows);
	return (struct job_new){
	        .kind = c->kind, .args = row_item(&args), .unique = c->unique, .rate = c->rate};
}

static enum err_code start(struct turn *t, struct err *err)
{
	struct call   *c = (struct call *)t;
	struct job_new q = new_of(t->ctx.arena, c);

	return job_start(&t->ctx, &q, &c->started, err);
}

static enum err_code periodic(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return job_start_periodic(&t->ctx, c->kind, &c->started, err);
}

static enum err_code step(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return c->why == NULL ? job_step(&t->ctx, &c->q, &c->stepped, err)
	                      : job_fail(&t->ctx, &c->q, c->why, &c->stepped, err);
}

static enum err_code get(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return job_get(&t->ctx, c->id, &c->job, err);
}

static enum err_code cancel(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return job_cancel(&t->ctx, c->id, &c->job, err);
}

static enum err_code resume(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return job_resume(&t->ctx, c->id, &c->job, err);
}

static enum err_code find(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return jobs_find(&t->ctx, &c->search, &c->page, err);
}

static enum err_code find_running(struct turn *t, struct err *err)
{
	struct call *c = (struct call *)t;

	return jobs_running(&t->ctx, &(struct jobs_look){.after = c->id, .limit = 100}, &c->running, err);
}

/* ---- words ---- */

static struct job started(struct service *s, const struct job_kind *kind, int64_t rows, const char *unique)
{
	struct call c = {.kind = kind, .rows = rows, .unique = text_or(unique, NULL)};

	turn_take(s, &c.turn, start);
	assert_false(c.started.existed);
	return c.started.job;
}

static struct job_turn turn_of(struct service *s, const struct job *j)
{
	return (struct job_turn){.running = {.id = j->id,
	                                     .kind = j->kind,
	                                     .key = arena_printf(&s->f.arena, "%.*s#%.*s", BYTES_ARG(j->kind),
	                                                         BYTES_ARG(j->unique))},
	                         .steps = JOB_ANY_STEP};
}

static struct job_stepped stepped(struct service *s, const struct job *j)
{
	struct call c = {.q = turn_of(s, j)};

	turn_take(s, &c.turn, step);
	return c.stepped;
}

static struct job seen(struct service *s, struct bytes id)
{
	struct call c = {.id = id};

	turn_take(s, &c.turn, get);
	return c.job;
}

static uint32_t running(struct service *s)
{
	struct call c = {0};

	turn_take(s, &c.turn, find_running);
	return c.running.count;
}

static void assert_state(struct service *s, const struct job *j, enum job_state state)
{
	assert_int_equal(seen(s, j->id).state, state);
}

static void refused(struct service *s, struct call *c, enum err_code (*run)(struct turn *, struct err *),
                    const char *why)
{
	assert_int_equal(turn_try(s, &c->turn, run), ERR_NOT_NOW);
	assert_non_null(strstr(s->f.err.text, why));
}

static void open(struct service *s)
{
	service_open(s, NULL);
	jobs_on(&s->all);
}

/* ---- alone ---- */

TEST(job, takes_steps_until_the_last_and_tells_its_progress)
{
	struct service     s;
	struct job         j, end;
	struct job_stepped last;

	open(&s);
	j = started(&s, &fill, 7, NULL);
	assert_int_equal(j.rate, 1000);
	assert_int_equal(running(&s), 1);
	assert_true(stepped(&s, &j).taken);
	assert_int_equal(seen(&s, j.id).steps, 1);
	assert_bytes(seen(&s, j.id).cursor, "3");
	stepped(&s, &j);
	last = stepped(&s, &j);
	assert_true(last.taken);
	assert_int_equal(last.job.handled, 1);
	end = seen(&s, j.id);
	assert_int_equal(end.state, JOB_DONE);
	assert_int_equal(row_i64(&end.progress, "written", 0), 7);
	assert_int_equal(row_i64(&end.row, "ttl", 0), START_S + JOB_KEPT_S); /* (4) */
	assert_int_equal(rows_in_table(&s), 7);
	assert_int_equal(running(&s), 0);    /* (1) */
	assert_false(stepped(&s, &j).taken); /* (4) */
	assert_int_equal(rows_in_table(&s), 7);
	service_close(&s);
}

TEST(job, of_a_unique_text_runs_once_and_is_found_by_who_starts_it_again)
{
	struct service s;
	struct call    again = {.kind = &fill, .unique = BYTES("x")};
	struct job     first, other;

	open(&s);
	first = started(&s, &fill, 3, "x");
	turn_take(&s, &again.turn, start);
	assert_true(again.started.existed);
	assert_true(bytes_equal(again.started.job.id, first.id));
	other = started(&s, &fill, 3, "y");
	assert_int_equal(running(&s), 2);
	stepped(&s, &first);
	assert_state(&s, &first, JOB_DONE);
	assert_state(&s, &other, JOB_RUNNING);
	started(&s, &fill, 3, "x"); /* the place is free again */
	service_close(&s);
}

TEST(job, whose_numbers_somebody_else_wrote_is_counted_on)
{
	struct arena a;
	struct row   row;
	struct item  item;
	struct job   j = {.steps = 0};

	arena_init(&a);
	row_init(&row, &a);
	row_set_i64(&row, "most", INT64_MAX);
	row_set_i64(&row, "least", INT64_MIN);
	item = row_item(&row);
	assert_int_equal(row_i64(&item, "most", 0), ROW_I64_MAX);
	assert_int_equal(row_i64(&item, "least", 0), -ROW_I64_MAX);
	j.progress = item;
	job_count(&(struct context){.arena = &a}, &j, "most", 1);
	assert_true(row_i64(&j.progress, "most", 0) > 0);
	arena_release(&a);
}

TEST(job, that_is_cancelled_takes_no_step_until_it_is_resumed_and_goes_on_where_it_was)
{
	struct service s;
	struct call    c = {0};
	struct job     j;

	open(&s);
	j = started(&s, &fill, 5, NULL);
	stepped(&s, &j);
	c.id = j.id;
	turn_take(&s, &c.turn, cancel);
	turn_take(&s, &c.turn, cancel); /* changes nothing */
	assert_int_equal(c.job.state, JOB_CANCELLED);
	assert_true(c.job.ended_at.len > 0);
	assert_int_equal(running(&s), 0);
	assert_false(stepped(&s, &j).taken);
	turn_take(&s, &c.turn, resume);
	assert_int_equal(c.job.state, JOB_RUNNING);
	assert_int_equal(c.job.ended_at.len, 0);
	assert_null(item_get(&c.job.row, BYTES("ttl")));
	stepped(&s, &j);
	assert_int_equal(rows_in_table(&s), 5);
	refused(&s, &c, cancel, "has ended");
	refused(&s, &c, resume, "is done");
	service_close(&s);
}

TEST(job, of_a_kind_that_must_not_stop_halfway_is_not_cancelled)
{
	struct service s;
	struct call    c = {0};

	open(&s);
	c.id = started(&s, &firm, 5, NULL).id;
	refused(&s, &c, cancel, "cannot be cancelled");
	service_close(&s);
}

TEST(job, that_fails_for_good_keeps_its_error_and_is_resumed)
{
	struct service s;
	struct call    c = {0};
	struct job     j;

	open(&s);
	j = started(&s, &fill, -1, NULL);
	c.q = turn_of(&s, &j);
	assert_int_equal(turn_try(&s, &c.turn, step), ERR_INVALID);
	assert_false(job_fails_for_now(ERR_INVALID));
	assert_int_equal(seen(&s, j.id).steps, 0); /* (3) */
	c.why = arena_printf(&s.f.arena, "%s", s.f.err.text).data;
	turn_take(&s, &c.turn, step);
	assert_state(&s, &j, JOB_FAILED);
	assert_bytes(seen(&s, j.id).error, "no good: -1");
	assert_int_equal(running(&s), 0);
	c.id = j.id;
	turn_take(&s, &c.turn, resume);
	assert_int_equal(seen(&s, j.id).error.len, 0);
	assert_int_equal(running(&s), 1);
	service_close(&s);
}

TEST(job, that_fails_for_the_moment_stays_as_it_was)
{
	struct service s;
	struct call    c = {0};
	struct job     j;

	open(&s);
	j = started(&s, &fill, -2, NULL);
	c.q = turn_of(&s, &j);
	assert_int_equal(turn_try(&s, &c.turn, step), ERR_OVERLOADED);
	assert_true(job_fails_for_now(ERR_OVERLOADED) && job_fails_for_now(ERR_DISK_FULL));
	assert_state(&s, &j, JOB_RUNNING);
	assert_int_equal(running(&s), 1);
	service_close(&s);
}

TEST(job, is_not_resumed_while_another_runs_in_its_place)
{
	struct service s;
	struct call    c = {0};

	open(&s);
	c.id = started(&s, &fill, 5, "x").id;
	turn_take(&s, &c.turn, cancel);
	started(&s, &fill, 5, "x");
	refused(&s, &c, resume, "another one");
	service_close(&s);
}

TEST(job, step_that_was_fetched_for_an_earlier_one_is_not_taken)
{
	struct service s;
	struct call    c = {0};
	struct job     j;

	open(&s);
	j = started(&s, &fill, 9, NULL);
	stepped(&s, &j);
	c.q = turn_of(&s, &j);
	c.q.steps = 0;
	turn_take(&s, &c.turn, step);
	assert_false(c.stepped.taken);
	assert_int_equal(seen(&s, j.id).steps, 1);
	c.q.steps = 1;
	turn_take(&s, &c.turn, step);
	assert_true(c.stepped.taken);
	service_close(&s);
}

/* Somebody removed it through DynamoDB's protocol. */
TEST(job, whose_row_is_gone_is_no_longer_running)
{
	struct service s;
	struct bytes   body;
	struct job     j;

	open(&s);
	j = started(&s, &fill, 9, NULL);
	body = arena_printf(&s.f.arena,
	                    "{'TableName':'gatehouse-jobs','Key':{'PK':{'S':'JOBS'},'SK':{'S':'%.*s'}}}%c",
	                    BYTES_ARG(j.id), '\0');
	fixture_ok(&s.f, "DeleteItem", body.data);
	assert_false(stepped(&s, &j).taken);
	assert_int_equal(running(&s), 0);
	service_close(&s);
}

TEST(job, that_is_due_is_started_once_in_its_period)
{
	struct service s;
	struct call    c = {.kind = &nightly};

	open(&s);
	turn_take(&s, &c.turn, periodic);
	assert_false(c.started.existed);
	stepped(&s, &c.started.job); /* no rows: it is done */
	at(&s, 86399);
	turn_take(&s, &c.turn, periodic);
	assert_true(c.started.existed);
	at(&s, 86400);
	turn_take(&s, &c.turn, periodic);
	assert_false(c.started.existed);
	at(&s, 2 * 86400); /* the one before still runs */
	turn_take(&s, &c.turn, periodic);
	assert_true(c.started.existed);
	c.kind = &fill; /* has no period */
	turn_take(&s, &c.turn, periodic);
	assert_true(c.started.existed);
	assert_int_equal(running(&s), 1);
	service_close(&s);
}

TEST(job, list_has_the_newest_first_in_pages_and_by_kind_and_state)
{
	struct service s;
	struct call    c = {.search = {.limit = 2}};
	struct bytes   ids[5];

	open(&s);
	for (int i = 0; i < 5; i++) {
		at(&s, i);
		ids[i] = started(&s, i == 2 ? &firm : &fill, 1, NULL).id;
	}
	for (int i = 4; i >= 0; i -= 2) {
		turn_take(&s, &c.turn, find);
		assert_true(bytes_equal(c.page.list[0].id, ids[i]));
		assert_int_equal(c.page.more, i > 0);
		c.search.before = c.page.last;
	}
	assert_int_equal(c.page.count, 1);
	c.search = (struct jobs_search){.limit = 5, .kind = BYTES("firm")};
	turn_take(&s, &c.turn, find);
	assert_int_equal(c.page.count, 1);
	c.search = (struct jobs_search){.limit = 5, .state = BYTES("done")};
	turn_take(&s, &c.turn, find);
	assert_int_equal(c.page.count, 0);
	at(&s, JOB_KEPT_S); /* running ones never expire */
	c.search = (struct jobs_search){.limit = 5};
	turn_take(&s, &c.turn, find);
	assert_int_equal(c.page.count, 5);
	service_close(&s);
}

TEST(job, that_has_ended_is_gone_after_its_time)
{
	struct service s;
	struct call    c = {0};
	struct job     j;

	open(&s);
	j = started(&s, &fill, 1, NULL);
	stepped(&s, &j);
	c.id = j.id;
	at(&s, JOB_KEPT_S - 1);
	turn_take(&s, &c.turn, get);
	at(&s, JOB_KEPT_S);
	assert_int_equal(turn_try(&s, &c.turn, get), ERR_NOT_FOUND);
	service_close(&s);
}

TEST(job, error_is_cut_at_its_bound_and_never_within_a_character)
{
	struct service s;
	struct call    c = {0};
	struct job     j;
	char           text[JOB_ERROR_BYTES_MAX + 2];

	open(&s);
	for (size_t len = JOB_ERROR_BYTES_MAX; len <= JOB_ERROR_BYTES_MAX + 1; len++) {
		j = started(&s, &fill, 1, NULL);
		memset(text, 'e', sizeof(text));
		memcpy(text + JOB_ERROR_BYTES_MAX - 1, len == JOB_ERROR_BYTES_MAX ? "e" : "ü",
		       len - JOB_ERROR_BYTES_MAX + 1);
		text[len] = '\0';
		c.q = turn_of(&s, &j);
		c.why = text;
		turn_take(&s, &c.turn, step);
		assert_int_equal(seen(&s, j.id).error.len,
		                 len == JOB_ERROR_BYTES_MAX ? JOB_ERROR_BYTES_MAX : JOB_ERROR_BYTES_MAX - 1);
	}
	service_close(&s);
}

/* ---- together ---- */

enum { WORKERS = 4, ROUNDS = 30 };

static struct job_turn contested;

static enum err_code act_step(struct act *act, struct err *err)
{
	struct job_stepped out;

	if (job_step(&act->ctx, &contested, &out, err) != ERR_NONE)
		return err->code;
	act->n = out.taken;
	return commit(act, err);
}

/* (2) */
TEST(job, of_several_workers_each_step_is_taken_by_one)
{
	struct scene x;
	struct act   acts[WORKERS];

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		struct job j;
		int64_t    written;

		scene_open(&x, seed, false);
		jobs_on(&x.s.all);
		j = started(&x.s, &fill, 100, NULL);
		contested = turn_of(&x.s, &j);
		for (int i = 0; i < WORKERS; i++)
			acts[i] = (struct act){.run = act_step};
		play_together(&x, acts, WORKERS);
		j = seen(&x.s, j.id);
		written = row_i64(&j.progress, "written", 0);
		assert_int_equal(written, ROWS_A_STEP * j.steps);
		assert_int_equal(rows_in_table(&x.s), written);
		scene_close(&x);
	}
}

static enum err_code act_start(struct act *act, struct err *err)
{
	struct job_new     q = {.kind = &fill, .unique = BYTES("x")};
	struct job_started out;

	if (job_start(&act->ctx, &q, &out, err) != ERR_NONE)
		return err->code;
	act->n = !out.existed;
	return commit(act, err);
}

/* (1) */
TEST(job, that_many_start_at_once_runs_once)
{
	struct scene x;
	struct act   acts[WORKERS];

	for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
		int made = 0;

		scene_open(&x, seed, false);
		jobs_on(&x.s.all);
		for (int i = 0; i < WORKERS; i++)
			acts[i] = (struct act){.run = act_start};
		play_together(&x, acts, WORKERS);
		for (int i = 0; i < WORKERS; i++)
			made += acts[i].n;
		assert_int_equal(made, 1);
		assert_int_equal(running(&x.s), 1);
		scene_close(&x);
	}
}
