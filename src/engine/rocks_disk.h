/* Rocks disk: the files that RocksDB writes, on a disk that may be full. RocksDB as Debian builds it aborts the process
 * after a write that failed, so none fails for want of room. Used by rocks.c alone. Thread-safe.
 *
 *   patient    a write that finds no room waits until there is some; says so by on_full
 *   impatient  it freezes the disk instead (while the store is opened or closed: nobody could end the waiting)
 *   frozen     nothing reaches the disk any more, and RocksDB is told that all is well
 *
 * (D1) What is on a frozen disk is what a kill at that moment would have left: the journal holds all that is missing.
 *      Whoever flushes asks afterwards whether it was frozen, and then does not believe RocksDB.
 * (D2) Merging old files (compaction) leaves the last reserve_bytes to those who write new rows.
 * (D3) A write or a flush of MANIFEST that fails freezes the disk. The record may be in the file or not, and the next start may find it there. RocksDB would
 *      take it for absent, and delete the files that it names.
 * (D4) A new file never takes the place of one that has another name too: what is there under its name is removed first.
 * (D5) A file that is to become one of the store's is not linked if a read of it failed. RocksDB asks it for its last key, does not notice that there was no
 *      answer, and takes it with wrong bounds: rows of it are absent from then on, and merging it fails. */
#ifndef ENGINE_ROCKS_DISK_H
#define ENGINE_ROCKS_DISK_H

#include <stdbool.h>
#include <stddef.h>

struct rocks_disk;

struct rocks_room {
	const char *path;          /* a directory on the disk */
	size_t      reserve_bytes; /* (D2) */
	/* A write waits for room. Called again and again while it does, by a thread of RocksDB's. */
	void (*on_full)(void *ctx);
	void *ctx;
	/* Of the file with this name, readers see only the first short_bytes (manifest.h M3). NULL: they see all of
	 * every file. */
	const char *short_name;
	size_t      short_bytes;
};

/* Impatient at first. */
struct rocks_disk *rocks_disk_open(const struct rocks_room *room);
void               rocks_disk_close(struct rocks_disk *d);

/* Has a store that is opened with these options (rocksdb_options_t) use it. write_buffer_bytes is what they were given, to
 * make sure that they are what they are taken for. */
void rocks_disk_attach(struct rocks_disk *d, void *rocksdb_options, size_t write_buffer_bytes);

void rocks_disk_be_patient(struct rocks_disk *d, bool patient);
void rocks_disk_freeze(struct rocks_disk *d);

/* Is there more room than the reserve? */
bool rocks_disk_has_room(const struct rocks_disk *d);

bool rocks_disk_is_frozen(const struct rocks_disk *d);
/* (D3) What failed, or NULL. */
const char *rocks_disk_failure(const struct rocks_disk *d);
/* … for any room at all; compaction does not count. */
bool rocks_disk_is_waiting(const struct rocks_disk *d);

#endif
