/* Requests: random writes, transactions, batches, gets and queries, made for the world as it is. */
#ifndef TESTS_MODEL_REQUESTS_H
#define TESTS_MODEL_REQUESTS_H

#include "model/generate.h"

/* ---- writes ---- */

/* Mostly one that exists. */
static inline int any_sheet(struct world *w)
{
	int sheet = pick(w, SHEETS);

	for (int i = 0; i < 4 && !w->sheets[sheet].used; i++)
		sheet = pick(w, SHEETS);
	return sheet;
}

static inline int any_range(struct world *w, int sheet)
{
	return sheet_ranged(&w->sheets[sheet]) ? pick(w, RANGES) : 0;
}

static inline void write_spoil(struct world *w, struct write *q)
{
	if (!chance(w, 1))
		return;
	q->wrong_key = true;
	if (q->kind == TABLE_PUT)
		q->record.fields[HASH] = field_of((struct cell){.kind = K_BOOL, .n = 1});
}

static inline struct write any_write(struct world *w, enum table_action_kind kind)
{
	struct write        q = {.kind = kind, .sheet = any_sheet(w)};
	const struct sheet *s = &w->sheets[q.sheet];

	q.hash = pick(w, HASHES);
	q.range = any_range(w, q.sheet);
	if (kind == TABLE_PUT)
		q.record = any_record(w, s, q.hash, q.range);
	if (kind == TABLE_UPDATE)
		q.update = any_update(w, s, world_get(w, q.sheet, q.hash, q.range));
	write_spoil(w, &q);
	return q;
}

/* Most conditions and updates drawn blindly fail. In a transaction one failure hides all else, so there they
 * are drawn a few times. */
static inline struct write any_lucky(struct world *w, enum table_action_kind kind)
{
	static const struct record nothing;
	struct write               q = any_write(w, kind);
	const struct record       *now = world_get(w, q.sheet, q.hash, q.range);
	const struct sheet        *s = &w->sheets[q.sheet];
	struct record new;

	for (int i = 0; i < 4 && kind == TABLE_UPDATE && !write_compute(w, &q, now, &new); i++)
		q.update = any_update(w, s, now);
	if (kind == TABLE_CHECK || chance(w, 20))
		q.condition = any_condition(w, s);
	for (int i = 0; i < 4 && q.condition.count > 0; i++)
		if (!condition_holds(&q.condition, now != NULL ? now : &nothing))
			q.condition = any_condition(w, s);
	if (q.condition.count > 0)
		q.old_on_failure = chance(w, 50);
	return q;
}

static inline struct write any_conditional(struct world *w, enum table_action_kind kind)
{
	struct write q = any_write(w, kind);

	if (chance(w, 40))
		q.condition = any_condition(w, &w->sheets[q.sheet]);
	if (q.condition.count > 0)
		q.old_on_failure = chance(w, 50);
	return q;
}

static inline enum table_action_kind any_kind(struct world *w)
{
	int dice = pick(w, 10);

	return dice < 3 ? TABLE_PUT : dice < 8 ? TABLE_UPDATE : TABLE_DELETE;
}

static inline struct write any_single(struct world *w)
{
	struct write q = any_conditional(w, any_kind(w));

	if (q.kind == TABLE_UPDATE)
		q.returns = (enum return_values)pick(w, 5);
	else
		q.returns = chance(w, 50) ? RETURN_ALL_OLD : RETURN_NONE;
	return q;
}

static inline bool parts_hold(const struct parts *q, const struct write *part)
{
	for (unsigned i = 0; i < q->count; i++)
		if (q->list[i].sheet == part->sheet && q->list[i].hash == part->hash &&
		    q->list[i].range == part->range)
			return true;
	return false;
}

static inline void any_transaction(struct world *w, struct parts *q)
{
	int count = 2 + pick(w, PARTS_MAX - 1);

	*q = (struct parts){.token = chance(w, 40) ? pick(w, TOKENS) : -1};
	for (int i = 0; i < count; i++) {
		struct write part = any_lucky(w, chance(w, 15) ? TABLE_CHECK : any_kind(w));

		if (part.kind == TABLE_UPDATE && part.update.count == 0)
			part.kind = TABLE_DELETE; /* a transaction's update must have an expression */
		if (!parts_hold(q, &part) || chance(w, 1))
			q->list[q->count++] = part;
	}
}

