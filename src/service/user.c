/* Users: see user.h. */
#include "service/user.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/crypto.h"
#include "service/alias.h"
#include "service/limit.h"
#include "service/revocation.h"
#include "service/row.h"
#include "service/sign_out.h"

const char *const user_status_names[] = {"active", "suspended", "deleted", "erasing", NULL};

#define KEY_USER    "USER#"
#define KEY_PROFILE "PROFILE"

/* ---- what they are made of ---- */

bool user_id_is(struct bytes id)
{
	return id.len >= 1 && id.len <= USER_ID_BYTES_MAX && bytes_hold_only(id, "-_.|") &&
	       !bytes_is(id, ".") && !bytes_is(id, "..") && identifier_looks_like(id) == NULL;
}

struct bytes user_key(struct arena *a, struct bytes id)
{
	size_t prefix = strlen(KEY_USER);
	char  *key = arena_alloc(a, prefix + id.len); /* every attempt makes one */

	memcpy(key, KEY_USER, prefix);
	if (id.len > 0)
		memcpy(key + prefix, id.data, id.len);
	return (struct bytes){key, prefix + id.len};
}

struct bytes user_time(struct arena *a, int64_t now_us)
{
	char *text = arena_alloc(a, LIMIT_TIME_TEXT);

	limit_time_format(now_us, text);
	return (struct bytes){text, LIMIT_TIME_TEXT};
}

struct bytes user_id_make(struct context *ctx)
{
	uint8_t bits[16];
	char    hex[2 * sizeof(bits)];

	ctx_random(ctx, bits, sizeof(bits));
	bits[6] = (uint8_t)((bits[6] & 0x0f) | 0x40); /* RFC 9562, version 4 */
	bits[8] = (uint8_t)((bits[8] & 0x3f) | 0x80);
	hex_write((struct bytes){(const char *)bits, sizeof(bits)}, hex);
	return arena_printf(ctx->arena, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
	                    hex + 20);
}

/* A status that is none of ours, which somebody else wrote, lets nobody in. */
enum user_status user_status_of(const struct item *profile)
{
	struct bytes name = row_text(profile, "status");

	for (int i = 0; user_status_names[i] != NULL; i++)
		if (bytes_is(name, user_status_names[i]))
			return (enum user_status)i;
	return USER_SUSPENDED;
}

struct user user_of_row(const struct item *row)
{
	const struct value *attributes = item_get(row, BYTES("attributes"));
	struct bytes        pk = row_text(row, "PK");
	struct user         u = {.row = *row};

	u.id = (struct bytes){pk.data + strlen(KEY_USER), pk.len - strlen(KEY_USER)};
	u.status = user_status_of(row);
	u.version = row_i64(row, "version", 0);
	u.first_name = row_text(row, "firstName");
	u.last_name = row_text(row, "lastName");
	u.phone = row_text(row, "phone");
	u.email = row_text(row, "email");
	u.email_typed = row_text(row, EMAIL_TYPED);
	u.email_id = row_text(row, "primaryEmailId");
	u.suspended_by = row_text(row, USER_SUSPENDED_BY);
	u.created_at = row_text(row, "createdAt");
	u.updated_at = row_text(row, "updatedAt");
	if (attributes != NULL && attributes->type == VALUE_M)
		u.attributes = attributes->map;
	return u;
}

/* ---- reading ---- */

void user_profile_key(struct arena *a, struct bytes id, struct looked *out)
{
	looked_init(out, user_key(a, id), BYTES(KEY_PROFILE));
}

static enum err_code profile_look(struct context *ctx, struct bytes id, struct looked *out, struct err *err)
{
	user_profile_key(ctx->arena, id, out);
	return ctx_look_in(ctx, TABLE_USERS, out, err);
}

enum err_code user_get(struct context *ctx, struct bytes id, struct user *out, struct err *err)
{
	struct looked profile;

	if (profile_look(ctx, id, &profile, err) != ERR_NONE)
		return err->code;
	if (!profile.found)
		return err_field(err, ERR_NOT_FOUND, "id", "id: there is no such user");
	*out = user_of_row(&profile.item);
	return ERR_NONE;
}

