/* Print: the text of trees, and that parsing it gives the tree back, for random trees of a seeded generator.
 */
#include "support.h"

enum { TREES = 20000, SEED = 20240607 };

/* ---- golden texts ---- */

static const struct {
	const char *text, *printed;
} conditions[] = {
        {"a = :v", "#0=:0"},
        {"a = :v AND a <> :w", "#0=:0 AND #0<>:1"},
        {"a.b[3].a >= :v", "#0.#1[3].#0>=:0"},
        {"NOT (a = :v OR b = :v)", "NOT (#0=:0 OR #1=:1)"},
        {"NOT a = :v OR b = :v", "NOT #0=:0 OR #1=:1"},
        {"NOT NOT a = :v", "NOT (NOT #0=:0)"},
        {"(a = :v OR b = :v) AND c = :v", "(#0=:0 OR #1=:1) AND #2=:2"},
        {"(a = :v AND b = :v) AND c = :v", "#0=:0 AND #1=:1 AND #2=:2"},
        {"a = :v AND (b = :v AND c = :v)", "#0=:0 AND (#1=:1 AND #2=:2)"},
        {"a = :v OR b = :v AND c = :v", "#0=:0 OR #1=:1 AND #2=:2"},
        {"a between :v and b", "#0 BETWEEN :0 AND #1"},
        {"a in (:v, b, size(c))", "#0 IN (:0,#1,size(#2))"},
        {"attribute_exists(a) and attribute_not_exists(b)",
         "attribute_exists(#0) AND attribute_not_exists(#1)"},
        {"attribute_type(a, :t)", "attribute_type(#0,:0)"},
        {"begins_with(a, :t) or contains(a, :t)", "begins_with(#0,:0) OR contains(#0,:1)"},
        {"size(:t) < size(a)", "size(:0)<size(#0)"},
};

TEST(print, writes_conditions_with_placeholders_and_few_parentheses)
{
	struct fixture f;

	fixture_open(&f, "", "v:1 w:2 t:'S'");
	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++) {
		struct expr_printer p;
		struct expr        *e;

		assert_accepted(
		        expr_parse_filter(&f.arena, bytes_of(conditions[i].text), &f.scope, &e, &f.err),
		        &f.err, conditions[i].text);
		expr_printer_init(&p, &f.arena);
		assert_bytes(expr_print_condition(&p, e), conditions[i].printed);
	}
	fixture_close(&f);
}

static const struct {
	const char *text, *printed;
} updates[] = {
        {"SET a = :v", "SET #0=:0"},
        {"SET a = a + :v, b = (:v - c)", "SET #0=#0+:0,#1=:1-#2"},
        {"REMOVE a, b[1] SET c = :v", "REMOVE #0,#1[1] SET #2=:0"},
        {"SET l = list_append(if_not_exists(l, :l), :l)", "SET #0=list_append(if_not_exists(#0,:0),:1)"},
        {"DELETE a :s ADD b :v, c :s", "DELETE #0 :0 ADD #1 :1,#2 :2"},
};

TEST(print, writes_updates)
{
	struct fixture f;

	fixture_open(&f, "", "v:1 s:<1> l:[]");
	for (size_t i = 0; i < sizeof(updates) / sizeof(*updates); i++) {
		struct expr_printer p;
		struct expr_update  u;

		assert_accepted(expr_parse_update(&f.arena, bytes_of(updates[i].text), &f.scope, &u, &f.err),
		                &f.err, updates[i].text);
		expr_printer_init(&p, &f.arena);
		assert_bytes(expr_print_update(&p, &u), updates[i].printed);
	}
	fixture_close(&f);
}

