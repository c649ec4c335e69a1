/* Tail: see tail.h. A run is an array of rows, whose bytes lie in an arena: a row is found by halving. */
#include "engine/tail.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/layout.h"

enum { ROWS_MIN = 1024 };

static void run_init(struct tail_run *r, struct tail *t)
{
	*r = (struct tail_run){.tail = t};
	arena_init(&r->arena);
}

static void run_release(struct tail_run *r)
{
	free(r->rows);
	arena_release(&r->arena);
}

void tail_init(struct tail *t)
{
	*t = (struct tail){.file_bytes_min = TAIL_FILE_BYTES_MIN};
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->filed, NULL);
	for (int i = 0; i < ENDS_MAX; i++) {
		run_init(&t->open[i], t);
		run_init(&t->sealed[i], t);
	}
}

void tail_release(struct tail *t)
{
	for (int i = 0; i < ENDS_MAX; i++) {
		run_release(&t->open[i]);
		run_release(&t->sealed[i]);
	}
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->filed);
}

/* ---- rows ---- */

/* Of the first row that is not before the key. */
static size_t place_of(const struct tail_run *r, struct bytes key)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (bytes_compare(r->rows[middle].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct tail_row *row_find(const struct tail_run *r, struct bytes key)
{
	size_t at = place_of(r, key);

	return at < r->count && bytes_equal(r->rows[at].key, key) ? &r->rows[at] : NULL;
}

static struct cache_row row_of(const struct tail_row *row)
{
	return (struct cache_row){.key = row->key, .value = row->value};
}

void tail_add(struct tail *t, uint64_t number, const struct cache_row *row)
{
	struct tail_run *r = &t->open[number % ENDS_MAX];

	pthread_mutex_lock(&t->lock);
	assert(r->count == 0 ||
	       (r->number == number && bytes_compare(r->rows[r->count - 1].key, row->key) < 0));
	if (r->count == r->cap) {
		r->cap = r->cap == 0 ? ROWS_MIN : 2 * r->cap;
		r->rows = mem_realloc(r->rows, r->cap * sizeof(*r->rows));
	}
	r->number = number;
	r->rows[r->count++] =
	        (struct tail_row){arena_copy(&r->arena, row->key), arena_copy(&r->arena, row->value), false};
	r->bytes += row->key.len + row->value.len;
	atomic_store_explicit(&t->open_bytes, tail_bytes(t) + row->key.len + row->value.len,
	                      memory_order_relaxed);
	pthread_mutex_unlock(&t->lock);
}

static void row_go(struct tail_run *r, struct tail_row *row)
{
	if (row->gone)
		return;
	row->gone = true;
	r->gone++;
	r->bytes -= row->key.len + row->value.len;
}

/* (G3) Under the tail's lock. */
static void await_file(struct tail_run *r)
{
	while (r->filing)
		pthread_cond_wait(&r->tail->filed, &r->tail->lock);
}

static void forget_in(struct tail_run *r, struct bytes key)
{
	struct tail_row *row = row_find(r, key);

	if (row == NULL)
		return;
	await_file(r);
	row_go(r, row);
}

void tail_forget(struct tail *t, uint64_t number, struct bytes key)
{
	pthread_mutex_lock(&t->lock);
	forget_in(&t->open[number % ENDS_MAX], key);
	forget_in(&t->sealed[number % ENDS_MAX], key);
	pthread_mutex_unlock(&t->lock);
}

static void forget_range_in(struct tail_run *r, struct bytes low, struct bytes high)
{
	size_t end = place_of(r, high);

	for (size_t i = place_of(r, low); i < end; i++) {
		await_file(r);
		row_go(r, &r->rows[i]);
	}
}

void tail_forget_range(struct tail *t, struct bytes low, struct bytes high)
{
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < ENDS_MAX; i++) {
		forget_range_in(&t->open[i], low, high);
		forget_range_in(&t->sealed[i], low, high);
	}
	pthread_mutex_unlock(&t->lock);
}

/* ---- reading ---- */

/* The runs, sealed ones first. */
static struct tail_run *run_at(struct tail *t, int i)
{
	return i < ENDS_MAX ? &t->sealed[i] : &t->open[i - ENDS_MAX];
}

static void run_each(const struct tail_run *r, const struct tail_walk *walk, cache_each each, void *ctx)
{
	size_t from = place_of(r, walk->low), to = place_of(r, walk->high), given = 0;

	while (from < to && given < walk->max) {
		const struct tail_row *row = &r->rows[walk->backward ? --to : from++];
		struct cache_row       copy = row_of(row);

		if (row->gone)
			continue;
		each(ctx, &copy);
		given++;
	}
}

void tail_each(struct tail *t, const struct tail_walk *walk, cache_each each, void *ctx)
{
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < 2 * ENDS_MAX; i++)
		run_each(run_at(t, i), walk, each, ctx);
	pthread_mutex_unlock(&t->lock);
}

struct bytes tail_first(struct tail *t, const struct tail_walk *walk, struct arena *a)
{
	struct bytes first = {0};
	size_t       count = 0;

	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < 2 * ENDS_MAX; i++) {
		const struct tail_run *r = run_at(t, i);
		size_t                 from = place_of(r, walk->low), to = place_of(r, walk->high);

		if (from >= to)
			continue;
		if (count == 0 || bytes_compare(r->rows[from].key, first) < 0)
			first = r->rows[from].key;
		count += to - from;
	}
	first = count > walk->max ? arena_copy(a, first) : (struct bytes){0};
	pthread_mutex_unlock(&t->lock);
	return first;
}

