/* Cache: shards, each a hash table with chains and a ring of the rows that may go, in order of insertion. Dirty ones may not: they are in the order of
 * their keys (dirty.h), those of all shards together. All are also in rings by partition (partition.h): a walk over one finds them there. Eviction is second chance: a row that was used since the hand last passed is kept for another round. A row's bytes follow it,
 * and change in place when they fit: what a lookup costs is mostly the memory it touches. */
#include "engine/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/dirty.h"
#include "engine/partition.h"

enum {
	BUCKETS_MIN = 64,                      /* of a shard; a power of two */
	BUCKETS_GROWTH = 4,                    /* times, when there are … */
	BUCKET_ROWS_MAX = 2,                   /* … so many rows to a bucket */
	ALLOCATION_OVERHEAD = 8,               /* the allocator's, which gives … */
	ALLOCATION_STEP = 16,                  /* … a multiple of this, with its own */
	PARTITION_SHARE = PARTITION_BYTES / 2, /* of a row: most partitions have some */
	GROWTH_BYTES = 4,                      /* room for a counter to gain some digits, at least */
	SPARE_BYTES_MAX = 4096,                /* that a row which became shorter may keep */
	ROOM_MAX = INT32_MAX,                  /* far more than an item takes */
	STEP_BYTES_MAX = 512 << 10, /* that are written back at a time, and the row that passes it */
};

/* As many as there are rows for, so that the memory of few rows is little, and near. */
struct buckets {
	struct buckets *before; /* these: kept, since cache_expect may be looking at them */
	size_t          mask;
	struct row     *rows[];
};

struct shard {
	pthread_mutex_t lock; /* everything below is under it, but for what cache_expect looks at */
	struct buckets *buckets;
	size_t          row_count;
	struct list     clean; /* a ring */
	size_t          bytes;
	uint64_t        version; /* of the last commit here */
	uint64_t        hits, misses;
};

struct cache {
	size_t             shard_bytes_max;
	atomic_size_t      dirty_bytes;
	struct partitions *partitions;
	struct dirty       dirty; /* dirty.h says which thread */
	struct shard       shards[CACHE_SHARDS];
};

/* ---- rows ---- */

static size_t row_bytes(const struct row *r)
{
	return sizeof(*r) + r->key_len + r->room + ALLOCATION_OVERHEAD + PARTITION_SHARE;
}

static void row_set(struct row *r, struct bytes value, bool absent)
{
	r->absent = absent;
	r->value_len = (uint32_t)value.len;
	if (value.len > 0)
		memcpy(r->bytes + r->key_len, value.data, value.len);
}

/* As much as the allocator would take for it in any case. */
static size_t allocation(size_t bytes)
{
	return (bytes + ALLOCATION_OVERHEAD + ALLOCATION_STEP - 1) / ALLOCATION_STEP * ALLOCATION_STEP -
	       ALLOCATION_OVERHEAD;
}

/* As much of the hash as a row keeps: which shard, and which bucket there. */
static uint32_t kept_hash(uint64_t hash)
{
	return (uint32_t)hash;
}

static struct row *row_make(uint64_t hash, struct bytes key, struct bytes value, bool absent)
{
	size_t      bytes = allocation(sizeof(struct row) + key.len + value.len + GROWTH_BYTES);
	struct row *r = mem_alloc(bytes);

	assert(key.len <= UINT16_MAX); /* a key attribute is at most 2,048 bytes long */
	memset(r, 0, sizeof(*r));
	list_init(&r->ring);
	r->hash = kept_hash(hash);
	r->key_len = (uint16_t)key.len;
	r->room = (uint32_t)(bytes - sizeof(*r) - key.len) & ROOM_MAX;
	memcpy(r->bytes, key.data, key.len);
	row_set(r, value, absent);
	return r;
}

/* ---- a shard ---- */

static struct shard *shard_of(struct cache *c, uint64_t hash)
{
	return &c->shards[hash % CACHE_SHARDS];
}

static struct row **bucket_in(struct buckets *b, uint32_t hash)
{
	return &b->rows[hash / CACHE_SHARDS & b->mask];
}

static struct buckets *buckets_make(size_t count, struct buckets *before)
{
	struct buckets *b = mem_zalloc(sizeof(*b) + count * sizeof(struct row *));

	b->mask = count - 1;
	b->before = before;
	return b;
}

