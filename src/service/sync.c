/* Sync: see sync.h. */
#include "service/sync.h"

#include "base/buf.h"
#include "service/dead_letter.h"
#include "service/erased.h"
#include "service/row.h"

const char *const sync_outcome_names[SYNC_OUTCOME_COUNT] = {
#define X(id, name) name,
        SYNC_OUTCOMES(X)
#undef X
};

bool sync_provider_is(struct bytes name)
{
	return name.len >= 1 && name.len <= SYNC_PROVIDER_BYTES_MAX && bytes_hold_only(name, "-_.");
}

void sync_count(struct services *s, enum sync_outcome outcome)
{
	if (s->sync != NULL)
		metric_add(&s->sync->outcomes[outcome], 1);
}

/* ---- how old a record is ---- */

static int64_t latest_ms(const struct context *ctx)
{
	return ctx->now_us / 1000 + SYNC_LEEWAY_MS;
}

/* (9) */
struct sync_record sync_bounded(const struct context *ctx, const struct sync_record *q)
{
	struct sync_record out = *q;

	if (out.has_time && out.time_ms > latest_ms(ctx))
		out.time_ms = ctx->now_us / 1000;
	return out;
}

/* (3) */
bool sync_is_stale(const struct context *ctx, const struct sync_record *q, const struct item *row)
{
	int64_t sequence = row_i64(row, "syncSequence", -1), time_ms = row_i64(row, "syncTime", -1);

	if (q->has_sequence && sequence >= 0)
		return q->sequence < sequence;
	return q->has_time && time_ms <= latest_ms(ctx) && q->time_ms < time_ms;
}

/* ---- what came from the provider (7) ---- */

#define ATTRIBUTE "attributes."

static bool is_noted(struct bytes noted, const char *prefix, struct bytes name)
{
	size_t at = 0, before = strlen(prefix);

	while (at < noted.len) {
		const char *space = memchr(noted.data + at, ' ', noted.len - at);
		size_t      len = space == NULL ? noted.len - at : (size_t)(space - noted.data) - at;

		if (len == before + name.len && memcmp(noted.data + at, prefix, before) == 0 &&
		    memcmp(noted.data + at + before, name.data, name.len) == 0)
			return true;
		at += len + 1;
	}
	return false;
}

/* Rows from before this was noted: names and phone were the provider's; who set an attribute is not known. */
static struct bytes noted_of(const struct user *u)
{
	if (row_text(&u->row, "provider").len > 0 && item_get(&u->row, BYTES("syncFields")) == NULL)
		return BYTES("firstName lastName phone");
	return row_text(&u->row, "syncFields");
}

static void text_go(struct user_text *t, struct bytes noted, struct bytes name)
{
	if (!t->given && is_noted(noted, "", name))
		*t = (struct user_text){.given = true};
}

/* What the record changes: a complete one also takes away what it does not have. */
static struct user_fields fields_of(struct context *ctx, const struct sync_record *q, const struct user *u)
{
	static const struct value nothing = {.type = VALUE_NULL};
	struct user_fields        out = q->fields;
	struct bytes              noted = noted_of(u);

	if (!q->complete || q->keeps)
		return out;
	text_go(&out.first_name, noted, BYTES("firstName"));
	text_go(&out.last_name, noted, BYTES("lastName"));
	text_go(&out.phone, noted, BYTES("phone"));
	for (uint32_t i = 0; i < u->attributes.count; i++) {
		struct bytes name = u->attributes.members[i].name;

		if (item_get(&q->fields.attributes, name) == NULL && is_noted(noted, ATTRIBUTE, name))
			out.attributes = item_with(ctx->arena, &out.attributes, name, &nothing);
	}
	return out;
}

static void word_add(struct buf *out, const char *prefix, struct bytes name)
{
	if (is_noted(buf_bytes(out), prefix, name))
		return;
	if (out->len > 0)
		buf_add_byte(out, ' ');
	buf_add_bytes(out, bytes_of(prefix));
	buf_add_bytes(out, name);
}

static void text_note(struct buf *out, const struct user_text *t, struct bytes name)
{
	if (t->text.len > 0)
		word_add(out, "", name);
}

/* What came before stays noted unless the record is all there is. */
static void fields_note(struct context *ctx, struct row *row, const struct sync_record *q,
                        const struct user *u)
{
	struct buf out;

	buf_init(&out, ctx->arena);
	if (!q->complete || q->keeps)
		buf_add_bytes(&out, noted_of(u));
	text_note(&out, &q->fields.first_name, BYTES("firstName"));
	text_note(&out, &q->fields.last_name, BYTES("lastName"));
	text_note(&out, &q->fields.phone, BYTES("phone"));
	for (uint32_t i = 0; i < q->fields.attributes.count; i++)
		if (q->fields.attributes.members[i].value.type != VALUE_NULL)
			word_add(&out, ATTRIBUTE, q->fields.attributes.members[i].name);
	row_set_text(row, "syncFields", buf_bytes(&out));
}

