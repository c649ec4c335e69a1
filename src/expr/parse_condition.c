/* Parse condition: an operator-precedence parser with stacks of its own (yard.h) in place of recursion, so
 * that no text can exhaust the machine's.
 *
 *   condition = condition OR condition | condition AND condition | NOT condition | "(" condition ")"
 *             | operand comparator operand | operand BETWEEN operand AND operand
 *             | operand IN "(" operand { "," operand } ")" | call
 *   operand   = path | value | call | "(" operand ")" { "." name | "[" index "]" }
 *   call      = NAME "(" operand { "," operand } ")"
 *
 * Terms and operators take turns; each function here takes one token, or one path. */
#include "expr/yard.h"

static enum err_code yard_close(struct yard *y)
{
	struct frame  frame;
	enum err_code rc = yard_reduce_to(y, 1);

	if (rc != ERR_NONE)
		return rc;
	if (y->frame_count == 1)
		return parser_syntax(y->p);
	frame = *yard_top(y);
	y->frame_count--;
	y->p->at++;
	return yard_close_frame(y, &frame);
}

static enum err_code yard_comma(struct yard *y)
{
	if (yard_top(y)->kind != FRAME_CALL && yard_top(y)->kind != FRAME_LIST)
		return parser_syntax(y->p);
	y->p->at++;
	y->after_term = false;
	return ERR_NONE;
}

/* AND and OR between conditions, and the AND of a BETWEEN. */
static enum err_code yard_logic(struct yard *y, enum frame_kind kind)
{
	enum err_code rc;

	if (kind == FRAME_AND && yard_top(y)->kind == FRAME_LOW) {
		yard_top(y)->kind = FRAME_HIGH;
		y->p->at++;
		y->after_term = false;
		return ERR_NONE;
	}
	rc = yard_reduce_to(y, yard_binds(kind));
	if (rc == ERR_NONE && yard_top(y)->takes_operands)
		rc = parser_syntax(y->p);
	if (rc == ERR_NONE)
		rc = term_as_condition(y, yard_last(y));
	if (rc == ERR_NONE)
		rc = parser_operator(y->p);
	if (rc == ERR_NONE)
		yard_push_frame(y, kind, y->p->at++);
	return rc;
}

/* What stands behind an operand and makes it a condition. */
static enum err_code yard_compare(struct yard *y, enum frame_kind kind)
{
	uint32_t      token = y->p->at;
	enum err_code rc = ERR_NONE;

	if (yard_top(y)->takes_operands)
		return parser_syntax(y->p);
	rc = term_as_operand(y, yard_last(y));
	if (rc == ERR_NONE)
		rc = parser_operator(y->p);
	if (rc != ERR_NONE)
		return rc;
	y->p->at++;
	yard_push_frame(y, kind, token);
	if (kind == FRAME_COMPARE)
		yard_top(y)->op = (enum expr_op)(y->p->list.tokens[token].kind - TOKEN_EQ);
	return kind == FRAME_LIST ? parser_expect(y->p, TOKEN_OPEN) : ERR_NONE;
}

static enum err_code yard_operator(struct yard *y)
{
	switch (parser_peek(y->p)->kind) {
	case TOKEN_EQ:
	case TOKEN_NE:
	case TOKEN_LT:
	case TOKEN_LE:
	case TOKEN_GT:
	case TOKEN_GE:
		return yard_compare(y, FRAME_COMPARE);
	case TOKEN_BETWEEN:
		return yard_compare(y, FRAME_LOW);
	case TOKEN_IN:
		return yard_compare(y, FRAME_LIST);
	case TOKEN_AND:
		return yard_logic(y, FRAME_AND);
	case TOKEN_OR:
		return yard_logic(y, FRAME_OR);
	case TOKEN_COMMA:
		return yard_comma(y);
	case TOKEN_CLOSE:
		return yard_close(y);
	default:
		return parser_syntax(y->p);
	}
}

static enum err_code yard_not(struct yard *y)
{
	enum err_code rc = yard_top(y)->takes_operands ? parser_syntax(y->p) : parser_operator(y->p);

	if (rc == ERR_NONE)
		yard_push_frame(y, FRAME_NOT, y->p->at++);
	return rc;
}

static enum err_code yard_call(struct yard *y)
{
	enum err_code rc = parser_operator(y->p);

	if (rc != ERR_NONE)
		return rc;
	yard_push_frame(y, FRAME_CALL, y->p->at);
	y->p->at += 2;
	return ERR_NONE;
}

static enum err_code yard_value(struct yard *y)
{
	struct expr_operand operand = {.kind = OPERAND_VALUE};
	enum err_code       rc = parser_value(y->p, &operand.value);

	if (rc == ERR_NONE)
		yard_push_operand(y, operand);
	return rc;
}

static enum err_code yard_path(struct yard *y)
{
	struct expr_operand operand = {.kind = OPERAND_PATH};
	enum err_code       rc = parser_path(y->p, &operand.path);

	if (rc == ERR_NONE)
		yard_push_operand(y, operand);
	return rc;
}

static enum err_code yard_term(struct yard *y)
{
	switch (parser_peek(y->p)->kind) {
	case TOKEN_NOT:
		return yard_not(y);
	case TOKEN_OPEN:
		yard_push_frame(y, FRAME_GROUP, y->p->at++);
		return ERR_NONE;
	case TOKEN_COLON:
		return yard_value(y);
	case TOKEN_NAME:
		return parser_is_then(y->p, TOKEN_OPEN) ? yard_call(y) : yard_path(y);
	default:
		return yard_path(y);
	}
}

static enum err_code yard_run(struct yard *y)
{
	enum err_code rc = ERR_NONE;

	while (rc == ERR_NONE && !parser_is(y->p, TOKEN_END))
		rc = y->after_term ? yard_operator(y) : yard_term(y);
	if (rc == ERR_NONE && !y->after_term)
		rc = parser_syntax(y->p);
	if (rc == ERR_NONE)
		rc = yard_reduce_to(y, 1);
	if (rc == ERR_NONE && y->frame_count > 1)
		rc = parser_syntax(y->p);
	return rc == ERR_NONE ? term_as_condition(y, yard_last(y)) : rc;
}

enum err_code expr_parse_condition(struct arena *a, const char *field, struct bytes text,
                                   struct expr_scope *scope, struct expr **out, struct err *err)
{
	struct parser p;
	struct yard   y;
	enum err_code rc = parser_init(&p, a, field, text, LEX_CONDITION, scope, err);

	if (rc != ERR_NONE)
		return rc;
	yard_init(&y, &p);
	rc = yard_run(&y);
	if (rc == ERR_NONE)
		rc = parser_finish(&p);
	if (rc == ERR_NONE)
		*out = yard_last(&y)->condition;
	return rc;
}
