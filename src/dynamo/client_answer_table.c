/* Client answers about tables. See client.h. */
#include "dynamo/client_parts.h"

#include <stdlib.h>

enum { TAGS_MAX = 4 * TABLE_TAG_MAX }; /* some of which the endpoint may have set itself */

/* ---- fields, which are absent where they are of another type ---- */

static struct bytes text_of(const struct json *object, struct bytes name)
{
	return json_text(json_get(object, name));
}

/* Units, counts and sizes: never negative. */
static int64_t number_of(const struct json *object, struct bytes name)
{
	const struct json *number = json_get(object, name);
	int64_t            out;

	return number != NULL && json_whole(number, &out) && out > 0 ? out : 0;
}

static bool truth_of(const struct json *object, struct bytes name)
{
	return json_truth(json_get(object, name));
}

static const struct json *elements_of(const struct json *object, struct bytes name)
{
	const struct json *list = json_get(object, name);

	return json_is(list, JSON_ARRAY) ? json_children(list) : NULL;
}

/* Seconds since 1970, with a fraction. */
static int64_t time_of(const struct json *object, struct bytes name)
{
	const struct json *time = json_get(object, name);

	if (time == NULL || (time->type != JSON_INT && time->type != JSON_DOUBLE))
		return 0;
	if (time->type == JSON_INT)
		return json_integer(time) > 0 && json_integer(time) < INT64_MAX / 1000000
		               ? json_integer(time) * 1000000
		               : 0;
	return json_real(time) > 0 && json_real(time) < 1e12 ? (int64_t)(json_real(time) * 1e6) : 0;
}

/* What it is warmed to is not taken: nothing tells whether that was asked for. */
static struct throughput throughput_of(const struct json *of)
{
	const struct json *demand = json_get(of, BYTES("OnDemandThroughput"));

	return (struct throughput){.max_read = number_of(demand, BYTES("MaxReadRequestUnits")),
	                           .max_write = number_of(demand, BYTES("MaxWriteRequestUnits"))};
}

/* ---- keys ---- */

static bool type_of(const struct json *table, struct bytes name, enum value_type *out)
{
	for (const struct json *d = elements_of(table, BYTES("AttributeDefinitions")); d != NULL; d = d->next)
		if (bytes_equal(text_of(d, BYTES("AttributeName")), name)) {
			*out = value_type_named(text_of(d, BYTES("AttributeType")));
			return *out == VALUE_S || *out == VALUE_N || *out == VALUE_B;
		}
	return false;
}

/* The KeySchema of a table or an index, with the types that the table defines. */
static bool keys_take(const struct json *table, const struct json *of, struct key_schema *out)
{
	*out = (struct key_schema){{{"", 0}, VALUE_S}, {{"", 0}, VALUE_S}};
	for (const struct json *k = elements_of(of, BYTES("KeySchema")); k != NULL; k = k->next) {
		struct key_attribute *to = bytes_is(text_of(k, BYTES("KeyType")), "HASH")    ? &out->hash
		                           : bytes_is(text_of(k, BYTES("KeyType")), "RANGE") ? &out->range
		                                                                             : NULL;

		if (to == NULL || to->name.len > 0) /* several of a kind: indexes that we do not make */
			return false;
		to->name = text_of(k, BYTES("AttributeName"));
		if (to->name.len == 0 || !type_of(table, to->name, &to->type))
			return false;
	}
	return out->hash.name.len > 0 && !bytes_equal(out->hash.name, out->range.name);
}

/* ---- indexes ---- */

static void include_take(struct arena *a, const struct json *projection, struct index_schema *out)
{
	const struct json *list = json_get(projection, BYTES("NonKeyAttributes"));

	if (list == NULL || list->type != JSON_ARRAY)
		return;
	out->include = arena_array(a, list->count + 1, sizeof(*out->include));
	for (const struct json *name = json_children(list); name != NULL; name = name->next)
		if (name->type == JSON_STRING)
			out->include[out->include_count++] = json_text(name);
}

static enum projection_kind projection_of(struct bytes name)
{
	return bytes_is(name, "ALL")       ? PROJECT_ALL
	       : bytes_is(name, "INCLUDE") ? PROJECT_INCLUDE
	                                   : PROJECT_KEYS_ONLY;
}

