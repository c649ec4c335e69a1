/* Accounts: see account.h. */
#include "service/account.h"

#include "service/alias.h"
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

struct judging {
	struct context                *ctx;
	const struct account_subjects *q;
	struct account                *out;
	struct looked                  markers[SUBJECTS_MAX];
	struct looked                  profiles[SUBJECTS_MAX];
	struct err                    *err;
};

static const struct bytes nothing = {NULL, 0};

static struct bytes nth(const struct bytes *list, uint32_t i)
{
	return list == NULL ? nothing : list[i];
}

static bool is_address(const struct account_subjects *q, uint32_t i)
{
	return nth(q->emails, i).len > 0 || (q->whole && identifier_is(q->ids[i], IDENTIFIER_EMAIL));
}

/* Where it says whose an address is: by the address, or, if only its hash is known, by that. */
static void marker_key(const struct judging *j, uint32_t i, struct looked *out)
{
	if (nth(j->q->emails, i).len > 0)
		user_marker_key(j->ctx->arena, j->q->emails[i], out);
	else
		alias_owner_key(j->ctx->arena, j->q->ids[i], out);
}

/* Whose are the addresses? */
static enum err_code owners_find(struct judging *j)
{
	struct looked *first = NULL;

	for (uint32_t i = 0; i < j->q->count; i++) {
		looked_init(&j->markers[i], nothing, nothing);
		j->out->users[i] = nth(j->q->users, i);
		if (j->out->users[i].len > 0 || !is_address(j->q, i))
			continue;
		marker_key(j, i, &j->markers[i]);
		j->markers[i].next = first;
		first = &j->markers[i];
	}
	if (first != NULL && ctx_look_all_in(j->ctx, TABLE_USERS, first, j->err) != ERR_NONE)
		return j->err->code;
	for (uint32_t i = 0; i < j->q->count; i++)
		if (j->markers[i].found && item_get(&j->markers[i].item, BYTES("ttl")) == NULL) /* (1) */
			j->out->users[i] = row_text(&j->markers[i].item, "userId");
	for (uint32_t i = 0; i < j->q->count; i++)
		j->out->user_count += j->out->users[i].len > 0;
	return ERR_NONE;
}

/* (5) Of an address that nobody has, a user is looked at that there is not. Not before that is certain: else it would be read together with
 * the rest, and sooner than one that there is. */
static bool has_stand_in(const struct judging *j, uint32_t i)
{
	return j->q->whole && is_address(j->q, i) && j->out->users[i].len == 0 && !j->markers[i].blind &&
	       !j->ctx->degraded;
}

static struct bytes stand_in(const struct judging *j, uint32_t i)
{
	return arena_printf(j->ctx->arena, "nobody:%.*s", BYTES_ARG(j->q->ids[i]));
}

/* Who a subject is: a user that is known, or else the one of its own id, if it can be one. */
static struct bytes user_of(const struct judging *j, uint32_t i)
{
	if (j->out->users[i].len > 0)
		return j->out->users[i];
	return identifier_is_hashed(j->q->ids[i]) ? nothing : j->q->ids[i];
}

static enum err_code profiles_look(struct judging *j)
{
	struct looked *first = NULL, **last = &first;

	for (uint32_t i = 0; i < j->q->count; i++) {
		struct bytes user = user_of(j, i);
		bool         instead = user.len == 0 && has_stand_in(j, i);

		looked_init(&j->profiles[i], nothing, nothing);
		if (user.len == 0 && !instead)
			continue;
		user_profile_key(j->ctx->arena, instead ? stand_in(j, i) : user, &j->profiles[i]);
		j->profiles[i].loose = instead; /* nothing rests on it */
		*last = &j->profiles[i];
		last = &j->profiles[i].next;
	}
	if (first == NULL)
		return ERR_NONE;
	return first->next == NULL ? ctx_look_in(j->ctx, TABLE_USERS, first, j->err)
	                           : ctx_look_all_in(j->ctx, TABLE_USERS, first, j->err);
}

/* ---- all ids of a person ---- */

static void id_add(struct account *out, struct bytes id, struct bytes owner)
{
	for (uint32_t i = 0; i < out->id_count; i++)
		if (bytes_equal(out->ids[i], id))
			return;
	if (out->id_count == PERSON_IDS_MAX)
		return;
	out->ids[out->id_count] = id;
	out->owners[out->id_count++] = owner;
}

