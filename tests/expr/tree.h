/* Tree: equality of expression trees, for the round trips of tests and of the fuzzer. */
#ifndef TESTS_EXPR_TREE_H
#define TESTS_EXPR_TREE_H

#include "expr/expr.h"

static inline bool tree_path_equal(const struct expr_path *a, const struct expr_path *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++) {
		const struct expr_step *x = &a->steps[i], *y = &b->steps[i];

		if (x->is_index != y->is_index || (x->is_index && x->index != y->index))
			return false;
		if (!x->is_index && !bytes_equal(x->name, y->name))
			return false;
	}
	return true;
}

static inline bool tree_operand_equal(const struct expr_operand *a, const struct expr_operand *b)
{
	bool literal = a->kind == OPERAND_VALUE || (a->kind == OPERAND_SIZE && a->path.count == 0);

	if (a->kind != b->kind || a->path.count != b->path.count)
		return false;
	return literal ? value_equal(&a->value, &b->value) : tree_path_equal(&a->path, &b->path);
}

static inline bool tree_equal(const struct expr *a, const struct expr *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	if (a->kind != b->kind || a->operand_count != b->operand_count)
		return false;
	if (a->kind == EXPR_COMPARE && a->op != b->op)
		return false;
	for (uint32_t i = 0; i < a->operand_count; i++)
		if (!tree_operand_equal(&a->operands[i], &b->operands[i]))
			return false;
	return tree_equal(a->left, b->left) && tree_equal(a->right, b->right);
}

static inline bool tree_term_equal(const struct expr_term *a, const struct expr_term *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	if (a->kind != b->kind)
		return false;
	if (a->kind == TERM_VALUE)
		return value_equal(&a->value, &b->value);
	if ((a->kind == TERM_PATH || a->kind == TERM_IF_NOT_EXISTS) && !tree_path_equal(&a->path, &b->path))
		return false;
	return tree_term_equal(a->left, b->left) && tree_term_equal(a->right, b->right);
}

static inline bool tree_action_equal(const struct expr_action *a, const struct expr_action *b)
{
	if (a->kind != b->kind || !tree_path_equal(&a->path, &b->path))
		return false;
	if (a->kind == ACTION_SET)
		return tree_term_equal(&a->term, &b->term);
	return a->kind == ACTION_REMOVE || value_equal(&a->value, &b->value);
}

static inline bool tree_update_equal(const struct expr_update *a, const struct expr_update *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (!tree_action_equal(&a->actions[i], &b->actions[i]))
			return false;
	return true;
}

static inline bool tree_projection_equal(const struct expr_projection *a, const struct expr_projection *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (!tree_path_equal(&a->paths[i], &b->paths[i]))
			return false;
	return true;
}

static inline bool tree_key_equal(const struct expr_key_condition *a, const struct expr_key_condition *b)
{
	if (!bytes_equal(a->hash_name, b->hash_name) || !value_equal(&a->hash, &b->hash))
		return false;
	if (a->range_kind != b->range_kind || !bytes_equal(a->range_name, b->range_name))
		return false;
	if (a->range_kind == RANGE_NONE)
		return true;
	return value_equal(&a->low, &b->low) &&
	       (a->range_kind != RANGE_BETWEEN || value_equal(&a->high, &b->high));
}

#endif
