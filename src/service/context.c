/* Context: the reads and writes of services, on the tables that they own. */
#include "service/context.h"

#include <assert.h>

#include "service/known_rows.h"
#include "service/outage.h"
#include "service/row.h"
#include "service/snapshot.h"

/* What tables elsewhere say is remembered, for the time when they say nothing. A merge looks back, and learns nothing; a call without a table
 * (api/dispatch.h, tableless) has nothing to learn from. */
static bool learns(const struct context *ctx)
{
	return ctx->services->outage != NULL && ctx->table->backend != NULL &&
	       ctx->table->backend->out != NULL && !ctx->late;
}

void ctx_drop(struct context *ctx)
{
	struct foresight *foresight = ctx->changes.foresight;

	changes_init(&ctx->changes, ctx->arena, &ctx->services->tables);
	ctx->changes.random = ctx->services->random;
	ctx->changes.hot_keys = ctx->services->hot_keys;
	ctx->changes.foresight = foresight;
	if (learns(ctx)) {
		ctx->changes.known = ctx->services->outage->known;
		ctx->changes.limit_rows = ctx->services->outage->limit_rows;
	}
}

void ctx_state(struct context *ctx, void *at, size_t bytes)
{
	ctx->state = (struct run_state){.at = at, .bytes = bytes};
}

/* On tables that are here it runs once: nothing is in its way (change.h, 3). */
static bool runs_once(const struct context *ctx)
{
	const struct table *t = ctx->table;

	return t->alone && ctx->services->outage == NULL && (t->backend == NULL || !t->backend->reads_wait);
}

static void state_fresh(struct context *ctx)
{
	struct run_state *s = &ctx->state;

	if (s->before != NULL)
		memcpy(s->at, s->before, s->bytes);
	else if (s->bytes > 0 && !runs_once(ctx))
		s->before = arena_copy(ctx->arena, (struct bytes){s->at, s->bytes}).data;
}

void ctx_begin(struct context *ctx, struct table *t)
{
	ctx->table = t;
	state_fresh(ctx);
	ctx->now_us = t->now_us;
	ctx->now_s = t->now_us / 1000000;
	ctx->changes.foresight = NULL;
	ctx_drop(ctx);
}

void ctx_foresee(struct context *ctx)
{
	const struct table_backend *backend = ctx->table->backend;

	if (backend == NULL || !backend->reads_wait) /* a call that needs no table has none */
		return;
	foresight_reset(&ctx->foresight);
	ctx->changes.foresight = &ctx->foresight;
}

bool ctx_again(struct context *ctx, enum err_code *rc, struct err *err)
{
	if (!ctx_guesses(ctx))
		return false;
	*rc = foresight_read(&ctx->changes, ctx->table, err);
	if (*rc != ERR_NONE)
		return false;
	ctx_drop(ctx);
	state_fresh(ctx);
	return true;
}

bool ctx_decides_again(const struct context *ctx, enum err_code rc, unsigned decisions)
{
	return rc == ERR_CONDITION && !runs_once(ctx) &&
	       changes_decide_again(&ctx->changes, ctx->table, rc, decisions);
}

void ctx_random(struct context *ctx, void *out, size_t len)
{
	if (ctx->changes.foresight != NULL)
		foresight_random(&ctx->changes, out, len);
	else
		ctx->services->random(out, len);
}

static struct bytes name_of(const struct context *ctx, enum service_table which)
{
	return ctx->services->tables.names[which];
}

/* ---- reading ---- */

struct key_shape {
	struct bytes hash, range;
	bool         range_first; /* a key's members are sorted by their names, as an item's are */
};

static struct key_shape key_shape_of(enum service_table which)
{
	const struct service_table_shape *shape = service_table_shape(which);

	return (struct key_shape){bytes_of(shape->hash), bytes_of(shape->range),
	                          strcmp(shape->range, shape->hash) < 0};
}

static struct item key_of(const struct key_shape *shape, struct looked *l)
{
	bool two = l->sk.data != NULL;
	int  hash = two && shape->range_first ? 1 : 0;

	l->key[hash] = (struct member){shape->hash, value_string(l->pk)};
	if (two)
		l->key[1 - hash] = (struct member){shape->range, value_string(l->sk)};
	return (struct item){l->key, two ? 2 : 1};
}

/* What is said of one row: remembered, for what is decided rests on it. */
static void looked_told(struct context *ctx, enum service_table which, const struct table_get_result *r,
                        struct looked *out)
{
	const char *ttl = service_table_shape(which)->ttl;

	out->answered = true;
	out->found = r->found && (*ttl == '\0' || !row_expired(&r->item, ttl, ctx->now_us));
	if (out->found)
		out->item = r->item;
	if (!out->loose)
		ctx_rests_on(ctx, which, out);
}

