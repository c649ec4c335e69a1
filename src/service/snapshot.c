/* Snapshot: see snapshot.h. */
#include "service/snapshot.h"

static bool same_result(const struct table_get_result *a, const struct table_get_result *b)
{
	return a->found == b->found && (!a->found || item_equal(&a->item, &b->item));
}

/* A row that was skipped is not the same as itself. */
static bool same_reading(const struct table_batch_get_result *a, const struct table_batch_get_result *b,
                         uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (a->skipped[i] || b->skipped[i] || !same_result(&a->results[i], &b->results[i]))
			return false;
	return true;
}

static enum err_code read_until_same(const struct changes *c, struct table *t,
                                     const struct table_batch_get *q, struct table_batch_get_result *r,
                                     struct err *err)
{
	struct table_batch_get_result before;

	if (t->backend->batch_get(t, c->arena, q, r, err) != ERR_NONE)
		return err->code;
	for (int readings = 1; readings < SNAPSHOT_READINGS_MAX; readings++) {
		before = *r;
		if (t->backend->batch_get(t, c->arena, q, r, err) != ERR_NONE)
			return err->code;
		if (same_reading(&before, r, q->count))
			return ERR_NONE;
	}
	return err_set(err, ERR_CONDITION, "others change these rows all the time; try again");
}

enum err_code snapshot_get(const struct changes *c, struct table *t, const struct table_batch_get *q,
                           struct table_batch_get_result *r, bool *torn, struct err *err)
{
	enum err_code rc = t->backend->transact_get(t, c->arena, q, r, err);

	*torn = false;
	for (unsigned tries = 1; rc == ERR_CONDITION && t->alone && tries < SNAPSHOT_TRIES_MAX; tries++) {
		changes_pause(c, t, tries, SNAPSHOT_PAUSE_US);
		rc = t->backend->transact_get(t, c->arena, q, r, err);
	}
	if (rc != ERR_CONDITION)
		return rc;
	*torn = !t->alone;
	return t->alone ? read_until_same(c, t, q, r, err) : t->backend->batch_get(t, c->arena, q, r, err);
}
