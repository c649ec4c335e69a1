/* Arena: memory that is given back all at once. Each request owns one; whatever a request decodes, computes
 * or answers lives there, so that nothing is freed piece by piece and nothing leaks.
 *
 * Not thread-safe: an arena belongs to whichever thread currently holds the request.
 * Allocation never returns NULL: running out of memory ends the process, because no caller could go on
 * (bounds on bodies, connections and queues are what keeps it from happening). */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/bytes.h"
#include "base/watch.h"

enum { ARENA_ALIGN = 16 };

struct arena_block;

struct arena {
	struct arena_block *blocks;     /* newest first */
	char               *at;         /* next free byte of the newest block */
	char               *end;        /* of it: a multiple of ARENA_ALIGN after `at` */
	size_t              used_bytes; /* sum of all blocks */
};

void arena_init(struct arena *a);
void arena_release(struct arena *a);

/* Forgets everything allocated, keeping one small block for the next request. */
void arena_reset(struct arena *a);

/* Gives back what was allocated since then: `then` is a copy of the arena, and it was neither reset nor released since. */
void arena_rewind(struct arena *a, struct arena then);

/* arena_alloc when the newest block has not so much left. */
void *arena_alloc_block(struct arena *a, size_t len);

/* Memory aligned for any object, not cleared. `arena_zalloc` clears it. */
static inline void *arena_alloc(struct arena *a, size_t len)
{
	void  *p = a->at;
	size_t left = (size_t)(a->end - a->at);

	if (len == 0)
		len = 1;
	if (len > left || len + WATCH_GAP_BYTES > left)
		return arena_alloc_block(a, len);
	a->at += ((len + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1)) + WATCH_GAP_BYTES;
	watch_lend(p, len);
	return p;
}

void *arena_zalloc(struct arena *a, size_t len);

/* count elements of size bytes each; ends the process if the product overflows. */
void *arena_array(struct arena *a, size_t count, size_t size);

struct bytes arena_copy(struct arena *a, struct bytes b);
/* With a NUL after it. */
struct bytes arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* malloc for long-lived objects, under the same rule: never NULL. */
void *mem_alloc(size_t len);
void *mem_zalloc(size_t len);
void *mem_realloc(void *p, size_t len);

#endif
