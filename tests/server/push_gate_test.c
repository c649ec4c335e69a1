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

/* Notes that the answer was "later", and that nobody sends for `expected_s` from then. */
static void later_for(struct push_gate *g, int64_t asked_s, int64_t expected_s)
{
	int64_t before_us = now_us();

	push_gate_note(g, true, asked_s);
	assert_in_range(g->later_us, before_us + expected_s * SECOND_US, now_us() + expected_s * SECOND_US);
}

TEST(push_gate, permits_for_one_whole_call_are_there_at_once_and_what_is_returned_is_there_again)
{
	struct push_gate   g;
	struct push_route *under_way, *route;
	bool               waited = true;

	push_gate_init(&g);
	push_gate_put(&g, target_make());
	route = push_gate_take(&g, &under_way);
	assert_true(push_gate_permits_take(&g, route, &waited));
	assert_false(waited);
	assert_true(g.permits < SECOND_US); /* not one more message */
	push_gate_permits_return(&g, PUSH_BATCH_MAX);
	assert_true(push_gate_permits_take(&g, route, &waited));
	assert_false(waited);
	push_gate_return(&g, &under_way);
	push_gate_release(&g);
}

TEST(push_gate, permits_never_grow_past_one_call)
{
	struct push_gate   g;
	struct push_route *under_way, *route;
	bool               waited;

	push_gate_init(&g);
	push_gate_put(&g, target_make());
	route = push_gate_take(&g, &under_way);
	push_gate_permits_return(&g, PUSH_BATCH_MAX);
	assert_true(push_gate_permits_take(&g, route, &waited));
	assert_true(g.permits < SECOND_US);
	push_gate_return(&g, &under_way);
	push_gate_release(&g);
}

TEST(push_gate, later_is_doubled_with_each_in_a_row_up_to_its_maximum_and_never_less_than_asked)
{
	static const int64_t expected_s[] = {1, 2, 4, 8, 16, 32, 60, 60};
	struct push_gate     g;

	push_gate_init(&g);
	assert_false(push_gate_is_later(&g));
	for (size_t i = 0; i < sizeof(expected_s) / sizeof(expected_s[0]); i++)
		later_for(&g, 0, expected_s[i]);
	later_for(&g, 300, 300);
	push_gate_note(&g, false, 0); /* the row ends; what was asked for stays */
	assert_true(push_gate_is_later(&g));
	later_for(&g, 0, PUSH_LATER_S);
	push_gate_release(&g);
}

TEST(push_gate, a_new_target_is_not_bound_by_what_the_old_one_asked_for)
{
	struct push_gate g;

	push_gate_init(&g);
	push_gate_note(&g, true, 300);
	push_gate_put(&g, target_make());
	assert_false(push_gate_is_later(&g));
	push_gate_release(&g);
}

TEST(push_gate, a_target_that_is_replaced_lives_until_its_last_step_has_returned_it)
{
	struct push_gate   g;
	struct push_route *first_step, *second_step, *old, *new;
	bool               waited;

	push_gate_init(&g);
	assert_null(push_gate_take(&g, &first_step)); /* nowhere */
	push_gate_return(&g, &first_step);
	push_gate_put(&g, target_make());
	old = push_gate_take(&g, &first_step);
	push_gate_put(&g, target_make());
	new = push_gate_take(&g, &second_step);
	assert_ptr_not_equal(old, new);
	assert_int_equal(old->target->rate, 1); /* not freed: the sanitizers would tell */
	assert_false(push_gate_permits_take(&g, old, &waited));
	assert_true(push_gate_permits_take(&g, new, &waited));
	push_gate_return(&g, &first_step);
	assert_null(first_step);
	push_gate_return(&g, &second_step);
	push_gate_release(&g);
}

TEST(push_gate, after_a_stop_nobody_waits_and_nothing_is_taken)
{
	struct push_gate   g;
	struct push_route *under_way, *none, *route;
	bool               waited;

	push_gate_init(&g);
	push_gate_put(&g, target_make());
	route = push_gate_take(&g, &under_way);
	assert_true(push_gate_permits_take(&g, route, &waited));
	push_gate_stop(&g);
	assert_false(push_gate_permits_take(&g, route, &waited)); /* it would take a minute and more */
	assert_false(push_gate_pause(&g, 3600 * (int64_t)SECOND_US));
	assert_null(push_gate_take(&g, &none));
	push_gate_return(&g, &under_way);
	push_gate_release(&g);
}
