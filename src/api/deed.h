/* Deed: one thing that a request does, in the words of a policy: an action on a resource, and what it says of
 * itself. */
#ifndef API_DEED_H
#define API_DEED_H

#include "api/call.h"

struct deed {
	struct bytes        action;       /* "PutItem" */
	struct bytes        table, index; /* no table: the action has no resource */
	const struct bytes *leading;      /* values of the hash key; none: unsaid */
	uint32_t            leading_count;
	const struct bytes *attributes; /* top-level names that it reads or writes; none: unsaid, or all */
	uint32_t            attribute_count;
	struct bytes        select, return_values, enclosing; /* empty: unsaid */
};

struct deeds {
	struct deed *list;
	uint32_t     count;
};

/* Takes a decoded call apart. With `leading`, the values of hash keys are found too, for which the tables'
 * schemas are looked up: ERR_NO_RESOURCE if there is no such table. Everything lives in the call's arena. */
enum err_code deeds_of(const struct call *c, struct table *t, bool leading, struct deeds *out,
                       struct err *err);

#endif
