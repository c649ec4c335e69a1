/* Query: a query or scan of a sheet or side, answered by looking at every record. */
#ifndef TESTS_MODEL_QUERY_H
#define TESTS_MODEL_QUERY_H

#include "model/write.h"

enum between { ANY, EQUAL, LESS, AT_MOST, MORE, AT_LEAST, BETWEEN, PREFIX };

struct query {
	int              sheet;
	int              side; /* -1: the table */
	bool             scan;
	struct cell      hash;
	enum between     between;
	struct cell      low, high;
	bool             swapped; /* the range key's condition is written first; only with EQUAL */
	struct condition filter;
	struct paths     paths;
	unsigned         limit, segments;
	bool             backward, consistent, count_only, all_attributes;
};

/* A record that is examined. */
struct seen {
	bool          passes; /* the filter */
	bool          found;  /* by a scan's check */
	struct record shown;
	struct record key; /* as in LastEvaluatedKey */
};

struct answer {
	enum err_code code;
	struct seen  *rows; /* in order, except for a scan */
	unsigned      count;
};

static inline const struct side *query_side(const struct world *w, const struct query *q)
{
	return q->side < 0 ? NULL : &w->sheets[q->sheet].sides[q->side];
}

static inline int query_hash(const struct world *w, const struct query *q)
{
	return q->side < 0 ? HASH : query_side(w, q)->hash;
}

/* -1: none */
static inline int query_range(const struct world *w, const struct query *q)
{
	if (q->side >= 0)
		return query_side(w, q)->range;
	return sheet_ranged(&w->sheets[q->sheet]) ? RANGE : -1;
}

static inline bool query_hides(const struct side *side, const struct query *q)
{
	for (unsigned i = 0; i < q->paths.count; i++)
		if (!side_shows(side, (int)q->paths.list[i].attribute))
			return true;
	return side->share != SHARE_ALL && q->all_attributes;
}

static inline enum err_code query_check(const struct world *w, const struct query *q)
{
	const struct side *side = query_side(w, q);
	int                range;

	if (!w->sheets[q->sheet].used)
		return ERR_NO_RESOURCE;
	if (side != NULL && !side->used)
		return ERR_INVALID;
	range = query_range(w, q);
	if (!q->scan && (condition_mentions(&q->filter, (enum attribute)query_hash(w, q)) ||
	                 (range >= 0 && condition_mentions(&q->filter, (enum attribute)range))))
		return ERR_INVALID;
	if (side != NULL && !side->local && (q->consistent || query_hides(side, q)))
		return ERR_INVALID;
	return ERR_NONE;
}

/* ---- which records ---- */

static inline bool range_holds(const struct query *q, const struct cell *c)
{
	int low = cell_compare(c, &q->low);

	switch (q->between) {
	case EQUAL:
		return low == 0;
	case LESS:
		return low < 0;
	case AT_MOST:
		return low <= 0;
	case MORE:
		return low > 0;
	case AT_LEAST:
		return low >= 0;
	case BETWEEN:
		return low >= 0 && cell_compare(c, &q->high) <= 0;
	case PREFIX:
		return text_has(c, &q->low, true);
	default:
		return true;
	}
}

static inline bool query_wants(const struct world *w, const struct query *q, const struct record *r)
{
	const struct side *side = query_side(w, q);

	if (side != NULL && !side_has(&w->sheets[q->sheet], side, r))
		return false;
	if (q->scan)
		return true;
	if (!cell_equal(&r->fields[query_hash(w, q)].own, &q->hash))
		return false;
	return q->between == ANY || range_holds(q, &r->fields[query_range(w, q)].own);
}

static inline struct seen query_see(const struct world *w, const struct query *q, const struct record *r)
{
	const struct side *side = query_side(w, q);
	bool               fetch = side != NULL && query_hides(side, q);
	struct record      visible = side == NULL || fetch ? *r : side_record(side, r);
	struct side        keys = {.hash = HASH, .range = -1, .share = SHARE_KEYS};
	struct seen        seen = {.passes = condition_holds(&q->filter, &visible)};

	keys.ranged = sheet_ranged(&w->sheets[q->sheet]);
	if (side != NULL) {
		keys.hash = side->hash;
		keys.range = side->range;
	}
	seen.shown = record_select(&visible, &q->paths);
	seen.key = side_record(&keys, r);
	return seen;
}

/* ---- in which order: by the range key, then the table's key ---- */

