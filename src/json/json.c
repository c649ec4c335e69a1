/* JSON trees: looking things up in what read.cc made. A request has about ten fields, so that a walk along
 * the list beats any index. */
#include "json/json.h"

#include <math.h>

const struct json *json_get(const struct json *object, struct bytes name)
{
	if (object->type != JSON_OBJECT)
		return NULL;
	for (const struct json *child = object->children; child != NULL; child = child->next)
		if (bytes_equal(child->name, name))
			return child;
	return NULL;
}

static bool children_equal(const struct json *a, const struct json *b)
{
	if (a->count != b->count)
		return false;
	a = a->children;
	b = b->children;
	for (; a != NULL && b != NULL; a = a->next, b = b->next)
		if (!bytes_equal(a->name, b->name) || !json_equal(a, b))
			return false;
	return a == b;
}

bool json_equal(const struct json *a, const struct json *b)
{
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case JSON_NULL:
		return true;
	case JSON_BOOL:
		return a->truth == b->truth;
	case JSON_INT:
		return a->integer == b->integer;
	case JSON_DOUBLE:
		return a->real == b->real;
	case JSON_STRING:
		return bytes_equal(a->text, b->text);
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return children_equal(a, b);
}

bool json_whole(const struct json *number, int64_t *out)
{
	static const double exact_max = 9007199254740992.0; /* 2^53 */

	if (number->type == JSON_INT) {
		*out = number->integer;
		return true;
	}
	if (number->type != JSON_DOUBLE || !(fabs(number->real) <= exact_max) ||
	    floor(number->real) != number->real)
		return false;
	*out = (int64_t)number->real;
	return true;
}

/* The closing quote of a string that begins at `at`, or the end: a quote after an odd number of backslashes is part of it. */
static const char *string_end(const char *at, const char *end)
{
	const char *start = at;

	while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
		const char *before = at;

		while (before > start && before[-1] == '\\')
			before--;
		if ((at - before) % 2 == 0)
			return at;
		start = ++at; /* no run of backslashes is counted twice */
	}
	return end;
}

size_t json_count(struct bytes text)
{
	const char *end = text.data + text.len;
	size_t      count = 1;

	for (const char *at = text.data; at < end && count <= JSON_VALUES_MAX; at++) {
		if (*at == '"')
			at = string_end(at + 1, end);
		else
			count += *at == ',' || *at == '[' || *at == '{';
	}
	return count;
}

const char *json_type_name(enum json_type type)
{
	switch (type) {
	case JSON_NULL:
		return "null";
	case JSON_BOOL:
		return "a boolean";
	case JSON_INT:
	case JSON_DOUBLE:
		return "a number";
	case JSON_STRING:
		return "a string";
	case JSON_ARRAY:
		return "an array";
	case JSON_OBJECT:
		break;
	}
	return "an object";
}
