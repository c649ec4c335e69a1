/* Read: items by key. */
#include "engine/read.h"

#include <stdlib.h>

#include "engine/layout.h"
#include "expr/eval.h"
#include "item/codec.h"
#include "item/messages.h"

static void fill(struct arena *a, const struct table_get *q, const struct loaded *row,
                 struct table_get_result *r)
{
	r->found = row->live;
	r->size_bytes = row->size_bytes;
	if (row->live)
		r->item = q->projection == NULL ? row->item : expr_project(a, q->projection, &row->item);
	r->capacity =
	        (struct capacity){.table = q->table, .read_units = read_cost(row->size_bytes, q->consistent)};
}

enum err_code read_get(struct table *t, struct arena *a, const struct table_get *q,
                       struct table_get_result *r, struct err *err)
{
	struct engine_session    *s = (struct engine_session *)t;
	const struct table_entry *entry;
	struct key_values         key;
	const struct loaded      *row;

	*r = (struct table_get_result){0};
	if (row_table(s, q->table, &entry, err) != ERR_NONE ||
	    schema_check_key(&entry->schema, &q->key, &key, err) != ERR_NONE ||
	    row_load(s, a, entry, &q->key, &row, err) != ERR_NONE)
		return err->code;
	fill(a, q, row, r);
	return ERR_NONE;
}

/* ---- several ---- */

static int key_order(const void *a, const void *b)
{
	return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

enum { FEW_KEYS = 16 };

/* Of a few keys comparing all pairs costs less than sorting: most differ in length already. */
static bool few_have_duplicates(const struct bytes *keys, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (bytes_equal(keys[i], keys[j]))
				return true;
	return false;
}

bool read_has_duplicates(const struct bytes *row_keys, uint32_t count, struct arena *a)
{
	struct bytes *sorted;

	if (count <= FEW_KEYS)
		return few_have_duplicates(row_keys, count);
	sorted = arena_array(a, count, sizeof(*sorted));
	memcpy(sorted, row_keys, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), key_order);
	for (uint32_t i = 1; i < count; i++)
		if (bytes_equal(sorted[i - 1], sorted[i]))
			return true;
	return false;
}

/* The rows of a batch: their tables, their keys in the store, and the hashes of these (state.h). */
struct rows {
	const struct table_entry **tables;
	struct bytes              *keys;
	uint64_t                  *hashes;
};

enum { KEY_ROOM = 64 }; /* most parts of a key take less */

/* What the keys of one partition's rows begin with. Its rows mostly come one after the other. */
struct partition {
	const struct table_entry *table;
	const struct value       *hash;
	struct buf                prefix;
};

static struct bytes key_make(struct arena *a, struct partition *p, const struct table_entry *t,
                             const struct key_values *values)
{
	struct buf key;

	if (p->table != t || !value_equal(p->hash, values->hash)) {
		*p = (struct partition){.table = t, .hash = values->hash};
		buf_init_room(&p->prefix, a, KEY_ROOM);
		layout_partition(&p->prefix, t->id, values->hash);
	}
	buf_init_room(&key, a, p->prefix.len + KEY_ROOM);
	buf_add_bytes(&key, buf_bytes(&p->prefix));
	if (values->range != NULL)
		key_encode(&key, values->range);
	return buf_bytes(&key);
}

/* Checks every key of the batch and that no item is asked for twice. */
static enum err_code rows_find(struct engine_session *s, struct arena *a, const struct table_batch_get *q,
                               const char *duplicates, struct rows *out, struct err *err)
{
	const struct table_get *before = NULL;
	struct partition        partition = {0};

	out->tables = arena_array(a, q->count, sizeof(struct table_entry *));
	out->keys = arena_array(a, q->count, sizeof(*out->keys));
	out->hashes = arena_array(a, q->count, sizeof(*out->hashes));
	for (uint32_t i = 0; i < q->count; before = &q->gets[i++]) {
		const struct table_get    *get = &q->gets[i];
		const struct table_entry **t = &out->tables[i];
		struct key_values          key;

		if (before != NULL && bytes_equal(get->table, before->table))
			*t = out->tables[i - 1];
		else if (row_table(s, get->table, t, err) != ERR_NONE)
			return err->code;
		if (schema_check_key(&(*t)->schema, &get->key, &key, err) != ERR_NONE)
			return err->code;
		out->keys[i] = key_make(a, &partition, *t, &key);
		out->hashes[i] = hash_bytes(s->engine->hash_key, out->keys[i]);
	}
	if (read_has_duplicates(out->keys, q->count, a))
		return err_set(err, ERR_INVALID, "%s", duplicates);
	return ERR_NONE;
}

