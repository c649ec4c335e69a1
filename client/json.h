/* Json: reads answers, without building anything. A value is the text it was written as; looking into it walks
 * that text again. Answers are small and looked into a few times, and this way there is nothing to allocate
 * and nothing to bound but the depth.
 *
 * Every function takes any bytes whatever, checked before or not, and stays inside them. A wrong type, like a
 * missing member, is `false` and leaves the result alone. */
#ifndef CLIENT_JSON_H
#define CLIENT_JSON_H

#include "text.h"

enum { JSON_DEPTH_MAX = 16 };

/* Is this one JSON value, by the letter of RFC 8259, in UTF-8, and at most JSON_DEPTH_MAX deep? Then *value is
 * that value without the blanks around it. */
bool json_check(struct text document, struct text *value);

/* The member of that name. One that is there twice is nobody's: a value of no type. */
bool json_find(struct text object, const char *name, struct text *value);

/* Walks an array: set *at to 0 at first. False at the end, and if it is no array. */
bool json_next(struct text array, size_t *at, struct text *value);

bool json_bool(struct text value, bool *out);

/* A string as NUL-terminated text: whole characters, cut where `size` ends or a \u0000 would. */
bool json_string(struct text value, char *out, size_t size);

/* A number, rounded up to a whole one and kept within int64_t; of more than 18 digits, about that. */
bool json_whole(struct text value, int64_t *out);

#endif