/* An address that the user verified here is the user's own, whatever the provider says of it. */
static void email_note(struct row *row, const struct email_trust *t)
{
	if (t->verified)
		row_set_text(row, "syncEmailId", t->id);
	else if (t->replaces.len > 0 && !bytes_equal(t->replaces, t->id))
		row_remove(row, "syncEmailId");
}

/* What is noted of the record itself. */
static void note(struct context *ctx, struct row *row, const struct sync_record *q, const struct user *u)
{
	row_set_text(row, "provider", q->provider);
	if (q->name.len > 0)
		row_set_text(row, "providerUser", q->name);
	if (q->has_time)
		row_set_i64(row, "syncTime", q->time_ms);
	if (q->has_sequence)
		row_set_i64(row, "syncSequence", q->sequence);
	fields_note(ctx, row, q, u);
}

/* ---- writing ---- */

/* (4) The last thing that can refuse, and the first that writes (6). */
static enum err_code email_apply(struct context *ctx, const struct sync_record *q, struct email_trust *t,
                                 struct err *err)
{
	if (q->email.len == 0 || !q->email_verified)
		return ERR_NONE;
	t->email = q->email;
	t->typed = q->email_typed;
	t->prefer = q->complete;
	if (q->complete && !q->keeps)
		t->replaces = row_text(&t->user->row, "syncEmailId");
	if (user_email_trust(ctx, t, err) != ERR_NONE)
		return err->code;
	email_note(t->profile, t);
	return ERR_NONE;
}

/* All of the record but its standing, into the row. */
static enum err_code record_apply(struct context *ctx, const struct sync_record *q, struct email_trust *t,
                                  struct err *err)
{
	struct user_fields fields = fields_of(ctx, q, t->user);

	note(ctx, t->profile, q, t->user);
	if (user_fields_apply(ctx, t->profile, t->user, &fields, err) != ERR_NONE)
		return err->code;
	return email_apply(ctx, q, t, err);
}

/* (8) Why a user has the status that it gets. */
static struct bytes standing_reason(const struct sync_record *q, const struct user *before)
{
	if (q->standing == SYNC_BARRED)
		return BYTES("disabled at the provider");
	return bytes_is(before->suspended_by, USER_BY_MISSING) ? BYTES("at the provider again")
	                                                       : BYTES("enabled at the provider");
}

/* The events: of the user, of its address, and of its status, which follows in the same version. */
static enum err_code create(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                            struct err *err)
{
	struct row         row, active;
	struct item        before;
	struct email_trust email = {.user = &out->user, .profile = &active};

	user_begin(ctx, q->id, &out->user, &active);
	if (record_apply(ctx, q, &email, err) != ERR_NONE)
		return err->code;
	before = row_item(&active);
	row_from(&row, ctx->arena, &before);
	if (q->standing == SYNC_BARRED)
		user_status_set(&row, USER_SUSPENDED, BYTES(USER_BY_DISABLED));
	user_put(ctx, &out->user, &row);
	user_publish(ctx, &(struct user_event){.type = EVENT_USER_CREATED}, &out->user);
	user_email_trusted(ctx, &email);
	out->outcome = SYNC_CREATED;
	return q->standing == SYNC_BARRED
	               ? user_became(ctx, &out->user, &before, standing_reason(q, &out->user), err)
	               : ERR_NONE;
}

/* What is told of a profile: not how old the record is, nor what came from where, nor what follows from its addresses (alias.h), of which others tell. */
static struct item told_of(struct context *ctx, const struct item *row)
{
	static const char *const untold[] = {"syncTime", "syncSequence", "syncFields", "syncEmailId",
	                                     "aliases"};
	struct item              left = *row;

	for (size_t i = 0; i < sizeof(untold) / sizeof(untold[0]); i++)
		left = item_without(ctx->arena, &left, bytes_of(untold[i]));
	return left;
}

static bool differs(struct context *ctx, const struct item *before, const struct item *after)
{
	struct item a = told_of(ctx, before), b = told_of(ctx, after);

	return !item_equal(&a, &b);
}

static void updated_publish(struct context *ctx, const struct item *before, const struct item *after,
                            const struct user *u)
{
	struct user told = *u;

	told.row = *after;
	user_publish(ctx, &(struct user_event){.type = EVENT_USER_UPDATED, .before = before}, &told);
}

