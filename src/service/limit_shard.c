/* Limit shards: shares of whole units; and sums over states. */
#include "service/limit_shard.h"

#include <assert.h>

static uint64_t share(uint64_t all, unsigned shards, unsigned shard)
{
	return all / shards + (shard < all % shards ? 1 : 0);
}

struct limit_rule limit_shard_rule(const struct limit_rule *rule, unsigned shards, unsigned shard)
{
	struct limit_rule r = *rule;

	if (shards <= 1)
		return r;
	r.limit = share(rule->limit, shards, shard);
	r.burst = share(rule->burst, shards, shard);
	return r;
}

bool limit_rule_divides(const struct limit_rule *rule, unsigned shards)
{
	struct limit_rule slowest = *rule;

	if (shards <= 1)
		return true;
	slowest.limit = rule->limit / shards;
	slowest.burst = share(rule->burst, shards, 0);
	return slowest.limit > 0 && (rule->algorithm != LIMIT_GCRA || rule->burst >= shards) &&
	       limit_rule_drains(&slowest);
}

/* ---- one shard ---- */

static void look(const struct limit_rule *rule, struct limit_state s, int64_t now_us,
                 struct limit_answer *out)
{
	limit_take(rule, &s, now_us, 0, out);
}

/* Units that are taken, rounded up; blocked or not. */
static uint64_t used(const struct limit_rule *rule, struct limit_state s, int64_t now_us)
{
	struct limit_answer answer;

	s.blocked_us = 0;
	look(rule, s, now_us, &answer);
	return limit_capacity(rule) - answer.remaining;
}

/* ---- all of them ---- */

struct sum {
	uint64_t room[LIMIT_SHARDS_MAX];
	uint64_t all;
	int64_t  reset_us; /* the latest */
	bool     blocked;
};

static void sum_up(const struct limit_part *part, const struct limit_state *states, int64_t now_us,
                   struct sum *out)
{
	*out = (struct sum){.all = 0};
	for (unsigned i = 0; i < part->count; i++) {
		struct limit_rule   r = limit_shard_rule(part->rule, part->shards, part->first + i);
		struct limit_answer answer;

		look(&r, states[i], now_us, &answer);
		out->room[i] = answer.remaining;
		out->all += answer.remaining;
		out->blocked = out->blocked || answer.reason == LIMIT_BLOCKED;
		if (answer.reset_us > out->reset_us)
			out->reset_us = answer.reset_us;
	}
}

static unsigned roomiest(const struct sum *s, unsigned count)
{
	unsigned best = 0;

	for (unsigned i = 1; i < count; i++)
		if (s->room[i] > s->room[best])
			best = i;
	return best;
}

static void take_over(const struct limit_part *part, struct limit_state *states, int64_t now_us,
                      uint64_t cost)
{
	struct sum s;

	sum_up(part, states, now_us, &s);
	while (cost > 0) {
		unsigned            i = roomiest(&s, part->count);
		uint64_t            units = cost < s.room[i] ? cost : s.room[i];
		struct limit_rule   r = limit_shard_rule(part->rule, part->shards, part->first + i);
		struct limit_answer answer;

		assert(units > 0);
		limit_take(&r, &states[i], now_us, units, &answer);
		assert(answer.allowed);
		s.room[i] -= units;
		cost -= units;
	}
}

/* There is never less room later if nobody asks: so the first moment with enough is found by halving. */
static int64_t wait_us(const struct limit_part *part, const struct limit_state *states, int64_t now_us,
                       uint64_t cost)
{
	struct sum s;
	int64_t    low = 0, high;

	sum_up(part, states, now_us, &s);
	for (high = s.reset_us; high - low > 1;) {
		int64_t middle = low + (high - low) / 2;

		sum_up(part, states, now_us + middle, &s);
		if (s.all >= cost)
			high = middle;
		else
			low = middle;
	}
	return high;
}

