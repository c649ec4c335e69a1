/* Salvage: what can be kept of a data directory that a start refuses, because of its journal or of a sealed file. Says
 * exactly what would be dropped, and drops it only when told to; what is dropped is copied aside before.
 *
 *   the journal      all commits before the first damage are kept, those after it are dropped: a later commit may rest on a
 *                    lost one
 *   the store        may hold rows of dropped commits already. They stay; index and expiry entries are made to agree with rows
 *   sealed files     one that is damaged or lost is forgotten, and the next start makes another
 *
 * For a directory that no server has open. */
#ifndef ENGINE_SALVAGE_H
#define ENGINE_SALVAGE_H

#include <limits.h>

#include "base/err.h"

struct salvage_watch {
	void *ctx;
	void (*say)(void *ctx, const char *text); /* one line, for people */
};

struct salvage_found {
	bool     damaged; /* there is something to drop */
	bool     dropped;
	char     aside[PATH_MAX]; /* where copies of it are then */
	uint64_t mended;          /* entries that were made to agree with rows */
};

/* ERR_STORAGE if it could not be done: what is then wrong is no matter of the journal or of sealed files, or a copy could not
 * be made. After a crash, do it again: it goes on where it was. */
enum err_code engine_salvage(const char *path, bool drop, const struct salvage_watch *watch,
                             struct salvage_found *found, struct err *err);

#endif
