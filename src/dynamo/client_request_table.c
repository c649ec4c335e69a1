/* Client requests about tables: the bodies. See client.h. */
#include "dynamo/client.h"

static void text_field(struct client c, struct bytes name, struct bytes text)
{
	json_key(c.w, name);
	json_string(c.w, text);
}

static void units_field(struct client c, int64_t read_units, int64_t write_units)
{
	json_key(c.w, BYTES("ProvisionedThroughput"));
	json_begin_object(c.w);
	json_member_i64(c.w, BYTES("ReadCapacityUnits"), read_units);
	json_member_i64(c.w, BYTES("WriteCapacityUnits"), write_units);
	json_end_object(c.w);
}

static void pair_field(struct client c, struct bytes name, const struct bytes names[2],
                       const int64_t numbers[2])
{
	if (numbers[0] == 0 && numbers[1] == 0)
		return;
	json_key(c.w, name);
	json_begin_object(c.w);
	for (int i = 0; i < 2; i++)
		if (numbers[i] != 0)
			json_member_i64(c.w, names[i], numbers[i]);
	json_end_object(c.w);
}

static void throughput_fields(struct client c, const struct throughput *t)
{
	pair_field(c, BYTES("OnDemandThroughput"),
	           (struct bytes[]){BYTES("MaxReadRequestUnits"), BYTES("MaxWriteRequestUnits")},
	           (int64_t[]){t->max_read, t->max_write});
	pair_field(c, BYTES("WarmThroughput"),
	           (struct bytes[]){BYTES("ReadUnitsPerSecond"), BYTES("WriteUnitsPerSecond")},
	           (int64_t[]){t->warm_read, t->warm_write});
}

static void class_field(struct client c, bool infrequent_access)
{
	text_field(c, BYTES("TableClass"),
	           infrequent_access ? BYTES("STANDARD_INFREQUENT_ACCESS") : BYTES("STANDARD"));
}

static void billing_fields(struct client c, bool on_demand, int64_t read_units, int64_t write_units)
{
	text_field(c, BYTES("BillingMode"), on_demand ? BYTES("PAY_PER_REQUEST") : BYTES("PROVISIONED"));
	if (!on_demand)
		units_field(c, read_units, write_units);
}

static void key_write(struct client c, const struct key_attribute *key, struct bytes role)
{
	if (key->name.len == 0)
		return;
	json_begin_object(c.w);
	text_field(c, BYTES("AttributeName"), key->name);
	text_field(c, BYTES("KeyType"), role);
	json_end_object(c.w);
}

static void keys_field(struct client c, const struct key_schema *keys)
{
	json_key(c.w, BYTES("KeySchema"));
	json_begin_array(c.w);
	key_write(c, &keys->hash, BYTES("HASH"));
	key_write(c, &keys->range, BYTES("RANGE"));
	json_end_array(c.w);
}

/* Key attributes, each name once. */
struct definitions {
	const struct key_attribute *list[2 * (1 + TABLE_INDEX_MAX)];
	unsigned                    count;
};

static void definitions_add(struct definitions *d, const struct key_schema *keys)
{
	const struct key_attribute *both[] = {&keys->hash, &keys->range};

	for (int k = 0; k < 2; k++) {
		bool is_new = both[k]->name.len > 0;

		for (unsigned i = 0; i < d->count && is_new; i++)
			is_new = !bytes_equal(d->list[i]->name, both[k]->name);
		if (is_new && d->count < sizeof(d->list) / sizeof(d->list[0]))
			d->list[d->count++] = both[k];
	}
}

static void definitions_write(struct client c, const struct definitions *d)
{
	json_key(c.w, BYTES("AttributeDefinitions"));
	json_begin_array(c.w);
	for (unsigned i = 0; i < d->count; i++) {
		json_begin_object(c.w);
		text_field(c, BYTES("AttributeName"), d->list[i]->name);
		text_field(c, BYTES("AttributeType"), bytes_of(value_type_name(d->list[i]->type)));
		json_end_object(c.w);
	}
	json_end_array(c.w);
}

