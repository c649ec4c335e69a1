/* Check: is a data directory sound? FORMAT, the sealed files and the journal are read as a start reads them. Every block of
 * every file of the store is read and compared with its checksum, then every row, index entry and expiry entry with those
 * that it belongs to, and what is counted with what there is. For a directory that no server has open; nothing in it is changed: it is opened for reading, nothing
 * is swept or filled meanwhile. */
#ifndef ENGINE_CHECK_H
#define ENGINE_CHECK_H

#include "engine/verify.h"

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
