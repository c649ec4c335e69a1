/* Codec: the form of an item on disk.
 *
 *   item    = format(1) members
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
 * (C1) A later format gets a new first byte; format 1 is read for ever.
 * (C2) Decoding re-establishes V1 to V3 or fails. */
#include "item/codec.h"

#include "item/varint.h"

enum { CODEC_FORMAT = 1, NUMBER_SIGN_BIT = 0x80 };

static void encode_members(struct buf *out, const struct item *item);

/* Without those at the end that are zero. */
static unsigned bytes_needed(uint64_t word)
{
	return word == 0 ? 0 : 8 - (unsigned)__builtin_clzll(word) / 8;
}

static void encode_number(struct buf *out, const struct number *n)
{
	unsigned len = n->hi == 0 ? bytes_needed(n->lo) : 8 + bytes_needed(n->hi);

	buf_add_byte(out, (uint8_t)(len | (n->negative ? NUMBER_SIGN_BIT : 0)));
	varint_add(out, (uint64_t)(n->exponent < 0 ? -2 * n->exponent - 1 : 2 * n->exponent));
	buf_reserve(out, 16);
	memcpy(out->data + out->len, &n->lo, 8);
	memcpy(out->data + out->len + 8, &n->hi, 8);
	out->len += len; /* the zeros past it are not kept */
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

static void encode_members(struct buf *out, const struct item *item)
{
	varint_add(out, item->count);
	for (uint32_t i = 0; i < item->count; i++) {
		const struct member *m = &item->members[i];

		varint_add(out, m->name.len);
		buf_add_bytes(out, m->name);
		buf_add_byte(out, (uint8_t)m->value.type);
		encode_content(out, &m->value);
	}
}

void item_encode(struct buf *out, const struct item *item)
{
	buf_add_byte(out, CODEC_FORMAT);
	encode_members(out, item);
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
	return n->hi == 0 || number_digit_count(n) <= NUMBER_DIGITS_MAX;
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
	if (in.len == 0 || in.data[0] != CODEC_FORMAT)
		return err_set(err, ERR_STORAGE, "a stored item has an unknown format");
	in.data++;
	in.len--;
	if (!decode_members(a, &in, 0, out) || in.len != 0)
		return err_set(err, ERR_STORAGE, "a stored item is damaged");
	return ERR_NONE;
}
