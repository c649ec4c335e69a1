/* Addresses of users: see user_email.h. */
#include "service/user_email.h"

#include "base/crypto.h"
#include "service/event.h"
#include "service/row.h"
#include "service/user.h"

#define KEY_EMAIL  "EMAIL#"
#define KEY_MARKER "MARKER"

/* ---- rows ---- */

static struct bytes email_key(struct arena *a, struct bytes id)
{
	return arena_printf(a, KEY_EMAIL "%.*s", BYTES_ARG(id));
}

static bool is_true(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_BOOL && v->truth;
}

static struct user_email email_of(const struct item *row)
{
	struct bytes sk = row_text(row, "SK");

	return (struct user_email){.id = {sk.data + strlen(KEY_EMAIL), sk.len - strlen(KEY_EMAIL)},
	                           .email = row_text(row, "email"),
	                           .created_at = row_text(row, "createdAt"),
	                           .verified_at = row_text(row, "verifiedAt"),
	                           .verified = is_true(row, "isVerified"),
	                           .primary = is_true(row, "isPrimary"),
	                           .expires_s = row_i64(row, "ttl", 0),
	                           .row = *row};
}

static struct user_email email_put(struct context *ctx, struct row *row)
{
	struct item item = row_item(row);

	ctx_put(ctx, TABLE_USERS, item);
	return email_of(&item);
}

static enum err_code marker_look(struct context *ctx, struct bytes email, struct looked *out, struct err *err)
{
	looked_init(out, email_key(ctx->arena, email), BYTES(KEY_MARKER));
	return ctx_look_in(ctx, TABLE_USERS, out, err);
}

/* (1) With the same end as the address; 0: none. */
static void marker_put(struct context *ctx, struct bytes user, const struct user_email *e, int64_t ttl_s)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", email_key(ctx->arena, e->email));
	row_set_text(&row, "SK", BYTES(KEY_MARKER));
	row_set_text(&row, "userId", user);
	row_set_text(&row, "emailId", e->id);
	if (ttl_s > 0)
		row_set_i64(&row, "ttl", ttl_s);
	ctx_put(ctx, TABLE_USERS, row_item(&row));
}

static bool marks(const struct looked *marker, struct bytes user, struct bytes email_id)
{
	return marker->found && bytes_equal(row_text(&marker->item, "userId"), user) &&
	       bytes_equal(row_text(&marker->item, "emailId"), email_id);
}

static enum err_code email_look(struct context *ctx, struct bytes user, struct bytes id, struct looked *out,
                                struct err *err)
{
	looked_init(out, user_key(ctx->arena, user), email_key(ctx->arena, id));
	return ctx_look_in(ctx, TABLE_USERS, out, err);
}

static enum err_code email_get(struct context *ctx, const struct email_entry *q, struct user_email *out,
                               struct err *err)
{
	struct looked row;

	if (email_look(ctx, q->user, q->email_id, &row, err) != ERR_NONE)
		return err->code;
	if (!row.found)
		return err_field(err, ERR_NOT_FOUND, "emailId", "emailId: the user has no such address");
	*out = email_of(&row.item);
	return ERR_NONE;
}

/* An event tells which address by its id: nothing that is passed on holds the address itself. */
static void publish(struct context *ctx, enum event_type type, struct bytes user, struct bytes email_id)
{
	struct event e = {.type = type, .subject = user};
	struct row   data;

	row_init(&data, ctx->arena);
	row_set_text(&data, "emailId", email_id);
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* ---- reading ---- */

static enum err_code emails_query(struct context *ctx, struct bytes user, struct user_emails *out,
                                  struct err *err)
{
	struct expr_key_condition key = row_prefix(user_key(ctx->arena, user), BYTES(KEY_EMAIL));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_USERS, &q, &r, err) != ERR_NONE)
		return err->code;
	*out = (struct user_emails){.list = arena_array(ctx->arena, r.count + 1, sizeof(*out->list))};
	for (uint32_t i = 0; i < r.count; i++)
		if (!row_expired(&r.items[i], "ttl", ctx->now_us))
			out->list[out->count++] = email_of(&r.items[i]);
	return ERR_NONE;
}

