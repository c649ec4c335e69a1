/* Registering devices: see push_register.h. */
#include "service/push_register.h"

#include "service/push_due.h"
#include "service/row.h"
#include "service/user.h"

struct registering {
	struct context                 *ctx;
	const struct push_registration *q;
	struct push_registered         *out;
	struct looked                   old; /* the device's row as it was */
	struct err                     *err;
};

/* A user that is known here must be active. */
static enum err_code user_check(struct registering *r)
{
	struct user   u;
	enum err_code rc = user_get(r->ctx, r->q->user, &u, r->err);

	if (rc == ERR_NOT_FOUND || (rc == ERR_NONE && u.status == USER_ACTIVE))
		return ERR_NONE;
	if (rc != ERR_NONE)
		return rc;
	return err_field(r->err, ERR_NOT_NOW, "id", "id: the user is %s and cannot register devices",
	                 user_status_names[u.status]);
}

static void publish_moved(struct context *ctx, const struct push_device *from,
                          const struct push_registration *to)
{
	struct event e = {.type = EVENT_DEVICE_MOVED, .subject = from->user};
	struct row   data;

	if (!ctx_publishes(ctx, e.type))
		return;
	row_init(&data, ctx->arena);
	row_set_text(&data, "deviceId", from->id);
	row_set_text(&data, "toUserId", to->user);
	row_set_text(&data, "toDeviceId", to->device);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* (1) The row of another device, without the tokens that this one takes. */
static enum err_code holder_lose(struct registering *r, const struct item *row)
{
	struct push_device d = push_device_of(row);
	struct push_lanes  lanes;
	struct row         left;
	uint32_t           kept = 0;

	row_from(&left, r->ctx->arena, row);
	for (int kind = 0; kind < PUSH_KINDS; kind++)
		if (d.tokens[kind].len > 0 && bytes_equal(d.tokens[kind], r->q->tokens[kind]))
			row_remove(&left, push_kind_names[kind]);
		else
			kept += d.tokens[kind].len > 0;
	r->out->moved++;
	publish_moved(r->ctx, &d, r->q);
	if (kept > 0) {
		row_set_text(&left, "updatedAt", user_time(r->ctx->arena, r->ctx->now_us));
		push_row_put(r->ctx, &left);
		return ERR_NONE;
	}
	push_row_delete(r->ctx, row);
	if (push_lanes_read(r->ctx, d.user, &lanes, r->err) != ERR_NONE)
		return r->err->code;
	push_lanes_end(r->ctx, &lanes, d.id);
	return ERR_NONE;
}

/* Whoever has the token of that kind loses it. A device that loses several loses them at once. */
static enum err_code token_take(struct registering *r, enum push_kind kind)
{
	struct push_marker m = {kind, r->q->tokens[kind]};
	struct looked      marker, holder;
	struct push_ref    ref;

	if (push_marker_look(r->ctx, &m, &marker, r->err) != ERR_NONE)
		return r->err->code;
	if (!marker.found || push_marker_names(&marker, r->q->user, r->q->device))
		return ERR_NONE;
	ref = (struct push_ref){row_text(&marker.item, "userId"), row_text(&marker.item, "deviceId")};
	if (changes_find(&r->ctx->changes, TABLE_DEVICES, ref.user, ref.device) != NULL)
		return ERR_NONE;
	if (push_device_look(r->ctx, &ref, &holder, r->err) != ERR_NONE)
		return r->err->code;
	if (!holder.found || !bytes_equal(row_text(&holder.item, push_kind_names[kind]), m.token))
		return ERR_NONE;
	if (user_filter_hides(&r->q->users, ref.user))
		return err_field(r->err, ERR_ACCESS, push_kind_names[kind],
		                 "%s: the key's policy denies it the device that has this token",
		                 push_kind_names[kind]);
	return holder_lose(r, &holder.item);
}

/* Tokens that the device had and has no more. */
static enum err_code tokens_drop(struct registering *r)
{
	for (int kind = 0; r->old.found && kind < PUSH_KINDS; kind++) {
		struct push_marker m = {(enum push_kind)kind, row_text(&r->old.item, push_kind_names[kind])};

		if (push_token_is(m.kind, m.token) && !bytes_equal(m.token, r->q->tokens[kind]) &&
		    push_marker_drop(r->ctx, &m, &r->old.item, r->err) != ERR_NONE)
			return r->err->code;
	}
	return ERR_NONE;
}

/* (3) */
static enum err_code row_write(struct registering *r, struct item *out)
{
	struct bytes now = user_time(r->ctx->arena, r->ctx->now_us);
	struct row   row;

	if (r->old.found) {
		row_from(&row, r->ctx->arena, &r->old.item);
	} else {
		row_init(&row, r->ctx->arena);
		row_set_text(&row, "userId", r->q->user);
		row_set_text(&row, "deviceId", r->q->device);
	}
	if (row_text(&row.item, "registeredAt").len == 0)
		row_set_text(&row, "registeredAt", now);
	for (int kind = 0; kind < PUSH_KINDS; kind++)
		if (r->q->tokens[kind].len > 0)
			row_set_text(&row, push_kind_names[kind], r->q->tokens[kind]);
		else
			row_remove(&row, push_kind_names[kind]);
	row_set_text(&row, "platform", r->q->platform);
	row_set_text(&row, "updatedAt", now);
	row_set(&row, "isActive", value_bool(true));
	row_set_i64(&row, "expiresAt", r->ctx->now_s + PUSH_DEVICE_LIFE_S);
	if (push_due_keep(r->ctx, &row, r->old.found, r->err) != ERR_NONE)
		return r->err->code;
	*out = push_row_put(r->ctx, &row);
	return ERR_NONE;
}

/* ---- the maximum (4) ---- */

static struct item *least_seen(struct table_query_result *rows)
{
	struct item *least = NULL;

	for (uint32_t i = 0; i < rows->count; i++)
		if (rows->items[i].count > 0 &&
		    (least == NULL || push_seen_of(&rows->items[i]) < push_seen_of(least)))
			least = &rows->items[i];
	return least;
}

/* Its others that count: neither expired, nor removed by this call. All else becomes empty. */
static uint32_t rows_counted(struct registering *r, struct table_query_result *rows)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < rows->count; i++) {
		struct item              *row = &rows->items[i];
		const struct table_write *change = changes_find(
		        &r->ctx->changes, TABLE_DEVICES, row_text(row, "userId"), row_text(row, "deviceId"));

		if (row_expired(row, "expiresAt", r->ctx->now_us) ||
		    bytes_equal(row_text(row, "deviceId"), r->q->device) ||
		    (change != NULL && change->kind == TABLE_DELETE))
			*row = (struct item){NULL, 0};
		else
			count++;
	}
	return count;
}

