/* Push rate: how many push messages all processes that share the tables may send together. A row of `gatehouse-push`:
 *
 *   RATE   EXPO   TAT, TATRest     the state of limit.h's gcra: `rate` per second, and PUSH_BATCH_MAX at once
 *
 * A process takes permits for one call at a time, and returns those that the call did not need. So it holds no share: what a killed process
 * would have sent is there for the others, and a process alone has all of it. A full call of a broadcast needs the whole burst, and a user's message does
 * not: it goes first, also if another process sends the broadcast.
 *
 * Clocks of processes differ. The row has a time of its own, which is that of the fastest clock: a process that finds more taken than a burst
 * has the slower clock, and goes on from the row's time. It then waits as long as any other, and not for the difference. */
#ifndef SERVICE_PUSH_RATE_H
#define SERVICE_PUSH_RATE_H

#include "service/push.h"

struct push_rate_ask {
	int64_t  rate;     /* per second */
	uint32_t messages; /* at most PUSH_BATCH_MAX */
	int64_t  since_us; /* the row's time is no earlier than that */
};

struct push_rate_answer {
	bool    allowed;
	int64_t wait_us; /* not allowed: how long to wait */
	int64_t now_us;  /* the row's time */
};

/* Takes permits for so many messages, all or none. */
enum err_code push_rate_take(struct context *ctx, const struct push_rate_ask *q, struct push_rate_answer *out,
                             struct err *err);

/* So many were not needed. */
enum err_code push_rate_give(struct context *ctx, const struct push_rate_ask *q, struct err *err);

#endif
