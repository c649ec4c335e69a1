/* Yard: terms and frames. Each is pushed once and popped once: linear time. */
#include "expr/yard.h"

#include <assert.h>

#include "item/messages.h"

/* The precedence table. What opens something binds nothing. */
static const struct {
	uint8_t binds;
	bool    takes_operands;
} frame_rules[] = {
        [FRAME_GROUP] = {0, false},  [FRAME_CALL] = {0, true}, [FRAME_LIST] = {0, true},
        [FRAME_OR] = {1, false},     [FRAME_AND] = {2, false}, [FRAME_NOT] = {3, false},
        [FRAME_COMPARE] = {4, true}, [FRAME_LOW] = {4, true},  [FRAME_HIGH] = {4, true},
};

uint8_t yard_binds(enum frame_kind kind)
{
	return frame_rules[kind].binds;
}

/* A term or a frame takes a token at least. */
void yard_init(struct yard *y, struct parser *p)
{
	*y = (struct yard){.p = p, .frame_count = 1};
	y->terms = arena_array(p->arena, p->list.count, sizeof(*y->terms));
	y->frames = arena_array(p->arena, p->list.count + 1, sizeof(*y->frames));
	y->frames[0] = (struct frame){.kind = FRAME_GROUP};
}

void yard_push_frame(struct yard *y, enum frame_kind kind, uint32_t token)
{
	bool within = yard_top(y)->takes_operands;

	y->frames[y->frame_count++] = (struct frame){.kind = kind,
	                                             .token = token,
	                                             .base = y->term_count,
	                                             .takes_operands = frame_rules[kind].takes_operands ||
	                                                               (kind == FRAME_GROUP && within)};
	y->after_term = false;
}

void yard_push_operand(struct yard *y, struct expr_operand operand)
{
	y->terms[y->term_count++] = (struct term){.shape = SHAPE_OPERAND, .operand = operand};
	y->after_term = true;
}

/* Replaces the last `taken` terms by a condition on them. */
static void yard_push_condition(struct yard *y, uint32_t taken, struct expr condition)
{
	struct expr *e = arena_alloc(y->p->arena, sizeof(*e));

	*e = condition;
	y->term_count -= taken;
	y->terms[y->term_count++] = (struct term){.shape = SHAPE_CONDITION, .condition = e};
	y->after_term = true;
}

static void complain_place(struct yard *y, const struct term *term)
{
	parser_complain(y->p, COMPLAINT_FUNCTION_PLACE, MSG_EXPR_FUNCTION_PLACE,
	                BYTES_ARG(bytes_of(term->call->name)));
}

enum err_code term_as_operand(struct yard *y, struct term *term)
{
	if (term->shape == SHAPE_CONDITION) {
		if (term->call == NULL)
			return parser_syntax(y->p);
		complain_place(y, term);
	}
	if (term->shape != SHAPE_OPERAND)
		term->operand = (struct expr_operand){.kind = OPERAND_VALUE, .value = {.type = VALUE_NULL}};
	return ERR_NONE;
}

enum err_code term_as_condition(struct yard *y, struct term *term)
{
	if (term->shape == SHAPE_OPERAND) {
		if (term->call == NULL)
			return parser_syntax(y->p);
		complain_place(y, term);
	}
	if (term->shape != SHAPE_CONDITION)
		term->condition = arena_zalloc(y->p->arena, sizeof(*term->condition));
	term->shape = SHAPE_CONDITION;
	term->call = NULL;
	return ERR_NONE;
}

/* The last `count` terms as an array of operands. */
static enum err_code yard_operands(struct yard *y, uint32_t count, struct expr_operand **out)
{
	struct term *first = &y->terms[y->term_count - count];

	*out = arena_array(y->p->arena, count, sizeof(**out));
	for (uint32_t i = 0; i < count; i++) {
		enum err_code rc = term_as_operand(y, &first[i]);

		if (rc != ERR_NONE)
			return rc;
		(*out)[i] = first[i].operand;
	}
	return ERR_NONE;
}

/* ---- an operator takes its terms ---- */

static enum err_code reduce_logic(struct yard *y, enum expr_kind kind)
{
	struct expr   e = {.kind = kind};
	enum err_code rc = term_as_condition(y, yard_last(y));

	if (rc != ERR_NONE)
		return rc;
	e.left = yard_last(y)->condition;
	if (kind == EXPR_NOT) {
		yard_push_condition(y, 1, e);
		return ERR_NONE;
	}
	e.right = e.left;
	e.left = y->terms[y->term_count - 2].condition;
	yard_push_condition(y, 2, e);
	return ERR_NONE;
}

static enum err_code reduce_compare(struct yard *y, enum expr_op op)
{
	struct expr   e = {.kind = EXPR_COMPARE, .op = op, .operand_count = 2};
	enum err_code rc = yard_operands(y, 2, &e.operands);

