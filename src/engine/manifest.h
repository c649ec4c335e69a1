/* Manifest: the file that says which files RocksDB's store consists of. The store adds an edit to it, or two, and syncs it, each
 * time it has written or merged files. A power failure may tear the last append and keep the file's new length; RocksDB
 * then refuses the store, although nothing is lost. Here that tail is found, so that the store can be read without it.
 *
 *   32 KB blocks of records: checksum (4), length (2), type (1), payload. An edit is one record, or the records FIRST,
 *   MIDDLE…, LAST. What is left at the end of a block, fewer than 7 bytes, is not used.
 *
 *   A new file begins with its head: of each family of files an edit that names it and one that lists its files. Then come edits that change this.
 *
 * (M1) From the first unreadable record on, nothing is believed, whatever follows: a disk may have written the second edit of an append and not the first.
 *      The head was synced, with an edit after it, before the store used the file. If it cannot be read, that is damage: without it a family would be
 *      empty, and the journal does not hold what it lacks.
 * (M2) Leaving out the last edits never loses a commit unnoticed. The remaining edits describe the store as it was at an
 *      earlier moment. If a file of that moment is gone, RocksDB does not open. If a segment of the journal that this
 *      moment needs is gone, the journal is refused (J4). If neither is, the journal holds all that came later. Whoever
 *      opens the store for writing makes sure of this first: opening removes the files of the edits left out. So damage in the middle of the file is refused
 *      as well, unless nothing that follows it was acted upon.
 * (M3) Nothing is cut on the disk: RocksDB is shown the file without its tail (rocks_disk.h), and writes a new one. */
#ifndef ENGINE_MANIFEST_H
#define ENGINE_MANIFEST_H

#include "base/bytes.h"
#include "base/err.h"

enum { MANIFEST_BLOCK_BYTES = 32 << 10, MANIFEST_NAME_BYTES = 32 };

/* ---- the form: block after block, from the file's beginning ---- */

enum manifest_state { MANIFEST_WHOLE, MANIFEST_TORN, MANIFEST_DAMAGED };

struct manifest_scan {
	uint64_t at;    /* where the next block begins */
	uint64_t end;   /* where the last whole edit ends */
	uint64_t sound; /* the same, but 0 in the head */
	uint64_t bad;   /* where the first unreadable record begins, if any is */
	bool     in_edit, torn;
	bool     names,
	        listed; /* the edit under way names a family; the one before did, and this lists its files */
};

/* Every block but the last has MANIFEST_BLOCK_BYTES. */
void manifest_scan_block(struct manifest_scan *s, struct bytes block);
/* After the last one. Nothing is called torn if no edit after the head is whole (M1). */
enum manifest_state manifest_scan_end(const struct manifest_scan *s);

/* ---- the file ---- */

struct manifest {
	char     name[MANIFEST_NAME_BYTES]; /* "MANIFEST-000004"; "" if the store names none that is there */
	uint64_t sound, bytes;              /* up to the last whole edit; all of it */
};

/* Looks at the one that the store uses. ERR_STORAGE: its head is damaged, or it cannot be read. */
enum err_code manifest_look(const char *store, struct manifest *out, struct err *err);

static inline bool manifest_is_torn(const struct manifest *m)
{
	return m->sound < m->bytes;
}

/* If the manifest is torn, makes sure that nothing is lost without the tail (M2). DIR holds store/ and journal/. */
enum err_code manifest_check(const char *dir, struct manifest *out, struct err *err);
/* The same before a store is opened for writing: keeps the whole file as DIR/MANIFEST-000004.torn. */
enum err_code manifest_pass_over(const char *dir, struct err *err);

#endif
