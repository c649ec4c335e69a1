/* Text: see text.h. Content is a function of its place, so that nobody has to remember it. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRINTED_MAX = 4096 };

void text_add(struct buf *b, const char *format, ...)
{
	va_list args;
	int     n;

	buf_reserve(b, PRINTED_MAX);
	va_start(args, format);
	n = vsnprintf(b->data + b->len, PRINTED_MAX, format, args);
	va_end(args);
	if (n < 0 || n >= PRINTED_MAX)
		abort();
	b->len += (size_t)n;
}

void text_add_random(struct buf *b, struct random *r, uint64_t pieces)
{
	static const char *const kinds[16] = {"a",
	                                      "Bc",
	                                      "de f",
	                                      "0123",
	                                      "\\\"",
	                                      "\\\\",
	                                      "\\n",
	                                      "\\u0000",
	                                      "\xc3\xa9",
	                                      "\xe2\x82\xac",
	                                      "\xf0\x9f\x94\x91",
	                                      "/",
	                                      "{}",
	                                      "\\t",
	                                      "x",
	                                      "yz"};

	for (uint64_t bits = 0, i = 0; i < pieces; i++, bits >>= 4) {
		if (i % 16 == 0)
			bits = random_next(r);
		buf_add_bytes(b, bytes_of(kinds[bits & 15]));
	}
}

void text_add_base64(struct buf *b, struct random *r, uint64_t bytes)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (uint64_t i = 0; i < bytes / 3 * 4; i++)
		buf_add_byte(b, (uint8_t)digits[random_below(r, 64)]);
}

struct random text_random(uint64_t seed, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct random  r = {seed};
	const uint64_t parts[] = {a, b, c, d};

	for (int i = 0; i < 4; i++)
		r.state = random_next(&r) ^ parts[i];
	return r;
}

static bool same_object(const struct json *a, const struct json *b)
{
	for (const struct json *child = json_children(a); child != NULL; child = child->next) {
		const struct json *other = json_get(b, child->name);

		if (other == NULL || !text_same(child, other))
			return false;
	}
	return true;
}

static bool same_array(const struct json *a, const struct json *b)
{
	const struct json *x = json_children(a), *y = json_children(b);

	for (; x != NULL && y != NULL; x = x->next, y = y->next)
		if (!text_same(x, y))
			return false;
	return x == NULL && y == NULL;
}

bool text_same(const struct json *a, const struct json *b)
{
	if (a->type != b->type || a->count != b->count)
		return false;
	switch (a->type) {
	case JSON_OBJECT:
		return same_object(a, b);
	case JSON_ARRAY:
		return same_array(a, b);
	case JSON_STRING:
		return bytes_equal(json_text(a), json_text(b));
	case JSON_BOOL:
		return json_truth(a) == json_truth(b);
	case JSON_INT:
		return json_integer(a) == json_integer(b);
	case JSON_NULL:
		return true;
	default: /* an item holds no JSON doubles: its numbers are strings */
		return false;
	}
}

const struct json *text_get(const struct json *object, const char *name)
{
	return object == NULL ? NULL : json_get(object, bytes_of(name));
}

struct bytes text_attribute(const struct json *item, const char *name)
{
	const struct json *value = text_get(item, name);

	if (value == NULL || value->type != JSON_OBJECT || value->count != 1 ||
	    json_children(value)->type != JSON_STRING)
		return (struct bytes){"", 0};
	return json_text(json_children(value));
}

int64_t text_number(const struct json *item, const char *name)
{
	struct bytes text = text_attribute(item, name);
	char         digits[64] = "";

	if (text.len < sizeof(digits))
		memcpy(digits, text.data, text.len);
	return strtoll(digits, NULL, 10);
}
