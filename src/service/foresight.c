/* Foresight: rows that were noted, read in rounds. See foresight.h. */
#include "service/foresight.h"

#include "service/known_rows.h"
#include "service/read_set.h"
#include "service/row.h"
#include "service/snapshot.h"

void foresight_reset(struct foresight *f)
{
	*f = (struct foresight){0};
}

/* ---- noting ---- */

static struct foreseen *find(const struct foresight *f, const struct row_place *p)
{
	for (uint32_t i = 0; i < f->count; i++)
		if (same_place(&f->rows[i].place, p))
			return &f->rows[i];
	return NULL;
}

static struct foreseen *note(struct foresight *f, struct arena *a, const struct row_place *p)
{
	if (f->count % 32 == 0) {
		struct foreseen *larger = arena_array(a, f->count + 32, sizeof(*larger));

		if (f->count > 0)
			memcpy(larger, f->rows, f->count * sizeof(*larger));
		f->rows = larger;
	}
	f->rows[f->count] = (struct foreseen){.place = *p};
	f->missing++;
	return &f->rows[f->count++];
}

static void guess(const struct changes *c, struct foreseen *row)
{
	const struct row_place *p = &row->place;
	struct known_ask        q = {.which = p->which, .pk = p->pk, .sk = p->sk, .arena = c->arena};

	if (c->known != NULL && known_keeps(p->which))
		row->remembered = known_get(c->known, &q, &row->got.found, &row->got.item);
}

enum foreseen_as foresight_look(struct changes *c, const struct row_place *p, const struct foreseen **out)
{
	struct foresight *f = c->foresight;
	struct foreseen  *row = find(f, p);

	if (row == NULL && !f->at_once && f->count < FORESIGHT_ROWS_MAX) {
		row = note(f, c->arena, p);
		guess(c, row);
	}
	*out = row;
	if (row != NULL && row->round > 0)
		return FORESEEN_KNOWN;
	if (row != NULL && !f->at_once)
		return FORESEEN_GUESSED;
	f->torn = true;
	return FORESEEN_NOT;
}

bool foresight_believe(struct changes *c, const struct row_place *p, const struct table_get_result *got)
{
	struct foresight *f = c->foresight;
	struct foreseen  *row = find(f, p);

	if (row != NULL || f->at_once || f->count == FORESIGHT_ROWS_MAX)
		return false;
	row = note(f, c->arena, p);
	row->got = *got;
	row->round = ++f->round;
	f->missing--;
	f->torn = true;
	return true;
}

void foresight_doubt(struct changes *c, const struct row_place *p)
{
	struct foreseen *row = find(c->foresight, p);

	row->round = 0;
	c->foresight->missing++;
}

static struct row_place version_place(struct bytes pk)
{
	return (struct row_place){TABLE_AUTH_STATE, pk, BYTES(CHANGES_VERSION_KEY)};
}

const struct foreseen *foresight_version(const struct foresight *f, struct bytes pk)
{
	struct row_place       p = version_place(pk);
	const struct foreseen *row = f == NULL ? NULL : find(f, &p);

	return row != NULL && row->round > 0 ? row : NULL;
}

/* ---- queries ---- */

static bool is_known_kind(const struct table_query *q)
{
	return q->key != NULL && q->filter == NULL && q->projection == NULL && !q->count_only;
}

static bool same_key(const struct expr_key_condition *a, const struct expr_key_condition *b)
{
	if (!bytes_equal(a->hash_name, b->hash_name) || !value_equal(&a->hash, &b->hash) ||
	    a->range_kind != b->range_kind || !bytes_equal(a->range_name, b->range_name))
		return false;
	return a->range_kind == RANGE_NONE ||
	       (value_equal(&a->low, &b->low) &&
	        (a->range_kind != RANGE_BETWEEN || value_equal(&a->high, &b->high)));
}

static bool same_query(const struct table_query *a, const struct table_query *b)
{
	if (!bytes_equal(a->table, b->table) || !bytes_equal(a->index, b->index) || a->limit != b->limit ||
	    a->backward != b->backward || (a->start == NULL) != (b->start == NULL))
		return false;
	return same_key(a->key, b->key) && (a->start == NULL || item_equal(a->start, b->start));
}

/* Callers move and sort what they get. */
static struct table_query_result result_copy(struct arena *a, const struct table_query_result *r)
{
	struct table_query_result copy = *r;

