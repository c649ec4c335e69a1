/* Cursors: where a page of a list ended, as text that a caller hands back: the key of a row, as "<bytes of pk>:<pk><sk>" in base64 with - and _
 * and without padding, so that it can stand in a URL. */
#ifndef SERVICE_CURSOR_H
#define SERVICE_CURSOR_H

#include "base/arena.h"

enum { CURSOR_BYTES_MAX = 4608 }; /* the longest key there can be, and what base64 adds */

struct bytes cursor_write(struct arena *a, struct bytes pk, struct bytes sk);

/* False if it is not one. pk is never empty, sk may be; both are UTF-8 of a key's length. */
bool cursor_read(struct arena *a, struct bytes text, struct bytes *pk, struct bytes *sk);

#endif
