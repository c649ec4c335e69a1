/* Legacy: from parameters to trees. Each comparison operator is a row of one table: how many values it takes,
 * of which types, and which kind of condition it becomes. */
#include "dynamo/reader.h"

#include <assert.h>

#include "dynamo/wire.h"
#include "item/messages.h"

enum {
	TYPES_SCALAR = 1u << VALUE_S | 1u << VALUE_N | 1u << VALUE_B,
	TYPES_TEXT = 1u << VALUE_S | 1u << VALUE_B,
	TYPES_ADD = 1u << VALUE_N | 1u << VALUE_L | 1u << VALUE_SS | 1u << VALUE_NS | 1u << VALUE_BS,
	TYPES_DELETE = 1u << VALUE_SS | 1u << VALUE_NS | 1u << VALUE_BS,
	TYPES_ALL = (1u << VALUE_TYPE_COUNT) - 1,
	LEGACY_KEYS_MAX = 2,
};

struct comparison {
	const char          *name;
	uint32_t             least, most; /* values */
	unsigned             types;       /* allowed, as bits */
	enum expr_kind       kind;
	enum expr_op         op;
	bool                 negated; /* and the attribute must be there */
	enum expr_range_kind range;   /* in a key condition; NONE: not allowed there */
};

static const struct comparison comparisons[] = {
        {"EQ", 1, 1, TYPES_ALL, EXPR_COMPARE, OP_EQ, false, RANGE_EQ},
        {"NE", 1, 1, TYPES_ALL, EXPR_COMPARE, OP_NE, false, RANGE_NONE},
        {"LT", 1, 1, TYPES_SCALAR, EXPR_COMPARE, OP_LT, false, RANGE_LT},
        {"LE", 1, 1, TYPES_SCALAR, EXPR_COMPARE, OP_LE, false, RANGE_LE},
        {"GT", 1, 1, TYPES_SCALAR, EXPR_COMPARE, OP_GT, false, RANGE_GT},
        {"GE", 1, 1, TYPES_SCALAR, EXPR_COMPARE, OP_GE, false, RANGE_GE},
        {"BETWEEN", 2, 2, TYPES_SCALAR, EXPR_BETWEEN, OP_EQ, false, RANGE_BETWEEN},
        {"BEGINS_WITH", 1, 1, TYPES_TEXT, EXPR_BEGINS_WITH, OP_EQ, false, RANGE_PREFIX},
        {"CONTAINS", 1, 1, TYPES_SCALAR, EXPR_CONTAINS, OP_EQ, false, RANGE_NONE},
        {"NOT_CONTAINS", 1, 1, TYPES_SCALAR, EXPR_CONTAINS, OP_EQ, true, RANGE_NONE},
        {"IN", 1, EXPR_IN_MAX, TYPES_SCALAR, EXPR_IN, OP_EQ, false, RANGE_NONE},
        {"NULL", 0, 0, 0, EXPR_NOT_EXISTS, OP_EQ, false, RANGE_NONE},
        {"NOT_NULL", 0, 0, 0, EXPR_EXISTS, OP_EQ, false, RANGE_NONE},
};

/* The shape allowed only these names. */
static const struct comparison *comparison_named(struct bytes name)
{
	for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
		if (bytes_is(name, comparisons[i].name))
			return &comparisons[i];
	assert(false);
	return NULL;
}

/* ---- values ---- */

static enum err_code values_check(struct request_reader *r, const struct comparison *c,
                                  const struct value_list *values)
{
	struct bytes name = bytes_of(c->name);

	if (values->count < c->least || values->count > c->most)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_COUNT, BYTES_ARG(name));
	for (uint32_t i = 0; i < values->count; i++) {
		enum value_type type = values->items[i].type;

		if ((c->types >> type & 1) == 0)
			return err_set(r->err, ERR_INVALID, MSG_LEGACY_TYPE, BYTES_ARG(name),
			               value_type_name(type));
		if (type != values->items[0].type)
			return err_set(r->err, ERR_INVALID, MSG_LEGACY_MIXED_TYPES);
	}
	if (c->kind == EXPR_BETWEEN && value_compare(&values->items[0], &values->items[1]) > 0)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_BETWEEN);
	return ERR_NONE;
}

/* From AttributeValueList (an array), a single Value (an object), or nothing. */
static enum err_code values_read(struct request_reader *r, const struct json *json, struct value_list *out)
{
	uint32_t i = 0;

