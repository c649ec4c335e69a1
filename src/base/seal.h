/* Seal: small files of the data directory whose damage or loss would change answers: secrets and access keys. Each
 * ends with a seal: the id of its directory (directory.h), and a checksum of its name, that id and its text. It is against
 * damage and mix-ups, not against whoever may write to the directory.
 *
 *   any file     text, then "\nsealed ID SUM\n"
 *   NAME.json    the same inside the outermost object, which stays JSON: ,"seal":"ID SUM"}\n
 *
 * (S1) A change of one bit in such a file is noticed when it is read.
 * (S2) A file that was made and is missing is an error. It is never made again beside data that depends on it.
 *
 * In a directory without an id, which no server of this version has started in, files are read and written without
 * seals; the first start seals them. Any thread; writers of one file take turns by themselves. */
#ifndef BASE_SEAL_H
#define BASE_SEAL_H

#include "base/buf.h"
#include "base/err.h"

enum { SEALED_BYTES_MAX = 16 << 20 };

/* Appends the text of DIR/NAME, without the seal unless it is JSON. *found is false if there is none and none was made
 * before. ERR_STORAGE says what is wrong with it, and what to do. */
enum err_code seal_read(const char *dir, const char *name, struct buf *out, bool *found, struct err *err);

/* Replaces DIR/NAME by `text` with its seal, and lists it in FORMAT. The text of a .json file is an object, with at least
 * one member and a newline after it. Durable when it returns. */
enum err_code seal_write(const char *dir, const char *name, struct bytes text, struct err *err);

/* For a file that the caller has read: seal_read's two judgements. */
enum err_code seal_verify(const char *dir, const char *name, struct bytes file, struct err *err);
enum err_code seal_verify_absent(const char *dir, const char *name, struct err *err);

/* Did an older program write it? Then a start seals it, by reading and writing it. */
enum err_code seal_is_due(const char *dir, const char *name, bool *due, struct err *err);

/* Reads FORMAT and every file that it lists: calls `problem` for each that is not as it should be, and counts those that
 * are. ERR_STORAGE: FORMAT itself cannot be read. */
enum err_code seal_check(const char *dir, void (*problem)(void *ctx, const char *text), void *ctx,
                         unsigned *sound, struct err *err);

#endif
