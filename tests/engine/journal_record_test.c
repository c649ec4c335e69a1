/* Journal record: what is written is read back, at every size; what is not whole is told apart: torn, or damaged,
 * at every bit of a segment. */
#include "test.h"

#include <zlib.h>

#include "engine/journal_record.h"
#include "random.h"

enum {
	RECORDS = 5,
	HEAD_BYTES = 32, /* of a record, before its body */
	FIRST = 7,       /* the number of the first record of the segment */
	TAIL_SECTORS = 3 /* of zeros, at the end of the segment */
};

struct segment {
	struct arena  arena;
	struct buf    bytes;
	struct record records[RECORDS];
	size_t        at[RECORDS + 1]; /* where each begins, and where the last ends */
};

static struct bytes random_body(struct arena *a, struct random *r, size_t len)
{
	char *data = arena_alloc(a, len + 1);

	for (size_t i = 0; i < len; i++)
		data[i] = (char)random_below(r, 4); /* with many zeros */
	return (struct bytes){data, len};
}

/* Records of one sector, of some, and of one that ends at a sector's edge. The last is long. */
static void segment_open(struct segment *s)
{
	const size_t  sizes[RECORDS] = {40, 1300, SECTOR_DATA_BYTES - HEAD_BYTES, 0, 4 * SECTOR_DATA_BYTES};
	struct random random = {1};

	arena_init(&s->arena);
	buf_init(&s->bytes, &s->arena);
	segment_head_encode(&s->bytes, &(struct segment_head){.segment = 3,
	                                                      .first = FIRST,
	                                                      .unit = SECTOR_BYTES,
	                                                      .filled = 9,
	                                                      .directory = "an id"});
	for (size_t i = 0; i < RECORDS; i++) {
		s->at[i] = s->bytes.len;
		s->records[i] = (struct record){.number = FIRST + i,
		                                .time_us = 1000 + (int64_t)i,
		                                .body = random_body(&s->arena, &random, sizes[i]),
		                                .filled = 9 + (uint32_t)i};
		record_encode(&s->bytes, &s->records[i]);
	}
	s->at[RECORDS] = s->bytes.len;
	for (int i = 0; i < TAIL_SECTORS * SECTOR_BYTES; i++)
		buf_add_byte(&s->bytes, 0);
}

static void segment_close(struct segment *s)
{
	arena_release(&s->arena);
}

static bool same(const struct record *a, const struct record *b)
{
	return a->number == b->number && a->time_us == b->time_us && a->filled == b->filled &&
	       bytes_equal(a->body, b->body);
}

/* Reads the segment as the journal does, from memory of exactly its size, so that AddressSanitizer sees a read past
 * it. What is read must be what was written. *count: the whole ones. */
static enum record_found read_all(struct segment *s, struct bytes bytes, size_t *count)
{
	struct arena        a;
	struct segment_head head;
	size_t              at = SECTOR_BYTES, used = 0;
	char               *exact = malloc(bytes.len == 0 ? 1 : bytes.len);
	enum record_found   found;

	*count = 0;
	arena_init(&a);
	if (bytes.len > 0)
		memcpy(exact, bytes.data, bytes.len);
	found = segment_head_decode((struct bytes){exact, bytes.len}, &head);
	if (found == RECORD_WHOLE) {
		assert_true(head.segment == 3 && head.first == FIRST);
		for (;; at += used, ++*count) {
			struct record r;

			found = record_decode(&a, (struct bytes){exact + at, bytes.len - at}, FIRST + *count,
			                      &r, &used);
			if (found != RECORD_WHOLE)
				break;
			assert_true(*count < RECORDS);
			assert_true(same(&r, &s->records[*count]));
			assert_int_equal(used, s->at[*count + 1] - s->at[*count]);
		}
	}
	free(exact);
	arena_release(&a);
	return found;
}

/* ---- whole ---- */