static void projection_field(struct client c, const struct index_schema *index)
{
	static const char *const names[] = {
	        [PROJECT_ALL] = "ALL", [PROJECT_KEYS_ONLY] = "KEYS_ONLY", [PROJECT_INCLUDE] = "INCLUDE"};

	json_key(c.w, BYTES("Projection"));
	json_begin_object(c.w);
	text_field(c, BYTES("ProjectionType"), bytes_of(names[index->projection]));
	if (index->projection == PROJECT_INCLUDE) {
		json_key(c.w, BYTES("NonKeyAttributes"));
		json_begin_array(c.w);
		for (uint32_t i = 0; i < index->include_count; i++)
			json_string(c.w, index->include[i]);
		json_end_array(c.w);
	}
	json_end_object(c.w);
}

static void index_write(struct client c, const struct index_schema *index)
{
	json_begin_object(c.w);
	text_field(c, BYTES("IndexName"), index->name);
	keys_field(c, &index->keys);
	projection_field(c, index);
	if (!index->local && index->read_units > 0)
		units_field(c, index->read_units, index->write_units);
	throughput_fields(c, &index->throughput);
	json_end_object(c.w);
}

static void indexes_field(struct client c, struct bytes name, const struct table_schema *s, bool local)
{
	bool any = false;

	for (uint32_t i = 0; i < s->index_count; i++) {
		if (s->indexes[i].local != local)
			continue;
		if (!any) {
			json_key(c.w, name);
			json_begin_array(c.w);
		}
		any = true;
		index_write(c, &s->indexes[i]);
	}
	if (any)
		json_end_array(c.w);
}

static void tags_field(struct client c, const struct tag *tags, uint32_t count)
{
	json_key(c.w, BYTES("Tags"));
	json_begin_array(c.w);
	for (uint32_t i = 0; i < count; i++) {
		json_begin_object(c.w);
		text_field(c, BYTES("Key"), tags[i].key);
		text_field(c, BYTES("Value"), tags[i].value);
		json_end_object(c.w);
	}
	json_end_array(c.w);
}

static void encryption_field(struct client c, struct bytes kms_key)
{
	json_key(c.w, BYTES("SSESpecification"));
	json_begin_object(c.w);
	json_member_bool(c.w, BYTES("Enabled"), true);
	text_field(c, BYTES("SSEType"), BYTES("KMS"));
	text_field(c, BYTES("KMSMasterKeyId"), kms_key);
	json_end_object(c.w);
}

void client_create_table(struct client c, const struct table_schema *q, struct bytes kms_key)
{
	struct definitions d = {.count = 0};

	definitions_add(&d, &q->keys);
	for (uint32_t i = 0; i < q->index_count; i++)
		definitions_add(&d, &q->indexes[i].keys);
	json_begin_object(c.w);
	text_field(c, BYTES("TableName"), q->name);
	definitions_write(c, &d);
	keys_field(c, &q->keys);
	billing_fields(c, q->on_demand, q->read_units, q->write_units);
	throughput_fields(c, &q->throughput);
	if (q->infrequent_access)
		class_field(c, true);
	indexes_field(c, BYTES("LocalSecondaryIndexes"), q, true);
	indexes_field(c, BYTES("GlobalSecondaryIndexes"), q, false);
	if (q->deletion_protected)
		json_member_bool(c.w, BYTES("DeletionProtectionEnabled"), true);
	if (q->tag_count > 0)
		tags_field(c, q->tags, q->tag_count);
	if (kms_key.len > 0)
		encryption_field(c, kms_key);
	json_end_object(c.w);
}

void client_update_encryption(struct client c, struct bytes table, struct bytes kms_key)
{
	json_begin_object(c.w);
	text_field(c, BYTES("TableName"), table);
	encryption_field(c, kms_key);
	json_end_object(c.w);
}

void client_update_recovery(struct client c, struct bytes table)
{
	json_begin_object(c.w);
	text_field(c, BYTES("TableName"), table);
	json_key(c.w, BYTES("PointInTimeRecoverySpecification"));
	json_begin_object(c.w);
	json_member_bool(c.w, BYTES("PointInTimeRecoveryEnabled"), true);
	json_end_object(c.w);
	json_end_object(c.w);
}

static bool is_of_index(const struct table_change *change)
{
	return change->kind == CHANGE_CREATE_INDEX || change->kind == CHANGE_DELETE_INDEX ||
	       change->kind == CHANGE_INDEX_UNITS ||
	       (change->kind == CHANGE_THROUGHPUT && change->index.name.len > 0);
}

