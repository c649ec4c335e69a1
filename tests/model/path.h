/* Path: the few document paths that the model uses: an attribute, d.x, d.y and c[0]; and what get's
 * projections and an update's return values are made of. */
#ifndef TESTS_MODEL_PATH_H
#define TESTS_MODEL_PATH_H

#include "model/record.h"

enum step { STEP_NONE, STEP_X, STEP_Y, STEP_FIRST };

struct path {
	enum attribute attribute;
	enum step      step;
};

enum { PATHS_MAX = 5 };

struct paths {
	struct path list[PATHS_MAX]; /* none is the beginning of another */
	unsigned    count;           /* 0: everything */
};

static inline bool path_equal(struct path a, struct path b)
{
	return a.attribute == b.attribute && a.step == b.step;
}

/* May both stand in one expression? */
static inline bool path_apart(struct path a, struct path b)
{
	return a.attribute != b.attribute || (a.step != STEP_NONE && b.step != STEP_NONE && a.step != b.step);
}

static inline void path_print(struct buf *out, struct path p)
{
	static const char *steps[] = {"", ".x", ".y", "[0]"};

	buf_add_byte(out, (uint8_t)attribute_names[p.attribute]);
	buf_add_bytes(out, bytes_of(steps[p.step]));
}

/* The cell that a step leads to, or NULL. */
static inline struct cell *path_cell(struct field *f, enum step step)
{
	if (step == STEP_FIRST)
		return f->own.kind == K_L && f->count > 0 ? &f->list[0] : NULL;
	if (f->own.kind != K_M || f->list[step - STEP_X].kind == K_ABSENT)
		return NULL;
	return &f->list[step - STEP_X];
}

static inline bool path_get(const struct record *r, struct path p, struct field *out)
{
	struct cell *cell;

	*out = r->fields[p.attribute];
	if (p.step == STEP_NONE)
		return out->own.kind != K_ABSENT;
	cell = path_cell(out, p.step);
	if (cell == NULL)
		return false;
	*out = field_of(*cell);
	return true;
}

/* False if there is nothing for the path to lead into. */
static inline bool path_set(struct record *r, struct path p, const struct field *value)
{
	struct field *f = &r->fields[p.attribute];

	if (p.step == STEP_NONE) {
		*f = *value;
		return true;
	}
	if (f->own.kind != (p.step == STEP_FIRST ? K_L : K_M))
		return false;
	if (p.step == STEP_FIRST && f->count == 0)
		f->count = 1;
	f->list[p.step == STEP_Y ? 1 : 0] = value->own;
	return true;
}

static inline bool path_remove(struct record *r, struct path p)
{
	struct field *f = &r->fields[p.attribute];

	if (p.step == STEP_NONE) {
		*f = (struct field){0};
		return true;
	}
	if (f->own.kind != (p.step == STEP_FIRST ? K_L : K_M))
		return false;
	if (p.step != STEP_FIRST) {
		f->list[p.step - STEP_X] = (struct cell){0};
	} else if (f->count > 0) {
		f->count--;
		memmove(&f->list[0], &f->list[1], f->count * sizeof(struct cell));
		f->list[f->count] = (struct cell){0};
	}
	return true;
}

/* The parts of a record that the paths lead to. */
static inline struct record record_select(const struct record *r, const struct paths *paths)
{
	struct record out = {.present = r->present};

	if (paths->count == 0)
		return *r;
	for (unsigned i = 0; i < paths->count; i++) {
		struct path   p = paths->list[i];
		struct field  found;
		struct field *to = &out.fields[p.attribute];

		if (!path_get(r, p, &found))
			continue;
		if (p.step != STEP_NONE)
			to->own.kind = r->fields[p.attribute].own.kind;
		path_set(&out, p, &found);
	}
	return out;
}

static inline void paths_print(struct buf *out, const struct paths *paths)
{
	for (unsigned i = 0; i < paths->count; i++) {
		if (i > 0)
			buf_add_bytes(out, BYTES(", "));
		path_print(out, paths->list[i]);
	}
}

#endif
