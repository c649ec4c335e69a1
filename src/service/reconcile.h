/* Reconciliation: the users of an identity provider and those here, compared one by one. A job (job.h) of the kind `reconcile`:
 *
 *   pool    each page of the provider's users: who is absent here is created, who differs is changed (sync.h), and who cannot be
 *           becomes a dead letter
 *   here    each user who came from the provider: is it still there? One that is not is reported (missing.h)
 *   suspend if the job was started like that: those who are reported are asked for once more, and suspended
 *
 * for one provider after the other. A dry run counts, and changes nothing.
 *
 * What always holds
 * (1) A user here is never deleted: who is missing at the provider may be so by a mistake.
 * (2) The cursor says where the next step begins; a page of the provider's may take several steps.
 * (3) Two records of one step never concern the same user or address: what the first wrote cannot be read before it is committed.
 * (4) Nobody is suspended before everybody was looked for. If too many active users would be, the job fails there and suspends
 *     nobody: more than the percentage that it was started with, and more than RECONCILE_FEW unless the provider listed nobody at
 *     all. A provider that answers wrongly is likelier than so many who left.
 * (5) Whom the provider has again is reactivated, if it was suspended as missing and no person took that over.
 * (6) Pages that lead back to an earlier one do not make it run for ever. */
#ifndef SERVICE_RECONCILE_H
#define SERVICE_RECONCILE_H

#include "service/job.h"
#include "service/missing.h"
#include "service/provider.h"

enum {
	RECONCILE_APART_MAX = 5, /* records of one step, on a store that is not alone */
	RECONCILE_ROOM = 24,     /* rows that one record may take, with its events */
	RECONCILE_ASKED_MAX =
	        10, /* users of one step whom the provider is asked about: all may be suspended */
	RECONCILE_LISTED_MAX = 100, /* rows of missing.h that are read for these */
	RECONCILE_SCANS_MAX = 100,  /* pages of the table that are read for these */
	RECONCILE_PERCENT = 5,      /* (4), unless set */
	RECONCILE_FEW = 3,          /* (4): in a small pool one user is many percent */
};

extern const struct job_kind reconcile_job;

struct reconcile {
	struct bytes provider; /* empty: all of the identity file */
	bool         suspend;  /* who is missing at the provider */
	int64_t      percent;  /* (4), up to 100; 0: RECONCILE_PERCENT */
	bool         dry_run;
	int64_t      rate; /* users per second; 0: the provider's */
};

/* Adds to the changes. One runs at a time. ERR_NOT_FOUND: there is no such provider. ERR_NOT_NOW: one runs that was asked for
 * something else. */
enum err_code reconcile_start(struct context *ctx, const struct reconcile *q, struct job_started *out,
                              struct err *err);

#endif
