/* Tables: making, describing, changing and removing tables. Every change makes a new entry and a new catalog (catalog.h),
 * in the turn. */

#include <assert.h>

#include "engine/lapse.h"
#include "engine/layout.h"
#include "engine/row.h"
#include "item/messages.h"

/* ---- describing ---- */

static void describe(struct engine_session *s, struct arena *a, const struct table_entry *e,
                     struct table_description *r)
{
	struct counts *counts = s->engine->counts;
	struct count   count = counts_get(counts, e->id, 0);

	*r = (struct table_description){
	        .schema = schema_copy(a, &e->schema), .item_count = count.items, .size_bytes = count.bytes};
	r->index_item_counts = arena_array(a, e->schema.index_count, sizeof(int64_t));
	r->index_size_bytes = arena_array(a, e->schema.index_count, sizeof(int64_t));
	for (uint32_t i = 0; i < e->schema.index_count; i++) {
		count = counts_get(counts, e->id, e->index_ids[i]);
		r->index_item_counts[i] = count.items;
		r->index_size_bytes[i] = count.bytes;
	}
}

static enum err_code find(const struct engine_session *s, struct bytes name, const struct table_entry **e,
                          struct err *err)
{
	if (row_table(s, name, e, err) == ERR_NONE)
		return ERR_NONE;
	return err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE_NAMED, BYTES_ARG(name));
}

bool tables_lacks(const struct table *t, struct bytes name)
{
	const struct engine_session *s = (const struct engine_session *)t;

	return catalog_find(s->turn != NULL ? s->turn->catalog : s->catalog, name) == NULL;
}

enum err_code tables_describe(struct table *t, struct arena *a, struct bytes name,
                              struct table_description *r, struct err *err)
{
	struct engine_session    *s = (struct engine_session *)t;
	const struct table_entry *e;

	if (find(s, name, &e, err) != ERR_NONE)
		return err->code;
	describe(s, a, e, r);
	return ERR_NONE;
}

enum err_code tables_list(struct table *t, struct arena *a, const struct table_list *q,
                          struct table_list_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	const struct catalog  *c = s->turn != NULL ? s->turn->catalog : s->catalog;

	(void)err;
	*r = (struct table_list_result){.names = arena_array(a, q->limit, sizeof(struct bytes))};
	for (uint32_t at = catalog_after(c, q->after); at < c->count; at++) {
		if (c->entries[at]->internal)
			continue;
		if (r->count == q->limit) {
			r->more = true;
			break;
		}
		r->names[r->count++] = arena_copy(a, c->entries[at]->schema.name);
	}
	return ERR_NONE;
}

/* ---- creating and removing ---- */

static struct bytes make_uuid(const struct engine *e, struct arena *a)
{
	uint8_t r[16];

	e->options.random(r, sizeof(r));
	r[6] = (uint8_t)((r[6] & 0x0f) | 0x40);
	r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
	return arena_printf(a, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", r[0],
	                    r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12], r[13],
	                    r[14], r[15]);
}

/* Of a table that is to be made, and of its indexes: as if nothing had been asked for yet. */
static enum err_code check_throughputs(const struct table_schema *s, struct err *err)
{
	struct table_schema bare = *s;

