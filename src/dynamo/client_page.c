/* Client pages: what Query and Scan answer, held against what was asked. See client.h.
 *
 * Services size their lists by the limit, go on behind the last key, and take a row for what its key says. So a page has no more items than
 * the limit, each has the keys of the table and the index, with their types, and is in the range that was asked for, behind the start and in order; the last key
 * is one, and behind the start too: else a caller that goes on there would read for ever. */
#include "dynamo/client_parts.h"

/* A page that is being read. */
struct page {
	struct arena              *arena;
	const struct client_page  *asked;
	struct table_query_result *out;
	const struct value        *at; /* the range key of the item before, or of the start; NULL: unknown */
};

/* A count of items; false if it is there and is none. */
static bool count_take(const struct json *body, struct bytes name, uint32_t otherwise, uint32_t *out)
{
	const struct json *json = json_get(body, name);

	*out = otherwise;
	if (json == NULL)
		return true;
	if (json->type != JSON_INT || json_integer(json) < 0 || json_integer(json) > UINT32_MAX)
		return false;
	*out = (uint32_t)json_integer(json);
	return true;
}

/* ---- keys ---- */

/* A projection may have left it out. */
static bool part_fits(const struct key_attribute *k, const struct item *item, size_t max, bool required)
{
	const struct value *v = k->name.len == 0 ? NULL : item_get(item, k->name);

	if (v == NULL)
		return k->name.len == 0 || !required;
	return v->type == k->type && (v->type == VALUE_N || (v->text.len >= 1 && v->text.len <= max));
}

static bool parts_fit(const struct key_schema *k, const struct item *item, bool required)
{
	return part_fits(&k->hash, item, KEY_HASH_BYTES_MAX, required) &&
	       part_fits(&k->range, item, KEY_RANGE_BYTES_MAX, required);
}

static bool keys_fit(const struct client_page *asked, const struct item *item, bool required)
{
	return parts_fit(&asked->schema->keys, item, required) &&
	       (asked->index == NULL || parts_fit(&asked->index->keys, item, required));
}

static bool range_holds(const struct expr_key_condition *k, const struct value *v)
{
	int order;

	if (v->type != k->low.type)
		return false;
	if (k->range_kind == RANGE_PREFIX)
		return v->type != VALUE_N && bytes_starts_with(v->text, k->low.text);
	order = value_compare(v, &k->low);
	switch (k->range_kind) {
	case RANGE_EQ:
		return order == 0;
	case RANGE_LT:
		return order < 0;
	case RANGE_LE:
		return order <= 0;
	case RANGE_GT:
		return order > 0;
	case RANGE_BETWEEN:
		return order >= 0 && v->type == k->high.type && value_compare(v, &k->high) <= 0;
	default:
		return order >= 0;
	}
}

static bool is_in_range(const struct client_page *asked, const struct item *item)
{
	const struct expr_key_condition *k = asked->q->key;
	const struct value              *hash = k == NULL ? NULL : item_get(item, k->hash_name);
	const struct value              *range =
                k == NULL || k->range_kind == RANGE_NONE ? NULL : item_get(item, k->range_name);

	return (hash == NULL || value_equal(hash, &k->hash)) && (range == NULL || range_holds(k, range));
}

/* ---- order ---- */

/* By what a query is in order; NULL: nothing, or it is not known. */
static const struct value *place_of(const struct client_page *asked, const struct item *item)
{
	const struct key_schema *keys = asked->index != NULL ? &asked->index->keys : &asked->schema->keys;

	if (asked->q->key == NULL || (asked->index == NULL && asked->q->index.len > 0))
		return NULL;
	return keys->range.name.len == 0 ? NULL : item_get(item, keys->range.name);
}

/* Less than 0: `now` is behind `before`. Keys of an index may be equal. */
static int order_of(const struct client_page *asked, const struct value *before, const struct value *now)
{
	int order;

	if (before == NULL || now == NULL || before->type != now->type)
		return -1;
	order = value_compare(before, now);
	return asked->q->backward ? -order : order;
}

