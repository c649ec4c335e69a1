/* Print: trees back to text, for a remote engine. Every attribute name becomes #0, #1, … and every literal
 * :0, :1, …, collected in a scope that several expressions of one request share. Parsing the printed text
 * with that scope gives an equal tree. */
#ifndef EXPR_PRINT_H
#define EXPR_PRINT_H

#include "expr/expr.h"
#include "expr/parse.h"

struct expr_printer {
	struct arena *arena;
	struct expr_scope
	         scope; /* what has been printed so far; unsorted, placeholders in order of appearance */
	uint32_t name_cap, value_cap;
};

void expr_printer_init(struct expr_printer *p, struct arena *a);

struct bytes expr_print_condition(struct expr_printer *p, const struct expr *e);
struct bytes expr_print_update(struct expr_printer *p, const struct expr_update *u);
struct bytes expr_print_projection(struct expr_printer *p, const struct expr_projection *projection);
struct bytes expr_print_key_condition(struct expr_printer *p, const struct expr_key_condition *k);

#endif
