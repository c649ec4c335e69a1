/* Cache: shards, each a hash table with chains and a ring in order of insertion. Eviction is second chance: a
 * row that was used since the hand last passed is kept for another round. The pending mark of (A1) is an
 * entry without a row. */
#include "engine/cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/list.h"

enum { SHARDS = 64, BUCKETS_MIN = 64, ENTRY_OVERHEAD = 160 };

struct entry {
	struct entry *next; /* in the bucket */
	struct list   ring;
	uint64_t      hash;
	struct row   *row;     /* NULL: pending */
	struct bytes  key;     /* in row, or an allocation of its own while pending */
	bool          used;    /* since the hand passed */
	bool          pending; /* a commit of this key is under way */
};

struct shard {
	pthread_mutex_t lock; /* everything below is under it */
	struct entry  **buckets;
	size_t          bucket_count, entry_count;
	struct list     ring;
	size_t          bytes;
	uint64_t        version; /* of the last commit here */
	uint64_t        hits, misses;
};

struct cache {
	size_t       shard_bytes_max;
	struct shard shards[SHARDS];
};

struct row *row_make(struct bytes key, struct bytes value, bool absent)
{
	struct row *r = mem_alloc(sizeof(*r) + key.len + value.len);
	char       *data = (char *)(r + 1);

	atomic_init(&r->refs, 1);
	r->absent = absent;
	memcpy(data, key.data, key.len);
	if (value.len > 0)
		memcpy(data + key.len, value.data, value.len);
	r->key = (struct bytes){data, key.len};
	r->value = (struct bytes){data + key.len, value.len};
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

struct cache *cache_open(size_t bytes_max)
{
	struct cache *c = mem_zalloc(sizeof(*c));

	c->shard_bytes_max = bytes_max / SHARDS;
	for (int i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shards[i];

		pthread_mutex_init(&s->lock, NULL);
		list_init(&s->ring);
		s->bucket_count = BUCKETS_MIN;
		s->buckets = mem_zalloc(s->bucket_count * sizeof(struct entry *));
	}
	return c;
}

static size_t entry_bytes(const struct entry *e)
{
	return e->key.len + (e->row == NULL ? 0 : e->row->value.len) + ENTRY_OVERHEAD;
}

static struct entry **entry_find(struct shard *s, uint64_t hash, struct bytes key)
{
	struct entry **at = &s->buckets[(hash >> 8) & (s->bucket_count - 1)];

	while (*at != NULL && ((*at)->hash != hash || !bytes_equal((*at)->key, key)))
		at = &(*at)->next;
	return at;
}

static void entry_set_row(struct shard *s, struct entry *e, struct row *row)
{
	s->bytes -= entry_bytes(e);
	if (e->row == NULL)
		free((void *)(uintptr_t)e->key.data);
	else
		row_release(e->row);
	e->row = row;
	e->key = row->key;
	s->bytes += entry_bytes(e);
}

static void entry_drop(struct shard *s, struct entry **at)
{
	struct entry *e = *at;

	*at = e->next;
	list_remove(&e->ring);
	s->bytes -= entry_bytes(e);
	s->entry_count--;
	if (e->row == NULL)
		free((void *)(uintptr_t)e->key.data);
	else
		row_release(e->row);
	free(e);
}

static void shard_rehash(struct shard *s)
{
	size_t         count = s->bucket_count * 2;
	struct entry **buckets = mem_zalloc(count * sizeof(struct entry *));

	for (size_t i = 0; i < s->bucket_count; i++) {
		while (s->buckets[i] != NULL) {
			struct entry  *e = s->buckets[i];
			struct entry **at = &buckets[(e->hash >> 8) & (count - 1)];

			s->buckets[i] = e->next;
			e->next = *at;
			*at = e;
		}
	}
	free(s->buckets);
	s->buckets = buckets;
	s->bucket_count = count;
}

/* Takes over `row`, or copies the key if there is none yet. */
static struct entry *entry_add(struct shard *s, uint64_t hash, struct bytes key, struct row *row)
{
	struct entry  *e = mem_zalloc(sizeof(*e));
	struct entry **at;

