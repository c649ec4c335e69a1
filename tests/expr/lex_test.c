/* Lex: where tokens begin and end. */
#include "test.h"

#include "expr/parser.h"

static const struct {
	const char      *text;
	enum lex_grammar grammar;
	const char      *tokens; /* separated by spaces */
	enum token_kind  kinds[8];
} cases[] = {
        {"a1_B", LEX_CONDITION, "a1_B", {TOKEN_NAME}},
        {"#1 :_x", LEX_CONDITION, "#1 :_x", {TOKEN_HASH, TOKEN_COLON}},
        {"<>=<=>=><",
         LEX_CONDITION,
         "<> = <= >= > <",
         {TOKEN_NE, TOKEN_EQ, TOKEN_LE, TOKEN_GE, TOKEN_GT, TOKEN_LT}},
        {"aNd OR not In between",
         LEX_CONDITION,
         "aNd OR not In between",
         {TOKEN_AND, TOKEN_OR, TOKEN_NOT, TOKEN_IN, TOKEN_BETWEEN}},
        {"and SET", LEX_UPDATE, "and SET", {TOKEN_NAME, TOKEN_SET}},
        {"set and", LEX_CONDITION, "set and", {TOKEN_NAME, TOKEN_AND}},
        {"set and", LEX_PROJECTION, "set and", {TOKEN_NAME, TOKEN_NAME}},
        {"remove ADD Delete", LEX_UPDATE, "remove ADD Delete", {TOKEN_REMOVE, TOKEN_ADD, TOKEN_DELETE}},
        {"andy ORx", LEX_CONDITION, "andy ORx", {TOKEN_NAME, TOKEN_NAME}},
        {"010", LEX_CONDITION, "0 10", {TOKEN_INDEX, TOKEN_INDEX}},
        {"a[12].b",
         LEX_CONDITION,
         "a [ 12 ] . b",
         {TOKEN_NAME, TOKEN_LEFT, TOKEN_INDEX, TOKEN_RIGHT, TOKEN_DOT, TOKEN_NAME}},
        {"(a,b)+-",
         LEX_UPDATE,
         "( a , b ) + -",
         {TOKEN_OPEN, TOKEN_NAME, TOKEN_COMMA, TOKEN_NAME, TOKEN_CLOSE, TOKEN_PLUS, TOKEN_MINUS}},
        {"__#:$", LEX_CONDITION, "_ _ # : $", {TOKEN_BAD, TOKEN_BAD, TOKEN_BAD, TOKEN_BAD, TOKEN_BAD}},
        {"\xC3\xBC\xE2\x82\xACx",
         LEX_CONDITION,
         "\xC3\xBC \xE2\x82\xAC x",
         {TOKEN_BAD, TOKEN_BAD, TOKEN_NAME}},
        {"", LEX_CONDITION, "", {TOKEN_END}},
        {" \t\r\n", LEX_CONDITION, "", {TOKEN_END}},
};

static void check(struct arena *a, size_t i)
{
	struct token_list list = lex(a, bytes_of(cases[i].text), cases[i].grammar);
	const char       *expected = cases[i].tokens;

	for (uint32_t t = 0; t < list.count; t++) {
		struct bytes word = {expected, strcspn(expected, " ")};

		if (!bytes_equal(list.tokens[t].text, word) || list.tokens[t].kind != cases[i].kinds[t])
			fail_msg("\"%s\", token %u: \"%.*s\" of kind %d", cases[i].text, t,
			         BYTES_ARG(list.tokens[t].text), list.tokens[t].kind);
		expected += word.len;
		expected += strspn(expected, " ");
	}
	assert_string_equal(expected, "");
	assert_int_equal(list.tokens[list.count].kind, TOKEN_END);
	assert_bytes(list.tokens[list.count].text, "<EOF>");
}

TEST(lex, cuts_text_into_tokens)
{
	struct arena a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check(&a, i);
	arena_release(&a);
}
