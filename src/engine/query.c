/* Query: pages of a table or index, by hash key (query) or of all (scan). The plan (query_plan.c) is one range of the
 * key space; the page is what lies in it until a limit is met.
 *
 * Work is bounded: a page examines at most PAGE_READ_BYTES_MAX of stored bytes, also where expired rows or a
 * filter leave nothing to return, or where small index entries make it look into large rows. It also ends once its
 * filter has looked at a PAGE_COST_SHARE of what the request may, because a loop's other connections wait meanwhile.
 * DynamoDB's callers take a short page for granted and go on from its last key. */
#include "engine/query.h"

#include "engine/layout.h"
#include "engine/read.h"
#include "expr/eval.h"

enum { PAGE_READ_BYTES_MAX = 4 * TABLE_PAGE_BYTES_MAX, PAGE_COST_SHARE = 4 };

/* The row behind an index entry, of the same state: in a turn nothing else runs, elsewhere by the snapshot.
 */
static enum err_code load_base(struct page *p, const struct item *entry, struct loaded *base, struct err *err)
{
	struct item  key = schema_key_of(p->arena, &p->table->schema, NULL, entry);
	struct buf   row_key;
	struct bytes value;
	bool         found;

	if (p->snapshot == NULL) {
		const struct loaded *row;

		if (row_load(p->session, p->arena, p->table, &key, &row, err) != ERR_NONE)
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

/* The row's item; absent (live false) if it is expired. */
static enum err_code examine(struct page *p, struct bytes value, struct loaded *row, struct err *err)
{
	struct loaded base;

	*row = (struct loaded){0};
	if (row_decode(p->session, p->arena, p->table, arena_copy(p->arena, value), row, err) != ERR_NONE)
		return err->code;
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

static enum err_code page_read(struct page *p, struct err *err)
{
	struct rocks      *rocks = p->session->engine->rocks;
	struct view_cursor cursor;
	enum err_code      rc;

	if (bytes_compare(p->low, p->high) >= 0)
		return ERR_NONE;
	if (p->session->turn == NULL && (p->fetch || p->check_expiry) &&
	    view_snapshot_open(p->session->engine, &p->snapshot, err) != ERR_NONE)
		return err->code;
	view_cursor_open(&cursor, p->session, p->snapshot, p->arena, p->low, p->high, p->q->backward);
	rc = page_walk(p, &cursor, err);
	view_cursor_close(&cursor);
	if (p->snapshot != NULL)
		rocks_snapshot_close(rocks, p->snapshot);
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

enum err_code read_query(struct table *t, struct arena *a, const struct table_query *q,
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
