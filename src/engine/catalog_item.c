/* Catalog item: a table's entry in the form on disk, which is an item like any other, so that there is one
 * codec. Names of attributes here are part of the format; new ones may be added, and an absent one means its
 * zero. */
#include "engine/catalog.h"

/* ---- to an item ---- */

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

struct item table_entry_to_item(struct arena *a, const struct table_entry *e)
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
	set(a, &item, "protected", value_bool(s->deletion_protected));
	set(a, &item, "ttl_attribute", value_string(s->ttl_attribute));
	set(a, &item, "ttl_filling", value_bool(e->ttl_filling));
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

enum err_code table_entry_from_item(const struct item *item, struct table_entry **out, struct err *err)
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
	for (uint32_t i = 0; i < indexes.count; i++)
		(*out)->index_ids[i] = (uint16_t)get_i64(&indexes.items[i].map, "id");
	return ERR_NONE;
}
