/* Client requests about items: the bodies. See client.h. */
#include "dynamo/client.h"

#include "dynamo/wire.h"
#include "expr/print.h"

/* ---- small fields ---- */

static void text_field(struct client c, struct bytes name, struct bytes text)
{
	json_key(c.w, name);
	json_string(c.w, text);
}

static void item_field(struct client c, struct bytes name, const struct item *item)
{
	json_key(c.w, name);
	wire_item_write(c.w, item);
}

/* ---- expressions: texts first, then what their placeholders stand for ---- */

static void names_write(struct client c, const struct expr_scope *s)
{
	if (s->name_count == 0)
		return;
	json_key(c.w, BYTES("ExpressionAttributeNames"));
	json_begin_object(c.w);
	for (uint32_t i = 0; i < s->name_count; i++) {
		json_name(c.w, s->names[i].placeholder);
		json_string(c.w, s->names[i].name);
	}
	json_end_object(c.w);
}

static void values_write(struct client c, const struct expr_scope *s)
{
	if (s->value_count == 0)
		return;
	json_key(c.w, BYTES("ExpressionAttributeValues"));
	json_begin_object(c.w);
	for (uint32_t i = 0; i < s->value_count; i++) {
		json_name(c.w, s->values[i].placeholder);
		wire_value_write(c.w, &s->values[i].value);
	}
	json_end_object(c.w);
}

static void scope_write(struct client c, const struct expr_printer *p)
{
	names_write(c, &p->scope);
	values_write(c, &p->scope);
}

static void condition_write(struct client c, struct expr_printer *p, struct bytes name, const struct expr *e)
{
	if (e != NULL)
		text_field(c, name, expr_print_condition(p, e));
}

static void projection_write(struct client c, struct expr_printer *p,
                             const struct expr_projection *projection)
{
	if (projection != NULL)
		text_field(c, BYTES("ProjectionExpression"), expr_print_projection(p, projection));
}

/* ---- one item ---- */

static void get_fields(struct client c, const struct table_get *q)
{
	struct expr_printer p;

	expr_printer_init(&p, c.arena);
	text_field(c, BYTES("TableName"), q->table);
	item_field(c, BYTES("Key"), &q->key);
	projection_write(c, &p, q->projection);
	names_write(c, &p.scope);
}

void client_get(struct client c, const struct table_get *q)
{
	json_begin_object(c.w);
	get_fields(c, q);
	if (q->consistent)
		json_member_bool(c.w, BYTES("ConsistentRead"), true);
	json_end_object(c.w);
}

const char *client_write_operation(enum table_action_kind kind)
{
	static const char *const names[] = {
	        [TABLE_PUT] = "PutItem", [TABLE_UPDATE] = "UpdateItem", [TABLE_DELETE] = "DeleteItem"};

	return names[kind];
}

/* What a write has in common with itself as an action of a transaction. */
static void write_fields(struct client c, const struct table_write *q)
{
	struct expr_printer p;

	expr_printer_init(&p, c.arena);
	text_field(c, BYTES("TableName"), q->table);
	if (q->kind == TABLE_PUT)
		item_field(c, BYTES("Item"), &q->item);
	else
		item_field(c, BYTES("Key"), &q->key);
	if (q->kind == TABLE_UPDATE && q->update != NULL && q->update->count > 0)
		text_field(c, BYTES("UpdateExpression"), expr_print_update(&p, q->update));
	condition_write(c, &p, BYTES("ConditionExpression"), q->condition);
	scope_write(c, &p);
	if (q->return_old_on_failure)
		text_field(c, BYTES("ReturnValuesOnConditionCheckFailure"), BYTES("ALL_OLD"));
}

void client_write(struct client c, const struct table_write *q)
{
	static const char *const returns[] = {[RETURN_NONE] = "NONE",
	                                      [RETURN_ALL_OLD] = "ALL_OLD",
	                                      [RETURN_UPDATED_OLD] = "UPDATED_OLD",
	                                      [RETURN_ALL_NEW] = "ALL_NEW",
	                                      [RETURN_UPDATED_NEW] = "UPDATED_NEW"};

	json_begin_object(c.w);
	write_fields(c, q);
	if (q->returns != RETURN_NONE)
		text_field(c, BYTES("ReturnValues"), bytes_of(returns[q->returns]));
	json_end_object(c.w);
}

/* ---- pages ---- */

static void page_fields(struct client c, const struct table_query *q)
{
	if (q->start != NULL)
		item_field(c, BYTES("ExclusiveStartKey"), q->start);
	if (q->limit > 0)
		json_member_i64(c.w, BYTES("Limit"), q->limit);
	if (q->backward)
		json_member_bool(c.w, BYTES("ScanIndexForward"), false);
	if (q->consistent)
		json_member_bool(c.w, BYTES("ConsistentRead"), true);
	if (q->count_only)
		text_field(c, BYTES("Select"), BYTES("COUNT"));
	else if (q->all_attributes)
		text_field(c, BYTES("Select"), BYTES("ALL_ATTRIBUTES"));
	if (q->segments > 0) {
		json_member_i64(c.w, BYTES("Segment"), q->segment);
		json_member_i64(c.w, BYTES("TotalSegments"), q->segments);
	}
}

