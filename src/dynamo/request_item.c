/* Requests for single items, one or several at once: GetItem, PutItem, UpdateItem, DeleteItem, TransactGetItems and
 * TransactWriteItems. All reads share one list of fields and so one decoder; so do all writes. An operation without one of
 * the fields has no shape for it, and its slot stays NULL. */
#include "base/crypto.h"
#include "dynamo/reader.h"
#include "dynamo/wire.h"
#include "item/messages.h"
#include "json/write.h"

/* ---- reads ---- */

enum {
	GET_CAPACITY,
	GET_ATTRIBUTES,
	GET_TABLE,
	GET_KEY,
	GET_CONSISTENT,
	GET_PROJECTION,
	GET_NAMES,
	GET_COUNT
};

/* Steps 3 and 4 for one read, whose slots are filled and were checked. */
static enum err_code get_read(struct request_reader *r, struct table_get *out)
{
	const struct json *const *s = r->slots;
	const struct parameter    expression = {"ProjectionExpression", s[GET_PROJECTION]},
	                       legacy = {"AttributesToGet", s[GET_ATTRIBUTES]};
	enum err_code rc = table_read(r, json_text(s[GET_TABLE]), &out->table);

	if (rc == ERR_NONE)
		rc = parameters_check(r,
		                      &(struct parameters){&expression, 1, &legacy, 1, s[GET_NAMES], NULL});
	if (rc == ERR_NONE)
		rc = scope_read(r, s[GET_NAMES], NULL);
	if (rc == ERR_NONE)
		rc = wire_item_read(r->arena, s[GET_KEY], &out->key, r->err);
	if (rc != ERR_NONE)
		return rc;
	if (s[GET_ATTRIBUTES] != NULL)
		return legacy_projection(r, s[GET_ATTRIBUTES], &out->projection);
	rc = projection_read(r, s[GET_PROJECTION], &out->projection);
	return rc != ERR_NONE ? rc : expr_scope_check_used(&r->scope, r->err);
}

/* ---- writes ---- */

enum write_field {
	WRITE_CAPACITY,
	WRITE_TABLE,
	WRITE_ITEM,
	WRITE_KEY,
	WRITE_METRICS,
	WRITE_RETURNS,
	WRITE_ON_FAILURE,
	WRITE_UPDATE,
	WRITE_CONDITION,
	WRITE_NAMES,
	WRITE_VALUES,
	WRITE_EXPECTED,
	WRITE_OPERATOR,
	WRITE_UPDATES,
	WRITE_COUNT
};

static enum err_code write_parameters(struct request_reader *r, enum table_action_kind kind)
{
	const struct json *const *s = r->slots;
	const struct parameter    expressions[] = {{"UpdateExpression", s[WRITE_UPDATE]},
	                                           {"ConditionExpression", s[WRITE_CONDITION]}};
	const struct parameter    legacy[] = {{"AttributeUpdates", s[WRITE_UPDATES]},
	                                      {"Expected", s[WRITE_EXPECTED]},
	                                      {"ConditionalOperator", s[WRITE_OPERATOR]}};
	unsigned skip = kind == TABLE_UPDATE ? 0 : 1; /* only an update has the first of each */

	return parameters_check(r, &(struct parameters){expressions + skip, 2 - skip, legacy + skip, 3 - skip,
	                                                s[WRITE_NAMES], s[WRITE_VALUES]});
}

static enum err_code update_read(struct request_reader *r, const struct expr_update **out)
{
	struct expr_update *update;

	if (r->slots[WRITE_UPDATE] == NULL)
		return legacy_updates(r, r->slots[WRITE_UPDATES], out);
	update = arena_zalloc(r->arena, sizeof(*update));
	*out = update;
	return expr_parse_update(r->arena, json_text(r->slots[WRITE_UPDATE]), &r->scope, update, r->err);
}

static enum err_code write_expressions(struct request_reader *r, struct table_write *out)
{
	const struct json *const *s = r->slots;
	enum err_code             rc = update_read(r, &out->update);

	if (rc == ERR_NONE && s[WRITE_CONDITION] != NULL) {
		struct expr *condition = NULL;

		rc = expr_parse_condition(r->arena, json_text(s[WRITE_CONDITION]), &r->scope, &condition,
		                          r->err);
		out->condition = condition;
	} else if (rc == ERR_NONE && (s[WRITE_EXPECTED] != NULL || s[WRITE_OPERATOR] != NULL)) {
		rc = legacy_expected(r, s[WRITE_EXPECTED], s[WRITE_OPERATOR], &out->condition);
	}
	return rc != ERR_NONE ? rc : expr_scope_check_used(&r->scope, r->err);
}

static enum err_code returns_read(struct request_reader *r, enum table_action_kind kind,
                                  enum return_values *out)
{
	static const char *const names[] = {[RETURN_NONE] = "NONE",
	                                    [RETURN_ALL_OLD] = "ALL_OLD",
	                                    [RETURN_UPDATED_OLD] = "UPDATED_OLD",
	                                    [RETURN_ALL_NEW] = "ALL_NEW",
	                                    [RETURN_UPDATED_NEW] = "UPDATED_NEW"};

