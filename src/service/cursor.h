/* Cursors: where a page of a list ended, as text that a caller hands back: the key of a row, as "<bytes of pk>:<pk><sk>", encrypted, in base64 with - and _
 * and without padding, so that it can stand in a URL. It is encrypted because the row may be one that the caller is not shown: a user whom its policy denies.
 * All processes that share the tables read each other's cursors (identifier.h has the key). */
#ifndef SERVICE_CURSOR_H
#define SERVICE_CURSOR_H

#include "service/context.h"

enum { CURSOR_BYTES_MAX = 4608 }; /* the longest key there can be, and what encryption and base64 add */

struct bytes cursor_write(const struct context *ctx, struct bytes pk, struct bytes sk);

/* False if it is not one. pk is never empty, sk may be; both are UTF-8 of a key's length. */
bool cursor_read(const struct context *ctx, struct bytes text, struct bytes *pk, struct bytes *sk);

/* The same without encryption, for rows that no caller is shown: where a job goes on. */
struct bytes cursor_pack(struct arena *a, struct bytes pk, struct bytes sk);
bool         cursor_unpack(struct arena *a, struct bytes text, struct bytes *pk, struct bytes *sk);

#endif
