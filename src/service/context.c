/* Context: the reads and writes of services, on the tables that they own. */
#include "service/context.h"

#include <assert.h>

#include "service/row.h"

void ctx_begin(struct context *ctx, struct table *t)
{
	ctx->table = t;
	ctx->now_us = t->now_us;
	changes_init(&ctx->changes, ctx->arena, &ctx->services->tables);
}

static struct bytes name_of(const struct context *ctx, enum service_table which)
{
	return ctx->services->tables.names[which];
}

/* ---- reading ---- */

static struct item key_of(struct looked *l)
{
	return (struct item){l->key, l->sk.data == NULL ? 1 : 2};
}

/* What a table answered for one row. */
static void looked_answer(const struct context *ctx, enum service_table which,
                          const struct table_get_result *r, struct looked *out)
{
	const char *ttl = service_table_shape(which)->ttl;

	out->answered = true;
	out->found = r->found && (*ttl == '\0' || !row_expired(&r->item, ttl, ctx->now_us));
	if (out->found)
		out->item = r->item;
}

static void all_absent(struct looked *first)
{
	for (struct looked *l = first; l != NULL; l = l->next) {
		l->answered = true;
		l->found = false;
	}
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
	struct table_get        q = {.table = name_of(ctx, which), .key = key_of(out), .consistent = true};
	struct table_get_result r;
	enum err_code           rc = ctx->table->backend->get(ctx->table, ctx->arena, &q, &r, err);

	if (rc == ERR_NO_RESOURCE)
		return ERR_NONE; /* out says that nothing was found */
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

enum err_code ctx_get(struct context *ctx, enum service_table which, struct bytes pk, struct looked *out,
                      struct err *err)
{
	looked_init(out, pk, (struct bytes){NULL, 0});
	return get(ctx, which, out, err);
}

/* What goes into one call. */
struct round {
	struct looked   *asked[TABLE_BATCH_GET_MAX];
	struct table_get gets[TABLE_BATCH_GET_MAX];
	uint32_t         count;
};

static void round_add(struct round *r, struct looked *l, struct bytes table)
{
	r->asked[r->count] = l;
	r->gets[r->count++] = (struct table_get){.table = table, .key = key_of(l), .consistent = true};
}

static bool is_asked(const struct round *r, const struct looked *l)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (bytes_equal(r->asked[i]->sk, l->sk) && bytes_equal(r->asked[i]->pk, l->pk))
			return true;
	return false;
}

/* Those that are not answered yet. No call may ask twice for a row: a second one waits for the next. */
static void round_fill(struct round *r, struct looked *first, struct bytes table)
{
	r->count = 0;
	for (struct looked *l = first; l != NULL && r->count < TABLE_BATCH_GET_MAX; l = l->next)
		if (!l->answered && !is_asked(r, l))
			round_add(r, l, table);
}

enum err_code ctx_look_all(struct context *ctx, struct looked *first, struct err *err)
{
	struct table_batch_get_result got;
	struct round                  r;
	enum err_code                 rc;

	for (;;) {
		round_fill(&r, first, name_of(ctx, TABLE_AUTH_STATE));
		if (r.count == 0)
			return ERR_NONE;
		rc = ctx->table->backend->batch_get(ctx->table, ctx->arena,
		                                    &(struct table_batch_get){r.gets, r.count}, &got, err);
		if (rc == ERR_NO_RESOURCE) {
			all_absent(first);
			return ERR_NONE;
		}
		if (rc != ERR_NONE)
			return read_failed(ctx, TABLE_AUTH_STATE, rc, err);
		for (uint32_t i = 0; i < r.count; i++)
			if (!got.skipped[i])
				looked_answer(ctx, TABLE_AUTH_STATE, &got.results[i], r.asked[i]);
	}
}

enum err_code ctx_get_all(struct context *ctx, enum service_table which, struct looked *first,
                          struct err *err)
{
	struct table_batch_get_result got;
	struct round                  r;
	enum err_code                 rc;

	r.count = 0;
	for (struct looked *l = first; l != NULL; l = l->next) {
		assert(r.count < TABLE_BATCH_GET_MAX);
		round_add(&r, l, name_of(ctx, which));
	}
	rc = ctx->table->backend->transact_get(ctx->table, ctx->arena,
	                                       &(struct table_batch_get){r.gets, r.count}, &got, err);
	if (rc == ERR_NO_RESOURCE) {
		all_absent(first);
		return ERR_NONE;
	}
	if (rc != ERR_NONE)
		return read_failed(ctx, which, rc, err);
	for (uint32_t i = 0; i < r.count; i++)
		looked_answer(ctx, which, &got.results[i], r.asked[i]);
	return ERR_NONE;
}

enum err_code ctx_query(struct context *ctx, struct table_query *q, struct table_query_result *r,
                        struct err *err)
{
	enum err_code rc;

	q->table = name_of(ctx, TABLE_AUTH_STATE);
	rc = ctx->table->backend->query(ctx->table, ctx->arena, q, r, err);
	if (rc != ERR_NO_RESOURCE)
		return read_failed(ctx, TABLE_AUTH_STATE, rc, err);
	*r = (struct table_query_result){0};
	return ERR_NONE;
}

/* ---- writing ---- */

void ctx_put(struct context *ctx, enum service_table which, struct item item, const struct expr *condition)
{
	changes_put(&ctx->changes, name_of(ctx, which), item, condition);
}

void ctx_delete(struct context *ctx, enum service_table which, struct item key, const struct expr *condition)
{
	changes_delete(&ctx->changes, name_of(ctx, which), key, condition);
}

void ctx_update(struct context *ctx, enum service_table which, struct item key,
                const struct expr_update *update, const struct expr *condition)
{
	changes_update(&ctx->changes, name_of(ctx, which), key, update, condition);
}
