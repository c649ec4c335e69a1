/* Filter: a split block Bloom filter: a hash names a block of 8 words, and one bit in each of them. They are looked at in pairs.
 *
 * There are two areas of address space, each as large as a filter may become. One is in use; a new filter is built in the other. Which
 * is in use, and how often that changed, is one word: a reader that finds the same before and after has looked at a complete filter, so
 * nobody needs a lock, and an area is used again without waiting for readers (F2). */
#include "engine/filter.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/metric.h"

enum {
	WORDS = 8,
	PAIRS = WORDS / 2,
	ENTRY_BITS =
	        10, /* when it is full: one of about a hundred that are not there is then taken for one that is */
	AREAS = 2,
	PAGE_BYTES = 4096,
};

struct block {
	_Atomic uint64_t pairs[PAIRS];
};

struct area {
	struct block    *blocks; /* mapped for as long as the filter is open */
	_Atomic uint64_t count;  /* blocks of the filter in it */
	_Atomic uint64_t capacity;
	_Atomic uint64_t entries; /* that were new when they were added */
};

struct filter {
	size_t      bytes_max;
	struct area areas[AREAS];
	_Atomic uint64_t
	        state; /* 0: none is in use. Otherwise its area in the lowest bit, and above it how many were made */
	_Atomic uint64_t deleted;          /* rows, since the one in use was begun */
	_Atomic bool     building;         /* in the area that is not in use */
	uint64_t         deleted_at_begin; /* under write_back.c's lock */
};

static const uint32_t salts[WORDS] = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                      0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

struct filter *filter_open(size_t bytes_max)
{
	struct filter *f = mem_zalloc(sizeof(*f));

	f->bytes_max = (bytes_max + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	for (int i = 0; i < AREAS; i++) {
		void *at = mmap(NULL, f->bytes_max, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		                -1, 0);

		if (at == MAP_FAILED) {
			filter_close(f);
			return NULL;
		}
		f->areas[i].blocks = at;
	}
	return f;
}

void filter_close(struct filter *f)
{
	for (int i = 0; i < AREAS; i++)
		if (f->areas[i].blocks != NULL)
			munmap(f->areas[i].blocks, f->bytes_max);
	free(f);
}

/* ---- one area ---- */

static struct block *block_of(const struct area *a, uint64_t hash)
{
	uint64_t count = atomic_load_explicit(&a->count, memory_order_relaxed);

