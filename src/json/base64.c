/* Base64: four characters for three bytes. One table for each direction; what always holds is in base64.h. */
#include "json/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static char *group_put(char *at, uint32_t bits, unsigned characters)
{
	for (unsigned i = 0; i < 4; i++)
		*at++ = i < characters ? alphabet[bits >> (18 - 6 * i) & 63] : '=';
	return at;
}

void base64_encode(struct buf *out, struct bytes data)
{
	const unsigned char *from = (const unsigned char *)data.data;
	char                *at;
	size_t               i = 0;

	buf_reserve(out, (data.len + 2) / 3 * 4);
	at = out->data + out->len;
	for (; i + 3 <= data.len; i += 3)
		at = group_put(at, (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8 | from[i + 2], 4);
	if (data.len - i == 1)
		at = group_put(at, (uint32_t)from[i] << 16, 2);
	else if (data.len - i == 2)
		at = group_put(at, (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8, 3);
	out->len += (data.len + 2) / 3 * 4;
}

/* 0 to 63, or -1. */
static int digit_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

/* `digits` characters to 24 bits, the missing ones zero; false if one is outside the alphabet. */
static bool group_take(const char *from, unsigned digits, uint32_t *bits)
{
	*bits = 0;
	for (unsigned i = 0; i < digits; i++) {
		int digit = digit_of(from[i]);

		if (digit < 0)
			return false;
		*bits |= (uint32_t)digit << (18 - 6 * i);
	}
	return true;
}

static char *bytes_put(char *at, uint32_t bits, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		*at++ = (char)(bits >> (16 - 8 * i) & 255);
	return at;
}

static unsigned padding_of(struct bytes text)
{
	if (text.len == 0 || text.data[text.len - 1] != '=')
		return 0;
	return text.data[text.len - 2] == '=' ? 2 : 1;
}

/* Decodes to `at`, which has room; NULL: only checks. */
static enum base64_fault groups_take(struct bytes text, unsigned padding, char *at)
{
	for (size_t i = 0; i < text.len; i += 4) {
		unsigned digits = i + 4 == text.len ? 4 - padding : 4;
		uint32_t bits;

		if (!group_take(text.data + i, digits, &bits))
			return BASE64_CHARACTER;
		if ((bits & ((1u << (8 * (4 - digits))) - 1)) != 0)
			return BASE64_BITS;
		if (at != NULL)
			at = bytes_put(at, bits, digits - 1);
	}
	return BASE64_OK;
}

enum base64_fault base64_check(struct bytes text)
{
	return text.len % 4 != 0 ? BASE64_LENGTH : groups_take(text, padding_of(text), NULL);
}

enum base64_fault base64_decode(struct arena *a, struct bytes text, struct bytes *out)
{
	unsigned          padding;
	enum base64_fault fault;
	char             *data;

	if (text.len % 4 != 0)
		return BASE64_LENGTH;
	padding = padding_of(text);
	data = arena_alloc(a, text.len / 4 * 3);
	fault = groups_take(text, padding, data);
	if (fault == BASE64_OK)
		*out = (struct bytes){data, text.len / 4 * 3 - padding};
	return fault;
}

/* ---- for URLs ---- */

static const char url_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64_url_write(struct bytes data, char *out)
{
	const uint8_t *from = (const uint8_t *)data.data;

	for (size_t i = 0; i + 3 <= data.len; i += 3) {
		uint32_t bits = (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8 | from[i + 2];

		for (unsigned j = 0; j < 4; j++)
			*out++ = url_alphabet[bits >> (18 - 6 * j) & 63];
	}
}

static int url_digit_of(char c)
{
	if (c == '+' || c == '/')
		return -1;
	return digit_of(c == '-' ? '+' : c == '_' ? '/' : c);
}

bool base64_url_read(struct bytes text, uint8_t *out)
{
	if (text.len % 4 != 0)
		return false;
	for (size_t i = 0; i < text.len; i += 4) {
		uint32_t bits = 0;

		for (unsigned j = 0; j < 4; j++) {
			int digit = url_digit_of(text.data[i + j]);

			if (digit < 0)
				return false;
			bits = bits << 6 | (uint32_t)digit;
		}
		*out++ = (uint8_t)(bits >> 16);
		*out++ = (uint8_t)(bits >> 8);
		*out++ = (uint8_t)bits;
	}
	return true;
}
