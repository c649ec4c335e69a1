/* Counts: a sorted array under a lock, touched once per change and once per batch.
 *
 * Older programs stored counts now and then, and after a kill they were wrong for good: the first opening by this one counts
 * everything once. */
#include "engine/counts.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/view.h"
#include "item/codec.h"

#define META_COUNTS "counts" /* an empty item: counts are stored with each commit */

struct counts *counts_open(void)
{
	struct counts *c = mem_zalloc(sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void counts_close(struct counts *c)
{
	pthread_mutex_destroy(&c->lock);
	free(c->slots);
	free(c->changed);
	free(c);
}

/* ---- slots ---- */

static int compare(const struct counts_part *a, const struct counts_part *b)
{
	if (a->table_id != b->table_id)
		return a->table_id < b->table_id ? -1 : 1;
	if (a->hour != b->hour)
		return a->hour < b->hour ? -1 : 1;
	return (int)a->index_id - (int)b->index_id;
}

/* The position of the first slot not before it. */
static size_t position(const struct counts *c, struct counts_part part)
{
	size_t low = 0, high = c->len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&c->slots[middle].part, &part) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* NULL if there is none. */
static struct counts_slot *find(const struct counts *c, struct counts_part part)
{
	size_t at = position(c, part);

	return at < c->len && compare(&c->slots[at].part, &part) == 0 ? &c->slots[at] : NULL;
}

static struct counts_slot *slot_of(struct counts *c, struct counts_part part)
{
	struct counts_slot *s = find(c, part);
	size_t              at;

	if (s != NULL)
		return s;
	if (c->len == c->cap) {
		c->cap = c->cap == 0 ? 16 : c->cap * 2;
		c->slots = mem_realloc(c->slots, c->cap * sizeof(*c->slots));
	}
	assert(c->slots != NULL);
	at = position(c, part);
	memmove(&c->slots[at + 1], &c->slots[at], (c->len - at) * sizeof(*c->slots));
	c->len++;
	c->slots[at] = (struct counts_slot){.part = part};
	return &c->slots[at];
}

static void mark_changed(struct counts *c, struct counts_slot *s)
{
	if (s->changed)
		return;
	if (c->changed_len == c->changed_cap) {
		c->changed_cap = c->changed_cap == 0 ? 16 : c->changed_cap * 2;
		c->changed = mem_realloc(c->changed, c->changed_cap * sizeof(*c->changed));
	}
	c->changed[c->changed_len++] = s->part;
	s->changed = true;
}

struct count counts_get(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	struct count count = {0, 0};

	pthread_mutex_lock(&c->lock);
	for (size_t at = position(c, (struct counts_part){.table_id = table_id});
	     at < c->len && c->slots[at].part.table_id == table_id; at++) {
		if (c->slots[at].part.index_id != index_id)
			continue;
		count.items += c->slots[at].count.items;
		count.bytes += c->slots[at].count.bytes;
	}
	pthread_mutex_unlock(&c->lock);
	if (count.items < 0)
		count.items = 0;
	if (count.bytes < 0)
		count.bytes = 0;
	return count;
}

int64_t counts_items(struct counts *c, struct counts_part part)
{
	const struct counts_slot *s;
	int64_t                   items;

	pthread_mutex_lock(&c->lock);
	s = find(c, part);
	items = s == NULL ? 0 : s->count.items;
	pthread_mutex_unlock(&c->lock);
	return items;
}

uint64_t counts_rows(struct counts *c)
{
	int64_t rows = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++)
		if (c->slots[i].part.index_id == 0 && c->slots[i].count.items > 0)
			rows += c->slots[i].count.items;
	pthread_mutex_unlock(&c->lock);
	return (uint64_t)rows;
}

/* Under lock. */
static void slot_add(struct counts *c, struct counts_part part, struct count change)
{
	struct counts_slot *s = slot_of(c, part);

	s->count.items += change.items;
	s->count.bytes += change.bytes;
	mark_changed(c, s);
}

void counts_add(struct counts *c, struct counts_part part, struct count change)
{
	pthread_mutex_lock(&c->lock);
	slot_add(c, part, change);
	pthread_mutex_unlock(&c->lock);
}

/* Of the table, or of one of its indexes. Returns how many rows there were. */
static uint64_t drop(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	int64_t rows = 0;
	size_t  kept = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++) {
		const struct counts_part *part = &c->slots[i].part;

		if (part->table_id != table_id || (index_id != 0 && part->index_id != index_id))
			c->slots[kept++] = c->slots[i];
		else
			rows += part->index_id == 0 ? c->slots[i].count.items : 0;
	}
	c->len = kept;
	pthread_mutex_unlock(&c->lock);
	return rows > 0 ? (uint64_t)rows : 0;
}

