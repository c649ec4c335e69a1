/* Verify: see verify.h. (I1) and (I2) of row.c are checked from outside the code that keeps them. */
#include "engine/verify.h"

#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/row.h"
#include "engine/turn.h"
#include "item/codec.h"

/* ---- rows and entries ---- */

struct verify {
	struct engine_session      session;
	struct rocks_snapshot     *snapshot;
	const struct catalog      *catalog;
	const struct verify_watch *watch; /* NULL: the first difference ends it */
	struct verify_counts      *counts;
	const struct table_entry  *table; /* of the key at hand, most often also of the next */
	struct arena               arena; /* of the key at hand */
	struct err                *err;
};

static enum err_code differ(struct verify *v, const struct table_entry *t, const char *what)
{
	return err_set(v->err, ERR_STORAGE, "table %.*s: %s", BYTES_ARG(t->schema.name), what);
}

static enum err_code differ_index(struct verify *v, const struct table_entry *t, uint32_t index,
                                  const char *what)
{
	return err_set(v->err, ERR_STORAGE, "table %.*s, index %.*s: %s", BYTES_ARG(t->schema.name),
	               BYTES_ARG(t->schema.indexes[index].name), what);
}

/* v->err describes a difference. A caller that mends gets the change that removes it, and checking goes on. */
static enum err_code mendable(struct verify *v, enum op_kind kind, struct bytes key, struct bytes value)
{
	if (v->watch == NULL || v->watch->mend == NULL)
		return ERR_STORAGE;
	v->counts->differences++;
	v->watch->differ(v->watch->ctx, v->err->text);
	v->watch->mend(v->watch->ctx, &(struct op){kind, key, value});
	return ERR_NONE;
}

static enum err_code delete (struct verify *v, struct bytes key) {
	return mendable(v, OP_DELETE, key, (struct bytes){0});
}

static void tally(struct verify *v, struct bytes key, struct bytes value)
{
	if (v->watch != NULL && v->watch->tally != NULL)
		counts_add_stored(v->watch->tally, key, value);
}

static enum err_code fetch(struct verify *v, struct bytes key, struct bytes *value, bool *found)
{
	*value = (struct bytes){0};
	return view_get_at(&v->session, v->snapshot, &v->arena, key, value, found, v->err);
}

static enum err_code verify_entries_of(struct verify *v, const struct table_entry *t, const struct item *item,
                                       uint32_t lapse)
{
	for (uint32_t i = 0; i < t->schema.index_count; i++) {
		struct row_entry expected = row_entry(&v->arena, t, i, item, lapse);
		struct bytes     stored;
		bool             found;

		if (t->schema.indexes[i].status != INDEX_ACTIVE || !expected.present)
			continue;
		if (fetch(v, buf_bytes(&expected.key), &stored, &found) != ERR_NONE)
			return v->err->code;
		if (found && bytes_equal(stored, buf_bytes(&expected.value)))
			continue;
		differ_index(v, t, i, found ? "an entry is not what its row projects" : "a row has no entry");
		if (mendable(v, OP_PUT, buf_bytes(&expected.key), buf_bytes(&expected.value)) != ERR_NONE)
			return v->err->code;
	}
	return ERR_NONE;
}

static enum err_code verify_expiry_of(struct verify *v, const struct table_entry *t, struct bytes row_key,
                                      const struct item *item, uint32_t lapse)
{
	int64_t      expiry = t->ttl_filling || lapse != 0 ? 0 : schema_expiry(&t->schema, item);
	struct buf   key;
	struct bytes stored;
	bool         found;

	if (lapse != 0 && t->frozen_hour == 0 &&
	    (!lapse_allows(t) || schema_expiry(&t->schema, item) / LAPSE_HOUR_S != lapse))
		return differ(v, t, "a row lapses at another time than it expires");
	if (expiry == 0)
		return ERR_NONE;
	buf_init(&key, &v->arena);
	layout_expiry(&key, expiry, row_key);
	if (fetch(v, buf_bytes(&key), &stored, &found) != ERR_NONE)
		return v->err->code;
	if (found)
		return ERR_NONE;
	differ(v, t, "a row that expires has no expiry entry");
	return mendable(v, OP_PUT, buf_bytes(&key), BYTES(""));
}

/* NULL if there is none. */
static const struct table_entry *table_of(struct verify *v, uint32_t id)
{
	if (v->table == NULL || v->table->id != id)
		v->table = catalog_find_id(v->catalog, id);
	return v->table;
}

/* Only the table's own keys must fit: a row older than an index may hold anything under the index's names,
 * and is then not in the index. */
static enum err_code verify_row(struct verify *v, struct bytes key, struct bytes value)
{
	const struct table_entry *t = NULL;
	struct item               item;
	struct buf                again;
	uint32_t                  table_id;
	uint16_t                  index_id;

