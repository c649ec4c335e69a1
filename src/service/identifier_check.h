/* Identifier check: have all processes that share tables the same key of identifiers (identifier.h)? With different ones each would count a
 * person's failures under a name of its own, and nobody would notice. One row in `gatehouse-idempotency`:
 *
 *   IDENTIFIERS_KEY      `gatehouseKeyCheck`: a keyed hash of a constant, which tells nothing of the key
 *
 * The first process that starts writes it, on the condition that there is none; it has no end. Where tables are in the data directory, the key is
 * beside them, and nobody calls this. The row belongs to its place: an export leaves it out (migrate/place.h). */
#ifndef SERVICE_IDENTIFIER_CHECK_H
#define SERVICE_IDENTIFIER_CHECK_H

#include "service/context.h"

#define IDENTIFIER_CHECK_ROW "IDENTIFIERS_KEY"

/* *same: this process has the key of those before it, or is the first, which adds to the changes. */
enum err_code identifier_check(struct context *ctx, bool *same, struct err *err);

#endif
