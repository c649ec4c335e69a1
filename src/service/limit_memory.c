/* Limit memory: a hash table for each shard, and beside it a heap of when entries expire.
 *
 * The heap's times are lower bounds: an entry that is prolonged keeps its place, and only when it comes to the top is
 * its real time looked at and the entry moved down. So a write costs nothing there, and the top, once it is exact, is
 * the entry that expires first of all. */
#include "service/limit_memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"

enum {
	BUCKETS_MIN = 16,
	ALLOCATOR_BYTES = 16, /* what malloc adds to a block, about */
	SWEEP_MAX = 2,        /* expired entries removed with each new one: the map shrinks as it is used */
};

struct entry {
	struct entry *next; /* in its bucket */
	uint64_t      hash;
	int64_t       expiry_us;
	uint64_t      value[LIMIT_MAP_VALUE_BYTES / sizeof(uint64_t)];
	uint32_t      key_len;
	char          key[];
};

struct place {
	int64_t       at_us; /* <= entry->expiry_us, unless it was forgotten */
	struct entry *entry;
};

struct shard {
	_Alignas(64) pthread_mutex_t lock;
	/* under lock */
	struct entry **buckets;
	size_t         bucket_count; /* a power of two */
	struct place  *heap;         /* as many as there are buckets fit */
	size_t         count;
	size_t         bytes;
	uint64_t       evicted;
};

struct limit_map {
	struct hash_key seed;
	size_t          shard_bytes_max;
	struct shard    shards[LIMIT_MAP_SHARDS];
};

static struct shard *shard_of(struct limit_map *m, uint64_t hash)
{
	return &m->shards[hash >> 58];
}

static size_t tables_bytes(size_t bucket_count)
{
	return bucket_count * (sizeof(struct entry *) + sizeof(struct place));
}

static size_t entry_bytes(size_t key_len)
{
	return sizeof(struct entry) + key_len + ALLOCATOR_BYTES;
}

struct limit_map *limit_map_open(size_t bytes_max, struct hash_key seed)
{
	struct limit_map *m = aligned_alloc(64, sizeof(*m));

	_Static_assert(LIMIT_MAP_SHARDS == 64, "shard_of takes six bits, a hold has a bit for each");
	assert(bytes_max >= LIMIT_MAP_BYTES_MIN && m != NULL);
	memset(m, 0, sizeof(*m));
	m->seed = seed;
	m->shard_bytes_max = bytes_max / LIMIT_MAP_SHARDS;
	for (unsigned i = 0; i < LIMIT_MAP_SHARDS; i++) {
		struct shard *s = &m->shards[i];

		pthread_mutex_init(&s->lock, NULL);
		s->bucket_count = BUCKETS_MIN;
		s->buckets = mem_zalloc(BUCKETS_MIN * sizeof(*s->buckets));
		s->heap = mem_alloc(BUCKETS_MIN * sizeof(*s->heap));
		s->bytes = tables_bytes(BUCKETS_MIN);
	}
	return m;
}

void limit_map_close(struct limit_map *m)
{
	for (unsigned i = 0; i < LIMIT_MAP_SHARDS; i++) {
		struct shard *s = &m->shards[i];

		for (size_t j = 0; j < s->count; j++)
			free(s->heap[j].entry);
		free(s->heap);
		free(s->buckets);
		pthread_mutex_destroy(&s->lock);
	}
	free(m);
}

/* ---- locking ---- */

void limit_map_lock(struct limit_map *m, const struct bytes *keys, unsigned count,
                    struct limit_map_hold *hold)
{
	assert(count > 0 && count <= LIMIT_MAP_LOCK_MAX);
	hold->shards = 0;
	for (unsigned i = 0; i < count; i++) {
		hold->hashes[i] = hash_bytes(m->seed, keys[i]);
		hold->shards |= (uint64_t)1 << (hold->hashes[i] >> 58);
	}
	for (uint64_t left = hold->shards; left != 0; left &= left - 1)
		pthread_mutex_lock(&m->shards[__builtin_ctzll(left)].lock);
}

void limit_map_unlock(struct limit_map *m, const struct limit_map_hold *hold)
{
	for (uint64_t left = hold->shards; left != 0; left &= left - 1)
		pthread_mutex_unlock(&m->shards[__builtin_ctzll(left)].lock);
}

/* ---- the heap ---- */

static void heap_down(struct shard *s, size_t at)
{
	struct place moving = s->heap[at];

	for (size_t child; (child = 2 * at + 1) < s->count; at = child) {
		if (child + 1 < s->count && s->heap[child + 1].at_us < s->heap[child].at_us)
			child++;
		if (s->heap[child].at_us >= moving.at_us)
			break;
		s->heap[at] = s->heap[child];
	}
	s->heap[at] = moving;
}

static void heap_add(struct shard *s, struct entry *e)
{
	size_t at = s->count++;

	for (; at > 0 && s->heap[(at - 1) / 2].at_us > e->expiry_us; at = (at - 1) / 2)
		s->heap[at] = s->heap[(at - 1) / 2];
	s->heap[at] = (struct place){e->expiry_us, e};
}

