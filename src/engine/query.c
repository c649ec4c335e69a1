/* Query: pages of a table or index, by hash key (query) or of all (scan). A key condition
 * becomes one range of the key space, and a start key narrows it; the page is what lies in it until a limit is met.
 * Everything that can be wrong with a query is found by the plan, before anything is read.
 *
 * Work is bounded: a page examines at most PAGE_READ_BYTES_MAX of stored bytes, also where expired rows or a
 * filter leave nothing to return, or where small index entries make it look into large rows. It also ends once its
 * filter has looked at a PAGE_COST_SHARE of what the request may, because a loop's other connections wait meanwhile.
 * DynamoDB's callers take a short page for granted and go on from its last key. */
#include "engine/known.h"
#include "engine/layout.h"
#include "expr/eval.h"
#include "item/codec.h"
#include "item/messages.h"

enum {
	PAGE_READ_BYTES_MAX = 4 * TABLE_PAGE_BYTES_MAX,
	PAGE_COST_SHARE = 4,
	PAGE_ROWS_GONE = 32, /* that a page is likely to pass at most: deleted, or expired */
};

/* One page, while it is planned and read. */
struct page {
	/* what was asked */
	struct engine_session    *session;
	struct arena             *arena;
	const struct table_query *q;

	/* the plan */
	const struct table_entry  *table;
	const struct index_schema *index; /* NULL: the table itself */
	uint16_t                   index_id;
	const struct key_schema   *keys; /* of what is queried */
	struct value               hash; /* of a query: the key of its partition */
	struct bytes               low, high;
	bool                       fetch;        /* the rest of each item must come from the table */
	bool                       check_expiry; /* the index does not hold the expiry time */

	/* the reading */
	struct rocks_snapshot     *snapshot; /* of entries and rows alike, if both are read */
	struct table_query_result *result;
	uint32_t                   item_cap;
	size_t                     bytes;         /* examined, DynamoDB's sizes */
	size_t                     fetched_bytes; /* fetched from the table for a local index */
	size_t                     stored_bytes;  /* examined or fetched, as stored */
	size_t                     cost_max;      /* the session's cost at which the page ends */
	struct item                last;          /* the row taken last */
};

/* ---- the plan: which rows ---- */

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

/* Can it find one row at most? */
static bool is_of_one_row(const struct page *p)
{
	return p->q->key != NULL && p->index == NULL && p->keys->range.name.len == 0;
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
	if (is_of_one_row(p))
		return err_set(err, ERR_INVALID, MSG_START_KEY_ONE);
	if (p->q->backward) {
		p->high = buf_bytes(&key);
		return ERR_NONE;
	}
	buf_add_byte(&key, 0); /* the very next possible key */
	p->low = buf_bytes(&key);
	return ERR_NONE;
}

/* ---- the plan: what of each row ---- */

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

/* From session, arena and q: the table, the range, and what must be fetched. Reads no rows. */
static enum err_code query_plan(struct page *p, struct err *err)
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
		p->hash = key.hash;
		query_range(p, &key);
	}
	if (plan_projection(p, err) != ERR_NONE)
		return err->code;
	return p->q->start == NULL ? ERR_NONE : start_after(p, p->q->start, err);
}

/* ---- reading ---- */

/* The row behind an index entry, of the same state: in a turn nothing else runs, elsewhere by the snapshot.
 */
static enum err_code load_base(struct page *p, const struct item *entry, struct loaded *base, struct err *err)
{
	struct item  key = schema_key_of(p->arena, &p->table->schema, NULL, entry);
	struct buf   row_key;
	struct bytes value;
	bool         found;

	if (p->snapshot == NULL) {
		struct key_values    values = schema_key_values(&p->table->schema, &key);
		const struct loaded *row;

		if (row_load(p->session, p->arena, p->table, &values, &row, err) != ERR_NONE)
			return err->code;
		*base = *row;
		return ERR_NONE;
	}
	*base = (struct loaded){0};
	buf_init(&row_key, p->arena);
	layout_row(&row_key, p->table->id, &p->table->schema.keys, &key);
	if (view_get_at(p->session, p->snapshot, p->arena, buf_bytes(&row_key), &value, &found, err) !=
	    ERR_NONE)
		return err->code;
	return found ? row_decode(p->session, p->arena, p->table, value, base, err) : ERR_NONE;
}

/* The row's item; absent (live false) if it is expired. The page may end with one that is gone, too: then its key is the last. */
static enum err_code examine(struct page *p, struct bytes value, struct loaded *row, struct err *err)
{
	struct loaded base;

	*row = (struct loaded){0};
	value = arena_copy(p->arena, value);
	if (row_decode(p->session, p->arena, p->table, value, row, err) != ERR_NONE)
		return err->code;
	if (!row->stored)
		return item_decode(p->arena, value, &row->item, err);
	if (!row->live || (!p->fetch && !p->check_expiry))
		return ERR_NONE;
	if (load_base(p, &row->item, &base, err) != ERR_NONE)
		return err->code;
	p->stored_bytes += base.value.len;
	row->live = base.live;
	if (p->fetch && base.live) {
		row->item = base.item;
		p->fetched_bytes += base.size_bytes;
	}
	return ERR_NONE;
}

static void page_add(struct page *p, const struct item *item)
{
	struct table_query_result *r = p->result;

	r->count++;
	if (p->q->count_only)
		return;
	if (r->count > p->item_cap) {
		struct item *items =
		        arena_array(p->arena, p->item_cap == 0 ? 16 : p->item_cap * 2, sizeof(*items));

		if (p->item_cap > 0)
			memcpy(items, r->items, p->item_cap * sizeof(*items));
		p->item_cap = p->item_cap == 0 ? 16 : p->item_cap * 2;
		r->items = items;
	}
	r->items[r->count - 1] =
	        p->q->projection == NULL ? *item : expr_project(p->arena, p->q->projection, item);
}

