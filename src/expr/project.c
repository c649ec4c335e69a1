/* Project: the parts of an item that paths name. Paths are sorted, so those that share a beginning are
 * neighbours, and the members of a map and the elements of a list come out in order. */
#include "expr/eval.h"
#include "expr/path.h"

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

struct item path_select(struct arena *a, const struct expr_path *sorted, uint32_t count,
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

bool expr_update_touches(const struct expr_update *update, struct bytes name)
{
	for (uint32_t i = 0; i < update->count; i++)
		if (bytes_equal(update->actions[i].path.steps[0].name, name))
			return true;
	return false;
}
