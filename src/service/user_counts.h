/* How many users there are, by status and by provider. No row is counted as it is written: a counter that every sign-up changes is a row that all of them wait for, and at
 * an endpoint one more write for each. A job (job.h) of the kind `count-users` reads the table `users` instead, and leaves what it found in one row of the jobs'
 * table, which is cheap to read and says when it was counted:
 *
 *   RESULT  count-users
 *
 * What always holds
 * (1) A user that is there from the job's start to its end is counted exactly once, as it was when its row was read. One that comes or goes meanwhile is counted
 *     or not.
 * (2) Users that are being erased are not counted.
 * (3) Providers beyond the first USER_COUNTS_PROVIDERS_MAX, and names that no provider has, are counted together, as OTHER_PROVIDERS. */
#ifndef SERVICE_USER_COUNTS_H
#define SERVICE_USER_COUNTS_H

#include "service/job.h"

enum {
	USER_COUNTS_RATE = 5000, /* users per second: about 600 read units at an endpoint */
	USER_COUNTS_PROVIDERS_MAX = 50,
};

#define OTHER_PROVIDERS "(others)"
#define NO_PROVIDER     "(none)"

struct user_counts {
	int64_t      users;
	struct item  by_status, by_provider;
	struct bytes started_at, ended_at; /* "2026-11-15T22:00:00Z" */
	struct bytes job;                  /* its id */
};

extern const struct job_kind user_counts_job;

/* One at a time: if one runs, that is the answer. Rate 0: USER_COUNTS_RATE. */
enum err_code user_counts_start(struct context *ctx, int64_t rate, struct job_started *out, struct err *err);

/* The newest. ERR_NOT_FOUND: they were never counted. */
enum err_code user_counts_get(struct context *ctx, struct user_counts *out, struct err *err);

#endif
