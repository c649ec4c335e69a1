/* Limit fuzz: any rule, any state that a row could hold, any times and costs. Whatever was there, an answer is in order: no
 * more is left than there is, what is allowed was left, a refusal changes nothing and says how long to wait, and after that
 * wait (with nobody else asking) the same request passes. */
#include <stdio.h>
#include <stdlib.h>

#include "service/limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 64 };

#define NOW_MAX_US (LIMIT_TIME_MAX_US - LIMIT_DRAIN_US_MAX)

struct input {
	uint64_t limit, period, burst, start, count, previous, now;
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
	                           .near_permille = in->near};
}

static struct limit_state state_of(const struct input *in)
{
	return (struct limit_state){.algorithm = (enum limit_algorithm)(in->wrote % 4),
	                            .start_us = (int64_t)(in->start % (uint64_t)LIMIT_TIME_MAX_US),
	                            .count = in->count >> 1,
	                            .previous = in->previous >> 1};
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

static void check_take(const struct limit_rule *rule, struct limit_state *s, int64_t now_us, uint64_t cost)
{
	struct limit_state  before = *s;
	struct limit_answer look, a;

	limit_take(rule, s, now_us, 0, &look);
	require(memcmp(&before, s, sizeof(before)) == 0, "a look changes nothing");
	require(look.allowed && look.remaining <= look.limit && look.reset_us >= 0, "a look is in order");
	limit_take(rule, s, now_us, cost, &a);
	require(a.allowed == (cost <= look.remaining), "what is left may be taken, and no more");
	if (a.allowed) {
		require(a.remaining == look.remaining - cost, "what was taken is gone");
		require(s->algorithm == LIMIT_NONE || limit_expiry(rule, s) > 0, "it expires");
		return;
	}
	require(memcmp(&before, s, sizeof(before)) == 0, "a refusal changes nothing");
	check_wait(rule, *s, now_us, cost, a.retry_after_us);
}

static void check_give(const struct limit_rule *rule, struct limit_state *s, int64_t now_us, uint64_t cost)
{
	struct limit_answer look, a;

	limit_take(rule, s, now_us, 0, &look);
	limit_give(rule, s, now_us, cost, &a);
	require(a.remaining >= look.remaining && a.remaining <= a.limit, "a refund takes nothing");
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
	now_us = (int64_t)(in.now % (uint64_t)NOW_MAX_US);
	for (unsigned i = 0; i < STEPS_MAX && take_bytes(&data, &size, &step, sizeof(step)); i++) {
		now_us = (int64_t)((uint64_t)(now_us + step.later_us % (NOW_MAX_US / 1000)) %
		                   (uint64_t)NOW_MAX_US);
		if (step.gives % 4 == 0)
			check_give(&rule, &s, now_us, step.cost % (LIMIT_UNITS_MAX + 1));
		else
			check_take(&rule, &s, now_us, step.cost % (LIMIT_UNITS_MAX + 1));
	}
	return 0;
}