TEST(print, gathers_actions_of_one_kind_into_one_section)
{
	struct fixture   f;
	struct expr_step steps[3] = {
	        {.name = BYTES_INIT("a")}, {.name = BYTES_INIT("b")}, {.name = BYTES_INIT("c")}};
	struct expr_action actions[3] = {
	        {.kind = ACTION_REMOVE, .path = {&steps[0], 1}},
	        {.kind = ACTION_ADD, .path = {&steps[1], 1}, .value = value_i64(1)},
	        {.kind = ACTION_REMOVE, .path = {&steps[2], 1}},
	};
	struct expr_update  u = {actions, 3};
	struct expr_printer p;

	fixture_open(&f, "", "");
	expr_printer_init(&p, &f.arena);
	assert_bytes(expr_print_update(&p, &u), "REMOVE #0,#1 ADD #2 :0");
	fixture_close(&f);
}

TEST(print, writes_what_must_be_as_it_was_read_as_comparisons)
{
	static const char *const names[] = {"a", "b", NULL};
	struct fixture           f;
	struct expr_printer      p;
	struct expr same = {.kind = EXPR_SAME, .names = names}, not = {.kind = EXPR_NOT, .left = &same};
	struct expr both = {.kind = EXPR_AND, .left = &same, .right = &not };

	fixture_open(&f, "", "");
	same.read = fixture_item(&f, "a:1 c:'x'");
	expr_printer_init(&p, &f.arena);
	assert_bytes(expr_print_condition(&p, &both),
	             "#0=:0 AND attribute_not_exists(#1) AND NOT (#0=:1 AND attribute_not_exists(#1))");
	assert_true(value_equal(&p.scope.values[0].value, item_get(&same.read, BYTES("a"))));
	fixture_close(&f);
}

TEST(print, shares_one_scope_among_the_expressions_of_a_request)
{
	struct fixture            f;
	struct expr_printer       p;
	struct expr_key_condition k;
	struct expr_projection    projection;
	struct expr              *e;

	fixture_open(&f, "", "v:1 w:2");
	assert_accepted(expr_parse_key_condition(&f.arena, BYTES("pk = :v AND sk BETWEEN :v AND :w"),
	                                         &f.scope, &k, &f.err),
	                &f.err, "key");
	assert_accepted(expr_parse_filter(&f.arena, BYTES("rest > :w"), &f.scope, &e, &f.err), &f.err,
	                "filter");
	assert_accepted(
	        expr_parse_projection(&f.arena, BYTES("sk, pk, extra[0]"), &f.scope, &projection, &f.err),
	        &f.err, "projection");
	expr_printer_init(&p, &f.arena);
	assert_bytes(expr_print_key_condition(&p, &k), "#0=:0 AND #1 BETWEEN :1 AND :2");
	assert_bytes(expr_print_condition(&p, e), "#2>:3");
	assert_bytes(expr_print_projection(&p, &projection), "#3[0],#0,#1");
	assert_int_equal(p.scope.name_count, 4);
	assert_int_equal(p.scope.value_count, 4);
	assert_bytes(p.scope.names[3].name, "extra");
	assert_bytes(p.scope.names[3].placeholder, "#3");
	assert_bytes(p.scope.values[2].placeholder, ":2");
	assert_int_equal(expr_scope_sort(&p.scope, &f.err), ERR_NONE);
	fixture_close(&f);
}

/* ---- random trees ---- */

struct random {
	uint64_t      state;
	struct arena *arena;
};

static uint32_t draw(struct random *r, uint32_t below)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return (uint32_t)((r->state >> 20) % below);
}

static struct bytes draw_name(struct random *r)
{
	static const char *const names[] = {"a",   "b",        "SET", "and", "with space",
	                                    "x.y", "\xC3\xBC", "#0",  ":0",  "]["};

	return bytes_of(names[draw(r, sizeof(names) / sizeof(*names))]);
}

static struct expr_path draw_path(struct random *r)
{
	struct expr_path path = {.count = 1 + draw(r, 4)};

