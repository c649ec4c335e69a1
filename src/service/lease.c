/* Leases: see lease.h. */
#include "service/lease.h"

#include "base/crypto.h"
#include "service/row.h"

#define KEY_LEASE "LEASE"

void lease_holder_make(const struct services *s, char holder[LEASE_HOLDER_CHARS])
{
	uint8_t bits[LEASE_HOLDER_CHARS / 2];

	s->random(bits, sizeof(bits));
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, holder);
}

static bool is_held(const struct context *ctx, const struct looked *row)
{
	return row->found && row_i64(&row->item, "until", 0) > ctx->now_s;
}

enum err_code lease_take(struct context *ctx, struct bytes work, struct bytes holder, bool *held,
                         struct err *err)
{
	struct looked old;
	struct row    row;

	*held = ctx->table->alone;
	if (*held)
		return ERR_NONE;
	looked_init(&old, BYTES(KEY_LEASE), work);
	if (ctx_look_in(ctx, TABLE_EVENTS, &old, err) != ERR_NONE)
		return err->code;
	*held = !is_held(ctx, &old) || bytes_equal(row_text(&old.item, "holder"), holder);
	if (!*held)
		return ERR_NONE;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", old.pk);
	row_set_text(&row, "SK", old.sk);
	row_set_text(&row, "holder", holder);
	row_set_i64(&row, "until", ctx->now_s + LEASE_S);
	ctx_put(ctx, TABLE_EVENTS, row_item(&row));
	return ERR_NONE;
}

enum err_code lease_drop(struct context *ctx, struct bytes work, struct bytes holder, struct err *err)
{
	struct looked old;

	if (ctx->table->alone)
		return ERR_NONE;
	looked_init(&old, BYTES(KEY_LEASE), work);
	if (ctx_look_in(ctx, TABLE_EVENTS, &old, err) != ERR_NONE)
		return err->code;
	if (old.found && bytes_equal(row_text(&old.item, "holder"), holder))
		ctx_delete(ctx, TABLE_EVENTS, row_key_two(ctx->arena, old.pk, old.sk));
	return ERR_NONE;
}
