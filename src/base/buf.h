/* Buf: bytes that grow at the end. With an arena it lives there; without one it is on the heap and the owner
 * calls buf_release. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/arena.h"

struct buf {
	char         *data;
	size_t        len;
	size_t        cap;
	struct arena *arena; /* NULL: heap */
};

static inline void buf_init(struct buf *b, struct arena *arena)
{
	*b = (struct buf){NULL, 0, 0, arena};
}

/* The same, with room for so many bytes at once. */
static inline void buf_init_room(struct buf *b, struct arena *arena, size_t room)
{
	*b = (struct buf){(char *)arena_alloc(arena, room), 0, room, arena};
}

void buf_release(struct buf *b);

/* Makes room for `more` bytes after data + len; data may move. */
void buf_grow(struct buf *b, size_t more);

static inline void buf_reserve(struct buf *b, size_t more)
{
	if (b->cap - b->len < more)
		buf_grow(b, more);
}

static inline void buf_add(struct buf *b, const void *data, size_t len)
{
	buf_reserve(b, len);
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
}

static inline void buf_add_bytes(struct buf *b, struct bytes bytes)
{
	buf_add(b, bytes.data, bytes.len);
}

static inline void buf_add_byte(struct buf *b, uint8_t byte)
{
	buf_reserve(b, 1);
	b->data[b->len++] = (char)byte;
}

/* As it stands in a URL: itself, or %XX. */
static inline void buf_add_percent(struct buf *b, char c)
{
	static const char digits[] = "0123456789ABCDEF";

	if (ascii_is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~') {
		buf_add_byte(b, (uint8_t)c);
		return;
	}
	buf_add_byte(b, '%');
	buf_add_byte(b, (uint8_t)digits[(uint8_t)c >> 4]);
	buf_add_byte(b, (uint8_t)digits[(uint8_t)c & 15]);
}

/* As decimal digits. */
void buf_add_i64(struct buf *b, int64_t number);

static inline void buf_reset(struct buf *b)
{
	b->len = 0;
}

static inline struct bytes buf_bytes(const struct buf *b)
{
	return (struct bytes){b->data, b->len};
}

#endif
