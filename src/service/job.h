/* Jobs: work that is too much for one commit. A job is a row; the worker `jobs` (server/jobs.h) takes it on, one step after the
 * other, and each step is a commit that moves the job's cursor together with what it did.
 *
 *   JOBS      <id>               a job: ids are sorted by time
 *   RUNNING   <kind>#<unique>    which job of that kind runs for it; unique is the job's id if many may run
 *   PERIODIC  <kind>             when the worker last started one by itself
 *   RESULT    <kind>             what the last one found (user_counts.h)
 *
 *                     start
 *                       |
 *                       v      last step
 *        cancel ---- running ------------> done
 *          |          ^   |                  | cancel, if what it left behind can be cancelled
 *          v   resume |   | a step fails     v
 *      cancelled -----+---+--> failed      cancelled
 *
 * What always holds
 * (1) A job is running exactly if there is a row of RUNNING that names it. Of a kind and a unique text one runs at most.
 * (2) A step's changes, the cursor and the progress are one commit, on the job as it was read. So a kill loses no step and
 *     repeats none, and of two workers one takes the step.
 * (3) A step that fails for the moment changes nothing and is tried again. One that fails for good ends the job as failed,
 *     with the error; resume goes on at the step that failed.
 * (4) Nothing leads back from done to running. A job that has ended expires JOB_KEPT_S later.
 * (5) Neither args, cursor, progress nor error hold an address, a number or a name of a person. */
#ifndef SERVICE_JOB_H
#define SERVICE_JOB_H

#include "base/metric.h"
#include "service/context.h"

enum {
	JOB_ID_CHARS = 36, /* a UUID of version 7 */
	JOB_KEPT_S = 90 * 86400,
	JOB_ERROR_BYTES_MAX = 512,
	JOB_RATE_MAX = 1000000, /* rows per second */
	JOBS_PAGE_MAX = 500,
	JOBS_EXAMINED_MAX = 2000, /* rows that one page looks at */
	JOB_KINDS_MAX = 32,
};

enum job_state { JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELLED, JOB_STATE_COUNT };
extern const char *const job_state_names[]; /* NULL last */

struct job {
	struct bytes   id, kind, caller, unique;
	struct bytes   error;                            /* of one that failed */
	struct bytes   created_at, updated_at, ended_at; /* "2026-11-15T22:00:00Z" */
	enum job_state state;
	bool           dry_run; /* it changes nothing but itself: for the kind to heed */
	int64_t        rate;    /* rows per second; 0: as fast as it goes */
	int64_t        steps;   /* that were committed */

	/* for the step to change */
	struct bytes cursor;   /* where the next one begins; empty: at the start. In the kind's own words */
	struct item  args;     /* what it was started with */
	struct item  progress; /* numbers: job_count adds to them */
	bool         done;     /* this was the last step */
	uint32_t     handled;  /* rows that this step looked at or changed, for the rate */

	struct item row;
};

/* What a job does. They are listed once, in server/jobs.c. */
struct job_kind {
	const char *name;
	int64_t     rate;       /* unless its start says otherwise; 0: none */
	bool        can_cancel; /* half of it done is a state to stay in */
	bool        urgent;     /* the answer to an incident: it never waits for jobs of other kinds */

	/* How often the worker starts one by itself; 0: not. NULL: never. */
	int64_t (*period_s)(const struct services *s);

	/* What the step needs from elsewhere, such as a call over the network. On the worker's thread and outside of any turn; ctx
	 * reads what is committed, and the result is in its arena. NULL: nothing. ERR_OVERLOADED: later. */
	enum err_code (*fetch)(struct context *ctx, const struct job *job, void **out, struct err *err);

	/* It is being cancelled, running or not: drops what it left behind for others to do, in the same commit. ERR_NOT_NOW: nothing is left.
	 * A job of such a kind that was cancelled is not resumed. NULL: it leaves nothing behind, and only one that runs is cancelled. */
	enum err_code (*cancelled)(struct context *ctx, struct job *job, struct err *err);

	/* In a turn: reads, and hands to ctx what a commit has room for (job_room). May be called again if others came first. */
	enum err_code (*step)(struct context *ctx, struct job *job, void *fetched, struct err *err);
};

/* How the jobs of one kind fare, since the server started. Any thread. */
struct job_counts {
	struct metric_counter ended[JOB_STATE_COUNT]; /* by state; of JOB_RUNNING: resumed */
	struct metric_counter steps, retries;
	_Atomic uint64_t      running;      /* that the worker knows of */
	_Atomic int64_t       last_step_us; /* by the store's clock; 0: none yet */
};

