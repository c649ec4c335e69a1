/* Row: one item: its rows, reading it, and one conditional write of it. A write runs in a turn, so nothing changes
 * between its steps: load the row, test the condition, compute the new item, store it with its entries.
 *
 * (I1) After row_store the index entries of an item are exactly those that its present content gives; (I2) so is its
 * expiry entry, unless the row lapses by itself (lapse.h): then it has none, and its index entries lapse with it. engine_verify checks both. */
#include "engine/row.h"

#include <assert.h>

#include "engine/known.h"
#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/rehearsal.h"
#include "expr/eval.h"
#include "item/codec.h"
#include "item/messages.h"

enum { READ_UNIT_BYTES = 4096, WRITE_UNIT_BYTES = 1024 };

/* What is set aside at first for a key: more than most take. */
enum { KEY_ROOM = 128 };

void cost_begin(struct engine_session *s)
{
	size_t max = s->engine->options.expression_bytes_max;

	s->light = s->light && max > TURN_LIGHT_BYTES;
	s->base.cost.max = s->base.cost.spent + (s->light ? TURN_LIGHT_BYTES : max);
}

enum err_code cost_check(struct engine_session *s, struct err *err)
{
	if (!expr_cost_exceeded(&s->base.cost))
		return ERR_NONE;
	s->too_heavy = s->light;
	if (s->light)
		return err_set(err, ERR_THROTTLED, "the request is too heavy for its turn");
	return err_set(err, ERR_INVALID, MSG_EXPRESSION_COST, s->engine->options.expression_bytes_max);
}

double read_cost(size_t bytes, bool consistent)
{
	size_t units = bytes == 0 ? 1 : (bytes + READ_UNIT_BYTES - 1) / READ_UNIT_BYTES;

	return (double)units * (consistent ? 1.0 : 0.5);
}

double write_cost(size_t bytes)
{
	size_t units = bytes == 0 ? 1 : (bytes + WRITE_UNIT_BYTES - 1) / WRITE_UNIT_BYTES;

	return (double)units;
}

enum err_code row_table(const struct engine_session *s, struct bytes name, const struct table_entry **out,
                        struct err *err)
{
	*out = s->turn != NULL ? turn_table(s->turn, name) : catalog_find(s->catalog, name);
	if (*out == NULL || (*out)->internal)
		return err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE);
	return ERR_NONE;
}

/* ---- loading ---- */

enum err_code row_decode(struct engine_session *s, struct arena *a, const struct table_entry *t,
                         struct bytes value, struct loaded *out, struct err *err)
{
	if (lapse_is_gone(s->engine, t, value)) {
		out->stored = out->live = false;
		return ERR_NONE;
	}
	out->stored = true;
	out->value = value;
	if (item_decode(a, value, &out->item, err) != ERR_NONE)
		return err->code;
	out->values = schema_key_values(&t->schema, &out->item);
	out->live = !schema_expired(&t->schema, &out->item, s->base.now_us);
	out->size_bytes = out->live ? item_size(&out->item) : 0;
	return ERR_NONE;
}

/* The row as this turn has seen it, or NULL. */
static const struct loaded *row_seen(const struct turn *turn, const struct arena *a,
                                     const struct table_entry *t, const struct key_values *key)
{
	for (const struct seen *s = turn->seen; s < turn->seen + turn->seen_count; s++)
		if (s->row != NULL && s->table == t && s->arena == a &&
		    key_values_equal(&s->row->values, key))
			return s->row;
	return NULL;
}

/* Is it of a partition that this turn knows? */
static bool row_known(struct engine_session *s, struct arena *a, const struct table_entry *t,
                      const struct key_values *key, const struct loaded **out)
{
	const struct known *known = turn_known(s->turn, a, t, key->hash);

	if (known != NULL)
		*out = known_row(s, known, key);
	return known != NULL;
}

struct bytes row_key_make(struct arena *a, const struct table_entry *t, const struct key_values *key)
{
	struct buf row;

	buf_init_room(&row, a, KEY_ROOM);
	layout_partition(&row, t->id, key->hash);
	if (key->range != NULL)
		key_encode(&row, key->range);
	return buf_bytes(&row);
}

