/* Parse update: SET, REMOVE, ADD and DELETE sections, each at most once; and projections, which are paths alone.
 *
 *   update  = section { section }
 *   section = SET set { "," set } | REMOVE path { "," path }
 *           | ADD path value { "," path value } | DELETE path value { "," path value }
 *   set     = path "=" sum ; sum = operand [ ( "+" | "-" ) operand ] | "(" sum ")"
 *   operand = path | value | "(" operand ")" | NAME "(" operand { "," operand } ")"
 *
 * Descends recursively only into calls, which count against EXPR_OPERATORS_MAX: that bounds the depth. Runs
 * of parentheses are counted, not descended into. */
#include "expr/parser.h"
#include "item/messages.h"

struct section {
	enum token_kind       keyword;
	const char           *name;
	enum expr_action_kind action;
};

static const struct section sections[] = {
        {TOKEN_SET, "SET", ACTION_SET},
        {TOKEN_REMOVE, "REMOVE", ACTION_REMOVE},
        {TOKEN_ADD, "ADD", ACTION_ADD},
        {TOKEN_DELETE, "DELETE", ACTION_DELETE},
};

/* DynamoDB names types in full here, and nowhere else. */
static const char *const long_type_names[VALUE_TYPE_COUNT] = {
        "STRING", "NUMBER", "BINARY",     "BOOLEAN",    "NULL",
        "MAP",    "LIST",   "STRING_SET", "NUMBER_SET", "BINARY_SET"};

static enum err_code parse_operand(struct parser *p, struct expr_term *out);

/* How many parentheses open or close here. */
static uint32_t parentheses(struct parser *p, enum token_kind kind, uint32_t most)
{
	uint32_t count = 0;

	while (count < most && parser_is(p, kind)) {
		p->at++;
		count++;
	}
	return count;
}

static void complain_if_redundant(struct parser *p, uint32_t around)
{
	if (around > 1)
		parser_complain(p, COMPLAINT_PARENTHESES, MSG_EXPR_PARENTHESES);
}

/* A literal must be of that type; what a path or call yields shows only later. */
static bool check_literal(struct parser *p, const char *name, const struct expr_term *term,
                          enum value_type type)
{
	if (term->kind != TERM_VALUE || term->value.type == type)
		return true;
	parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_OPERAND_TYPE, name, value_type_name(term->value.type));
	return false;
}

/* Only if_not_exists may be within another function. */
static void check_nesting(struct parser *p, const struct expr_term operands[2])
{
	for (int i = 0; i < 2; i++)
		if (operands[i].kind == TERM_LIST_APPEND)
			parser_complain(p, COMPLAINT_FUNCTION_PLACE, MSG_EXPR_FUNCTION_PLACE,
			                BYTES_ARG(BYTES("list_append")));
}

static void check_update_call(struct parser *p, const struct function *f, const struct expr_term operands[2],
                              uint32_t count)
{
	check_nesting(p, operands);
	if (count != f->operands)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_OPERAND_COUNT, f->name, count);
	else if (f->wants_path && operands[0].kind != TERM_PATH)
		parser_complain(p, COMPLAINT_OPERAND, MSG_EXPR_OPERAND_PATH, f->name);
	else if (f->term == TERM_LIST_APPEND && check_literal(p, f->name, &operands[0], VALUE_L))
		check_literal(p, f->name, &operands[1], VALUE_L);
}

static struct expr_term *term_keep(struct parser *p, const struct expr_term *term)
{
	struct expr_term *kept = arena_alloc(p->arena, sizeof(*kept));

	*kept = *term;
	return kept;
}

static void call_build(struct parser *p, const struct function *f, const struct expr_term operands[2],
                       struct expr_term *out)
{
	*out = (struct expr_term){.kind = f->term};
	if (f->term == TERM_IF_NOT_EXISTS) {
		out->path = operands[0].path;
		out->left = term_keep(p, &operands[1]);
		return;
	}
	out->left = term_keep(p, &operands[0]);
	out->right = term_keep(p, &operands[1]);
}

/* operand { "," operand } ")"; keeps the first two */
static enum err_code parse_operands(struct parser *p, struct expr_term operands[2], uint32_t *count)
{
	struct expr_term further;

