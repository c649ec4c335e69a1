/* The gate of push messages: how much may be sent at once, what "later" means, and how long a target lives. */
#include "test.h"

#include "base/clock.h"
#include "server/push_gate.h"

enum { SECOND_US = 1000000 };

static struct push_target *target_make(void)
{
	struct push_target *t = mem_zalloc(sizeof(*t));

	t->rate = 1; /* so slow that no test waits for a permit by accident */
	return t;
}

static int64_t now_us(void)
{
	return clock_steady_us(clock_system());
}

/* A gate with a target, and a step that has taken it. */
struct gate {
	struct push_gate   g;
	struct push_route *under_way, *route;
};

static void gate_open(struct gate *t)
{
	push_gate_init(&t->g, NULL);
	push_gate_put(&t->g, target_make());
	t->route = push_gate_take(&t->g, &t->under_way);
}

static void gate_close(struct gate *t)
{
	push_gate_return(&t->g, &t->under_way);
	push_gate_release(&t->g);
}

static bool enter(struct gate *t, uint32_t messages, struct push_pass *out)
{
	return push_gate_enter(&t->g, &(struct push_ask){t->route, PUSH_LANE_BROADCAST, messages}, out);
}

/* A call of one message. */
static void called(struct gate *t, bool later, int64_t asked_s)
{
	struct push_pass pass;

	t->g.later_us = 0; /* that time has come */
	assert_true(enter(t, 1, &pass));
	push_gate_leave(&t->g, &pass, &(struct push_left){true, later, asked_s});
	t->g.permits += SECOND_US;
}

/* It gets nowhere, and nobody sends for `expected_s` from then. */
static void later_for(struct gate *t, int64_t asked_s, int64_t expected_s)
{
	int64_t before_us = now_us();

	called(t, true, asked_s);
	assert_in_range(t->g.later_us, before_us + expected_s * SECOND_US, now_us() + expected_s * SECOND_US);
	assert_int_equal(push_gate_room(&t->g), 0);
}

TEST(push_gate, permits_for_one_whole_call_are_there_at_once_and_what_is_returned_is_there_again)
{
	struct gate      t;
	struct push_pass pass;

	gate_open(&t);
	for (int i = 0; i < 2; i++) {
		assert_true(enter(&t, PUSH_BATCH_MAX, &pass));
		assert_true(!pass.waited && pass.messages == PUSH_BATCH_MAX);
		assert_true(t.g.permits < SECOND_US); /* not one more message */
		push_gate_leave(&t.g, &pass, &(struct push_left){0});
	}
	assert_true(enter(&t, PUSH_BATCH_MAX, &pass));
	push_gate_shrink(&t.g, &pass, 40);
	push_gate_leave(&t.g, &pass, &(struct push_left){.called = true});
	assert_true(enter(&t, PUSH_BATCH_MAX - 40, &pass) && !pass.waited);
	assert_true(t.g.permits < SECOND_US);
	gate_close(&t);
}

TEST(push_gate, permits_never_grow_past_one_call)
{
	struct gate      t;
	struct push_pass pass;

	gate_open(&t);
	t.g.permits *= 2;
	assert_true(enter(&t, PUSH_BATCH_MAX, &pass));
	assert_true(t.g.permits < SECOND_US);
	gate_close(&t);
}

TEST(push_gate, later_is_doubled_with_each_in_a_row_up_to_its_maximum_and_never_less_than_asked)
{
	static const int64_t expected_s[] = {1, 2, 4, 8, 16, 32, 60, 60};
	struct gate          t;

	gate_open(&t);
	assert_int_equal(push_gate_room(&t.g), PUSH_BATCH_MAX);
	for (size_t i = 0; i < sizeof(expected_s) / sizeof(expected_s[0]); i++)
		later_for(&t, 0, expected_s[i]);
	later_for(&t, 300, 300);
	called(&t, false, 0); /* the row ends */
	later_for(&t, 0, PUSH_LATER_S);
	gate_close(&t);
}

