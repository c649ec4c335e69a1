/* Unwritten: see unwritten.h. */
#include "engine/unwritten.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/checkpoint.h"
#include "engine/view.h"

/* A turn does not hide ranges of the store: each key is deleted by itself. */
static enum err_code delete_range(struct engine *e, struct bytes low, struct bytes high, struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct view_cursor    c;
	struct bytes          key, value;
	struct arena          a;

	arena_init(&a);
	view_cursor_open(&c, &s, NULL, &a, low, high, false);
	while (view_cursor_next(&c, &key, &value))
		turn_delete(e->unwritten, key, true, value.len);
	view_cursor_check(&c, err);
	view_cursor_close(&c);
	arena_release(&a);
	return err->code;
}

static enum err_code add_record(void *ctx, const struct record *r, struct err *err)
{
	struct engine   *e = ctx;
	struct turn_mark mark = turn_mark(e->unwritten);
	struct bytes     body = r->body;
	struct op        op;

	err->code = ERR_NONE;
	while (body.len > 0 && err->code == ERR_NONE) {
		if (!op_decode(&body, &op))
			err_set(err, ERR_STORAGE, "commit %llu of the journal cannot be read",
			        (unsigned long long)r->number);
		else if (op.kind == OP_PUT)
			turn_put(e->unwritten, op.key, op.value, true, 0);
		else if (op.kind == OP_DELETE)
			turn_delete(e->unwritten, op.key, true, 0);
		else
			delete_range(e, op.key, op.value, err);
	}
	turn_keep(e->unwritten, mark);
	return err->code;
}

enum err_code unwritten_open(struct engine *e, struct err *err)
{
	struct journal_reader reader = {e, add_record};
	struct journal_place  from, end;
	char                  path[PATH_MAX];
	struct catalog       *empty = catalog_make_empty();

	e->unwritten = mem_zalloc(sizeof(*e->unwritten));
	turn_init(e->unwritten, e->hash_key);
	turn_begin(e->unwritten, empty);
	catalog_release(empty);
	snprintf(path, sizeof(path), "%s/journal", e->options.path);
	if (checkpoint_place(e->rocks, &from, err) != ERR_NONE)
		return err->code;
	return journal_read(path, &from, &reader, &end, err);
}

void unwritten_close(struct turn *t)
{
	turn_release(t);
	free(t);
}
