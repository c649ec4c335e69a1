/* Limit fuzz: any rule, any state that a row could hold, any times and costs. Whatever was there, an answer is in order: no
 * more is left than there is, what is allowed was left, a refusal takes nothing and says how long to wait, and after that
 * wait (with nobody else asking) the same request passes. */
#include <stdio.h>
#include <stdlib.h>

#include "service/limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 64 };

#define NOW_MAX_US (LIMIT_TIME_MAX_US - LIMIT_DRAIN_US_MAX)

struct input {
	uint64_t limit, period, burst, start, count, previous, now, block, blocked;
	uint8_t  algorithm, wrote, near;
};

struct step {
	int64_t  later_us; /* or earlier */
	uint64_t cost;
	uint8_t  gives;
};

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static bool take_bytes(const uint8_t **data, size_t *size, void *out, size_t len)
{
	if (*size < len)
		return false;
	memcpy(out, *data, len);
	*data += len;
	*size -= len;
	return true;
}

static struct limit_rule rule_of(const struct input *in)
{
	return (struct limit_rule){.algorithm = (enum limit_algorithm)(LIMIT_FIXED + in->algorithm % 3),
	                           .limit = 1 + in->limit % LIMIT_UNITS_MAX,
	                           .period = {(int64_t)(in->period % (LIMIT_PERIOD_S_MAX + 1)) * 1000000},
	                           .burst = 1 + in->burst % LIMIT_UNITS_MAX,
	                           .near_permille = in->near,
	                           .block_us = (int64_t)(in->block % (LIMIT_PERIOD_S_MAX + 1)) * 1000000};
}

static struct limit_state state_of(const struct input *in)
{
	return (struct limit_state){.algorithm = (enum limit_algorithm)(in->wrote % 4),
	                            .start_us = (int64_t)(in->start % (uint64_t)LIMIT_TIME_MAX_US),
	                            .count = in->count >> 1,
	                            .previous = in->previous >> 1,
	                            .blocked_us = (int64_t)(in->blocked % (uint64_t)LIMIT_TIME_MAX_US)};
}

static void check_wait(const struct limit_rule *rule, struct limit_state s, int64_t now_us, uint64_t cost,
                       int64_t wait_us)
{
	struct limit_answer a;

	if (wait_us == LIMIT_NEVER) {
		require(cost > limit_capacity(rule), "a wait without end for what could be met");
		return;
	}
	require(wait_us > 0, "a refusal says how long to wait");
	if (now_us + wait_us >= LIMIT_TIME_MAX_US)
		return;
	limit_take(rule, &s, now_us + wait_us, cost, &a);
	require(a.allowed, "after the wait it passes");
}

static bool same(const struct limit_state *a, const struct limit_state *b)
{
	return a->algorithm == b->algorithm && a->start_us == b->start_us && a->count == b->count &&
	       a->previous == b->previous && a->blocked_us == b->blocked_us;
}

static void check_take(const struct limit_rule *rule, struct limit_state *s, int64_t now_us, uint64_t cost)
{
	struct limit_state  before = *s;
	struct limit_answer look, a;

	limit_take(rule, s, now_us, 0, &look);
	require(same(&before, s), "a look changes nothing");
	require(look.allowed == (look.remaining > 0), "a look is allowed if there is something");
	require(look.remaining <= limit_capacity(rule) && look.reset_us >= 0, "a look is in order");
	require(look.limit == rule->limit, "the limit is the configured one");
	limit_take(rule, s, now_us, cost, &a);
	require(a.allowed == ((cost == 0 ? 1 : cost) <= look.remaining),
	        "what is left may be taken, and no more");
	if (a.allowed) {
		require(a.remaining == look.remaining - cost, "what was taken is gone");
		require(s->algorithm == LIMIT_NONE || limit_expiry(rule, s) > 0, "it expires");
		return;
	}
	require(same(&before, s), "a refusal changes nothing");
	if (limit_block(rule, s, now_us, cost, &a))
		require(!a.allowed && a.retry_after_us >= rule->block_us, "a block is told");
	if (s->blocked_us <= now_us) /* the clock did not go back */
		check_wait(rule, *s, now_us, cost, a.retry_after_us);
}

static void check_give(const struct limit_rule *rule, struct limit_state *s, int64_t now_us, uint64_t cost)
{
	struct limit_answer look, a;

	limit_take(rule, s, now_us, 0, &look);
	limit_give(rule, s, now_us, cost, &a);
	require(a.remaining >= look.remaining && a.remaining <= limit_capacity(rule),
	        "a refund takes nothing");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input       in;
	struct step        step;
	struct limit_rule  rule;
	struct limit_state s;
	int64_t            now_us;

	if (!take_bytes(&data, &size, &in, sizeof(in)))
		return 0;
	rule = rule_of(&in);
	if (!limit_rule_drains(&rule))
		return 0;
	s = state_of(&in);
	now_us = 1 + (int64_t)(in.now % (uint64_t)NOW_MAX_US);
	for (unsigned i = 0; i < STEPS_MAX && take_bytes(&data, &size, &step, sizeof(step)); i++) {
		now_us = 1 + (int64_t)((uint64_t)(now_us + step.later_us % (NOW_MAX_US / 1000)) %
		                       (uint64_t)NOW_MAX_US);
		if (step.gives % 4 == 0)
			check_give(&rule, &s, now_us, step.cost % (LIMIT_UNITS_MAX + 1));
		else
			check_take(&rule, &s, now_us, step.cost % (LIMIT_UNITS_MAX + 1));
	}
	return 0;
}
