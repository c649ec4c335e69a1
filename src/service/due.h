/* Due rows: what ends by itself, so that its end can be published at that second, although the row that ended is hidden by then. Rows of the table gatehouse-events:
 *
 *   DUE#7   001794789304#<hash>   subject, until, and what the event needs: of a lock (lock_event.h), of a registered device (push_due.h)
 *
 * The hash is that of the subject and of what it is that ends; the number of the partition follows from the subject. server/lock_expiry.h reads what is due, and
 * whoever owns the kind publishes it: the commit that does so removes the row, and depends on it, so that nothing is published twice. */
#ifndef SERVICE_DUE_H
#define SERVICE_DUE_H

#include "service/context.h"
#include "service/row.h"

enum {
	DUE_SHARDS = 16,
	DUE_PAGE = 64,         /* of one shard, read at a time */
	DUE_SEARCH_PAGE = 512, /* the same, for whoever looks for one row and has seen a page already */
	DUE_OVERDUE_MAX = DUE_PAGE + 8 * DUE_SEARCH_PAGE, /* that are looked through for one row */
	DUE_MARGIN_S =
	        60, /* a due row may come so much later than its time: clocks differ, commits take time */
	DUE_SK_CHARS = 12 + 1 + 24, /* of a due row's sort key: second, #, hash */
};

/* What ends: whose it is, and a text that names it among all of the subject. */
struct due_thing {
	struct bytes subject, what;
};

/* The key of its row at that second. */
struct item due_key(struct arena *a, const struct due_thing *t, int64_t at_s);

/* A row that begins as due_key; it tells the worker. */
void due_put(struct context *ctx, struct row *row, int64_t at_s);
void due_remove(struct context *ctx, const struct due_thing *t, int64_t at_s);

/* The row of a thing whose time has come, and that nobody has published yet; count 0: none. Looks through DUE_OVERDUE_MAX rows. */
enum err_code due_overdue(struct context *ctx, const struct due_thing *t, struct item *out, struct err *err);

/* ---- for the worker ---- */

struct due {
	uint32_t     shard;
	struct bytes pk, sk;                /* of the due row */
	struct bytes subject, lock, device; /* what ends: the key of a lock, or of a device */
	int64_t      due_s;                 /* the time of the due row */
	int64_t      until_s;               /* when it ends; 0: never */
	uint32_t     rows; /* of locks that it takes to tell of it: those of a group whose lock.set waits */
};

struct due_page {
	struct due list[DUE_SHARDS * DUE_PAGE]; /* by time, and of one second by key */
	uint32_t   count;
	bool       more;   /* others are due too */
	int64_t    next_s; /* when the first that is not due yet will be; 0: there is none */
};

/* How far pages that follow one another have come in each shard: what was told of is removed, and to walk over it again with each page takes longer each
 * time. Begins as zeros. */
struct due_places {
	int64_t from_s;
	char    after[DUE_SHARDS][DUE_SK_CHARS + 1]; /* "": at from_s */
};

/* Those that are due now, of all shards, not before from_s, and behind the places. If from_s is another than before, these begin anew. */
enum err_code dues_read(struct context *ctx, int64_t from_s, struct due_places *places, struct due_page *out,
                        struct err *err);
/* All of the page were told of. */
void dues_pass(struct due_places *places, const struct due_page *p);

#endif
