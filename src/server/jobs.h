/* Jobs: the workers that take the steps of service/job.h, one for kinds that answer an incident (job_kind.urgent) and one for all others, so
 * that the first never wait for the others. A worker finds running jobs when it starts, after a wake, and every JOBS_LOOK_S (over a network less
 * often, up to JOBS_REST_S, while it finds none); takes steps of them in turn; and starts those that are due by their period.
 *
 *   any thread                    a worker's thread                          a thread of the store's
 *   jobs_wake (service/job.h) --> finds rows of RUNNING
 *                                 fetch, if the kind has one (network)
 *                                 submits the step ------------------------> step, in its turn
 *                                 waits as the rate says, or backs off <---- durable, or failed
 *
 * (1) At most JOBS_TRACKED_MAX jobs of a worker are under way. If more wait, those that fail for the moment give way to them, and those of the caller
 *     that has most to those of a caller that has fewer: a job goes on where it was when there is room for it again.
 * (2) Callers take turns: whoever has a job that is due gets one step of one of its jobs, and its jobs take turns among themselves. So a caller waits for
 *     as many steps as there are callers, however many jobs these have.
 * (3) A stop waits for the step under way, and for nothing else: the next start goes on behind it. */
#ifndef SERVER_JOBS_H
#define SERVER_JOBS_H

#include "service/job.h"
#include "table/store.h"

enum {
	JOBS_TRACKED_MAX = 64,
	JOBS_LOOK_S = 5,
	JOBS_REST_S = 20, /* … at most, over a network, while none runs */
};

struct jobs;

struct jobs_options {
	struct services              *services; /* its `jobs` is set here */
	struct store                 *store;
	const struct job_kind *const *kinds;
	unsigned                      kind_count; /* at most JOB_KINDS_MAX */
};

/* Those of this program. */
const struct job_kind *const *jobs_kinds(unsigned *count);

/* Before anything calls a service, and closed after everything that does. */
enum err_code jobs_open(struct jobs **out, const struct jobs_options *options, struct err *err);
void          jobs_close(struct jobs *j);

#endif
