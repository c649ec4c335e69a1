/* Partition: a hash table of partitions, in shards, and in each a ring of its rows: dirty ones first. A partition is there while
 * one of its rows is cached, or while it is loaded. */
#include "engine/partition.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "engine/layout.h"

enum {
	SHARDS = 64,
	BUCKETS_MIN = 16,     /* of a shard; a power of two */
	BUCKETS_GROWTH = 4,   /* times, when there are … */
	BUCKET_PARTS_MAX = 2, /* … so many partitions to a bucket */
	LARGE_PLACES = 4096,  /* a power of two */
};

/* There are millions. */
struct part {
	struct part *next; /* in the bucket */
	uint64_t     number;
	struct list  rows;
	uint32_t     token; /* of the load under way; 0: none */
	uint32_t     row_count : 31;
	bool         whole : 1; /* (P1) */
};

static_assert(sizeof(struct part) == 40, "the allocator takes 48 bytes for it");

struct part_shard {
	pthread_mutex_t lock; /* everything of its partitions is under it */
	struct part   **buckets;
	size_t          mask, count;
};

struct partitions {
	struct hash_key hash_key;
	atomic_uint     tokens; /* given so far */
	/* Hashes of partitions that were found to be large, which one writes over another: they are not loaded, and what is new to them goes
	 * past the cache. */
	atomic_ullong     large[LARGE_PLACES];
	struct part_shard shards[SHARDS];
};

struct partitions *partitions_open(struct hash_key hash_key)
{
	struct partitions *p = mem_zalloc(sizeof(*p));

	p->hash_key = hash_key;
	for (int i = 0; i < SHARDS; i++) {
		pthread_mutex_init(&p->shards[i].lock, NULL);
		p->shards[i].mask = BUCKETS_MIN - 1;
		p->shards[i].buckets = mem_zalloc(BUCKETS_MIN * sizeof(struct part *));
	}
	return p;
}

void partitions_close(struct partitions *p)
{
	for (int i = 0; i < SHARDS; i++) {
		pthread_mutex_destroy(&p->shards[i].lock);
		free(p->shards[i].buckets);
	}
	free(p);
}

/* ---- finding; under the lock ---- */

/* Whoever knows how a number is made can have many in one shard. What that costs is a lock that is asked for more often: buckets go by the
 * hash, which nobody knows. */
static struct part_shard *shard_of(struct partitions *p, uint64_t number)
{
	return &p->shards[number % SHARDS];
}

/* As layout_partition_hash. */
static uint64_t hash_of(struct partitions *p, const struct part *part)
{
	return hash_bytes(p->hash_key, (struct bytes){(const char *)&part->number, sizeof(part->number)});
}

static struct part **bucket_of(struct part_shard *s, uint64_t hash)
{
	return &s->buckets[(hash >> 8) & s->mask];
}

static struct part **part_find(struct partitions *p, uint64_t hash, uint64_t number)
{
	struct part **at = bucket_of(shard_of(p, number), hash);

