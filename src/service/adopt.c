/* Adopting: see adopt.h. A step takes several rows, each of another user and address: of two that want the same address, or are of one user, the
 * second waits for the next step and sees the first. */
#include "service/adopt.h"

#include "service/alias.h"
#include "service/cursor.h"
#include "service/row.h"
#include "service/scan.h"
#include "service/user.h"
#include "service/user_policy.h"

#define KEY_USER  "USER#"
#define KEY_EMAIL "EMAIL#"

/* ---- an address ---- */

struct stray {
	struct item  row;
	struct bytes user, id;
	struct bytes email; /* normalised; empty: it is none */
	struct bytes typed; /* (7) of user_email.h */
	bool         verified, primary, claims_marker;
	bool         unstated; /* whether it is verified */
};

static struct bytes behind(struct bytes key, const char *prefix)
{
	size_t len = strlen(prefix);

	return bytes_starts_with(key, bytes_of(prefix)) ? (struct bytes){key.data + len, key.len - len}
	                                                : (struct bytes){NULL, 0};
}

static bool is_true(const struct item *row, const char *name)
{
	const struct value *v = item_get(row, bytes_of(name));

	return v != NULL && v->type == VALUE_BOOL && v->truth;
}

static struct bytes normalised(struct arena *a, struct bytes email)
{
	char   normal[EMAIL_NORMAL_BYTES_MAX];
	size_t len = email.len == 0 || email.len > EMAIL_BYTES_MAX ? 0 : email_normalise(email, normal);

	return len == 0 || len > USER_EMAIL_BYTES_MAX ? (struct bytes){NULL, 0}
	                                              : arena_copy(a, (struct bytes){normal, len});
}

/* (2) */
static struct stray stray_of(struct context *ctx, const struct item *row)
{
	struct stray s = {.row = *row,
	                  .user = behind(row_text(row, "PK"), KEY_USER),
	                  .id = behind(row_text(row, "SK"), KEY_EMAIL),
	                  .email = normalised(ctx->arena, row_text(row, "email")),
	                  .verified = is_true(row, "isVerified"),
	                  .primary = is_true(row, "isPrimary"),
	                  .unstated = item_get(row, BYTES("isVerified")) == NULL};

	s.typed = row_text(row, EMAIL_TYPED);
	if (s.typed.len == 0 && s.email.len > 0)
		s.typed = email_typed_beside(row_text(row, "email"), s.email);
	s.claims_marker =
	        s.verified || (item_get(row, BYTES("GSI1PK")) != NULL && !ctx->services->claims_verified);
	return s;
}

static struct bytes email_key(struct arena *a, struct bytes text)
{
	return arena_printf(a, KEY_EMAIL "%.*s", BYTES_ARG(text));
}

static void typed_set(struct row *row, struct bytes typed)
{
	if (typed.len > 0)
		row_set_text(row, EMAIL_TYPED, typed);
	else
		row_remove(row, EMAIL_TYPED);
}

/* The row as it should be. */
static struct item row_right(struct context *ctx, const struct stray *s, bool primary)
{
	struct row row;

	row_from(&row, ctx->arena, &s->row);
	row_set_text(&row, "email", s->email);
	typed_set(&row, s->typed);
	row_set(&row, "isVerified", value_bool(s->verified));
	row_set(&row, "isPrimary", value_bool(primary));
	if (s->claims_marker) {
		row_set_text(&row, "GSI1PK", email_key(ctx->arena, s->email));
		row_set_text(&row, "GSI1SK", user_key(ctx->arena, s->user));
	} else {
		row_remove(&row, "GSI1PK");
		row_remove(&row, "GSI1SK");
	}
	if (s->verified)
		row_remove(&row, "ttl");
	else if (row_i64(&s->row, "ttl", 0) <= 0)
		row_set_i64(&row, "ttl", ctx->now_s + user_bounds_now(&ctx->services->users).claim_s);
	return row_item(&row);
}

static struct item marker_right(struct context *ctx, const struct stray *s, const struct item *address)
{
	int64_t    ttl = row_i64(address, "ttl", 0);
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", email_key(ctx->arena, s->email));
	row_set_text(&row, "SK", BYTES("MARKER"));
	row_set_text(&row, "userId", s->user);
	row_set_text(&row, "emailId", s->id);
	typed_set(&row, s->typed);
	if (ttl > 0)
		row_set_i64(&row, "ttl", ttl);
	return row_item(&row);
}

/* ---- what is there ---- */

