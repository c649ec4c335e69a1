/* Answers about tables: descriptions, lists, time to live, tags, limits. */
#include "dynamo/result.h"

#include <inttypes.h>

/* DescribeLimits: what DynamoDB grants an account by default. Nothing here enforces them. */
enum { LIMIT_ACCOUNT_UNITS = 80000, LIMIT_TABLE_UNITS = 40000 };

enum { ENDPOINT_CACHE_MINUTES = 1440 };

/* ---- small fields ---- */

static void text_field(struct json_writer *w, struct bytes name, struct bytes text)
{
	json_name(w, name);
	json_string(w, text);
}

static void number_field(struct json_writer *w, struct bytes name, int64_t number)
{
	json_name(w, name);
	json_i64(w, number);
}

/* Seconds with three decimals. */
static void time_field(struct json_writer *w, struct arena *a, struct bytes name, int64_t us)
{
	json_name(w, name);
	json_raw(w, arena_printf(a, "%" PRId64 ".%03d", us / 1000000, (int)(us / 1000 % 1000)));
}

static void key_write(struct json_writer *w, const struct key_attribute *key, struct bytes role)
{
	if (key->name.len == 0)
		return;
	json_begin_object(w);
	text_field(w, BYTES("AttributeName"), key->name);
	text_field(w, BYTES("KeyType"), role);
	json_end_object(w);
}

static void keys_field(struct json_writer *w, const struct key_schema *keys)
{
	json_name(w, BYTES("KeySchema"));
	json_begin_array(w);
	key_write(w, &keys->hash, BYTES("HASH"));
	key_write(w, &keys->range, BYTES("RANGE"));
	json_end_array(w);
}

static void units_field(struct json_writer *w, int64_t read_units, int64_t write_units)
{
	json_name(w, BYTES("ProvisionedThroughput"));
	json_begin_object(w);
	number_field(w, BYTES("NumberOfDecreasesToday"), 0);
	number_field(w, BYTES("ReadCapacityUnits"), read_units);
	number_field(w, BYTES("WriteCapacityUnits"), write_units);
	json_end_object(w);
}

static void warm_field(struct json_writer *w, const struct throughput *warm, struct bytes status)
{
	json_name(w, BYTES("WarmThroughput"));
	json_begin_object(w);
	number_field(w, BYTES("ReadUnitsPerSecond"), warm->warm_read);
	number_field(w, BYTES("WriteUnitsPerSecond"), warm->warm_write);
	text_field(w, BYTES("Status"), status);
	json_end_object(w);
}

static int64_t maximum_of(int64_t units)
{
	return units <= 0 ? -1 : units; /* none */
}

static void demand_field(struct json_writer *w, const struct throughput *t)
{
	if (t->max_read <= 0 && t->max_write <= 0)
		return;
	json_name(w, BYTES("OnDemandThroughput"));
	json_begin_object(w);
	number_field(w, BYTES("MaxReadRequestUnits"), maximum_of(t->max_read));
	number_field(w, BYTES("MaxWriteRequestUnits"), maximum_of(t->max_write));
	json_end_object(w);
}

/* ---- definitions ---- */

struct definitions {
	const struct key_attribute *list[2 * (1 + TABLE_INDEX_MAX)];
	unsigned                    count;
};

static void definition_add(struct definitions *d, const struct key_attribute *key)
{
	if (key->name.len == 0)
		return;
	for (unsigned i = 0; i < d->count; i++)
		if (bytes_equal(d->list[i]->name, key->name))
			return;
	d->list[d->count++] = key;
}

/* Collected from the keys, each name once. */
static void definitions_field(struct json_writer *w, const struct table_schema *s)
{
	struct definitions d = {.count = 0};

	definition_add(&d, &s->keys.hash);
	definition_add(&d, &s->keys.range);
	for (uint32_t i = 0; i < s->index_count; i++) {
		definition_add(&d, &s->indexes[i].keys.hash);
		definition_add(&d, &s->indexes[i].keys.range);
	}
	json_name(w, BYTES("AttributeDefinitions"));
	json_begin_array(w);
	for (unsigned i = 0; i < d.count; i++) {
		json_begin_object(w);
		text_field(w, BYTES("AttributeName"), d.list[i]->name);
		text_field(w, BYTES("AttributeType"), bytes_of(value_type_name(d.list[i]->type)));
		json_end_object(w);
	}
	json_end_array(w);
}

/* ---- indexes ---- */

static void projection_field(struct json_writer *w, const struct index_schema *index)
{
	static const char *const names[] = {
	        [PROJECT_ALL] = "ALL", [PROJECT_KEYS_ONLY] = "KEYS_ONLY", [PROJECT_INCLUDE] = "INCLUDE"};

	json_name(w, BYTES("Projection"));
	json_begin_object(w);
	text_field(w, BYTES("ProjectionType"), bytes_of(names[index->projection]));
	if (index->projection == PROJECT_INCLUDE) {
		json_name(w, BYTES("NonKeyAttributes"));
		json_begin_array(w);
		for (uint32_t i = 0; i < index->include_count; i++)
			json_string(w, index->include[i]);
		json_end_array(w);
	}
	json_end_object(w);
}