	if (rc != ERR_NONE)
		return rc;
	check_compare(y->p, op, e.operands);
	yard_push_condition(y, 2, e);
	return ERR_NONE;
}

static enum err_code reduce_between(struct yard *y)
{
	struct expr   e = {.kind = EXPR_BETWEEN, .operand_count = 3};
	enum err_code rc = yard_operands(y, 3, &e.operands);

	if (rc != ERR_NONE)
		return rc;
	check_between(y->p, e.operands);
	yard_push_condition(y, 3, e);
	return ERR_NONE;
}

static enum err_code yard_reduce(struct yard *y)
{
	struct frame frame = *yard_top(y);

	y->frame_count--;
	switch (frame.kind) {
	case FRAME_OR:
		return reduce_logic(y, EXPR_OR);
	case FRAME_AND:
		return reduce_logic(y, EXPR_AND);
	case FRAME_NOT:
		return reduce_logic(y, EXPR_NOT);
	case FRAME_COMPARE:
		return reduce_compare(y, frame.op);
	case FRAME_HIGH:
		return reduce_between(y);
	default:
		assert(frame.kind == FRAME_LOW);
		return parser_syntax(y->p);
	}
}

enum err_code yard_reduce_to(struct yard *y, uint8_t binds)
{
	enum err_code rc = ERR_NONE;

	while (rc == ERR_NONE && frame_rules[yard_top(y)->kind].binds >= binds)
		rc = yard_reduce(y);
	return rc;
}

/* ---- calls and lists ---- */

static void call_unknown(struct yard *y, struct bytes name, bool known)
{
	if (known)
		parser_complain(y->p, COMPLAINT_FUNCTION_PLACE, MSG_EXPR_NOT_IN_CONDITION, BYTES_ARG(name));
	else
		parser_complain(y->p, COMPLAINT_FUNCTION_NAME, MSG_EXPR_FUNCTION,
		                BYTES_ARG(text_shown(name)));
	yard_last(y)->shape = SHAPE_UNKNOWN;
}

static void call_size(struct yard *y, const struct expr_operand *of)
{
	struct expr_operand operand = {.kind = OPERAND_SIZE};

	if (of->kind == OPERAND_PATH)
		operand.path = of->path;
	else
		operand.value = of->value;
	yard_last(y)->shape = SHAPE_OPERAND;
	yard_last(y)->operand = operand;
}

/* call = NAME "(" operand { "," operand } ")", at its end */
static enum err_code call_close(struct yard *y, const struct frame *frame)
{
	struct bytes           name = y->p->list.tokens[frame->token].text;
	const struct function *f = function_find(name);
	uint32_t               count = y->term_count - frame->base;
	struct expr_operand   *operands;
	enum err_code          rc = yard_operands(y, count, &operands);

	if (rc != ERR_NONE)
		return rc;
	yard_push_condition(y, count, (struct expr){.operands = operands, .operand_count = count});
	if (f == NULL || f->use == FUNCTION_UPDATE) {
		call_unknown(y, name, f != NULL);
		return ERR_NONE;
	}
	check_call(y->p, f, operands, count);
	yard_last(y)->call = f;
	if (f->use == FUNCTION_OPERAND)
		call_size(y, &operands[0]);
	else
		yard_last(y)->condition->kind = f->condition;
	return ERR_NONE;
}

/* operand IN "(" operand { "," operand } ")", at its end */
static enum err_code list_close(struct yard *y, const struct frame *frame)
{
	struct expr   e = {.kind = EXPR_IN, .operand_count = y->term_count - frame->base + 1};
	enum err_code rc = yard_operands(y, e.operand_count, &e.operands);

	if (rc != ERR_NONE)
		return rc;
	check_in(y->p, e.operands, e.operand_count);
	yard_push_condition(y, e.operand_count, e);
	return ERR_NONE;
}

/* Parentheses with nothing but parentheses inside are refused; a path in them may go on behind. */
static enum err_code group_close(struct yard *y)
{
	struct term *term = yard_last(y);

	if (term->grouped)
		parser_complain(y->p, COMPLAINT_PARENTHESES, MSG_EXPR_PARENTHESES);
	term->grouped = true;
	if (term->shape != SHAPE_OPERAND || term->operand.kind != OPERAND_PATH)
		return ERR_NONE;
	if (!parser_is(y->p, TOKEN_DOT) && !parser_is(y->p, TOKEN_LEFT))
		return ERR_NONE;
	term->grouped = false;
	return parser_path_more(y->p, &term->operand.path);
}

enum err_code yard_close_frame(struct yard *y, const struct frame *frame)
{
	switch (frame->kind) {
	case FRAME_CALL:
		return call_close(y, frame);
	case FRAME_LIST:
		return list_close(y, frame);
	default:
		return group_close(y);
	}
}
