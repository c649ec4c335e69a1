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

static size_t digit_count(uint64_t number)
{
	size_t count = 1;

	for (uint64_t power = 10; number >= power; power *= 10)
		count++;
	return count;
}

/* In place, from the end, two digits a division: numbers are in every answer, several of them. */
void buf_add_i64(struct buf *b, int64_t number)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
	                            "25262728293031323334353637383940414243444546474849"
	                            "50515253545556575859606162636465666768697071727374"
	                            "75767778798081828384858687888990919293949596979899";
	uint64_t          left = number < 0 ? -(uint64_t)number : (uint64_t)number;
	char             *at;

	buf_reserve(b, NUMBER_BYTES_MAX);
	if (number < 0)
		b->data[b->len++] = '-';
	b->len += digit_count(left);
	at = b->data + b->len;
	for (; left >= 100; left /= 100)
		at = memcpy(at - 2, pairs + left % 100 * 2, 2);
	if (left >= 10)
		memcpy(at - 2, pairs + left * 2, 2);
	else
		at[-1] = (char)('0' + left);
}
