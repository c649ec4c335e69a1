/* Cache: shards, each a hash table with chains and two rings: rows that may go, in order of insertion, and
 * dirty ones, which may not. Those are also in rings by partition: a walk over one finds them there. Eviction is
 * second chance: a row that was used since the hand last passed is kept for another round. A row's bytes follow it,
 * and change in place when they fit: what a lookup costs is mostly the memory it touches. */
#include "engine/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/layout.h"

enum {
	BUCKETS_MIN = 64,
	ROW_BYTES_USUAL = 256,           /* a bucket for as many bytes of the bound */
	ALLOCATION_OVERHEAD = 16,        /* the allocator's */
	GROWTH_BYTES = 16,               /* room for a counter to gain some digits */
	SPARE_BYTES_MAX = 4096,          /* that a row which became shorter may keep */
	PARTITION_RINGS = 8192,          /* a power of two */
	PARTITION_ROWS_MAX = 512,        /* that are looked at for one walk */
	PARTITION_BYTES_MAX = 256 << 10, /* that are copied for it */
	STEP_BYTES_MAX = 512 << 10,      /* that are written back at a time, and the row that passes it */
};

struct row {
	struct row *next; /* in the bucket */
	uint64_t    hash;
	struct list ring;
	struct list partition;                /* if it is dirty */
	uint32_t    key_len, value_len, room; /* room: for the value */
	bool        absent;                   /* there is none: no value */
	bool        used;                     /* since the hand passed */
	bool        dirty;
	char        bytes[]; /* key, value */
};

struct shard {
	pthread_mutex_t lock; /* everything below is under it, but for what cache_expect looks at */
	struct row    **buckets;
	size_t          row_count;
	struct list     clean, dirty; /* rings */
	size_t          bytes;
	uint64_t        version; /* of the last commit here */
	uint64_t        hits, misses;
};

struct cache {
	size_t        shard_bytes_max;
	size_t        bucket_count; /* of a shard; a power of two */
	atomic_size_t dirty_bytes;
	struct shard  shards[CACHE_SHARDS];

	/* under write_back.c's lock: dirty rows, those of a partition all in the same ring */
	struct list partitions[PARTITION_RINGS];
};

/* ---- rows ---- */

static struct bytes row_key(const struct row *r)
{
	return (struct bytes){r->bytes, r->key_len};
}

static struct bytes row_value(const struct row *r)
{
	return (struct bytes){r->bytes + r->key_len, r->value_len};
}

static size_t row_bytes(const struct row *r)
{
	return sizeof(*r) + r->key_len + r->room + ALLOCATION_OVERHEAD;
}

static void row_set(struct row *r, struct bytes value, bool absent)
{
	r->absent = absent;
	r->value_len = (uint32_t)value.len;
	if (value.len > 0)
		memcpy(r->bytes + r->key_len, value.data, value.len);
}

static struct row *row_make(uint64_t hash, struct bytes key, struct bytes value, bool absent)
{
	size_t      room = value.len + GROWTH_BYTES;
	struct row *r = mem_alloc(sizeof(*r) + key.len + room);

	*r = (struct row){.hash = hash, .key_len = (uint32_t)key.len, .room = (uint32_t)room};
	memcpy(r->bytes, key.data, key.len);
	row_set(r, value, absent);
	return r;
}

/* ---- a shard ---- */

static struct shard *shard_of(struct cache *c, uint64_t hash)
{
	return &c->shards[hash % CACHE_SHARDS];
}

static struct row **bucket_of(struct cache *c, uint64_t hash)
{
	return &shard_of(c, hash)->buckets[(hash >> 8) & (c->bucket_count - 1)];
}

/* Where cache_expect may be looking. */
static void link_set(struct row **link, struct row *r)
{
	__atomic_store_n(link, r, __ATOMIC_RELAXED);
}

static struct row **row_find(struct cache *c, uint64_t hash, struct bytes key)
{
	struct row **at = bucket_of(c, hash);

	while (*at != NULL && ((*at)->hash != hash || !bytes_equal(row_key(*at), key)))
		at = &(*at)->next;
	return at;
}

static void row_add(struct cache *c, struct row *r, struct list *ring)
{
	struct shard *s = shard_of(c, r->hash);
	struct row  **bucket = bucket_of(c, r->hash);

	r->next = *bucket;
	link_set(bucket, r);
	list_push_back(ring, &r->ring);
	s->bytes += row_bytes(r);
	s->row_count++;
}

