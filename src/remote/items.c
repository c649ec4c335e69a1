/* Items: single ones. See items.h. */
#include "remote/items.h"

#include <assert.h>

enum { REBIRTHS_MAX = 4 }; /* how often an update looks again at a row that others keep changing */

enum err_code items_failed(struct remote_session *s, struct bytes table, enum err_code rc)
{
	if (rc == ERR_NO_RESOURCE)
		schemas_drop(s->remote, table);
	return rc;
}

/* ---- reading ---- */

void items_settle(const struct remote_session *s, struct arena *a, const struct table_schema *schema,
                  const struct table_get *q, struct table_get_result *r)
{
	if (r->found && schema_expired(schema, &r->item, s->base.now_us))
		*r = (struct table_get_result){0};
	if (r->found && q->projection != NULL)
		r->item = expr_project(a, q->projection, &r->item);
	r->capacity.table = q->table;
}

enum err_code items_fetch(struct remote_session *s, struct arena *a, struct bytes table,
                          const struct item *key, struct table_get_result *r, struct err *err)
{
	struct table_get   q = {.table = remote_name(s, a, table), .key = *key, .consistent = true};
	const struct json *answer;
	struct ask         ask;

	*r = (struct table_get_result){0};
	client_get(ask_init(&ask, "GetItem", a, true), &q);
	if (ask_send(s, &ask, &answer, err) != ERR_NONE)
		return items_failed(s, table, err->code);
	return ask_judge(s, ask.operation, client_read_get(a, answer, key, r, err), err);
}

/* The whole item is read: its time must be among what comes, and its size is told. */
enum err_code items_get(struct table *t, struct arena *a, const struct table_get *q,
                        struct table_get_result *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct table_schema    schema;

	*r = (struct table_get_result){0};
	if (schemas_get(s, a, q->table, &schema, err) != ERR_NONE ||
	    items_fetch(s, a, q->table, &q->key, r, err) != ERR_NONE)
		return err->code;
	items_settle(s, a, &schema, q, r);
	return ERR_NONE;
}

/* ---- writing ---- */

/* A write, under way. */
struct writing {
	struct remote_session     *s;
	struct arena              *arena;
	const struct table_schema *schema;
	const struct table_write  *q; /* as asked for */
	struct table_write_result *r;
};

/* Doing it twice is doing it once, and tells the same. */
static bool is_repeatable(const struct table_write *q)
{
	return q->kind != TABLE_UPDATE && q->condition == NULL && q->returns == RETURN_NONE;
}

struct client_action items_action(struct arena *a, const struct table_schema *schema,
                                  const struct table_write *as)
{
	return (struct client_action){.key = as->kind == TABLE_PUT ? schema_key_of(a, schema, NULL, &as->item)
	                                                           : as->key,
	                              .returns = as->returns,
	                              .conditional = as->condition != NULL};
}

/* A false condition is a result; the old item, if it was told, is in it. */
static enum err_code write_send(struct writing *w, const struct table_write *as, struct err *err)
{
	struct client_action action = items_action(w->arena, w->schema, as);
	const struct json   *answer;
	struct ask           ask;
	enum err_code        rc;

	*w->r = (struct table_write_result){0};
	client_write(ask_init(&ask, client_write_operation(as->kind), w->arena, is_repeatable(as)), as);
	rc = ask_send(w->s, &ask, &answer, err);
	if (rc == ERR_NONE)
		return ask_judge(w->s, ask.operation, client_read_write(w->arena, answer, &action, w->r, err),
		                 err);
	if (rc == ERR_CONDITION)
		return ask_judge(w->s, ask.operation,
		                 client_read_refusal(w->arena, answer, &action, w->r, err), err);
	return items_failed(w->s, w->q->table, rc);
}

/* What was there before has expired: it was not there. */
static void old_settle(struct writing *w)
{
	if (w->r->has_item && schema_expired(w->schema, &w->r->item, w->s->base.now_us))
		w->r->has_item = false;
	if (w->r->condition_failed && !w->q->return_old_on_failure)
		w->r->has_item = false;
}

static enum err_code plain_write(struct writing *w, struct table_write as, struct err *err)
{
	as.condition = expiry_condition(items_expiry(w->s, w->arena, w->schema), as.condition);
	if (write_send(w, &as, err) != ERR_NONE)
		return err->code;
	if (w->r->condition_failed || as.returns == RETURN_ALL_OLD)
		old_settle(w);
	return ERR_NONE;
}