static enum index_status status_of(struct bytes name)
{
	return bytes_is(name, "CREATING")   ? INDEX_CREATING
	       : bytes_is(name, "DELETING") ? INDEX_DELETING
	                                    : INDEX_ACTIVE;
}

/* Adds an index to the description; those with keys that this program does not know are left out. */
static void index_take(struct arena *a, const struct json *table, const struct json *index, bool local,
                       struct table_description *d)
{
	const struct json *projection = json_get(index, BYTES("Projection")),
	                  *units = json_get(index, BYTES("ProvisionedThroughput"));
	uint32_t            at = d->schema.index_count;
	struct index_schema out = {.name = text_of(index, BYTES("IndexName")), .local = local};

	if (at == TABLE_INDEX_MAX || out.name.len == 0 || !keys_take(table, index, &out.keys))
		return;
	out.projection = projection_of(text_of(projection, BYTES("ProjectionType")));
	if (out.projection == PROJECT_INCLUDE)
		include_take(a, projection, &out);
	out.read_units = number_of(units, BYTES("ReadCapacityUnits"));
	out.write_units = number_of(units, BYTES("WriteCapacityUnits"));
	out.throughput = throughput_of(index);
	out.status = local ? INDEX_ACTIVE : status_of(text_of(index, BYTES("IndexStatus")));
	d->schema.indexes[at] = out;
	d->index_item_counts[at] = number_of(index, BYTES("ItemCount"));
	d->index_size_bytes[at] = number_of(index, BYTES("IndexSizeBytes"));
	d->schema.index_count++;
}

static void indexes_take(struct arena *a, const struct json *table, struct table_description *d)
{
	static const struct {
		struct bytes name;
		bool         local;
	} kinds[] = {{BYTES_INIT("LocalSecondaryIndexes"), true},
	             {BYTES_INIT("GlobalSecondaryIndexes"), false}};

	d->schema.indexes = arena_array(a, TABLE_INDEX_MAX, sizeof(*d->schema.indexes));
	d->index_item_counts = arena_array(a, TABLE_INDEX_MAX, sizeof(*d->index_item_counts));
	d->index_size_bytes = arena_array(a, TABLE_INDEX_MAX, sizeof(*d->index_size_bytes));
	for (int k = 0; k < 2; k++)
		for (const struct json *i = elements_of(table, kinds[k].name); i != NULL; i = i->next)
			index_take(a, table, i, kinds[k].local, d);
}

/* ---- tables ---- */

/* What is no list of regions says nothing. */
static struct bytes replicas_of(struct arena *a, const struct json *table)
{
	struct buf regions;

	buf_init(&regions, a);
	for (const struct json *r = elements_of(table, BYTES("Replicas")); r != NULL; r = r->next) {
		struct bytes region = text_of(r, BYTES("RegionName"));

		if (region.len == 0)
			continue;
		if (regions.len > 0)
			buf_add_bytes(&regions, BYTES(", "));
		buf_add_bytes(&regions, region);
	}
	return buf_bytes(&regions);
}

enum err_code client_read_table(struct arena *a, const struct json *body, struct bytes name,
                                struct client_table *out, struct err *err)
{
	const struct json        *t = json_get(body, BYTES("Table")), *units;
	struct table_description *d = &out->description;
	struct bytes              billing;

	*out = (struct client_table){0};
	if (t == NULL)
		t = json_get(body, BYTES("TableDescription"));
	out->status = text_of(t, BYTES("TableStatus"));
	out->arn = text_of(t, BYTES("TableArn"));
	out->kms_key = text_of(json_get(t, BYTES("SSEDescription")), BYTES("KMSMasterKeyArn"));
	d->schema = (struct table_schema){.name = text_of(t, BYTES("TableName")),
	                                  .id = text_of(t, BYTES("TableId")),
	                                  .created_us = time_of(t, BYTES("CreationDateTime")),
	                                  .ttl_attribute = {"", 0},
	                                  .replicas = replicas_of(a, t)};
	if (!bytes_equal(d->schema.name, name) || out->status.len == 0)
		return client_wrong(err, "a description of another table, or without a status");
	d->deleting = bytes_is(out->status, "DELETING");
	if (!keys_take(t, t, &d->schema.keys) && !d->deleting)
		return client_wrong(err, "a description without keys");
	units = json_get(t, BYTES("ProvisionedThroughput"));
	billing = text_of(json_get(t, BYTES("BillingModeSummary")), BYTES("BillingMode"));
	d->schema.on_demand = bytes_is(billing, "PAY_PER_REQUEST");
	d->schema.read_units = number_of(units, BYTES("ReadCapacityUnits"));
	d->schema.write_units = number_of(units, BYTES("WriteCapacityUnits"));
	d->schema.throughput = throughput_of(t);
	d->schema.infrequent_access =
	        bytes_is(text_of(json_get(t, BYTES("TableClassSummary")), BYTES("TableClass")),
	                 "STANDARD_INFREQUENT_ACCESS");
	d->schema.deletion_protected = truth_of(t, BYTES("DeletionProtectionEnabled"));
	d->item_count = number_of(t, BYTES("ItemCount"));
	d->size_bytes = number_of(t, BYTES("TableSizeBytes"));
	indexes_take(a, t, d);
	return ERR_NONE;
}

