/* TransactWriteItems and TransactGetItems. An action is one of four structs, each a subset of the fields of a
 * single write; write_read decodes them all. */
#include "dynamo/digest.h"
#include "dynamo/request_write.h"
#include "dynamo/wire.h"
#include "item/messages.h"

/* ---- TransactWriteItems ---- */

enum { TRANSACT_CAPACITY, TRANSACT_METRICS, TRANSACT_TOKEN, TRANSACT_ITEMS, TRANSACT_COUNT };

#define ACTION_FIELDS                                                                                        \
	[WRITE_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},                                       \
	[WRITE_ON_FAILURE] = {BYTES_INIT("ReturnValuesOnConditionCheckFailure"), &shape_on_failure, false},  \
	[WRITE_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},                       \
	[WRITE_VALUES] = {BYTES_INIT("ExpressionAttributeValues"), &shape_item, false}

static const struct shape_field put_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_ITEM] = {BYTES_INIT("Item"), &shape_item, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, false},
};
static const struct shape_field update_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_UPDATE] = {BYTES_INIT("UpdateExpression"), &shape_text, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, false},
};
static const struct shape_field delete_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, false},
};
static const struct shape_field check_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, true},
};

/* By enum table_action_kind. */
static const struct shape action_shapes[] = {
        [TABLE_PUT] = {.kind = SHAPE_STRUCT, .java = "Put", .fields = put_fields, .field_count = WRITE_COUNT},
        [TABLE_UPDATE] = {.kind = SHAPE_STRUCT,
                          .java = "Update",
                          .fields = update_fields,
                          .field_count = WRITE_COUNT},
        [TABLE_DELETE] = {.kind = SHAPE_STRUCT,
                          .java = "Delete",
                          .fields = delete_fields,
                          .field_count = WRITE_COUNT},
        [TABLE_CHECK] = {.kind = SHAPE_STRUCT,
                         .java = "ConditionCheck",
                         .fields = check_fields,
                         .field_count = WRITE_COUNT},
};
enum { ACTION_COUNT = sizeof(action_shapes) / sizeof(action_shapes[0]) };

static const struct shape_field item_fields[ACTION_COUNT] = {
        [TABLE_PUT] = {BYTES_INIT("Put"), &action_shapes[TABLE_PUT], false},
        [TABLE_UPDATE] = {BYTES_INIT("Update"), &action_shapes[TABLE_UPDATE], false},
        [TABLE_DELETE] = {BYTES_INIT("Delete"), &action_shapes[TABLE_DELETE], false},
        [TABLE_CHECK] = {BYTES_INIT("ConditionCheck"), &action_shapes[TABLE_CHECK], false},
};
static const struct shape item_shape = {.kind = SHAPE_STRUCT,
                                        .java = "TransactWriteItem",
                                        .fields = item_fields,
                                        .field_count = ACTION_COUNT};
static const struct shape items_shape = {.kind = SHAPE_LIST,
                                         .checks = SHAPE_RANGE,
                                         .min = 1,
                                         .max = TABLE_TRANSACT_MAX,
                                         .member = &item_shape};
static const struct shape token_shape = {
        .kind = SHAPE_STRING, .checks = SHAPE_RANGE, .min = 1, .max = TABLE_TOKEN_MAX};
static const struct shape_field transact_fields[TRANSACT_COUNT] = {
        [TRANSACT_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},
        [TRANSACT_METRICS] = {BYTES_INIT("ReturnItemCollectionMetrics"), &shape_metrics, false},
        [TRANSACT_TOKEN] = {BYTES_INIT("ClientRequestToken"), &token_shape, false},
        [TRANSACT_ITEMS] = {BYTES_INIT("TransactItems"), &items_shape, true},
};
static const struct shape transact_shape = {.kind = SHAPE_STRUCT,
                                            .java = "TransactWriteItemsInput",
                                            .fields = transact_fields,
                                            .field_count = TRANSACT_COUNT};

static enum err_code action_read(struct request_reader *r, const struct json *json, struct table_write *out)
{
	const struct json *actions[ACTION_COUNT];
	unsigned           found = ACTION_COUNT;

