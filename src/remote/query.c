/* Queries and scans: pages of a table or an index.
 *
 * Of a table without time to live the endpoint filters and projects. Of one with it, whole items are asked for, and filter and
 * projection are applied here, after those that have expired were left out: so neither the count nor the limit sees them. Reading
 * costs the same units either way. A page that is short of its limit because of that is filled up with further requests, at most
 * FILLS_MAX; then it ends early, as a page of DynamoDB's may.
 *
 * An index that does not hold the time to live is completed from the table, TABLE_BATCH_GET_MAX items at a time. */
#include "remote/items.h"

enum { FILLS_MAX = 16, FILL_LEAST = 100 };

/* A page under way. */
struct paging {
	struct remote_session     *s;
	struct arena              *arena;
	const struct table_schema *schema;
	const struct index_schema *index; /* NULL: the table itself, or an index that is not known */
	const struct table_query  *q;     /* as asked for */
	struct table_query_result *r;
	uint32_t                   room; /* of r->items */
};

static enum err_code page_send(struct paging *p, struct table_query as, struct table_query_result *out,
                               struct err *err)
{
	struct client_page asked = {&as, p->schema, p->index};
	const struct json *answer;
	struct ask         ask;

	*out = (struct table_query_result){0};
	as.table = remote_name(p->s, p->arena, p->q->table);
	as.consistent = p->q->consistent || p->q->index.len == 0 || (p->index != NULL && p->index->local);
	client_query(ask_init(&ask, as.key == NULL ? "Scan" : "Query", p->arena, true), &as);
	if (ask_send(p->s, &ask, &answer, err) != ERR_NONE)
		return items_failed(p->s, p->q->table, err->code);
	return ask_judge(p->s, ask.operation, client_read_query(p->arena, answer, &asked, out, err), err);
}

/* ---- time to live ---- */

/* Does the index hold the time to live of its items? */
static bool holds_time(const struct paging *p)
{
	const struct index_schema *index = p->index;
	struct bytes               ttl = p->schema->ttl_attribute;

	if (index == NULL || index->projection == PROJECT_ALL || p->q->all_attributes ||
	    bytes_equal(index->keys.hash.name, ttl) || bytes_equal(index->keys.range.name, ttl))
		return true;
	for (uint32_t i = 0; i < index->include_count; i++)
		if (bytes_equal(index->include[i], ttl))
			return true;
	return false;
}

/* A batch may leave items for the next call: those first. */
static enum err_code times_fetch(struct paging *p, const struct item *items, uint32_t count, bool *expired,
                                 struct err *err)
{
	struct table_batch_get_result got;
	struct table_get             *gets = arena_array(p->arena, count + 1, sizeof(*gets));
	uint32_t                     *of = arena_array(p->arena, count + 1, sizeof(*of)), left = count;

	for (uint32_t i = 0; i < count; i++) {
		gets[i] = (struct table_get){.table = p->q->table,
		                             .key = schema_key_of(p->arena, p->schema, NULL, &items[i])};
		of[i] = i;
	}
	while (left > 0) { /* each round answers some: else it fails */
		uint32_t asked = left;

		if (items_batch_get(&p->s->base, p->arena, &(struct table_batch_get){gets, asked}, &got,
		                    err) != ERR_NONE)
			return err->code;
		left = 0;
		for (uint32_t k = 0; k < asked; k++) {
			expired[of[k]] = !got.results[k].found;
			if (!got.skipped[k])
				continue;
			gets[left] = gets[k];
			of[left++] = of[k];
		}
	}
	return ERR_NONE;
}

/* Which of them are absent. Of an index without the times, a row that is gone from the table is absent as well. */
static enum err_code find_expired(struct paging *p, const struct table_query_result *page, bool *expired,
                                  struct err *err)
{
	if (holds_time(p)) {
		for (uint32_t i = 0; i < page->count; i++)
			expired[i] = schema_expired(p->schema, &page->items[i], p->s->base.now_us);
		return ERR_NONE;
	}
	for (uint32_t i = 0; i < page->count; i += TABLE_BATCH_GET_MAX) {
		uint32_t count =
		        page->count - i < TABLE_BATCH_GET_MAX ? page->count - i : TABLE_BATCH_GET_MAX;

		if (times_fetch(p, page->items + i, count, expired + i, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}

/* ---- filling a page ---- */

static void item_add(struct paging *p, const struct item *item)
{
	struct expr_cost cost = {.max = SIZE_MAX};

	p->r->scanned++;
	if (p->q->filter != NULL && !expr_holds(p->q->filter, item, &cost))
		return;
	if (p->r->count == p->room) {
		struct item *larger = arena_array(p->arena, p->room * 2 + 16, sizeof(*larger));

		if (p->r->count > 0)
			memcpy(larger, p->r->items, p->r->count * sizeof(*larger));
		p->r->items = larger;
		p->room = p->room * 2 + 16;
	}
	p->r->items[p->r->count++] =
	        p->q->projection == NULL ? *item : expr_project(p->arena, p->q->projection, item);
}

/* The live items of a page, up to the limit. False: the limit is reached. */
static bool page_add(struct paging *p, const struct table_query_result *page, const bool *expired)
{
	p->r->more = page->more;
	p->r->last_key = page->last_key;
	for (uint32_t i = 0; i < page->count; i++) {
		if (expired[i])
			continue;
		item_add(p, &page->items[i]);
		if (p->q->limit == 0 || p->r->scanned < p->q->limit)
			continue;
		p->r->more = true; /* as DynamoDB says of every page that ends at its limit */
		p->r->last_key = schema_key_of(p->arena, p->schema, p->index, &page->items[i]);
		return false;
	}
	return true;
}

static enum err_code live_pages(struct paging *p, struct err *err)
{
	struct table_query        as = *p->q;
	struct table_query_result page;
	struct item               last;

	as.filter = NULL;
	as.projection = NULL;
	as.count_only = false;
	for (int fills = 0; fills < FILLS_MAX; fills++) {
		bool *expired;

		if (page_send(p, as, &page, err) != ERR_NONE)
			return err->code;
		expired = arena_zalloc(p->arena, page.count + 1);
		if (find_expired(p, &page, expired, err) != ERR_NONE)
			return err->code;
		if (!page_add(p, &page, expired) || !page.more || p->q->limit == 0)
			break;
		last = page.last_key;
		as.start = &last;
		as.limit = p->q->limit < FILL_LEAST ? FILL_LEAST : p->q->limit;
	}
	if (p->q->count_only)
		p->r->items = NULL;
	return ERR_NONE;
}

enum err_code items_query(struct table *t, struct arena *a, const struct table_query *q,
                          struct table_query_result *r, struct err *err)
{
	struct remote_session *s = session_of(t);
	struct table_schema    schema;
	struct paging          p = {.s = s, .arena = a, .schema = &schema, .q = q, .r = r};
	enum err_code          rc;

	*r = (struct table_query_result){0};
	if (schemas_get(s, a, q->table, &schema, err) != ERR_NONE)
		return err->code;
	p.index = q->index.len == 0 ? NULL : schema_index(&schema, q->index);
	rc = schema.ttl_attribute.len > 0 ? live_pages(&p, err) : page_send(&p, *q, r, err);
	if (q->count_only)
		r->items = NULL;
	r->capacity.table = q->table;
	return rc;
}
