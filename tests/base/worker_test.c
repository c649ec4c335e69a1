/* Worker: wakes, periods, stops and hangs, and what the register tells of them. */
#define _GNU_SOURCE
#include "base/trap.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/worker.h"

/* A worker whose rounds wait at a gate: `entered` is posted by each, `leave` lets one go on. */
/* As the kernel has it. */
static uint64_t own_slice_ns(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t  nice;
		uint32_t priority;
		uint64_t slice_ns, deadline_ns, period_ns;
	} attributes = {0};

	assert_int_equal(syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0), 0);
	return attributes.slice_ns;
}

struct gated {
	struct worker worker;
	sem_t         entered, leave;
	atomic_uint   rounds;
	char          thread_name[WORKER_NAME_MAX + 1];
	uint64_t      slice_ns;
};

static void gated_round(struct worker *w, void *ctx)
{
	struct gated *g = ctx;

	assert_ptr_equal(w, &g->worker);
	pthread_getname_np(pthread_self(), g->thread_name, sizeof(g->thread_name));
	g->slice_ns = own_slice_ns();
	sem_post(&g->entered);
	sem_wait(&g->leave);
	atomic_fetch_add(&g->rounds, 1);
}

static void counted_round(struct worker *w, void *ctx)
{
	struct gated *g = ctx;

	(void)w;
	atomic_fetch_add(&g->rounds, 1);
	sem_post(&g->entered);
}

/* Asks after each step, until it is told to end. */
static void long_round(struct worker *w, void *ctx)
{
	struct gated *g = ctx;

	sem_post(&g->entered);
	while (worker_goes_on(w))
		sched_yield();
	atomic_fetch_add(&g->rounds, 1);
}

static void gated_init(struct gated *g, struct worker_options options)
{
	options.ctx = g;
	if (options.name == NULL)
		options.name = "test";
	if (options.round == NULL && options.main == NULL)
		options.round = gated_round;
	sem_init(&g->entered, 0, 0);
	sem_init(&g->leave, 0, 0);
	atomic_store(&g->rounds, 0);
	worker_init(&g->worker, &options);
}

static void gated_open(struct gated *g, struct worker_options options)
{
	struct err err;

	gated_init(g, options);
	assert_int_equal(worker_start(&g->worker, &err), ERR_NONE);
}

static void gated_close(struct gated *g)
{
	assert_true(worker_stop(&g->worker));
	worker_release(&g->worker);
	sem_destroy(&g->entered);
	sem_destroy(&g->leave);
}

/* Wakes it and waits until it is in its round. */
static void enter(struct gated *g)
{
	worker_wake(&g->worker);
	sem_wait(&g->entered);
}

static struct worker_reading reading_of(const char *name)
{
	struct worker_reading all[WORKER_NAMES_MAX];
	unsigned              count = workers_read(all);

	for (unsigned i = 0; i < count; i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i];
	return (struct worker_reading){0};
}

static void wait_idle(struct gated *g)
{
	while (atomic_load(&g->worker.began_us) != 0)
		sched_yield();
}

/* ---- rounds ---- */

TEST(worker, wakes_during_a_round_share_the_next_one)
{
	struct gated g;

	gated_open(&g, (struct worker_options){0});
	enter(&g);
	for (int i = 0; i < 5; i++)
		worker_wake(&g.worker);
	sem_post(&g.leave);
	sem_wait(&g.entered); /* the next */
	sem_post(&g.leave);
	sem_post(&g.leave); /* should there be a third, it does not wait */
	gated_close(&g);
	assert_int_equal(atomic_load(&g.rounds), 2);
}

TEST(worker, a_wake_before_the_start_is_not_lost)
{
	struct gated g;
	struct err   err;

	gated_init(&g, (struct worker_options){.round = counted_round});
	worker_wake(&g.worker);
	assert_int_equal(worker_start(&g.worker, &err), ERR_NONE);
	sem_wait(&g.entered);
	gated_close(&g);
	assert_int_equal(atomic_load(&g.rounds), 1);
}

