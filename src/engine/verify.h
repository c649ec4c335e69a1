/* Verify: rows, index entries and expiry entries of one state of the store, each compared with those that it belongs to; and counts with what
 * there is. Called by check.c, salvage.c and, for tests, on an engine that is open (engine.h). Changes nothing. */
#ifndef ENGINE_VERIFY_H
#define ENGINE_VERIFY_H

#include "engine/state.h"

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
	/* NULL, or counts the rows and index entries that there are. */
	struct counts *tally;
};

/* Of the catalog's tables, as of the snapshot (NULL: as it is). Without a watch the first difference is
 * ERR_STORAGE, and ends it; with one only what cannot be read is. Texts name tables and indexes, and no keys. */
enum err_code verify_all(struct engine *e, const struct catalog *catalog, struct rocks_snapshot *snapshot,
                         const struct verify_watch *watch, struct verify_counts *counts, struct err *err);

/* What is counted of each table and index of the catalog, against what there is: how many are wrong. *err is the last of them. */
struct verify_tally {
	struct counts        *is, *said;
	const struct catalog *catalog;
	void (*differ)(void *ctx, const char *text); /* each; NULL */
	void *ctx;
};
unsigned verify_tally(const struct verify_tally *t, struct err *err);

#endif
