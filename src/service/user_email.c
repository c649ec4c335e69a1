/* Addresses of users: see user_email.h. */
#include "service/user_email.h"

#include "service/alias.h"
#include "service/event.h"
#include "service/revocation.h"
#include "service/row.h"
#include "service/user.h"

#define KEY_USER   "USER#"
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
	                           .typed = row_text(row, EMAIL_TYPED),
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

void user_marker_key(struct arena *a, struct bytes email, struct looked *out)
{
	looked_init(out, email_key(a, email), BYTES(KEY_MARKER));
}

static enum err_code marker_look(struct context *ctx, struct bytes email, struct looked *out, struct err *err)
{
	user_marker_key(ctx->arena, email, out);
	return ctx_look_in(ctx, TABLE_USERS, out, err);
}

/* (7) */
static void typed_set(struct row *row, struct bytes typed)
{
	if (typed.len > 0)
		row_set_text(row, EMAIL_TYPED, typed);
	else
		row_remove(row, EMAIL_TYPED);
}

static bool is_address_of_user(const struct item *row)
{
	return bytes_starts_with(row_text(row, "PK"), BYTES(KEY_USER)) &&
	       bytes_starts_with(row_text(row, "SK"), BYTES(KEY_EMAIL));
}

/* What a marker of that row would say. Without a ttl it stands for a proof: so it does for rows that do not say whether they are verified. */
static struct item marker_of_stray(struct context *ctx, const struct looked *row)
{
	const struct value *verified = item_get(&row->item, BYTES("isVerified"));
	struct row          out;

	row_init(&out, ctx->arena);
	row_set_text(&out, "userId",
	             (struct bytes){row->pk.data + strlen(KEY_USER), row->pk.len - strlen(KEY_USER)});
	row_set_text(&out, "emailId",
	             (struct bytes){row->sk.data + strlen(KEY_EMAIL), row->sk.len - strlen(KEY_EMAIL)});
	typed_set(&out, row_text(&row->item, EMAIL_TYPED));
	if (verified != NULL && !is_true(&row->item, "isVerified"))
		row_set_i64(&out, "ttl", INT32_MAX);
	return row_item(&out);
}

enum { STRAYS_MAX = 8 }; /* rows of one address: its own, and the user's profile */

/* (9) The first row of the index that is an address without a marker. The index may be late, so the row itself is looked at. */
static enum err_code stray_look(struct context *ctx, struct bytes email, struct looked *marker,
                                struct err *err)
{
	struct expr_key_condition key = {.hash_name = BYTES("GSI1PK"),
	                                 .hash = value_string(email_key(ctx->arena, email)),
	                                 .range_kind = RANGE_NONE};
	struct table_query        q = {.index = BYTES("GSI1"), .key = &key, .limit = STRAYS_MAX};
	struct table_query_result r;
	struct looked             row;
	enum err_code             rc = ctx_query_in(ctx, TABLE_USERS, &q, &r, err);

	if (rc != ERR_NONE)
		return rc == ERR_FOREIGN_TABLE ? ERR_NONE
		                               : rc; /* another program's table need not have the index */
	for (uint32_t i = 0; i < r.count && !marker->found; i++) {
		if (!is_address_of_user(&r.items[i]))
			continue;
		looked_init(&row, row_text(&r.items[i], "PK"), row_text(&r.items[i], "SK"));
		if (ctx_look_in(ctx, TABLE_USERS, &row, err) != ERR_NONE)
			return err->code;
		marker->found = row.found;
		if (row.found)
			marker->item = marker_of_stray(ctx, &row);
	}
	return ERR_NONE;
}

/* Whose the address is: by its marker, or else (9). `alike`: as long for one as for the other. */
static enum err_code holder_look(struct context *ctx, struct bytes email, bool alike, struct looked *out,
                                 struct err *err)
{
	struct looked marked;

	if (marker_look(ctx, email, out, err) != ERR_NONE)
		return err->code;
	if (out->found && !alike)
		return ERR_NONE;
	marked = *out;
	if (stray_look(ctx, email, &marked, err) != ERR_NONE)
		return err->code;
	if (!out->found)
		*out = marked;
	return ERR_NONE;
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
	typed_set(&row, e->typed);
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
	enum err_code rc = email_look(ctx, q->user, q->email_id, &row, err);

