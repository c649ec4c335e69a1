/* Sets: merging and searching sorted arrays. */
#include "expr/sets.h"

bool set_has(const struct value *set, const struct value *element)
{
	uint32_t low = 0, high = set->list.count;

	if (element->type != value_set_element(set->type))
		return false;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int      order = value_compare(&set->list.items[middle], element);

		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

struct value_list set_union(struct arena *a, const struct value_list *x, const struct value_list *y)
{
	struct value_list out = {arena_array(a, (size_t)x->count + y->count, sizeof(*out.items)), 0};
	uint32_t          i = 0, j = 0;

	while (i < x->count && j < y->count) {
		int order = value_compare(&x->items[i], &y->items[j]);

		out.items[out.count++] = order <= 0 ? x->items[i] : y->items[j];
		i += order <= 0;
		j += order >= 0;
	}
	while (i < x->count)
		out.items[out.count++] = x->items[i++];
	while (j < y->count)
		out.items[out.count++] = y->items[j++];
	return out;
}

struct value_list set_minus(struct arena *a, const struct value *x, const struct value *y)
{
	struct value_list out = {arena_array(a, x->list.count, sizeof(*out.items)), 0};

	for (uint32_t i = 0; i < x->list.count; i++)
		if (!set_has(y, &x->list.items[i]))
			out.items[out.count++] = x->list.items[i];
	return out;
}
