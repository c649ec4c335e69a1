/* Tables load: reads the catalog and the counts when the engine opens. */
#include "engine/batch.h"
#include "engine/layout.h"
#include "engine/tables.h"
#include "engine/view.h"
#include "item/codec.h"

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

static enum err_code load_counts(struct engine *e, struct arena *a, uint32_t table_id, struct err *err)
{
	struct buf  key;
	struct item item;
	bool        found;

	buf_init(&key, a);
	layout_counts(&key, table_id);
	if (load_item(e, a, buf_bytes(&key), &item, &found, err) != ERR_NONE)
		return err->code;
	if (found)
		counts_load(e->counts, table_id, &item);
	return ERR_NONE;
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
	for (uint32_t i = 0; i < (*catalog)->count && err->code == ERR_NONE; i++)
		load_counts(e, a, (*catalog)->entries[i]->id, err);
	return err->code != ERR_NONE ? err->code : load_next_id(e, a, *catalog, err);
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
