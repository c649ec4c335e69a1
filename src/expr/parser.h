/* Parser: what the parsers of conditions, updates, projections and key conditions share: the tokens, the
 * placeholders, document paths, and how errors are chosen. Internal to expr/.
 *
 * A syntax error ends parsing at once. All other faults are complaints: parsing goes on (with some stand-in
 * value), because a syntax error further on counts for more, and so do some complaints; parser_finish
 * reports the one that DynamoDB would. So *err may hold a complaint while parsing still succeeds; every tree
 * is thrown away if there was one. */
#ifndef EXPR_PARSER_H
#define EXPR_PARSER_H

#include "expr/lex.h"
#include "expr/parse.h"

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
	struct arena      *arena;
	const char        *field;
	struct bytes       text;
	struct expr_scope *scope;
	struct err        *err;
	struct token_list  list;
	uint32_t           at;
	uint32_t           operators;
	bool               is_condition; /* all complaints from NAME on count alike: the first written wins */
	enum complaint     worst;
};

/* ERR_INVALID if the text is empty or too long. */
enum err_code parser_init(struct parser *p, struct arena *a, const char *field, struct bytes text,
                          enum lex_grammar grammar, struct expr_scope *scope, struct err *err);

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

#endif
