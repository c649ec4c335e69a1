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

/* What is looked up for it in the tables. */
struct deeds_asked {
	bool leading;  /* the values of hash keys, by the tables' schemas */
	bool replaced; /* the attributes of items that a put would replace */
};

/* Takes a decoded call apart. ERR_NO_RESOURCE if something is asked of a table that is not there. Everything lives in the
 * call's arena. */
enum err_code deeds_of(const struct call *c, struct table *t, struct deeds_asked asked, struct deeds *out,
                       struct err *err);

/* Does it put an item, alone or among others? */
bool deeds_put(const struct call *c);

#endif
