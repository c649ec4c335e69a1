/* Limit memory: the keys' shards are locked together, so others see all of a call or nothing of it. */
#include "service/limit_memory.h"

#include <assert.h>

_Static_assert(sizeof(struct limit_state) <= LIMIT_MAP_VALUE_BYTES, "a state is a value of the map");
_Static_assert(LIMIT_ASKS_MAX <= (int)LIMIT_MAP_LOCK_MAX, "a call's keys are locked together");

static void lock(struct limit_map *m, const struct limit_asks *asks, struct limit_map_hold *hold)
{
	struct bytes keys[LIMIT_ASKS_MAX];

	assert(asks->count > 0 && asks->count <= LIMIT_ASKS_MAX);
	for (unsigned i = 0; i < asks->count; i++)
		keys[i] = asks->list[i]->key;
	limit_map_lock(m, keys, asks->count, hold);
}

static void load(struct limit_map *m, const struct limit_ask *ask, uint64_t hash, int64_t now_us,
                 struct limit_state *out)
{
	const struct limit_state *kept = limit_map_find(m, ask->key, hash, now_us);

	*out = kept != NULL ? *kept : (struct limit_state){0};
}

static void store(struct limit_map *m, const struct limit_ask *ask, uint64_t hash, int64_t now_us,
                  const struct limit_state *s)
{
	struct limit_state *kept = limit_map_put(m, ask->key, hash, limit_expiry(ask->rule, s), now_us);

	*kept = *s;
}

bool limit_memory_take(struct limit_map *m, const struct limit_asks *asks, bool may, int64_t now_us)
{
	struct limit_map_hold hold;
	struct limit_state    states[LIMIT_ASKS_MAX];

	lock(m, asks, &hold);
	for (unsigned i = 0; i < asks->count; i++)
		load(m, asks->list[i], hold.hashes[i], now_us, &states[i]);
	may = limit_decide(asks, states, may, now_us);
	for (unsigned i = 0; i < asks->count; i++)
		if (asks->list[i]->changed)
			store(m, asks->list[i], hold.hashes[i], now_us, &states[i]);
	limit_map_unlock(m, &hold);
	return may;
}

void limit_memory_give(struct limit_map *m, const struct limit_asks *asks, bool keep, int64_t now_us)
{
	struct limit_map_hold hold;
	struct limit_state    s;

	lock(m, asks, &hold);
	for (unsigned i = 0; i < asks->count; i++) {
		load(m, asks->list[i], hold.hashes[i], now_us, &s);
		limit_give(asks->list[i]->rule, &s, now_us, asks->list[i]->cost, &asks->list[i]->answer);
		if (keep && s.algorithm != LIMIT_NONE)
			store(m, asks->list[i], hold.hashes[i], now_us, &s);
	}
	limit_map_unlock(m, &hold);
}