	if (rc != ERR_NONE)
		return rc;
	if (!row.found)
		return err_field(err, ERR_NOT_FOUND, "emailId", "emailId: the user has no such address");
	*out = email_of(&row.item);
	return ERR_NONE;
}

/* An event tells which address by its id. The address itself is in it only where the policy allows personal data. */
static void publish(struct context *ctx, enum event_type type, struct bytes user,
                    const struct user_email *email)
{
	struct event e = {.type = type, .subject = user};
	struct row   data;

	if (!ctx_publishes(ctx, type))
		return;
	row_init(&data, ctx->arena);
	row_set_text(&data, "emailId", email->id);
	if (email->email.len > 0 && ctx_publishes_personal(ctx, type)) {
		row_set_text(&data, "email", email->email);
		typed_set(&data, email->typed);
	}
	e.data = row_item(&data);
	ctx_publish(ctx, &e);
}

/* ---- reading ---- */

enum err_code user_emails_read(struct context *ctx, struct bytes user, struct user_emails *out,
                               struct err *err)
{
	struct expr_key_condition key = row_prefix(user_key(ctx->arena, user), BYTES(KEY_EMAIL));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;
	enum err_code             rc = ctx_query_in(ctx, TABLE_USERS, &q, &r, err);

	if (rc != ERR_NONE)
		return rc;
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
	return user_emails_read(ctx, user, out, err);
}

static bool is_claim(const struct looked *marker)
{
	return row_i64(&marker->item, "ttl", 0) > 0;
}

/* (6) Where only a proof takes an address, claims from before the setting was changed have no owner either. */
enum err_code email_owner_find(struct context *ctx, struct bytes email, struct email_owner *out,
                               struct err *err)
{
	struct looked marker, row;

	*out = (struct email_owner){0};
	if (holder_look(ctx, email, false, &marker, err) != ERR_NONE)
		return err->code;
	if (!marker.found || (is_claim(&marker) && ctx->services->claims_verified))
		return ERR_NONE;
	out->user = row_text(&marker.item, "userId");
	out->email_id = row_text(&marker.item, "emailId");
	if (email_look(ctx, out->user, out->email_id, &row, err) != ERR_NONE)
		return err->code;
	out->found = row.found;
	out->verified = row.found && is_true(&row.item, "isVerified");
	out->typed = row.found ? row_text(&row.item, EMAIL_TYPED) : (struct bytes){NULL, 0};
	return ERR_NONE;
}

/* ---- adding ---- */

static enum err_code taken(struct err *err)
{
	return err_field(err, ERR_EMAIL_TAKEN, "email", "Email not available");
}

/* One address that is being added. */
struct adding {
	struct context           *ctx;
	const struct email_add   *q;
	const struct user_policy *policy;
	struct looked             marker;
	bool                      marks; /* the claim takes the address (1) */
	struct email_claim       *out;
};

/* (6) Does a marker that is not this user's stand in the way? */
static bool is_held(struct context *ctx, const struct looked *marker)
{
	return marker->found && !(is_claim(marker) && ctx->services->claims_verified);
}

/* (4) In the place of the one before. It ends with the claim at the latest. */
static void code_give(const struct adding *a, struct row *row, struct bytes email_id, int64_t claim_ends_s)
{
	int64_t          ends_s = a->ctx->now_s + a->policy->code_s;
	struct code_kept kept = {email_id, claim_ends_s > 0 && claim_ends_s < ends_s ? claim_ends_s : ends_s};

	code_make(a->ctx, a->policy->code_chars, &a->out->code);
	code_keep(a->ctx, row, &a->out->code, &kept);
	a->out->code_expires_s = kept.ends_s;
	a->out->email = email_put(a->ctx, row);
}

static void index_set(struct context *ctx, struct row *row, struct bytes user, struct bytes email)
{
	row_set_text(row, "GSI1PK", email_key(ctx->arena, email));
	row_set_text(row, "GSI1SK", user_key(ctx->arena, user));
}

/* (3) The user claimed it before: another code, and the end stays. A claim without a marker takes the address if it can. */
static enum err_code claim_again(const struct adding *a, struct bytes email_id, struct err *err)
{
	struct looked old;
	struct row    row;
	int64_t       ends_s;

