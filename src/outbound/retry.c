/* Retry: see retry.h. The figures are those of AWS's SDKs since November 2026. */
#include "outbound/retry.h"

enum { MS = 1000, SECOND = 1000 * MS };

const struct retry_profile retry_aws = {.attempts_max = 3,
                                        .delay_us = 50 * MS,
                                        .throttled_delay_us = 1 * SECOND,
                                        .delay_max_us = 20 * SECOND,
                                        .hint_over_max_us = 5 * SECOND,
                                        .quota_max = 500,
                                        .cost = 14,
                                        .throttled_cost = 5};

const struct retry_profile retry_dynamodb = {.attempts_max = 4,
                                             .delay_us = 25 * MS,
                                             .throttled_delay_us = 1 * SECOND,
                                             .delay_max_us = 20 * SECOND,
                                             .hint_over_max_us = 5 * SECOND,
                                             .quota_max = 500,
                                             .cost = 14,
                                             .throttled_cost = 5};

enum retry_kind retry_kind_of_status(int status)
{
	switch (status) {
	case 429:
		return RETRY_THROTTLED;
	case 500:
	case 502:
	case 503:
	case 504:
		return RETRY_TRANSIENT;
	default:
		return RETRY_NEVER;
	}
}

int64_t retry_delay_us(const struct retry_profile *p, enum retry_kind kind, uint32_t tried, uint64_t random,
                       int64_t hint_us)
{
	int64_t bound = kind == RETRY_THROTTLED ? p->throttled_delay_us : p->delay_us;
	int64_t delay;

	for (uint32_t i = 1; i < tried && bound < p->delay_max_us; i++)
		bound *= 2;
	if (bound > p->delay_max_us)
		bound = p->delay_max_us;
	delay = (int64_t)(random % (uint64_t)(bound + 1));
	if (hint_us <= delay)
		return delay;
	return hint_us < delay + p->hint_over_max_us ? hint_us : delay + p->hint_over_max_us;
}

static uint32_t cost_of(const struct retry_profile *p, enum retry_kind kind)
{
	return kind == RETRY_THROTTLED ? p->throttled_cost : p->cost;
}

void retry_quota_init(struct retry_quota *q, const struct retry_profile *p)
{
	q->left = p->quota_max;
}

bool retry_quota_take(struct retry_quota *q, const struct retry_profile *p, enum retry_kind kind)
{
	uint32_t cost = cost_of(p, kind);

	if (q->left < cost)
		return false;
	q->left -= cost;
	return true;
}

void retry_quota_refund(struct retry_quota *q, const struct retry_profile *p, enum retry_kind last)
{
	uint32_t back = last == RETRY_NEVER ? 1 : cost_of(p, last);

	q->left = q->left + back < p->quota_max ? q->left + back : p->quota_max;
}

/* ---- circuits ---- */

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

bool circuit_refuses(const struct circuit *c, int64_t now_us)
{
	return c->state == CIRCUIT_PROBING || (c->state == CIRCUIT_OPEN && now_us < c->until_us);
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
