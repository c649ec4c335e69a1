/* Snapshot: rows of several keys as they were at one moment, also while others write them.
 *
 * An endpoint refuses TransactGetItems whose rows are being written, at once and however short that takes. To meet a writer is no failure of the
 * tables: nothing is answered from memory for it, and no outage begins.
 *
 *   a call that commits     reads the same rows with BatchGetItem: its commit finds out whether they were of one moment
 *   a call that only reads  asks again, after a pause, a few times; then it reads them with BatchGetItem until two readings in a row are the same. Each row
 *                           was so from the one to the other, so all of them were between the two
 *
 * Rows that change from one reading to the next, time after time, are ERR_CONDITION, which is answered 503. Decision 071. */
#ifndef SERVICE_SNAPSHOT_H
#define SERVICE_SNAPSHOT_H

#include "service/change.h"

enum {
	SNAPSHOT_TRIES_MAX = 4,    /* of TransactGetItems, by a call that only reads */
	SNAPSHOT_READINGS_MAX = 8, /* … and then of BatchGetItem */
	SNAPSHOT_PAUSE_US = 2000,
};

/* *torn: the rows may be of several moments, and some may be skipped. */
enum err_code snapshot_get(const struct changes *c, struct table *t, const struct table_batch_get *q,
                           struct table_batch_get_result *r, bool *torn, struct err *err);

#endif
