/* BatchGetItem and BatchWriteItem: maps from tables to lists of keys or writes. They become one flat list, in
 * the order sent; struct batch_table remembers which part of it belongs to which table. */
#include "dynamo/reader.h"
#include "dynamo/wire.h"
#include "item/messages.h"

/* ---- BatchGetItem ---- */

enum { BATCH_CAPACITY, BATCH_METRICS, BATCH_ITEMS, BATCH_COUNT };
enum { KEYS_KEYS, KEYS_ATTRIBUTES, KEYS_CONSISTENT, KEYS_PROJECTION, KEYS_NAMES, KEYS_COUNT };

static const struct shape       shape_keys = {.kind = SHAPE_LIST,
                                              .checks = SHAPE_RANGE,
                                              .min = 1,
                                              .max = TABLE_BATCH_GET_MAX,
                                              .member = &shape_item};
static const struct shape_field keys_fields[KEYS_COUNT] = {
        [KEYS_KEYS] = {BYTES_INIT("Keys"), &shape_keys, true},
        [KEYS_ATTRIBUTES] = {BYTES_INIT("AttributesToGet"), &shape_attributes, false},
        [KEYS_CONSISTENT] = {BYTES_INIT("ConsistentRead"), &shape_truth, false},
        [KEYS_PROJECTION] = {BYTES_INIT("ProjectionExpression"), &shape_text, false},
        [KEYS_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},
};
static const struct shape       keys_shape = SHAPE_OF("KeysAndAttributes", keys_fields);
static const struct shape       get_items_shape = {.kind = SHAPE_MAP,
                                                   .checks = SHAPE_RANGE | SHAPE_KEYS,
                                                   .min = 1,
                                                   .max = TABLE_BATCH_GET_MAX,
                                                   .member = &keys_shape};
static const struct shape_field batch_get_fields[BATCH_COUNT] = {
        [BATCH_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},
        [BATCH_ITEMS] = {BYTES_INIT("RequestItems"), &get_items_shape, true},
};
static const struct shape batch_get_shape = SHAPE_OF("BatchGetItemInput", batch_get_fields);

static uint32_t keys_count(const struct json *items)
{
	uint32_t count = 0;

	for (const struct json *table = json_children(items); table != NULL; table = table->next)
		count += json_get(table, BYTES("Keys"))->count;
	return count;
}

/* No key is larger; what is larger the backend refuses, so that comparing it is not worth the time it takes.
 */
enum { KEY_BYTES_MAX = KEY_HASH_BYTES_MAX + KEY_RANGE_BYTES_MAX + 2 * 255 };

static bool keys_fit(const struct table_get *gets, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (item_size(&gets[i].key) > KEY_BYTES_MAX)
			return false;
	return true;
}

static bool keys_repeat(const struct table_get *gets, uint32_t count)
{
	if (!keys_fit(gets, count))
		return false;
	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = i + 1; j < count; j++)
			if (item_equal(&gets[i].key, &gets[j].key))
				return true;
	return false;
}

/* What the keys of one table have in common. */
static enum err_code keys_projection(struct request_reader *r, struct table_get *out)
{
	const struct json *const *s = r->slots;
	const struct parameter    expression = {"ProjectionExpression", s[KEYS_PROJECTION]},
	                       legacy = {"AttributesToGet", s[KEYS_ATTRIBUTES]};
	enum err_code rc =
	        parameters_check(r, &(struct parameters){&expression, 1, &legacy, 1, s[KEYS_NAMES], NULL});

	if (rc == ERR_NONE)
		rc = scope_read(r, s[KEYS_NAMES], NULL);
	if (rc == ERR_NONE && s[KEYS_PROJECTION] != NULL)
		rc = projection_read(r, s[KEYS_PROJECTION], &out->projection);
	else if (rc == ERR_NONE)
		rc = legacy_projection(r, s[KEYS_ATTRIBUTES], &out->projection);
	return rc != ERR_NONE ? rc : expr_scope_check_used(&r->scope, r->err);
}

static enum err_code keys_read(struct request_reader *r, const struct json *asked, struct table_get *gets)
{
	struct table_get common = {0};
	enum err_code    rc;
	uint32_t         i = 0;

	shape_slots(&keys_shape, asked, r->slots);
	common.consistent = truth_of(r->slots[KEYS_CONSISTENT]);
	rc = table_read(r, asked->name, &common.table);
	if (rc == ERR_NONE)
		rc = keys_projection(r, &common);
	for (const struct json *key = json_children(r->slots[KEYS_KEYS]); key != NULL && rc == ERR_NONE;
	     key = key->next) {
		gets[i] = common;
		rc = wire_item_read(r->arena, key, &gets[i++].key, r->err);
	}
	if (rc == ERR_NONE && keys_repeat(gets, i))
		rc = err_set(r->err, ERR_INVALID, MSG_BATCH_TWICE);
	return rc;
}

static void batch_init(struct arena *a, const struct json *items, struct request_batch *out)
{
	out->tables = arena_array(a, items->count, sizeof(out->tables[0]));
	out->table_count = 0;
	out->count = 0;
}

static void table_add(struct request_batch *batch, const struct json *asked, uint32_t count)
{
	batch->tables[batch->table_count++] = (struct batch_table){asked->name, asked, batch->count, count};
	batch->count += count;
}

