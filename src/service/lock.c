/* Locks: see lock.h. */
#include "service/lock.h"

#include "service/key_names.h"
#include "service/row.h"

static const char *const lock_same[] = {"count", "ttl", "last_updated", NULL};

static enum err_code look(struct bytes pk, struct bytes sk, struct bytes table, struct table *t,
                          struct arena *a, bool *found, struct item *item, struct err *err)
{
	struct table_get        q = {.table = table, .key = row_key_two(a, pk, sk), .consistent = true};
	struct table_get_result r;

	if (tables_get(t, a, &q, &r, err) != ERR_NONE)
		return err->code;
	*found = r.found && !row_expired(&r.item, "ttl", t->now_us);
	*item = r.item;
	return ERR_NONE;
}

static const struct expr *unchanged(struct arena *a, bool found, const struct item *item, int64_t now_us)
{
	return found ? row_same(a, item, lock_same) : row_absent(a, "PK", "ttl", now_us);
}

/* ---- locks that grow ---- */

static int64_t grown(const struct lock_kind *kind, int64_t level)
{
	int64_t duration = kind->duration_s;

	for (int64_t i = 1; i < level && duration < kind->cap_s; i++)
		duration *= kind->factor;
	return duration < kind->cap_s ? duration : kind->cap_s;
}

/* How long this one holds: how many there were before is kept in a row of its own. */
static enum err_code duration_of(const struct lock_new *lock, struct bytes table, struct table *t,
                                 struct changes *c, int64_t *duration_s, struct err *err)
{
	struct bytes sk =
	        key_name(c->arena, lock->journey, BYTES(KEY_LOCK_LEVEL), lock->name, lock->qualifier);
	int64_t     now_s = t->now_us / 1000000, level;
	struct item item;
	struct row  row;
	bool        found;

	*duration_s = lock->duration_s > 0 ? lock->duration_s : lock->kind->duration_s;
	if (lock->duration_s > 0 || lock->kind->factor == 1 || lock->kind->duration_s == 0 ||
	    bytes_is(lock->type, KEY_SHADOW_LOCK))
		return ERR_NONE;
	if (look(lock->pk, sk, table, t, c->arena, &found, &item, err) != ERR_NONE)
		return err->code;
	level = (found ? row_i64(&item, "count", 0) : 0) + 1;
	*duration_s = grown(lock->kind, level);
	row_init(&row, c->arena);
	row_set_text(&row, "PK", lock->pk);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "count", level);
	row_set_i64(&row, "last_updated", now_s);
	row_set_i64(&row, "ttl", now_s + *duration_s + lock->kind->forget_s);
	changes_put(c, table, row_item(&row), unchanged(c->arena, found, &item, t->now_us));
	return ERR_NONE;
}

/* ---- setting ---- */

static struct item lock_row(const struct lock_new *lock, struct bytes sk, struct arena *a, int64_t now_s,
                            int64_t duration_s, int64_t ends_s)
{
	struct row row;

	row_init(&row, a);
	row_set_text(&row, "PK", lock->pk);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", now_s);
	row_set_text(&row, "block_type", lock->kind->name);
	if (ends_s > 0) {
		row_set_i64(&row, "ttl", ends_s);
		row_set_i64(&row, "block_duration", duration_s);
	}
	if (lock->notification_type.len > 0)
		row_set_text(&row, "notification_type", lock->notification_type);
	if (lock->method_type.len > 0)
		row_set_text(&row, "mfa_method_type", lock->method_type);
	if (lock->cause.len > 0) {
		row_set_text(&row, "cause", lock->cause);
		row_set_i64(&row, "policy_version", lock->version);
	}
	if (lock->history.type == VALUE_L && lock->history.list.count > 0)
		row_set(&row, "history", lock->history);
	return row_item(&row);
}

/* The later of two ends; 0 is never, and later than all. */
static int64_t later(int64_t a, int64_t b)
{
	return a == 0 || b == 0 ? 0 : a > b ? a : b;
}

enum err_code lock_add(const struct lock_new *lock, struct bytes table, struct table *t, struct changes *c,
                       struct verdict *out, struct err *err)
{
	struct bytes sk = key_name(c->arena, lock->journey, lock->type, lock->name, lock->qualifier);
	int64_t      now_s = t->now_us / 1000000, duration_s, ends_s;
	struct item  old;
	bool         found;

	if (look(lock->pk, sk, table, t, c->arena, &found, &old, err) != ERR_NONE ||
	    duration_of(lock, table, t, c, &duration_s, err) != ERR_NONE)
		return err->code;
	ends_s = duration_s == 0 ? 0 : now_s + duration_s;
	if (found)
		ends_s = later(ends_s, row_i64(&old, "ttl", 0));
	changes_put(c, table, lock_row(lock, sk, c->arena, now_s, duration_s, ends_s),
	            unchanged(c->arena, found, &old, t->now_us));
	*out = (struct verdict){.kind = ends_s == 0 ? VERDICT_LOCKED_PERMANENT : VERDICT_LOCKED,
	                        .reason = "lock",
	                        .until_s = ends_s,
	                        .pk = lock->pk,
	                        .sk = sk,
	                        .block_type = lock->kind->name};
	return ERR_NONE;
}

/* ---- clearing ---- */

enum err_code lock_clear(struct bytes pk, struct bytes sk, struct bytes table, struct table *t,
                         struct changes *c, bool *found, struct err *err)
{
	struct key_parts p = key_split(sk);
	struct bytes level = key_name(c->arena, p.journey, BYTES(KEY_LOCK_LEVEL), p.classifier, p.qualifier);
	struct item  item;
	bool         grew;

	if (look(pk, level, table, t, c->arena, &grew, &item, err) != ERR_NONE)
		return err->code;
	if (grew)
		changes_delete(c, table, row_key_two(c->arena, pk, level), NULL);
	if (look(pk, sk, table, t, c->arena, found, &item, err) != ERR_NONE)
		return err->code;
	if (*found)
		changes_delete(c, table, row_key_two(c->arena, pk, sk), NULL);
	return ERR_NONE;
}
