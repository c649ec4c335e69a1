/* Backfill: gives rows that were there before it the entries of a new index, or of time to live. New writes
 * keep the index from the moment it exists; this walks the rest, a bounded number of rows a turn. */
#ifndef ENGINE_BACKFILL_H
#define ENGINE_BACKFILL_H

#include "engine/state.h"

/* Fills everything that is to be filled now. A restart begins anew: putting an entry twice changes nothing.
 */
enum err_code backfill_run(struct engine *e, struct err *err);

#endif
