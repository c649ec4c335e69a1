/* Query plan: from a query to the range of keys that is to be walked, and to what must be known of each row. A key
 * condition becomes one range of the key space; a start key narrows it. Everything that can be wrong with a query
 * is found here, before anything is read. */
#include "engine/query.h"

#include "engine/layout.h"
#include "expr/eval.h"
#include "item/codec.h"
#include "item/messages.h"

/* ---- which rows: the range ---- */

static enum err_code page_resolve(struct page *p, struct err *err)
{
	const struct table_query *q = p->q;

	if (row_table(p->session, q->table, &p->table, err) != ERR_NONE)
		return err->code;
	p->keys = &p->table->schema.keys;
	if (q->index.len == 0)
		return ERR_NONE;
	p->index = schema_index(&p->table->schema, q->index);
	if (p->index == NULL)
		return err_set(err, ERR_INVALID, MSG_NO_INDEX, BYTES_ARG(q->index));
	if (p->index->status == INDEX_CREATING)
		return err_set(err, ERR_INVALID, MSG_INDEX_BACKFILLING, BYTES_ARG(q->index));
	if (!p->index->local && q->consistent)
		return err_set(err, ERR_INVALID, MSG_GSI_CONSISTENT);
	p->index_id = p->table->index_ids[p->index - p->table->schema.indexes];
	p->keys = &p->index->keys;
	return ERR_NONE;
}

/* The two conditions may be written in either order: finds out which is the hash key's. */
static enum err_code resolve_key(const struct key_schema *keys, struct expr_key_condition *k, struct err *err)
{
	if (!bytes_equal(k->hash_name, keys->hash.name) && k->range_kind == RANGE_EQ &&
	    bytes_equal(k->range_name, keys->hash.name)) {
		struct bytes name = k->hash_name;
		struct value v = k->hash;

		k->hash_name = k->range_name;
		k->hash = k->low;
		k->range_name = name;
		k->low = v;
	}
	if (!bytes_equal(k->hash_name, keys->hash.name))
		return err_set(err, ERR_INVALID, MSG_QUERY_HASH, BYTES_ARG(keys->hash.name));
	if (k->range_kind != RANGE_NONE && keys->range.name.len == 0)
		return err_set(err, ERR_INVALID, MSG_KEYCOND_UNSUPPORTED);
	if (k->range_kind != RANGE_NONE && !bytes_equal(k->range_name, keys->range.name))
		return err_set(err, ERR_INVALID, MSG_QUERY_HASH, BYTES_ARG(keys->range.name));
	return ERR_NONE;
}

static enum err_code check_operand(const struct key_attribute *attribute, const struct value *v,
                                   struct err *err)
{
	if (v->type != attribute->type)
		return err_set(err, ERR_INVALID, MSG_QUERY_KEY_TYPE);
	if (v->type != VALUE_N && v->text.len == 0)
		return err_set(err, ERR_INVALID, MSG_KEY_EMPTY, v->type == VALUE_B ? "binary" : "string",
		               BYTES_ARG(attribute->name));
	return ERR_NONE;
}

static enum err_code check_operands(const struct key_schema *keys, const struct expr_key_condition *k,
                                    struct err *err)
{
	if (check_operand(&keys->hash, &k->hash, err) != ERR_NONE)
		return err->code;
	if (k->range_kind == RANGE_NONE)
		return ERR_NONE;
	if (k->range_kind == RANGE_PREFIX)
		return k->low.type == keys->range.type && k->low.type != VALUE_N
		               ? ERR_NONE
		               : err_set(err, ERR_INVALID, MSG_QUERY_KEY_TYPE);
	if (check_operand(&keys->range, &k->low, err) != ERR_NONE)
		return err->code;
	return k->range_kind == RANGE_BETWEEN ? check_operand(&keys->range, &k->high, err) : ERR_NONE;
}

static struct bytes partition_and(struct page *p, struct bytes partition, const struct value *range,
                                  bool prefix)
{
	struct buf out;

	buf_init(&out, p->arena);
	buf_add_bytes(&out, partition);
	if (prefix)
		key_encode_prefix(&out, range);
	else
		key_encode(&out, range);
	return buf_bytes(&out);
}

static void query_range(struct page *p, const struct expr_key_condition *k)
{
	struct buf   buf;
	struct bytes partition, at;

	buf_init(&buf, p->arena);
	if (p->index != NULL)
		layout_index_partition(&buf, p->table->id, p->index_id, &k->hash);
	else
		layout_partition(&buf, p->table->id, &k->hash);
	partition = buf_bytes(&buf);
	p->low = partition;
	p->high = layout_after(p->arena, partition);
	if (k->range_kind == RANGE_NONE)
		return;
	at = partition_and(p, partition, &k->low, k->range_kind == RANGE_PREFIX);
	if (k->range_kind == RANGE_LT)
		p->high = at;
	else if (k->range_kind == RANGE_LE)
		p->high = layout_after(p->arena, at);
	else if (k->range_kind == RANGE_GT)
		p->low = layout_after(p->arena, at);
	else
		p->low = at;
	if (k->range_kind == RANGE_EQ || k->range_kind == RANGE_PREFIX)
		p->high = layout_after(p->arena, at);
	if (k->range_kind == RANGE_BETWEEN)
		p->high = layout_after(p->arena, partition_and(p, partition, &k->high, false));
}

