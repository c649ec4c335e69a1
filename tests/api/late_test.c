/* Late: the line before the late thread is bounded, and the thread does all that was let in. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "api/late.h"
#include "base/fault.h"
#include "base/list.h"

struct piece {
	struct late_work base;
	atomic_bool     *entered, *open;
	unsigned        *done;
};

/* Only the late thread counts. */
static void piece_run(struct late_work *r, struct json_reader *json)
{
	struct piece *p = LIST_ENTRY(r, struct piece, base);

	assert_non_null(json);
	atomic_store(p->entered, true);
	while (!atomic_load(p->open))
		sched_yield();
	++*p->done;
}

TEST(late, as_many_wait_as_may_and_one_more_is_refused_and_closing_does_all_that_wait)
{
	static struct piece pieces[LATE_WAITING_MAX + 2];
	atomic_bool         entered = false, open = false;
	unsigned            done = 0;
	struct late        *l = late_open();

	assert_non_null(l);
	for (unsigned i = 0; i < LATE_WAITING_MAX + 2; i++)
		pieces[i] = (struct piece){{.run = piece_run}, &entered, &open, &done};
	assert_true(late_submit(l, &pieces[0].base));
	while (!atomic_load(&entered)) /* it waits no longer */
		sched_yield();
	for (unsigned i = 1; i <= LATE_WAITING_MAX; i++)
		assert_true(late_submit(l, &pieces[i].base));
	assert_false(late_submit(l, &pieces[LATE_WAITING_MAX + 1].base));
	atomic_store(&open, true);
	late_close(l);
	assert_int_equal(done, LATE_WAITING_MAX + 1);
}

TEST(late, without_a_thread_there_is_none)
{
	fault_arm(FAULT_THREAD, 0);
	assert_null(late_open());
	fault_disarm(FAULT_THREAD);
	late_close(NULL);
}