struct around {
	struct looked profile, marker;
	bool          aliased; /* it is verified, and known by its id (alias.h) */
	bool          marked;  /* the marker is this address's */
	bool          taken;   /* … another one's, which is there … */
	bool          yields;  /* … and is a claim, which goes (1) */
	uint32_t primary; /* other addresses of the user that are verified and primary, if that matters */
};

static enum err_code marker_around(struct context *ctx, struct stray *s, struct around *out, struct err *err)
{
	struct bytes  user, id;
	struct looked other;

	user_marker_key(ctx->arena, s->email, &out->marker);
	if (ctx_look_in(ctx, TABLE_USERS, &out->marker, err) != ERR_NONE)
		return err->code;
	if (!out->marker.found)
		return ERR_NONE;
	user = row_text(&out->marker.item, "userId");
	id = row_text(&out->marker.item, "emailId");
	out->marked = bytes_equal(user, s->user) && bytes_equal(id, s->id);
	s->claims_marker = s->claims_marker || out->marked;
	if (out->marked)
		return ERR_NONE;
	looked_init(&other, user_key(ctx->arena, user), email_key(ctx->arena, id));
	if (ctx_look_in(ctx, TABLE_USERS, &other, err) != ERR_NONE)
		return err->code;
	out->taken = other.found &&
	             bytes_equal(normalised(ctx->arena, row_text(&other.item, "email")), s->email); /* (1) */
	out->yields = out->taken && s->verified && !is_true(&other.item, "isVerified");
	return ERR_NONE;
}

static bool is_primary(const struct item *row)
{
	return is_true(row, "isPrimary") && is_true(row, "isVerified");
}

static enum err_code primaries_query(struct context *ctx, const struct stray *s, struct around *out,
                                     struct err *err)
{
	struct expr_key_condition key = row_prefix(user_key(ctx->arena, s->user), BYTES(KEY_EMAIL));
	struct table_query        q = {.key = &key, .consistent = true};
	struct table_query_result r;

	if (ctx_query_in(ctx, TABLE_USERS, &q, &r, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < r.count; i++)
		out->primary += is_primary(&r.items[i]) &&
		                !bytes_equal(row_text(&r.items[i], "SK"), row_text(&s->row, "SK"));
	return ERR_NONE;
}

/* Only where it matters (becomes_primary). A query costs as much as there are rows that were written lately, and mostly the address that
 * the profile names is enough. */
static enum err_code primaries_around(struct context *ctx, const struct stray *s, struct around *out,
                                      struct err *err)
{
	struct bytes  named = row_text(&out->profile.item, "primaryEmailId");
	struct looked other;

	if (!s->verified || bytes_equal(named, s->id) || (named.len == 0 && s->primary))
		return ERR_NONE;
	if (named.len == 0)
		return primaries_query(ctx, s, out, err);
	looked_init(&other, user_key(ctx->arena, s->user), email_key(ctx->arena, named));
	if (ctx_look_in(ctx, TABLE_USERS, &other, err) != ERR_NONE)
		return err->code;
	out->primary = other.found && is_primary(&other.item);
	return out->primary > 0 ? ERR_NONE : primaries_query(ctx, s, out, err);
}

static enum err_code alias_around(struct context *ctx, const struct stray *s, struct around *out,
                                  struct err *err)
{
	struct aliases all;
	struct bytes   id;
	struct looked  owner;

