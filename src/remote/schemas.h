/* Schemas: what tables are, as the endpoint last told: which attribute is the time to live, which are the keys. Every table call needs
 * that, so it is kept for SCHEMAS_LIFE_S. A change by this process is seen at once; one by others when that time is over. Then one
 * caller asks, and the others go on with what is known.
 *
 * That there is no such table is known for SCHEMAS_ABSENT_S to sessions that look for work: workers do so in tables that nobody made yet, several
 * times a second. A request asks for itself: another process may have made the table a moment ago, and suspended somebody in it.
 *
 * Services do not rest on it: they look at the time to live themselves (service/context.h). Any thread. */
#ifndef REMOTE_SCHEMAS_H
#define REMOTE_SCHEMAS_H

#include "remote/session.h"

enum { SCHEMAS_MAX = 64, SCHEMAS_LIFE_S = 60, SCHEMAS_ABSENT_S = 2, SCHEMAS_ASK_S = 10 };

struct schemas *schemas_open(void);
void            schemas_close(struct schemas *s);

/* Of the table of that name (without the prefix), in the arena. ERR_NO_RESOURCE: there is none, or none yet. */
enum err_code schemas_get(struct remote_session *s, struct arena *a, struct bytes table,
                          struct table_schema *out, struct err *err);

/* Was it heard a moment ago that there is no such table? Nobody is asked. */
bool schemas_lack(const struct remote_session *s, struct bytes table);

/* It was changed, or is gone. */
void schemas_drop(struct remote *r, struct bytes table);

#endif
