/* Erased: see erased.h. */
#include "service/erased.h"

#include "service/row.h"

static struct bytes key_of(struct context *ctx, struct bytes subject)
{
	struct bytes hash =
	        identifier_hash_text(&ctx->services->identifiers, ctx->arena, "erased-at", subject);

	return arena_printf(ctx->arena, "ERASED#%.*s", BYTES_ARG(hash));
}

void erased_mark(struct context *ctx, struct bytes subject)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", key_of(ctx, subject));
	row_set_i64(&row, "at", ctx->now_s);
	row_set_i64(&row, "ttl", ctx->now_s + ERASED_KEPT_S);
	ctx_put(ctx, TABLE_IDEMPOTENCY, row_item(&row));
}

static enum err_code erased_look(struct context *ctx, struct bytes subject, struct looked *row,
                                 struct erasure *out, struct err *err)
{
	if (ctx_get(ctx, TABLE_IDEMPOTENCY, key_of(ctx, subject), row, err) != ERR_NONE)
		return err->code;
	out->found = row->found;
	out->since = row->found && row_i64(&row->item, "at", 0) + ERASED_CLOCKS_S >= ctx->now_s;
	return ERR_NONE;
}

enum err_code erased_find(struct context *ctx, struct bytes subject, struct erasure *out, struct err *err)
{
	struct looked row;

	return erased_look(ctx, subject, &row, out, err);
}

enum err_code erased_keep(struct context *ctx, struct bytes subject, struct erasure *out, struct err *err)
{
	struct looked found;
	struct row    row;

	if (erased_look(ctx, subject, &found, out, err) != ERR_NONE)
		return err->code;
	if (!out->found || row_i64(&found.item, "ttl", 0) > ctx->now_s + ERASED_KEPT_S / 2)
		return ERR_NONE;
	row_from(&row, ctx->arena, &found.item);
	row_set_i64(&row, "ttl", ctx->now_s + ERASED_KEPT_S);
	ctx_put(ctx, TABLE_IDEMPOTENCY, row_item(&row));
	return ERR_NONE;
}