	for (*count = 0;; p->at++) {
		enum err_code rc = parse_operand(p, *count < 2 ? &operands[*count] : &further);

		if (rc != ERR_NONE)
			return rc;
		++*count;
		if (!parser_is(p, TOKEN_COMMA))
			return parser_expect(p, TOKEN_CLOSE);
	}
}

/* call = NAME "(" operand { "," operand } ")" */
static enum err_code parse_call(struct parser *p, struct expr_term *out)
{
	struct bytes           name = parser_peek(p)->text;
	const struct function *f = function_find(name);
	struct expr_term       operands[2] = {{.kind = TERM_VALUE}, {.kind = TERM_VALUE}};
	uint32_t               count;
	enum err_code          rc = parser_operator(p);

	p->at += 2;
	if (rc == ERR_NONE)
		rc = parse_operands(p, operands, &count);
	if (rc != ERR_NONE)
		return rc;
	*out = (struct expr_term){.kind = TERM_VALUE, .value = {.type = VALUE_NULL}};
	if (f == NULL) {
		parser_complain(p, COMPLAINT_FUNCTION_NAME, MSG_EXPR_FUNCTION, BYTES_ARG(text_shown(name)));
	} else if (f->use != FUNCTION_UPDATE) {
		parser_complain(p, COMPLAINT_FUNCTION_PLACE, MSG_EXPR_NOT_IN_UPDATE, BYTES_ARG(name));
	} else {
		check_update_call(p, f, operands, count);
		call_build(p, f, operands, out);
	}
	return ERR_NONE;
}

/* operand, without its parentheses */
static enum err_code parse_bare_operand(struct parser *p, struct expr_term *out)
{
	if (parser_is(p, TOKEN_NAME) && parser_is_then(p, TOKEN_OPEN))
		return parse_call(p, out);
	*out = (struct expr_term){.kind = parser_is(p, TOKEN_COLON) ? TERM_VALUE : TERM_PATH};
	return out->kind == TERM_VALUE ? parser_value(p, &out->value) : parser_path(p, &out->path);
}

static enum err_code parse_operand(struct parser *p, struct expr_term *out)
{
	uint32_t      open = parentheses(p, TOKEN_OPEN, UINT32_MAX);
	enum err_code rc = parse_bare_operand(p, out);

	if (rc != ERR_NONE)
		return rc;
	if (parentheses(p, TOKEN_CLOSE, open) < open)
		return parser_syntax(p);
	complain_if_redundant(p, open);
	return ERR_NONE;
}

/* ( "+" | "-" ) operand, behind the left one */
static enum err_code parse_sum_rest(struct parser *p, struct expr_term *sum)
{
	bool             plus = parser_is(p, TOKEN_PLUS);
	const char      *name = plus ? "+" : "-";
	struct expr_term left = *sum, right;
	enum err_code    rc = parser_operator(p);

	p->at++;
	if (rc == ERR_NONE)
		rc = parse_operand(p, &right);
	if (rc != ERR_NONE)
		return rc;
	if (check_literal(p, name, &left, VALUE_N))
		check_literal(p, name, &right, VALUE_N);
	*sum = (struct expr_term){.kind = plus ? TERM_PLUS : TERM_MINUS};
	sum->left = term_keep(p, &left);
	sum->right = term_keep(p, &right);
	return ERR_NONE;
}

/* sum = operand [ ( "+" | "-" ) operand ] | "(" sum ")". Of the parentheses at the start, those that close
 * right behind the first operand are its own; the others are the sum's. */
static enum err_code parse_sum(struct parser *p, struct expr_term *out)
{
	uint32_t      open = parentheses(p, TOKEN_OPEN, UINT32_MAX), own;
	enum err_code rc = parse_bare_operand(p, out);

	if (rc != ERR_NONE)
		return rc;
	own = parentheses(p, TOKEN_CLOSE, open);
	complain_if_redundant(p, own);
	if (parser_is(p, TOKEN_PLUS) || parser_is(p, TOKEN_MINUS)) {
		rc = parse_sum_rest(p, out);
		if (rc != ERR_NONE)
			return rc;
		complain_if_redundant(p, open - own);
		own += parentheses(p, TOKEN_CLOSE, open - own);
	}
	return own < open ? parser_syntax(p) : ERR_NONE;
}

static void check_action_value(struct parser *p, const struct section *s, enum value_type type)
{
	if (value_type_is_set(type) || (s->action == ACTION_ADD && type == VALUE_N))
		return;
	parser_complain(p, COMPLAINT_ACTION, MSG_EXPR_ACTION_TYPE, s->name, long_type_names[type], s->name);
}