static void global_fields(struct json_writer *w, const struct index_schema *index, bool on_demand)
{
	static const char *const names[] = {
	        [INDEX_ACTIVE] = "ACTIVE", [INDEX_CREATING] = "CREATING", [INDEX_DELETING] = "DELETING"};

	struct throughput warm =
	        schema_warm(on_demand, index->read_units, index->write_units, &index->throughput);

	text_field(w, BYTES("IndexStatus"), bytes_of(names[index->status]));
	if (index->status == INDEX_CREATING) {
		json_name(w, BYTES("Backfilling"));
		json_bool(w, true);
	}
	units_field(w, index->read_units, index->write_units);
	demand_field(w, &index->throughput);
	warm_field(w, &warm, bytes_of(names[index->status]));
}

/* What a description is made of. */
struct describing {
	struct json_writer             *w;
	struct arena                   *arena;
	struct bytes                    arn_home;
	const struct table_description *d;
	bool                            deleted;
};

/* index: empty for the table itself. */
static void arn_field(const struct describing *t, struct bytes name, struct bytes index)
{
	text_field(t->w, name,
	           arena_printf(t->arena, "%.*stable/%.*s%s%.*s", BYTES_ARG(t->arn_home),
	                        BYTES_ARG(t->d->schema.name), index.len > 0 ? "/index/" : "",
	                        BYTES_ARG(index)));
}

static void index_write(const struct describing *t, uint32_t i)
{
	const struct table_description *d = t->d;
	const struct index_schema      *index = &d->schema.indexes[i];
	struct json_writer             *w = t->w;

	json_begin_object(w);
	text_field(w, BYTES("IndexName"), index->name);
	keys_field(w, &index->keys);
	projection_field(w, index);
	if (!index->local)
		global_fields(w, index, d->schema.on_demand);
	number_field(w, BYTES("IndexSizeBytes"), d->index_size_bytes == NULL ? 0 : d->index_size_bytes[i]);
	number_field(w, BYTES("ItemCount"), d->index_item_counts == NULL ? 0 : d->index_item_counts[i]);
	arn_field(t, BYTES("IndexArn"), index->name);
	json_end_object(w);
}

static void indexes_field(const struct describing *t, struct bytes name, bool local)
{
	bool any = false;

	for (uint32_t i = 0; i < t->d->schema.index_count; i++) {
		if (t->d->schema.indexes[i].local != local)
			continue;
		if (!any) {
			json_name(t->w, name);
			json_begin_array(t->w);
		}
		any = true;
		index_write(t, i);
	}
	if (any)
		json_end_array(t->w);
}

/* ---- the whole table ---- */

static void billing_field(const struct describing *t)
{
	const struct table_schema *s = &t->d->schema;
	struct json_writer        *w = t->w;
	int64_t since_us = s->on_demand_us == 0 && s->on_demand ? s->created_us : s->on_demand_us;

	units_field(w, s->read_units, s->write_units);
	if (since_us == 0)
		return;
	json_name(w, BYTES("BillingModeSummary"));
	json_begin_object(w);
	text_field(w, BYTES("BillingMode"), s->on_demand ? BYTES("PAY_PER_REQUEST") : BYTES("PROVISIONED"));
	time_field(w, t->arena, BYTES("LastUpdateToPayPerRequestDateTime"), since_us);
	json_end_object(w);
}

static void class_field(const struct describing *t)
{
	const struct table_schema *s = &t->d->schema;
	struct json_writer        *w = t->w;

	json_name(w, BYTES("TableClassSummary"));
	json_begin_object(w);
	text_field(w, BYTES("TableClass"),
	           s->infrequent_access ? BYTES("STANDARD_INFREQUENT_ACCESS") : BYTES("STANDARD"));
	if (s->class_us != 0)
		time_field(w, t->arena, BYTES("LastUpdateDateTime"), s->class_us);
	json_end_object(w);
}

static void throughput_fields(const struct describing *t)
{
	const struct table_schema *s = &t->d->schema;
	struct throughput warm = schema_warm(s->on_demand, s->read_units, s->write_units, &s->throughput);

	demand_field(t->w, &s->throughput);
	warm_field(t->w, &warm, BYTES("ACTIVE"));
}

/* What a table is made of is not told of one that was deleted. */
static enum err_code description_write(const struct describing *t, struct bytes field, struct bytes status)
{
	const struct table_description *d = t->d;
	struct json_writer             *w = t->w;