void client_query(struct client c, const struct table_query *q)
{
	struct expr_printer p;

	expr_printer_init(&p, c.arena);
	json_begin_object(c.w);
	text_field(c, BYTES("TableName"), q->table);
	if (q->index.len > 0)
		text_field(c, BYTES("IndexName"), q->index);
	if (q->key != NULL)
		text_field(c, BYTES("KeyConditionExpression"), expr_print_key_condition(&p, q->key));
	condition_write(c, &p, BYTES("FilterExpression"), q->filter);
	projection_write(c, &p, q->projection);
	scope_write(c, &p);
	page_fields(c, q);
	json_end_object(c.w);
}

/* ---- batches: RequestItems, by table ---- */

/* Is it the first of its table? Lists are short. */
static bool first_get(const struct table_batch_get *q, uint32_t at)
{
	for (uint32_t i = 0; i < at; i++)
		if (bytes_equal(q->gets[i].table, q->gets[at].table))
			return false;
	return true;
}

static void keys_write(struct client c, const struct table_batch_get *q, uint32_t first)
{
	bool                consistent = false;
	struct expr_printer p;

	expr_printer_init(&p, c.arena);
	json_name(c.w, q->gets[first].table);
	json_begin_object(c.w);
	json_key(c.w, BYTES("Keys"));
	json_begin_array(c.w);
	for (uint32_t i = first; i < q->count; i++) {
		if (!bytes_equal(q->gets[i].table, q->gets[first].table))
			continue;
		wire_item_write(c.w, &q->gets[i].key);
		consistent = consistent || q->gets[i].consistent;
	}
	json_end_array(c.w);
	projection_write(c, &p, q->gets[first].projection);
	names_write(c, &p.scope);
	if (consistent)
		json_member_bool(c.w, BYTES("ConsistentRead"), true);
	json_end_object(c.w);
}

void client_batch_get(struct client c, const struct table_batch_get *q)
{
	json_begin_object(c.w);
	json_key(c.w, BYTES("RequestItems"));
	json_begin_object(c.w);
	for (uint32_t i = 0; i < q->count; i++)
		if (first_get(q, i))
			keys_write(c, q, i);
	json_end_object(c.w);
	json_end_object(c.w);
}

static bool first_write(const struct table_batch_write *q, uint32_t at)
{
	for (uint32_t i = 0; i < at; i++)
		if (bytes_equal(q->writes[i].table, q->writes[at].table))
			return false;
	return true;
}

static void batch_write_one(struct client c, const struct table_write *q)
{
	bool put = q->kind == TABLE_PUT;

	json_begin_object(c.w);
	json_key(c.w, put ? BYTES("PutRequest") : BYTES("DeleteRequest"));
	json_begin_object(c.w);
	item_field(c, put ? BYTES("Item") : BYTES("Key"), put ? &q->item : &q->key);
	json_end_object(c.w);
	json_end_object(c.w);
}

void client_batch_write(struct client c, const struct table_batch_write *q)
{
	json_begin_object(c.w);
	json_key(c.w, BYTES("RequestItems"));
	json_begin_object(c.w);
	for (uint32_t i = 0; i < q->count; i++) {
		if (!first_write(q, i))
			continue;
		json_name(c.w, q->writes[i].table);
		json_begin_array(c.w);
		for (uint32_t k = i; k < q->count; k++)
			if (bytes_equal(q->writes[k].table, q->writes[i].table))
				batch_write_one(c, &q->writes[k]);
		json_end_array(c.w);
	}
	json_end_object(c.w);
	json_end_object(c.w);
}

/* ---- transactions ---- */

void client_transact_get(struct client c, const struct table_batch_get *q)
{
	json_begin_object(c.w);
	json_key(c.w, BYTES("TransactItems"));
	json_begin_array(c.w);
	for (uint32_t i = 0; i < q->count; i++) {
		json_begin_object(c.w);
		json_key(c.w, BYTES("Get"));
		json_begin_object(c.w);
		get_fields(c, &q->gets[i]);
		json_end_object(c.w);
		json_end_object(c.w);
	}
	json_end_array(c.w);
	json_end_object(c.w);
}

void client_transact_write(struct client c, const struct table_transact_write *q)
{
	static const char *const names[] = {[TABLE_PUT] = "Put",
	                                    [TABLE_UPDATE] = "Update",
	                                    [TABLE_DELETE] = "Delete",
	                                    [TABLE_CHECK] = "ConditionCheck"};

	json_begin_object(c.w);
	if (q->token.len > 0)
		text_field(c, BYTES("ClientRequestToken"), q->token);
	json_key(c.w, BYTES("TransactItems"));
	json_begin_array(c.w);
	for (uint32_t i = 0; i < q->count; i++) {
		json_begin_object(c.w);
		json_key(c.w, bytes_of(names[q->writes[i].kind]));
		json_begin_object(c.w);
		write_fields(c, &q->writes[i]);
		json_end_object(c.w);
		json_end_object(c.w);
	}
	json_end_array(c.w);
	json_end_object(c.w);
}
