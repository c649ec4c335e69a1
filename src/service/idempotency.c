/* Idempotency: one row per key. */
#include "service/idempotency.h"

#include "service/row.h"

static struct bytes row_key(const struct idempotency *i, struct arena *a)
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
	if (ctx_get(ctx, TABLE_IDEMPOTENCY, row_key(i, ctx->arena), &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return ERR_NONE;
	if (!bytes_equal(row_text(&row.item, "digest"), digest_text(i, ctx->arena)))
		return err_field(err, ERR_TOKEN_MISMATCH, "Idempotency-Key",
		                 "Idempotency-Key: already used for a different request; use a new key");
	*out = (struct kept_answer){true, (int)row_i64(&row.item, "status", 200),
	                            row_text(&row.item, "body")};
	return ERR_NONE;
}

struct bytes idempotency_about(struct context *ctx, struct bytes subject)
{
	return identifier_hash_text(&ctx->services->identifiers, ctx->arena, "idempotency-about", subject);
}

/* The condition is for a second request with the same key at the same moment: it decides again, and finds
 * this one's answer. */
void idempotency_keep(struct context *ctx, const struct idempotency *i, int status, struct bytes body)
{
	struct row r;

	row_init(&r, ctx->arena);
	row_set_text(&r, "PK", row_key(i, ctx->arena));
	row_set_text(&r, "body", body);
	row_set_text(&r, "digest", digest_text(i, ctx->arena));
	row_set_i64(&r, "status", status);
	if (i->about.len > 0)
		row_set_text(&r, "about", idempotency_about(ctx, i->about));
	row_set_i64(&r, "ttl", ctx->now_s + (i->life_s > 0 ? i->life_s : IDEMPOTENCY_LIFE_S));
	changes_keep(&ctx->changes, ctx->services->tables.names[TABLE_IDEMPOTENCY], row_item(&r),
	             row_absent(ctx->arena, "PK", "ttl", ctx->now_us));
}
