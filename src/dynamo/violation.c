/* Violations: their texts, in DynamoDB's words. */
#include "dynamo/violation.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "dynamo/shape.h"

static void path_print(struct buf *out, const struct frame *at)
{
	char number[16];

	if (at->up != NULL) {
		path_print(out, at->up);
		buf_add_byte(out, '.');
	}
	if (at->index > 0)
		buf_add(out, number, (size_t)snprintf(number, sizeof(number), "%" PRIu32, at->index));
	else if (at->member)
		buf_add_bytes(out, at->name);
	else {
		/* fields are named in lower camel case */
		buf_add_byte(out, (uint8_t)tolower((unsigned char)at->name.data[0]));
		buf_add(out, at->name.data + 1, at->name.len - 1);
	}
	if (at->member)
		buf_add_bytes(out, BYTES(".member"));
}

/* The content of lists and maps is not repeated: it may be personal. */
static struct bytes value_print(const struct json *json, char number[32])
{
	switch (json->type) {
	case JSON_STRING:
		return (struct bytes){json->text.data, json->text.len < SHAPE_ECHO_BYTES_MAX
		                                               ? json->text.len
		                                               : SHAPE_ECHO_BYTES_MAX};
	case JSON_INT:
		return (struct bytes){number, (size_t)snprintf(number, 32, "%" PRId64, json->integer)};
	case JSON_ARRAY:
		return json->count == 0 ? BYTES("[]") : BYTES("[...]");
	case JSON_OBJECT:
		return json->count == 0 ? BYTES("{}") : BYTES("{...}");
	case JSON_NULL:
	case JSON_BOOL:
	case JSON_DOUBLE:
		break;
	}
	return bytes_of(json_type_name(json->type));
}

void violation_add(struct violations *v, const struct frame *at, const struct json *json, struct bytes rule)
{
	struct buf *out = &v->text;
	char        number[32];

	if (++v->count > SHAPE_ERRORS_MAX)
		return;
	if (v->count > 1)
		buf_add_bytes(out, BYTES("; "));
	buf_add_bytes(out, BYTES("Value "));
	if (json == NULL) {
		buf_add_bytes(out, BYTES("null"));
	} else {
		buf_add_byte(out, '\'');
		buf_add_bytes(out, value_print(json, number));
		buf_add_byte(out, '\'');
	}
	buf_add_bytes(out, BYTES(" at '"));
	path_print(out, at);
	buf_add_bytes(out, BYTES("' failed to satisfy constraint: "));
	buf_add_bytes(out, rule);
}

void violation_number(struct violations *v, const struct frame *at, const struct json *json, const char *rule,
                      int64_t bound)
{
	char text[128];

	snprintf(text, sizeof(text), "%s %" PRId64, rule, bound);
	violation_add(v, at, json, bytes_of(text));
}
