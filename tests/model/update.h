/* Update: the shapes of update expressions that the model knows, applied one by one to a copy of the record,
 * each computed from the record as it was. */
#ifndef TESTS_MODEL_UPDATE_H
#define TESTS_MODEL_UPDATE_H

#include "model/condition.h"

enum action_shape {
	DO_SET,            /* p = :v */
	DO_SET_IF_ABSENT,  /* p = if_not_exists(p, :v) */
	DO_PLUS,           /* p = p + :v */
	DO_MINUS,          /* p = p - :v */
	DO_PLUS_DEFAULT,   /* p = if_not_exists(p, :zero) + :v */
	DO_COPY,           /* p = from */
	DO_APPEND,         /* p = list_append(p, :v) */
	DO_PREPEND,        /* p = list_append(:v, p) */
	DO_APPEND_DEFAULT, /* p = list_append(if_not_exists(p, :empty), :v) */
	DO_REMOVE,         /* REMOVE p */
	DO_ADD,            /* ADD p :v */
	DO_DELETE,         /* DELETE p :v */
};

struct action {
	enum action_shape shape;
	struct path       path, from;
	struct field      value;
};

enum { ACTIONS_MAX = 4 };

struct update {
	struct action actions[ACTIONS_MAX];
	unsigned      count; /* 0: no update expression */
};

/* ---- applying: false if DynamoDB refuses ---- */

static inline bool list_join(const struct field *a, const struct field *b, struct field *out)
{
	if (a->own.kind != K_L || b->own.kind != K_L)
		return false;
	*out = *a;
	assert(a->count + b->count <= FIELD_LIST_MAX);
	for (unsigned i = 0; i < b->count; i++)
		out->list[out->count++] = b->list[i];
	return true;
}

static inline void set_insert(struct field *set, const struct cell *c)
{
	unsigned at = 0;

	while (at < set->count && cell_compare(&set->list[at], c) < 0)
		at++;
	if (at < set->count && cell_equal(&set->list[at], c))
		return;
	assert(set->count < FIELD_LIST_MAX);
	memmove(&set->list[at + 1], &set->list[at], (set->count - at) * sizeof(*c));
	set->list[at] = *c;
	set->count++;
}

static inline void set_drop(struct field *set, const struct cell *c)
{
	for (unsigned at = 0; at < set->count; at++) {
		if (!cell_equal(&set->list[at], c))
			continue;
		set->count--;
		memmove(&set->list[at], &set->list[at + 1], (set->count - at) * sizeof(*c));
		return;
	}
}

static inline bool action_add(const struct field *now, bool there, const struct action *a, struct field *out)
{
	*out = there ? *now : a->value;
	if (!there)
		return true;
	if (now->own.kind != a->value.own.kind)
		return false;
	out->own.n += a->value.own.n;
	for (unsigned i = 0; i < a->value.count; i++)
		set_insert(out, &a->value.list[i]);
	return true;
}

static inline bool action_delete(struct record *after, const struct field *now, bool there,
                                 const struct action *a)
{
	struct field left = *now;

	if (!there)
		return true;
	if (now->own.kind != a->value.own.kind)
		return false;
	for (unsigned i = 0; i < a->value.count; i++)
		set_drop(&left, &a->value.list[i]);
	return left.count == 0 ? path_remove(after, a->path) : path_set(after, a->path, &left);
}

static inline bool action_value(const struct record *before, const struct action *a, struct field *out)
{
	static const struct field zero = {.own = {.kind = K_N}}, empty = {.own = {.kind = K_L}};
	struct field              now;
	bool                      there = path_get(before, a->path, &now);

	*out = a->value;
	switch (a->shape) {
	case DO_SET:
		return true;
	case DO_SET_IF_ABSENT:
		*out = there ? now : a->value;
		return true;
	case DO_PLUS:
	case DO_MINUS:
	case DO_PLUS_DEFAULT:
		*out = there || a->shape != DO_PLUS_DEFAULT ? now : zero;
		out->own.n += a->shape == DO_MINUS ? -a->value.own.n : a->value.own.n;
		return (there || a->shape == DO_PLUS_DEFAULT) && out->own.kind == K_N;
	case DO_COPY:
		return path_get(before, a->from, out);
	case DO_APPEND:
		return there && list_join(&now, &a->value, out);
	case DO_PREPEND:
		return there && list_join(&a->value, &now, out);
	case DO_APPEND_DEFAULT:
		return list_join(there ? &now : &empty, &a->value, out);
	default:
		return action_add(&now, there, a, out);
	}
}

