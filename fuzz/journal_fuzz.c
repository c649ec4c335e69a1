/* Fuzz: any bytes as a segment of the journal. What decodes encodes to the very sectors it came from; what does not
 * is told apart without a read outside of it. The first byte says what to mend, so that checksums do not keep the
 * fuzzer out. */
#include <stdlib.h>
#include <zlib.h>

#include "engine/journal_record.h"

enum { HEAD_BYTES = 32, SEGMENT_BYTES = 56, MEND_HEAD = 1, MEND_RECORDS = 2, RECORDS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* ---- mending: checksums and stamps as the rest of the sector says ---- */

static uint32_t checksum(const char *data, size_t len)
{
	return (uint32_t)crc32_z(0, (const Bytef *)data, len);
}

static void set_u32(char *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

static void mend_head(char *sectors, size_t len)
{
	bool   old = len > 0 && sectors[0] % 2 == 0;
	size_t bytes = old ? HEAD_BYTES : SEGMENT_BYTES;

	if (len < SECTOR_BYTES)
		return;
	memcpy(sectors, old ? "GHJOURN1" : "GHJOURN2", 8);
	memset(sectors + bytes, 0, SECTOR_DATA_BYTES - bytes);
	if (!old)
		set_u32(sectors + bytes - 8, 0);
	set_u32(sectors + bytes - 4, checksum(sectors, bytes - 4));
	set_u32(sectors + SECTOR_DATA_BYTES, UINT32_MAX);
}

static void mend_record_head(char *sectors, uint64_t number)
{
	memcpy(sectors + 8, &number, sizeof(number));
	set_u32(sectors + HEAD_BYTES - 4, checksum(sectors, HEAD_BYTES - 4));
	set_u32(sectors + SECTOR_DATA_BYTES, (uint32_t)number | UINT32_C(1) << 31);
}

/* A record at the beginning of the sectors, of the length that it says: all of it, or its head if the rest is not
 * there. Returns its sectors' bytes, 0 if it ends after them. */
static size_t mend_record(struct arena *a, char *sectors, size_t len, uint64_t number)
{
	uint32_t body_bytes;
	size_t   count;
	char    *body;

	if (len < SECTOR_BYTES)
		return 0;
	memcpy(&body_bytes, sectors, sizeof(body_bytes));
	count = (HEAD_BYTES + (size_t)body_bytes + SECTOR_DATA_BYTES - 1) / SECTOR_DATA_BYTES;
	if (count * SECTOR_BYTES > len) {
		mend_record_head(sectors, number);
		return 0;
	}
	body = arena_alloc(a, count * SECTOR_DATA_BYTES);
	for (size_t i = 0; i < count; i++) {
		memcpy(body + i * SECTOR_DATA_BYTES, sectors + i * SECTOR_BYTES, SECTOR_DATA_BYTES);
		set_u32(sectors + i * SECTOR_BYTES + SECTOR_DATA_BYTES, (uint32_t)number | UINT32_C(1) << 31);
	}
	set_u32(sectors + 4, checksum(body + HEAD_BYTES, body_bytes));
	mend_record_head(sectors, number);
	return count * SECTOR_BYTES;
}

static void mend(struct arena *a, char *sectors, size_t len, int what)
{
	uint64_t first;
	size_t   at = SECTOR_BYTES, used;

	if (what & MEND_HEAD)
		mend_head(sectors, len);
	if (!(what & MEND_RECORDS) || len < SECTOR_BYTES)
		return;
	memcpy(&first, sectors + 16, sizeof(first));
	for (uint64_t i = 0; i < (uint64_t)(what >> 2) && at < len; i++, at += used) {
		used = mend_record(a, sectors + at, len - at, first + i);
		if (used == 0)
			return;
	}
}

/* ---- what must hold ---- */

static void ops(struct bytes body)
{
	struct arena a;
	struct buf   out;
	struct op    op;
	struct bytes rest = body;

	arena_init(&a);
	buf_init(&out, &a);
	while (op_decode(&rest, &op))
		op_encode(&out, &op);
	check(out.len <= body.len && (out.len == 0 || memcmp(out.data, body.data, out.len) == 0));
	arena_release(&a);
}

static void records(struct arena *a, struct bytes sectors, uint64_t number)
{
	struct record r;
	size_t        used;
	struct buf    again;

	for (int i = 0; i < RECORDS_MAX; i++) {
		if (record_decode(a, sectors, number + (uint64_t)i, &r, &used) != RECORD_WHOLE)
			return;
		check(used > 0 && used <= sectors.len && r.number == number + (uint64_t)i);
		buf_init(&again, a);
		record_encode(&again, &r);
		check(bytes_equal(buf_bytes(&again), (struct bytes){sectors.data, used}));
		ops(r.body);
		sectors = (struct bytes){sectors.data + used, sectors.len - used};
	}
}

static void segment(struct arena *a, struct bytes all)
{
	struct segment_head head;
	struct buf          again;

	if (segment_head_decode(all, &head) != RECORD_WHOLE)
		return;
	buf_init(&again, a);
	segment_head_encode(&again, &head);
	check(bytes_equal(buf_bytes(&again), (struct bytes){all.data, SECTOR_BYTES}));
	records(a, (struct bytes){all.data + SECTOR_BYTES, all.len - SECTOR_BYTES}, head.first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a;
	char        *copy;

	if (size == 0)
		return 0;
	arena_init(&a);
	copy = malloc(size - 1 == 0 ? 1 : size - 1); /* of its very size */
	memcpy(copy, data + 1, size - 1);
	mend(&a, copy, size - 1, data[0]);
	segment(&a, (struct bytes){copy, size - 1});
	records(&a, (struct bytes){copy, size - 1}, 1);
	ops((struct bytes){copy, size - 1});
	free(copy);
	arena_release(&a);
	return 0;
}
