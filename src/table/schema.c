/* Schema: the checks that keep tables well-formed, what an index takes of an item, and when an item expires. */
#include "table/schema.h"

#include "item/messages.h"

bool schema_name_is(struct bytes text)
{
	return text.len >= TABLE_NAME_MIN && text.len <= TABLE_NAME_MAX &&
	       bytes_hold_only(text, TABLE_NAME_MARKS);
}

const struct index_schema *schema_index(const struct table_schema *s, struct bytes name)
{
	for (uint32_t i = 0; i < s->index_count; i++)
		if (bytes_equal(s->indexes[i].name, name))
			return &s->indexes[i];
	return NULL;
}

/* ---- is the schema itself sound? ---- */

static enum err_code check_local(const struct table_schema *s, const struct index_schema *index,
                                 struct err *err)
{
	if (s->keys.range.name.len == 0)
		return err_set(err, ERR_INVALID, MSG_LSI_NO_RANGE);
	if (!bytes_equal(index->keys.hash.name, s->keys.hash.name))
		return err_set(err, ERR_INVALID, MSG_LSI_HASH, BYTES_ARG(index->name),
		               BYTES_ARG(index->keys.hash.name), BYTES_ARG(s->keys.hash.name));
	return ERR_NONE;
}

enum err_code schema_check(const struct table_schema *s, struct err *err)
{
	uint32_t local = 0, included = 0;

	for (uint32_t i = 0; i < s->index_count; i++) {
		const struct index_schema *index = &s->indexes[i];

		if (schema_index(s, index->name) != index)
			return err_set(err, ERR_INVALID, MSG_INDEX_TWICE, BYTES_ARG(index->name));
		if (index->local && check_local(s, index, err) != ERR_NONE)
			return err->code;
		local += index->local ? 1 : 0;
		included += index->include_count;
	}
	if (local > TABLE_LSI_MAX)
		return err_set(err, ERR_INVALID, MSG_LSI_MAX);
	if (s->index_count - local > TABLE_GSI_MAX)
		return err_set(err, ERR_LIMIT, MSG_GSI_MAX);
	if (included > TABLE_INCLUDE_MAX)
		return err_set(err, ERR_INVALID, MSG_INCLUDE_MAX);
	return ERR_NONE;
}

/* ---- throughput ---- */

enum { WARM_READ = 12000, WARM_WRITE = 4000 }; /* of what is on demand */

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

struct throughput schema_warm(bool on_demand, int64_t read_units, int64_t write_units,
                              const struct throughput *asked)
{
	return (struct throughput){.warm_read = larger(on_demand ? WARM_READ : read_units, asked->warm_read),
	                           .warm_write =
	                                   larger(on_demand ? WARM_WRITE : write_units, asked->warm_write)};
}

static enum err_code fail_throughput(const char *format, const char *which, const struct index_schema *index,
                                     struct err *err)
{
	struct bytes name = index == NULL ? BYTES("table") : index->name;

	return err_set(err, ERR_INVALID, format, which, index == NULL ? "" : "index ", BYTES_ARG(name));
}

enum err_code schema_check_throughput(const struct table_schema *s, const struct index_schema *index,
                                      const struct throughput *asked, struct err *err)
{
	struct throughput now =
	        index == NULL ? schema_warm(s->on_demand, s->read_units, s->write_units, &s->throughput)
	                      : schema_warm(s->on_demand, index->read_units, index->write_units,
	                                    &index->throughput);

	if (!s->on_demand && (asked->max_read != 0 || asked->max_write != 0))
		return err_set(err, ERR_INVALID, MSG_DEMAND_PROVISIONED,
		               asked->max_read != 0 ? "MaxReadRequestUnits" : "MaxWriteRequestUnits");
	if (asked->warm_read != 0 && asked->warm_read < now.warm_read)
		return fail_throughput(MSG_WARM_LOWER, "ReadUnitsPerSecond", index, err);
	if (asked->warm_write != 0 && asked->warm_write < now.warm_write)
		return fail_throughput(MSG_WARM_LOWER, "WriteUnitsPerSecond", index, err);
	return ERR_NONE;
}

/* ---- parts of an item ---- */

/* Names are taken from the item, not from the schema: they live as long as the item does. */
static void add_member(struct item *out, const struct item *item, struct bytes name)
{
	const struct member *m = name.len == 0 || item_get(out, name) != NULL ? NULL : item_find(item, name);
	uint32_t             at = out->count;

	if (m == NULL)
		return;
	for (; at > 0 && bytes_compare(out->members[at - 1].name, name) > 0; at--)
		out->members[at] = out->members[at - 1];
	out->members[at] = *m;
	out->count++;
}

