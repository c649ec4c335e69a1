/* Yard: the two stacks of the condition parser, and how an operator takes its terms from them. Internal to
 * expr/; parse_condition.c moves the tokens.
 *
 * Whether "(" opens a condition or an operand shows only later. So both live on one stack of terms, and a
 * term becomes one or the other when an operator takes it.
 *
 * (1) `frames` holds what is open, outermost first; frames[0] stands for the whole text and is never popped.
 * (2) Between two frames that open something, `binds` never falls.
 * (3) Operators count against EXPR_OPERATORS_MAX before they are pushed, so no tree is deeper than that. */
#ifndef EXPR_YARD_H
#define EXPR_YARD_H

#include "expr/check.h"

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

/* How tightly it binds; 0 if it opens something. */
uint8_t yard_binds(enum frame_kind kind);

void yard_init(struct yard *y, struct parser *p);

void yard_push_frame(struct yard *y, enum frame_kind kind, uint32_t token);
void yard_push_operand(struct yard *y, struct expr_operand operand);

/* Make the term what is needed: a syntax error if it is not, a complaint if it is the wrong call. */
enum err_code term_as_operand(struct yard *y, struct term *term);
enum err_code term_as_condition(struct yard *y, struct term *term);

/* Lets all that binds at least as tightly take its terms. */
enum err_code yard_reduce_to(struct yard *y, uint8_t binds);

/* What was open until the token before: a call, the list of an IN, parentheses. */
enum err_code yard_close_frame(struct yard *y, const struct frame *frame);

#endif
