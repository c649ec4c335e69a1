/* Wire: JSON to values and back. The two directions are each other's inverse, so that what the server answers, a
 * client of this code reads as the same items (up to the canonical form of numbers and the order of sets).
 *
 * DynamoDB's own server is written in Java, and its texts about JSON types show it; clients only ever see them for
 * requests that no SDK sends. Recursion is bounded by JSON_DEPTH_MAX, which the JSON reader enforced. */
#include "dynamo/wire.h"

#include <assert.h>

#include "item/messages.h"
#include "json/base64.h"

/* ---- first step: are the JSON types those of attribute values? ---- */

static const char *token_name(const struct json *json)
{
	switch (json->type) {
	case JSON_BOOL:
		return json_truth(json) ? "TRUE_VALUE" : "FALSE_VALUE";
	case JSON_INT:
		return "NUMBER_VALUE";
	case JSON_DOUBLE:
		return "DECIMAL_VALUE";
	case JSON_NULL:
		return "NULL_VALUE";
	case JSON_STRING:
	case JSON_ARRAY:
	case JSON_OBJECT:
		break;
	}
	return "STRING_VALUE";
}

enum err_code wire_scalar_wrong(const struct json *json, const char *wanted, struct err *err)
{
	if (json->type == JSON_OBJECT)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_STRUCTURE);
	if (json->type == JSON_ARRAY)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_JAVA, wanted);
	return err_set(err, ERR_SERIALIZATION, MSG_TYPE_SCALAR, token_name(json), wanted);
}

static enum err_code binary_check(const struct json *json, struct err *err)
{
	if (json->type == JSON_OBJECT)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_STRUCTURE);
	if (json->type != JSON_STRING)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_BLOB);
	switch (base64_check(json_text(json))) {
	case BASE64_LENGTH:
		return err_set(err, ERR_SERIALIZATION, MSG_BASE64_LENGTH, json_text(json).len);
	case BASE64_CHARACTER:
		return err_set(err, ERR_SERIALIZATION, MSG_BASE64_CHARACTER);
	case BASE64_BITS:
		return err_set(err, ERR_SERIALIZATION, MSG_BASE64_BITS);
	case BASE64_OK:
		break;
	}
	return ERR_NONE;
}

static enum err_code text_check(const struct json *json, struct err *err)
{
	return json->type == JSON_STRING ? ERR_NONE : wire_scalar_wrong(json, "String", err);
}

static enum err_code truth_check(const struct json *json, struct err *err)
{
	return json->type == JSON_BOOL ? ERR_NONE : wire_scalar_wrong(json, "Boolean", err);
}

static enum err_code list_check(const struct json *json,
                                enum err_code (*check)(const struct json *, struct err *), struct err *err)
{
	if (json->type == JSON_OBJECT)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_STRUCTURE);
	if (json->type != JSON_ARRAY)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_FIELD);
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc = check(child, err);

		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

static enum err_code typed_check(enum value_type type, const struct json *json, struct err *err)
{
	switch (type) {
	case VALUE_S:
	case VALUE_N:
		return text_check(json, err);
	case VALUE_B:
		return binary_check(json, err);
	case VALUE_BOOL:
	case VALUE_NULL:
		return truth_check(json, err);
	case VALUE_M:
		return wire_item_check(json, err);
	case VALUE_L:
		return list_check(json, wire_value_check, err);
	case VALUE_SS:
	case VALUE_NS:
		return list_check(json, text_check, err);
	case VALUE_BS:
		return list_check(json, binary_check, err);
	case VALUE_TYPE_COUNT:
		break;
	}
	return ERR_NONE; /* an unknown field is ignored */
}

/* A null is no value, but that is for wire_value_read to say. */
enum err_code wire_value_check(const struct json *json, struct err *err)
{
	if (json->type == JSON_NULL)
		return ERR_NONE;
	if (json->type == JSON_ARRAY)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_CLASS, "AttributeValue");
	if (json->type != JSON_OBJECT)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_FIELD);
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc = ERR_NONE;

		if (child->type != JSON_NULL)
			rc = typed_check(value_type_named(child->name), child, err);
		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

enum err_code wire_item_check(const struct json *json, struct err *err)
{
	if (json->type == JSON_ARRAY)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_MAP);
	if (json->type != JSON_OBJECT)
		return err_set(err, ERR_SERIALIZATION, MSG_TYPE_FIELD);
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc = wire_value_check(child, err);

		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

