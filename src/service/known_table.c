/* Known table: a session that answers from what was last known (last_known.h), and remembers what is written to it. */
#include "service/known_rows.h"

#include "service/lock.h"

#include <stdlib.h>

static struct known_session *session_of(struct table *t)
{
	return (struct known_session *)t;
}

/* ---- reading ---- */

/* Nothing rests on what is not a state of subjects, users or tokens. */
static bool matters(enum service_table which)
{
	return which == TABLE_AUTH_STATE || which == TABLE_USERS || which == TABLE_REVOCATIONS;
}

static void lack(struct known_session *s, enum service_table which, struct bytes pk)
{
	if (matters(which) && !bytes_equal(pk, s->source))
		s->unknown = true;
}

static struct known_ask ask_of(struct known_session *s, enum service_table which, struct arena *a)
{
	return (struct known_ask){.which = which,
	                          .since_us = s->since_us,
	                          .oldest_us = matters(which) ? &s->oldest_us : NULL,
	                          .arena = a};
}

/* Whoever needs another table cannot go on. */
static enum err_code not_kept(struct err *err)
{
	return err_set(err, ERR_OVERLOADED, "the tables do not answer; try again later");
}

static enum err_code get_one(struct known_session *s, struct arena *a, const struct table_get *q,
                             struct table_get_result *r, struct err *err)
{
	enum service_table                which = tables_which(s->tables, q->table);
	const struct service_table_shape *shape;
	struct known_ask                  ask = ask_of(s, which, a);

	*r = (struct table_get_result){0};
	if (!known_keeps(which))
		return not_kept(err);
	shape = service_table_shape(which);
	ask.pk = row_text(&q->key, shape->hash);
	if (*shape->range != '\0')
		ask.sk = row_text(&q->key, shape->range);
	if (!known_get(s->known, &ask, &r->found, &r->item))
		lack(s, which, ask.pk);
	return ERR_NONE;
}

static enum err_code get(struct table *t, struct arena *a, const struct table_get *q,
                         struct table_get_result *r, struct err *err)
{
	return get_one(session_of(t), a, q, r, err);
}

static enum err_code get_all(struct table *t, struct arena *a, const struct table_batch_get *q,
                             struct table_batch_get_result *r, struct err *err)
{
	r->results = arena_zalloc(a, (q->count + 1) * sizeof(*r->results));
	r->skipped = arena_zalloc(a, (q->count + 1) * sizeof(*r->skipped));
	for (uint32_t i = 0; i < q->count; i++)
		if (get_one(session_of(t), a, &q->gets[i], &r->results[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

static int by_sort_key(const void *a, const void *b)
{
	struct bytes x = row_text(a, "SK"), y = row_text(b, "SK");
	size_t       len = x.len < y.len ? x.len : y.len;
	int          order = len == 0 ? 0 : memcmp(x.data, y.data, len);

	return order != 0 ? order : x.len < y.len ? -1 : x.len > y.len;
}

static enum err_code query(struct table *t, struct arena *a, const struct table_query *q,
                           struct table_query_result *r, struct err *err)
{
	struct known_session *s = session_of(t);
	enum service_table    which = tables_which(s->tables, q->table);
	struct known_ask      ask = ask_of(s, which, a);

	*r = (struct table_query_result){0};
	if (!known_keeps(which))
		return not_kept(err);
	if (q->key == NULL || q->index.len > 0 ||
	    (q->key->range_kind != RANGE_NONE && q->key->range_kind != RANGE_PREFIX)) {
		s->unknown = true; /* nobody asks so about a subject */
		return ERR_NONE;
	}
	ask.pk = q->key->hash.text;
	ask.sk = q->key->range_kind == RANGE_NONE ? (struct bytes){NULL, 0} : q->key->low.text;
	if (!known_rows(s->known, &ask, r))
		lack(s, which, ask.pk);
	if (r->count > 1)
		qsort(r->items, r->count, sizeof(*r->items), by_sort_key);
	return ERR_NONE;
}

/* ---- writing ---- */

static void write_one(struct known *k, const struct service_tables *tables, const struct table_write *w,
                      struct known_write to)
{
	const struct item                *key = w->kind == TABLE_PUT ? &w->item : &w->key;
	const struct service_table_shape *shape;

	to.which = tables_which(tables, w->table);
	if (to.which == SERVICE_TABLE_COUNT || w->kind == TABLE_CHECK)
		return;
	shape = service_table_shape(to.which);
	to.pk = row_text(key, shape->hash);
	if (*shape->range != '\0')
		to.sk = row_text(key, shape->range);
	to.item = w->kind == TABLE_PUT ? &w->item : NULL;
	known_put(k, &to);
}

/* Locks and states that were set or cleared through this process hold at once, also of a subject whose attempts wait: else whoever keeps
 * some waiting would not be locked out by an operator. Counts lack what waits, and so do failures in a row while they are no lock (streak.h). */
static bool stands(const struct table_write *w)
{
	struct bytes type = key_split(row_text(w->kind == TABLE_PUT ? &w->item : &w->key, "SK")).type;

	if (w->kind == TABLE_PUT && item_get(&w->item, BYTES(LOCK_FAILURES)) != NULL &&
	    row_i64(&w->item, "count", 1) == 0)
		return false;
	return bytes_is(type, KEY_LOCK) || bytes_is(type, KEY_STATE);
}

/* Those who change auth-state and users by an update are none of those who decide by it: the row is read again. */
void known_wrote(struct known *k, const struct service_tables *tables, const struct table_write *list,
                 uint32_t count, int64_t now_us)
{
	for (uint32_t i = 0; i < count; i++)
		if (list[i].kind != TABLE_UPDATE && tables_which(tables, list[i].table) != TABLE_IDEMPOTENCY)
			write_one(k, tables, &list[i],
			          (struct known_write){.now_us = now_us, .ours = stands(&list[i])});
}

static enum err_code write_single(struct table *t, struct arena *a, const struct table_write *q,
                                  struct table_write_result *r, struct err *err)
{
	struct known_session *s = session_of(t);

	(void)a;
	(void)err;
	*r = (struct table_write_result){0};
	write_one(s->known, s->tables, q, (struct known_write){.now_us = t->now_us, .ours = true});
	return ERR_NONE;
}

static enum err_code write_all(struct table *t, struct arena *a, const struct table_transact_write *q,
                               struct table_transact_result *r, struct err *err)
{
	struct table_write_result one;

	*r = (struct table_transact_result){0};
	for (uint32_t i = 0; i < q->count; i++)
		write_single(t, a, &q->writes[i], &one, err);
	return ERR_NONE;
}

/* ---- sessions ---- */

static const struct table_backend backend = {
        .name = "last known",
        .get = get,
        .write = write_single,
        .query = query,
        .batch_get = get_all,
        .transact_get = get_all,
        .transact_write = write_all,
};

void known_begin(struct known_session *s, struct known *k, const struct service_tables *tables,
                 int64_t now_us)
{
	*s = (struct known_session){.base = {.backend = &backend, .now_us = now_us, .alone = true},
	                            .known = k,
	                            .tables = tables,
	                            .oldest_us = now_us};
}

const struct known_session *known_session_of(const struct table *t)
{
	return t->backend == &backend ? (const struct known_session *)t : NULL;
}

bool known_lacked(const struct table *t)
{
	const struct known_session *s = known_session_of(t);

	return s != NULL && s->unknown;
}
