/* Counts: a sorted array under a lock, touched once per change and once per batch.
 *
 * Older programs stored counts now and then, and after a kill they were wrong for good: the first opening by this one counts
 * everything once. */
#include "engine/counts.h"

#include <stdlib.h>

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
	free(c);
}

static uint64_t slot_key(uint32_t table_id, uint16_t index_id)
{
	return (uint64_t)table_id << 16 | index_id;
}

/* The position of the first slot not before it. */
static size_t position(const struct counts *c, uint64_t key)
{
	size_t low = 0, high = c->len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (slot_key(c->slots[middle].table_id, c->slots[middle].index_id) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct counts_slot *slot_at(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	size_t at = position(c, slot_key(table_id, index_id));

	if (at < c->len && c->slots[at].table_id == table_id && c->slots[at].index_id == index_id)
		return &c->slots[at];
	if (c->len == c->cap) {
		c->cap = c->cap == 0 ? 16 : c->cap * 2;
		c->slots = mem_realloc(c->slots, c->cap * sizeof(*c->slots));
	}
	memmove(&c->slots[at + 1], &c->slots[at], (c->len - at) * sizeof(*c->slots));
	c->len++;
	c->slots[at] = (struct counts_slot){table_id, index_id, false, {0, 0}};
	return &c->slots[at];
}

struct count counts_get(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	struct count count;

	pthread_mutex_lock(&c->lock);
	count = slot_at(c, table_id, index_id)->count;
	pthread_mutex_unlock(&c->lock);
	if (count.items < 0)
		count.items = 0;
	if (count.bytes < 0)
		count.bytes = 0;
	return count;
}

uint64_t counts_rows(struct counts *c)
{
	int64_t rows = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++)
		if (c->slots[i].index_id == 0 && c->slots[i].count.items > 0)
			rows += c->slots[i].count.items;
	pthread_mutex_unlock(&c->lock);
	return (uint64_t)rows;
}

void counts_add(struct counts *c, uint32_t table_id, uint16_t index_id, struct count change)
{
	struct counts_slot *s;

	pthread_mutex_lock(&c->lock);
	s = slot_at(c, table_id, index_id);
	s->count.items += change.items;
	s->count.bytes += change.bytes;
	s->changed = c->changed = true;
	pthread_mutex_unlock(&c->lock);
}

static void drop(struct counts *c, uint64_t first, uint64_t end)
{
	size_t from, to;

	pthread_mutex_lock(&c->lock);
	from = position(c, first);
	to = position(c, end);
	memmove(&c->slots[from], &c->slots[to], (c->len - to) * sizeof(*c->slots));
	c->len -= to - from;
	pthread_mutex_unlock(&c->lock);
}

static void drop_index(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	drop(c, slot_key(table_id, index_id), slot_key(table_id, index_id) + 1);
	counts_add(c, table_id, 0, (struct count){0, 0}); /* so that it is stored without the index */
}

void counts_drop_gone(struct counts *c, const struct catalog *old, const struct catalog *new)
{
	for (uint32_t i = 0; i < old->count; i++) {
		const struct table_entry *before = old->entries[i];
		const struct table_entry *after = catalog_find(new, before->schema.name);

		if (after == NULL || after->id != before->id) {
			drop(c, slot_key(before->id, 0), slot_key(before->id + 1, 0));
			continue;
		}
		for (uint32_t j = 0; after != before && j < before->schema.index_count; j++)
			if (!table_entry_has_index(after, before->index_ids[j]))
				drop_index(c, before->id, before->index_ids[j]);
	}
}

/* ---- with each commit ---- */

/* Adds what the turn changes; with sign -1, takes it off again. */
static void count_changes(struct counts *counts, const struct turn *t, int sign)
{
	for (const struct change *c = t->first; c != NULL; c = c->next) {
		struct count change = {sign * ((c->deleted ? 0 : 1) - (c->existed ? 1 : 0)),
		                       sign * ((int64_t)c->value.len - (int64_t)c->existed_bytes)};
		uint32_t     table_id;
		uint16_t     index_id;

		if (c->written && (change.items != 0 || change.bytes != 0) &&
		    layout_parse_owner(c->key, &table_id, &index_id))
			counts_add(counts, table_id, index_id, change);
	}
}

/* One attribute an index: its id -> [items, bytes]. */
static void add_slot(struct arena *a, struct item *item, const struct counts_slot *s)
{
	struct value v = {.type = VALUE_L, .list = {arena_array(a, 2, sizeof(struct value)), 2}};
	struct bytes name = arena_printf(a, "%u", s->index_id);

	v.list.items[0] = value_i64(s->count.items);
	v.list.items[1] = value_i64(s->count.bytes);
	*item = item_with(a, item, name, &v);
}

static void store_item(struct turn *t, uint32_t table_id, const struct item *item)
{
	struct buf key, value;

	if (catalog_find_id(t->catalog, table_id) == NULL)
		return; /* it is being deleted */
	buf_init(&key, &t->arena);
	buf_init(&value, &t->arena);
	layout_counts(&key, table_id);
	item_encode(&value, item);
	turn_put(t, buf_bytes(&key), buf_bytes(&value), true, 0);
}

/* Each table whose counts changed, as an item. */
static void store_changed(struct counts *c, struct turn *t)
{
	size_t at = 0;

	pthread_mutex_lock(&c->lock);
	while (c->changed && at < c->len) {
		uint32_t    table_id = c->slots[at].table_id;
		struct item item = {0};
		bool        changed = false;

		for (; at < c->len && c->slots[at].table_id == table_id; at++) {
			changed = changed || c->slots[at].changed;
			c->slots[at].changed = false;
			add_slot(&t->arena, &item, &c->slots[at]);
		}
		if (changed)
			store_item(t, table_id, &item);
	}
	c->changed = false;
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
	turn_put(t, buf_bytes(&key), buf_bytes(&value), true, 0);
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
		c->slots[i].changed = c->changed = true;
	pthread_mutex_unlock(&c->lock);
}

/* ---- counting all, and what was stored ---- */

static void count_key(struct counts *counts, struct bytes key, struct bytes value)
{
	uint32_t table_id;
	uint16_t index_id;

	if (layout_parse_owner(key, &table_id, &index_id))
		counts_add(counts, table_id, index_id, (struct count){1, (int64_t)value.len});
}

enum err_code counts_all(struct engine *e, struct rocks_snapshot *snapshot, struct counts *out,
                         struct err *err)
{
	const char            kinds[] = {KIND_ROW, KIND_INDEX};
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct bytes          key, value;
	enum err_code         rc = ERR_NONE;
	struct arena          a;

	arena_init(&a);
	for (size_t i = 0; i < sizeof(kinds) && rc == ERR_NONE; i++) {
		struct bytes       low = {&kinds[i], 1};
		struct view_cursor c;

		view_cursor_open(&c, &s, snapshot, &a, low, layout_after(&a, low), false);
		while (view_cursor_next(&c, &key, &value))
			count_key(out, key, value);
		rc = view_cursor_check(&c, err);
		view_cursor_close(&c);
	}
	arena_release(&a);
	return rc;
}

static void load_slots(struct counts *c, uint32_t table_id, const struct item *item)
{
	for (uint32_t i = 0; i < item->count; i++) {
		const struct value *v = &item->members[i].value;
		uint64_t            index_id;
		struct count        count;

		if (!bytes_to_u64(item->members[i].name, UINT16_MAX, &index_id) || v->type != VALUE_L ||
		    v->list.count != 2 || !number_to_i64(&v->list.items[0].number, &count.items) ||
		    !number_to_i64(&v->list.items[1].number, &count.bytes))
			continue;
		pthread_mutex_lock(&c->lock);
		slot_at(c, table_id, (uint16_t)index_id)->count = count;
		pthread_mutex_unlock(&c->lock);
	}
}

/* An index that was deleted goes out of the counts with the next commit; there may have been none. */
static enum err_code load_table(struct engine *e, struct arena *a, const struct table_entry *t,
                                struct err *err)
{
	struct buf  key;
	struct item item;
	bool        found;

	buf_init(&key, a);
	layout_counts(&key, t->id);
	if (view_item(e, a, buf_bytes(&key), &item, &found, err) != ERR_NONE)
		return err->code;
	if (found)
		load_slots(e->counts, t->id, &item);
	for (uint16_t id = INDEX_ID_FIRST; id < t->next_index_id; id++)
		if (!table_entry_has_index(t, id))
			drop_index(e->counts, t->id, id);
	return ERR_NONE;
}

enum err_code counts_load(struct engine *e, struct arena *a, const struct catalog *catalog, struct err *err)
{
	struct buf  key;
	struct item item;

	buf_init(&key, a);
	layout_meta(&key, META_COUNTS);
	if (view_item(e, a, buf_bytes(&key), &item, &e->counts_noted, err) != ERR_NONE)
		return err->code;
	if (!e->counts_noted)
		return counts_all(e, NULL, e->counts, err);
	for (uint32_t i = 0; i < catalog->count; i++)
		if (load_table(e, a, catalog->entries[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

void counts_add_recount(struct buf *ops)
{
	struct buf key;

	buf_init(&key, NULL);
	layout_meta(&key, META_COUNTS);
	op_encode(ops, &(struct op){.kind = OP_DELETE, .key = buf_bytes(&key)});
	buf_release(&key);
}
