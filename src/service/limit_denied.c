/* Limit denied: what was answered to which cost, and until when. */
#include "service/limit_denied.h"

struct denial {
	int64_t  retry_us, reset_us; /* when, not how long; LIMIT_NEVER */
	uint32_t cost;
	uint32_t remaining : 31, blocked : 1;
	uint64_t mark; /* the rule's: another one may answer otherwise */
};

_Static_assert(sizeof(struct denial) <= LIMIT_MAP_VALUE_BYTES, "a denial is a value of the map");

static uint64_t mark_of(const struct limit_rule *r)
{
	uint64_t parts[] = {r->algorithm, r->limit,         (uint64_t)r->period.us,
	                    r->burst,     r->near_permille, (uint64_t)r->block_us};

	return hash_bytes(HASH_KEY_STABLE, (struct bytes){(const char *)parts, sizeof(parts)});
}

static enum limit_reason reason_of(const struct denial *d)
{
	if (d->retry_us == LIMIT_NEVER)
		return LIMIT_COST_ABOVE;
	return d->blocked ? LIMIT_BLOCKED : LIMIT_NO_REASON;
}

static bool applies(const struct denial *d, const struct limit_ask *ask, int64_t now_us)
{
	return d != NULL && d->mark == mark_of(ask->rule) && ask->cost == d->cost &&
	       (d->retry_us == LIMIT_NEVER || now_us < d->retry_us);
}

bool limit_denied_find(struct limit_map *m, struct limit_ask *ask, int64_t now_us)
{
	struct limit_map_hold hold;
	const struct denial  *d;
	bool                  found;

	limit_map_lock(m, &ask->key, 1, &hold);
	d = limit_map_find(m, ask->key, hold.hashes[0], now_us);
	found = applies(d, ask, now_us);
	if (found) {
		ask->answer = (struct limit_answer){
		        .near = limit_is_near(ask->rule, d->remaining),
		        .limit = ask->rule->limit,
		        .remaining = d->remaining,
		        .reset_us = d->reset_us > now_us ? d->reset_us - now_us : 0,
		        .retry_after_us = d->retry_us == LIMIT_NEVER ? LIMIT_NEVER : d->retry_us - now_us,
		        .reason = reason_of(d)};
		ask->remembered_us = now_us;
	}
	limit_map_unlock(m, &hold);
	return found;
}

void limit_denied_note(struct limit_map *m, const struct limit_ask *ask, int64_t now_us)
{
	struct limit_map_hold hold;
	struct denial        *d;
	int64_t               wait_us = ask->answer.retry_after_us;

	limit_map_lock(m, &ask->key, 1, &hold);
	d = limit_map_put(m, ask->key, hold.hashes[0], now_us + LIMIT_DENIED_US_MAX, now_us);
	*d = (struct denial){.retry_us = wait_us == LIMIT_NEVER ? LIMIT_NEVER : now_us + wait_us,
	                     .reset_us = now_us + ask->answer.reset_us,
	                     .cost = (uint32_t)ask->cost,
	                     .remaining = (uint32_t)ask->answer.remaining & INT32_MAX,
	                     .blocked = ask->answer.reason == LIMIT_BLOCKED,
	                     .mark = mark_of(ask->rule)};
	limit_map_unlock(m, &hold);
}

void limit_denied_forget(struct limit_map *m, const struct limit_ask *ask)
{
	struct limit_map_hold hold;

	limit_map_lock(m, &ask->key, 1, &hold);
	limit_map_forget(m, ask->key, hold.hashes[0]);
	limit_map_unlock(m, &hold);
}