	*out = (struct value_list){0};
	if (json == NULL)
		return ERR_NONE;
	out->count = json->type == JSON_ARRAY ? json->count : 1;
	out->items = arena_array(r->arena, out->count, sizeof(struct value));
	if (json->type != JSON_ARRAY)
		return wire_value_read(r->arena, json, &out->items[0], r->err);
	for (const struct json *child = json_children(json); child != NULL; child = child->next) {
		enum err_code rc = wire_value_read(r->arena, child, &out->items[i++], r->err);

		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

/* ---- conditions ---- */

/* To an attribute of that name. */
static enum err_code path_read(struct request_reader *r, struct bytes name, struct expr_path *out)
{
	struct expr_step *step = arena_zalloc(r->arena, sizeof(*step));

	step->name = name;
	*out = (struct expr_path){step, 1};
	return name_check(name, r->err);
}

static struct expr *node_new(struct arena *a, enum expr_kind kind, struct expr *left, struct expr *right)
{
	struct expr *e = arena_zalloc(a, sizeof(*e));

	e->kind = kind;
	e->left = left;
	e->right = right;
	return e;
}

static struct expr *exists_build(struct arena *a, struct expr_path attribute)
{
	struct expr *e = node_new(a, EXPR_EXISTS, NULL, NULL);

	e->operand_count = 1;
	e->operands = arena_zalloc(a, sizeof(e->operands[0]));
	e->operands[0] = (struct expr_operand){.kind = OPERAND_PATH, .path = attribute};
	return e;
}

static struct expr *comparison_build(struct arena *a, const struct comparison *c, struct expr_path attribute,
                                     const struct value_list *values)
{
	struct expr *e = node_new(a, c->kind, NULL, NULL);

	e->op = c->op;
	e->operand_count = values->count + 1;
	e->operands = arena_zalloc(a, e->operand_count * sizeof(e->operands[0]));
	e->operands[0].kind = OPERAND_PATH;
	e->operands[0].path = attribute;
	for (uint32_t i = 0; i < values->count; i++) {
		e->operands[i + 1].kind = OPERAND_VALUE;
		e->operands[i + 1].value = values->items[i];
	}
	return c->negated ? node_new(a, EXPR_AND, exists_build(a, attribute), node_new(a, EXPR_NOT, e, NULL))
	                  : e;
}

static enum err_code comparison_read(struct request_reader *r, struct bytes operator_name,
                                     struct bytes attribute, const struct json *json, struct expr **out)
{
	const struct comparison *c = comparison_named(operator_name);
	struct value_list        values;
	struct expr_path         path;
	enum err_code            rc = path_read(r, attribute, &path);

	if (rc == ERR_NONE)
		rc = values_read(r, json, &values);
	if (rc == ERR_NONE)
		rc = values_check(r, c, &values);
	if (rc == ERR_NONE)
		*out = comparison_build(r->arena, c, path, &values);
	return rc;
}

static enum err_code condition_read_one(struct request_reader *r, const struct json *json, struct expr **out)
{
	const struct json *op = json_get(json, BYTES("ComparisonOperator"));

	return comparison_read(r, json_text(op), json->name, json_get(json, BYTES("AttributeValueList")),
	                       out);
}

static const struct json *present(const struct json *json)
{
	return json == NULL || json->type == JSON_NULL ? NULL : json;
}

/* An expectation without an operator: a value, or that there is none. */
static enum err_code exists_read(struct request_reader *r, const struct json *json, const struct json *value,
                                 const struct json *exists, struct expr **out)
{
	bool must_exist = exists == NULL || json_truth(exists);

	if (must_exist && value == NULL)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_EXISTS_VALUE, exists == NULL ? "null" : "true",
		               BYTES_ARG(json->name));
	if (!must_exist && value != NULL)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_NOT_EXISTS_VALUE, BYTES_ARG(json->name));
	return comparison_read(r, must_exist ? BYTES("EQ") : BYTES("NULL"), json->name, value, out);
}

static enum err_code expected_read_one(struct request_reader *r, const struct json *json, struct expr **out)
{
	const struct json *op = present(json_get(json, BYTES("ComparisonOperator")));
	const struct json *list = present(json_get(json, BYTES("AttributeValueList")));
	const struct json *value = present(json_get(json, BYTES("Value")));
	const struct json *exists = present(json_get(json, BYTES("Exists")));

