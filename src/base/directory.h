/* Directory: what a data directory says of itself, in DIR/FORMAT:
 *
 *   gatehouse 7
 *   id 5f0c…                              random, made with the directory
 *   holds store journal                   what was made in it and must be there from then on
 *   sealed identifiers.key keys.json      small files that must be there, each with a seal (seal.h)
 *   unsealed                              those of an older program, which the next start seals
 *   sum 9a41…                             SHA-256 of the lines above
 *
 * (D1) A name is listed before anything is answered that depends on what it names. So what is listed and missing was
 *      lost, and what is not listed may be made.
 * (D2) A change of one bit is noticed.
 *
 * Formats 2 and 3 had the first line only. In format 5 rows may lapse (engine/lapse.h), which a program of format 4 would not remove; in
 * format 6 their index entries too, which one of format 5 would leave behind; in format 7 the store has a family of files for logs (engine/rocks.h), which
 * one of format 6 cannot open. A start (disk.h) makes this file, or brings it up to date; other commands only add names. */
#ifndef BASE_DIRECTORY_H
#define BASE_DIRECTORY_H

#include "base/err.h"

enum {
	DIRECTORY_FORMAT = 7,
	DIRECTORY_FORMAT_SEALED = 4, /* from here on: an id, and seals */
	DIRECTORY_FORMAT_OLDEST = 2, /* that can be read: records of its journal share units (J5) */
	DIRECTORY_ID_BYTES = 16,
	DIRECTORY_NAMES_MAX = 16,
	DIRECTORY_NAME_BYTES = 32, /* with its NUL */
};

struct directory_names {
	unsigned count;
	char     list[DIRECTORY_NAMES_MAX][DIRECTORY_NAME_BYTES];
};

struct directory {
	int                    format; /* 0: there is no FORMAT */
	uint8_t                id[DIRECTORY_ID_BYTES];
	struct directory_names holds, sealed, unsealed;
};

/* Reads DIR/FORMAT; format 0 if there is none. ERR_STORAGE: it is damaged, or this program is too old for it. */
enum err_code directory_read(const char *dir, struct directory *out, struct err *err);

/* Makes a FORMAT with a new id. `old_format` is 0 for a new directory, or what it was written in; then what such a program
 * made is listed. Files without a seal are listed for the start to seal. */
enum err_code directory_make(const char *dir, int old_format, struct err *err);

/* Raises the format of a FORMAT with an id to the present one. */
enum err_code directory_raise(const char *dir, struct err *err);

/* Lists one more thing that the directory holds, or a file that has its seal. Does nothing if it is listed. Processes take
 * turns. */
enum err_code directory_add_held(const char *dir, const char *name, struct err *err);
enum err_code directory_add_sealed(const char *dir, const char *name, struct err *err);

/* Takes a file off the lists: it is lost for good, and another may be made. */
enum err_code directory_forget(const char *dir, const char *name, struct err *err);

bool directory_names_have(const struct directory_names *names, const char *name);

static inline bool directory_has_seals(const struct directory *d)
{
	return d->format >= DIRECTORY_FORMAT_SEALED;
}

#endif
