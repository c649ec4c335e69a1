/* Schemas of requests: KeySchema, AttributeDefinitions, indexes and their projections. DynamoDB defines types
 * apart from keys; struct key_schema has them together, so that a definition no key uses cannot exist. */
#include "dynamo/request_schema.h"

#include "item/messages.h"

enum {
	KEY_SCHEMA_MAX = 2,
	INCLUDE_NAME_MAX = 255,
	DEFINITIONS_MAX = KEY_SCHEMA_MAX * (1 + TABLE_INDEX_MAX), /* more cannot all be used */
};

enum { DEFINITION_NAME, DEFINITION_TYPE, DEFINITION_COUNT };
enum { KEY_NAME, KEY_TYPE, KEY_COUNT };
enum { UNITS_WRITE, UNITS_READ, UNITS_COUNT };
enum { PROJECTION_TYPE, PROJECTION_NAMES, PROJECTION_COUNT };
enum { INDEX_NAME, INDEX_KEYS, INDEX_PROJECTION, INDEX_UNITS, INDEX_COUNT };

static const struct shape shape_attribute_name = {
        .kind = SHAPE_STRING, .checks = SHAPE_RANGE, .min = 1, .max = INCLUDE_NAME_MAX};
static const struct shape shape_attribute_type = {.kind = SHAPE_STRING, .choices = "[B, N, S]"};
static const struct shape shape_key_type = {.kind = SHAPE_STRING, .choices = "[HASH, RANGE]"};
static const struct shape shape_units = {.kind = SHAPE_LONG, .checks = SHAPE_MIN, .min = 1};
static const struct shape shape_projection_type = {.kind = SHAPE_STRING,
                                                   .choices = "[ALL, INCLUDE, KEYS_ONLY]"};
static const struct shape shape_include = {.kind = SHAPE_LIST,
                                           .checks = SHAPE_RANGE,
                                           .min = 1,
                                           .max = TABLE_INCLUDE_MAX,
                                           .member = &shape_attribute_name};

static const struct shape_field definition_fields[DEFINITION_COUNT] = {
        [DEFINITION_NAME] = {BYTES_INIT("AttributeName"), &shape_attribute_name, true},
        [DEFINITION_TYPE] = {BYTES_INIT("AttributeType"), &shape_attribute_type, true},
};
static const struct shape shape_definition = {.kind = SHAPE_STRUCT,
                                              .java = "AttributeDefinition",
                                              .fields = definition_fields,
                                              .field_count = DEFINITION_COUNT};
const struct shape        shape_definitions = {.kind = SHAPE_LIST, .member = &shape_definition};

static const struct shape_field key_fields[KEY_COUNT] = {
        [KEY_NAME] = {BYTES_INIT("AttributeName"), &shape_attribute_name, true},
        [KEY_TYPE] = {BYTES_INIT("KeyType"), &shape_key_type, true},
};
static const struct shape shape_key = {
        .kind = SHAPE_STRUCT, .java = "KeySchemaElement", .fields = key_fields, .field_count = KEY_COUNT};
const struct shape shape_key_schema = {
        .kind = SHAPE_LIST, .checks = SHAPE_RANGE, .min = 1, .max = KEY_SCHEMA_MAX, .member = &shape_key};

static const struct shape_field units_fields[UNITS_COUNT] = {
        [UNITS_WRITE] = {BYTES_INIT("WriteCapacityUnits"), &shape_units, true},
        [UNITS_READ] = {BYTES_INIT("ReadCapacityUnits"), &shape_units, true},
};
const struct shape shape_throughput = {.kind = SHAPE_STRUCT,
                                       .java = "ProvisionedThroughput",
                                       .fields = units_fields,
                                       .field_count = UNITS_COUNT};

static const struct shape_field projection_fields[PROJECTION_COUNT] = {
        [PROJECTION_TYPE] = {BYTES_INIT("ProjectionType"), &shape_projection_type, false},
        [PROJECTION_NAMES] = {BYTES_INIT("NonKeyAttributes"), &shape_include, false},
};
static const struct shape shape_projection = {.kind = SHAPE_STRUCT,
                                              .java = "Projection",
                                              .fields = projection_fields,
                                              .field_count = PROJECTION_COUNT};