static void results_init(struct arena *a, uint32_t count, struct table_batch_get_result *r)
{
	r->results = arena_zalloc(a, count * sizeof(*r->results));
	r->skipped = arena_zalloc(a, count * sizeof(*r->skipped));
}

/* What does not fit into the answer any more is left for the next request; the first item always fits. */
enum err_code read_batch(struct table *t, struct arena *a, const struct table_batch_get *q,
                         struct table_batch_get_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct rows            rows;
	size_t                 bytes = 0;
	bool                   full = false;

	results_init(a, q->count, r);
	if (rows_find(s, a, q, MSG_BATCH_TWICE, &rows, err) != ERR_NONE)
		return err->code;
	cache_expect(s->engine->cache, rows.hashes, q->count);
	for (uint32_t i = 0; i < q->count; i++) {
		const struct loaded *row;

		if (!full) {
			if (row_load_at(s, a, rows.tables[i], rows.hashes[i], rows.keys[i], &row, err) !=
			    ERR_NONE)
				return err->code;
			fill(a, &q->gets[i], row, &r->results[i]);
			bytes += row->size_bytes;
		}
		full = full || bytes > TABLE_BATCH_GET_BYTES_MAX;
		r->skipped[i] = full;
	}
	return ERR_NONE;
}

/* Rows as they were at one moment. */
struct moment {
	struct rocks_snapshot *snapshot; /* NULL: in a turn, where nothing else runs */
	struct cache_row      *waiting;  /* see view_rows_snapshot_open */
};

static enum err_code load_at(struct engine_session *s, const struct moment *m, struct arena *a,
                             const struct rows *rows, uint32_t i, const struct loaded **out, struct err *err)
{
	const struct table_entry *t = rows->tables[i];
	struct loaded            *row;
	struct bytes              value;
	bool                      found;

	if (m->snapshot == NULL)
		return row_load_at(s, a, t, rows->hashes[i], rows->keys[i], out, err);
	*out = row = arena_zalloc(a, sizeof(*row));
	if (m->waiting[i].key.len > 0) {
		value = m->waiting[i].value;
		found = !m->waiting[i].absent;
	} else if (view_get_at(s, m->snapshot, a, rows->keys[i], &value, &found, err) != ERR_NONE) {
		return err->code;
	}
	return found ? row_decode(s, a, t, value, row, err) : ERR_NONE;
}

enum err_code read_transact(struct table *t, struct arena *a, const struct table_batch_get *q,
                            struct table_batch_get_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct moment          m = {0};
	struct rows            rows;
	size_t                 bytes = 0;

	results_init(a, q->count, r);
	if (rows_find(s, a, q, MSG_TRANSACT_TWICE, &rows, err) != ERR_NONE)
		return err->code;
	if (s->turn == NULL) {
		m.waiting = arena_array(a, q->count, sizeof(*m.waiting));
		view_rows_snapshot_open(s->engine, a, rows.hashes, rows.keys, q->count, m.waiting,
		                        &m.snapshot);
	}
	err->code = ERR_NONE;
	for (uint32_t i = 0; i < q->count && err->code == ERR_NONE; i++) {
		const struct loaded *row;

		if (load_at(s, &m, a, &rows, i, &row, err) != ERR_NONE)
			break;
		fill(a, &q->gets[i], row, &r->results[i]);
		r->results[i].capacity.read_units = 2 * read_cost(row->size_bytes, true);
		bytes += row->size_bytes;
		if (bytes > TABLE_TRANSACT_BYTES_MAX)
			err_set(err, ERR_INVALID, MSG_TRANSACT_SIZE);
	}
	if (m.snapshot != NULL)
		rocks_snapshot_close(s->engine->rocks, m.snapshot);
	return err->code;
}
