/* Blame: whose fault is a failure, the event's or the target's, and what follows from that. See delivery_window.h, and docs/decisions/025. */
#include "server/delivery_window_parts.h"

static void accepted(struct window *w, const struct flight *f, int64_t now_us)
{
	w->sent++;
	w->success_us = now_us;
	w->failing_us = w->paused_us = 0;
	w->later = w->refused = w->pauses = 0;
	if (f->entry != NULL)
		entry_end(w, f->entry, ENTRY_SENT);
	else
		slot_settle(w, f->slot);
}

/* The target's fault, as far as anybody knows: it is tried again, and is not blamed. */
static void spared(struct window *w, const struct flight *f, int64_t now_us)
{
	if (f->entry != NULL) {
		f->entry->next_us = now_us + window_jittered(w, ENTRY_FIRST_S * SECOND_US);
		return;
	}
	f->slot->attempts++;
	f->slot->state = SLOT_READY;
	f->slot->next_us = now_us + window_jittered(w, SECOND_US);
}

static void blamed(struct window *w, const struct flight *f, const struct sender_event *r, int64_t now_us)
{
	struct entry *e = f->entry;

	if (e == NULL) {
		e = slot_aside(w, f->slot);
		slot_settle(w, f->slot);
		entries_head_choose(w, e->key);
	}
	entry_error(e, r);
	entry_failed(w, e, e->tries + 1, now_us);
}

/* Did the target accept another one since this one flew for the first time, or last failed? (3) */
static bool others_pass(const struct window *w, const struct flight *f)
{
	if (f->entry == NULL)
		return w->sent > f->slot->sent;
	return f->entry->restored ? w->success_us > f->entry->failed_us : w->sent > f->entry->sent;
}

static void pause_begin(struct window *w, int64_t wait_s, int64_t now_us)
{
	int64_t pause_s = w->pauses < 10 ? INT64_C(1) << w->pauses : WINDOW_PAUSE_S_MAX;

	if (w->paused_us > now_us && wait_s == 0) /* of a call that began before */
		return;
	pause_s = pause_s < WINDOW_PAUSE_S_MAX ? pause_s : WINDOW_PAUSE_S_MAX;
	w->pauses++;
	w->paused_us =
	        now_us + (wait_s > pause_s ? wait_s * SECOND_US : window_jittered(w, pause_s * SECOND_US));
}

static void fails(struct window *w, int64_t now_us)
{
	if (w->failing_us == 0)
		w->failing_us = now_us;
}

static void put_off(struct window *w, const struct flight *f, const struct sender_event *r, int64_t now_us)
{
	bool passes = others_pass(w, f);

	w->later++;
	fails(w, now_us);
	if (passes)
		blamed(w, f, r, now_us);
	else
		spared(w, f, now_us);
	if (w->later >= WINDOW_LATER_MAX || w->pauses > 0 || r->wait_s > 0)
		pause_begin(w, r->wait_s, now_us);
}

static void refused(struct window *w, const struct flight *f, const struct sender_event *r, int64_t now_us)
{
	if (++w->refused < WINDOW_REFUSED_MAX) {
		blamed(w, f, r, now_us);
		return;
	}
	fails(w, now_us);
	spared(w, f, now_us);
	pause_begin(w, 0, now_us);
}

void window_done(struct window *w, const struct flight *f, const struct sender_event *e, int64_t now_us)
{
	struct flight now = window_landed(w, f);

	switch (e->end) {
	case SENDER_SENT:
		accepted(w, &now, now_us);
		break;
	case SENDER_LATER:
		put_off(w, &now, e, now_us);
		break;
	case SENDER_REFUSED:
		refused(w, &now, e, now_us);
		break;
	case SENDER_GONE:
		w->gone = true;
		spared(w, &now, now_us);
		break;
	}
	slots_pop(w);
}

void window_lost(struct window *w, struct entry *e, int64_t now_us)
{
	struct sender_event r = {.error = "the event was trimmed from the log before it could be delivered"};

	window_landed(w, &(struct flight){.entry = e});
	e->failed_us = now_us;
	entry_error(e, &r);
	entry_end(w, e, ENTRY_DEAD);
}
