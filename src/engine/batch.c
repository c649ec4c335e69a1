/* Batch: many items in one call: batches, where each stands for itself, and transactions.
 *
 * A transaction of writes is its actions applied one after the other in one turn, all kept or all undone. No two
 * of them touch the same item, so each sees the item as it was before the transaction. One of reads sees one moment.
 *
 * A client request token is an item of a table of the engine's own, with a time to live, written in the same
 * turn as what it stands for: so it survives a restart exactly if the transaction does. */
#include <stdlib.h>

#include "engine/known.h"
#include "engine/layout.h"
#include "engine/numbers.h"
#include "engine/rehearsal.h"
#include "expr/eval.h"
#include "item/codec.h"
#include "item/messages.h"

enum {
	FEW_KEYS = 16,
	FEW_WRITES = 6,
	KEY_ROOM = 64, /* most parts of a key take less */
};

#define TOKENS_NAME   "!tokens" /* not a name that a user's table can have */
#define TOKEN_KEY     "token"
#define TOKEN_DIGEST  "digest"
#define TOKEN_EXPIRES "expires"

/* ---- no item twice ---- */

static int key_order(const void *a, const void *b)
{
	return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* Are two of these the same row? Row keys, as layout_row makes them. */
static bool has_duplicates(const struct bytes *row_keys, uint32_t count, struct arena *a)
{
	struct bytes *sorted = arena_array(a, count, sizeof(*sorted));

	memcpy(sorted, row_keys, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), key_order);
	for (uint32_t i = 1; i < count; i++)
		if (bytes_equal(sorted[i - 1], sorted[i]))
			return true;
	return false;
}

static const struct item *key_of(const struct table_write *q)
{
	return q->kind == TABLE_PUT ? &q->item : &q->key;
}

static bool few_writes_have_duplicates(const struct checked *writes, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (writes[i].table == writes[j].table &&
			    key_values_equal(&writes[i].key, &writes[j].key))
				return true;
	return false;
}

/* Do two of the writes touch the same item? */
static bool writes_have_duplicates(struct arena *a, const struct checked *writes, uint32_t count)
{
	struct bytes *keys;

	if (count <= FEW_WRITES)
		return few_writes_have_duplicates(writes, count);
	keys = arena_array(a, count, sizeof(*keys));
	for (uint32_t i = 0; i < count; i++)
		keys[i] = row_key_make(a, writes[i].table, &writes[i].key);
	return has_duplicates(keys, count, a);
}

/* ---- reading ---- */

/* A row of a batch. */
struct asked {
	const struct table_entry *table;
	struct key_values         values;
	const struct known       *known; /* its partition, if that is known. Otherwise … */
	struct bytes              key;   /* … its key in the store … */
	uint64_t                  hash;  /* … and the hash of that (state.h) */
};

/* What the keys of one partition's rows begin with. Its rows mostly come one after the other. */
struct partition {
	const struct table_entry *table;
	const struct value       *hash;
	const struct known       *known;
	struct buf                prefix; /* once it is needed */
};

static bool is_in(const struct partition *p, const struct asked *row)
{
	return p->table != NULL && p->table == row->table && value_equal(p->hash, row->values.hash);
}

static void key_make(struct engine_session *s, struct arena *a, struct partition *p, struct asked *row)
{
	struct buf key;

	if (p->prefix.len == 0) {
		buf_init_room(&p->prefix, a, KEY_ROOM);
		layout_partition(&p->prefix, p->table->id, p->hash);
	}
	buf_init_room(&key, a, p->prefix.len + KEY_ROOM);
	buf_add_bytes(&key, buf_bytes(&p->prefix));
	if (row->values.range != NULL)
		key_encode(&key, row->values.range);
	row->key = buf_bytes(&key);
	row->hash = hash_bytes(s->engine->hash_key, row->key);
}

