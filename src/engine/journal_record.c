/* Journal record: see journal_record.h. Numbers are little-endian, as on every machine this runs on. */
#include "engine/journal_record.h"

#include "base/crc32.h"

enum { MAGIC_BYTES = 8 };

static const char MAGIC[MAGIC_BYTES + 1] = "GHJOURN2";
static const char MAGIC_OLD[MAGIC_BYTES + 1] = "GHJOURN1"; /* up to format 3 */

struct record_head {
	uint32_t body_bytes, body_crc;
	uint64_t number;
	int64_t  time_us;
	uint32_t filled, head_crc; /* the latter of what is above it */
};

struct segment_sector {
	char     magic[MAGIC_BYTES];
	uint64_t segment, first;
	uint8_t  directory[DIRECTORY_ID_BYTES];
	uint32_t unit, filled;
	uint32_t unused, crc;
};

struct segment_sector_old {
	char     magic[MAGIC_BYTES];
	uint64_t segment, first;
	uint32_t unit; /* 0, as format 2 wrote it: a sector */
	uint32_t crc;
};

enum { STAMP_SET = UINT32_C(1) << 31, SEGMENT_STAMP = -1 };

_Static_assert(sizeof(struct record_head) == 32, "it has no gaps");
_Static_assert(sizeof(struct segment_sector) == 56, "it has no gaps");
_Static_assert(sizeof(struct segment_sector_old) == 32, "it has no gaps");

static uint32_t checksum(const void *data, size_t len)
{
	return crc32_of((struct bytes){data, len});
}

static uint32_t stamp_of(uint64_t number)
{
	return (uint32_t)number | (uint32_t)STAMP_SET;
}

/* ---- sectors ---- */

/* Bytes on their way into sectors. */
struct cutter {
	struct buf *out;
	uint32_t    stamp;
	size_t      used; /* of the sector at hand */
};

static void cutter_end_sector(struct cutter *c)
{
	buf_reserve(c->out, SECTOR_BYTES);
	memset(c->out->data + c->out->len, 0, SECTOR_DATA_BYTES - c->used);
	c->out->len += SECTOR_DATA_BYTES - c->used;
	buf_add(c->out, &c->stamp, sizeof(c->stamp));
	c->used = 0;
}

static void cutter_add(struct cutter *c, const void *data, size_t len)
{
	const char *from = data;

	while (len > 0) {
		size_t room = SECTOR_DATA_BYTES - c->used, part = len < room ? len : room;

		buf_add(c->out, from, part);
		c->used += part;
		from += part;
		len -= part;
		if (c->used == SECTOR_DATA_BYTES)
			cutter_end_sector(c);
	}
}

static void cutter_end(struct cutter *c)
{
	if (c->used > 0)
		cutter_end_sector(c);
}

static size_t sectors_for(size_t bytes)
{
	return (bytes + SECTOR_DATA_BYTES - 1) / SECTOR_DATA_BYTES;
}

static struct bytes sector_at(struct bytes sectors, size_t i)
{
	return (struct bytes){sectors.data + i * SECTOR_BYTES, SECTOR_BYTES};
}

static uint32_t sector_stamp(struct bytes sector)
{
	uint32_t stamp;

	memcpy(&stamp, sector.data + SECTOR_DATA_BYTES, sizeof(stamp));
	return stamp;
}

static bool is_zero(struct bytes b)
{
	return b.len == 0 || (b.data[0] == 0 && memcmp(b.data, b.data + 1, b.len - 1) == 0);
}

/* ---- writing ---- */

size_t record_bytes(size_t body_bytes)
{
	return sectors_for(sizeof(struct record_head) + body_bytes) * SECTOR_BYTES;
}

void record_encode(struct buf *out, const struct record *r)
{
	struct record_head head = {.body_bytes = (uint32_t)r->body.len,
	                           .body_crc = checksum(r->body.data, r->body.len),
	                           .number = r->number,
	                           .time_us = r->time_us,
	                           .filled = r->filled};
	struct cutter      c = {out, stamp_of(r->number), 0};

	head.head_crc = checksum(&head, offsetof(struct record_head, head_crc));
	buf_reserve(out, sectors_for(sizeof(head) + r->body.len) * SECTOR_BYTES);
	cutter_add(&c, &head, sizeof(head));
	cutter_add(&c, r->body.data, r->body.len);
	cutter_end(&c);
}