TEST(worker, a_period_makes_rounds_by_itself_and_none_makes_none)
{
	struct gated periodic, idle;

	gated_open(&idle, (struct worker_options){.round = counted_round});
	gated_open(&periodic, (struct worker_options){.round = counted_round, .period_us = 100});
	for (int i = 0; i < 20; i++)
		sem_wait(&periodic.entered);
	gated_close(&periodic);
	gated_close(&idle);
	assert_true(atomic_load(&periodic.rounds) >= 20);
	assert_int_equal(atomic_load(&idle.rounds), 0);
}

TEST(worker, a_wake_does_not_wait_for_a_long_period_and_neither_does_a_stop)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.round = counted_round, .period_us = INT64_C(3600000000)});
	enter(&g);
	gated_close(&g);
	assert_int_equal(atomic_load(&g.rounds), 1);
}

static void *round_main(void *ctx)
{
	struct gated *g = ctx;

	worker_round(&g->worker);
	return (void *)(uintptr_t)atomic_load(&g->rounds);
}

TEST(worker, a_round_that_is_waited_for_began_after_it_was_asked_for)
{
	struct gated g;
	pthread_t    asking;
	void        *rounds;

	gated_open(&g, (struct worker_options){0});
	enter(&g); /* this one is too early */
	assert_int_equal(pthread_create(&asking, NULL, round_main, &g), 0);
	while (reading_of("test").runs ==
	       0) { /* until the first is over: one that asked by then gets the second */
		sem_post(&g.leave);
		sched_yield();
	}
	sem_post(&g.leave);
	pthread_join(asking, &rounds);
	assert_true((uintptr_t)rounds >= 2);
	gated_close(&g);
}

TEST(worker, waiting_for_a_round_ends_with_the_worker)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.round = counted_round});
	assert_true(worker_stop(&g.worker));
	worker_round(&g.worker);
	assert_int_equal(atomic_load(&g.rounds), 0);
	gated_close(&g);
}

TEST(worker, its_thread_has_its_name_and_its_slice)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.name = "fifteen-letters", .slice_us = 70000});
	enter(&g);
	sem_post(&g.leave);
	gated_close(&g);
	assert_string_equal(g.thread_name, "fifteen-letters");
	assert_true(g.slice_ns == 70000000 || g.slice_ns == 0); /* 0: a kernel that knows of none */
}

/* ---- stopping ---- */

TEST(worker, a_stop_waits_for_the_round_under_way_and_drops_what_it_was_woken_for)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.stop_ms = 1});
	enter(&g);
	worker_wake(&g.worker);
	log_set_level(LOG_ERROR + 1);
	assert_false(worker_stop(&g.worker));
	sem_post(&g.leave);
	worker_join(&g.worker);
	gated_close(&g);
	assert_int_equal(atomic_load(&g.rounds), 1);
}

TEST(worker, one_that_drains_does_what_it_was_woken_for_before_it_stops)
{
	for (int i = 0; i < 200; i++) {
		struct gated g;

		gated_open(&g, (struct worker_options){.round = counted_round, .drains = true});
		worker_wake(&g.worker);
		gated_close(&g);
		assert_int_equal(atomic_load(&g.rounds), 1);
	}
}

TEST(worker, a_long_job_ends_when_it_asks_whether_to_go_on)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.round = long_round});
	enter(&g);
	gated_close(&g);
	assert_int_equal(atomic_load(&g.rounds), 1);
}

TEST(worker, a_second_stop_and_a_wake_after_it_do_nothing)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.round = counted_round});
	assert_true(worker_stop(&g.worker));
	assert_true(worker_stop(&g.worker));
	worker_join(&g.worker);
	worker_wake(&g.worker);
	gated_close(&g);
	assert_int_equal(atomic_load(&g.rounds), 0);
}

