/* Redrive: all dead letters (dead_letter.h), or those of one group, delivered again. A job (job.h) of the kind `redrive`, one letter
 * per step. A letter that fails again stays, with what stands in its way now. A dry run counts the letters. */
#ifndef SERVICE_REDRIVE_H
#define SERVICE_REDRIVE_H

#include "service/dead_letter.h"
#include "service/job.h"

enum { REDRIVE_RATE = 100 }; /* letters per second */

extern const struct job_kind redrive_job;

struct redrive {
	struct bytes error; /* of this group only; empty: of all */
	bool         dry_run;
	int64_t      rate; /* 0: REDRIVE_RATE */
};

/* Adds to the changes. One runs at a time. ERR_NOT_NOW: one runs that was asked for something else. */
enum err_code redrive_start(struct context *ctx, const struct redrive *q, struct job_started *out,
                            struct err *err);

#endif
