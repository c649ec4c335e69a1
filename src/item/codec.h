/* Codec: the forms of items and keys on disk, drawn in codec.c. Decoding checks everything: damaged bytes are an error,
 * never a crash. */
#ifndef ITEM_CODEC_H
#define ITEM_CODEC_H

#include "item/value.h"

void item_encode(struct buf *out, const struct item *item);

/* The same with the hour in which it lapses (engine/lapse.h) in front, which is not 0. */
void item_encode_lapsing(struct buf *out, uint32_t hour, const struct item *item);

/* That hour of an encoded item; 0 if it has none. Of any bytes. */
uint32_t item_lapse(struct bytes in);

/* What follows it: the same of two encoded items if these are the same. */
struct bytes item_members(struct bytes in);

/* Writes the item with its number `name` one higher, and tells that number. False, and nothing is written, unless there is one, whole, not negative, and what
 * comes before it is neither map nor list; also if the bytes are damaged up to there. */
bool item_count_up(struct buf *out, struct bytes in, struct bytes name, int64_t *number);

/* Text in the result points into `in`, which must outlive it. ERR_STORAGE if the bytes are damaged. */
enum err_code item_decode(struct arena *a, struct bytes in, struct item *out, struct err *err);

/* Key values (S, N, B) as bytes whose memcmp order is the value order, each self-delimiting, so that several can follow
 * one another in a row key (engine/layout.c). Nothing reads them back. */
void key_encode(struct buf *out, const struct value *v);

/* The bytes that every string (or binary) starting with `prefix` has in common. */
void key_encode_prefix(struct buf *out, const struct value *prefix);

#endif