static void row_drop(struct cache *c, struct row **at)
{
	struct row   *r = *at;
	struct shard *s = shard_of(c, r->hash);

	link_set(at, r->next);
	list_remove(&r->ring);
	s->bytes -= row_bytes(r);
	s->row_count--;
	free(r);
}

/* Each row is passed at most twice, so this ends even if all were used. */
static void shard_evict(struct cache *c, struct shard *s)
{
	for (size_t left = 2 * s->row_count; s->bytes > c->shard_bytes_max && left > 0; left--) {
		struct row *r;

		if (list_empty(&s->clean))
			return;
		r = LIST_ENTRY(list_pop_front(&s->clean), struct row, ring);
		list_push_back(&s->clean, &r->ring);
		if (r->used)
			r->used = false;
		else
			row_drop(c, row_find(c, r->hash, row_key(r)));
	}
}

/* ---- reading ---- */

static enum cache_found row_take(struct row *r, struct arena *a, struct bytes *value)
{
	r->used = true;
	if (r->absent)
		return CACHE_ABSENT;
	*value = arena_copy(a, row_value(r));
	return CACHE_FOUND;
}

enum cache_found cache_get(struct cache *c, uint64_t hash, struct bytes key, struct arena *a,
                           struct bytes *value, struct cache_ticket *ticket)
{
	struct shard    *s = shard_of(c, hash);
	enum cache_found found = CACHE_MISS;
	struct row      *r;

	pthread_mutex_lock(&s->lock);
	r = *row_find(c, hash, key);
	if (r != NULL) {
		found = row_take(r, a, value);
		s->hits++;
	} else {
		*ticket = (struct cache_ticket){s->version};
		s->misses++;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}

void cache_offer(struct cache *c, const struct cache_ticket *ticket, uint64_t hash, struct bytes key,
                 struct bytes value, bool absent)
{
	struct shard *s = shard_of(c, hash);

