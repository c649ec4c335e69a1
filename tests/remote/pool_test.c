/* Pool: turns that write about one subject run one after the other, those of others beside them. Turns here ask nobody for anything: they wait
 * until the test lets them go. */
#include "remote/pool.h"

#include <pthread.h>

#include "remote/line.h"
#include "test.h"

enum { TURNS_MAX = 256, TURN_US = 8000000, QUEUE_BYTES = 100000 };

#define DAY_US INT64_C(86400000000)

/* What happens, in order. Under lock. */
struct stage {
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	int  order[TURNS_MAX], began, done; /* the numbers of those that began; how many are done */
	int  hot, hot_most;                 /* turns about `hot` that run; the most at once */
	bool open;                          /* those that are held may go */
};

struct act {
	struct turn_request base; /* first */
	struct stage       *stage;
	int                 number, meets; /* meets: it goes when so many have begun */
	bool                held;          /* … when the stage is open */
	bool                makes_way;     /* … and before that lets the next one of its subject begin */
	bool                ran;
	int64_t             now_us, left_us; /* what its session says: the time, and how long it has */
};

struct world {
	struct remote       remote;
	struct clock_manual clock;
	struct pool        *pool;
	struct stage        stage;
	struct act          acts[TURNS_MAX];
	int                 count;
	struct err          err;
};

static const struct bytes hot = {"hot", 3};

static void world_open(struct world *w, unsigned workers)
{
	memset(w, 0, sizeof(*w));
	clock_manual_init(&w->clock, (int64_t)1794830400 * 1000000);
	w->remote.clock = w->remote.wire_clock = &w->clock.base;
	w->remote.turn_us = TURN_US;
	pthread_mutex_init(&w->stage.lock, NULL);
	pthread_cond_init(&w->stage.changed, NULL);
	assert_int_equal(pool_open(&w->pool, &w->remote, workers, QUEUE_BYTES, &w->err), ERR_NONE);
}

static void world_close(struct world *w)
{
	pool_close(w->pool);
	pthread_cond_destroy(&w->stage.changed);
	pthread_mutex_destroy(&w->stage.lock);
}

static enum err_code act_run(struct turn_request *turn, struct table *t)
{
	struct act   *a = (struct act *)turn;
	struct stage *s = a->stage;
	bool          is_hot = bytes_equal(turn->subject, hot);

	pthread_mutex_lock(&s->lock);
	a->ran = true;
	a->now_us = t->now_us;
	a->left_us = session_of(t)->deadline_us - clock_steady_us(session_of(t)->remote->wire_clock);
	s->order[s->began++] = a->number;
	s->hot += is_hot;
	s->hot_most = s->hot > s->hot_most ? s->hot : s->hot_most;
	pthread_cond_broadcast(&s->changed);
	if (a->makes_way) {
		pthread_mutex_unlock(&s->lock);
		t->backend->make_way(t);
		t->backend->make_way(t); /* once is enough */
		pthread_mutex_lock(&s->lock);
	}
	while ((a->held && !s->open) || s->began < a->meets)
		pthread_cond_wait(&s->changed, &s->lock);
	s->hot -= is_hot;
	pthread_mutex_unlock(&s->lock);
	return ERR_NONE;
}

