/* Sets: membership, union and difference of sets, which are sorted (item/value.h, V2). Internal to expr/. */
#ifndef EXPR_SETS_H
#define EXPR_SETS_H

#include "item/value.h"

/* False for an element of another type. */
bool set_has(const struct value *set, const struct value *element);

/* Both of one type. Costs the sum of the sizes. */
struct value_list set_union(struct arena *a, const struct value_list *x, const struct value_list *y);

/* What remains of x; may be empty. Costs little if x is small, however large y is: a request may name one
 * large set for many small ones. */
struct value_list set_minus(struct arena *a, const struct value *x, const struct value *y);

#endif
