/* Read: items by key. */
#include "engine/read.h"

#include <stdlib.h>

#include "engine/layout.h"
#include "expr/eval.h"
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
	struct loaded             row;

	*r = (struct table_get_result){0};
	if (row_table(s, q->table, &entry, err) != ERR_NONE ||
	    schema_check_key(&entry->schema, &q->key, err) != ERR_NONE ||
	    row_load(s, a, entry, &q->key, &row, err) != ERR_NONE)
		return err->code;
	fill(a, q, &row, r);
	return ERR_NONE;
}

static int key_order(const void *a, const void *b)
{
	return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

bool read_has_duplicates(const struct bytes *row_keys, uint32_t count, struct arena *a)
{
	struct bytes *sorted = arena_array(a, count, sizeof(*sorted));

	if (count < 2)
		return false;
	memcpy(sorted, row_keys, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), key_order);
	for (uint32_t i = 1; i < count; i++)
		if (bytes_equal(sorted[i - 1], sorted[i]))
			return true;
	return false;
}

/* Checks every key of the batch and that no item is asked for twice. */
static enum err_code check_batch(struct engine_session *s, struct arena *a, const struct table_batch_get *q,
                                 const char *duplicates, struct err *err)
{
	struct bytes *keys = arena_array(a, q->count, sizeof(*keys));

	for (uint32_t i = 0; i < q->count; i++) {
		const struct table_entry *entry;
		struct buf                key;

		if (row_table(s, q->gets[i].table, &entry, err) != ERR_NONE ||
		    schema_check_key(&entry->schema, &q->gets[i].key, err) != ERR_NONE)
			return err->code;
		buf_init(&key, a);
		layout_row(&key, entry->id, &entry->schema.keys, &q->gets[i].key);
		keys[i] = buf_bytes(&key);
	}
	if (read_has_duplicates(keys, q->count, a))
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
	size_t bytes = 0;
	bool   full = false;

	results_init(a, q->count, r);
	if (check_batch((struct engine_session *)t, a, q, MSG_BATCH_TWICE, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < q->count; i++) {
		if (!full && read_get(t, a, &q->gets[i], &r->results[i], err) != ERR_NONE)
			return err->code;
		bytes += r->results[i].size_bytes;
		full = full || bytes > TABLE_BATCH_GET_BYTES_MAX;
		r->skipped[i] = full;
	}
	return ERR_NONE;
}

static enum err_code get_at(struct engine_session *s, struct rocks_snapshot *snapshot, struct arena *a,
                            const struct table_get *q, struct table_get_result *r, struct err *err)
{
	const struct table_entry *entry;
	struct loaded             row = {0};
	struct buf                key;
	struct bytes              value;
	bool                      found;

	if (row_table(s, q->table, &entry, err) != ERR_NONE)
		return err->code;
	buf_init(&key, a);
	layout_row(&key, entry->id, &entry->schema.keys, &q->key);
	if (view_get_at(s, snapshot, a, buf_bytes(&key), &value, &found, err) != ERR_NONE)
		return err->code;
	if (found && row_decode(s, a, entry, value, &row, err) != ERR_NONE)
		return err->code;
	fill(a, q, &row, r);
	r->capacity.read_units = 2 * read_cost(row.size_bytes, true);
	return ERR_NONE;
}

/* In a turn nothing else runs, so plain reads are a snapshot already. */
enum err_code read_transact(struct table *t, struct arena *a, const struct table_batch_get *q,
                            struct table_batch_get_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct rocks_snapshot *snapshot = NULL;
	size_t                 bytes = 0;

	results_init(a, q->count, r);
	if (check_batch(s, a, q, MSG_TRANSACT_TWICE, err) != ERR_NONE)
		return err->code;
	if (s->turn == NULL && view_snapshot_open(s->engine, &snapshot, err) != ERR_NONE)
		return err->code;
	err->code = ERR_NONE;
	for (uint32_t i = 0; i < q->count && err->code == ERR_NONE; i++) {
		if (snapshot != NULL)
			get_at(s, snapshot, a, &q->gets[i], &r->results[i], err);
		else
			read_get(t, a, &q->gets[i], &r->results[i], err);
		bytes += r->results[i].size_bytes;
		if (err->code == ERR_NONE && bytes > TABLE_TRANSACT_BYTES_MAX)
			err_set(err, ERR_INVALID, MSG_TRANSACT_SIZE);
	}
	if (snapshot != NULL)
		rocks_snapshot_close(s->engine->rocks, snapshot);
	return err->code;
}
