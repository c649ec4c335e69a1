/* Update: applies an update to an item, in two steps:
 *   1. every action becomes an edit (set this value here, remove what is here), computed from the item as it
 *      was, in the order written;
 *   2. the edits, sorted by path, are merged into a new item, top down. A map or list is rebuilt once,
 *      however many edits fall into it; what none touches is shared with the old item.
 *
 * Indexes mean the list as it was: a removed element moves no other edit. */
#include <assert.h>
#include <stdlib.h>

#include "expr/eval.h"
#include "expr/parser.h"
#include "item/messages.h"

enum edit_kind { EDIT_SET, EDIT_REMOVE, EDIT_NONE };

struct edit {
	const struct expr_path *path;
	enum edit_kind          kind;  /* NONE: only the path is checked */
	struct value            value; /* SET */
};

/* Edits that agree in their first `depth` steps. */
struct edits {
	const struct edit *edits;
	uint32_t           count;
	uint32_t           depth;
};

struct apply {
	struct arena      *arena;
	const struct item *before;
	struct err        *err;
	size_t             set_bytes; /* of all values set so far */
};

/* ---- step 1: values ---- */

static enum err_code term_value(struct apply *u, const struct expr_term *term, struct value *out);

static enum err_code fail_type(struct apply *u)
{
	return err_set(u->err, ERR_INVALID, MSG_APPLY_TYPE);
}

/* The values of both sides, which must have that type. */
static enum err_code term_sides(struct apply *u, const struct expr_term *term, enum value_type type,
                                struct value *left, struct value *right)
{
	enum err_code rc = term_value(u, term->left, left);

	if (rc == ERR_NONE)
		rc = term_value(u, term->right, right);
	if (rc == ERR_NONE && (left->type != type || right->type != type))
		rc = fail_type(u);
	return rc;
}

static enum err_code term_sum(struct apply *u, const struct expr_term *term, struct value *out)
{
	struct value  left, right;
	enum err_code rc = term_sides(u, term, VALUE_N, &left, &right);

	if (rc != ERR_NONE)
		return rc;
	out->type = VALUE_N;
	if (term->kind == TERM_PLUS)
		return number_add(&left.number, &right.number, &out->number, u->err);
	return number_subtract(&left.number, &right.number, &out->number, u->err);
}

static enum err_code fail_size(struct apply *u)
{
	return err_set(u->err, ERR_INVALID, MSG_ITEM_SIZE_UPDATE);
}

/* Each element takes a byte at least, which bounds how many can ever be stored. */
static enum err_code term_append(struct apply *u, const struct expr_term *term, struct value *out)
{
	struct value  left, right;
	enum err_code rc = term_sides(u, term, VALUE_L, &left, &right);

	if (rc != ERR_NONE)
		return rc;
	if ((size_t)left.list.count + right.list.count > ITEM_BYTES_MAX)
		return fail_size(u);
	*out = (struct value){.type = VALUE_L};
	out->list.count = left.list.count + right.list.count;
	out->list.items = arena_array(u->arena, out->list.count, sizeof(*out));
	if (left.list.count > 0)
		memcpy(out->list.items, left.list.items, left.list.count * sizeof(*out));
	if (right.list.count > 0)
		memcpy(out->list.items + left.list.count, right.list.items, right.list.count * sizeof(*out));
	return ERR_NONE;
}

/* Recursion is bounded by EXPR_OPERATORS_MAX. */
static enum err_code term_value(struct apply *u, const struct expr_term *term, struct value *out)
{
	const struct value *found;

	switch (term->kind) {
	case TERM_VALUE:
		*out = term->value;
		return ERR_NONE;
	case TERM_PLUS:
	case TERM_MINUS:
		return term_sum(u, term, out);
	case TERM_LIST_APPEND:
		return term_append(u, term, out);
	default:
		break;
	}
	found = expr_path_find(&term->path, u->before);
	if (found == NULL && term->kind == TERM_IF_NOT_EXISTS)
		return term_value(u, term->left, out);
	if (found == NULL)
		return err_set(u->err, ERR_INVALID, MSG_APPLY_NO_ATTRIBUTE);
	*out = *found;
	return ERR_NONE;
}

