/* Waiting for a job of a running server: commands that start one show how far it is. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "cli/remote.h"

/* What commands that start one can be told besides. */
struct job_start {
	bool     dry_run, no_wait;
	uint64_t rate; /* 0: the kind's own */
};

/* A type's options for it; `in` is its member. */
#define JOB_OPTIONS(type, in, rows)                                                                          \
	{"--no-wait",                                                                                        \
	 OPTION_FLAG,                                                                                        \
	 NULL,                                                                                               \
	 "start the job and do not wait for it",                                                             \
	 offsetof(type, in.no_wait),                                                                         \
	 0,                                                                                                  \
	 0},                                                                                                 \
	        {"--dry-run",                                                                                \
	         OPTION_FLAG,                                                                                \
	         NULL,                                                                                       \
	         "change nothing, only count",                                                               \
	         offsetof(type, in.dry_run),                                                                 \
	         0,                                                                                          \
	         0},                                                                                         \
	{                                                                                                    \
		"--rate", OPTION_NUMBER, "N", rows " per second", offsetof(type, in.rate), 1, 1000000        \
	}

/* Members `dryRun` and `rate`, where they are said. */
void job_start_write(struct json_writer *w, const struct job_start *s);

/* Makes the call that starts a job. Unless `no_wait` says so, waits until it has ended, with its progress on standard error, and shows it.
 * Fails if the job did. *ended (may be NULL) is its last state. */
enum err_code job_run(struct remote *r, const struct remote_call *q, bool no_wait, const struct json **ended,
                      struct err *err);

#endif
