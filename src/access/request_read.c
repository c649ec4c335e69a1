/* Request read: a request to be judged, as people and tests write it in JSON. The server itself fills
 * struct access_request from what it has at hand. */
#include "access/policy_model.h"
#include "json/json.h"

static enum err_code refuse(struct err *err, struct bytes name, const char *what)
{
	return err_set(err, ERR_INVALID, "request, %.*s: %s", BYTES_ARG(name), what);
}

static enum err_code read_text(const struct json *json, struct bytes name, size_t max, struct bytes *out,
                               struct err *err)
{
	const struct json *child = json_get(json, name);

	if (child == NULL)
		return refuse(err, name, "missing");
	if (child->type != JSON_STRING)
		return refuse(err, name, "must be a string");
	if (child->text.len > max)
		return refuse(err, name, "too long");
	*out = child->text;
	return ERR_NONE;
}

/* One string, or a list of them where the key may have several. */
static bool read_texts(struct arena *a, const struct json *json, bool many, struct access_value *out)
{
	const struct json *child = json->type == JSON_ARRAY ? json->children : json;
	size_t             count = json->type == JSON_ARRAY ? json->count : 1;
	struct bytes      *list = arena_array(a, count, sizeof(*list));

	if (json->type == JSON_ARRAY && !many)
		return false;
	for (size_t i = 0; i < count; i++, child = child->next) {
		if (child->type != JSON_STRING)
			return false;
		list[i] = child->text;
	}
	out->texts.list = list;
	out->texts.count = count;
	return true;
}

static bool read_seconds(const struct json *json, int64_t *out)
{
	int64_t micros;

	if (json->type == JSON_INT) {
		*out = json->integer;
		return true;
	}
	if (json->type != JSON_STRING || !date_parse(json->text, &micros))
		return false;
	*out = micros / 1000000;
	return true;
}

static bool read_truth(const struct json *json, bool *out)
{
	if (json->type == JSON_STRING)
		return truth_parse(json->text, out);
	*out = json->type == JSON_BOOL && json->truth;
	return json->type == JSON_BOOL;
}

static bool read_value(struct arena *a, const struct json *json, struct access_value *out)
{
	const struct access_key_row *row = access_key_row(out->key);

	switch (row->type) {
	case ACCESS_TEXT:
		return read_texts(a, json, (row->traits & ACCESS_MANY) != 0, out);
	case ACCESS_IP:
		return json->type == JSON_STRING && access_address_parse(json->text, &out->address);
	case ACCESS_TRUTH:
		return read_truth(json, &out->truth);
	case ACCESS_TIME:
	case ACCESS_EPOCH:
		return read_seconds(json, &out->seconds);
	}
	return false;
}

static enum err_code read_context(struct arena *a, const struct json *context, struct access_request *out,
                                  struct err *err)
{
	struct access_value *values = arena_array(a, ACCESS_KEY_COUNT, sizeof(*values));
	uint32_t             seen = 0;

	if (context->type != JSON_OBJECT)
		return refuse(err, BYTES("context"), "must be an object");
	out->values = values;
	for (const struct json *child = context->children; child != NULL; child = child->next) {
		enum access_key key = access_key_find(child->name);

		if (key == ACCESS_KEY_COUNT)
			return refuse(err, child->name, "unknown condition key");
		if ((seen >> key & 1) != 0)
			return refuse(err, child->name, "given twice");
		seen |= 1u << key;
		values[out->count].key = key;
		if (!read_value(a, child, &values[out->count++]))
			return refuse(err, child->name, "not a valid value for this key");
	}
	return ERR_NONE;
}

enum err_code access_request_read(struct arena *a, const struct json *json, struct access_request *out,
                                  struct err *err)
{
	const struct json *context = json_get(json, BYTES("context"));

	*out = (struct access_request){0};
	if (read_text(json, BYTES("action"), ACCESS_ACTION_BYTES_MAX, &out->action, err) != ERR_NONE ||
	    read_text(json, BYTES("resource"), POLICY_PATTERN_BYTES_MAX, &out->resource, err) != ERR_NONE)
		return err->code;
	return context == NULL ? ERR_NONE : read_context(a, context, out, err);
}