static bool is_behind(struct page *p, const struct item *item)
{
	const struct value *now = place_of(p->asked, item);
	int                 order = order_of(p->asked, p->at, now);

	p->at = now;
	return p->asked->index == NULL ? order < 0 : order <= 0;
}

/* ---- pages ---- */

static enum err_code items_take(struct page *p, const struct json *list, struct err *err)
{
	bool     required = p->asked->q->projection == NULL;
	uint32_t count = 0;

	p->out->items = arena_array(p->arena, list->count + 1, sizeof(*p->out->items));
	for (const struct json *json = json_children(list); json != NULL; json = json->next) {
		struct item *item = &p->out->items[count++];

		if (client_item_take(p->arena, json, item, err) != ERR_NONE)
			return err->code;
		if (!keys_fit(p->asked, item, required))
			return client_wrong(err, "an item lacks the keys of the table or the index");
		if (!is_in_range(p->asked, item))
			return client_wrong(err, "an item is not in the range that was asked for");
		if (!is_behind(p, item))
			return client_wrong(err, "items are not in order, or not behind the start");
	}
	p->out->count = count;
	return ERR_NONE;
}

static enum err_code counts_take(struct page *p, const struct json *body, bool has_items, struct err *err)
{
	const struct table_query *q = p->asked->q;
	uint32_t                  count;

	if (!count_take(body, BYTES("Count"), p->out->count, &count) ||
	    !count_take(body, BYTES("ScannedCount"), count, &p->out->scanned) || p->out->scanned < count ||
	    (has_items && count != p->out->count))
		return client_wrong(err, "Count or ScannedCount is wrong");
	if (q->limit > 0 && p->out->scanned > q->limit)
		return client_wrong(err, "there are more items than Limit allows");
	p->out->count = count;
	return ERR_NONE;
}

/* Has it all keys, and nothing else? Of an index that is not known, those of the table are all that is known. */
static bool last_is_key(const struct page *p, const struct item *last)
{
	struct item key = schema_key_of(p->arena, p->asked->schema, p->asked->index, last);

	return keys_fit(p->asked, last, true) &&
	       ((p->asked->index == NULL && p->asked->q->index.len > 0) || item_equal(&key, last));
}

static enum err_code last_take(struct page *p, const struct json *json, struct err *err)
{
	const struct table_query *q = p->asked->q;
	struct item              *last = &p->out->last_key;
	const struct value       *hash;

	if (client_item_take(p->arena, json, last, err) != ERR_NONE)
		return err->code;
	hash = q->key == NULL ? NULL : item_get(last, q->key->hash_name);
	if (!last_is_key(p, last) || (hash != NULL && !value_equal(hash, &q->key->hash)))
		return client_wrong(err, "LastEvaluatedKey is no key of what was asked for");
	if ((q->start != NULL && item_equal(last, q->start)) ||
	    order_of(p->asked, p->at, place_of(p->asked, last)) > 0)
		return client_wrong(err, "LastEvaluatedKey leads back");
	return ERR_NONE;
}

enum err_code client_read_query(struct arena *a, const struct json *body, const struct client_page *asked,
                                struct table_query_result *out, struct err *err)
{
	const struct json *items = json_get(body, BYTES("Items")),
	                  *last = json_get(body, BYTES("LastEvaluatedKey"));
	struct page p = {.arena = a, .asked = asked, .out = out};

	*out = (struct table_query_result){.more = client_has(last)};
	if (asked->q->start != NULL)
		p.at = place_of(asked, asked->q->start);
	if (!json_is(items, JSON_ARRAY) && (items != NULL || !asked->q->count_only))
		return client_wrong(err, "Items is no list");
	if (items != NULL && items_take(&p, items, err) != ERR_NONE)
		return err->code;
	if (counts_take(&p, body, items != NULL, err) != ERR_NONE)
		return err->code;
	return out->more ? last_take(&p, last, err) : ERR_NONE;
}
