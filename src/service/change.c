/* Changes: a list, and the one place where services write. */
#include "service/change.h"

#include <assert.h>

void changes_init(struct changes *c, struct arena *a, const struct service_tables *tables)
{
	*c = (struct changes){.arena = a, .tables = tables};
}

static struct table_write *add(struct changes *c, enum table_action_kind kind, struct bytes table,
                               const struct expr *condition)
{
	struct table_write *w;

	assert(c->count < CHANGES_MAX);
	if (c->count % 4 == 0) { /* most calls change one or two rows */
		struct table_write *larger = arena_array(c->arena, c->count + 4, sizeof(*larger));

		if (c->count > 0)
			memcpy(larger, c->list, c->count * sizeof(*larger));
		c->list = larger;
	}
	w = &c->list[c->count++];
	*w = (struct table_write){.kind = kind, .table = table, .condition = condition};
	return w;
}

void changes_put(struct changes *c, struct bytes table, struct item item, const struct expr *condition)
{
	add(c, TABLE_PUT, table, condition)->item = item;
}

void changes_delete(struct changes *c, struct bytes table, struct item key, const struct expr *condition)
{
	add(c, TABLE_DELETE, table, condition)->key = key;
}

static enum err_code commit_one(struct changes *c, struct table *t, struct err *err)
{
	struct table_write_result r;

	if (t->backend->write(t, c->arena, &c->list[0], &r, err) != ERR_NONE)
		return err->code;
	return r.condition_failed ? err_set(err, ERR_CONDITION, "changed meanwhile") : ERR_NONE;
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
	return err_set(err, ERR_CONDITION, "changed meanwhile");
}

static enum err_code commit_once(struct changes *c, struct table *t, struct err *err)
{
	return c->count == 1 ? commit_one(c, t, err) : commit_many(c, t, err);
}

enum err_code changes_commit(struct changes *c, struct table *t, struct err *err)
{
	enum err_code rc = c->count == 0 ? ERR_NONE : commit_once(c, t, err);

	if (rc != ERR_NO_RESOURCE)
		return rc;
	for (uint32_t i = 0; i < c->count; i++)
		if (tables_ensure(c->tables, t, c->arena, c->list[i].table, err) != ERR_NONE)
			return err->code;
	return commit_once(c, t, err);
}
