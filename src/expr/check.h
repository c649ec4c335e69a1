/* Check: what a well-formed condition must satisfy beyond its syntax: known functions, number and types of
 * operands. Complaints go to the parser. Internal to expr/. */
#ifndef EXPR_CHECK_H
#define EXPR_CHECK_H

#include "expr/parser.h"

enum function_use {
	FUNCTION_CONDITION, /* is a condition by itself */
	FUNCTION_OPERAND,   /* is compared: size */
	FUNCTION_UPDATE,    /* right side of SET */
};

struct function {
	const char       *name;
	uint32_t          operands;
	enum function_use use;
	union {
		enum expr_kind      condition; /* CONDITION */
		enum expr_term_kind term;      /* UPDATE */
	};
	bool wants_path; /* as its first operand */
};

/* NULL if there is none. Function names are case-sensitive. */
const struct function *function_find(struct bytes name);

const char *expr_op_text(enum expr_op op);

void check_compare(struct parser *p, enum expr_op op, const struct expr_operand operands[2]);
void check_between(struct parser *p, const struct expr_operand operands[3]);
void check_in(struct parser *p, const struct expr_operand *operands, uint32_t count);
void check_call(struct parser *p, const struct function *f, const struct expr_operand *operands,
                uint32_t count);

#endif