	if (email_look(a->ctx, a->q->user, email_id, &old, err) != ERR_NONE)
		return err->code;
	if (!old.found || is_true(&old.item, "isVerified"))
		return taken(err);
	ends_s = row_i64(&old.item, "ttl", 0);
	a->out->again = true;
	row_from(&row, a->ctx->arena, &old.item);
	typed_set(&row, a->q->typed);
	if (a->marks && !a->marker.found)
		index_set(a->ctx, &row, a->q->user, a->q->email);
	code_give(a, &row, email_id, ends_s);
	if ((a->marks && !a->marker.found) ||
	    (marks(&a->marker, a->q->user, email_id) &&
	     !bytes_equal(row_text(&a->marker.item, EMAIL_TYPED), a->q->typed)))
		marker_put(a->ctx, a->q->user, &a->out->email, ends_s);
	return ERR_NONE;
}

static void claim_new(const struct adding *a)
{
	struct bytes id = user_id_make(a->ctx);
	int64_t      ends_s = a->ctx->now_s + a->policy->claim_s;
	struct row   row;

	row_init(&row, a->ctx->arena);
	row_set_text(&row, "PK", user_key(a->ctx->arena, a->q->user));
	row_set_text(&row, "SK", email_key(a->ctx->arena, id));
	if (a->marks)
		index_set(a->ctx, &row, a->q->user, a->q->email);
	row_set_text(&row, "email", a->q->email);
	typed_set(&row, a->q->typed);
	row_set(&row, "isVerified", value_bool(false));
	row_set(&row, "isPrimary", value_bool(false));
	row_set_text(&row, "createdAt", user_time(a->ctx->arena, a->ctx->now_us));
	row_set_i64(&row, "ttl", ends_s);
	code_give(a, &row, id, ends_s);
	if (a->marks)
		marker_put(a->ctx, a->q->user, &a->out->email, ends_s);
}

void user_email_claimed(struct context *ctx, struct bytes user, const struct email_claim *claim)
{
	publish(ctx, EVENT_EMAIL_ADDED, user, &claim->email);
}

/* Counts the request, and looks whose the address is. Refused: nothing more is to be done. */
static enum err_code adding_begin(struct adding *a, struct context *ctx, const struct email_add *q,
                                  struct email_claim *out, struct err *err)
{
	const struct code_subject who = {q->user, q->email};
	bool                      neutral = q->terms != NULL && q->terms->neutral;

	*out = (struct email_claim){0};
	*a = (struct adding){.ctx = ctx, .q = q, .policy = email_policy(q->terms), .out = out};
	a->marks = !neutral && !ctx->services->claims_verified;
	if (code_request_count(ctx, q->terms, &who, &out->standing, err) != ERR_NONE ||
	    holder_look(ctx, q->email, neutral, &a->marker, err) != ERR_NONE)
		return err->code;
	if (out->standing.refused || bytes_equal(row_text(&a->marker.item, "userId"), q->user) ||
	    !is_held(ctx, &a->marker))
		return ERR_NONE;
	if (!neutral)
		return taken(err);
	out->hidden = true;
	out->owner_typed = row_text(&a->marker.item, EMAIL_TYPED);
	if (!is_claim(&a->marker))
		out->owner = row_text(&a->marker.item, "userId");
	return ERR_NONE;
}

enum err_code user_email_claim(struct context *ctx, const struct email_add *q, struct email_claim *out,
                               struct err *err)
{
	struct adding a;

	if (adding_begin(&a, ctx, q, out, err) != ERR_NONE)
		return err->code;
	if (!out->standing.refused)
		claim_new(&a);
	return ERR_NONE;
}

static const struct user_email *claim_find(const struct user_emails *emails, struct bytes email)
{
	for (uint32_t i = 0; i < emails->count; i++)
		if (bytes_equal(emails->list[i].email, email))
			return &emails->list[i];
	return NULL;
}

/* (5) The profile is read before the addresses are counted, and changed if one is added. */
enum err_code user_email_add(struct context *ctx, const struct email_add *q, struct email_claim *out,
                             struct err *err)
{
	const struct user_email *own;
	struct user_emails       emails;
	struct user              u;
	struct adding            a;
	struct row               row;

