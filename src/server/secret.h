/* Secret: random bytes that are made once and kept in a file of the data directory, readable by its owner
 * only. */
#ifndef SERVER_SECRET_H
#define SERVER_SECRET_H

#include "base/err.h"

/* Reads DIR/NAME, or makes it. ERR_STORAGE if it cannot, or if the file has another length. */
enum err_code secret_file_read(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err);

#endif