/* ---- second step: what do the values say? Types are asserted here, not answered. ---- */

struct value_reader {
	struct arena *arena;
	struct err   *err;
	unsigned      depth;  /* lists and maps around the value being read */
	bool          stored; /* names are as they are */
};

static enum err_code value_take(struct value_reader *r, const struct json *json, struct value *out);

/* ---- sets ---- */

/* "[a, b]", in the order sent. */
static struct bytes elements_print(struct arena *a, const struct json *set)
{
	struct buf out;

	buf_init(&out, a);
	buf_add_byte(&out, '[');
	for (const struct json *element = json_children(set); element != NULL; element = element->next) {
		buf_add_bytes(&out, json_text(element));
		if (element->next != NULL)
			buf_add_bytes(&out, BYTES(", "));
	}
	buf_add_byte(&out, ']');
	return buf_bytes(&out);
}

static enum err_code set_repeats(struct value_reader *r, enum value_type type, const struct json *json)
{
	struct bytes elements = elements_print(r->arena, json);

	if (type == VALUE_NS)
		return err_set(r->err, ERR_INVALID, MSG_SET_DUPLICATE_NS);
	if (type == VALUE_BS)
		return err_set(r->err, ERR_INVALID, MSG_SET_DUPLICATE_BS, BYTES_ARG(elements));
	return err_set(r->err, ERR_INVALID, MSG_SET_DUPLICATE_SS, BYTES_ARG(elements));
}

static enum err_code set_is_empty(struct value_reader *r, enum value_type type)
{
	if (type == VALUE_SS)
		return err_set(r->err, ERR_INVALID, MSG_SET_EMPTY_SS);
	if (type == VALUE_NS)
		return err_set(r->err, ERR_INVALID, MSG_SET_EMPTY_NS);
	return err_set(r->err, ERR_INVALID, MSG_SET_EMPTY_BS);
}

/* ---- each type ---- */

static enum err_code scalar_take(struct value_reader *r, enum value_type type, const struct json *json,
                                 struct value *out)
{
	enum base64_fault fault;

	assert(json->type == JSON_STRING);
	out->type = type;
	if (type == VALUE_N)
		return number_parse(json_text(json), &out->number, r->err);
	if (type == VALUE_S) {
		out->text = json_text(json);
		return ERR_NONE;
	}
	fault = base64_decode(r->arena, json_text(json), &out->text);
	assert(fault == BASE64_OK);
	return ERR_NONE;
}

static enum err_code set_take(struct value_reader *r, enum value_type type, const struct json *json,
                              struct value *out)
{
	enum value_type element = value_set_element(type);
	uint32_t        i = 0;

	out->type = type;
	if (json->count == 0)
		return set_is_empty(r, type);
	out->list.count = json->count;
	out->list.items = arena_array(r->arena, json->count, sizeof(struct value));
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc = scalar_take(r, element, child, &out->list.items[i++]);

		if (rc != ERR_NONE)
			return rc;
	}
	return value_set_sort(&out->list) ? ERR_NONE : set_repeats(r, type, json);
}

static enum err_code list_take(struct value_reader *r, const struct json *json, struct value *out)
{
	uint32_t i = 0;

	out->type = VALUE_L;
	out->list.count = json->count;
	out->list.items = arena_array(r->arena, json->count, sizeof(struct value));
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc = value_take(r, child, &out->list.items[i++]);

		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

static enum err_code member_take(struct value_reader *r, const struct json *json, struct member *out)
{
	if (!r->stored && name_check(json->name, r->err) != ERR_NONE)
		return r->err->code;
	out->name = json->name;
	return value_take(r, json, &out->value);
}

static enum err_code members_take(struct value_reader *r, const struct json *json, struct item *out)
{
	uint32_t i = 0;

	assert(json->type == JSON_OBJECT);
	out->count = json->count;
	out->members = arena_array(r->arena, json->count, sizeof(struct member));
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc = member_take(r, child, &out->members[i++]);

		if (rc != ERR_NONE)
			return rc;
	}
	return item_sort(out) ? ERR_NONE : err_set(r->err, ERR_SERIALIZATION, MSG_TYPE_DUPLICATE);
}

static enum err_code nested_take(struct value_reader *r, enum value_type type, const struct json *json,
                                 struct value *out)
{
	enum err_code rc;