enum err_code client_read_ttl(struct arena *a, const struct json *body, struct bytes *attribute,
                              struct err *err)
{
	const struct json *ttl = json_get(body, BYTES("TimeToLiveDescription"));
	struct bytes       status = text_of(ttl, BYTES("TimeToLiveStatus"));

	(void)a;
	*attribute = (struct bytes){"", 0};
	if (ttl == NULL)
		return client_wrong(err, "TimeToLiveDescription is missing");
	if (bytes_is(status, "ENABLED") || bytes_is(status, "ENABLING"))
		*attribute = text_of(ttl, BYTES("AttributeName"));
	else
		return ERR_NONE;
	return attribute->len > 0 ? ERR_NONE : client_wrong(err, "time to live has no AttributeName");
}

/* ContinuousBackupsStatus is always ENABLED: the one within tells. */
enum err_code client_read_recovery(const struct json *body, bool *on, struct err *err)
{
	const struct json *backups = json_get(body, BYTES("ContinuousBackupsDescription"));
	const struct json *recovery = json_get(backups, BYTES("PointInTimeRecoveryDescription"));

	*on = bytes_is(text_of(recovery, BYTES("PointInTimeRecoveryStatus")), "ENABLED");
	return backups == NULL ? client_wrong(err, "ContinuousBackupsDescription is missing") : ERR_NONE;
}

static int tag_order(const void *a, const void *b)
{
	return bytes_compare(((const struct tag *)a)->key, ((const struct tag *)b)->key);
}

enum err_code client_read_tags(struct arena *a, const struct json *body, struct table_schema *out,
                               struct err *err)
{
	const struct json *list = json_get(body, BYTES("Tags"));
	uint32_t           count = 0;

	out->tags = NULL;
	out->tag_count = 0;
	if (list == NULL)
		return ERR_NONE;
	if (list->type != JSON_ARRAY || list->count > TAGS_MAX)
		return client_wrong(err, "Tags is no list, or a long one");
	out->tags = arena_array(a, list->count + 1, sizeof(*out->tags));
	for (const struct json *tag = json_children(list); tag != NULL; tag = tag->next) {
		out->tags[count] = (struct tag){text_of(tag, BYTES("Key")), text_of(tag, BYTES("Value"))};
		if (out->tags[count++].key.len == 0)
			return client_wrong(err, "a tag has no Key");
	}
	qsort(out->tags, count, sizeof(*out->tags), tag_order);
	out->tag_count = count;
	return ERR_NONE;
}

enum err_code client_read_list(struct arena *a, const struct json *body, const struct table_list *q,
                               struct table_list_result *out, struct err *err)
{
	const struct json *names = json_get(body, BYTES("TableNames"));

	*out = (struct table_list_result){.more = text_of(body, BYTES("LastEvaluatedTableName")).len > 0};
	if (!json_is(names, JSON_ARRAY) || names->count > q->limit)
		return client_wrong(err, "TableNames is no list, or has more than Limit allows");
	out->names = arena_array(a, names->count + 1, sizeof(*out->names));
	for (const struct json *name = json_children(names); name != NULL; name = name->next) {
		if (!schema_name_is(json_text(name)) || bytes_equal(json_text(name), q->after))
			return client_wrong(err, "TableNames has something that is no name behind the start");
		out->names[out->count++] = json_text(name);
	}
	return ERR_NONE;
}