static void encode_old(struct cutter *c, const struct segment_head *h)
{
	struct segment_sector_old s = {
	        .segment = h->segment, .first = h->first, .unit = h->unit == SECTOR_BYTES ? 0 : h->unit};

	memcpy(s.magic, MAGIC_OLD, MAGIC_BYTES);
	s.crc = checksum(&s, offsetof(struct segment_sector_old, crc));
	cutter_add(c, &s, sizeof(s));
	cutter_end(c);
}

void segment_head_encode(struct buf *out, const struct segment_head *h)
{
	struct segment_sector s = {
	        .segment = h->segment, .first = h->first, .unit = h->unit, .filled = h->filled};
	struct cutter c = {out, (uint32_t)SEGMENT_STAMP, 0};

	if (h->filled == 0) {
		encode_old(&c, h);
		return;
	}
	memcpy(s.magic, MAGIC, MAGIC_BYTES);
	memcpy(s.directory, h->directory, sizeof(s.directory));
	s.crc = checksum(&s, offsetof(struct segment_sector, crc));
	cutter_add(&c, &s, sizeof(s));
	cutter_end(&c);
}

/* ---- reading ---- */

/* Is there nothing but zeros and sectors of this one record? */
static bool is_alone(struct bytes sectors, uint64_t number, bool *empty)
{
	size_t count = sectors.len / SECTOR_BYTES;

	*empty = true;
	for (size_t i = 0; i < count; i++) {
		struct bytes sector = sector_at(sectors, i);

		if (is_zero(sector))
			continue;
		if (sector_stamp(sector) != stamp_of(number))
			return false;
		*empty = false;
	}
	return is_zero((struct bytes){sectors.data + count * SECTOR_BYTES, sectors.len % SECTOR_BYTES});
}

/* What is here is not whole: has the disk not got to all of it, or has it changed since? */
static enum record_found torn_or_damaged(struct bytes sectors, uint64_t number)
{
	bool empty;

	if (!is_alone(sectors, number, &empty))
		return RECORD_DAMAGED;
	return empty ? RECORD_END : RECORD_TORN;
}

static bool head_is_sound(const struct record_head *h, uint64_t number)
{
	return h->head_crc == checksum(h, offsetof(struct record_head, head_crc)) && h->number == number &&
	       h->body_bytes <= RECORD_BODY_BYTES_MAX;
}

/* Puts the data of the sectors together again; false if one of them is not of this record. */
static bool join(struct bytes sectors, size_t count, uint64_t number, char *out)
{
	for (size_t i = 0; i < count; i++) {
		struct bytes sector = sector_at(sectors, i);

		if (sector_stamp(sector) != stamp_of(number))
			return false;
		memcpy(out + i * SECTOR_DATA_BYTES, sector.data, SECTOR_DATA_BYTES);
	}
	return true;
}

enum record_found record_decode(struct arena *a, struct bytes sectors, uint64_t number, struct record *out,
                                size_t *used)
{
	size_t             there = sectors.len / SECTOR_BYTES, count, whole;
	struct record_head head;
	char              *data;

	out->filled = 0;
	if (there == 0 || is_zero(sector_at(sectors, 0)))
		return torn_or_damaged(sectors, number);
	memcpy(&head, sectors.data, sizeof(head));
	if (sector_stamp(sector_at(sectors, 0)) != stamp_of(number) || !head_is_sound(&head, number))
		return RECORD_DAMAGED;
	out->filled = head.filled;
	whole = sizeof(head) + head.body_bytes;
	count = sectors_for(whole);
	if (count > there)
		return torn_or_damaged(sectors, number); /* the file ends before it */
	data = arena_alloc(a, count * SECTOR_DATA_BYTES);
	if (!join(sectors, count, number, data))
		return torn_or_damaged(sectors, number);
	*out = (struct record){
	        head.number, head.time_us, {data + sizeof(head), head.body_bytes}, head.filled};
	*used = count * SECTOR_BYTES;
	return checksum(out->body.data, out->body.len) == head.body_crc &&
	                       is_zero((struct bytes){data + whole, count * SECTOR_DATA_BYTES - whole})
	               ? RECORD_WHOLE
	               : RECORD_DAMAGED;
}