static void add_keys(struct item *out, const struct item *item, const struct key_schema *keys)
{
	add_member(out, item, keys->hash.name);
	add_member(out, item, keys->range.name);
}

struct item schema_key_of(struct arena *a, const struct table_schema *s, const struct index_schema *index,
                          const struct item *item)
{
	struct item out = {arena_array(a, 4, sizeof(struct member)), 0};

	add_keys(&out, item, &s->keys);
	if (index != NULL)
		add_keys(&out, item, &index->keys);
	return out;
}

static bool has_key(const struct item *item, const struct key_attribute *attribute)
{
	const struct value *v = attribute->name.len == 0 ? NULL : item_get(item, attribute->name);

	return attribute->name.len == 0 ||
	       (v != NULL && v->type == attribute->type && (v->type == VALUE_N || v->text.len > 0));
}

bool schema_project(struct arena *a, const struct table_schema *s, const struct index_schema *index,
                    const struct item *item, struct item *out)
{
	if (!has_key(item, &index->keys.hash) || !has_key(item, &index->keys.range))
		return false;
	if (index->projection == PROJECT_ALL) {
		*out = *item;
		return true;
	}
	*out = (struct item){arena_array(a, 4 + index->include_count, sizeof(struct member)), 0};
	add_keys(out, item, &s->keys);
	add_keys(out, item, &index->keys);
	for (uint32_t i = 0; i < index->include_count; i++)
		add_member(out, item, index->include[i]);
	return true;
}

static bool fits(const struct item *item, const struct key_attribute *attribute, size_t bytes_max)
{
	const struct value *v = attribute->name.len == 0 ? NULL : item_get(item, attribute->name);

	return v == NULL || v->type == VALUE_N || v->text.len <= bytes_max;
}

bool schema_index_takes(const struct index_schema *index, const struct item *item)
{
	return fits(item, &index->keys.hash, KEY_HASH_BYTES_MAX) &&
	       fits(item, &index->keys.range, KEY_RANGE_BYTES_MAX);
}

/* ---- time to live ---- */

int64_t schema_expiry(const struct table_schema *s, const struct item *item)
{
	const struct value *v = s->ttl_attribute.len == 0 ? NULL : item_get(item, s->ttl_attribute);
	int64_t             seconds;

	if (v == NULL || v->type != VALUE_N || !number_to_i64(&v->number, &seconds) || seconds <= 0)
		return 0;
	return seconds;
}

bool schema_expired(const struct table_schema *s, const struct item *item, int64_t now_us)
{
	int64_t expiry = schema_expiry(s, item), now = now_us / 1000000;

	return expiry != 0 && expiry <= now && expiry > now - SCHEMA_EXPIRY_PAST_S;
}

/* ---- copying ---- */

static struct key_schema keys_copy(struct arena *a, const struct key_schema *k)
{
	struct key_schema copy = *k;

	copy.hash.name = arena_copy(a, k->hash.name);
	copy.range.name = arena_copy(a, k->range.name);
	return copy;
}

static struct index_schema index_copy(struct arena *a, const struct index_schema *index)
{
	struct index_schema copy = *index;

	copy.name = arena_copy(a, index->name);
	copy.keys = keys_copy(a, &index->keys);
	copy.include = arena_array(a, index->include_count, sizeof(struct bytes));
	for (uint32_t i = 0; i < index->include_count; i++)
		copy.include[i] = arena_copy(a, index->include[i]);
	return copy;
}

struct table_schema schema_copy(struct arena *a, const struct table_schema *s)
{
	struct table_schema copy = *s;

	copy.name = arena_copy(a, s->name);
	copy.id = arena_copy(a, s->id);
	copy.keys = keys_copy(a, &s->keys);
	copy.ttl_attribute = arena_copy(a, s->ttl_attribute);
	copy.indexes = arena_array(a, s->index_count, sizeof(struct index_schema));
	for (uint32_t i = 0; i < s->index_count; i++)
		copy.indexes[i] = index_copy(a, &s->indexes[i]);
	copy.tags = arena_array(a, s->tag_count, sizeof(struct tag));
	for (uint32_t i = 0; i < s->tag_count; i++)
		copy.tags[i] = (struct tag){arena_copy(a, s->tags[i].key), arena_copy(a, s->tags[i].value)};
	return copy;
}
