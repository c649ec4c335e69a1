/* CreateTable and UpdateTable: keys, definitions, indexes, how a table is paid for. DynamoDB defines types apart
 * from keys; struct key_schema has them together, so that a definition no key uses cannot exist.
 *
 * What can be checked without knowing the stored table is checked here; names, counts and duplicates among indexes are
 * schema_check's (table/schema.h), for every way a table can be made. */
#include "dynamo/reader.h"
#include "item/messages.h"

enum {
	UNITS_MAX = 1000000000, /* a thousand million, far beyond what DynamoDB sells */
	KEY_SCHEMA_MAX = 2,
	INCLUDE_NAME_MAX = 255,
	DEFINITIONS_MAX = KEY_SCHEMA_MAX * (1 + TABLE_INDEX_MAX), /* more cannot all be used */
};

enum { DEFINITION_NAME, DEFINITION_TYPE, DEFINITION_COUNT };
enum { KEY_NAME, KEY_TYPE, KEY_COUNT };
enum { UNITS_WRITE, UNITS_READ, UNITS_COUNT };
enum { PROJECTION_TYPE, PROJECTION_NAMES, PROJECTION_COUNT };
enum { INDEX_NAME, INDEX_KEYS, INDEX_PROJECTION, INDEX_UNITS, INDEX_DEMAND, INDEX_WARM, INDEX_COUNT };

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
static const struct shape shape_definition = SHAPE_OF("AttributeDefinition", definition_fields);
static const struct shape shape_definitions = {.kind = SHAPE_LIST, .member = &shape_definition};

static const struct shape_field key_fields[KEY_COUNT] = {
        [KEY_NAME] = {BYTES_INIT("AttributeName"), &shape_attribute_name, true},
        [KEY_TYPE] = {BYTES_INIT("KeyType"), &shape_key_type, true},
};
static const struct shape shape_key = SHAPE_OF("KeySchemaElement", key_fields);
static const struct shape shape_key_schema = {
        .kind = SHAPE_LIST, .checks = SHAPE_RANGE, .min = 1, .max = KEY_SCHEMA_MAX, .member = &shape_key};

static const struct shape_field units_fields[UNITS_COUNT] = {
        [UNITS_WRITE] = {BYTES_INIT("WriteCapacityUnits"), &shape_units, true},
        [UNITS_READ] = {BYTES_INIT("ReadCapacityUnits"), &shape_units, true},
};
static const struct shape shape_throughput = SHAPE_OF("ProvisionedThroughput", units_fields);

static const struct shape_field projection_fields[PROJECTION_COUNT] = {
        [PROJECTION_TYPE] = {BYTES_INIT("ProjectionType"), &shape_projection_type, false},
        [PROJECTION_NAMES] = {BYTES_INIT("NonKeyAttributes"), &shape_include, false},
};
static const struct shape shape_projection = SHAPE_OF("Projection", projection_fields);

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
        [INDEX_DEMAND] = {BYTES_INIT("OnDemandThroughput"), &shape_demand, false},
        [INDEX_WARM] = {BYTES_INIT("WarmThroughput"), &shape_warm, false},
};
static const struct shape shape_local_index = SHAPE_OF("LocalSecondaryIndex", local_fields);
static const struct shape shape_global_index = SHAPE_OF("GlobalSecondaryIndex", global_fields);
static const struct shape shape_locals = {.kind = SHAPE_LIST, .member = &shape_local_index};
static const struct shape shape_globals = {.kind = SHAPE_LIST, .member = &shape_global_index};

/* ---- keys ---- */

/* "a, b": the AttributeName of each element, as far as an error text can hold them. */
static struct bytes names_print(struct arena *a, const struct json *list)
{
	struct buf out;

	buf_init(&out, a);
	for (const struct json *child = json_children(list); child != NULL && out.len < SHAPE_ECHO_BYTES_MAX;
	     child = child->next) {
		if (out.len > 0)
			buf_add_bytes(&out, BYTES(", "));
		buf_add_bytes(&out, json_text(json_get(child, BYTES("AttributeName"))));
	}
	return buf_bytes(&out);
}

