/* Circuit: see circuit.h. */
#include "outbound/circuit.h"

void circuit_init(struct circuit *c, struct circuit_limits limits)
{
	*c = (struct circuit){.limits = limits, .pause_us = limits.pause_us};
}

bool circuit_admits(struct circuit *c, int64_t now_us, int64_t *wait_us)
{
	switch (c->state) {
	case CIRCUIT_CLOSED:
		return true;
	case CIRCUIT_PROBING:
		*wait_us = c->pause_us;
		return false;
	case CIRCUIT_OPEN:
		break;
	}
	if (now_us < c->until_us) {
		*wait_us = c->until_us - now_us;
		return false;
	}
	c->state = CIRCUIT_PROBING;
	return true;
}

static void circuit_open(struct circuit *c, int64_t now_us)
{
	c->state = CIRCUIT_OPEN;
	c->until_us = now_us + c->pause_us;
	c->opened++;
}

void circuit_note(struct circuit *c, bool good, int64_t now_us)
{
	if (good) {
		/* A late success of a call that went out before the circuit opened proves as much as a probe. */
		*c = (struct circuit){
		        .limits = c->limits, .pause_us = c->limits.pause_us, .opened = c->opened};
		return;
	}
	if (c->state == CIRCUIT_PROBING) {
		c->pause_us =
		        c->pause_us < c->limits.pause_max_us / 2 ? 2 * c->pause_us : c->limits.pause_max_us;
		circuit_open(c, now_us);
	} else if (c->state == CIRCUIT_CLOSED && ++c->failures >= c->limits.failures_max) {
		circuit_open(c, now_us);
	}
}