enum err_code request_batch_get(struct arena *a, const struct json *body, struct dynamo_request *out,
                                struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &batch_get_shape, body, r.slots, err);
	const struct json    *items = r.slots[BATCH_ITEMS];
	uint32_t              count;

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(r.slots[BATCH_CAPACITY], out);
	count = keys_count(items);
	if (count > TABLE_BATCH_GET_MAX)
		return err_set(err, ERR_INVALID, MSG_BATCH_GET_MANY);
	batch_init(a, items, &out->batch);
	out->batch.gets = arena_array(a, count, sizeof(out->batch.gets[0]));
	for (const struct json *table = json_children(items); table != NULL && rc == ERR_NONE;
	     table = table->next) {
		rc = keys_read(&r, table, out->batch.gets + out->batch.count);
		table_add(&out->batch, table, json_get(table, BYTES("Keys"))->count);
	}
	return rc;
}

/* ---- BatchWriteItem ---- */

enum { PUT_ITEM, PUT_COUNT };
enum { DELETE_KEY, DELETE_COUNT };
enum { WRITE_PUT, WRITE_DELETE, WRITE_COUNT };

static const struct shape_field put_fields[PUT_COUNT] = {{BYTES_INIT("Item"), &shape_item, true}};
static const struct shape       put_shape = SHAPE_OF("PutRequest", put_fields);
static const struct shape_field delete_fields[DELETE_COUNT] = {{BYTES_INIT("Key"), &shape_item, true}};
static const struct shape       delete_shape = SHAPE_OF("DeleteRequest", delete_fields);
static const struct shape_field write_fields[WRITE_COUNT] = {
        [WRITE_PUT] = {BYTES_INIT("PutRequest"), &put_shape, false},
        [WRITE_DELETE] = {BYTES_INIT("DeleteRequest"), &delete_shape, false},
};
static const struct shape       write_shape = SHAPE_OF("WriteRequest", write_fields);
static const struct shape       writes_shape = {.kind = SHAPE_LIST,
                                                .checks = SHAPE_RANGE,
                                                .min = 1,
                                                .max = TABLE_BATCH_WRITE_MAX,
                                                .member = &write_shape};
static const struct shape       write_items_shape = {.kind = SHAPE_MAP,
                                                     .checks = SHAPE_RANGE | SHAPE_KEYS,
                                                     .min = 1,
                                                     .max = TABLE_BATCH_WRITE_MAX,
                                                     .member = &writes_shape};
static const struct shape_field batch_write_fields[BATCH_COUNT] = {
        [BATCH_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},
        [BATCH_METRICS] = {BYTES_INIT("ReturnItemCollectionMetrics"), &shape_metrics, false},
        [BATCH_ITEMS] = {BYTES_INIT("RequestItems"), &write_items_shape, true},
};
static const struct shape batch_write_shape = SHAPE_OF("BatchWriteItemInput", batch_write_fields);

static uint32_t writes_count(const struct json *items)
{
	uint32_t count = 0;

	for (const struct json *table = json_children(items); table != NULL; table = table->next)
		count += table->count;
	return count;
}

static enum err_code write_read_one(struct request_reader *r, const struct json *json,
                                    struct table_write *out)
{
	const struct json *slots[WRITE_COUNT];

	shape_slots(&write_shape, json, slots);
	if (slots[WRITE_PUT] != NULL && slots[WRITE_DELETE] != NULL)
		return err_set(r->err, ERR_INVALID, MSG_VALUE_MANY);
	if (slots[WRITE_PUT] == NULL && slots[WRITE_DELETE] == NULL)
		return err_set(r->err, ERR_INVALID, MSG_VALUE_EMPTY);
	if (slots[WRITE_PUT] != NULL) {
		out->kind = TABLE_PUT;
		return wire_item_read(r->arena, json_get(slots[WRITE_PUT], BYTES("Item")), &out->item,
		                      r->err);
	}
	out->kind = TABLE_DELETE;
	return wire_item_read(r->arena, json_get(slots[WRITE_DELETE], BYTES("Key")), &out->key, r->err);
}

static enum err_code writes_read(struct request_reader *r, const struct json *table,
                                 struct table_write *writes)
{
	struct bytes  name;
	enum err_code rc = table_read(r, table->name, &name);

	for (const struct json *json = json_children(table); json != NULL && rc == ERR_NONE;
	     json = json->next) {
		*writes = (struct table_write){.table = name};
		rc = write_read_one(r, json, writes++);
	}
	return rc;
}

enum err_code request_batch_write(struct arena *a, const struct json *body, struct dynamo_request *out,
                                  struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &batch_write_shape, body, r.slots, err);
	const struct json    *items = r.slots[BATCH_ITEMS];
	uint32_t              count;

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(r.slots[BATCH_CAPACITY], out);
	out->collection_metrics = text_is(r.slots[BATCH_METRICS], "SIZE");
	count = writes_count(items);
	if (count > TABLE_BATCH_WRITE_MAX)
		return err_set(err, ERR_INVALID, MSG_BATCH_WRITE_MANY);
	batch_init(a, items, &out->batch);
	out->batch.writes = arena_array(a, count, sizeof(out->batch.writes[0]));
	for (const struct json *table = json_children(items); table != NULL && rc == ERR_NONE;
	     table = table->next) {
		rc = writes_read(&r, table, out->batch.writes + out->batch.count);
		table_add(&out->batch, table, table->count);
	}
	return rc;
}
