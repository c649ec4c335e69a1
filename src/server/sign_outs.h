/* Sign-outs: the worker that signs suspended users out at their identity provider (service/sign_out.h), and counts what waits there
 * and in the dead letters, for the metrics. What this process queues wakes it; it looks by itself for what others left.
 *
 * Several calls are under way at once, because each waits for the provider: the worker and SIGN_OUTS_AT_ONCE - 1 threads that help it
 * for one round. Together they begin no more calls of a pool per second than its `rate` (provider.h). */
#ifndef SERVER_SIGN_OUTS_H
#define SERVER_SIGN_OUTS_H

#include "service/services.h"
#include "table/store.h"

enum {
	SIGN_OUTS_LOOK_S = 1,
	SIGN_OUTS_REST_S = 16,      /* … at most, over a network, while nothing waits */
	SIGN_OUTS_AT_ONCE = 8,      /* calls */
	SIGN_OUTS_COUNT_ROUNDS = 5, /* dead letters are counted every so many looks */
};

struct sign_outs_worker;

enum err_code sign_outs_open(struct sign_outs_worker **out, struct services *services, struct store *store,
                             struct err *err);
void          sign_outs_close(struct sign_outs_worker *w); /* NULL: nothing */

#endif
