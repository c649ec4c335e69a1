/* Offline: what can be done to a data directory that no server has open. The command line shows the progress; the
 * engine that wrote the directory does the work. */
#ifndef SERVER_OFFLINE_H
#define SERVER_OFFLINE_H

#include <limits.h>

#include "base/arena.h"
#include "base/err.h"

/* ---- check: is the directory sound? Nothing in it is changed ---- */

enum offline_phase { OFFLINE_BLOCKS, OFFLINE_ROWS };

/* What a check has found, so far or in all. */
struct offline_check {
	unsigned sealed, damaged_seals; /* files beside the data */
	uint64_t files, bytes, damaged_files;
	uint64_t torn_bytes; /* that the next start leaves out: no damage */
	uint64_t rows, index_entries, expiry_entries;
	uint64_t differences;               /* of rows and their entries */
	uint64_t users, addresses, markers; /* of the table `users` */
	uint64_t broken; /* of what always holds of them (service/user_check.h): no damage */
	bool     sound;  /* once it has ended: nothing is damaged */
};

struct offline_watch {
	void *ctx;
	/* Often: after each file, after each key. `percent` is of the phase, and an estimate for rows. */
	void (*progress)(void *ctx, enum offline_phase phase, unsigned percent,
	                 const struct offline_check *found);
	/* Each damaged or missing file, each difference. Texts hold no keys and no attributes. */
	void (*problem)(void *ctx, const char *text);
};

struct offline_place {
	const char *path;        /* the directory */
	const char *users_table; /* what it is called there */
};

/* ERR_STORAGE if it could not be checked to the end: err says why. ERR_NONE otherwise, sound or not. */
enum err_code offline_check(const struct offline_place *place, const struct offline_watch *watch,
                            struct offline_check *found, struct err *err);

/* ---- salvage: what can be kept of a directory that a start refuses ---- */

struct offline_salvage {
	bool damaged; /* there is something to drop */
	bool dropped;
	char aside[PATH_MAX]; /* where copies of it are then; empty: there are none */
};

/* `say` is told, a line at a time and for people, what would be dropped; with `drop` it is. ERR_STORAGE if that could
 * not be done. After a crash, do it again: it goes on where it was. */
enum err_code offline_salvage(const char *path, bool drop, void (*say)(void *ctx, const char *text),
                              struct offline_salvage *found, struct err *err);

/* ---- the words of policies ---- */

/* Every action that a policy can speak of, "dynamodb:PutItem". Returns how many; they are in the arena. */
size_t offline_actions(struct arena *a, struct bytes **out);

#endif
