/* Expiry: the worker that publishes what ends by itself at the second at which it ends (service/due.h): locks (service/lock_event.h), and registrations of devices
 * (service/push_due.h). What is said of locks here holds for both. It sleeps until the next lock ends;
 * calls that set one tell it. After a start it first tells of those that ended meanwhile, in order.
 *
 * On a table that others use too:
 * (1) The process that holds the lease `lock-expiry` tells of all locks. Nobody tells it what others set, so it looks for that when it gets the
 *     lease and every LOCK_EXPIRY_LOOK_S. Each look sees when the next one ends.
 * (2) A lock that may end before that look is also told of by the process that set it, lease or not. If that process is gone by then, the holder
 *     is late by LOCK_EXPIRY_OWN_S at most.
 * Two that tell of one lock hurt nobody: its row goes once (lock_event.h). */
#ifndef SERVER_LOCK_EXPIRY_H
#define SERVER_LOCK_EXPIRY_H

#include "service/lease.h"
#include "service/services.h"
#include "table/store.h"

enum {
	LOCK_EXPIRY_LOOK_S = 60,
	/* The holder looks, ends just before it looks again, and another one gets the lease, which looks at once. */
	LOCK_EXPIRY_OWN_S = LOCK_EXPIRY_LOOK_S + LEASE_S + LEASE_S / 3,
};

struct lock_expiry;

/* Sets services->expiry_post. If it fails, *out is to be closed all the same. */
enum err_code lock_expiry_open(struct lock_expiry **out, struct services *services, struct store *store,
                               struct err *err);
void          lock_expiry_close(struct lock_expiry *e); /* NULL is fine */

#endif
