/* Catalog: copies of a sorted array of pointers. Changes are rare, so copying it whole is cheaper than being
 * clever. */
#include "engine/catalog.h"

#include <stdlib.h>

#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/view.h"
#include "item/codec.h"

#define META_NEXT_TABLE "next-table-id" /* (L2) */

bool table_entry_has_index(const struct table_entry *e, uint16_t index_id)
{
	for (uint32_t i = 0; i < e->schema.index_count; i++)
		if (e->index_ids[i] == index_id)
			return true;
	return false;
}

void table_entry_release(struct table_entry *e)
{
	if (atomic_fetch_sub(&e->refs, 1) != 1)
		return;
	arena_release(&e->arena);
	free(e);
}

struct table_entry *table_entry_make(const struct table_schema *schema)
{
	struct table_entry *e = mem_zalloc(sizeof(*e));

	atomic_init(&e->refs, 1);
	arena_init(&e->arena);
	e->schema = schema_copy(&e->arena, schema);
	e->next_index_id = INDEX_ID_FIRST;
	return e;
}

static struct catalog *catalog_alloc(uint32_t count, uint32_t next_table_id)
{
	struct catalog *c = mem_zalloc(sizeof(*c) + count * sizeof(c->entries[0]));

	atomic_init(&c->refs, 1);
	c->count = count;
	c->next_table_id = next_table_id;
	return c;
}

struct catalog *catalog_make_empty(void)
{
	return catalog_alloc(0, TABLE_ID_FIRST);
}

struct catalog *catalog_ref(const struct catalog *c)
{
	struct catalog *counted = (struct catalog *)(uintptr_t)c;

	atomic_fetch_add(&counted->refs, 1);
	return counted;
}