/* By table, as BatchWriteItem lists them. */
static inline void any_batch(struct world *w, struct parts *q)
{
	int count = 1 + pick(w, PARTS_MAX);

	*q = (struct parts){.token = -1};
	for (int i = 0; i < count; i++) {
		struct write part = any_write(w, chance(w, 70) ? TABLE_PUT : TABLE_DELETE);
		unsigned     at = q->count;

		if (parts_hold(q, &part) && !chance(w, 1))
			continue;
		for (; at > 0 && q->list[at - 1].sheet > part.sheet; at--)
			q->list[at] = q->list[at - 1];
		q->list[at] = part;
		q->count++;
	}
}

/* ---- reads ---- */

static inline void any_gets(struct world *w, struct gets *q, int most)
{
	int count = 1 + pick(w, most), first = pick(w, SHEETS);

	*q = (struct gets){0};
	for (int i = 0; i < count; i++) {
		int sheet = first + i * (SHEETS - first) / count; /* by table, as BatchGetItem lists them */

		if (!w->sheets[sheet].used && chance(w, 95))
			continue;
		q->list[q->count].sheet = sheet;
		q->list[q->count].hash = pick(w, HASHES);
		q->list[q->count++].range = any_range(w, sheet);
		if (gets_repeat(q) && chance(w, 99))
			q->count--;
	}
	if (chance(w, 40))
		q->paths = any_paths(w);
}

/* ---- queries ---- */

static inline int any_side(struct world *w, const struct sheet *s)
{
	int side = chance(w, 30) ? -1 : pick(w, SIDES);

	if (side >= 0 && (s->sides[side].filling || s->sides[side].name == NULL ||
	                  (!s->sides[side].used && chance(w, 95))))
		return -1;
	return side;
}

static inline void any_key_range(struct world *w, struct query *q, enum kind kind)
{
	struct cell swap;

	q->between = (enum between)pick(w, PREFIX + 1);
	if (q->between == PREFIX && kind == K_N)
		q->between = AT_LEAST;
	q->low = key_cell(kind, pick(w, RANGES));
	q->high = key_cell(kind, pick(w, RANGES));
	if (q->between == BETWEEN && cell_compare(&q->low, &q->high) > 0) {
		swap = q->low;
		q->low = q->high;
		q->high = swap;
	}
	q->swapped = q->between == EQUAL && chance(w, 30);
}

/* A scan is compared by key, so the key is always among what it shows. */
static inline struct paths with_key(struct world *w, const struct sheet *s)
{
	struct paths paths = {.list = {{HASH, STEP_NONE}, {RANGE, STEP_NONE}},
	                      .count = sheet_ranged(s) ? 2 : 1};

	for (int i = 0; i < 3; i++) {
		struct path p = any_path(w);

		if (p.attribute != RANGE && paths_fit(&paths, p))
			paths.list[paths.count++] = p;
	}
	return paths;
}

static inline void any_select(struct world *w, struct query *q)
{
	const struct sheet *s = &w->sheets[q->sheet];
	int                 dice = pick(w, 10);

	if (dice < 3)
		q->paths = q->scan ? with_key(w, s) : any_paths(w);
	else if (dice == 3)
		q->count_only = true;
	else if (dice == 4)
		q->all_attributes = true;
	if (chance(w, 35))
		q->filter = any_condition(w, s);
	if (chance(w, 40))
		q->limit = 1 + (unsigned)pick(w, 6);
	q->consistent = chance(w, q->side >= 0 && !s->sides[q->side].local ? 2 : 20);
}

/* One that is there, if luck has it. */
static inline struct cell any_query_hash(struct world *w, const struct query *q, int attribute)
{
	const struct sheet *s = &w->sheets[q->sheet];

	if (attribute == HASH)
		return hash_cell(s, pick(w, HASHES));
	for (int i = 0; i < 5; i++) {
		const struct record *r = world_get(w, q->sheet, pick(w, HASHES), any_range(w, q->sheet));

		if (r != NULL && key_fits(s, attribute, r))
			return r->fields[attribute].own;
	}
	return any_key(w, s, (enum attribute)attribute);
}

static inline void any_query(struct world *w, struct query *q, bool scan)
{
	const struct sheet *s;
	int                 hash, range;

	*q = (struct query){.sheet = any_sheet(w), .scan = scan};
	s = &w->sheets[q->sheet];
	q->side = any_side(w, s);
	any_select(w, q);
	if (scan) {
		q->segments = chance(w, 40) ? 1 + (unsigned)pick(w, 5) : 0;
		return;
	}
	hash = query_hash(w, q);
	range = query_range(w, q);
	q->hash = any_query_hash(w, q, hash);
	if (range >= 0)
		any_key_range(w, q, s->kinds[range]);
	q->backward = chance(w, 50);
}

#endif
