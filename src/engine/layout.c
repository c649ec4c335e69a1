/* Layout: every key in the store, drawn. Integers are big-endian, so that they sort; hash and range keys are
 * in the order-preserving form of item/codec.c.
 *
 *   m name                                                       -> small facts: next table id, where the journal begins
 *   t name                                                       -> the table's schema, as an item
 *   c table(4)                                                   -> its counts, as an item
 *   c table(4) hour(4)                                           -> those of what lapses in that hour (lapse.h)
 *   r table(4) hash(4) hashkey rangekey                          -> the item
 *   i table(4) index(2) hash(4) ihashkey irangekey hashkey rangekey -> the item as the index projects it
 *   x bucket(4) r table(4) hash(4) hashkey rangekey              -> nothing: the row expires within that
 * bucket
 *
 * hash(4) is the upper half of a fixed hash of the hash key. It spreads partitions evenly, so that n segments
 * of a parallel scan are n equal ranges, and it makes the keys of one partition contiguous.
 *
 * (L1) These shapes are on disk: another shape gets another DIRECTORY_FORMAT (base/directory.h).
 * (L2) Table and index ids are never used twice, so deleting one is deleting a range. Nothing is put there again, and no other range is ever deleted. */
#include "engine/layout.h"

#include "base/hash.h"
#include "item/codec.h"

static void add_u32(struct buf *out, uint32_t value)
{
	uint32_t big = __builtin_bswap32(value);

	buf_add(out, &big, sizeof(big));
}

static void add_u16(struct buf *out, uint16_t value)
{
	uint16_t big = __builtin_bswap16(value);

	buf_add(out, &big, sizeof(big));
}

static uint32_t take_u32(const char *at)
{
	uint32_t big;

	memcpy(&big, at, sizeof(big));
	return __builtin_bswap32(big);
}

static void add_attribute(struct buf *out, const struct key_attribute *attribute, const struct item *item)
{
	if (attribute->name.len > 0)
		key_encode(out, item_get(item, attribute->name));
}

/* hash(4) hashkey: the hash is of the encoded key, so the key goes first and is moved. */
static void add_hash_key(struct buf *out, const struct value *hash_value)
{
	size_t   at = out->len;
	uint64_t hash;
	uint32_t big;

	add_u32(out, 0);
	key_encode(out, hash_value);
	hash = hash_bytes(HASH_KEY_STABLE, (struct bytes){out->data + at + 4, out->len - at - 4});
	big = __builtin_bswap32((uint32_t)(hash >> 32));
	memcpy(out->data + at, &big, sizeof(big));
}

void layout_table_prefix(struct buf *out, uint32_t table_id)
{
	buf_add_byte(out, KIND_ROW);
	add_u32(out, table_id);
}

void layout_partition(struct buf *out, uint32_t table_id, const struct value *hash)
{
	layout_table_prefix(out, table_id);
	add_hash_key(out, hash);
}

enum { PARTITION_HEAD_BYTES = 1 + 4 + 4 }; /* r table(4) hash(4) */

bool layout_is_one_partition(struct bytes low, struct bytes high)
{
	return low.len >= PARTITION_HEAD_BYTES && high.len >= PARTITION_HEAD_BYTES &&
	       low.data[0] == KIND_ROW && memcmp(low.data, high.data, PARTITION_HEAD_BYTES) == 0;
}

uint64_t layout_partition_number(struct bytes row_key)
{
	return row_key.len < PARTITION_HEAD_BYTES
	               ? 0
	               : (uint64_t)take_u32(row_key.data + 1) << 32 | take_u32(row_key.data + 5);
}

uint64_t layout_partition_hash(struct hash_key key, struct bytes row_key)
{
	uint64_t number = layout_partition_number(row_key);

	return hash_bytes(key, (struct bytes){(const char *)&number, sizeof(number)});
}

struct bytes layout_partition_head(struct bytes row_key)
{
	return (struct bytes){row_key.data, PARTITION_HEAD_BYTES};
}

void layout_row(struct buf *out, uint32_t table_id, const struct key_schema *keys, const struct item *item)
{
	layout_partition(out, table_id, item_get(item, keys->hash.name));
	add_attribute(out, &keys->range, item);
}

void layout_indexes_prefix(struct buf *out, uint32_t table_id)
{
	buf_add_byte(out, KIND_INDEX);
	add_u32(out, table_id);
}

void layout_index_prefix(struct buf *out, uint32_t table_id, uint16_t index_id)
{
	layout_indexes_prefix(out, table_id);
	add_u16(out, index_id);
}