	if (user_take(ctx, q->user, &(struct user_match){0}, &u, err) != ERR_NONE ||
	    user_emails_read(ctx, q->user, &emails, err) != ERR_NONE ||
	    adding_begin(&a, ctx, q, out, err) != ERR_NONE)
		return err->code;
	if (out->standing.refused)
		return ERR_NONE;
	own = claim_find(&emails, q->email);
	if (own != NULL)
		return claim_again(&a, own->id, err);
	if (emails.count >= a.policy->emails_max)
		return err_field(err, ERR_LIMIT, "email", "email: a user has at most %u addresses",
		                 a.policy->emails_max);
	claim_new(&a);
	user_email_claimed(ctx, q->user, out);
	row_from(&row, ctx->arena, &u.row);
	row_set_i64(&row, "emailsVersion", row_i64(&u.row, "emailsVersion", 0) + 1);
	ctx_put(ctx, TABLE_USERS, row_item(&row));
	return ERR_NONE;
}

/* ---- verifying ---- */

/* (8) */
static bool is_one_mailbox(struct bytes email)
{
	char normal[EMAIL_NORMAL_BYTES_MAX];

	return email_normalise(email, normal) > 0;
}

static void entry_wrong(struct context *ctx, const struct email_entry *q, struct email_verdict *out)
{
	int64_t    tries = row_i64(&out->email.row, "codeTries", 0) + 1;
	int64_t    most = email_policy(q->terms)->code_tries;
	struct row row;

	row_from(&row, ctx->arena, &out->email.row);
	row_set_i64(&row, "codeTries", tries);
	if (tries >= most)
		code_drop(&row);
	out->outcome = ENTRY_WRONG;
	out->tries_left = tries >= most ? 0 : (unsigned)(most - tries);
	out->email = email_put(ctx, &row);
}

/* The rows of a user and of its address say that this one is primary. */
static void prefer_in(struct context *ctx, struct row *profile, struct bytes user, struct row *email,
                      const struct user_email *e)
{
	row_set(email, "isPrimary", value_bool(true));
	row_set_text(profile, "email", e->email);
	typed_set(profile, e->typed);
	row_set_text(profile, "primaryEmailId", e->id);
	index_set(ctx, profile, user, e->email);
}

static void prefer(struct context *ctx, struct user *u, struct row *email, const struct user_email *e)
{
	struct row profile;

	row_from(&profile, ctx->arena, &u->row);
	prefer_in(ctx, &profile, u->id, email, e);
	user_put(ctx, u, &profile);
}

static void claim_delete(struct context *ctx, struct bytes user, const struct user_email *e)
{
	ctx_delete(ctx, TABLE_USERS,
	           row_key_two(ctx->arena, user_key(ctx->arena, user), email_key(ctx->arena, e->id)));
	publish(ctx, EVENT_EMAIL_REMOVED, user, e);
}

/* (6) A proof takes the place of a claim, whose row goes with its marker (1). */
enum err_code user_email_evict(struct context *ctx, const struct looked *marker, struct err *err)
{
	struct bytes  user = row_text(&marker->item, "userId"), email_id = row_text(&marker->item, "emailId");
	struct looked other;

	if (email_look(ctx, user, email_id, &other, err) != ERR_NONE)
		return err->code;
	if (other.found && !is_true(&other.item, "isVerified")) {
		struct user_email claim = email_of(&other.item);

		claim_delete(ctx, user, &claim);
	}
	return ERR_NONE;
}

/* (2) The first that is verified becomes the primary one. Without one, the profile changes too, but has no new version: nothing that is shown
 * of it does. */
static enum err_code entry_take(struct context *ctx, struct user *u, struct email_verdict *out,
                                struct err *err)
{
	const struct user_email e = out->email;
	bool                    first = u->email_id.len == 0;
	struct row              row, profile;

