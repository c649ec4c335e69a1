/* Scalar: what an unquoted scalar of YAML means, by the core schema of YAML 1.2 in its lower-case spellings:
 *
 *   null  ~  (nothing)             null
 *   true  false                    booleans; yes, No, on, True are strings
 *   12  -3  +4  0o17  0xff         integers; 010 is ten
 *   1.5  .5  1e3                   floats
 *
 * Everything else is a string: 2012-10-17, 12:30, 1_000, 127.0.0.1. */
#ifndef JSON_SCALAR_H
#define JSON_SCALAR_H

#include "json/json.h"

/* Fills type and value of *to; a string's text is `text` itself. False if it is a number that the tree cannot
 * hold: an integer beyond 64 bits, a float beyond a double's range, an infinity or .nan. */
bool scalar_resolve(const char *text, struct json *to);

#endif
