/* Person: the attempt of one, with all ids that the person has. See attempt_whole in assess.h, and account.h. */
#include "service/assess.h"

#include "service/lock_event.h"

/* A token is good for the id that it was issued for: whatever name the person uses now. */
static void token_read(struct context *ctx, struct attempt *q)
{
	char *name = arena_alloc(ctx->arena, DEVICE_NAME_CHARS);

	for (uint32_t i = 0; i < q->subject_count && q->device.len == 0; i++)
		if (device_token_read(q->keys, q->token, q->subjects[i], name)) {
			q->device = (struct bytes){name, DEVICE_NAME_CHARS};
			q->device_of = q->subjects[i];
		}
	q->token = (struct bytes){NULL, 0};
}

/* Would the locks of that many ids fit, with a look at each of the rest? */
static bool locks_fit(const struct context *ctx, const struct attempt *q, uint32_t ids)
{
	uint32_t locks = rule_lock_count(q->rule, 1);
	uint32_t later = q->reservation.len > 0 ? lock_announce_rows(ctx->services, locks) : 0;

	return rule_lock_rows(q->rule, ids) + lock_set_rows(ctx->services, locks, 1) + later +
	               (q->subject_count - ids) <=
	       LOCK_ROWS_MAX;
}

/* Every call of the person reads all ids, so a lock holds on any of them. It is set on those that were named, and on their users as far as
 * they fit into the commit. */
static enum err_code ids_find(struct context *ctx, struct attempt *q, struct err *err)
{
	struct account_subjects who = {q->subjects, q->emails, q->users, q->subject_count, true};
	struct account         *found = arena_alloc(ctx->arena, sizeof(*found));
	uint32_t                named = q->subject_count;

	if (account_judge(ctx, &who, found, err) != ERR_NONE)
		return err->code;
	memcpy(q->subjects, found->ids, found->id_count * sizeof(*found->ids));
	q->subject_count = found->id_count;
	q->main_count = found->main_count;
	q->owners = found->owners;
	q->account = found;
	while (q->rule != NULL && q->main_count > named && !locks_fit(ctx, q, q->main_count))
		q->main_count--;
	return ERR_NONE;
}

enum err_code attempt_whole(struct context *ctx, const struct attempt *q, struct attempt *out,
                            struct err *err)
{
	static const struct account nobody;

	*out = *q;
	if (q->account != NULL)
		return ERR_NONE;
	out->main_count = q->subject_count;
	if (ctx_lacks(ctx, TABLE_USERS)) /* teams that use attempts alone pay nothing for users */
		out->account = &nobody;
	else if (!q->alone && ids_find(ctx, out, err) != ERR_NONE)
		return err->code;
	if (out->token.len > 0)
		token_read(ctx, out);
	return ERR_NONE;
}
