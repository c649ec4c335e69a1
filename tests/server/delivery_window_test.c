/* The window of a target: which event goes next, whose fault a failure is, what is written down. Numbers are those of delivery_window.h. */
#include "test.h"

#include "random.h"
#include "server/delivery_window.h"

#define SECOND INT64_C(1000000)

static uint64_t no_jitter(void)
{
	return 1u << 20; /* some microseconds */
}

struct scene {
	struct window w;
	struct arena  arena;
	int64_t       now_us, position;
};

static void scene_open(struct scene *x, int64_t tries, int64_t lanes)
{
	*x = (struct scene){.now_us = 1000 * SECOND};
	arena_init(&x->arena);
	window_init(&x->w, &(struct window_limits){.tries = tries, .lanes = lanes, .random = no_jitter});
	window_begin(&x->w, &(struct event_cursor){.shards = 1});
}

static void scene_close(struct scene *x)
{
	window_release(&x->w);
	arena_release(&x->arena);
}

static struct bytes key_of(struct scene *x, const char *subject)
{
	return arena_printf(&x->arena, "%-*s", DELIVERY_KEY_CHARS, subject);
}

/* An event of a subject, and the end of its page. */
static void event(struct scene *x, const char *subject)
{
	struct window_event e = {.position = ++x->position,
	                         .key = key_of(x, subject),
	                         .id = arena_printf(&x->arena, "e%d", (int)x->position),
	                         .type = BYTES("lock.set"),
	                         .subject = bytes_of(subject),
	                         .json = BYTES("{}")};

	assert_true(window_room(&x->w) > 0);
	window_add(&x->w, &e);
	window_read(&x->w, &(struct event_cursor){.shards = 1, .after = {x->position}});
}

static int64_t position_of(const struct flight *f)
{
	return f->slot != NULL ? f->slot->event.position : f->entry->position;
}

/* Takes one; 0: none may go. */
static int64_t take(struct scene *x, struct flight *out)
{
	return window_take(&x->w, x->now_us, 1, SIZE_MAX, out) == 0 ? 0 : position_of(out);
}

static void end(struct scene *x, const struct flight *f, enum sender_end end, int64_t wait_s)
{
	struct sender_event e = {
	        .end = end, .status = end == SENDER_SENT ? 200 : 500, .wait_s = wait_s, .error = "no"};

	window_done(&x->w, f, &e, x->now_us);
}

/* Takes one, and it ends like this. Returns which it was. */
static int64_t go(struct scene *x, enum sender_end how)
{
	struct flight f;
	int64_t       position = take(x, &f);

	if (position > 0)
		end(x, &f, how, 0);
	return position;
}

struct written {
	struct delivery_note notes[DELIVERY_NOTES_MAX];
	uint32_t             count;
	bool                 all;
};

/* As a commit does it. */
static struct written written(struct scene *x)
{
	struct written r;

	r.count = window_notes(&x->w, &x->arena, r.notes, &r.all);
	window_noted(&x->w, true);
	return r;
}

TEST(window, rows_that_others_wrote_with_a_shard_a_position_or_a_key_that_cannot_be_are_left_alone)
{
	struct scene            x;
	struct event_cursor     kept;
	struct delivery_waiting row = {.key = BYTES("short"), .position = 1};

	scene_open(&x, 3, 4);
	window_restore(&x.w, &row, 0);
	row.key = key_of(&x, "ann");
	row.shard = 1; /* of one */
	window_restore(&x.w, &row, 0);
	row.shard = UINT32_MAX;
	window_restore(&x.w, &row, 0);
	row.shard = 0;
	row.position = INT64_MIN;
	window_restore(&x.w, &row, 0);
	assert_int_equal(x.w.entry_count, 0);
	row.position = 7;
	row.tries = INT64_MAX;
	window_restore(&x.w, &row, 0);
	window_restored(&x.w);
	assert_int_equal(x.w.entry_count, 1);
	assert_int_equal(go(&x, SENDER_REFUSED), 7);
	assert_int_equal(x.w.oldest->tries, 1);
	window_kept(&x.w, &kept);
	assert_int_equal(kept.after[0], 0);
	scene_close(&x);
}

