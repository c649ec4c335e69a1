/* Idempotency: one row per key. */
#include "service/idempotency.h"

#include "service/row.h"

#define ANSWER_ENDS "until" /* of a row that outlives its answer, which is absent from then on */

struct bytes idempotency_key(const struct idempotency *i, struct arena *a)
{
	return arena_printf(a, "IDEMPOTENCY#%.*s#%.*s", BYTES_ARG(i->caller), BYTES_ARG(i->key));
}

static struct bytes digest_text(const struct idempotency *i, struct arena *a)
{
	char *text = arena_alloc(a, SHA256_HEX_CHARS);

	hex_write((struct bytes){(const char *)i->digest, SHA256_BYTES}, text);
	return (struct bytes){text, SHA256_HEX_CHARS};
}

enum err_code idempotency_find(struct context *ctx, const struct idempotency *i, struct kept_answer *out,
                               struct err *err)
{
	struct looked row;

	*out = (struct kept_answer){0};
	if (ctx_get(ctx, TABLE_IDEMPOTENCY, idempotency_key(i, ctx->arena), &row, err) != ERR_NONE)
		return err->code;
	if (!row.found || row_i64(&row.item, ANSWER_ENDS, INT64_MAX) <= ctx->now_s)
		return ERR_NONE;
	if (!bytes_equal(row_text(&row.item, "digest"), digest_text(i, ctx->arena)))
		return err_field(err, ERR_TOKEN_MISMATCH, "Idempotency-Key",
		                 "Idempotency-Key: already used for a different request; use a new key");
	*out = (struct kept_answer){true, (int)row_i64(&row.item, "status", 200),
	                            row_text(&row.item, "body")};
	return ERR_NONE;
}

int64_t idempotency_kept_s(const struct item *row)
{
	return row_i64(row, ANSWER_ENDS, row_i64(row, "ttl", 0)) - IDEMPOTENCY_LIFE_S;
}

struct bytes idempotency_about(struct context *ctx, struct bytes subject)
{
	return identifier_hash_text(&ctx->services->identifiers, ctx->arena, "idempotency-about", subject);
}

/* The condition is that the row is as it was found: absent, or with an answer that is over. So of two requests with the same key at the same
 * moment one decides again, and finds the other's answer. */
void idempotency_keep(struct context *ctx, const struct idempotency *i, int status, struct bytes body)
{
	int64_t    ends_s = ctx->now_s + IDEMPOTENCY_LIFE_S;
	int64_t    mark_s = i->mark_s > 0 ? i->mark_s : ctx->table->alone ? 0 : IDEMPOTENCY_MARK_S;
	struct row r;

	row_init(&r, ctx->arena);
	row_set_text(&r, "PK", idempotency_key(i, ctx->arena));
	row_set_text(&r, "body", body);
	row_set_text(&r, "digest", digest_text(i, ctx->arena));
	row_set_i64(&r, "status", status);
	if (i->about.len > 0)
		row_set_text(&r, "about", idempotency_about(ctx, i->about));
	if (mark_s > IDEMPOTENCY_LIFE_S)
		row_set_i64(&r, ANSWER_ENDS, ends_s);
	row_set_i64(&r, "ttl", mark_s > IDEMPOTENCY_LIFE_S ? ctx->now_s + mark_s : ends_s);
	changes_keep(&ctx->changes, ctx->services->tables.names[TABLE_IDEMPOTENCY], row_item(&r), NULL);
}
