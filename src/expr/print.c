/* Print: trees back to text. No names or literals appear in the text itself, so nothing needs quoting and no
 * word is reserved; as few spaces and parentheses as the grammar allows, because the text has a limit. */
#include "expr/print.h"

#include "expr/parser.h"

void expr_printer_init(struct expr_printer *p, struct arena *a)
{
	*p = (struct expr_printer){.arena = a};
}

/* Room for one more element in an array of the arena. */
static void *array_grow(struct arena *a, void *old, uint32_t count, uint32_t *cap, size_t size)
{
	void *grown;

	if (count < *cap)
		return old;
	*cap = *cap == 0 ? 8 : *cap * 2;
	grown = arena_array(a, *cap, size);
	if (count > 0)
		memcpy(grown, old, count * size);
	return grown;
}

/* "#12", without a format: a transaction has dozens of them. */
static struct bytes placeholder(struct arena *a, char kind, uint32_t number)
{
	char   digits[10];
	size_t count = 0;
	char  *text;

	do
		digits[count++] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	text = arena_alloc(a, count + 1);
	text[0] = kind;
	for (size_t i = 0; i < count; i++)
		text[1 + i] = digits[count - 1 - i];
	return (struct bytes){text, count + 1};
}

static struct bytes printer_name(struct expr_printer *p, struct bytes name)
{
	struct expr_scope *s = &p->scope;
	struct expr_name  *added;

	for (uint32_t i = 0; i < s->name_count; i++)
		if (bytes_equal(s->names[i].name, name))
			return s->names[i].placeholder;
	s->names = array_grow(p->arena, s->names, s->name_count, &p->name_cap, sizeof(*s->names));
	added = &s->names[s->name_count];
	*added = (struct expr_name){placeholder(p->arena, '#', s->name_count), name, false};
	s->name_count++;
	return added->placeholder;
}

static struct bytes printer_value(struct expr_printer *p, const struct value *value)
{
	struct expr_scope *s = &p->scope;
	struct expr_value *added;

	s->values = array_grow(p->arena, s->values, s->value_count, &p->value_cap, sizeof(*s->values));
	added = &s->values[s->value_count];
	*added = (struct expr_value){placeholder(p->arena, ':', s->value_count), *value, false};
	s->value_count++;
	return added->placeholder;
}

struct text {
	struct expr_printer *p;
	struct buf           out;
};

static struct text text_start(struct expr_printer *p)
{
	struct text t = {.p = p};

	buf_init(&t.out, p->arena);
	return t;
}

static void put(struct text *t, const char *text)
{
	buf_add_bytes(&t->out, bytes_of(text));
}

static void put_value(struct text *t, const struct value *value)
{
	buf_add_bytes(&t->out, printer_value(t->p, value));
}

static void put_path(struct text *t, const struct expr_path *path)
{
	for (uint32_t i = 0; i < path->count; i++) {
		const struct expr_step *step = &path->steps[i];

		if (step->is_index) {
			buf_add_bytes(&t->out, arena_printf(t->p->arena, "[%u]", step->index));
			continue;
		}
		put(t, i > 0 ? "." : "");
		buf_add_bytes(&t->out, printer_name(t->p, step->name));
	}
}

/* ---- conditions ---- */

static void put_operand(struct text *t, const struct expr_operand *operand)
{
	bool sized = operand->kind == OPERAND_SIZE;

	put(t, sized ? "size(" : "");
	if (operand->kind == OPERAND_VALUE || (sized && operand->path.count == 0))
		put_value(t, &operand->value);
	else
		put_path(t, &operand->path);
	put(t, sized ? ")" : "");
}

static void put_operands(struct text *t, const struct expr_operand *operands, uint32_t count)
{
	put(t, "(");
	for (uint32_t i = 0; i < count; i++) {
		put(t, i > 0 ? "," : "");
		put_operand(t, &operands[i]);
	}
	put(t, ")");
}

static void put_leaf(struct text *t, const struct expr *e)
{
	switch (e->kind) {
	case EXPR_COMPARE:
		put_operand(t, &e->operands[0]);
		put(t, expr_op_text(e->op));
		put_operand(t, &e->operands[1]);
		return;
	case EXPR_BETWEEN:
		put_operand(t, &e->operands[0]);
		put(t, " BETWEEN ");
		put_operand(t, &e->operands[1]);
		put(t, " AND ");
		put_operand(t, &e->operands[2]);
		return;
	case EXPR_IN:
		put_operand(t, &e->operands[0]);
		put(t, " IN ");
		put_operands(t, e->operands + 1, e->operand_count - 1);
		return;
	default:
		put(t, function_name(e->kind));
		put_operands(t, e->operands, e->operand_count);
	}
}

/* How tightly it binds, as in the parser's table. */
static unsigned binding(const struct expr *e)
{
	switch (e->kind) {
	case EXPR_OR:
		return 1;
	case EXPR_AND:
	case EXPR_SAME:
		return 2;
	case EXPR_NOT:
		return 3;
	default:
		return 4;
	}
}

