/* Path: order, display and the overlap check. */
#include "expr/path.h"

#include <stdlib.h>

#include "item/messages.h"

int path_step_compare(const struct expr_step *a, const struct expr_step *b)
{
	if (a->is_index != b->is_index)
		return a->is_index ? 1 : -1;
	if (a->is_index)
		return (a->index > b->index) - (a->index < b->index);
	if (a->name.data == b->name.data && a->name.len == b->name.len)
		return 0; /* the same placeholder: names may be long */
	return bytes_compare(a->name, b->name);
}

/* How many steps the two have in common. */
static uint32_t path_common(const struct expr_path *a, const struct expr_path *b)
{
	uint32_t least = a->count < b->count ? a->count : b->count, i = 0;

	while (i < least && path_step_compare(&a->steps[i], &b->steps[i]) == 0)
		i++;
	return i;
}

int path_compare(const struct expr_path *a, const struct expr_path *b)
{
	uint32_t common = path_common(a, b);

	if (common < a->count && common < b->count)
		return path_step_compare(&a->steps[common], &b->steps[common]);
	return (a->count > b->count) - (a->count < b->count);
}

static int path_order(const void *a, const void *b)
{
	return path_compare(a, b);
}

void path_sort(struct expr_path *paths, uint32_t count)
{
	if (count > 1)
		qsort(paths, count, sizeof(*paths), path_order);
}

bool path_is_sorted(const struct expr_path *paths, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (path_compare(&paths[i - 1], &paths[i]) > 0)
			return false;
	return true;
}

struct bytes path_show(struct arena *a, const struct expr_path *path)
{
	struct buf out;

	buf_init(&out, a);
	buf_add_byte(&out, '[');
	for (uint32_t i = 0; i < path->count; i++) {
		const struct expr_step *step = &path->steps[i];

		if (i > 0)
			buf_add(&out, ", ", 2);
		if (step->is_index)
			buf_add_bytes(&out, arena_printf(a, "[%u]", step->index));
		else
			buf_add_bytes(&out, text_shown(step->name));
	}
	buf_add_byte(&out, ']');
	return text_shown(buf_bytes(&out));
}

/* A path and where it was written. */
struct placed {
	const struct expr_path *path;
	uint32_t                place;
};

static int placed_order(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	int                  order = path_compare(x->path, y->path);

	return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static void placed_complain(struct parser *p, struct placed a, struct placed b, bool overlap)
{
	struct placed one = a.place < b.place ? a : b, two = a.place < b.place ? b : a;
	struct bytes  first = path_show(p->arena, one.path), second = path_show(p->arena, two.path);

	if (overlap)
		parser_complain(p, COMPLAINT_OVERLAP, MSG_EXPR_OVERLAP, BYTES_ARG(first), BYTES_ARG(second));
	else
		parser_complain(p, COMPLAINT_CONFLICT, MSG_EXPR_CONFLICT, BYTES_ARG(first),
		                BYTES_ARG(second));
}

/* b follows a in order. */
static void placed_check(struct parser *p, struct placed a, struct placed b)
{
	uint32_t common = path_common(a.path, b.path);

	if (common == a.path->count)
		placed_complain(p, a, b, true);
	else if (a.path->steps[common].is_index != b.path->steps[common].is_index)
		placed_complain(p, a, b, false);
}

void path_check_disjoint(struct parser *p, const struct expr_path *paths, uint32_t count)
{
	struct placed *sorted = arena_array(p->arena, count, sizeof(*sorted));

	for (uint32_t i = 0; i < count; i++)
		sorted[i] = (struct placed){&paths[i], i};
	qsort(sorted, count, sizeof(*sorted), placed_order);
	for (uint32_t i = 1; i < count; i++)
		placed_check(p, sorted[i - 1], sorted[i]);
}
