/* Codec: the forms on disk: items, and keys whose bytes sort as their values do. First the form of an item:
 *
 *   item    = 1 members
 *           | 2 hour(4) members                             of a row that lapses (engine/lapse.h); not 0
 *   members = varint(count) { varint(len) name value }        sorted by name (V1)
 *   value   = type(1) content
 *   content = S, B:       varint(len) bytes
 *             N:          sign and length(1) varint(zigzag exponent) digits, little-endian
 *             BOOL:       0 or 1
 *             NULL:       nothing
 *             M:          members
 *             L:          varint(count) { value }
 *             SS, NS, BS: varint(count) { content of S, N or B }  sorted (V2)
 *
 * (C1) A later format gets a new first byte; formats 1 and 2 are read for ever.
 * (C2) Decoding re-establishes V1 to V3 or fails. */
#include "item/codec.h"

#include <assert.h>

/* ---- integers in seven-bit groups, low group first; and reading bytes with a bound ---- */

enum { VARINT_BYTES_MAX = 10 };

/* Where there is room. Returns where it ends. */
static inline char *varint_write(char *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (char)(value | 0x80);
		value >>= 7;
	}
	*at++ = (char)value;
	return at;
}

static inline char *bytes_write(char *at, struct bytes b)
{
	if (b.len > 0)
		memcpy(at, b.data, b.len);
	return at + b.len;
}

