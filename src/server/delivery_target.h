/* Delivery to one target: a thread that reads the log and writes down what became of events (`target`), and one per lane that sends
 * (`deliver`). What is decided is decided in delivery_window.h; what is written, in service/delivery.h.
 *
 *   target:   own, load rows -> read a page -> window ------------> notes, how far -> commit -> …
 *   deliver:                              take -> send -> done
 *
 * What always holds
 * (1) A target that is down, slow or full of garbage costs its own threads and one window, and nothing of any other target's.
 * (2) Calls go out only while the process owns the target, and with what its row says: if that changes, calls under way end first.
 * (3) Time is the store's. Threads look at it at least once per second, so that a clock that is set is noticed.
 * (4) At a stop, calls under way get DELIVERY_STOP_MS. Those that are cut off count as not made; after the next start they are made again.
 * (5) What is sent was not erased: an event that has waited here is read again before it is sent, if a user was erased meanwhile by this process; and if others
 *     write to the table, of whom nobody here knows what they erase, if it was read DELIVERY_FRESH_MS ago. A call that has begun cannot be taken back. */
#ifndef SERVER_DELIVERY_TARGET_H
#define SERVER_DELIVERY_TARGET_H

#include "server/target_sender.h"
#include "service/delivery.h"
#include "table/store.h"

enum {
	DELIVERY_PAGE = 128,        /* events read at a time */
	DELIVERY_LOOK_MS = 1000,    /* (3) */
	DELIVERY_READ_GAP_MS = 10,  /* between two looks at the log that found little */
	DELIVERY_WRITE_GAP_MS = 50, /* between two commits */
	DELIVERY_IDLE_WRITE_S = 5,  /* how far it is, if nothing was sent */
	DELIVERY_SHOW_S = 10, /* from one look at its row to the next, if that goes over a network; else 1 */
	DELIVERY_STOP_MS = 2000,
	DELIVERY_FRESH_MS = 1000, /* (5) */
};

struct delivery_target_options {
	struct services       *services;
	struct store          *store;
	struct target_senders *senders;
	struct bytes           owner; /* of this process; stays valid */
	struct bytes           name;  /* copied */
};

struct delivery_target;

enum err_code delivery_target_open(struct delivery_target              **out,
                                   const struct delivery_target_options *options, struct err *err);
void          delivery_target_stop(struct delivery_target *t); /* asks it to; so that several stop at once */
void          delivery_target_close(struct delivery_target *t);

/* There may be new events. Any thread. */
void delivery_target_wake(struct delivery_target *t);

/* Its row may have changed. Any thread. */
void delivery_target_changed(struct delivery_target *t);

struct bytes delivery_target_name(const struct delivery_target *t);
void         delivery_target_read(struct delivery_target *t, struct target_reading *out);

#endif
