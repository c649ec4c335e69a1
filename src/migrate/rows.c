/* Rows: see rows.h. zlib reads plain files too, and writes them if asked, so both kinds of files take one path. */
#include "migrate/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/crc32.h"
#include "base/file.h"
#include "dynamo/wire.h"

enum { SUM_LINE_BYTES = 9 }; /* eight digits and the end of the line */

struct rows_writer {
	gzFile               file;
	FILE                *sums;
	int                  fd; /* a second one of the file, to sync it by */
	char                 path[ROWS_PATH_MAX];
	struct arena         arena; /* of one row */
	struct sha256_stream sha;
	struct rows_total    total;
};

static enum err_code path_make(char out[ROWS_PATH_MAX], const char *dir, struct bytes table,
                               const char *ending, struct err *err)
{
	if (snprintf(out, ROWS_PATH_MAX, "%s/%.*s%s", dir, BYTES_ARG(table), ending) < ROWS_PATH_MAX)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, "the name of the directory is too long");
}

static const char *ending_of(bool gzip)
{
	return gzip ? ".json.gz" : ".json";
}

static void sha_line(struct sha256_stream *sha, struct bytes line)
{
	sha256_add(sha, line);
	sha256_add(sha, BYTES("\n"));
}

static void sha_hex(struct sha256_stream *sha, char out[SHA256_HEX_CHARS])
{
	uint8_t digest[SHA256_BYTES];

	sha256_end(sha, digest);
	hex_write((struct bytes){(const char *)digest, sizeof(digest)}, out);
}

/* ---- writing ---- */

static enum err_code file_make(const char *path, int *fd, struct err *err)
{
	return file_open_now(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, fd, err);
}

static enum err_code files_make(struct rows_writer *w, const char *dir, struct bytes table, bool gzip,
                                struct err *err)
{
	char sums[ROWS_PATH_MAX];
	int  fd;

	if (path_make(w->path, dir, table, ending_of(gzip), err) != ERR_NONE ||
	    path_make(sums, dir, table, ".sums", err) != ERR_NONE)
		return err->code;
	if (file_make(w->path, &w->fd, err) != ERR_NONE)
		return err->code;
	w->file = gzdopen(dup(w->fd), gzip ? "wb6" : "wbT");
	if (w->file == NULL)
		return err_set(err, ERR_STORAGE, "cannot make %s: %s", w->path, strerror(errno));
	if (file_make(sums, &fd, err) != ERR_NONE)
		return err->code;
	w->sums = fdopen(fd, "w");
	if (w->sums == NULL)
		return err_set(err, ERR_STORAGE, "cannot make %s: %s", sums, strerror(errno));
	return ERR_NONE;
}

enum err_code rows_writer_open(struct rows_writer **out, const char *dir, struct bytes table, bool gzip,
                               struct err *err)
{
	struct rows_writer *w = mem_zalloc(sizeof(*w));

	arena_init(&w->arena);
	sha256_begin(&w->sha);
	w->fd = -1;
	if (files_make(w, dir, table, gzip, err) == ERR_NONE) {
		*out = w;
		return ERR_NONE;
	}
	(void)rows_writer_close(w, NULL, NULL);
	return err->code;
}

static enum err_code failed(const struct rows_writer *w, struct err *err)
{
	return err_set(err, ERR_STORAGE, "cannot write %s: %s", w->path,
	               errno != 0 ? strerror(errno) : "the disk may be full");
}

enum err_code rows_write(struct rows_writer *w, const struct item *item, struct err *err)
{
	struct json_writer json;
	struct buf         text;
	struct bytes       line;

	arena_reset(&w->arena);
	buf_init(&text, &w->arena);
	json_writer_init(&json, &text);
	json_begin_object(&json);
	json_key(&json, BYTES("Item"));
	wire_item_write(&json, item);
	json_end_object(&json);
	line = buf_bytes(&text);
	sha_line(&w->sha, line);
	w->total.rows++;
	w->total.bytes += line.len + 1;
	errno = 0;
	if (gzwrite(w->file, line.data, (unsigned)line.len) != (int)line.len || gzputc(w->file, '\n') < 0 ||
	    fprintf(w->sums, "%08" PRIx32 "\n", crc32_of(line)) < 0)
		return failed(w, err);
	return ERR_NONE;
}

enum err_code rows_writer_close(struct rows_writer *w, struct rows_total *total, struct err *err)
{
	bool good = total != NULL;

	errno = 0;
	if (w->file != NULL)
		good = gzclose(w->file) == Z_OK && good;
	if (w->fd >= 0) {
		good = good && fsync(w->fd) == 0;
		close(w->fd);
	}
	if (w->sums != NULL) {
		good = fflush(w->sums) == 0 && good && fsync(fileno(w->sums)) == 0;
		good = fclose(w->sums) == 0 && good;
	}
	sha_hex(&w->sha, w->total.sha256);
	if (total != NULL && good)
		*total = w->total;
	else if (total != NULL)
		failed(w, err);
	arena_release(&w->arena);
	free(w);
	return good || total == NULL ? ERR_NONE : err->code;
}

/* ---- reading ---- */

struct rows_reader {
	gzFile               file;
	FILE                *sums;
	char                 path[ROWS_PATH_MAX];
	char                *line; /* ROWS_LINE_BYTES_MAX and its end */
	struct json_reader  *json;
	struct sha256_stream sha;
	struct rows_total    total; /* so far */
};

