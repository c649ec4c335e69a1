/* Aliases: see alias.h. */
#include "service/alias.h"

#include "service/user.h"

#define ALIASES "aliases"

bool alias_of_email(struct context *ctx, struct bytes email, struct bytes *out)
{
	*out = identifier_of_row_email(&ctx->services->identifiers, ctx->arena, email);
	return email.len > 0;
}

void alias_owner_key(struct arena *a, struct bytes id, struct looked *out)
{
	looked_init(out, arena_printf(a, "ALIAS#%.*s", BYTES_ARG(id)), BYTES("OWNER"));
}

bool aliases_have(const struct aliases *all, struct bytes id)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (bytes_equal(all->list[i], id))
			return true;
	return false;
}

/* ---- reading ---- */

/* Somebody else may have written what is not a text: it is no id. */
bool aliases_of(struct arena *a, const struct item *profile, struct aliases *out)
{
	const struct value *v = item_get(profile, BYTES(ALIASES));

	*out = (struct aliases){0};
	if (v == NULL || v->type != VALUE_L)
		return false;
	out->list = arena_array(a, v->list.count + 1, sizeof(*out->list));
	for (uint32_t i = 0; i < v->list.count; i++)
		if (value_text(&v->list.items[i]).len > 0)
			out->list[out->count++] = value_text(&v->list.items[i]);
	return true;
}

enum err_code aliases_find(struct context *ctx, struct bytes user, const struct item *profile,
                           struct aliases *out, struct err *err)
{
	struct user_emails emails;

	if (aliases_of(ctx->arena, profile, out))
		return ERR_NONE;
	if (user_emails_read(ctx, user, &emails, err) != ERR_NONE)
		return err->code;
	out->list = arena_array(ctx->arena, emails.count + 1, sizeof(*out->list));
	for (uint32_t i = 0; i < emails.count; i++)
		if (emails.list[i].verified &&
		    alias_of_email(ctx, emails.list[i].email, &out->list[out->count]))
			out->count++;
	return ERR_NONE;
}

/* ---- changing ---- */

static void aliases_set(struct row *profile, const struct aliases *all)
{
	struct value_list list = {arena_array(profile->arena, all->count + 1, sizeof(struct value)),
	                          all->count};

	for (uint32_t i = 0; i < all->count; i++)
		list.items[i] = value_string(all->list[i]);
	row_set(profile, ALIASES, (struct value){.type = VALUE_L, .list = list});
}

void aliases_begin(struct row *profile)
{
	aliases_set(profile, &(struct aliases){0});
}

/* All of the user but this one, with room for one more. */
static enum err_code others_find(struct context *ctx, const struct alias_change *q, struct bytes id,
                                 struct aliases *out, struct err *err)
{
	struct aliases all;

	if (aliases_find(ctx, q->user, &q->profile->item, &all, err) != ERR_NONE)
		return err->code;
	*out = (struct aliases){.list = arena_array(ctx->arena, all.count + 1, sizeof(*out->list))};
	for (uint32_t i = 0; i < all.count; i++)
		if (!bytes_equal(all.list[i], id))
			out->list[out->count++] = all.list[i];
	return ERR_NONE;
}

enum err_code alias_add(struct context *ctx, const struct alias_change *q, struct err *err)
{
	struct aliases all = {0};
	struct bytes   id;
	struct looked  marker;
	struct row     row;

	if (!alias_of_email(ctx, q->email, &id))
		return ERR_NONE;
	if (others_find(ctx, q, id, &all, err) != ERR_NONE || all.list == NULL)
		return err->code;
	all.list[all.count++] = id;
	aliases_set(q->profile, &all);
	alias_owner_key(ctx->arena, id, &marker);
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", marker.pk);
	row_set_text(&row, "SK", marker.sk);
	row_set_text(&row, "userId", q->user);
	ctx_put(ctx, TABLE_USERS, row_item(&row));
	return ERR_NONE;
}

enum err_code alias_erase(struct context *ctx, struct bytes id, struct bytes user, struct err *err)
{
	struct looked marker;

	alias_owner_key(ctx->arena, id, &marker);
	if (ctx_look_in(ctx, TABLE_USERS, &marker, err) != ERR_NONE)
		return err->code;
	if (marker.found && bytes_equal(row_text(&marker.item, "userId"), user))
		ctx_delete(ctx, TABLE_USERS, row_key_two(ctx->arena, marker.pk, marker.sk));
	return ERR_NONE;
}

enum err_code alias_remove(struct context *ctx, const struct alias_change *q, struct err *err)
{
	struct aliases all;
	struct bytes   id;

	if (!alias_of_email(ctx, q->email, &id))
		return ERR_NONE;
	if (alias_erase(ctx, id, q->user, err) != ERR_NONE || others_find(ctx, q, id, &all, err) != ERR_NONE)
		return err->code;
	aliases_set(q->profile, &all);
	return ERR_NONE;
}
