/* Engine clock: time as items see it (engine_now_us). It never goes back, also across restarts: the latest time
 * is stored with the commits, at most once a second. */
#ifndef ENGINE_CLOCK_H
#define ENGINE_CLOCK_H

#include "engine/rocks.h"

/* The writer's thread only. */
struct engine_clock {
	int64_t saved_us;
};

/* Adds the time to a batch, if the stored one is a second old or more. */
void engine_clock_save(struct engine_clock *c, struct rocks_batch *batch, int64_t now_us);

/* The stored time, or 0. */
enum err_code engine_clock_load(struct rocks *r, int64_t *now_us, struct err *err);

#endif
