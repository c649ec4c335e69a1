/* What the routes that start jobs share with those that show them. */
#ifndef API_V1_JOBS_H
#define API_V1_JOBS_H

#include "api/v1.h"
#include "service/job.h"

/* The job, as an object. */
void v1_write_job(struct json_writer *w, const struct job *job);

/* `dryRun` and `rate` of a body that starts a job. */
void v1_read_job(struct fields *f, struct job_new *out);

/* A job of that kind was cancelled, durably. */
void v1_job_cancelled(struct v1_call *c, struct bytes kind);

#endif