TEST(push_gate, calls_that_began_together_and_got_nowhere_count_as_one)
{
	struct gate      t;
	struct push_pass passes[3];

	gate_open(&t);
	for (int i = 0; i < 3; i++)
		assert_true(enter(&t, 1, &passes[i]));
	for (int i = 0; i < 3; i++)
		push_gate_leave(&t.g, &passes[i], &(struct push_left){.called = true, .later = true});
	assert_int_equal(t.g.later_row, 1);
	assert_in_range(t.g.later_us, 0, now_us() + PUSH_LATER_S * SECOND_US);
	gate_close(&t);
}

TEST(push_gate, after_a_call_that_got_nowhere_one_call_with_one_message_finds_out_whether_it_goes_on)
{
	struct gate      t;
	struct push_pass probe, other;

	gate_open(&t);
	called(&t, true, 0);
	t.g.later_us = 0;
	assert_int_equal(push_gate_room(&t.g), 1);
	assert_true(enter(&t, PUSH_BATCH_MAX, &probe));
	assert_true(probe.probe && probe.messages == 1);
	assert_int_equal(push_gate_room(&t.g), 0);
	assert_false(enter(&t, 1, &other));
	push_gate_leave(&t.g, &probe, &(struct push_left){0}); /* nothing was due: another one may */
	assert_int_equal(push_gate_room(&t.g), 1);
	assert_true(enter(&t, 1, &probe));
	push_gate_leave(&t.g, &probe, &(struct push_left){.called = true});
	assert_int_equal(push_gate_room(&t.g), PUSH_BATCH_MAX);
	gate_close(&t);
}

TEST(push_gate, a_new_target_is_not_bound_by_what_the_old_one_asked_for_or_answers_later)
{
	struct gate      t;
	struct push_pass probe;

	gate_open(&t);
	called(&t, true, 300);
	t.g.later_us = 0;
	assert_true(enter(&t, 1, &probe));
	push_gate_put(&t.g, target_make());
	assert_int_equal(push_gate_room(&t.g), PUSH_BATCH_MAX);
	push_gate_leave(&t.g, &probe, &(struct push_left){.called = true, .later = true});
	assert_int_equal(push_gate_room(&t.g), PUSH_BATCH_MAX);
	gate_close(&t);
}

static void *enter_as_broadcast(void *ctx)
{
	struct gate     *t = ctx;
	struct push_pass pass;

	assert_true(enter(t, 2, &pass));
	return NULL;
}

TEST(push_gate, a_broadcast_waits_while_a_users_message_waits)
{
	struct gate      t;
	struct push_pass pass;
	pthread_t        thread;

	gate_open(&t);
	t.g.waiting[PUSH_LANE_USER] = 1; /* there is one, with fewer permits than it needs */
	pthread_create(&thread, NULL, enter_as_broadcast, &t);
	assert_true(push_gate_enter(&t.g, &(struct push_ask){t.route, PUSH_LANE_USER, 99}, &pass));
	pthread_mutex_lock(&t.g.lock);
	assert_true(t.g.permits >= SECOND_US); /* the broadcast has taken none, whoever came first */
	t.g.permits += SECOND_US;
	t.g.waiting[PUSH_LANE_USER] = 0;
	pthread_cond_broadcast(&t.g.changed);
	pthread_mutex_unlock(&t.g.lock);
	pthread_join(thread, NULL);
	gate_close(&t);
}

TEST(push_gate, a_target_that_is_replaced_lives_until_its_last_step_has_returned_it)
{
	struct push_gate   g;
	struct push_route *first_step, *second_step, *old, *new;
	struct push_pass   pass;

	push_gate_init(&g, NULL);
	assert_null(push_gate_take(&g, &first_step)); /* nowhere */
	push_gate_return(&g, &first_step);
	push_gate_put(&g, target_make());
	old = push_gate_take(&g, &first_step);
	push_gate_put(&g, target_make());
	new = push_gate_take(&g, &second_step);
	assert_ptr_not_equal(old, new);
	assert_int_equal(old->target->rate, 1); /* not freed: the sanitizers would tell */
	assert_false(push_gate_enter(&g, &(struct push_ask){old, PUSH_LANE_USER, 1}, &pass));
	assert_true(push_gate_enter(&g, &(struct push_ask){new, PUSH_LANE_USER, 1}, &pass));
	push_gate_return(&g, &first_step);
	assert_null(first_step);
	push_gate_return(&g, &second_step);
	push_gate_release(&g);
}

