/* Journal files: what lies in DIR/journal, for those who read and write it (journal.c, journal_read.c, salvage.c).
 *
 *   00000007.log   a segment
 *   00000008.new   one that is being made; it gets its name when it is whole
 *   newest         a copy of the newest segment's head, written before a record is acknowledged in that segment */
#ifndef ENGINE_JOURNAL_FILES_H
#define ENGINE_JOURNAL_FILES_H

#include <limits.h>

#include "engine/journal.h"

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
