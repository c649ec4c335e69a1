/* Wire, first step of reading: are the JSON types those of attribute values? DynamoDB's own server is written
 * in Java, and its texts show it; clients only ever see them for requests that no SDK sends. Recursion is
 * bounded by JSON_DEPTH_MAX, which the reader enforced. */
#include "dynamo/wire.h"

#include "item/messages.h"
#include "json/base64.h"

static const char *token_name(const struct json *json)
{
	switch (json->type) {
	case JSON_BOOL:
		return json->truth ? "TRUE_VALUE" : "FALSE_VALUE";
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
	switch (base64_check(json->text)) {
	case BASE64_LENGTH:
		return err_set(err, ERR_SERIALIZATION, MSG_BASE64_LENGTH, json->text.len);
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
	for (const struct json *child = json->children; child != NULL; child = child->next) {
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
	for (const struct json *child = json->children; child != NULL; child = child->next) {
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
	for (const struct json *child = json->children; child != NULL; child = child->next) {
		enum err_code rc = wire_value_check(child, err);

		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}
