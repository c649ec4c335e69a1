/* JSON out: a writer that appends to a buf and places the commas. The caller nests correctly; asserts catch
 * it when not. */
#ifndef JSON_WRITE_H
#define JSON_WRITE_H

#include "base/buf.h"

struct json;

struct json_writer {
	struct buf *out;
	bool        comma; /* the next thing written at this level needs a comma before it */
	unsigned    depth; /* objects and arrays that are open */
};

void json_writer_init(struct json_writer *w, struct buf *out);

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);

/* The name of the next value, within an object. */
void json_name(struct json_writer *w, struct bytes name);

void json_string(struct json_writer *w, struct bytes text); /* must be valid UTF-8; escapes what must be */
void json_base64(struct json_writer *w, struct bytes data); /* as a base64 string */
void json_i64(struct json_writer *w, int64_t value);
void json_double(struct json_writer *w, double value); /* finite; always with a point or an exponent */
void json_bool(struct json_writer *w, bool value);
void json_null(struct json_writer *w);

/* Text that is JSON already. */
void json_raw(struct json_writer *w, struct bytes json);

/* A tree that was read. */
void json_tree(struct json_writer *w, const struct json *tree);

#endif
