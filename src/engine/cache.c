/* Cache: shards, each a hash table with chains and two rings: rows that may go, in order of insertion, and
 * unsettled ones, which may not. Eviction is second chance: a row that was used since the hand last passed is
 * kept for another round. */
#include "engine/cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"

enum { BUCKETS_MIN = 64, ALLOCATION_OVERHEAD = 16 };

struct shard {
	pthread_mutex_t lock; /* everything below is under it */
	struct row    **buckets;
	size_t          bucket_count, row_count;
	struct list     settled, unsettled; /* rings */
	size_t          unsettled_count;
	size_t          bytes;
	uint64_t        version; /* of the last commit here */
	uint64_t        hits, misses;
};

struct cache {
	size_t        shard_bytes_max;
	atomic_size_t unsettled_bytes;
	struct shard  shards[CACHE_SHARDS];
};

/* ---- rows ---- */

struct row *row_make(uint64_t hash, struct bytes key, struct bytes value, bool absent)
{
	struct row *r = mem_alloc(sizeof(*r) + key.len + value.len);
	char       *data = (char *)(r + 1);

	*r = (struct row){
	        .absent = absent, .hash = hash, .key = {data, key.len}, .value = {data + key.len, value.len}};
	atomic_init(&r->refs, 1);
	memcpy(data, key.data, key.len);
	if (value.len > 0)
		memcpy(data + key.len, value.data, value.len);
	return r;
}

void row_release(struct row *r)
{
	if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1)
		free(r);
}