	path.steps = arena_array(r->arena, path.count, sizeof(*path.steps));
	for (uint32_t i = 0; i < path.count; i++)
		path.steps[i] = (struct expr_step){
		        .is_index = i > 0 && draw(r, 3) == 0, .index = draw(r, 100), .name = draw_name(r)};
	return path;
}

static struct value draw_ordered(struct random *r)
{
	struct value v = value_i64((int64_t)draw(r, 1000) - 500);

	if (draw(r, 2) == 0)
		v = value_string(draw_name(r));
	if (draw(r, 4) == 0)
		v = (struct value){.type = VALUE_B, .text = draw_name(r)};
	return v;
}

static struct value draw_set(struct random *r)
{
	struct value set = {.type = VALUE_NS, .list = {.count = 1 + draw(r, 3)}};

	set.list.items = arena_array(r->arena, set.list.count, sizeof(*set.list.items));
	for (uint32_t i = 0; i < set.list.count; i++)
		set.list.items[i] = value_i64((int64_t)(i * 10 + draw(r, 10)));
	return set;
}

static struct value draw_value(struct random *r)
{
	struct value v = draw_ordered(r);

	switch (draw(r, 6)) {
	case 0:
		return value_bool(draw(r, 2) == 0);
	case 1:
		return draw_set(r);
	case 2: {
		struct value *items = arena_alloc(r->arena, sizeof(*items));

		*items = v;
		return (struct value){.type = VALUE_L, .list = {items, draw(r, 2)}};
	}
	default:
		return v;
	}
}

static struct expr_operand draw_operand(struct random *r, bool ordered)
{
	struct expr_operand operand = {.kind = (enum expr_operand_kind)draw(r, 3)};

	if (operand.kind == OPERAND_VALUE)
		operand.value = ordered ? draw_ordered(r) : draw_value(r);
	else if (operand.kind == OPERAND_SIZE && draw(r, 4) == 0)
		operand.value = value_string(draw_name(r));
	else
		operand.path = draw_path(r);
	return operand;
}

/* No condition may compare a path with itself: change the first until it differs. */
static void make_distinct(struct random *r, struct expr *e)
{
	for (uint32_t i = 1; i < e->operand_count; i++) {
		while (tree_operand_equal(&e->operands[0], &e->operands[i])) {
			e->operands[0] = (struct expr_operand){.kind = OPERAND_PATH, .path = draw_path(r)};
			i = 1;
		}
	}
}

static void draw_bounds(struct random *r, struct expr *e)
{
	struct value low = value_i64(draw(r, 100)), high = value_i64(100 + draw(r, 100));

	if (e->operands[1].kind == OPERAND_VALUE && e->operands[2].kind == OPERAND_VALUE) {
		e->operands[1].value = low;
		e->operands[2].value = high;
	}
}

static void draw_call(struct random *r, struct expr *e)
{
	static const char *const types[] = {"S", "N", "BOOL", "NULL", "BS"};

	e->operands[0] = (struct expr_operand){.kind = OPERAND_PATH, .path = draw_path(r)};
	e->operand_count = e->kind == EXPR_EXISTS || e->kind == EXPR_NOT_EXISTS ? 1 : 2;
	if (e->kind == EXPR_TYPE)
		e->operands[1] = (struct expr_operand){.kind = OPERAND_VALUE,
		                                       .value = value_string(bytes_of(types[draw(r, 5)]))};
	if (e->kind == EXPR_BEGINS_WITH)
		e->operands[1] =
		        (struct expr_operand){.kind = OPERAND_VALUE, .value = value_string(draw_name(r))};
	if (e->kind == EXPR_CONTAINS)
		e->operands[1] = draw_operand(r, false);
}