static bool definition_find(const struct json *definitions, struct bytes name, enum value_type *type)
{
	const struct json *child = json_children(definitions);

	for (; child != NULL; child = child->next) {
		if (!bytes_equal(json_text(json_get(child, BYTES("AttributeName"))), name))
			continue;
		*type = value_type_named(json_text(json_get(child, BYTES("AttributeType"))));
		return true;
	}
	return false;
}

static enum err_code key_read(struct request_reader *r, const struct json *key, const struct json *schema,
                              const struct json *definitions, struct key_attribute *out)
{
	struct bytes keys, defined;

	out->name = json_text(json_get(key, BYTES("AttributeName")));
	if (definition_find(definitions, out->name, &out->type))
		return ERR_NONE;
	keys = names_print(r->arena, schema);
	defined = names_print(r->arena, definitions);
	return err_set(r->err, ERR_INVALID, MSG_KEY_UNDEFINED, BYTES_ARG(keys), BYTES_ARG(defined));
}

/* definitions: AttributeDefinitions, or NULL. ERR_INVALID if a key is not defined there. */
static enum err_code keys_read(struct request_reader *r, const struct json *key_schema,
                               const struct json *definitions, struct key_schema *out)
{
	const struct json *hash = json_children(key_schema), *range = hash->next;
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

static enum err_code units_read(struct request_reader *r, const struct json *throughput, int64_t *read_units,
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

static enum err_code include_read(struct request_reader *r, const struct json *names,
                                  struct index_schema *out)
{
	const struct json *twice = shape_repeated(r->arena, names);

	if (twice != NULL)
		return err_set(r->err, ERR_INVALID, MSG_PROJECTION_TWICE, BYTES_ARG(json_text(twice)));
	out->include = arena_array(r->arena, names->count, sizeof(out->include[0]));
	for (const struct json *name = json_children(names); name != NULL; name = name->next)
		out->include[out->include_count++] = json_text(name);
	return ERR_NONE;
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
	return names == NULL ? ERR_NONE : include_read(r, names, out);
}

static enum err_code index_read(struct request_reader *r, const struct json *index,
                                const struct json *definitions, bool local, struct index_schema *out)
{
	const struct json *slots[INDEX_COUNT];
	enum err_code      rc;

	*out = (struct index_schema){.local = local};
	shape_slots(local ? &shape_local_index : &shape_global_index, index, slots);
	out->name = json_text(slots[INDEX_NAME]);
	rc = keys_read(r, slots[INDEX_KEYS], definitions, &out->keys);
	if (rc == ERR_NONE && slots[INDEX_UNITS] != NULL)
		rc = units_read(r, slots[INDEX_UNITS], &out->read_units, &out->write_units);
	if (rc == ERR_NONE)
		rc = throughput_read(r, slots[INDEX_DEMAND], slots[INDEX_WARM], &out->throughput);
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

/* Are all definitions used by a key of the table or an index, each once? */
static enum err_code definitions_check(struct request_reader *r, const struct table_schema *schema,
                                       const struct json *definitions)
{
	if (definitions->count > DEFINITIONS_MAX)
		return unused_refuse(r, schema, definitions);
	for (const struct json *one = json_children(definitions); one != NULL; one = one->next) {
		struct bytes name = json_text(json_get(one, BYTES("AttributeName")));

		if (!schema_uses(schema, name))
			return unused_refuse(r, schema, definitions);
		for (const struct json *two = one->next; two != NULL; two = two->next)
			if (bytes_equal(json_text(json_get(two, BYTES("AttributeName"))), name))
				return err_set(r->err, ERR_INVALID, MSG_DEFINITION_TWICE, BYTES_ARG(name));
	}
	return ERR_NONE;
}

static const struct shape shape_billing = {.kind = SHAPE_STRING, .choices = "[PROVISIONED, PAY_PER_REQUEST]"};
static const struct shape shape_unsupported = {.kind = SHAPE_UNSUPPORTED};

static const struct shape_field stream_fields[] = {{BYTES_INIT("StreamEnabled"), &shape_truth, true}};
static const struct shape       shape_stream = SHAPE_OF("StreamSpecification", stream_fields);
static const struct shape_field encryption_fields[] = {{BYTES_INIT("Enabled"), &shape_truth, false}};
static const struct shape       shape_encryption = SHAPE_OF("SSESpecification", encryption_fields);

enum table_field {
	T_DEFINITIONS,
	T_NAME,
	T_KEYS,
	T_BILLING,
	T_UNITS,
	T_LOCALS,
	T_GLOBALS,
	T_CHANGES,
	T_STREAM,
	T_ENCRYPTION,
	T_PROTECTION,
	T_TAGS,
	T_CLASS,
	T_DEMAND,
	T_WARM,
	T_REPLICAS,
	T_POLICY,
	T_VECTORS,
	T_SOURCE,
	T_SETTINGS,
	T_CONSISTENCY,
	T_WITNESSES,
	T_COUNT
};

#define COMMON_FIELDS                                                                                        \
	[T_BILLING] = {BYTES_INIT("BillingMode"), &shape_billing, false},                                    \
	[T_UNITS] = {BYTES_INIT("ProvisionedThroughput"), &shape_throughput, false},                         \
	[T_STREAM] = {BYTES_INIT("StreamSpecification"), &shape_stream, false},                              \
	[T_ENCRYPTION] = {BYTES_INIT("SSESpecification"), &shape_encryption, false},                         \
	[T_CLASS] = {BYTES_INIT("TableClass"), &shape_text, false},                                          \
	[T_DEMAND] = {BYTES_INIT("OnDemandThroughput"), &shape_demand, false},                               \
	[T_WARM] = {BYTES_INIT("WarmThroughput"), &shape_warm, false},                                       \
	[T_SETTINGS] = {BYTES_INIT("GlobalTableSettingsReplicationMode"), &shape_unsupported, false},        \
	[T_PROTECTION] = {BYTES_INIT("DeletionProtectionEnabled"), &shape_truth, false}

static const struct shape_field create_fields[T_COUNT] = {
        COMMON_FIELDS,
        [T_DEFINITIONS] = {BYTES_INIT("AttributeDefinitions"), &shape_definitions, true},
        [T_NAME] = {BYTES_INIT("TableName"), &shape_new_table, true},
        [T_KEYS] = {BYTES_INIT("KeySchema"), &shape_key_schema, true},
        [T_LOCALS] = {BYTES_INIT("LocalSecondaryIndexes"), &shape_locals, false},
        [T_GLOBALS] = {BYTES_INIT("GlobalSecondaryIndexes"), &shape_globals, false},
        [T_TAGS] = {BYTES_INIT("Tags"), &shape_tags, false},
        [T_POLICY] = {BYTES_INIT("ResourcePolicy"), &shape_unsupported, false},
        [T_VECTORS] = {BYTES_INIT("VectorIndexes"), &shape_unsupported, false},
        [T_SOURCE] = {BYTES_INIT("GlobalTableSourceArn"), &shape_unsupported, false},
};
static const struct shape create_shape = SHAPE_OF("CreateTableInput", create_fields);

/* ---- what both have ---- */

static enum err_code unsupported_check(struct request_reader *r)
{
	const struct json *stream = r->slots[T_STREAM], *encryption = r->slots[T_ENCRYPTION];

	if (stream != NULL && truth_of(json_get(stream, BYTES("StreamEnabled"))))
		return err_set(r->err, ERR_INVALID, MSG_STREAMS);
	if (encryption != NULL && truth_of(json_get(encryption, BYTES("Enabled"))))
		return err_set(r->err, ERR_INVALID, MSG_ENCRYPTION);
	return ERR_NONE;
}

/* How a table is paid for: kept and shown, with no other effect. */
static enum err_code billing_read(struct request_reader *r, bool on_demand, int64_t *read_units,
                                  int64_t *write_units)
{
	const struct json *units = r->slots[T_UNITS];

	if (on_demand)
		return units == NULL ? ERR_NONE : err_set(r->err, ERR_INVALID, MSG_UNITS_SUPERFLUOUS);
	if (units == NULL)
		return err_set(r->err, ERR_INVALID, MSG_UNITS_MISSING);
	return units_read(r, units, read_units, write_units);
}

static enum err_code class_read(struct request_reader *r, bool *infrequent_access)
{
	const struct json *name = r->slots[T_CLASS];

	*infrequent_access = text_is(name, "STANDARD_INFREQUENT_ACCESS");
	if (name != NULL && !*infrequent_access && !text_is(name, "STANDARD"))
		return err_set(r->err, ERR_INVALID, MSG_TABLE_CLASS);
	return ERR_NONE;
}

/* ---- CreateTable ---- */

static enum err_code index_list_check(struct request_reader *r, const struct json *list, const char *name,
                                      uint32_t max, const char *too_many)
{
	if (list != NULL && list->count == 0)
		return err_set(r->err, ERR_INVALID, MSG_INDEXES_EMPTY, name);
	if (list != NULL && list->count > max)
		return err_set(r->err, ERR_INVALID, "%s", too_many);
	return ERR_NONE;
}

static enum err_code index_list_read(struct request_reader *r, const struct json *list, bool local,
                                     struct table_schema *out)
{
	const struct json *index = json_children(list);
	enum err_code      rc = ERR_NONE;

	for (; index != NULL && rc == ERR_NONE; index = index->next)
		rc = index_read(r, index, r->slots[T_DEFINITIONS], local, &out->indexes[out->index_count++]);
	return rc;
}

static enum err_code indexes_read(struct request_reader *r, struct table_schema *out)
{
	const struct json *locals = r->slots[T_LOCALS], *globals = r->slots[T_GLOBALS];
	enum err_code rc = index_list_check(r, locals, "LocalSecondaryIndexes", TABLE_LSI_MAX, MSG_LSI_MAX);

	if (rc == ERR_NONE)
		rc = index_list_check(r, globals, "GlobalSecondaryIndexes", TABLE_GSI_MAX, MSG_GSI_MAX);
	if (rc != ERR_NONE)
		return rc;
	out->indexes = arena_array(r->arena, TABLE_INDEX_MAX, sizeof(out->indexes[0]));
	rc = index_list_read(r, locals, true, out);
	return rc != ERR_NONE ? rc : index_list_read(r, globals, false, out);
}

enum err_code request_create_table(struct arena *a, const struct json *body, struct dynamo_request *out,
                                   struct err *err)
{
	struct request_reader reader = {.arena = a, .err = err}, *r = &reader;
	const struct json   **s = r->slots;
	enum err_code         rc = shape_read(a, &create_shape, body, s, err);
	struct table_schema  *schema = &out->create;

	*out = (struct dynamo_request){0};
	if (rc == ERR_NONE)
		rc = unsupported_check(r);
	if (rc != ERR_NONE)
		return rc;
	schema->name = json_text(s[T_NAME]);
	schema->on_demand = text_is(s[T_BILLING], "PAY_PER_REQUEST");
	schema->deletion_protected = truth_of(s[T_PROTECTION]);
	rc = billing_read(r, schema->on_demand, &schema->read_units, &schema->write_units);
	if (rc == ERR_NONE)
		rc = class_read(r, &schema->infrequent_access);
	if (rc == ERR_NONE)
		rc = throughput_read(r, s[T_DEMAND], s[T_WARM], &schema->throughput);
	if (rc == ERR_NONE)
		rc = keys_read(r, s[T_KEYS], s[T_DEFINITIONS], &schema->keys);
	if (rc == ERR_NONE)
		rc = indexes_read(r, schema);
	if (rc == ERR_NONE)
		rc = definitions_check(r, schema, s[T_DEFINITIONS]);
	if (rc == ERR_NONE)
		rc = tags_read(r, s[T_TAGS], &schema->tags, &schema->tag_count);
	return rc;
}

/* ---- UpdateTable ---- */

enum { CHANGE_CREATE, CHANGE_UPDATE, CHANGE_DELETE, CHANGE_COUNT };

enum { UNITS_INDEX, UNITS_UNITS, UNITS_DEMAND, UNITS_WARM, UNITS_FIELDS };

static const struct shape_field change_units_fields[UNITS_FIELDS] = {
        [UNITS_INDEX] = {BYTES_INIT("IndexName"), &shape_index_name, true},
        [UNITS_UNITS] = {BYTES_INIT("ProvisionedThroughput"), &shape_throughput, false},
        [UNITS_DEMAND] = {BYTES_INIT("OnDemandThroughput"), &shape_demand, false},
        [UNITS_WARM] = {BYTES_INIT("WarmThroughput"), &shape_warm, false},
};
static const struct shape shape_change_units =
        SHAPE_OF("UpdateGlobalSecondaryIndexAction", change_units_fields);
static const struct shape_field change_delete_fields[] = {{BYTES_INIT("IndexName"), &shape_index_name, true}};
static const struct shape       shape_change_delete =
        SHAPE_OF("DeleteGlobalSecondaryIndexAction", change_delete_fields);
static const struct shape_field change_fields[CHANGE_COUNT] = {
        [CHANGE_CREATE] = {BYTES_INIT("Create"), &shape_global_index, false},
        [CHANGE_UPDATE] = {BYTES_INIT("Update"), &shape_change_units, false},
        [CHANGE_DELETE] = {BYTES_INIT("Delete"), &shape_change_delete, false},
};
static const struct shape shape_change = SHAPE_OF("GlobalSecondaryIndexUpdate", change_fields);
static const struct shape shape_changes = {
        .kind = SHAPE_LIST, .checks = SHAPE_MAX, .max = TABLE_GSI_MAX, .member = &shape_change};

static const struct shape_field alter_fields[T_COUNT] = {
        COMMON_FIELDS,
        [T_DEFINITIONS] = {BYTES_INIT("AttributeDefinitions"), &shape_definitions, false},
        [T_NAME] = {BYTES_INIT("TableName"), &shape_table, true},
        [T_CHANGES] = {BYTES_INIT("GlobalSecondaryIndexUpdates"), &shape_changes, false},
        [T_REPLICAS] = {BYTES_INIT("ReplicaUpdates"), &shape_unsupported, false},
        [T_VECTORS] = {BYTES_INIT("VectorIndexUpdates"), &shape_unsupported, false},
        [T_CONSISTENCY] = {BYTES_INIT("MultiRegionConsistency"), &shape_unsupported, false},
        [T_WITNESSES] = {BYTES_INIT("GlobalTableWitnessUpdates"), &shape_unsupported, false},
};
static const struct shape alter_shape = SHAPE_OF("UpdateTableInput", alter_fields);

/* One change, or two: of units, and of the rest. */
static enum err_code index_update_read(struct request_reader *r, const struct json *json,
                                       struct table_change *changes, uint32_t *count)
{
	const struct json  *s[UNITS_FIELDS];
	struct table_change change = {.kind = CHANGE_INDEX_UNITS};

	shape_slots(&shape_change_units, json, s);
	change.index.name = json_text(s[UNITS_INDEX]);
	if (s[UNITS_UNITS] == NULL && s[UNITS_DEMAND] == NULL && s[UNITS_WARM] == NULL)
		return err_set(r->err, ERR_INVALID, MSG_INDEX_UPDATE_NONE, BYTES_ARG(change.index.name));
	if (s[UNITS_UNITS] != NULL) {
		if (units_read(r, s[UNITS_UNITS], &change.read_units, &change.write_units) != ERR_NONE)
			return r->err->code;
		changes[(*count)++] = change;
	}
	if (s[UNITS_DEMAND] == NULL && s[UNITS_WARM] == NULL)
		return ERR_NONE;
	change.kind = CHANGE_THROUGHPUT;
	if (throughput_read(r, s[UNITS_DEMAND], s[UNITS_WARM], &change.throughput) != ERR_NONE)
		return r->err->code;
	changes[(*count)++] = change;
	return ERR_NONE;
}

static enum err_code change_read(struct request_reader *r, const struct json *json,
                                 struct table_change *changes, uint32_t *count)
{
	struct table_change *out = &changes[*count];
	const struct json   *s[CHANGE_COUNT];

	shape_slots(&shape_change, json, s);
	if ((s[CHANGE_CREATE] != NULL) + (s[CHANGE_UPDATE] != NULL) + (s[CHANGE_DELETE] != NULL) != 1)
		return err_set(r->err, ERR_INVALID, MSG_UPDATE_ONE);
	if (s[CHANGE_UPDATE] != NULL)
		return index_update_read(r, s[CHANGE_UPDATE], changes, count);
	++*count;
	if (s[CHANGE_CREATE] != NULL) {
		out->kind = CHANGE_CREATE_INDEX;
		return index_read(r, s[CHANGE_CREATE], r->slots[T_DEFINITIONS], false, &out->index);
	}
	out->kind = CHANGE_DELETE_INDEX;
	out->index.name = json_text(json_get(s[CHANGE_DELETE], BYTES("IndexName")));
	return ERR_NONE;
}

/* DynamoDB builds or drops one index at a time. */
static enum err_code one_index_check(struct request_reader *r, const struct table_alter *alter)
{
	unsigned indexes = 0;

	for (uint32_t i = 0; i < alter->count; i++)
		indexes += alter->changes[i].kind == CHANGE_CREATE_INDEX ||
		           alter->changes[i].kind == CHANGE_DELETE_INDEX;
	return indexes <= 1 ? ERR_NONE : err_set(r->err, ERR_LIMIT, MSG_UPDATE_INDEX_MANY);
}

static enum err_code billing_change(struct request_reader *r, struct request_alter *out,
                                    struct table_change *change)
{
	bool on_demand = text_is(r->slots[T_BILLING], "PAY_PER_REQUEST");

	*change = (struct table_change){.kind = CHANGE_BILLING, .on_demand = on_demand};
	out->provisioned_only = r->slots[T_BILLING] == NULL;
	out->alter.count++;
	return billing_read(r, on_demand, &change->read_units, &change->write_units);
}

/* The table's class, and what it is to be ready for. */
static enum err_code settings_change(struct request_reader *r, struct table_change *changes, uint32_t *count)
{
	const struct json *const *s = r->slots;
	struct table_change class = {.kind = CHANGE_CLASS}, throughput = {.kind = CHANGE_THROUGHPUT};

	if (class_read(r, &class.infrequent_access) != ERR_NONE ||
	    throughput_read(r, s[T_DEMAND], s[T_WARM], &throughput.throughput) != ERR_NONE)
		return r->err->code;
	if (s[T_CLASS] != NULL)
		changes[(*count)++] = class;
	if (s[T_DEMAND] != NULL || s[T_WARM] != NULL)
		changes[(*count)++] = throughput;
	return ERR_NONE;
}

static enum err_code changes_read(struct request_reader *r, struct request_alter *out,
                                  struct table_change *changes)
{
	const struct json *const *s = r->slots;
	const struct json        *change = json_children(s[T_CHANGES]);
	enum err_code             rc = ERR_NONE;

	out->alter.changes = changes;
	if (s[T_BILLING] != NULL || s[T_UNITS] != NULL)
		rc = billing_change(r, out, &changes[out->alter.count]);
	if (s[T_PROTECTION] != NULL)
		changes[out->alter.count++] = (struct table_change){
		        .kind = CHANGE_PROTECTION, .deletion_protected = json_truth(s[T_PROTECTION])};
	if (rc == ERR_NONE)
		rc = settings_change(r, changes, &out->alter.count);
	for (; change != NULL && rc == ERR_NONE; change = change->next)
		rc = change_read(r, change, changes, &out->alter.count);
	if (rc == ERR_NONE && out->alter.count == 0)
		rc = err_set(r->err, ERR_INVALID, MSG_UPDATE_NOTHING);
	return rc != ERR_NONE ? rc : one_index_check(r, &out->alter);
}

enum err_code request_update_table(struct arena *a, const struct json *body, struct dynamo_request *out,
                                   struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &alter_shape, body, r.slots, err);

	*out = (struct dynamo_request){0};
	if (rc == ERR_NONE)
		rc = unsupported_check(&r);
	if (rc == ERR_NONE)
		rc = table_read(&r, json_text(r.slots[T_NAME]), &out->alter.alter.table);
	if (rc != ERR_NONE)
		return rc;
	return changes_read(&r, &out->alter,
	                    arena_zalloc(a, (2 * TABLE_GSI_MAX + 4) * sizeof(struct table_change)));
}
