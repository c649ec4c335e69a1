/* Parser: tokens, placeholders, paths and errors, shared by all grammars. See parser.h for how errors are chosen.
 *
 * Lexing is one pass over the text, one token at a time, longest match first. Every call of lex_one takes at least one
 * byte, so the pass is linear and there are at most as many tokens as bytes. */
#include "expr/parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "item/messages.h"

/* ---- tokens ---- */

enum { KEYWORD_LONGEST = 7 };

static const struct {
	struct bytes     word;
	enum token_kind  kind;
	enum lex_grammar grammar;
} keywords[] = {
        {BYTES_INIT("AND"), TOKEN_AND, LEX_CONDITION},
        {BYTES_INIT("OR"), TOKEN_OR, LEX_CONDITION},
        {BYTES_INIT("NOT"), TOKEN_NOT, LEX_CONDITION},
        {BYTES_INIT("IN"), TOKEN_IN, LEX_CONDITION},
        {BYTES_INIT("BETWEEN"), TOKEN_BETWEEN, LEX_CONDITION},
        {BYTES_INIT("SET"), TOKEN_SET, LEX_UPDATE},
        {BYTES_INIT("ADD"), TOKEN_ADD, LEX_UPDATE},
        {BYTES_INIT("REMOVE"), TOKEN_REMOVE, LEX_UPDATE},
        {BYTES_INIT("DELETE"), TOKEN_DELETE, LEX_UPDATE},
};

/* Two-byte signs come before their first bytes. */
static const struct {
	struct bytes    text;
	enum token_kind kind;
} signs[] = {
        {BYTES_INIT("<>"), TOKEN_NE},   {BYTES_INIT("<="), TOKEN_LE},   {BYTES_INIT(">="), TOKEN_GE},
        {BYTES_INIT("="), TOKEN_EQ},    {BYTES_INIT("<"), TOKEN_LT},    {BYTES_INIT(">"), TOKEN_GT},
        {BYTES_INIT("("), TOKEN_OPEN},  {BYTES_INIT(")"), TOKEN_CLOSE}, {BYTES_INIT("["), TOKEN_LEFT},
        {BYTES_INIT("]"), TOKEN_RIGHT}, {BYTES_INIT(","), TOKEN_COMMA}, {BYTES_INIT("."), TOKEN_DOT},
        {BYTES_INIT("+"), TOKEN_PLUS},  {BYTES_INIT("-"), TOKEN_MINUS},
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static size_t word_length(struct bytes text, size_t from)
{
	size_t len = from;

	while (len < text.len && (ascii_is_alphanumeric(text.data[len]) || text.data[len] == '_'))
		len++;
	return len;
}

static enum token_kind word_kind(struct bytes word, enum lex_grammar grammar)
{
	char upper[KEYWORD_LONGEST];

	if (word.len > KEYWORD_LONGEST)
		return TOKEN_NAME;
	for (size_t i = 0; i < word.len; i++)
		upper[i] = is_letter(word.data[i]) ? (char)(word.data[i] & ~0x20) : word.data[i];
	for (size_t i = 0; i < sizeof(keywords) / sizeof(*keywords); i++)
		if (keywords[i].grammar == grammar &&
		    bytes_equal(keywords[i].word, (struct bytes){upper, word.len}))
			return keywords[i].kind;
	return TOKEN_NAME;
}

/* DynamoDB knows no leading zeros: 01 is two tokens. */
static size_t index_length(struct bytes text)
{
	size_t len = 1;

	while (text.data[0] != '0' && len < text.len && is_digit(text.data[len]))
		len++;
	return len;
}

/* A foreign character is one token, however many bytes UTF-8 gives it. */
static size_t character_length(struct bytes text)
{
	size_t len = 1;

	while (len < text.len && ((uint8_t)text.data[len] & 0xC0) == 0x80)
		len++;
	return len;
}

static struct token lex_sign(struct bytes text)
{
	for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++) {
		if (bytes_starts_with(text, signs[i].text))
			return (struct token){signs[i].kind, {text.data, signs[i].text.len}};
	}
	return (struct token){TOKEN_BAD, {text.data, character_length(text)}};
}

static struct token lex_placeholder(struct bytes text)
{
	size_t          len = word_length(text, 1);
	enum token_kind kind = text.data[0] == '#' ? TOKEN_HASH : TOKEN_COLON;

	return (struct token){len == 1 ? TOKEN_BAD : kind, {text.data, len}};
}

