/* Single: see single.h. */
#include "service/single.h"

#include "service/hot_keys.h"
#include "service/known_rows.h"

enum { NONCE_BYTES = 12, NONCE_CHARS = 2 * NONCE_BYTES };

bool single_fits(const struct transaction *x)
{
	const struct changes *c = x->c;

	return c->single && x->count == 1 && c->count == 1 && c->told == NULL && c->numbering == NULL &&
	       (x->actions[0].kind == TABLE_PUT || x->actions[0].kind == TABLE_UPDATE);
}

/* ---- the nonce (2) ---- */

static struct bytes nonce_make(struct changes *c)
{
	uint8_t bits[NONCE_BYTES];
	char   *text = arena_alloc(c->arena, NONCE_CHARS);

	c->random(bits, sizeof(bits));
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, text);
	return (struct bytes){text, NONCE_CHARS};
}

static bool is_ours(const struct table_write_result *r, struct bytes nonce)
{
	return r->has_item && bytes_equal(row_text(&r->item, SINGLE_NONCE), nonce);
}

static void put_mark(struct arena *a, struct table_write *w, struct bytes nonce)
{
	struct row row;

	row_from(&row, a, &w->item);
	row_set_text(&row, SINGLE_NONCE, nonce);
	w->item = row_item(&row);
}

/* A put rests on the row as it was, which ours is not. An update may hold twice. */
static void update_mark(struct arena *a, struct table_write *w, struct bytes nonce)
{
	struct expr_update *u = arena_zalloc(a, sizeof(*u));
	struct expr_step   *step = arena_zalloc(a, sizeof(*step));

	step->name = BYTES(SINGLE_NONCE);
	u->count = w->update->count + 1;
	u->actions = arena_array(a, u->count, sizeof(*u->actions));
	memcpy(u->actions, w->update->actions, w->update->count * sizeof(*u->actions));
	u->actions[w->update->count] =
	        (struct expr_action){.kind = ACTION_SET,
	                             .path = {step, 1},
	                             .term = {.kind = TERM_VALUE, .value = value_string(nonce)}};
	w->update = u;
	w->condition = row_and_other(a, w->condition, SINGLE_NONCE, nonce);
	w->returns = RETURN_ALL_NEW;
}

static void mark(struct arena *a, struct table_write *w, struct bytes nonce)
{
	if (w->kind == TABLE_PUT)
		put_mark(a, w, nonce);
	else
		update_mark(a, w, nonce);
	w->return_old_on_failure = true;
}

/* ---- what is remembered (4) ---- */

/* item NULL: nothing is known of it any more. */
static void learn(const struct changes *c, const struct table_write *w, const struct item *item,
                  int64_t now_us)
{
	struct row_place p = place_of(c, w);

	if (c->limit_rows != NULL)
		known_put(c->limit_rows, &(struct known_write){.which = p.which,
		                                               .pk = p.pk,
		                                               .item = item,
		                                               .now_us = item == NULL ? 0 : now_us});
}

void single_forget(const struct transaction *x)
{
	for (uint32_t i = 0; x->c->limit_rows != NULL && i < x->count; i++)
		if (bytes_equal(x->actions[i].table, x->c->tables->names[TABLE_RATE_LIMITS]))
			learn(x->c, &x->actions[i], NULL, 0);
}

/* What it says of the row: as it left it, or as it found it. */
static void note_row(struct changes *c, const struct table_write *w, const struct table_write_result *r,
                     int64_t now_us)
{
	struct item *row = arena_alloc(c->arena, sizeof(*row));
	bool         told = r->has_item || (w->kind == TABLE_PUT && !r->condition_failed);

	*row = r->has_item ? r->item : w->item;
	learn(c, w, told ? row : NULL, now_us);
	c->written = told ? row : NULL;
}

/* ---- writing ---- */

static bool is_passing(enum err_code rc)
{
	return rc == ERR_OVERLOADED || rc == ERR_THROTTLED || rc == ERR_STORAGE;
}

static enum err_code send(struct changes *c, struct table *t, const struct table_write *w,
                          struct table_write_result *r, struct err *err)
{
	struct row_place p = place_of(c, w);
	unsigned         repeats = 0;
	enum err_code    rc;

	if (w->kind == TABLE_UPDATE && t->backend->make_way != NULL) /* (3) */
		t->backend->make_way(t);
	do {
		if (c->hot_keys != NULL)
			hot_keys_add(c->hot_keys, w->table, p.pk, 1, t->now_us);
		rc = t->backend->write(t, c->arena, w, r, err);
		c->unsure |= rc == ERR_STORAGE;
	} while (changes_repeat(c, t, rc, ++repeats));
	c->unsure = c->unsure && is_passing(rc);
	return c->unsure ? err_set(err, ERR_STORAGE, "the outcome is unknown: it may have been done, or not")
	                 : rc;
}

enum err_code single_commit(struct transaction *x, struct table *t, struct err *err)
{
	struct changes           *c = x->c;
	struct table_write        w = x->actions[0];
	struct bytes              nonce = nonce_make(c);
	struct table_write_result r;
	enum err_code             rc;

	mark(c->arena, &w, nonce);
	rc = send(c, t, &w, &r, err);
	if (rc == ERR_CONTENDED)
		return err_set(err, ERR_CONDITION, "a transaction was in the way");
	if (rc != ERR_NONE) {
		learn(c, &w, NULL, t->now_us);
		return rc;
	}
	note_row(c, &w, &r, t->now_us);
	return r.condition_failed && !is_ours(&r, nonce)
	               ? err_set(err, ERR_CONDITION, "others changed the row in between")
	               : ERR_NONE;
}
