/* Check: is a data directory sound? FORMAT, the sealed files and the journal are read as a start reads them. Every block of
 * every file of the store is read and compared with its checksum, then every row, index entry and expiry entry with those
 * that it belongs to. For a directory that no server has open; nothing in it is changed: it is opened for reading, nothing
 * is swept or filled meanwhile. */
#ifndef ENGINE_CHECK_H
#define ENGINE_CHECK_H

#include "engine/state.h"

/* ---- rows, index entries and expiry entries of one state, each compared with those that it belongs to ---- */

struct verify_counts {
	uint64_t rows, index_entries, expiry_entries;
	uint64_t leftovers; /* expiry entries whose row is gone or expires at another time: the sweeper's */
	uint64_t differences;
};

struct verify_watch {
	void *ctx;
	/* After each key, with the counts so far. */
	void (*step)(void *ctx, const struct verify_counts *counts);
	/* A difference, which is then counted and passed over. */
	void (*differ)(void *ctx, const char *text);
	/* NULL, or is given the change that would make an entry agree with its row, or end a row of no table: salvage.c. */
	void (*mend)(void *ctx, const struct op *op);
};

/* Of the catalog's tables, as of the snapshot (NULL: as it is). Without a watch the first difference is
 * ERR_STORAGE, and ends it; with one only what cannot be read is. Texts name tables and indexes, and no keys. */
enum err_code verify_all(struct engine *e, const struct catalog *catalog, struct rocks_snapshot *snapshot,
                         const struct verify_watch *watch, struct verify_counts *counts, struct err *err);

/* ---- a directory ---- */

struct check_found {
	unsigned             sealed, damaged_seals; /* files beside the data (base/seal.h) */
	uint64_t             files, bytes, damaged_files;
	uint64_t             torn_bytes; /* that the next start leaves out (manifest.h): no damage */
	bool                 compared;   /* the rows were: with damaged blocks they are not */
	struct verify_counts counts;
};

enum check_phase { CHECK_BLOCKS, CHECK_ROWS };

struct check_watch {
	void *ctx;
	/* Often: after each file, after each key. `percent` is of the phase, and an estimate for rows. */
	void (*progress)(void *ctx, enum check_phase phase, unsigned percent,
	                 const struct check_found *found);
	/* Each damaged or missing file, each difference. Texts hold no keys and no attributes. */
	void (*problem)(void *ctx, const char *text);
	/* Once the rows agree with their entries: whatever else is to hold of them. Reads only. NULL: nothing. */
	enum err_code (*rows)(void *ctx, struct table *t, struct err *err);
};

/* ERR_STORAGE if it could not be checked to the end: err says why. ERR_NONE otherwise, sound or not: *found
 * says. */
enum err_code engine_check(const char *path, const struct check_watch *watch, struct check_found *found,
                           struct err *err);

/* Nothing wrong in it. */
static inline bool check_is_sound(const struct check_found *found)
{
	return found->compared && found->damaged_seals == 0 && found->damaged_files == 0 &&
	       found->counts.differences == 0;
}

#endif
