/* Lanes of registered devices: see push_lane.h. */
#include "service/push_lane.h"

#include "service/device.h"
#include "service/row.h"
#include "service/user.h"

static void lanes_add(struct context *ctx, struct push_lanes *to, const struct device_list *from)
{
	const struct item **rows = arena_array(ctx->arena, to->count + from->count + 1, sizeof(*rows));

	if (to->count > 0)
		memcpy(rows, to->rows, to->count * sizeof(*rows));
	to->rows = rows;
	for (uint32_t i = 0; i < from->count; i++)
		if (row_text(&from->rows[i], DEVICE_LINK).len > 0)
			rows[to->count++] = &from->rows[i];
}

static enum err_code subject_read(struct context *ctx, struct bytes subject, struct push_lanes *out,
                                  struct err *err)
{
	struct device_list list;

	if (device_list(ctx, subject, &list, err) != ERR_NONE)
		return err->code;
	lanes_add(ctx, out, &list);
	return ERR_NONE;
}

enum err_code push_lanes_read(struct context *ctx, struct bytes user, struct push_lanes *out, struct err *err)
{
	struct user_emails emails = {0};
	enum err_code      rc;

	*out = (struct push_lanes){0};
	if (subject_read(ctx, user, out, err) != ERR_NONE)
		return err->code;
	rc = user_emails_find(ctx, user, &emails, err);
	if (rc != ERR_NONE && rc != ERR_NOT_FOUND)
		return rc;
	for (uint32_t i = 0; i < emails.count; i++)
		if (subject_read(ctx,
		                 identifier_of_row_email(&ctx->services->identifiers, ctx->arena,
		                                         emails.list[i].email),
		                 out, err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

uint32_t push_lanes_count(const struct push_lanes *lanes, struct bytes device)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < lanes->count; i++)
		count += bytes_equal(row_text(lanes->rows[i], DEVICE_LINK), device);
	return count;
}

static void lane_end(struct context *ctx, const struct item *row)
{
	ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, row_text(row, "PK"), row_text(row, "SK")));
}

uint32_t push_lanes_end(struct context *ctx, const struct push_lanes *lanes, struct bytes device)
{
	for (uint32_t i = 0; i < lanes->count; i++)
		if (bytes_equal(row_text(lanes->rows[i], DEVICE_LINK), device))
			lane_end(ctx, lanes->rows[i]);
	return push_lanes_count(lanes, device);
}

uint32_t push_lanes_end_all(struct context *ctx, const struct push_lanes *lanes)
{
	uint32_t ended = 0;

	for (uint32_t i = 0; i < lanes->count; i++) {
		const struct item *row = lanes->rows[i];

		if (changes_find(&ctx->changes, TABLE_AUTH_STATE, row_text(row, "PK"), row_text(row, "SK")) !=
		    NULL)
			continue;
		lane_end(ctx, row);
		ended++;
	}
	return ended;
}
