/* Delivery: how far a target is, which events it has not accepted yet, and those that it never will. Rows of the table gatehouse-events,
 * beside those of target.h:
 *
 *   TARGET#<name>#<id>   RETRY#<shard>#<position>   an event that failed there, or that waits behind one of its subject
 *   TARGET#<name>#<id>   TRIES                      how the last calls ended (target_try.h)
 *   DEAD#<name>#<id>     <shard>#<position>         a dead letter: a copy of the event, why, how often, when (undelivered.h)
 *
 *              accepted                                           its tries are over
 *   the log ---------------> after moves past it      RETRY row ----------------------> DEAD row
 *          \   failed, and the target is well        ^   |   ^                              |
 *           '----------------------------------------'   |   '---------- redrive -----------'
 *                                                        '--> accepted: the row goes
 *
 * What always holds
 * (1) `after` of a target moves past an event in the commit that says what became of it, if that is anything else than accepted. So whatever is
 *     killed, an event was accepted, or is ahead of `after`, or has a row.
 * (2) Events of a subject are sent one after the other, in their order. While one of them has a RETRY row, the later ones get one too.
 * (3) A commit holds only for the target as it was read, and for the process that owns it. So of two that believe to own it, one goes on.
 * (4) A target has at most DELIVERY_WAITING_MAX retry rows and DELIVERY_DEAD_MAX dead letters. Past the first it reads no further, past the second
 *     it keeps trying.
 * (5) A retry row has no subject, but a keyed hash of it, and refers to the log, unless it was redriven: then it has a copy of the event. A dead letter
 *     copies the event as it is in the log at that moment, so that nothing comes back that was erased.
 * (6) What a service knows of sending is here; it knows no network. server/delivery.h sends. */
#ifndef SERVICE_DELIVERY_H
#define SERVICE_DELIVERY_H

#include "service/job.h"
#include "service/target.h"

enum {
	DELIVERY_WAITING_MAX = 10000,
	DELIVERY_DEAD_MAX = 100000,
	DELIVERY_OWN_S = 15,      /* how long another process waits for one that says nothing */
	DELIVERY_NOTES_MAX = 64,  /* of one commit */
	DELIVERY_READS_MAX = 32,  /* rows that they make it read */
	DELIVERY_LOAD_MAX = 1000, /* rows of one page */
	DELIVERY_KEY_BYTES = 24,  /* of a subject */
	DELIVERY_KEY_CHARS = 32,  /* as a text */
};

/* ---- owning a target ---- */

struct delivery_owner {
	struct bytes name;  /* of the target */
	struct bytes owner; /* of this process, random */
};

/* Takes the target over, or keeps it. *mine is false if another process has it. On a table that is alone there is no other process, and nothing
 * to wait for. */
enum err_code delivery_own(struct context *ctx, const struct delivery_owner *q, struct target *out,
                           bool *mine, struct err *err);

/* ---- what waits ---- */

struct delivery_waiting {
	uint32_t     shard;
	int64_t      position;
	struct bytes key; /* of its subject: delivery_key */
	int64_t      tries, next_us, failed_us;
	bool         copied; /* the row has the event: it was redriven */
};

struct delivery_page {
	struct delivery_waiting *list; /* by shard and position */
	uint32_t                 count;
	bool                     more;
	struct bytes             last;
};

/* The retry rows of a target, from after that key on. On a session that only reads. */
enum err_code delivery_load(struct context *ctx, const struct target *t, struct bytes after,
                            struct delivery_page *out, struct err *err);

/* The event of a retry row. *found is false if it was trimmed. On a session that only reads. */
struct delivery_at {
	const struct target *target;
	uint32_t             shard;
	int64_t              position;
};

enum err_code delivery_event(struct context *ctx, const struct delivery_at *at, struct event_seen *out,
                             bool *found, struct err *err);

/* What a subject is called in retry rows. */
struct bytes delivery_key(struct context *ctx, struct bytes subject);

/* ---- after sending ---- */

struct target_tries;

enum delivery_kind {
	DELIVERY_WAITS, /* it is to be tried again */
	DELIVERY_SENT,  /* accepted; of one that has a row */
	DELIVERY_DEAD,
};

struct delivery_note {
	enum delivery_kind kind;
	bool               known; /* it has a row */
	uint32_t           shard;
	int64_t            position;
	struct bytes       key, id, type; /* of one that has no row yet */
	int64_t            tries, next_us, failed_us;
	int64_t            status;
	struct bytes       error; /* empty: as it was */
};

/* How many rows it makes a commit read. */
uint32_t delivery_note_reads(const struct delivery_note *n);

struct delivery_settle {
	struct delivery_owner       who;
	struct bytes                id; /* of the target: (3) */
	const struct delivery_note *notes;
	uint32_t                    count;
	int64_t                     seeks; /* of the target, when it was loaded */
	bool                moves; /* `after` and `kept` say how far it is now, unless it was moved since */
	struct event_cursor after, kept;
	int64_t             sent, skipped; /* more */
	int64_t             recount;   /* so many more wait than the target says, as its rows were counted */
	int64_t             success_s; /* 0: as it was */
	int64_t             failing_s; /* 0: it does not fail */
	const struct target_error *errors; /* new ones, the newest first */
	uint32_t                   error_count;
	const struct target_tries *tries;   /* the last ones, with those before; NULL: as they were */
	struct bytes               disable; /* why it is to be disabled; empty: it is not */
};

/* (1) *lost: the target is gone or another one, or not ours any more, and nothing was done. */
enum err_code delivery_settle(struct context *ctx, const struct delivery_settle *q, struct target *out,
                              bool *lost, struct err *err);

/* ---- who sends, as services and metrics see it: services.h has one ---- */

enum target_state { TARGET_WELL, TARGET_FAILING, TARGET_DISABLED };

enum { DELIVERY_ENDS = 4 }; /* of a call: later, sent, refused, gone */
extern const char *const delivery_end_names[DELIVERY_ENDS];

/* Counters are since the server started. */
struct target_reading {
	char              name[TARGET_NAME_BYTES_MAX + 1];
	enum target_state state;
	uint64_t          ends[DELIVERY_ENDS], retries, died, skipped;
	int64_t           lag_events, lag_s, waiting, dead;
};

/* A test that somebody asked for. */
struct target_ping {
	bool    done, sent;
	int     status;
	int64_t took_us;
	char    error[TARGET_ERROR_BYTES_MAX];
};

/* ---- for target.h: a job removes what a deleted target leaves ---- */

extern const struct job_kind delivery_clean_job;

enum err_code delivery_clean(struct context *ctx, const struct target *t, struct err *err);

/* ---- for undelivered.h ---- */

struct bytes delivery_retry_pk(struct arena *a, const struct target *t);
struct bytes delivery_dead_pk(struct arena *a, const struct target *t);
struct bytes delivery_retry_sk(struct arena *a, uint32_t shard, int64_t position);
struct bytes delivery_dead_sk(struct arena *a, uint32_t shard, int64_t position);

#endif
