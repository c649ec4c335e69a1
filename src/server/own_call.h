/* Own calls: what the server asks of its services by itself, with no request behind it: a step of a job, what became of a
 * sign-out. As under /v1, a function reads and decides, one place commits, and if others came first it decides again.
 *
 *   own_call_init -> own_call_read … own_call_read_end      what is committed
 *                 -> own_call_run                           in a turn; waits until it is durable, so not for loops
 *                 -> own_call_release
 *
 * Embed it as the first member and cast, as with a turn_request. It belongs to one thread. */
#ifndef SERVER_OWN_CALL_H
#define SERVER_OWN_CALL_H

#include "service/context.h"
#include "table/store.h"

struct own_step;

struct own_call {
	struct turn_request base;
	struct store       *store;
	struct arena        arena;
	struct context      ctx;
	/* Reads, decides, and adds to ctx. May be called again. */
	const struct own_step *step;
};

void own_call_init(struct own_call *c, struct services *services, struct store *store);
void own_call_release(struct own_call *c);

void own_call_read(struct own_call *c);
void own_call_read_end(struct own_call *c);

/* What `decide` is called with: the struct that begins with the own_call, as a whole. Each run begins with what follows the own_call in it as it was
 * before the first (context.h, run_state). cost_bytes: what it counts against the bound of what may wait (store.h). */
struct own_step {
	enum err_code (*decide)(struct own_call *c, struct err *err);
	size_t whole_bytes, cost_bytes;
};

enum err_code own_call_run(struct own_call *c, const struct own_step *step, struct err *err);

#endif
