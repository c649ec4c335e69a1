/* Which requests share a commit, also one that fails. Time stands still unless a test moves it, so a batch ends only for the reason
 * that the test is about. */
#include "engine/fixture.h"
#include "engine/gate.h"

#include <time.h>

#include "base/fault.h"

enum {
	MANY = 8,           /* RUN_AT of writer.c */
	GATHERING_US = 500, /* GATHERING_US_MAX of writer.c */
	DONE_S_MAX = 10,
};

/* Requests that do nothing, or put a row each, and the number of the batch that each was committed with. */
struct crowd {
	struct engine  *engine;
	struct fixture *rows; /* each puts one, with this one's arena; NULL: none does */
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	unsigned        done;
	unsigned        woken, seen; /* how often it was woken, and how many were done the last time */
	struct one {
		struct turn_request base;
		struct crowd       *crowd;
		int                 number;
		uint64_t            batch;
	} members[MANY];
};

#define KEY_OF_MEMBER "{'p':{'S':'crowd'},'s':{'S':'%d'}}"

static const char *row_of(struct fixture *f, const char *before, int number, const char *after)
{
	return arena_printf(&f->arena, "%s" KEY_OF_MEMBER "%s%c", before, number, after, '\0').data;
}

static enum err_code member_run(struct turn_request *r, struct table *t)
{
	struct one               *m = (struct one *)r;
	struct fixture           *f = m->crowd->rows;
	struct dynamo_request     q;
	struct table_write_result result;
	struct json              *body;

	if (f == NULL)
		return ERR_NONE;
	body = fixture_json(f, row_of(f, "{'TableName':'things','Item':", m->number, "}"));
	if (request_put(&f->arena, body, &q, &r->err) != ERR_NONE)
		return r->err.code;
	return t->backend->write(t, &f->arena, &q.write, &result, &r->err);
}

static void crowd_wake(void *crowd)
{
	struct crowd *c = crowd;

	pthread_mutex_lock(&c->lock);
	c->woken++;
	c->seen = c->done;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static void member_done(struct turn_request *r)
{
	struct one *m = (struct one *)r;

	pthread_mutex_lock(&m->crowd->lock);
	m->batch = engine_stats(m->crowd->engine).batches;
	m->crowd->done++;
	pthread_mutex_unlock(&m->crowd->lock);
	if (!wakes_has(r->wakes, m->crowd))
		assert_true(wakes_add(r->wakes, crowd_wake, m->crowd));
}

static void crowd_submit(struct crowd *c, struct fixture *f)
{
	*c = (struct crowd){.engine = f->engine,
	                    .rows = c->rows,
	                    .lock = PTHREAD_MUTEX_INITIALIZER,
	                    .changed = PTHREAD_COND_INITIALIZER};
	for (int i = 0; i < MANY; i++) {
		c->members[i] = (struct one){
		        .base = {.run = member_run, .done = member_done}, .crowd = c, .number = i};
		assert_int_equal(engine_submit(f->engine, &c->members[i].base, &f->err), ERR_NONE);
	}
}

static void crowd_await(struct crowd *c)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DONE_S_MAX;
	pthread_mutex_lock(&c->lock);
	while (c->seen < MANY)
		assert_int_equal(pthread_cond_timedwait(&c->changed, &c->lock, &until), 0);
	pthread_mutex_unlock(&c->lock);
}

/* A batch of one that does nothing until it is let go, with a crowd that came meanwhile, and the time that passed. */
static void run_with_crowd(struct fixture *f, struct crowd *c, int64_t passed_us)
{
	struct gate gate;

	gate_close(&gate, f->engine);
	crowd_submit(c, f);
	engine_gathered(f->engine);
	clock_manual_set(&f->clock, clock_steady_us(&f->clock.base) + passed_us);
	gate_open(&gate);
	crowd_await(c);
	assert_int_equal(gate.base.rc, c->members[0].base.rc); /* they were in one batch, or all went well */
}

TEST(batch, many_that_wait_are_run_before_their_loop_has_submitted_the_last)
{
	struct fixture f;
	struct crowd   c = {0};

	fixture_open(&f);
	crowd_submit(&c, &f);
	crowd_await(&c);
	fixture_close(&f);
}

TEST(batch, what_comes_while_a_batch_is_run_is_committed_with_it)
{
	struct fixture f;
	struct crowd   c = {0};
	uint64_t       before;

	fixture_open(&f);
	before = engine_stats(f.engine).batches;
	run_with_crowd(&f, &c, 0);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(c.members[i].batch, before + 1);
	fixture_close(&f);
}

TEST(batch, whoever_waits_for_several_of_a_batch_is_woken_once_when_all_are_done)
{
	struct fixture f;
	struct crowd   c = {0};

	fixture_open(&f);
	run_with_crowd(&f, &c, 0);
	assert_int_equal(c.woken, 1);
	fixture_close(&f);
}

TEST(batch, what_comes_too_late_for_a_batch_is_committed_with_the_next)
{
	struct fixture f;
	struct crowd   c = {0};
	uint64_t       before;

	fixture_open(&f);
	before = engine_stats(f.engine).batches;
	run_with_crowd(&f, &c, GATHERING_US);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(c.members[i].batch, before + 2);
	fixture_close(&f);
}

/* Nine are under way: the gate and the crowd. A flush takes no time here, so any time is long beside it. */
TEST(batch, one_that_takes_long_beside_a_flush_ends_at_half_of_those_under_way)
{
	struct fixture f;
	struct crowd   c = {0};
	uint64_t       before;

	fixture_open(&f);
	run_with_crowd(&f, &c, 0);
	before = engine_stats(f.engine).batches;
	run_with_crowd(&f, &c, GATHERING_US / 2);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(c.members[i].batch, before + (i < 3 ? 1 : 2));
	fixture_close(&f);
}

/* ---- a batch that took others on, and whose flush fails (W3) ---- */

static void assert_no_row_of(struct fixture *f)
{
	for (int i = 0; i < MANY; i++)
		assert_get(f, "things", row_of(f, "", i, ""), NULL);
}

/* The gate began the batch; all the others came while it was run, and were taken on. */
static void fail_with_crowd(struct fixture *f, struct crowd *c)
{
	uint64_t before = engine_stats(f->engine).batches;

	c->rows = f;
	fault_arm(FAULT_COMMIT, 0);
	run_with_crowd(f, c, 0);
	fault_disarm(FAULT_COMMIT);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(c->members[i].batch, before + 1);
		assert_int_equal(c->members[i].base.rc, ERR_STORAGE);
		assert_true(bytes_starts_with(bytes_of(c->members[i].base.err.text),
		                              BYTES("the outcome is unknown: ")));
	}
}

TEST(batch, whose_flush_fails_is_done_for_nobody_also_not_for_those_it_took_on)
{
	struct crowd   c = {0}, later = {0};
	struct fixture f;

	fixture_open(&f);
	fixture_ok(&f, "CreateTable", TABLE_PS);
	fail_with_crowd(&f, &c);
	assert_no_row_of(&f);
	assert_int_equal(engine_submit(f.engine, &later.members[0].base, &f.err), ERR_STORAGE);
	fixture_restart(&f);
	assert_no_row_of(&f);
	assert_int_equal(fixture_ok(&f, "DescribeTable", "{'TableName':'things'}").table.item_count, 0);
	later.rows = &f;
	run_with_crowd(&f, &later, 0);
	for (int i = 0; i < MANY; i++)
		assert_get(&f, "things", row_of(&f, "", i, ""), row_of(&f, "", i, ""));
	assert_verified(&f);
	fixture_close(&f);
}