	row_from(&profile, ctx->arena, &u->row);
	if (alias_add(ctx, &(struct alias_change){u->id, e.email, &profile}, err) != ERR_NONE)
		return err->code;
	row_from(&row, ctx->arena, &e.row);
	code_drop(&row);
	row_remove(&row, "ttl");
	row_set(&row, "isVerified", value_bool(true));
	row_set_text(&row, "verifiedAt", user_time(ctx->arena, ctx->now_us));
	index_set(ctx, &row, u->id, e.email);
	if (first)
		prefer_in(ctx, &profile, u->id, &row, &e);
	if (first)
		user_put(ctx, u, &profile);
	else
		ctx_put(ctx, TABLE_USERS, row_item(&profile));
	out->outcome = ENTRY_RIGHT;
	out->email = email_put(ctx, &row);
	marker_put(ctx, u->id, &e, 0);
	publish(ctx, EVENT_EMAIL_VERIFIED, u->id, &e);
	if (first)
		publish(ctx, EVENT_EMAIL_PRIMARY_CHANGED, u->id, &e);
	return ERR_NONE;
}

/* (1), (6) */
static enum err_code entry_right(struct context *ctx, struct user *u, struct email_verdict *out,
                                 struct err *err)
{
	struct looked marker;

	if (holder_look(ctx, out->email.email, false, &marker, err) != ERR_NONE)
		return err->code;
	if (!marks(&marker, u->id, out->email.id) && is_held(ctx, &marker)) {
		out->outcome = ENTRY_LOST;
		claim_delete(ctx, u->id, &out->email);
		return ERR_NONE;
	}
	if (marker.found && !marks(&marker, u->id, out->email.id) &&
	    user_email_evict(ctx, &marker, err) != ERR_NONE)
		return err->code;
	return entry_take(ctx, u, out, err);
}

enum err_code user_email_verify(struct context *ctx, const struct email_entry *q, struct email_verdict *out,
                                struct err *err)
{
	struct user       u;
	struct code_entry entry = {.who.user = q->user};
	bool              kept;

	*out = (struct email_verdict){.outcome = ENTRY_NO_CODE};
	if (user_take(ctx, q->user, &(struct user_match){0}, &u, err) != ERR_NONE ||
	    email_get(ctx, q, &out->email, err) != ERR_NONE)
		return err->code;
	if (out->email.verified)
		return ERR_NONE;
	kept = code_is_kept(ctx, &out->email.row) && is_one_mailbox(out->email.email);
	entry.who.email = out->email.email;
	entry.right = kept && code_matches(ctx, &out->email.row, out->email.id, q->code);
	if (code_entry_count(ctx, q->terms, &entry, &out->standing, err) != ERR_NONE)
		return err->code;
	if (out->standing.refused || !kept)
		return ERR_NONE;
	if (entry.right)
		return entry_right(ctx, &u, out, err);
	entry_wrong(ctx, q, out);
	return ERR_NONE;
}

/* ---- trusting somebody else's verification ---- */

static struct bytes time_or_now(struct context *ctx, struct bytes time)
{
	return time.len > 0 ? time : user_time(ctx->arena, ctx->now_us);
}

/* One that the user has not, as it will be written; its profile changes with it (5). */
static void trust_new(struct context *ctx, struct email_trust *t, struct row *row)
{
	struct bytes id = t->wanted_id.len > 0 ? t->wanted_id : user_id_make(ctx);

	row_init(row, ctx->arena);
	row_set_text(row, "PK", user_key(ctx->arena, t->user->id));
	row_set_text(row, "SK", email_key(ctx->arena, id));
	row_set_text(row, "email", t->email);
	row_set(row, "isPrimary", value_bool(false));
	row_set_text(row, "createdAt", time_or_now(ctx, t->created_at));
	row_set_i64(t->profile, "emailsVersion", row_i64(&t->user->row, "emailsVersion", 0) + 1);
	t->added = true;
}

/* (1), (2) */
static enum err_code trust_put(struct context *ctx, struct email_trust *t, struct row *row, struct err *err)
{
	struct user_email e;
	struct item       item;

	if (alias_add(ctx, &(struct alias_change){t->user->id, t->email, t->profile}, err) != ERR_NONE)
		return err->code;
	code_drop(row);
	row_remove(row, "ttl");
	typed_set(row, t->typed);
	index_set(ctx, row, t->user->id, t->email);
	row_set(row, "isVerified", value_bool(true));
	row_set_text(row, "verifiedAt", time_or_now(ctx, t->verified_at));
	item = row_item(row);
	e = email_of(&item);
	t->id = e.id;
	t->changed = t->verified = true;
	t->primary = t->prefer || t->user->email_id.len == 0;
	if (t->primary)
		prefer_in(ctx, t->profile, t->user->id, row, &e);
	e = email_put(ctx, row);
	marker_put(ctx, t->user->id, &e, 0);
	return ERR_NONE;
}

