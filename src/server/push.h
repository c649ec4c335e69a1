/* Push: sends what waits in service/push.h, through Expo. One worker per shard of the queue: those of users' messages, and those of
 * broadcasts, which wait for the former.
 *
 *   due --> take (a commit: SENDING) --> one call to Expo --> settle (a commit)
 *
 * What always holds
 * (1) Nothing is sent that is not SENDING, durably. A kill between that and the commit of the answer leaves the messages
 *     unknown, and they are not sent again.
 * (2) On average at most `rate` messages are sent per second, over all workers of all processes that share the tables; at most
 *     PUSH_BATCH_MAX at once beyond it.
 * (3) After an answer that says "later", or none, no worker sends until that time has come; then one sends one message.
 * (4) Memory holds one call per worker, whatever waits. */
#ifndef SERVER_PUSH_H
#define SERVER_PUSH_H

#include "outbound/expo.h"
#include "service/push.h"
#include "table/store.h"

enum {
	PUSH_RATE = 600, /* messages per second, unless set: Expo's own limit per project */
	PUSH_RATE_MAX = 100000,
	PUSH_QUEUE_MIN = 1000,
	PUSH_QUEUE_HIGH = 100000000,
	PUSH_LOOK_MS = 1000, /* how often a worker looks by itself */
	PUSH_REST_S = 64,    /* … at most, over a network, while there is nothing to do */
	PUSH_STOP_MS = 5000, /* that a call under way may still take at a stop */
};

/* The section `push` of the identity file. */
struct push_target {
	struct expo *expo;
	int64_t      rate, queue_max;

	enum push_on_unknown on_unknown;
};

void push_target_close(struct push_target *t); /* NULL is fine */

struct push;

struct push_options {
	struct services *services; /* its `push_post` is set here */
	struct store    *store;
};

/* Before anything calls a service, and closed after everything that does. */
enum err_code push_open(struct push **out, const struct push_options *options, struct err *err);
void          push_close(struct push *p); /* NULL is fine */

/* Where to, from now on; NULL: nowhere, and what waits waits. Takes it over. */
void push_put(struct push *p, struct push_target *target);

#endif
