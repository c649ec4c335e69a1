/* JSON out: bytes appended to a buf. What always holds: with correct nesting and valid UTF-8 in, the result
 * is valid JSON; nothing is escaped but what must be ('"', '\' and control characters), so most text is one
 * memcpy. Called by everything that answers a request. */
#define JSON_INSIDE
#include "json/write.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "json/base64.h"
#include "json/json.h"

enum {
	ESCAPED_BYTES_MAX = 6, /* \u001f */
	NUMBER_BYTES_MAX = 32,
	HALVES_MAX = 1000000000,
};

void json_writer_init(struct json_writer *w, struct buf *out)
{
	*w = (struct json_writer){.out = out};
}

static inline void comma_place(struct json_writer *w)
{
	if (w->comma)
		buf_add_byte(w->out, ',');
	w->comma = true;
}

static void open_with(struct json_writer *w, char bracket)
{
	comma_place(w);
	buf_add_byte(w->out, (uint8_t)bracket);
	w->comma = false;
	w->depth++;
}

static void close_with(struct json_writer *w, char bracket)
{
	assert(w->depth > 0);
	buf_add_byte(w->out, (uint8_t)bracket);
	w->comma = true;
	w->depth--;
}

void json_begin_object(struct json_writer *w)
{
	open_with(w, '{');
}

void json_end_object(struct json_writer *w)
{
	close_with(w, '}');
}

void json_begin_array(struct json_writer *w)
{
	open_with(w, '[');
}

void json_end_array(struct json_writer *w)
{
	close_with(w, ']');
}

/* What follows the backslash; 'u' for the long form; 0 if the byte stands for itself. */
static const char escapes[256] = {
        'u',         'u',           'u', 'u', 'u', 'u', 'u', 'u',
        'b',         't',           'n', 'u', 'f', 'r', 'u', 'u', /* 00 to 0f */
        'u',         'u',           'u', 'u', 'u', 'u', 'u', 'u',
        'u',         'u',           'u', 'u', 'u', 'u', 'u', 'u', /* 10 to 1f */
        ['"'] = '"', ['\\'] = '\\',
};

static char *escape_put(char *at, unsigned char byte)
{
	static const char hex[] = "0123456789abcdef";
	char              kind = escapes[byte];

	*at++ = '\\';
	*at++ = kind;
	if (kind != 'u')
		return at;
	*at++ = '0';
	*at++ = '0';
	*at++ = hex[byte >> 4];
	*at++ = hex[byte & 15];
	return at;
}

/* The text from its first byte that needs an escape on; the buf has room for the worst. */
static char *escaped_put(char *at, struct bytes text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char byte = (unsigned char)text.data[i];

		if (escapes[byte] == 0)
			*at++ = (char)byte;
		else
			at = escape_put(at, byte);
	}
	return at;
}

/* How many bytes come before the first that needs an escape. */
static size_t clean_len(struct bytes text)
{
	size_t at = 0;

	for (; text.len - at >= WORD_BYTES; at += WORD_BYTES) {
		uint64_t word = word_at(text.data + at);

		if (word_below(word, ' ') | word_has(word, '"') | word_has(word, '\\'))
			break;
	}
	while (at < text.len && escapes[(unsigned char)text.data[at]] == 0)
		at++;
	return at;
}

static void quoted_put(struct buf *out, struct bytes text)
{
	size_t clean = clean_len(text);
	char  *at;

	buf_reserve(out, 2 + clean + (text.len - clean) * ESCAPED_BYTES_MAX);
	at = out->data + out->len;
	*at++ = '"';
	if (clean > 0)
		memcpy(at, text.data, clean);
	at += clean;
	if (clean < text.len)
		at = escaped_put(at, (struct bytes){text.data + clean, text.len - clean});
	*at++ = '"';
	out->len = (size_t)(at - out->data);
}

void json_name(struct json_writer *w, struct bytes name)
{
	comma_place(w);
	quoted_put(w->out, name);
	buf_add_byte(w->out, ':');
	w->comma = false;
}

void json_string(struct json_writer *w, struct bytes text)
{
	comma_place(w);
	quoted_put(w->out, text);
}

