/* Eval: does a condition hold for an item? Conditions are at most EXPR_DEPTH_MAX deep, so recursion is
 * bounded. What is absent equals nothing and is in no order with anything. */
#include "expr/eval.h"

#include "expr/sets.h"

const struct value *expr_path_find(const struct expr_path *path, const struct item *item)
{
	const struct value *at = item_get(item, path->steps[0].name);

	for (uint32_t i = 1; i < path->count && at != NULL; i++) {
		const struct expr_step *step = &path->steps[i];

		if (step->is_index)
			at = at->type == VALUE_L && step->index < at->list.count
			             ? &at->list.items[step->index]
			             : NULL;
		else
			at = at->type == VALUE_M ? item_get(&at->map, step->name) : NULL;
	}
	return at;
}

/* DynamoDB's size(): bytes or elements; false where it has none. */
static bool size_of(const struct value *v, struct value *out)
{
	switch (v->type) {
	case VALUE_S:
	case VALUE_B:
		*out = value_i64((int64_t)v->text.len);
		return true;
	case VALUE_M:
		*out = value_i64(v->map.count);
		return true;
	case VALUE_N:
	case VALUE_BOOL:
	case VALUE_NULL:
		return false;
	default:
		*out = value_i64(v->list.count);
		return true;
	}
}

/* The operand's value, or NULL. A size is made in *room. */
static const struct value *operand_get(const struct expr_operand *operand, const struct item *item,
                                       struct value *room)
{
	const struct value *of;

	if (operand->kind == OPERAND_VALUE)
		return &operand->value;
	of = operand->path.count > 0 ? expr_path_find(&operand->path, item) : &operand->value;
	if (operand->kind == OPERAND_PATH)
		return of;
	return of != NULL && size_of(of, room) ? room : NULL;
}

static bool values_have_order(const struct value *a, const struct value *b)
{
	return a != NULL && b != NULL && a->type == b->type && a->type <= VALUE_B;
}

static bool values_equal(const struct value *a, const struct value *b)
{
	return a != NULL && b != NULL && value_equal(a, b);
}

static bool compare_holds(enum expr_op op, const struct value *a, const struct value *b)
{
	int order;

	if (op == OP_EQ || op == OP_NE)
		return values_equal(a, b) == (op == OP_EQ);
	if (!values_have_order(a, b))
		return false;
	order = value_compare(a, b);
	switch (op) {
	case OP_LT:
		return order < 0;
	case OP_LE:
		return order <= 0;
	case OP_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

static bool in_holds(const struct expr *e, const struct value *first, const struct item *item)
{
	struct value room;

	for (uint32_t i = 1; i < e->operand_count; i++)
		if (values_equal(first, operand_get(&e->operands[i], item, &room)))
			return true;
	return false;
}

static bool begins_with_holds(const struct value *a, const struct value *b)
{
	return values_have_order(a, b) && a->type != VALUE_N && bytes_starts_with(a->text, b->text);
}

static bool contains_holds(const struct value *a, const struct value *b)
{
	if (a == NULL || b == NULL)
		return false;
	if (value_type_is_set(a->type))
		return set_has(a, b);
	if (a->type == VALUE_S || a->type == VALUE_B)
		return a->type == b->type && bytes_contains(a->text, b->text);
	if (a->type != VALUE_L)
		return false;
	for (uint32_t i = 0; i < a->list.count; i++)
		if (value_equal(&a->list.items[i], b))
			return true;
	return false;
}

/* A condition on operands. */
static bool leaf_holds(const struct expr *e, const struct item *item)
{
	struct value        rooms[3];
	const struct value *v[3] = {NULL, NULL, NULL};

	for (uint32_t i = 0; i < e->operand_count && i < 3; i++)
		v[i] = operand_get(&e->operands[i], item, &rooms[i]);
	switch (e->kind) {
	case EXPR_COMPARE:
		return compare_holds(e->op, v[0], v[1]);
	case EXPR_BETWEEN:
		return compare_holds(OP_GE, v[0], v[1]) && compare_holds(OP_LE, v[0], v[2]);
	case EXPR_IN:
		return in_holds(e, v[0], item);
	case EXPR_EXISTS:
		return v[0] != NULL;
	case EXPR_NOT_EXISTS:
		return v[0] == NULL;
	case EXPR_TYPE:
		return v[0] != NULL && bytes_is(v[1]->text, value_type_name(v[0]->type));
	case EXPR_BEGINS_WITH:
		return begins_with_holds(v[0], v[1]);
	default:
		return contains_holds(v[0], v[1]);
	}
}

static bool same_holds(const struct expr *e, const struct item *item)
{
	if (item->members == e->read.members)
		return true; /* items do not change: it is the very one that was read */
	for (const char *const *name = e->names; *name != NULL; name++) {
		const struct value *now = item_get(item, bytes_of(*name)),
		                   *then = item_get(&e->read, bytes_of(*name));

		if (now == NULL || then == NULL ? now != then : !value_equal(now, then))
			return false;
	}
	return true;
}

bool expr_holds(const struct expr *condition, const struct item *item)
{
	if (condition == NULL)
		return true;
	switch (condition->kind) {
	case EXPR_AND:
		return expr_holds(condition->left, item) && expr_holds(condition->right, item);
	case EXPR_OR:
		return expr_holds(condition->left, item) || expr_holds(condition->right, item);
	case EXPR_NOT:
		return !expr_holds(condition->left, item);
	case EXPR_SAME:
		return same_holds(condition, item);
	default:
		return leaf_holds(condition, item);
	}
}

static bool operand_mentions(const struct expr_operand *operand, struct bytes name)
{
	return operand->kind != OPERAND_VALUE && operand->path.count > 0 &&
	       bytes_equal(operand->path.steps[0].name, name);
}

bool expr_mentions(const struct expr *condition, struct bytes name)
{
	if (condition == NULL)
		return false;
	for (uint32_t i = 0; i < condition->operand_count; i++)
		if (operand_mentions(&condition->operands[i], name))
			return true;
	for (uint32_t i = 0; condition->kind == EXPR_SAME && condition->names[i] != NULL; i++)
		if (bytes_is(name, condition->names[i]))
			return true;
	return expr_mentions(condition->left, name) || expr_mentions(condition->right, name);
}
