/* Jobs over all registered devices (job.h). Both walk through the tables a page a step, and can be started anew at any time.
 *
 * device-cleanup   removes devices that have been inactive for so many days: args `inactiveDays`
 * device-repair    makes up for what others wrote to `device-tokens`: each token gets its marker, a token that two devices have
 *                  goes to the one seen last, each row gets the attributes of the index (or loses them, if it is switched off),
 *                  and markers of nothing go */
#ifndef SERVICE_PUSH_JOB_H
#define SERVICE_PUSH_JOB_H

#include "service/job.h"
#include "service/push_device.h"

enum {
	PUSH_INACTIVE_DAYS = 30, /* unless set */
	PUSH_INACTIVE_DAYS_MAX = 3650,
	PUSH_JOB_RATE = 1000,  /* rows per second, unless set */
	PUSH_REPAIR_S = 86400, /* how often rows are repaired by themselves, if there is an index */
	PUSH_STEP_ROWS = 50,   /* that a step looks at */
};

extern const struct job_kind push_cleanup, push_repair;

/* Starts one; there is one of each kind at a time. days: of a clean-up. ERR_NOT_NOW: one runs that was asked for something else. */
enum err_code push_job_start(struct context *ctx, const struct job_new *q, int64_t days,
                             struct job_started *out, struct err *err);

#endif
