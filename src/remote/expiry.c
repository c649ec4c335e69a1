/* Expiry: see expiry.h. */
#include "remote/expiry.h"

/* Among our own items nothing is too much to look at. */
static const struct expr_cost boundless = {.max = SIZE_MAX};

bool expiry_holds_absent(const struct expr *condition)
{
	static const struct item nothing = {NULL, 0};
	struct expr_cost         cost = boundless;

	return condition == NULL || expr_holds(condition, &nothing, &cost);
}

/* ---- trees ---- */

static struct expr *compare(struct expiry e, enum expr_op op, int64_t seconds)
{
	struct expr         *x = arena_zalloc(e.arena, sizeof(*x));
	struct expr_step    *step = arena_zalloc(e.arena, sizeof(*step));
	struct expr_operand *operands = arena_zalloc(e.arena, 2 * sizeof(*operands));

	step->name = e.schema->ttl_attribute;
	operands[0] = (struct expr_operand){.kind = OPERAND_PATH, .path = {step, 1}};
	operands[1] = (struct expr_operand){.kind = OPERAND_VALUE, .value = value_i64(seconds)};
	*x = (struct expr){.kind = EXPR_COMPARE, .op = op, .operands = operands, .operand_count = 2};
	return x;
}

static struct expr *join(struct expiry e, enum expr_kind kind, const struct expr *left,
                         const struct expr *right)
{
	struct expr *x = arena_zalloc(e.arena, sizeof(*x));

	*x = (struct expr){.kind = kind,
	                   .left = (struct expr *)(uintptr_t)left,
	                   .right = (struct expr *)(uintptr_t)right};
	return x;
}

/* A comparison with an attribute that is absent or no number is false. */
static struct expr *expired(struct expiry e)
{
	int64_t now_s = e.now_us / 1000000;

	return join(e, EXPR_AND, compare(e, OP_LE, now_s), compare(e, OP_GT, now_s - SCHEMA_EXPIRY_PAST_S));
}

static struct expr *alive(struct expiry e)
{
	return join(e, EXPR_NOT, expired(e), NULL);
}

const struct expr *expiry_condition(struct expiry e, const struct expr *condition)
{
	if (condition == NULL || e.schema->ttl_attribute.len == 0)
		return condition;
	return expiry_holds_absent(condition) ? join(e, EXPR_OR, expired(e), condition)
	                                      : join(e, EXPR_AND, alive(e), condition);
}

const struct expr *expiry_update_condition(struct expiry e, const struct expr *condition)
{
	if (e.schema->ttl_attribute.len == 0)
		return condition;
	return condition == NULL ? alive(e) : join(e, EXPR_AND, alive(e), condition);
}

enum err_code expiry_reborn(struct expiry e, const struct table_write *update, struct table_write *out,
                            struct err *err)
{
	static const struct expr_update none = {NULL, 0};

	*out = *update;
	out->kind = TABLE_PUT;
	out->returns = RETURN_NONE;
	out->condition = expired(e);
	if (!expr_update_creates(update->update)) { /* the row goes, now instead of later */
		out->kind = TABLE_DELETE;
		return ERR_NONE;
	}
	return expr_update_apply(e.arena, update->update == NULL ? &none : update->update, &update->key,
	                         &out->item, err);
}