	if (layout_parse_owner(key, &table_id, &index_id))
		t = table_of(v, table_id);
	if (t != NULL && lapse_is_gone(v->session.engine, t, value))
		return ERR_NONE; /* (X1) */
	v->counts->rows++;
	tally(v, key, value);
	if (t == NULL) {
		err_set(v->err, ERR_STORAGE, "a row belongs to no table");
		return delete (v, key);
	}
	if (item_decode(&v->arena, value, &item, v->err) != ERR_NONE ||
	    schema_check_key_types(&t->schema, &item, v->err) != ERR_NONE)
		return differ(v, t, "a row cannot be read");
	buf_init(&again, &v->arena);
	layout_row(&again, t->id, &t->schema.keys, &item);
	if (!bytes_equal(buf_bytes(&again), key))
		return differ(v, t, "a row is not where its key says");
	if (verify_entries_of(v, t, &item, item_lapse(value)) != ERR_NONE)
		return v->err->code;
	return verify_expiry_of(v, t, key, &item, item_lapse(value));
}

/* The entry's row; found is false if there is none. */
static enum err_code fetch_row(struct verify *v, const struct table_entry *t, struct bytes row_key,
                               struct item *item, bool *found)
{
	struct bytes row;

	if (fetch(v, row_key, &row, found) != ERR_NONE)
		return v->err->code;
	*found = *found && !lapse_is_gone(v->session.engine, t, row);
	if (*found && item_decode(&v->arena, row, item, v->err) != ERR_NONE)
		return differ(v, t, "a row cannot be read");
	return ERR_NONE;
}

/* The other way: every index entry has its row. */
static enum err_code verify_entry(struct verify *v, const struct table_entry *t, uint32_t index,
                                  struct bytes key, struct bytes value)
{
	struct item      projected, item;
	struct row_entry expected;
	struct buf       row_key;
	bool             found;

	if (item_decode(&v->arena, value, &projected, v->err) != ERR_NONE ||
	    schema_check_key_types(&t->schema, &projected, v->err) != ERR_NONE) {
		differ_index(v, t, index, "an entry cannot be read");
		return delete (v, key);
	}
	buf_init(&row_key, &v->arena);
	layout_row(&row_key, t->id, &t->schema.keys, &projected);
	if (fetch_row(v, t, buf_bytes(&row_key), &item, &found) != ERR_NONE)
		return v->err->code;
	expected = row_entry(&v->arena, t, index, found ? &item : NULL, 0);
	if ((expected.present || expected.too_long) && bytes_equal(buf_bytes(&expected.key), key))
		return ERR_NONE;
	differ_index(v, t, index, found ? "an entry does not belong to its row" : "an entry has no row");
	return delete (v, key);
}

static enum err_code verify_index(struct verify *v, struct bytes key, struct bytes value)
{
	const struct table_entry *t = NULL;
	uint32_t                  table_id;
	uint16_t                  index_id;

	if (layout_parse_owner(key, &table_id, &index_id))
		t = table_of(v, table_id);
	if (t != NULL && lapse_is_gone(v->session.engine, t, value))
		return ERR_NONE; /* (X1) */
	v->counts->index_entries++;
	tally(v, key, value);
	for (uint32_t i = 0; t != NULL && i < t->schema.index_count; i++)
		if (t->index_ids[i] == index_id)
			return verify_entry(v, t, i, key, value);
	err_set(v->err, ERR_STORAGE, "an index entry belongs to no index");
	return delete (v, key);
}

/* One that does not belong to its row any more is no damage: switching time to live off leaves them behind,
 * and the sweeper looks at the row before it removes anything. */
static enum err_code verify_expiry(struct verify *v, struct bytes key, struct bytes value)
{
	const struct table_entry *t;
	struct bytes              row_key;
	struct buf                again;
	struct item               item;
	int64_t                   bucket_s, expiry = 0;
	uint32_t                  table_id;
	uint16_t                  index_id;
	bool                      found = false;

	v->counts->expiry_entries++;
	if (!layout_expiry_parse(&v->arena, key, &bucket_s, &row_key) ||
	    !layout_parse_owner(row_key, &table_id, &index_id) || value.len > 0) {
		err_set(v->err, ERR_STORAGE, "an expiry entry cannot be read");
		return delete (v, key);
	}
	t = table_of(v, table_id);
	if (t != NULL && fetch_row(v, t, row_key, &item, &found) != ERR_NONE)
		return v->err->code;
	if (found)
		expiry = schema_expiry(&t->schema, &item);
	buf_init(&again, &v->arena);
	if (expiry != 0)
		layout_expiry(&again, expiry, row_key);
	v->counts->leftovers += !bytes_equal(buf_bytes(&again), key);
	return ERR_NONE;
}

