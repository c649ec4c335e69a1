/* What the routes of identity providers share: a record whose sender does not come back is tried a few times, with pauses that
 * cost no thread, and then becomes a dead letter. */
#ifndef API_V1_SYNC_H
#define API_V1_SYNC_H

#include "api/v1.h"
#include "service/dead_letter.h"

enum { SYNC_TRIES_MAX = 3, SYNC_PAUSE_MS = 100 }; /* the pause doubles */

struct v1_delivery {
	struct sync_record   q;
	struct sync_delivery r;
	unsigned             tries; /* that failed for the moment */
	bool                 giving_up;
	bool                 neutral; /* its sender must not learn what became of it */
	enum err_code        why;     /* giving up */
};

/* In its turn. */
enum err_code v1_deliver(struct v1_call *c, struct v1_delivery *d, struct err *err);

/* The call's `again`; its request begins with the delivery. */
bool v1_deliver_again(struct v1_call *c, enum err_code rc, bool last, int64_t *pause_us);

/* "outcome", and "error" of a dead letter. */
void v1_write_delivery(struct json_writer *w, const struct sync_delivery *r);

#endif
