/* When registrations lapse: see push_due.h. */
#include "service/push_due.h"

#include "service/push_device.h"

#define DUE_AT "expiryDueAt"

enum { LOST_S = 86400 }; /* a due row that is not gone so long after its time was lost: with its table, say */

/* Sort keys of locks begin with a capital letter, so none is taken for a device. */
static struct due_thing thing_of(struct arena *a, struct bytes user, struct bytes device)
{
	return (struct due_thing){user, arena_printf(a, "device#%.*s", BYTES_ARG(device))};
}

static void row_put(struct context *ctx, const struct push_device *d)
{
	struct due_thing thing = thing_of(ctx->arena, d->user, d->id);
	struct item      key = due_key(ctx->arena, &thing, d->expires_s);
	struct row       row;

	row_from(&row, ctx->arena, &key);
	row_set_text(&row, "subject", d->user);
	row_set_text(&row, "device", d->id);
	if (d->platform.len > 0)
		row_set_text(&row, "platform", d->platform);
	row_set_i64(&row, "until", d->expires_s);
	due_put(ctx, &row, d->expires_s);
}

/* ---- the end ---- */

static void publish(struct context *ctx, const struct item *due)
{
	struct push_device d = {.user = row_text(due, "subject"), .id = row_text(due, "device")};

	push_publish(ctx, EVENT_DEVICE_EXPIRED, &d, "platform", row_text(due, "platform"));
}

/* Removes a due row; the commit depends on it. *found: it was still there. */
static enum err_code row_take(struct context *ctx, struct bytes pk, struct bytes sk, struct looked *out,
                              struct err *err)
{
	looked_init(out, pk, sk);
	if (ctx_look_in(ctx, TABLE_EVENTS, out, err) != ERR_NONE)
		return err->code;
	if (out->found)
		changes_attach_delete(&ctx->changes, TABLE_EVENTS, row_key_two(ctx->arena, pk, sk));
	return ERR_NONE;
}

static enum err_code overdue_publish(struct context *ctx, const struct due_thing *thing, struct err *err)
{
	struct item   due;
	struct looked row;

	if (due_overdue(ctx, thing, &due, err) != ERR_NONE)
		return err->code;
	if (due.count == 0)
		return ERR_NONE;
	if (row_take(ctx, row_text(&due, "PK"), row_text(&due, "SK"), &row, err) != ERR_NONE)
		return err->code;
	if (row.found)
		publish(ctx, &row.item);
	return ERR_NONE;
}

/* ---- registering, removing ---- */

enum err_code push_due_keep(struct context *ctx, struct row *row, bool found, struct err *err)
{
	struct push_device d = push_device_of(&row->item);
	struct due_thing   thing = thing_of(ctx->arena, d.user, d.id);
	int64_t            due_s = row_i64(&row->item, DUE_AT, 0);

	if (!ctx_publishes(ctx, EVENT_DEVICE_EXPIRED))
		return ERR_NONE;
	if (!found && overdue_publish(ctx, &thing, err) != ERR_NONE)
		return err->code;
	if (due_s > ctx->now_s - LOST_S)
		return ERR_NONE;
	row_set_i64(row, DUE_AT, d.expires_s);
	row_put(ctx, &d);
	return ERR_NONE;
}

void push_due_end(struct context *ctx, const struct item *row)
{
	struct due_thing thing = thing_of(ctx->arena, row_text(row, "userId"), row_text(row, "deviceId"));
	int64_t          due_s = row_i64(row, DUE_AT, 0);

	if (due_s > 0 && !ctx_lacks(ctx, TABLE_EVENTS))
		due_remove(ctx, &thing, due_s);
}

/* ---- the worker's ---- */

/* It is registered for longer by now. A due row that is not the device's is one that a registration did not find, or that others' rows made us lose. */
static void follow(struct context *ctx, const struct due *d, const struct item *device)
{
	struct push_device now = push_device_of(device);
	int64_t            due_s = row_i64(device, DUE_AT, d->due_s);
	struct row         row;

	if (due_s != d->due_s)
		return;
	row_from(&row, ctx->arena, device);
	row_remove(&row, DUE_AT);
	if (now.expires_s > ctx->now_s) {
		row_set_i64(&row, DUE_AT, now.expires_s);
		row_put(ctx, &now);
	}
	push_row_put(ctx, &row);
}

enum err_code push_due_tell(struct context *ctx, const struct due *d, bool *told, struct err *err)
{
	struct push_ref ref = {d->subject, d->device};
	struct looked   device, row;

	*told = false;
	if (push_device_look(ctx, &ref, &device, err) != ERR_NONE)
		return err->code;
	if (d->due_s > ctx->now_s)
		return ERR_NONE;
	if (row_take(ctx, d->pk, d->sk, &row, err) != ERR_NONE)
		return err->code;
	if (row.found && device.found)
		follow(ctx, d, &device.item);
	*told = row.found && !device.found;
	if (*told)
		publish(ctx, &row.item);
	return ERR_NONE;
}
