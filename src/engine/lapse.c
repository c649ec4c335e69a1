/* Lapse: see lapse.h. What is closed is one number for all tables; a frozen table has its own, in the catalog. */
#include "engine/lapse.h"

#include <stdlib.h>

#include "engine/layout.h"
#include "engine/view.h"
#include "item/codec.h"

#define META_LAPSE        "lapse" /* "closed": hours since 1970 */
#define META_LAPSE_CLOSED "closed"
#define HOUR_US           (INT64_C(1000000) * LAPSE_HOUR_S)

struct frozen_table {
	uint32_t id, closed;
};

struct lapse_rule {
	atomic_uint         refs;
	uint32_t            closed;
	uint32_t            frozen_count;
	struct frozen_table frozen[];
};

/* ---- rules ---- */

static const struct frozen_table *frozen_find(const struct lapse_rule *r, uint32_t table_id)
{
	for (uint32_t i = 0; i < r->frozen_count; i++)
		if (r->frozen[i].id == table_id)
			return &r->frozen[i];
	return NULL;
}

/* Tables that are frozen by an earlier rule stay so (X5), unless that is NULL, or they are gone. */
static struct lapse_rule *rule_make(uint32_t closed, const struct catalog *catalog,
                                    const struct lapse_rule *before)
{
	uint32_t           tables = catalog == NULL ? 0 : catalog->count;
	uint32_t           more = before == NULL ? 0 : before->frozen_count;
	struct lapse_rule *r = mem_zalloc(sizeof(*r) + (tables + more) * sizeof(r->frozen[0]));

	atomic_init(&r->refs, 1);
	r->closed = closed;
	for (uint32_t i = 0; i < tables; i++) {
		const struct table_entry *t = catalog->entries[i];

		if (t->frozen_hour != 0)
			r->frozen[r->frozen_count++] = (struct frozen_table){t->id, t->frozen_hour};
	}
	for (uint32_t i = 0; i < more; i++)
		if (frozen_find(r, before->frozen[i].id) == NULL &&
		    catalog_find_id(catalog, before->frozen[i].id) != NULL)
			r->frozen[r->frozen_count++] = before->frozen[i];
	return r;
}

struct lapse_rule *lapse_rule_take(struct engine *e)
{
	struct lapse_rule *r;

	pthread_mutex_lock(&e->lapse.lock);
	r = e->lapse.rule;
	atomic_fetch_add(&r->refs, 1);
	pthread_mutex_unlock(&e->lapse.lock);
	return r;
}

void lapse_rule_release(struct lapse_rule *r)
{
	if (atomic_fetch_sub(&r->refs, 1) == 1)
		free(r);
}

static void rule_replace(struct lapse *l, struct lapse_rule *r)
{
	struct lapse_rule *old;

	pthread_mutex_lock(&l->lock);
	old = l->rule;
	l->rule = r;
	pthread_mutex_unlock(&l->lock);
	lapse_rule_release(old);
}

bool lapse_has_closed(const struct lapse_rule *r, uint32_t table_id, uint32_t hour)
{
	const struct frozen_table *frozen;

	if (hour == 0 || hour >= r->closed)
		return false;
	frozen = frozen_find(r, table_id);
	return frozen == NULL || hour < frozen->closed;
}

bool lapse_drops(const struct lapse_rule *r, struct bytes key, struct bytes value)
{
	uint32_t hour, table_id;
	uint16_t index_id;

	if (key.len == 0 || (key.data[0] != KIND_ROW && key.data[0] != KIND_INDEX))
		return false;
	hour = item_lapse(value);
	return hour != 0 && layout_parse_owner(key, &table_id, &index_id) &&
	       lapse_has_closed(r, table_id, hour);
}

void lapse_init(struct lapse *l)
{
	pthread_mutex_init(&l->lock, NULL);
	atomic_init(&l->closed, 0);
	l->rule = rule_make(0, NULL, NULL);
}

void lapse_release(struct lapse *l)
{
	lapse_rule_release(l->rule);
	pthread_mutex_destroy(&l->lock);
}

/* ---- rows ---- */

bool lapse_allows(const struct table_entry *t)
{
	return t->schema.ttl_attribute.len > 0 && !t->ttl_filling && t->frozen_hour == 0;
}