static bool is_same(const struct asked *x, const struct asked *y)
{
	return x->table == y->table &&
	       (x->values.range == NULL || value_equal(x->values.range, y->values.range)) &&
	       value_equal(x->values.hash, y->values.hash);
}

/* Of a few rows comparing all pairs costs less than sorting: most differ in length already. */
static bool few_are_asked_twice(const struct asked *rows, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t j = 0; j < i; j++)
			if (is_same(&rows[i], &rows[j]))
				return true;
	return false;
}

static bool is_asked_twice(struct arena *a, const struct asked *rows, uint32_t count)
{
	struct bytes *keys;

	if (count <= FEW_KEYS)
		return few_are_asked_twice(rows, count);
	keys = arena_array(a, count, sizeof(*keys));
	for (uint32_t i = 0; i < count; i++)
		keys[i] = rows[i].key;
	return has_duplicates(keys, count, a);
}

/* Checks every key of the batch and that no item is asked for twice. Only of few rows partitions are known. */
static enum err_code rows_find(struct engine_session *s, struct arena *a, const struct table_batch_get *q,
                               struct asked **out, struct err *err)
{
	const struct table_get *before = NULL;
	struct asked           *rows = *out = arena_array(a, q->count, sizeof(*rows));
	struct partition        partition = {0};

	for (uint32_t i = 0; i < q->count; before = &q->gets[i++]) {
		const struct table_get *get = &q->gets[i];
		struct asked           *row = &rows[i];

		if (before != NULL && bytes_equal(get->table, before->table))
			row->table = rows[i - 1].table;
		else if (row_table(s, get->table, &row->table, err) != ERR_NONE)
			return err->code;
		if (schema_check_key(&row->table->schema, &get->key, &row->values, err) != ERR_NONE)
			return err->code;
		if (!is_in(&partition, row)) {
			partition = (struct partition){.table = row->table, .hash = row->values.hash};
			if (q->count <= FEW_KEYS)
				partition.known = known_partition(s, a, row->table, row->values.hash);
		}
		row->known = partition.known;
		if (row->known == NULL)
			key_make(s, a, &partition, row);
	}
	return ERR_NONE;
}

static void results_init(struct arena *a, uint32_t count, struct table_batch_get_result *r)
{
	*r = (struct table_batch_get_result){.results = arena_zalloc(a, count * sizeof(*r->results)),
	                                     .skipped = arena_zalloc(a, count * sizeof(*r->skipped))};
}

/* Has the memory of those that may be there on its way, all at once. */
static void expect(struct engine *e, struct arena *a, const struct asked *rows, uint32_t count)
{
	uint64_t *hashes = arena_array(a, count, sizeof(*hashes));
	size_t    unknown = 0;

	for (uint32_t i = 0; i < count; i++)
		if (rows[i].known == NULL)
			hashes[unknown++] = rows[i].hash;
	if (unknown > 0)
		cache_expect(e->cache, hashes, filter_choose(e->filter, hashes, unknown, hashes));
}

static enum err_code asked_load(struct engine_session *s, struct arena *a, const struct asked *row,
                                const struct loaded **out, struct err *err)
{
	static const struct loaded absent;

	if (row->known == NULL)
		return row_load_at(s, a, row->table, row->hash, row->key, out, err);
	*out = known_row(s, row->known, &row->values);
	if (*out == NULL)
		*out = &absent;
	return ERR_NONE;
}

/* What does not fit into the answer any more is left for the next request; the first item always fits. */
enum err_code batch_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                        struct table_batch_get_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct asked          *rows;
	size_t                 bytes = 0;
	bool                   full = false;

	results_init(a, q->count, r);
	if (rows_find(s, a, q, &rows, err) != ERR_NONE)
		return err->code;
	if (is_asked_twice(a, rows, q->count))
		return err_set(err, ERR_INVALID, MSG_BATCH_TWICE);
	expect(s->engine, a, rows, q->count);
	for (uint32_t i = 0; i < q->count; i++) {
		const struct loaded *row;

		if (!full) {
			if (asked_load(s, a, &rows[i], &row, err) != ERR_NONE)
				return err->code;
			row_fill(a, &q->gets[i], row, &r->results[i]);
			bytes += row->size_bytes;
		}
		full = full || bytes > TABLE_BATCH_GET_BYTES_MAX;
		r->skipped[i] = full;
	}
	return ERR_NONE;
}

