/* Shape: the walk. It is recursive, but shapes are finite, and attribute values, which are not, are bounded
 * by JSON_DEPTH_MAX. Where the walk stands is a chain of frames on its stack, printed only when something is wrong. */
#include "dynamo/shape.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "dynamo/wire.h"
#include "item/messages.h"
#include "table/schema.h"

/* One step of the path to a field: 'requestItems.orders.member.2.member.putRequest'. */
struct frame {
	const struct frame *up;
	struct bytes        name;   /* of a field, or the key of a map's member */
	uint32_t            index;  /* of a list's member, from 1; 0 if it has a name */
	bool                member; /* ".member" follows, as after list indexes and map keys */
};

struct walk {
	struct buf  wrong; /* the violations so far, "; " between them */
	unsigned    wrong_count;
	struct err *err;
};

static enum err_code walk_any(struct walk *w, const struct frame *at, const struct shape *shape,
                              const struct json *json);

/* ---- violations, in DynamoDB's words ---- */

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
		return (struct bytes){json_text(json).data, json_text(json).len < SHAPE_ECHO_BYTES_MAX
		                                                    ? json_text(json).len
		                                                    : SHAPE_ECHO_BYTES_MAX};
	case JSON_INT:
		return (struct bytes){number, (size_t)snprintf(number, 32, "%" PRId64, json_integer(json))};
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

/* That value (NULL: nothing) at that place breaks the rule. Past SHAPE_ERRORS_MAX they are only counted. */
static void violation_add(struct walk *w, const struct frame *at, const struct json *json, struct bytes rule)
{
	struct buf *out = &w->wrong;
	char        number[32];

	if (++w->wrong_count > SHAPE_ERRORS_MAX)
		return;
	if (w->wrong_count > 1)
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

/* The same, of a rule that ends with a number. */
static void violation_number(struct walk *w, const struct frame *at, const struct json *json,
                             const char *rule, int64_t bound)
{
	char text[128];

	snprintf(text, sizeof(text), "%s %" PRId64, rule, bound);
	violation_add(w, at, json, bytes_of(text));
}

/* ---- constraints ---- */

static void length_check(struct walk *w, const struct frame *at, const struct shape *s,
                         const struct json *json, size_t len)
{
	if ((s->checks & SHAPE_MIN) && (int64_t)len < s->min)
		violation_number(w, at, json, MSG_RULE_LENGTH_MIN, s->min);
	if ((s->checks & SHAPE_MAX) && (int64_t)len > s->max)
		violation_number(w, at, json, MSG_RULE_LENGTH_MAX, s->max);
}

/* Is the text one of "[A, B, C]"? */
static bool is_choice(const char *choices, struct bytes text)
{
	const char *at = choices + 1;

	while (*at != '\0') {
		size_t len = strcspn(at, ",]");

		if (bytes_equal((struct bytes){at, len}, text))
			return true;
		at += len + 1;
		at += strspn(at, " ");
	}
	return false;
}

static void string_check(struct walk *w, const struct frame *at, const struct shape *s,
                         const struct json *json)
{
	char rule[256];

	if ((s->checks & SHAPE_ARN) && arn_is(json_text(json)))
		return;
	if ((s->checks & SHAPE_NAME) &&
	    (json_text(json).len == 0 || !bytes_hold_only(json_text(json), TABLE_NAME_MARKS)))
		violation_add(w, at, json, BYTES(MSG_RULE_NAME));
	length_check(w, at, s, json, json_text(json).len);
	if (s->choices == NULL || is_choice(s->choices, json_text(json)))
		return;
	snprintf(rule, sizeof(rule), MSG_RULE_CHOICE, s->choices);
	violation_add(w, at, json, bytes_of(rule));
}

static void number_check(struct walk *w, const struct frame *at, const struct shape *s,
                         const struct json *json)
{
	if ((s->checks & SHAPE_MIN) && json_integer(json) < s->min)
		violation_number(w, at, json, MSG_RULE_VALUE_MIN, s->min);
	if ((s->checks & SHAPE_MAX) && json_integer(json) > s->max)
		violation_number(w, at, json, MSG_RULE_VALUE_MAX, s->max);
}

/* ---- types ---- */

/* With room to spare, so that rounding does not matter. */
static bool fits_i64(double real)
{
	return real > -9e18 && real < 9e18;
}

static enum err_code walk_number(struct walk *w, const struct frame *at, const struct shape *s,
                                 const struct json *json)
{
	const char *wanted = s->kind == SHAPE_LONG ? "Long" : "Integer";
	struct json whole;

	if (json->type != JSON_INT && !(json->type == JSON_DOUBLE && fits_i64(json_real(json))))
		return wire_scalar_wrong(json, wanted, w->err);
	whole = json_of_integer(shape_integer(json));
	if (s->kind == SHAPE_INTEGER &&
	    (json_integer(&whole) > INT32_MAX || json_integer(&whole) < INT32_MIN))
		return wire_scalar_wrong(json, wanted, w->err);
	number_check(w, at, s, &whole);
	return ERR_NONE;
}

/* A null in a list or map is reported as missing; among attribute values, later, as an empty one. */
static const struct json *null_is_absent(const struct shape *s, const struct json *json)
{
	return json->type == JSON_NULL && s->kind != SHAPE_VALUE ? NULL : json;
}

static enum err_code walk_list(struct walk *w, const struct frame *at, const struct shape *s,
                               const struct json *json)
{
	struct frame member = {at, {0}, 0, true};

	if (json->type == JSON_OBJECT)
		return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_STRUCTURE);
	if (json->type != JSON_ARRAY)
		return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_FIELD);
	length_check(w, at, s, json, json->count);
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc;

		member.index++;
		rc = walk_any(w, &member, s->member, null_is_absent(s->member, child));
		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