	pthread_mutex_lock(&s->lock);
	if (s->version == ticket->version && *row_find(c, hash, key) == NULL) {
		row_add(c, row_make(hash, key, value, absent), &s->clean);
		shard_evict(c, s);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Buckets first, then the rows in them: each round's memory comes at the same time. Nothing is read but what lies in a
 * bucket, and a row that went meanwhile does no harm: it is an address to fetch, no more. */
void cache_expect(struct cache *c, const uint64_t *hashes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		__builtin_prefetch(bucket_of(c, hashes[i]));
	for (size_t i = 0; i < count; i++) {
		const char *row = (const char *)__atomic_load_n(bucket_of(c, hashes[i]), __ATOMIC_RELAXED);

		if (row != NULL) {
			__builtin_prefetch(row);
			__builtin_prefetch(row + 64);
		}
	}
}

/* ---- committing and writing back ---- */

static struct list *partition_of(struct cache *c, struct bytes key)
{
	return &c->partitions[layout_partition_number(key) & (PARTITION_RINGS - 1)];
}

static void mark_dirty(struct cache *c, struct row *r)
{
	if (r->dirty)
		return;
	r->dirty = true;
	list_push_back(partition_of(c, row_key(r)), &r->partition);
	atomic_fetch_add(&c->dirty_bytes, row_bytes(r));
}

static void mark_clean(struct cache *c, struct row *r)
{
	if (!r->dirty)
		return;
	r->dirty = false;
	list_remove(&r->partition);
	atomic_fetch_sub(&c->dirty_bytes, row_bytes(r));
}

/* Changes the row in place, if the new value fits, and does not leave much of its room unused. */
static bool row_change(struct cache *c, struct shard *s, struct row *r, struct bytes value, bool absent)
{
	if (value.len > r->room || r->room > 2 * value.len + SPARE_BYTES_MAX)
		return false;
	row_set(r, value, absent);
	if (!r->dirty) {
		mark_dirty(c, r);
		list_remove(&r->ring);
		list_push_back(&s->dirty, &r->ring);
	}
	return true;
}

static void row_replace(struct cache *c, struct shard *s, struct row **at, struct row *r)
{
	if (*at != NULL) {
		mark_clean(c, *at); /* it is no longer one to be written back */
		row_drop(c, at);
	}
	mark_dirty(c, r);
	row_add(c, r, &s->dirty);
}

void cache_commit(struct cache *c, uint64_t hash, struct bytes key, struct bytes value, bool absent)
{
	struct shard *s = shard_of(c, hash);
	struct row  **at;

	pthread_mutex_lock(&s->lock);
	s->version++;
	at = row_find(c, hash, key);
	if (*at == NULL || !row_change(c, s, *at, value, absent))
		row_replace(c, s, at, row_make(hash, key, value, absent));
	shard_evict(c, s);
	pthread_mutex_unlock(&s->lock);
}

size_t cache_dirty_bytes(struct cache *c)
{
	return atomic_load_explicit(&c->dirty_bytes, memory_order_relaxed);
}

static bool is_between(const struct row *r, struct bytes low, struct bytes high)
{
	return bytes_compare(row_key(r), low) >= 0 && bytes_compare(row_key(r), high) < 0;
}

static struct cache_row row_copy(const struct row *r, struct arena *a)
{
	return (struct cache_row){arena_copy(a, row_key(r)), arena_copy(a, row_value(r)), r->absent};
}

/* What is dirty stays, and changes only under write_back.c's lock: no shard's is needed to look at it. */
bool cache_dirty_between(struct cache *c, struct bytes low, struct bytes high, struct arena *a,
                         struct cache_rows *rows)
{
	struct list *ring = partition_of(c, low);
	size_t       looked_at = 0, count = 0, bytes = 0;

	for (struct list *at = ring->next; at != ring; at = at->next) {
		const struct row *r = LIST_ENTRY(at, struct row, partition);

		if (is_between(r, low, high)) {
			count++;
			bytes += row_bytes(r);
		}
		if (++looked_at > PARTITION_ROWS_MAX || bytes > PARTITION_BYTES_MAX)
			return false;
	}
	*rows = (struct cache_rows){count == 0 ? NULL : arena_array(a, count, sizeof(*rows->list)), 0};
	for (struct list *at = ring->next; rows->count < count; at = at->next) {
		const struct row *r = LIST_ENTRY(at, struct row, partition);

		if (is_between(r, low, high))
			rows->list[rows->count++] = row_copy(r, a);
	}
	return true;
}

bool cache_dirty_row(struct cache *c, uint64_t hash, struct bytes key, struct arena *a, struct cache_row *row)
{
	struct shard *s = shard_of(c, hash);
	struct row   *r;

	pthread_mutex_lock(&s->lock);
	r = *row_find(c, hash, key);
	if (r != NULL && !r->dirty)
		r = NULL;
	if (r != NULL)
		*row = row_copy(r, a);
	pthread_mutex_unlock(&s->lock);
	return r != NULL;
}

size_t cache_dirty(struct cache *c, unsigned shard, struct cache_row *rows, size_t max)
{
	struct shard *s = &c->shards[shard];
	size_t        count = 0, bytes = 0;

	pthread_mutex_lock(&s->lock);
	for (struct list *at = s->dirty.next; at != &s->dirty && count < max && bytes < STEP_BYTES_MAX;
	     at = at->next) {
		const struct row *r = LIST_ENTRY(at, struct row, ring);

		bytes += row_bytes(r);
		rows[count++] = (struct cache_row){row_key(r), row_value(r), r->absent};
	}
	pthread_mutex_unlock(&s->lock);
	return count;
}

void cache_clean(struct cache *c, unsigned shard, size_t count)
{
	struct shard *s = &c->shards[shard];

	pthread_mutex_lock(&s->lock);
	for (; count > 0; count--) {
		struct row *r = LIST_ENTRY(list_pop_front(&s->dirty), struct row, ring);

		mark_clean(c, r);
		list_push_back(&s->clean, &r->ring);
	}
	shard_evict(c, s);
	pthread_mutex_unlock(&s->lock);
}

/* ---- life cycle ---- */

static size_t bucket_count_for(size_t shard_bytes)
{
	size_t count = BUCKETS_MIN;

	while (count * ROW_BYTES_USUAL < shard_bytes)
		count *= 2;
	return count;
}

struct cache *cache_open(size_t bytes_max)
{
	struct cache *c = mem_zalloc(sizeof(*c));

	c->shard_bytes_max = bytes_max / CACHE_SHARDS;
	c->bucket_count = bucket_count_for(c->shard_bytes_max);
	for (int i = 0; i < PARTITION_RINGS; i++)
		list_init(&c->partitions[i]);
	for (int i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		pthread_mutex_init(&s->lock, NULL);
		list_init(&s->clean);
		list_init(&s->dirty);
		s->buckets = mem_zalloc(c->bucket_count * sizeof(struct row *));
	}
	return c;
}

static void ring_free(struct list *ring)
{
	struct list *at;

	while ((at = list_pop_front(ring)) != NULL)
		free(LIST_ENTRY(at, struct row, ring));
}

void cache_close(struct cache *c)
{
	for (int i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		ring_free(&s->clean);
		ring_free(&s->dirty);
		pthread_mutex_destroy(&s->lock);
		free(s->buckets);
	}
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