/* More of them. Those before are a third as many together, however often it grew. */
static void shard_grow(struct shard *s)
{
	struct buckets *old = s->buckets, *new = buckets_make((old->mask + 1) * BUCKETS_GROWTH, old);

	for (size_t i = 0; i <= old->mask; i++) {
		for (struct row *r = old->rows[i], *next; r != NULL; r = next) {
			struct row **bucket = bucket_in(new, r->hash);

			next = r->next;
			r->next = *bucket;
			*bucket = r;
		}
		__atomic_store_n(&old->rows[i], NULL, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&s->buckets, new, __ATOMIC_RELEASE);
}

/* Where cache_expect may be looking. */
static void link_set(struct row **link, struct row *r)
{
	__atomic_store_n(link, r, __ATOMIC_RELAXED);
}

static struct row **row_find(struct shard *s, uint64_t hash, struct bytes key)
{
	struct row **at = bucket_in(s->buckets, kept_hash(hash));

	while (*at != NULL && ((*at)->hash != kept_hash(hash) || !bytes_equal(row_key(*at), key)))
		at = &(*at)->next;
	return at;
}

/* Where a row that is there hangs. */
static struct row **row_place(struct shard *s, const struct row *r)
{
	struct row **at = bucket_in(s->buckets, r->hash);

	while (*at != r)
		at = &(*at)->next;
	return at;
}

static void row_add(struct shard *s, struct row *r)
{
	struct row **bucket = bucket_in(s->buckets, r->hash);

	r->next = *bucket;
	link_set(bucket, r);
	s->bytes += row_bytes(r);
	if (++s->row_count > BUCKET_ROWS_MAX * (s->buckets->mask + 1))
		shard_grow(s);
}

static void row_add_clean(struct shard *s, struct row *r)
{
	row_add(s, r);
	list_push_back(&s->clean, &r->ring);
}

/* Its partition has been told. */
static void row_drop(struct shard *s, struct row **at)
{
	struct row *r = *at;

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
		if (atomic_exchange_explicit(&r->used, false, memory_order_relaxed))
			continue;
		partition_leave(c->partitions, r);
		row_drop(s, row_place(s, r));
	}
}

/* ---- reading ---- */