static struct token lex_one(struct bytes text, enum lex_grammar grammar)
{
	char         first = text.data[0];
	struct token token;

	if (is_letter(first)) {
		token.text = (struct bytes){text.data, word_length(text, 1)};
		token.kind = word_kind(token.text, grammar);
		return token;
	}
	if (first == '#' || first == ':')
		return lex_placeholder(text);
	if (is_digit(first))
		return (struct token){TOKEN_INDEX, {text.data, index_length(text)}};
	return lex_sign(text);
}

struct token_list lex(struct arena *a, struct bytes text, enum lex_grammar grammar)
{
	struct token_list out = {arena_array(a, text.len + 1, sizeof(struct token)), 0};

	while (text.len > 0) {
		struct token token;

		if (is_space(text.data[0])) {
			text = (struct bytes){text.data + 1, text.len - 1};
			continue;
		}
		token = lex_one(text, grammar);
		out.tokens[out.count++] = token;
		text = (struct bytes){text.data + token.text.len, text.len - token.text.len};
	}
	out.tokens[out.count] = (struct token){TOKEN_END, BYTES_INIT("<EOF>")};
	return out;
}

/* ---- the placeholders of one request, sorted so that each look-up is a binary search ---- */

static const char names_field[] = "ExpressionAttributeNames";
static const char values_field[] = "ExpressionAttributeValues";

static int name_order(const void *a, const void *b)
{
	return bytes_compare(((const struct expr_name *)a)->placeholder,
	                     ((const struct expr_name *)b)->placeholder);
}

static int value_order(const void *a, const void *b)
{
	return bytes_compare(((const struct expr_value *)a)->placeholder,
	                     ((const struct expr_value *)b)->placeholder);
}

static enum err_code placeholder_check(const char *field, struct bytes key, char first, struct err *err)
{
	if (key.len > EXPR_PLACEHOLDER_BYTES_MAX)
		return err_set(err, ERR_INVALID, MSG_SCOPE_KEY_LONG, field, key.len);
	if (key.len < 2 || key.data[0] != first ||
	    !bytes_hold_only((struct bytes){key.data + 1, key.len - 1}, "_"))
		return err_set(err, ERR_INVALID, MSG_SCOPE_KEY, field, BYTES_ARG(key));
	return ERR_NONE;
}

static enum err_code names_sort(struct expr_scope *scope, struct err *err)
{
	struct expr_name *names = scope->names;
	enum err_code     rc;

	for (uint32_t i = 0; i < scope->name_count; i++) {
		rc = placeholder_check(names_field, names[i].placeholder, '#', err);
		if (rc != ERR_NONE)
			return rc;
	}
	if (scope->name_count > 1)
		qsort(names, scope->name_count, sizeof(*names), name_order);
	for (uint32_t i = 1; i < scope->name_count; i++)
		if (name_order(&names[i - 1], &names[i]) == 0)
			return err_set(err, ERR_INVALID, MSG_SCOPE_KEY_TWICE, names_field,
			               BYTES_ARG(names[i].placeholder));
	return ERR_NONE;
}

static enum err_code values_sort(struct expr_scope *scope, struct err *err)
{
	struct expr_value *values = scope->values;
	enum err_code      rc;

	for (uint32_t i = 0; i < scope->value_count; i++) {
		rc = placeholder_check(values_field, values[i].placeholder, ':', err);
		if (rc != ERR_NONE)
			return rc;
	}
	if (scope->value_count > 1)
		qsort(values, scope->value_count, sizeof(*values), value_order);
	for (uint32_t i = 1; i < scope->value_count; i++)
		if (value_order(&values[i - 1], &values[i]) == 0)
			return err_set(err, ERR_INVALID, MSG_SCOPE_KEY_TWICE, values_field,
			               BYTES_ARG(values[i].placeholder));
	return ERR_NONE;
}

enum err_code expr_scope_sort(struct expr_scope *scope, struct err *err)
{
	enum err_code rc = names_sort(scope, err);

	return rc != ERR_NONE ? rc : values_sort(scope, err);
}

const struct bytes *scope_name(struct expr_scope *scope, struct bytes placeholder)
{
	struct expr_name key = {.placeholder = placeholder}, *found = NULL;

	if (scope->name_count > 0)
		found = bsearch(&key, scope->names, scope->name_count, sizeof(key), name_order);
	if (found == NULL)
		return NULL;
	found->used = true;
	return &found->name;
}

