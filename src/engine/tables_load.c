/* Tables load: reads the catalog and the counts when the engine opens. Older programs stored counts now and then, and after a
 * kill they were wrong for good: the first opening by this one counts everything once. */
#include "engine/batch.h"
#include "engine/layout.h"
#include "engine/tables.h"
#include "engine/view.h"
#include "item/codec.h"

#define META_COUNTS "counts" /* an empty item: counts are stored with each commit */

static enum err_code load_table(struct bytes value, struct arena *a, struct catalog **catalog,
                                struct err *err)
{
	struct catalog     *old = *catalog;
	struct table_entry *e;
	struct item         item;

	if (item_decode(a, arena_copy(a, value), &item, err) != ERR_NONE ||
	    table_entry_from_item(&item, &e, err) != ERR_NONE)
		return err->code;
	*catalog = catalog_with(old, e);
	catalog_release(old);
	return ERR_NONE;
}

/* The item stored under the key; *found says whether there is one. */
static enum err_code load_item(struct engine *e, struct arena *a, struct bytes key, struct item *out,
                               bool *found, struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct bytes          value;

	if (view_get_at(&s, NULL, a, key, &value, found, err) != ERR_NONE)
		return err->code;
	return *found ? item_decode(a, value, out, err) : ERR_NONE;
}

/* An index that was deleted goes out of the counts with the next commit; there may have been none. */
static enum err_code load_counts(struct engine *e, struct arena *a, const struct table_entry *t,
                                 struct err *err)
{
	struct buf  key;
	struct item item;
	bool        found;

	buf_init(&key, a);
	layout_counts(&key, t->id);
	if (load_item(e, a, buf_bytes(&key), &item, &found, err) != ERR_NONE)
		return err->code;
	if (found)
		counts_load(e->counts, t->id, &item);
	for (uint16_t id = INDEX_ID_FIRST; id < t->next_index_id; id++)
		if (!table_entry_has_index(t, id))
			counts_drop_index(e->counts, t->id, id);
	return ERR_NONE;
}

static void count_key(struct counts *counts, struct bytes key, struct bytes value)
{
	uint32_t table_id;
	uint16_t index_id;

	if (layout_parse_owner(key, &table_id, &index_id))
		counts_add(counts, table_id, index_id, (struct count){1, (int64_t)value.len});
}

enum err_code tables_count(struct engine *e, struct rocks_snapshot *snapshot, struct counts *out,
                           struct err *err)
{
	const char            kinds[] = {KIND_ROW, KIND_INDEX};
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct bytes          key, value;
	struct arena          a;

	arena_init(&a);
	err->code = ERR_NONE;
	for (size_t i = 0; i < sizeof(kinds) && err->code == ERR_NONE; i++) {
		struct bytes       low = {&kinds[i], 1};
		struct view_cursor c;

		view_cursor_open(&c, &s, snapshot, &a, low, layout_after(&a, low), false);
		while (view_cursor_next(&c, &key, &value))
			count_key(out, key, value);
		view_cursor_check(&c, err);
		view_cursor_close(&c);
	}
	arena_release(&a);
	return err->code;
}

/* From what was stored, if it was stored with each commit. */
static enum err_code load_all_counts(struct engine *e, struct arena *a, const struct catalog *catalog,
                                     struct err *err)
{
	struct buf  key;
	struct item item;

	buf_init(&key, a);
	layout_meta(&key, META_COUNTS);
	if (load_item(e, a, buf_bytes(&key), &item, &e->counts_noted, err) != ERR_NONE)
		return err->code;
	if (!e->counts_noted)
		return tables_count(e, NULL, e->counts, err);
	for (uint32_t i = 0; i < catalog->count; i++)
		if (load_counts(e, a, catalog->entries[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

void tables_add_recount(struct buf *ops)
{
	struct buf key;

	buf_init(&key, NULL);
	layout_meta(&key, META_COUNTS);
	op_encode(ops, &(struct op){.kind = OP_DELETE, .key = buf_bytes(&key)});
	buf_release(&key);
}

void tables_note_counts(struct turn *t)
{
	struct buf  key, value;
	struct item item = {0};

	buf_init(&key, &t->arena);
	buf_init(&value, &t->arena);
	layout_meta(&key, META_COUNTS);
	item_encode(&value, &item);
	turn_put(t, buf_bytes(&key), buf_bytes(&value), true, 0);
}

static enum err_code load_next_id(struct engine *e, struct arena *a, struct catalog *catalog, struct err *err)
{
	struct buf          key;
	struct item         item;
	const struct value *next;
	int64_t             id;
	bool                found;

	buf_init(&key, a);
	layout_meta(&key, META_NEXT_TABLE);
	if (load_item(e, a, buf_bytes(&key), &item, &found, err) != ERR_NONE)
		return err->code;
	next = found ? item_get(&item, BYTES("next")) : NULL;
	if (next != NULL && next->type == VALUE_N && number_to_i64(&next->number, &id) &&
	    id > catalog->next_table_id)
		catalog->next_table_id = (uint32_t)id;
	return ERR_NONE;
}

static enum err_code load_all(struct engine *e, struct arena *a, struct catalog **catalog, struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	const char            kind[1] = {KIND_TABLE};
	struct bytes          low = {kind, 1}, high = layout_after(a, low), key, value;
	struct view_cursor    c;

	view_cursor_open(&c, &s, NULL, a, low, high, false);
	err->code = ERR_NONE;
	while (err->code == ERR_NONE && view_cursor_next(&c, &key, &value))
		load_table(value, a, catalog, err);
	if (err->code == ERR_NONE)
		view_cursor_check(&c, err);
	view_cursor_close(&c);
	if (err->code != ERR_NONE || load_all_counts(e, a, *catalog, err) != ERR_NONE)
		return err->code;
	return load_next_id(e, a, *catalog, err);
}

enum err_code tables_load(struct engine *e, struct err *err)
{
	struct catalog *empty = catalog_make_empty(), *catalog = catalog_with(empty, batch_tokens_table());
	struct arena    a;
	enum err_code   rc;

	catalog_release(empty);
	arena_init(&a);
	rc = load_all(e, &a, &catalog, err);
	arena_release(&a);
	e->catalog = catalog;
	return rc;
}
