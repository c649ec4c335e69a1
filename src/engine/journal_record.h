/* Journal record: one batch as it lies in a segment of the journal, and what a segment begins with.
 *
 *   segment   head | record | record | … | zeros        all in sectors of 512 bytes
 *   sector    508 bytes, then a stamp: the record's number, never zero
 *   record    length, checksums, number, time, changes; ends with its last sector
 *   unit      what the disk writes at once; head and records each begin with one, zeros fill the last
 *
 * A disk writes a sector wholly or not at all, and a segment is filled with zeros before it is used. So what is
 * not whole is either torn, with a sector of zeros where the disk did not get to, or damaged:
 *
 * (J1) A torn record was never acknowledged, because its flush never returned; only the last one can be torn.
 * (J2) Anything else that is not as it was written is damage, also one bit in the last record.
 * (J5) No two records share a unit. A disk that shows sectors of 512 bytes and has larger ones reads a whole one and
 *      writes it again: a power failure meanwhile must not take an acknowledged record along.
 * (J6) Head and records say how far zeros lay on the disk before they were written, and at least one unit of zeros lies
 *      behind each. So a file that is shorter than they say was cut: no crash shortens it. */
#ifndef ENGINE_JOURNAL_RECORD_H
#define ENGINE_JOURNAL_RECORD_H

#include "base/buf.h"
#include "base/directory.h"
#include "base/err.h"

enum {
	SECTOR_BYTES = 512,
	SECTOR_DATA_BYTES = SECTOR_BYTES - 4,
	UNIT_BYTES_MAX = 64 << 10,
	RECORD_BODY_BYTES_MAX = 1 << 30,
};

/* Numbers go up by one from record to record, across segments. */
struct record {
	uint64_t     number;
	int64_t      time_us;
	struct bytes body;   /* changes */
	uint32_t     filled; /* sectors of the file then (J6); 0 up to format 3 */
};

/* What a segment says of itself. */
struct segment_head {
	uint64_t segment; /* its own number */
	uint64_t first;   /* the number of its first record */
	uint32_t unit;    /* bytes (J5) */
	uint32_t filled;  /* sectors (J6); 0 up to format 3, which also has no id */
	uint8_t  directory[DIRECTORY_ID_BYTES];
};

enum record_found {
	RECORD_WHOLE,
	RECORD_END,     /* nothing but zeros follows */
	RECORD_TORN,    /* (J1) and nothing of a later record follows */
	RECORD_DAMAGED, /* (J2) */
};

/* Append whole sectors; the caller fills the unit. A head with `filled` 0 is written as format 3 did. */
void record_encode(struct buf *out, const struct record *r);
void segment_head_encode(struct buf *out, const struct segment_head *h);

/* What a record with a body of this length takes, without the rest of its unit. */
size_t record_bytes(size_t body_bytes);

/* The record with this number at the beginning of `sectors`, which is all that follows in the segment; the body is
 * in the arena. *used are the bytes of a whole one. `filled` is also set for a torn one, if its first sector is there, and
 * else 0. */
enum record_found record_decode(struct arena *a, struct bytes sectors, uint64_t number, struct record *out,
                                size_t *used);

/* A power of two from SECTOR_BYTES to UNIT_BYTES_MAX? */
bool unit_is_valid(uint64_t bytes);

/* RECORD_END: nothing was ever written to this segment. */
enum record_found segment_head_decode(struct bytes sectors, struct segment_head *out);

/* The number of the record that begins here, if its first sector is sound: for whoever looks behind damage. */
bool record_number(struct bytes sectors, uint64_t *number);
/* Does this sector carry the stamp of that record? */
bool record_owns(struct bytes sector, uint64_t number);

/* ---- the changes in a body, in the order in which they are made ---- */

enum op_kind { OP_PUT = 1, OP_DELETE, OP_DELETE_RANGE };

struct op {
	enum op_kind kind;
	struct bytes key, value; /* of a range: low, and high, which is excluded */
};

void op_encode(struct buf *out, const struct op *op);

/* Takes the first op off the body; false if it is no op. */
bool op_decode(struct bytes *body, struct op *out);

#endif