enum tail_found tail_get(struct tail *t, struct bytes key, struct arena *a, struct bytes *value)
{
	size_t                 place = layout_partition_number(key) % ENDS_MAX;
	const struct tail_row *row;
	enum tail_found        found = TAIL_NONE;

	pthread_mutex_lock(&t->lock);
	row = row_find(&t->open[place], key);
	if (row == NULL)
		row = row_find(&t->sealed[place], key);
	if (row != NULL)
		found = row->gone ? TAIL_GONE : TAIL_FOUND;
	if (found == TAIL_FOUND)
		*value = arena_copy(a, row->value);
	pthread_mutex_unlock(&t->lock);
	return found;
}

static bool run_has(const struct tail_run *r, uint64_t number)
{
	return r->number == number && r->gone < r->count;
}

bool tail_has(struct tail *t, uint64_t number)
{
	bool has;

	pthread_mutex_lock(&t->lock);
	has = run_has(&t->open[number % ENDS_MAX], number) || run_has(&t->sealed[number % ENDS_MAX], number);
	pthread_mutex_unlock(&t->lock);
	return has;
}

/* ---- on the way into the store ---- */

void tail_seal(struct tail *t)
{
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < ENDS_MAX; i++) {
		assert(t->sealed[i].count == 0);
		if (t->open[i].count == 0)
			continue;
		run_release(&t->sealed[i]);
		t->sealed[i] = t->open[i];
		run_init(&t->open[i], t);
	}
	atomic_store_explicit(&t->open_bytes, 0, memory_order_relaxed);
	pthread_mutex_unlock(&t->lock);
}

/* Those that are not gone come next. A run that a file has is done with. */
static size_t run_some(struct tail_run *r, struct cache_row *rows, size_t max)
{
	size_t count = 0;

	r->given = r->first;
	for (; r->given < r->count && count < max && !r->taken; r->given++)
		if (!r->rows[r->given].gone)
			rows[count++] = row_of(&r->rows[r->given]);
	return count;
}

size_t tail_some(struct tail *t, bool sealed_only, struct cache_row *rows, size_t max)
{
	size_t count = 0;

	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < 2 * ENDS_MAX; i++)
		count += run_some(run_at(t, i), rows + count, i < ENDS_MAX || !sealed_only ? max - count : 0);
	pthread_mutex_unlock(&t->lock);
	return count;
}

/* Exactly those that were given: the store may have taken the file of a run since. */
void tail_some_done(struct tail *t, size_t count)
{
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < 2 * ENDS_MAX; i++)
		for (struct tail_run *r = run_at(t, i); r->first < r->given; r->first++)
			row_go(r, &r->rows[r->first]);
	pthread_mutex_unlock(&t->lock);
	atomic_fetch_add_explicit(&t->rows_put, count, memory_order_relaxed);
}

void tail_drop(struct tail *t)
{
	pthread_mutex_lock(&t->lock);
	for (int i = 0; i < ENDS_MAX; i++) {
		assert(t->sealed[i].taken || t->sealed[i].gone == t->sealed[i].count); /* (G2) */
		if (t->sealed[i].count == 0)
			continue;
		run_release(&t->sealed[i]);
		run_init(&t->sealed[i], t);
	}
	pthread_mutex_unlock(&t->lock);
}

/* ---- a run as a file: on the store's thread ---- */

static bool file_next(void *run, struct bytes *key, struct bytes *value)
{
	struct tail_run *r = run;
	bool             found = false;

	pthread_mutex_lock(&r->tail->lock);
	if (r->filed == 0)
		r->gone_at = r->gone;
	while (r->filed < r->count && !found) {
		const struct tail_row *row = &r->rows[r->filed++];

		found = !row->gone;
		*key = row->key;
		*value = row->value;
	}
	pthread_mutex_unlock(&r->tail->lock);
	return found;
}

static bool file_ready(void *run)
{
	struct tail_run *r = run;

	pthread_mutex_lock(&r->tail->lock);
	r->filing = r->gone == r->gone_at;
	pthread_mutex_unlock(&r->tail->lock);
	return r->filing;
}

static void file_done(void *run, bool taken)
{
	struct tail_run *r = run;

	pthread_mutex_lock(&r->tail->lock);
	r->filing = false;
	r->taken = taken;
	pthread_cond_broadcast(&r->tail->filed);
	pthread_mutex_unlock(&r->tail->lock);
	if (taken)
		atomic_fetch_add_explicit(&r->tail->files, 1, memory_order_relaxed);
}

bool tail_wants_file(struct tail_run *r)
{
	bool wants;

	pthread_mutex_lock(&r->tail->lock);
	wants = r->bytes >= r->tail->file_bytes_min;
	pthread_mutex_unlock(&r->tail->lock);
	return wants;
}

struct rocks_run tail_file(struct tail_run *r)
{
	return (struct rocks_run){.ctx = r, .next = file_next, .ready = file_ready, .done = file_done};
}
