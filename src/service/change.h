/* Changes: what a service function read and what it wants written. It reads, decides and adds to the list; one place
 * commits the list, all or nothing, and has the function decide again if others wrote in between.
 *
 * What always holds
 * (1) What was read is the condition. The functions of context.h that read remember what they found; the commit holds
 *     only if all of it is still so. A row that is also written carries the condition, any other is checked.
 * (2) Of a query, which may find many rows, the version row of its partition is the condition. It is read first, and every
 *     commit that writes to a partition of auth-state gives it a new version.
 * (3) On a table that is alone nothing is remembered, nothing is checked and no version is kept: it could not fail.
 * (4) A commit fits into one transaction, with room for the answer that is kept and for an event, or fails before anything
 *     is written.
 * (5) A row of a table that nobody made yet is absent, and stays so until somebody makes the table. So it is checked only if
 *     the commit itself writes to that table, and no table is made because somebody looked for a row in it. */
#ifndef SERVICE_CHANGE_H
#define SERVICE_CHANGE_H

#include "service/row.h"

enum {
	CHANGES_RESERVED = 4, /* (4): the kept answer; an event, its subject's seq and the head of the log */
	CHANGES_MAX = TABLE_TRANSACT_MAX - CHANGES_RESERVED,
	CHANGES_READS_MAX =
	        40, /* rows remembered one by one; past it, the versions of their partitions are */
	CHANGES_REPEATS_MAX =
	        5, /* how often a call that was throttled, or whose outcome is unknown, is made again */
	CHANGES_DECISIONS_MAX = 5,        /* how often a call decides, on a table that is alone */
	CHANGES_DECISIONS_APART_MAX = 32, /* … and on one that is not */
};

/* The sort key of a version row. No other key begins like this: a journey has a name. */
#define CHANGES_VERSION_KEY "#VERSION"

enum { CHANGES_VERSION_LIFE_S = 86400 }; /* no call takes so long */

struct event_pending;
struct hot_keys;
struct event_policy;
struct known;
struct foresight;
struct looked;
struct row_read;
struct partition_read;

/* Where a row is. */
struct row_place {
	enum service_table which;
	struct bytes       pk, sk; /* sk: empty if the table has none */
};

static inline bool same_place(const struct row_place *a, const struct row_place *b)
{
	return a->which == b->which && bytes_equal(a->sk, b->sk) && bytes_equal(a->pk, b->pk);
}

struct changes {
	struct arena                *arena;
	const struct service_tables *tables;
	void (*random)(void *out, size_t len); /* for a table that is not alone */
	struct hot_keys    *hot_keys;          /* the same; NULL: nobody counts */
	struct table_write *list;
	uint32_t            count;
	bool                too_many; /* more than fit: nothing can be committed */
	bool                certain;  /* see changes_confirm */
	int64_t late_s; /* so long ago was the table's time (context.h): versions live from now on */
	bool    unsure; /* a commit was sent, and nobody said what became of it */
	bool    single; /* one row of it may be written by itself (single.h) */
	const struct item *written; /* the row as that left it, if the endpoint told it; NULL: it did not */
	struct known
	        *limit_rows; /* rows that were last written by themselves; NULL: they are not remembered */

	struct event_pending *events;     /* to be published with it */
	uint32_t              event_rows; /* that they will take */
	struct event_pending *told;       /* those that are in the commit */
	struct table_numbering *
	        numbering; /* their numbers are taken, and their rows added, by the commit; NULL: they are in the list */
	const struct event_policy *event_policy; /* as it was when first asked for; NULL: not yet */
	struct table_write        *attached;     /* see changes_attach_put */
	uint32_t                   attached_count;
	struct known              *known; /* is told what was committed; NULL: nobody is */
	int64_t  due_s;       /* the first lock that it sets ends then; 0: it sets none that ends */
	bool     signs_out;   /* it queues a sign-out (sign_out.h) */
	uint32_t push_shards; /* it queues push messages (push.h) in these: bit by shard */

	/* What was read, unless the table is alone. */
	struct row_read       *rows;
	uint32_t               row_count, uncovered; /* of these, so many are not under a version */
	struct partition_read *partitions;
	uint32_t               partition_count;
	struct foresight      *foresight; /* NULL: everything is read at once */
};

void changes_init(struct changes *c, struct arena *a, const struct service_tables *tables);

/* item and key must be well-formed (value.h, V1). A condition is for what the row may have become since it was read;
 * it takes the place of "as it was read". Mostly NULL. A later change of a row takes the place of an earlier one, under
 * the earlier one's condition; an update changes what an earlier put or delete left. */
void changes_put(struct changes *c, struct bytes table, struct item item, const struct expr *condition);
void changes_update(struct changes *c, struct bytes table, struct item key, const struct expr_update *update,
                    const struct expr *condition);
void changes_delete(struct changes *c, struct bytes table, struct item key, const struct expr *condition);

/* A put for the answer that is kept with what it answers, and for events: there is always room for them. No earlier change may be of
 * the same row. */
void changes_keep(struct changes *c, struct bytes table, struct item item, const struct expr *condition);

/* Rows that go along with events, and of which a service knows nothing: they come into the list when it is committed. They take
 * room as events do. */
void changes_attach_put(struct changes *c, enum service_table which, struct item item);
void changes_attach_delete(struct changes *c, enum service_table which, struct item key);

/* The change of that row, if there is one. */
struct table_write *changes_find(const struct changes *c, enum service_table which, struct bytes pk,
                                 struct bytes sk);

/* How many more rows may be changed, one of each partition that was written to before. */
uint32_t changes_room(const struct changes *c);

/* ---- what was read: for context.h ---- */

/* Would so many more rows be too many to remember one by one? Then changes_follow comes first. */
static inline bool changes_reads_many(const struct changes *c, uint32_t more)
{
	return c->uncovered + more > CHANGES_READS_MAX;
}

/* Depends on a partition of auth-state as a whole. To be called before its rows are read. */
enum err_code changes_follow(struct changes *c, struct table *t, struct bytes pk, struct err *err);

/* Reads the row of l's key, and remembers it. */
enum err_code changes_look(struct changes *c, struct table *t, enum service_table which, struct looked *l,
                           struct err *err);

/* A row was read by its key, on a table that is not alone. */
void changes_read(struct changes *c, const struct table *t, enum service_table which, const struct looked *l);

/* A call that changes nothing is as right as each row was when it was read. Where that is too little, as for a success
 * that nothing stood against, this has all rows checked together. */
void changes_confirm(struct changes *c);

/* ---- committing ---- */

/* ERR_LIMIT if it is more than a transaction takes. (4) */
enum err_code changes_check(const struct changes *c, struct err *err);

/* Commits: nothing, one write, or a transaction. Tables that services own are made if they are absent. What rests on a guess
 * (foresight.h) is not committed.
 * ERR_CONDITION: someone else wrote in between, and nothing was written: decide again. */
enum err_code changes_commit(struct changes *c, struct table *t, struct err *err);

/* Is a call that ended like this and has decided so often to decide once more? Waits a little, if the table is not alone:
 * so that of many who change the same rows each gets through. */
bool changes_decide_again(const struct changes *c, struct table *t, enum err_code rc, unsigned decisions);

/* Waits, so that others get through: longer each time, and never the same for two: 0 to `least` << n, at most 16 times as long. */
void changes_pause(const struct changes *c, struct table *t, unsigned n, int64_t least_us);

/* Is a read or a commit that ended like this to be made once more? After a wait. */
bool changes_repeat(const struct changes *c, struct table *t, enum err_code rc, unsigned repeats);

#endif