/* What is stored of a deleted index goes when the row that it is in is next stored. It is not loaded. */
uint64_t counts_drop_gone(struct counts *c, const struct catalog *old, const struct catalog *new)
{
	uint64_t rows = 0;

	for (uint32_t i = 0; i < old->count; i++) {
		const struct table_entry *before = old->entries[i];
		const struct table_entry *after = catalog_find(new, before->schema.name);

		if (after == NULL || after->id != before->id) {
			rows += drop(c, before->id, 0);
			continue;
		}
		for (uint32_t j = 0; after != before && j < before->schema.index_count; j++)
			if (!table_entry_has_index(after, before->index_ids[j]))
				drop(c, before->id, before->index_ids[j]);
	}
	return rows;
}

/* ---- hours ---- */

bool counts_lapse_before(struct counts *c, uint32_t hour)
{
	bool found = false;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len && !found; i++)
		found = c->slots[i].part.hour != 0 && c->slots[i].part.hour < hour;
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* In a table that is being deleted, too: then its slots go with it. */
static bool is_closed_by(struct counts_part part, const struct catalog *catalog, uint32_t hour)
{
	const struct table_entry *t;

	if (part.hour == 0 || part.hour >= hour)
		return false;
	t = catalog_find_id(catalog, part.table_id);
	return t == NULL || t->frozen_hour == 0;
}

uint64_t counts_drop_closed(struct counts *c, const struct catalog *catalog, uint32_t hour)
{
	int64_t rows = 0;
	size_t  kept = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++) {
		if (!is_closed_by(c->slots[i].part, catalog, hour))
			c->slots[kept++] = c->slots[i];
		else if (c->slots[i].part.index_id == 0)
			rows += c->slots[i].count.items;
	}
	c->len = kept;
	pthread_mutex_unlock(&c->lock);
	return rows > 0 ? (uint64_t)rows : 0;
}

/* ---- with each commit ---- */

/* Under lock. Adds what one change is; with sign -1, takes it off again. */
static void count_change(struct counts *counts, const struct change *c, int sign)
{
	struct count       was = {c->existed ? 1 : 0, (int64_t)c->existed_bytes};
	struct count       is = {c->deleted ? 0 : 1, (int64_t)c->value.len};
	struct counts_part old = {.hour = c->existed_hour}, new;

	if (!layout_parse_owner(c->key, &old.table_id, &old.index_id))
		return;
	new = old;
	if (!c->deleted)
		new.hour = item_lapse(c->value);
	if (old.hour != new.hour && c->existed) {
		slot_add(counts, old, (struct count){-sign, -sign * was.bytes});
		was = (struct count){0, 0};
	}
	is = (struct count){sign * (is.items - was.items), sign * (is.bytes - was.bytes)};
	if (is.items != 0 || is.bytes != 0)
		slot_add(counts, new, is);
}

/* Of a table that this batch deletes nothing is counted: it may have made it too, and then no catalog ever had it. */
static bool is_deleted(const struct turn *t, struct bytes key)
{
	uint32_t table_id;
	uint16_t index_id;

	return t->ranges != NULL && layout_parse_owner(key, &table_id, &index_id) &&
	       catalog_find_id(t->catalog, table_id) == NULL;
}

static void count_changes(struct counts *counts, const struct turn *t, int sign)
{
	pthread_mutex_lock(&counts->lock);
	for (const struct change *c = t->first; c != NULL; c = c->next)
		if (c->written && !is_deleted(t, c->key))
			count_change(counts, c, sign);
	pthread_mutex_unlock(&counts->lock);
}

/* One attribute a part -> [items, bytes]. Its name is the number of the index, or of the hour of rows that lapse: load_slot reads it. */
static void add_slot(struct arena *a, struct item *item, const struct counts_slot *s)
{
	struct value v = {.type = VALUE_L, .list = {arena_array(a, 2, sizeof(struct value)), 2}};
	struct bytes name = arena_printf(a, "%u", s->part.index_id != 0 ? s->part.index_id : s->part.hour);

	v.list.items[0] = value_i64(s->count.items);
	v.list.items[1] = value_i64(s->count.bytes);
	*item = item_with(a, item, name, &v);
}

