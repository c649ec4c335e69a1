/* Breaker: see breaker.h. */
#include "breaker.h"

bool breaker_enter(struct breaker *b, int64_t now_us, struct breaker_pass *pass)
{
	*pass = (struct breaker_pass){now_us, 0};
	if (b->state == BREAKER_CLOSED)
		return true;
	if (b->state == BREAKER_PROBING || now_us < b->again_us)
		return false;
	b->state = BREAKER_PROBING;
	pass->probe = ++b->probes;
	return true;
}

static void breaker_open(struct breaker *b, int64_t again_us)
{
	b->state = BREAKER_OPEN;
	b->failures = 0;
	b->again_us = again_us;
}

static void breaker_close(struct breaker *b, int64_t now_us)
{
	if (b->state != BREAKER_CLOSED)
		b->since_us = now_us;
	b->state = BREAKER_CLOSED;
	b->failures = 0;
}

void breaker_leave(struct breaker *b, const struct breaker_pass *pass, enum breaker_sight sight,
                   int64_t now_us)
{
	if (sight == BREAKER_SAW_SERVER) {
		breaker_close(b, now_us);
	} else if (b->state == BREAKER_PROBING && pass->probe == b->probes) {
		breaker_open(b, sight == BREAKER_SAW_FAILURE ? now_us + b->probe_us : now_us);
	} else if (sight == BREAKER_SAW_FAILURE && b->state == BREAKER_CLOSED &&
	           pass->began_us >= b->since_us) {
		if (++b->failures >= BREAKER_FAILURES_MAX)
			breaker_open(b, now_us + b->probe_us);
	}
}