static void answer_all(const struct limit_part *part, const struct limit_state *states, int64_t now_us,
                       struct limit_answer *out)
{
	struct sum s;

	sum_up(part, states, now_us, &s);
	out->limit = part->rule->limit;
	out->remaining = s.all;
	out->near = limit_is_near(part->rule, s.all);
	out->reset_us = s.reset_us;
}

static void take_all(const struct limit_part *part, struct limit_state *states, int64_t now_us, uint64_t cost,
                     struct limit_answer *out)
{
	uint64_t   wanted = cost > 0 ? cost : 1;
	struct sum s;

	sum_up(part, states, now_us, &s);
	*out = (struct limit_answer){.allowed = s.all >= wanted};
	if (out->allowed) {
		take_over(part, states, now_us, cost);
	} else if (wanted > limit_capacity(part->rule)) {
		out->retry_after_us = LIMIT_NEVER;
		out->reason = LIMIT_COST_ABOVE;
	} else {
		out->retry_after_us = wait_us(part, states, now_us, wanted);
		out->reason = s.blocked ? LIMIT_BLOCKED : LIMIT_NO_REASON;
	}
	answer_all(part, states, now_us, out);
}

/* ---- parts ---- */

void limit_part_take(const struct limit_part *part, struct limit_state *states, int64_t now_us, uint64_t cost,
                     struct limit_answer *out)
{
	struct limit_rule r = limit_shard_rule(part->rule, part->shards, part->first);

	if (part->count > 1) {
		take_all(part, states, now_us, cost, out);
		return;
	}
	limit_take(&r, states, now_us, cost, out);
	out->limit = part->rule->limit;
}

/* A single shard of several is never the reason to block: whether others have room is not known. */
bool limit_part_block(const struct limit_part *part, struct limit_state *states, int64_t now_us,
                      uint64_t cost, struct limit_answer *out)
{
	if (part->shards <= 1)
		return limit_block(part->rule, states, now_us, cost, out);
	if (part->count < part->shards || out->allowed || out->reason != LIMIT_NO_REASON ||
	    part->rule->block_us == 0 || cost == 0)
		return false;
	for (unsigned i = 0; i < part->count; i++) {
		struct limit_rule   r = limit_shard_rule(part->rule, part->shards, i);
		struct limit_answer refused = {.allowed = false};

		limit_block(&r, &states[i], now_us, 1, &refused);
	}
	take_all(part, states, now_us, cost, out);
	return true;
}

/* What a shard could give back: first what is newest, in a second round a sliding count's window before. */
static uint64_t held(const struct limit_rule *rule, const struct limit_state *s, int64_t now_us,
                     unsigned round)
{
	if (used(rule, *s, now_us) == 0)
		return 0;
	if (rule->algorithm == LIMIT_GCRA)
		return round == 0 ? used(rule, *s, now_us) : 0;
	return round == 0 ? s->count : s->previous;
}

/* Of the shard that holds the most; false if none holds anything. */
static bool give_some(const struct limit_part *part, struct limit_state *states, int64_t now_us,
                      unsigned round, uint64_t *cost)
{
	unsigned            best = 0;
	uint64_t            most = 0, units;
	struct limit_rule   r;
	struct limit_answer answer;

	for (unsigned i = 0; i < part->count; i++) {
		r = limit_shard_rule(part->rule, part->shards, i);
		units = held(&r, &states[i], now_us, round);
		if (units > most) {
			most = units;
			best = i;
		}
	}
	units = *cost < most ? *cost : most;
	r = limit_shard_rule(part->rule, part->shards, best);
	limit_give(&r, &states[best], now_us, units, &answer);
	*cost -= units;
	return units > 0;
}

void limit_part_give(const struct limit_part *part, struct limit_state *states, int64_t now_us, uint64_t cost,
                     struct limit_answer *out)
{
	struct limit_answer moved;