/* Rows as they were at one moment. */
struct moment {
	struct rocks_snapshot *snapshot; /* NULL: in a turn, where nothing else runs */
	struct cache_row      *waiting;  /* see view_rows_snapshot_open */
};

static void moment_open(struct engine_session *s, struct arena *a, const struct asked *rows, uint32_t count,
                        struct moment *m)
{
	uint64_t     *hashes = arena_array(a, count, sizeof(*hashes));
	struct bytes *keys = arena_array(a, count, sizeof(*keys));

	for (uint32_t i = 0; i < count; i++) {
		hashes[i] = rows[i].hash;
		keys[i] = rows[i].key;
	}
	m->waiting = arena_array(a, count, sizeof(*m->waiting));
	view_rows_snapshot_open(s->engine, a, hashes, keys, count, m->waiting, &m->snapshot);
}

static enum err_code load_at(struct engine_session *s, const struct moment *m, struct arena *a,
                             const struct asked *rows, uint32_t i, const struct loaded **out, struct err *err)
{
	struct loaded *row;
	struct bytes   value;
	bool           found;

	if (m->snapshot == NULL)
		return asked_load(s, a, &rows[i], out, err);
	*out = row = arena_zalloc(a, sizeof(*row));
	if (m->waiting[i].key.len > 0) {
		value = m->waiting[i].value;
		found = !m->waiting[i].absent;
	} else if (view_get_at(s, m->snapshot, a, rows[i].key, &value, &found, err) != ERR_NONE) {
		return err->code;
	}
	return found ? row_decode(s, a, rows[i].table, value, row, err) : ERR_NONE;
}

/* Rows were not found because a key is wrong: fills in whose. An empty key fails the request as a whole, as does a missing table. */
static enum err_code keys_blame(struct engine_session *s, struct arena *a, const struct table_batch_get *q,
                                struct table_batch_get_result *r, struct err *err)
{
	struct table_reason *reasons = arena_zalloc(a, q->count * sizeof(*reasons));
	struct err           first = *err;

	for (uint32_t i = 0; i < q->count; i++) {
		const struct table_entry *t;
		struct key_values         values;

		if (row_table(s, q->gets[i].table, &t, err) != ERR_NONE ||
		    schema_check_key_filled(&t->schema, &q->gets[i].key, err) != ERR_NONE)
			return err->code;
		if (schema_check_key(&t->schema, &q->gets[i].key, &values, err) != ERR_NONE)
			reasons[i] = (struct table_reason){.code = err->code,
			                                   .text = arena_printf(a, "%s", err->text).data};
	}
	*err = first;
	r->reasons = reasons;
	return err->code;
}

enum err_code batch_transact_get(struct table *t, struct arena *a, const struct table_batch_get *q,
                                 struct table_batch_get_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct moment          m = {0};
	enum err_code          rc = ERR_NONE;
	struct asked          *rows;
	size_t                 bytes = 0;

	results_init(a, q->count, r);
	if (rows_find(s, a, q, &rows, err) != ERR_NONE)
		return err->code == ERR_INVALID ? keys_blame(s, a, q, r, err) : err->code;
	if (is_asked_twice(a, rows, q->count))
		return err_set(err, ERR_INVALID, MSG_TRANSACT_TWICE);
	if (s->turn == NULL)
		moment_open(s, a, rows, q->count, &m);
	for (uint32_t i = 0; i < q->count && rc == ERR_NONE; i++) {
		const struct loaded *row;

		rc = load_at(s, &m, a, rows, i, &row, err);
		if (rc != ERR_NONE)
			break;
		row_fill(a, &q->gets[i], row, &r->results[i]);
		r->results[i].capacity.read_units = 2 * read_cost(row->size_bytes, true);
		bytes += row->size_bytes;
		if (bytes > TABLE_TRANSACT_BYTES_MAX)
			rc = err_set(err, ERR_INVALID, MSG_TRANSACT_SIZE);
	}
	if (m.snapshot != NULL)
		rocks_snapshot_close(s->engine->rocks, m.snapshot);
	return rc;
}

