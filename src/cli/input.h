/* Input: the files that commands are given. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "base/arena.h"
#include "base/err.h"

/* The whole of a file, or of standard input if the path is "-". ERR_INVALID, naming the path, if it cannot be read or has
 * more than bytes_max. */
enum err_code input_read(const char *path, size_t bytes_max, struct arena *a, struct bytes *out,
                         struct err *err);

#endif