	if (s->entry_count >= s->bucket_count)
		shard_rehash(s);
	at = &s->buckets[(hash >> 8) & (s->bucket_count - 1)];
	e->hash = hash;
	e->row = row;
	if (row != NULL) {
		e->key = row->key;
	} else {
		char *copy = mem_alloc(key.len);

		memcpy(copy, key.data, key.len);
		e->key = (struct bytes){copy, key.len};
	}
	e->next = *at;
	*at = e;
	list_push_back(&s->ring, &e->ring);
	s->bytes += entry_bytes(e);
	s->entry_count++;
	return e;
}

/* Each entry is passed at most twice, so this ends even if all were used or are pending. */
static void shard_evict(struct shard *s, size_t bytes_max)
{
	for (size_t left = 2 * s->entry_count; s->bytes > bytes_max && left > 0; left--) {
		struct entry *e = LIST_ENTRY(list_pop_front(&s->ring), struct entry, ring);

		if (e->used || e->pending) {
			e->used = false;
			list_push_back(&s->ring, &e->ring);
		} else {
			entry_drop(s, entry_find(s, e->hash, e->key));
		}
	}
}

static struct shard *shard_of(struct cache *c, uint64_t hash)
{
	return &c->shards[hash % SHARDS];
}

struct row *cache_get(struct cache *c, uint64_t hash, struct bytes key, struct cache_ticket *ticket)
{
	struct shard *s = shard_of(c, hash);
	struct entry *e;
	struct row   *row = NULL;

	pthread_mutex_lock(&s->lock);
	e = *entry_find(s, hash, key);
	if (e != NULL && !e->pending) {
		e->used = true;
		row = row_ref(e->row);
		s->hits++;
	} else {
		*ticket = (struct cache_ticket){hash, s->version};
		s->misses++;
	}
	pthread_mutex_unlock(&s->lock);
	return row;
}

void cache_offer(struct cache *c, const struct cache_ticket *ticket, struct row *row)
{
	struct shard *s = shard_of(c, ticket->hash);

	pthread_mutex_lock(&s->lock);
	if (s->version == ticket->version && *entry_find(s, ticket->hash, row->key) == NULL) {
		entry_add(s, ticket->hash, row->key, row_ref(row));
		shard_evict(s, c->shard_bytes_max);
	}
	pthread_mutex_unlock(&s->lock);
}

void cache_commit_begin(struct cache *c, uint64_t hash, struct bytes key)
{
	struct shard *s = shard_of(c, hash);
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	e = *entry_find(s, hash, key);
	if (e == NULL)
		e = entry_add(s, hash, key, NULL);
	e->pending = true;
	s->version++;
	pthread_mutex_unlock(&s->lock);
}

void cache_commit_end(struct cache *c, uint64_t hash, struct bytes key, struct row *row)
{
	struct shard  *s = shard_of(c, hash);
	struct entry **at;

	pthread_mutex_lock(&s->lock);
	at = entry_find(s, hash, key);
	s->version++;
	if (row == NULL) {
		entry_drop(s, at);
	} else {
		entry_set_row(s, *at, row_ref(row));
		(*at)->pending = false;
		shard_evict(s, c->shard_bytes_max);
	}
	pthread_mutex_unlock(&s->lock);
}

static void shard_release(struct shard *s)
{
	for (size_t i = 0; i < s->bucket_count; i++)
		while (s->buckets[i] != NULL)
			entry_drop(s, &s->buckets[i]);
	pthread_mutex_destroy(&s->lock);
	free(s->buckets);
}

void cache_close(struct cache *c)
{
	for (int i = 0; i < SHARDS; i++)
		shard_release(&c->shards[i]);
	free(c);
}

struct cache_stats cache_stats(struct cache *c)
{
	struct cache_stats sum = {0};

	for (int i = 0; i < SHARDS; i++) {
		struct shard *s = &c->shards[i];

		pthread_mutex_lock(&s->lock);
		sum.hits += s->hits;
		sum.misses += s->misses;
		sum.bytes += s->bytes;
		pthread_mutex_unlock(&s->lock);
	}
	return sum;
}
