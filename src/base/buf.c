/* Buf: growth by doubling. In an arena the old place is left behind, which doubling keeps to a factor of two.
 */
#include "base/buf.h"

#include <stdlib.h>

enum { BUF_BYTES_MIN = 256, NUMBER_BYTES_MAX = 20 };

void buf_release(struct buf *b)
{
	if (b->arena == NULL)
		free(b->data);
	buf_init(b, b->arena);
}

void buf_grow(struct buf *b, size_t more)
{
	size_t cap = b->cap < BUF_BYTES_MIN ? BUF_BYTES_MIN : b->cap * 2;
	char  *data;

	if (cap < b->len + more)
		cap = b->len + more;
	if (b->arena == NULL) {
		b->data = mem_realloc(b->data, cap);
	} else {
		data = arena_alloc(b->arena, cap);
		if (b->len > 0)
			memcpy(data, b->data, b->len);
		b->data = data;
	}
	b->cap = cap;
}

void buf_add_i64(struct buf *b, int64_t number)
{
	char     text[NUMBER_BYTES_MAX];
	char    *end = text + sizeof(text), *at = end;
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;

	for (; left >= 100; left /= 100) { /* two digits a division */
		unsigned two = (unsigned)(left % 100);

		*--at = (char)('0' + two % 10);
		*--at = (char)('0' + two / 10);
	}
	do {
		*--at = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (number < 0)
		*--at = '-';
	buf_add(b, at, (size_t)(end - at));
}