static void store_item(struct turn *t, struct bytes key, const struct item *item)
{
	struct buf value;

	buf_init(&value, &t->arena);
	item_encode(&value, item);
	turn_put(t, key, buf_bytes(&value), TURN_SOMETHING);
}

static struct bytes stored_key(struct arena *a, struct counts_part part)
{
	struct buf key;

	buf_init(&key, a);
	if (part.hour == 0)
		layout_counts(&key, part.table_id);
	else
		layout_counts_hour(&key, part.table_id, part.hour);
	return buf_bytes(&key);
}

/* The table's rows and indexes, of those that do not lapse, or of an hour, as one item. An hour that is closed, or in which nothing lapses any
 * more, is not stored. */
static void store_together(struct counts *c, struct turn *t, struct counts_part part)
{
	struct bytes key = stored_key(&t->arena, part);
	struct item  item = {0};
	bool         any = part.hour == 0;

	part.index_id = 0;
	for (size_t at = position(c, part); at < c->len; at++) {
		struct counts_slot *s = &c->slots[at];

		if (s->part.table_id != part.table_id || s->part.hour != part.hour)
			break;
		s->changed = false;
		any = any || s->count.items != 0 || s->count.bytes != 0;
		add_slot(&t->arena, &item, s);
	}
	if (any && !is_closed_by(part, t->catalog, t->closes))
		store_item(t, key, &item);
	else
		turn_delete(t, key, TURN_SOMETHING);
}

static void mark_closed(struct counts *c, const struct turn *t)
{
	for (size_t i = 0; i < c->len; i++)
		if (is_closed_by(c->slots[i].part, t->catalog, t->closes))
			mark_changed(c, &c->slots[i]);
}

static void store_changed(struct counts *c, struct turn *t)
{
	pthread_mutex_lock(&c->lock);
	if (t->closes != 0)
		mark_closed(c, t);
	for (size_t i = 0; i < c->changed_len; i++) {
		struct counts_slot *s = find(c, c->changed[i]);

		if (s == NULL || !s->changed)
			continue; /* it was dropped, or stored with another of its table */
		if (catalog_find_id(t->catalog, s->part.table_id) == NULL)
			s->changed = false; /* it is being deleted */
		else
			store_together(c, t, s->part);
	}
	c->changed_len = 0;
	pthread_mutex_unlock(&c->lock);
}

/* From this commit on counts are stored with each. */
static void store_note(struct turn *t)
{
	struct buf  key, value;
	struct item item = {0};

	buf_init(&key, &t->arena);
	buf_init(&value, &t->arena);
	layout_meta(&key, META_COUNTS);
	item_encode(&value, &item);
	turn_put(t, buf_bytes(&key), buf_bytes(&value), TURN_SOMETHING);
}

void counts_add_to_turn(struct engine *e, struct turn *t)
{
	struct turn_mark mark = turn_mark(t);

	count_changes(e->counts, t, 1);
	store_changed(e->counts, t);
	if (!e->counts_noted && t->first != NULL)
		store_note(t);
	turn_keep(t, mark);
}

void counts_take_back(struct counts *c, const struct turn *t)
{
	count_changes(c, t, -1);
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++)
		mark_changed(c, &c->slots[i]);
	pthread_mutex_unlock(&c->lock);
}

/* ---- counting all, and what was stored ---- */

void counts_add_stored(struct counts *c, struct bytes key, struct bytes value)
{
	struct counts_part part = {.hour = item_lapse(value)};

	if (layout_parse_owner(key, &part.table_id, &part.index_id))
		counts_add(c, part, (struct count){1, (int64_t)value.len});
}

enum err_code counts_all(struct engine *e, struct rocks_snapshot *snapshot, struct counts *out,
                         struct err *err)
{
	const char            kinds[] = {KIND_ROW, KIND_INDEX};
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct lapse_rule    *rule = lapse_rule_take(e);
	struct bytes          key, value;
	enum err_code         rc = ERR_NONE;
	struct arena          a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(kinds) && rc == ERR_NONE; i++) {
		struct bytes       low = {&kinds[i], 1};
		struct view_cursor c;

		view_cursor_open(&c, &s, snapshot, &a,
		                 &(struct waiting_range){.low = low, .high = layout_after(&a, low)});
		while (view_cursor_next(&c, &key, &value))
			if (!lapse_drops(rule, key, value))
				counts_add_stored(out, key, value);
		rc = view_cursor_check(&c, err);
		view_cursor_close(&c);
	}
	lapse_rule_release(rule);
	arena_release(&a);
	return rc;
}

