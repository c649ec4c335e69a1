/* Eval: trees against items. Nothing here allocates except where an arena is passed. */
#ifndef EXPR_EVAL_H
#define EXPR_EVAL_H

#include "base/err.h"
#include "expr/expr.h"

/* What conditions have looked at, in bytes, and how much they may. One counter serves all expressions of a request.
 * Costs are upper bounds, weighted so that a byte takes about the same time whatever looks at it:
 *   a comparison        1 for each byte that both sides have
 *   a value or member   EXPR_NODE_COST, in lists, sets, maps and operands alike
 *   a search            EXPR_SEARCH_COST for each byte of the text and of what is looked for
 *   reading an item     EXPR_READ_COST for each byte, if a condition is put on a write (the caller's to add) */
struct expr_cost {
	size_t spent, max;
};

enum { EXPR_NODE_COST = 32, EXPR_SEARCH_COST = 16, EXPR_READ_COST = 12 };

static inline bool expr_cost_exceeded(const struct expr_cost *cost)
{
	return cost->spent > cost->max;
}

/* The value at the path, or NULL. */
const struct value *expr_path_find(const struct expr_path *path, const struct item *item);

/* Does the condition hold? An absent item is an empty one. A comparison of different types is false (<> is
 * true). A NULL condition holds. What was looked at is added to *cost. Past its maximum nothing more is looked at, and
 * the answer means nothing: the caller asks expr_cost_exceeded. */
bool expr_holds(const struct expr *condition, const struct item *item, struct expr_cost *cost);

/* Applies an update to an item (empty if absent) and yields the new item, which shares what did not change.
 * All actions read the item as it was before. ERR_INVALID with DynamoDB's text on a wrong operand type, an
 * absent attribute, an invalid document path, nesting that becomes too deep, or new values that alone are
 * larger than an item may be (the whole item is the caller's to measure). No path of the update is the
 * beginning of another: parsing checks that, code that builds updates must. */
enum err_code expr_update_apply(struct arena *a, const struct expr_update *update, const struct item *before,
                                struct item *after, struct err *err);

/* The attributes touched by the update, as ReturnValues UPDATED_OLD/UPDATED_NEW show them (document paths are
 * kept as nested maps and lists with only the touched parts). */
struct item expr_update_touched(struct arena *a, const struct expr_update *update, const struct item *item);

/* The part of the item that the projection names. */
struct item expr_project(struct arena *a, const struct expr_projection *projection, const struct item *item);

/* Does any top-level attribute of the update equal `name`? (Keys may not be updated.) */
bool expr_update_touches(const struct expr_update *update, struct bytes name);

/* Does the update make an item where there is none? One that only takes away does not: there is nothing to take. */
bool expr_update_creates(const struct expr_update *update);

/* Does the condition mention the top-level attribute `name`? (Filters may not name keys.) */
bool expr_mentions(const struct expr *condition, struct bytes name);

#endif
