/* Tags, which CreateTable has in common with TagResource (request_admin.c). */
#ifndef DYNAMO_REQUEST_TAGS_H
#define DYNAMO_REQUEST_TAGS_H

#include "dynamo/reader.h"

extern const struct shape shape_tags;

/* Sorted by key, each key once. tags NULL: none. */
enum err_code tags_read(struct request_reader *r, const struct json *tags, struct tag **out, uint32_t *count);

#endif
