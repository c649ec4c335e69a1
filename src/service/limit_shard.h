/* Limit shards: one limit, divided over several states, so that the states can be kept in rows of different partitions. Pure
 * functions, as in limit.h. Shard i of n has its share of the limit: limit / n, and one more unit if i is less than the rest.
 *
 * What always holds
 * (1) The shares add up to the limit (GCRA: the bursts to the burst, the rates to the rate). So however units are taken, of one
 *     shard or of several, never more pass than the limit allows.
 * (2) Who sees all shards is refused only if they have too little together. Fixed windows: exactly as one state would. Sliding
 *     windows and GCRA: each shard rounds down to whole units, so fewer than n units are held back.
 * (3) GCRA: each shard fills up at its share of the rate, and a full one does not help the others. All units are back after
 *     (burst / n, rounded up) / (limit / n, rounded down) periods at the latest, whatever was taken.
 * (4) Laying the shards out anew (another n, another limit) forgets nothing: what was taken counts on, rounded up per shard. */
#ifndef SERVICE_LIMIT_SHARD_H
#define SERVICE_LIMIT_SHARD_H

#include "service/limit.h"

enum { LIMIT_SHARDS_MAX = 16 };

/* Which states of a limit are at hand: `count` of them, from shard `first` on, of `shards`. All zeros: it is not divided, and
 * there is one. Either one state or all. */
struct limit_part {
	unsigned                 shards, first, count;
	const struct limit_rule *rule; /* the whole limit's */
};

static inline unsigned limit_part_states(const struct limit_part *p)
{
	return p->count > 1 ? p->count : 1;
}

/* The rule of one shard. The limit, and GCRA's burst, are at least `shards`. */
struct limit_rule limit_shard_rule(const struct limit_rule *rule, unsigned shards, unsigned shard);

/* Does the limit have as many units as shards, and does each shard drain in time (limit_rule_drains)? */
bool limit_rule_divides(const struct limit_rule *rule, unsigned shards);

/* limit_take, limit_block and limit_give over a part. The answer's limit is the whole one; what remains is what remains of the
 * part. Of all shards, those with the most room are taken from. */
void limit_part_take(const struct limit_part *part, struct limit_state *states, int64_t now_us, uint64_t cost,
                     struct limit_answer *out);
bool limit_part_block(const struct limit_part *part, struct limit_state *states, int64_t now_us,
                      uint64_t cost, struct limit_answer *out);
void limit_part_give(const struct limit_part *part, struct limit_state *states, int64_t now_us, uint64_t cost,
                     struct limit_answer *out);

/* (4) `before` are the states that there are, in any layout, at most LIMIT_SHARDS_MAX; fills `shards` states. */
struct limit_states {
	struct limit_state *list;
	unsigned            count;
};

void limit_shards_lay(const struct limit_rule *rule, struct limit_states before, struct limit_states after,
                      int64_t now_us);

/* From when on a state that is touched now, whatever happens to it, says no more than an empty one. */
int64_t limit_expiry_max(const struct limit_rule *rule, int64_t now_us);

#endif