/* As the comparisons that it stands for. */
static void put_same(struct text *t, const struct expr *e)
{
	for (uint32_t i = 0; e->names[i] != NULL; i++) {
		struct expr_step    step = {.name = bytes_of(e->names[i])};
		const struct value *then = item_get(&e->read, step.name);
		struct expr_operand operands[2] = {{.kind = OPERAND_PATH, .path = {&step, 1}}};
		struct expr leaf = {.kind = EXPR_NOT_EXISTS, .operands = operands, .operand_count = 1};

		if (then != NULL) {
			leaf.kind = EXPR_COMPARE;
			operands[1] = (struct expr_operand){.kind = OPERAND_VALUE, .value = *then};
		}
		put(t, i > 0 ? " AND " : "");
		put_leaf(t, &leaf);
	}
}

/* In parentheses if it binds less than `least`. Recursion is bounded by EXPR_DEPTH_MAX. */
static void put_condition(struct text *t, const struct expr *e, unsigned least)
{
	unsigned binds = binding(e);
	bool     parentheses = binds < least;

	put(t, parentheses ? "(" : "");
	if (e->kind == EXPR_NOT) {
		put(t, "NOT ");
		put_condition(t, e->left, 4);
	} else if (e->kind == EXPR_SAME) {
		put_same(t, e);
	} else if (binds == 4) {
		put_leaf(t, e);
	} else { /* operators group to the left: an equal one on the right needs its own */
		put_condition(t, e->left, binds);
		put(t, e->kind == EXPR_AND ? " AND " : " OR ");
		put_condition(t, e->right, binds + 1);
	}
	put(t, parentheses ? ")" : "");
}

struct bytes expr_print_condition(struct expr_printer *p, const struct expr *e)
{
	struct text t = text_start(p);

	put_condition(&t, e, 0);
	return buf_bytes(&t.out);
}

/* ---- updates ---- */

static void put_term(struct text *t, const struct expr_term *term)
{
	switch (term->kind) {
	case TERM_PATH:
		put_path(t, &term->path);
		return;
	case TERM_VALUE:
		put_value(t, &term->value);
		return;
	case TERM_IF_NOT_EXISTS:
		put(t, "if_not_exists(");
		put_path(t, &term->path);
		put(t, ",");
		put_term(t, term->left);
		put(t, ")");
		return;
	case TERM_LIST_APPEND:
		put(t, "list_append(");
		put_term(t, term->left);
		put(t, ",");
		put_term(t, term->right);
		put(t, ")");
		return;
	default:
		put_term(t, term->left);
		put(t, term->kind == TERM_PLUS ? "+" : "-");
		put_term(t, term->right);
	}
}

static void put_action(struct text *t, const struct expr_action *action)
{
	put_path(t, &action->path);
	if (action->kind == ACTION_SET) {
		put(t, "=");
		put_term(t, &action->term);
	} else if (action->kind != ACTION_REMOVE) {
		put(t, " ");
		put_value(t, &action->value);
	}
}

/* All actions of one kind. */
static void put_section(struct text *t, const struct expr_update *u, uint32_t first)
{
	static const char *const keywords[] = {"SET ", "REMOVE ", "ADD ", "DELETE "};
	enum expr_action_kind    kind = u->actions[first].kind;

	put(t, t->out.len > 0 ? " " : "");
	put(t, keywords[kind]);
	for (uint32_t i = first; i < u->count; i++) {
		if (u->actions[i].kind != kind)
			continue;
		put(t, i > first ? "," : "");
		put_action(t, &u->actions[i]);
	}
}

/* Each section stands where its first action does. */
struct bytes expr_print_update(struct expr_printer *p, const struct expr_update *u)
{
	struct text t = text_start(p);
	unsigned    done = 0;

	for (uint32_t i = 0; i < u->count; i++) {
		unsigned kind = 1u << u->actions[i].kind;

		if ((done & kind) == 0)
			put_section(&t, u, i);
		done |= kind;
	}
	return buf_bytes(&t.out);
}

/* ---- projections and key conditions ---- */

struct bytes expr_print_projection(struct expr_printer *p, const struct expr_projection *projection)
{
	struct text t = text_start(p);

	for (uint32_t i = 0; i < projection->count; i++) {
		put(&t, i > 0 ? "," : "");
		put_path(&t, &projection->paths[i]);
	}
	return buf_bytes(&t.out);
}

static void put_key_name(struct text *t, struct bytes name)
{
	buf_add_bytes(&t->out, printer_name(t->p, name));
}

static void put_range(struct text *t, const struct expr_key_condition *k)
{
	static const char *const comparators[] = {"", "=", "<", "<=", ">", ">="};

	put(t, k->range_kind == RANGE_PREFIX ? " AND begins_with(" : " AND ");
	put_key_name(t, k->range_name);
	if (k->range_kind == RANGE_PREFIX)
		put(t, ",");
	else
		put(t, k->range_kind == RANGE_BETWEEN ? " BETWEEN " : comparators[k->range_kind]);
	put_value(t, &k->low);
	if (k->range_kind == RANGE_PREFIX)
		put(t, ")");
	if (k->range_kind != RANGE_BETWEEN)
		return;
	put(t, " AND ");
	put_value(t, &k->high);
}

struct bytes expr_print_key_condition(struct expr_printer *p, const struct expr_key_condition *k)
{
	struct text t = text_start(p);

	put_key_name(&t, k->hash_name);
	put(&t, "=");
	put_value(&t, &k->hash);
	if (k->range_kind != RANGE_NONE)
		put_range(&t, k);
	return buf_bytes(&t.out);
}
