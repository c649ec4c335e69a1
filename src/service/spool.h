/* Spool: records that wait in a file of this machine until they can be merged. A record is bytes with a number.
 *
 *   spool_append … spool_sync     any thread: one flush for all that wait for it
 *   spool_take … spool_done       those who merge, and only once what they merged is durable elsewhere
 *
 *   DIR/spool   frames, one after the other; each was flushed before the next was begun
 *   frame       "GHSP" | u32 bytes of content | u64 checksum of content | content: records, one after the other
 *   record      u8 kind (3: waits, 2: done) | u64 number | u32 lines | u32 bytes | bytes      numbers are little-endian
 *               (1: waits, of an older version, whose lines nobody can tell: it is on all of them)
 *
 * `lines` is a set of bits, one for each that a record is about. Records that have a line in common are merged one after the other, in the
 * order of their numbers; all others at the same time.
 *
 * What always holds
 * (1) A record that spool_sync returned for is found again after a crash, until spool_done; a `done` that a crash lost is harmless,
 *     because whoever merges writes a marker with what it merges.
 * (2) The last frame may be torn: the file ends before it does, or a sector of 512 bytes has nothing but zeros of it. Then nobody was told of it, and it is cut
 *     off. Anything else is damage, down to one bit of the last frame, which spool_open names instead of losing what was promised.
 * (3) At most records_max records and bytes_max bytes wait; the file is at most SPOOL_FILE_FACTOR times as large, because what is done is
 *     cut off. Past that spool_append refuses, and nothing is written.
 * (4) After a flush that failed nothing is flushed until spool_recover has written all that waits anew: nobody knows what of the old file is
 *     on the disk. spool_check_room says so to those who ask before they decide. Whoever decided already is appended, and told, like those whose
 *     flush failed, that the outcome is unknown: else memory would know of an attempt that no record has. Their records stay, and may be
 *     merged meanwhile.
 * (5) One process at a time has it: DIR/spool.lock. Two would cut off each other's records.
 * (6) A frame has a byte that is not zero in its first sector and in its last one: it begins with "GHSP", and ends, if need be, with a `done` of no record. Those between
 *     are full of records, whose bytes are text for the most part. */
#ifndef SERVICE_SPOOL_H
#define SERVICE_SPOOL_H

#include "base/buf.h"
#include "base/err.h"

enum {
	SPOOL_RECORD_BYTES_MAX = 64 * 1024,
	SPOOL_FILE_FACTOR = 3,
	SPOOL_FRAME_HEAD = 16,
	SPOOL_RECORD_HEAD = 17,
	SPOOL_LINES = 32,
	SPOOL_WHY_CHARS = 160,
};

struct spool;

struct spool_record {
	uint32_t     lines;
	struct bytes bytes;
};

struct spool_options {
	const char *dir;
	size_t      bytes_max;
	uint32_t    records_max;
};

/* ERR_STORAGE: the file is damaged (2), cannot be read, or is another's (5). */
enum err_code spool_open(struct spool **out, const struct spool_options *options, struct err *err);
void          spool_close(struct spool *s);

/* ERR_OVERLOADED: there is no room (3). Not durable yet. Numbers grow by one. */
enum err_code spool_append(struct spool *s, const struct spool_record *record, uint64_t *number,
                           struct err *err);
enum err_code spool_sync(struct spool *s, uint64_t number, struct err *err);

/* All that was appended until now. */
enum err_code spool_sync_all(struct spool *s, struct err *err);

/* ERR_OVERLOADED: a record of that size would be refused (3), or not be flushed (4). */
enum err_code spool_check_room(struct spool *s, size_t bytes, struct err *err);

/* The first record that waits, that nobody has taken, and that has no line in common with an earlier one. In the arena. 0: there is none.
 * Whoever takes it keeps it until it is done. */
uint64_t spool_take(struct spool *s, struct arena *a, struct bytes *out);
void     spool_done(struct spool *s, uint64_t number);

/* The first that waits, taken or not. False: there is none. In the arena. */
bool spool_first(struct spool *s, struct arena *a, struct bytes *out);

/* All that wait, in order. `each` must not call the spool. */
void spool_each(struct spool *s, void (*each)(void *ctx, struct bytes record), void *ctx);

/* Makes what is done durable, and cuts it off if that is worth it. For those who merge, now and then. */
enum err_code spool_trim(struct spool *s, struct err *err);

/* (4) Nothing, if no flush failed. ERR_STORAGE: the disk is not back yet. */
enum err_code spool_recover(struct spool *s, struct err *err);

struct spool_numbers {
	uint32_t records;
	size_t   bytes, file_bytes;
	bool     failed;               /* (4) */
	char     why[SPOOL_WHY_CHARS]; /* what the system said, if it failed */
};

struct spool_numbers spool_read(struct spool *s);

/* ---- for the fuzzer, and for spool_open ---- */

/* Reads a whole file. *good: so many of its bytes are whole frames. ERR_STORAGE: damage (2). */
enum err_code spool_parse(struct bytes file,
                          void (*record)(void *ctx, uint64_t number, bool done, const struct spool_record *r),
                          void *ctx, size_t *good, struct err *err);

#endif