TEST(record, every_size_around_a_sectors_edge_is_read_back)
{
	struct random random = {2};
	struct arena  a;

	arena_init(&a);
	for (size_t len = 0; len < 4 * SECTOR_DATA_BYTES + 4; len++) {
		struct record w = {1 + len, -(int64_t)len, random_body(&a, &random, len), 7}, r;
		size_t        used, sectors = (HEAD_BYTES + len + SECTOR_DATA_BYTES - 1) / SECTOR_DATA_BYTES;
		struct buf    out;

		buf_init(&out, &a);
		record_encode(&out, &w);
		assert_int_equal(out.len, sectors * SECTOR_BYTES);
		assert_int_equal(record_decode(&a, buf_bytes(&out), w.number, &r, &used), RECORD_WHOLE);
		assert_int_equal(used, out.len);
		assert_true(same(&r, &w));
		assert_int_equal(record_decode(&a, buf_bytes(&out), w.number + 1, &r, &used), RECORD_DAMAGED);
		arena_reset(&a);
	}
	arena_release(&a);
}

TEST(record, numbers_are_read_back_however_large)
{
	const uint64_t numbers[] = {
	        1, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1, UINT64_MAX};
	struct arena a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		struct record w = {numbers[i], INT64_MIN, BYTES("body"), UINT32_MAX}, r;
		struct buf    out;
		size_t        used;

		buf_init(&out, &a);
		record_encode(&out, &w);
		assert_int_equal(record_decode(&a, buf_bytes(&out), numbers[i], &r, &used), RECORD_WHOLE);
		assert_true(same(&r, &w));
	}
	arena_release(&a);
}

TEST(record, a_segment_is_read_to_its_end)
{
	struct segment s;
	size_t         count;

	segment_open(&s);
	assert_int_equal(read_all(&s, buf_bytes(&s.bytes), &count), RECORD_END);
	assert_int_equal(count, RECORDS);
	segment_close(&s);
}

TEST(record, a_segment_of_nothing_but_zeros_or_nothing_at_all_was_never_written)
{
	static const char   zeros[3 * SECTOR_BYTES];
	struct segment_head head;

	for (size_t len = 0; len <= sizeof(zeros); len++)
		assert_int_equal(segment_head_decode((struct bytes){zeros, len}, &head), RECORD_END);
}

/* Of this format, or, with `filled` 0, as format 3 wrote it. */
static enum record_found head_with(uint32_t unit, uint32_t filled)
{
	struct segment_head head, want = {.segment = 3, .first = FIRST, .unit = unit, .filled = filled};
	struct buf          out;
	enum record_found   found;

	buf_init(&out, NULL);
	segment_head_encode(&out, &want);
	found = segment_head_decode(buf_bytes(&out), &head);
	if (found == RECORD_WHOLE)
		assert_true(head.segment == 3 && head.first == FIRST && head.unit == unit &&
		            head.filled == filled);
	buf_release(&out);
	return found;
}

TEST(record, a_segments_unit_is_a_power_of_two_from_a_sector_to_the_largest)
{
	for (uint32_t filled = 0; filled < 300; filled += 129) {
		for (uint32_t unit = SECTOR_BYTES; unit <= UNIT_BYTES_MAX; unit *= 2)
			assert_int_equal(head_with(unit, filled), RECORD_WHOLE);
		assert_int_equal(head_with(SECTOR_BYTES / 2, filled), RECORD_DAMAGED);
		assert_int_equal(head_with(3 * SECTOR_BYTES, filled), RECORD_DAMAGED);
		assert_int_equal(head_with(2 * UNIT_BYTES_MAX, filled), RECORD_DAMAGED);
	}
}

/* ---- damaged ---- */

TEST(record, every_single_bit_that_flips_in_a_segment_is_damage_and_what_lies_before_it_is_read)
{
	struct segment s;

	segment_open(&s);
	for (size_t bit = 0; bit < s.bytes.len * 8; bit++) {
		size_t byte = bit / 8, count, before = 0;

		while (before < RECORDS && s.at[before + 1] <= byte)
			before++;
		s.bytes.data[byte] = (char)(s.bytes.data[byte] ^ 1 << bit % 8);
		if (read_all(&s, buf_bytes(&s.bytes), &count) != RECORD_DAMAGED)
			fail_msg("bit %zu of byte %zu flipped and nobody saw it", bit % 8, byte);
		assert_int_equal(count, before);
		s.bytes.data[byte] = (char)(s.bytes.data[byte] ^ 1 << bit % 8);
	}
	segment_close(&s);
}