static enum err_code files_open(struct rows_reader *r, const char *dir, struct bytes table, bool gzip,
                                struct err *err)
{
	char sums[ROWS_PATH_MAX];
	int  fd;

	if (path_make(r->path, dir, table, ending_of(gzip), err) != ERR_NONE ||
	    path_make(sums, dir, table, ".sums", err) != ERR_NONE)
		return err->code;
	if (file_open_now(r->path, O_RDONLY, &fd, err) != ERR_NONE)
		return err->code = ERR_INVALID;
	r->file = gzdopen(fd, "rb");
	if (file_open_now(sums, O_RDONLY, &fd, err) != ERR_NONE)
		return err->code = ERR_INVALID;
	r->sums = fdopen(fd, "r");
	return ERR_NONE;
}

enum err_code rows_reader_open(struct rows_reader **out, const char *dir, struct bytes table, bool gzip,
                               struct err *err)
{
	struct rows_reader *r = mem_zalloc(sizeof(*r));

	sha256_begin(&r->sha);
	r->line = mem_alloc(ROWS_LINE_BYTES_MAX + 2);
	r->json = json_reader_open();
	if (files_open(r, dir, table, gzip, err) == ERR_NONE) {
		*out = r;
		return ERR_NONE;
	}
	rows_reader_close(r);
	return err->code;
}

void rows_reader_close(struct rows_reader *r)
{
	if (r == NULL)
		return;
	if (r->file != NULL)
		gzclose(r->file);
	if (r->sums != NULL)
		fclose(r->sums);
	json_reader_close(r->json);
	free(r->line);
	free(r);
}

uint64_t rows_line(const struct rows_reader *r)
{
	return r->total.rows;
}

static enum err_code line_wrong(const struct rows_reader *r, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s: line %" PRIu64 ": %s", r->path, r->total.rows + 1, what);
}

/* The next line, without its end. */
static enum err_code line_next(struct rows_reader *r, struct bytes *out, bool *end, struct err *err)
{
	int         code = Z_OK;
	const char *got = gzgets(r->file, r->line, ROWS_LINE_BYTES_MAX + 2);

	(void)gzerror(r->file, &code);
	if (code != Z_OK && code != Z_STREAM_END)
		return line_wrong(r, "the compressed file is damaged or was cut off here", err);
	*end = got == NULL;
	if (*end)
		return ERR_NONE;
	*out = bytes_of(got);
	if (out->len > 0 && got[out->len - 1] == '\n') {
		out->len--;
		return ERR_NONE;
	}
	return line_wrong(r, out->len > ROWS_LINE_BYTES_MAX ? "is longer than any row can be" : "was cut off",
	                  err);
}

static enum err_code sum_compare(struct rows_reader *r, struct bytes line, struct err *err)
{
	char kept[SUM_LINE_BYTES + 1] = "", now[SUM_LINE_BYTES + 1];

	snprintf(now, sizeof(now), "%08" PRIx32 "\n", crc32_of(line));
	if (fgets(kept, sizeof(kept), r->sums) != NULL && strcmp(kept, now) == 0)
		return ERR_NONE;
	return line_wrong(r, "is not what was exported: its checksum is another one", err);
}

enum err_code rows_line_read(struct json_reader *json, struct arena *a, struct bytes line, struct item *out,
                             struct err *err)
{
	struct json       *tree;
	const struct json *item;

	if (json_read(json, a, line, &tree, err) != ERR_NONE)
		return err->code;
	item = json_get(tree, BYTES("Item"));
	if (item == NULL || tree->count != 1)
		return err_set(err, ERR_INVALID, "must be {\"Item\": {…}} and nothing else");
	if (wire_item_check(item, err) != ERR_NONE)
		return err->code;
	return wire_item_read(a, item, out, err);
}

enum err_code rows_read(struct rows_reader *r, struct arena *a, struct item *out, bool *end, struct err *err)
{
	struct bytes line;
	struct err   wrong;

	if (line_next(r, &line, end, err) != ERR_NONE)
		return err->code;
	if (*end)
		return ERR_NONE;
	if (sum_compare(r, line, err) != ERR_NONE)
		return err->code;
	sha_line(&r->sha, line);
	line = arena_copy(a, line);
	if (rows_line_read(r->json, a, line, out, &wrong) != ERR_NONE)
		return line_wrong(r, wrong.text, err);
	r->total.rows++;
	r->total.bytes += line.len + 1;
	return ERR_NONE;
}

enum err_code rows_compare(struct rows_reader *r, const struct rows_total *total, struct err *err)
{
	sha_hex(&r->sha, r->total.sha256);
	if (r->total.rows != total->rows)
		return err_set(err, ERR_INVALID,
		               "%s: ends after line %" PRIu64 ", but %" PRIu64 " rows were exported", r->path,
		               r->total.rows, total->rows);
	if (fgetc(r->sums) != EOF || memcmp(r->total.sha256, total->sha256, SHA256_HEX_CHARS) != 0)
		return err_set(
		        err, ERR_INVALID,
		        "%s: is not what was exported: its SHA-256 is another one than in manifest.json",
		        r->path);
	return ERR_NONE;
}
