/* Expiry: an item whose time has come is absent, to the second, although the endpoint keeps it until it gets around to removing it.
 *
 *   a read          leaves out what has expired (by schema_expired)
 *   a condition C   is printed as `expired OR C` if C holds for an absent item, and as `NOT expired AND C` if it does not
 *   an update       is done under `NOT expired AND C`. If that fails and the old item has expired, the update is applied here to an
 *                   absent item, and the outcome is put in its place under `expired`
 *
 * where `expired` is: the attribute is at most the session's second, and not more than five years back. Only a time with a fraction is
 * taken differently: reads ignore it, as the embedded engine does; an expression cannot tell it from others. */
#ifndef REMOTE_EXPIRY_H
#define REMOTE_EXPIRY_H

#include "table/table.h"

/* The conditions of a table with time to live, at a session's second. */
struct expiry {
	struct arena              *arena;
	const struct table_schema *schema;
	int64_t                    now_us;
};

/* Does the condition hold for an absent item? NULL does. */
bool expiry_holds_absent(const struct expr *condition);

/* What a put, delete or check is to be conditioned on; NULL: nothing. */
const struct expr *expiry_condition(struct expiry e, const struct expr *condition);

/* The same for an update. */
const struct expr *expiry_update_condition(struct expiry e, const struct expr *condition);

/* An update of an absent item, as the put (or, if it only takes away, the delete) that it amounts to, conditioned on the item's having expired. ERR_INVALID as the update
 * itself would be. */
enum err_code expiry_reborn(struct expiry e, const struct table_write *update, struct table_write *out,
                            struct err *err);

#endif
