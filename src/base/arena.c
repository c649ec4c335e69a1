/* Arena: a chain of blocks, the newest first. Small requests come from the newest block; one larger than a
 * block gets a block of its own. Reset keeps the first block, so that a busy connection does not call malloc
 * at all. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ARENA_BLOCK_BYTES = 16 * 1024, /* the first: most calls need no other. Later ones double */
	ARENA_BLOCK_BYTES_MAX = 1024 * 1024,
};

struct arena_block {
	struct arena_block *next;
	size_t              size; /* of data */
	_Alignas(ARENA_ALIGN) char data[];
};

static void out_of_memory(size_t len)
{
	fprintf(stderr, "{\"level\":\"error\",\"msg\":\"out of memory allocating %zu bytes\"}\n", len);
	abort();
}

void *mem_alloc(size_t len)
{
	void *p = malloc(len == 0 ? 1 : len);

	if (p == NULL)
		out_of_memory(len);
	return p;
}

void *mem_zalloc(size_t len)
{
	void *p = calloc(1, len == 0 ? 1 : len);

	if (p == NULL)
		out_of_memory(len);
	return p;
}

void *mem_realloc(void *old, size_t len)
{
	void *p = realloc(old, len == 0 ? 1 : len);

	if (p == NULL)
		out_of_memory(len);
	return p;
}

void arena_init(struct arena *a)
{
	*a = (struct arena){0};
}

static void blocks_free(struct arena_block *b)
{
	while (b != NULL) {
		struct arena_block *next = b->next;

		free(b);
		b = next;
	}
}

void arena_release(struct arena *a)
{
	blocks_free(a->blocks);
	arena_init(a);
}

/* The oldest block is the smallest one: that is the one to keep. */
void arena_reset(struct arena *a)
{
	struct arena_block *keep = a->blocks;

	if (keep == NULL)
		return;
	while (keep->next != NULL) {
		struct arena_block *next = keep->next;

		free(keep);
		keep = next;
	}
	if (keep->size > ARENA_BLOCK_BYTES) {
		free(keep);
		arena_init(a);
		return;
	}
	*a = (struct arena){keep, keep->data, keep->data + keep->size, keep->size};
	watch_take_back(keep->data, keep->size);
}

void arena_rewind(struct arena *a, struct arena then)
{
	while (a->blocks != then.blocks) {
		struct arena_block *next = a->blocks->next;

		free(a->blocks);
		a->blocks = next;
	}
	*a = then;
	watch_take_back(a->at, (size_t)(a->end - a->at));
}

void *arena_alloc_block(struct arena *a, size_t len)
{
	size_t              room = ((len + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1)) + WATCH_GAP_BYTES;
	size_t              size = a->blocks == NULL ? ARENA_BLOCK_BYTES : a->used_bytes;
	struct arena_block *b;

	if (room < len)
		out_of_memory(len);
	if (size > ARENA_BLOCK_BYTES_MAX)
		size = ARENA_BLOCK_BYTES_MAX;
	if (size < room)
		size = room;
	b = mem_alloc(sizeof(*b) + size);
	b->size = size;
	b->next = a->blocks;
	a->blocks = b;
	a->at = b->data + room;
	a->end = b->data + size;
	a->used_bytes += size;
	watch_take_back(b->data, size);
	watch_lend(b->data, len);
	return b->data;
}

void *arena_zalloc(struct arena *a, size_t len)
{
	return memset(arena_alloc(a, len), 0, len);
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
	size_t len;

	if (__builtin_mul_overflow(count, size, &len))
		out_of_memory(SIZE_MAX);
	return arena_alloc(a, len);
}

struct bytes arena_copy(struct arena *a, struct bytes b)
{
	char *copy = arena_alloc(a, b.len);

	if (b.len > 0)
		memcpy(copy, b.data, b.len);
	return (struct bytes){copy, b.len};
}

struct bytes arena_printf(struct arena *a, const char *format, ...)
{
	va_list args;
	int     len;
	char   *text;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	text = arena_alloc(a, (size_t)len + 1);
	va_start(args, format);
	vsnprintf(text, (size_t)len + 1, format, args);
	va_end(args);
	return (struct bytes){text, (size_t)len};
}
