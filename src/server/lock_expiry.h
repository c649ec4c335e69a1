/* Lock expiry: the worker that tells of locks at the second at which they expire (service/lock_event.h). It sleeps until the next lock ends;
 * calls that set one tell it. After a start it first tells of those that ended meanwhile, in order. On a table that others use too, the
 * process that holds the lease `lock-expiry` does it, and looks once per second, because nobody tells it what others set. */
#ifndef SERVER_LOCK_EXPIRY_H
#define SERVER_LOCK_EXPIRY_H

#include "service/services.h"
#include "table/store.h"

struct lock_expiry;

/* Sets services->expiry_post. If it fails, *out is to be closed all the same. */
enum err_code lock_expiry_open(struct lock_expiry **out, struct services *services, struct store *store,
                               struct err *err);
void          lock_expiry_close(struct lock_expiry *e); /* NULL is fine */

#endif