static enum err_code edit_add(struct apply *u, const struct value *now, const struct value *more,
                              struct edit *edit)
{
	edit->kind = EDIT_SET;
	edit->value = *more;
	if (now == NULL)
		return ERR_NONE;
	if (now->type != more->type)
		return fail_type(u);
	if (more->type == VALUE_N)
		return number_add(&now->number, &more->number, &edit->value.number, u->err);
	edit->value.list = value_set_union(u->arena, &now->list, &more->list);
	return ERR_NONE;
}

static enum err_code edit_delete(struct apply *u, const struct value *now, const struct value *less,
                                 struct edit *edit)
{
	edit->kind = EDIT_NONE;
	if (now == NULL)
		return ERR_NONE;
	if (now->type != less->type)
		return fail_type(u);
	edit->value = *now;
	edit->value.list = value_set_minus(u->arena, now, less);
	edit->kind = edit->value.list.count > 0 ? EDIT_SET : EDIT_REMOVE; /* no set is empty */
	return ERR_NONE;
}

/* All that is set ends up in the item. So the sum of it is checked as it grows, before anything walks it: one
 * large attribute could be copied to hundreds of places. */
static enum err_code edit_check_limits(struct apply *u, const struct edit *edit)
{
	if (edit->kind != EDIT_SET)
		return ERR_NONE;
	u->set_bytes += value_size(&edit->value);
	if (u->set_bytes > ITEM_BYTES_MAX)
		return fail_size(u);
	if (edit->path->count - 1 + value_depth(&edit->value) > VALUE_DEPTH_MAX)
		return err_set(u->err, ERR_INVALID, MSG_NESTING);
	return ERR_NONE;
}

static enum err_code edit_make(struct apply *u, const struct expr_action *action, struct edit *edit)
{
	const struct value *now = expr_path_find(&action->path, u->before);
	enum err_code       rc = ERR_NONE;

	*edit = (struct edit){.path = &action->path, .kind = EDIT_REMOVE};
	switch (action->kind) {
	case ACTION_SET:
		edit->kind = EDIT_SET;
		rc = term_value(u, &action->term, &edit->value);
		break;
	case ACTION_ADD:
		rc = edit_add(u, now, &action->value, edit);
		break;
	case ACTION_DELETE:
		rc = edit_delete(u, now, &action->value, edit);
		break;
	case ACTION_REMOVE:
		break;
	}
	return rc != ERR_NONE ? rc : edit_check_limits(u, edit);
}

/* ---- step 2: the new item ---- */

static enum err_code merge_value(struct apply *u, struct edits run, const struct value *before,
                                 struct value *out, bool *present);

static enum err_code fail_path(struct apply *u)
{
	return err_set(u->err, ERR_INVALID, MSG_APPLY_PATH);
}

/* Splits off the edits that also agree in the next step. */
static struct edits edits_next(struct edits *rest)
{
	const struct expr_step *step = &rest->edits[0].path->steps[rest->depth];
	struct edits            same = {rest->edits, 1, rest->depth + 1};

	while (same.count < rest->count &&
	       path_step_compare(step, &rest->edits[same.count].path->steps[rest->depth]) == 0)
		same.count++;
	rest->edits += same.count;
	rest->count -= same.count;
	return same;
}

static enum err_code merge_members(struct apply *u, struct edits run, const struct item *before,
                                   struct item *out)
{
	uint32_t i = 0;

