/* Eval: does a condition hold for an item? Conditions are at most EXPR_DEPTH_MAX deep, so recursion is
 * bounded. What is absent equals nothing and is in no order with anything.
 *
 * Whatever walks or compares is charged first (eval.h): text and item are the caller's, and the writer's thread runs
 * this while everyone else waits. */
#include "expr/eval.h"

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

/* ---- what it costs ---- */

/* False if that is more than the request may look at. Nothing is looked at then. */
static bool charge(struct expr_cost *cost, size_t bytes)
{
	cost->spent += bytes;
	return cost->spent <= cost->max;
}

/* Of a name among that many members: item_find looks at each of a few, and at about as many of a lot. */
static bool charge_path(struct expr_cost *cost, const struct expr_path *path, const struct item *item)
{
	size_t members = item->count < ITEM_FEW ? item->count : ITEM_FEW, bytes = 0;

	for (uint32_t i = 0; i < path->count; i++, members = ITEM_FEW)
		bytes += path->steps[i].name.len * members;
	return charge(cost, bytes);
}

/* ---- values ---- */

/* The operand's value, or NULL. A size is made in *room. */
static const struct value *operand_get(const struct expr_operand *operand, const struct item *item,
                                       struct value *room, struct expr_cost *cost)
{
	const struct value *of = &operand->value;

	if (!charge(cost, EXPR_NODE_COST))
		return NULL;
	if (operand->kind == OPERAND_VALUE)
		return of;
	if (operand->path.count > 0)
		of = charge_path(cost, &operand->path, item) ? expr_path_find(&operand->path, item) : NULL;
	if (operand->kind == OPERAND_PATH)
		return of;
	return of != NULL && size_of(of, room) ? room : NULL;
}

static bool values_have_order(const struct value *a, const struct value *b)
{
	return a != NULL && b != NULL && a->type == b->type && a->type <= VALUE_B;
}

static bool equal(const struct value *a, const struct value *b, struct expr_cost *cost);

static bool texts_equal(struct bytes a, struct bytes b, struct expr_cost *cost)
{
	return a.len == b.len && charge(cost, a.len) && bytes_equal(a, b);
}

static bool lists_equal(const struct value_list *a, const struct value_list *b, struct expr_cost *cost)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (!equal(&a->items[i], &b->items[i], cost))
			return false;
	return true;
}

static bool maps_equal(const struct item *a, const struct item *b, struct expr_cost *cost)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (!texts_equal(a->members[i].name, b->members[i].name, cost) ||
		    !equal(&a->members[i].value, &b->members[i].value, cost))
			return false;
	return true;
}

/* value_equal, at a cost. Values nest at most VALUE_DEPTH_MAX deep. */
static bool equal(const struct value *a, const struct value *b, struct expr_cost *cost)
{
	if (!charge(cost, EXPR_NODE_COST) || a->type != b->type)
		return false;
	switch (a->type) {
	case VALUE_S:
	case VALUE_B:
		return texts_equal(a->text, b->text, cost);
	case VALUE_N:
	case VALUE_BOOL:
	case VALUE_NULL:
		return value_equal(a, b);
	case VALUE_M:
		return maps_equal(&a->map, &b->map, cost);
	default:
		return lists_equal(&a->list, &b->list, cost);
	}
}

static bool values_equal(const struct value *a, const struct value *b, struct expr_cost *cost)
{
	return a != NULL && b != NULL && equal(a, b, cost);
}

/* ---- conditions ---- */

static size_t common_bytes(const struct value *a, const struct value *b)
{
	if (a->type == VALUE_N)
		return 0;
	return a->text.len < b->text.len ? a->text.len : b->text.len;
}

static bool compare_holds(enum expr_op op, const struct value *a, const struct value *b,
                          struct expr_cost *cost)
{
	int order;

	if (op == OP_EQ || op == OP_NE)
		return values_equal(a, b, cost) == (op == OP_EQ);
	if (!values_have_order(a, b) || !charge(cost, common_bytes(a, b)))
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

static bool in_holds(const struct expr *e, const struct value *first, const struct item *item,
                     struct expr_cost *cost)
{
	struct value room;

