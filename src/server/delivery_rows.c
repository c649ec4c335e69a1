/* Rows of a target: loading them, and writing down what came of its events. See delivery_target.h and service/delivery.h. */
#define _GNU_SOURCE
#include "server/delivery_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/log.h"
#include "server/own_call.h"

enum { SETTLE_COST_BYTES = 16 * 1024 };

static uint64_t random_u64(void)
{
	uint64_t bits;

	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits)) {
		log_error("cannot get random bytes from the system");
		abort();
	}
	return bits;
}

/* ---- loading ---- */

struct settling {
	struct own_call        own; /* first */
	struct delivery_owner  who;
	struct delivery_settle q;
	struct target          target;
	bool                   mine, lost, alone;
	uint64_t               tries; /* delivery_tries_written */
};

static enum err_code own_it(struct own_call *own, struct err *err)
{
	struct settling *s = (struct settling *)own;

	s->alone = own->ctx.table->alone; /* the table is there only now */
	return delivery_own(&own->ctx, &s->who, &s->target, &s->mine, err);
}

/* Nothing flies from here on; it waits for what does. */
static void lanes_close(struct delivery_target *t)
{
	pthread_mutex_lock(&t->lock);
	t->open = false;
	while (t->window_made && t->window.flying > 0)
		pthread_cond_wait(&t->news, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

void delivery_target_unload(struct delivery_target *t)
{
	struct sender *sender;

	lanes_close(t);
	pthread_mutex_lock(&t->lock);
	sender = t->sender;
	t->sender = NULL; /* nobody stops it from here on */
	if (t->window_made)
		window_release(&t->window);
	t->window_made = false;
	t->sent = t->skipped = 0;
	t->recount = 0;
	pthread_mutex_unlock(&t->lock);
	if (sender != NULL)
		sender->kind->close(sender);
	t->loaded = false;
}

static enum err_code rows_load(struct delivery_target *t, struct err *err)
{
	struct delivery_page page = {.more = true};
	struct own_call      c;
	enum err_code        rc = ERR_NONE;
	int64_t              count = 0;

	while (page.more && rc == ERR_NONE) {
		own_call_init(&c, t->options.services, t->options.store);
		own_call_read(&c);
		rc = delivery_load(&c.ctx, &t->target, page.last, &page, err);
		for (uint32_t i = 0; rc == ERR_NONE && i < page.count; i++)
			window_restore(&t->window, &page.list[i], t->target.success_s * SECOND_US);
		page.last = arena_copy(&t->arena, page.last);
		count += page.count;
		own_call_read_end(&c);
		own_call_release(&c);
	}
	window_restored(&t->window);
	t->recount = rc == ERR_NONE ? count - t->target.waiting : 0;
	return rc;
}

static void window_make(struct delivery_target *t)
{
	struct window_limits limits = {.tries = t->target.tries,
	                               .lanes = t->target.lanes,
	                               .rate = t->target.rate,
	                               .random = random_u64};

	window_init(&t->window, &limits);
	t->window_made = true;
	window_begin(&t->window, &t->target.after);
	t->window.success_us = t->target.success_s * SECOND_US;
	t->window.failing_us = t->target.failing_s * SECOND_US;
	t->window.dead_full = t->target.dead >= DELIVERY_DEAD_MAX;
	t->written = t->target.after;
	t->failing_written = t->target.failing_s > 0;
	t->lanes_max = (unsigned)t->target.lanes;
	t->woken = t->more = true;
}

static enum err_code sender_make(struct delivery_target *t, struct err *err)
{
	struct context ctx = {.services = t->options.services, .arena = &t->arena};
	enum err_code  rc;

	ctx.now_us = store_us(t);
	ctx.now_s = ctx.now_us / SECOND_US;
	rc = target_sender_open_stored(t->options.senders, &ctx, &t->target, &t->sender, err);
	if (rc == ERR_NONE && t->sender->kind->lanes_max > 0 && t->lanes_max > t->sender->kind->lanes_max)
		t->window.limits.lanes = t->lanes_max = t->sender->kind->lanes_max;
	t->two_secrets = t->target.previous_until_s > ctx.now_s;
	return rc;
}

static void state_set(struct delivery_target *t, enum target_state state)
{
	pthread_mutex_lock(&t->lock);
	t->reading.state = state;
	pthread_mutex_unlock(&t->lock);
}

/* As many as the target has; those that it had before stay, and take nothing. */
static bool lanes_start(struct delivery_target *t, struct err *err)
{
	while (t->lanes_started < t->lanes_max) {
		if (worker_start(&t->lanes[t->lanes_started], err) != ERR_NONE)
			return false;
		t->lanes_started++;
	}
	return true;
}

/* Another process has it, and says how it fares. Counters stay. */
static void gauges_clear(struct delivery_target *t)
{
	struct target_reading *r = &t->reading;

	pthread_mutex_lock(&t->lock);
	r->state = TARGET_WELL;
	r->lag_events = r->lag_s = r->waiting = r->dead = 0;
	pthread_mutex_unlock(&t->lock);
}

/* Is it ours? Then t->target is its row, in our own arena. */
static bool own(struct delivery_target *t)
{
	struct settling s = {.who = {bytes_of(t->name), t->options.owner}};
	struct err      err;
	bool            good;

	own_call_init(&s.own, t->options.services, t->options.store);
	good = own_call_run(&s.own, &(struct own_step){own_it, sizeof(s), SETTLE_COST_BYTES}, &err) ==
	       ERR_NONE;
	if (good && !s.mine)
		gauges_clear(t);
	good = t->mine = good && s.mine;
	t->alone = good && s.alone;
	if (good) {
		struct item row = item_copy(&t->arena, &s.target.row);

		t->target = target_of(&t->arena, &row);
	}
	own_call_release(&s.own);
	return good;
}

/* For people to see why it does not get on: in the log, and in its row. Once, and not each time that it is tried again. */
static void unopened_tell(struct delivery_target *t, const struct err *why)
{
	struct sender_event said = {0};
	struct bytes        text = bytes_of(why->text);

	if (t->unopened)
		return;
	t->unopened = true;
	log_warn("target %s cannot be delivered to; it is tried again every second: %s", t->name, why->text);
	if (why->field[0] != '\0')
		text = arena_printf(&t->arena, "%s: %s", why->field, why->text);
	snprintf(said.error, sizeof(said.error), "%.*s", (int)sizeof(said.error) - 1, text.data);
	pthread_mutex_lock(&t->lock);
	if (t->window.failing_us == 0)
		t->window.failing_us = store_us(t);
	delivery_error_keep(t, &said, store_us(t));
	pthread_mutex_unlock(&t->lock);
	delivery_target_write(t);
}

/* Under lock. It does not fail for that reason any more. */
static void opened_note(struct delivery_target *t)
{
	if (t->unopened)
		t->window.failing_us = 0;
	t->unopened = false;
}

/* Ours and enabled, its rows in memory, a sender open? Then lanes may go. If not, it is tried again later. (2) */
void delivery_target_load(struct delivery_target *t)
{
	struct err err;

	delivery_target_unload(t);
	arena_reset(&t->arena);
	t->reload = false;
	t->load_us = t->owned_us = steady_us();
	if (!own(t))
		return;
	state_set(t, !t->target.enabled ? TARGET_DISABLED : TARGET_WELL);
	t->loaded = true;
	if (!t->target.enabled)
		return;
	pthread_mutex_lock(&t->lock);
	window_make(t);
	pthread_mutex_unlock(&t->lock);
	t->loaded = rows_load(t, &err) == ERR_NONE;
	delivery_tries_load(t);
	if (t->loaded && (sender_make(t, &err) != ERR_NONE || !lanes_start(t, &err))) {
		t->loaded = false;
		unopened_tell(t, &err);
	}
	if (!t->loaded) {
		state_set(t, TARGET_FAILING);
		return;
	}
	pthread_mutex_lock(&t->lock);
	opened_note(t);
	t->open = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
}

/* ---- writing down ---- */

static enum err_code settle_it(struct own_call *own, struct err *err)
{
	struct settling *s = (struct settling *)own;

	return delivery_settle(&own->ctx, &s->q, &s->target, &s->lost, err);
}

/* Under lock. Why it is to be disabled, if it is; now it has just failed. */
static struct bytes disable_reason(const struct delivery_target *t, struct arena *a, int64_t now_us)
{
	const struct window *w = &t->window;

	if (!t->target.enabled)
		return BYTES("");
	if (w->gone)
		return BYTES("the target answered that it is gone (410)");
	if (w->failing_us == 0 || w->pauses == 0 ||
	    now_us - w->failing_us < t->target.disable_after_s * SECOND_US)
		return BYTES("");
	return arena_printf(a, "it accepted nothing for %" PRIi64 " seconds",
	                    (now_us - w->failing_us) / SECOND_US);
}

/* Under lock. They are told once: if the commit fails, the next ones are. */
static const struct target_error *errors_take(struct delivery_target *t, struct arena *a, uint32_t *count)
{
	struct target_error *list = arena_array(a, TARGET_ERRORS_MAX, sizeof(*list));

	for (uint32_t i = 0; i < t->error_count; i++) {
		list[i] = t->errors[i];
		list[i].error = arena_printf(a, "%s", t->error_texts[i]);
		list[i].event = arena_printf(a, "%s", t->error_events[i]);
	}
	*count = t->error_count;
	t->error_count = 0;
	return list;
}

/* Under lock: all that is new, as far as a commit has room for it. */
static void settle_collect(struct delivery_target *t, struct settling *s, struct delivery_note *notes)
{
	struct window *w = &t->window;
	struct arena  *a = &s->own.arena;

	s->q = (struct delivery_settle){.who = s->who,
	                                .id = t->target.id,
	                                .notes = notes,
	                                .seeks = t->target.seeks,
	                                .after = w->after,
	                                .sent = (int64_t)t->sent,
	                                .skipped = (int64_t)t->skipped,
	                                .recount = t->recount,
	                                .success_s = w->success_us / SECOND_US,
	                                .failing_s = w->failing_us / SECOND_US,
	                                .disable = disable_reason(t, a, store_us(t))};
	window_kept(w, &s->q.kept);
	s->q.count = window_notes(w, a, notes, &s->q.moves);
	s->q.errors = errors_take(t, a, &s->q.error_count);
	s->q.tries = delivery_tries_take(t, a, &s->tries);
}

/* Under lock: it is in the table. */
static void settle_done(struct delivery_target *t, const struct settling *s)
{
	t->sent -= (uint64_t)s->q.sent;
	t->skipped -= (uint64_t)s->q.skipped;
	t->recount = 0;
	delivery_tries_written(t, s->tries);
	for (uint32_t i = 0; i < s->q.count; i++)
		t->reading.died += s->q.notes[i].kind == DELIVERY_DEAD;
	t->reading.waiting = s->target.waiting;
	t->reading.dead = s->target.dead;
	t->window.dead_full = s->target.dead >= DELIVERY_DEAD_MAX;
	if (s->q.moves)
		t->written = s->q.after;
	t->failing_written = s->q.failing_s > 0;
	t->target.version += s->q.disable.len > 0;
	t->target.enabled = s->target.enabled;
}

/* True: another commit is due at once. */
bool delivery_target_write(struct delivery_target *t)
{
	struct settling      s = {.who = {bytes_of(t->name), t->options.owner}};
	struct delivery_note notes[DELIVERY_NOTES_MAX];
	struct err           err;
	enum err_code        rc;
	bool                 again;

	own_call_init(&s.own, t->options.services, t->options.store);
	pthread_mutex_lock(&t->lock);
	settle_collect(t, &s, notes);
	pthread_mutex_unlock(&t->lock);
	rc = own_call_run(&s.own, &(struct own_step){settle_it, sizeof(s), SETTLE_COST_BYTES}, &err);
	pthread_mutex_lock(&t->lock);
	window_noted(&t->window, rc == ERR_NONE && !s.lost);
	if (rc == ERR_NONE && !s.lost)
		settle_done(t, &s);
	pthread_mutex_unlock(&t->lock);
	t->written_us = steady_us();
	again = rc == ERR_NONE && !s.lost && !s.q.moves;
	if (s.q.disable.len > 0 && rc == ERR_NONE && !s.lost)
		log_error("target %s is disabled: %.*s", t->name, BYTES_ARG(s.q.disable));
	if (rc == ERR_NONE && !s.lost && s.target.version != t->target.version)
		t->reload = true; /* somebody changed it meanwhile */
	if (s.lost || (rc != ERR_NONE && rc != ERR_OVERLOADED && rc != ERR_CONTENDED && rc != ERR_THROTTLED))
		t->reload = true; /* whatever is in the table now is what holds */
	own_call_release(&s.own);
	return again;
}

/* Under lock: in how many microseconds a commit is due; -1: there is nothing to write. */
int64_t delivery_target_write_due_us(const struct delivery_target *t)
{
	const struct window *w = &t->window;
	int64_t              gap_us = -1, tries_us = delivery_tries_due_us(t);

	if (w->dirty || t->sent > 0 || t->error_count > 0 || w->gone || t->recount != 0 ||
	    (w->failing_us > 0) != t->failing_written)
		gap_us = DELIVERY_WRITE_GAP_MS * 1000;
	else if (memcmp(w->after.after, t->written.after, w->after.shards * sizeof(w->after.after[0])) != 0)
		gap_us = DELIVERY_IDLE_WRITE_S * SECOND_US;
	if (gap_us < 0)
		return tries_us;
	gap_us += t->written_us - steady_us();
	if (tries_us >= 0 && tries_us < gap_us)
		return tries_us;
	return gap_us > 0 ? gap_us : 0;
}

void delivery_target_write_down(struct delivery_target *t)
{
	bool due;

	pthread_mutex_lock(&t->lock);
	due = delivery_target_write_due_us(t) == 0;
	pthread_mutex_unlock(&t->lock);
	while (due && !t->reload && delivery_target_write(t))
		;
}

/* A process that writes nothing for a while says that it is still there. On a table that is alone nobody wants to know. */
void delivery_target_stay_owner(struct delivery_target *t)
{
	struct settling s = {.who = {bytes_of(t->name), t->options.owner}};
	struct err      err;
	int64_t         last_us = t->written_us > t->owned_us ? t->written_us : t->owned_us;

	if (t->alone || steady_us() - last_us < DELIVERY_OWN_S * SECOND_US / 3)
		return;
	t->owned_us = steady_us();
	own_call_init(&s.own, t->options.services, t->options.store);
	if (own_call_run(&s.own, &(struct own_step){own_it, sizeof(s), SETTLE_COST_BYTES}, &err) ==
	            ERR_NONE &&
	    !s.mine)
		t->reload = true;
	own_call_release(&s.own);
}
