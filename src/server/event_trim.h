/* Event trimming: the worker that removes events which were kept long enough (service/event_trim.h), step by step, and says so loudly if one goes
 * before every durable reader has it. On a table that others use too, the process that holds the lease `event-trim` does it. */
#ifndef SERVER_EVENT_TRIM_H
#define SERVER_EVENT_TRIM_H

#include "service/services.h"
#include "table/store.h"

enum {
	EVENT_TRIM_PERIOD_S = 10,
	EVENT_TRIM_REST_S = 40, /* at most, over a network, while there is nothing to remove */
};

struct event_trimmer;

enum err_code event_trim_open(struct event_trimmer **out, struct services *services, struct store *store,
                              struct err *err);
void          event_trim_close(struct event_trimmer *t); /* NULL is fine */

#endif
