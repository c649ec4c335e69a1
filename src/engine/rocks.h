/* Rocks: the ordered, durable byte store underneath, with our own names. rocks.c is the only file that knows
 * RocksDB, but for what its C interface lacks (rocks_disk.cc): the disk under it, and reading a file whole. Thread-safe.
 *
 * Its files are of two families. Rows of logs (ends.h) are in one of their own, where files lie one behind the other, and none is written anew because
 * others change. Callers need not know: a key says in which family it is.
 *
 * (R2) A log begins at a key. From there to the end of its partition all rows are in the family of logs, and none is in the other. So it is in memory and
 *      on the disk; a snapshot that was opened before has them in the other.
 * (R3) A range that is deleted is a whole table or index, to which nothing is added ever again (layout.h L2). So a cursor within one need not know of deleted
 *      ranges, and does not: one that does loses an error when it comes to the next file of a level (docs/decisions/050). One over several asks of each. */
#ifndef ENGINE_ROCKS_H
#define ENGINE_ROCKS_H

#include "base/buf.h"
#include "base/err.h"

struct rocks;
struct rocks_batch;
struct rocks_cursor;
struct rocks_snapshot;

/* Rows that the store may leave out whenever it merges files. A merge begins, asks for rows, and ends, on a thread of RocksDB's; several go on at
 * once. `drops` says the same of a row whenever it is asked, or true from some moment on. */
struct rocks_drops {
	void *ctx;
	void *(*begin)(void *ctx); /* returns what the others are given */
	bool (*drops)(const void *merge, struct bytes key, struct bytes value);
	void (*end)(void *merge);
};

struct rocks_options {
	size_t block_cache_bytes;
	size_t reserve_bytes; /* of the disk, that merging files leaves alone */
	size_t file_bytes;    /* where a file ends; 0: what suits a server */
	bool   tight;         /* there is little room: as little as can be is written until rocks_relax */
	/* A write waits for room on the disk. Any thread; again and again. */
	void (*on_full)(void *ctx);
	void              *full_ctx;
	struct rocks_drops drops;
};

enum err_code rocks_open(struct rocks **out, const char *path, const struct rocks_options *options,
                         struct err *err);
/* The same for reading alone, of a store that is there: none of its files is written or removed. */
enum err_code rocks_open_read_only(struct rocks **out, const char *path, size_t block_cache_bytes,
                                   struct err *err);
void          rocks_close(struct rocks *r);

/* ---- a full disk: see rocks_disk.h ---- */

/* Is nothing written any more, since there was no room while it was opened or closed, or because it was told so? It can be
 * read, and takes what is applied into its memory. */
bool rocks_is_frozen(const struct rocks *r);
void rocks_freeze(struct rocks *r);
/* What failed, if nothing is written any more because the list of files could not be (rocks_disk.h D3): the process is to start again. Else NULL. */
const char *rocks_failure(const struct rocks *r);
/* Do writes wait for room? */
bool rocks_is_waiting(const struct rocks *r);
/* There is room, and from now on a store that was opened tight is like others. */
void rocks_relax(struct rocks *r);
/* From now on a write waits for room (true), or freezes the store (false, as while it is opened). */
void rocks_be_patient(struct rocks *r, bool patient);

/* The value is copied into `out` (appended). *found says whether there is one. With a snapshot, as of then.
 */
enum err_code rocks_get(struct rocks *r, const struct rocks_snapshot *snapshot, struct bytes key,
                        struct buf *out, bool *found, struct err *err);

/* No log begins meanwhile. */
struct rocks_snapshot *rocks_snapshot_open(struct rocks *r);
void                   rocks_snapshot_close(struct rocks *r, struct rocks_snapshot *s);

struct rocks_batch *rocks_batch_open(struct rocks *r);
void                rocks_batch_close(struct rocks_batch *b);
void                rocks_batch_reset(struct rocks_batch *b);
void                rocks_batch_put(struct rocks_batch *b, struct bytes key, struct bytes value);
void                rocks_batch_delete(struct rocks_batch *b, struct bytes key);
/* All keys from low (included) to high (excluded) (R3). */
void rocks_batch_delete_range(struct rocks_batch *b, struct bytes low, struct bytes high);