const struct value *scope_value(struct expr_scope *scope, struct bytes placeholder)
{
	struct expr_value key = {.placeholder = placeholder}, *found = NULL;

	if (scope->value_count > 0)
		found = bsearch(&key, scope->values, scope->value_count, sizeof(key), value_order);
	if (found == NULL)
		return NULL;
	found->used = true;
	return &found->value;
}

/* The unused placeholders, "#a, #b", as far as they fit. */
struct unused {
	char   text[SHOWN_BYTES_MAX];
	size_t len;
};

static void unused_add(struct unused *u, struct bytes key)
{
	size_t comma = u->len > 0 ? 2 : 0;

	if (u->len + comma + key.len > sizeof(u->text))
		return;
	memcpy(u->text + u->len, ", ", comma);
	memcpy(u->text + u->len + comma, key.data, key.len);
	u->len += comma + key.len;
}

static enum err_code unused_report(const struct unused *u, const char *field, struct err *err)
{
	if (u->len == 0)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, MSG_SCOPE_UNUSED, field, (int)u->len, u->text);
}

enum err_code expr_scope_check_used(const struct expr_scope *scope, struct err *err)
{
	struct unused names = {.len = 0}, values = {.len = 0};
	enum err_code rc;

	for (uint32_t i = 0; i < scope->name_count; i++)
		if (!scope->names[i].used)
			unused_add(&names, scope->names[i].placeholder);
	for (uint32_t i = 0; i < scope->value_count; i++)
		if (!scope->values[i].used)
			unused_add(&values, scope->values[i].placeholder);
	rc = unused_report(&names, names_field, err);
	return rc != ERR_NONE ? rc : unused_report(&values, values_field, err);
}

/* ---- errors, and moving through the tokens ---- */

struct bytes text_shown(struct bytes text)
{
	if (text.len <= SHOWN_BYTES_MAX)
		return text;
	text.len = SHOWN_BYTES_MAX;
	while (text.len > 0 && ((uint8_t)text.data[text.len] & 0xC0) == 0x80)
		text.len--;
	return text;
}

enum err_code parser_init(struct parser *p, enum lex_grammar grammar)
{
	p->worst = COMPLAINT_NONE;
	p->is_condition = grammar == LEX_CONDITION;
	if (p->text.len > EXPR_BYTES_MAX)
		return err_set(p->err, ERR_INVALID, MSG_EXPR_FIELD MSG_EXPR_SIZE, p->field, p->text.len);
	p->list = lex(p->arena, p->text, grammar);
	if (p->list.count == 0)
		return err_set(p->err, ERR_INVALID, MSG_EXPR_FIELD MSG_EXPR_EMPTY, p->field);
	return ERR_NONE;
}

enum err_code parser_finish(struct parser *p)
{
	if (!parser_is(p, TOKEN_END))
		return parser_syntax(p);
	return p->worst == COMPLAINT_NONE ? ERR_NONE : ERR_INVALID;
}

/* The text from the token before to the token after. */
static struct bytes parser_near(const struct parser *p)
{
	uint32_t            first = p->at > 0 ? p->at - 1 : 0;
	uint32_t            last = p->at + 1 < p->list.count ? p->at + 1 : p->list.count - 1;
	const struct bytes *from = &p->list.tokens[first].text, *to = &p->list.tokens[last].text;

	return (struct bytes){from->data, (size_t)(to->data - from->data) + to->len};
}

enum err_code parser_syntax(struct parser *p)
{
	struct bytes token = text_shown(parser_peek(p)->text), near = text_shown(parser_near(p));

	return err_set(p->err, ERR_INVALID, MSG_EXPR_FIELD MSG_EXPR_SYNTAX, p->field, BYTES_ARG(token),
	               BYTES_ARG(near));
}

enum err_code parser_expect(struct parser *p, enum token_kind kind)
{
	if (!parser_is(p, kind))
		return parser_syntax(p);
	p->at++;
	return ERR_NONE;
}

enum err_code parser_operator(struct parser *p)
{
	if (++p->operators <= EXPR_OPERATORS_MAX)
		return ERR_NONE;
	return err_set(p->err, ERR_INVALID, MSG_EXPR_FIELD MSG_EXPR_OPERATORS, p->field, p->operators);
}

