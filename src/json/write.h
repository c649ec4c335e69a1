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

/* The same for a name of our own, a literal of letters, digits and _: nothing in it needs an escape. */
static inline void json_key(struct json_writer *w, struct bytes name)
{
	char *at;

	buf_reserve(w->out, name.len + 4);
	at = w->out->data + w->out->len;
	if (w->comma)
		*at++ = ',';
	*at++ = '"';
	memcpy(at, name.data, name.len);
	at += name.len;
	*at++ = '"';
	*at++ = ':';
	w->out->len = (size_t)(at - w->out->data);
	w->comma = false;
}

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

/* The same text for every tree that means the same: members by name, numbers in one spelling (1 for 1.0). Scratch memory
 * comes from the arena. */
void json_tree_canonical(struct json_writer *w, const struct json *tree, struct arena *a);

/* ---- members, with names of our own ---- */

/* Nothing if it is empty. */
static inline void json_member_text(struct json_writer *w, struct bytes name, struct bytes text)
{
	if (text.len == 0)
		return;
	json_key(w, name);
	json_string(w, text);
}

static inline void json_member_i64(struct json_writer *w, struct bytes name, int64_t number)
{
	json_key(w, name);
	json_i64(w, number);
}

static inline void json_member_bool(struct json_writer *w, struct bytes name, bool truth)
{
	json_key(w, name);
	json_bool(w, truth);
}

#endif