	if (part->shards <= 1) {
		limit_give(part->rule, states, now_us, cost, out);
		return;
	}
	assert(part->count == part->shards);
	for (unsigned i = 0; i < part->count; i++) { /* into the window of now */
		struct limit_rule r = limit_shard_rule(part->rule, part->shards, i);

		limit_give(&r, &states[i], now_us, 0, &moved);
	}
	for (unsigned round = 0; round < 2; round++)
		while (cost > 0 && give_some(part, states, now_us, round, &cost))
			;
	*out = (struct limit_answer){.allowed = true};
	answer_all(part, states, now_us, out);
}

/* ---- laying out anew ---- */

/* Not before anything that a state has seen. */
static int64_t time_of(const struct limit_rule *rule, struct limit_states before, int64_t now_us)
{
	for (unsigned i = 0; rule->algorithm != LIMIT_GCRA && i < before.count; i++)
		if (before.list[i].start_us > now_us)
			now_us = before.list[i].start_us;
	return now_us;
}

struct taken {
	uint64_t count, previous;
	int64_t  blocked_us;
};

/* The shards may have been laid out for a limit that was greater. */
static uint64_t used_then(const struct limit_rule *rule, unsigned shards, unsigned shard,
                          const struct limit_state *s, int64_t time_us)
{
	struct limit_rule r = limit_shard_rule(rule, shards, shard);

	r.limit += r.limit == 0;
	r.burst += r.burst == 0;
	return used(&r, *s, time_us);
}

static struct taken taken_of(const struct limit_rule *rule, struct limit_states before, int64_t time_us)
{
	struct taken sum = {0};

	for (unsigned i = 0; i < before.count; i++) {
		struct limit_state  s = before.list[i];
		struct limit_answer answer;

		if (s.blocked_us > sum.blocked_us)
			sum.blocked_us = s.blocked_us;
		if (rule->algorithm == LIMIT_GCRA) {
			sum.count += used_then(rule, before.count, i, &s, time_us);
			continue;
		}
		if (used(rule, s, time_us) == 0)
			continue;
		limit_give(rule, &s, time_us, 0, &answer); /* into the window of that time */
		sum.count += s.count;
		sum.previous += s.previous;
	}
	return sum;
}

static uint64_t rounded_up(uint64_t units, unsigned shards)
{
	return (units + shards - 1) / shards;
}

static struct limit_state state_of(const struct limit_rule *rule, const struct taken *t, unsigned shards,
                                   int64_t time_us)
{
	struct limit_state  s = {.algorithm = rule->algorithm};
	uint64_t            units = rounded_up(t->count, shards);
	struct limit_answer answer;

	if (rule->algorithm == LIMIT_GCRA) {
		if (units > rule->burst)
			units = rule->burst;
		limit_take(rule, &s, time_us, units, &answer);
	} else {
		s.start_us = limit_window_at(rule->period, time_us).start_us;
		s.count = units;
		s.previous = rounded_up(t->previous, shards);
	}
	s.blocked_us = t->blocked_us;
	return s;
}

void limit_shards_lay(const struct limit_rule *rule, struct limit_states before, struct limit_states after,
                      int64_t now_us)
{
	int64_t      time_us = time_of(rule, before, now_us);
	struct taken t = taken_of(rule, before, time_us);

	assert(before.count <= LIMIT_SHARDS_MAX && after.count <= LIMIT_SHARDS_MAX);
	for (unsigned i = 0; i < after.count; i++) {
		struct limit_rule r = limit_shard_rule(rule, after.count, i);

		after.list[i] = state_of(&r, &t, after.count, time_us);
	}
}

int64_t limit_expiry_max(const struct limit_rule *rule, int64_t now_us)
{
	struct taken       full = {.count = limit_capacity(rule)};
	struct limit_state s = state_of(rule, &full, 1, now_us);

	s.blocked_us = rule->block_us > 0 ? now_us : 0;
	return limit_expiry(rule, &s);
}
