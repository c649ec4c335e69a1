/* Checkpoint: lets go of what the journal no longer needs to hold. The store writes everything that was committed
 * before the newest segment to its files, and notes where the journal begins now; then the older segments go.
 *
 * (C1) What is committed is in the store's files or in the journal's segments from the noted place on. */
#ifndef ENGINE_CHECKPOINT_H
#define ENGINE_CHECKPOINT_H

#include "engine/state.h"

/* The place that the last checkpoint noted. Segment 0: there was none, so that the directory is new. */
enum err_code checkpoint_place(struct rocks *r, struct journal_place *out, struct err *err);

/* Up to the newest segment; does nothing if that was done. Waits for the disk. Any thread, one at a time. */
enum err_code checkpoint_run(struct engine *e, struct err *err);

/* Is there so much in the journal that reading it again would take long? That is a matter of its length, and more so of how
 * many different rows it holds: a row that changed often is put into the store once. */
bool checkpoint_is_due(struct engine *e);

/* How many segments there are before the newest that no checkpoint has dealt with. */
uint64_t checkpoint_lag(struct engine *e);

#endif
