/* Chunk: one byte at a time through the framing, whole pieces through the data. */
#include "http/chunk.h"

void chunk_init(struct chunk *c)
{
	*c = (struct chunk){0};
}

static int hex_value(uint8_t byte)
{
	if (byte >= '0' && byte <= '9')
		return byte - '0';
	if (byte >= 'a' && byte <= 'f')
		return byte - 'a' + 10;
	if (byte >= 'A' && byte <= 'F')
		return byte - 'A' + 10;
	return -1;
}

static bool size_byte(struct chunk *c, uint8_t byte)
{
	int value = hex_value(byte);

	if (value >= 0) {
		c->left = c->left * 16 + (unsigned)value;
		return ++c->digits <= CHUNK_SIZE_DIGITS_MAX;
	}
	if (c->digits == 0)
		return false;
	c->line_bytes = 0;
	c->state = byte == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
	return byte == '\r' || byte == ';';
}

static bool text_byte_is_right(uint8_t byte)
{
	return (byte >= 0x20 && byte != 0x7f) || byte == '\t';
}

static bool extension_byte(struct chunk *c, uint8_t byte)
{
	if (byte == '\r') {
		c->state = CHUNK_SIZE_LF;
		return true;
	}
	return text_byte_is_right(byte) && ++c->line_bytes <= CHUNK_EXTENSION_BYTES_MAX;
}

static bool size_lf_byte(struct chunk *c, uint8_t byte)
{
	c->state = c->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
	c->line_bytes = 0;
	return byte == '\n';
}

static bool data_lf_byte(struct chunk *c, uint8_t byte)
{
	c->state = CHUNK_SIZE;
	c->left = 0;
	c->digits = 0;
	return byte == '\n';
}

static bool trailer_byte(struct chunk *c, uint8_t byte)
{
	if (byte == '\r') {
		c->state = CHUNK_TRAILER_LF;
		return true;
	}
	c->line_bytes++;
	return text_byte_is_right(byte) && ++c->trailer_bytes <= CHUNK_TRAILER_BYTES_MAX;
}

static bool trailer_lf_byte(struct chunk *c, uint8_t byte)
{
	c->state = c->line_bytes == 0 ? CHUNK_DONE : CHUNK_TRAILER;
	c->line_bytes = 0;
	return byte == '\n';
}

/* Moves the framing by one byte; false if it cannot stand there. */
static bool framing_byte(struct chunk *c, uint8_t byte)
{
	switch (c->state) {
	case CHUNK_SIZE:
		return size_byte(c, byte);
	case CHUNK_EXTENSION:
		return extension_byte(c, byte);
	case CHUNK_SIZE_LF:
		return size_lf_byte(c, byte);
	case CHUNK_DATA_CR:
		c->state = CHUNK_DATA_LF;
		return byte == '\r';
	case CHUNK_DATA_LF:
		return data_lf_byte(c, byte);
	case CHUNK_TRAILER:
		return trailer_byte(c, byte);
	case CHUNK_TRAILER_LF:
		return trailer_lf_byte(c, byte);
	case CHUNK_DATA:
	case CHUNK_DONE:
		break;
	}
	return false;
}

static struct bytes data_piece(struct chunk *c, struct bytes in)
{
	size_t len = in.len < c->left ? in.len : (size_t)c->left;

	c->left -= len;
	if (c->left == 0)
		c->state = CHUNK_DATA_CR;
	return (struct bytes){in.data, len};
}

enum chunk_step chunk_next(struct chunk *c, struct bytes in, size_t *used, struct bytes *piece)
{
	size_t at = 0;

	while (at < in.len && c->state != CHUNK_DATA && c->state != CHUNK_DONE)
		if (!framing_byte(c, (uint8_t)in.data[at++]))
			return CHUNK_STEP_BAD;
	*used = at;
	if (c->state == CHUNK_DONE)
		return CHUNK_STEP_DONE;
	if (at == in.len)
		return CHUNK_STEP_MORE;
	*piece = data_piece(c, (struct bytes){in.data + at, in.len - at});
	*used = at + piece->len;
	return CHUNK_STEP_PIECE;
}