/* ---- unconditional writes ---- */

/* DynamoDB reports a wrong key of a batch as it does that of a get, whatever is wrong with it. */
static enum err_code check_batch(struct engine_session *s, const struct table_write *q, struct checked *out,
                                 struct err *err)
{
	const struct table_entry *t;

	if (row_table(s, q->table, &t, err) != ERR_NONE ||
	    schema_check_key_types(&t->schema, key_of(q), err) != ERR_NONE)
		return err->code;
	return row_check(t, q, out, err);
}

enum err_code batch_write(struct table *t, struct arena *a, const struct table_batch_write *q,
                          struct table_batch_write_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct checked        *checked = arena_array(a, q->count, sizeof(*checked));

	r->results = arena_zalloc(a, q->count * sizeof(*r->results));
	cost_begin(s);
	for (uint32_t i = 0; i < q->count; i++)
		if (check_batch(s, &q->writes[i], &checked[i], err) != ERR_NONE)
			return err->code;
	if (writes_have_duplicates(a, checked, q->count))
		return err_set(err, ERR_INVALID, MSG_BATCH_TWICE);
	for (uint32_t i = 0; i < q->count; i++)
		if (row_apply(s, a, &checked[i], &q->writes[i], &r->results[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* ---- client request tokens ---- */

struct table_entry *batch_tokens_table(void)
{
	struct table_schema schema = {.name = BYTES(TOKENS_NAME),
	                              .keys = {.hash = {BYTES(TOKEN_KEY), VALUE_S}},
	                              .on_demand = true,
	                              .ttl_attribute = BYTES(TOKEN_EXPIRES)};
	struct table_entry *e = table_entry_make(&schema);

	e->id = TABLE_ID_TOKENS;
	e->internal = true;
	return e;
}

static struct item token_item(struct arena *a, const struct table_transact_write *q, int64_t expires_s)
{
	struct item  item = {0};
	struct value token = value_string(q->token), expires = value_i64(expires_s);
	struct value digest = {.type = VALUE_B, .text = {(const char *)q->digest, sizeof(q->digest)}};

	item = item_with(a, &item, BYTES(TOKEN_KEY), &token);
	item = item_with(a, &item, BYTES(TOKEN_DIGEST), &digest);
	return item_with(a, &item, BYTES(TOKEN_EXPIRES), &expires);
}

/* Has this token been used? Otherwise notes it. */
static enum err_code token_use(struct engine_session *s, struct arena *a,
                               const struct table_transact_write *q, struct table_transact_result *r,
                               struct err *err)
{
	const struct catalog     *catalog = s->turn != NULL ? s->turn->catalog : s->catalog;
	const struct table_entry *tokens = catalog_find_id(catalog, TABLE_ID_TOKENS);
	struct item               item = token_item(a, q, s->base.now_us / 1000000 + TABLE_TOKEN_LIFE_S);
	struct key_values         key = schema_key_values(&tokens->schema, &item);
	const struct value       *digest;
	const struct loaded      *row;

	if (row_load(s, a, tokens, &key, &row, err) != ERR_NONE)
		return err->code;
	if (s->rehearses)
		rehearsal_note(s, tokens, row, false);
	if (!row->live && s->rehearses)
		return ERR_NONE;
	if (!row->live) {
		row_store(s, a, tokens, row, &item, NULL);
		return ERR_NONE;
	}
	digest = item_get(&row->item, BYTES(TOKEN_DIGEST));
	if (digest == NULL || digest->type != VALUE_B ||
	    !bytes_equal(digest->text, (struct bytes){(const char *)q->digest, sizeof(q->digest)}))
		return err_set(err, ERR_TOKEN_MISMATCH, MSG_TOKEN_MISMATCH);
	r->repeated = true;
	return ERR_NONE;
}

/* ---- transactions ---- */

static void invalid(struct arena *a, struct table_transact_result *r, uint32_t action, const struct err *err)
{
	r->reasons[action] =
	        (struct table_reason){.code = ERR_INVALID, .text = arena_printf(a, "%s", err->text).data};
	r->cancelled = true;
}

/* So few actions cannot be too large together, if each is valid. */
enum { SMALL_COUNT = TABLE_TRANSACT_BYTES_MAX / ITEM_BYTES_MAX };

static size_t actions_bytes(const struct table_transact_write *q)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < q->count; i++)
		bytes += item_size(key_of(&q->writes[i]));
	return bytes;
}

/* The same among those that have no reason against them. */
static bool valid_have_duplicates(struct arena *a, const struct checked *checked, uint32_t count,
                                  const struct table_transact_result *r)
{
	struct checked *valid = arena_array(a, count, sizeof(*valid));
	uint32_t        n = 0;

	for (uint32_t i = 0; i < count; i++)
		if (r->reasons[i].code == ERR_NONE)
			valid[n++] = checked[i];
	return writes_have_duplicates(a, valid, n);
}

/* A missing table or an empty key fails the request; a key or item that does not fit its table cancels it. One that fits is not empty. */
static enum err_code check_actions(struct engine_session *s, struct arena *a,
                                   const struct table_transact_write *q, struct checked *checked,
                                   struct table_transact_result *r, struct err *err)
{
	const struct table_entry *t = NULL;

	for (uint32_t i = 0; i < q->count; i++) {
		if ((i == 0 || !bytes_equal(q->writes[i].table, q->writes[i - 1].table)) &&
		    row_table(s, q->writes[i].table, &t, err) != ERR_NONE)
			return err->code;
		if (row_check(t, &q->writes[i], &checked[i], err) == ERR_NONE)
			continue;
		invalid(a, r, i, err);
		if (schema_check_key_filled(&t->schema, key_of(&q->writes[i]), err) != ERR_NONE)
			return err->code;
	}
	if ((q->count > SMALL_COUNT || r->cancelled) && actions_bytes(q) > TABLE_TRANSACT_BYTES_MAX)
		return err_set(err, ERR_INVALID, MSG_TRANSACT_SIZE);
	if (r->cancelled ? valid_have_duplicates(a, checked, q->count, r)
	                 : writes_have_duplicates(a, checked, q->count))
		return err_set(err, ERR_INVALID, MSG_TRANSACT_TWICE);
	return ERR_NONE;
}

/* Applies one action; a false condition or an invalid update becomes the reason for cancelling all. Expressions that
 * look at too much are no fault of one action: they fail the request. */
static enum err_code apply_action(struct engine_session *s, struct arena *a, const struct checked *checked,
                                  const struct table_transact_write *q, uint32_t action,
                                  struct table_transact_result *r, struct err *err)
{
	struct table_write_result *result = &r->results[action];
	enum err_code              rc = row_apply(s, a, &checked[action], &q->writes[action], result, err);

	if (rc == ERR_INVALID && !expr_cost_exceeded(&s->base.cost)) {
		invalid(a, r, action, err);
		return ERR_NONE;
	}
	if (rc != ERR_NONE)
		return rc;
	result->capacity.write_units *= 2;
	for (uint32_t i = 0; i < result->capacity.index_count; i++)
		result->capacity.indexes[i].write_units *= 2;
	if (!result->condition_failed)
		return ERR_NONE;
	r->cancelled = true;
	r->reasons[action] = (struct table_reason){.code = ERR_CONDITION,
	                                           .text = MSG_CONDITION_FAILED,
	                                           .has_item = result->has_item,
	                                           .item = result->item};
	return ERR_NONE;
}

/* What counts of an action: the item, not only what the request says of it. A hundred small actions may look at a hundred large
 * items. Of what is deleted only the key counts, as in DynamoDB. */
static size_t action_bytes(const struct table_write *q, const struct table_write_result *r)
{
	return q->kind == TABLE_DELETE ? item_size(&q->key) : r->size_bytes;
}

/* Those that have a reason already are left out; the others may have one too. */
static enum err_code apply_actions(struct engine_session *s, struct arena *a, const struct checked *checked,
                                   const struct table_transact_write *q, struct table_transact_result *r,
                                   struct err *err)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < q->count; i++) {
		if (r->cancelled && r->reasons[i].code != ERR_NONE)
			continue;
		if (apply_action(s, a, checked, q, i, r, err) != ERR_NONE)
			return err->code;
		bytes += action_bytes(&q->writes[i], &r->results[i]);
		if (bytes > TABLE_TRANSACT_BYTES_MAX)
			return err_set(err, ERR_INVALID, MSG_TRANSACT_SIZE);
	}
	return ERR_NONE;
}