	*out = RETURN_NONE;
	for (unsigned i = RETURN_NONE; i <= RETURN_UPDATED_NEW; i++)
		if (text_is(r->slots[WRITE_RETURNS], names[i]))
			*out = (enum return_values)i;
	if (kind != TABLE_UPDATE && *out > RETURN_ALL_OLD)
		return err_set(r->err, ERR_INVALID, MSG_RETURN_VALUES);
	return ERR_NONE;
}

/* Steps 3 and 4 for one write, whose slots are filled and were checked. *out must be zero. */
static enum err_code write_read(struct request_reader *r, enum table_action_kind kind,
                                struct table_write *out)
{
	const struct json *const *s = r->slots;
	enum err_code             rc = table_read(r, json_text(s[WRITE_TABLE]), &out->table);

	out->kind = kind;
	out->return_old_on_failure = text_is(s[WRITE_ON_FAILURE], "ALL_OLD");
	if (rc == ERR_NONE)
		rc = write_parameters(r, kind);
	if (rc == ERR_NONE)
		rc = scope_read(r, s[WRITE_NAMES], s[WRITE_VALUES]);
	if (rc == ERR_NONE && kind == TABLE_PUT)
		rc = wire_item_read(r->arena, s[WRITE_ITEM], &out->item, r->err);
	else if (rc == ERR_NONE)
		rc = wire_item_read(r->arena, s[WRITE_KEY], &out->key, r->err);
	if (rc == ERR_NONE)
		rc = returns_read(r, kind, &out->returns);
	return rc != ERR_NONE ? rc : write_expressions(r, out);
}

/* ---- GetItem ---- */

static const struct shape_field get_fields[GET_COUNT] = {
        [GET_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},
        [GET_ATTRIBUTES] = {BYTES_INIT("AttributesToGet"), &shape_attributes, false},
        [GET_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},
        [GET_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [GET_CONSISTENT] = {BYTES_INIT("ConsistentRead"), &shape_truth, false},
        [GET_PROJECTION] = {BYTES_INIT("ProjectionExpression"), &shape_text, false},
        [GET_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},
};
static const struct shape get_shape = SHAPE_OF("GetItemInput", get_fields);

enum err_code request_get(struct arena *a, const struct json *body, struct dynamo_request *out,
                          struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &get_shape, body, r.slots, err);

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(r.slots[GET_CAPACITY], out);
	out->get.consistent = truth_of(r.slots[GET_CONSISTENT]);
	return get_read(&r, &out->get);
}

/* ---- PutItem, UpdateItem, DeleteItem ---- */

static const struct shape shape_returns = {.kind = SHAPE_STRING,
                                           .choices = "[ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"};

#define WRITE_FIELDS                                                                                         \
	[WRITE_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},                   \
	[WRITE_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},                                       \
	[WRITE_METRICS] = {BYTES_INIT("ReturnItemCollectionMetrics"), &shape_metrics, false},                \
	[WRITE_RETURNS] = {BYTES_INIT("ReturnValues"), &shape_returns, false},                               \
	[WRITE_ON_FAILURE] = {BYTES_INIT("ReturnValuesOnConditionCheckFailure"), &shape_on_failure, false},  \
	[WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, false},                         \
	[WRITE_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},                       \
	[WRITE_VALUES] = {BYTES_INIT("ExpressionAttributeValues"), &shape_item, false},                      \
	[WRITE_EXPECTED] = {BYTES_INIT("Expected"), &shape_expected, false},                                 \
	[WRITE_OPERATOR] = {BYTES_INIT("ConditionalOperator"), &shape_operator, false}

static const struct shape_field put_fields[WRITE_COUNT] = {
        WRITE_FIELDS,
        [WRITE_ITEM] = {BYTES_INIT("Item"), &shape_item, true},
};
static const struct shape_field update_fields[WRITE_COUNT] = {
        WRITE_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_UPDATE] = {BYTES_INIT("UpdateExpression"), &shape_text, false},
        [WRITE_UPDATES] = {BYTES_INIT("AttributeUpdates"), &shape_updates, false},
};
static const struct shape_field delete_fields[WRITE_COUNT] = {
        WRITE_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
};

static const struct shape write_shapes[] = {
        [TABLE_PUT] = SHAPE_OF("ItemInput", put_fields),
        [TABLE_UPDATE] = SHAPE_OF("ItemInput", update_fields),
        [TABLE_DELETE] = SHAPE_OF("ItemInput", delete_fields),
};

static enum err_code single_write(struct arena *a, const struct json *body, enum table_action_kind kind,
                                  struct dynamo_request *out, struct err *err)
{
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &write_shapes[kind], body, r.slots, err);

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(r.slots[WRITE_CAPACITY], out);
	out->collection_metrics = text_is(r.slots[WRITE_METRICS], "SIZE");
	return detected(&r, write_read(&r, kind, &out->write));
}

enum err_code request_put(struct arena *a, const struct json *body, struct dynamo_request *out,
                          struct err *err)
{
	return single_write(a, body, TABLE_PUT, out, err);
}