void catalog_release(const struct catalog *c)
{
	struct catalog *counted = (struct catalog *)(uintptr_t)c;

	if (atomic_fetch_sub(&counted->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < counted->count; i++)
		table_entry_release(counted->entries[i]);
	free(counted);
}

/* The position of the first entry whose name is not before `name`. */
static uint32_t position(const struct catalog *c, struct bytes name)
{
	uint32_t low = 0, high = c->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (bytes_compare(c->entries[middle]->schema.name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_at(const struct catalog *c, uint32_t at, struct bytes name)
{
	return at < c->count && bytes_equal(c->entries[at]->schema.name, name);
}

static void copy_entries(struct catalog *to, uint32_t at, const struct catalog *from, uint32_t first,
                         uint32_t end)
{
	for (uint32_t i = first; i < end; i++) {
		to->entries[at++] = from->entries[i];
		atomic_fetch_add(&from->entries[i]->refs, 1);
	}
}

struct catalog *catalog_with(const struct catalog *c, struct table_entry *e)
{
	uint32_t        at = position(c, e->schema.name);
	bool            replaces = is_at(c, at, e->schema.name);
	struct catalog *out = catalog_alloc(c->count + (replaces ? 0 : 1), c->next_table_id);

	copy_entries(out, 0, c, 0, at);
	out->entries[at] = e;
	copy_entries(out, at + 1, c, replaces ? at + 1 : at, c->count);
	if (e->id >= out->next_table_id)
		out->next_table_id = e->id + 1;
	return out;
}

struct catalog *catalog_without(const struct catalog *c, struct bytes name)
{
	uint32_t        at = position(c, name);
	struct catalog *out;

	if (!is_at(c, at, name))
		return catalog_ref(c);
	out = catalog_alloc(c->count - 1, c->next_table_id);
	copy_entries(out, 0, c, 0, at);
	copy_entries(out, at, c, at + 1, c->count);
	return out;
}

const struct table_entry *catalog_find(const struct catalog *c, struct bytes name)
{
	uint32_t at = position(c, name);

	return is_at(c, at, name) ? c->entries[at] : NULL;
}

const struct table_entry *catalog_find_id(const struct catalog *c, uint32_t id)
{
	for (uint32_t i = 0; i < c->count; i++)
		if (c->entries[i]->id == id)
			return c->entries[i];
	return NULL;
}

uint32_t catalog_after(const struct catalog *c, struct bytes name)
{
	uint32_t at = position(c, name);

	return is_at(c, at, name) ? at + 1 : at;
}

/* ---- the form on disk: an item like any other, so that there is one codec. Names of attributes here are part of the
 * format; new ones may be added, and an absent one means its zero. ---- */

static void set(struct arena *a, struct item *item, const char *name, struct value v)
{
	*item = item_with(a, item, bytes_of(name), &v);
}

static void set_keys(struct arena *a, struct item *item, const struct key_schema *keys)
{
	set(a, item, "hash", value_string(keys->hash.name));
	set(a, item, "hash_type", value_i64(keys->hash.type));
	if (keys->range.name.len == 0)
		return;
	set(a, item, "range", value_string(keys->range.name));
	set(a, item, "range_type", value_i64(keys->range.type));
}

static void set_throughput(struct arena *a, struct item *item, const struct throughput *t)
{
	const struct {
		const char *name;
		int64_t     number;
	} parts[] = {{"max_read", t->max_read},
	             {"max_write", t->max_write},
	             {"warm_read", t->warm_read},
	             {"warm_write", t->warm_write}};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].number != 0)
			set(a, item, parts[i].name, value_i64(parts[i].number));
}

static struct value index_to_value(struct arena *a, const struct index_schema *index, uint16_t id)
{
	struct item  item = {0};
	struct value include = {.type = VALUE_L};

	include.list.count = index->include_count;
	include.list.items = arena_array(a, index->include_count, sizeof(struct value));
	for (uint32_t i = 0; i < index->include_count; i++)
		include.list.items[i] = value_string(index->include[i]);
	set(a, &item, "name", value_string(index->name));
	set(a, &item, "id", value_i64(id));
	set(a, &item, "local", value_bool(index->local));
	set_keys(a, &item, &index->keys);
	set(a, &item, "projection", value_i64(index->projection));
	set(a, &item, "include", include);
	set(a, &item, "read_units", value_i64(index->read_units));
	set(a, &item, "write_units", value_i64(index->write_units));
	set_throughput(a, &item, &index->throughput);
	set(a, &item, "status", value_i64(index->status));
	return (struct value){.type = VALUE_M, .map = item};
}

static struct value indexes_to_value(struct arena *a, const struct table_entry *e)
{
	struct value v = {.type = VALUE_L};

	v.list.count = e->schema.index_count;
	v.list.items = arena_array(a, v.list.count, sizeof(struct value));
	for (uint32_t i = 0; i < v.list.count; i++)
		v.list.items[i] = index_to_value(a, &e->schema.indexes[i], e->index_ids[i]);
	return v;
}

static struct value tags_to_value(struct arena *a, const struct table_schema *s)
{
	struct item tags = {arena_array(a, s->tag_count, sizeof(struct member)), s->tag_count};

	for (uint32_t i = 0; i < s->tag_count; i++)
		tags.members[i] = (struct member){s->tags[i].key, value_string(s->tags[i].value)};
	return (struct value){.type = VALUE_M, .map = tags};
}

static struct item table_entry_to_item(struct arena *a, const struct table_entry *e)
{
	const struct table_schema *s = &e->schema;
	struct item                item = {0};

	set(a, &item, "name", value_string(s->name));
	set(a, &item, "uuid", value_string(s->id));
	set(a, &item, "id", value_i64(e->id));
	set(a, &item, "created_us", value_i64(s->created_us));
	set_keys(a, &item, &s->keys);
	set(a, &item, "indexes", indexes_to_value(a, e));
	set(a, &item, "next_index_id", value_i64(e->next_index_id));
	set(a, &item, "on_demand", value_bool(s->on_demand));
	set(a, &item, "read_units", value_i64(s->read_units));
	set(a, &item, "write_units", value_i64(s->write_units));
	set_throughput(a, &item, &s->throughput);
	set(a, &item, "on_demand_us", value_i64(s->on_demand_us));
	set(a, &item, "infrequent_access", value_bool(s->infrequent_access));
	set(a, &item, "class_us", value_i64(s->class_us));
	set(a, &item, "protected", value_bool(s->deletion_protected));
	set(a, &item, "ttl_attribute", value_string(s->ttl_attribute));
	set(a, &item, "ttl_filling", value_bool(e->ttl_filling));
	set(a, &item, "frozen_hour", value_i64(e->frozen_hour));
	set(a, &item, "tags", tags_to_value(a, s));
	return item;
}

/* ---- from an item: an absent or mistyped attribute reads as zero, and what must not be zero is checked ----
 */

static int64_t get_i64(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));
	int64_t             out;

	return v != NULL && v->type == VALUE_N && number_to_i64(&v->number, &out) ? out : 0;
}

