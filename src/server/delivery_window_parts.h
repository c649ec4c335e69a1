/* Window, as its own files see it: delivery_window.c (events that come from the log and go out), delivery_entries.c (those that are put aside) and
 * delivery_blame.c (whose fault a failure is). Nobody else includes this. */
#ifndef SERVER_DELIVERY_WINDOW_PARTS_H
#define SERVER_DELIVERY_WINDOW_PARTS_H

#include "server/delivery_window.h"

#define SECOND_US INT64_C(1000000)

enum { ENTRY_FIRST_S = 5 }; /* before the second try of one that was put aside */

static inline struct slot *slot_at(const struct window *w, uint64_t seq)
{
	return w->slots[seq % WINDOW_SLOTS];
}

/* ---- delivery_window.c ---- */

/* Three quarters to five quarters of it. */
int64_t window_jittered(const struct window *w, int64_t us);

/* The slot has an entry now; so have later ones of its subject that were read already. */
struct entry *slot_aside(struct window *w, struct slot *s);

/* Those of its subject may go. */
void slot_settle(struct window *w, struct slot *s);

/* Gives up the slots at the front that are settled, and moves `after` along. (2) */
void slots_pop(struct window *w);

/* It flies no more. From here on it is a slot of the window, or an entry. */
struct flight window_landed(struct window *w, const struct flight *f);

/* ---- delivery_entries.c ---- */

void entry_free(struct entry *e);

/* Was this very event put aside already? */
bool window_has(const struct window *w, const struct window_event *event);

/* It waits behind another one of its subject, or has failed. */
struct entry *window_aside(struct window *w, const struct window_event *e);

/* The oldest of a subject is its head, unless another one flies already, or a dead one is not written down yet. */
void entries_head_choose(struct window *w, const char *key);

/* Why it failed. */
void entry_error(struct entry *e, const struct sender_event *r);

/* A failure of which the event is to blame: so many by now. */
void entry_failed(struct window *w, struct entry *e, int64_t tries, int64_t now_us);

/* It will not be tried again: sent or dead. The next one of its subject may go. */
void entry_end(struct window *w, struct entry *e, enum entry_note note);

#endif
