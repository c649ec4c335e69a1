/* Missing: users here whom their identity provider no longer has, as reconciliation found them (reconcile.h), and the way back for
 * those whom it suspended for that. Rows of the table gatehouse-sync, until a later run finds the user there:
 *
 *   MISSING   <user>#<provider>    userId, provider, foundAt, job, suspended, ttl
 *
 * What always holds
 * (1) `suspended` is true exactly if reconciliation suspended the user and nobody has reactivated it or taken that over since it was
 *     written. The user's own row decides (user.h, 5): restoring never reactivates a user whom a person suspended.
 * (2) Such a row stays until the user is restored, there again or erased. Others expire after MISSING_KEPT_S. */
#ifndef SERVICE_MISSING_H
#define SERVICE_MISSING_H

#include "service/job.h"
#include "service/user.h"

enum {
	MISSING_KEPT_S = 90 * 86400,
	MISSING_PAGE_MAX = 500,
	RESTORE_RATE = 50,     /* users per second */
	RESTORE_STEP_MAX = 10, /* users of one step */
};

/* Who was found missing, and by which job. */
struct missing {
	struct bytes user, provider, found_at, job;
	bool         suspended;
};

struct missing_page {
	struct missing *list;
	uint32_t        count;
	bool            more;
	struct bytes    last; /* if more */
};

enum err_code missing_find(struct context *ctx, struct bytes after, uint32_t limit, struct missing_page *out,
                           struct err *err);
/* Of m->user and m->provider. */
enum err_code missing_get(struct context *ctx, struct missing *m, bool *found, struct err *err);

/* Where a page after this one begins. */
struct bytes missing_key(struct arena *a, struct bytes user, struct bytes provider);

/* Both add to the changes. */
void missing_put(struct context *ctx, const struct missing *m); /* foundAt is now, unless it says when */
void missing_delete(struct context *ctx, struct bytes user, struct bytes provider);

/* For erasing: those of a user. */
enum err_code missing_erase(struct context *ctx, struct bytes user, struct err *err);

/* ---- the way back: a job that reactivates all whom reconciliation suspended as missing (1) ---- */

extern const struct job_kind restore_job;

struct restore {
	struct bytes provider; /* empty: of all */
	bool         dry_run;
	int64_t      rate; /* users per second; 0: RESTORE_RATE */
};

/* Adds to the changes. One runs at a time. ERR_NOT_NOW: one runs that was asked for something else. */
enum err_code restore_start(struct context *ctx, const struct restore *q, struct job_started *out,
                            struct err *err);

#endif