static void act_done(struct turn_request *turn)
{
	struct stage *s = ((struct act *)turn)->stage;

	pthread_mutex_lock(&s->lock);
	s->done++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static enum err_code submit(struct world *w, struct bytes subject, struct act a)
{
	struct act *to = &w->acts[w->count];

	*to = a;
	to->base.run = act_run;
	to->base.done = act_done;
	to->base.subject = subject;
	to->stage = &w->stage;
	to->number = w->count++;
	return pool_submit(w->pool, &to->base, &w->err);
}

static void give(struct world *w, struct bytes subject, struct act a)
{
	assert_int_equal(submit(w, subject, a), ERR_NONE);
}

static void await(struct world *w, const int *what, int least)
{
	pthread_mutex_lock(&w->stage.lock);
	while (*what < least)
		pthread_cond_wait(&w->stage.changed, &w->stage.lock);
	pthread_mutex_unlock(&w->stage.lock);
}

static void let_go(struct world *w)
{
	pthread_mutex_lock(&w->stage.lock);
	w->stage.open = true;
	pthread_cond_broadcast(&w->stage.changed);
	pthread_mutex_unlock(&w->stage.lock);
}

/* One about the hot subject runs, and is held. */
static void hold_hot(struct world *w)
{
	give(w, hot, (struct act){.held = true});
	await(w, &w->stage.began, 1);
}

static void assert_nothing_waits(struct world *w)
{
	uint64_t turns;
	size_t   bytes;

	pool_read(w->pool, &turns, &bytes);
	assert_int_equal(bytes, 0);
}

TEST(line, of_one_subject_has_one_turn_at_a_time_and_the_oldest_first)
{
	struct world w;

	world_open(&w, 8);
	hold_hot(&w);
	for (int i = 0; i < 40; i++)
		give(&w, hot, (struct act){.base.cost_bytes = 10});
	for (int i = 0; i < 16;
	     i++) /* they come later, and are done: whoever waits in the queue was taken before */
		give(&w, (struct bytes){"other", 5}, (struct act){0});
	await(&w, &w.stage.done, 16);
	assert_int_equal(w.stage.began, 17);
	let_go(&w);
	await(&w, &w.stage.done, w.count);
	assert_int_equal(w.stage.hot_most, 1);
	for (int i = 17; i < w.count; i++)
		assert_int_equal(w.stage.order[i], i - 16);
	assert_nothing_waits(&w);
	world_close(&w);
}

/* Each goes when all have begun. */
TEST(line, is_for_turns_that_write_about_the_same_subject_only)
{
	struct world w;
	char         names[8][2];

	world_open(&w, 8);
	for (int i = 0; i < 2; i++)
		give(&w, (struct bytes){NULL, 0}, (struct act){.meets = 8});
	for (int i = 0; i < 2; i++)
		give(&w, hot, (struct act){.meets = 8, .base.reads = true});
	for (int i = 0; i < 4; i++) {
		names[i][0] = (char)('a' + i);
		give(&w, (struct bytes){names[i], 1}, (struct act){.meets = 8});
	}
	await(&w, &w.stage.done, 8);
	world_close(&w);
}

TEST(line, takes_up_one_worker_however_long_it_is)
{
	struct world w;

	world_open(&w, 2);
	hold_hot(&w);
	for (int i = 0; i < 50; i++)
		give(&w, hot, (struct act){0});
	for (int i = 0; i < 10; i++) {
		give(&w, (struct bytes){"other", 5}, (struct act){0});
		await(&w, &w.stage.done, i + 1);
	}
	let_go(&w);
	await(&w, &w.stage.done, w.count);
	assert_int_equal(w.stage.hot_most, 1);
	world_close(&w);
}

/* One worker: the next about the hot subject waits behind those that came meanwhile, but not behind all that come later. */
TEST(line, lets_others_go_between_its_turns)
{
	static const int order[] = {0, 3, 4, 1, 2};
	struct world     w;

	world_open(&w, 1);
	hold_hot(&w);
	give(&w, hot, (struct act){0});
	give(&w, hot, (struct act){0});
	give(&w, (struct bytes){"b", 1}, (struct act){0});
	give(&w, (struct bytes){"c", 1}, (struct act){0});
	let_go(&w);
	await(&w, &w.stage.done, 5);
	assert_memory_equal(w.stage.order, order, sizeof(order));
	world_close(&w);
}

TEST(line, that_is_full_refuses_at_once_and_no_other_subject)
{
	struct world w;

	world_open(&w, 2);
	hold_hot(&w);
	for (int i = 0; i < LINE_BEHIND_MAX; i++)
		give(&w, hot, (struct act){0});
	assert_int_equal(submit(&w, hot, (struct act){0}), ERR_CONTENDED);
	assert_non_null(strstr(w.err.text, "same subject"));
	w.count--;
	give(&w, (struct bytes){"other", 5}, (struct act){0});
	await(&w, &w.stage.done, 1);
	let_go(&w);
	await(&w, &w.stage.done, w.count);
	give(&w, hot, (struct act){0});
	await(&w, &w.stage.done, w.count);
	world_close(&w);
}

TEST(line, counts_against_the_bytes_that_may_wait)
{
	struct world w;

	world_open(&w, 2);
	hold_hot(&w);
	give(&w, hot, (struct act){.base.cost_bytes = QUEUE_BYTES});
	assert_int_equal(submit(&w, (struct bytes){"other", 5}, (struct act){.base.cost_bytes = 1}),
	                 ERR_OVERLOADED);
	w.count--;
	let_go(&w);
	await(&w, &w.stage.done, w.count);
	assert_nothing_waits(&w);
	world_close(&w);
}

/* The first in line has half of a turn's time behind it, and a microsecond. */
TEST(line, that_takes_too_long_refuses_those_who_waited_for_half_their_time)
{
	struct world w;
	int64_t      now;

	world_open(&w, 2);
	now = clock_steady_us(&w.clock.base);
	hold_hot(&w);
	give(&w, hot, (struct act){0});
	clock_manual_set(&w.clock, now + 1);
	give(&w, hot, (struct act){0});
	clock_manual_set(&w.clock, now + 1 + TURN_US / 2);
	let_go(&w);
	await(&w, &w.stage.done, 3);
	assert_int_equal(w.acts[0].base.rc, ERR_NONE);
	assert_false(w.acts[1].ran);
	assert_int_equal(w.acts[1].base.rc, ERR_CONTENDED);
	assert_true(w.acts[2].ran);
	assert_int_equal(w.acts[2].base.rc, ERR_NONE);
	world_close(&w);
}

/* Somebody sets the wall clock while turns stand in a line, by a day, forward or back. None of them has waited for longer or
 * shorter, and no time has passed for what they decide. */
static void step_in_line(int64_t by_us)
{
	struct world w;
	int64_t      now;

	world_open(&w, 2);
	now = clock_steady_us(&w.clock.base);
	hold_hot(&w);
	give(&w, hot, (struct act){0});
	clock_manual_set(&w.clock, now + 1);
	clock_manual_jump(&w.clock, by_us);
	give(&w, hot, (struct act){0});
	clock_manual_set(
	        &w.clock,
	        now + 1 + TURN_US / 2); /* half of a turn's time, and for the first a microsecond more */
	let_go(&w);
	await(&w, &w.stage.done, 3);
	assert_int_equal(w.acts[1].base.rc, ERR_CONTENDED);
	assert_true(w.acts[2].ran);
	assert_int_equal(w.acts[2].left_us, TURN_US / 2);
	assert_int_equal(w.acts[2].now_us, w.acts[0].now_us + 1 + TURN_US / 2);
	world_close(&w);
}

TEST(line, is_not_shortened_by_a_wall_clock_that_steps_forward)
{
	step_in_line(DAY_US);
}

TEST(line, is_not_prolonged_by_a_wall_clock_that_steps_back)
{
	step_in_line(-DAY_US);
}

/* The first three make way, and the fourth does not: the fifth begins when the fourth has ended. */
TEST(line, lets_the_next_one_begin_as_soon_as_a_turn_makes_way_and_keeps_its_order)
{
	struct world w;

	world_open(&w, 8);
	w.remote.pool = w.pool;
	for (int i = 0; i < 5; i++)
		give(&w, hot, (struct act){.held = true, .makes_way = i < 3});
	await(&w, &w.stage.began, 4);
	give(&w, (struct bytes){"other", 5},
	     (struct act){0}); /* whoever waits in the queue was taken before */
	await(&w, &w.stage.done, 1);
	assert_false(w.acts[4].ran);
	let_go(&w);
	await(&w, &w.stage.done, 6);
	assert_int_equal(w.stage.hot_most, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(w.stage.order[i], i);
	assert_true(w.acts[4].ran);
	assert_nothing_waits(&w);
	give(&w, hot, (struct act){0}); /* nothing of the line is left */
	await(&w, &w.stage.done, 7);
	world_close(&w);
}

static void *close_pool(void *pool)
{
	pool_close(pool);
	return NULL;
}

TEST(line, is_run_to_its_end_when_the_pool_closes)
{
	struct world w;
	pthread_t    closing;
	int          accepted = 0;

	world_open(&w, 4);
	hold_hot(&w);
	for (int i = 0; i < 20; i++)
		give(&w, hot, (struct act){0});
	assert_int_equal(pthread_create(&closing, NULL, close_pool, w.pool), 0);
	while (submit(&w, (struct bytes){"other", 5}, (struct act){0}) == ERR_NONE) {
		await(&w, &w.stage.done, ++accepted);
		w.count--;
		w.stage.began = 1;
	}
	let_go(&w);
	pthread_join(closing, NULL);
	assert_int_equal(w.stage.done, 21 + accepted);
	for (int i = 0; i < 21; i++)
		assert_true(w.acts[i].ran);
	w.pool = NULL;
	world_close(&w);
}