static inline int key_order(const struct record *a, const struct record *b, int attribute)
{
	if (attribute < 0 || a->fields[attribute].own.kind == K_ABSENT)
		return 0;
	return cell_compare(&a->fields[attribute].own, &b->fields[attribute].own);
}

static inline int seen_order(const struct seen *a, const struct seen *b, int range)
{
	int order = key_order(&a->key, &b->key, range);

	if (order == 0)
		order = key_order(&a->key, &b->key, HASH);
	return order != 0 ? order : key_order(&a->key, &b->key, RANGE);
}

static inline void answer_insert(struct answer *out, const struct seen *row, int range, bool backward)
{
	unsigned at = out->count++;

	for (; at > 0; at--) {
		int order = seen_order(&out->rows[at - 1], row, range);

		if (backward ? order > 0 : order < 0)
			break;
		out->rows[at] = out->rows[at - 1];
	}
	out->rows[at] = *row;
}

static inline struct answer query_answer(const struct world *w, struct arena *a, const struct query *q)
{
	struct answer out = {.code = query_check(w, q)};

	if (out.code != ERR_NONE)
		return out;
	out.rows = arena_array(a, HASHES * RANGES, sizeof(struct seen));
	for (int h = 0; h < HASHES; h++)
		for (int r = 0; r < RANGES; r++) {
			const struct record *record = world_get(w, q->sheet, h, r);
			struct seen          row;

			if (record == NULL || !query_wants(w, q, record))
				continue;
			row = query_see(w, q, record);
			answer_insert(&out, &row, query_range(w, q), q->backward);
		}
	return out;
}

/* ---- JSON ---- */

static inline void range_print(struct values *v, struct buf *out, const struct query *q, char name)
{
	static const char *operators[] = {"", " = ", " < ", " <= ", " > ", " >= ", " BETWEEN "};

	print_text(out, q->between == PREFIX ? "begins_with(" : "");
	buf_add_byte(out, (uint8_t)name);
	print_text(out, q->between == PREFIX ? ", " : operators[q->between]);
	print_cell(v, out, &q->low);
	print_text(out, q->between == PREFIX ? ")" : "");
	if (q->between != BETWEEN)
		return;
	print_text(out, " AND ");
	print_cell(v, out, &q->high);
}

static inline void key_print(struct values *v, struct buf *out, const struct world *w, const struct query *q)
{
	if (q->swapped) {
		range_print(v, out, q, attribute_names[query_range(w, q)]);
		print_text(out, " AND ");
	}
	buf_add_byte(out, (uint8_t)attribute_names[query_hash(w, q)]);
	print_text(out, " = ");
	print_cell(v, out, &q->hash);
	if (q->between == ANY || q->swapped)
		return;
	print_text(out, " AND ");
	range_print(v, out, q, attribute_names[query_range(w, q)]);
}

static inline void write_truth(struct json_writer *w, const char *name, bool truth)
{
	json_name(w, bytes_of(name));
	json_bool(w, truth);
}

static inline void write_number(struct json_writer *w, const char *name, int64_t number)
{
	json_name(w, bytes_of(name));
	json_i64(w, number);
}

static inline void query_options(struct json_writer *w, const struct query *q)
{
	if (q->limit > 0)
		write_number(w, "Limit", q->limit);
	if (q->backward)
		write_truth(w, "ScanIndexForward", false);
	if (q->consistent)
		write_truth(w, "ConsistentRead", true);
	if (q->count_only || q->all_attributes)
		write_text(w, "Select", q->count_only ? "COUNT" : "ALL_ATTRIBUTES");
	if (q->segments > 0) {
		write_number(w, "Segment", 0);
		write_number(w, "TotalSegments", q->segments);
	}
}

static inline void query_write(struct json_writer *w, struct arena *a, const struct world *world,
                               const struct query *q)
{
	struct values v;
	struct buf    key, filter, projection;

	values_init(&v, a);
	buf_init(&key, a);
	buf_init(&filter, a);
	buf_init(&projection, a);
	if (!q->scan)
		key_print(&v, &key, world, q);
	if (q->filter.count > 0)
		condition_print(&v, &filter, &q->filter);
	paths_print(&projection, &q->paths);
	json_begin_object(w);
	write_text(w, "TableName", world->sheets[q->sheet].name);
	if (q->side >= 0)
		write_text(w, "IndexName", query_side(world, q)->name);
	write_buf(w, "KeyConditionExpression", &key);
	write_buf(w, "FilterExpression", &filter);
	write_buf(w, "ProjectionExpression", &projection);
	query_options(w, q);
	write_values(w, &v);
	json_end_object(w);
}

#endif
