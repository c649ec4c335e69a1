/* Limit denied: keys of the table engine that were refused a moment ago, so that a flood against one key costs neither
 * a write nor a turn with the writer. Bounded; forgotten by a refund, by a policy that changed, and by time: after
 * LIMIT_DENIED_US_MAX at the latest the row is looked at again, because others may have changed it. Any thread. */
#ifndef SERVICE_LIMIT_DENIED_H
#define SERVICE_LIMIT_DENIED_H

#include "service/limit_ask.h"
#include "service/limit_map.h"

#define LIMIT_DENIED_US_MAX INT64_C(5000000)

/* True, with the answer, if this was refused a moment ago, and would be again. */
bool limit_denied_find(struct limit_map *m, struct limit_ask *ask, int64_t now_us);

/* The ask was refused. */
void limit_denied_note(struct limit_map *m, const struct limit_ask *ask, int64_t now_us);

void limit_denied_forget(struct limit_map *m, const struct limit_ask *ask);

#endif
