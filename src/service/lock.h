/* Locks: rows JOURNEY#LOCK#NAME. Attempts set them through lock_add; people set, clear and list them.
 * A row whose count is 0 is no lock: it says that there is none. */
#ifndef SERVICE_LOCK_H
#define SERVICE_LOCK_H

#include "service/context.h"
#include "service/heed.h"
#include "service/verdict.h"

/* The count that a source's lock took the place of, if attempts that were begun are in it: those that turn out to be right are taken
 * off it, and below the maximum the lock was a mistake (reservation.h, 3). In the lock's row. */
#define LOCK_TOOK_SINCE "count_since" /* ROW_BEGUN_SINCE of the count */
#define LOCK_TOOK_COUNT "counted"     /* the attempt that set the lock included */
#define LOCK_TOOK_TTL   "count_ttl"   /* of the count */

struct lock_took {
	struct bytes since; /* empty: none */
	int64_t      count, ends_s;
};

/* One that is to be set. */
struct lock_new {
	struct bytes            pk, journey, type, name, qualifier;
	const struct bytes     *others;      /* ids that it is set on too, as one lock (lock_group.h) */
	uint32_t                other_count; /* fewer than LOCK_GROUP_MAX */
	const struct lock_kind *kind;
	int64_t                 duration_s;                     /* instead of the kind's; 0: the kind's */
	struct bytes            method_type, notification_type; /* empty: none */
	struct bytes            cause; /* the rule that set it; empty: a person did */
	struct bytes            set_by,
	        reason;           /* of a person's: who (empty: LOCK_BY_SOMEONE), and why. Of a rule's: why */
	int64_t          version; /* of the policies */
	struct bytes     history; /* the attempts behind it; empty: none */
	struct lock_took took;
	int64_t announce_s; /* it is published then, if it is not withdrawn before (lock_event.h, 5); 0: at once */
};

/* Of a rule's lock: the reason if it is that of failures in a row (streak.h). It is what its verdict says, too. */
#define LOCK_TOO_MANY_FAILURES "too_many_failures"

/* Beside the lock, the row may hold failures in a row (streak.h): maps, of strangers and of known devices. They are not the lock's: a
 * person who sets it and clears it leaves them as they were. The last is when they expire, while a lock holds. */
#define LOCK_FAILURES        "failures"
#define LOCK_DEVICE_FAILURES "device_failures"
#define LOCK_FAILURES_TTL    "failures_ttl"

/* A reset ends them, also where the lock stays. */
void lock_failures_end(struct context *ctx, const struct item *row);

enum { LOCK_REASON_MAX = 256, LOCK_SET_BY_MAX = 128 };

/* A lock that holds is never made shorter: of the old end and the new one the later counts. One that a person set
 * stays that person's, also where a rule sets it again. */
enum err_code lock_add(struct context *ctx, const struct lock_new *lock, struct verdict *out,
                       struct err *err);

/* What lock_add would say of it, where none holds. Changes nothing. */
enum err_code lock_foretell(struct context *ctx, const struct lock_new *lock, struct verdict *out,
                            struct err *err);

/* Removes the lock that this row is of: with its group, and how often it was set. `why` is one of lock_event.h's. What the commit removes already is
 * not told twice. */
enum err_code lock_remove(struct context *ctx, const struct item *row, const char *why, struct err *err);

/* How many rows of a commit that takes, at most. */
uint32_t lock_remove_rows(const struct context *ctx, const struct item *row);

/* Does the commit remove that lock already? */
bool lock_is_removed(const struct context *ctx, struct bytes pk, struct bytes sk);

/* Removes it, and how often it was set. *held says whether it held. */
enum err_code lock_clear(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err);

/* The same, and leaves a row with count 0 in its place, for readers that look for one. */
enum err_code lock_open(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err);

/* Removes a rule's lock that was a mistake, and takes its level back. */
enum err_code lock_withdraw(struct context *ctx, const struct item *lock, struct err *err);

/* Does the row of a lock hold at that time? */
bool lock_holds(const struct item *row, int64_t now_us);

/* What it says to whoever it stops. */
struct verdict lock_verdict(const struct looked *lock);

/* Did a person set it? Then a person lifts it: no reset does, and no bulk unlock that was not asked to. It holds in every
 * lane. One that a rule set does not, whatever its kind: else strangers could lock an owner out until someone helps her.
 *
 * A person's lock says who set it, or why (earlier versions wrote `set_by` only if it was known). A row that says neither, nor the
 * rule that set it, is that of other code that counts attempts: it is a rule's (decision 055). */
bool lock_is_persons(const struct item *row);

/* The rule, JOURNEY/TYPE; or who it was, as far as that is known: LOCK_BY_SOMEONE. Empty: a rule of other code. */
#define LOCK_BY_SOMEONE "an operator"
struct bytes lock_set_by(const struct item *row);

/* When it was set: of one that was prolonged, for the first time. */
int64_t lock_set_s(const struct item *row);

/* Whom a lock is of. False if the key is not that of a lock which can stop anything. */
bool lock_reach(struct bytes pk, struct bytes sk, enum lock_reach *out);

/* The row of a lock, for questions about what heeds it. False as above. */
bool lock_heed(struct bytes pk, const struct item *row, struct heed_lock *out);

/* Would /v1/check say that it holds, to somebody? By these policies, or by those that were in force when it was set (heed.h). */
bool lock_enforced(const struct rules *rules, struct bytes pk, const struct item *row);

/* ---- lists of locks ----
 *
 * Those that hold, of all subjects or of some, a page at a time; and bulk unlock.
 *
 * Work is bounded: a call reads one page of the table, or one of each subject, and LOCKS_EXAMINED_MAX rows in
 * all. A page may therefore have fewer locks than asked for, or none, and still not be the last: the last one
 * is the one without `more`. */

enum {
	LOCKS_PAGE_MAX = 500,
	LOCKS_EXAMINED_MAX = 2000, /* rows, locks or not */
	UNLOCK_SUBJECTS_MAX = 50,
	UNLOCK_MAX = 45, /* locks a call, two rows each; fewer on an engine with other writers */
};

struct lock_search {
	const struct bytes *subjects;
	uint32_t            subject_count;      /* 0: all there are */
	struct bytes        journey, name;      /* empty: any */
	struct bytes        kind, set_by;       /* of the lock; empty: any */
	bool                not_persons;        /* those that people set are passed over */
	struct bytes        after_pk, after_sk; /* where the last page ended; empty: begin */
	uint32_t            limit;
	bool (*sees)(void        *ctx,
	             struct bytes journey); /* whether locks of it are listed; NULL: those of all are */
	void *sees_ctx;
};

/* A lock that holds. */
struct lock_seen {
	struct item  row;
	struct bytes pk, sk, kind, cause, set_by, reason;
	int64_t      until_s, set_s; /* until_s 0: until someone clears it */
};

struct lock_page {
	struct lock_seen *list;
	uint32_t          count;
	uint32_t          kept; /* locks that people set, and that were passed over */
	bool              more;
	struct bytes      last_pk, last_sk; /* if more: where to go on */
};

/* ERR_INVALID, about `cursor`, if after_pk is not of these subjects. */
enum err_code locks_find(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                         struct err *err);

/* The same, and adds to the changes what clears each lock of the page: at most UNLOCK_MAX, or as many as a commit
 * among others has room for. */
enum err_code locks_unlock(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                           struct err *err);

#endif
