/* Check: see check.h. An engine without a writer and a ticker: there is no thread that could change anything.
 * (I1) and (I2) of row.c are checked from outside the code that keeps them. */
#include "engine/check.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/seal.h"
#include "engine/disk.h"
#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/manifest.h"
#include "engine/schema_item.h"
#include "engine/turn.h"
#include "engine/view.h"
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

static enum err_code fetch(struct verify *v, struct bytes key, struct bytes *value, bool *found)
{
	*value = (struct bytes){0};
	return view_get_at(&v->session, v->snapshot, &v->arena, key, value, found, v->err);
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
		if (found && bytes_equal(stored, buf_bytes(&value)))
			continue;
		differ_index(v, t, i, found ? "an entry is not what its row projects" : "a row has no entry");
		if (mendable(v, OP_PUT, buf_bytes(&key), buf_bytes(&value)) != ERR_NONE)
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
	if (verify_entries_of(v, t, &item) != ERR_NONE)
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
	struct item projected, item;
	struct buf  row_key, expected_key, expected_value;
	bool        found;

	if (item_decode(&v->arena, value, &projected, v->err) != ERR_NONE ||
	    schema_check_key_types(&t->schema, &projected, v->err) != ERR_NONE) {
		differ_index(v, t, index, "an entry cannot be read");
		return delete (v, key);
	}
	buf_init(&row_key, &v->arena);
	layout_row(&row_key, t->id, &t->schema.keys, &projected);
	if (fetch_row(v, t, buf_bytes(&row_key), &item, &found) != ERR_NONE)
		return v->err->code;
	if (found && expected_entry(v, t, index, &item, &expected_key, &expected_value) &&
	    bytes_equal(buf_bytes(&expected_key), key))
		return ERR_NONE;
	differ_index(v, t, index, found ? "an entry does not belong to its row" : "an entry has no row");
	return delete (v, key);
}

static enum err_code verify_index(struct verify *v, struct bytes key, struct bytes value)
{
	const struct table_entry *t = NULL;
	uint32_t                  table_id;
	uint16_t                  index_id;

	v->counts->index_entries++;
	if (layout_parse_owner(key, &table_id, &index_id))
		t = table_of(v, table_id);
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
	view_cursor_open(&c, &v->session, v->snapshot, &a, (struct bytes){low, 1}, (struct bytes){high, 1},
	                 false);
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

enum err_code engine_verify_counts(struct engine *e, struct err *err)
{
	struct counts         *found = counts_open();
	struct rocks_snapshot *snapshot;
	enum err_code          rc = view_snapshot_open(e, &snapshot, err);