	while (*at != NULL && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

static void shard_grow(struct partitions *p, struct part_shard *s)
{
	struct part **old = s->buckets;
	size_t        count = s->mask + 1;

	s->mask = count * BUCKETS_GROWTH - 1;
	s->buckets = mem_zalloc(count * BUCKETS_GROWTH * sizeof(struct part *));
	for (size_t i = 0; i < count; i++) {
		for (struct part *part = old[i], *next; part != NULL; part = next) {
			struct part **bucket = bucket_of(s, hash_of(p, part));

			next = part->next;
			part->next = *bucket;
			*bucket = part;
		}
	}
	free(old);
}

static struct part *part_get(struct partitions *p, uint64_t hash, uint64_t number)
{
	struct part_shard *s = shard_of(p, number);
	struct part       *part = *part_find(p, hash, number);

	if (part != NULL)
		return part;
	if (++s->count > BUCKET_PARTS_MAX * (s->mask + 1))
		shard_grow(p, s);
	part = mem_zalloc(sizeof(*part));
	*part = (struct part){.next = *bucket_of(s, hash), .number = number};
	list_init(&part->rows);
	*bucket_of(s, hash) = part;
	return part;
}

static atomic_ullong *large_place(struct partitions *p, uint64_t hash)
{
	return &p->large[hash & (LARGE_PLACES - 1)];
}

bool partition_is_large(struct partitions *p, uint64_t hash)
{
	return atomic_load_explicit(large_place(p, hash), memory_order_relaxed) == hash;
}

static void large_note(struct partitions *p, uint64_t hash)
{
	atomic_store_explicit(large_place(p, hash), hash, memory_order_relaxed);
}

static void part_drop_if_unused(struct partitions *p, struct part *part)
{
	if (!list_empty(&part->rows) || part->token != 0)
		return;
	*part_find(p, hash_of(p, part), part->number) = part->next;
	shard_of(p, part->number)->count--;
	free(part);
}

/* ---- rows come and go ---- */

static void ring_add(struct part *part, struct row *r)
{
	if (r->dirty)
		list_push_back(part->rows.next, &r->in_part); /* before the first: rows.next is not moved */
	else
		list_push_back(&part->rows, &r->in_part);
}

static void part_add(struct partitions *p, struct part *part, struct row *r)
{
	r->part = part;
	ring_add(part, r);
	part->row_count++;
	assert(part->row_count > 0); /* more than memory holds */
	if (part->row_count > PARTITION_WHOLE_ROWS_MAX) {
		part->whole = false;
		large_note(p, hash_of(p, part));
	}
}

void partition_enter(struct partitions *p, struct row *r, bool first)
{
	uint64_t           number = layout_partition_number(row_key(r));
	uint64_t           hash = layout_partition_hash(p->hash_key, row_key(r));
	struct part_shard *s = shard_of(p, number);
	struct part       *part;

	pthread_mutex_lock(&s->lock);
	part = part_get(p, hash, number);
	part->whole = part->whole || first;
	part_add(p, part, r);
	pthread_mutex_unlock(&s->lock);
}

bool partition_join(struct partitions *p, struct row *r, uint32_t token)
{
	uint64_t           number = layout_partition_number(row_key(r));
	uint64_t           hash = layout_partition_hash(p->hash_key, row_key(r));
	struct part_shard *s = shard_of(p, number);
	struct part       *part;
	bool               valid;

	pthread_mutex_lock(&s->lock);
	part = *part_find(p, hash, number);
	valid = part != NULL && part->token == token;
	if (valid)
		part_add(p, part, r);
	pthread_mutex_unlock(&s->lock);
	return valid;
}

void partition_replace(struct partitions *p, struct row *old, struct row *new)
{
	struct part       *part = old->part;
	struct part_shard *s = shard_of(p, part->number);

	pthread_mutex_lock(&s->lock);
	list_remove(&old->in_part);
	new->part = part;
	ring_add(part, new);
	pthread_mutex_unlock(&s->lock);
}

void partition_leave(struct partitions *p, struct row *r)
{
	struct part       *part = r->part;
	struct part_shard *s = shard_of(p, part->number);

	pthread_mutex_lock(&s->lock);
	list_remove(&r->in_part);
	part->row_count--;
	part->token = 0; /* (P2) */
	if (!r->absent)
		part->whole = false;
	part_drop_if_unused(p, part);
	pthread_mutex_unlock(&s->lock);
}

void partition_pass(struct partitions *p, uint64_t hash, struct bytes key)
{
	uint64_t           number = layout_partition_number(key);
	struct part_shard *s = shard_of(p, number);
	struct part       *part;

	pthread_mutex_lock(&s->lock);
	part = *part_find(p, hash, number);
	if (part != NULL) {
		part->token = 0; /* (P2) */
		part->whole = false;
		part_drop_if_unused(p, part);
	}
	pthread_mutex_unlock(&s->lock);
}

void partition_sort(struct partitions *p, struct row *r)
{
	struct part       *part = r->part;
	struct part_shard *s = shard_of(p, part->number);

	pthread_mutex_lock(&s->lock);
	list_remove(&r->in_part);
	ring_add(part, r);
	pthread_mutex_unlock(&s->lock);
}

/* ---- loading ---- */

/* One comes back after four thousand million others: whoever had it has long ended. */
static uint32_t next_token(struct partitions *p)
{
	uint32_t token;

	do
		token = atomic_fetch_add(&p->tokens, 1) + 1;
	while (token == 0);
	return token;
}

uint32_t partition_load_begin(struct partitions *p, struct bytes key)
{
	uint64_t           hash = layout_partition_hash(p->hash_key, key);
	uint64_t           number = layout_partition_number(key);
	struct part_shard *s = shard_of(p, number);
	struct part       *part;
	uint32_t           token = 0;

	if (partition_is_large(p, hash))
		return 0;
	pthread_mutex_lock(&s->lock);
	part = part_get(p, hash, number);
	if (part->token == 0)
		token = part->token = next_token(p);
	pthread_mutex_unlock(&s->lock);
	return token;
}

void partition_load_end(struct partitions *p, struct bytes key, uint32_t token, enum partition_loaded how)
{
	uint64_t           hash = layout_partition_hash(p->hash_key, key);
	uint64_t           number = layout_partition_number(key);
	struct part_shard *s = shard_of(p, number);
	struct part       *part;

	pthread_mutex_lock(&s->lock);
	part = *part_find(p, hash, number);
	if (part != NULL && part->row_count > PARTITION_WHOLE_ROWS_MAX)
		how = PARTITION_TOO_LARGE;
	if (part != NULL && part->token == token) { /* (P2) */
		part->token = 0;
		part->whole = part->whole || how == PARTITION_LOADED;
		part_drop_if_unused(p, part);
	}
	pthread_mutex_unlock(&s->lock);
	if (how == PARTITION_TOO_LARGE)
		large_note(p, hash);
}

/* ---- copying ---- */

static bool is_between(const struct row *r, struct bytes low, struct bytes high)
{
	return bytes_compare(row_key(r), low) >= 0 && bytes_compare(row_key(r), high) < 0;
}

/* What is copied, and where to. */
struct copy {
	struct bytes       low, high;
	struct arena      *arena;
	struct cache_rows *rows;
};

/* Under the lock. False if they are too large. */
static bool copy_measure(const struct part *part, const struct copy *c, size_t *count)
{
	size_t bytes = 0;

	*count = 0;
	for (const struct list *at = part->rows.next; at != &part->rows; at = at->next) {
		const struct row *r = LIST_ENTRY(at, struct row, in_part);

		if (is_between(r, c->low, c->high)) {
			(*count)++;
			bytes += r->key_len + r->value_len;
		}
		if (bytes > PARTITION_COPY_MAX)
			return false;
	}
	return true;
}

static bool copy_rows(const struct part *part, const struct copy *c)
{
	size_t count;

	if (!copy_measure(part, c, &count))
		return false;
	if (count > 0)
		c->rows->list = arena_array(c->arena, count, sizeof(*c->rows->list));
	for (const struct list *at = part->rows.next; c->rows->count < count; at = at->next) {
		struct row *r = LIST_ENTRY(at, struct row, in_part);

		if (!is_between(r, c->low, c->high))
			continue;
		row_use(r);
		c->rows->list[c->rows->count++] =
		        (struct cache_row){.key = arena_copy(c->arena, row_key(r)),
		                           .value = arena_copy(c->arena, row_value(r)),
		                           .absent = r->absent};
	}
	return true;
}

bool partition_copy(struct partitions *p, struct bytes low, struct bytes high, struct arena *a,
                    struct cache_rows *rows)
{
	uint64_t           hash = layout_partition_hash(p->hash_key, low);
	uint64_t           number = layout_partition_number(low);
	struct part_shard *s = shard_of(p, number);
	struct part       *part;
	bool               done;

	*rows = (struct cache_rows){0};
	pthread_mutex_lock(&s->lock);
	part = *part_find(p, hash, number);
	done = part != NULL && part->whole && copy_rows(part, &(struct copy){low, high, a, rows});
	pthread_mutex_unlock(&s->lock);
	return done;
}

/* Clean ones come after the dirty ones. */
void partition_dirty_each(struct partitions *p, struct bytes key, cache_each each, void *ctx)
{
	uint64_t           hash = layout_partition_hash(p->hash_key, key);
	uint64_t           number = layout_partition_number(key);
	struct part_shard *s = shard_of(p, number);
	struct part       *part;

	pthread_mutex_lock(&s->lock);
	part = *part_find(p, hash, number);
	for (const struct list *at = part == NULL ? NULL : part->rows.next; part != NULL && at != &part->rows;
	     at = at->next) {
		const struct row *r = LIST_ENTRY(at, struct row, in_part);
		struct cache_row  row = row_look(r);

		if (!r->dirty)
			break;
		each(ctx, &row);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Under the lock. Key and value lie one behind the other. */
static bool copy_all(const struct part *part, struct arena *a, struct cache_rows *rows)
{
	size_t bytes = 0;

	for (const struct list *at = part->rows.next; at != &part->rows; at = at->next) {
		const struct row *r = LIST_ENTRY(at, struct row, in_part);

		bytes += r->key_len + r->value_len;
	}
	if (bytes > PARTITION_SMALL_BYTES_MAX)
		return false;
	rows->list = arena_array(a, part->row_count, sizeof(*rows->list));
	for (const struct list *at = part->rows.next; at != &part->rows; at = at->next) {
		struct row *r = LIST_ENTRY(at, struct row, in_part);
		const char *copy =
		        arena_copy(a, (struct bytes){r->bytes, (size_t)r->key_len + r->value_len}).data;

		row_use(r);
		rows->list[rows->count++] = (struct cache_row){.key = {copy, r->key_len},
		                                               .value = {copy + r->key_len, r->value_len},
		                                               .absent = r->absent};
	}
	return true;
}

bool partition_copy_small(struct partitions *p, struct bytes key, struct arena *a, struct cache_rows *rows)
{
	uint64_t           hash = layout_partition_hash(p->hash_key, key);
	uint64_t           number = layout_partition_number(key);
	struct part_shard *s = shard_of(p, number);
	struct part       *part;
	bool               done;

	*rows = (struct cache_rows){0};
	pthread_mutex_lock(&s->lock);
	part = *part_find(p, hash, number);
	done = part != NULL && part->whole && part->row_count <= PARTITION_SMALL_ROWS_MAX &&
	       copy_all(part, a, rows);
	pthread_mutex_unlock(&s->lock);
	return done;
}
