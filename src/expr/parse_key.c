/* Parse key: a key condition is a condition of few shapes. It is parsed as any condition and then taken
 * apart: an AND of comparisons, each of one name and literals. */
#include "expr/check.h"
#include "item/messages.h"

/* One condition on one name, with the name on its left. */
struct key_part {
	struct bytes         name;
	enum expr_range_kind kind;
	const struct value  *low, *high;
};

struct key_parts {
	struct key_part parts[EXPR_OPERATORS_MAX]; /* each has an operator or function of its own */
	uint32_t        count;
	struct err     *err;
};

/* By enum expr_op; NE never gets here. */
static const enum expr_range_kind range_kinds[] = {RANGE_EQ, RANGE_NONE, RANGE_LT,
                                                   RANGE_LE, RANGE_GT,   RANGE_GE};
static const enum expr_range_kind mirrored[] = {RANGE_EQ, RANGE_NONE, RANGE_GT, RANGE_GE, RANGE_LT, RANGE_LE};

/* The name of what no key condition may use, or NULL. */
static const char *forbidden_name(const struct expr *e)
{
	switch (e->kind) {
	case EXPR_OR:
		return "OR";
	case EXPR_NOT:
		return "NOT";
	case EXPR_IN:
		return "IN";
	case EXPR_EXISTS:
		return "attribute_exists";
	case EXPR_NOT_EXISTS:
		return "attribute_not_exists";
	case EXPR_TYPE:
		return "attribute_type";
	case EXPR_CONTAINS:
		return "contains";
	case EXPR_COMPARE:
		return e->op == OP_NE ? "<>" : NULL;
	default:
		return NULL;
	}
}

/* Exactly one operand is a name: reports which. */
static enum err_code part_name(const struct expr *e, uint32_t *at, struct err *err)
{
	bool found = false;

	for (uint32_t i = 0; i < e->operand_count; i++) {
		const struct expr_operand *operand = &e->operands[i];

		if (operand->kind == OPERAND_SIZE)
			return err_set(err, ERR_INVALID, MSG_KEYCOND_NESTED);
		if (operand->kind != OPERAND_PATH)
			continue;
		if (found)
			return err_set(err, ERR_INVALID, MSG_KEYCOND_MULTIPLE);
		if (operand->path.count > 1)
			return err_set(err, ERR_INVALID, MSG_KEYCOND_PATH);
		found = true;
		*at = i;
	}
	return found ? ERR_NONE : err_set(err, ERR_INVALID, MSG_KEYCOND_NO_ATTRIBUTE);
}

static struct key_part part_build(const struct expr *e, uint32_t at)
{
	struct key_part part = {.name = e->operands[at].path.steps[0].name};

	part.low = &e->operands[at == 0 ? 1 : 0].value;
	if (e->kind == EXPR_COMPARE)
		part.kind = at == 0 ? range_kinds[e->op] : mirrored[e->op];
	else
		part.kind = e->kind == EXPR_BETWEEN ? RANGE_BETWEEN : RANGE_PREFIX;
	if (e->kind == EXPR_BETWEEN)
		part.high = &e->operands[2].value;
	return part;
}

static enum err_code part_take(struct key_parts *k, const struct expr *e)
{
	const char     *first = e->kind == EXPR_BETWEEN ? "BETWEEN" : "begins_with";
	struct key_part part;
	uint32_t        at = 0;
	enum err_code   rc;

	if (e->kind != EXPR_COMPARE && e->operands[0].kind != OPERAND_PATH)
		return err_set(k->err, ERR_INVALID, MSG_KEYCOND_FIRST, first);
	rc = part_name(e, &at, k->err);
	if (rc != ERR_NONE)
		return rc;
	part = part_build(e, at);
	for (uint32_t i = 0; i < k->count; i++)
		if (bytes_equal(k->parts[i].name, part.name))
			return err_set(k->err, ERR_INVALID, MSG_KEYCOND_TWICE);
	k->parts[k->count++] = part;
	return ERR_NONE;
}

/* Recursion is bounded by EXPR_OPERATORS_MAX. */
static enum err_code parts_collect(struct key_parts *k, const struct expr *e)
{
	const char   *forbidden = forbidden_name(e);
	enum err_code rc;

	if (forbidden != NULL)
		return err_set(k->err, ERR_INVALID, MSG_KEYCOND_OPERATOR, forbidden);
	if (e->kind != EXPR_AND)
		return part_take(k, e);
	rc = parts_collect(k, e->left);
	return rc != ERR_NONE ? rc : parts_collect(k, e->right);
}

static enum err_code parts_assign(const struct key_parts *k, struct expr_key_condition *out)
{
	uint32_t hash = 0;

	if (k->count > 2)
		return err_set(k->err, ERR_INVALID, MSG_KEYCOND_COUNT, k->count);
	while (hash < k->count && k->parts[hash].kind != RANGE_EQ)
		hash++;
	if (hash == k->count)
		return err_set(k->err, ERR_INVALID, MSG_KEYCOND_UNSUPPORTED);
	*out = (struct expr_key_condition){.hash_name = k->parts[hash].name, .hash = *k->parts[hash].low};
	if (k->count == 2) {
		const struct key_part *range = &k->parts[1 - hash];

		out->range_name = range->name;
		out->range_kind = range->kind;
		out->low = *range->low;
		if (range->high != NULL)
			out->high = *range->high;
	}
	return ERR_NONE;
}

enum err_code expr_parse_key_condition(struct arena *a, struct bytes text, struct expr_scope *scope,
                                       struct expr_key_condition *out, struct err *err)
{
	struct key_parts *parts = arena_alloc(a, sizeof(*parts));
	struct expr      *e;
	enum err_code     rc = expr_parse_condition(a, "KeyConditionExpression", text, scope, &e, err);

	parts->count = 0;
	parts->err = err;
	if (rc == ERR_NONE)
		rc = parts_collect(parts, e);
	return rc != ERR_NONE ? rc : parts_assign(parts, out);
}