/* The user of a subject, if it has one. */
static struct bytes owner_of(const struct judging *j, uint32_t i)
{
	return j->out->users[i].len > 0 ? j->out->users[i] : j->profiles[i].found ? j->q->ids[i] : nothing;
}

/* (6) Is the id that would be counted in one that other calls of the person do not read? */
static bool is_far(const struct aliases *all, struct bytes id)
{
	for (uint32_t i = ALIASES_READ_MAX; i < all->count; i++)
		if (bytes_equal(all->list[i], id))
			return true;
	return false;
}

static void id_swap(struct account *out, uint32_t at)
{
	struct bytes id = out->ids[0], owner = out->owners[0];

	out->ids[0] = out->ids[at];
	out->owners[0] = out->owners[at];
	out->ids[at] = id;
	out->owners[at] = owner;
}

static enum err_code aliases_add(struct judging *j, uint32_t i)
{
	struct account *out = j->out;
	struct aliases  all;

	if (!j->profiles[i].found)
		return ERR_NONE;
	if (aliases_find(j->ctx, owner_of(j, i), &j->profiles[i].item, &all, j->err) != ERR_NONE)
		return j->err->code;
	for (uint32_t k = 0; k < all.count && k < ALIASES_READ_MAX; k++)
		id_add(out, all.list[k], owner_of(j, i));
	for (uint32_t k = 1; k < out->main_count && is_far(&all, out->ids[0]); k++)
		if (bytes_equal(out->ids[k], owner_of(j, i)))
			id_swap(out, k);
	return ERR_NONE;
}

/* (4) The first that is counted in: an id that only this call names is read by no other call of the person. */
static void first_choose(struct account *out)
{
	uint32_t at = 0;

	while (at < out->main_count && out->owners[at].len == 0)
		at++;
	if (at > 0 && at < out->main_count)
		id_swap(out, at);
}

/* (5) The rows of a user are read with its PROFILE: so is one of the stand-in's. */
static enum err_code stand_ins_look(const struct judging *j)
{
	struct looked rows[SUBJECTS_MAX], *first = NULL;

	for (uint32_t i = 0; i < j->q->count; i++) {
		if (!has_stand_in(j, i))
			continue;
		looked_init(&rows[i], stand_in(j, i), BYTES(CHANGES_VERSION_KEY));
		rows[i].loose = true;
		rows[i].next = first;
		first = &rows[i];
	}
	return first == NULL ? ERR_NONE : ctx_look_all(j->ctx, first, j->err);
}

static enum err_code ids_find(struct judging *j)
{
	struct account *out = j->out;

	for (uint32_t i = 0; i < j->q->count; i++)
		id_add(out, j->q->ids[i], owner_of(j, i));
	for (uint32_t i = 0; i < j->q->count; i++)
		if (owner_of(j, i).len > 0)
			id_add(out, owner_of(j, i), owner_of(j, i));
	out->main_count = out->id_count;
	first_choose(out);
	for (uint32_t i = 0; i < j->q->count; i++)
		if (aliases_add(j, i) != ERR_NONE)
			return j->err->code;
	return stand_ins_look(j);
}

enum err_code account_judge(struct context *ctx, const struct account_subjects *q, struct account *out,
                            struct err *err)
{
	struct judging *j = arena_alloc(ctx->arena, sizeof(*j));

	*out = (struct account){0};
	j->ctx = ctx;
	j->q = q;
	j->out = out;
	j->err = err;
	if (owners_find(j) != ERR_NONE || profiles_look(j) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < q->count; i++)
		profile_judge(&j->profiles[i], &out->verdict);
	if (q->count > 0 && j->profiles[0].found)
		out->profile = j->profiles[0].item;
	return q->whole ? ids_find(j) : ERR_NONE;
}

enum err_code account_find(struct context *ctx, struct bytes id, struct account *out, struct err *err)
{
	struct account_subjects q = {.ids = &id, .count = 1, .whole = true};

	if (!ctx_lacks(ctx, TABLE_USERS))
		return account_judge(ctx, &q, out, err);
	*out = (struct account){.ids = {id}, .id_count = 1, .main_count = 1};
	return ERR_NONE;
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
