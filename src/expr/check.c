/* Check: conditions beyond their syntax: known functions, the number and types of operands; and the few shapes that
 * a key condition may have. Within one condition the checks follow DynamoDB's order: number of operands, distinct
 * operands, types. */
#include "expr/parser.h"
#include "item/messages.h"

static const struct function functions[] = {
        {"attribute_exists", 1, FUNCTION_CONDITION, {.condition = EXPR_EXISTS}, true},
        {"attribute_not_exists", 1, FUNCTION_CONDITION, {.condition = EXPR_NOT_EXISTS}, true},
        {"attribute_type", 2, FUNCTION_CONDITION, {.condition = EXPR_TYPE}, false},
        {"begins_with", 2, FUNCTION_CONDITION, {.condition = EXPR_BEGINS_WITH}, false},
        {"contains", 2, FUNCTION_CONDITION, {.condition = EXPR_CONTAINS}, false},
        {"size", 1, FUNCTION_OPERAND, {.condition = EXPR_COMPARE}, false},
        {"if_not_exists", 2, FUNCTION_UPDATE, {.term = TERM_IF_NOT_EXISTS}, true},
        {"list_append", 2, FUNCTION_UPDATE, {.term = TERM_LIST_APPEND}, false},
};

static const char *const op_texts[] = {"=", "<>", "<", "<=", ">", ">="};

/* Sets of types, a bit each. */
#define TYPES_ORDERED ((1u << VALUE_S) | (1u << VALUE_N) | (1u << VALUE_B))
#define TYPES_TEXT    ((1u << VALUE_S) | (1u << VALUE_B))
#define TYPES_SIZED   (~((1u << VALUE_N) | (1u << VALUE_BOOL) | (1u << VALUE_NULL)))

const struct function *function_find(struct bytes name)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		if (bytes_is(name, functions[i].name))
			return &functions[i];
	return NULL;
}

const char *function_name(enum expr_kind kind)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		if (functions[i].use == FUNCTION_CONDITION && functions[i].condition == kind)
			return functions[i].name;
	return NULL;
}

const char *expr_op_text(enum expr_op op)
{
	return op_texts[op];
}

/* The type an operand has whatever the item holds; VALUE_TYPE_COUNT for a path. */
static enum value_type operand_type(const struct expr_operand *operand)
{
	if (operand->kind == OPERAND_PATH)
		return VALUE_TYPE_COUNT;
	return operand->kind == OPERAND_SIZE ? VALUE_N : operand->value.type;
}

/* False, after a complaint, if an operand has a type outside the set. */
static bool check_types(struct parser *p, const char *name, const struct expr_operand *operands,
                        uint32_t count, unsigned types)
{
	for (uint32_t i = 0; i < count; i++) {
		enum value_type type = operand_type(&operands[i]);

		if (type == VALUE_TYPE_COUNT || (types & (1u << type)) != 0)
			continue;
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_OPERAND_TYPE, name, value_type_name(type));
		return false;
	}
	return true;
}

/* False, after a complaint, if the first operand is a path and occurs again. */
static bool check_distinct(struct parser *p, const char *name, const struct expr_operand *operands,
                           uint32_t count)
{
	const struct expr_path *first = &operands[0].path;
	struct bytes            shown;

	if (operands[0].kind != OPERAND_PATH)
		return true;
	for (uint32_t i = 1; i < count; i++) {
		if (operands[i].kind != OPERAND_PATH || !path_equal(first, &operands[i].path))
			continue;
		shown = path_show(p->arena, first);
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_DISTINCT, name, BYTES_ARG(shown));
		return false;
	}
	return true;
}

void check_compare(struct parser *p, enum expr_op op, const struct expr_operand operands[2])
{
	if (check_distinct(p, op_texts[op], operands, 2) && op != OP_EQ && op != OP_NE)
		check_types(p, op_texts[op], operands, 2, TYPES_ORDERED);
}