void user_email_trusted(struct context *ctx, const struct email_trust *t)
{
	const struct user_email e = {.id = t->id, .email = t->email, .typed = t->typed};

	if (t->added)
		publish(ctx, EVENT_EMAIL_ADDED, t->user->id, &e);
	if (t->verified)
		publish(ctx, EVENT_EMAIL_VERIFIED, t->user->id, &e);
	if (t->primary)
		publish(ctx, EVENT_EMAIL_PRIMARY_CHANGED, t->user->id, &e);
	if (t->dropped.id.len > 0)
		publish(ctx, EVENT_EMAIL_REMOVED, t->user->id, &t->dropped);
}

/* The row of a user's own claim or address, read by its key; not found if it has none. */
static enum err_code own_look(struct context *ctx, const struct email_trust *t, struct looked *out,
                              struct err *err)
{
	uint32_t                 emails_max = user_bounds_now(&ctx->services->users).emails_max;
	const struct user_email *own;
	struct user_emails       emails;

	*out = (struct looked){.found = false};
	if (user_emails_read(ctx, t->user->id, &emails, err) != ERR_NONE)
		return err->code;
	own = claim_find(&emails, t->email);
	if (own != NULL)
		return email_look(ctx, t->user->id, own->id, out, err);
	return emails.count < emails_max + (t->replaces.len > 0)
	               ? ERR_NONE
	               : err_field(err, ERR_LIMIT, "email", "email: a user has at most %u addresses",
	                           emails_max);
}

/* The address goes, with its marker, its alias in the profile, which the caller writes, and the tokens in its name. The caller publishes
 * that. */
static enum err_code address_drop(struct context *ctx, struct bytes user, const struct user_email *e,
                                  struct row *profile, struct err *err)
{
	struct looked marker;

	if (marker_look(ctx, e->email, &marker, err) != ERR_NONE)
		return err->code;
	ctx_delete(ctx, TABLE_USERS,
	           row_key_two(ctx->arena, user_key(ctx->arena, user), email_key(ctx->arena, e->id)));
	if (marks(&marker, user, e->id))
		ctx_delete(ctx, TABLE_USERS, row_key_two(ctx->arena, marker.pk, marker.sk));
	if (!e->verified)
		return ERR_NONE;
	if (alias_remove(ctx, &(struct alias_change){user, e->email, profile}, err) != ERR_NONE)
		return err->code;
	return revocation_add_address(
	        ctx, identifier_of_row_email(&ctx->services->identifiers, ctx->arena, e->email),
	        BYTES("address removed"), err);
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

/* What the address takes the place of: as the primary one, and altogether. */
static enum err_code others_yield(struct context *ctx, struct email_trust *t, struct err *err)
{
	bool          replaces = t->replaces.len > 0 && !bytes_equal(t->replaces, t->id);
	struct looked old;

	if (t->primary && !(replaces && bytes_equal(t->user->email_id, t->replaces)) &&
	    unprefer(ctx, t->user, err) != ERR_NONE)
		return err->code;
	if (!replaces)
		return ERR_NONE;
	if (email_look(ctx, t->user->id, t->replaces, &old, err) != ERR_NONE)
		return err->code;
	if (!old.found)
		return ERR_NONE;
	t->changed = true;
	t->dropped = email_of(&old.item);
	return address_drop(ctx, t->user->id, &t->dropped, t->profile, err);
}

/* The user has it, verified, and as it was typed then. */
static enum err_code trust_known(struct context *ctx, struct email_trust *t, const struct item *old,
                                 struct err *err)
{
	const struct user_email e = email_of(old);
	struct row              row;

	t->id = e.id;
	t->typed = e.typed;
	t->changed = t->primary = t->prefer && !bytes_equal(t->user->email_id, e.id);
	if (t->primary) {
		row_from(&row, ctx->arena, old);
		prefer_in(ctx, t->profile, t->user->id, &row, &e);
		email_put(ctx, &row);
	}
	return others_yield(ctx, t, err);
}

/* Like a proof with a code (6). */
enum err_code user_email_trust(struct context *ctx, struct email_trust *t, struct err *err)
{
	struct looked marker, old;
	struct row    row;
	bool          others;