static struct bytes get_text(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));

	return v != NULL && v->type == VALUE_S ? v->text : (struct bytes){"", 0};
}

static bool get_bool(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));

	return v != NULL && v->type == VALUE_BOOL && v->truth;
}

static struct value_list get_list(const struct item *item, const char *name)
{
	const struct value *v = item_get(item, bytes_of(name));

	return v != NULL && v->type == VALUE_L ? v->list : (struct value_list){0};
}

static struct key_schema get_keys(const struct item *item)
{
	return (struct key_schema){
	        {get_text(item, "hash"), (enum value_type)(get_i64(item, "hash_type") % 3)},
	        {get_text(item, "range"), (enum value_type)(get_i64(item, "range_type") % 3)}};
}

static struct throughput get_throughput(const struct item *item)
{
	return (struct throughput){get_i64(item, "max_read"), get_i64(item, "max_write"),
	                           get_i64(item, "warm_read"), get_i64(item, "warm_write")};
}

static struct index_schema index_from_item(struct arena *a, const struct item *item)
{
	struct value_list   include = get_list(item, "include");
	struct index_schema index = {.name = get_text(item, "name"),
	                             .local = get_bool(item, "local"),
	                             .keys = get_keys(item),
	                             .projection = (enum projection_kind)get_i64(item, "projection"),
	                             .include_count = include.count,
	                             .read_units = get_i64(item, "read_units"),
	                             .write_units = get_i64(item, "write_units"),
	                             .throughput = get_throughput(item),
	                             .status = (enum index_status)get_i64(item, "status")};

	index.include = arena_array(a, include.count, sizeof(struct bytes));
	for (uint32_t i = 0; i < include.count; i++)
		index.include[i] =
		        include.items[i].type == VALUE_S ? include.items[i].text : (struct bytes){"", 0};
	return index;
}

static void tags_from_item(struct arena *a, const struct item *item, struct table_schema *s)
{
	const struct value *v = item_get(item, BYTES("tags"));

	if (v == NULL || v->type != VALUE_M)
		return;
	s->tag_count = v->map.count;
	s->tags = arena_array(a, s->tag_count, sizeof(struct tag));
	for (uint32_t i = 0; i < s->tag_count; i++)
		s->tags[i] = (struct tag){v->map.members[i].name, v->map.members[i].value.text};
}

static enum err_code table_entry_from_item(const struct item *item, struct table_entry **out, struct err *err)
{
	struct value_list   indexes = get_list(item, "indexes");
	struct table_schema s = {.name = get_text(item, "name"),
	                         .id = get_text(item, "uuid"),
	                         .created_us = get_i64(item, "created_us"),
	                         .keys = get_keys(item),
	                         .index_count = indexes.count,
	                         .on_demand = get_bool(item, "on_demand"),
	                         .read_units = get_i64(item, "read_units"),
	                         .write_units = get_i64(item, "write_units"),
	                         .throughput = get_throughput(item),
	                         .on_demand_us = get_i64(item, "on_demand_us"),
	                         .infrequent_access = get_bool(item, "infrequent_access"),
	                         .class_us = get_i64(item, "class_us"),
	                         .deletion_protected = get_bool(item, "protected"),
	                         .ttl_attribute = get_text(item, "ttl_attribute")};
	struct arena        scratch;

	if (s.name.len == 0 || s.keys.hash.name.len == 0 || get_i64(item, "id") <= 0 ||
	    indexes.count > TABLE_INDEX_MAX)
		return err_set(err, ERR_STORAGE,
		               "the stored schema of a table is damaged; run `gatehouse check`");
	arena_init(&scratch);
	s.indexes = arena_array(&scratch, indexes.count, sizeof(struct index_schema));
	for (uint32_t i = 0; i < indexes.count; i++)
		s.indexes[i] = index_from_item(&scratch, &indexes.items[i].map);
	tags_from_item(&scratch, item, &s);
	*out = table_entry_make(&s);
	arena_release(&scratch);
	(*out)->id = (uint32_t)get_i64(item, "id");
	(*out)->next_index_id = (uint16_t)get_i64(item, "next_index_id");
	(*out)->ttl_filling = get_bool(item, "ttl_filling");
	(*out)->frozen_hour = (uint32_t)get_i64(item, "frozen_hour");
	for (uint32_t i = 0; i < indexes.count; i++)
		(*out)->index_ids[i] = (uint16_t)get_i64(&indexes.items[i].map, "id");
	return ERR_NONE;
}

