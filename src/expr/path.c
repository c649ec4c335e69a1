/* Path: document paths: their order, how they are shown, which may not stand together, and the parts of an item
 * that they name. */
#include "expr/parser.h"

#include <stdlib.h>

#include "expr/eval.h"
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

static bool path_is_sorted(const struct expr_path *paths, uint32_t count)
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

/* ---- the parts of an item that paths name. Paths are sorted, so those that share a beginning are neighbours, and the
 * members of a map and the elements of a list come out in order. ---- */

/* Paths that agree in their first `depth` steps. */
struct run {
	const struct expr_path *paths;
	uint32_t                count;
	uint32_t                depth;
};

static bool select_value(struct arena *a, struct run run, const struct value *from, struct value *out);

/* Splits off the paths that also agree in the next step. */
static struct run run_next(struct run *rest)
{
	const struct expr_step *step = &rest->paths[0].steps[rest->depth];
	struct run              same = {rest->paths, 1, rest->depth + 1};

	while (same.count < rest->count &&
	       path_step_compare(step, &rest->paths[same.count].steps[rest->depth]) == 0)
		same.count++;
	rest->paths += same.count;
	rest->count -= same.count;
	return same;
}

static struct item select_members(struct arena *a, struct run run, const struct item *from)
{
	struct item out = {arena_array(a, run.count, sizeof(*out.members)), 0};

	while (run.count > 0) {
		const struct expr_step *step = &run.paths[0].steps[run.depth];
		struct run              same = run_next(&run);
		const struct value     *child = step->is_index ? NULL : item_get(from, step->name);

		if (child == NULL || !select_value(a, same, child, &out.members[out.count].value))
			continue;
		out.members[out.count++].name = step->name;
	}
	return out;
}

static struct value_list select_elements(struct arena *a, struct run run, const struct value_list *from)
{
	struct value_list out = {arena_array(a, run.count, sizeof(*out.items)), 0};

	while (run.count > 0) {
		const struct expr_step *step = &run.paths[0].steps[run.depth];
		struct run              same = run_next(&run);

		if (!step->is_index || step->index >= from->count)
			continue;
		if (select_value(a, same, &from->items[step->index], &out.items[out.count]))
			out.count++;
	}
	return out;
}

/* False if nothing of it is named. Depth is bounded by the length of paths. */
static bool select_value(struct arena *a, struct run run, const struct value *from, struct value *out)
{
	*out = *from;
	if (run.paths[0].count == run.depth)
		return true;
	if (from->type == VALUE_M) {
		out->map = select_members(a, run, &from->map);
		return out->map.count > 0;
	}
	if (from->type != VALUE_L)
		return false;
	out->list = select_elements(a, run, &from->list);
	return out->list.count > 0;
}

/* The parts of the item that the sorted paths name. */
static struct item path_select(struct arena *a, const struct expr_path *sorted, uint32_t count,
                               const struct item *item)
{
	return select_members(a, (struct run){sorted, count, 0}, item);
}

struct item expr_project(struct arena *a, const struct expr_projection *projection, const struct item *item)
{
	struct expr_path *sorted = projection->paths;

	if (!path_is_sorted(sorted, projection->count)) {
		sorted = arena_array(a, projection->count, sizeof(*sorted));
		memcpy(sorted, projection->paths, projection->count * sizeof(*sorted));
		path_sort(sorted, projection->count);
	}
	return path_select(a, sorted, projection->count, item);
}

struct item expr_update_touched(struct arena *a, const struct expr_update *update, const struct item *item)
{
	struct expr_path *sorted = arena_array(a, update->count, sizeof(*sorted));

	for (uint32_t i = 0; i < update->count; i++)
		sorted[i] = update->actions[i].path;
	path_sort(sorted, update->count);
	return path_select(a, sorted, update->count, item);
}
