/* Rows: the rows of one table in a file, one per line, as AWS's own exports have them:
 *
 *   auth-state.json         {"Item":{"PK":{"S":"…"},…}}       or auth-state.json.gz
 *   auth-state.sums         1c291ca3                           CRC-32 of each line, without its end, in hexadecimal
 *
 * Written and read line by line: no more than one row is in memory. Whoever reads compares each line with its sum, and at the end the
 * count and the SHA-256 of all lines with those of the manifest (manifest.h). An error names the file and the line. */
#ifndef MIGRATE_ROWS_H
#define MIGRATE_ROWS_H

#include "base/crypto.h"
#include "item/value.h"
#include "json/json.h"

enum {
	ROWS_LINE_BYTES_MAX = 4 * 1024 * 1024, /* an item of 400 KB, as JSON may write it */
	ROWS_PATH_MAX = 4096,
};

/* What a file came to. */
struct rows_total {
	uint64_t rows, bytes; /* before compression */
	char     sha256[SHA256_HEX_CHARS];
};

/* ---- writing ---- */

struct rows_writer;

/* Two new files in the directory, readable by their owner only. Those that are there are replaced. */
enum err_code rows_writer_open(struct rows_writer **out, const char *dir, struct bytes table, bool gzip,
                               struct err *err);
enum err_code rows_write(struct rows_writer *w, const struct item *item, struct err *err);
/* Durable when it returns ERR_NONE. *total is set then. Closes it in any case; total NULL: it is given up. */
enum err_code rows_writer_close(struct rows_writer *w, struct rows_total *total, struct err *err);

/* ---- reading ---- */

struct rows_reader;

enum err_code rows_reader_open(struct rows_reader **out, const char *dir, struct bytes table, bool gzip,
                               struct err *err);
void          rows_reader_close(struct rows_reader *r); /* NULL is none */

/* The next row, in the arena; *end: there is none. ERR_INVALID: the line is not what was written. */
enum err_code rows_read(struct rows_reader *r, struct arena *a, struct item *out, bool *end, struct err *err);
uint64_t      rows_line(const struct rows_reader *r); /* of the row that was read last, from 1 */

/* After the end: is it all that was written? */
enum err_code rows_compare(struct rows_reader *r, const struct rows_total *total, struct err *err);

/* ---- one line ---- */

/* ERR_INVALID or ERR_SERIALIZATION: it is not {"Item": {…}}. */
enum err_code rows_line_read(struct json_reader *json, struct arena *a, struct bytes line, struct item *out,
                             struct err *err);

#endif
