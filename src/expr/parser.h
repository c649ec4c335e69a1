/* Parser: what the parsers of conditions, updates, projections and key conditions share: the tokens, the
 * placeholders, document paths, operand checks, and how errors are chosen. Internal to expr/.
 *
 * A syntax error ends parsing at once. All other faults are complaints: parsing goes on (with some stand-in
 * value), because a syntax error further on counts for more, and so do some complaints; parser_finish
 * reports the one that DynamoDB would. So *err may hold a complaint while parsing still succeeds; every tree
 * is thrown away if there was one. */
#ifndef EXPR_PARSER_H
#define EXPR_PARSER_H

#include "expr/parse.h"

/* ---- tokens (parser.c) ----
 * Lexing never fails: what it does not know becomes a TOKEN_BAD, and the parser that meets one reports the syntax
 * error with its neighbours, as DynamoDB does. */

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

/* ---- the parser (parser.c) ---- */

enum {
	PATH_STEPS_MAX = 32,
	PATH_INDEX_MAX = 2147483647,
	SHOWN_BYTES_MAX = 256, /* of one token, name or path in an error text */
};

/* What counts most comes first; among equals, what was written first. */
enum complaint {
	COMPLAINT_PARENTHESES,
	COMPLAINT_FUNCTION_NAME,
	COMPLAINT_FUNCTION_PLACE,
	COMPLAINT_RESERVED,
	COMPLAINT_SECTION,
	COMPLAINT_NAME,
	COMPLAINT_VALUE,
	COMPLAINT_OVERLAP,
	COMPLAINT_CONFLICT,
	COMPLAINT_ACTION,
	COMPLAINT_OPERAND,
	COMPLAINT_NONE,
};

struct parser {
	/* the caller's */
	struct arena      *arena;
	const char        *field;
	struct bytes       text;
	struct expr_scope *scope;
	struct err        *err;
	/* parser_init's */
	struct token_list list;
	uint32_t          at;
	uint32_t          operators;
	bool              is_condition; /* all complaints from NAME on count alike: the first written wins */
	enum complaint    worst;
};

/* What the caller set in *p stays. ERR_INVALID if the text is empty or too long. */
enum err_code parser_init(struct parser *p, enum lex_grammar grammar);

/* Expects the end of the text, and reports the complaint that counts most, if any. */
enum err_code parser_finish(struct parser *p);

static inline const struct token *parser_peek(const struct parser *p)
{
	return &p->list.tokens[p->at];
}

static inline bool parser_is(const struct parser *p, enum token_kind kind)
{
	return parser_peek(p)->kind == kind;
}

/* Is the next token but one of that kind? */
static inline bool parser_is_then(const struct parser *p, enum token_kind kind)
{
	return p->at < p->list.count && p->list.tokens[p->at + 1].kind == kind;
}

/* A syntax error at the next token. */
enum err_code parser_syntax(struct parser *p);

/* Moves past a token of that kind, or is a syntax error. */
enum err_code parser_expect(struct parser *p, enum token_kind kind);

/* Counts one operator or function; ERR_INVALID past EXPR_OPERATORS_MAX. */
enum err_code parser_operator(struct parser *p);

void parser_complain(struct parser *p, enum complaint complaint, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* path = name { "." name | "[" index "]" } ; name = NAME | HASH */
enum err_code parser_path(struct parser *p, struct expr_path *out);

/* More steps behind a path in parentheses. */
enum err_code parser_path_more(struct parser *p, struct expr_path *path);

/* value = COLON */
enum err_code parser_value(struct parser *p, struct value *out);

/* At most SHOWN_BYTES_MAX bytes, cut between characters. */
struct bytes text_shown(struct bytes text);

/* NULL if undefined; marks it as used. */
const struct bytes *scope_name(struct expr_scope *scope, struct bytes placeholder);
const struct value *scope_value(struct expr_scope *scope, struct bytes placeholder);

/* A whole condition, for the grammars that are one. (parse_condition.c) */
enum err_code parser_condition(struct parser *p, struct expr **out);

/* ---- what a condition must satisfy beyond its syntax (check.c). Complaints go to the parser. ---- */

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

/* Of the function that is this kind of condition; NULL if it is none. */
const char *function_name(enum expr_kind kind);

const char *expr_op_text(enum expr_op op);

void check_compare(struct parser *p, enum expr_op op, const struct expr_operand operands[2]);
void check_between(struct parser *p, const struct expr_operand operands[3]);
void check_in(struct parser *p, const struct expr_operand *operands, uint32_t count);
void check_call(struct parser *p, const struct function *f, const struct expr_operand *operands,
                uint32_t count);

/* ---- paths: compared, shown, checked against one another and followed (path.c) ---- */

/* A path comes before those it is the beginning of; names come before indexes. */
int path_compare(const struct expr_path *a, const struct expr_path *b);

static inline bool path_equal(const struct expr_path *a, const struct expr_path *b)
{
	return a->count == b->count && path_compare(a, b) == 0;
}

int path_step_compare(const struct expr_step *a, const struct expr_step *b);

void path_sort(struct expr_path *paths, uint32_t count);

/* DynamoDB's way of showing one: [a, [1], b]. */
struct bytes path_show(struct arena *a, const struct expr_path *path);

/* Complains if one path is the beginning of another, or if one takes as a list what another takes as a map.
 * Sorting makes such pairs neighbours: n log n comparisons. */
void path_check_disjoint(struct parser *p, const struct expr_path *paths, uint32_t count);

#endif
