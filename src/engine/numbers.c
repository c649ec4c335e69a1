/* Numbers: finding rows that count, and two ways of counting: a row of which nothing but its bytes is kept has its digits changed; any other,
 * and one that is not there yet, is stored as an item is. */
#include "engine/numbers.h"

#include <assert.h>

#include "engine/row.h"
#include "item/codec.h"

/* The row that was noted, if it is that one. */
static bool find_noted(const struct turn *turn, struct counted *row)
{
	const struct counted *noted = turn->counted;

	if (noted == NULL || noted->table != row->table || !key_values_equal(&noted->values, &row->values))
		return false;
	*row = *noted;
	return true;
}

static void note(struct turn *turn, const struct counted *row)
{
	struct counted *noted = arena_alloc(&turn->arena, sizeof(*noted));
	struct value   *values = arena_array(&turn->arena, 2, sizeof(*values));

	*noted = *row;
	noted->key = arena_copy(&turn->arena, row->key);
	values[0] = value_copy(&turn->arena, row->values.hash);
	noted->values.hash = &values[0];
	if (row->values.range != NULL) {
		values[1] = value_copy(&turn->arena, row->values.range);
		noted->values.range = &values[1];
	}
	turn->counted = noted;
}

static enum err_code find(struct engine_session *s, struct arena *a, const struct table_count *q,
                          struct counted *out, struct err *err)
{
	if (row_table(s, q->table, &out->table, err) != ERR_NONE ||
	    schema_check_key(&out->table->schema, &q->key, &out->values, err) != ERR_NONE)
		return err->code;
	if (find_noted(s->turn, out))
		return ERR_NONE;
	out->key = row_key_make(a, out->table, &out->values);
	out->hash = hash_bytes(s->engine->hash_key, out->key);
	return ERR_NONE;
}

/* The last one first, so that it has most time to come: a log's head is near, a subject's number mostly is not. */
static enum err_code find_all(struct engine_session *s, struct arena *a, const struct table_numbering *n,
                              struct counted *rows, struct err *err)
{
	for (uint32_t i = n->count; i-- > 0;) {
		if (find(s, a, &n->counts[i], &rows[i], err) != ERR_NONE)
			return err->code;
		filter_expect(s->engine->filter, rows[i].hash);
		cache_expect_bucket(s->engine->cache, rows[i].hash);
	}
	for (uint32_t i = 0; i < n->count; i++)
		cache_expect(s->engine->cache, &rows[i].hash, 1);
	if (s->turn->counted == NULL)
		note(s->turn, &rows[0]);
	return ERR_NONE;
}

/* Nothing else follows from what such a row says. */
static bool is_plain(const struct table_entry *t)
{
	return t->schema.index_count == 0 && t->schema.ttl_attribute.len == 0;
}

static bool count_digits(struct turn *turn, const struct counted *p, struct bytes value,
                         struct table_count *q)
{
	struct buf *after = &turn->encoded;

	buf_reset(after);
	if (!item_count_up(after, value, q->name, &q->number))
		return false;
	turn_put_hashed(turn, p->hash, p->key, buf_bytes(after), value);
	return true;
}

static enum err_code count_item(struct engine_session *s, struct arena *a, const struct counted *p,
                                struct table_count *q, struct err *err)
{
	const struct loaded *row;
	const struct value  *found;
	struct value         next;
	struct item          after;

	if (row_load_at(s, a, p->table, p->hash, p->key, &row, err) != ERR_NONE)
		return err->code;
	found = row->live ? item_get(&row->item, q->name) : NULL;
	q->number = 0;
	if (found != NULL && (found->type != VALUE_N || !number_to_i64(&found->number, &q->number) ||
	                      q->number < 0 || q->number == INT64_MAX))
		return err_set(err, ERR_STORAGE,
		               "%.*s, of a row that counts, is not a whole number that can grow",
		               BYTES_ARG(q->name));
	next = value_i64(++q->number);
	after = item_with(a, row->live ? &row->item : &q->key, q->name, &next);
	row_store(s, a, p->table, row, &after, NULL);
	return ERR_NONE;
}

static enum err_code count(struct engine_session *s, struct arena *a, const struct counted *p,
                           struct table_count *q, struct err *err)
{
	struct bytes value;
	bool         found;

	if (!is_plain(p->table))
		return count_item(s, a, p, q, err);
	if (view_get_hashed(s, a, p->hash, p->key, &value, &found, err) != ERR_NONE)
		return err->code;
	return found && count_digits(s->turn, p, value, q) ? ERR_NONE : count_item(s, a, p, q, err);
}

enum err_code numbers_take(struct engine_session *s, struct arena *a, struct table_numbering *n,
                           struct err *err)
{
	struct counted *rows = arena_array(a, n->count, sizeof(*rows));

	assert(s->turn != NULL);
	if (find_all(s, a, n, rows, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < n->count; i++)
		if (count(s, a, &rows[i], &n->counts[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}
