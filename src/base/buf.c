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

/* Two digits a division: numbers are in every answer, several of them. */
void buf_add_i64(struct buf *b, int64_t number)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
	                            "25262728293031323334353637383940414243444546474849"
	                            "50515253545556575859606162636465666768697071727374"
	                            "75767778798081828384858687888990919293949596979899";
	char              text[NUMBER_BYTES_MAX];
	char             *end = text + sizeof(text), *at = end;
	uint64_t          left = number < 0 ? -(uint64_t)number : (uint64_t)number;

	for (; left >= 10; left /= 100)
		at = memcpy(at - 2, pairs + left % 100 * 2, 2);
	if (left > 0 || at == end)
		*--at = (char)('0' + left);
	if (number < 0)
		*--at = '-';
	buf_add(b, at, (size_t)(end - at));
}