/* (2) A newer record that says the same is noted, and no more. `after` has the status of before: user_became tells of the new one. */
static void store(struct context *ctx, const struct item *after, struct sync_result *out, bool email_changed,
                  const enum user_status *becomes)
{
	struct item before = out->user.row;
	bool        told = differs(ctx, &before, after);
	struct row  row;

	out->outcome = email_changed || told || becomes != NULL ? SYNC_UPDATED : SYNC_UNCHANGED;
	row_from(&row, ctx->arena, after);
	if (becomes != NULL)
		user_status_set(&row, *becomes, BYTES(USER_BY_DISABLED));
	if (told || becomes != NULL)
		user_put(ctx, &out->user, &row);
	else if (!item_equal(&before, after))
		ctx_put(ctx, TABLE_USERS, *after);
	if (told)
		updated_publish(ctx, &before, after, &out->user);
}

/* (8) The status that the record asks for, if that is not the user's. A suspension that a person made is left to people. */
static bool status_differs(const struct sync_record *q, const struct user *u, enum user_status *out)
{
	*out = q->standing == SYNC_BARRED ? USER_SUSPENDED : USER_ACTIVE;
	if (q->standing == SYNC_BARRED)
		return u->status == USER_ACTIVE;
	return q->standing == SYNC_WELCOME && u->status == USER_SUSPENDED && u->suspended_by.len > 0;
}

/* A record that is stale changes no more than the status, and only if it was read just now. */
static enum err_code update(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                            struct err *err)
{
	struct row         row;
	struct item        after;
	struct email_trust email = {.user = &out->user, .profile = &row};
	struct bytes       reason = standing_reason(q, &out->user);
	enum user_status   status;
	bool stale = sync_is_stale(ctx, q, &out->user.row), becomes = status_differs(q, &out->user, &status);

	row_from(&row, ctx->arena, &out->user.row);
	if (!stale && record_apply(ctx, q, &email, err) != ERR_NONE)
		return err->code;
	after = row_item(&row);
	becomes = becomes && (!stale || q->fresh);
	store(ctx, &after, out, email.changed, becomes ? &status : NULL);
	user_email_trusted(ctx, &email);
	if (stale && !becomes)
		out->outcome = SYNC_STALE;
	return becomes ? user_became(ctx, &out->user, &after, reason, err) : ERR_NONE;
}

/* (1) */
static enum err_code check_provider(const struct sync_record *q, const struct user *u, struct err *err)
{
	struct bytes provider = row_text(&u->row, "provider");

	return provider.len == 0 || bytes_equal(provider, q->provider)
	               ? ERR_NONE
	               : err_field(err, ERR_USER_EXISTS, "id",
	                           "id: the user with this id came from another provider; if you renamed a "
	                           "pool, give it its old name");
}

/* (5) */
enum err_code sync_check_erased(struct context *ctx, struct bytes id, struct err *err)
{
	struct erasure e;

	if (erased_find(ctx, id, &e, err) != ERR_NONE)
		return err->code;
	return e.found ? err_field(
	                         err, ERR_NOT_NOW, "id",
	                         "id: the user was erased here; remove it at the provider too, or create it "
	                         "again with POST /v1/users")
	               : ERR_NONE;
}

/* Whoever is not there: created, unless it was erased or is not known to be confirmed (8). */
static enum err_code arrive(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                            struct err *err)
{
	if (q->standing == SYNC_UNCONFIRMED || q->standing == SYNC_UNKNOWN) {
		out->outcome = SYNC_LEFT_OUT;
		return ERR_NONE;
	}
	if (!user_id_is(q->id)) /* a dead letter from before they were refused */
		return err_field(err, ERR_INVALID, "id", "id: not an id that a user can have");
	return sync_check_erased(ctx, q->id, err) != ERR_NONE ? err->code : create(ctx, q, out, err);
}

static enum err_code apply(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                           struct err *err)
{
	enum err_code rc = user_take(ctx, q->id, &(struct user_match){0}, &out->user, err);

	if (rc == ERR_NOT_FOUND)
		return arrive(ctx, q, out, err);
	if (rc != ERR_NONE || check_provider(q, &out->user, err) != ERR_NONE)
		return err->code;
	if (q->standing != SYNC_UNCONFIRMED)
		return update(ctx, q, out, err);
	out->outcome = SYNC_LEFT_OUT;
	return ERR_NONE;
}

/* What failed before is settled by what succeeds now. */
enum err_code sync_apply(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                         struct err *err)
{
	struct sync_record bounded = sync_bounded(ctx, q);

	if (apply(ctx, &bounded, out, err) != ERR_NONE)
		return err->code;
	return out->outcome == SYNC_LEFT_OUT ? ERR_NONE : dead_letter_settle(ctx, &bounded, err);
}

enum err_code sync_bar(struct context *ctx, const struct sync_record *q, struct err *err)
{
	struct sync_record bare = {.provider = q->provider,
	                           .id = q->id,
	                           .name = q->name,
	                           .standing = q->standing,
	                           .fresh = q->fresh};
	struct sync_result r;

	return q->standing == SYNC_BARRED ? apply(ctx, &bare, &r, err) : ERR_NONE;
}