TEST(worker, a_stop_that_takes_too_long_says_who_hangs_and_can_be_tried_again)
{
	struct gated g;
	struct trap  t;
	const char  *text;

	gated_open(&g, (struct worker_options){.name = "hanging", .stop_ms = 1});
	enter(&g);
	trap_open(&t);
	assert_false(worker_stop(&g.worker));
	assert_false(worker_stop(&g.worker));
	text = caught(&t);
	assert_non_null(strstr(text, "the thread \\\"hanging\\\" has not stopped within 1 ms"));
	assert_string_equal(reading_of("hanging").name, "hanging"); /* it still runs */
	sem_post(&g.leave);
	log_set_level(LOG_ERROR + 1);
	worker_join(&g.worker);
	assert_null(reading_of("hanging").name);
	gated_close(&g);
}

TEST(worker, without_a_thread_it_says_so_and_can_be_woken_stopped_and_started_again)
{
	struct gated g;
	struct err   err;

	gated_init(&g, (struct worker_options){.name = "threadless", .round = counted_round});
	fault_arm(FAULT_THREAD, 0);
	assert_int_equal(worker_start(&g.worker, &err), ERR_STORAGE);
	fault_disarm(FAULT_THREAD);
	assert_non_null(strstr(err.text, "cannot start the thread \"threadless\": "));
	assert_null(reading_of("threadless").name);
	worker_wake(&g.worker);
	assert_true(worker_stop(&g.worker));
	worker_join(&g.worker);
	assert_int_equal(worker_start(&g.worker, &err), ERR_NONE);
	sem_wait(&g.entered); /* for that wake */
	gated_close(&g);
}

/* ---- watching ---- */

TEST(worker, one_that_hangs_is_noticed_and_an_idle_one_is_not_taken_for_one)
{
	struct gated g;

	gated_open(&g, (struct worker_options){0});
	for (int i = 0; i < 3; i++)
		assert_true(worker_beats(&g.worker));
	enter(&g);
	assert_true(worker_beats(&g.worker)); /* a round has begun since */
	for (int i = 0; i < 3; i++)
		assert_false(worker_beats(&g.worker));
	sem_post(&g.leave);
	wait_idle(&g);
	assert_true(worker_beats(&g.worker));
	enter(&g);
	assert_true(worker_beats(&g.worker));
	sem_post(&g.leave);
	gated_close(&g);
}

TEST(worker, a_long_job_beats_with_every_step)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.round = long_round});
	enter(&g);
	for (int i = 0; i < 5; i++) {
		uint64_t steps = atomic_load(&g.worker.steps);

		while (atomic_load(&g.worker.steps) == steps)
			sched_yield();
		assert_true(worker_beats(&g.worker));
	}
	gated_close(&g);
}

TEST(worker, the_watchdog_minds_vital_workers_only_and_names_them)
{
	struct gated vital, other;
	struct trap  t;
	const char  *text;

	gated_open(&vital, (struct worker_options){.name = "heart", .vital = true});
	gated_open(&other, (struct worker_options){.name = "finger"});
	enter(&other);
	for (int i = 0; i < 3; i++)
		assert_true(workers_beat());
	enter(&vital);
	assert_true(workers_beat());
	trap_open(&t);
	assert_false(workers_beat());
	text = caught(&t);
	assert_non_null(strstr(text, "the thread \\\"heart\\\" hangs"));
	assert_null(strstr(text, "finger"));
	sem_post(&vital.leave);
	wait_idle(&vital);
	assert_true(workers_beat());
	sem_post(&other.leave);
	gated_close(&other);
	gated_close(&vital);
}

TEST(worker, one_that_is_stopping_is_not_taken_for_one_that_hangs)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.vital = true, .stop_ms = 1});
	enter(&g);
	log_set_level(LOG_ERROR + 1);
	assert_false(worker_stop(&g.worker));
	for (int i = 0; i < 3; i++)
		assert_true(workers_beat());
	sem_post(&g.leave);
	worker_join(&g.worker);
	gated_close(&g);
}

/* ---- metrics ---- */

