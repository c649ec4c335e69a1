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

	if (data.len == 0)
		return;
	buf_reserve(out, (data.len + 2) / 3 * 4);
	at = out->data + out->len;
	for (; i + 3 <= data.len; i += 3)
		at = group_put(at, (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8 | from[i + 2], 4);
	if (data.len - i == 1)
		group_put(at, (uint32_t)from[i] << 16, 2);
	else if (data.len - i == 2)
		group_put(at, (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8, 3);
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

enum { NO = 0x80 }; /* not in the alphabet */

/* Tokens are long and come with every request: a table costs a third of url_digit_of. */
static const uint8_t url_digits[256] = {
        /* clang-format off */
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, 62, NO, NO,
	52, 53, 54, 55, 56, 57, 58, 59, 60, 61, NO, NO, NO, NO, NO, NO,
	NO,  0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14,
	15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, NO, NO, NO, NO, 63,
	NO, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
	41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, NO, NO, NO, NO, NO,
	[128 ... 255] = NO,
        /* clang-format on */
};

bool base64_url_decode(struct arena *a, struct bytes text, struct bytes *out)
{
	const uint8_t *from = (const uint8_t *)text.data;
	size_t         whole = text.len / 4 * 4, rest = text.len % 4;
	char          *data = arena_alloc(a, text.len / 4 * 3 + 3), *at = data;
	uint32_t       bad = 0, bits = 0;

	for (size_t i = 0; i < whole; i += 4) {
		uint32_t d0 = url_digits[from[i]], d1 = url_digits[from[i + 1]];
		uint32_t d2 = url_digits[from[i + 2]], d3 = url_digits[from[i + 3]];

		bad |= d0 | d1 | d2 | d3;
		at = bytes_put(at, d0 << 18 | d1 << 12 | d2 << 6 | d3, 3);
	}
	for (size_t i = 0; i < rest; i++) {
		bad |= url_digits[from[whole + i]];
		bits |= (uint32_t)url_digits[from[whole + i]] << (18 - 6 * i);
	}
	if (rest == 1 || (bad & NO) != 0 || (bits & (rest == 2 ? 0xffffu : 0xffu)) != 0)
		return false;
	if (rest > 0)
		at = bytes_put(at, bits, (unsigned)rest - 1);
	*out = (struct bytes){data, (size_t)(at - data)};
	return true;
}
