/* Key: key values (S, N, B) as bytes whose memcmp order is the value order, each self-delimiting, so that
 * several can follow one another in a row key (engine/layout.c). The forms are drawn in key.c. */
#ifndef ITEM_KEY_H
#define ITEM_KEY_H

#include "item/value.h"

void key_encode(struct buf *out, const struct value *v);

/* The bytes that every string (or binary) starting with `prefix` has in common. */
void key_encode_prefix(struct buf *out, const struct value *prefix);

#endif
