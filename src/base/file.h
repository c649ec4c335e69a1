/* File: small files that must survive: replaced whole, with their directory entry, or not at all. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/err.h"

/* Replaces DIR/NAME by `text`: written aside with mode 0600, synced, renamed, and the directory synced. A crash leaves
 * the old file or the new one. If root writes it, it belongs to the owner of the directory, who runs the server. */
enum err_code file_replace(const char *dir, const char *name, struct bytes text, struct err *err);

/* Makes the names in a directory durable. */
enum err_code file_sync_directory(const char *path, struct err *err);

/* Everything, or false, with errno. */
bool file_write_all(int fd, struct bytes text);

/* False if it cannot be given. */
bool file_give_to_owner(int fd, const char *dir);

#endif
