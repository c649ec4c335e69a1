/* Cursors: where a page ended, as text that a caller hands back: the key of a row, in base64 for URLs. */
#ifndef SERVICE_CURSOR_H
#define SERVICE_CURSOR_H

#include "base/arena.h"

enum { CURSOR_BYTES_MAX = 4608 }; /* the longest key there can be, and what base64 adds */

struct bytes cursor_write(struct arena *a, struct bytes pk, struct bytes sk);

/* False if it is not one. pk is never empty, sk may be; both are UTF-8 of a key's length. */
bool cursor_read(struct arena *a, struct bytes text, struct bytes *pk, struct bytes *sk);

#endif