TEST(push_gate, after_a_stop_nobody_waits_and_nothing_is_taken)
{
	struct gate        t;
	struct push_route *none;
	struct push_pass   pass;

	gate_open(&t);
	assert_true(enter(&t, PUSH_BATCH_MAX, &pass));
	push_gate_stop(&t.g);
	assert_false(enter(&t, PUSH_BATCH_MAX, &pass)); /* it would take a minute and more */
	assert_false(push_gate_pause(&t.g, 3600 * (int64_t)SECOND_US));
	assert_null(push_gate_take(&t.g, &none));
	gate_close(&t);
}

/* ---- permits that processes share ---- */

struct pool {
	int64_t  wait_us; /* 0: there are enough */
	unsigned asked;
	uint32_t taken;
	void (*meanwhile)(struct pool *); /* what happens while it is asked */
	struct gate *t;
};

static int64_t pool_take(void *ctx, int64_t rate, uint32_t messages)
{
	struct pool *pool = ctx;

	assert_int_equal(rate, 1);
	pool->asked++;
	if (pool->meanwhile != NULL)
		pool->meanwhile(pool);
	if (pool->wait_us == 0)
		pool->taken += messages;
	return pool->wait_us;
}

static void pool_give(void *ctx, int64_t rate, uint32_t messages)
{
	struct pool *pool = ctx;

	assert_int_equal(rate, 1);
	pool->taken -= messages;
}

static void shared_open(struct gate *t, struct pool *pool)
{
	pool->t = t;
	push_gate_init(&t->g, &(struct push_share){pool_take, pool_give, pool});
	push_gate_put(&t->g, target_make());
	t->route = push_gate_take(&t->g, &t->under_way);
}

TEST(push_gate, a_call_takes_its_permits_from_the_share_and_returns_what_it_does_not_need)
{
	struct gate      t;
	struct pool      pool = {0};
	struct push_pass pass;

	shared_open(&t, &pool);
	for (unsigned i = 0; i < 3; i++) { /* no bucket of the gate's own limits it */
		assert_true(enter(&t, PUSH_BATCH_MAX, &pass) && !pass.waited);
		assert_int_equal(pool.taken, PUSH_BATCH_MAX);
		push_gate_shrink(&t.g, &pass, 30);
		assert_int_equal(pool.taken, 30);
		push_gate_leave(&t.g, &pass, &(struct push_left){0}); /* no call was made */
		assert_int_equal(pool.taken, 0);
	}
	assert_true(enter(&t, 7, &pass));
	push_gate_leave(&t.g, &pass, &(struct push_left){.called = true});
	assert_int_equal(pool.taken, 7);
	gate_close(&t);
}

static void refuse_once(struct pool *pool)
{
	pool->wait_us = pool->asked == 1 ? 20000 : 0;
}

TEST(push_gate, a_share_that_refused_is_asked_again_when_it_said_and_no_sooner)
{
	struct gate      t;
	struct pool      pool = {.meanwhile = refuse_once};
	struct push_pass pass;
	int64_t          before_us = now_us();

	shared_open(&t, &pool);
	assert_true(enter(&t, 5, &pass));
	assert_true(pass.waited && now_us() - before_us >= 20000);
	assert_int_equal(pool.asked, 2);
	gate_close(&t);
}

static void stop_meanwhile(struct pool *pool)
{
	push_gate_stop(&pool->t->g);
}

TEST(push_gate, permits_that_come_after_a_stop_are_returned)
{
	struct gate      t;
	struct pool      pool = {.meanwhile = stop_meanwhile};
	struct push_pass pass;

	shared_open(&t, &pool);
	assert_false(enter(&t, 5, &pass));
	assert_int_equal(pool.taken, 0);
	gate_close(&t);
}