static enum err_code parse_action(struct parser *p, const struct section *s, struct expr_action *out)
{
	enum err_code rc = parser_path(p, &out->path);

	out->kind = s->action;
	if (rc != ERR_NONE || s->action == ACTION_REMOVE)
		return rc;
	if (s->action == ACTION_SET) {
		rc = parser_expect(p, TOKEN_EQ);
		return rc != ERR_NONE ? rc : parse_sum(p, &out->term);
	}
	rc = parser_value(p, &out->value);
	if (rc == ERR_NONE)
		check_action_value(p, s, out->value.type);
	return rc;
}

static enum err_code parse_section(struct parser *p, const struct section *s, struct expr_update *out)
{
	for (;;) {
		struct expr_action *action = &out->actions[out->count];
		enum err_code       rc;

		*action = (struct expr_action){.kind = s->action};
		rc = parse_action(p, s, action);
		if (rc != ERR_NONE)
			return rc;
		out->count++;
		if (!parser_is(p, TOKEN_COMMA))
			return ERR_NONE;
		p->at++;
	}
}

static const struct section *section_find(enum token_kind keyword)
{
	for (size_t i = 0; i < sizeof(sections) / sizeof(*sections); i++)
		if (sections[i].keyword == keyword)
			return &sections[i];
	return NULL;
}

static enum err_code parse_sections(struct parser *p, struct expr_update *out)
{
	unsigned seen = 0;

	while (!parser_is(p, TOKEN_END)) {
		const struct section *s = section_find(parser_peek(p)->kind);
		enum err_code         rc;

		if (s == NULL)
			return parser_syntax(p);
		if ((seen & (1u << s->action)) != 0)
			parser_complain(p, COMPLAINT_SECTION, MSG_EXPR_SECTION, s->name);
		seen |= 1u << s->action;
		p->at++;
		rc = parse_section(p, s, out);
		if (rc != ERR_NONE)
			return rc;
	}
	return ERR_NONE;
}

static void check_paths(struct parser *p, const struct expr_update *update)
{
	struct expr_path *paths;

	if (update->count < 2)
		return; /* one path overlaps nothing */
	paths = arena_array(p->arena, update->count, sizeof(*paths));
	for (uint32_t i = 0; i < update->count; i++)
		paths[i] = update->actions[i].path;
	path_check_disjoint(p, paths, update->count);
}

enum err_code expr_parse_update(struct arena *a, struct bytes text, struct expr_scope *scope,
                                struct expr_update *out, struct err *err)
{
	struct parser p = {.arena = a, .field = "UpdateExpression", .text = text, .scope = scope, .err = err};
	enum err_code rc = parser_init(&p, LEX_UPDATE);

	if (rc != ERR_NONE)
		return rc;
	/* An action takes two tokens at least: a keyword or comma, and a name. */
	*out = (struct expr_update){arena_array(a, p.list.count / 2 + 1, sizeof(*out->actions)), 0};
	rc = parse_sections(&p, out);
	if (rc != ERR_NONE)
		return rc;
	check_paths(&p, out);
	return parser_finish(&p);
}

/* ---- projection = path { "," path } ---- */

static enum err_code parse_paths(struct parser *p, struct expr_projection *out)
{
	for (;;) {
		enum err_code rc = parser_path(p, &out->paths[out->count]);

		if (rc != ERR_NONE)
			return rc;
		out->count++;
		if (!parser_is(p, TOKEN_COMMA))
			return ERR_NONE;
		p->at++;
	}
}

enum err_code expr_parse_projection(struct arena *a, struct bytes text, struct expr_scope *scope,
                                    struct expr_projection *out, struct err *err)
{
	struct parser p = {
	        .arena = a, .field = "ProjectionExpression", .text = text, .scope = scope, .err = err};
	enum err_code rc = parser_init(&p, LEX_PROJECTION);

	if (rc != ERR_NONE)
		return rc;
	*out = (struct expr_projection){arena_array(a, p.list.count, sizeof(*out->paths)), 0};
	rc = parse_paths(&p, out);
	if (rc != ERR_NONE)
		return rc;
	path_check_disjoint(&p, out->paths, out->count);
	path_sort(out->paths, out->count);
	return parser_finish(&p);
}