	if (value != NULL && list != NULL)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_VALUE_AND_LIST, BYTES_ARG(json->name));
	if (op == NULL && list != NULL)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_LIST_ALONE, BYTES_ARG(json->name));
	if (op == NULL)
		return exists_read(r, json, value, exists, out);
	if (exists != NULL)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_EXISTS_AND_OPERATOR, BYTES_ARG(json->name));
	if (list == NULL && value == NULL && comparison_named(json_text(op))->least > 0)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_VALUE_NONE, BYTES_ARG(json_text(op)),
		               BYTES_ARG(json->name));
	return comparison_read(r, json_text(op), json->name, list != NULL ? list : value, out);
}

static enum err_code operator_check(struct request_reader *r, const struct json *conditions,
                                    const struct json *conditional_operator)
{
	if (conditional_operator == NULL)
		return ERR_NONE;
	if (conditions == NULL)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_OPERATOR_ALONE);
	return conditions->count > 1 ? ERR_NONE : err_set(r->err, ERR_INVALID, MSG_LEGACY_OPERATOR_ONE);
}

/* Joins all conditions; balanced halves would be shallower, but the number is bounded (EXPR_OPERATORS_MAX).
 */
static enum err_code
joined_read(struct request_reader *r, const struct json *conditions, const struct json *conditional_operator,
            enum err_code (*one)(struct request_reader *, const struct json *, struct expr **),
            const struct expr **out)
{
	enum expr_kind join = text_is(conditional_operator, "OR") ? EXPR_OR : EXPR_AND;
	enum err_code  rc = operator_check(r, conditions, conditional_operator);
	struct expr   *all = NULL;

	*out = NULL;
	if (rc != ERR_NONE || conditions == NULL)
		return rc;
	if (conditions->count > EXPR_OPERATORS_MAX)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_MANY, EXPR_OPERATORS_MAX);
	for (const struct json *child = json_children(conditions); child != NULL; child = child->next) {
		struct expr *next = NULL;

		rc = one(r, child, &next);
		if (rc != ERR_NONE)
			return rc;
		all = all == NULL ? next : node_new(r->arena, join, all, next);
	}
	*out = all;
	return ERR_NONE;
}

enum err_code legacy_filter(struct request_reader *r, const struct json *conditions,
                            const struct json *conditional_operator, const struct expr **out)
{
	return joined_read(r, conditions, conditional_operator, condition_read_one, out);
}

enum err_code legacy_expected(struct request_reader *r, const struct json *expected,
                              const struct json *conditional_operator, const struct expr **out)
{
	return joined_read(r, expected, conditional_operator, expected_read_one, out);
}

/* ---- updates ---- */

/* ADD of a list appends: SET a = list_append(if_not_exists(a, []), v). */
static void append_build(struct arena *a, struct expr_action *action, const struct value *list)
{
	struct expr_term *empty = arena_zalloc(a, sizeof(*empty));
	struct expr_term *before = arena_zalloc(a, sizeof(*before));
	struct expr_term *added = arena_zalloc(a, sizeof(*added));

	empty->kind = TERM_VALUE;
	empty->value.type = VALUE_L;
	before->kind = TERM_IF_NOT_EXISTS;
	before->path = action->path;
	before->left = empty;
	added->kind = TERM_VALUE;
	added->value = *list;
	action->kind = ACTION_SET;
	action->term = (struct expr_term){.kind = TERM_LIST_APPEND, .left = before, .right = added};
}

static enum err_code action_build(struct request_reader *r, const struct json *action,
                                  const struct value *value, struct expr_action *out)
{
	if (text_is(action, "ADD")) {
		if ((TYPES_ADD >> value->type & 1) == 0)
			return err_set(r->err, ERR_INVALID, MSG_LEGACY_ADD_TYPE,
			               value_type_name(value->type));
		out->kind = ACTION_ADD;
		out->value = *value;
		if (value->type == VALUE_L)
			append_build(r->arena, out, value);
	} else if (text_is(action, "DELETE")) {
		if ((TYPES_DELETE >> value->type & 1) == 0)
			return err_set(r->err, ERR_INVALID, MSG_LEGACY_DELETE_TYPE,
			               value_type_name(value->type));
		out->kind = ACTION_DELETE;
		out->value = *value;
	} else {
		out->kind = ACTION_SET;
		out->term = (struct expr_term){.kind = TERM_VALUE, .value = *value};
	}
	return ERR_NONE;
}