static void index_change_write(struct client c, const struct table_change *change)
{
	json_begin_object(c.w);
	json_key(c.w, change->kind == CHANGE_CREATE_INDEX   ? BYTES("Create")
	              : change->kind == CHANGE_DELETE_INDEX ? BYTES("Delete")
	                                                    : BYTES("Update"));
	if (change->kind == CHANGE_CREATE_INDEX) {
		index_write(c, &change->index);
	} else {
		json_begin_object(c.w);
		text_field(c, BYTES("IndexName"), change->index.name);
		if (change->kind == CHANGE_INDEX_UNITS)
			units_field(c, change->read_units, change->write_units);
		if (change->kind == CHANGE_THROUGHPUT)
			throughput_fields(c, &change->throughput);
		json_end_object(c.w);
	}
	json_end_object(c.w);
}

static void index_changes_field(struct client c, const struct table_alter *q)
{
	struct definitions d = {.count = 0};
	uint32_t           count = 0;

	for (uint32_t i = 0; i < q->count; i++) {
		count += is_of_index(&q->changes[i]);
		if (q->changes[i].kind == CHANGE_CREATE_INDEX)
			definitions_add(&d, &q->changes[i].index.keys);
	}
	if (d.count > 0)
		definitions_write(c, &d);
	if (count == 0)
		return;
	json_key(c.w, BYTES("GlobalSecondaryIndexUpdates"));
	json_begin_array(c.w);
	for (uint32_t i = 0; i < q->count; i++)
		if (is_of_index(&q->changes[i]))
			index_change_write(c, &q->changes[i]);
	json_end_array(c.w);
}

void client_update_table(struct client c, const struct table_alter *q)
{
	json_begin_object(c.w);
	text_field(c, BYTES("TableName"), q->table);
	for (uint32_t i = 0; i < q->count; i++) {
		const struct table_change *change = &q->changes[i];

		if (change->kind == CHANGE_BILLING)
			billing_fields(c, change->on_demand, change->read_units, change->write_units);
		else if (change->kind == CHANGE_PROTECTION)
			json_member_bool(c.w, BYTES("DeletionProtectionEnabled"), change->deletion_protected);
		else if (change->kind == CHANGE_CLASS)
			class_field(c, change->infrequent_access);
		else if (change->kind == CHANGE_THROUGHPUT && change->index.name.len == 0)
			throughput_fields(c, &change->throughput);
	}
	index_changes_field(c, q);
	json_end_object(c.w);
}

void client_update_ttl(struct client c, struct bytes table, struct bytes attribute, bool enabled)
{
	json_begin_object(c.w);
	text_field(c, BYTES("TableName"), table);
	json_key(c.w, BYTES("TimeToLiveSpecification"));
	json_begin_object(c.w);
	json_member_bool(c.w, BYTES("Enabled"), enabled);
	text_field(c, BYTES("AttributeName"), attribute);
	json_end_object(c.w);
	json_end_object(c.w);
}

void client_tag(struct client c, struct bytes arn, const struct tag *tags, uint32_t count)
{
	json_begin_object(c.w);
	text_field(c, BYTES("ResourceArn"), arn);
	tags_field(c, tags, count);
	json_end_object(c.w);
}

void client_untag(struct client c, struct bytes arn, const struct tag *tags, uint32_t count)
{
	json_begin_object(c.w);
	text_field(c, BYTES("ResourceArn"), arn);
	json_key(c.w, BYTES("TagKeys"));
	json_begin_array(c.w);
	for (uint32_t i = 0; i < count; i++)
		json_string(c.w, tags[i].key);
	json_end_array(c.w);
	json_end_object(c.w);
}

void client_list_tables(struct client c, const struct table_list *q)
{
	json_begin_object(c.w);
	if (q->after.len > 0)
		text_field(c, BYTES("ExclusiveStartTableName"), q->after);
	json_member_i64(c.w, BYTES("Limit"), q->limit);
	json_end_object(c.w);
}

static void lone_field(struct client c, struct bytes name, struct bytes text)
{
	json_begin_object(c.w);
	text_field(c, name, text);
	json_end_object(c.w);
}

void client_table_name(struct client c, struct bytes table)
{
	lone_field(c, BYTES("TableName"), table);
}

void client_arn(struct client c, struct bytes arn)
{
	lone_field(c, BYTES("ResourceArn"), arn);
}