enum err_code user_unknown(struct err *err)
{
	return err_field(err, ERR_NOT_FOUND, "email", "email: no user has this address");
}

enum err_code user_lookup(struct context *ctx, struct bytes email, struct user_found *out, struct err *err)
{
	struct email_owner owner;

	if (email_owner_find(ctx, email, &owner, err) != ERR_NONE)
		return err->code;
	if (!owner.found)
		return user_unknown(err);
	out->email_id = owner.email_id;
	out->typed = owner.typed;
	out->verified = owner.verified;
	return user_get(ctx, owner.user, &out->user, err);
}

/* ---- changing ---- */

static bool etag_fits(const struct user_match *match, int64_t version)
{
	for (uint32_t i = 0; i < match->etag_count; i++)
		if (match->etags[i] == version)
			return true;
	return false;
}

static enum err_code match_check(const struct user_match *match, int64_t version, struct err *err)
{
	if (match->has_etag && !match->any && !etag_fits(match, version))
		return err_field(err, ERR_STALE, "If-Match",
		                 "If-Match: the user has changed since; GET it again");
	if (match->has_version && match->version != version)
		return err_field(err, ERR_MODIFIED, "version", "Resource modified, please refresh");
	return ERR_NONE;
}

enum err_code user_erasing(struct err *err)
{
	return err_field(err, ERR_NOT_NOW, "id", "id: the user is being erased");
}

/* (3) */
static enum err_code status_check(enum user_status status, struct err *err)
{
	if (status == USER_ERASING)
		return user_erasing(err);
	return status == USER_DELETED
	               ? err_field(err, ERR_NOT_NOW, "id", "id: the user is deleted and cannot change")
	               : ERR_NONE;
}

enum err_code user_take(struct context *ctx, struct bytes id, const struct user_match *match,
                        struct user *out, struct err *err)
{
	if (user_get(ctx, id, out, err) != ERR_NONE || match_check(match, out->version, err) != ERR_NONE)
		return err->code;
	return status_check(out->status, err);
}

/* (1) */
void user_put(struct context *ctx, struct user *u, struct row *row)
{
	struct item item;

	row_set_i64(row, "version", u->version + 1);
	row_set_text(row, "updatedAt", user_time(ctx->arena, ctx->now_us));
	item = row_item(row);
	ctx_put(ctx, TABLE_USERS, item);
	*u = user_of_row(&item);
}

/* Names of fields that differ, into a list that has room for them. */
static void changed_add(struct value_list *out, struct bytes name, const struct value *a,
                        const struct value *b)
{
	bool same = a == NULL || b == NULL ? a == b : value_equal(a, b);

	if (!same)
		out->items[out->count++] = value_string(name);
}

static struct item attributes_of(const struct item *row)
{
	const struct value *v = row == NULL ? NULL : item_get(row, BYTES("attributes"));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){0};
}

static void changed_attributes(struct arena *a, struct value_list *out, const struct item *before,
                               const struct item *after)
{
	for (uint32_t i = 0; i < after->count; i++)
		changed_add(out, arena_printf(a, "attributes.%.*s", BYTES_ARG(after->members[i].name)),
		            item_get(before, after->members[i].name), &after->members[i].value);
	for (uint32_t i = 0; i < before->count; i++)
		if (item_get(after, before->members[i].name) == NULL)
			changed_add(out,
			            arena_printf(a, "attributes.%.*s", BYTES_ARG(before->members[i].name)),
			            &before->members[i].value, NULL);
}

static struct value changed(struct arena *a, const struct item *before, const struct item *after)
{
	static const char *const names[] = {"status",   USER_SUSPENDED_BY, "firstName",
	                                    "lastName", "phone",           "email"};
	enum { NAMES = sizeof(names) / sizeof(names[0]) };
	struct item  old = attributes_of(before), new = attributes_of(after);
	struct value out = {.type = VALUE_L};

	out.list.items = arena_array(a, NAMES + old.count + new.count, sizeof(struct value));
	for (int i = 0; i < NAMES; i++)
		changed_add(&out.list, bytes_of(names[i]),
		            before == NULL ? NULL : item_get(before, bytes_of(names[i])),
		            item_get(after, bytes_of(names[i])));
	changed_attributes(a, &out.list, &old, &new);
	return out;
}

