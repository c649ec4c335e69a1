/* CreateTable and UpdateTable. What can be checked without knowing the stored table is checked here; names,
 * counts and duplicates among indexes are schema_check's (table/schema.h), for every way a table can be made.
 */
#include "dynamo/request_schema.h"
#include "dynamo/request_tags.h"
#include "item/messages.h"

static const struct shape shape_billing = {.kind = SHAPE_STRING, .choices = "[PROVISIONED, PAY_PER_REQUEST]"};
static const struct shape shape_unsupported = {.kind = SHAPE_UNSUPPORTED};

static const struct shape_field stream_fields[] = {{BYTES_INIT("StreamEnabled"), &shape_truth, true}};
static const struct shape       shape_stream = {
              .kind = SHAPE_STRUCT, .java = "StreamSpecification", .fields = stream_fields, .field_count = 1};
static const struct shape_field encryption_fields[] = {{BYTES_INIT("Enabled"), &shape_truth, false}};
static const struct shape       shape_encryption = {
              .kind = SHAPE_STRUCT, .java = "SSESpecification", .fields = encryption_fields, .field_count = 1};

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
	T_REPLICAS,
	T_POLICY,
	T_COUNT
};

#define COMMON_FIELDS                                                                                        \
	[T_BILLING] = {BYTES_INIT("BillingMode"), &shape_billing, false},                                    \
	[T_UNITS] = {BYTES_INIT("ProvisionedThroughput"), &shape_throughput, false},                         \
	[T_STREAM] = {BYTES_INIT("StreamSpecification"), &shape_stream, false},                              \
	[T_ENCRYPTION] = {BYTES_INIT("SSESpecification"), &shape_encryption, false},                         \
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
};
static const struct shape create_shape = {
        .kind = SHAPE_STRUCT, .java = "CreateTableInput", .fields = create_fields, .field_count = T_COUNT};

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
	const struct json *index = list == NULL ? NULL : list->children;
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
	schema->name = s[T_NAME]->text;
	schema->on_demand = text_is(s[T_BILLING], "PAY_PER_REQUEST");
	schema->deletion_protected = truth_of(s[T_PROTECTION]);
	rc = billing_read(r, schema->on_demand, &schema->read_units, &schema->write_units);
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

enum { UNITS_INDEX, UNITS_UNITS, UNITS_FIELDS };

static const struct shape_field change_units_fields[UNITS_FIELDS] = {
        [UNITS_INDEX] = {BYTES_INIT("IndexName"), &shape_index_name, true},
        [UNITS_UNITS] = {BYTES_INIT("ProvisionedThroughput"), &shape_throughput, true},
};
static const struct shape       shape_change_units = {.kind = SHAPE_STRUCT,
                                                      .java = "UpdateGlobalSecondaryIndexAction",
                                                      .fields = change_units_fields,
                                                      .field_count = UNITS_FIELDS};
static const struct shape_field change_delete_fields[] = {{BYTES_INIT("IndexName"), &shape_index_name, true}};
static const struct shape       shape_change_delete = {.kind = SHAPE_STRUCT,
                                                       .java = "DeleteGlobalSecondaryIndexAction",
                                                       .fields = change_delete_fields,
                                                       .field_count = 1};
static const struct shape_field change_fields[CHANGE_COUNT] = {
        [CHANGE_CREATE] = {BYTES_INIT("Create"), &shape_global_index, false},
        [CHANGE_UPDATE] = {BYTES_INIT("Update"), &shape_change_units, false},
        [CHANGE_DELETE] = {BYTES_INIT("Delete"), &shape_change_delete, false},
};
static const struct shape shape_change = {.kind = SHAPE_STRUCT,
                                          .java = "GlobalSecondaryIndexUpdate",
                                          .fields = change_fields,
                                          .field_count = CHANGE_COUNT};
static const struct shape shape_changes = {
        .kind = SHAPE_LIST, .checks = SHAPE_MAX, .max = TABLE_GSI_MAX, .member = &shape_change};

static const struct shape_field alter_fields[T_COUNT] = {
        COMMON_FIELDS,
        [T_DEFINITIONS] = {BYTES_INIT("AttributeDefinitions"), &shape_definitions, false},
        [T_NAME] = {BYTES_INIT("TableName"), &shape_table, true},
        [T_CHANGES] = {BYTES_INIT("GlobalSecondaryIndexUpdates"), &shape_changes, false},
        [T_REPLICAS] = {BYTES_INIT("ReplicaUpdates"), &shape_unsupported, false},
};
static const struct shape alter_shape = {
        .kind = SHAPE_STRUCT, .java = "UpdateTableInput", .fields = alter_fields, .field_count = T_COUNT};

static enum err_code change_read(struct request_reader *r, const struct json *json, struct table_change *out)
{
	const struct json *s[CHANGE_COUNT];

	shape_slots(&shape_change, json, s);
	if ((s[CHANGE_CREATE] != NULL) + (s[CHANGE_UPDATE] != NULL) + (s[CHANGE_DELETE] != NULL) != 1)
		return err_set(r->err, ERR_INVALID, MSG_UPDATE_ONE);
	if (s[CHANGE_CREATE] != NULL) {
		out->kind = CHANGE_CREATE_INDEX;
		return index_read(r, s[CHANGE_CREATE], r->slots[T_DEFINITIONS], false, &out->index);
	}
	if (s[CHANGE_DELETE] != NULL) {
		out->kind = CHANGE_DELETE_INDEX;
		out->index.name = json_get(s[CHANGE_DELETE], BYTES("IndexName"))->text;
		return ERR_NONE;
	}
	out->kind = CHANGE_INDEX_UNITS;
	out->index.name = json_get(s[CHANGE_UPDATE], BYTES("IndexName"))->text;
	return units_read(r, json_get(s[CHANGE_UPDATE], BYTES("ProvisionedThroughput")), &out->read_units,
	                  &out->write_units);
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

static enum err_code changes_read(struct request_reader *r, struct request_alter *out,
                                  struct table_change *changes)
{
	const struct json *const *s = r->slots;
	const struct json        *change = s[T_CHANGES] == NULL ? NULL : s[T_CHANGES]->children;
	enum err_code             rc = ERR_NONE;

	out->alter.changes = changes;
	if (s[T_BILLING] != NULL || s[T_UNITS] != NULL)
		rc = billing_change(r, out, &changes[out->alter.count]);
	if (s[T_PROTECTION] != NULL)
		changes[out->alter.count++] = (struct table_change){
		        .kind = CHANGE_PROTECTION, .deletion_protected = s[T_PROTECTION]->truth};
	for (; change != NULL && rc == ERR_NONE; change = change->next)
		rc = change_read(r, change, &changes[out->alter.count++]);
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
		rc = table_read(&r, r.slots[T_NAME], &out->alter.alter.table);
	if (rc != ERR_NONE)
		return rc;
	return changes_read(&r, &out->alter,
	                    arena_zalloc(a, (TABLE_GSI_MAX + 2) * sizeof(struct table_change)));
}
