/* Secret: random bytes that are made once and kept in a sealed file of the data directory (base/seal.h), readable by its
 * owner only. */
#ifndef SERVER_SECRET_H
#define SERVER_SECRET_H

#include "base/err.h"

/* Reads DIR/NAME; makes it if it never was made. ERR_STORAGE if it was lost, is damaged, or has another length. At a start,
 * after the engine opened. */
enum err_code secret_file_read(const char *dir, const char *name, uint8_t *out, size_t len, struct err *err);

#endif