static void draw_leaf(struct random *r, struct expr *e)
{
	e->kind = (enum expr_kind)(EXPR_COMPARE + draw(r, EXPR_CONTAINS - EXPR_COMPARE + 1));
	e->op = (enum expr_op)draw(r, 6);
	e->operand_count = e->kind == EXPR_COMPARE ? 2 : e->kind == EXPR_BETWEEN ? 3 : 2 + draw(r, 5);
	e->operands = arena_array(r->arena, e->operand_count, sizeof(*e->operands));
	for (uint32_t i = 0; i < e->operand_count; i++)
		e->operands[i] =
		        draw_operand(r, e->kind == EXPR_BETWEEN || (e->kind == EXPR_COMPARE &&
		                                                    e->op != OP_EQ && e->op != OP_NE));
	if (e->kind == EXPR_BETWEEN)
		draw_bounds(r, e);
	if (e->kind > EXPR_IN)
		draw_call(r, e);
	make_distinct(r, e);
}

static struct expr *draw_condition(struct random *r, unsigned depth)
{
	struct expr *e = arena_zalloc(r->arena, sizeof(*e));

	if (depth == 0 || draw(r, 3) == 0) {
		draw_leaf(r, e);
		return e;
	}
	e->kind = (enum expr_kind)draw(r, EXPR_NOT + 1);
	e->left = draw_condition(r, depth - 1);
	if (e->kind != EXPR_NOT)
		e->right = draw_condition(r, depth - 1);
	return e;
}

enum { TERM_DEPTH = 3 };

/* Only at TERM_DEPTH: no function holds a list_append. */
static struct expr_term *draw_term(struct random *r, unsigned depth)
{
	struct expr_term *t = arena_zalloc(r->arena, sizeof(*t));

	t->kind = (enum expr_term_kind)draw(r, depth == 0            ? TERM_IF_NOT_EXISTS
	                                       : depth == TERM_DEPTH ? TERM_PLUS
	                                                             : TERM_LIST_APPEND);
	if (t->kind == TERM_VALUE)
		t->value = draw_value(r);
	else if (t->kind != TERM_LIST_APPEND)
		t->path = draw_path(r);
	if (t->kind == TERM_IF_NOT_EXISTS || t->kind == TERM_LIST_APPEND)
		t->left = draw_term(r, depth - 1);
	if (t->kind == TERM_LIST_APPEND)
		t->right = draw_term(r, depth - 1);
	return t;
}

static void replace_literals(struct expr_term *t, struct value with)
{
	if (t->kind == TERM_VALUE)
		t->value = with;
}

/* Direct literals of list_append must be lists. */
static void fix_appends(struct expr_term *t)
{
	struct value list = {.type = VALUE_L};

	if (t == NULL)
		return;
	if (t->kind == TERM_LIST_APPEND) {
		replace_literals(t->left, list);
		replace_literals(t->right, list);
	}
	fix_appends(t->left);
	fix_appends(t->right);
}

static struct expr_term draw_sum(struct random *r)
{
	struct expr_term sum = {.kind = draw(r, 2) == 0 ? TERM_PLUS : TERM_MINUS};

	if (draw(r, 2) == 0)
		sum = *draw_term(r, TERM_DEPTH);
	else {
		sum.left = draw_term(r, TERM_DEPTH - 1);
		sum.right = draw_term(r, TERM_DEPTH - 1);
		replace_literals(sum.left, value_i64(1));
		replace_literals(sum.right, value_i64(2));
	}
	fix_appends(&sum);
	return sum;
}

/* Sections in random order; the first names make the paths distinct. */
static struct expr_update draw_update(struct random *r)
{
	struct expr_update u = {arena_array(r->arena, 12, sizeof(*u.actions)), 0};
	uint32_t           turn = draw(r, 4), sections = 1 + draw(r, 4);

	for (uint32_t s = 0; s < sections; s++) {
		for (uint32_t n = 1 + draw(r, 3); n > 0; n--) {
			struct expr_action *action = &u.actions[u.count];

			*action = (struct expr_action){.kind = (enum expr_action_kind)((turn + s) % 4),
			                               .path = draw_path(r),
			                               .term = draw_sum(r),
			                               .value = draw_set(r)};
			action->path.steps[0].name = arena_printf(r->arena, "name %u", u.count++);
		}
	}
	return u;
}