enum err_code row_load(struct engine_session *s, struct arena *a, const struct table_entry *t,
                       const struct key_values *key, const struct loaded **out, struct err *err)
{
	struct bytes   row_key;
	struct loaded *absent;
	bool           known;

	*out = s->turn == NULL ? NULL : row_seen(s->turn, a, t, key);
	if (*out != NULL)
		return ERR_NONE;
	known = s->turn != NULL && row_known(s, a, t, key, out);
	if (known && *out != NULL)
		return ERR_NONE;
	row_key = row_key_make(a, t, key);
	if (!known)
		return row_load_at(s, a, t, hash_bytes(s->engine->hash_key, row_key), row_key, out, err);
	*out = absent = arena_zalloc(a, sizeof(*absent));
	absent->key = row_key;
	return ERR_NONE;
}

enum err_code row_load_at(struct engine_session *s, struct arena *a, const struct table_entry *t,
                          uint64_t hash, struct bytes key, const struct loaded **out, struct err *err)
{
	struct loaded *row = arena_alloc(a, sizeof(*row));
	struct bytes   value;
	bool           found;
	enum err_code  rc;

	*row = (struct loaded){.key = key, .hash = hash};
	rc = view_get_hashed(s, a, hash, key, &value, &found, err);
	if (rc == ERR_NONE && found)
		rc = row_decode(s, a, t, value, row, err);
	if (rc != ERR_NONE)
		return rc;
	if (s->turn != NULL && row->live)
		turn_see(s->turn, (struct seen){t, row, key, hash, a});
	*out = row;
	return ERR_NONE;
}

/* ---- secondary indexes ---- */

/* With its hour, if that is not 0. */
static void encode(struct buf *out, const struct item *item, uint32_t lapse)
{
	if (lapse != 0)
		item_encode_lapsing(out, lapse, item);
	else
		item_encode(out, item);
}

struct row_entry row_entry(struct arena *a, const struct table_entry *t, uint32_t index,
                           const struct item *item, uint32_t lapse)
{
	const struct index_schema *schema = &t->schema.indexes[index];
	struct row_entry           out = {0};

	if (item == NULL || !schema_project(a, &t->schema, schema, item, &out.item))
		return out;
	out.present = schema_index_takes(schema, item);
	out.too_long = !out.present;
	buf_init(&out.key, a);
	buf_init(&out.value, a);
	layout_index(&out.key, t->id, t->index_ids[index], &schema->keys, &t->schema.keys, item);
	encode(&out.value, &out.item, lapse);
	return out;
}

static bool same_key(const struct row_entry *a, const struct row_entry *b)
{
	return a->present && b->present && bytes_equal(buf_bytes(&a->key), buf_bytes(&b->key));
}

/* Is the old item's entry in the store? While the index is being filled, maybe not yet; one that is too long only if an earlier
 * build filled the index. The counts must not be told that an entry went which never came. */
static bool entry_is_stored(struct engine_session *s, struct arena *a, const struct index_schema *schema,
                            const struct row_entry *old)
{
	struct bytes value;
	struct err   err;
	bool         found;

	if (!old->too_long && (!old->present || schema->status != INDEX_CREATING))
		return old->present;
	return view_get(s, a, buf_bytes(&old->key), &value, &found, &err) != ERR_NONE || found;
}

static bool same_item(const struct row_entry *a, const struct row_entry *b)
{
	return bytes_equal(item_members(buf_bytes(&a->value)), item_members(buf_bytes(&b->value)));
}

/* Writes the difference between two entries; returns the units it costs. One that has another hour (X6) and nothing else costs none. */
static double entry_move(struct turn *turn, const struct row_entry *old, bool stored,
                         const struct row_entry *new)
{
	struct bytes before = stored ? buf_bytes(&old->value) : TURN_NOTHING;
	double       units = 0;

	if (same_key(old, new)) {
		if (bytes_equal(buf_bytes(&old->value), buf_bytes(&new->value)))
			return 0;
		turn_put(turn, buf_bytes(&new->key), buf_bytes(&new->value), before);
		return same_item(old, new) ? 0 : write_cost(item_size(&new->item));
	}
	if (old->present) {
		turn_delete(turn, buf_bytes(&old->key), before);
		units += write_cost(item_size(&old->item));
	}
	if (new->present) {
		turn_put(turn, buf_bytes(&new->key), buf_bytes(&new->value), TURN_NOTHING);
		units += write_cost(item_size(&new->item));
	}
	return units;
}

