/* Journal: every commit, in order, on the disk before it is answered. The store (rocks.h) keeps what is
 * committed in memory and writes it to its files later; what it has not written yet is read back from here.
 *
 *   DIR/journal/00000007.log   a segment (journal_record.h): commits, then zeros to be written over
 *   DIR/journal/00000008.log   the newest, where commits are added
 *   DIR/journal/00000009.new   one that is being made; it gets its name when it is whole
 *   DIR/journal/newest         a copy of the newest segment's head, written before a record is acknowledged in that segment
 *
 * (J3) journal_append returns ERR_NONE only after the record is on the disk.
 * (J4) Segments follow one another without a gap, in their numbers and in those of their records; one that is
 *      missing, or does not begin where the one before ended, is damage. The newest is written down in a file beside them
 *      before a record in it is acknowledged, so that its loss is noticed too. A segment gets its name when it is whole. */
#ifndef ENGINE_JOURNAL_H
#define ENGINE_JOURNAL_H

#include <limits.h>

#include "engine/journal_record.h"

/* A place in the journal: where a segment begins. */
struct journal_place {
	uint64_t segment; /* 0: there is no journal yet */
	uint64_t record;  /* the number of its first record */
	int64_t  time_us; /* of the newest record before it */
};

struct journal;

/* Where it lies, and what it belongs to. */
struct journal_site {
	const char *dir;
	uint8_t     id[DIRECTORY_ID_BYTES]; /* of the data directory */
	bool sealed; /* written by this format from the beginning: (J4) and (J6) hold of all segments */
};

/* Where reading came upon damage: all that is from this byte of this segment on cannot be relied upon. */
struct journal_damage {
	uint64_t segment; /* 0: there is none */
	size_t   at;
};

/* Gives every record from a place on to `each`, and says where the next is to be written. Changes nothing on the
 * disk. ERR_STORAGE says what is missing or damaged, and in which file; *end is then where the sound records end, and
 * *damage, unless it is NULL, says where. */
struct journal_reader {
	void *ctx;
	enum err_code (*each)(void *ctx, const struct record *r, struct err *err);
	struct journal_damage *damage;
};
enum err_code journal_read(const struct journal_site *site, const struct journal_place *from,
                           const struct journal_reader *reader, struct journal_place *end, struct err *err);

struct journal_options {
	size_t segment_bytes; /* a segment that has so many is long */
	size_t unit_bytes;    /* (J5); 0: the disk's physical sector */
};

/* To write at the place where reading ended. */
enum err_code journal_open(struct journal **out, const struct journal_site *site,
                           const struct journal_place *end, const struct journal_options *options,
                           struct err *err);
void          journal_close(struct journal *j);

/* ---- one thread, the writer's ---- */

/* ERR_DISK_FULL: there was no room, and nothing was written. Any other: the outcome is unknown. */
enum err_code journal_append(struct journal *j, int64_t time_us, struct bytes body, struct err *err);

/* Has the segment reached its size? */
bool journal_is_long(const struct journal *j);
/* Begins a new segment, unless this one is still empty. If that fails, this one is still written to. */
enum err_code journal_next_segment(struct journal *j, struct err *err);

/* ---- any thread ---- */

/* Where the newest segment begins. */
struct journal_place journal_newest(struct journal *j);

/* Removes all segments before this one. */
void journal_drop_before(struct journal *j, uint64_t segment);

/* ---- the files, for journal_read.c and salvage.c ---- */

#define JOURNAL_NEWEST "newest"

void segment_path(char out[PATH_MAX], const char *dir, uint64_t segment);

/* "open PATH: No such file or directory" */
enum err_code journal_file_error(struct err *err, const char *what, const char *path);

/* Calls `each` for every segment that there is, in no order. A directory that is not there has none; one that
 * cannot be read to its end is an error, or what is committed would be taken for absent. */
enum err_code each_segment(const char *dir, void (*each)(void *ctx, uint64_t segment), void *ctx,
                           struct err *err);

/* The lowest and the highest number from `from` on; 0 if there is none. */
struct segment_span {
	uint64_t first, last, from;
};
enum err_code segment_span(const char *dir, struct segment_span *s, struct err *err);

/* Appends the whole file. */
enum err_code segment_load(const char *path, struct buf *out, struct err *err);

/* Which segment is the newest, as it was written down. ERR_STORAGE if that is missing, damaged or another directory's. */
enum err_code journal_newest_read(const struct journal_site *site, struct segment_head *out, struct err *err);

/* Writes it down, durably. */
enum err_code journal_newest_write(const char *dir, const struct segment_head *h, struct err *err);

#endif