/* False if the difference ends it. */
static bool pass_over(struct verify *v)
{
	if (v->watch == NULL)
		return false;
	v->counts->differences++;
	v->watch->differ(v->watch->ctx, v->err->text);
	return true;
}

/* All keys of a kind. */
static enum err_code walk(struct verify *v, char kind,
                          enum err_code (*one)(struct verify *v, struct bytes key, struct bytes value))
{
	const char         low[1] = {kind}, high[1] = {(char)(kind + 1)};
	struct view_cursor c;
	enum err_code      rc = ERR_NONE;
	struct arena       a;
	struct bytes       key, value;

	arena_init(&a);
	view_cursor_open(&c, &v->session, v->snapshot, &a,
	                 &(struct waiting_range){.low = {low, 1}, .high = {high, 1}});
	while (rc == ERR_NONE && view_cursor_next(&c, &key, &value)) {
		rc = one(v, key, value);
		if (rc != ERR_NONE && pass_over(v))
			rc = ERR_NONE;
		if (v->watch != NULL)
			v->watch->step(v->watch->ctx, v->counts);
		arena_reset(&v->arena);
	}
	if (rc == ERR_NONE)
		rc = view_cursor_check(&c, v->err);
	view_cursor_close(&c);
	arena_release(&a);
	return rc;
}

enum err_code verify_all(struct engine *e, const struct catalog *catalog, struct rocks_snapshot *snapshot,
                         const struct verify_watch *watch, struct verify_counts *counts, struct err *err)
{
	struct verify v = {.session = {.engine = e, .turn = e->unwritten},
	                   .snapshot = snapshot,
	                   .catalog = catalog,
	                   .watch = watch,
	                   .counts = counts,
	                   .err = err};
	enum err_code rc;

	arena_init(&v.arena);
	rc = walk(&v, KIND_ROW, verify_row);
	if (rc == ERR_NONE)
		rc = walk(&v, KIND_INDEX, verify_index);
	if (rc == ERR_NONE)
		rc = walk(&v, KIND_EXPIRY, verify_expiry);
	arena_release(&v.arena);
	return rc;
}

enum err_code engine_verify(struct engine *e, struct err *err)
{
	struct verify_counts   counts = {0};
	struct rocks_snapshot *snapshot;
	struct engine_session  r;
	enum err_code          rc;

	engine_session_init(&r, e);
	rc = view_snapshot_open(e, &snapshot, err);
	if (rc == ERR_NONE) {
		rc = verify_all(e, r.catalog, snapshot, NULL, &counts, err);
		rocks_snapshot_close(e->rocks, snapshot);
	}
	engine_session_release(&r);
	return rc;
}

/* ---- counts ---- */

/* What they say of a part of a table: false if it is not what there is. */
static bool count_agrees(const struct verify_tally *t, const struct table_entry *table, uint16_t index_id,
                         struct bytes index, struct err *err)
{
	struct count is = counts_get(t->is, table->id, index_id);
	struct count said = counts_get(t->said, table->id, index_id);
	bool         items = is.items != said.items;

	if (!items && is.bytes == said.bytes)
		return true;
	err_set(err, ERR_STORAGE, "table %.*s%s%.*s: %lld %s are there, but %lld are counted",
	        BYTES_ARG(table->schema.name), index.len > 0 ? ", index " : "", BYTES_ARG(index),
	        (long long)(items ? is.items : is.bytes), items ? "items" : "bytes",
	        (long long)(items ? said.items : said.bytes));
	return false;
}

unsigned verify_tally(const struct verify_tally *t, struct err *err)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < t->catalog->count; i++) {
		const struct table_entry *table = t->catalog->entries[i];

		for (uint32_t index = 0; index <= table->schema.index_count; index++) {
			bool is_table = index == 0;

			if (count_agrees(t, table, is_table ? 0 : table->index_ids[index - 1],
			                 is_table ? (struct bytes){"", 0}
			                          : table->schema.indexes[index - 1].name,
			                 err))
				continue;
			wrong++;
			if (t->differ != NULL)
				t->differ(t->ctx, err->text);
		}
	}
	return wrong;
}

enum err_code engine_verify_counts(struct engine *e, struct err *err)
{
	struct counts         *found = counts_open();
	struct engine_session  r;
	struct rocks_snapshot *snapshot;
	enum err_code          rc;

	engine_session_init(&r, e);
	rc = view_snapshot_open(e, &snapshot, err);
	if (rc == ERR_NONE) {
		rc = counts_all(e, snapshot, found, err);
		rocks_snapshot_close(e->rocks, snapshot);
	}
	if (rc == ERR_NONE &&
	    verify_tally(&(struct verify_tally){.is = found, .said = e->counts, .catalog = r.catalog}, err) >
	            0)
		rc = err->code;
	engine_session_release(&r);
	counts_close(found);
	return rc;
}