/* Makes the top exact: the entry that expires first. There is one. */
static struct entry *heap_top(struct shard *s)
{
	while (s->heap[0].at_us < s->heap[0].entry->expiry_us) {
		s->heap[0].at_us = s->heap[0].entry->expiry_us;
		heap_down(s, 0);
	}
	return s->heap[0].entry;
}

/* ---- entries ---- */

static struct entry **link_of(struct shard *s, struct bytes key, uint64_t hash)
{
	struct entry **link = &s->buckets[hash & (s->bucket_count - 1)];

	while (*link != NULL &&
	       ((*link)->hash != hash || !bytes_equal((struct bytes){(*link)->key, (*link)->key_len}, key)))
		link = &(*link)->next;
	return link;
}

static void remove_top(struct shard *s)
{
	struct entry  *e = s->heap[0].entry;
	struct entry **link = &s->buckets[e->hash & (s->bucket_count - 1)];

	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	s->heap[0] = s->heap[--s->count];
	if (s->count > 0)
		heap_down(s, 0);
	s->bytes -= entry_bytes(e->key_len);
	free(e);
}

static void sweep(struct shard *s, int64_t now_us)
{
	for (unsigned i = 0; i < SWEEP_MAX && s->count > 0; i++) {
		if (s->heap[0].at_us > now_us || heap_top(s)->expiry_us > now_us)
			return;
		remove_top(s);
	}
}

static size_t growth_bytes(const struct shard *s)
{
	return s->count == s->bucket_count ? tables_bytes(s->bucket_count) : 0;
}

static void make_room(struct limit_map *m, struct shard *s, size_t bytes, int64_t now_us)
{
	while (s->count > 0 && s->bytes + bytes + growth_bytes(s) > m->shard_bytes_max) {
		s->evicted += heap_top(s)->expiry_us > now_us;
		remove_top(s);
	}
}

static void grow(struct shard *s)
{
	size_t         count = 2 * s->bucket_count;
	struct entry **buckets = mem_zalloc(count * sizeof(*buckets));

	for (size_t i = 0; i < s->count; i++) {
		struct entry  *e = s->heap[i].entry;
		struct entry **first = &buckets[e->hash & (count - 1)];

		e->next = *first;
		*first = e;
	}
	free(s->buckets);
	s->buckets = buckets;
	s->heap = mem_realloc(s->heap, count * sizeof(*s->heap));
	s->bytes += tables_bytes(s->bucket_count);
	s->bucket_count = count;
}

static struct entry *add(struct limit_map *m, struct bytes key, uint64_t hash, int64_t expiry_us,
                         int64_t now_us)
{
	struct shard *s = shard_of(m, hash);
	struct entry *e = mem_zalloc(sizeof(*e) + key.len), **first;

	sweep(s, now_us);
	make_room(m, s, entry_bytes(key.len), now_us);
	if (s->count == s->bucket_count)
		grow(s);
	e->hash = hash;
	e->expiry_us = expiry_us;
	e->key_len = (uint32_t)key.len;
	memcpy(e->key, key.data, key.len);
	first = &s->buckets[hash & (s->bucket_count - 1)];
	e->next = *first;
	*first = e;
	heap_add(s, e);
	s->bytes += entry_bytes(key.len);
	assert(s->bytes <= m->shard_bytes_max); /* keys are short: see LIMIT_MAP_BYTES_MIN */
	return e;
}

void *limit_map_find(struct limit_map *m, struct bytes key, uint64_t hash, int64_t now_us)
{
	struct entry *e = *link_of(shard_of(m, hash), key, hash);

	return e != NULL && e->expiry_us > now_us ? e->value : NULL;
}

void *limit_map_put(struct limit_map *m, struct bytes key, uint64_t hash, int64_t expiry_us, int64_t now_us)
{
	struct entry *e = *link_of(shard_of(m, hash), key, hash);

	if (e == NULL)
		return add(m, key, hash, expiry_us, now_us)->value;
	if (e->expiry_us <= now_us)
		memset(e->value, 0, sizeof(e->value));
	e->expiry_us = expiry_us;
	return e->value;
}

void limit_map_forget(struct limit_map *m, struct bytes key, uint64_t hash)
{
	struct entry *e = *link_of(shard_of(m, hash), key, hash);

	if (e != NULL)
		e->expiry_us = INT64_MIN;
}

struct limit_map_stats limit_map_stats(struct limit_map *m)
{
	struct limit_map_stats sum = {0};

	for (unsigned i = 0; i < LIMIT_MAP_SHARDS; i++) {
		struct shard *s = &m->shards[i];

		pthread_mutex_lock(&s->lock);
		sum.entries += s->count;
		sum.bytes += s->bytes;
		sum.evicted += s->evicted;
		pthread_mutex_unlock(&s->lock);
	}
	return sum;
}

/* ---- the engine: the keys' shards are locked together, so others see all of a call or nothing of it ---- */

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
