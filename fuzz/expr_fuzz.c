/* Expr fuzz: any bytes, read as each kind of expression in a small fixed scope. What parses is applied to a
 * small item, printed and parsed again: the same tree must come back. */
#include <stdio.h>
#include <stdlib.h>

#include "../tests/expr/tree.h"
#include "expr/eval.h"
#include "expr/parse.h"
#include "expr/print.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
	struct arena      arena;
	struct expr_scope scope;
	struct item       item;
	struct err        err;
	struct bytes      text;
};

static void require(bool holds, const char *what, struct bytes text)
{
	if (holds)
		return;
	fprintf(stderr, "%s: %.*s\n", what, BYTES_ARG(text));
	abort();
}

/* An error has a code and a text; a success has neither part in it. */
static bool parsed(struct run *r, enum err_code rc)
{
	require(rc == ERR_NONE || (rc == r->err.code && r->err.text[0] != '\0'), "error without text",
	        r->text);
	return rc == ERR_NONE;
}

static struct expr_scope *scope_of(struct expr_printer *p, struct run *r)
{
	require(expr_scope_sort(&p->scope, &r->err) == ERR_NONE, "printed scope", r->text);
	return &p->scope;
}

static void try_condition(struct run *r)
{
	struct expr_printer p;
	struct expr        *e, *back;
	struct bytes        text;
	struct expr_cost    cost = {0, SIZE_MAX};

	if (!parsed(r, expr_parse_filter(&r->arena, r->text, &r->scope, &e, &r->err)))
		return;
	expr_holds(e, &r->item, &cost);
	expr_mentions(e, BYTES("zz"));
	expr_printer_init(&p, &r->arena);
	text = expr_print_condition(&p, e);
	if (text.len > EXPR_BYTES_MAX)
		return; /* placeholders may be longer than names */
	require(expr_parse_filter(&r->arena, text, scope_of(&p, r), &back, &r->err) == ERR_NONE,
	        "printed condition", text);
	require(tree_equal(e, back), "another condition", text);
	require(expr_holds(e, &r->item, &cost) == expr_holds(back, &r->item, &cost), "another truth", text);
}

static void apply(struct run *r, const struct expr_update *update)
{
	struct item after, touched;

	if (!parsed(r, expr_update_apply(&r->arena, update, &r->item, &after, &r->err)))
		return;
	for (uint32_t i = 1; i < after.count; i++)
		require(bytes_compare(after.members[i - 1].name, after.members[i].name) < 0, "unsorted",
		        r->text);
	touched = expr_update_touched(&r->arena, update, &after);
	require(touched.count <= after.count, "touched too much", r->text);
}

static void try_update(struct run *r)
{
	struct expr_printer p;
	struct expr_update  u, back;
	struct bytes        text;

	if (!parsed(r, expr_parse_update(&r->arena, r->text, &r->scope, &u, &r->err)))
		return;
	apply(r, &u);
	expr_printer_init(&p, &r->arena);
	text = expr_print_update(&p, &u);
	if (text.len > EXPR_BYTES_MAX)
		return;
	require(expr_parse_update(&r->arena, text, scope_of(&p, r), &back, &r->err) == ERR_NONE,
	        "printed update", text);
	require(tree_update_equal(&u, &back), "another update", text);
}

static void try_projection(struct run *r)
{
	struct expr_printer    p;
	struct expr_projection projection, back;
	struct item            out;
	struct bytes           text;

	if (!parsed(r, expr_parse_projection(&r->arena, r->text, &r->scope, &projection, &r->err)))
		return;
	out = expr_project(&r->arena, &projection, &r->item);
	require(item_size(&out) <= item_size(&r->item), "projected more than there is", r->text);
	expr_printer_init(&p, &r->arena);
	text = expr_print_projection(&p, &projection);
	if (text.len > EXPR_BYTES_MAX)
		return;
	require(expr_parse_projection(&r->arena, text, scope_of(&p, r), &back, &r->err) == ERR_NONE,
	        "printed projection", text);
	require(tree_projection_equal(&projection, &back), "another projection", text);
}

static void try_key_condition(struct run *r)
{
	struct expr_printer       p;
	struct expr_key_condition k, back;
	struct bytes              text;

	if (!parsed(r, expr_parse_key_condition(&r->arena, r->text, &r->scope, &k, &r->err)))
		return;
	expr_printer_init(&p, &r->arena);
	text = expr_print_key_condition(&p, &k);
	require(expr_parse_key_condition(&r->arena, text, scope_of(&p, r), &back, &r->err) == ERR_NONE,
	        "printed key condition", text);
	require(tree_key_equal(&k, &back), "another key condition", text);
}

static void run_init(struct run *r, const uint8_t *data, size_t size)
{
	static struct value  numbers[] = {{.type = VALUE_N}, {.type = VALUE_N}};
	static struct member inner[] = {{BYTES_INIT("a"), {.type = VALUE_N}},
	                                {BYTES_INIT("b"), {.type = VALUE_NULL}}};
	static struct member members[] = {
	        {BYTES_INIT("a"), {.type = VALUE_N}},
	        {BYTES_INIT("b"), {.type = VALUE_S, .text = BYTES_INIT("text")}},
	        {BYTES_INIT("l"), {.type = VALUE_L, .list = {numbers, 2}}},
	        {BYTES_INIT("m"), {.type = VALUE_M, .map = {inner, 2}}},
	        {BYTES_INIT("s"), {.type = VALUE_NS, .list = {numbers, 2}}},
	};
	static struct expr_name  names[] = {{BYTES_INIT("#a"), BYTES_INIT("a"), false},
	                                    {BYTES_INIT("#m"), BYTES_INIT("m"), false}};
	static struct expr_value values[] = {
	        {BYTES_INIT(":l"), {.type = VALUE_L, .list = {numbers, 2}}, false},
	        {BYTES_INIT(":n"), {.type = VALUE_N}, false},
	        {BYTES_INIT(":s"), {.type = VALUE_NS, .list = {numbers, 1}}, false},
	        {BYTES_INIT(":t"), {.type = VALUE_S, .text = BYTES_INIT("S")}, false},
	};

	numbers[1].number = number_from_i64(1);
	arena_init(&r->arena);
	r->scope = (struct expr_scope){names, values, 2, 4};
	r->item = (struct item){members, 5};
	r->text = (struct bytes){(const char *)data, size};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r;

	run_init(&r, data, size);
	try_condition(&r);
	try_update(&r);
	try_projection(&r);
	try_key_condition(&r);
	arena_release(&r.arena);
	return 0;
}