static enum cache_found row_take(struct row *r, struct arena *a, struct bytes *value)
{
	row_use(r);
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
	r = *row_find(s, hash, key);
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
	if (s->version == ticket->version && *row_find(s, hash, key) == NULL) {
		struct row *r = row_make(hash, key, value, absent);

		partition_enter(c->partitions, r, false);
		row_add_clean(s, r);
		shard_evict(c, s);
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- loading a partition ---- */

uint32_t cache_load_begin(struct cache *c, struct bytes key)
{
	return partition_load_begin(c->partitions, key);
}

void cache_load_row(struct cache *c, uint32_t token, uint64_t hash, struct bytes key, struct bytes value)
{
	struct shard *s = shard_of(c, hash);
	struct row   *r;

	pthread_mutex_lock(&s->lock);
	if (*row_find(s, hash, key) == NULL) {
		r = row_make(hash, key, value, false);
		row_use(r); /* those that follow are not to take its place */
		if (partition_join(c->partitions, r, token))
			row_add_clean(s, r);
		else
			free(r);
		shard_evict(c, s);
	}
	pthread_mutex_unlock(&s->lock);
}

void cache_load_end(struct cache *c, uint32_t token, struct bytes key, bool complete, bool large)
{
	enum partition_loaded how = complete ? PARTITION_LOADED : PARTITION_LOAD_FAILED;

	partition_load_end(c->partitions, key, token, large ? PARTITION_TOO_LARGE : how);
}

static struct row **bucket_expected(struct cache *c, uint64_t hash)
{
	return bucket_in(__atomic_load_n(&shard_of(c, hash)->buckets, __ATOMIC_ACQUIRE), kept_hash(hash));
}

void cache_expect_bucket(struct cache *c, uint64_t hash)
{
	__builtin_prefetch(bucket_expected(c, hash));
}

/* Buckets first, then the rows in them: each round's memory comes at the same time. Nothing is read but what lies in a
 * bucket, and a row that went meanwhile does no harm: it is an address to fetch, no more. */
void cache_expect(struct cache *c, const uint64_t *hashes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		cache_expect_bucket(c, hashes[i]);
	for (size_t i = 0; i < count; i++) {
		const char *row =
		        (const char *)__atomic_load_n(bucket_expected(c, hashes[i]), __ATOMIC_RELAXED);

		if (row != NULL) {
			__builtin_prefetch(row);
			__builtin_prefetch(row + 64);
		}
	}
}

/* ---- committing and writing back ---- */

static void mark_dirty(struct cache *c, struct row *r)
{
	if (r->dirty)
		return;
	r->dirty = true;
	atomic_fetch_add(&c->dirty_bytes, row_bytes(r));
	list_remove(&r->ring);
	dirty_add(&c->dirty, r);
}

/* It is in no ring then. */
static void mark_clean(struct cache *c, struct row *r)
{
	if (!r->dirty)
		return;
	r->dirty = false;
	atomic_fetch_sub(&c->dirty_bytes, row_bytes(r));
	dirty_remove(&c->dirty, r);
}

/* Changes the row in place, if the new value fits, and does not leave much of its room unused. */
static bool row_change(struct cache *c, struct row *r, struct bytes value, bool absent)
{
	if (value.len > r->room || r->room > 2 * value.len + SPARE_BYTES_MAX)
		return false;
	row_set(r, value, absent);
	if (!r->dirty) {
		mark_dirty(c, r);
		partition_sort(c->partitions, r);
	}
	return true;
}

/* Puts the new row in the place of the old one, or where there was none. */
static void row_replace(struct cache *c, struct shard *s, struct row **at, struct row *r, bool first)
{
	mark_dirty(c, r);
	if (*at != NULL) {
		mark_clean(c, *at); /* it is no longer one to be written back */
		partition_replace(c->partitions, *at, r);
		row_drop(s, at);
	} else {
		partition_enter(c->partitions, r, first);
	}
	row_add(s, r);
}

void cache_commit(struct cache *c, uint64_t hash, const struct cache_row *row)
{
	struct shard *s = shard_of(c, hash);
	struct row  **at;

	pthread_mutex_lock(&s->lock);
	s->version++;
	at = row_find(s, hash, row->key);
	if (*at == NULL || !row_change(c, *at, row->value, row->absent))
		row_replace(c, s, at, row_make(hash, row->key, row->value, row->absent), row->first);
	shard_evict(c, s);
	pthread_mutex_unlock(&s->lock);
}

bool cache_wants(struct cache *c, uint64_t partition)
{
	return !partition_is_large(c->partitions, partition);
}

/* A reader that missed before the store had it may have offered that there is none; one that offers it from now on is late. A deletion that waits would
 * come into the store after it. */
bool cache_pass(struct cache *c, uint64_t hash, const struct cache_row *row)
{
	struct shard *s = shard_of(c, hash);
	struct row  **at;
	bool          waits;

	pthread_mutex_lock(&s->lock);
	s->version++;
	at = row_find(s, hash, row->key);
	waits = *at != NULL && (*at)->dirty;
	if (waits && !row_change(c, *at, row->value, row->absent)) {
		row_replace(c, s, at, row_make(hash, row->key, row->value, row->absent), false);
	} else if (!waits && *at != NULL) {
		partition_leave(c->partitions, *at);
		row_drop(s, at);
	}
	pthread_mutex_unlock(&s->lock);
	return waits;
}

void cache_pass_partition(struct cache *c, uint64_t partition, struct bytes key)
{
	partition_pass(c->partitions, partition, key);
}

size_t cache_dirty_bytes(struct cache *c)
{
	return atomic_load_explicit(&c->dirty_bytes, memory_order_relaxed);
}

static struct cache_row row_copy(const struct row *r, struct arena *a)
{
	return (struct cache_row){
	        .key = arena_copy(a, row_key(r)), .value = arena_copy(a, row_value(r)), .absent = r->absent};
}

bool cache_partition_between(struct cache *c, struct bytes low, struct bytes high, struct arena *a,
                             struct cache_rows *rows)
{
	return partition_copy(c->partitions, low, high, a, rows);
}

bool cache_partition_small(struct cache *c, struct bytes key, struct arena *a, struct cache_rows *rows)
{
	return partition_copy_small(c->partitions, key, a, rows);
}

bool cache_dirty_row(struct cache *c, uint64_t hash, struct bytes key, struct arena *a, struct cache_row *row)
{
	struct shard *s = shard_of(c, hash);
	struct row   *r;

	pthread_mutex_lock(&s->lock);
	r = *row_find(s, hash, key);
	if (r != NULL && !r->dirty)
		r = NULL;
	if (r != NULL)
		*row = row_copy(r, a);
	pthread_mutex_unlock(&s->lock);
	return r != NULL;
}

void cache_dirty_each_in(struct cache *c, struct bytes key, cache_each each, void *ctx)
{
	partition_dirty_each(c->partitions, key, each, ctx);
}

/* Where a range of keys ends; one of another kind than it begins with comes after all rows. */
static uint64_t place_of_end(struct bytes low, struct bytes high)
{
	return high.len > 0 && high.data[0] == low.data[0] ? dirty_place(high) : UINT64_MAX;
}

void cache_dirty_walk(struct cache *c, const struct cache_walk *walk, void *ctx)
{
	uint64_t           low = dirty_place(walk->low), high = place_of_end(walk->low, walk->high);
	struct dirty_walk  w = {.at = low, .last = high};
	const struct list *bucket;

	if (walk->backward)
		w = (struct dirty_walk){.at = high, .last = low, .backward = true};
	while (!walk->enough(ctx) && (bucket = dirty_next(&c->dirty, &w)) != NULL)
		for (const struct list *at = bucket->next; at != bucket; at = at->next) {
			struct cache_row row = row_look(LIST_ENTRY(at, struct row, ring));

			walk->each(ctx, &row);
		}
}

void cache_dirty(struct cache *c, struct cache_some *some, struct cache_row *rows, size_t max)
{
	struct dirty_walk w = {.at = some->from, .last = UINT64_MAX};
	struct list      *bucket;
	size_t            bytes = 0;

	some->count = 0;
	some->more = false;
	while (!some->more && (bucket = dirty_next(&c->dirty, &w)) != NULL)
		for (const struct list *at = bucket->next; at != bucket && !some->more; at = at->next) {
			const struct row *r = LIST_ENTRY(at, struct row, ring);

			some->more = some->count == max || bytes >= STEP_BYTES_MAX;
			if (some->more)
				break;
			bytes += row_bytes(r);
			rows[some->count++] = row_look(r);
		}
}

/* It waits no longer, and may go. */
static void row_settle(struct cache *c, struct row *r)
{
	struct shard *s = shard_of(c, r->hash);

	pthread_mutex_lock(&s->lock);
	mark_clean(c, r);
	partition_sort(c->partitions, r);
	list_push_back(&s->clean, &r->ring);
	shard_evict(c, s);
	pthread_mutex_unlock(&s->lock);
}

void cache_clean(struct cache *c, struct cache_some *some)
{
	struct dirty_walk w = {.at = some->from, .last = UINT64_MAX};
	struct list      *bucket = NULL;

	for (; some->count > 0; some->count--) {
		if (bucket == NULL || list_empty(bucket))
			bucket = dirty_next(&c->dirty, &w);
		row_settle(c, LIST_ENTRY(bucket->next, struct row, ring));
	}
	some->from = some->more ? w.first : 0; /* rows of that bucket may be left, in no order */
	dirty_trim(&c->dirty);
}

void cache_forget(struct cache *c, struct bytes low, struct bytes high)
{
	struct dirty_walk w = {.at = dirty_place(low), .last = place_of_end(low, high)};
	struct list      *bucket;

	while ((bucket = dirty_next(&c->dirty, &w)) != NULL)
		for (struct list *at = bucket->next, *next; at != bucket; at = next) {
			struct row *r = LIST_ENTRY(at, struct row, ring);

			next = at->next;
			if (bytes_compare(row_key(r), low) >= 0 && bytes_compare(row_key(r), high) < 0)
				row_settle(c, r);
		}
	dirty_trim(&c->dirty);
}

/* ---- life cycle ---- */

struct cache *cache_open(size_t bytes_max, struct hash_key hash_key)
{
	struct cache *c = mem_zalloc(sizeof(*c));

	c->shard_bytes_max = bytes_max / CACHE_SHARDS;
	c->partitions = partitions_open(hash_key);
	for (int i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		pthread_mutex_init(&s->lock, NULL);
		list_init(&s->clean);
		s->buckets = buckets_make(BUCKETS_MIN, NULL);
	}
	return c;
}

static void rows_free(struct cache *c, struct list *ring)
{
	struct list *at;

	while ((at = list_pop_front(ring)) != NULL) {
		struct row *r = LIST_ENTRY(at, struct row, ring);

		mark_clean(c, r);
		partition_leave(c->partitions, r);
		free(r);
	}
}

void cache_close(struct cache *c)
{
	struct dirty_walk all = {.last = UINT64_MAX};
	struct list      *bucket;

	while ((bucket = dirty_next(&c->dirty, &all)) != NULL)
		rows_free(c, bucket);
	dirty_release(&c->dirty);
	for (int i = 0; i < CACHE_SHARDS; i++) {
		struct shard *s = &c->shards[i];

		rows_free(c, &s->clean);
		pthread_mutex_destroy(&s->lock);
		for (struct buckets *b = s->buckets, *before; b != NULL; b = before) {
			before = b->before;
			free(b);
		}
	}
	partitions_close(c->partitions);
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
