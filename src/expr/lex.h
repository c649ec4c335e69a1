/* Lex: expression text to tokens. It never fails: what it does not know becomes a TOKEN_BAD, and the parser
 * that meets one reports the syntax error with its neighbours, as DynamoDB does. */
#ifndef EXPR_LEX_H
#define EXPR_LEX_H

#include "base/arena.h"

enum token_kind {
	TOKEN_END,
	TOKEN_BAD,
	TOKEN_NAME,  /* an attribute or a function */
	TOKEN_HASH,  /* #name */
	TOKEN_COLON, /* :value */
	TOKEN_INDEX, /* 0, 17: no leading zero */
	TOKEN_OPEN,
	TOKEN_CLOSE,
	TOKEN_LEFT, /* [ */
	TOKEN_RIGHT,
	TOKEN_COMMA,
	TOKEN_DOT,
	TOKEN_PLUS,
	TOKEN_MINUS,
	TOKEN_EQ, /* the six comparators stand in the order of enum expr_op */
	TOKEN_NE,
	TOKEN_LT,
	TOKEN_LE,
	TOKEN_GT,
	TOKEN_GE,
	TOKEN_AND,
	TOKEN_OR,
	TOKEN_NOT,
	TOKEN_BETWEEN,
	TOKEN_IN,
	TOKEN_SET,
	TOKEN_REMOVE,
	TOKEN_ADD,
	TOKEN_DELETE,
};

/* Decides which words are keywords; all others are names. */
enum lex_grammar { LEX_CONDITION, LEX_UPDATE, LEX_PROJECTION };

struct token {
	enum token_kind kind;
	struct bytes    text; /* within the expression */
};

/* The last token is TOKEN_END, which `count` does not count. */
struct token_list {
	struct token *tokens;
	uint32_t      count;
};

struct token_list lex(struct arena *a, struct bytes text, enum lex_grammar grammar);

#endif