static struct expr_projection draw_projection(struct random *r)
{
	struct expr_projection projection = {arena_array(r->arena, 5, sizeof(struct expr_path)),
	                                     1 + draw(r, 5)};

	for (uint32_t i = 0; i < projection.count; i++) {
		projection.paths[i] = draw_path(r);
		projection.paths[i].steps[0].name =
		        arena_printf(r->arena, "name %u", i); /* sorted and distinct */
	}
	return projection;
}

static struct expr_key_condition draw_key(struct random *r)
{
	struct expr_key_condition k = {.hash_name = BYTES_INIT("pk"),
	                               .hash = draw_ordered(r),
	                               .range_kind = (enum expr_range_kind)draw(r, RANGE_PREFIX + 1)};

	if (k.range_kind != RANGE_NONE)
		k.range_name = BYTES("the range");
	k.low = value_string(BYTES("low"));
	k.high = value_string(BYTES("low+"));
	return k;
}

static struct expr_scope *sorted(struct expr_printer *p, struct err *err)
{
	assert_int_equal(expr_scope_sort(&p->scope, err), ERR_NONE);
	return &p->scope;
}

static void check_condition(struct random *r)
{
	struct expr        *e = draw_condition(r, 5), *back;
	struct expr_printer p;
	struct bytes        text;
	struct err          err;

	expr_printer_init(&p, r->arena);
	text = expr_print_condition(&p, e);
	if (text.len > EXPR_BYTES_MAX)
		return;
	if (expr_parse_filter(r->arena, text, sorted(&p, &err), &back, &err) != ERR_NONE)
		fail_msg("%.*s: %s", BYTES_ARG(text), err.text);
	if (!tree_equal(e, back))
		fail_msg("%.*s: another tree", BYTES_ARG(text));
	assert_int_equal(expr_scope_check_used(&p.scope, &err), ERR_NONE);
}

static void check_update(struct random *r)
{
	struct expr_update  u = draw_update(r), back;
	struct expr_printer p;
	struct bytes        text;
	struct err          err;

	expr_printer_init(&p, r->arena);
	text = expr_print_update(&p, &u);
	if (expr_parse_update(r->arena, text, sorted(&p, &err), &back, &err) != ERR_NONE)
		fail_msg("%.*s: %s", BYTES_ARG(text), err.text);
	if (!tree_update_equal(&u, &back))
		fail_msg("%.*s: another tree", BYTES_ARG(text));
	assert_int_equal(expr_scope_check_used(&p.scope, &err), ERR_NONE);
}

static void check_rest(struct random *r)
{
	struct expr_projection    projection = draw_projection(r), projection_back;
	struct expr_key_condition k = draw_key(r), k_back;
	struct expr_printer       p, q;
	struct bytes              text;
	struct err                err;

	expr_printer_init(&p, r->arena);
	text = expr_print_projection(&p, &projection);
	assert_accepted(expr_parse_projection(r->arena, text, sorted(&p, &err), &projection_back, &err), &err,
	                "projection");
	assert_true(tree_projection_equal(&projection, &projection_back));
	expr_printer_init(&q, r->arena);
	text = expr_print_key_condition(&q, &k);
	assert_accepted(expr_parse_key_condition(r->arena, text, sorted(&q, &err), &k_back, &err), &err,
	                "key");
	assert_true(tree_key_equal(&k, &k_back));
}

TEST(print, then_parse_gives_the_same_tree_back)
{
	struct arena  arena;
	struct random r = {SEED, &arena};

	arena_init(&arena);
	for (int i = 0; i < TREES; i++) {
		check_condition(&r);
		check_update(&r);
		check_rest(&r);
		arena_reset(&arena);
	}
	arena_release(&arena);
}