enum err_code user_emails_find(struct context *ctx, struct bytes user, struct user_emails *out,
                               struct err *err)
{
	struct user u;

	if (user_get(ctx, user, &u, err) != ERR_NONE)
		return err->code;
	return emails_query(ctx, user, out, err);
}

enum err_code email_owner_find(struct context *ctx, struct bytes email, struct email_owner *out,
                               struct err *err)
{
	struct looked marker, row;

	*out = (struct email_owner){0};
	if (marker_look(ctx, email, &marker, err) != ERR_NONE)
		return err->code;
	if (!marker.found)
		return ERR_NONE;
	out->user = row_text(&marker.item, "userId");
	out->email_id = row_text(&marker.item, "emailId");
	if (email_look(ctx, out->user, out->email_id, &row, err) != ERR_NONE)
		return err->code;
	out->found = row.found;
	out->verified = row.found && is_true(&row.item, "isVerified");
	return ERR_NONE;
}

/* ---- codes (4) ---- */

/* Crockford's digits: none is taken for another. */
static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

static void code_make(struct context *ctx, char code[EMAIL_CODE_CHARS])
{
	uint8_t bits[EMAIL_CODE_CHARS];

	ctx->services->random(bits, sizeof(bits));
	for (int i = 0; i < EMAIL_CODE_CHARS; i++)
		code[i] = digits[bits[i] % 32];
}

/* As people type it: small letters, O for 0, I and L for 1. */
static struct bytes code_clean(struct arena *a, struct bytes typed)
{
	char *out = arena_alloc(a, typed.len);

	for (size_t i = 0; i < typed.len; i++) {
		char c = typed.data[i] >= 'a' && typed.data[i] <= 'z' ? (char)(typed.data[i] - 'a' + 'A')
		                                                      : typed.data[i];

		out[i] = c == 'O' ? '0' : c == 'I' || c == 'L' ? '1' : c;
	}
	return (struct bytes){out, typed.len};
}

/* Of one address: the same code for another has another hash. */
static struct bytes code_hash(struct context *ctx, struct bytes email_id, struct bytes code)
{
	return identifier_hash_text(
	        &ctx->services->identifiers, ctx->arena, "email-code",
	        arena_printf(ctx->arena, "%.*s\n%.*s", BYTES_ARG(email_id), BYTES_ARG(code)));
}

static void code_drop(struct row *row)
{
	row_remove(row, "codeHash");
	row_remove(row, "codeExpires");
	row_remove(row, "codeTries");
}

/* A new code for the address of that row, in the place of the one before. It ends with the claim at the latest. */
static void code_give(struct context *ctx, struct row *row, struct bytes email_id, int64_t claim_ends_s,
                      struct email_claim *out)
{
	int64_t ends_s = ctx->now_s + EMAIL_CODE_S;

	code_make(ctx, out->code);
	out->code_expires_s = claim_ends_s > 0 && claim_ends_s < ends_s ? claim_ends_s : ends_s;
	row_set_text(row, "codeHash", code_hash(ctx, email_id, (struct bytes){out->code, EMAIL_CODE_CHARS}));
	row_set_i64(row, "codeExpires", out->code_expires_s);
	row_set_i64(row, "codeTries", 0);
	out->email = email_put(ctx, row);
}

/* ---- adding ---- */

static enum err_code taken(struct err *err)
{
	return err_field(err, ERR_EMAIL_TAKEN, "email", "Email not available");
}

/* (3) The user claimed it before: another code, and the end stays. */
static enum err_code claim_again(struct context *ctx, const struct user *u, struct bytes email_id,
                                 struct email_claim *out, struct err *err)
{
	struct looked old;
	struct row    row;

	if (email_look(ctx, u->id, email_id, &old, err) != ERR_NONE)
		return err->code;
	if (!old.found || is_true(&old.item, "isVerified"))
		return taken(err);
	out->again = true;
	row_from(&row, ctx->arena, &old.item);
	code_give(ctx, &row, email_id, row_i64(&old.item, "ttl", 0), out);
	return ERR_NONE;
}