/* A commit that has no room for all notes writes rows and does not move the position. If the target is loaded again then, the log has those events
 * once more. */
TEST(window, an_event_that_has_a_row_is_not_taken_from_the_log_again)
{
	struct scene            x;
	struct delivery_waiting row = {.position = 1};

	scene_open(&x, 3, 4);
	row.key = key_of(&x, "ann");
	window_restore(&x.w, &row, 0);
	window_restored(&x.w);
	event(&x, "ann"); /* position 1 */
	event(&x, "ann");
	assert_int_equal(x.w.entry_count, 2);
	assert_int_equal(x.w.after.after[0], 2);
	assert_int_equal(go(&x, SENDER_SENT), 1);
	assert_int_equal(go(&x, SENDER_SENT), 2);
	assert_int_equal(go(&x, SENDER_SENT), 0);
	scene_close(&x);
}

TEST(window, an_event_that_was_trimmed_is_skipped_and_its_subject_goes_on)
{
	struct scene  x;
	struct flight a;

	scene_open(&x, 3, 4);
	event(&x, "ann");
	event(&x, "ann");
	assert_int_equal(take(&x, &a), 1);
	window_skip(&x.w, &a);
	assert_int_equal(x.w.after.after[0], 1);
	assert_int_equal(go(&x, SENDER_SENT), 2);
	assert_int_equal(x.w.after.after[0], 2);
	assert_int_equal(x.w.flying, 0);
	assert_int_equal(written(&x).count, 0);
	scene_close(&x);
}

TEST(window, events_go_in_order_and_the_position_follows_what_is_settled)
{
	struct scene  x;
	struct flight a, b, c;

	scene_open(&x, 3, 4);
	event(&x, "ann");
	event(&x, "bob");
	event(&x, "cat");
	assert_int_equal(take(&x, &a), 1);
	assert_int_equal(take(&x, &b), 2);
	assert_int_equal(take(&x, &c), 3);
	end(&x, &b, SENDER_SENT, 0);
	assert_int_equal(x.w.after.after[0], 0); /* (2) */
	end(&x, &a, SENDER_SENT, 0);
	assert_int_equal(x.w.after.after[0], 2);
	end(&x, &c, SENDER_SENT, 0);
	assert_int_equal(x.w.after.after[0], 3);
	assert_int_equal(written(&x).count, 0);
	scene_close(&x);
}

TEST(window, of_a_subject_one_event_flies_at_a_time)
{
	struct scene  x;
	struct flight a, b;

	scene_open(&x, 3, 4);
	event(&x, "ann");
	event(&x, "ann");
	event(&x, "bob");
	event(&x, "ann");
	assert_int_equal(take(&x, &a), 1);
	assert_int_equal(take(&x, &b), 3); /* (1) */
	assert_int_equal(go(&x, SENDER_SENT), 0);
	end(&x, &a, SENDER_SENT, 0);
	assert_int_equal(go(&x, SENDER_SENT), 2);
	assert_int_equal(go(&x, SENDER_SENT), 4);
	end(&x, &b, SENDER_SENT, 0);
	assert_int_equal(x.w.after.after[0], 4);
	scene_close(&x);
}