static const struct shape_field local_fields[INDEX_COUNT] = {
        [INDEX_NAME] = {BYTES_INIT("IndexName"), &shape_index_name, true},
        [INDEX_KEYS] = {BYTES_INIT("KeySchema"), &shape_key_schema, true},
        [INDEX_PROJECTION] = {BYTES_INIT("Projection"), &shape_projection, true},
};
static const struct shape_field global_fields[INDEX_COUNT] = {
        [INDEX_NAME] = {BYTES_INIT("IndexName"), &shape_index_name, true},
        [INDEX_KEYS] = {BYTES_INIT("KeySchema"), &shape_key_schema, true},
        [INDEX_PROJECTION] = {BYTES_INIT("Projection"), &shape_projection, true},
        [INDEX_UNITS] = {BYTES_INIT("ProvisionedThroughput"), &shape_throughput, false},
};
static const struct shape shape_local_index = {.kind = SHAPE_STRUCT,
                                               .java = "LocalSecondaryIndex",
                                               .fields = local_fields,
                                               .field_count = INDEX_COUNT};
const struct shape        shape_global_index = {.kind = SHAPE_STRUCT,
                                                .java = "GlobalSecondaryIndex",
                                                .fields = global_fields,
                                                .field_count = INDEX_COUNT};
const struct shape        shape_locals = {.kind = SHAPE_LIST, .member = &shape_local_index};
const struct shape        shape_globals = {.kind = SHAPE_LIST, .member = &shape_global_index};

/* ---- keys ---- */

/* "a, b": the AttributeName of each element, as far as an error text can hold them. */
static struct bytes names_print(struct arena *a, const struct json *list)
{
	struct buf out;

	buf_init(&out, a);
	for (const struct json *child = list == NULL ? NULL : list->children;
	     child != NULL && out.len < SHAPE_ECHO_BYTES_MAX; child = child->next) {
		if (out.len > 0)
			buf_add_bytes(&out, BYTES(", "));
		buf_add_bytes(&out, json_get(child, BYTES("AttributeName"))->text);
	}
	return buf_bytes(&out);
}

static bool definition_find(const struct json *definitions, struct bytes name, enum value_type *type)
{
	const struct json *child = definitions == NULL ? NULL : definitions->children;

	for (; child != NULL; child = child->next) {
		if (!bytes_equal(json_get(child, BYTES("AttributeName"))->text, name))
			continue;
		*type = value_type_named(json_get(child, BYTES("AttributeType"))->text);
		return true;
	}
	return false;
}

static enum err_code key_read(struct request_reader *r, const struct json *key, const struct json *schema,
                              const struct json *definitions, struct key_attribute *out)
{
	struct bytes keys, defined;

	out->name = json_get(key, BYTES("AttributeName"))->text;
	if (definition_find(definitions, out->name, &out->type))
		return ERR_NONE;
	keys = names_print(r->arena, schema);
	defined = names_print(r->arena, definitions);
	return err_set(r->err, ERR_INVALID, MSG_KEY_UNDEFINED, BYTES_ARG(keys), BYTES_ARG(defined));
}

enum err_code keys_read(struct request_reader *r, const struct json *key_schema,
                        const struct json *definitions, struct key_schema *out)
{
	const struct json *hash = key_schema->children, *range = hash->next;
	enum err_code      rc = key_read(r, hash, key_schema, definitions, &out->hash);

	if (rc == ERR_NONE && range != NULL)
		rc = key_read(r, range, key_schema, definitions, &out->range);
	if (rc != ERR_NONE)
		return rc;
	if (range != NULL && bytes_equal(out->hash.name, out->range.name))
		return err_set(r->err, ERR_INVALID, MSG_KEY_SAME_NAME);
	if (!text_is(json_get(hash, BYTES("KeyType")), "HASH"))
		return err_set(r->err, ERR_INVALID, MSG_KEY_FIRST);
	if (range != NULL && !text_is(json_get(range, BYTES("KeyType")), "RANGE"))
		return err_set(r->err, ERR_INVALID, MSG_KEY_SECOND);
	return ERR_NONE;
}

/* ---- throughput and projection ---- */

static enum err_code unit_read(struct request_reader *r, const struct json *json, const char *name,
                               int64_t *out)
{
	*out = shape_integer(json);
	if (*out > UNITS_MAX)
		return err_set(r->err, ERR_INVALID, MSG_UNITS_BOUNDS, (long long)*out, name);
	return ERR_NONE;
}