	t->added = t->changed = t->verified = t->primary = false;
	t->dropped = (struct user_email){0};
	if (!is_one_mailbox(t->email))
		return err_field(err, ERR_INVALID, "email", "email: not exactly one mailbox");
	if (holder_look(ctx, t->email, false, &marker, err) != ERR_NONE)
		return err->code;
	others = marker.found && !bytes_equal(row_text(&marker.item, "userId"), t->user->id);
	if (others && (t->evicts ? !is_claim(&marker) : is_held(ctx, &marker)))
		return taken(err);
	if (own_look(ctx, t, &old, err) != ERR_NONE)
		return err->code;
	if (old.found && is_true(&old.item, "isVerified"))
		return trust_known(ctx, t, &old.item, err);
	if (others && user_email_evict(ctx, &marker, err) != ERR_NONE)
		return err->code;
	if (old.found)
		row_from(&row, ctx->arena, &old.item);
	else
		trust_new(ctx, t, &row);
	if (trust_put(ctx, t, &row, err) != ERR_NONE)
		return err->code;
	return others_yield(ctx, t, err);
}

/* (3) Without a code: the user asks for one. */
static void note_new(struct context *ctx, struct email_trust *t, struct row *row)
{
	int64_t           ends_s = ctx->now_s + user_bounds_now(&ctx->services->users).claim_s;
	struct user_email e;

	trust_new(ctx, t, row);
	typed_set(row, t->typed);
	row_set(row, "isVerified", value_bool(false));
	row_set_i64(row, "ttl", ends_s);
	if (!ctx->services->claims_verified)
		index_set(ctx, row, t->user->id, t->email);
	e = email_put(ctx, row);
	t->id = e.id;
	t->changed = true;
	if (!ctx->services->claims_verified)
		marker_put(ctx, t->user->id, &e, ends_s);
}

enum err_code user_email_note(struct context *ctx, struct email_trust *t, struct err *err)
{
	struct looked marker, old;
	struct row    row;

	t->added = t->changed = t->verified = t->primary = false;
	t->dropped = (struct user_email){0};
	if (holder_look(ctx, t->email, false, &marker, err) != ERR_NONE)
		return err->code;
	if (is_held(ctx, &marker) && !bytes_equal(row_text(&marker.item, "userId"), t->user->id))
		return taken(err);
	if (own_look(ctx, t, &old, err) != ERR_NONE)
		return err->code;
	if (!old.found)
		note_new(ctx, t, &row);
	return ERR_NONE;
}

/* ---- removing, and which one is primary ---- */

enum err_code user_email_remove(struct context *ctx, const struct email_entry *q, struct err *err)
{
	struct user_email e;
	struct user       u;
	struct row        profile;

	if (user_take(ctx, q->user, &(struct user_match){0}, &u, err) != ERR_NONE ||
	    email_get(ctx, q, &e, err) != ERR_NONE)
		return err->code;
	if (e.primary || bytes_equal(u.email_id, e.id))
		return err_field(
		        err, ERR_NOT_NOW, "emailId",
		        "emailId: the primary address cannot be removed; make another one primary first");
	publish(ctx, EVENT_EMAIL_REMOVED, u.id, &e);
	row_from(&profile, ctx->arena, &u.row);
	if (address_drop(ctx, u.id, &e, &profile, err) != ERR_NONE)
		return err->code;
	if (e.verified)
		ctx_put(ctx, TABLE_USERS, row_item(&profile));
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
	if (!is_one_mailbox(e.email))
		return err_field(
		        err, ERR_NOT_NOW, "emailId",
		        "emailId: the address is not exactly one mailbox, so that it can only be removed");
	if (bytes_equal(out->email_id, e.id))
		return ERR_NONE;
	if (unprefer(ctx, out, err) != ERR_NONE)
		return err->code;
	row_from(&row, ctx->arena, &e.row);
	prefer(ctx, out, &row, &e);
	email_put(ctx, &row);
	publish(ctx, EVENT_EMAIL_PRIMARY_CHANGED, out->id, &e);
	return ERR_NONE;
}