static void claim_new(struct context *ctx, const struct user *u, struct bytes email, struct email_claim *out)
{
	struct bytes id = user_id_make(ctx), pk = user_key(ctx->arena, u->id);
	struct row   row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "SK", email_key(ctx->arena, id));
	row_set_text(&row, "GSI1PK", email_key(ctx->arena, email));
	row_set_text(&row, "GSI1SK", pk);
	row_set_text(&row, "email", email);
	row_set(&row, "isVerified", value_bool(false));
	row_set(&row, "isPrimary", value_bool(false));
	row_set_text(&row, "createdAt", user_time(ctx->arena, ctx->now_us));
	row_set_i64(&row, "ttl", ctx->now_s + EMAIL_CLAIM_S);
	code_give(ctx, &row, id, ctx->now_s + EMAIL_CLAIM_S, out);
	marker_put(ctx, u->id, &out->email, out->email.expires_s);
	publish(ctx, EVENT_EMAIL_ADDED, u->id, id);
}

enum err_code user_email_claim(struct context *ctx, const struct user *u, struct bytes email,
                               struct email_claim *out, struct err *err)
{
	struct looked marker;

	*out = (struct email_claim){0};
	if (marker_look(ctx, email, &marker, err) != ERR_NONE)
		return err->code;
	if (marker.found && bytes_equal(row_text(&marker.item, "userId"), u->id))
		return claim_again(ctx, u, row_text(&marker.item, "emailId"), out, err);
	if (marker.found)
		return taken(err);
	claim_new(ctx, u, email, out);
	return ERR_NONE;
}

/* (5) The profile is read before the addresses are counted, and changed if one is added. */
enum err_code user_email_add(struct context *ctx, struct bytes user, struct bytes email,
                             struct email_claim *out, struct err *err)
{
	struct user_emails emails;
	struct user        u;
	struct row         row;

	if (user_take(ctx, user, &(struct user_match){0}, &u, err) != ERR_NONE ||
	    emails_query(ctx, user, &emails, err) != ERR_NONE ||
	    user_email_claim(ctx, &u, email, out, err) != ERR_NONE)
		return err->code;
	if (out->again)
		return ERR_NONE;
	if (emails.count >= USER_EMAILS_MAX)
		return err_field(err, ERR_LIMIT, "email", "email: a user has at most %d addresses",
		                 USER_EMAILS_MAX);
	row_from(&row, ctx->arena, &u.row);
	row_set_i64(&row, "emailsVersion", row_i64(&u.row, "emailsVersion", 0) + 1);
	ctx_put(ctx, TABLE_USERS, row_item(&row));
	return ERR_NONE;
}

/* ---- verifying ---- */

static enum err_code entry_wrong(struct context *ctx, const struct user_email *e, struct email_verdict *out)
{
	int64_t    tries = row_i64(&e->row, "codeTries", 0) + 1;
	struct row row;

	row_from(&row, ctx->arena, &e->row);
	row_set_i64(&row, "codeTries", tries);
	if (tries >= EMAIL_CODE_TRIES_MAX)
		code_drop(&row);
	out->outcome = ENTRY_WRONG;
	out->tries_left = tries >= EMAIL_CODE_TRIES_MAX ? 0 : (unsigned)(EMAIL_CODE_TRIES_MAX - tries);
	out->email = email_put(ctx, &row);
	return ERR_NONE;
}

/* The user's rows say that this address is the primary one. */
static void prefer(struct context *ctx, struct user *u, struct row *email, const struct user_email *e)
{
	struct row profile;

	row_set(email, "isPrimary", value_bool(true));
	row_from(&profile, ctx->arena, &u->row);
	row_set_text(&profile, "email", e->email);
	row_set_text(&profile, "primaryEmailId", e->id);
	row_set_text(&profile, "GSI1PK", email_key(ctx->arena, e->email));
	row_set_text(&profile, "GSI1SK", user_key(ctx->arena, u->id));
	user_put(ctx, u, &profile);
}

/* (1), (2): the first that is verified becomes the primary one. */
static enum err_code entry_right(struct context *ctx, struct user *u, const struct user_email *e,
                                 struct email_verdict *out, struct err *err)
{
	bool          first = u->email_id.len == 0;
	struct looked marker;
	struct row    row;

