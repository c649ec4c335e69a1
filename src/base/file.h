/* File: small files that must survive: replaced whole, with their directory entry, or not at all. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"
#include "base/err.h"

/* Opens a file (mode 0600 if flags make it), and waits for nobody: a FIFO is refused, which would keep its reader until a writer comes,
 * and its writer until a reader does. ERR_NOT_FOUND, or ERR_STORAGE with the path. */
enum err_code file_open_now(const char *path, int flags, int *fd, struct err *err);

/* Appends the whole of a file, at most bytes_max; more is an error. *found is false if there is none. A link is not
 * followed. */
enum err_code file_read(const char *path, size_t bytes_max, struct buf *out, bool *found, struct err *err);

/* Replaces DIR/NAME by `text`: written aside with mode 0600, synced, renamed, and the directory synced. A crash leaves
 * the old file or the new one. Links in the directory are not followed.
 * ERR_DISK_FULL: there was no room, and it is the old one. */
enum err_code file_replace(const char *dir, const char *name, struct bytes text, struct err *err);

/* Makes the names in a directory durable. */
enum err_code file_sync_directory(const char *path, struct err *err);

/* Everything, or false, with errno. */
bool file_write_all(int fd, struct bytes text);

/* If root runs this process and the directory belongs to another user, the process becomes that user, for good. Call it
 * before touching anything in a data directory: its owner may have put links there, which root would follow. Files that
 * are made later belong to the owner, who runs the server. Does nothing if there is no such directory. */
enum err_code file_become_owner(const char *dir, struct err *err);

#endif