/* A row as it was, or as it is to be. */
struct version {
	const struct item *item; /* NULL: none */
	uint32_t           lapse;
};

static void indexes_store(struct engine_session *s, struct arena *a, const struct table_entry *t,
                          const struct version versions[2], struct capacity *units)
{
	for (uint32_t i = 0; i < t->schema.index_count; i++) {
		const struct index_schema *schema = &t->schema.indexes[i];
		struct row_entry           before = row_entry(a, t, i, versions[0].item, versions[0].lapse);
		struct row_entry           after = row_entry(a, t, i, versions[1].item, versions[1].lapse);
		bool                       stored = entry_is_stored(s, a, schema, &before);
		double                     cost;

		before.present = before.present || stored;
		cost = entry_move(s->turn, &before, stored, &after);

		if (units == NULL || cost == 0)
			continue;
		if (units->indexes == NULL)
			units->indexes = arena_array(a, t->schema.index_count, sizeof(struct index_capacity));
		/* A copy: the answer is written after the turn, when the table may have changed or gone. */
		units->indexes[units->index_count++] = (struct index_capacity){
		        .name = arena_copy(a, schema->name), .local = schema->local, .write_units = cost};
	}
}

/* ---- expiry ---- */

static int64_t bucket_of(int64_t expiry_s)
{
	return expiry_s / EXPIRY_BUCKET_S;
}

/* Moves the expiry entry from one second's bucket to another's, if that is another: most renewals stay within one. 0: there is none. */
static void expiry_store(struct engine_session *s, struct arena *a, struct bytes row_key, int64_t before,
                         int64_t after)
{
	struct buf key;

	if (before != 0 && after != 0 && bucket_of(before) == bucket_of(after))
		return;
	if (before != 0) {
		buf_init(&key, a);
		layout_expiry(&key, before, row_key);
		turn_delete(s->turn, buf_bytes(&key), TURN_SOMETHING);
	}
	if (after != 0) {
		buf_init(&key, a);
		layout_expiry(&key, after, row_key);
		turn_put(s->turn, buf_bytes(&key), BYTES(""), TURN_NOTHING);
	}
}

/* ---- storing ---- */

/* By when a row has an expiry entry; 0 if it has none. */
static int64_t entry_second(const struct table_entry *t, struct version v)
{
	return v.item == NULL || v.lapse != 0 ? 0 : schema_expiry(&t->schema, v.item);
}

void row_store(struct engine_session *s, struct arena *a, const struct table_entry *t,
               const struct loaded *old, const struct item *item, struct capacity *units)
{
	struct bytes         stored = old->stored ? old->value : TURN_NOTHING;
	const struct version versions[2] = {{old->stored ? &old->item : NULL, item_lapse(stored)},
	                                    {item, item == NULL ? 0 : lapse_hour(s, t, item)}};
	struct buf          *value;

	assert(s->turn != NULL);
	value = &s->turn->encoded;
	if (item == NULL) {
		if (!old->stored)
			return;
		turn_delete(s->turn, old->key, stored);
	} else {
		buf_reset(value);
		encode(value, item, versions[1].lapse);
		if (old->live && bytes_equal(buf_bytes(value), old->value))
			return;
		turn_put_hashed(s->turn, old->hash, old->key, buf_bytes(value), stored);
	}
	if (t->schema.index_count > 0)
		indexes_store(s, a, t, versions, units);
	if (t->schema.ttl_attribute.len > 0)
		expiry_store(s, a, old->key, entry_second(t, versions[0]), entry_second(t, versions[1]));
}

/* ---- reading one ---- */

void row_fill(struct arena *a, const struct table_get *q, const struct loaded *row,
              struct table_get_result *r)
{
	r->found = row->live;
	r->size_bytes = row->size_bytes;
	if (row->live)
		r->item = q->projection == NULL ? row->item : expr_project(a, q->projection, &row->item);
	r->capacity =
	        (struct capacity){.table = q->table, .read_units = read_cost(row->size_bytes, q->consistent)};
}

enum err_code row_get(struct table *t, struct arena *a, const struct table_get *q, struct table_get_result *r,
                      struct err *err)
{
	struct engine_session    *s = (struct engine_session *)t;
	const struct table_entry *entry;
	struct key_values         key;
	const struct loaded      *row;