/* ---- starting ---- */

/* A new id, sorted by time: also for others that need one. */
struct bytes job_id_make(struct context *ctx);

struct job_new {
	const struct job_kind *kind;
	struct item            args;   /* well-formed; empty: none */
	struct bytes           unique; /* one at a time for this text (1); empty: many may run */
	bool                   dry_run;
	int64_t                rate; /* 0: the kind's */
};

struct job_started {
	struct job job;
	bool       existed; /* one runs already for this text: nothing was started */
};

/* Adds its rows to the changes. Whoever commits them then calls jobs_wake. */
enum err_code job_start(struct context *ctx, const struct job_new *q, struct job_started *out,
                        struct err *err);

/* Is the one that runs already what was asked for? It does as well if it is a dry run or none, as asked, and these args (names; NULL
 * last) are the same. ERR_NOT_NOW: it is not. Nothing, if one was started. */
enum err_code job_started_check(const struct job_started *s, const struct job_new *q,
                                const char *const *names, struct err *err);

/* The worker looks now, and not only at its next round. Any thread; nothing if no worker runs. */
void jobs_wake(const struct services *s);

/* The same for kinds that are due (period_s). */
enum err_code job_start_periodic(struct context *ctx, const struct job_kind *kind, struct job_started *out,
                                 struct err *err);

/* ---- reading ---- */

/* ERR_NOT_FOUND, as of one that does not exist. */
enum err_code job_unknown(struct err *err);
enum err_code job_get(struct context *ctx, struct bytes id, struct job *out, struct err *err);

struct jobs_search {
	struct bytes kind, state; /* empty: any */
	uint32_t     limit;
	struct bytes before; /* the last id of the page before; empty: the first page */
};

/* The newest first. A page may be short or empty and still not be the last. */
struct jobs_page {
	struct job  *list;
	uint32_t     count;
	bool         more;
	struct bytes last; /* if more */
};

enum err_code jobs_find(struct context *ctx, const struct jobs_search *q, struct jobs_page *out,
                        struct err *err);

const struct job_kind *job_kind_find(const struct services *s, struct bytes name); /* NULL: none */

/* ---- people ---- */

/* To be what it is asked to become changes nothing. ERR_NOT_NOW: it has ended otherwise, or its kind is not cancelled. */
enum err_code job_cancel(struct context *ctx, struct bytes id, struct job *out, struct err *err);

/* The same, for those who have dropped what it left behind. */
enum err_code job_stop(struct context *ctx, struct job *job, struct err *err);

/* One that failed or was cancelled. ERR_NOT_NOW: it is done, or another one runs in its place (1). */
enum err_code job_resume(struct context *ctx, struct bytes id, struct job *out, struct err *err);

/* ---- for steps ---- */

/* Adds to a number of its progress. */
void job_count(struct context *ctx, struct job *job, const char *name, int64_t more);

/* How many rows the step may still change; the job's own are counted. */
uint32_t job_room(const struct context *ctx);

/* Is it worth trying again by itself? */
bool job_fails_for_now(enum err_code rc);

/* ---- for the worker ---- */

/* A row of RUNNING. */
struct job_running {
	struct bytes id, kind, key; /* key: of that row */
	struct bytes caller;        /* who started the job; empty: a row of an older program */
};

struct jobs_running {
	struct job_running *list;
	uint32_t            count;
	bool                more; /* there are others behind the last key */
};

struct jobs_look {
	struct bytes kind;  /* empty: any */
	struct bytes after; /* that key; empty: from the first */
	uint32_t     limit;
};

enum err_code jobs_running(struct context *ctx, const struct jobs_look *q, struct jobs_running *out,
                           struct err *err);

enum { JOB_ANY_STEP = -1 };

struct job_turn {
	struct job_running running;
	int64_t            steps;  /* the job as it was when `fetched` was fetched; JOB_ANY_STEP */
	struct bytes       cursor; /* … and its cursor */
	void              *fetched;
};

struct job_stepped {
	bool       taken; /* false: it has ended, or another worker took the step; nothing was done */
	struct job job;   /* if taken */
};

enum err_code job_step(struct context *ctx, const struct job_turn *q, struct job_stepped *out,
                       struct err *err);

/* (3) Ends it as failed, if it still is at that step. */
enum err_code job_fail(struct context *ctx, const struct job_turn *q, const char *why,
                       struct job_stepped *out, struct err *err);

#endif