/* What a table answered. */
static void looked_answer(struct context *ctx, enum service_table which, const struct table_get_result *r,
                          struct looked *out)
{
	looked_told(ctx, which, r, out);
	if (learns(ctx))
		known_learn(ctx->services->outage->known, which, out, ctx->now_us);
}

void ctx_rests_on(struct context *ctx, enum service_table which, const struct looked *l)
{
	if (!ctx->table->alone)
		changes_read(&ctx->changes, ctx->table, which, l);
}

static void all_absent(struct context *ctx, enum service_table which, struct looked *first)
{
	for (struct looked *l = first; l != NULL; l = l->next) {
		l->no_table = true;
		looked_answer(ctx, which, &(struct table_get_result){.found = false}, l);
	}
}

/* Is it known already, or guessed? */
static bool foreseen(struct context *ctx, enum service_table which, struct looked *l)
{
	struct row_place       p = {which, l->pk, l->sk};
	const struct foreseen *known;

	switch (foresight_look(&ctx->changes, &p, &known)) {
	case FORESEEN_KNOWN:
		l->no_table = known->no_table;
		l->round = known->round;
		looked_answer(ctx, which, &known->got, l);
		return true;
	case FORESEEN_GUESSED:
		l->blind = !known->remembered;
		looked_told(ctx, which, &known->got, l);
		return true;
	case FORESEEN_NOT:
		break;
	}
	return false;
}

bool ctx_believe(struct context *ctx, struct looked *out)
{
	struct row_place p = {TABLE_RATE_LIMITS, out->pk, out->sk};
	struct known_ask ask = {.which = p.which, .pk = p.pk, .sk = p.sk, .since_us = 1, .arena = ctx->arena};
	struct table_get_result got = {.found = false};

	return ctx->changes.limit_rows != NULL && ctx->changes.foresight != NULL && !ctx->table->alone &&
	       known_get(ctx->changes.limit_rows, &ask, &got.found, &got.item) &&
	       foresight_believe(&ctx->changes, &p, &got) && foreseen(ctx, p.which, out);
}

void ctx_doubt(struct context *ctx, const struct looked *l)
{
	struct row_place p = {TABLE_RATE_LIMITS, l->pk, l->sk};

	foresight_doubt(&ctx->changes, &p);
}

/* Those of the list that are not are left. */
static void all_foreseen(struct context *ctx, enum service_table which, struct looked *first)
{
	for (struct looked *l = first; ctx->changes.foresight != NULL && l != NULL; l = l->next)
		if (!l->answered)
			foreseen(ctx, which, l);
}

/* A read that was refused for the moment, or that nobody answered, is made again. */
static bool again(const struct context *ctx, enum err_code rc, unsigned *repeats)
{
	return rc != ERR_NONE && changes_repeat(&ctx->changes, ctx->table, rc, ++*repeats);
}

/* The keys that services ask for are those of their own tables: if they are not taken, the table is not ours. Whoever
 * called is not to blame. */
static enum err_code read_failed(const struct context *ctx, enum service_table which, enum err_code rc,
                                 struct err *err)
{
	if (rc != ERR_INVALID)
		return rc;
	return err_set(err, ERR_FOREIGN_TABLE,
	               "the table \"%.*s\" exists with other keys than this API needs; choose another table "
	               "with the table-… settings",
	               BYTES_ARG(name_of(ctx, which)));
}

static enum err_code get(struct context *ctx, enum service_table which, struct looked *out, struct err *err)
{
	struct key_shape shape = key_shape_of(which);
	struct table_get q = {.table = name_of(ctx, which), .key = key_of(&shape, out), .consistent = true};
	struct table_get_result r;
	unsigned                repeats = 0;
	enum err_code           rc;

	if (which == TABLE_AUTH_STATE && changes_reads_many(&ctx->changes, 1) &&
	    changes_follow(&ctx->changes, ctx->table, out->pk, err) != ERR_NONE)
		return err->code;
	if (ctx->changes.foresight != NULL && foreseen(ctx, which, out))
		return ERR_NONE;
	do
		rc = ctx->table->backend->get(ctx->table, ctx->arena, &q, &r, err);
	while (again(ctx, rc, &repeats));
	if (rc == ERR_NO_RESOURCE) {
		all_absent(ctx, which, out);
		return ERR_NONE;
	}
	if (rc != ERR_NONE)
		return read_failed(ctx, which, rc, err);
	looked_answer(ctx, which, &r, out);
	return ERR_NONE;
}

enum err_code ctx_look(struct context *ctx, struct bytes pk, struct bytes sk, struct looked *out,
                       struct err *err)
{
	looked_init(out, pk, sk);
	return get(ctx, TABLE_AUTH_STATE, out, err);
}

enum err_code ctx_look_in(struct context *ctx, enum service_table which, struct looked *out, struct err *err)
{
	return get(ctx, which, out, err);
}

