/* Retry: is a target worth a call, and may one be sent once more, after what pause? Pure but for a circuit and a
 * quota, which their owner locks. */
#ifndef OUTBOUND_RETRY_H
#define OUTBOUND_RETRY_H

#include <stdbool.h>
#include <stdint.h>

/* ---- retries ----
 * As AWS's SDKs do it ("standard" mode): a few tries, full
 * jitter, and a quota per target, so that a target in trouble is not buried under second tries.
 *
 * What always holds
 * (1) A delay is between 0 and its bound, which doubles with each try up to delay_max_us; a hint of the target
 * moves it to
 *     at least the hint, and at most hint_over_max_us later than it would have been.
 * (2) The quota never exceeds quota_max and never falls below 0: with nothing left, calls are tried once. */

struct retry_profile {
	uint32_t attempts_max;
	int64_t  delay_us;           /* the first bound after a failure in passing */
	int64_t  throttled_delay_us; /* … after "too many requests" */
	int64_t  delay_max_us;
	int64_t  hint_over_max_us;
	uint32_t quota_max, cost, throttled_cost;
};

/* For AWS's services, and for DynamoDB, whose first pause is shorter and which is tried once more. */
extern const struct retry_profile retry_aws, retry_dynamodb;

enum retry_kind {
	RETRY_NEVER,     /* the target decided */
	RETRY_TRANSIENT, /* no answer, or one that says that it may work in a moment */
	RETRY_THROTTLED,
};

/* What a status alone says. */
enum retry_kind retry_kind_of_status(int status);

/* `tried`: how often it was sent already, from 1. `random`: 64 bits. `hint_us`: what the target asked for, or 0. */
int64_t retry_delay_us(const struct retry_profile *p, enum retry_kind kind, uint32_t tried, uint64_t random,
                       int64_t hint_us);

struct retry_quota {
	uint32_t left;
};

void retry_quota_init(struct retry_quota *q, const struct retry_profile *p);

/* Takes what another try costs, or nothing. */
bool retry_quota_take(struct retry_quota *q, const struct retry_profile *p, enum retry_kind kind);

/* A call succeeded: gives back what its last retry cost, or 1 if it had none (`last` is RETRY_NEVER). */
void retry_quota_refund(struct retry_quota *q, const struct retry_profile *p, enum retry_kind last);

/* ---- circuits: is a target worth trying? ----
 *
 *            failures_max in a row                the pause is over: one call probes
 *   CLOSED ------------------------> OPEN ----------------------------------------> PROBING
 *     ^                               ^                                                |
 *     |                               '--- the probe failed: a pause twice as long ----|
 *     '------------------------------------ the probe succeeded -----------------------'
 *
 * What always holds
 * (1) While a circuit is open nobody tries the target; while it is probing, one call does.
 * (2) Every call that was admitted is noted, whatever came of it: a probe that nobody notes would keep the circuit
 * shut.
 * (3) A pause is at most pause_max_us. */

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

/* Would it refuse a call now? Changes nothing. */
bool circuit_refuses(const struct circuit *c, int64_t now_us);

/* How a call that was admitted ended. */
void circuit_note(struct circuit *c, bool good, int64_t now_us);

#endif
