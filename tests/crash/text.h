/* Text: building requests and random content, and comparing what came back. */
#ifndef CRASH_TEXT_H
#define CRASH_TEXT_H

#include "base/buf.h"
#include "json/json.h"
#include "random.h"

void text_add(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Random characters for the inside of a JSON string: letters, escapes, and UTF-8 of two to four bytes. */
void text_add_random(struct buf *b, struct random *r, uint64_t pieces);

/* `bytes` random bytes as base64; a multiple of three. */
void text_add_base64(struct buf *b, struct random *r, uint64_t bytes);

/* A generator for content that is the same whenever it is asked for. */
struct random text_random(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* The same value, whatever the order of names within objects? */
bool text_same(const struct json *a, const struct json *b);

/* The child of that name, or NULL: also if there is no object. */
const struct json *text_get(const struct json *object, const char *name);

/* The text of {"S": "…"} or {"N": "…"} under that name, and as a number; "" and 0 if there is none. */
struct bytes text_attribute(const struct json *item, const char *name);
int64_t      text_number(const struct json *item, const char *name);

#endif