TEST(record, a_sector_missing_from_an_earlier_record_is_damage)
{
	struct segment s;

	segment_open(&s);
	for (size_t at = SECTOR_BYTES; at < s.at[RECORDS - 1]; at += SECTOR_BYTES) {
		char   kept[SECTOR_BYTES];
		size_t count;

		memcpy(kept, s.bytes.data + at, SECTOR_BYTES);
		memset(s.bytes.data + at, 0, SECTOR_BYTES);
		assert_int_equal(read_all(&s, buf_bytes(&s.bytes), &count), RECORD_DAMAGED);
		memcpy(s.bytes.data + at, kept, SECTOR_BYTES);
	}
	segment_close(&s);
}

TEST(record, two_sectors_that_changed_places_are_damage)
{
	struct segment s;

	segment_open(&s);
	for (size_t i = 0; i < s.at[RECORDS]; i += SECTOR_BYTES)
		for (size_t j = 0; j < i; j += SECTOR_BYTES) {
			char  *data = s.bytes.data, kept[SECTOR_BYTES];
			size_t count;

			memcpy(kept, data + i, SECTOR_BYTES);
			memcpy(data + i, data + j, SECTOR_BYTES);
			memcpy(data + j, kept, SECTOR_BYTES);
			assert_int_equal(read_all(&s, buf_bytes(&s.bytes), &count), RECORD_DAMAGED);
			memcpy(data + j, data + i, SECTOR_BYTES);
			memcpy(data + i, kept, SECTOR_BYTES);
		}
	segment_close(&s);
}

TEST(record, the_head_of_a_segment_is_no_record_and_a_record_is_no_head)
{
	struct segment_head head;
	struct segment      s;
	struct record       r;
	size_t              used;

	segment_open(&s);
	assert_int_equal(record_decode(&s.arena, buf_bytes(&s.bytes), UINT32_MAX, &r, &used),
	                 RECORD_DAMAGED); /* though the stamps are the same */
	assert_int_equal(
	        segment_head_decode((struct bytes){s.bytes.data + SECTOR_BYTES, SECTOR_BYTES}, &head),
	        RECORD_DAMAGED);
	segment_close(&s);
}

/* The first sector of a record that says it is this long. */
static enum record_found decode_of_length(uint32_t body_bytes)
{
	struct record     r = {FIRST, 0, BYTES("body"), 0};
	uint32_t          crc;
	struct arena      a;
	struct buf        out;
	size_t            used;
	enum record_found found;

	arena_init(&a);
	buf_init(&out, &a);
	record_encode(&out, &r);
	memcpy(out.data, &body_bytes, sizeof(body_bytes));
	crc = (uint32_t)crc32(0, (const Bytef *)out.data, HEAD_BYTES - sizeof(crc));
	memcpy(out.data + HEAD_BYTES - sizeof(crc), &crc, sizeof(crc));
	found = record_decode(&a, buf_bytes(&out), FIRST, &r, &used);
	arena_release(&a);
	return found;
}

TEST(record, one_of_the_largest_size_can_be_torn_and_a_larger_one_is_damage)
{
	assert_int_equal(decode_of_length(RECORD_BODY_BYTES_MAX), RECORD_TORN);
	assert_int_equal(decode_of_length((uint32_t)RECORD_BODY_BYTES_MAX + 1), RECORD_DAMAGED);
	assert_int_equal(decode_of_length(UINT32_MAX), RECORD_DAMAGED);
}

/* ---- torn ---- */

/* The last record's sectors, of which those in the set did not reach the disk. */
static void tear(struct segment *s, size_t sectors, unsigned missing)
{
	for (size_t i = 0; i < sectors; i++)
		if (missing >> i & 1)
			memset(s->bytes.data + s->at[RECORDS - 1] + i * SECTOR_BYTES, 0, SECTOR_BYTES);
}