	shape_slots(&item_shape, json, actions);
	for (unsigned i = 0; i < ACTION_COUNT; i++) {
		if (actions[i] == NULL)
			continue;
		if (found != ACTION_COUNT)
			return err_set(r->err, ERR_INVALID, MSG_TRANSACT_ONE);
		found = i;
	}
	if (found == ACTION_COUNT)
		return err_set(r->err, ERR_INVALID, MSG_TRANSACT_ONE);
	shape_slots(&action_shapes[found], actions[found], r->slots);
	return write_read(r, (enum table_action_kind)found, out);
}

enum err_code request_transact_write(struct arena *a, const struct json *body, struct dynamo_request *out,
                                     struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &transact_shape, body, r.slots, err);
	const struct json    *items = r.slots[TRANSACT_ITEMS], *token = r.slots[TRANSACT_TOKEN];
	struct table_write   *writes;

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(r.slots[TRANSACT_CAPACITY], out);
	out->collection_metrics = text_is(r.slots[TRANSACT_METRICS], "SIZE");
	if (token != NULL) {
		out->transact_write.token = token->text;
		digest_json(a, items, out->transact_write.digest);
	}
	writes = arena_zalloc(a, items->count * sizeof(*writes));
	out->transact_write.writes = writes;
	out->transact_write.count = items->count;
	for (const struct json *item = items->children; item != NULL && rc == ERR_NONE; item = item->next)
		rc = action_read(&r, item, writes++);
	return rc;
}

/* ---- TransactGetItems ---- */

enum { GET_TABLE, GET_KEY, GET_PROJECTION, GET_NAMES, GET_COUNT };

static const struct shape_field get_fields[GET_COUNT] = {
        [GET_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},
        [GET_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [GET_PROJECTION] = {BYTES_INIT("ProjectionExpression"), &shape_text, false},
        [GET_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},
};
static const struct shape get_shape = {
        .kind = SHAPE_STRUCT, .java = "Get", .fields = get_fields, .field_count = GET_COUNT};
static const struct shape_field get_item_fields[] = {{BYTES_INIT("Get"), &get_shape, true}};
static const struct shape       get_item_shape = {
              .kind = SHAPE_STRUCT, .java = "TransactGetItem", .fields = get_item_fields, .field_count = 1};
static const struct shape       get_items_shape = {.kind = SHAPE_LIST,
                                                   .checks = SHAPE_RANGE,
                                                   .min = 1,
                                                   .max = TABLE_TRANSACT_MAX,
                                                   .member = &get_item_shape};
static const struct shape_field transact_get_fields[TRANSACT_COUNT] = {
        [TRANSACT_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},
        [TRANSACT_ITEMS] = {BYTES_INIT("TransactItems"), &get_items_shape, true},
};
static const struct shape transact_get_shape = {.kind = SHAPE_STRUCT,
                                                .java = "TransactGetItemsInput",
                                                .fields = transact_get_fields,
                                                .field_count = TRANSACT_COUNT};

static enum err_code get_read(struct request_reader *r, const struct json *json, struct table_get *out)
{
	const struct json **s = r->slots;
	enum err_code       rc;

	shape_slots(&get_shape, json_get(json, BYTES("Get")), s);
	out->consistent = true;
	rc = table_read(r, s[GET_TABLE], &out->table);
	if (rc == ERR_NONE)
		rc = parameters_check(r, &(struct parameter){"ProjectionExpression", s[GET_PROJECTION]}, 1,
		                      NULL, 0, s[GET_NAMES], NULL);
	if (rc == ERR_NONE)
		rc = scope_read(r, s[GET_NAMES], NULL);
	if (rc == ERR_NONE)
		rc = wire_item_read(r->arena, s[GET_KEY], &out->key, r->err);
	if (rc == ERR_NONE)
		rc = projection_read(r, s[GET_PROJECTION], &out->projection);
	return rc != ERR_NONE ? rc : expr_scope_check_used(&r->scope, r->err);
}

enum err_code request_transact_get(struct arena *a, const struct json *body, struct dynamo_request *out,
                                   struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &transact_get_shape, body, r.slots, err);
	const struct json    *items = r.slots[TRANSACT_ITEMS];
	struct table_get     *gets;

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(r.slots[TRANSACT_CAPACITY], out);
	gets = arena_zalloc(a, items->count * sizeof(*gets));
	out->transact_get.gets = gets;
	out->transact_get.count = items->count;
	for (const struct json *item = items->children; item != NULL && rc == ERR_NONE; item = item->next)
		rc = get_read(&r, item, gets++);
	return rc;
}
