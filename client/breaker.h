/* Breaker: whether the server is worth trying. While it is not, calls are answered at once, and now and then one of
 * them tries again.
 *
 *            BREAKER_FAILURES_MAX failures in a row
 *    CLOSED ----------------------------------------> OPEN <--------------.
 *      ^  all calls try                                |  none tries      | failed
 *      |                                               | probe_us later   |
 *      '------------------ any success ------------ PROBING --------------'
 *                                                      one call tries
 *
 * A call asks to enter, and leaves with what it saw. (1) Whoever entered leaves, once. (2) At most one call is the probe.
 * (3) The failure of a call that began before the server came back is not held against it.
 *
 * The owner locks, and passes the time in. */
#ifndef CLIENT_BREAKER_H
#define CLIENT_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

enum { BREAKER_FAILURES_MAX = 3 };

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_PROBING };

enum breaker_sight {
	BREAKER_SAW_NOTHING, /* it did not come to try the server */
	BREAKER_SAW_SERVER,
	BREAKER_SAW_FAILURE,
};

struct breaker {
	enum breaker_state state;
	unsigned           failures; /* in a row, while closed */
	int64_t            probe_us; /* how long it stays open */
	int64_t            again_us; /* when the next probe may go */
	int64_t            since_us; /* when the server was last found again */
	unsigned           probes;   /* sent so far; the last one is the probe */
};

struct breaker_pass {
	int64_t  began_us;
	unsigned probe; /* which; 0: none */
};

bool breaker_enter(struct breaker *b, int64_t now_us, struct breaker_pass *pass);
void breaker_leave(struct breaker *b, const struct breaker_pass *pass, enum breaker_sight sight,
                   int64_t now_us);

#endif
