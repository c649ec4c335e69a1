/* Verify: compares rows, index entries and expiry entries of one snapshot. (I1) and (I2) of row.c, checked
 * from outside the code that keeps them. */
#include "engine/layout.h"
#include "engine/state.h"
#include "item/codec.h"

struct verify {
	struct engine         *engine;
	struct rocks_snapshot *snapshot;
	const struct catalog  *catalog;
	struct arena           arena; /* of the row at hand */
	struct err            *err;
};

static enum err_code differ(struct verify *v, const struct table_entry *t, const char *what)
{
	return err_set(v->err, ERR_STORAGE, "table %.*s: %s", BYTES_ARG(t->schema.name), what);
}

static enum err_code fetch(struct verify *v, struct bytes key, struct bytes *value, bool *found)
{
	struct buf out;

	*value = (struct bytes){0};
	buf_init(&out, &v->arena);
	if (rocks_get(v->engine->rocks, v->snapshot, key, &out, found, v->err) != ERR_NONE)
		return v->err->code;
	*value = buf_bytes(&out);
	return ERR_NONE;
}

/* The entry that the item should have in the index. */
static bool expected_entry(struct verify *v, const struct table_entry *t, uint32_t index,
                           const struct item *item, struct buf *key, struct buf *value)
{
	const struct index_schema *schema = &t->schema.indexes[index];
	struct item                projected;

	if (!schema_project(&v->arena, &t->schema, schema, item, &projected))
		return false;
	buf_init(key, &v->arena);
	buf_init(value, &v->arena);
	layout_index(key, t->id, t->index_ids[index], &schema->keys, &t->schema.keys, item);
	item_encode(value, &projected);
	return true;
}

static enum err_code verify_entries_of(struct verify *v, const struct table_entry *t, const struct item *item)
{
	for (uint32_t i = 0; i < t->schema.index_count; i++) {
		struct buf   key, value;
		struct bytes stored;
		bool         found;

		if (t->schema.indexes[i].status != INDEX_ACTIVE ||
		    !expected_entry(v, t, i, item, &key, &value))
			continue;
		if (fetch(v, buf_bytes(&key), &stored, &found) != ERR_NONE)
			return v->err->code;
		if (!found)
			return differ(v, t, "a row has no entry in an index");
		if (!bytes_equal(stored, buf_bytes(&value)))
			return differ(v, t, "an index entry is not what its row projects");
	}
	return ERR_NONE;
}

static enum err_code verify_expiry_of(struct verify *v, const struct table_entry *t, struct bytes row_key,
                                      const struct item *item)
{
	int64_t      expiry = t->ttl_filling ? 0 : schema_expiry(&t->schema, item);
	struct buf   key;
	struct bytes stored;
	bool         found;

	if (expiry == 0)
		return ERR_NONE;
	buf_init(&key, &v->arena);
	layout_expiry(&key, expiry, row_key);
	if (fetch(v, buf_bytes(&key), &stored, &found) != ERR_NONE)
		return v->err->code;
	return found ? ERR_NONE : differ(v, t, "a row that expires has no expiry entry");
}

/* Only the table's own keys must fit: a row older than an index may hold anything under the index's names,
 * and is then not in the index. */
static enum err_code verify_row(struct verify *v, const struct table_entry *t, struct bytes key,
                                struct bytes value)
{
	struct item item;
	struct buf  again;

	if (item_decode(&v->arena, value, &item, v->err) != ERR_NONE ||
	    schema_check_key_types(&t->schema, &item, v->err) != ERR_NONE)
		return v->err->code;
	buf_init(&again, &v->arena);
	layout_row(&again, t->id, &t->schema.keys, &item);
	if (!bytes_equal(buf_bytes(&again), key))
		return differ(v, t, "a row is not where its key says");
	if (verify_entries_of(v, t, &item) != ERR_NONE)
		return v->err->code;
	return verify_expiry_of(v, t, key, &item);
}

/* The other way: every index entry has its row. */
static enum err_code verify_entry(struct verify *v, const struct table_entry *t, uint32_t index,
                                  struct bytes key, struct bytes value)
{
	struct item  projected, item;
	struct buf   row_key, expected_key, expected_value;
	struct bytes row;
	bool         found;

	if (item_decode(&v->arena, value, &projected, v->err) != ERR_NONE)
		return v->err->code;
	buf_init(&row_key, &v->arena);
	layout_row(&row_key, t->id, &t->schema.keys, &projected);
	if (fetch(v, buf_bytes(&row_key), &row, &found) != ERR_NONE)
		return v->err->code;
	if (!found)
		return differ(v, t, "an index entry has no row");
	if (item_decode(&v->arena, row, &item, v->err) != ERR_NONE)
		return v->err->code;
	if (!expected_entry(v, t, index, &item, &expected_key, &expected_value) ||
	    !bytes_equal(buf_bytes(&expected_key), key))
		return differ(v, t, "an index entry does not belong to its row");
	return ERR_NONE;
}

/* Walks a prefix; index < 0 means the rows themselves. */
static enum err_code verify_range(struct verify *v, const struct table_entry *t, int index, struct bytes low,
                                  struct bytes high)
{
	struct rocks_cursor *c = rocks_cursor_open(v->engine->rocks, v->snapshot, low, high, false);
	struct bytes         key, value;

	v->err->code = ERR_NONE;
	while (v->err->code == ERR_NONE && rocks_cursor_at(c, &key, &value)) {
		if (index < 0)
			verify_row(v, t, key, value);
		else
			verify_entry(v, t, (uint32_t)index, key, value);
		arena_reset(&v->arena);
		rocks_cursor_next(c);
	}
	if (v->err->code == ERR_NONE)
		rocks_cursor_check(c, v->err);
	rocks_cursor_close(c);
	return v->err->code;
}

static enum err_code verify_table(struct verify *v, const struct table_entry *t, struct arena *a)
{
	struct buf prefix;

	buf_init(&prefix, a);
	layout_table_prefix(&prefix, t->id);
	if (verify_range(v, t, -1, buf_bytes(&prefix), layout_after(a, buf_bytes(&prefix))) != ERR_NONE)
		return v->err->code;
	for (uint32_t i = 0; i < t->schema.index_count; i++) {
		buf_init(&prefix, a);
		layout_index_prefix(&prefix, t->id, t->index_ids[i]);
		if (verify_range(v, t, (int)i, buf_bytes(&prefix), layout_after(a, buf_bytes(&prefix))) !=
		    ERR_NONE)
			return v->err->code;
	}
	return ERR_NONE;
}

enum err_code engine_verify(struct engine *e, struct err *err)
{
	struct engine_session r;
	struct verify         v = {.engine = e, .err = err};
	struct arena          a;

	engine_session_init(&r, e);
	arena_init(&a);
	arena_init(&v.arena);
	v.catalog = r.catalog;
	v.snapshot = rocks_snapshot_open(e->rocks);
	err->code = ERR_NONE;
	for (uint32_t i = 0; i < r.catalog->count && err->code == ERR_NONE; i++)
		verify_table(&v, r.catalog->entries[i], &a);
	rocks_snapshot_close(e->rocks, v.snapshot);
	arena_release(&v.arena);
	arena_release(&a);
	engine_session_release(&r);
	return err->code;
}