static bool keys_are_tables(const struct json *map)
{
	for (const struct json *child = json_children(map); child != NULL; child = child->next)
		if (!arn_is(child->name) && !schema_name_is(child->name))
			return false;
	return true;
}

static enum err_code walk_map(struct walk *w, const struct frame *at, const struct shape *s,
                              const struct json *json)
{
	if (json->type == JSON_ARRAY)
		return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_MAP);
	if (json->type != JSON_OBJECT)
		return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_FIELD);
	length_check(w, at, s, json, json->count);
	if (s->member->kind == SHAPE_STRUCT || s->member->kind == SHAPE_LIST) {
		if (json->count > SHAPE_MAP_MAX)
			violation_number(w, at, json, MSG_RULE_LENGTH_MAX, SHAPE_MAP_MAX);
		else if (shape_repeated(w->wrong.arena, json) != NULL)
			return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_DUPLICATE);
	}
	if ((s->checks & SHAPE_KEYS) && !keys_are_tables(json))
		violation_add(w, at, json, BYTES(MSG_RULE_TABLE_KEYS));
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		struct frame  member = {at, child->name, 0, true};
		enum err_code rc = walk_any(w, &member, s->member, null_is_absent(s->member, child));

		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

static enum err_code walk_fields(struct walk *w, const struct frame *at, const struct shape *s,
                                 const struct json *const slots[])
{
	for (unsigned i = 0; i < s->field_count; i++) {
		struct frame  field = {at, s->fields[i].name, 0, false};
		enum err_code rc;

		if (slots[i] == NULL && !s->fields[i].required)
			continue;
		rc = walk_any(w, &field, s->fields[i].shape, slots[i]);
		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

static enum err_code walk_struct(struct walk *w, const struct frame *at, const struct shape *s,
                                 const struct json *json)
{
	const struct json *slots[SHAPE_FIELDS_MAX];

	if (json->type == JSON_ARRAY)
		return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_CLASS, s->java);
	if (json->type != JSON_OBJECT)
		return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_FIELD);
	if (!shape_slots(s, json, slots))
		return err_set(w->err, ERR_SERIALIZATION, MSG_TYPE_DUPLICATE);
	return walk_fields(w, at, s, slots);
}