/* Done before: DynamoDB counts it as reading the items. Their size is that of what was asked for. */
static void repeat_all(const struct table_transact_write *q, struct table_transact_result *r)
{
	for (uint32_t i = 0; i < q->count; i++)
		r->results[i].capacity = (struct capacity){
		        .table = q->writes[i].table,
		        .read_units = 2 * read_cost(item_size(key_of(&q->writes[i])), true)};
}

/* Its writes are known. */
static enum err_code transact(struct engine_session *s, struct arena *a, const struct table_transact_write *q,
                              struct table_transact_result *r, struct err *err)
{
	struct checked *checked = arena_array(a, q->count, sizeof(*checked));

	r->reasons = arena_zalloc(a, q->count * sizeof(*r->reasons));
	r->results = arena_zalloc(a, q->count * sizeof(*r->results));
	if (check_actions(s, a, q, checked, r, err) != ERR_NONE)
		return err->code;
	if (!r->cancelled && q->token.len > 0 && token_use(s, a, q, r, err) != ERR_NONE)
		return err->code;
	if (!r->repeated)
		return apply_actions(s, a, checked, q, r, err);
	repeat_all(q, r);
	return ERR_NONE;
}

/* First the numbers that it takes, if any: its writes depend on them. */
static enum err_code transact_numbered(struct engine_session *s, struct arena *a,
                                       const struct table_transact_write *q, struct table_transact_result *r,
                                       struct err *err)
{
	struct table_transact_write numbered = *q;

	if (q->numbering != NULL && (numbers_take(s, a, q->numbering, err) != ERR_NONE ||
	                             q->numbering->numbered(q->numbering, &numbered, err) != ERR_NONE))
		return err->code;
	return transact(s, a, &numbered, r, err);
}

enum err_code batch_transact_write(struct table *t, struct arena *a, const struct table_transact_write *q,
                                   struct table_transact_result *r, struct err *err)
{
	struct engine_session *s = (struct engine_session *)t;
	struct turn_mark       before = s->turn != NULL ? turn_mark(s->turn) : (struct turn_mark){0};
	enum err_code          rc;

	*r = (struct table_transact_result){0};
	cost_begin(s);
	rc = transact_numbered(s, a, q, r, err);
	if (s->rehearses)
		s->rehearsal->writes = rc == ERR_NONE && !r->cancelled;
	else if (rc != ERR_NONE || r->cancelled)
		turn_rollback(s->turn, before);
	return rc;
}