TEST(window, a_refused_event_is_put_aside_with_those_behind_it_and_others_pass)
{
	struct scene   x;
	struct written r;

	scene_open(&x, 3, 4);
	event(&x, "bad");
	event(&x, "bad");
	event(&x, "good");
	assert_int_equal(go(&x, SENDER_REFUSED), 1);
	assert_int_equal(go(&x, SENDER_SENT), 3);
	event(&x, "bad"); /* comes later, waits as well */
	event(&x, "good");
	assert_int_equal(go(&x, SENDER_SENT), 5);
	assert_int_equal(go(&x, SENDER_SENT), 0);
	r = written(&x);
	assert_true(r.all);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.notes[0].position, 1);
	assert_int_equal(r.notes[0].tries, 1);
	assert_int_equal(r.notes[1].tries, 0);
	assert_int_equal(x.w.after.after[0], 5);
	{
		struct event_cursor kept;

		window_kept(&x.w, &kept);
		assert_int_equal(kept.after[0], 0); /* the log is still needed from there on */
	}
	x.now_us += 10 * SECOND;
	assert_int_equal(go(&x, SENDER_SENT), 1);
	assert_int_equal(go(&x, SENDER_SENT), 2); /* at once, in their order */
	assert_int_equal(go(&x, SENDER_SENT), 4);
	r = written(&x);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.notes[0].kind, DELIVERY_SENT);
	assert_int_equal(x.w.entry_count, 0);
	scene_close(&x);
}

TEST(window, an_event_that_comes_before_the_end_of_another_was_written_down_is_not_forgotten)
{
	struct scene x;

	scene_open(&x, 3, 4);
	event(&x, "bad");
	assert_int_equal(go(&x, SENDER_REFUSED), 1);
	written(&x);
	x.now_us += 10 * SECOND;
	assert_int_equal(go(&x, SENDER_SENT), 1);
	event(&x, "bad"); /* the row of the first one is still there */
	assert_int_equal(go(&x, SENDER_SENT), 2);
	written(&x);
	assert_int_equal(x.w.entry_count, 0);
	assert_int_equal(x.w.after.after[0], 2);
	scene_close(&x);
}

TEST(window, after_its_tries_an_event_is_dead_and_its_subject_goes_on)
{
	struct scene   x;
	struct written r;

	scene_open(&x, 3, 4);
	event(&x, "bad");
	event(&x, "bad");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(go(&x, SENDER_REFUSED), 1);
		assert_int_equal(go(&x, SENDER_REFUSED), 0);
		x.now_us += 3600 * SECOND;
	}
	r = written(&x); /* only then: after a restart the first one could be accepted */
	assert_int_equal(r.notes[0].kind, DELIVERY_DEAD);
	assert_int_equal(r.notes[0].tries, 3);
	assert_true(bytes_is(r.notes[0].error, "no"));
	assert_int_equal(r.notes[1].kind, DELIVERY_WAITS);
	assert_int_equal(go(&x, SENDER_SENT), 2);
	scene_close(&x);
}

TEST(window, an_event_that_fails_while_others_pass_is_to_blame)
{
	struct scene  x;
	struct flight bad;

	scene_open(&x, 3, 4);
	event(&x, "bad");
	event(&x, "good");
	assert_int_equal(take(&x, &bad), 1);
	assert_int_equal(go(&x, SENDER_SENT), 2);
	end(&x, &bad, SENDER_LATER, 0);
	assert_int_equal(x.w.entry_count, 1); /* (3) */
	assert_int_equal(x.w.after.after[0], 2);
	assert_int_equal(x.w.pauses, 0);
	scene_close(&x);
}

TEST(window, a_target_that_accepts_nothing_pauses_and_no_event_loses_a_try)
{
	struct scene x;
	int64_t      paused_us = 0;

	scene_open(&x, 3, 4);
	for (int i = 0; i < 20; i++)
		event(&x, arena_printf(&x.arena, "s%d", i % 7).data);
	for (int i = 0; i < 5000; i++) { /* for hours */
		struct flight a, b;

		if (take(&x, &a) > 0) {
			if (x.w.pauses > 0)
				assert_int_equal(take(&x, &b), 0); /* one call probes */
			end(&x, &a, SENDER_LATER, 0);
		}
		if (x.w.paused_us - x.now_us > paused_us)
			paused_us = x.w.paused_us - x.now_us;
		x.now_us += SECOND;
	}
	assert_int_equal(x.w.entry_count, 0);
	assert_int_equal(x.w.after.after[0], 0);
	assert_true(paused_us > 200 * SECOND && paused_us <= WINDOW_PAUSE_S_MAX * SECOND * 5 / 4);
	assert_true(x.w.failing_us > 0 && x.w.failing_us < 1010 * SECOND);
	x.now_us += 1000 * SECOND;
	for (int i = 0; i < 20; i++) { /* then everything arrives, in order */
		int64_t last[7] = {0}, position = go(&x, SENDER_SENT);

		if (position == 0) {
			x.now_us += 2 * SECOND;
			position = go(&x, SENDER_SENT);
		}
		assert_true(position > last[(position - 1) % 7]);
		last[(position - 1) % 7] = position;
	}
	assert_int_equal(x.w.after.after[0], 20);
	assert_int_equal(x.w.failing_us, 0);
	scene_close(&x);
}