	out->aliased = true;
	if (!s->verified || !out->profile.found || !alias_of_email(ctx, s->email, &id))
		return ERR_NONE;
	alias_owner_key(ctx->arena, id, &owner);
	if (ctx_look_in(ctx, TABLE_USERS, &owner, err) != ERR_NONE)
		return err->code;
	out->aliased = aliases_of(ctx->arena, &out->profile.item, &all) && aliases_have(&all, id) &&
	               owner.found && bytes_equal(row_text(&owner.item, "userId"), s->user);
	return ERR_NONE;
}

/* The profile is read first: whoever changes a user's addresses changes it too. */
static enum err_code look_around(struct context *ctx, struct stray *s, struct around *out, struct err *err)
{
	*out = (struct around){0};
	user_profile_key(ctx->arena, s->user, &out->profile);
	if (ctx_look_in(ctx, TABLE_USERS, &out->profile, err) != ERR_NONE ||
	    (s->email.len > 0 && marker_around(ctx, s, out, err) != ERR_NONE) ||
	    alias_around(ctx, s, out, err) != ERR_NONE)
		return err->code;
	return primaries_around(ctx, s, out, err);
}

static bool is_erasing(const struct around *x)
{
	return x->profile.found && user_status_of(&x->profile.item) == USER_ERASING;
}

/* (3) Is it to be the primary one? A user whose profile names this address keeps it. */
static bool becomes_primary(const struct stray *s, const struct around *x)
{
	struct bytes named = row_text(&x->profile.item, "primaryEmailId");

	if (!s->verified)
		return false;
	if (named.len > 0 && (x->primary > 0 || bytes_equal(named, s->id)))
		return bytes_equal(named, s->id);
	return s->primary || x->primary == 0;
}

static bool names_primary(const struct item *profile, const struct stray *s, struct arena *a)
{
	return bytes_equal(row_text(profile, "email"), s->email) &&
	       bytes_equal(row_text(profile, EMAIL_TYPED), s->typed) &&
	       bytes_equal(row_text(profile, "primaryEmailId"), s->id) &&
	       bytes_equal(row_text(profile, "GSI1PK"), email_key(a, s->email)) &&
	       bytes_equal(row_text(profile, "GSI1SK"), user_key(a, s->user));
}

/* What is to be written. */
struct repair {
	struct item row, marker;
	bool        changes_row, writes_marker, changes_profile, adds_alias;
	bool        primary;
};

static struct repair repair_of(struct context *ctx, const struct stray *s, const struct around *x)
{
	struct repair r = {.primary = becomes_primary(s, x), .adds_alias = !x->aliased};

	r.row = row_right(ctx, s, r.primary);
	r.changes_row = !item_equal(&r.row, &s->row);
	r.marker = marker_right(ctx, s, &r.row);
	r.writes_marker = s->claims_marker && (!x->marker.found || !item_equal(&x->marker.item, &r.marker));
	r.changes_profile = r.primary && !names_primary(&x->profile.item, s, ctx->arena);
	return r;
}

static bool is_needed(const struct repair *r)
{
	return r->changes_row || r->writes_marker || r->changes_profile || r->adds_alias;
}

/* ---- finding ---- */

/* Ids that are none of ours cannot be named, neither in a cursor nor in a report. */
static bool wanted(struct context *ctx, const void *arg, const struct item *row)
{
	struct stray  s = stray_of(ctx, row);
	struct around x;
	struct repair r;
	struct err    err;

	(void)arg;
	if (!user_id_is(s.user) || !user_id_is(s.id) || row_expired(row, "ttl", ctx->now_us))
		return false;
	if (look_around(ctx, &s, &x, &err) != ERR_NONE || is_erasing(&x))
		return false;
	if (s.email.len == 0 || !x.profile.found || s.unstated)
		return true;
	r = repair_of(ctx, &s, &x);
	return is_needed(&r);
}

static enum err_code adopt_fetch(struct context *ctx, const struct job *job, void **out, struct err *err)
{
	struct scan q = {.table = TABLE_USERS,
	                 .page = ADOPT_PAGE,
	                 .found_max = SCAN_FOUND_MAX,
	                 .from = job->cursor,
	                 .wanted = wanted};

	*out = arena_alloc(ctx->arena, sizeof(struct scan_found));
	return scan_read(ctx, &q, *out, err);
}

/* ---- repairing ---- */

/* Counted, and named by its ids. */
static void report(struct context *ctx, struct job *job, const char *what, const struct stray *s)
{
	const struct value *old = item_get(&job->args, bytes_of(what));
	uint32_t            count = old != NULL && old->type == VALUE_L ? old->list.count : 0;
	struct value_list   list = {arena_array(ctx->arena, count + 1, sizeof(struct value)), count};
	struct value        value = {.type = VALUE_L};

	job_count(ctx, job, what, 1);
	if (count >= ADOPT_REPORTED_MAX)
		return;
	if (count > 0)
		memcpy(list.items, old->list.items, count * sizeof(struct value));
	list.items[list.count++] =
	        value_string(arena_printf(ctx->arena, "%.*s/%.*s", BYTES_ARG(s->user), BYTES_ARG(s->id)));
	value.list = list;
	job->args = item_with(ctx->arena, &job->args, bytes_of(what), &value);
}

static enum err_code repair_write(struct context *ctx, const struct stray *s, const struct around *x,
                                  const struct repair *r, struct err *err)
{
	struct user u = {.id = s->user, .version = row_i64(&x->profile.item, "version", 0)};
	struct row  profile;

	if (x->yields && user_email_evict(ctx, &x->marker, err) != ERR_NONE)
		return err->code;
	if (r->changes_row)
		ctx_put(ctx, TABLE_USERS, r->row);
	if (r->writes_marker)
		ctx_put(ctx, TABLE_USERS, r->marker);
	row_from(&profile, ctx->arena, &x->profile.item);
	if (r->adds_alias &&
	    alias_add(ctx, &(struct alias_change){s->user, s->email, &profile}, err) != ERR_NONE)
		return err->code;
	if (r->changes_profile) {
		row_set_text(&profile, "email", s->email);
		typed_set(&profile, s->typed);
		row_set_text(&profile, "primaryEmailId", s->id);
		row_set_text(&profile, "GSI1PK", email_key(ctx->arena, s->email));
		row_set_text(&profile, "GSI1SK", user_key(ctx->arena, s->user));
	}
	row_set_i64(&profile, "emailsVersion", row_i64(&x->profile.item, "emailsVersion", 0) + 1);
	user_put(ctx, &u, &profile);
	return ERR_NONE;
}

static enum err_code adopt_one(struct context *ctx, struct job *job, const struct item *row, struct err *err)
{
	struct stray  s = stray_of(ctx, row);
	struct around x;
	struct repair r;

