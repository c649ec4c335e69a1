/* Checking users: see user_check.h. */
#include "service/user_check.h"

#include <stdarg.h>
#include <stdio.h>

#include "service/row.h"
#include "service/user.h"

#define KEY_USER  "USER#"
#define KEY_EMAIL "EMAIL#"

enum { TEXT_MAX = 512 };

/* ---- words ---- */

static struct bytes behind(struct bytes key, const char *prefix)
{
	size_t len = strlen(prefix);

	return bytes_starts_with(key, bytes_of(prefix)) ? (struct bytes){key.data + len, key.len - len}
	                                                : (struct bytes){NULL, 0};
}

/* Somebody else may have made an id of an address. */
static struct bytes shown(struct bytes id)
{
	return id.len == 0 ? BYTES("(none)") : user_id_is(id) ? id : BYTES("(not shown)");
}

static void problem(struct users_check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void problem(struct users_check *c, const char *format, ...)
{
	char    text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	c->found.problems++;
	c->problem(c->ctx, text);
}

static bool is_true(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_BOOL && v->truth;
}

static bool is_prefixed(struct bytes text, const char *prefix, struct bytes rest)
{
	return bytes_starts_with(text, bytes_of(prefix)) && bytes_equal(behind(text, prefix), rest);
}

/* ---- addresses ---- */

struct address {
	const struct item *row;
	struct bytes       user, id, email;
	bool               verified, indexed;
};

static struct address address_of(const struct item *row)
{
	return (struct address){.row = row,
	                        .user = behind(row_text(row, "PK"), KEY_USER),
	                        .id = behind(row_text(row, "SK"), KEY_EMAIL),
	                        .email = row_text(row, "email"),
	                        .verified = is_true(row, "isVerified"),
	                        .indexed = item_get(row, BYTES("GSI1PK")) != NULL};
}

#define ADDRESS_ARGS(a) BYTES_ARG(shown((a)->user)), BYTES_ARG(shown((a)->id))

/* (1), and that both end together. */
static enum err_code check_marked(struct context *ctx, struct users_check *c, const struct address *a,
                                  struct err *err)
{
	struct looked marker;

	if (!a->verified && !a->indexed)
		return ERR_NONE;
	user_marker_key(ctx->arena, a->email, &marker);
	if (ctx_look_in(ctx, TABLE_USERS, &marker, err) != ERR_NONE)
		return err->code;
	if (!marker.found)
		problem(c, "user %.*s: address %.*s has no marker", ADDRESS_ARGS(a));
	else if (!bytes_equal(row_text(&marker.item, "userId"), a->user) ||
	         !bytes_equal(row_text(&marker.item, "emailId"), a->id))
		problem(c, "user %.*s: address %.*s has a marker that names another", ADDRESS_ARGS(a));
	else if (row_i64(&marker.item, "ttl", 0) != row_i64(a->row, "ttl", 0))
		problem(c, "user %.*s: address %.*s and its marker end at different times", ADDRESS_ARGS(a));
	return ERR_NONE;
}

/* (4), (5) */
static void check_address_form(struct users_check *c, const struct address *a)
{
	char   normal[EMAIL_NORMAL_BYTES_MAX];
	size_t len =
	        a->email.len == 0 || a->email.len > EMAIL_BYTES_MAX ? 0 : email_normalise(a->email, normal);

	if (len == 0)
		problem(c, "user %.*s: address %.*s is not exactly one mailbox", ADDRESS_ARGS(a));
	else if (!bytes_equal(a->email, (struct bytes){normal, len}))
		problem(c, "user %.*s: address %.*s is not normalised", ADDRESS_ARGS(a));
	if ((a->verified || a->indexed) && (!is_prefixed(row_text(a->row, "GSI1PK"), KEY_EMAIL, a->email) ||
	                                    !is_prefixed(row_text(a->row, "GSI1SK"), KEY_USER, a->user)))
		problem(c, "user %.*s: address %.*s is not in the index as it should be", ADDRESS_ARGS(a));
}

static enum err_code check_address(struct context *ctx, struct users_check *c, const struct item *row,
                                   struct err *err)
{
	struct address a = address_of(row);
	struct looked  profile;

	c->found.addresses++;
	user_profile_key(ctx->arena, a.user, &profile);
	if (ctx_look_in(ctx, TABLE_USERS, &profile, err) != ERR_NONE)
		return err->code;
	if (!profile.found)
		problem(c, "user %.*s: address %.*s belongs to no user", ADDRESS_ARGS(&a));
	check_address_form(c, &a);
	return check_marked(ctx, c, &a, err);
}

static enum err_code check_marker(struct context *ctx, struct users_check *c, const struct item *row,
                                  struct err *err)
{
	struct bytes  user = row_text(row, "userId"), id = row_text(row, "emailId");
	struct looked address;

	c->found.markers++;
	looked_init(&address, user_key(ctx->arena, user),
	            arena_printf(ctx->arena, KEY_EMAIL "%.*s", BYTES_ARG(id)));
	if (ctx_look_in(ctx, TABLE_USERS, &address, err) != ERR_NONE)
		return err->code;
	if (!address.found)
		problem(c, "user %.*s: a marker names its address %.*s, which is not there",
		        BYTES_ARG(shown(user)), BYTES_ARG(shown(id)));
	else if (!is_prefixed(row_text(row, "PK"), KEY_EMAIL, row_text(&address.item, "email")))
		problem(c, "user %.*s: a marker of its address %.*s is of another address",
		        BYTES_ARG(shown(user)), BYTES_ARG(shown(id)));
	return ERR_NONE;
}

/* ---- profiles (2), (3), (4) ---- */

struct primaries {
	uint32_t    primary, verified, unproved; /* primary ones that are not verified */
	struct item row;                         /* the last primary one */
};

static enum err_code primaries_find(struct context *ctx, struct bytes pk, struct primaries *out,
                                    struct err *err)
{
	struct expr_key_condition key = row_prefix(pk, BYTES(KEY_EMAIL));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	*out = (struct primaries){0};
	if (ctx_query_in(ctx, TABLE_USERS, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++) {
		bool primary = is_true(&r.items[i], "isPrimary"),
		     verified = is_true(&r.items[i], "isVerified");

		if (row_expired(&r.items[i], "ttl", ctx->now_us))
			continue;
		out->verified += verified;
		out->primary += primary;
		out->unproved += primary && !verified;
		if (primary)
			out->row = r.items[i];
	}
	return ERR_NONE;
}

/* Of a user with one primary address. */
static void check_named(struct users_check *c, const struct item *profile, const struct item *primary)
{
	struct bytes user = behind(row_text(profile, "PK"), KEY_USER), email = row_text(primary, "email");

	if (!bytes_equal(row_text(profile, "email"), email) ||
	    !bytes_equal(row_text(profile, "primaryEmailId"), behind(row_text(primary, "SK"), KEY_EMAIL)))
		problem(c, "user %.*s: the profile names another primary address", BYTES_ARG(shown(user)));
	if (!is_prefixed(row_text(profile, "GSI1PK"), KEY_EMAIL, email) ||
	    !is_prefixed(row_text(profile, "GSI1SK"), KEY_USER, user))
		problem(c, "user %.*s: the profile is not in the index as it should be",
		        BYTES_ARG(shown(user)));
}

static enum err_code check_profile(struct context *ctx, struct users_check *c, const struct item *row,
                                   struct err *err)
{
	struct bytes     user = behind(row_text(row, "PK"), KEY_USER);
	struct primaries p;

	c->found.users++;
	if (user_status_of(row) == USER_ERASING)
		return ERR_NONE;
	if (primaries_find(ctx, row_text(row, "PK"), &p, err) != ERR_NONE)
		return err->code;
	if (p.unproved > 0)
		problem(c, "user %.*s: a primary address is not verified", BYTES_ARG(shown(user)));
	if (p.primary > 1)
		problem(c, "user %.*s: %u addresses are primary", BYTES_ARG(shown(user)), p.primary);
	else if (p.primary == 1)
		check_named(c, row, &p.row);
	else if (p.verified > 0)
		problem(c, "user %.*s: an address is verified, and none is primary", BYTES_ARG(shown(user)));
	else if (item_get(row, BYTES("email")) != NULL || item_get(row, BYTES("primaryEmailId")) != NULL ||
	         item_get(row, BYTES("GSI1PK")) != NULL)
		problem(c, "user %.*s: the profile names a primary address, and there is none",
		        BYTES_ARG(shown(user)));
	return ERR_NONE;
}

/* ---- a page ---- */

static enum err_code check_row(struct context *ctx, struct users_check *c, const struct item *row,
                               struct err *err)
{
	struct bytes pk = row_text(row, "PK"), sk = row_text(row, "SK");

	if (row_expired(row, "ttl", ctx->now_us))
		return ERR_NONE;
	if (bytes_starts_with(pk, BYTES(KEY_USER)) && bytes_is(sk, "PROFILE"))
		return check_profile(ctx, c, row, err);
	if (bytes_starts_with(pk, BYTES(KEY_USER)) && bytes_starts_with(sk, BYTES(KEY_EMAIL)))
		return check_address(ctx, c, row, err);
	if (bytes_starts_with(pk, BYTES(KEY_EMAIL)) && bytes_is(sk, "MARKER"))
		return check_marker(ctx, c, row, err);
	return ERR_NONE; /* others' */
}

enum err_code users_check_page(struct context *ctx, struct users_check *c, struct err *err)
{
	struct item               start;
	struct table_query        scan = {.limit = USERS_CHECK_PAGE, .consistent = true};
	struct table_query_result r;

	if (c->after_pk.data != NULL) {
		start = row_key_two(ctx->arena, c->after_pk, c->after_sk);
		scan.start = &start;
	}
	if (ctx_query_in(ctx, TABLE_USERS, &scan, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++)
		if (check_row(ctx, c, &r.items[i], err) != ERR_NONE)
			return err->code;
	c->more = r.more;
	if (r.more) {
		c->after_pk = row_text(&r.last_key, "PK");
		c->after_sk = row_text(&r.last_key, "SK");
	}
	return ERR_NONE;
}
