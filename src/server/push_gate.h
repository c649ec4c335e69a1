/* Push gate: where push messages go to, and when the next call may be made. All workers of push.h go through one gate, which holds (2) and (3)
 * there. A route is the target of one step: it lives until the last step that took it has returned it, also if another target was put meanwhile.
 * Any thread. */
#ifndef SERVER_PUSH_GATE_H
#define SERVER_PUSH_GATE_H

#include <pthread.h>

#include "server/push.h"

enum {
	PUSH_LATER_S =
	        1, /* how long nobody sends, if Expo does not say; doubled with each in a row, up to … */
	PUSH_LATER_S_MAX = 60,
};

struct push_route {
	struct push_target *target;
	unsigned            refs; /* the gate's, under its lock */
};

struct push_gate {
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	/* under lock */
	struct push_route *route; /* NULL: nowhere */
	int64_t            later_us;
	unsigned           later_row;            /* answers "later" in a row */
	int64_t            permits, refilled_us; /* in millionths of a message */
	bool               stopping;
};

void push_gate_init(struct push_gate *g);
void push_gate_release(struct push_gate *g); /* after all steps */

/* Where to, from now on; NULL: nowhere. Takes it over, and forgets when the last one wanted to be called again. */
void push_gate_put(struct push_gate *g, struct push_target *target);

/* For one step: NULL if there is nowhere to send to. *under_way is the step's own, and the gate's to set. */
struct push_route *push_gate_take(struct push_gate *g, struct push_route **under_way);
void               push_gate_return(struct push_gate *g, struct push_route **under_way);

/* The call under way is cut off, also one to a target that is not in use any more. */
void push_gate_cut(struct push_gate *g, struct push_route **under_way);

/* Takes permits for a whole call; what it did not need is given back. False: it is time to end, or the target is not in use any more. */
bool push_gate_permits_take(struct push_gate *g, const struct push_route *route, bool *waited);
void push_gate_permits_return(struct push_gate *g, uint32_t unused);

/* Did an answer say "later", and is that still so? */
bool push_gate_is_later(struct push_gate *g);
void push_gate_note(struct push_gate *g, bool later, int64_t asked_s);

/* Waits for so long. False: it is time to end. */
bool push_gate_pause(struct push_gate *g, int64_t us);

/* It is time to end: nobody waits any more, and nothing is taken. */
void push_gate_stop(struct push_gate *g);

#endif
