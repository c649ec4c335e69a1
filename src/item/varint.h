/* Varint: unsigned integers in seven-bit groups, low group first; and reading bytes with a bound. Shared by
 * the forms on disk. */
#ifndef ITEM_VARINT_H
#define ITEM_VARINT_H

#include "base/buf.h"

static inline void varint_add(struct buf *out, uint64_t value)
{
	if (value < 0x80) { /* most are */
		buf_add_byte(out, (uint8_t)value);
		return;
	}
	buf_reserve(out, 10);
	while (value >= 0x80) {
		out->data[out->len++] = (char)(value | 0x80);
		value >>= 7;
	}
	out->data[out->len++] = (char)value;
}

/* Moves *in past it; false if the bytes end or the number does not fit. */
static inline bool varint_take(struct bytes *in, uint64_t *out)
{
	uint64_t value = 0;

	if (in->len > 0 && (uint8_t)*in->data < 0x80) { /* most are one byte */
		*out = (uint8_t)*in->data;
		in->data++;
		in->len--;
		return true;
	}
	for (unsigned shift = 0; shift < 64 && in->len > 0; shift += 7) {
		uint8_t byte = (uint8_t)*in->data;

		in->data++;
		in->len--;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*out = value;
			return true;
		}
	}
	return false;
}

static inline bool bytes_take(struct bytes *in, uint64_t len, struct bytes *out)
{
	if (len > in->len)
		return false;
	*out = (struct bytes){in->data, (size_t)len};
	in->data += len;
	in->len -= (size_t)len;
	return true;
}

#endif