	bare.throughput = (struct throughput){0};
	if (schema_check_throughput(&bare, NULL, &s->throughput, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < s->index_count; i++) {
		struct index_schema index = s->indexes[i];

		index.throughput = (struct throughput){0};
		if (schema_check_throughput(&bare, &index, &s->indexes[i].throughput, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

enum err_code tables_create(struct table *t, struct arena *a, const struct table_schema *q,
                            struct table_description *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct table_schema    schema = *q;
	struct table_entry    *e;

	assert(s->turn != NULL);
	if (schema_check(q, err) != ERR_NONE)
		return err->code;
	if (catalog_find(s->turn->catalog, q->name) != NULL)
		return err_set(err, ERR_RESOURCE_IN_USE, MSG_TABLE_EXISTS, BYTES_ARG(q->name));
	if (s->turn->catalog->count - 1 >= TABLE_COUNT_MAX) /* one is the engine's own */
		return err_set(err, ERR_LIMIT, MSG_TABLES_MAX, TABLE_COUNT_MAX);
	if (check_throughputs(q, err) != ERR_NONE)
		return err->code;
	schema.id = make_uuid(s->engine, a);
	schema.created_us = s->base.now_us;
	schema.on_demand_us = schema.on_demand ? schema.created_us : 0;
	e = table_entry_make(&schema);
	e->id = s->turn->catalog->next_table_id;
	for (uint32_t i = 0; i < schema.index_count; i++)
		e->index_ids[i] = e->next_index_id++;
	describe(s, a, e, r);
	catalog_save(s, a, e);
	catalog_save_next_id(s, a);
	return ERR_NONE;
}

static void delete_prefix(struct engine_session *s, struct arena *a, struct bytes prefix)
{
	turn_delete_range(s->turn, prefix, layout_after(a, prefix));
}

enum err_code tables_remove(struct table *t, struct arena *a, struct bytes name, struct table_description *r,
                            struct err *err)
{
	struct engine_session    *s = (struct engine_session *)t;
	const struct table_entry *e;
	struct buf                rows, indexes, row, counts;

	assert(s->turn != NULL);
	if (find(s, name, &e, err) != ERR_NONE)
		return err->code;
	if (e->schema.deletion_protected)
		return err_set(err, ERR_INVALID, MSG_TABLE_PROTECTED);
	describe(s, a, e, r);
	r->deleting = true;
	buf_init(&rows, a);
	buf_init(&indexes, a);
	buf_init(&row, a);
	buf_init(&counts, a);
	layout_table_prefix(&rows, e->id);
	layout_indexes_prefix(&indexes, e->id);
	layout_table(&row, name);
	layout_counts(&counts, e->id);
	delete_prefix(s, a, buf_bytes(&rows));
	delete_prefix(s, a, buf_bytes(&indexes));
	turn_delete(s->turn, buf_bytes(&row), TURN_SOMETHING);
	delete_prefix(s, a, buf_bytes(&counts));
	turn_set_catalog(s->turn, catalog_without(s->turn->catalog, name));
	return ERR_NONE;
}

/* ---- altering ---- */

/* A draft of the changed table; its schema is in the request's arena until the entry is made of it. */
struct draft {
	struct table_schema schema;
	uint16_t            index_ids[TABLE_INDEX_MAX + 1];
	uint16_t            next_index_id;
	uint32_t            ttl_changes;
	uint32_t            frozen_hour;
	bool                ttl_filling;
};

static struct index_schema *draft_index(struct draft *d, struct bytes name)
{
	for (uint32_t i = 0; i < d->schema.index_count; i++)
		if (bytes_equal(d->schema.indexes[i].name, name))
			return &d->schema.indexes[i];
	return NULL;
}

static bool same_type(const struct key_attribute *a, const struct key_attribute *b)
{
	return a->name.len == 0 || !bytes_equal(a->name, b->name) || a->type == b->type;
}

/* An attribute that is a key somewhere has one type: with two, no item would fit the table any more. */
static enum err_code check_types(const struct key_schema *known, const struct key_schema *added,
                                 struct err *err)
{
	const struct key_attribute *attributes[2] = {&added->hash, &added->range};

	for (int i = 0; i < 2; i++)
		if (!same_type(attributes[i], &known->hash) || !same_type(attributes[i], &known->range))
			return err_set(err, ERR_INVALID,
			               MSG_PARAMETER_INVALID
			               "Attribute %.*s is already defined with another type",
			               BYTES_ARG(attributes[i]->name));
	return ERR_NONE;
}

static enum err_code check_index_types(const struct table_schema *s, const struct index_schema *added,
                                       struct err *err)
{
	if (check_types(&s->keys, &added->keys, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < s->index_count; i++)
		if (check_types(&s->indexes[i].keys, &added->keys, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

static enum err_code add_index(struct draft *d, struct arena *a, const struct table_change *change,
                               struct err *err)
{
	struct table_schema *s = &d->schema;
	struct index_schema *indexes;

	if (draft_index(d, change->index.name) != NULL)
		return err_set(err, ERR_INVALID, MSG_INDEX_EXISTS, BYTES_ARG(change->index.name));
	if (s->index_count == TABLE_INDEX_MAX)
		return err_set(err, ERR_LIMIT, MSG_GSI_MAX);
	if (d->next_index_id == UINT16_MAX) /* (L2): ids are not used twice */
		return err_set(err, ERR_LIMIT,
		               "this table has used up its 65535 index ids; create a new table");
	if (check_index_types(s, &change->index, err) != ERR_NONE)
		return err->code;
	indexes = arena_array(a, s->index_count + 1, sizeof(*indexes));
	if (s->index_count > 0)
		memcpy(indexes, s->indexes, s->index_count * sizeof(*indexes));
	indexes[s->index_count] = change->index;
	indexes[s->index_count].status = INDEX_CREATING;
	d->index_ids[s->index_count++] = d->next_index_id++;
	s->indexes = indexes;
	return schema_check(s, err);
}

static enum err_code remove_index(struct engine_session *s, struct arena *a, uint32_t table_id,
                                  struct draft *d, struct bytes name, struct err *err)
{
	struct index_schema *index = draft_index(d, name);
	uint32_t             at, after;
	struct buf           prefix;

	if (index == NULL || index->local)
		return err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE);
	at = (uint32_t)(index - d->schema.indexes);
	after = d->schema.index_count - at - 1;
	buf_init(&prefix, a);
	layout_index_prefix(&prefix, table_id, d->index_ids[at]);
	delete_prefix(s, a, buf_bytes(&prefix));
	memmove(index, index + 1, after * sizeof(*index));
	memmove(&d->index_ids[at], &d->index_ids[at + 1], after * sizeof(d->index_ids[0]));
	d->schema.index_count--;
	return ERR_NONE;
}

/* DynamoDB refuses units that are as they were. `index` is empty for the table's own. */
static enum err_code check_units_change(struct bytes index, const int64_t now[2],
                                        const struct table_change *change, struct err *err)
{
	const char *what = index.len > 0 ? "index " : "table";

	if (now[0] != change->read_units || now[1] != change->write_units)
		return ERR_NONE;
	return err_set(err, ERR_INVALID, MSG_UNITS_SAME, what, BYTES_ARG(index), what, BYTES_ARG(index),
	               (long long)now[0], (long long)now[0], what, BYTES_ARG(index), (long long)now[1],
	               (long long)now[1]);
}

/* Maxima are for tables on demand, units for the others. Units that an index keeps would be refused as unchanged when it needs them again. */
static void indexes_follow_billing(struct table_schema *s)
{
	for (uint32_t i = 0; i < s->index_count; i++) {
		struct index_schema *index = &s->indexes[i];

		if (s->on_demand)
			index->read_units = index->write_units = 0;
		else
			index->throughput.max_read = index->throughput.max_write = 0;
	}
}

static enum err_code change_billing(struct draft *d, const struct table_change *change, int64_t now_us,
                                    struct err *err)
{
	struct table_schema *s = &d->schema;

	if (!s->on_demand && !change->on_demand &&
	    check_units_change((struct bytes){"", 0}, (int64_t[]){s->read_units, s->write_units}, change,
	                       err) != ERR_NONE)
		return err->code;
	if (change->on_demand && !s->on_demand)
		s->on_demand_us = now_us;
	if (!change->on_demand)
		s->throughput.max_read = s->throughput.max_write = 0;
	s->on_demand = change->on_demand;
	s->read_units = change->read_units;
	s->write_units = change->write_units;
	indexes_follow_billing(s);
	return ERR_NONE;
}

static void set_maximum(int64_t *to, int64_t asked)
{
	if (asked != 0)
		*to = asked < 0 ? 0 : asked;
}

static enum err_code change_throughput(struct draft *d, const struct table_change *change, struct err *err)
{
	struct index_schema *index = change->index.name.len == 0 ? NULL : draft_index(d, change->index.name);
	struct throughput   *to = index == NULL ? &d->schema.throughput : &index->throughput;
	const struct throughput *asked = &change->throughput;

	if (change->index.name.len > 0 && (index == NULL || index->local))
		return err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE);
	if (schema_check_throughput(&d->schema, index, asked, err) != ERR_NONE)
		return err->code;
	set_maximum(&to->max_read, asked->max_read);
	set_maximum(&to->max_write, asked->max_write);
	set_maximum(&to->warm_read, asked->warm_read);
	set_maximum(&to->warm_write, asked->warm_write);
	return ERR_NONE;
}

static void change_class(struct draft *d, bool infrequent_access, int64_t now_us)
{
	if (d->schema.infrequent_access != infrequent_access)
		d->schema.class_us = now_us;
	d->schema.infrequent_access = infrequent_access;
}

static enum err_code index_units(struct draft *d, const struct table_change *change, struct err *err)
{
	struct index_schema *index = draft_index(d, change->index.name);

	if (index == NULL || index->local)
		return err_set(err, ERR_NO_RESOURCE, MSG_NO_TABLE);
	if (check_units_change(index->name, (int64_t[]){index->read_units, index->write_units}, change,
	                       err) != ERR_NONE)
		return err->code;
	index->read_units = change->read_units;
	index->write_units = change->write_units;
	return ERR_NONE;
}

/* Sets or (value NULL) removes one tag, keeping them sorted. */
static void change_tag(struct draft *d, struct arena *a, const struct tag *tag, bool remove)
{
	struct table_schema *s = &d->schema;
	struct tag          *tags = arena_array(a, s->tag_count + 1, sizeof(*tags));
	uint32_t             count = 0, at = 0;

	while (at < s->tag_count && bytes_compare(s->tags[at].key, tag->key) < 0)
		tags[count++] = s->tags[at++];
	if (!remove)
		tags[count++] = *tag;
	if (at < s->tag_count && bytes_equal(s->tags[at].key, tag->key))
		at++;
	while (at < s->tag_count)
		tags[count++] = s->tags[at++];
	s->tags = tags;
	s->tag_count = count;
}

static enum err_code change_tags(struct draft *d, struct arena *a, const struct table_change *change,
                                 struct err *err)
{
	for (uint32_t i = 0; i < change->tag_count; i++)
		change_tag(d, a, &change->tags[i], change->kind == CHANGE_TAGS_REMOVE);
	if (d->schema.tag_count > TABLE_TAG_MAX)
		return err_set(err, ERR_INVALID, MSG_TAGS_MANY, TABLE_TAG_MAX);
	return ERR_NONE;
}

static enum err_code change_draft(struct engine_session *s, struct arena *a, uint32_t table_id,
                                  struct draft *d, const struct table_change *change, struct err *err)
{
	switch (change->kind) {
	case CHANGE_CREATE_INDEX:
		return add_index(d, a, change, err);
	case CHANGE_DELETE_INDEX:
		return remove_index(s, a, table_id, d, change->index.name, err);
	case CHANGE_INDEX_UNITS:
		return index_units(d, change, err);
	case CHANGE_BILLING:
		return change_billing(d, change, s->base.now_us, err);
	case CHANGE_THROUGHPUT:
		return change_throughput(d, change, err);
	case CHANGE_CLASS:
		change_class(d, change->infrequent_access, s->base.now_us);
		break;
	case CHANGE_PROTECTION:
		d->schema.deletion_protected = change->deletion_protected;
		break;
	case CHANGE_TTL:
		d->schema.ttl_attribute = change->ttl_attribute;
		d->ttl_filling = change->ttl_attribute.len > 0;
		d->ttl_changes++;
		break;
	case CHANGE_TAGS_ADD:
	case CHANGE_TAGS_REMOVE:
		return change_tags(d, a, change, err);
	}
	return ERR_NONE;
}

enum err_code tables_alter(struct table *t, struct arena *a, const struct table_alter *q,
                           struct table_description *r, struct err *err)
{
	struct engine_session    *s = (struct engine_session *)t;
	const struct table_entry *old;
	struct table_entry       *e;
	struct draft              d = {0};

	assert(s->turn != NULL);
	if (find(s, q->table, &old, err) != ERR_NONE)
		return err->code;
	d.schema = schema_copy(a, &old->schema);
	memcpy(d.index_ids, old->index_ids, sizeof(old->index_ids));
	d.next_index_id = old->next_index_id;
	d.ttl_changes = old->ttl_changes;
	d.ttl_filling = old->ttl_filling;
	d.frozen_hour = old->frozen_hour;
	for (uint32_t i = 0; i < q->count; i++)
		if (change_draft(s, a, old->id, &d, &q->changes[i], err) != ERR_NONE)
			return err->code;
	if (lapse_allows(old) && d.ttl_changes != old->ttl_changes) /* (X5) */
		d.frozen_hour = lapse_frozen_now(s->engine);
	e = table_entry_make(&d.schema);
	memcpy(e->index_ids, d.index_ids, sizeof(e->index_ids));
	e->next_index_id = d.next_index_id;
	e->ttl_changes = d.ttl_changes;
	e->ttl_filling = d.ttl_filling;
	e->frozen_hour = d.frozen_hour;
	e->id = old->id;
	describe(s, a, e, r);
	catalog_save(s, a, e);
	return ERR_NONE;
}