TEST(window, a_target_that_refuses_everything_pauses_as_well)
{
	struct scene x;

	scene_open(&x, 3, 4);
	for (int i = 0; i < 30; i++)
		event(&x, arena_printf(&x.arena, "s%d", i).data);
	for (int i = 0; i < WINDOW_REFUSED_MAX - 1; i++)
		assert_int_equal(go(&x, SENDER_REFUSED), i + 1);
	assert_int_equal(x.w.pauses, 0);
	assert_int_equal(go(&x, SENDER_REFUSED), WINDOW_REFUSED_MAX);
	assert_int_equal(x.w.pauses, 1);
	assert_int_equal(x.w.entry_count, WINDOW_REFUSED_MAX - 1); /* not the last */
	assert_int_equal(go(&x, SENDER_REFUSED), 0);
	for (int i = 0; i < 1000; i++) { /* none becomes a dead letter by this */
		x.now_us += 100 * SECOND;
		go(&x, SENDER_REFUSED);
	}
	for (const struct entry *e = x.w.oldest; e != NULL; e = e->next)
		assert_int_equal(e->note, ENTRY_PUT);
	scene_close(&x);
}

TEST(window, a_probe_takes_the_event_that_was_tried_least)
{
	struct scene x;

	scene_open(&x, 3, 4);
	event(&x, "never");
	event(&x, "good");
	for (int i = 0; i < WINDOW_LATER_MAX; i++) { /* it is alone, as far as anybody knows */
		struct flight f;

		x.w.slots[1]->state = SLOT_FLYING;
		assert_int_equal(take(&x, &f), 1);
		end(&x, &f, SENDER_LATER, 0);
		x.w.slots[1]->state = SLOT_READY;
		x.now_us += 2 * SECOND;
	}
	assert_true(x.w.pauses > 0);
	x.now_us += 10 * SECOND;
	assert_int_equal(go(&x, SENDER_SENT), 2);
	assert_int_equal(x.w.pauses, 0);
	x.now_us += 2 * SECOND;
	assert_int_equal(go(&x, SENDER_LATER), 1); /* now it is to blame */
	assert_int_equal(x.w.entry_count, 1);
	assert_int_equal(x.w.after.after[0], 2);
	scene_close(&x);
}

TEST(window, a_target_that_asks_for_a_pause_gets_it)
{
	struct scene  x;
	struct flight f;

	scene_open(&x, 3, 4);
	event(&x, "ann");
	assert_int_equal(take(&x, &f), 1);
	end(&x, &f, SENDER_LATER, 600);
	assert_int_equal(x.w.paused_us, x.now_us + 600 * SECOND);
	x.now_us += 599 * SECOND;
	assert_int_equal(go(&x, SENDER_SENT), 0);
	assert_int_equal(window_next_us(&x.w, x.now_us), x.now_us + SECOND);
	x.now_us += SECOND;
	assert_int_equal(go(&x, SENDER_SENT), 1);
	scene_close(&x);
}

