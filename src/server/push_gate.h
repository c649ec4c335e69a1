/* Push gate: where push messages go to, and when the next call may be made. All workers of push.h go through one gate, which holds (2) and (3)
 * there. After a call that got nowhere, one call with one message finds out whether it goes on: if its answer is lost too, that is one message that is
 * unknown, and not hundreds. A route is the target of one step: it lives until the last step that took it has returned it, also if another target was put meanwhile.
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

/* Permits that several processes share (service/push_rate.h). Never called under the gate's lock. */
struct push_share {
	/* Permits for so many messages, all or none: how long to wait until they may be there; 0: they are taken. One thread at a time. */
	int64_t (*take)(void *ctx, int64_t rate, uint32_t messages);
	void (*give)(void *ctx, int64_t rate, uint32_t messages); /* not needed after all */
	void *ctx;
};

struct push_gate {
	pthread_mutex_t   lock;
	pthread_cond_t    changed;
	struct push_share share; /* all zeros: this process has the whole rate */
	/* under lock */
	struct push_route *route; /* NULL: nowhere */
	int64_t            later_us;
	unsigned           later_row;            /* calls in a row that got nowhere */
	bool               probing;              /* one call finds out whether it goes on */
	int64_t            permits, refilled_us; /* in millionths of a message; not used with a share */
	bool               asking;               /* for permits of the share */
	uint32_t           refused;              /* as many were not there … */
	int64_t            refused_us;           /* … and will not be until then */
	unsigned           waiting[PUSH_LANES];  /* for permits */
	bool               stopping;
};

void push_gate_init(struct push_gate *g, const struct push_share *share); /* NULL: none */
void push_gate_release(struct push_gate *g);                              /* after all steps */

/* Where to, from now on; NULL: nowhere. Takes it over, and forgets when the last one wanted to be called again. */
void push_gate_put(struct push_gate *g, struct push_target *target);

/* For one step: NULL if there is nowhere to send to. *under_way is the step's own, and the gate's to set. */
struct push_route *push_gate_take(struct push_gate *g, struct push_route **under_way);
void               push_gate_return(struct push_gate *g, struct push_route **under_way);

/* The call under way is cut off, also one to a target that is not in use any more. */
void push_gate_cut(struct push_gate *g, struct push_route **under_way);

/* ---- calls ---- */

/* How many messages a call may have now: 0 while an answer says "later", or while a probe is under way; 1 for the probe. */
uint32_t push_gate_room(struct push_gate *g);

/* What one call may send. */
struct push_pass {
	const struct push_route *route;
	uint32_t                 messages; /* at most as many as were asked for */
	bool                     probe, waited;
};

/* Waits until so many messages may be sent. Those of a broadcast wait for users' messages. False: it is time to end, the target is not in use
 * any more, or an answer said "later" meanwhile. */
struct push_ask {
	const struct push_route *route;
	enum push_lane           lane;
	uint32_t                 messages;
};

bool push_gate_enter(struct push_gate *g, const struct push_ask *q, struct push_pass *out);

/* It needs no more than that: the other permits are there again. */
void push_gate_shrink(struct push_gate *g, struct push_pass *pass, uint32_t messages);

/* Once after each enter: what became of it. */
struct push_left {
	bool    called;  /* false: no call was made, and all permits are there again */
	bool    later;   /* it got nowhere */
	int64_t asked_s; /* … and the next one is to be made no sooner than that */
};

void push_gate_leave(struct push_gate *g, const struct push_pass *pass, const struct push_left *how);

/* Waits for so long. False: it is time to end. */
bool push_gate_pause(struct push_gate *g, int64_t us);

/* It is time to end: nobody waits any more, and nothing is taken. */
void push_gate_stop(struct push_gate *g);

#endif