enum err_code ctx_get(struct context *ctx, enum service_table which, struct bytes pk, struct looked *out,
                      struct err *err)
{
	looked_init(out, pk, (struct bytes){NULL, 0});
	return get(ctx, which, out, err);
}

/* What goes into one call. */
struct round {
	struct bytes     table;
	struct key_shape keys;
	struct looked   *asked[TABLE_BATCH_GET_MAX];
	struct table_get gets[TABLE_BATCH_GET_MAX];
	uint32_t         count;
};

static void round_begin(struct round *r, const struct context *ctx, enum service_table which)
{
	r->table = name_of(ctx, which);
	r->keys = key_shape_of(which);
	r->count = 0;
}

static void round_add(struct round *r, struct looked *l)
{
	r->asked[r->count] = l;
	r->gets[r->count++] =
	        (struct table_get){.table = r->table, .key = key_of(&r->keys, l), .consistent = true};
}

static bool is_asked(const struct round *r, const struct looked *l)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (bytes_equal(r->asked[i]->sk, l->sk) && bytes_equal(r->asked[i]->pk, l->pk))
			return true;
	return false;
}

/* Those that are not answered yet. No call may ask twice for a row: a second one waits for the next. */
static void round_fill(struct round *r, const struct context *ctx, enum service_table which,
                       struct looked *first)
{
	round_begin(r, ctx, which);
	for (struct looked *l = first; l != NULL && r->count < TABLE_BATCH_GET_MAX; l = l->next)
		if (!l->answered && !is_asked(r, l))
			round_add(r, l);
}

/* Rows that are too many to be remembered one by one are read under the versions of their partitions. */
static enum err_code follow_all(struct context *ctx, const struct looked *first, struct err *err)
{
	uint32_t count = 0;

