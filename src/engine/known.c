/* Known: see known.h. Expired rows are among them, as they are among those that are read one by one; lapsed ones (lapse.h) are not. */
#include "engine/known.h"

#include "engine/layout.h"
#include "engine/partition.h"

enum { KEY_ROOM = 128 }; /* more than most keys take */

/* What is committed, if that is known without the store. */
static bool rows_copy(struct engine *e, struct arena *a, struct bytes prefix, struct cache_rows *rows)
{
	*rows = (struct cache_rows){0};
	return filter_lacks(e->filter, layout_partition_hash(e->hash_key, prefix)) ||
	       cache_partition_small(e->cache, prefix, a, rows);
}

/* Those that are there. False if one is damaged: whoever asks for that one is told, and all others are not. */
static bool rows_decode(struct engine_session *s, struct arena *a, const struct cache_rows *rows,
                        struct known *k)
{
	const struct loaded **list = arena_array(a, rows->count, sizeof(*list));
	struct err            err;

	for (size_t i = 0; i < rows->count; i++) {
		struct loaded *row;

		if (rows->list[i].absent)
			continue;
		row = arena_zalloc(a, sizeof(*row));
		row->key = rows->list[i].key;
		if (row_decode(s, a, k->table, rows->list[i].value, row, &err) != ERR_NONE)
			return false;
		if (!row->stored)
			continue;
		if (schema_check_key_types(&k->table->schema, &row->item, &err) != ERR_NONE)
			return false;
		list[k->count++] = row;
	}
	k->rows = list;
	return true;
}

static struct value value_kept(struct arena *a, const struct value *v)
{
	struct value kept = *v;

	if (v->type != VALUE_N)
		kept.text = arena_copy(a, v->text);
	return kept;
}

static const struct known *make(struct engine_session *s, struct arena *a, const struct table_entry *t,
                                const struct value *hash)
{
	struct known     *k;
	struct cache_rows rows;
	struct buf        prefix;
	uint64_t          number;

	buf_init_room(&prefix, a, KEY_ROOM);
	layout_partition(&prefix, t->id, hash);
	number = layout_partition_number(buf_bytes(&prefix));
	if (turn_touched(s->turn, number))
		return NULL;
	if (s->engine->options.checks_absent)
		view_check_partition(s, buf_bytes(&prefix));
	if (!rows_copy(s->engine, a, buf_bytes(&prefix), &rows))
		return NULL;
	k = arena_alloc(a, sizeof(*k));
	*k = (struct known){.table = t, .hash = value_kept(a, hash), .number = number, .arena = a};
	if (rows.count > 0 && !rows_decode(s, a, &rows, k))
		return NULL;
	turn_know(s->turn, k);
	return k;
}

const struct known *known_partition(struct engine_session *s, struct arena *a, const struct table_entry *t,
                                    const struct value *hash)
{
	const struct known *k;

	if (s->turn == NULL || s->engine->journal == NULL)
		return NULL;
	k = turn_known(s->turn, a, t, hash);
	return k != NULL ? k : make(s, a, t, hash);
}

static void see(struct turn *turn, const struct known *k, const struct loaded *row)
{
	if (row->live)
		turn_see(turn,
		         (struct seen){.table = k->table, .row = row, .key = row->key, .arena = k->arena});
}

/* Partitions may share a number: so the whole key is compared. */
const struct loaded *known_row(struct engine_session *s, const struct known *k, const struct key_values *key)
{
	for (size_t i = 0; i < k->count; i++) {
		if (!key_values_equal(&k->rows[i]->values, key))
			continue;
		see(s->turn, k, k->rows[i]);
		return k->rows[i];
	}
	return NULL;
}

/* There are few. */
static void insert(const struct loaded **out, size_t count, const struct loaded *row, bool backward)
{
	for (; count > 0; count--) {
		int order = bytes_compare(out[count - 1]->key, row->key);

		if (backward ? order > 0 : order < 0)
			break;
		out[count] = out[count - 1];
	}
	out[count] = row;
}

size_t known_between(struct engine_session *s, const struct known *k, struct bytes low, struct bytes high,
                     bool backward, const struct loaded **out)
{
	size_t count = 0;

	for (size_t i = 0; i < k->count; i++) {
		const struct loaded *row = k->rows[i];

		if (bytes_compare(row->key, low) < 0 || bytes_compare(row->key, high) >= 0)
			continue;
		see(s->turn, k, row);
		insert(out, count++, row, backward);
	}
	return count;
}
