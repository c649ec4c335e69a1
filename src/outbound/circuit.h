/* Circuit: is a target worth trying?
 *
 *            failures_max in a row                the pause is over: one call probes
 *   CLOSED ------------------------> OPEN ----------------------------------------> PROBING
 *     ^                               ^                                                |
 *     |                               '--- the probe failed: a pause twice as long ----|
 *     '------------------------------------ the probe succeeded -----------------------'
 *
 * What always holds
 * (1) While a circuit is open nobody tries the target; while it is probing, one call does.
 * (2) Every call that was admitted is noted, whatever came of it: a probe that nobody notes would keep the circuit shut.
 * (3) A pause is at most pause_max_us.
 * Not thread-safe: the owner locks. */
#ifndef OUTBOUND_CIRCUIT_H
#define OUTBOUND_CIRCUIT_H

#include <stdbool.h>
#include <stdint.h>

struct circuit_limits {
	uint32_t failures_max; /* in a row */
	int64_t  pause_us, pause_max_us;
};

enum circuit_state { CIRCUIT_CLOSED, CIRCUIT_OPEN, CIRCUIT_PROBING };

struct circuit {
	struct circuit_limits limits;
	enum circuit_state    state;
	uint32_t              failures; /* in a row */
	int64_t               pause_us; /* the present one */
	int64_t               until_us; /* OPEN: when it ends */
	uint64_t              opened;   /* how often it opened, for metrics */
};

void circuit_init(struct circuit *c, struct circuit_limits limits);

/* May a call go out now? If not, *wait_us says when to ask again. */
bool circuit_admits(struct circuit *c, int64_t now_us, int64_t *wait_us);

/* How a call that was admitted ended. */
void circuit_note(struct circuit *c, bool good, int64_t now_us);

#endif