void json_base64(struct json_writer *w, struct bytes data)
{
	comma_place(w);
	buf_add_byte(w->out, '"');
	base64_encode(w->out, data);
	buf_add_byte(w->out, '"');
}

void json_i64(struct json_writer *w, int64_t value)
{
	comma_place(w);
	buf_add_i64(w->out, value);
}

/* Capacity units are multiples of a half, mostly: no need to search for those. */
static bool halves_put(struct json_writer *w, double value)
{
	uint64_t twice;

	if (!(value >= 0 && value < HALVES_MAX) || signbit(value))
		return false;
	twice = (uint64_t)(value * 2);
	if ((double)twice != value * 2)
		return false;
	json_i64(w, (int64_t)(twice / 2));
	buf_add(w->out, twice % 2 == 1 ? ".5" : ".0", 2);
	return true;
}

/* The shortest text that reads back as the same number. */
void json_double(struct json_writer *w, double value)
{
	char text[NUMBER_BYTES_MAX];
	int  len = 0;

	assert(isfinite(value));
	if (halves_put(w, value))
		return;
	for (int digits = 15; digits <= 17; digits++) {
		double back;

		len = snprintf(text, sizeof(text) - 2, "%.*g", digits, value);
		if (sscanf(text, "%lf", &back) == 1 && back == value)
			break;
	}
	if (strpbrk(text, ".e") == NULL) {
		memcpy(text + len, ".0", 2);
		len += 2;
	}
	json_raw(w, (struct bytes){text, (size_t)len});
}

void json_bool(struct json_writer *w, bool value)
{
	json_raw(w, value ? BYTES("true") : BYTES("false"));
}

void json_null(struct json_writer *w)
{
	json_raw(w, BYTES("null"));
}

void json_raw(struct json_writer *w, struct bytes json)
{
	comma_place(w);
	buf_add_bytes(w->out, json);
}

static void children_put(struct json_writer *w, const struct json *tree)
{
	for (const struct json *child = tree->json_union.children; child != NULL; child = child->next) {
		if (tree->type == JSON_OBJECT)
			json_name(w, child->name);
		json_tree(w, child);
	}
}

void json_tree(struct json_writer *w, const struct json *tree)
{
	switch (tree->type) {
	case JSON_NULL:
		json_null(w);
		break;
	case JSON_BOOL:
		json_bool(w, tree->json_union.truth);
		break;
	case JSON_INT:
		json_i64(w, tree->json_union.integer);
		break;
	case JSON_DOUBLE:
		json_double(w, tree->json_union.real);
		break;
	case JSON_STRING:
		json_string(w, tree->json_union.text);
		break;
	case JSON_ARRAY:
		json_begin_array(w);
		children_put(w, tree);
		json_end_array(w);
		break;
	case JSON_OBJECT:
		json_begin_object(w);
		children_put(w, tree);
		json_end_object(w);
		break;
	}
}

/* ---- canonical ---- */

struct member {
	const struct json *value;
	uint32_t           at; /* in the document: what is there twice keeps its order */
};

static int member_compare(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int                  order = bytes_compare(x->value->name, y->value->name);

	return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

static void object_put_sorted(struct json_writer *w, const struct json *tree, struct arena *a)
{
	struct member *members = arena_array(a, tree->count, sizeof(*members));
	uint32_t       count = 0;

	for (const struct json *m = tree->json_union.children; m != NULL; m = m->next, count++)
		members[count] = (struct member){m, count};
	if (count > 1)
		qsort(members, count, sizeof(*members), member_compare);
	json_begin_object(w);
	for (uint32_t i = 0; i < count; i++) {
		json_name(w, members[i].value->name);
		json_tree_canonical(w, members[i].value, a);
	}
	json_end_object(w);
}

void json_tree_canonical(struct json_writer *w, const struct json *tree, struct arena *a)
{
	int64_t whole;

	if (tree->type == JSON_OBJECT) {
		object_put_sorted(w, tree, a);
	} else if (tree->type == JSON_ARRAY) {
		json_begin_array(w);
		for (const struct json *m = tree->json_union.children; m != NULL; m = m->next)
			json_tree_canonical(w, m, a);
		json_end_array(w);
	} else if (json_whole(tree, &whole)) {
		json_i64(w, whole);
	} else {
		json_tree(w, tree);
	}
}
