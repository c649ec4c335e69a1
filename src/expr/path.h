/* Path: document paths compared, shown, checked against one another and followed. Internal to expr/. */
#ifndef EXPR_PATH_H
#define EXPR_PATH_H

#include "expr/parser.h"

/* A path comes before those it is the beginning of; names come before indexes. */
int path_compare(const struct expr_path *a, const struct expr_path *b);

static inline bool path_equal(const struct expr_path *a, const struct expr_path *b)
{
	return a->count == b->count && path_compare(a, b) == 0;
}

int path_step_compare(const struct expr_step *a, const struct expr_step *b);

void path_sort(struct expr_path *paths, uint32_t count);
bool path_is_sorted(const struct expr_path *paths, uint32_t count);

/* DynamoDB's way of showing one: [a, [1], b]. */
struct bytes path_show(struct arena *a, const struct expr_path *path);

/* Complains if one path is the beginning of another, or if one takes as a list what another takes as a map.
 * Sorting makes such pairs neighbours: n log n comparisons. */
void path_check_disjoint(struct parser *p, const struct expr_path *paths, uint32_t count);

/* The parts of the item that the sorted paths name. */
struct item path_select(struct arena *a, const struct expr_path *sorted, uint32_t count,
                        const struct item *item);

#endif