/* (X3) This hour is not closed, for those of this batch neither: it closes none later than the one before the last. */
uint32_t lapse_hour(const struct engine_session *s, const struct table_entry *t, const struct item *item)
{
	int64_t expiry_s = lapse_allows(t) ? schema_expiry(&t->schema, item) : 0;
	int64_t hour = expiry_s / LAPSE_HOUR_S, now = s->base.now_us / HOUR_US;

	if (expiry_s == 0 || hour < now || hour > now + LAPSE_HOURS_MAX || hour < LAPSE_HOUR_MIN ||
	    hour < (int64_t)atomic_load(&s->engine->lapse.closed))
		return 0;
	return (uint32_t)hour;
}

bool lapse_is_gone(const struct engine *e, const struct table_entry *t, struct bytes value)
{
	uint32_t hour = item_lapse(value);

	if (hour == 0)
		return false;
	return hour < (t->frozen_hour != 0 ? t->frozen_hour
	                                   : atomic_load_explicit(&e->lapse.closed, memory_order_relaxed));
}

uint32_t lapse_frozen_now(const struct engine *e)
{
	uint32_t closed = atomic_load(&e->lapse.closed);

	return closed > 0 ? closed : 1; /* 0 would be a table that is not */
}

/* ---- closing ---- */

/* (X4) Hours before it may be closed. */
static uint32_t closes_by(struct engine *e, int64_t now_us)
{
	int64_t wall_us = clock_wall_us(e->options.clock);
	int64_t hour = (now_us < wall_us ? now_us : wall_us) / HOUR_US - 1;

	if (now_us < e->sweep_after_us || now_us < e->close_after_us)
		return 0;
	return hour < LAPSE_HOUR_MIN || hour > UINT32_MAX ? 0 : (uint32_t)hour;
}

static enum err_code close_run(struct turn_request *w, struct table *t)
{
	struct engine_session *s = (struct engine_session *)t;
	uint32_t               hour = closes_by(s->engine, s->base.now_us);
	struct value           closed = value_i64(hour);
	struct item            item = {0};
	struct buf             key, value;

	(void)w;
	if (hour <= atomic_load(&s->engine->lapse.closed))
		return ERR_NONE;
	s->turn->closes = hour;
	buf_init(&key, &s->turn->arena);
	buf_init(&value, &s->turn->arena);
	layout_meta(&key, META_LAPSE);
	item = item_with(&s->turn->arena, &item, BYTES(META_LAPSE_CLOSED), &closed);
	item_encode(&value, &item);
	turn_put(s->turn, buf_bytes(&key), buf_bytes(&value), TURN_SOMETHING);
	return ERR_NONE;
}

enum err_code lapse_close(struct engine *e, struct err *err)
{
	struct turn_request w = {.run = close_run};

	if (!counts_lapse_before(e->counts, closes_by(e, engine_now_us(e))))
		return ERR_NONE;
	return engine_run(e, &w, err);
}

void lapse_publish(struct engine *e, const struct turn *t)
{
	uint32_t closed = atomic_load(&e->lapse.closed);
	uint64_t rows;

	if (t->closes == 0 && t->catalog == e->catalog)
		return;
	if (t->closes > closed)
		closed = t->closes;
	rule_replace(&e->lapse, rule_make(closed, t->catalog, t->closes == 0 ? e->lapse.rule : NULL));
	atomic_store(&e->lapse.closed, closed);
	if (t->closes == 0)
		return;
	rows = counts_drop_closed(e->counts, t->catalog, closed);
	atomic_fetch_add(&e->swept_rows, rows);
	if (e->filter != NULL)
		filter_note_deleted(e->filter, rows);
}

/* ---- opening ---- */

enum err_code lapse_load(struct engine *e, struct arena *a, const struct catalog *catalog, struct err *err)
{
	const struct value *v;
	struct buf          key;
	struct item         item;
	int64_t             closed = 0;
	bool                found;

	buf_init(&key, a);
	layout_meta(&key, META_LAPSE);
	if (view_item(e, a, buf_bytes(&key), &item, &found, err) != ERR_NONE)
		return err->code;
	v = found ? item_get(&item, BYTES(META_LAPSE_CLOSED)) : NULL;
	if (found && (v == NULL || v->type != VALUE_N || !number_to_i64(&v->number, &closed) || closed <= 0 ||
	              closed > UINT32_MAX))
		return err_set(err, ERR_STORAGE,
		               "the store's own record \"" META_LAPSE "\" is damaged; run `gatehouse check`");
	rule_replace(&e->lapse, rule_make((uint32_t)closed, catalog, NULL));
	atomic_store(&e->lapse.closed, (uint32_t)closed);
	return ERR_NONE;
}