	json_begin_object(w);
	json_name(w, field);
	json_begin_object(w);
	if (!t->deleted)
		definitions_field(w, &d->schema);
	text_field(w, BYTES("TableName"), d->schema.name);
	if (!t->deleted)
		keys_field(w, &d->schema.keys);
	text_field(w, BYTES("TableStatus"), status);
	time_field(w, t->arena, BYTES("CreationDateTime"), d->schema.created_us);
	billing_field(t);
	class_field(t);
	throughput_fields(t);
	number_field(w, BYTES("TableSizeBytes"), d->size_bytes);
	number_field(w, BYTES("ItemCount"), d->item_count);
	arn_field(t, BYTES("TableArn"), BYTES(""));
	text_field(w, BYTES("TableId"), d->schema.id);
	if (!t->deleted) {
		indexes_field(t, BYTES("LocalSecondaryIndexes"), true);
		indexes_field(t, BYTES("GlobalSecondaryIndexes"), false);
	}
	json_name(w, BYTES("DeletionProtectionEnabled"));
	json_bool(w, d->schema.deletion_protected);
	json_end_object(w);
	json_end_object(w);
	return ERR_NONE;
}

static struct bytes status_of(const struct table_description *d)
{
	return d->deleting ? BYTES("DELETING") : BYTES("ACTIVE");
}

/* CreateTable, UpdateTable. */
enum err_code result_table(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                           const struct dynamo_result *r)
{
	return description_write(&(struct describing){w, a, q->arn_home, &r->table, false},
	                         BYTES("TableDescription"), status_of(&r->table));
}

enum err_code result_described_table(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                     const struct dynamo_result *r)
{
	return description_write(&(struct describing){w, a, q->arn_home, &r->table, false}, BYTES("Table"),
	                         status_of(&r->table));
}

enum err_code result_deleted_table(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                   const struct dynamo_result *r)
{
	return description_write(&(struct describing){w, a, q->arn_home, &r->table, true},
	                         BYTES("TableDescription"), BYTES("DELETING"));
}

/* ---- the rest ---- */

enum err_code result_list_tables(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                 const struct dynamo_result *r)
{
	(void)a;
	(void)q;
	json_begin_object(w);
	json_name(w, BYTES("TableNames"));
	json_begin_array(w);
	for (uint32_t i = 0; i < r->list.count; i++)
		json_string(w, r->list.names[i]);
	json_end_array(w);
	if (r->list.more && r->list.count > 0)
		text_field(w, BYTES("LastEvaluatedTableName"), r->list.names[r->list.count - 1]);
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_ttl_updated(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                                 const struct dynamo_result *r)
{
	(void)a;
	(void)r;
	json_begin_object(w);
	json_name(w, BYTES("TimeToLiveSpecification"));
	json_begin_object(w);
	json_name(w, BYTES("Enabled"));
	json_bool(w, q->ttl.enabled);
	text_field(w, BYTES("AttributeName"), q->ttl.attribute);
	json_end_object(w);
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_ttl(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                         const struct dynamo_result *r)
{
	struct bytes attribute = r->table.schema.ttl_attribute;

	(void)a;
	(void)q;
	json_begin_object(w);
	json_name(w, BYTES("TimeToLiveDescription"));
	json_begin_object(w);
	text_field(w, BYTES("TimeToLiveStatus"), attribute.len > 0 ? BYTES("ENABLED") : BYTES("DISABLED"));
	if (attribute.len > 0)
		text_field(w, BYTES("AttributeName"), attribute);
	json_end_object(w);
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_tags(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                          const struct dynamo_result *r)
{
	const struct table_schema *s = &r->table.schema;

	(void)a;
	(void)q;
	json_begin_object(w);
	json_name(w, BYTES("Tags"));
	json_begin_array(w);
	for (uint32_t i = 0; i < s->tag_count; i++) {
		json_begin_object(w);
		text_field(w, BYTES("Key"), s->tags[i].key);
		text_field(w, BYTES("Value"), s->tags[i].value);
		json_end_object(w);
	}
	json_end_array(w);
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_limits(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                            const struct dynamo_result *r)
{
	(void)a;
	(void)q;
	(void)r;
	json_begin_object(w);
	number_field(w, BYTES("AccountMaxReadCapacityUnits"), LIMIT_ACCOUNT_UNITS);
	number_field(w, BYTES("AccountMaxWriteCapacityUnits"), LIMIT_ACCOUNT_UNITS);
	number_field(w, BYTES("TableMaxReadCapacityUnits"), LIMIT_TABLE_UNITS);
	number_field(w, BYTES("TableMaxWriteCapacityUnits"), LIMIT_TABLE_UNITS);
	json_end_object(w);
	return ERR_NONE;
}

enum err_code result_endpoints(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                               const struct dynamo_result *r)
{
	(void)a;
	(void)r;
	json_begin_object(w);
	json_name(w, BYTES("Endpoints"));
	json_begin_array(w);
	json_begin_object(w);
	text_field(w, BYTES("Address"), q->host);
	number_field(w, BYTES("CachePeriodInMinutes"), ENDPOINT_CACHE_MINUTES);
	json_end_object(w);
	json_end_array(w);
	json_end_object(w);
	return ERR_NONE;
}

/* TagResource, UntagResource: the body is empty. */
enum err_code result_nothing(struct json_writer *w, struct arena *a, const struct dynamo_request *q,
                             const struct dynamo_result *r)
{
	(void)w;
	(void)a;
	(void)q;
	(void)r;
	return ERR_NONE;
}
