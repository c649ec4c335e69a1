/* YAML in: the same tree as JSON, so that what people write (policies, configuration) is decoded by one code
 * in either form. yaml.c is the only file that knows libyaml. No state: any thread. */
#ifndef JSON_YAML_H
#define JSON_YAML_H

#include "json/json.h"

enum {
	YAML_BYTES_MAX = 1000 * 1000,
	YAML_DEPTH_MAX = JSON_DEPTH_MAX - 1, /* JSON's reader takes a level more only if it is empty */
};

/* Reads one document into the arena, with the line of every node. A text without a document (empty, or
 * comments only) is null. Names and texts have a NUL after them. Plain scalars mean what YAML 1.2 says (yaml.c),
 * quoted ones are strings; a scalar that is a key is its text.
 *
 * ERR_SERIALIZATION, with a text that begins with line and column: invalid YAML or UTF-8, several documents,
 * anchors, aliases, tags, merge keys, duplicate keys, keys that are no scalars, nesting deeper than
 * YAML_DEPTH_MAX, numbers that JSON could not hold; also a text of more than YAML_BYTES_MAX. */
enum err_code yaml_read(struct arena *a, struct bytes text, struct json **out, struct err *err);

#endif