void parser_complain(struct parser *p, enum complaint complaint, const char *format, ...)
{
	va_list args;
	int     prefix;

	if (p->is_condition && complaint > COMPLAINT_NAME)
		complaint = COMPLAINT_NAME;
	if (complaint >= p->worst)
		return;
	p->worst = complaint;
	p->err->code = ERR_INVALID;
	prefix = snprintf(p->err->text, sizeof(p->err->text), MSG_EXPR_FIELD, p->field);
	va_start(args, format);
	vsnprintf(p->err->text + prefix, sizeof(p->err->text) - (size_t)prefix, format, args);
	va_end(args);
}

/* ---- paths and values ---- */

/* name = NAME | HASH */
static enum err_code path_name(struct parser *p, struct expr_step *out)
{
	const struct token *token = parser_peek(p);
	const struct bytes *name;

	*out = (struct expr_step){.name = token->text};
	if (token->kind == TOKEN_HASH) {
		name = scope_name(p->scope, token->text);
		if (name != NULL)
			out->name = *name;
		else
			parser_complain(p, COMPLAINT_NAME, MSG_EXPR_NO_NAME,
			                BYTES_ARG(text_shown(token->text)));
	} else if (token->kind != TOKEN_NAME) {
		return parser_syntax(p);
	} else if (expr_is_reserved(token->text)) {
		parser_complain(p, COMPLAINT_RESERVED, MSG_EXPR_RESERVED, BYTES_ARG(token->text));
	}
	p->at++;
	return ERR_NONE;
}

/* index = "[" INDEX "]", behind the bracket */
static enum err_code path_index(struct parser *p, struct expr_step *out)
{
	const struct token *token = parser_peek(p);
	uint64_t            index = 0;
	enum err_code       rc = parser_expect(p, TOKEN_INDEX);

	if (rc != ERR_NONE)
		return rc;
	if (!bytes_to_u64(token->text, PATH_INDEX_MAX, &index))
		parser_complain(p, COMPLAINT_RESERVED, MSG_EXPR_INDEX, BYTES_ARG(text_shown(token->text)));
	*out = (struct expr_step){.is_index = true, .index = (uint32_t)index};
	return parser_expect(p, TOKEN_RIGHT);
}

static enum err_code path_step(struct parser *p, struct expr_step *out)
{
	if (parser_is(p, TOKEN_DOT)) {
		p->at++;
		return path_name(p, out);
	}
	p->at++;
	return path_index(p, out);
}

/* Too many steps are counted but not kept. */
static enum err_code path_steps(struct parser *p, struct expr_path *path, struct expr_step *steps)
{
	uint32_t count = path->count;

	while (parser_is(p, TOKEN_DOT) || parser_is(p, TOKEN_LEFT)) {
		struct expr_step step;
		enum err_code    rc = path_step(p, &step);

		if (rc != ERR_NONE)
			return rc;
		if (count < PATH_STEPS_MAX)
			steps[count] = step;
		count++;
	}
	if (count > PATH_STEPS_MAX)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_PATH_DEPTH, count);
	path->count = count < PATH_STEPS_MAX ? count : PATH_STEPS_MAX;
	path->steps = arena_array(p->arena, path->count, sizeof(*steps));
	memcpy(path->steps, steps, path->count * sizeof(*steps));
	return ERR_NONE;
}

enum err_code parser_path(struct parser *p, struct expr_path *out)
{
	struct expr_step steps[PATH_STEPS_MAX];
	enum err_code    rc = path_name(p, &steps[0]);

	if (rc != ERR_NONE)
		return rc;
	out->count = 1;
	return path_steps(p, out, steps);
}

enum err_code parser_path_more(struct parser *p, struct expr_path *path)
{
	struct expr_step steps[PATH_STEPS_MAX];

	memcpy(steps, path->steps, path->count * sizeof(*steps));
	return path_steps(p, path, steps);
}

enum err_code parser_value(struct parser *p, struct value *out)
{
	const struct token *token = parser_peek(p);
	const struct value *value;
	enum err_code       rc = parser_expect(p, TOKEN_COLON);

	if (rc != ERR_NONE)
		return rc;
	value = scope_value(p->scope, token->text);
	*out = value != NULL ? *value : (struct value){.type = VALUE_NULL};
	if (value == NULL)
		parser_complain(p, COMPLAINT_VALUE, MSG_EXPR_NO_VALUE, BYTES_ARG(text_shown(token->text)));
	return ERR_NONE;
}