enum err_code request_update(struct arena *a, const struct json *body, struct dynamo_request *out,
                             struct err *err)
{
	return single_write(a, body, TABLE_UPDATE, out, err);
}

enum err_code request_delete(struct arena *a, const struct json *body, struct dynamo_request *out,
                             struct err *err)
{
	return single_write(a, body, TABLE_DELETE, out, err);
}

/* ---- TransactWriteItems ---- */

enum { TRANSACT_CAPACITY, TRANSACT_METRICS, TRANSACT_TOKEN, TRANSACT_ITEMS, TRANSACT_COUNT };

#define ACTION_FIELDS                                                                                        \
	[WRITE_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},                                       \
	[WRITE_ON_FAILURE] = {BYTES_INIT("ReturnValuesOnConditionCheckFailure"), &shape_on_failure, false},  \
	[WRITE_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},                       \
	[WRITE_VALUES] = {BYTES_INIT("ExpressionAttributeValues"), &shape_item, false}

static const struct shape_field action_put_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_ITEM] = {BYTES_INIT("Item"), &shape_item, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, false},
};
static const struct shape_field action_update_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_UPDATE] = {BYTES_INIT("UpdateExpression"), &shape_text, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, false},
};
static const struct shape_field action_delete_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, false},
};
static const struct shape_field action_check_fields[WRITE_COUNT] = {
        ACTION_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_CONDITION] = {BYTES_INIT("ConditionExpression"), &shape_text, true},
};

/* By enum table_action_kind. */
static const struct shape action_shapes[] = {
        [TABLE_PUT] = SHAPE_OF("Put", action_put_fields),
        [TABLE_UPDATE] = SHAPE_OF("Update", action_update_fields),
        [TABLE_DELETE] = SHAPE_OF("Delete", action_delete_fields),
        [TABLE_CHECK] = SHAPE_OF("ConditionCheck", action_check_fields),
};
enum { ACTION_COUNT = sizeof(action_shapes) / sizeof(action_shapes[0]) };

static const struct shape_field item_fields[ACTION_COUNT] = {
        [TABLE_PUT] = {BYTES_INIT("Put"), &action_shapes[TABLE_PUT], false},
        [TABLE_UPDATE] = {BYTES_INIT("Update"), &action_shapes[TABLE_UPDATE], false},
        [TABLE_DELETE] = {BYTES_INIT("Delete"), &action_shapes[TABLE_DELETE], false},
        [TABLE_CHECK] = {BYTES_INIT("ConditionCheck"), &action_shapes[TABLE_CHECK], false},
};
static const struct shape item_shape = SHAPE_OF("TransactWriteItem", item_fields);
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
static const struct shape transact_shape = SHAPE_OF("TransactWriteItemsInput", transact_fields);

/* To tell a retry from another request under the same token: of the tree, whatever its white space and escapes were. */
static void digest_json(struct arena *a, const struct json *tree, uint8_t digest[SHA256_BYTES])
{
	struct buf         text;
	struct json_writer w;

	buf_init(&text, a);
	json_writer_init(&w, &text);
	json_tree(&w, tree);
	sha256(buf_bytes(&text), digest);
}

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
		out->transact_write.token = json_text(token);
		digest_json(a, items, out->transact_write.digest);
	}
	writes = arena_zalloc(a, items->count * sizeof(*writes));
	out->transact_write.writes = writes;
	out->transact_write.count = items->count;
	for (const struct json *item = json_children(items); item != NULL && rc == ERR_NONE;
	     item = item->next)
		rc = action_read(&r, item, writes++);
	return rc;
}

/* ---- TransactGetItems ---- */

static const struct shape_field action_get_fields[GET_COUNT] = {
        [GET_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},
        [GET_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [GET_PROJECTION] = {BYTES_INIT("ProjectionExpression"), &shape_text, false},
        [GET_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},
};
static const struct shape       action_get_shape = SHAPE_OF("Get", action_get_fields);
static const struct shape_field get_item_fields[] = {{BYTES_INIT("Get"), &action_get_shape, true}};
static const struct shape       get_item_shape = SHAPE_OF("TransactGetItem", get_item_fields);
static const struct shape       get_items_shape = {.kind = SHAPE_LIST,
                                                   .checks = SHAPE_RANGE,
                                                   .min = 1,
                                                   .max = TABLE_TRANSACT_MAX,
                                                   .member = &get_item_shape};
static const struct shape_field transact_get_fields[TRANSACT_COUNT] = {
        [TRANSACT_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},
        [TRANSACT_ITEMS] = {BYTES_INIT("TransactItems"), &get_items_shape, true},
};
static const struct shape transact_get_shape = SHAPE_OF("TransactGetItemsInput", transact_get_fields);

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
	for (const struct json *item = json_children(items); item != NULL && rc == ERR_NONE;
	     item = item->next) {
		shape_slots(&action_get_shape, json_get(item, BYTES("Get")), r.slots);
		gets->consistent = true;
		rc = get_read(&r, gets++);
	}
	return rc;
}
