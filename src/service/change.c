/* Changes: a list, and the one place where services write. */
#include "service/change.h"

void changes_init(struct changes *c, struct arena *a, const struct service_tables *tables)
{
	*c = (struct changes){.arena = a, .tables = tables};
}

/* Where a write is headed. Services' keys are PK, or PK and SK. */
static const struct item *target(const struct table_write *w)
{
	return w->kind == TABLE_PUT ? &w->item : &w->key;
}

static bool same_attribute(const struct item *a, const struct item *b, struct bytes name)
{
	const struct value *va = item_get(a, name), *vb = item_get(b, name);

	return va == NULL || vb == NULL ? va == vb : value_equal(va, vb);
}

static bool same_row(const struct table_write *a, const struct table_write *b)
{
	return bytes_equal(a->table, b->table) && same_attribute(target(a), target(b), BYTES("PK")) &&
	       same_attribute(target(a), target(b), BYTES("SK"));
}

/* A second change of a row takes the place of the first, under the first one's condition: that is the one on
 * what was read. */
static bool replace(struct changes *c, const struct table_write *w)
{
	for (uint32_t i = 0; i < c->count; i++) {
		const struct expr *condition = c->list[i].condition;

		if (!same_row(&c->list[i], w))
			continue;
		c->list[i] = *w;
		c->list[i].condition = condition;
		return true;
	}
	return false;
}

static void add(struct changes *c, struct table_write w)
{
	if (replace(c, &w))
		return;
	if (c->count == CHANGES_MAX) {
		c->too_many = true;
		return;
	}
	if (c->count % 4 == 0) { /* most calls change one or two rows */
		struct table_write *larger = arena_array(c->arena, c->count + 4, sizeof(*larger));

		if (c->count > 0)
			memcpy(larger, c->list, c->count * sizeof(*larger));
		c->list = larger;
	}
	c->list[c->count++] = w;
}

void changes_put(struct changes *c, struct bytes table, struct item item, const struct expr *condition)
{
	add(c, (struct table_write){.kind = TABLE_PUT, .table = table, .item = item, .condition = condition});
}

void changes_update(struct changes *c, struct bytes table, struct item key, const struct expr_update *update,
                    const struct expr *condition)
{
	add(c, (struct table_write){.kind = TABLE_UPDATE,
	                            .table = table,
	                            .key = key,
	                            .update = update,
	                            .condition = condition});
}

void changes_delete(struct changes *c, struct bytes table, struct item key, const struct expr *condition)
{
	add(c,
	    (struct table_write){.kind = TABLE_DELETE, .table = table, .key = key, .condition = condition});
}

static enum err_code commit_one(struct changes *c, struct table *t, struct err *err)
{
	struct table_write_result r;

	if (t->backend->write(t, c->arena, &c->list[0], &r, err) != ERR_NONE)
		return err->code;
	return r.condition_failed
	               ? err_set(err, ERR_CONDITION, "another request changed the same rows first; try again")
	               : ERR_NONE;
}

static enum err_code commit_many(struct changes *c, struct table *t, struct err *err)
{
	struct table_transact_write  q = {.writes = c->list, .count = c->count};
	struct table_transact_result r;

	if (t->backend->transact_write(t, c->arena, &q, &r, err) != ERR_NONE)
		return err->code;
	if (!r.cancelled)
		return ERR_NONE;
	for (uint32_t i = 0; i < c->count; i++)
		if (r.reasons[i].code == ERR_INVALID)
			return err_set(err, ERR_INVALID, "%s", r.reasons[i].text);
	return err_set(err, ERR_CONDITION, "another request changed the same rows first; try again");
}

static enum err_code commit_once(struct changes *c, struct table *t, struct err *err)
{
	return c->count == 1 ? commit_one(c, t, err) : commit_many(c, t, err);
}

enum err_code changes_commit(struct changes *c, struct table *t, struct err *err)
{
	enum err_code rc;

	if (c->too_many)
		return err_set(err, ERR_LIMIT,
		               "this would change more than %d rows at once; split it into smaller requests",
		               CHANGES_MAX);
	rc = c->count == 0 ? ERR_NONE : commit_once(c, t, err);
	if (rc != ERR_NO_RESOURCE)
		return rc;
	for (uint32_t i = 0; i < c->count; i++)
		if (tables_ensure(c->tables, t, c->arena, c->list[i].table, err) != ERR_NONE)
			return err->code;
	return commit_once(c, t, err);
}