	if (++r->depth > VALUE_DEPTH_MAX)
		return err_set(r->err, ERR_INVALID, MSG_NESTING);
	out->type = type;
	rc = type == VALUE_M ? members_take(r, json, &out->map) : list_take(r, json, out);
	r->depth--;
	return rc;
}

static enum err_code typed_take(struct value_reader *r, enum value_type type, const struct json *json,
                                struct value *out)
{
	switch (type) {
	case VALUE_S:
	case VALUE_N:
	case VALUE_B:
		return scalar_take(r, type, json, out);
	case VALUE_BOOL:
		*out = value_bool(json_truth(json));
		return ERR_NONE;
	case VALUE_NULL:
		out->type = VALUE_NULL;
		return json_truth(json) ? ERR_NONE : err_set(r->err, ERR_INVALID, MSG_VALUE_NULL_FALSE);
	case VALUE_M:
	case VALUE_L:
		return nested_take(r, type, json, out);
	case VALUE_SS:
	case VALUE_NS:
	case VALUE_BS:
		return set_take(r, type, json, out);
	case VALUE_TYPE_COUNT:
		break;
	}
	assert(false);
	return ERR_NONE;
}

static enum err_code value_take(struct value_reader *r, const struct json *json, struct value *out)
{
	const struct json *found = NULL;
	enum value_type    type = VALUE_TYPE_COUNT;

	if (json->type == JSON_NULL)
		return err_set(r->err, ERR_INVALID, MSG_VALUE_EMPTY);
	assert(json->type == JSON_OBJECT);
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum value_type named = value_type_named(child->name);

		if (named == VALUE_TYPE_COUNT || child->type == JSON_NULL)
			continue;
		if (found != NULL)
			return err_set(r->err, ERR_INVALID, MSG_VALUE_MANY);
		found = child;
		type = named;
	}
	if (found == NULL)
		return err_set(r->err, ERR_INVALID, MSG_VALUE_EMPTY);
	return typed_take(r, type, found, out);
}

enum err_code wire_value_read(struct arena *a, const struct json *json, struct value *out, struct err *err)
{
	struct value_reader r = {a, err, 0, false};

	return value_take(&r, json, out);
}

enum err_code wire_item_read(struct arena *a, const struct json *json, struct item *out, struct err *err)
{
	struct value_reader r = {a, err, 0, false};

	return members_take(&r, json, out);
}

enum err_code wire_stored_read(struct arena *a, const struct json *json, struct item *out, struct err *err)
{
	struct value_reader r = {a, err, 0, true};

	return members_take(&r, json, out);
}

/* ---- writing ---- */

static void number_write(struct json_writer *w, const struct number *n)
{
	char text[NUMBER_TEXT_MAX];

	json_string(w, (struct bytes){text, number_format(n, text)});
}

static void element_write(struct json_writer *w, const struct value *v)
{
	if (v->type == VALUE_N)
		number_write(w, &v->number);
	else if (v->type == VALUE_B)
		json_base64(w, v->text);
	else
		json_string(w, v->text);
}

static void list_write(struct json_writer *w, const struct value *v)
{
	json_begin_array(w);
	for (uint32_t i = 0; i < v->list.count; i++) {
		if (v->type == VALUE_L)
			wire_value_write(w, &v->list.items[i]);
		else
			element_write(w, &v->list.items[i]);
	}
	json_end_array(w);
}

void wire_value_write(struct json_writer *w, const struct value *v)
{
	json_begin_object(w);
	json_name(w, bytes_of(value_type_name(v->type)));
	switch (v->type) {
	case VALUE_S:
	case VALUE_N:
	case VALUE_B:
		element_write(w, v);
		break;
	case VALUE_BOOL:
		json_bool(w, v->truth);
		break;
	case VALUE_NULL:
		json_bool(w, true);
		break;
	case VALUE_M:
		wire_item_write(w, &v->map);
		break;
	case VALUE_L:
	case VALUE_SS:
	case VALUE_NS:
	case VALUE_BS:
		list_write(w, v);
		break;
	case VALUE_TYPE_COUNT:
		assert(false);
	}
	json_end_object(w);
}

void wire_item_write(struct json_writer *w, const struct item *item)
{
	json_begin_object(w);
	for (uint32_t i = 0; i < item->count; i++) {
		json_name(w, item->members[i].name);
		wire_value_write(w, &item->members[i].value);
	}
	json_end_object(w);
}