TEST(worker, its_runs_and_times_are_told)
{
	struct gated          g;
	struct worker_reading before, during, after;
	int64_t               began = clock_wall_us(clock_system()), ended;

	gated_open(&g, (struct worker_options){.name = "measured"});
	before = reading_of("measured");
	assert_int_equal(before.runs, 0);
	assert_int_equal(before.last_run_us, 0);
	assert_int_equal(before.stuck_us, 0);
	enter(&g);
	do
		during = reading_of("measured");
	while (during.stuck_us < 1000);
	assert_int_equal(during.runs, 0);
	assert_true(during.busy_us >= 1000); /* counts while it is under way */
	sem_post(&g.leave);
	wait_idle(&g);
	while ((after = reading_of("measured")).runs == 0)
		sched_yield();
	ended = clock_wall_us(clock_system());
	assert_int_equal(after.runs, 1);
	assert_int_equal(after.stuck_us, 0);
	assert_true(after.busy_us >= during.busy_us);
	assert_true(after.last_run_us >= began && after.last_run_us <= ended + 1000);
	gated_close(&g);
	assert_null(reading_of("measured").name);
}

TEST(worker, workers_of_one_name_are_added_up)
{
	struct gated g[3];
	unsigned     runs = 0;

	for (int i = 0; i < 3; i++)
		gated_open(&g[i], (struct worker_options){.name = "crew", .round = counted_round});
	for (int i = 0; i < 3; i++)
		for (int n = 0; n <= i; n++, runs++)
			worker_round(&g[i].worker);
	assert_int_equal(reading_of("crew").runs, runs);
	for (int i = 0; i < 3; i++)
		gated_close(&g[i]);
}

TEST(worker, as_many_names_are_told_as_may_be_and_one_more_is_left_out)
{
	static struct gated   g[WORKER_NAMES_MAX + 1];
	static char           names[WORKER_NAMES_MAX + 1][16];
	struct worker_reading all[WORKER_NAMES_MAX];

	for (int i = 0; i <= WORKER_NAMES_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "worker-%d", i);
		gated_open(&g[i], (struct worker_options){.name = names[i], .round = counted_round});
	}
	assert_int_equal(workers_read(all), WORKER_NAMES_MAX);
	assert_string_equal(all[WORKER_NAMES_MAX - 1].name, names[WORKER_NAMES_MAX - 1]);
	for (int i = 0; i <= WORKER_NAMES_MAX; i++)
		gated_close(&g[i]);
	assert_int_equal(workers_read(all), 0);
}

/* ---- one that waits by itself ---- */

static void own_main(struct worker *w, void *ctx)
{
	struct gated *g = ctx;

	for (int i = 0; i < 3; i++) {
		sem_wait(&g->leave);
		worker_begin(w);
		worker_beat(w);
		worker_idle(w);
		worker_idle(w); /* once more does nothing */
		sem_post(&g->entered);
	}
}

TEST(worker, one_that_waits_by_itself_says_when_it_runs)
{
	struct gated g;

	gated_open(&g, (struct worker_options){.name = "own", .main = own_main, .vital = true});
	for (uint64_t i = 1; i <= 3; i++) {
		assert_true(workers_beat());
		sem_post(&g.leave);
		sem_wait(&g.entered);
		assert_int_equal(reading_of("own").runs, i);
	}
	gated_close(&g);
}

TEST(worker, rounds_that_find_nothing_are_followed_by_waits_twice_as_long_up_to_the_rest)
{
	struct worker w = {.options = {.period_us = 1000, .rest_us = 5000}, .wait_us = 1000};

	assert_int_equal(w.wait_us = worker_next_wait_us(&w), 2000);
	assert_int_equal(w.wait_us = worker_next_wait_us(&w), 4000);
	assert_int_equal(w.wait_us = worker_next_wait_us(&w), 5000);
	assert_int_equal(w.wait_us = worker_next_wait_us(&w), 5000);
	worker_found(&w);
	assert_int_equal(w.wait_us = worker_next_wait_us(&w), 1000);
	w.found = false;
	w.options.rest_us = 0; /* none: the same each time */
	assert_int_equal(worker_next_wait_us(&w), 1000);
}