static void scan_range(struct page *p)
{
	const struct table_query *q = p->q;
	struct buf                low, high;

	buf_init(&low, p->arena);
	if (p->index != NULL)
		layout_index_prefix(&low, p->table->id, p->index_id);
	else
		layout_table_prefix(&low, p->table->id);
	p->high = layout_after(p->arena, buf_bytes(&low));
	if (q->segments > 1 && q->segment + 1 < q->segments) {
		buf_init(&high, p->arena);
		buf_add_bytes(&high, buf_bytes(&low));
		layout_segment(&high, q->segment + 1, q->segments);
		p->high = buf_bytes(&high);
	}
	if (q->segments > 1)
		layout_segment(&low, q->segment, q->segments);
	p->low = buf_bytes(&low);
}

/* The start key has exactly the key attributes of the table and, if any, of the index, and they are of the
 * right type. */
static bool start_fits(const struct page *p, const struct item *start)
{
	struct item                 key = schema_key_of(p->arena, &p->table->schema, p->index, start);
	const struct key_attribute *attributes[4] = {
	        &p->table->schema.keys.hash, &p->table->schema.keys.range, &p->keys->hash, &p->keys->range};

	for (int i = 0; i < 4; i++) {
		const struct value *v =
		        attributes[i]->name.len == 0 ? NULL : item_get(start, attributes[i]->name);

		if (attributes[i]->name.len > 0 && (v == NULL || v->type != attributes[i]->type))
			return false;
	}
	return key.count == start->count;
}

/* Narrows the range to what lies behind the start key. */
static enum err_code start_after(struct page *p, const struct item *start, struct err *err)
{
	struct buf key;

	if (!start_fits(p, start))
		return err_set(err, ERR_INVALID, MSG_START_KEY_BAD);
	buf_init(&key, p->arena);
	if (p->index != NULL)
		layout_index(&key, p->table->id, p->index_id, &p->index->keys, &p->table->schema.keys, start);
	else
		layout_row(&key, p->table->id, &p->table->schema.keys, start);
	if (bytes_compare(buf_bytes(&key), p->low) < 0 || bytes_compare(buf_bytes(&key), p->high) >= 0)
		return err_set(err, ERR_INVALID, "%s",
		               p->q->key != NULL ? MSG_START_KEY_RANGE : MSG_START_KEY_SEGMENT);
	if (p->q->backward) {
		p->high = buf_bytes(&key);
		return ERR_NONE;
	}
	buf_add_byte(&key, 0); /* the very next possible key */
	p->low = buf_bytes(&key);
	return ERR_NONE;
}

/* ---- what of each row: projection and expiry ---- */

static bool index_holds(const struct page *p, struct bytes name)
{
	const struct key_schema *table = &p->table->schema.keys;

	if (p->index->projection == PROJECT_ALL || bytes_equal(name, table->hash.name) ||
	    bytes_equal(name, table->range.name) || bytes_equal(name, p->keys->hash.name) ||
	    bytes_equal(name, p->keys->range.name))
		return true;
	for (uint32_t i = 0; i < p->index->include_count; i++)
		if (bytes_equal(name, p->index->include[i]))
			return true;
	return false;
}

static enum err_code plan_projection(struct page *p, struct err *err)
{
	const struct expr_projection *projection = p->q->projection;

	if (p->index == NULL)
		return ERR_NONE;
	if (p->q->all_attributes && p->index->projection != PROJECT_ALL) {
		if (!p->index->local)
			return err_set(err, ERR_INVALID, MSG_GSI_ALL, BYTES_ARG(p->index->name));
		p->fetch = true;
	}
	for (uint32_t i = 0; projection != NULL && i < projection->count; i++) {
		struct bytes name = projection->paths[i].steps[0].name;

		if (index_holds(p, name))
			continue;
		if (!p->index->local)
			return err_set(err, ERR_INVALID, MSG_PROJECT_MISSING, BYTES_ARG(p->index->name),
			               BYTES_ARG(name));
		p->fetch = true;
	}
	p->check_expiry =
	        p->table->schema.ttl_attribute.len > 0 && !index_holds(p, p->table->schema.ttl_attribute);
	return ERR_NONE;
}

static enum err_code check_filter(const struct page *p, struct err *err)
{
	const struct bytes names[2] = {p->keys->hash.name, p->keys->range.name};

	for (int i = 0; i < 2; i++)
		if (names[i].len > 0 && expr_mentions(p->q->filter, names[i]))
			return err_set(err, ERR_INVALID, MSG_FILTER_KEY, BYTES_ARG(names[i]));
	return ERR_NONE;
}

/* ---- all of it ---- */

enum err_code query_plan(struct page *p, struct err *err)
{
	struct expr_key_condition key;

	if (page_resolve(p, err) != ERR_NONE)
		return err->code;
	if (p->q->key == NULL) {
		scan_range(p);
	} else {
		key = *p->q->key;
		if (resolve_key(p->keys, &key, err) != ERR_NONE ||
		    check_operands(p->keys, &key, err) != ERR_NONE)
			return err->code;
		if (p->q->filter != NULL && check_filter(p, err) != ERR_NONE)
			return err->code;
		query_range(p, &key);
	}
	if (plan_projection(p, err) != ERR_NONE)
		return err->code;
	return p->q->start == NULL ? ERR_NONE : start_after(p, p->q->start, err);
}
