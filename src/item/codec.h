/* Codec: the form of an item on disk (format 1, drawn in codec.c). Decoding checks everything: damaged bytes
 * are an error, never a crash. */
#ifndef ITEM_CODEC_H
#define ITEM_CODEC_H

#include "item/value.h"

void item_encode(struct buf *out, const struct item *item);

/* Text in the result points into `in`, which must outlive it. ERR_STORAGE if the bytes are damaged. */
enum err_code item_decode(struct arena *a, struct bytes in, struct item *out, struct err *err);

#endif