/* Takes one row into the page. *full: the page was full before it. A row whose filter passes what the request may look
 * at is left to the next page, where it comes first; if it does so there, the request fails. */
static enum err_code page_take(struct page *p, const struct loaded *row, bool *full, struct err *err)
{
	bool holds;

	*full = row->live && p->bytes > 0 && p->bytes + row->size_bytes > TABLE_PAGE_BYTES_MAX;
	if (*full || !row->live)
		return ERR_NONE;
	holds = expr_holds(p->q->filter, &row->item, &p->session->base.cost);
	if (expr_cost_exceeded(&p->session->base.cost) && p->result->scanned > 0) {
		*full = true;
		return ERR_NONE;
	}
	if (cost_check(p->session, err) != ERR_NONE)
		return err->code;
	p->bytes += row->size_bytes;
	p->result->scanned++;
	if (holds)
		page_add(p, &row->item);
	return ERR_NONE;
}

static bool page_is_full(const struct page *p)
{
	return (p->q->limit > 0 && p->result->scanned >= p->q->limit) ||
	       p->stored_bytes >= PAGE_READ_BYTES_MAX || p->session->base.cost.spent >= p->cost_max;
}

/* Reads until the page is full or the range ends. */
static enum err_code page_walk(struct page *p, struct view_cursor *cursor, struct err *err)
{
	struct bytes key, value;

	while (!p->result->more && view_cursor_next(cursor, &key, &value)) {
		struct loaded row;
		bool          full;

		p->stored_bytes += key.len + value.len;
		if (examine(p, value, &row, err) != ERR_NONE || page_take(p, &row, &full, err) != ERR_NONE)
			return err->code;
		if (!full)
			p->last = row.item;
		p->result->more = full || page_is_full(p);
	}
	return view_cursor_check(cursor, err);
}

/* The same, of a partition that this turn knows. */
static enum err_code page_of_known(struct page *p, const struct known *known, struct err *err)
{
	const struct loaded **rows = arena_array(p->arena, known->count, sizeof(*rows));
	size_t                count = known_between(p->session, known, p->low, p->high, p->q->backward, rows);

	for (size_t i = 0; i < count && !p->result->more; i++) {
		bool full;

		p->stored_bytes += rows[i]->key.len + rows[i]->value.len;
		if (page_take(p, rows[i], &full, err) != ERR_NONE)
			return err->code;
		if (!full)
			p->last = rows[i]->item;
		p->result->more = full || page_is_full(p);
	}
	return ERR_NONE;
}

static enum err_code page_walked(struct page *p, struct err *err)
{
	struct rocks *rocks = p->session->engine->rocks;
	uint32_t      likely =
                p->q->limit > 0 && p->q->limit < WAITING_ROWS_MAX ? p->q->limit + PAGE_ROWS_GONE : 0;
	struct waiting_range range = {p->low, p->high, p->q->backward, likely};
	struct view_cursor   cursor;
	enum err_code        rc;

	if (p->session->turn == NULL && (p->fetch || p->check_expiry) &&
	    view_snapshot_open(p->session->engine, &p->snapshot, err) != ERR_NONE)
		return err->code;
	view_cursor_open(&cursor, p->session, p->snapshot, p->arena, &range);
	rc = page_walk(p, &cursor, err);
	view_cursor_close(&cursor);
	if (p->snapshot != NULL)
		rocks_snapshot_close(rocks, p->snapshot);
	return rc;
}

static enum err_code page_read(struct page *p, struct err *err)
{
	bool                one = p->q->key != NULL && p->index == NULL;
	const struct known *known;
	enum err_code       rc;

	if (bytes_compare(p->low, p->high) >= 0)
		return ERR_NONE;
	known = one ? known_partition(p->session, p->arena, p->table, &p->hash) : NULL;
	rc = known != NULL ? page_of_known(p, known, err) : page_walked(p, err);
	p->result->more = p->result->more && !is_of_one_row(p);
	if (rc == ERR_NONE && p->result->more)
		p->result->last_key = schema_key_of(p->arena, &p->table->schema, p->index, &p->last);
	return rc;
}

static void fill_capacity(struct page *p)
{
	struct capacity *c = &p->result->capacity;
	double           units = read_cost(p->bytes, p->q->consistent);

	c->table = p->q->table;
	if (p->index == NULL) {
		c->read_units = units;
		return;
	}
	c->indexes = arena_zalloc(p->arena, sizeof(*c->indexes));
	c->index_count = 1;
	c->indexes[0] =
	        (struct index_capacity){.name = p->q->index, .local = p->index->local, .read_units = units};
	if (p->fetched_bytes > 0)
		c->read_units = read_cost(p->fetched_bytes, p->q->consistent);
}

enum err_code query_run(struct table *t, struct arena *a, const struct table_query *q,
                        struct table_query_result *r, struct err *err)
{
	struct page p = {.session = (struct engine_session *)t, .arena = a, .q = q, .result = r};

	*r = (struct table_query_result){0};
	cost_begin(p.session);
	p.cost_max = p.session->base.cost.spent +
	             p.session->engine->options.expression_bytes_max / PAGE_COST_SHARE;
	if (query_plan(&p, err) != ERR_NONE || page_read(&p, err) != ERR_NONE)
		return err->code;
	fill_capacity(&p);
	return ERR_NONE;
}