/* json is NULL where something required is absent. */
static enum err_code walk_any(struct walk *w, const struct frame *at, const struct shape *s,
                              const struct json *json)
{
	if (json == NULL) {
		violation_add(w, at, NULL, BYTES(MSG_RULE_NOT_NULL));
		return ERR_NONE;
	}
	switch (s->kind) {
	case SHAPE_STRING:
		if (json->type != JSON_STRING)
			return wire_scalar_wrong(json, "String", w->err);
		string_check(w, at, s, json);
		return ERR_NONE;
	case SHAPE_BOOLEAN:
		return json->type == JSON_BOOL ? ERR_NONE : wire_scalar_wrong(json, "Boolean", w->err);
	case SHAPE_INTEGER:
	case SHAPE_LONG:
		return walk_number(w, at, s, json);
	case SHAPE_LIST:
		return walk_list(w, at, s, json);
	case SHAPE_MAP:
		return walk_map(w, at, s, json);
	case SHAPE_STRUCT:
		return walk_struct(w, at, s, json);
	case SHAPE_VALUE:
		return wire_value_check(json, w->err);
	case SHAPE_UNSUPPORTED:
		break;
	}
	violation_add(w, at, json, BYTES(MSG_RULE_UNSUPPORTED));
	return ERR_NONE;
}

/* ---- public ---- */

bool arn_is(struct bytes text)
{
	return bytes_starts_with(text, BYTES("arn:"));
}

int64_t shape_integer(const struct json *json)
{
	return json->type == JSON_INT ? json_integer(json) : (int64_t)json_real(json);
}

/* Names of one length mostly differ in their first letter, which spares the call. */
static inline bool same_name(struct bytes a, struct bytes b)
{
	return a.len == b.len && a.len > 0 && a.data[0] == b.data[0] && memcmp(a.data, b.data, a.len) == 0;
}

static struct bytes label_of(const struct json *json)
{
	return json->type == JSON_STRING && json->name.data == NULL ? json_text(json) : json->name;
}

static int labels_order(const void *a, const void *b)
{
	return bytes_compare(label_of(*(const struct json *const *)a),
	                     label_of(*(const struct json *const *)b));
}

/* By sorting: names can be long and alike, and comparing each with each would cost a peer little and us much.
 */
const struct json *shape_repeated(struct arena *a, const struct json *list)
{
	const struct json **sorted = arena_array(a, list->count, sizeof(*sorted));
	uint32_t            count = 0;

	for (const struct json *child = json_children(list); child != NULL; child = child->next)
		sorted[count++] = child;
	qsort(sorted, count, sizeof(*sorted), labels_order);
	for (uint32_t i = 1; i < count; i++)
		if (labels_order(&sorted[i - 1], &sorted[i]) == 0)
			return sorted[i];
	return NULL;
}

/* field_count if there is none. */
static unsigned field_named(const struct shape *shape, struct bytes name)
{
	unsigned i = 0;

	while (i < shape->field_count &&
	       !(shape->fields[i].shape != NULL && same_name(shape->fields[i].name, name)))
		i++;
	return i;
}

bool shape_slots(const struct shape *shape, const struct json *object, const struct json *slots[])
{
	uint32_t seen = 0;

	assert(shape->field_count <= SHAPE_FIELDS_MAX);
	memset(slots, 0, shape->field_count * sizeof(slots[0]));
	for (const struct json *child = json_children(object); child != NULL; child = child->next) {
		unsigned i = field_named(shape, child->name);

		if (i == shape->field_count)
			continue;
		if (seen >> i & 1)
			return false;
		seen |= 1u << i;
		if (child->type != JSON_NULL)
			slots[i] = child;
	}
	return true;
}

enum err_code shape_read(struct arena *a, const struct shape *shape, const struct json *document,
                         const struct json *slots[], struct err *err)
{
	struct walk   w = {.err = err};
	enum err_code rc;

	assert(shape->kind == SHAPE_STRUCT);
	if (document->type != JSON_OBJECT)
		return err_set(err, ERR_SERIALIZATION, "%s", "");
	buf_init(&w.wrong, a);
	if (!shape_slots(shape, document, slots))
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_DUPLICATE);
	rc = walk_fields(&w, NULL, shape, slots);
	if (rc != ERR_NONE || w.wrong_count == 0)
		return rc;
	return err_set(err, ERR_INVALID, "%u validation error%s detected: %.*s", w.wrong_count,
	               w.wrong_count == 1 ? "" : "s", BYTES_ARG(buf_bytes(&w.wrong)));
}
