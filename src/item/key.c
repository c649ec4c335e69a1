/* Key: order-preserving, self-delimiting forms of S, N and B.
 *
 *   S  = 10 text 00 01          a 00 byte within the text is written 00 FF, so that "a" < "a\0" < "ab"
 *   B  = 20 data 00 01          likewise
 *   N  = 32                                             zero
 *        33 exponent(1) { pair(1) } 00                  positive
 *        31 ~exponent   { ~pair   } FF                  negative: all bytes inverted
 *        exponent: of the first digit, + 130; pair: two digits, + 1, so that the end sorts first
 *
 * Nothing reads them back: a row holds its key attributes in its value as well.
 *
 * (K1) These bytes are on disk: they never change their meaning. */
#include "item/key.h"

#include <assert.h>

enum {
	TAG_S = 0x10,
	TAG_B = 0x20,
	TAG_NEGATIVE = 0x31,
	TAG_ZERO = 0x32,
	TAG_POSITIVE = 0x33,
	ESCAPE = 0x00,
	ESCAPED_ZERO = 0xFF,
	TEXT_END = 0x01,
	EXPONENT_BIAS = 130,
};

/* Zeros are rare: what lies between them is copied whole. */
static void encode_escaped(struct buf *out, struct bytes text)
{
	const char *zero;

	while (text.len > 0 && (zero = memchr(text.data, ESCAPE, text.len)) != NULL) {
		size_t run = (size_t)(zero - text.data) + 1;

		buf_add(out, text.data, run);
		buf_add_byte(out, ESCAPED_ZERO);
		text = (struct bytes){text.data + run, text.len - run};
	}
	buf_add_bytes(out, text);
}

static void encode_number(struct buf *out, const struct number *n)
{
	char     text[NUMBER_TEXT_MAX];
	unsigned count = number_digit_count(n);
	uint8_t  flip = n->negative ? 0xFF : 0x00;
	/* the digits alone: the same number with exponent 0, printed */
	struct number digits = {n->hi, n->lo, 0, false};

	if (count == 0) {
		buf_add_byte(out, TAG_ZERO);
		return;
	}
	number_format(&digits, text);
	text[count] = '0'; /* the second half of an odd last pair */
	buf_add_byte(out, n->negative ? TAG_NEGATIVE : TAG_POSITIVE);
	buf_add_byte(out, (uint8_t)(n->exponent + (int)count - 1 + EXPONENT_BIAS) ^ flip);
	for (unsigned i = 0; i < count; i += 2)
		buf_add_byte(out, (uint8_t)((text[i] - '0') * 10 + (text[i + 1] - '0') + 1) ^ flip);
	buf_add_byte(out, 0x00 ^ flip);
}

static inline void encode_text(struct buf *out, const struct value *v)
{
	assert(v->type == VALUE_S || v->type == VALUE_B);
	buf_reserve(out, v->text.len + 3); /* with its end, unless there are zeros */
	out->data[out->len++] = v->type == VALUE_S ? TAG_S : TAG_B;
	if (v->text.len == 0 || memchr(v->text.data, ESCAPE, v->text.len) == NULL)
		buf_add_bytes(out, v->text);
	else
		encode_escaped(out, v->text);
}

void key_encode_prefix(struct buf *out, const struct value *prefix)
{
	encode_text(out, prefix);
}

void key_encode(struct buf *out, const struct value *v)
{
	if (v->type == VALUE_N) {
		encode_number(out, &v->number);
		return;
	}
	encode_text(out, v);
	buf_add(out, (const char[]){ESCAPE, TEXT_END}, 2);
}