static enum err_code rest_trim(struct registering *r)
{
	struct context           *ctx = r->ctx;
	struct table_query_result rows;
	struct push_lanes         lanes;
	uint32_t                  count, most = r->q->devices_max;

	if (push_rows_query(ctx, r->q->user, &rows, r->err) != ERR_NONE)
		return r->err->code;
	count = rows_counted(r, &rows);
	if (count + 1 <= most)
		return ERR_NONE;
	if (push_lanes_read(ctx, r->q->user, &lanes, r->err) != ERR_NONE)
		return r->err->code;
	for (; count + 1 > most; count--) {
		struct item *row = least_seen(&rows);

		if (!push_end_fits(ctx, &lanes, row_text(row, "deviceId")))
			break;
		ctx_found_in(ctx, TABLE_DEVICES, row);
		if (push_row_drop(ctx, row, &lanes, REMOVED_LIMIT, r->err) != ERR_NONE)
			return r->err->code;
		*row = (struct item){NULL, 0};
		r->out->trimmed++;
	}
	return ERR_NONE;
}

/* Whoever adds a device to the same user changes the row that is read first. A refresh adds none, but there may be too many:
 * others wrote them, or the policy has changed. */
static enum err_code count_keep(struct registering *r)
{
	struct looked registrations;

	if (r->old.found)
		return rest_trim(r);
	if (push_user_look(r->ctx, r->q->user, &registrations, r->err) != ERR_NONE ||
	    rest_trim(r) != ERR_NONE)
		return r->err->code;
	push_user_note(r->ctx, &registrations, r->ctx->now_s + PUSH_DEVICE_LIFE_S);
	return ERR_NONE;
}

enum err_code push_device_register(struct context *ctx, const struct push_registration *q,
                                   struct push_registered *out, struct err *err)
{
	struct registering r = {.ctx = ctx, .q = q, .out = out, .err = err};
	struct push_ref    ref = {q->user, q->device};
	struct item        item;

	*out = (struct push_registered){0};
	if (user_check(&r) != ERR_NONE || push_device_look(ctx, &ref, &r.old, err) != ERR_NONE)
		return err->code;
	for (int kind = 0; kind < PUSH_KINDS; kind++)
		if (q->tokens[kind].len > 0 && token_take(&r, (enum push_kind)kind) != ERR_NONE)
			return err->code;
	if (tokens_drop(&r) != ERR_NONE || count_keep(&r) != ERR_NONE || row_write(&r, &item) != ERR_NONE)
		return err->code;
	for (int kind = 0; kind < PUSH_KINDS; kind++)
		if (q->tokens[kind].len > 0)
			push_marker_put(ctx, &(struct push_marker){(enum push_kind)kind, q->tokens[kind]},
			                &item);
	out->device = push_device_of(&item);
	out->created = !r.old.found;
	if (out->created || !push_is_active(&r.old.item))
		push_publish(ctx, EVENT_DEVICE_REGISTERED, &out->device, "platform", q->platform);
	return ERR_NONE;
}
