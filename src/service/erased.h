/* Erased: that somebody was erased, and when, for whoever comes late with something that happened before: the merge of an attempt that waited in
 * a spool (outage.h). One row for the user, and one for each address and number that was theirs:
 *
 *   ERASED#<keyed hash of the id, or of what stands for the address>   `at`, in seconds
 *
 * It is in `gatehouse-idempotency`, where whoever comes late keeps a marker anyway: so its absence is a condition of their commit (change.h, 5).
 *
 * What always holds
 * (1) The row is in the commit after which nothing is left of the one it is about. So whoever commits late either comes before the
 *     erasure, which then finds what it wrote, or has read this row and writes nothing.
 * (2) It stays ERASED_KEPT_S, and names nobody.
 * (3) `at` is by the clock of whoever erased, and what comes late is by another one. If they may differ by ERASED_CLOCKS_S, what happened up to so
 *     much after the erasure may have happened before it, and is taken for that. */
#ifndef SERVICE_ERASED_H
#define SERVICE_ERASED_H

#include "service/context.h"

enum {
	ERASED_KEPT_S = 91 * 86400, /* longer than a record may wait (OUTAGE_MARK_S) */
	ERASED_CLOCKS_S = 60,       /* (3) */
};

/* Adds to the changes. subject: as rows name it. */
void erased_mark(struct context *ctx, struct bytes subject);

/* When a subject was erased last, for something that happened at the context's time. */
struct erasure {
	bool found;
	bool since; /* it may have been after that (3) */
};

/* The same; and it is kept for another ERASED_KEPT_S, where less than half of that is left: the one that was erased is still heard of. */
enum err_code erased_keep(struct context *ctx, struct bytes subject, struct erasure *out, struct err *err);

enum err_code erased_find(struct context *ctx, struct bytes subject, struct erasure *out, struct err *err);

#endif
