/* Lists of locks: those that hold, of all subjects or of some, a page at a time; and bulk unlock.
 *
 * Work is bounded: a call reads one page of the table, or one of each subject, and LOCKS_EXAMINED_MAX rows in
 * all. A page may therefore have fewer locks than asked for, or none, and still not be the last: the last one
 * is the one without `more`. */
#ifndef SERVICE_LOCK_LIST_H
#define SERVICE_LOCK_LIST_H

#include "service/context.h"

enum {
	LOCKS_PAGE_MAX = 500,
	LOCKS_EXAMINED_MAX = 2000, /* rows, locks or not */
	UNLOCK_SUBJECTS_MAX = 50,
	UNLOCK_MAX = 45, /* locks a call, two rows each; fewer on an engine with other writers */
};

struct lock_search {
	const struct bytes *subjects;
	uint32_t            subject_count;      /* 0: all there are */
	struct bytes        journey, name;      /* empty: any */
	struct bytes        kind, set_by;       /* of the lock; empty: any */
	bool                not_persons;        /* those that people set are passed over */
	struct bytes        after_pk, after_sk; /* where the last page ended; empty: begin */
	uint32_t            limit;
	bool (*sees)(void        *ctx,
	             struct bytes journey); /* whether locks of it are listed; NULL: those of all are */
	void *sees_ctx;
};

/* A lock that holds. */
struct lock_seen {
	struct item  row;
	struct bytes pk, sk, kind, cause, set_by, reason;
	int64_t      until_s, set_s; /* until_s 0: until someone clears it */
};

struct lock_page {
	struct lock_seen *list;
	uint32_t          count;
	uint32_t          kept; /* locks that people set, and that were passed over */
	bool              more;
	struct bytes      last_pk, last_sk; /* if more: where to go on */
};

/* ERR_INVALID, about `cursor`, if after_pk is not of these subjects. */
enum err_code locks_find(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                         struct err *err);

/* The same, and adds to the changes what clears each lock of the page: at most UNLOCK_MAX, or as many as a commit
 * among others has room for. */
enum err_code locks_unlock(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                           struct err *err);

#endif
