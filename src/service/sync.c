/* Sync: see sync.h. */
#include "service/sync.h"

#include "service/dead_letter.h"
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

/* (3) */
bool sync_is_stale(const struct sync_record *q, const struct item *row)
{
	int64_t sequence = row_i64(row, "syncSequence", -1), time_ms = row_i64(row, "syncTime", -1);

	if (q->has_sequence && sequence >= 0)
		return q->sequence < sequence;
	return q->has_time && q->time_ms < time_ms;
}

/* What is noted of the record itself. */
static void note(struct row *row, const struct sync_record *q)
{
	row_set_text(row, "provider", q->provider);
	if (q->name.len > 0)
		row_set_text(row, "providerUser", q->name);
	if (q->has_time)
		row_set_i64(row, "syncTime", q->time_ms);
	if (q->has_sequence)
		row_set_i64(row, "syncSequence", q->sequence);
}

/* (4) The last thing that can refuse, and the first that writes (6). */
static enum err_code email_apply(struct context *ctx, const struct sync_record *q, struct email_trust *t,
                                 struct err *err)
{
	if (q->email.len == 0 || !q->email_verified)
		return ERR_NONE;
	t->email = q->email;
	t->typed = q->email_typed;
	return user_email_trust(ctx, t, err);
}

static enum err_code create(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                            struct err *err)
{
	struct row         row;
	struct email_trust email = {.user = &out->user, .profile = &row};

	user_begin(ctx, q->id, &out->user, &row);
	note(&row, q);
	if (user_fields_apply(ctx, &row, &out->user, &q->fields, err) != ERR_NONE ||
	    email_apply(ctx, q, &email, err) != ERR_NONE)
		return err->code;
	user_put(ctx, &out->user, &row);
	user_publish(ctx, &(struct user_event){.type = EVENT_USER_CREATED}, &out->user);
	user_email_trusted(ctx, &email);
	out->outcome = SYNC_CREATED;
	return ERR_NONE;
}

/* What is told of a profile: not how old the record is, nor what follows from its addresses (alias.h), of which others tell. */
static struct item told_of(struct context *ctx, const struct item *row)
{
	struct item left = item_without(ctx->arena, row, BYTES("syncTime"));

	left = item_without(ctx->arena, &left, BYTES("syncSequence"));
	return item_without(ctx->arena, &left, BYTES("aliases"));
}

static bool differs(struct context *ctx, const struct item *before, const struct item *after)
{
	struct item a = told_of(ctx, before), b = told_of(ctx, after);

	return !item_equal(&a, &b);
}

/* (2) A newer record that says the same is noted, and no more. */
static void store(struct context *ctx, struct row *row, struct sync_result *out, bool email_changed)
{
	struct item before = out->user.row, after = row_item(row);

	out->outcome = email_changed ? SYNC_UPDATED : SYNC_UNCHANGED;
	if (differs(ctx, &before, &after)) {
		out->outcome = SYNC_UPDATED;
		user_put(ctx, &out->user, row);
		user_publish(ctx, &(struct user_event){.type = EVENT_USER_UPDATED, .before = &before},
		             &out->user);
	} else if (!item_equal(&before, &after)) {
		ctx_put(ctx, TABLE_USERS, after);
	}
}

static enum err_code update(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                            struct err *err)
{
	struct row         row;
	struct email_trust email = {.user = &out->user, .profile = &row};

	row_from(&row, ctx->arena, &out->user.row);
	note(&row, q);
	if (user_fields_apply(ctx, &row, &out->user, &q->fields, err) != ERR_NONE ||
	    email_apply(ctx, q, &email, err) != ERR_NONE)
		return err->code;
	store(ctx, &row, out, email.changed);
	user_email_trusted(ctx, &email);
	return ERR_NONE;
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

static enum err_code apply(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                           struct err *err)
{
	enum err_code rc = user_take(ctx, q->id, &(struct user_match){0}, &out->user, err);

	if (rc == ERR_NOT_FOUND)
		return create(ctx, q, out, err);
	if (rc != ERR_NONE || check_provider(q, &out->user, err) != ERR_NONE)
		return err->code;
	if (!sync_is_stale(q, &out->user.row))
		return update(ctx, q, out, err);
	out->outcome = SYNC_STALE;
	return ERR_NONE;
}

/* What failed before is settled by what succeeds now. */
enum err_code sync_apply(struct context *ctx, const struct sync_record *q, struct sync_result *out,
                         struct err *err)
{
	if (apply(ctx, q, out, err) != ERR_NONE)
		return err->code;
	return dead_letter_settle(ctx, q, err);
}
