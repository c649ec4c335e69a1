/* Reconciliation: the users of an identity provider and those here, compared one by one. A job (job.h) of the kind `reconcile`:
 *
 *   pool    each page of the provider's users: who is absent here is created, who differs is changed (sync.h), and who cannot be
 *           becomes a dead letter
 *   here    each user who came from the provider: is it still there? One that is not is reported, and suspended if the job was
 *           started like that
 *
 * for one provider after the other. A dry run counts, and changes nothing.
 *
 * What always holds
 * (1) A user here is never deleted: who is missing at the provider may be so by a mistake.
 * (2) The cursor says where the next step begins; a page of the provider's may take several steps.
 * (3) Two records of one step never concern the same user or address: what the first wrote cannot be read before it is committed.
 *
 * Who is missing at the provider is in rows of the table gatehouse-sync, until a later run finds it there or the row expires:
 *
 *   MISSING   <user>#<provider>    userId, provider, foundAt, suspended, ttl */
#ifndef SERVICE_RECONCILE_H
#define SERVICE_RECONCILE_H

#include "service/job.h"
#include "service/provider.h"

enum {
	RECONCILE_APART_MAX = 5, /* records of one step, on a store that is not alone */
	RECONCILE_ROOM = 16,     /* rows that one record may take, with its events */
	RECONCILE_ASKED_MAX =
	        10, /* users of one step whom the provider is asked about: all may be suspended */
	RECONCILE_SCANS_MAX = 100, /* pages of the table that are read for these */
	RECONCILE_KEPT_S = 90 * 86400,
	RECONCILE_MISSING_PAGE = 500,
};

extern const struct job_kind reconcile_job;

struct reconcile {
	struct bytes provider; /* empty: all of the identity file */
	bool         suspend;  /* who is missing at the provider */
	bool         dry_run;
	int64_t      rate; /* users per second; 0: the provider's */
};

/* Adds to the changes. One runs at a time. ERR_NOT_FOUND: there is no such provider. ERR_NOT_NOW: one runs that was asked for
 * something else. */
enum err_code reconcile_start(struct context *ctx, const struct reconcile *q, struct job_started *out,
                              struct err *err);

/* Who was found missing. */
struct missing {
	struct bytes user, provider, found_at;
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

/* For erasing: those of a user. */
enum err_code missing_erase(struct context *ctx, struct bytes user, struct err *err);

#endif