void layout_index_partition(struct buf *out, uint32_t table_id, uint16_t index_id, const struct value *hash)
{
	layout_index_prefix(out, table_id, index_id);
	add_hash_key(out, hash);
}

void layout_index(struct buf *out, uint32_t table_id, uint16_t index_id, const struct key_schema *index_keys,
                  const struct key_schema *table_keys, const struct item *item)
{
	layout_index_partition(out, table_id, index_id, item_get(item, index_keys->hash.name));
	add_attribute(out, &index_keys->range, item);
	add_attribute(out, &table_keys->hash, item);
	add_attribute(out, &table_keys->range, item);
}

void layout_segment(struct buf *out, uint32_t segment, uint32_t segments)
{
	add_u32(out, (uint32_t)(((uint64_t)segment << 32) / segments));
}

void layout_expiry_bucket(struct buf *out, int64_t second)
{
	int64_t bucket = second / EXPIRY_BUCKET_S;

	buf_add_byte(out, KIND_EXPIRY);
	add_u32(out, bucket > UINT32_MAX ? UINT32_MAX
	                                 : (uint32_t)bucket); /* times beyond the year 80000 share one */
}

void layout_expiry(struct buf *out, int64_t expiry_s, struct bytes row_key)
{
	layout_expiry_bucket(out, expiry_s);
	buf_add_bytes(out, row_key);
}

bool layout_expiry_parse(struct arena *a, struct bytes key, int64_t *bucket_start_s, struct bytes *row_key)
{
	if (key.len < 6 || key.data[0] != KIND_EXPIRY || key.data[5] != KIND_ROW)
		return false;
	*bucket_start_s = (int64_t)take_u32(key.data + 1) * EXPIRY_BUCKET_S;
	*row_key = arena_copy(a, (struct bytes){key.data + 5, key.len - 5});
	return true;
}

void layout_table(struct buf *out, struct bytes name)
{
	buf_add_byte(out, KIND_TABLE);
	buf_add_bytes(out, name);
}

void layout_counts(struct buf *out, uint32_t table_id)
{
	buf_add_byte(out, KIND_COUNTS);
	add_u32(out, table_id);
}

void layout_counts_hour(struct buf *out, uint32_t table_id, uint32_t hour)
{
	layout_counts(out, table_id);
	add_u32(out, hour);
}

uint32_t layout_counts_parse_hour(struct bytes key)
{
	return key.len == 1 + 4 + 4 ? take_u32(key.data + 5) : 0;
}

void layout_meta(struct buf *out, const char *name)
{
	buf_add_byte(out, KIND_META);
	buf_add_bytes(out, bytes_of(name));
}

bool layout_parse_owner(struct bytes key, uint32_t *table_id, uint16_t *index_id)
{
	*index_id = 0;
	if (key.len < 7 || (key.data[0] != KIND_ROW && key.data[0] != KIND_INDEX))
		return false;
	*table_id = take_u32(key.data + 1);
	if (key.data[0] == KIND_INDEX)
		*index_id = (uint16_t)((uint8_t)key.data[5] << 8 | (uint8_t)key.data[6]);
	return true;
}

/* Bytes of what the keys of one table or index begin with. */
static size_t owner_bytes(char kind)
{
	switch (kind) {
	case KIND_ROW:
	case KIND_COUNTS:
		return 1 + 4;
	case KIND_INDEX:
		return 1 + 4 + 2;
	default:
		return 0;
	}
}

struct bytes layout_owner(struct bytes key)
{
	size_t bytes = key.len == 0 ? 0 : owner_bytes(key.data[0]);

	return (struct bytes){key.data, key.len < bytes ? 0 : bytes};
}

/* Makes a prefix the first key behind all that begin with it, which may be shorter. */
static size_t pass_by(char *prefix, size_t len)
{
	while (len > 0 && (uint8_t)prefix[len - 1] == 0xFF)
		len--;
	if (len > 0)
		prefix[len - 1]++;
	return len;
}

bool layout_is_one_owner(struct bytes low, struct bytes high)
{
	struct bytes owner = layout_owner(low);
	char         after[1 + 4 + 2];

	if (owner.len == 0 && low.len > 0 && owner_bytes(low.data[0]) == 0)
		owner = (struct bytes){low.data, 1}; /* all of the kind */
	memcpy(after, owner.data, owner.len);
	return owner.len > 0 && bytes_compare(high, (struct bytes){after, pass_by(after, owner.len)}) <= 0;
}

struct bytes layout_after(struct arena *a, struct bytes prefix)
{
	struct bytes copy = arena_copy(a, prefix);

	copy.len = pass_by((char *)(uintptr_t)copy.data, copy.len);
	return copy;
}