static struct row *row_ref(struct row *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

static size_t row_bytes(const struct row *r)
{
	return sizeof(*r) + r->key.len + r->value.len + ALLOCATION_OVERHEAD;
}

/* ---- a shard ---- */

static struct row **row_find(struct shard *s, uint64_t hash, struct bytes key)
{
	struct row **at = &s->buckets[(hash >> 8) & (s->bucket_count - 1)];

	while (*at != NULL && ((*at)->hash != hash || !bytes_equal((*at)->key, key)))
		at = &(*at)->next;
	return at;
}

static void row_drop(struct shard *s, struct row **at)
{
	struct row *r = *at;

	*at = r->next;
	list_remove(&r->ring);
	s->bytes -= row_bytes(r);
	s->row_count--;
	row_release(r);
}

static void shard_rehash(struct shard *s)
{
	size_t       count = s->bucket_count * 2;
	struct row **buckets = mem_zalloc(count * sizeof(struct row *));

	for (size_t i = 0; i < s->bucket_count; i++) {
		while (s->buckets[i] != NULL) {
			struct row  *r = s->buckets[i];
			struct row **at = &buckets[(r->hash >> 8) & (count - 1)];

			s->buckets[i] = r->next;
			r->next = *at;
			*at = r;
		}
	}
	free(s->buckets);
	s->buckets = buckets;
	s->bucket_count = count;
}

/* Takes over the reference. */
static void row_add(struct shard *s, struct row *r, struct list *ring)
{
	struct row **at;

	if (s->row_count >= s->bucket_count)
		shard_rehash(s);
	at = &s->buckets[(r->hash >> 8) & (s->bucket_count - 1)];
	r->next = *at;
	*at = r;
	list_push_back(ring, &r->ring);
	s->bytes += row_bytes(r);
	s->row_count++;
}

/* Each row is passed at most twice, so this ends even if all were used. */
static void shard_evict(struct shard *s, size_t bytes_max)
{
	for (size_t left = 2 * s->row_count; s->bytes > bytes_max && left > 0; left--) {
		struct row *r;

		if (list_empty(&s->settled))
			return;
		r = LIST_ENTRY(list_pop_front(&s->settled), struct row, ring);
		list_push_back(&s->settled, &r->ring);
		if (r->used)
			r->used = false;
		else
			row_drop(s, row_find(s, r->hash, r->key));
	}
}

static struct shard *shard_of(struct cache *c, uint64_t hash)
{
	return &c->shards[hash % CACHE_SHARDS];
}

/* ---- reading ---- */

struct row *cache_get(struct cache *c, uint64_t hash, struct bytes key, struct cache_ticket *ticket)
{
	struct shard *s = shard_of(c, hash);
	struct row   *row;

	pthread_mutex_lock(&s->lock);
	row = *row_find(s, hash, key);
	if (row != NULL) {
		row->used = true;
		row_ref(row);
		s->hits++;
	} else {
		*ticket = (struct cache_ticket){s->version};
		s->misses++;
	}
	pthread_mutex_unlock(&s->lock);
	return row;
}

void cache_offer(struct cache *c, const struct cache_ticket *ticket, struct row *row)
{
	struct shard *s = shard_of(c, row->hash);

	pthread_mutex_lock(&s->lock);
	if (s->version == ticket->version && *row_find(s, row->hash, row->key) == NULL) {
		row_add(s, row_ref(row), &s->settled);
		shard_evict(s, c->shard_bytes_max);
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- committing and settling ---- */

/* The row that a commit replaces. */
static void replace(struct cache *c, struct shard *s, struct row **at, bool was_unsettled)
{
	if (was_unsettled) {
		atomic_fetch_sub(&c->unsettled_bytes, row_bytes(*at));
		s->unsettled_count--;
	}
	row_drop(s, at);
}

void cache_commit(struct cache *c, struct row *row, bool settled)
{
	struct shard *s = shard_of(c, row->hash);
	struct row  **at;

	pthread_mutex_lock(&s->lock);
	s->version++;
	at = row_find(s, row->hash, row->key);
	if (*at != NULL)
		replace(c, s, at, (*at)->unsettled);
	row->unsettled = !settled;
	row_add(s, row, settled ? &s->settled : &s->unsettled);
	if (!settled) {
		atomic_fetch_add(&c->unsettled_bytes, row_bytes(row));
		s->unsettled_count++;
	}
	shard_evict(s, c->shard_bytes_max);
	pthread_mutex_unlock(&s->lock);
}

size_t cache_unsettled_bytes(struct cache *c)
{
	return atomic_load_explicit(&c->unsettled_bytes, memory_order_relaxed);
}

size_t cache_unsettled(struct cache *c, unsigned shard, struct row **rows, size_t max)
{
	struct shard *s = &c->shards[shard];
	size_t        count = 0;

	pthread_mutex_lock(&s->lock);
	for (struct list *at = s->unsettled.next; at != &s->unsettled && count < max; at = at->next)
		rows[count++] = LIST_ENTRY(at, struct row, ring);
	count = s->unsettled_count;
	pthread_mutex_unlock(&s->lock);
	return count;
}

void cache_settled(struct cache *c, unsigned shard)
{
	struct shard *s = &c->shards[shard];

	pthread_mutex_lock(&s->lock);
	while (!list_empty(&s->unsettled)) {
		struct row *r = LIST_ENTRY(list_pop_front(&s->unsettled), struct row, ring);

		r->unsettled = false;
		atomic_fetch_sub(&c->unsettled_bytes, row_bytes(r));
		list_push_back(&s->settled, &r->ring);
	}
	s->unsettled_count = 0;
	shard_evict(s, c->shard_bytes_max);
	pthread_mutex_unlock(&s->lock);
}

/* ---- life cycle ---- */

struct cache *cache_open(size_t bytes_max)
{
	struct cache *c = mem_zalloc(sizeof(*c));

	c->shard_bytes_max = bytes_max / CACHE_SHARDS;
	for (int i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		pthread_mutex_init(&s->lock, NULL);
		list_init(&s->settled);
		list_init(&s->unsettled);
		s->bucket_count = BUCKETS_MIN;
		s->buckets = mem_zalloc(s->bucket_count * sizeof(struct row *));
	}
	return c;
}

static void shard_release(struct shard *s)
{
	for (size_t i = 0; i < s->bucket_count; i++)
		while (s->buckets[i] != NULL)
			row_drop(s, &s->buckets[i]);
	pthread_mutex_destroy(&s->lock);
	free(s->buckets);
}

void cache_close(struct cache *c)
{
	for (int i = 0; i < CACHE_SHARDS; i++)
		shard_release(&c->shards[i]);
	free(c);
}

struct cache_stats cache_stats(struct cache *c)
{
	struct cache_stats sum = {0};

	for (int i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		pthread_mutex_lock(&s->lock);
		sum.hits += s->hits;
		sum.misses += s->misses;
		sum.bytes += s->bytes;
		pthread_mutex_unlock(&s->lock);
	}
	return sum;
}