	for (const struct looked *l = first; l != NULL; l = l->next)
		count++;
	for (const struct looked *l = first; changes_reads_many(&ctx->changes, count) && l != NULL;
	     l = l->next)
		if (changes_follow(&ctx->changes, ctx->table, l->pk, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

enum err_code ctx_look_all_in(struct context *ctx, enum service_table which, struct looked *first,
                              struct err *err)
{
	struct table_batch_get_result got;
	struct round                  r;
	unsigned                      repeats = 0;
	enum err_code                 rc;

	if (!ctx->table->alone && which == TABLE_AUTH_STATE && follow_all(ctx, first, err) != ERR_NONE)
		return err->code;
	all_foreseen(ctx, which, first);
	for (;;) {
		round_fill(&r, ctx, which, first);
		if (r.count == 0)
			return ERR_NONE;
		rc = ctx->table->backend->batch_get(ctx->table, ctx->arena,
		                                    &(struct table_batch_get){r.gets, r.count}, &got, err);
		if (again(ctx, rc, &repeats))
			continue;
		if (rc == ERR_NO_RESOURCE) {
			all_absent(ctx, which, first);
			return ERR_NONE;
		}
		if (rc != ERR_NONE)
			return read_failed(ctx, which, rc, err);
		for (uint32_t i = 0; i < r.count; i++)
			if (!got.skipped[i])
				looked_answer(ctx, which, &got.results[i], r.asked[i]);
	}
}

enum err_code ctx_peek_all_in(struct context *ctx, enum service_table which, struct looked *first,
                              struct err *err)
{
	struct foresight *foresight = ctx->changes.foresight;
	bool              guesses = ctx_guesses(ctx);
	enum err_code     rc;

	for (struct looked *l = first; l != NULL; l = l->next) {
		l->loose = true;
		if (guesses)
			looked_told(ctx, which, &(struct table_get_result){.found = false}, l);
	}
	ctx->changes.foresight = NULL;
	rc = ctx_look_all_in(ctx, which, first, err);
	ctx->changes.foresight = foresight;
	return rc;
}

enum err_code ctx_look_all(struct context *ctx, struct looked *first, struct err *err)
{
	return ctx_look_all_in(ctx, TABLE_AUTH_STATE, first, err);
}

enum err_code ctx_get_all(struct context *ctx, enum service_table which, struct looked *first,
                          struct err *err)
{
	struct snapshot got;
	struct round    r;
	unsigned        repeats = 0;
	enum err_code   rc;

	round_begin(&r, ctx, which);
	all_foreseen(ctx, which, first);
	for (struct looked *l = first; l != NULL; l = l->next) {
		assert(r.count < TABLE_BATCH_GET_MAX);
		if (!l->answered)
			round_add(&r, l);
	}
	if (r.count == 0)
		return ERR_NONE;
	do
		rc = snapshot_get(&ctx->changes, ctx->table, &(struct table_batch_get){r.gets, r.count}, &got,
		                  err);
	while (again(ctx, rc, &repeats));
	if (rc == ERR_NO_RESOURCE) {
		all_absent(ctx, which, first);
		return ERR_NONE;
	}
	if (rc != ERR_NONE)
		return read_failed(ctx, which, rc, err);
	for (uint32_t i = 0; i < r.count; i++)
		if (!got.torn || !got.got.skipped[i])
			looked_answer(ctx, which, &got.got.results[i], r.asked[i]);
	return got.torn ? ctx_look_all_in(ctx, which, first, err) : ERR_NONE;
}

/* The version row is not one of the rows. */
static void version_hide(struct table_query_result *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		if (!bytes_is(row_text(&r->items[i], "SK"), CHANGES_VERSION_KEY))
			continue;
		memmove(&r->items[i], &r->items[i + 1], (r->count - i - 1) * sizeof(*r->items));
		r->count--;
		r->scanned--;
		return;
	}
}

/* Services size their lists by the limit, whatever is behind the table. */
static bool is_as_asked(const struct table_query *q, const struct table_query_result *r)
{
	return (q->limit == 0 || r->count <= q->limit) &&
	       (r->count == 0 || r->items != NULL || q->count_only);
}

enum err_code ctx_query_in(struct context *ctx, enum service_table which, struct table_query *q,
                           struct table_query_result *r, struct err *err)
{
	unsigned      repeats = 0;
	enum err_code rc;

	q->table = name_of(ctx, which);
	if (ctx->changes.foresight != NULL && foresight_query(&ctx->changes, q, r) != FORESEEN_NOT)
		return ERR_NONE;
	do
		rc = ctx->table->backend->query(ctx->table, ctx->arena, q, r, err);
	while (again(ctx, rc, &repeats));
	if (rc == ERR_NO_RESOURCE)
		*r = (struct table_query_result){0};
	else if (rc != ERR_NONE)
		return read_failed(ctx, which, rc, err);
	if (!is_as_asked(q, r))
		return err_set(err, ERR_OVERLOADED, "the tables returned other rows than were asked for");
	if (ctx->changes.foresight != NULL)
		foresight_queried(&ctx->changes, q, r);
	return ERR_NONE;
}

/* All rows of a prefix, and all of each. */
static bool is_whole(const struct table_query *q)
{
	return q->key != NULL && q->index.len == 0 && q->filter == NULL && q->projection == NULL &&
	       q->start == NULL && !q->count_only &&
	       (q->key->range_kind == RANGE_NONE || q->key->range_kind == RANGE_PREFIX);
}

enum err_code ctx_query(struct context *ctx, struct table_query *q, struct table_query_result *r,
                        struct err *err)
{
	if (q->key != NULL && changes_follow(&ctx->changes, ctx->table, q->key->hash.text, err) != ERR_NONE)
		return err->code;
	if (ctx_query_in(ctx, TABLE_AUTH_STATE, q, r, err) != ERR_NONE)
		return err->code;
	if (learns(ctx) && is_whole(q) && !ctx_guesses(ctx))
		known_learn_rows(ctx->services->outage->known, TABLE_AUTH_STATE, q->key, r, ctx->now_us);
	if (q->key != NULL && q->key->range_kind == RANGE_NONE)
		version_hide(r);
	return ERR_NONE;
}

void ctx_found(struct context *ctx, const struct item *row)
{
	ctx_found_in(ctx, TABLE_AUTH_STATE, row);
}

void ctx_found_in(struct context *ctx, enum service_table which, const struct item *row)
{
	const struct service_table_shape *shape = service_table_shape(which);
	struct looked                     found = {.found = true, .item = *row};

	if (ctx->table->alone)
		return;
	found.pk = row_text(row, shape->hash);
	found.sk = row_text(row, shape->range);
	changes_read(&ctx->changes, ctx->table, which, &found);
}

bool ctx_lacks(const struct context *ctx, enum service_table which)
{
	const struct table_backend *backend = ctx->table->backend;

	/* What nobody looks for is not remembered. */
	return !learns(ctx) && backend->lacks != NULL && backend->lacks(ctx->table, name_of(ctx, which));
}

/* ---- writing ---- */

void ctx_put(struct context *ctx, enum service_table which, struct item item)
{
	changes_put(&ctx->changes, name_of(ctx, which), item, NULL);
}

void ctx_put_if(struct context *ctx, enum service_table which, struct item item, const struct expr *condition)
{
	changes_put(&ctx->changes, name_of(ctx, which), item, condition);
}

void ctx_delete(struct context *ctx, enum service_table which, struct item key)
{
	changes_delete(&ctx->changes, name_of(ctx, which), key, NULL);
}

void ctx_update(struct context *ctx, enum service_table which, struct item key,
                const struct expr_update *update, const struct expr *condition)
{
	changes_update(&ctx->changes, name_of(ctx, which), key, update, condition);
}