	if (marker_look(ctx, e->email, &marker, err) != ERR_NONE)
		return err->code;
	if (!marks(&marker, u->id, e->id))
		return taken(err);
	row_from(&row, ctx->arena, &e->row);
	code_drop(&row);
	row_remove(&row, "ttl");
	row_set(&row, "isVerified", value_bool(true));
	row_set_text(&row, "verifiedAt", user_time(ctx->arena, ctx->now_us));
	if (first)
		prefer(ctx, u, &row, e);
	out->outcome = ENTRY_RIGHT;
	out->email = email_put(ctx, &row);
	marker_put(ctx, u->id, e, 0);
	publish(ctx, EVENT_EMAIL_VERIFIED, u->id, e->id);
	if (first)
		publish(ctx, EVENT_EMAIL_PRIMARY_CHANGED, u->id, e->id);
	return ERR_NONE;
}

enum err_code user_email_verify(struct context *ctx, const struct email_entry *q, struct email_verdict *out,
                                struct err *err)
{
	struct user_email e;
	struct user       u;
	struct bytes      kept;

	if (user_take(ctx, q->user, &(struct user_match){0}, &u, err) != ERR_NONE ||
	    email_get(ctx, q, &e, err) != ERR_NONE)
		return err->code;
	*out = (struct email_verdict){.outcome = ENTRY_NO_CODE, .email = e};
	kept = row_text(&e.row, "codeHash");
	if (kept.len == 0 || row_expired(&e.row, "codeExpires", ctx->now_us))
		return ERR_NONE;
	if (!crypto_equal(kept, code_hash(ctx, e.id, code_clean(ctx->arena, q->code))))
		return entry_wrong(ctx, &e, out);
	return entry_right(ctx, &u, &e, out, err);
}

/* ---- removing, and which one is primary ---- */

enum err_code user_email_remove(struct context *ctx, const struct email_entry *q, struct err *err)
{
	struct user_email e;
	struct user       u;
	struct looked     marker;

	if (user_take(ctx, q->user, &(struct user_match){0}, &u, err) != ERR_NONE ||
	    email_get(ctx, q, &e, err) != ERR_NONE || marker_look(ctx, e.email, &marker, err) != ERR_NONE)
		return err->code;
	if (e.primary || bytes_equal(u.email_id, e.id))
		return err_field(
		        err, ERR_NOT_NOW, "emailId",
		        "emailId: the primary address cannot be removed; make another one primary first");
	ctx_delete(ctx, TABLE_USERS,
	           row_key_two(ctx->arena, user_key(ctx->arena, u.id), email_key(ctx->arena, e.id)));
	if (marks(&marker, u.id, e.id))
		ctx_delete(ctx, TABLE_USERS, row_key_two(ctx->arena, marker.pk, marker.sk));
	publish(ctx, EVENT_EMAIL_REMOVED, u.id, e.id);
	return ERR_NONE;
}

/* The one that was primary is so no longer. */
static enum err_code unprefer(struct context *ctx, const struct user *u, struct err *err)
{
	struct looked old;
	struct row    row;

	if (u->email_id.len == 0)
		return ERR_NONE;
	if (email_look(ctx, u->id, u->email_id, &old, err) != ERR_NONE)
		return err->code;
	if (!old.found)
		return ERR_NONE;
	row_from(&row, ctx->arena, &old.item);
	row_set(&row, "isPrimary", value_bool(false));
	email_put(ctx, &row);
	return ERR_NONE;
}

enum err_code user_email_prefer(struct context *ctx, const struct email_entry *q,
                                const struct user_match *match, struct user *out, struct err *err)
{
	struct user_email e;
	struct row        row;

	if (user_take(ctx, q->user, match, out, err) != ERR_NONE || email_get(ctx, q, &e, err) != ERR_NONE)
		return err->code;
	if (!e.verified)
		return err_field(err, ERR_NOT_NOW, "emailId", "emailId: the address must be verified first");
	if (bytes_equal(out->email_id, e.id))
		return ERR_NONE;
	if (unprefer(ctx, out, err) != ERR_NONE)
		return err->code;
	row_from(&row, ctx->arena, &e.row);
	prefer(ctx, out, &row, &e);
	email_put(ctx, &row);
	publish(ctx, EVENT_EMAIL_PRIMARY_CHANGED, out->id, e.id);
	return ERR_NONE;
}
