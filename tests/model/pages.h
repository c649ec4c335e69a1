/* Pages: runs a query or scan to its end, page by page, and compares each page with the model.
 *
 * A query's order is known. A scan's is known within a hash key only, so a scan is compared as a set: every
 * row once, all rows of a hash key together and in order. */
#ifndef TESTS_MODEL_PAGES_H
#define TESTS_MODEL_PAGES_H

#include "model/call.h"

struct pages {
	struct call              *call;
	struct table_query        q;
	struct table_query_result r;
	struct item               start;
	unsigned                  at;      /* query: rows before this page */
	unsigned                  scanned; /* scan: of all pages */
	unsigned                  counted; /* scan: those that passed */
	struct seen              *last;    /* scan: the row before */
};

/* ---- a query ---- */

/* A query of a table without range key: nothing can come behind its row. */
static inline bool one_row_at_most(const struct call *c)
{
	return !c->query->scan && c->query->side < 0 &&
	       !sheet_ranged(&c->driver->world.sheets[c->query->sheet]);
}

static inline void query_page_check(struct pages *p)
{
	struct call   *c = p->call;
	struct answer *expected = &c->answer;
	unsigned       rest = expected->count - p->at, limit = c->query->limit;
	unsigned       take = limit > 0 && limit < rest ? limit : rest, count = 0;

	check_number(c, "ScannedCount", take, p->r.scanned);
	for (unsigned i = p->at; i < p->at + take; i++) {
		if (!expected->rows[i].passes)
			continue;
		if (!c->query->count_only)
			check_item(c, "an item of a page", &expected->rows[i].shown,
			           count < p->r.count ? &p->r.items[count] : NULL);
		count++;
	}
	check_number(c, "Count", count, p->r.count);
	check_number(c, "whether there is more", limit > 0 && rest >= limit && !one_row_at_most(c),
	             p->r.more);
	p->at += take;
	if (p->r.more)
		check_item(c, "LastEvaluatedKey", &expected->rows[p->at - 1].key, &p->r.last_key);
}

/* ---- a scan ---- */

static inline struct seen *row_by_key(struct answer *answer, const struct item *item)
{
	struct record read;

	if (!record_read(item, &read))
		return NULL;
	for (unsigned i = 0; i < answer->count; i++) {
		struct record *key = &answer->rows[i].key;

		if (field_equal(&key->fields[HASH], &read.fields[HASH]) &&
		    field_equal(&key->fields[RANGE], &read.fields[RANGE]))
			return &answer->rows[i];
	}
	return NULL;
}

static inline bool row_follows(const struct pages *p, const struct seen *row, int hash)
{
	if (p->last == NULL)
		return true;
	if (cell_equal(&p->last->key.fields[hash].own, &row->key.fields[hash].own))
		return seen_order(p->last, row, p->call->query_range) < 0;
	for (unsigned i = 0; i < p->call->answer.count; i++) {
		const struct seen *other = &p->call->answer.rows[i];

		if (other->found && cell_equal(&other->key.fields[hash].own, &row->key.fields[hash].own))
			return false;
	}
	return true;
}

static inline void scan_row_check(struct pages *p, const struct item *item, int hash)
{
	struct seen  *row = row_by_key(&p->call->answer, item);
	struct arena *a = &p->call->driver->arena;

	if (row == NULL || !row->passes || row->found)
		call_differ(p->call, "a scanned item: unknown, filtered or twice",
		            say_record(a, row ? &row->shown : NULL), say_item(a, item));
	check_item(p->call, "a scanned item", &row->shown, item);
	if (!row_follows(p, row, hash))
		call_differ(p->call, "the order of scanned items", say_record(a, &p->last->shown),
		            say_item(a, item));
	row->found = true;
	p->last = row;
}

/* Items are shown whole, or with their key at least: the generator sees to that. */
static inline void scan_page_check(struct pages *p)
{
	struct call *c = p->call;
	int          hash = c->query->side < 0 ? HASH
	                                       : c->driver->world.sheets[c->query->sheet].sides[c->query->side].hash;
	struct seen *at;

	for (uint32_t i = 0; i < p->r.count && !c->query->count_only; i++)
		scan_row_check(p, &p->r.items[i], hash);
	p->scanned += p->r.scanned;
	p->counted += p->r.count;
	if (!p->r.more)
		return;
	check_number(c, "ScannedCount of a page with more", c->query->limit, p->r.scanned);
	at = row_by_key(&c->answer, &p->r.last_key);
	check_item(c, "LastEvaluatedKey", at == NULL ? NULL : &at->key, &p->r.last_key);
	if (c->query->filter.count == 0 && !c->query->count_only && at != p->last)
		call_differ(c, "LastEvaluatedKey is not the last item's", BYTES("the last item"),
		            say_item(&c->driver->arena, &p->r.last_key));
}

static inline void scan_end_check(struct pages *p)
{
	struct call *c = p->call;
	unsigned     passing = 0;

	for (unsigned i = 0; i < c->answer.count; i++) {
		struct seen *row = &c->answer.rows[i];

		passing += row->passes;
		if (row->passes && !row->found && !c->query->count_only)
			call_differ(c, "an item that no page showed",
			            say_record(&c->driver->arena, &row->shown), BYTES("nothing"));
	}
	check_number(c, "all that was scanned", c->answer.count, p->scanned);
	check_number(c, "all that passed the filter", passing, p->counted);
}

/* ---- both ---- */

static inline enum err_code pages_run(struct pages *p, struct table *t)
{
	struct call  *c = p->call;
	enum err_code rc;

	p->q.start = NULL;
	do {
		rc = BACKEND(c, t, query, &p->q, &p->r);
		if (!check_code(c, rc))
			return rc;
		if (c->query->scan)
			scan_page_check(p);
		else
			query_page_check(p);
		p->start = p->r.last_key;
		p->q.start = &p->start;
	} while (p->r.more);
	return ERR_NONE;
}

static inline enum err_code run_query(struct call *c, struct table *t)
{
	struct pages p = {.call = c, .q = c->q.query};

	do {
		enum err_code rc = pages_run(&p, t);

		if (rc != ERR_NONE)
			return rc;
		p.q.segment++;
	} while (p.q.segment < p.q.segments);
	if (c->query->scan)
		scan_end_check(&p);
	return ERR_NONE;
}

#endif
