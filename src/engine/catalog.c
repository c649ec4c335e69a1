/* Catalog: copies of a sorted array of pointers. Changes are rare, so copying it whole is cheaper than being
 * clever. */
#include "engine/catalog.h"

#include <stdlib.h>

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