static inline bool action_apply(const struct record *before, const struct action *a, struct record *after)
{
	struct field value;
	bool         there;

	if (a->shape == DO_REMOVE)
		return path_remove(after, a->path);
	if (a->shape == DO_DELETE) {
		there = path_get(before, a->path, &value);
		return action_delete(after, &value, there, a);
	}
	return action_value(before, a, &value) && path_set(after, a->path, &value);
}

static inline bool update_apply(const struct update *u, const struct record *before, struct record *after)
{
	bool fine = true;

	*after = *before;
	after->present = true;
	for (unsigned i = 0; i < u->count; i++)
		fine = action_apply(before, &u->actions[i], after) && fine;
	return fine;
}

static inline struct paths update_paths(const struct update *u)
{
	struct paths paths = {.count = u->count};

	for (unsigned i = 0; i < u->count; i++)
		paths.list[i] = u->actions[i].path;
	return paths;
}

/* ---- printing ---- */

static inline const char *action_section(const struct action *a)
{
	return a->shape == DO_REMOVE   ? "REMOVE "
	       : a->shape == DO_ADD    ? "ADD "
	       : a->shape == DO_DELETE ? "DELETE "
	                               : "SET ";
}

static inline void print_path_value(struct values *v, struct buf *out, const struct action *a,
                                    const char *before, const char *between, const char *after)
{
	print_text(out, before);
	path_print(out, a->path);
	print_text(out, between);
	values_print(v, out, &a->value);
	print_text(out, after);
}

static inline void print_default(struct values *v, struct buf *out, const struct action *a,
                                 const char *before, enum kind kind, const char *between, const char *after)
{
	struct field none = {.own = {.kind = kind}};

	print_text(out, before);
	path_print(out, a->path);
	print_text(out, ", ");
	values_print(v, out, &none);
	print_text(out, between);
	values_print(v, out, &a->value);
	print_text(out, after);
}

static inline void term_print(struct values *v, struct buf *out, const struct action *a)
{
	switch (a->shape) {
	case DO_SET_IF_ABSENT:
		print_path_value(v, out, a, "if_not_exists(", ", ", ")");
		break;
	case DO_PLUS:
	case DO_MINUS:
		print_path_value(v, out, a, "", a->shape == DO_PLUS ? " + " : " - ", "");
		break;
	case DO_PLUS_DEFAULT:
		print_default(v, out, a, "if_not_exists(", K_N, ") + ", "");
		break;
	case DO_COPY:
		path_print(out, a->from);
		break;
	case DO_APPEND:
		print_path_value(v, out, a, "list_append(", ", ", ")");
		break;
	case DO_PREPEND:
		print_text(out, "list_append(");
		values_print(v, out, &a->value);
		print_text(out, ", ");
		path_print(out, a->path);
		print_text(out, ")");
		break;
	case DO_APPEND_DEFAULT:
		print_default(v, out, a, "list_append(if_not_exists(", K_L, "), ", ")");
		break;
	default:
		values_print(v, out, &a->value);
		break;
	}
}

static inline void action_print(struct values *v, struct buf *out, const struct action *a)
{
	path_print(out, a->path);
	if (a->shape == DO_REMOVE)
		return;
	print_text(out, a->shape == DO_ADD || a->shape == DO_DELETE ? " " : " = ");
	if (a->shape == DO_ADD || a->shape == DO_DELETE)
		values_print(v, out, &a->value);
	else
		term_print(v, out, a);
}

static inline void update_print(struct values *v, struct buf *out, const struct update *u)
{
	static const char *sections[] = {"SET ", "REMOVE ", "ADD ", "DELETE "};

	for (int s = 0; s < 4; s++) {
		unsigned printed = 0;

		for (unsigned i = 0; i < u->count; i++) {
			if (strcmp(action_section(&u->actions[i]), sections[s]) != 0)
				continue;
			print_text(out, printed++ == 0 ? (out->len > 0 ? " " : "") : ", ");
			print_text(out, printed == 1 ? sections[s] : "");
			action_print(v, out, &u->actions[i]);
		}
	}
}

#endif
