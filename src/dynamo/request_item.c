/* Requests for one item: GetItem, PutItem, UpdateItem, DeleteItem. The three writes share one list of fields,
 * and so one decoder, which transactions use as well (request_write.h). */
#include "dynamo/request_write.h"

#include "dynamo/legacy.h"
#include "dynamo/wire.h"
#include "item/messages.h"

/* ---- GetItem ---- */

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

static const struct shape_field get_fields[GET_COUNT] = {
        [GET_CAPACITY] = {BYTES_INIT("ReturnConsumedCapacity"), &shape_capacity, false},
        [GET_ATTRIBUTES] = {BYTES_INIT("AttributesToGet"), &shape_attributes, false},
        [GET_TABLE] = {BYTES_INIT("TableName"), &shape_table, true},
        [GET_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [GET_CONSISTENT] = {BYTES_INIT("ConsistentRead"), &shape_truth, false},
        [GET_PROJECTION] = {BYTES_INIT("ProjectionExpression"), &shape_text, false},
        [GET_NAMES] = {BYTES_INIT("ExpressionAttributeNames"), &shape_names, false},
};
static const struct shape get_shape = {
        .kind = SHAPE_STRUCT, .java = "GetItemInput", .fields = get_fields, .field_count = GET_COUNT};

static enum err_code get_projection(struct request_reader *r, struct table_get *out)
{
	const struct json *const *s = r->slots;
	enum err_code             rc;

	if (s[GET_ATTRIBUTES] != NULL)
		return legacy_projection(r, s[GET_ATTRIBUTES], &out->projection);
	rc = projection_read(r, s[GET_PROJECTION], &out->projection);
	return rc != ERR_NONE ? rc : expr_scope_check_used(&r->scope, r->err);
}

enum err_code request_get(struct arena *a, const struct json *body, struct dynamo_request *out,
                          struct err *err)
{
	struct request_reader reader = {.arena = a, .err = err}, *r = &reader;
	const struct json   **s = r->slots;
	enum err_code         rc = shape_read(a, &get_shape, body, s, err);

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(s[GET_CAPACITY], out);
	out->get.consistent = truth_of(s[GET_CONSISTENT]);
	rc = table_read(r, s[GET_TABLE], &out->get.table);
	if (rc == ERR_NONE)
		rc = parameters_check(r, &(struct parameter){"ProjectionExpression", s[GET_PROJECTION]}, 1,
		                      &(struct parameter){"AttributesToGet", s[GET_ATTRIBUTES]}, 1,
		                      s[GET_NAMES], NULL);
	if (rc == ERR_NONE)
		rc = scope_read(r, s[GET_NAMES], NULL);
	if (rc == ERR_NONE)
		rc = wire_item_read(a, s[GET_KEY], &out->get.key, err);
	return rc != ERR_NONE ? rc : get_projection(r, &out->get);
}

/* ---- writes: shared ---- */

static enum err_code write_parameters(struct request_reader *r, enum table_action_kind kind)
{
	const struct json *const *s = r->slots;
	const struct parameter    expressions[] = {{"UpdateExpression", s[WRITE_UPDATE]},
	                                           {"ConditionExpression", s[WRITE_CONDITION]}};
	const struct parameter    legacy[] = {{"AttributeUpdates", s[WRITE_UPDATES]},
	                                      {"Expected", s[WRITE_EXPECTED]},
	                                      {"ConditionalOperator", s[WRITE_OPERATOR]}};
	unsigned skip = kind == TABLE_UPDATE ? 0 : 1; /* only an update has the first of each */

	return parameters_check(r, expressions + skip, 2 - skip, legacy + skip, 3 - skip, s[WRITE_NAMES],
	                        s[WRITE_VALUES]);
}

static enum err_code update_read(struct request_reader *r, const struct expr_update **out)
{
	struct expr_update *update;

	if (r->slots[WRITE_UPDATE] == NULL)
		return legacy_updates(r, r->slots[WRITE_UPDATES], out);
	update = arena_zalloc(r->arena, sizeof(*update));
	*out = update;
	return expr_parse_update(r->arena, r->slots[WRITE_UPDATE]->text, &r->scope, update, r->err);
}

static enum err_code write_expressions(struct request_reader *r, struct table_write *out)
{
	const struct json *const *s = r->slots;
	enum err_code             rc = update_read(r, &out->update);

	if (rc == ERR_NONE && s[WRITE_CONDITION] != NULL)
		rc = condition_read(r, "ConditionExpression", s[WRITE_CONDITION], &out->condition);
	else if (rc == ERR_NONE)
		rc = legacy_expected(r, s[WRITE_EXPECTED], s[WRITE_OPERATOR], &out->condition);
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

enum err_code write_read(struct request_reader *r, enum table_action_kind kind, struct table_write *out)
{
	const struct json *const *s = r->slots;
	enum err_code             rc = table_read(r, s[WRITE_TABLE], &out->table);

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

/* ---- PutItem, UpdateItem, DeleteItem ---- */

static const struct shape shape_returns = {.kind = SHAPE_STRING,
                                           .choices = "[ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"};

#define COMMON_FIELDS                                                                                        \
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
        COMMON_FIELDS,
        [WRITE_ITEM] = {BYTES_INIT("Item"), &shape_item, true},
};
static const struct shape_field update_fields[WRITE_COUNT] = {
        COMMON_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
        [WRITE_UPDATE] = {BYTES_INIT("UpdateExpression"), &shape_text, false},
        [WRITE_UPDATES] = {BYTES_INIT("AttributeUpdates"), &shape_updates, false},
};
static const struct shape_field delete_fields[WRITE_COUNT] = {
        COMMON_FIELDS,
        [WRITE_KEY] = {BYTES_INIT("Key"), &shape_item, true},
};

static enum err_code single_write(struct arena *a, const struct json *body, enum table_action_kind kind,
                                  const struct shape_field *fields, struct dynamo_request *out,
                                  struct err *err)
{
	const struct shape shape = {
	        .kind = SHAPE_STRUCT, .java = "ItemInput", .fields = fields, .field_count = WRITE_COUNT};
	struct request_reader r = {.arena = a, .err = err};
	enum err_code         rc = shape_read(a, &shape, body, r.slots, err);

	*out = (struct dynamo_request){0};
	if (rc != ERR_NONE)
		return rc;
	capacity_read(r.slots[WRITE_CAPACITY], out);
	out->collection_metrics = text_is(r.slots[WRITE_METRICS], "SIZE");
	return write_read(&r, kind, &out->write);
}

enum err_code request_put(struct arena *a, const struct json *body, struct dynamo_request *out,
                          struct err *err)
{
	return single_write(a, body, TABLE_PUT, put_fields, out, err);
}

enum err_code request_update(struct arena *a, const struct json *body, struct dynamo_request *out,
                             struct err *err)
{
	return single_write(a, body, TABLE_UPDATE, update_fields, out, err);
}

enum err_code request_delete(struct arena *a, const struct json *body, struct dynamo_request *out,
                             struct err *err)
{
	return single_write(a, body, TABLE_DELETE, delete_fields, out, err);
}