/* A bound as DynamoDB shows it. */
static struct bytes bound_show(struct parser *p, const struct value *bound)
{
	char text[NUMBER_TEXT_MAX];
	int  len = (int)bound->text.len;

	if (bound->type == VALUE_S)
		return text_shown(bound->text);
	if (bound->type == VALUE_B)
		return arena_printf(p->arena, "java.nio.HeapByteBuffer[pos=0 lim=%d cap=%d]", len, len);
	len = (int)number_format(&bound->number, text);
	return arena_printf(p->arena, "%.*s", len, text);
}

void check_between(struct parser *p, const struct expr_operand operands[3])
{
	const struct value *low = &operands[1].value, *high = &operands[2].value;
	struct bytes        from, to;

	if (!check_distinct(p, "BETWEEN", operands, 3) ||
	    !check_types(p, "BETWEEN", operands, 3, TYPES_ORDERED) || operands[1].kind != OPERAND_VALUE ||
	    operands[2].kind != OPERAND_VALUE)
		return;
	from = bound_show(p, low);
	to = bound_show(p, high);
	if (low->type != high->type)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_BETWEEN_TYPE, value_type_name(low->type),
		                BYTES_ARG(from), value_type_name(high->type), BYTES_ARG(to));
	else if (value_compare(low, high) > 0)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_BETWEEN_ORDER, value_type_name(low->type),
		                BYTES_ARG(from), value_type_name(high->type), BYTES_ARG(to));
}

void check_in(struct parser *p, const struct expr_operand *operands, uint32_t count)
{
	if (count - 1 > EXPR_IN_MAX)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_IN_COUNT, count - 1);
	else
		check_distinct(p, "IN", operands, count);
}

static void check_type_name(struct parser *p, const struct expr_operand *operand)
{
	if (operand->kind == OPERAND_PATH)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_OPERAND_TYPE, "attribute_type",
		                "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}");
	else if (check_types(p, "attribute_type", operand, 1, 1u << VALUE_S) &&
	         value_type_named(operand->value.text) == VALUE_TYPE_COUNT)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_TYPE_NAME,
		                BYTES_ARG(text_shown(operand->value.text)));
}

void check_call(struct parser *p, const struct function *f, const struct expr_operand *operands,
                uint32_t count)
{
	if (count != f->operands)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_OPERAND_COUNT, f->name, count);
	else if (!check_distinct(p, f->name, operands, count))
		return;
	else if ((f->wants_path && operands[0].kind != OPERAND_PATH) ||
	         (f->condition == EXPR_TYPE &&
	          operands[0].kind == OPERAND_SIZE)) /* a literal will do there */
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_OPERAND_PATH, f->name);
	else if (f->use == FUNCTION_OPERAND)
		check_types(p, f->name, operands, 1, TYPES_SIZED);
	else if (f->condition == EXPR_BEGINS_WITH)
		check_types(p, f->name, operands, 2, TYPES_TEXT);
	else if (f->condition == EXPR_TYPE)
		check_type_name(p, &operands[1]);
}

/* ---- key conditions: an AND of comparisons, each of one name and literals. They are parsed as any condition, then
 * taken apart ---- */

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
	case EXPR_COMPARE:
		return e->op == OP_NE ? op_texts[OP_NE] : NULL;
	case EXPR_BEGINS_WITH:
		return NULL;
	default:
		return function_name(e->kind);
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
	struct parser p = {
	        .arena = a, .field = "KeyConditionExpression", .text = text, .scope = scope, .err = err};
	struct key_parts *parts = arena_alloc(a, sizeof(*parts));
	struct expr      *e;
	enum err_code     rc = parser_condition(&p, &e);

	parts->count = 0;
	parts->err = err;
	if (rc == ERR_NONE)
		rc = parts_collect(parts, e);
	return rc != ERR_NONE ? rc : parts_assign(parts, out);
}
