/* Lock events: what is told of locks, and the rows that say which lock will expire when. Rows of the table gatehouse-events:
 *
 *   DUE#7   001794789304#<hash>   subject, lock (its sort key), kind, until, group    a lock that holds until then
 *   DUE#7   001794788434#<hash>   the same, announce_at, cause, policy_version        one whose lock.set is published then, at the latest
 *
 * due.h has what is common to due rows. A lock has one due row at most: for what is to be
 * published of it next.
 *
 * What always holds
 * (1) Whoever changes or removes the row of a lock calls lock_changed in the same commit. So a due row is there exactly as long as its
 *     lock, if lock.expired was on when the lock was set. That is so if types are switched off meanwhile, all of them too. A lock that was set
 *     while lock.expired was off has none, and its end is not told, even if the type is on by then.
 * (2) The commit that publishes lock.expired removes the due row: nothing is told twice, and nothing of a lock that was cleared or
 *     prolonged meanwhile.
 * (3) What is told of one lock is in order: if it expired and nobody has told so yet, the commit that sets it anew tells that first. It looks
 *     through DUE_OVERDUE_MAX rows of its shard. If more are overdue than that, after a long outage, it may miss its own: then the worker tells
 *     of that end when it comes to it, after the lock was set anew. `until` says which end it is. None is lost.
 * (4) A lock over several ids (lock_group.h) is told of once: what its head becomes. Its due row is the head's. The others' changes are not told,
 *     so callers may report those of every row.
 * (5) A lock that an attempt sets when it begins (reservation.h) holds at once, and its lock.set waits: its row has announce_at, the second
 *     in which the attempt lapses, or in which the lock ends, if that is earlier. Of a group, all rows have it. The attempt's failure publishes it, or else the worker at
 *     that second. Whoever publishes it removes announce_at in the same commit. If the lock ends before that, however it ends, nothing is
 *     published of it. So lock.cleared and lock.expired never come without their lock.set.
 *
 * Only locks that are heeded are told of: those of rules in shadow mode are not. */
#ifndef SERVICE_LOCK_EVENT_H
#define SERVICE_LOCK_EVENT_H

#include "service/due.h"

/* Of a lock whose lock.set waits (5): the second in which it is published, at the latest. */
#define LOCK_ANNOUNCE "announce_at"

/* Why a lock ended before its time. */
#define LOCK_CLEARED_BY_PERSON  "person"  /* DELETE, PUT, or a bulk unlock */
#define LOCK_CLEARED_BY_RESET   "reset"   /* of the subject */
#define LOCK_CLEARED_BY_SUCCESS "success" /* of the attempt that had set it when it began */
#define LOCK_CLEARED_BY_ERASURE "erased"  /* with all else of the user */

/* The row of a lock becomes `next`; NULL: it is removed. old: as it was read; NULL: there was none. `why` is one of the above, if
 * no lock is left. */
void lock_changed(struct context *ctx, const struct item *old, const struct item *next, const char *why);

/* The rest of the lock that this row is of is changed or removed, and its head's row was removed by somebody else: what was due of that one is not
 * any more. */
void lock_head_forget(struct context *ctx, const struct item *row);

/* The lock.set of this lock waits no longer: publishes it, once for its group. (5) */
enum err_code lock_announce(struct context *ctx, const struct item *row, struct err *err);

/* How many rows of a commit it takes to tell that this lock was cleared, at most. 0 if it is no lock that is told of. */
uint32_t lock_changed_rows(const struct context *ctx, const struct item *row);

/* How many rows it takes to tell that so many locks of so many subjects were set, beside what every commit has room for. */
uint32_t lock_set_rows(const struct services *s, uint32_t locks, uint32_t subjects);

/* How many more it takes to publish later that they were set (5): each due row is moved. */
uint32_t lock_announce_rows(const struct services *s, uint32_t locks);

/* A lock that is not there is to be set: tells that it expired, if nobody has. (3) */
enum err_code lock_overdue(struct context *ctx, struct bytes pk, struct bytes sk, struct err *err);

/* ---- for the worker that tells of locks that have expired ---- */

/* Tells of one, unless it is not due, or told, or its lock was changed. *told: it was. Adds to the changes. */
enum err_code due_tell(struct context *ctx, const struct due *d, bool *told, struct err *err);

#endif