	return &a->blocks[((hash >> 32) * count) >> 32];
}

static inline uint64_t bit_of(uint64_t hash, int word)
{
	return UINT64_C(1) << (((uint32_t)hash * salts[word]) >> 27);
}

static inline uint64_t bits_of(uint64_t hash, int pair)
{
	return bit_of(hash, 2 * pair) | bit_of(hash, 2 * pair + 1) << 32;
}

/* The loads are not to be moved behind what the caller loads next. */
static bool area_lacks(const struct area *a, uint64_t hash)
{
	const struct block *b = block_of(a, hash);
	uint64_t            lacking = 0;

	for (int i = 0; i < PAIRS; i++)
		lacking |= bits_of(hash, i) & ~atomic_load_explicit(&b->pairs[i], memory_order_acquire);
	return lacking != 0;
}

/* To one that is being built: the writer adds what is committed, and the builder what was there before, at the same time. */
static void area_add_shared(struct area *a, uint64_t hash)
{
	struct block *b = block_of(a, hash);

	if (!area_lacks(a, hash))
		return;
	for (int i = 0; i < PAIRS; i++)
		atomic_fetch_or_explicit(&b->pairs[i], bits_of(hash, i), memory_order_release);
	atomic_fetch_add_explicit(&a->entries, 1, memory_order_relaxed);
}

/* To the one in use: nobody else adds to it meanwhile, and five atomic additions would cost as much as the rest of a row's way into the filter. */
static void area_add_alone(struct area *a, uint64_t hash)
{
	struct block *b = block_of(a, hash);

	if (!area_lacks(a, hash))
		return;
	for (int i = 0; i < PAIRS; i++) {
		uint64_t pair = atomic_load_explicit(&b->pairs[i], memory_order_relaxed);

		atomic_store_explicit(&b->pairs[i], pair | bits_of(hash, i), memory_order_release);
	}
	metric_up(&a->entries);
}

/* Zeroes, if it can be had. */
static bool area_begin(struct area *a, size_t bytes, size_t bytes_max)
{
	atomic_store(&a->count, 0);
	if (madvise(a->blocks, bytes_max, MADV_DONTNEED) != 0 ||
	    mprotect(a->blocks, bytes, PROT_READ | PROT_WRITE) != 0)
		return false;
	atomic_store(&a->entries, 0);
	atomic_store(&a->capacity, bytes * 8 / ENTRY_BITS);
	atomic_store(&a->count, bytes / sizeof(struct block));
	return true;
}

/* Its memory is given back. Whoever still looks at it sees zeroes, and then that it is not in use (F2). */
static void area_end(struct area *a, size_t bytes_max)
{
	madvise(a->blocks, bytes_max, MADV_DONTNEED);
}

static struct area *area_in_use(const struct filter *f, uint64_t state)
{
	return (struct area *)&f->areas[state & 1];
}

static struct area *area_other(struct filter *f)
{
	return &f->areas[(atomic_load(&f->state) & 1) ^ 1];
}

/* ---- asking ---- */

bool filter_lacks(const struct filter *f, uint64_t hash)
{
	uint64_t state = f == NULL ? 0 : atomic_load_explicit(&f->state, memory_order_acquire);

	return state != 0 && area_lacks(area_in_use(f, state), hash) &&
	       atomic_load_explicit(&f->state, memory_order_relaxed) == state; /* (F2) */
}

void filter_expect(const struct filter *f, uint64_t hash)
{
	uint64_t state = f == NULL ? 0 : atomic_load_explicit(&f->state, memory_order_relaxed);

	if (state != 0)
		__builtin_prefetch(block_of(area_in_use(f, state), hash));
}

size_t filter_choose(const struct filter *f, const uint64_t *hashes, size_t count, uint64_t *out)
{
	uint64_t state = f == NULL ? 0 : atomic_load_explicit(&f->state, memory_order_acquire);
	size_t   chosen = 0;

	for (size_t i = 0; state != 0 && i < count; i++)
		__builtin_prefetch(block_of(area_in_use(f, state), hashes[i]));
	for (size_t i = 0; i < count; i++)
		if (!filter_lacks(f, hashes[i]))
			out[chosen++] = hashes[i];
	return chosen;
}

/* ---- adding ---- */

bool filter_is_building(const struct filter *f)
{
	return f != NULL && atomic_load_explicit(&f->building, memory_order_relaxed);
}

void filter_add(struct filter *f, uint64_t hash)
{
	uint64_t state = atomic_load_explicit(&f->state, memory_order_relaxed);

	if (state != 0)
		area_add_alone(area_in_use(f, state), hash);
	if (filter_is_building(f))
		area_add_shared(area_other(f), hash);
}

void filter_note_deleted(struct filter *f, uint64_t rows)
{
	atomic_fetch_add_explicit(&f->deleted, rows, memory_order_relaxed);
}

/* ---- building ---- */

static size_t bytes_for(const struct filter *f, uint64_t entries)
{
	uint64_t most = (uint64_t)f->bytes_max * 8 / ENTRY_BITS;
	uint64_t bytes = (entries < most ? entries : most) * ENTRY_BITS / 8;

	bytes = (bytes / PAGE_BYTES + 1) * PAGE_BYTES;
	return bytes < f->bytes_max ? bytes : f->bytes_max;
}

bool filter_build_begin(struct filter *f, uint64_t entries)
{
	if (!area_begin(area_other(f), bytes_for(f, entries), f->bytes_max))
		return false;
	f->deleted_at_begin = atomic_load(&f->deleted);
	atomic_store(&f->building, true);
	return true;
}

void filter_build_add(struct filter *f, uint64_t hash)
{
	area_add_shared(area_other(f), hash);
}

void filter_build_end(struct filter *f, bool complete)
{
	uint64_t     state = atomic_load(&f->state);
	struct area *built = area_other(f), *old = area_in_use(f, state);

	atomic_store(&f->building, false);
	if (!complete) {
		area_end(built, f->bytes_max);
		return;
	}
	atomic_fetch_sub(&f->deleted, f->deleted_at_begin);
	atomic_store(&f->state, ((state >> 1) + 1) << 1 | (uint64_t)(built - f->areas));
	if (state != 0)
		area_end(old, f->bytes_max);
}

/* Full: when it can become larger. With each row that was deleted goes a partition, at most: when half of it may be of such rows, a new one
 * is worth its walk. */
bool filter_is_due(const struct filter *f, uint64_t entries_min)
{
	uint64_t           state = atomic_load(&f->state), entries, deleted = atomic_load(&f->deleted);
	const struct area *a = area_in_use(f, state);

	if (state == 0)
		return true;
	entries = atomic_load(&a->entries);
	if (entries > atomic_load(&a->capacity) &&
	    atomic_load(&a->count) * sizeof(struct block) < f->bytes_max)
		return true;
	return deleted >= entries_min && deleted > entries / 4;
}

struct filter_stats filter_stats(const struct filter *f)
{
	uint64_t           state = f == NULL ? 0 : atomic_load(&f->state);
	const struct area *a = f == NULL ? NULL : area_in_use(f, state);

	if (state == 0)
		return (struct filter_stats){0};
	return (struct filter_stats){.complete = true,
	                             .builds = state >> 1,
	                             .entries = atomic_load(&a->entries),
	                             .bytes = atomic_load(&a->count) * sizeof(struct block)};
}