	*r = (struct table_get_result){0};
	if (row_table(s, q->table, &entry, err) != ERR_NONE ||
	    schema_check_key(&entry->schema, &q->key, &key, err) != ERR_NONE ||
	    row_load(s, a, entry, &key, &row, err) != ERR_NONE)
		return err->code;
	row_fill(a, q, row, r);
	return ERR_NONE;
}

/* ---- writing one: what it makes of the item ---- */

enum err_code row_check(const struct table_entry *t, const struct table_write *q, struct checked *out,
                        struct err *err)
{
	*out = (struct checked){.table = t};
	if (q->kind == TABLE_PUT)
		return schema_check_item(&t->schema, &q->item, &out->key, &out->put_bytes, err);
	return schema_check_key(&t->schema, &q->key, &out->key, err);
}

static enum err_code check_keys_untouched(const struct table_schema *s, const struct expr_update *u,
                                          struct err *err)
{
	const struct bytes keys[2] = {s->keys.hash.name, s->keys.range.name};

	for (int i = 0; i < 2; i++)
		if (keys[i].len > 0 && expr_update_touches(u, keys[i]))
			return err_set(err, ERR_INVALID, MSG_UPDATE_KEY, BYTES_ARG(keys[i]));
	return ERR_NONE;
}

/* What a write leaves. */
struct left {
	bool        any;
	struct item item;
	size_t      bytes;
};

/* `before`: the item, or the key of an absent one. */
static enum err_code update_apply(struct arena *a, const struct table_schema *s, const struct table_write *q,
                                  const struct item *before, struct left *out, struct err *err)
{
	struct key_values key;

	if (q->update == NULL || q->update->count == 0)
		out->item = *before;
	else if (expr_update_apply(a, q->update, before, &out->item, err) != ERR_NONE)
		return err->code;
	if (item_size(&out->item) > ITEM_BYTES_MAX)
		return err_set(err, ERR_INVALID, MSG_ITEM_SIZE_UPDATE);
	return schema_check_item(s, &out->item, &key, &out->bytes, err);
}

/* `old` is NULL if there was none. */
static enum err_code compute(struct arena *a, const struct checked *c, const struct table_write *q,
                             const struct item *old, struct left *out, struct err *err)
{
	const struct table_schema *s = &c->table->schema;

	*out = (struct left){.any = q->kind == TABLE_PUT, .bytes = c->put_bytes};
	if (q->kind == TABLE_PUT)
		out->item = q->item;
	if (q->kind != TABLE_UPDATE)
		return ERR_NONE;
	if (q->update != NULL && check_keys_untouched(s, q->update, err) != ERR_NONE)
		return err->code;
	out->any = old != NULL || expr_update_creates(q->update);
	return out->any ? update_apply(a, s, q, old != NULL ? old : &q->key, out, err) : ERR_NONE;
}

/* What it would make too large, or unfit for its table, stays as it is. */
static void complete(const struct engine_session *s, struct arena *a, const struct table_entry *t,
                     struct left *new)
{
	const struct engine_completion *c = &s->engine->options.completion;
	struct key_values               key;
	struct item                     more;
	struct err                      ignored;
	size_t                          bytes;

	if (c->complete == NULL || !new->any || !bytes_equal(t->schema.name, c->table) ||
	    !c->complete(c->ctx, a, &new->item, &more))
		return;
	if (schema_check_item(&t->schema, &more, &key, &bytes, &ignored) == ERR_NONE)
		*new = (struct left){true, more, bytes};
}

/* ---- what the caller asked to see ---- */

static void return_item(struct table_write_result *r, const struct item *item)
{
	if (item == NULL)
		return;
	r->has_item = true;
	r->item = *item;
}

static void return_touched(struct arena *a, const struct table_write *q, struct table_write_result *r,
                           const struct item *item)
{
	static const struct expr_update none = {0};
	struct item                     touched;

	if (item == NULL)
		return;
	touched = expr_update_touched(a, q->update == NULL ? &none : q->update, item);
	if (touched.count > 0)
		return_item(r, &touched);
}

static void fill_returns(struct arena *a, const struct table_write *q, const struct item *old,
                         const struct item *new, struct table_write_result *r)
{
	switch (q->returns) {
	case RETURN_NONE:
		break;
	case RETURN_ALL_OLD:
		return_item(r, old);
		break;
	case RETURN_ALL_NEW:
		return_item(r, new);
		break;
	case RETURN_UPDATED_OLD:
		return_touched(a, q, r, old);
		break;
	case RETURN_UPDATED_NEW:
		return_touched(a, q, r, new);
		break;
	}
}

