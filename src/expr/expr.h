/* Expr: DynamoDB's expressions as trees. They are parsed from text (parse.h), built in code by services,
 * evaluated against items (eval.h) and printed back to text (print.h) for a remote
 * engine.
 *
 * A tree lives in an arena, is immutable, and refers to literal values, never to `#names` or `:values`: those
 * are resolved while parsing and made up again while printing. */
#ifndef EXPR_EXPR_H
#define EXPR_EXPR_H

#include "item/value.h"

enum {
	EXPR_BYTES_MAX = 4096,
	EXPR_OPERATORS_MAX = 300, /* operators and functions in one expression */
	EXPR_DEPTH_MAX = 300,     /* nesting of conditions; a consequence of the operator limit */
	EXPR_IN_MAX = 100,        /* operands of IN */
	EXPR_PLACEHOLDER_BYTES_MAX = 255,
};

/* A document path: a.b[3].c. The first step is always a name. */
struct expr_step {
	bool         is_index;
	uint32_t     index;
	struct bytes name;
};

struct expr_path {
	struct expr_step *steps;
	uint32_t          count;
};

enum expr_operand_kind {
	OPERAND_PATH,
	OPERAND_VALUE,
	OPERAND_SIZE, /* size(path); size(value) if the path has no steps */
};

struct expr_operand {
	enum expr_operand_kind kind;
	struct expr_path       path;  /* PATH, SIZE */
	struct value           value; /* VALUE, SIZE of a value */
};

enum expr_kind {
	EXPR_AND,     /* left, right */
	EXPR_OR,      /* left, right */
	EXPR_NOT,     /* left */
	EXPR_COMPARE, /* operands[0] op operands[1] */
	EXPR_BETWEEN, /* operands[0] BETWEEN operands[1] AND operands[2] */
	EXPR_IN,      /* operands[0] IN (operands[1…]) */
	EXPR_EXISTS,  /* attribute_exists(operands[0]) */
	EXPR_NOT_EXISTS,
	EXPR_TYPE,        /* attribute_type(operands[0], operands[1]) */
	EXPR_BEGINS_WITH, /* begins_with(operands[0], operands[1]) */
	EXPR_CONTAINS,    /* contains(operands[0], operands[1]) */
	EXPR_SAME, /* each of `names` is as in `read`: equal, or in neither. Made in code, never parsed */
};

enum expr_op { OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE };

/* A condition. */
struct expr {
	enum expr_kind       kind;
	enum expr_op         op; /* COMPARE */
	struct expr         *left, *right;
	struct expr_operand *operands;
	uint32_t             operand_count;
	struct item          read;  /* SAME */
	const char *const   *names; /* SAME: attributes, NULL last; at least one */
};

/* The right side of SET: an operand, or a sum or difference of two. */
enum expr_term_kind {
	TERM_PATH,
	TERM_VALUE,
	TERM_IF_NOT_EXISTS, /* if_not_exists(path, left) */
	TERM_LIST_APPEND,   /* list_append(left, right) */
	TERM_PLUS,          /* left + right */
	TERM_MINUS,         /* left - right */
};

struct expr_term {
	enum expr_term_kind kind;
	struct expr_path    path;  /* PATH, IF_NOT_EXISTS */
	struct value        value; /* VALUE */
	struct expr_term   *left, *right;
};

enum expr_action_kind {
	ACTION_SET,    /* path = term */
	ACTION_REMOVE, /* path */
	ACTION_ADD,    /* path value: number or set */
	ACTION_DELETE, /* path value: set */
};

struct expr_action {
	enum expr_action_kind kind;
	struct expr_path      path;
	struct expr_term      term;  /* SET */
	struct value          value; /* ADD, DELETE */
};

/* No path is the beginning of another. */
struct expr_update {
	struct expr_action *actions;
	uint32_t            count;
};

/* No path is the beginning of another. Parsed ones are sorted, which saves work for each item. */
struct expr_projection {
	struct expr_path *paths;
	uint32_t          count;
};

/* A key condition, taken apart: the hash key equals a value, and the range key (if any) lies in a range. */
enum expr_range_kind {
	RANGE_NONE,
	RANGE_EQ,
	RANGE_LT,
	RANGE_LE,
	RANGE_GT,
	RANGE_GE,
	RANGE_BETWEEN,
	RANGE_PREFIX
};

struct expr_key_condition {
	struct bytes         hash_name;
	struct value         hash;
	struct bytes         range_name; /* empty if range_kind is NONE */
	enum expr_range_kind range_kind;
	struct value         low;  /* the operand; the lower one of BETWEEN */
	struct value         high; /* BETWEEN only */
};

#endif
