/* Backfill: see backfill.h. A table is filled for all its new indexes and its expiry entries in one walk. */
#include "engine/backfill.h"

#include "base/hash.h"
#include "engine/layout.h"
#include "engine/row.h"
#include "engine/ticker.h"
#include "item/codec.h"

enum { FILL_ROWS_MAX = 64, FILL_BYTES_MAX = 256 * 1024 }; /* a turn */

/* How far a table's walk has come, and for which indexes it is. */
struct walk {
	struct buf at; /* the next row */
	uint64_t   target;
};

struct fill_request {
	struct turn_request base;
	uint32_t            table_id;
	struct walk        *walk;
	bool                more;
};

static bool needs_filling(const struct table_entry *t)
{
	bool needed = t->ttl_filling;

	for (uint32_t i = 0; i < t->schema.index_count; i++)
		needed = needed || t->schema.indexes[i].status == INDEX_CREATING;
	return needed;
}

/* Names what is to be filled. Where that changes under way (another index is created, time to live is
 * switched on), the walk must begin anew: rows it has passed lack the new entries. */
static uint64_t target_of(struct arena *a, const struct table_entry *t)
{
	struct buf ids;

	buf_init(&ids, a);
	for (uint32_t i = 0; i < t->schema.index_count; i++)
		if (t->schema.indexes[i].status == INDEX_CREATING)
			buf_add(&ids, &t->index_ids[i], sizeof(t->index_ids[i]));
	buf_add_byte(&ids, t->ttl_filling);
	buf_add(&ids, &t->ttl_changes, sizeof(t->ttl_changes));
	buf_add_bytes(&ids, t->schema.ttl_attribute);
	return hash_bytes(HASH_KEY_STABLE, buf_bytes(&ids));
}

static enum err_code fill_index(struct engine_session *s, struct arena *a, const struct table_entry *t,
                                uint32_t index, const struct item *item, struct err *err)
{
	const struct index_schema *schema = &t->schema.indexes[index];
	struct item                projected;
	struct buf                 key, value;
	struct bytes               old;
	bool                       found;

	if (schema->status != INDEX_CREATING || !schema_project(a, &t->schema, schema, item, &projected))
		return ERR_NONE;
	buf_init(&key, a);
	buf_init(&value, a);
	layout_index(&key, t->id, t->index_ids[index], &schema->keys, &t->schema.keys, item);
	item_encode(&value, &projected);
	if (view_get(s, a, buf_bytes(&key), &old, &found, err) != ERR_NONE)
		return err->code;
	if (!found)
		turn_put(s->turn, buf_bytes(&key), buf_bytes(&value), false, 0);
	return ERR_NONE;
}

static enum err_code fill_row(struct engine_session *s, struct arena *a, const struct table_entry *t,
                              struct bytes row_key, struct bytes value, struct err *err)
{
	struct item item;
	struct buf  key;
	int64_t     expiry;

	if (item_decode(a, value, &item, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < t->schema.index_count; i++)
		if (fill_index(s, a, t, i, &item, err) != ERR_NONE)
			return err->code;
	expiry = t->ttl_filling ? schema_expiry(&t->schema, &item) : 0;
	if (expiry == 0)
		return ERR_NONE;
	buf_init(&key, a);
	layout_expiry(&key, expiry, row_key);
	turn_put(s->turn, buf_bytes(&key), (struct bytes){"", 0}, false, 0);
	return ERR_NONE;
}

/* All rows were seen: the indexes are complete. */
static void finish(struct engine_session *s, struct arena *a, const struct table_entry *t)
{
	struct table_entry *e = table_entry_make(&t->schema);

	e->id = t->id;
	e->next_index_id = t->next_index_id;
	e->ttl_changes = t->ttl_changes;
	memcpy(e->index_ids, t->index_ids, sizeof(e->index_ids));
	for (uint32_t i = 0; i < e->schema.index_count; i++)
		e->schema.indexes[i].status = INDEX_ACTIVE;
	catalog_save(s, a, e);
}

static enum err_code fill_turn(struct engine_session *s, struct arena *a, struct fill_request *q,
                               struct err *err)
{
	const struct table_entry *t = catalog_find_id(s->turn->catalog, q->table_id);
	struct view_cursor        cursor;
	struct bytes              key, value, low;
	struct buf                prefix;
	unsigned                  rows = 0;
	size_t                    bytes = 0;

	if (t == NULL || !needs_filling(t))
		return ERR_NONE; /* deleted or changed meanwhile */
	if (q->walk->target != target_of(a, t)) {
		q->walk->target = target_of(a, t);
		buf_reset(&q->walk->at);
	}
	buf_init(&prefix, a);
	layout_table_prefix(&prefix, t->id);
	low = q->walk->at.len == 0 ? buf_bytes(&prefix) : arena_copy(a, buf_bytes(&q->walk->at));
	view_cursor_open(&cursor, s, NULL, a, low, layout_after(a, buf_bytes(&prefix)), false);
	err->code = ERR_NONE;
	while (err->code == ERR_NONE && rows < FILL_ROWS_MAX && bytes < FILL_BYTES_MAX &&
	       view_cursor_next(&cursor, &key, &value)) {
		struct bytes row_key = arena_copy(a, key);

		rows++;
		bytes += value.len;
		buf_reset(&q->walk->at);
		buf_add_bytes(&q->walk->at, row_key);
		buf_add_byte(&q->walk->at, 0);
		fill_row(s, a, t, row_key, arena_copy(a, value), err);
	}
	if (err->code == ERR_NONE)
		view_cursor_check(&cursor, err);
	view_cursor_close(&cursor);
	q->more = rows == FILL_ROWS_MAX || bytes >= FILL_BYTES_MAX;
	if (err->code == ERR_NONE && !q->more)
		finish(s, a, t);
	return err->code;
}

static enum err_code fill_request_run(struct turn_request *w, struct table *t)
{
	struct arena  a;
	enum err_code rc;

	arena_init(&a);
	rc = fill_turn((struct engine_session *)t, &a, (struct fill_request *)w, &w->err);
	arena_release(&a);
	return rc;
}

static enum err_code fill_table(struct engine *e, uint32_t table_id, struct err *err)
{
	struct fill_request q;
	struct walk         walk = {0};

	buf_init(&walk.at, NULL);
	err->code = ERR_NONE;
	do {
		q = (struct fill_request){
		        .base = {.run = fill_request_run}, .table_id = table_id, .walk = &walk};
		engine_run(e, &q.base, err);
	} while (err->code == ERR_NONE && q.more && ticker_goes_on(e->ticker));
	buf_release(&walk.at);
	return err->code;
}

enum err_code backfill_run(struct engine *e, struct err *err)
{
	struct engine_session r;

	err->code = ERR_NONE;
	engine_session_init(&r, e);
	for (uint32_t i = 0; i < r.catalog->count && err->code == ERR_NONE; i++)
		if (needs_filling(r.catalog->entries[i]) && ticker_goes_on(e->ticker))
			fill_table(e, r.catalog->entries[i]->id, err);
	engine_session_release(&r);
	return err->code;
}
