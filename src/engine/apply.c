/* Apply: load the row, test the condition, compute the new item, store it with its index and expiry entries.
 * Runs in a turn, so nothing changes between the steps. */
#include "engine/apply.h"

#include "expr/eval.h"
#include "item/messages.h"
#include "engine/layout.h"

enum err_code apply_check(struct engine_session *s, const struct table_write *q, const struct table_entry **t,
                          struct err *err)
{
	struct key_values key;

	if (row_table(s, q->table, t, err) != ERR_NONE)
		return err->code;
	if (q->kind == TABLE_PUT)
		return schema_check_item(&(*t)->schema, &q->item, err);
	return schema_check_key(&(*t)->schema, &q->key, &key, err);
}

static enum err_code check_keys_untouched(const struct table_schema *s, const struct expr_update *u,
                                          struct err *err)
{
	const struct bytes keys[2] = {s->keys.hash.name, s->keys.range.name};

	for (int i = 0; i < 2; i++)
		if (keys[i].len > 0 && expr_update_touches(u, keys[i]))
			return err_set(err, ERR_INVALID, MSG_UPDATE_KEY, BYTES_ARG(keys[i]));
	return ERR_NONE;
}

static enum err_code updated(struct arena *a, const struct table_schema *s, const struct table_write *q,
                             const struct item *before, struct item *after, struct err *err)
{
	if (q->update == NULL || q->update->count == 0) {
		*after = *before;
	} else if (check_keys_untouched(s, q->update, err) != ERR_NONE ||
	           expr_update_apply(a, q->update, before, after, err) != ERR_NONE) {
		return err->code;
	}
	if (item_size(after) > ITEM_BYTES_MAX)
		return err_set(err, ERR_INVALID, MSG_ITEM_SIZE_UPDATE);
	return schema_check_item(s, after, err);
}

/* ---- what the caller asked to see ---- */

static void return_item(struct table_write_result *r, const struct item *item)
{
	if (item == NULL)
		return;
	r->has_item = true;
	r->item = *item;
}

static void return_touched(struct arena *a, const struct table_write *q, struct table_write_result *r,
                           const struct item *item)
{
	static const struct expr_update none = {0};
	struct item                     touched;

	if (item == NULL)
		return;
	touched = expr_update_touched(a, q->update == NULL ? &none : q->update, item);
	if (touched.count > 0)
		return_item(r, &touched);
}

static void fill_returns(struct arena *a, const struct table_write *q, const struct item *old,
                         const struct item *new, struct table_write_result *r)
{
	switch (q->returns) {
	case RETURN_NONE:
		break;
	case RETURN_ALL_OLD:
		return_item(r, old);
		break;
	case RETURN_ALL_NEW:
		return_item(r, new);
		break;
	case RETURN_UPDATED_OLD:
		return_touched(a, q, r, old);
		break;
	case RETURN_UPDATED_NEW:
		return_touched(a, q, r, new);
		break;
	}
}

/* Item collections exist where there is a local index. */
static void fill_collection(struct engine_session *s, struct arena *a, const struct table_entry *t,
                            const struct item *key, struct table_write_result *r)
{
	const struct member *hash = item_find(key, t->schema.keys.hash.name);
	struct buf           low;
	struct bytes         high;

	for (uint32_t i = 0; i < t->schema.index_count && !r->has_collection; i++)
		r->has_collection = t->schema.indexes[i].local;
	if (!r->has_collection)
		return;
	buf_init(&low, a);
	layout_partition(&low, t->id, &hash->value);
	high = layout_after(a, buf_bytes(&low));
	r->collection_name = hash->name;
	r->collection_key = hash->value;
	r->collection_gb =
	        (double)rocks_range_bytes(s->engine->rocks, buf_bytes(&low), high) / (double)(1u << 30);
}

/* ---- the write ---- */

static enum err_code compute(struct arena *a, const struct table_entry *t, const struct table_write *q,
                             const struct item *old, struct item *new, struct err *err)
{
	if (q->kind == TABLE_PUT)
		*new = q->item;
	else if (q->kind == TABLE_UPDATE)
		return updated(a, &t->schema, q, old != NULL ? old : &q->key, new, err);
	return ERR_NONE;
}

enum err_code apply_to(struct engine_session *s, struct arena *a, const struct table_entry *t,
                       const struct table_write *q, struct table_write_result *r, struct err *err)
{
	const struct item *key = q->kind == TABLE_PUT ? &q->item : &q->key, *old;
	struct item new = {0};
	const struct loaded *row;
	bool                 leaves = q->kind == TABLE_PUT || q->kind == TABLE_UPDATE, holds;
	size_t               new_bytes;

	if (row_load(s, a, t, key, &row, err) != ERR_NONE)
		return err->code;
	old = row->live ? &row->item : NULL;
	r->size_bytes = row->size_bytes;
	r->capacity = (struct capacity){.table = q->table, .write_units = write_cost(row->size_bytes)};
	if (q->condition != NULL)
		s->base.cost.spent += row->size_bytes * EXPR_READ_COST;
	holds = expr_holds(q->condition, old != NULL ? old : &new, &s->base.cost);
	if (cost_check(s, err) != ERR_NONE)
		return err->code;
	if (!holds) {
		r->condition_failed = true;
		if (q->return_old_on_failure)
			return_item(r, old);
		return ERR_NONE;
	}
	if (q->kind == TABLE_CHECK)
		return ERR_NONE;
	if (compute(a, t, q, old, &new, err) != ERR_NONE)
		return err->code;
	new_bytes = leaves ? item_size(&new) : 0;
	if (new_bytes > r->size_bytes) {
		r->size_bytes = new_bytes;
		r->capacity.write_units = write_cost(new_bytes);
	}
	row_store(s, a, t, row, leaves ? &new : NULL, &r->capacity);
	fill_returns(a, q, old, leaves ? &new : NULL, r);
	if (t->schema.index_count > 0)
		fill_collection(s, a, t, key, r);
	return ERR_NONE;
}

enum err_code apply_write(struct table *t, struct arena *a, const struct table_write *q,
                          struct table_write_result *r, struct err *err)
{
	struct engine_session    *s = (struct engine_session *)t;
	const struct table_entry *entry;

	*r = (struct table_write_result){0};
	cost_begin(s);
	if (apply_check(s, q, &entry, err) != ERR_NONE)
		return err->code;
	return apply_to(s, a, entry, q, r, err);
}
