/* Counts: a sorted array under a lock, touched once per change and once per batch.
 *
 * Older programs stored counts now and then, and after a kill they were wrong for good: the first opening by this one counts
 * everything once. */
#include "engine/counts.h"

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

static uint64_t slot_key(uint32_t table_id, uint32_t part)
{
	return (uint64_t)table_id << 32 | part;
}

/* The position of the first slot not before it. */
static size_t position(const struct counts *c, uint64_t key)
{
	size_t low = 0, high = c->len;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (slot_key(c->slots[middle].table_id, c->slots[middle].part) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct counts_slot *slot_at(struct counts *c, uint32_t table_id, uint32_t part)
{
	size_t at = position(c, slot_key(table_id, part));

	if (at < c->len && c->slots[at].table_id == table_id && c->slots[at].part == part)
		return &c->slots[at];
	if (c->len == c->cap) {
		c->cap = c->cap == 0 ? 16 : c->cap * 2;
		c->slots = mem_realloc(c->slots, c->cap * sizeof(*c->slots));
	}
	memmove(&c->slots[at + 1], &c->slots[at], (c->len - at) * sizeof(*c->slots));
	c->len++;
	c->slots[at] = (struct counts_slot){table_id, part, false, {0, 0}};
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
	c->changed[c->changed_len++] = slot_key(s->table_id, s->part);
	s->changed = true;
}

static bool is_rows(const struct counts_slot *s)
{
	return s->part == 0 || s->part >= LAPSE_HOUR_MIN;
}

struct count counts_get(struct counts *c, uint32_t table_id, uint16_t index_id)
{
	struct count count;

	pthread_mutex_lock(&c->lock);
	count = slot_at(c, table_id, index_id)->count;
	for (size_t at = position(c, slot_key(table_id, LAPSE_HOUR_MIN));
	     index_id == 0 && at < c->len && c->slots[at].table_id == table_id; at++) {
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

uint64_t counts_rows(struct counts *c)
{
	int64_t rows = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++)
		if (is_rows(&c->slots[i]) && c->slots[i].count.items > 0)
			rows += c->slots[i].count.items;
	pthread_mutex_unlock(&c->lock);
	return (uint64_t)rows;
}

void counts_add(struct counts *c, uint32_t table_id, uint32_t part, struct count change)
{
	struct counts_slot *s;

	pthread_mutex_lock(&c->lock);
	s = slot_at(c, table_id, part);
	s->count.items += change.items;
	s->count.bytes += change.bytes;
	mark_changed(c, s);
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

/* ---- hours ---- */

bool counts_lapse_before(struct counts *c, uint32_t hour)
{
	bool found = false;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len && !found; i++)
		found = c->slots[i].part >= LAPSE_HOUR_MIN && c->slots[i].part < hour;
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* In a table that is being deleted, too: then its slots go with it. */
static bool is_closed_by(const struct counts_slot *s, const struct catalog *catalog, uint32_t hour)
{
	const struct table_entry *t;

	if (s->part < LAPSE_HOUR_MIN || s->part >= hour)
		return false;
	t = catalog_find_id(catalog, s->table_id);
	return t == NULL || t->frozen_hour == 0;
}

uint64_t counts_drop_closed(struct counts *c, const struct catalog *catalog, uint32_t hour)
{
	int64_t rows = 0;
	size_t  kept = 0;

	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->len; i++) {
		if (is_closed_by(&c->slots[i], catalog, hour))
			rows += c->slots[i].count.items;
		else
			c->slots[kept++] = c->slots[i];
	}
	c->len = kept;
	pthread_mutex_unlock(&c->lock);
	return rows > 0 ? (uint64_t)rows : 0;
}

/* ---- with each commit ---- */

static uint32_t part_of(uint16_t index_id, uint32_t hour)
{
	return index_id != 0 ? index_id : hour;
}

/* Adds what one change is; with sign -1, takes it off again. */
static void count_change(struct counts *counts, const struct change *c, int sign)
{
	struct count was = {c->existed ? 1 : 0, (int64_t)c->existed_bytes};
	struct count is = {c->deleted ? 0 : 1, (int64_t)c->value.len};
	uint32_t     table_id, old, new;
	uint16_t     index_id;

	if (!layout_parse_owner(c->key, &table_id, &index_id))
		return;
	old = part_of(index_id, c->existed_hour);
	new = c->deleted ? old : part_of(index_id, item_lapse(c->value));
	if (old != new && c->existed) {
		counts_add(counts, table_id, old, (struct count){-sign, -sign * was.bytes});
		was = (struct count){0, 0};
	}
	is = (struct count){sign * (is.items - was.items), sign * (is.bytes - was.bytes)};
	if (is.items != 0 || is.bytes != 0)
		counts_add(counts, table_id, new, is);
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
	for (const struct change *c = t->first; c != NULL; c = c->next)
		if (c->written && !is_deleted(t, c->key))
			count_change(counts, c, sign);
}

/* One attribute a part: its number -> [items, bytes]. */
static void add_slot(struct arena *a, struct item *item, const struct counts_slot *s)
{
	struct value v = {.type = VALUE_L, .list = {arena_array(a, 2, sizeof(struct value)), 2}};
	struct bytes name = arena_printf(a, "%u", s->part);

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

/* All parts of a table but its hours, as one item. */
static void store_table(struct counts *c, struct turn *t, uint32_t table_id)
{
	struct item item = {0};
	struct buf  key;

	for (size_t at = position(c, slot_key(table_id, 0));
	     at < c->len && c->slots[at].table_id == table_id && c->slots[at].part < LAPSE_HOUR_MIN; at++) {
		c->slots[at].changed = false;
		add_slot(&t->arena, &item, &c->slots[at]);
	}
	buf_init(&key, &t->arena);
	layout_counts(&key, table_id);
	store_item(t, buf_bytes(&key), &item);
}

/* One that is closed, or in which no row lapses any more, is not stored. */
static void store_hour(struct turn *t, struct counts_slot *s)
{
	struct item item = {0};
	struct buf  key;

	s->changed = false;
	buf_init(&key, &t->arena);
	layout_counts_hour(&key, s->table_id, s->part);
	if ((s->count.items == 0 && s->count.bytes == 0) || is_closed_by(s, t->catalog, t->closes)) {
		turn_delete(t, buf_bytes(&key), TURN_SOMETHING);
		return;
	}
	add_slot(&t->arena, &item, s);
	store_item(t, buf_bytes(&key), &item);
}

static void mark_closed(struct counts *c, const struct turn *t)
{
	for (size_t i = 0; i < c->len; i++)
		if (is_closed_by(&c->slots[i], t->catalog, t->closes))
			mark_changed(c, &c->slots[i]);
}

static void store_changed(struct counts *c, struct turn *t)
{
	pthread_mutex_lock(&c->lock);
	if (t->closes != 0)
		mark_closed(c, t);
	for (size_t i = 0; i < c->changed_len; i++) {
		size_t              at = position(c, c->changed[i]);
		struct counts_slot *s = at < c->len ? &c->slots[at] : NULL;

		if (s == NULL || slot_key(s->table_id, s->part) != c->changed[i] || !s->changed)
			continue; /* it was dropped, or stored with another of its table */
		if (catalog_find_id(t->catalog, s->table_id) == NULL)
			s->changed = false; /* it is being deleted */
		else if (s->part >= LAPSE_HOUR_MIN)
			store_hour(t, s);
		else
			store_table(c, t, s->table_id);
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
	uint32_t table_id;
	uint16_t index_id;

	if (layout_parse_owner(key, &table_id, &index_id))
		counts_add(c, table_id, part_of(index_id, item_lapse(value)),
		           (struct count){1, (int64_t)value.len});
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

		view_cursor_open(&c, &s, snapshot, &a, low, layout_after(&a, low), false);
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

static void load_slots(struct counts *c, uint32_t table_id, const struct item *item)
{
	for (uint32_t i = 0; i < item->count; i++) {
		const struct value *v = &item->members[i].value;
		uint64_t            part;
		struct count        count;

		if (!bytes_to_u64(item->members[i].name, UINT32_MAX, &part) || v->type != VALUE_L ||
		    v->list.count != 2 || !number_to_i64(&v->list.items[0].number, &count.items) ||
		    !number_to_i64(&v->list.items[1].number, &count.bytes))
			continue;
		pthread_mutex_lock(&c->lock);
		slot_at(c, table_id, (uint32_t)part)->count = count;
		pthread_mutex_unlock(&c->lock);
	}
}

/* An index that was deleted goes out of the counts with the next commit; there may have been none. */
static enum err_code load_table(struct engine *e, struct arena *a, const struct table_entry *t,
                                struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	struct view_cursor    c;
	struct buf            low;
	struct bytes          key, value;
	struct item           item;
	enum err_code         rc = ERR_NONE;

	buf_init(&low, a);
	layout_counts(&low, t->id);
	view_cursor_open(&c, &s, NULL, a, buf_bytes(&low), layout_after(a, buf_bytes(&low)), false);
	while (rc == ERR_NONE && view_cursor_next(&c, &key, &value)) {
		rc = item_decode(a, arena_copy(a, value), &item, err);
		if (rc == ERR_NONE)
			load_slots(e->counts, t->id, &item);
	}
	if (rc == ERR_NONE)
		rc = view_cursor_check(&c, err);
	view_cursor_close(&c);
	if (rc != ERR_NONE)
		return rc;
	for (uint16_t id = INDEX_ID_FIRST; id < t->next_index_id; id++)
		if (!table_entry_has_index(t, id))
			drop_index(e->counts, t->id, id);
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
	if (view_item(e, a, buf_bytes(&key), &item, &e->counts_noted, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < catalog->count; i++)
		if (load_table(e, a, catalog->entries[i], err) != ERR_NONE)
			return err->code;
	if (e->counts_noted)
		return ERR_NONE;
	forget(e->counts);
	return counts_all(e, NULL, e->counts, err);
}

void counts_add_recount(struct buf *ops)
{
	struct buf key;

	buf_init(&key, NULL);
	layout_meta(&key, META_COUNTS);
	op_encode(ops, &(struct op){.kind = OP_DELETE, .key = buf_bytes(&key)});
	buf_release(&key);
}
