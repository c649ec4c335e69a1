/* Manifest: what an export holds, in manifest.json: written last, so an export without one was not finished.
 *
 *   {"format": "gatehouse-export", "version": 1, "created": "2026-11-17T10:00:00Z", "tables": [
 *     {"file": "auth-state.json", "rows": 12, "bytes": 3456, "sha256": "…", "ttl": "ttl", "table": {…}}]}
 *
 * `table` is what CreateTable takes, `ttl` the attribute of the time to live. File, rows, bytes and SHA-256 are of the lines before
 * compression (rows.h). */
#ifndef MIGRATE_MANIFEST_H
#define MIGRATE_MANIFEST_H

#include "migrate/rows.h"
#include "table/schema.h"

#define MANIFEST_NAME "manifest.json"

enum {
	MANIFEST_VERSION = 1,
	MANIFEST_TABLES_MAX = 256,
	MANIFEST_BYTES_MAX = 4 * 1024 * 1024,
};

struct manifest_table {
	struct table_schema schema;
	bool                gzip;
	struct rows_total   total;
};

struct manifest {
	struct manifest_table tables[MANIFEST_TABLES_MAX];
	uint32_t              count;
};

/* The text, in the arena. */
struct bytes manifest_print(const struct manifest *m, int64_t now_s, struct arena *a);

/* Whatever is wrong with it is ERR_INVALID or ERR_SERIALIZATION, naming the field. Points into the arena. */
enum err_code manifest_parse(struct bytes text, struct arena *a, struct manifest *out, struct err *err);

/* Of an export's directory. */
enum err_code manifest_read(const char *dir, struct arena *a, struct manifest *out, struct err *err);
enum err_code manifest_write(const char *dir, const struct manifest *m, struct err *err);

#endif