enum err_code units_read(struct request_reader *r, const struct json *throughput, int64_t *read_units,
                         int64_t *write_units)
{
	const struct json *slots[UNITS_COUNT];
	enum err_code      rc;

	shape_slots(&shape_throughput, throughput, slots);
	rc = unit_read(r, slots[UNITS_READ], "ReadCapacityUnits", read_units);
	if (rc == ERR_NONE)
		rc = unit_read(r, slots[UNITS_WRITE], "WriteCapacityUnits", write_units);
	return rc;
}

static void include_read(struct request_reader *r, const struct json *names, struct index_schema *out)
{
	out->include = arena_array(r->arena, names->count, sizeof(out->include[0]));
	for (const struct json *name = names->children; name != NULL; name = name->next)
		out->include[out->include_count++] = name->text;
}

static enum err_code index_projection_read(struct request_reader *r, const struct json *json,
                                           struct index_schema *out)
{
	const struct json *slots[PROJECTION_COUNT];
	const struct json *type, *names;

	shape_slots(&shape_projection, json, slots);
	type = slots[PROJECTION_TYPE];
	names = slots[PROJECTION_NAMES];
	if (type == NULL)
		return err_set(r->err, ERR_INVALID, MSG_PROJECTION_NONE);
	out->projection = text_is(type, "ALL")         ? PROJECT_ALL
	                  : text_is(type, "KEYS_ONLY") ? PROJECT_KEYS_ONLY
	                                               : PROJECT_INCLUDE;
	if (names == NULL && out->projection == PROJECT_INCLUDE)
		return err_set(r->err, ERR_INVALID, MSG_PROJECTION_LACKS);
	if (names != NULL && out->projection != PROJECT_INCLUDE)
		return err_set(r->err, ERR_INVALID, MSG_PROJECTION_EXTRA,
		               out->projection == PROJECT_ALL ? "ALL" : "KEYS_ONLY");
	if (names != NULL)
		include_read(r, names, out);
	return ERR_NONE;
}

enum err_code index_read(struct request_reader *r, const struct json *index, const struct json *definitions,
                         bool local, struct index_schema *out)
{
	const struct json *slots[INDEX_COUNT];
	enum err_code      rc;

	*out = (struct index_schema){.local = local};
	shape_slots(local ? &shape_local_index : &shape_global_index, index, slots);
	out->name = slots[INDEX_NAME]->text;
	rc = keys_read(r, slots[INDEX_KEYS], definitions, &out->keys);
	if (rc == ERR_NONE && slots[INDEX_UNITS] != NULL)
		rc = units_read(r, slots[INDEX_UNITS], &out->read_units, &out->write_units);
	return rc != ERR_NONE ? rc : index_projection_read(r, slots[INDEX_PROJECTION], out);
}

/* ---- definitions ---- */

static bool keys_use(const struct key_schema *keys, struct bytes name)
{
	return bytes_equal(keys->hash.name, name) || bytes_equal(keys->range.name, name);
}

static bool schema_uses(const struct table_schema *s, struct bytes name)
{
	if (keys_use(&s->keys, name))
		return true;
	for (uint32_t i = 0; i < s->index_count; i++)
		if (keys_use(&s->indexes[i].keys, name))
			return true;
	return false;
}

static enum err_code unused_refuse(struct request_reader *r, const struct table_schema *schema,
                                   const struct json *definitions)
{
	struct bytes defined = names_print(r->arena, definitions);

	if (schema->index_count == 0)
		return err_set(r->err, ERR_INVALID, MSG_DEFINITIONS_COUNT);
	return err_set(r->err, ERR_INVALID, MSG_DEFINITION_UNUSED, BYTES_ARG(defined));
}

enum err_code definitions_check(struct request_reader *r, const struct table_schema *schema,
                                const struct json *definitions)
{
	if (definitions->count > DEFINITIONS_MAX)
		return unused_refuse(r, schema, definitions);
	for (const struct json *one = definitions->children; one != NULL; one = one->next) {
		struct bytes name = json_get(one, BYTES("AttributeName"))->text;

		if (!schema_uses(schema, name))
			return unused_refuse(r, schema, definitions);
		for (const struct json *two = one->next; two != NULL; two = two->next)
			if (bytes_equal(json_get(two, BYTES("AttributeName"))->text, name))
				return err_set(r->err, ERR_INVALID, MSG_DEFINITION_TWICE, BYTES_ARG(name));
	}
	return ERR_NONE;
}
