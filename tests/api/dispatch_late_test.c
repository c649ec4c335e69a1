/* Calls that are served late: those of callers in debt, on a thread of their own, and writes that are too heavy for a turn and are rehearsed before
 * another one. They leave the dispatcher as all others do. */
#include "api/dispatch_house.h"

/* ---- late ---- */

/* Puts the key into debt. */
static void make_debts(struct house *h)
{
	h->plan = (struct plan){.kind = READ, .keyed = true, .heavy = true};
	assert_int_equal(ask(h), 200);
	assert_once(h, ERR_NONE);
	assert_false(atomic_load(&h->late));
	h->plan.heavy = false;
}

TEST(dispatch, who_is_in_debt_is_served_late_and_after_it_like_all_others)
{
	static struct house h;

	house_open(&h);
	make_debts(&h);
	h.plan.reads = true;
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.late));
	h.plan.fails_at = AUTHORISE;
	assert_int_equal(ask(&h), 400);
	assert_once(&h, ERR_INVALID);
	h.plan = (struct plan){.kind = WRITE, .keyed = true};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	assert_once(&h, ERR_NONE);
	assert_true(atomic_load(&h.late));
	clock_manual_set(&h.clock, START_US + DEBT_MS_MAX * 1000);
	h.plan.kind = READ;
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	assert_false(atomic_load(&h.late));
	house_close(&h);
}

/* The late thread is in the work of a request, and stays there until the gate opens. */
static int hold_late(struct house *h)
{
	int      fd = dial(h);
	unsigned before = atomic_load(&h->decoded);

	pthread_mutex_lock(&h->gate);
	atomic_store(&h->gated, true);
	send_to(fd, "", "{}");
	while (atomic_load(&h->decoded) == before)
		usleep(100);
	h->under_way++;
	return fd;
}

static void let_late_go(struct house *h, int fd)
{
	atomic_store(&h->gated, false);
	pthread_mutex_unlock(&h->gate);
	assert_int_equal(receive(h, fd), 200);
	close(fd);
	h->under_way--;
}

TEST(dispatch, past_what_may_wait_late_a_request_is_refused_unseen)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	make_debts(&h);
	fd = hold_late(&h);
	h.plan.fills_late = true;
	assert_int_equal(ask(&h), err_status(ERR_CALLER_THROTTLED));
	assert_once(&h, ERR_CALLER_THROTTLED);
	assert_int_equal(atomic_load(&h.decoded), 2);
	h.plan.fills_late = false;
	let_late_go(&h, fd);
	assert_once(&h, ERR_NONE);
	house_close(&h);
}

TEST(dispatch, late_work_for_a_peer_that_has_gone_is_skipped_and_ends_like_any_other)
{
	static struct house h;
	struct linger       reset = {.l_onoff = 1};
	int                 held, gone;

	house_open(&h);
	make_debts(&h);
	held = hold_late(&h);
	gone = dial(&h);
	send_to(gone, "", "{}");
	while (atomic_load(&h.identified) < 3)
		usleep(100);
	h.under_way++;
	setsockopt(gone, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(gone);
	h.plan.keyed =
	        false; /* nobody in debt: served at once, and after the loop has seen that the other went */
	atomic_store(&h.gated, false);
	assert_int_equal(ask(&h), 200);
	assert_once(&h, ERR_NONE);
	let_late_go(&h, held);
	while (atomic_load(&h.released) < 2)
		usleep(100);
	assert_int_equal(atomic_load(&h.answered), 2);
	assert_int_equal(atomic_load(&h.audited), 2);
	assert_int_equal(meter_requests(&h.api.meter, 0, ERR_CALLER_THROTTLED), 1);
	assert_int_equal(meter_requests(&h.api.meter, 0, ERR_NONE), 1);
	assert_int_equal(atomic_load(&h.decoded), 3); /* not that of who had gone */
	house_close(&h);
}

/* ---- rehearsed ---- */

/* A write that was too heavy for its turn. */
static int ask_too_heavy(struct house *h, int fd)
{
	struct turn_request *w;

	send_to(fd, "", "{}");
	w = store_take(&h->store);
	assert_true(w->rehearses);
	assert_null(w->rehearsal);
	store_end(&h->store, w, TOO_HEAVY);
	return fd;
}

TEST(dispatch, a_write_too_heavy_for_its_turn_is_rehearsed_and_has_another)
{
	static struct house  h;
	struct turn_request *w;
	int                  fd;

	house_open(&h);
	h.plan = (struct plan){.kind = WRITE, .conditional = true, .keyed = true};
	fd = ask_too_heavy(&h, dial(&h));
	w = store_take(&h.store);
	assert_non_null(w->rehearsal);
	assert_int_equal(atomic_load(&h.store.sessions), 1); /* until done */
	assert_true(is_silent(fd));
	store_end(&h.store, w, COMMITS);
	assert_int_equal(receive(&h, fd), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.store.rehearsals), 1);
	close(fd);
	house_close(&h);
}

TEST(dispatch, a_write_whose_rehearsal_fails_has_no_other_turn)
{
	static struct house h;
	int                 fd;

	house_open(&h);
	h.store.rehearsal_decides = true;
	h.plan = (struct plan){.kind = WRITE, .conditional = true, .keyed = true, .fails_at = RUN};
	fd = ask_too_heavy(&h, dial(&h));
	assert_int_equal(receive(&h, fd), 400);
	assert_once(&h, ERR_INVALID);
	assert_int_equal(atomic_load(&h.ran), 1);
	close(fd);
	house_close(&h);
}

TEST(dispatch, a_write_of_who_is_in_debt_is_rehearsed_before_its_turn)
{
	static struct house h;

	house_open(&h);
	make_debts(&h);
	h.plan = (struct plan){.kind = WRITE, .conditional = true, .keyed = true};
	assert_int_equal(ask_ending(&h, COMMITS), 200);
	assert_once(&h, ERR_NONE);
	assert_int_equal(atomic_load(&h.store.rehearsals), 1);
	house_close(&h);
}