	copy.items = arena_array(a, r->count + 1, sizeof(*copy.items));
	if (r->count > 0)
		memcpy(copy.items, r->items, r->count * sizeof(*copy.items));
	return copy;
}

enum foreseen_as foresight_query(struct changes *c, const struct table_query *q, struct table_query_result *r)
{
	struct foresight *f = c->foresight;

	for (const struct queried *k = is_known_kind(q) ? f->queries : NULL; k != NULL; k = k->next)
		if (same_query(&k->q, q)) {
			*r = result_copy(c->arena, &k->r);
			return FORESEEN_KNOWN;
		}
	*r = (struct table_query_result){0};
	f->torn = f->torn || f->missing == 0;
	return f->missing > 0 ? FORESEEN_GUESSED : FORESEEN_NOT;
}

void foresight_queried(struct changes *c, const struct table_query *q, const struct table_query_result *r)
{
	struct foresight *f = c->foresight;
	struct queried   *k;
	struct item      *start;

	if (f->at_once)
		return;
	if (!is_known_kind(q) || f->query_count == FORESIGHT_QUERIES_MAX) {
		f->at_once = true;
		return;
	}
	k = arena_alloc(c->arena, sizeof(*k));
	*k = (struct queried){f->queries, *q, *q->key, result_copy(c->arena, r)};
	k->q.key = &k->key;
	if (q->start != NULL) {
		start = arena_alloc(c->arena, sizeof(*start));
		*start = *q->start;
		k->q.start = start;
	}
	f->queries = k;
	f->query_count++;
}

/* ---- randomness ---- */

void foresight_random(struct changes *c, void *out, size_t len)
{
	struct foresight *f = c->foresight;

	if (f->drawn_used + len > f->drawn_len) {
		uint8_t *more = arena_alloc(c->arena, f->drawn_used + len);

		if (f->drawn_len > 0)
			memcpy(more, f->drawn, f->drawn_len);
		c->random(more + f->drawn_len, f->drawn_used + len - f->drawn_len);
		f->drawn = more;
		f->drawn_len = f->drawn_used + len;
	}
	memcpy(out, f->drawn + f->drawn_used, len);
	f->drawn_used += len;
}

/* ---- reading ---- */

/* What goes into one request. */
struct round {
	struct foreseen *asked[TABLE_BATCH_GET_MAX];
	struct table_get gets[TABLE_BATCH_GET_MAX];
	uint32_t         count;
	bool             snapshot; /* (3) */
};

static bool is_version(const struct foreseen *row)
{
	return bytes_is(row->place.sk, CHANGES_VERSION_KEY);
}

static void answer(struct foresight *f, struct foreseen *row, const struct table_get_result *got)
{
	row->got = *got;
	row->round = f->round;
	f->missing--;
}

/* What a round read. (3) */
static void round_answer(const struct round *r, struct foresight *f, const struct table_batch_get_result *got)
{
	f->torn = f->torn || f->read || !r->snapshot;
	f->read = true;
	for (uint32_t i = 0; i < r->count; i++) {
		if (!r->snapshot && got->skipped[i])
			continue;
		answer(f, r->asked[i], &got->results[i]);
		r->asked[i]->round += !r->snapshot && is_version(r->asked[i]);
	}
}

static void answer_no_table(struct foresight *f, struct foreseen *row)
{
	row->no_table = true;
	answer(f, row, &(struct table_get_result){.found = false});
}

static bool lacks(const struct table *t, struct bytes name)
{
	return t->backend->lacks != NULL && t->backend->lacks(t, name);
}

static void round_add(struct round *r, struct changes *c, struct table *t, struct foreseen *row)
{
	struct bytes name = c->tables->names[row->place.which];

	if (lacks(t, name)) {
		answer_no_table(c->foresight, row);
		return;
	}
	r->asked[r->count] = row;
	r->gets[r->count++] = (struct table_get){
	        .table = name,
	        .key = row_key_in(c->arena, row->place.which, row->place.pk, row->place.sk),
	        .consistent = true};
}

