/* Feedback: see push_feedback.h. */
#include "service/push_feedback.h"

#include "service/row.h"
#include "service/user.h"

const char *const push_feedback_names[FEEDBACK_OUTCOMES] = {
        [FEEDBACK_DISABLED] = "disabled", [FEEDBACK_INACTIVE] = "already_inactive",
        [FEEDBACK_UNKNOWN] = "unknown",   [FEEDBACK_STALE] = "stale",
        [FEEDBACK_IGNORED] = "ignored",   [FEEDBACK_DEFERRED] = "deferred",
        [FEEDBACK_INVALID] = "invalid"};

/* A device that has other tokens loses this one; one that has no other becomes inactive, and keeps it. */
static enum err_code token_disable(struct context *ctx, const struct push_marker *m, const struct item *row,
                                   const struct push_lanes *lanes, struct err *err)
{
	struct push_device d = push_device_of(row);
	struct push_ended  ended;
	struct row         left;
	uint32_t           others = 0;

	for (int kind = 0; kind < PUSH_KINDS; kind++)
		others += (enum push_kind)kind != m->kind && d.tokens[kind].len > 0;
	if (others == 0) {
		push_row_deactivate(ctx, row, lanes, "not_registered", &ended);
		return ERR_NONE;
	}
	row_from(&left, ctx->arena, row);
	row_remove(&left, push_kind_names[m->kind]);
	row_set_text(&left, "updatedAt", user_time(ctx->arena, ctx->now_us));
	push_row_put(ctx, &left);
	return push_marker_drop(ctx, m, row, err);
}

/* The device, if it has the token. */
static enum err_code device_look(struct context *ctx, const struct push_ref *ref, const struct push_marker *m,
                                 struct looked *out, struct err *err)
{
	if (push_device_look(ctx, ref, out, err) != ERR_NONE)
		return err->code;
	out->found = out->found && bytes_equal(row_text(&out->item, push_kind_names[m->kind]), m->token);
	return ERR_NONE;
}

/* The device that has the token; none: no device has it. A row that others wrote has no marker: only whoever sent to it knows
 * where it is. */
static enum err_code holder_look(struct context *ctx, const struct push_feedback *q, struct looked *out,
                                 struct err *err)
{
	struct push_marker m = {q->kind, q->token};
	struct looked      marker;
	struct push_ref    ref;

	out->found = false;
	if (q->to.user.len > 0 && q->to.device.len > 0 && device_look(ctx, &q->to, &m, out, err) != ERR_NONE)
		return err->code;
	if (out->found)
		return ERR_NONE;
	if (push_marker_look(ctx, &m, &marker, err) != ERR_NONE)
		return err->code;
	if (!marker.found)
		return ERR_NONE;
	ref = (struct push_ref){row_text(&marker.item, "userId"), row_text(&marker.item, "deviceId")};
	return device_look(ctx, &ref, &m, out, err);
}

enum err_code push_feedback_take(struct context *ctx, const struct push_feedback *q,
                                 enum push_feedback_outcome *out, struct err *err)
{
	struct push_marker m = {q->kind, q->token};
	struct looked      row;
	struct push_lanes  lanes;

	*out = q->kind == PUSH_KINDS ? FEEDBACK_INVALID
	       : !q->not_registered  ? FEEDBACK_IGNORED
	                             : FEEDBACK_DEFERRED;
	if (*out != FEEDBACK_DEFERRED || changes_room(&ctx->changes) < PUSH_REMOVE_ROOM)
		return ERR_NONE;
	if (holder_look(ctx, q, &row, err) != ERR_NONE)
		return err->code;
	row.found = row.found && !user_filter_hides(&q->users, row.pk);
	*out = !row.found                                             ? FEEDBACK_UNKNOWN
	       : !push_is_active(&row.item)                           ? FEEDBACK_INACTIVE
	       : q->sent_s > 0 && q->sent_s < push_seen_of(&row.item) ? FEEDBACK_STALE
	                                                              : FEEDBACK_DISABLED;
	if (*out != FEEDBACK_DISABLED)
		return ERR_NONE;
	*out = FEEDBACK_DEFERRED; /* so is a second token of a device that this call changes */
	if (changes_find(&ctx->changes, TABLE_DEVICES, row.pk, row.sk) != NULL)
		return ERR_NONE;
	if (push_lanes_read(ctx, row.pk, &lanes, err) != ERR_NONE)
		return err->code;
	if (!push_end_fits(ctx, &lanes, row.sk))
		return ERR_NONE;
	if (token_disable(ctx, &m, &row.item, &lanes, err) != ERR_NONE)
		return err->code;
	*out = FEEDBACK_DISABLED;
	return ERR_NONE;
}
