/* Leases: which process does a piece of background work, where several use one table. A row of the table gatehouse-events:
 *
 *   LEASE   <work>   holder, until      the process that does it, and the second until which it does unless it asks again
 *
 * A lease saves work; it does not make it safe. Whoever has lost one without noticing does what another does too, so each commit depends on
 * the rows that it read. On a table that is alone every lease is held by whoever asks, and nothing is written. */
#ifndef SERVICE_LEASE_H
#define SERVICE_LEASE_H

#include "service/context.h"

enum {
	LEASE_S = 30, /* asked for again after a third of it */
	LEASE_HOLDER_CHARS = 32,
};

/* A name for this process, drawn once. */
void lease_holder_make(const struct services *s, char holder[LEASE_HOLDER_CHARS]);

/* Takes it, or keeps it, if nobody else has it. Adds to the changes. */
enum err_code lease_take(struct context *ctx, struct bytes work, struct bytes holder, bool *held,
                         struct err *err);

/* Gives it up, if it is held. */
enum err_code lease_drop(struct context *ctx, struct bytes work, struct bytes holder, struct err *err);

#endif