	*out = (struct item){arena_array(u->arena, (size_t)before->count + run.count, sizeof(*out->members)),
	                     0};
	while (run.count > 0) {
		const struct expr_step *step = &run.edits[0].path->steps[run.depth];
		struct edits            same = edits_next(&run);
		struct member          *member;
		int                     order = -1;
		bool                    present;
		enum err_code           rc;

		while (i < before->count && (order = bytes_compare(before->members[i].name, step->name)) < 0)
			out->members[out->count++] = before->members[i++];
		member = &out->members[out->count];
		member->name = step->name;
		rc = step->is_index ? fail_path(u)
		                    : merge_value(u, same, order == 0 ? &before->members[i].value : NULL,
		                                  &member->value, &present);
		if (rc != ERR_NONE)
			return rc;
		out->count += present;
		i += order == 0;
	}
	while (i < before->count)
		out->members[out->count++] = before->members[i++];
	return ERR_NONE;
}

/* Behind the end, SET appends, in order of the indexes; the other actions do nothing. */
static enum err_code merge_elements(struct apply *u, struct edits run, const struct value_list *before,
                                    struct value_list *out)
{
	uint32_t i = 0;

	*out = (struct value_list){
	        arena_array(u->arena, (size_t)before->count + run.count, sizeof(*out->items)), 0};
	while (run.count > 0) {
		const struct expr_step *step = &run.edits[0].path->steps[run.depth];
		struct edits            same = edits_next(&run);
		bool                    present, exists;
		enum err_code           rc;

		while (step->is_index && i < before->count && i < step->index)
			out->items[out->count++] = before->items[i++];
		exists = i < before->count;
		rc = !step->is_index ? fail_path(u)
		                     : merge_value(u, same, exists ? &before->items[i] : NULL,
		                                   &out->items[out->count], &present);
		if (rc != ERR_NONE)
			return rc;
		out->count += present;
		i += exists;
	}
	while (i < before->count)
		out->items[out->count++] = before->items[i++];
	return ERR_NONE;
}

static enum err_code merge_leaf(const struct edit *edit, const struct value *before, struct value *out,
                                bool *present)
{
	*present = edit->kind == EDIT_SET || (edit->kind == EDIT_NONE && before != NULL);
	if (edit->kind == EDIT_SET)
		*out = edit->value;
	else if (before != NULL)
		*out = *before;
	return ERR_NONE;
}

/* What becomes of one value; `before` is NULL if it is absent. */
static enum err_code merge_value(struct apply *u, struct edits run, const struct value *before,
                                 struct value *out, bool *present)
{
	if (run.edits[0].path->count == run.depth) {
		assert(run.count == 1); /* no path is the beginning of another */
		return merge_leaf(&run.edits[0], before, out, present);
	}
	*present = true;
	if (before == NULL || (before->type != VALUE_M && before->type != VALUE_L))
		return fail_path(u);
	*out = *before;
	if (before->type == VALUE_M)
		return merge_members(u, run, &before->map, &out->map);
	return merge_elements(u, run, &before->list, &out->list);
}

static int edit_order(const void *a, const void *b)
{
	return path_compare(((const struct edit *)a)->path, ((const struct edit *)b)->path);
}

enum err_code expr_update_apply(struct arena *a, const struct expr_update *update, const struct item *before,
                                struct item *after, struct err *err)
{
	struct apply u = {a, before, err, 0};
	struct edit *edits = arena_array(a, update->count, sizeof(*edits));

	for (uint32_t i = 0; i < update->count; i++) {
		enum err_code rc = edit_make(&u, &update->actions[i], &edits[i]);

		if (rc != ERR_NONE)
			return rc;
	}
	if (update->count > 1)
		qsort(edits, update->count, sizeof(*edits), edit_order);
	return merge_members(&u, (struct edits){edits, update->count, 0}, before, after);
}

bool expr_update_creates(const struct expr_update *update)
{
	if (update == NULL || update->count == 0)
		return true;
	for (uint32_t i = 0; i < update->count; i++)
		if (update->actions[i].kind == ACTION_SET || update->actions[i].kind == ACTION_ADD)
			return true;
	return false;
}

bool expr_update_touches(const struct expr_update *update, struct bytes name)
{
	for (uint32_t i = 0; i < update->count; i++)
		if (bytes_equal(update->actions[i].path.steps[0].name, name))
			return true;
	return false;
}