TEST(record, the_last_record_with_any_of_its_sectors_missing_is_torn_and_all_earlier_ones_are_read)
{
	struct segment s;
	size_t         sectors, count;

	segment_open(&s);
	sectors = (s.at[RECORDS] - s.at[RECORDS - 1]) / SECTOR_BYTES;
	segment_close(&s);
	assert_int_equal(sectors, 5);
	for (unsigned missing = 1; missing < 1u << sectors; missing++) {
		bool all = missing + 1 == 1u << sectors;

		segment_open(&s);
		tear(&s, sectors, missing);
		assert_int_equal(read_all(&s, buf_bytes(&s.bytes), &count), all ? RECORD_END : RECORD_TORN);
		assert_int_equal(count, RECORDS - 1);
		segment_close(&s);
	}
}

TEST(record, a_torn_record_with_a_bit_flipped_in_a_sectors_stamp_is_damage)
{
	struct segment s;
	size_t         count, stamp;

	segment_open(&s);
	tear(&s, 5, 1 << 2);
	for (size_t sector = 0; sector < 5; sector++) {
		stamp = s.at[RECORDS - 1] + sector * SECTOR_BYTES + SECTOR_DATA_BYTES;
		s.bytes.data[stamp] ^= 1;
		assert_int_equal(read_all(&s, buf_bytes(&s.bytes), &count), RECORD_DAMAGED);
		s.bytes.data[stamp] ^= 1;
	}
	segment_close(&s);
}

static bool all_zero(const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (data[i] != 0)
			return false;
	return true;
}

/* A file's length goes up in whole sectors, so that a part of one is no torn write. */
TEST(record, a_segment_cut_at_any_byte_holds_a_beginning_of_what_was_written)
{
	struct segment s;

	segment_open(&s);
	for (size_t len = 0; len <= s.bytes.len; len++) {
		size_t            count, whole = 0, part = len % SECTOR_BYTES;
		enum record_found found = read_all(&s, (struct bytes){s.bytes.data, len}, &count);

		while (whole < RECORDS && s.at[whole + 1] <= len)
			whole++;
		assert_int_equal(count, whole);
		if (!all_zero(s.bytes.data + len - part, part))
			assert_int_equal(found, RECORD_DAMAGED);
		else if (whole == RECORDS || len - part <= s.at[whole])
			assert_int_equal(found, RECORD_END);
		else
			assert_int_equal(found, RECORD_TORN);
	}
	segment_close(&s);
}

/* ---- changes ---- */

static bool same_op(const struct op *a, const struct op *b)
{
	return a->kind == b->kind && bytes_equal(a->key, b->key) && bytes_equal(a->value, b->value);
}

TEST(ops, are_read_back_in_order_and_no_beginning_of_one_is_another)
{
	const struct op ops[] = {{OP_PUT, BYTES("key"), BYTES("value")},
	                         {OP_DELETE, BYTES("gone"), {0}},
	                         {OP_PUT, BYTES("empty"), {0}},
	                         {OP_DELETE_RANGE, BYTES("a"), BYTES("b")}};
	struct bytes    body;
	struct arena    a;
	struct buf      out;
	struct op       op;

	arena_init(&a);
	buf_init(&out, &a);
	for (size_t i = 0; i < 4; i++)
		op_encode(&out, &ops[i]);
	body = buf_bytes(&out);
	for (size_t i = 0; i < 4; i++) {
		assert_true(op_decode(&body, &op));
		assert_true(same_op(&op, &ops[i]));
	}
	assert_int_equal(body.len, 0);
	assert_false(op_decode(&body, &op));
	for (size_t i = 0; i < 4; i++) {
		buf_reset(&out);
		op_encode(&out, &ops[i]);
		for (size_t len = 0; len < out.len; len++) {
			char *exact = malloc(len == 0 ? 1 : len);

			memcpy(exact, out.data, len);
			body = (struct bytes){exact, len};
			assert_false(op_decode(&body, &op));
			free(exact);
		}
	}
	arena_release(&a);
}

TEST(ops, of_an_unknown_kind_are_refused)
{
	for (int kind = 0; kind < 256; kind++) {
		char         data[9] = {(char)kind};
		struct bytes body = {data, sizeof(data)};
		struct op    op;

		assert_int_equal(op_decode(&body, &op), kind >= OP_PUT && kind <= OP_DELETE_RANGE);
	}
}
