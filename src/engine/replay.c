/* Replay: see replay.h. Commits are put together in a turn, many at a time, so that a row that changed in many of
 * them is written once. Deleted ranges come last there, as in a commit: ids are never used again. */
#include "engine/replay.h"

#include <stdlib.h>

#include "engine/view.h"

enum { PUBLISH_BYTES = 8 << 20 }; /* at a time */

static struct turn *turn_make(struct engine *e)
{
	struct turn    *t = mem_zalloc(sizeof(*t));
	struct catalog *empty = catalog_make_empty();

	turn_init(t, e->hash_key);
	turn_begin(t, empty);
	catalog_release(empty);
	return t;
}

void replay_release(struct turn *t)
{
	turn_release(t);
	free(t);
}

static void add_op(struct turn *t, const struct op *op)
{
	if (op->kind == OP_PUT)
		turn_put(t, op->key, op->value, true, 0);
	else if (op->kind == OP_DELETE)
		turn_delete(t, op->key, true, 0);
	else
		turn_delete_range(t, op->key, op->value);
}

static enum err_code add_record(struct turn *t, const struct record *r, struct err *err)
{
	struct turn_mark mark = turn_mark(t);
	struct bytes     body = r->body;
	struct op        op;

	while (body.len > 0) {
		if (!op_decode(&body, &op))
			return err_set(err, ERR_STORAGE, "commit %llu of the journal cannot be read",
			               (unsigned long long)r->number);
		add_op(t, &op);
	}
	turn_keep(t, mark);
	return ERR_NONE;
}

/* ---- for the engine ---- */

struct publisher {
	struct engine *engine;
	struct turn   *turn;
};

static enum err_code publish(struct publisher *p, struct err *err)
{
	enum err_code rc = write_back_publish(&p->engine->write_back, p->turn, err);

	replay_release(p->turn);
	p->turn = turn_make(p->engine);
	return rc;
}

static enum err_code publish_record(void *ctx, const struct record *r, struct err *err)
{
	struct publisher *p = ctx;

	if (add_record(p->turn, r, err) != ERR_NONE)
		return err->code;
	return p->turn->bytes < PUBLISH_BYTES ? ERR_NONE : publish(p, err);
}

enum err_code replay_publish(struct engine *e, const struct journal_site *site,
                             const struct journal_place *from, struct journal_place *end, struct err *err)
{
	struct publisher      p = {e, turn_make(e)};
	struct journal_reader reader = {.ctx = &p, .each = publish_record};
	enum err_code         rc = journal_read(site, from, &reader, end, err);

	if (rc == ERR_NONE)
		rc = publish(&p, err);
	replay_release(p.turn);
	return rc;
}

/* ---- for those who only read ---- */

static enum err_code hold_record(void *ctx, const struct record *r, struct err *err)
{
	return add_record(ctx, r, err);
}

/* A turn does not hide ranges of the store: each key is deleted by itself. */
static enum err_code delete_range(struct engine *e, const struct range_delete *d, struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct view_cursor    c;
	struct bytes          key, value;
	struct arena          a;

	arena_init(&a);
	view_cursor_open(&c, &s, NULL, &a, d->low, d->high, false);
	while (view_cursor_next(&c, &key, &value))
		turn_delete(e->unwritten, key, true, value.len);
	err->code = ERR_NONE;
	view_cursor_check(&c, err);
	view_cursor_close(&c);
	arena_release(&a);
	return err->code;
}

enum err_code replay_hold(struct engine *e, const struct journal_site *site, const struct journal_place *from,
                          struct err *err)
{
	struct journal_reader reader;
	struct journal_place  end;

	e->unwritten = turn_make(e);
	reader = (struct journal_reader){.ctx = e->unwritten, .each = hold_record};
	if (journal_read(site, from, &reader, &end, err) != ERR_NONE)
		return err->code;
	for (const struct range_delete *d = e->unwritten->ranges; d != NULL; d = d->next)
		if (delete_range(e, d, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}