/* Item collections exist where there is a local index. */
static void fill_collection(struct engine_session *s, struct arena *a, const struct table_entry *t,
                            const struct item *key, struct table_write_result *r)
{
	const struct member *hash = item_find(key, t->schema.keys.hash.name);
	struct buf           low;
	struct bytes         high;

	for (uint32_t i = 0; i < t->schema.index_count && !r->has_collection; i++)
		r->has_collection = t->schema.indexes[i].local;
	if (!r->has_collection)
		return;
	buf_init(&low, a);
	layout_partition(&low, t->id, &hash->value);
	high = layout_after(a, buf_bytes(&low));
	r->collection_name = hash->name;
	r->collection_key = hash->value;
	r->collection_gb =
	        (double)rocks_range_bytes(s->engine->rocks, buf_bytes(&low), high) / (double)(1u << 30);
}

/* ---- the write ---- */

static enum err_code test(struct engine_session *s, const struct table_entry *t, const struct table_write *q,
                          const struct loaded *row, bool *holds, struct err *err)
{
	static const struct item none = {0};

	*holds = true;
	if (q->condition != NULL) {
		s->base.cost.spent += row->size_bytes * EXPR_READ_COST;
		*holds = expr_holds(q->condition, row->live ? &row->item : &none, &s->base.cost);
		if (cost_check(s, err) != ERR_NONE)
			return err->code;
	}
	if (s->rehearses)
		rehearsal_note(s, t, row, *holds);
	return ERR_NONE;
}

static void fill_size(const struct table_write *q, size_t size_bytes, struct table_write_result *r)
{
	r->size_bytes = size_bytes;
	r->capacity = (struct capacity){.table = q->table, .write_units = write_cost(size_bytes)};
}

enum err_code row_apply(struct engine_session *s, struct arena *a, const struct checked *c,
                        const struct table_write *q, struct table_write_result *r, struct err *err)
{
	const struct table_entry *t = c->table;
	const struct item        *key = q->kind == TABLE_PUT ? &q->item : &q->key, *old;
	const struct rehearsed   *known = s->rehearsal != NULL ? rehearsal_holds(s, a, t, key) : NULL;
	const struct loaded      *row;
	struct left new;
	bool holds = true;

	if (known != NULL && q->kind == TABLE_CHECK) {
		fill_size(q, known->size_bytes, r);
		return ERR_NONE;
	}
	if (row_load(s, a, t, &c->key, &row, err) != ERR_NONE)
		return err->code;
	old = row->live ? &row->item : NULL;
	fill_size(q, row->size_bytes, r);
	if (known == NULL && test(s, t, q, row, &holds, err) != ERR_NONE)
		return err->code;
	if (!holds) {
		r->condition_failed = true;
		if (q->return_old_on_failure)
			return_item(r, old);
		return ERR_NONE;
	}
	if (q->kind == TABLE_CHECK)
		return ERR_NONE;
	if (compute(a, c, q, old, &new, err) != ERR_NONE)
		return err->code;
	complete(s, a, t, &new);
	if (new.bytes > r->size_bytes) {
		r->size_bytes = new.bytes;
		r->capacity.write_units = write_cost(new.bytes);
	}
	if (s->rehearses)
		return ERR_NONE;
	row_store(s, a, t, row, new.any ? &new.item : NULL, &r->capacity);
	fill_returns(a, q, old, new.any ? &new.item : NULL, r);
	if (t->schema.index_count > 0)
		fill_collection(s, a, t, key, r);
	return ERR_NONE;
}

enum err_code row_write(struct table *t, struct arena *a, const struct table_write *q,
                        struct table_write_result *r, struct err *err)
{
	struct engine_session    *s = (struct engine_session *)t;
	const struct table_entry *entry;
	struct checked            checked;

	*r = (struct table_write_result){0};
	cost_begin(s);
	if (row_table(s, q->table, &entry, err) != ERR_NONE || row_check(entry, q, &checked, err) != ERR_NONE)
		return err->code;
	if (row_apply(s, a, &checked, q, r, err) != ERR_NONE)
		return err->code;
	if (s->rehearses)
		s->rehearsal->writes = !r->condition_failed;
	return ERR_NONE;
}
