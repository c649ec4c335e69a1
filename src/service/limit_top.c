/* Limit top: a few slots per shard, looked through from end to end: sixteen hashes, or counts, are two cache lines. */
#include "service/limit_top.h"

#include <pthread.h>
#include <stdlib.h>

#define SECOND_US    INT64_C(1000000)
#define HALF_LIFE_US (LIMIT_TOP_HALF_LIFE_S * INT64_C(1000000))

struct slot {
	int64_t  second;          /* the last in which it came */
	uint64_t units, previous; /* in that second, and in the one before */
	uint64_t doubt;
	uint32_t key_len;
	bool     hashed;
	char     key[LIMIT_TOP_KEY_BYTES_MAX];
};

struct shard {
	_Alignas(64) pthread_mutex_t lock;
	/* under lock */
	int64_t     halved_us;
	uint64_t    hashes[LIMIT_TOP_SLOTS]; /* parallel to the slots */
	uint64_t    counts[LIMIT_TOP_SLOTS]; /* the same; 0: free */
	struct slot slots[LIMIT_TOP_SLOTS];
};

struct limit_top {
	struct shard shards[LIMIT_TOP_SHARDS];
};

struct limit_top *limit_top_open(void)
{
	struct limit_top *t = aligned_alloc(64, sizeof(*t));

	if (t == NULL)
		abort();
	memset(t, 0, sizeof(*t));
	for (unsigned i = 0; i < LIMIT_TOP_SHARDS; i++)
		pthread_mutex_init(&t->shards[i].lock, NULL);
	return t;
}

void limit_top_close(struct limit_top *t)
{
	for (unsigned i = 0; i < LIMIT_TOP_SHARDS; i++)
		pthread_mutex_destroy(&t->shards[i].lock);
	free(t);
}

static void fade(struct shard *s, int64_t now_us)
{
	int64_t halves = (now_us - s->halved_us) / HALF_LIFE_US;

	if (halves <= 0)
		return;
	s->halved_us += halves * HALF_LIFE_US;
	for (unsigned i = 0; i < LIMIT_TOP_SLOTS; i++) {
		s->counts[i] = halves > 63 ? 0 : s->counts[i] >> halves;
		s->slots[i].doubt = halves > 63 ? 0 : s->slots[i].doubt >> halves;
	}
}

static unsigned rarest(const struct shard *s)
{
	unsigned found = 0;

	for (unsigned i = 1; i < LIMIT_TOP_SLOTS; i++)
		if (s->counts[i] < s->counts[found])
			found = i;
	return found;
}

static unsigned slot_for(struct shard *s, const struct limit_top_ask *ask)
{
	struct slot *slot;
	unsigned     at;

	for (unsigned i = 0; i < LIMIT_TOP_SLOTS; i++)
		if (s->hashes[i] == ask->hash)
			return i;
	at = rarest(s);
	slot = &s->slots[at];
	s->hashes[at] = ask->hash;
	slot->second = 0;
	slot->units = slot->previous = 0;
	slot->doubt = s->counts[at];
	slot->hashed = ask->hashed;
	slot->key_len = (uint32_t)(ask->key.len < sizeof(slot->key) ? ask->key.len : sizeof(slot->key));
	memcpy(slot->key, ask->key.data, slot->key_len);
	return at;
}

static void slot_advance(struct slot *slot, int64_t second)
{
	if (second <= slot->second)
		return;
	slot->previous = second == slot->second + 1 ? slot->units : 0;
	slot->units = 0;
	slot->second = second;
}

uint64_t limit_top_add(struct limit_top *t, const struct limit_top_ask *ask, uint64_t units, int64_t now_us)
{
	struct shard *s = &t->shards[ask->hash % LIMIT_TOP_SHARDS];
	unsigned      at;
	uint64_t      now;

	pthread_mutex_lock(&s->lock);
	fade(s, now_us);
	at = slot_for(s, ask);
	s->counts[at] += units;
	slot_advance(&s->slots[at], now_us / SECOND_US);
	now = s->slots[at].units += units;
	pthread_mutex_unlock(&s->lock);
	return now;
}

/* ---- reading ---- */

static int by_count(const void *a, const void *b)
{
	const struct limit_top_key *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return bytes_compare(x->key, y->key);
}

static unsigned read_shard(struct shard *s, struct arena *a, int64_t now_us, struct limit_top_key *out)
{
	unsigned count = 0;

	pthread_mutex_lock(&s->lock);
	fade(s, now_us);
	for (unsigned i = 0; i < LIMIT_TOP_SLOTS; i++) {
		struct slot *slot = &s->slots[i];

		slot_advance(slot, now_us / SECOND_US);
		if (s->counts[i] > slot->doubt)
			out[count++] = (struct limit_top_key){
			        arena_copy(a, (struct bytes){slot->key, slot->key_len}), slot->hashed,
			        s->counts[i], slot->doubt, slot->previous};
	}
	pthread_mutex_unlock(&s->lock);
	return count;
}

struct limit_top_key *limit_top_read(struct limit_top *t, struct arena *a, unsigned max, int64_t now_us,
                                     unsigned *count)
{
	struct limit_top_key *all = arena_array(a, LIMIT_TOP_MAX, sizeof(*all));

	*count = 0;
	for (unsigned i = 0; i < LIMIT_TOP_SHARDS; i++)
		*count += read_shard(&t->shards[i], a, now_us, all + *count);
	qsort(all, *count, sizeof(*all), by_count);
	if (*count > max)
		*count = max;
	return all;
}
