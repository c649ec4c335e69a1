/* Sweep: removes expired rows, a bounded number a turn. */
#ifndef ENGINE_SWEEP_H
#define ENGINE_SWEEP_H

#include "engine/state.h"

/* Where the last turn ended, so that the next one does not walk over what was removed. Owned by the ticker.
 */
struct sweep {
	struct buf at;
	uint64_t   rounds;
};

/* Sweeps until nothing is due, one request at a time. */
enum err_code sweep_run(struct engine *e, struct sweep *s, struct err *err);

#endif
