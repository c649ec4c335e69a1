/* Undelivered events: the dead letters of targets (delivery.h). Each is kept, with a copy of the event, until somebody redrives or deletes it, or
 * deletes its target.
 *
 * What always holds
 * (1) A redriven event goes back to the retry rows of its target, with all its tries before it. It is sent before events of its subject that wait
 *     there, if it is older; those that were delivered meanwhile were not held back, so a receiver sees it late: its seq tells.
 * (2) A dead letter is blanked when its subject is erased, and stays, so that somebody still sees that something failed. A job has no
 *     subject, but the key of one. */
#ifndef SERVICE_UNDELIVERED_H
#define SERVICE_UNDELIVERED_H

#include "service/delivery.h"

enum {
	UNDELIVERED_PAGE_MAX = 500,
	UNDELIVERED_EXAMINED_MAX = 2000, /* rows that one page looks at */
	UNDELIVERED_RATE = 1000,         /* letters per second that a job redrives, unless set */
	UNDELIVERED_STEP_MAX = 20,       /* letters of one step */
};

struct undelivered {
	struct bytes target;
	uint32_t     shard;
	int64_t      position;
	struct item  event; /* as a row of the log; of one that was trimmed: id and type only */
	struct bytes error;
	int64_t      status, tries, since_s, died_s;
	struct item  row;
};

/* "0-42": shard and position. */
struct undelivered_key {
	struct bytes target;
	uint32_t     shard;
	int64_t      position;
};

bool         undelivered_key_read(struct bytes text, struct undelivered_key *out);
struct bytes undelivered_key_text(struct arena *a, const struct undelivered *u);

/* ERR_NOT_FOUND, as of one that does not exist. So do the next three. */
enum err_code undelivered_unknown(struct err *err);
enum err_code undelivered_get(struct context *ctx, const struct undelivered_key *key, struct undelivered *out,
                              struct err *err);
enum err_code undelivered_delete(struct context *ctx, const struct undelivered_key *key, struct err *err);

/* (1) ERR_LIMIT: too many events of the target wait already. ERR_NOT_NOW: the event itself was trimmed. */
enum err_code undelivered_redrive(struct context *ctx, const struct undelivered_key *key,
                                  struct undelivered *out, struct err *err);

struct undelivered_search {
	struct bytes target, type; /* empty: any */
	struct bytes subject_key;  /* delivery_key of a subject; empty: any */
	uint32_t     limit;
	struct bytes after_target, after; /* the last of the page before; empty: from the first */
};

/* By target, then by shard and position. A page may be short or empty and still not be the last. */
struct undelivered_page {
	struct undelivered *list;
	uint32_t            count;
	bool                more;
	struct bytes        last_target, last; /* if more */
};

enum err_code undelivered_find(struct context *ctx, const struct undelivered_search *q,
                               struct undelivered_page *out, struct err *err);

/* ---- many, as a job of the kind `redrive-events` ---- */

extern const struct job_kind undelivered_job;

struct undelivered_all {
	struct bytes target, type, subject; /* empty: any */
	bool         dry_run;
	int64_t      rate; /* 0: UNDELIVERED_RATE */
};

/* Adds to the changes. One runs at a time. */
enum err_code undelivered_redrive_all(struct context *ctx, const struct undelivered_all *q,
                                      struct job_started *out, struct err *err);

#endif