static inline void varint_add(struct buf *out, uint64_t value)
{
	buf_reserve(out, VARINT_BYTES_MAX);
	out->len = (size_t)(varint_write(out->data + out->len, value) - out->data);
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

/* ---- items ---- */

enum { CODEC_PLAIN = 1, CODEC_LAPSING = 2, HOUR_BYTES = 4, NUMBER_SIGN_BIT = 0x80 };

static void encode_members(struct buf *out, const struct item *item);

/* Without those at the end that are zero. */
static unsigned bytes_needed(uint64_t word)
{
	return word == 0 ? 0 : 8 - (unsigned)__builtin_clzll(word) / 8;
}

static void encode_number(struct buf *out, const struct number *n)
{
	unsigned len = n->hi == 0 ? bytes_needed(n->lo) : 8 + bytes_needed(n->hi);
	char    *at;

	buf_reserve(out, 1 + VARINT_BYTES_MAX + 16);
	at = out->data + out->len;
	*at++ = (char)(len | (n->negative ? NUMBER_SIGN_BIT : 0));
	at = varint_write(at, (uint64_t)(n->exponent < 0 ? -2 * n->exponent - 1 : 2 * n->exponent));
	memcpy(at, &n->lo, 8);
	memcpy(at + 8, &n->hi, 8);
	out->len = (size_t)(at - out->data) + len; /* the zeros past it are not kept */
}

static void encode_content(struct buf *out, const struct value *v)
{
	switch (v->type) {
	case VALUE_S:
	case VALUE_B:
		varint_add(out, v->text.len);
		buf_add_bytes(out, v->text);
		break;
	case VALUE_N:
		encode_number(out, &v->number);
		break;
	case VALUE_BOOL:
		buf_add_byte(out, v->truth ? 1 : 0);
		break;
	case VALUE_M:
		encode_members(out, &v->map);
		break;
	case VALUE_NULL:
		break;
	default:
		varint_add(out, v->list.count);
		for (uint32_t i = 0; i < v->list.count; i++) {
			if (v->type == VALUE_L)
				buf_add_byte(out, (uint8_t)v->list.items[i].type);
			encode_content(out, &v->list.items[i]);
		}
		break;
	}
}

/* What most are is written here, with room for it made once. */
static void encode_member(struct buf *out, const struct member *m)
{
	bool   is_text = m->value.type == VALUE_S || m->value.type == VALUE_B;
	size_t room = m->name.len + 1 + 2 * VARINT_BYTES_MAX + (is_text ? m->value.text.len : 0);
	char  *at;

	buf_reserve(out, room);
	at = bytes_write(varint_write(out->data + out->len, m->name.len), m->name);
	*at++ = (char)m->value.type;
	if (is_text)
		at = bytes_write(varint_write(at, m->value.text.len), m->value.text);
	out->len = (size_t)(at - out->data);
	if (!is_text)
		encode_content(out, &m->value);
}

static void encode_members(struct buf *out, const struct item *item)
{
	varint_add(out, item->count);
	for (uint32_t i = 0; i < item->count; i++)
		encode_member(out, &item->members[i]);
}

void item_encode(struct buf *out, const struct item *item)
{
	buf_add_byte(out, CODEC_PLAIN);
	encode_members(out, item);
}

void item_encode_lapsing(struct buf *out, uint32_t hour, const struct item *item)
{
	uint32_t big = __builtin_bswap32(hour);

	assert(hour != 0);
	buf_add_byte(out, CODEC_LAPSING);
	buf_add(out, &big, sizeof(big));
	encode_members(out, item);
}

uint32_t item_lapse(struct bytes in)
{
	uint32_t big;

	if (in.len < 1 + HOUR_BYTES || in.data[0] != CODEC_LAPSING)
		return 0;
	memcpy(&big, in.data + 1, sizeof(big));
	return __builtin_bswap32(big);
}

struct bytes item_members(struct bytes in)
{
	size_t head = item_lapse(in) != 0 ? 1 + HOUR_BYTES : 1;

	return in.len < head ? (struct bytes){0} : (struct bytes){in.data + head, in.len - head};
}

/* ---- decoding: each function returns false on damage ---- */

static bool decode_members(struct arena *a, struct bytes *in, unsigned depth, struct item *out);

static bool decode_number(struct bytes *in, struct number *n)
{
	struct bytes head, digits;
	uint64_t     exponent, words[2] = {0, 0};

	if (!bytes_take(in, 1, &head) || !varint_take(in, &exponent) || exponent > 1000)
		return false;
	if (!bytes_take(in, (uint8_t)head.data[0] & ~(unsigned)NUMBER_SIGN_BIT, &digits) || digits.len > 16)
		return false;
	memcpy(words, digits.data, digits.len);
	*n = (struct number){words[1], words[0],
	                     (int16_t)(exponent % 2 == 0 ? (int)(exponent / 2) : -(int)(exponent / 2) - 1),
	                     ((uint8_t)head.data[0] & NUMBER_SIGN_BIT) != 0};
	return number_is_normal(n);
}

static bool decode_text(struct bytes *in, struct bytes *out)
{
	uint64_t len;

	return varint_take(in, &len) && bytes_take(in, len, out);
}

static bool decode_type(struct bytes *in, enum value_type *type)
{
	struct bytes byte;

	if (!bytes_take(in, 1, &byte) || (uint8_t)byte.data[0] >= VALUE_TYPE_COUNT)
		return false;
	*type = (enum value_type)(uint8_t)byte.data[0];
	return true;
}

static bool decode_content(struct arena *a, struct bytes *in, unsigned depth, struct value *v);

static bool set_is_sorted(const struct value_list *set)
{
	for (uint32_t i = 1; i < set->count; i++)
		if (value_compare(&set->items[i - 1], &set->items[i]) >= 0)
			return false;
	return set->count > 0;
}

static bool decode_list(struct arena *a, struct bytes *in, unsigned depth, struct value *v)
{
	uint64_t count;

	if (!varint_take(in, &count) || count > in->len) /* every element takes at least a byte */
		return false;
	v->list.count = (uint32_t)count;
	v->list.items = arena_array(a, v->list.count, sizeof(*v->list.items));
	for (uint32_t i = 0; i < v->list.count; i++) {
		struct value *element = &v->list.items[i];

		if (v->type != VALUE_L)
			element->type = value_set_element(v->type);
		else if (!decode_type(in, &element->type))
			return false;
		if (!decode_content(a, in, depth, element))
			return false;
	}
	return v->type == VALUE_L || set_is_sorted(&v->list);
}

static bool decode_truth(struct bytes *in, bool *truth)
{
	struct bytes byte;

	if (!bytes_take(in, 1, &byte))
		return false;
	*truth = byte.data[0] != 0;
	return true;
}

static bool decode_content(struct arena *a, struct bytes *in, unsigned depth, struct value *v)
{
	switch (v->type) {
	case VALUE_S:
	case VALUE_B:
		return decode_text(in, &v->text);
	case VALUE_N:
		return decode_number(in, &v->number);
	case VALUE_BOOL:
		return decode_truth(in, &v->truth);
	case VALUE_NULL:
		return true;
	case VALUE_M:
		return depth < VALUE_DEPTH_MAX && decode_members(a, in, depth + 1, &v->map);
	default:
		return depth < VALUE_DEPTH_MAX && decode_list(a, in, depth + 1, v);
	}
}

static bool decode_members(struct arena *a, struct bytes *in, unsigned depth, struct item *out)
{
	uint64_t count;

	if (!varint_take(in, &count) || count > in->len)
		return false;
	out->count = (uint32_t)count;
	out->members = arena_array(a, out->count, sizeof(*out->members));
	for (uint32_t i = 0; i < out->count; i++) {
		struct member *m = &out->members[i];

		if (!decode_text(in, &m->name) || !decode_type(in, &m->value.type) ||
		    !decode_content(a, in, depth, &m->value))
			return false;
		if (i > 0 && bytes_compare(out->members[i - 1].name, m->name) >= 0)
			return false;
	}
	return true;
}

enum err_code item_decode(struct arena *a, struct bytes in, struct item *out, struct err *err)
{
	if (in.len == 0 || (item_lapse(in) == 0 && in.data[0] != CODEC_PLAIN))
		return err_set(err, ERR_STORAGE, "a stored item has an unknown format");
	in = item_members(in);
	if (!decode_members(a, &in, 0, out) || in.len != 0)
		return err_set(err, ERR_STORAGE, "a stored item is damaged");
	return ERR_NONE;
}

/* ---- counting: all but a number stays as it is ---- */

/* Moves *in past a value that holds no others. */
static bool pass_plain(struct bytes *in, enum value_type type)
{
	struct number number;
	struct bytes  text;
	bool          truth;

	switch (type) {
	case VALUE_S:
	case VALUE_B:
		return decode_text(in, &text);
	case VALUE_N:
		return decode_number(in, &number);
	case VALUE_BOOL:
		return decode_truth(in, &truth);
	default:
		return type == VALUE_NULL;
	}
}

/* Moves *in to the content of the number `name`. */
static bool find_number(struct bytes *in, struct bytes name)
{
	struct bytes    found;
	enum value_type type;
	uint64_t        count;

	if (!varint_take(in, &count))
		return false;
	for (; count > 0; count--) {
		if (!decode_text(in, &found) || !decode_type(in, &type))
			return false;
		if (bytes_equal(found, name))
			return type == VALUE_N;
		if (!pass_plain(in, type))
			return false;
	}
	return false;
}

bool item_count_up(struct buf *out, struct bytes in, struct bytes name, int64_t *number)
{
	struct bytes  rest = item_members(in), before;
	struct number n;

	if (in.len == 0 || in.data[0] != CODEC_PLAIN || !find_number(&rest, name))
		return false;
	before = (struct bytes){in.data, (size_t)(rest.data - in.data)};
	if (!decode_number(&rest, &n) || !number_to_i64(&n, number) || *number < 0 || *number == INT64_MAX)
		return false;
	n = number_from_i64(++*number);
	buf_add_bytes(out, before);
	encode_number(out, &n);
	buf_add_bytes(out, rest);
	return true;
}

/* ---- keys: order-preserving, self-delimiting forms of S, N and B ----
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
static void key_escaped(struct buf *out, struct bytes text)
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

static void key_number(struct buf *out, const struct number *n)
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

static inline void key_text(struct buf *out, const struct value *v)
{
	assert(v->type == VALUE_S || v->type == VALUE_B);
	buf_reserve(out, v->text.len + 3); /* with its end, unless there are zeros */
	out->data[out->len++] = v->type == VALUE_S ? TAG_S : TAG_B;
	if (v->text.len == 0 || memchr(v->text.data, ESCAPE, v->text.len) == NULL)
		buf_add_bytes(out, v->text);
	else
		key_escaped(out, v->text);
}

void key_encode_prefix(struct buf *out, const struct value *prefix)
{
	key_text(out, prefix);
}

void key_encode(struct buf *out, const struct value *v)
{
	if (v->type == VALUE_N) {
		key_number(out, &v->number);
		return;
	}
	key_text(out, v);
	buf_add(out, (const char[]){ESCAPE, TEXT_END}, 2);
}