	if (rc == ERR_NONE) {
		rc = counts_all(e, snapshot, found, err);
		rocks_snapshot_close(e->rocks, snapshot);
	}
	for (size_t i = 0; rc == ERR_NONE && i < found->len; i++) {
		uint32_t table_id = found->slots[i].table_id;
		int64_t  is = counts_get(found, table_id, 0).items,
		        said = counts_get(e->counts, table_id, 0).items;

		if (is != said)
			rc = err_set(err, ERR_STORAGE, "table %u has %lld rows, but %lld are counted",
			             table_id, (long long)is, (long long)said);
	}
	if (rc == ERR_NONE && counts_rows(found) != counts_rows(e->counts))
		rc = err_set(err, ERR_STORAGE, "there are %llu rows, but %llu are counted",
		             (unsigned long long)counts_rows(found),
		             (unsigned long long)counts_rows(e->counts));
	counts_close(found);
	return rc;
}

/* ---- a directory ---- */

struct check {
	const char               *store; /* its directory */
	struct engine            *engine;
	const struct check_watch *watch;
	struct check_found       *found;
	uint64_t                  bytes_all, keys_all; /* files, and an estimate */
};

static unsigned percent(uint64_t part, uint64_t whole, unsigned most)
{
	uint64_t share = whole == 0 ? 0 : part * 100 / whole;

	return share < most ? (unsigned)share : most;
}

static void add_bytes(void *ctx, const char *name, uint64_t bytes)
{
	struct check *c = ctx;

	(void)name;
	c->bytes_all += bytes;
}

/* `name` begins with a slash. */
static void verify_file(void *ctx, const char *name, uint64_t bytes)
{
	struct check *c = ctx;
	struct err    err;
	char          path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", c->store, name);
	disk_forget(path);
	c->found->files++;
	c->found->bytes += bytes;
	if (rocks_file_verify(path, &err) != ERR_NONE) {
		c->found->damaged_files++;
		c->watch->problem(c->watch->ctx, err.text);
	}
	c->watch->progress(c->watch->ctx, CHECK_BLOCKS, percent(c->found->bytes, c->bytes_all, 100),
	                   c->found);
}

static void check_blocks(struct check *c)
{
	c->watch->progress(c->watch->ctx, CHECK_BLOCKS, 0, c->found);
	rocks_each_file(c->engine->rocks, add_bytes, c);
	rocks_each_file(c->engine->rocks, verify_file, c);
	c->watch->progress(c->watch->ctx, CHECK_BLOCKS, 100, c->found);
}

static void on_bad_seal(void *ctx, const char *text)
{
	struct check *c = ctx;

	c->found->damaged_seals++;
	c->watch->problem(c->watch->ctx, text);
}

/* The store could not be opened. If a file of it is damaged, that is why: the store's own message may name another
 * file, whose reading led it there. Not while someone has the directory open, and is writing files. */
static bool find_damaged(struct check *c, const char *path)
{
	DIR           *dir = opendir(c->store);
	struct dirent *d;
	struct err     err;
	char           name[PATH_MAX];
	int            lock_fd;

	if (dir == NULL)
		return false;
	if (disk_claim_existing(path, &lock_fd, &err) == ERR_NONE) {
		seal_check(path, on_bad_seal, c, &c->found->sealed, &err);
		while ((d = readdir(dir)) != NULL) {
			snprintf(name, sizeof(name), "/%s", d->d_name);
			if (strlen(name) > 4 && strcmp(name + strlen(name) - 4, ".sst") == 0)
				verify_file(c, name, 0);
		}
		close(lock_fd);
	}
	closedir(dir);
	return c->found->damaged_files > 0;
}

static void on_step(void *ctx, const struct verify_counts *n)
{
	struct check *c = ctx;

	c->watch->progress(c->watch->ctx, CHECK_ROWS,
	                   percent(n->rows + n->index_entries + n->expiry_entries, c->keys_all, 99),
	                   c->found);
}

static void on_difference(void *ctx, const char *text)
{
	struct check *c = ctx;

	c->watch->problem(c->watch->ctx, text);
}

static enum err_code check_rows(struct check *c, struct err *err)
{
	struct verify_watch watch = {.ctx = c, .step = on_step, .differ = on_difference};

	c->keys_all = rocks_keys_estimate(c->engine->rocks);
	if (catalog_load(c->engine, err) != ERR_NONE ||
	    verify_all(c->engine, c->engine->catalog, NULL, &watch, &c->found->counts, err) != ERR_NONE)
		return err->code;
	c->found->compared = true;
	c->watch->progress(c->watch->ctx, CHECK_ROWS, 100, c->found);
	return ERR_NONE;
}

/* With what the store's files lack, as a start would find them. */
static enum err_code check_more(struct check *c, struct err *err)
{
	struct turn          *unwritten = c->engine->unwritten;
	const struct catalog *empty = unwritten->catalog;
	struct engine_session session;
	enum err_code         rc;

	if (c->watch->rows == NULL || !c->found->compared || c->found->counts.differences > 0)
		return ERR_NONE;
	engine_session_init(&session, c->engine);
	session.turn = unwritten;
	unwritten->catalog = session.catalog;
	rc = c->watch->rows(c->watch->ctx, &session.base, err);
	unwritten->catalog = empty;
	engine_session_release(&session);
	return rc;
}

static enum err_code check_run(struct check *c, struct err *err)
{
	struct manifest m;

	if (manifest_look(c->store, &m, err) != ERR_NONE)
		return err->code;
	c->found->torn_bytes = m.bytes - m.sound;
	if (seal_check(c->engine->options.path, on_bad_seal, c, &c->found->sealed, err) != ERR_NONE)
		return err->code;
	check_blocks(c);
	if (c->found->damaged_files > 0)
		return ERR_NONE;
	return check_rows(c, err) == ERR_NONE ? check_more(c, err) : err->code;
}

enum err_code engine_check(const char *path, const struct check_watch *watch, struct check_found *found,
                           struct err *err)
{
	char          store[PATH_MAX];
	struct check  c = {.store = store, .watch = watch, .found = found};
	enum err_code rc;

	*found = (struct check_found){0};
	snprintf(store, sizeof(store), "%s/store", path);
	if (engine_open_reading(&c.engine, path, -1, err) != ERR_NONE)
		return find_damaged(&c, path) ? ERR_NONE : err->code;
	rc = check_run(&c, err);
	engine_close(c.engine);
	return rc;
}
