/* Lock groups: a lock over several ids is one lock. Each id has a row, so that whoever reads the rows of one id finds it; each row names all ids,
 * under `group`. The first of them is the head: the user's id, if it is known, else the first id of the call.
 *
 * What always holds
 * (1) The rows of a group have the same kind, end, cause, announce_at and group, and are written in one commit. They expire together.
 * (2) What is told of a lock is told once, of its head (lock_event.h): lock.set, lock.cleared, lock.expired.
 * (3) Whoever removes one row of a group removes them all, in one commit, with the counts of locks that grow. So does an erasure.
 * (4) Whoever sets a lock on an id that is in a group sets it on the group: a person's lock as well as a rule's.
 * (5) A row that is no longer as its group left it is not of the group any more: somebody else wrote or removed it. The others are as before.
 *     If it was the head's, the first that is left is told of.
 * (6) A group has at most LOCK_GROUP_MAX ids, so that it fits into a commit. Groups that would be joined to a larger one stay apart. */
#ifndef SERVICE_LOCK_GROUP_H
#define SERVICE_LOCK_GROUP_H

#include "service/account.h"
#include "service/context.h"
#include "service/row.h"

enum { LOCK_GROUP_MAX = 2 * SUBJECTS_MAX };

struct lock_group {
	struct bytes  ids[LOCK_GROUP_MAX]; /* the head first */
	struct looked rows[LOCK_GROUP_MAX];
	uint32_t      count;
};

/* Adds an id, unless it is there or there is no room. */
void lock_group_add(struct lock_group *g, struct bytes id);

/* Looks at the rows of that sort key, of the group's ids and of the groups that these are in now, which are joined (4). */
enum err_code lock_group_join(struct context *ctx, struct bytes sk, struct lock_group *g, struct err *err);

/* The rows that are of one lock with this one. */
enum err_code lock_group_find(struct context *ctx, const struct item *row, struct lock_group *out,
                              struct err *err);

/* Names the group in a row of it; a group of one needs no name. */
void lock_group_name(struct row *row, const struct lock_group *g);

/* The ids that a row's lock is of, as it says; none: it is of its own alone. */
struct value_list lock_group_of(const struct item *row);

/* Is it told of (2)? */
bool lock_is_head(const struct item *row);

/* Of a group that was found: the row that is told of. If it is not the head's (5), it does not name the group. */
struct item lock_group_told(struct arena *a, const struct lock_group *g);

#endif