	for (uint32_t i = 1; i < e->operand_count; i++)
		if (values_equal(first, operand_get(&e->operands[i], item, &room, cost), cost))
			return true;
	return false;
}

static bool begins_with_holds(const struct value *a, const struct value *b, struct expr_cost *cost)
{
	return a != NULL && b != NULL && values_have_order(a, b) && a->type != VALUE_N &&
	       charge(cost, common_bytes(a, b)) && bytes_starts_with(a->text, b->text);
}

static bool text_contains(struct bytes text, struct bytes part, struct expr_cost *cost)
{
	return part.len <= text.len && charge(cost, (text.len + part.len) * EXPR_SEARCH_COST) &&
	       bytes_contains(text, part);
}

/* A set is searched by halves, and an item of 400 KB holds fewer than 2^19 elements. */
enum { SET_COMPARISONS_MAX = 19 };

static bool set_contains(const struct value *set, const struct value *element, struct expr_cost *cost)
{
	size_t bytes = element->type == VALUE_S || element->type == VALUE_B ? element->text.len : 0;

	return charge(cost, SET_COMPARISONS_MAX * (EXPR_NODE_COST + bytes)) && value_set_has(set, element);
}

static bool contains_holds(const struct value *a, const struct value *b, struct expr_cost *cost)
{
	if (a == NULL || b == NULL)
		return false;
	if (value_type_is_set(a->type))
		return set_contains(a, b, cost);
	if (a->type == VALUE_S || a->type == VALUE_B)
		return a->type == b->type && text_contains(a->text, b->text, cost);
	if (a->type != VALUE_L)
		return false;
	for (uint32_t i = 0; i < a->list.count && !expr_cost_exceeded(cost); i++)
		if (equal(&a->list.items[i], b, cost))
			return true;
	return false;
}

/* A condition on operands. */
static bool leaf_holds(const struct expr *e, const struct item *item, struct expr_cost *cost)
{
	struct value        rooms[3];
	const struct value *v[3] = {NULL, NULL, NULL};

	for (uint32_t i = 0; i < e->operand_count && i < 3; i++)
		v[i] = operand_get(&e->operands[i], item, &rooms[i], cost);
	if (expr_cost_exceeded(cost))
		return false;
	switch (e->kind) {
	case EXPR_COMPARE:
		return compare_holds(e->op, v[0], v[1], cost);
	case EXPR_BETWEEN:
		return compare_holds(OP_GE, v[0], v[1], cost) && compare_holds(OP_LE, v[0], v[2], cost);
	case EXPR_IN:
		return in_holds(e, v[0], item, cost);
	case EXPR_EXISTS:
		return v[0] != NULL;
	case EXPR_NOT_EXISTS:
		return v[0] == NULL;
	case EXPR_TYPE:
		return v[0] != NULL && v[1] != NULL && bytes_is(v[1]->text, value_type_name(v[0]->type));
	case EXPR_BEGINS_WITH:
		return begins_with_holds(v[0], v[1], cost);
	default:
		return contains_holds(v[0], v[1], cost);
	}
}

static bool same_holds(const struct expr *e, const struct item *item, struct expr_cost *cost)
{
	if (item->members == e->read.members)
		return true; /* items do not change: it is the very one that was read */
	for (const char *const *name = e->names; *name != NULL; name++) {
		const struct value *now = item_get(item, bytes_of(*name)),
		                   *then = item_get(&e->read, bytes_of(*name));

		if (now == NULL || then == NULL ? now != then : !equal(now, then, cost))
			return false;
	}
	return true;
}

bool expr_holds(const struct expr *condition, const struct item *item, struct expr_cost *cost)
{
	if (condition == NULL)
		return true;
	switch (condition->kind) {
	case EXPR_AND:
		return expr_holds(condition->left, item, cost) && expr_holds(condition->right, item, cost);
	case EXPR_OR:
		return expr_holds(condition->left, item, cost) || expr_holds(condition->right, item, cost);
	case EXPR_NOT:
		return !expr_holds(condition->left, item, cost);
	case EXPR_SAME:
		return same_holds(condition, item, cost);
	default:
		return leaf_holds(condition, item, cost);
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
