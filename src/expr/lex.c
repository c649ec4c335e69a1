/* Lex: one pass over the text, one token at a time, longest match first. Every call of lex_one takes at least
 * one byte, so the pass is linear and there are at most as many tokens as bytes. */
#include "expr/lex.h"

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

static bool is_word(char c)
{
	return is_letter(c) || is_digit(c) || c == '_';
}

static size_t word_length(struct bytes text, size_t from)
{
	size_t len = from;

	while (len < text.len && is_word(text.data[len]))
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
