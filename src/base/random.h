/* Random: bytes that nobody can guess, for ids, tokens and secrets. They come from the system, some hundred at a time: a call of
 * the system for each id costs more than the id. Any thread: each has bytes of its own.
 *
 * (1) No byte is given twice: it is overwritten here when it is given. The process does not fork.
 * (2) It cannot fail: without the system's bytes the process ends. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>

enum { RANDOM_KEPT_BYTES = 512 }; /* a request for more goes to the system */

void random_bytes(void *out, size_t len);

#endif