/* Puts the batch into the store's memory: every reader sees all of it from now on. On the disk it is after
 * rocks_flush, or when the store found the time; what it holds there is always all that came before some moment. */
enum err_code rocks_apply(struct rocks *r, struct rocks_batch *b, struct err *err);
/* … ERR_DISK_FULL: its memory is full too, because there was no room on the disk for long. ERR_STORAGE: see rocks_failure. */

/* Merges all files now, and waits for it. */
void rocks_compact(struct rocks *r);

/* Waits until all that was applied is in the store's files. ERR_DISK_FULL: there is no room, or it is frozen for want of it. One thread at a
 * time. */
enum err_code rocks_flush(struct rocks *r, struct err *err);
/* The same of rows of logs alone. */
enum err_code rocks_flush_logs(struct rocks *r, struct err *err);

/* ---- files of logs ---- */

/* May this row be one of a log? If none has begun, one does with a row that is asked for after a rocks_flush (R2). No row of its partition lies behind it, ever
 * since it was first asked for. One thread at a time. */
bool rocks_log_takes(struct rocks *r, struct bytes key);

/* Rows of a log that are to become a file. These are called by a thread of the store's. */
struct rocks_run {
	void *ctx;
	bool (*next)(void *ctx, struct bytes *key,
	             struct bytes *value); /* in the order of keys; false at the end */
	bool (*ready)(void *ctx);          /* all are in the file: shall the store take it? */
	void (*done)(void *ctx, bool taken);
};

/* The store takes them only if none of the keys between the first and the last is there in any form, and if no snapshot is open that was opened before:
 * whoever reads finds these rows at whatever moment he looks. What `done` is told is no failure. ERR_DISK_FULL: it waits for room, and the run is in use until
 * rocks_settle. The rules are those of rocks_flush. */
enum err_code rocks_log_file(struct rocks *r, const struct rocks_run *run, struct err *err);

/* Waits for what rocks_flush or rocks_log_file left under way; ERR_DISK_FULL as there. */
enum err_code rocks_settle(struct rocks *r, struct err *err);
/* From now on nothing is flushed; nothing is under way any more. */
void rocks_stop(struct rocks *r);

/* Walks the keys from low (included) to high (excluded) of one consistent state, up or down. `low` and `high`
 * must stay valid while it is open. Over several tables or indexes it needs a snapshot, and goes up (R3). Within one that was deleted it may still come to
 * keys. */
struct rocks_cursor *rocks_cursor_open(struct rocks *r, const struct rocks_snapshot *snapshot,
                                       struct bytes low, struct bytes high, bool backward);
/* The same upwards over very many keys: what it reads does not push out of the store's cache what others need. */
struct rocks_cursor *rocks_walk_open(struct rocks *r, const struct rocks_snapshot *snapshot, struct bytes low,
                                     struct bytes high);
void                 rocks_cursor_close(struct rocks_cursor *c);

/* False at the end. Key and value are valid until rocks_cursor_next. */
bool rocks_cursor_at(const struct rocks_cursor *c, struct bytes *key, struct bytes *value);
void rocks_cursor_next(struct rocks_cursor *c);
/* Upwards: to the first key that is not below this one, which lies ahead. */
void rocks_cursor_skip(struct rocks_cursor *c, struct bytes key);
/* After the end: did it end because of an error? Nothing is passed over because it cannot be read: the cursor ends there, also if it is told to skip on. */
enum err_code rocks_cursor_check(const struct rocks_cursor *c, struct err *err);

/* A rough number of bytes that the range takes on disk. */
uint64_t rocks_range_bytes(struct rocks *r, struct bytes low, struct bytes high);

/* ---- for checking ---- */

/* The files that hold what was committed, but for the logs, which are verified when the store is opened. */
void rocks_each_file(struct rocks *r, void (*fn)(void *ctx, const char *name, uint64_t bytes), void *ctx);

/* Reads every block of such a file. ERR_STORAGE names the file and what is wrong. */
enum err_code rocks_file_verify(const char *path, struct err *err);

/* Roughly how many keys there are. */
uint64_t rocks_keys_estimate(struct rocks *r);

#endif
