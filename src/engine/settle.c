/* Settle: see settle.h. */
#include "engine/settle.h"

#include <stdlib.h>

#include "engine/layout.h"

enum { SETTLED_AT_ONCE = 512 }; /* rows; others wait about two milliseconds for them */

/* Room for so many. */
static void reserve(struct settle *s, size_t count)
{
	if (count <= s->rows_cap)
		return;
	s->rows_cap = 2 * count;
	s->rows = mem_realloc(s->rows, s->rows_cap * sizeof(*s->rows));
}

void settle_init(struct settle *s, struct rocks *rocks, struct cache *cache, size_t unsettled_bytes_max)
{
	*s = (struct settle){.rocks = rocks, .cache = cache, .unsettled_bytes_max = unsettled_bytes_max};
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->door, NULL);
	reserve(s, SETTLED_AT_ONCE);
	s->batch = rocks_batch_open();
}

void settle_release(struct settle *s)
{
	rocks_batch_close(s->batch);
	free(s->rows);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->door);
}

/* A mutex is taken by who is there first. Who settles lets go of it and takes it again at once, and who slept
 * meanwhile never was: a commit waited until all was settled, a tenth of a second. */
static void enter(struct settle *s)
{
	pthread_mutex_lock(&s->door);
	pthread_mutex_lock(&s->lock);
	pthread_mutex_unlock(&s->door);
}

static void leave(struct settle *s)
{
	pthread_mutex_unlock(&s->lock);
}

/* ---- rows into the store; all under lock ---- */

static int by_key(const void *a, const void *b)
{
	return bytes_compare(((const struct cache_row *)a)->key, ((const struct cache_row *)b)->key);
}

/* In the order of their keys: the store's table in memory finds the place of a key from the one before it, which
 * is cheaper the nearer they are. */
static void fill_batch(struct settle *s, size_t count)
{
	size_t bytes = 0;

	rocks_batch_reset(s->batch);
	if (count > 1)
		qsort(s->rows, count, sizeof(*s->rows), by_key);
	for (size_t i = 0; i < count; i++) {
		const struct cache_row *r = &s->rows[i];

		bytes += r->key.len + r->value.len;
		if (r->absent)
			rocks_batch_delete(s->batch, r->key);
		else
			rocks_batch_put(s->batch, r->key, r->value);
	}
	atomic_fetch_add_explicit(&s->taken_bytes, bytes, memory_order_relaxed);
}

/* Some of the shard's rows; *count says how many. */
static enum err_code settle_few(struct settle *s, unsigned shard, size_t *count, struct err *err)
{
	*count = cache_unsettled(s->cache, shard, s->rows, SETTLED_AT_ONCE);
	if (*count == 0)
		return ERR_NONE;
	fill_batch(s, *count);
	if (rocks_apply(s->rocks, s->batch, err) != ERR_NONE)
		return err->code;
	cache_settled(s->cache, shard, *count);
	return ERR_NONE;
}

static enum err_code settle_shard(struct settle *s, unsigned shard, struct err *err)
{
	size_t count;

	do {
		if (settle_few(s, shard, &count, err) != ERR_NONE)
			return err->code;
	} while (count > 0);
	return ERR_NONE;
}

static enum err_code settle_shards(struct settle *s, struct err *err)
{
	for (unsigned shard = 0; shard < CACHE_SHARDS && cache_unsettled_bytes(s->cache) > 0; shard++)
		if (settle_shard(s, shard, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* Shards in turn while there is too much, so that the bound holds after every commit, however large it was. */
static enum err_code settle_some(struct settle *s, struct err *err)
{
	size_t count;

	while (cache_unsettled_bytes(s->cache) > s->unsettled_bytes_max) {
		s->next_shard = (s->next_shard + 1) % CACHE_SHARDS;
		if (settle_few(s, s->next_shard, &count, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* ---- publishing ---- */

static bool is_row(const struct change *c)
{
	return c->key.data[0] == KIND_ROW;
}

/* All but rows. False if there is nothing. */
static bool add_rest_to_batch(struct settle *s, const struct turn *t)
{
	size_t count = 0;

	reserve(s, t->change_count);
	for (const struct change *c = t->first; c != NULL; c = c->next)
		if (c->dirty && !is_row(c))
			s->rows[count++] = (struct cache_row){c->key, c->value, c->deleted};
	fill_batch(s, count);
	/* Last, because ids are never used again: nothing written above may survive in a deleted table. */
	for (const struct range_delete *d = t->ranges; d != NULL; d = d->next)
		rocks_batch_delete_range(s->batch, d->low, d->high);
	return count > 0 || t->ranges != NULL;
}

static void add_rows_to_cache(struct settle *s, const struct turn *t)
{
	for (const struct change *c = t->first; c != NULL; c = c->next)
		if (c->dirty && is_row(c))
			cache_commit(s->cache, c->hash, c->key, c->value, c->deleted);
}

/* If tables or indexes were deleted, rows go into the store before, so that none of theirs comes there after. */
static enum err_code publish(struct settle *s, const struct turn *t, struct err *err)
{
	add_rows_to_cache(s, t);
	if (t->ranges != NULL && settle_shards(s, err) != ERR_NONE)
		return err->code;
	if (add_rest_to_batch(s, t) && rocks_apply(s->rocks, s->batch, err) != ERR_NONE)
		return err->code;
	return settle_some(s, err);
}

enum err_code settle_publish(struct settle *s, const struct turn *t, struct err *err)
{
	enum err_code rc;

	enter(s);
	rc = publish(s, t, err);
	leave(s);
	return rc;
}

/* ---- for others ---- */

enum err_code settle_hold(struct settle *s, struct err *err)
{
	enter(s);
	if (settle_shards(s, err) == ERR_NONE)
		return ERR_NONE;
	leave(s);
	return err->code;
}

void settle_hold_rest(struct settle *s)
{
	enter(s);
}

void settle_let_go(struct settle *s)
{
	leave(s);
}

size_t settle_taken_bytes(struct settle *s)
{
	return atomic_load_explicit(&s->taken_bytes, memory_order_relaxed);
}

void settle_taken_filed(struct settle *s, size_t bytes)
{
	atomic_fetch_sub_explicit(&s->taken_bytes, bytes, memory_order_relaxed);
}

enum err_code settle_all(struct settle *s, struct err *err)
{
	enum err_code rc = ERR_NONE;
	size_t        count;

	for (unsigned shard = 0; shard < CACHE_SHARDS && rc == ERR_NONE; shard++) {
		do {
			enter(s);
			rc = settle_few(s, shard, &count, err);
			leave(s);
		} while (rc == ERR_NONE && count > 0);
	}
	return rc;
}