void user_publish(struct context *ctx, const struct user_event *what, const struct user *u)
{
	struct event e = {.type = what->type, .subject = u->id};
	struct row   data;

	if (!ctx_publishes(ctx, what->type))
		return;
	row_init(&data, ctx->arena);
	row_set_i64(&data, "version", u->version);
	row_set(&data, "changed", changed(ctx->arena, what->before, &u->row));
	row_set_text(&data, "by", ctx->caller);
	if (what->reason.len > 0)
		row_set_text(&data, "reason", what->reason);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

static void text_apply(struct row *row, const char *name, const struct user_text *t)
{
	if (!t->given)
		return;
	if (t->text.len == 0)
		row_remove(row, name);
	else
		row_set_text(row, name, t->text);
}

static enum err_code attributes_apply(struct context *ctx, struct row *row, const struct item *before,
                                      const struct item *changes, struct err *err)
{
	struct item all = *before;

	for (uint32_t i = 0; i < changes->count; i++) {
		const struct member *m = &changes->members[i];

		all = m->value.type == VALUE_NULL ? item_without(ctx->arena, &all, m->name)
		                                  : item_with(ctx->arena, &all, m->name, &m->value);
	}
	if (all.count > USER_ATTRIBUTES_MAX || item_size(&all) > USER_ATTRIBUTES_BYTES_MAX)
		return err_field(err, ERR_INVALID, "attributes",
		                 "attributes: a user has at most %d, of %d bytes in all", USER_ATTRIBUTES_MAX,
		                 USER_ATTRIBUTES_BYTES_MAX);
	if (all.count == 0)
		row_remove(row, "attributes");
	else
		row_set(row, "attributes", (struct value){.type = VALUE_M, .map = all});
	return ERR_NONE;
}

/* (2) */
enum err_code user_fields_apply(struct context *ctx, struct row *row, const struct user *u,
                                const struct user_fields *q, struct err *err)
{
	text_apply(row, "firstName", &q->first_name);
	text_apply(row, "lastName", &q->last_name);
	text_apply(row, "phone", &q->phone);
	if (q->attributes.count == 0 && !q->attributes_go)
		return ERR_NONE;
	return attributes_apply(ctx, row, q->attributes_go ? &(struct item){0} : &u->attributes,
	                        &q->attributes, err);
}

void user_begin(struct context *ctx, struct bytes id, struct user *out, struct row *row)
{
	*out = (struct user){.id = id};
	row_init(row, ctx->arena);
	row_set_text(row, "PK", user_key(ctx->arena, id));
	row_set_text(row, "SK", BYTES(KEY_PROFILE));
	row_set_text(row, "status", bytes_of(user_status_names[USER_ACTIVE]));
	row_set_text(row, "createdAt", user_time(ctx->arena, ctx->now_us));
	aliases_begin(row);
}

enum err_code user_create(struct context *ctx, const struct user_new *q, struct user_created *out,
                          struct err *err)
{
	struct looked profile;
	struct row    row;

	*out = (struct user_created){.user = {.id = q->id.len > 0 ? q->id : user_id_make(ctx)}};
	if (profile_look(ctx, out->user.id, &profile, err) != ERR_NONE)
		return err->code;
	if (profile.found && user_status_of(&profile.item) == USER_ERASING)
		return user_erasing(err);
	if (profile.found)
		return err_field(err, ERR_USER_EXISTS, "id", "id: there is a user with this id already");
	out->claimed = q->email.len > 0;
	if (out->claimed &&
	    user_email_claim(ctx, &(struct email_add){out->user.id, q->email, q->terms, q->email_typed},
	                     &out->claim, err) != ERR_NONE)
		return err->code;
	if (out->claimed && out->claim.standing.refused)
		return ERR_NONE;
	user_begin(ctx, out->user.id, &out->user, &row);
	if (user_fields_apply(ctx, &row, &out->user, &q->fields, err) != ERR_NONE)
		return err->code;
	user_put(ctx, &out->user, &row);
	user_publish(ctx, &(struct user_event){.type = EVENT_USER_CREATED}, &out->user);
	if (out->claimed)
		user_email_claimed(ctx, out->user.id, &out->claim);
	return ERR_NONE;
}

enum err_code user_change(struct context *ctx, const struct user_patch *q, struct user *out, struct err *err)
{
	struct row  row;
	struct item before;

	if (user_take(ctx, q->id, &q->match, out, err) != ERR_NONE)
		return err->code;
	before = out->row;
	row_from(&row, ctx->arena, &out->row);
	if (user_fields_apply(ctx, &row, out, &q->fields, err) != ERR_NONE)
		return err->code;
	user_put(ctx, out, &row);
	user_publish(ctx, &(struct user_event){.type = EVENT_USER_UPDATED, .before = &before}, out);
	return ERR_NONE;
}

/* (4) The event that tells the new status tells this too. */
static enum err_code tokens_revoke(struct context *ctx, struct user *u, struct bytes reason, struct err *err)
{
	struct revocation q = {.kind = REVOKED_USER,
	                       .name = u->id,
	                       .reason = reason.len > 0 ? reason : bytes_of(user_status_names[u->status]),
	                       .told = true};
	struct revoked    r;

	if (revocation_add(ctx, &q, &r, err) != ERR_NONE)
		return err->code;
	u->tokens_not_before_s = r.not_before_s;
	return ERR_NONE;
}

static enum err_code tokens_show(struct context *ctx, struct user *u, struct err *err)
{
	struct revoked r;

	if (revocation_get(ctx, REVOKED_USER, u->id, &r, err) != ERR_NONE)
		return err->code;
	u->tokens_not_before_s = r.not_before_s;
	return ERR_NONE;
}

/* (5) */
void user_status_set(struct row *row, enum user_status status, struct bytes by)
{
	row_set_text(row, "status", bytes_of(user_status_names[status]));
	row_remove(row, USER_SUSPENDED_BY);
	if (status == USER_SUSPENDED && by.len > 0)
		row_set_text(row, USER_SUSPENDED_BY, by);
}

enum err_code user_became(struct context *ctx, struct user *u, const struct item *before, struct bytes reason,
                          struct err *err)
{
	static const enum event_type events[] = {[USER_ACTIVE] = EVENT_USER_REACTIVATED,
	                                         [USER_SUSPENDED] = EVENT_USER_SUSPENDED,
	                                         [USER_DELETED] = EVENT_USER_DELETED};

	user_publish(ctx, &(struct user_event){events[u->status], before, reason}, u);
	if (u->status == USER_ACTIVE)
		return tokens_show(ctx, u, err);
	signout_queue(ctx, u);
	return tokens_revoke(ctx, u, reason, err);
}

/* (5) It is suspended already; from now on by a person. */
static void take_over(struct context *ctx, struct user *u, struct bytes reason)
{
	struct item before = u->row;
	struct row  row;

	row_from(&row, ctx->arena, &u->row);
	user_status_set(&row, u->status, BYTES(""));
	user_put(ctx, u, &row);
	user_publish(ctx, &(struct user_event){EVENT_USER_UPDATED, &before, reason}, u);
}

/* (3) */
enum err_code user_become(struct context *ctx, const struct user_patch *q, enum user_status status,
                          struct user *out, struct err *err)
{
	struct row  row;
	struct item before;

	if (user_get(ctx, q->id, out, err) != ERR_NONE ||
	    match_check(&q->match, out->version, err) != ERR_NONE)
		return err->code;
	if (bytes_is(row_text(&out->row, "status"), user_status_names[status])) {
		if (out->suspended_by.len > 0 && q->by.len == 0)
			take_over(ctx, out, q->reason);
		return tokens_show(ctx, out, err);
	}
	if (status_check(out->status, err) != ERR_NONE)
		return err->code;
	before = out->row;
	row_from(&row, ctx->arena, &out->row);
	user_status_set(&row, status, q->by);
	user_put(ctx, out, &row);
	return user_became(ctx, out, &before, q->reason, err);
}
