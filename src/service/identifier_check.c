/* Identifier check: see identifier_check.h. */
#include "service/identifier_check.h"

#include "service/row.h"

#define CHECK_VALUE "gatehouseKeyCheck" /* nobody else has one of that name; migrate/place.c knows it too */

enum err_code identifier_check(struct context *ctx, bool *same, struct err *err)
{
	struct bytes  mine = identifier_hash_text(&ctx->services->identifiers, ctx->arena, "identifiers-key",
	                                          BYTES("check"));
	struct looked there;
	struct row    row;

	if (ctx_get(ctx, TABLE_IDEMPOTENCY, BYTES(IDENTIFIER_CHECK_ROW), &there, err) != ERR_NONE)
		return err->code;
	*same = !there.found || bytes_equal(row_text(&there.item, CHECK_VALUE), mine);
	if (there.found)
		return ERR_NONE;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", BYTES(IDENTIFIER_CHECK_ROW));
	row_set_text(&row, CHECK_VALUE, mine);
	ctx_put(ctx, TABLE_IDEMPOTENCY, row_item(&row));
	return ERR_NONE;
}
