/* Changes: what a service function wants written. It reads, decides and adds to the list; one place commits
 * the list, all or nothing, and has the function decide again if a condition no longer held.
 *
 * Every change of a row that was read carries a condition on what was read. In the embedded engine a turn is
 * alone and conditions always hold; on a remote one they are what makes a service right. */
#ifndef SERVICE_CHANGE_H
#define SERVICE_CHANGE_H

#include "service/tables.h"

enum { CHANGES_MAX = TABLE_TRANSACT_MAX };

struct changes {
	struct arena                *arena;
	const struct service_tables *tables;
	struct table_write          *list;
	uint32_t                     count;
	bool                         too_many; /* more than CHANGES_MAX: nothing can be committed */
};

void changes_init(struct changes *c, struct arena *a, const struct service_tables *tables);

/* item and key must be well-formed (value.h, V1); a condition may be NULL. */
void changes_put(struct changes *c, struct bytes table, struct item item, const struct expr *condition);
void changes_update(struct changes *c, struct bytes table, struct item key, const struct expr_update *update,
                    const struct expr *condition);
void changes_delete(struct changes *c, struct bytes table, struct item key, const struct expr *condition);

/* Commits: nothing, one write, or a transaction. Tables that services own are made if they are absent.
 * ERR_CONDITION: someone else wrote in between, and nothing was written: decide again. */
enum err_code changes_commit(struct changes *c, struct table *t, struct err *err);

#endif