/* At 10 per second, whatever the lanes, for five seconds. */
TEST(window, a_rate_holds_for_first_tries_and_others_together)
{
	struct scene  x;
	struct flight f;
	int           taken = 0;

	scene_open(&x, 3, 16);
	x.w.limits.rate = 10;
	for (int i = 0; i < 200; i++)
		event(&x, arena_printf(&x.arena, "s%d", i).data);
	for (int64_t ms = 0; ms < 5000; ms++, x.now_us += 1000)
		for (; take(&x, &f) != 0; taken++)
			end(&x, &f, taken % 7 == 3 ? SENDER_REFUSED : SENDER_SENT, 0);
	assert_in_range(taken, 49, 51);
	assert_in_range(window_next_us(&x.w, x.now_us), x.now_us, x.now_us + SECOND / 10);
	scene_close(&x);
}

/* 3 do not divide a second: one that is due must come, and batches are no way round. */
TEST(window, a_rate_is_kept_to_in_batches_and_nothing_of_it_is_lost_by_rounding)
{
	static const int64_t rates[] = {1, 3, 7, 999, 10000};
	struct flight        f[WINDOW_BATCH_MAX];

	for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
		struct scene x;
		int64_t      taken = 0, till_us;

		scene_open(&x, 3, 4);
		x.w.limits.rate = rates[r];
		for (till_us = x.now_us + 4 * SECOND; x.now_us < till_us;) {
			uint32_t count;

			while (x.w.end - x.w.first < 128)
				event(&x, arena_printf(&x.arena, "s%d", (int)x.position).data);
			count = window_take(&x.w, x.now_us, WINDOW_BATCH_MAX, SIZE_MAX, f);
			for (uint32_t i = 0; i < count; i++)
				end(&x, &f[i], SENDER_SENT, 0);
			taken += count;
			if (count == 0) {
				assert_true(window_next_us(&x.w, x.now_us) > x.now_us);
				x.now_us = window_next_us(&x.w, x.now_us);
			}
		}
		assert_in_range(taken, 4 * rates[r] * 99 / 100, 4 * rates[r] + rates[r] / 10 + 1);
		scene_close(&x);
	}
}

TEST(window, one_slow_call_does_not_hold_up_the_others)
{
	struct scene  x;
	struct flight slow, f;
	int64_t       last = 1;

	scene_open(&x, 3, 4);
	event(&x, "slow");
	assert_int_equal(take(&x, &slow), 1);
	for (int i = 0; i < 2 * WINDOW_SLOTS; i++) { /* more than fit beside it */
		event(&x, "fast");
		assert_int_equal(take(&x, &f), ++last);
		end(&x, &f, SENDER_SENT, 0);
	}
	event(&x, "slow"); /* waits behind it */
	assert_int_equal(go(&x, SENDER_SENT), 0);
	assert_int_equal(x.w.after.after[0], last + 1); /* (4) */
	assert_int_equal(written(&x).count, 2);
	end(&x, &slow, SENDER_SENT, 0); /* it did get through */
	assert_int_equal(go(&x, SENDER_SENT), last + 1);
	assert_int_equal(written(&x).count, 2);
	assert_int_equal(x.w.entry_count, 0);
	assert_int_equal(x.w.flying, 0);
	scene_close(&x);
}

TEST(window, what_happens_to_an_entry_while_it_is_written_is_written_next)
{
	struct scene         x;
	struct delivery_note notes[DELIVERY_NOTES_MAX];
	struct written       r;
	bool                 all;

	scene_open(&x, 3, 4);
	event(&x, "bad");
	assert_int_equal(go(&x, SENDER_REFUSED), 1);
	assert_int_equal(window_notes(&x.w, &x.arena, notes, &all), 1);
	x.now_us += 10 * SECOND;
	assert_int_equal(go(&x, SENDER_SENT), 1); /* while the commit is under way */
	window_noted(&x.w, true);
	r = written(&x);
	assert_int_equal(r.count, 1);
	assert_int_equal(r.notes[0].kind, DELIVERY_SENT);
	assert_true(r.notes[0].known);
	assert_int_equal(x.w.entry_count, 0);
	event(&x, "bad");
	assert_int_equal(go(&x, SENDER_REFUSED), 2);
	assert_int_equal(window_notes(&x.w, &x.arena, notes, &all), 1);
	window_noted(&x.w, false); /* the commit failed */
	r = written(&x);
	assert_int_equal(r.count, 1);
	assert_false(r.notes[0].known);
	scene_close(&x);
}