static bool count_of(const struct value *v, struct count *out)
{
	return v->type == VALUE_L && v->list.count == 2 &&
	       number_to_i64(&v->list.items[0].number, &out->items) &&
	       number_to_i64(&v->list.items[1].number, &out->bytes);
}

/* Of an index that was deleted nothing. */
static void load_slot(struct counts *c, const struct table_entry *t, uint32_t hour, const struct member *m)
{
	uint64_t           number;
	struct count       count;
	struct counts_part part = {.table_id = t->id, .hour = hour};

	if (!bytes_to_u64(m->name, UINT32_MAX, &number) || !count_of(&m->value, &count))
		return;
	if (number != hour)
		part.index_id = (uint16_t)number;
	if (number != hour && (number > UINT16_MAX || !table_entry_has_index(t, part.index_id)))
		return;
	pthread_mutex_lock(&c->lock);
	slot_of(c, part)->count = count;
	pthread_mutex_unlock(&c->lock);
}

static enum err_code load_table(struct engine *e, struct rocks_snapshot *snapshot,
                                const struct table_entry *t, struct counts *out, struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct view_cursor    c;
	struct arena          a;
	struct buf            low;
	struct bytes          key, value;
	struct item           item;
	enum err_code         rc = ERR_NONE;

	arena_init(&a);
	buf_init(&low, &a);
	layout_counts(&low, t->id);
	view_cursor_open(
	        &c, &s, snapshot, &a,
	        &(struct waiting_range){.low = buf_bytes(&low), .high = layout_after(&a, buf_bytes(&low))});
	while (rc == ERR_NONE && view_cursor_next(&c, &key, &value)) {
		uint32_t hour = layout_counts_parse_hour(key);

		rc = item_decode(&a, arena_copy(&a, value), &item, err);
		for (uint32_t i = 0; rc == ERR_NONE && i < item.count; i++)
			load_slot(out, t, hour, &item.members[i]);
	}
	if (rc == ERR_NONE)
		rc = view_cursor_check(&c, err);
	view_cursor_close(&c);
	arena_release(&a);
	return rc;
}

static enum err_code load_tables(struct engine *e, struct rocks_snapshot *snapshot,
                                 const struct catalog *catalog, struct counts *out, struct err *err)
{
	for (uint32_t i = 0; i < catalog->count; i++)
		if (load_table(e, snapshot, catalog->entries[i], out, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* What was stored of each is stored anew with the first commit, of tables without rows and hours that have none left too. */
static void forget(struct counts *c)
{
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++) {
		c->slots[i].count = (struct count){0, 0};
		mark_changed(c, &c->slots[i]);
	}
	pthread_mutex_unlock(&c->lock);
}

enum err_code counts_load(struct engine *e, struct arena *a, const struct catalog *catalog, struct err *err)
{
	struct buf  key;
	struct item item;

	buf_init(&key, a);
	layout_meta(&key, META_COUNTS);
	if (view_item(e, a, buf_bytes(&key), &item, &e->counts_noted, err) != ERR_NONE ||
	    load_tables(e, NULL, catalog, e->counts, err) != ERR_NONE)
		return err->code;
	if (e->counts_noted)
		return ERR_NONE;
	forget(e->counts);
	return counts_all(e, NULL, e->counts, err);
}

enum err_code counts_stored(struct engine *e, struct rocks_snapshot *snapshot, const struct catalog *catalog,
                            struct counts *out, struct err *err)
{
	struct buf    key, value;
	bool          noted;
	enum err_code rc;

	buf_init(&key, NULL);
	buf_init(&value, NULL);
	layout_meta(&key, META_COUNTS);
	rc = rocks_get(e->rocks, snapshot, buf_bytes(&key), &value, &noted, err);
	if (rc == ERR_NONE && noted)
		rc = load_tables(e, snapshot, catalog, out, err);
	buf_release(&key);
	buf_release(&value);
	return rc;
}

void counts_add_recount(struct buf *ops)
{
	struct buf key;

	buf_init(&key, NULL);
	layout_meta(&key, META_COUNTS);
	op_encode(ops, &(struct op){.kind = OP_DELETE, .key = buf_bytes(&key)});
	buf_release(&key);
}
