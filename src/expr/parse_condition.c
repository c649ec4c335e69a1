/* Parse condition: an operator-precedence parser with stacks of its own in place of recursion, so
 * that no text can exhaust the machine's.
 *
 *   condition = condition OR condition | condition AND condition | NOT condition | "(" condition ")"
 *             | operand comparator operand | operand BETWEEN operand AND operand
 *             | operand IN "(" operand { "," operand } ")" | call
 *   operand   = path | value | call | "(" operand ")" { "." name | "[" index "]" }
 *   call      = NAME "(" operand { "," operand } ")"
 *
 * Whether "(" opens a condition or an operand shows only later. So both live on one stack of terms, and a
 * term becomes one or the other when an operator takes it.
 *
 * (1) `frames` holds what is open, outermost first; frames[0] stands for the whole text and is never popped.
 * (2) Between two frames that open something, `binds` never falls.
 * (3) Operators count against EXPR_OPERATORS_MAX before they are pushed, so no tree is deeper than that.
 * (4) Each term and frame is pushed once and popped once: linear time. */
#include "expr/parser.h"

#include <assert.h>

#include "item/messages.h"

enum frame_kind {
	FRAME_GROUP, /* "(" */
	FRAME_CALL,  /* name "(" */
	FRAME_LIST,  /* IN "(" */
	FRAME_OR,
	FRAME_AND,
	FRAME_NOT,
	FRAME_COMPARE,
	FRAME_LOW,  /* BETWEEN, before its AND */
	FRAME_HIGH, /* BETWEEN, behind its AND */
};

struct frame {
	enum frame_kind kind;
	enum expr_op    op;             /* COMPARE */
	bool            takes_operands; /* no condition may stand inside */
	uint32_t        token;          /* where it opened */
	uint32_t        base;           /* CALL, LIST: the first of its terms */
};

enum term_shape { SHAPE_OPERAND, SHAPE_CONDITION, SHAPE_UNKNOWN };

struct term {
	enum term_shape        shape;   /* UNKNOWN: complained about already; fits anywhere */
	const struct function *call;    /* the call it is, if it is one */
	bool                   grouped; /* it is in parentheses of its own */
	struct expr_operand    operand;
	struct expr           *condition;
};

struct yard {
	struct parser *p;
	struct term   *terms;
	uint32_t       term_count;
	struct frame  *frames;
	uint32_t       frame_count;
	bool           after_term; /* an operator is due, not a term */
};

static inline struct frame *yard_top(struct yard *y)
{
	return &y->frames[y->frame_count - 1];
}

static inline struct term *yard_last(struct yard *y)
{
	return &y->terms[y->term_count - 1];
}

/* The precedence table. What opens something binds nothing. */
static const struct {
	uint8_t binds;
	bool    takes_operands;
} frame_rules[] = {
        [FRAME_GROUP] = {0, false},  [FRAME_CALL] = {0, true}, [FRAME_LIST] = {0, true},
        [FRAME_OR] = {1, false},     [FRAME_AND] = {2, false}, [FRAME_NOT] = {3, false},
        [FRAME_COMPARE] = {4, true}, [FRAME_LOW] = {4, true},  [FRAME_HIGH] = {4, true},
};

/* A term or a frame takes a token at least. */
static void yard_init(struct yard *y, struct parser *p)
{
	*y = (struct yard){.p = p, .frame_count = 1};
	y->terms = arena_array(p->arena, p->list.count, sizeof(*y->terms));
	y->frames = arena_array(p->arena, p->list.count + 1, sizeof(*y->frames));
	y->frames[0] = (struct frame){.kind = FRAME_GROUP};
}

static void yard_push_frame(struct yard *y, enum frame_kind kind, uint32_t token)
{
	bool within = yard_top(y)->takes_operands;

	y->frames[y->frame_count++] = (struct frame){.kind = kind,
	                                             .token = token,
	                                             .base = y->term_count,
	                                             .takes_operands = frame_rules[kind].takes_operands ||
	                                                               (kind == FRAME_GROUP && within)};
	y->after_term = false;
}

static void yard_push_operand(struct yard *y, struct expr_operand operand)
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

/* Make the term what is needed: a syntax error if it is not, a complaint if it is the wrong call. */
static enum err_code term_as_operand(struct yard *y, struct term *term)
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

static enum err_code term_as_condition(struct yard *y, struct term *term)
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

/* Lets all that binds at least as tightly take its terms. */
static enum err_code yard_reduce_to(struct yard *y, uint8_t binds)
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

/* ---- the tokens: terms and operators take turns; each function takes one token, or one path ---- */

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
	switch (frame.kind) {
	case FRAME_CALL:
		return call_close(y, &frame);
	case FRAME_LIST:
		return list_close(y, &frame);
	default:
		return group_close(y);
	}
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
	rc = yard_reduce_to(y, frame_rules[kind].binds);
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

static enum err_code yard_operand(struct yard *y)
{
	bool                is_value = parser_is(y->p, TOKEN_COLON);
	struct expr_operand operand = {.kind = is_value ? OPERAND_VALUE : OPERAND_PATH};
	enum err_code rc = is_value ? parser_value(y->p, &operand.value) : parser_path(y->p, &operand.path);

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
	case TOKEN_NAME:
		return parser_is_then(y->p, TOKEN_OPEN) ? yard_call(y) : yard_operand(y);
	default:
		return yard_operand(y);
	}
}

enum err_code parser_condition(struct parser *p, struct expr **out)
{
	struct yard   y;
	enum err_code rc = parser_init(p, LEX_CONDITION);

	if (rc != ERR_NONE)
		return rc;
	yard_init(&y, p);
	while (rc == ERR_NONE && !parser_is(p, TOKEN_END))
		rc = y.after_term ? yard_operator(&y) : yard_term(&y);
	if (rc == ERR_NONE && !y.after_term)
		rc = parser_syntax(p);
	if (rc == ERR_NONE)
		rc = yard_reduce_to(&y, 1);
	if (rc == ERR_NONE && y.frame_count > 1)
		rc = parser_syntax(p);
	if (rc == ERR_NONE)
		rc = term_as_condition(&y, yard_last(&y));
	if (rc == ERR_NONE)
		rc = parser_finish(p);
	if (rc == ERR_NONE)
		*out = yard_last(&y)->condition;
	return rc;
}

enum err_code expr_parse_condition(struct arena *a, struct bytes text, struct expr_scope *scope,
                                   struct expr **out, struct err *err)
{
	struct parser p = {
	        .arena = a, .field = "ConditionExpression", .text = text, .scope = scope, .err = err};

	return parser_condition(&p, out);
}

enum err_code expr_parse_filter(struct arena *a, struct bytes text, struct expr_scope *scope,
                                struct expr **out, struct err *err)
{
	struct parser p = {.arena = a, .field = "FilterExpression", .text = text, .scope = scope, .err = err};

	return parser_condition(&p, out);
}