TEST(window, more_than_a_commit_holds_is_written_in_several_and_the_position_last)
{
	struct scene   x;
	struct written r;
	uint32_t       count = 0;

	scene_open(&x, 3, 4);
	for (int i = 0; i < 200; i++)
		event(&x, "bad");
	assert_int_equal(go(&x, SENDER_REFUSED), 1);
	do {
		r = written(&x);
		count += r.count;
	} while (!r.all);
	assert_int_equal(count, 200);
	assert_int_equal(x.w.after.after[0], 200);
	scene_close(&x);
}

TEST(window, entries_come_back_from_rows_with_the_oldest_of_a_subject_first_and_are_bounded)
{
	struct scene x;
	int64_t      first, second;

	scene_open(&x, 3, 4);
	for (int i = 0; i < DELIVERY_WAITING_MAX; i++) {
		struct delivery_waiting row = {.position = DELIVERY_WAITING_MAX - i,
		                               .key = key_of(&x, i % 2 == 0 ? "even" : "odd")};

		window_restore(&x.w, &row, 0);
		assert_int_equal(window_room(&x.w) > 0, i < DELIVERY_WAITING_MAX - 1); /* (5) */
	}
	window_restored(&x.w);
	first = go(&x, SENDER_SENT);
	second = go(&x, SENDER_SENT);
	assert_true(first + second == 1 + 2 || first + second == 1 + 3 || first + second == 2 + 4);
	scene_close(&x);
}

/* A target that fails in every way, at random: nothing is lost, nothing overtakes within a subject, and what is written is enough to go on from. */
TEST(window, whatever_happens_each_subject_is_accepted_in_order_and_nothing_is_lost)
{
	enum { SUBJECTS = 5, EVENTS = 2000 };

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct random  random;
		struct scene   x;
		struct flight  flying[4];
		int64_t        last[SUBJECTS] = {0}, sent = 0, dead = 0;
		uint32_t       count = 0;
		struct written r;

		random = (struct random){seed};
		scene_open(&x, 3, 4);
		while (sent + dead < EVENTS) {
			bool down = x.now_us / (300 * SECOND) % 3 == 1;

			if (x.position < EVENTS && window_room(&x.w) > 0)
				event(&x, arena_printf(&x.arena, "s%d", (int)(x.position % SUBJECTS)).data);
			if (count < 4 && take(&x, &flying[count]) > 0)
				count++;
			if (count > 0 && random_below(&random, 2) == 0) {
				uint32_t      which = (uint32_t)random_below(&random, count);
				struct flight f = flying[which];
				int64_t       position = position_of(&f);
				bool          good = !down && random_below(&random, 10) > 0;

				flying[which] = flying[--count];
				if (good) {
					assert_true(position > last[(position - 1) % SUBJECTS]); /* (1) */
					last[(position - 1) % SUBJECTS] = position;
					sent++;
				}
				end(&x, &f,
				    good                            ? SENDER_SENT
				    : random_below(&random, 3) == 0 ? SENDER_REFUSED
				                                    : SENDER_LATER,
				    0);
			}
			if (random_below(&random, 10) == 0) {
				r.count = window_notes(&x.w, &x.arena, r.notes, &r.all);
				for (uint32_t i = 0; i < r.count; i++)
					dead += r.notes[i].kind == DELIVERY_DEAD;
				window_noted(&x.w, true);
			}
			if (random_below(&random, 3) == 0)
				x.now_us += SECOND;
		}
		assert_int_equal(sent + dead, EVENTS);
		written(&x);
		assert_int_equal(x.w.after.after[0], EVENTS);
		assert_int_equal(x.w.entry_count, 0);
		scene_close(&x);
	}
}