/* Versions come first: if the rest takes several requests, they stand for all of it. */
static void round_fill(struct round *r, struct changes *c, struct table *t)
{
	struct foresight *f = c->foresight;

	*r = (struct round){.snapshot = t->alone};
	for (uint32_t i = 0; i < f->count && r->count < TABLE_BATCH_GET_MAX; i++)
		if (f->rows[i].round == 0 && is_version(&f->rows[i]))
			round_add(r, c, t, &f->rows[i]);
	r->snapshot = r->snapshot || r->count > 0;
	for (uint32_t i = 0; i < f->count && r->count < TABLE_BATCH_GET_MAX; i++)
		if (f->rows[i].round == 0 && !is_version(&f->rows[i]))
			round_add(r, c, t, &f->rows[i]);
}

/* Is it one of several that are missing, of a partition whose version was not asked for yet? */
static bool wants_version(const struct foresight *f, uint32_t at)
{
	const struct row_place *p = &f->rows[at].place;
	struct row_place        version = version_place(p->pk);
	uint32_t                others = 0;

	if (f->rows[at].round > 0 || !moves_version(p) || find(f, &version) != NULL)
		return false;
	for (uint32_t i = 0; i < f->count; i++)
		others += i != at && f->rows[i].round == 0 && moves_version(&f->rows[i].place) &&
		          bytes_equal(f->rows[i].place.pk, p->pk);
	return others > 0;
}

/* (6) */
static void versions_note(struct changes *c)
{
	struct foresight *f = c->foresight;

	for (uint32_t i = 0, count = f->count; i < count && f->count < FORESIGHT_ROWS_MAX; i++)
		if (wants_version(f, i)) {
			struct row_place version = version_place(f->rows[i].place.pk);

			note(f, c->arena, &version);
		}
}

static enum err_code one_get(struct changes *c, struct table *t, struct foreseen *row,
                             const struct table_get *q, struct err *err)
{
	struct table_get_result got;
	unsigned                repeats = 0;
	enum err_code           rc;

	do
		rc = t->backend->get(t, c->arena, q, &got, err);
	while (changes_repeat(c, t, rc, ++repeats));
	if (rc == ERR_NO_RESOURCE)
		answer_no_table(c->foresight, row);
	else if (rc == ERR_NONE)
		round_answer(&(struct round){.asked = {row}, .count = 1, .snapshot = true}, c->foresight,
		             &(struct table_batch_get_result){.results = &got});
	return rc == ERR_NO_RESOURCE ? ERR_NONE : rc;
}

static enum err_code round_get(struct round *r, struct changes *c, struct table *t, struct err *err)
{
	struct table_batch_get q = {r->gets, r->count};
	struct snapshot        s;
	unsigned               repeats = 0;
	enum err_code          rc;

	if (r->count == 1)
		return one_get(c, t, r->asked[0], &r->gets[0], err);
	do {
		s.torn = true;
		rc = r->snapshot ? snapshot_get(c, t, &q, &s, err)
		                 : t->backend->batch_get(t, c->arena, &q, &s.got, err);
		r->snapshot = !s.torn;
	} while (changes_repeat(c, t, rc, ++repeats));
	if (rc == ERR_NONE)
		round_answer(r, c->foresight, &s.got);
	return rc;
}

/* Which table is not there, the engine knows once it has been asked; if it does not, each row is read by itself. */
static enum err_code rows_get(const struct round *r, struct changes *c, struct table *t, struct err *err)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (one_get(c, t, r->asked[i], &r->gets[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* (5) Nothing is noted any more, and what was noted is read when it is asked for. */
static void give_up(struct foresight *f)
{
	f->at_once = true;
	f->missing = 0;
}

enum err_code foresight_read(struct changes *c, struct table *t, struct err *err)
{
	struct foresight *f = c->foresight;
	unsigned          absent = 0;
	struct round      r;
	enum err_code     rc;

	f->drawn_used = 0;
	if (!t->alone)
		versions_note(c);
	while (f->missing > 0) {
		f->round++;
		round_fill(&r, c, t);
		if (r.count == 0)
			break;
		rc = round_get(&r, c, t, err);
		if (rc == ERR_NO_RESOURCE && ++absent < FORESIGHT_TABLES_TRIES)
			continue;
		if (rc == ERR_NO_RESOURCE)
			rc = rows_get(&r, c, t, err);
		if (rc ==
		    ERR_INVALID) { /* too large for a snapshot, or a table that is not ours: told by whoever asks */
			give_up(f);
			return ERR_NONE;
		}
		if (rc != ERR_NONE)
			return rc;
	}
	if (++f->passes >= FORESIGHT_PASSES_MAX)
		give_up(f);
	return ERR_NONE;
}