static enum err_code update_read_one(struct request_reader *r, const struct json *json,
                                     struct expr_action *out)
{
	const struct json *action = present(json_get(json, BYTES("Action")));
	const struct json *given = present(json_get(json, BYTES("Value")));
	struct value       value;
	enum err_code      rc;

	*out = (struct expr_action){.kind = ACTION_REMOVE};
	if (path_read(r, json->name, &out->path) != ERR_NONE)
		return r->err->code;
	if (given == NULL)
		return text_is(action, "DELETE") ? ERR_NONE
		                                 : err_set(r->err, ERR_INVALID, MSG_LEGACY_UPDATE_VALUE);
	rc = wire_value_read(r->arena, given, &value, r->err);
	return rc != ERR_NONE ? rc : action_build(r, action, &value, out);
}

enum err_code legacy_updates(struct request_reader *r, const struct json *updates,
                             const struct expr_update **out)
{
	struct expr_update *update;

	*out = NULL;
	if (updates == NULL)
		return ERR_NONE;
	if (updates->count > EXPR_OPERATORS_MAX)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_MANY, EXPR_OPERATORS_MAX);
	update = arena_zalloc(r->arena, sizeof(*update));
	update->actions = arena_array(r->arena, updates->count, sizeof(update->actions[0]));
	*out = update;
	for (const struct json *child = json_children(updates); child != NULL; child = child->next) {
		enum err_code rc = update_read_one(r, child, &update->actions[update->count++]);

		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

/* ---- attributes and keys ---- */

enum err_code legacy_projection(struct request_reader *r, const struct json *attributes,
                                const struct expr_projection **out)
{
	struct expr_projection *projection;
	const struct json      *twice;

	*out = NULL;
	if (attributes == NULL)
		return ERR_NONE;
	if (attributes->count > EXPR_OPERATORS_MAX)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_MANY, EXPR_OPERATORS_MAX);
	twice = shape_repeated(r->arena, attributes);
	if (twice != NULL)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_ATTRIBUTE_TWICE, BYTES_ARG(json_text(twice)));
	projection = arena_zalloc(r->arena, sizeof(*projection));
	projection->paths = arena_array(r->arena, attributes->count, sizeof(projection->paths[0]));
	for (const struct json *child = json_children(attributes); child != NULL; child = child->next)
		if (path_read(r, json_text(child), &projection->paths[projection->count++]) != ERR_NONE)
			return r->err->code;
	*out = projection;
	return ERR_NONE;
}

static enum err_code key_read(struct request_reader *r, const struct json *json, struct value_list *values,
                              enum expr_range_kind *range)
{
	const struct comparison *c = comparison_named(json_text(json_get(json, BYTES("ComparisonOperator"))));
	enum err_code            rc = name_check(json->name, r->err);

	*range = c->range;
	if (rc == ERR_NONE)
		rc = values_read(r, present(json_get(json, BYTES("AttributeValueList"))), values);
	if (rc == ERR_NONE)
		rc = values_check(r, c, values);
	if (rc == ERR_NONE && c->range == RANGE_NONE)
		rc = err_set(r->err, ERR_INVALID, MSG_LEGACY_KEY_OPERATOR);
	return rc;
}

static void key_assign(struct expr_key_condition *out, struct bytes name, enum expr_range_kind range,
                       const struct value_list *values)
{
	assert(values->count > 0); /* values_check */
	if (out->hash_name.len == 0 && range == RANGE_EQ) {
		out->hash_name = name;
		out->hash = values->items[0];
		return;
	}
	out->range_name = name;
	out->range_kind = range;
	out->low = values->items[0];
	if (range == RANGE_BETWEEN)
		out->high = values->items[1];
}

enum err_code legacy_key_condition(struct request_reader *r, const struct json *conditions,
                                   struct expr_key_condition *out)
{
	*out = (struct expr_key_condition){0};
	if (conditions->count < 1 || conditions->count > LEGACY_KEYS_MAX)
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_KEYS_COUNT);
	for (const struct json *child = json_children(conditions); child != NULL; child = child->next) {
		struct value_list    values;
		enum expr_range_kind range;
		enum err_code        rc = key_read(r, child, &values, &range);

		if (rc != ERR_NONE)
			return rc;
		key_assign(out, child->name, range, &values);
	}
	if (out->hash_name.len == 0 || (conditions->count == LEGACY_KEYS_MAX && out->range_name.len == 0))
		return err_set(r->err, ERR_INVALID, MSG_LEGACY_KEY_HASH);
	return ERR_NONE;
}