/* ---- saving, in a turn ---- */

static void put_item(struct engine_session *s, struct arena *a, struct bytes key, const struct item *item)
{
	struct buf value;

	buf_init(&value, a);
	item_encode(&value, item);
	turn_put(s->turn, key, buf_bytes(&value), TURN_SOMETHING);
}

void catalog_save(struct engine_session *s, struct arena *a, struct table_entry *e)
{
	struct item item = table_entry_to_item(a, e);
	struct buf  key;

	buf_init(&key, a);
	layout_table(&key, e->schema.name);
	put_item(s, a, buf_bytes(&key), &item);
	turn_set_catalog(s->turn, catalog_with(s->turn->catalog, e));
}

void catalog_save_next_id(struct engine_session *s, struct arena *a)
{
	struct value next = value_i64(s->turn->catalog->next_table_id);
	struct item  item = {0};
	struct buf   key;

	item = item_with(a, &item, BYTES("next"), &next);
	buf_init(&key, a);
	layout_meta(&key, META_NEXT_TABLE);
	put_item(s, a, buf_bytes(&key), &item);
}

/* ---- loading, when the engine opens ---- */

static enum err_code load_table(struct bytes value, struct arena *a, struct catalog **catalog,
                                struct err *err)
{
	struct catalog     *old = *catalog;
	struct table_entry *e = NULL;
	struct item         item;

	if (item_decode(a, arena_copy(a, value), &item, err) != ERR_NONE ||
	    table_entry_from_item(&item, &e, err) != ERR_NONE)
		return err->code;
	*catalog = catalog_with(old, e);
	catalog_release(old);
	return ERR_NONE;
}

static enum err_code load_next_id(struct engine *e, struct arena *a, struct catalog *catalog, struct err *err)
{
	struct buf          key;
	struct item         item;
	const struct value *next;
	int64_t             id;
	bool                found;

	buf_init(&key, a);
	layout_meta(&key, META_NEXT_TABLE);
	if (view_item(e, a, buf_bytes(&key), &item, &found, err) != ERR_NONE)
		return err->code;
	next = found ? item_get(&item, BYTES("next")) : NULL;
	if (next != NULL && next->type == VALUE_N && number_to_i64(&next->number, &id) &&
	    id > catalog->next_table_id)
		catalog->next_table_id = (uint32_t)id;
	return ERR_NONE;
}

static enum err_code load_all(struct engine *e, struct arena *a, struct catalog **catalog, struct err *err)
{
	struct engine_session s = {.engine = e, .turn = e->unwritten};
	const char            kind[1] = {KIND_TABLE};
	struct bytes          low = {kind, 1}, high = layout_after(a, low), key, value;
	enum err_code         rc = ERR_NONE;
	struct view_cursor    c;

	view_cursor_open(&c, &s, NULL, a, &(struct waiting_range){.low = low, .high = high});
	while (rc == ERR_NONE && view_cursor_next(&c, &key, &value))
		rc = load_table(value, a, catalog, err);
	if (rc == ERR_NONE)
		rc = view_cursor_check(&c, err);
	view_cursor_close(&c);
	return rc == ERR_NONE ? load_next_id(e, a, *catalog, err) : rc;
}

enum err_code catalog_load(struct engine *e, struct err *err)
{
	struct catalog *empty = catalog_make_empty(), *catalog = catalog_with(empty, batch_tokens_table());
	struct arena    a;
	enum err_code   rc;

	catalog_release(empty);
	arena_init(&a);
	rc = load_all(e, &a, &catalog, err);
	if (rc == ERR_NONE)
		rc = lapse_load(e, &a, catalog, err);
	if (rc == ERR_NONE)
		rc = counts_load(e, &a, catalog, err);
	arena_release(&a);
	e->catalog = catalog;
	return rc;
}
