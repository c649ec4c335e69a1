/* Accounts: see account.h. */
#include "service/account.h"

#include "service/row.h"

const char *account_reason(enum user_status status)
{
	switch (status) {
	case USER_ACTIVE:
		break;
	case USER_SUSPENDED:
		return "user_suspended";
	case USER_DELETED:
		return "user_deleted";
	case USER_ERASING:
		return "user_erasing";
	}
	return NULL;
}

static void profile_judge(const struct looked *profile, struct verdict *v)
{
	struct verdict out = {.kind = VERDICT_BLOCKED, .pk = profile->pk, .sk = profile->sk};

	if (!profile->found)
		return;
	out.reason = account_reason(user_status_of(&profile->item));
	if (out.reason != NULL)
		verdict_add(v, &out);
}

enum err_code account_judge_user(struct context *ctx, struct bytes id, struct verdict *v, struct err *err)
{
	struct looked profile;

	user_profile_key(ctx->arena, id, &profile);
	if (ctx_look_in(ctx, TABLE_USERS, &profile, err) != ERR_NONE)
		return err->code;
	profile_judge(&profile, v);
	return ERR_NONE;
}

/* ---- the subjects of a call ---- */

static struct bytes nth(const struct bytes *list, uint32_t i)
{
	return list == NULL ? (struct bytes){NULL, 0} : list[i];
}

/* Whose are the addresses? */
static enum err_code owners_find(struct context *ctx, const struct account_subjects *q, struct account *out,
                                 struct err *err)
{
	struct looked markers[SUBJECTS_MAX], *first = NULL;

	for (uint32_t i = 0; i < q->count; i++) {
		markers[i].found = false;
		if (nth(q->users, i).len > 0 || nth(q->emails, i).len == 0)
			continue;
		user_marker_key(ctx->arena, q->emails[i], &markers[i]);
		markers[i].next = first;
		first = &markers[i];
	}
	if (first == NULL)
		return ERR_NONE;
	if (ctx_look_all_in(ctx, TABLE_USERS, first, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < q->count; i++)
		if (markers[i].found && item_get(&markers[i].item, BYTES("ttl")) == NULL) /* (1) */
			out->users[i] = row_text(&markers[i].item, "userId");
	return ERR_NONE;
}

/* Who a subject is: a user that is known, or else the one of its own id, if it can be one. */
static struct bytes user_of(const struct account_subjects *q, const struct account *known, uint32_t i)
{
	if (known->users[i].len > 0)
		return known->users[i];
	return identifier_is_hashed(q->ids[i]) ? (struct bytes){NULL, 0} : q->ids[i];
}

static enum err_code profiles_judge(struct context *ctx, const struct account_subjects *q,
                                    struct account *out, struct err *err)
{
	struct looked profiles[SUBJECTS_MAX], *first = NULL, **last = &first;

	for (uint32_t i = 0; i < q->count; i++) {
		struct bytes user = user_of(q, out, i);

		if (user.len == 0)
			continue;
		user_profile_key(ctx->arena, user, &profiles[i]);
		*last = &profiles[i];
		last = &profiles[i].next;
	}
	if (first == NULL)
		return ERR_NONE;
	if ((first->next == NULL ? ctx_look_in(ctx, TABLE_USERS, first, err)
	                         : ctx_look_all_in(ctx, TABLE_USERS, first, err)) != ERR_NONE)
		return err->code;
	for (struct looked *p = first; p != NULL; p = p->next)
		profile_judge(p, &out->verdict);
	return ERR_NONE;
}

enum err_code account_judge(struct context *ctx, const struct account_subjects *q, struct account *out,
                            struct err *err)
{
	*out = (struct account){0};
	for (uint32_t i = 0; i < q->count; i++)
		out->users[i] = nth(q->users, i);
	if (q->emails != NULL && owners_find(ctx, q, out, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < q->count; i++)
		out->user_count += out->users[i].len > 0;
	return profiles_judge(ctx, q, out, err);
}

/* ---- (3) ---- */

enum err_code account_writable(struct context *ctx, struct bytes subject, struct err *err)
{
	struct looked profile;

	user_profile_key(ctx->arena, subject, &profile);
	if (ctx_look_in(ctx, TABLE_USERS, &profile, err) != ERR_NONE)
		return err->code;
	return profile.found && user_status_of(&profile.item) == USER_ERASING ? user_erasing(err) : ERR_NONE;
}