/* Why an update failed that an absent item would have passed. */
enum why { WHY_CONDITION, WHY_EXPIRED, WHY_MOVED_ON };

/* An endpoint that did not tell of the old item is asked; by then the row may have become another. */
static enum err_code look_at_old(struct writing *w, const struct expr *condition, enum why *why,
                                 struct err *err)
{
	struct table_get_result there = {.found = w->r->has_item, .item = w->r->item};
	struct expr_cost        cost = {.max = SIZE_MAX};
	bool                    told = there.found;

	if (!told && items_fetch(w->s, w->arena, w->q->table, &w->q->key, &there, err) != ERR_NONE)
		return err->code;
	w->r->has_item = there.found;
	w->r->item = there.item;
	*why = !there.found                                                                ? WHY_MOVED_ON
	       : schema_expired(w->schema, &there.item, w->s->base.now_us)                 ? WHY_EXPIRED
	       : !told && (condition == NULL || expr_holds(condition, &there.item, &cost)) ? WHY_MOVED_ON
	                                                                                   : WHY_CONDITION;
	return ERR_NONE;
}

/* What the caller asked to see of an update of an absent item. */
static void reborn_show(struct writing *w, const struct table_write *as)
{
	static const struct expr_update none = {NULL, 0};
	const struct item              *now = &as->item;

	*w->r = (struct table_write_result){0};
	if (as->kind == TABLE_DELETE)
		return;
	w->r->size_bytes = item_size(now);
	if (w->q->returns == RETURN_ALL_NEW)
		w->r->item = *now;
	else if (w->q->returns == RETURN_UPDATED_NEW)
		w->r->item = expr_update_touched(w->arena, w->q->update == NULL ? &none : w->q->update, now);
	w->r->has_item = w->r->item.count > 0;
}

/* The update, applied to an absent item, takes the place of the expired one. *again: somebody else was quicker with that. */
static enum err_code rebirth(struct writing *w, const struct table_write *as, bool *again, struct err *err)
{
	struct table_write reborn;

	if (expiry_reborn(items_expiry(w->s, w->arena, w->schema), as, &reborn, err) != ERR_NONE ||
	    write_send(w, &reborn, err) != ERR_NONE)
		return err->code;
	*again = w->r->condition_failed;
	if (!*again)
		reborn_show(w, &reborn);
	return ERR_NONE;
}

static enum err_code update_round(struct writing *w, const struct table_write *as, bool *again,
                                  struct err *err)
{
	struct table_write alive = *as;
	enum why           why = WHY_CONDITION;

	*again = false;
	alive.condition = expiry_update_condition(items_expiry(w->s, w->arena, w->schema), as->condition);
	alive.return_old_on_failure = true;
	if (write_send(w, &alive, err) != ERR_NONE)
		return err->code;
	if (!w->r->condition_failed)
		return ERR_NONE;
	if (expiry_holds_absent(as->condition) && look_at_old(w, as->condition, &why, err) != ERR_NONE)
		return err->code;
	if (why == WHY_EXPIRED)
		return rebirth(w, as, again, err);
	*again = why == WHY_MOVED_ON;
	old_settle(w);
	return ERR_NONE;
}

static enum err_code update(struct writing *w, struct table_write as, struct err *err)
{
	bool again = true;

	if (w->schema->ttl_attribute.len == 0)
		return plain_write(w, as, err);
	for (int i = 0; i < REBIRTHS_MAX && again; i++)
		if (update_round(w, &as, &again, err) != ERR_NONE)
			return err->code;
	return again ? err_set(err, ERR_CONTENDED, "too many requests changed this at once; try again")
	             : ERR_NONE;
}

enum err_code items_write(struct table *t, struct arena *a, const struct table_write *q,
                          struct table_write_result *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct table_write     as = *q;
	struct table_schema    schema;
	struct writing         w = {s, a, &schema, q, r};
	enum err_code          rc;

	assert(q->kind != TABLE_CHECK);
	*r = (struct table_write_result){0};
	if (schemas_get(s, a, q->table, &schema, err) != ERR_NONE)
		return err->code;
	as.table = remote_name(s, a, q->table);
	rc = q->kind == TABLE_UPDATE ? update(&w, as, err) : plain_write(&w, as, err);
	r->capacity.table = q->table;
	return rc;
}