bool unit_is_valid(uint64_t bytes)
{
	return bytes >= SECTOR_BYTES && bytes <= UNIT_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

bool record_number(struct bytes sectors, uint64_t *number)
{
	struct record_head head;

	if (sectors.len < SECTOR_BYTES)
		return false;
	memcpy(&head, sectors.data, sizeof(head));
	*number = head.number;
	return sector_stamp(sector_at(sectors, 0)) == stamp_of(head.number) &&
	       head_is_sound(&head, head.number);
}

bool record_owns(struct bytes sector, uint64_t number)
{
	return sector.len >= SECTOR_BYTES && sector_stamp(sector) == stamp_of(number);
}

static bool rest_is_zero(struct bytes sector, size_t used)
{
	return is_zero((struct bytes){sector.data + used, SECTOR_DATA_BYTES - used});
}

static bool decode_old(struct bytes sector, struct segment_head *out)
{
	struct segment_sector_old s;

	memcpy(&s, sector.data, sizeof(s));
	*out = (struct segment_head){
	        .segment = s.segment, .first = s.first, .unit = s.unit == 0 ? SECTOR_BYTES : s.unit};
	return memcmp(s.magic, MAGIC_OLD, MAGIC_BYTES) == 0 &&
	       (s.unit == 0 || (s.unit != SECTOR_BYTES && unit_is_valid(s.unit))) &&
	       s.crc == checksum(&s, offsetof(struct segment_sector_old, crc)) &&
	       rest_is_zero(sector, sizeof(s));
}

static bool decode(struct bytes sector, struct segment_head *out)
{
	struct segment_sector s;

	memcpy(&s, sector.data, sizeof(s));
	*out = (struct segment_head){
	        .segment = s.segment, .first = s.first, .unit = s.unit, .filled = s.filled};
	memcpy(out->directory, s.directory, sizeof(s.directory));
	return memcmp(s.magic, MAGIC, MAGIC_BYTES) == 0 && unit_is_valid(s.unit) && s.filled != 0 &&
	       s.unused == 0 && s.crc == checksum(&s, offsetof(struct segment_sector, crc)) &&
	       rest_is_zero(sector, sizeof(s));
}

enum record_found segment_head_decode(struct bytes sectors, struct segment_head *out)
{
	if (is_zero(sectors))
		return RECORD_END;
	if (sectors.len < SECTOR_BYTES || sector_stamp(sector_at(sectors, 0)) != (uint32_t)SEGMENT_STAMP)
		return RECORD_DAMAGED;
	return decode(sectors, out) || decode_old(sectors, out) ? RECORD_WHOLE : RECORD_DAMAGED;
}

/* ---- changes ---- */

static void part_encode(struct buf *out, struct bytes part)
{
	uint32_t len = (uint32_t)part.len;

	buf_add(out, &len, sizeof(len));
	buf_add_bytes(out, part);
}

static bool part_decode(struct bytes *body, struct bytes *out)
{
	uint32_t len;

	if (body->len < sizeof(len))
		return false;
	memcpy(&len, body->data, sizeof(len));
	if (len > body->len - sizeof(len))
		return false;
	*out = (struct bytes){body->data + sizeof(len), len};
	*body = (struct bytes){out->data + len, body->len - sizeof(len) - len};
	return true;
}

void op_encode(struct buf *out, const struct op *op)
{
	buf_add_byte(out, (uint8_t)op->kind);
	part_encode(out, op->key);
	if (op->kind != OP_DELETE)
		part_encode(out, op->value);
}

bool op_decode(struct bytes *body, struct op *out)
{
	uint8_t kind = body->len == 0 ? 0 : (uint8_t)body->data[0];

	if (kind < OP_PUT || kind > OP_DELETE_RANGE)
		return false;
	*body = (struct bytes){body->data + 1, body->len - 1};
	*out = (struct op){.kind = (enum op_kind)kind};
	return part_decode(body, &out->key) && (kind == OP_DELETE || part_decode(body, &out->value));
}