	if (look_around(ctx, &s, &x, err) != ERR_NONE)
		return err->code;
	if (is_erasing(&x))
		return ERR_NONE;
	if (s.email.len == 0 || !x.profile.found || s.unstated) {
		report(ctx, job,
		       s.email.len == 0   ? "invalid"
		       : !x.profile.found ? "orphans"
		                          : "unstated",
		       &s);
		return ERR_NONE;
	}
	r = repair_of(ctx, &s, &x);
	if (!is_needed(&r))
		return ERR_NONE;
	if (s.claims_marker && x.taken && !x.yields) {
		report(ctx, job, "conflicts", &s);
		return ERR_NONE;
	}
	job_count(ctx, job, s.claims_marker && !x.marked ? "adopted" : "repaired", 1);
	return job->dry_run ? ERR_NONE : repair_write(ctx, &s, &x, &r, err);
}

/* What a step has taken on so far. */
struct taken_on {
	struct bytes users[SCAN_FOUND_MAX], emails[SCAN_FOUND_MAX];
	uint32_t     count;
	bool         full; /* the row that was looked at last is for the next step */
};

static bool is_in_the_way(const struct taken_on *all, const struct stray *s)
{
	for (uint32_t i = 0; i < all->count; i++)
		if (bytes_equal(all->users[i], s->user) || bytes_equal(all->emails[i], s->email))
			return true;
	return false;
}

static enum err_code step_one(struct context *ctx, struct job *job, struct looked *row, struct taken_on *all,
                              struct err *err)
{
	struct stray s;

	if (ctx_look_in(ctx, TABLE_USERS, row, err) != ERR_NONE)
		return err->code;
	if (!row->found)
		return ERR_NONE;
	s = stray_of(ctx, &row->item);
	all->full = all->count > 0 && (job_room(ctx) < ADOPT_ROWS_EACH || is_in_the_way(all, &s));
	if (all->full)
		return ERR_NONE;
	all->users[all->count] = s.user;
	all->emails[all->count++] = s.email;
	return adopt_one(ctx, job, &row->item, err);
}

static enum err_code adopt_step(struct context *ctx, struct job *job, void *fetched, struct err *err)
{
	const struct scan_found *f = fetched;
	struct taken_on          all = {.count = 0};
	struct looked            row;
	uint32_t                 i;

	for (i = 0; i < f->count; i++) {
		scan_key(f, TABLE_USERS, i, &row);
		if (step_one(ctx, job, &row, &all, err) != ERR_NONE)
			return err->code;
		if (all.full)
			break;
	}
	job->handled = all.full ? f->before[i] : f->read;
	job_count(ctx, job, "read", job->handled);
	job->done = f->whole && !all.full;
	job->cursor = job->done  ? (struct bytes){NULL, 0}
	              : all.full ? cursor_pack(ctx->arena, f->pk[i - 1], f->sk[i - 1])
	                         : f->next;
	return ERR_NONE;
}

const struct job_kind adopt_job = {
        .name = "adopt", .rate = ADOPT_RATE, .can_cancel = true, .fetch = adopt_fetch, .step = adopt_step};

enum err_code adopt_start(struct context *ctx, const struct job_new *terms, struct job_started *out,
                          struct err *err)
{
	static const char *const none[] = {NULL};
	struct job_new           q = *terms;

	q.kind = &adopt_job;
	q.unique = BYTES("users");
	if (job_start(ctx, &q, out, err) != ERR_NONE)
		return err->code;
	return job_started_check(out, &q, none, err);
}
