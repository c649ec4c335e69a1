/* Locks: see lock.h. */
#include "service/lock.h"

#include "service/identifier.h"
#include "service/key_names.h"
#include "service/row.h"

bool lock_holds(const struct item *row, int64_t now_us)
{
	return !row_expired(row, "ttl", now_us) && row_i64(row, "count", 1) != 0;
}

bool lock_is_persons(const struct item *row)
{
	return row_text(row, "cause").len == 0;
}

struct bytes lock_set_by(const struct item *row)
{
	struct bytes cause = row_text(row, "cause"), set_by = row_text(row, "set_by");

	return cause.len > 0 ? cause : set_by.len > 0 ? set_by : BYTES(LOCK_BY_SOMEONE);
}

bool lock_reach(struct bytes pk, struct bytes sk, enum lock_reach *out)
{
	struct key_parts p = key_split(sk);

	if (bytes_is(p.type, KEY_LOCK))
		*out = p.qualifier.len > 0                ? REACH_QUALIFIER
		       : identifier_is(pk, IDENTIFIER_IP) ? REACH_SOURCE
		                                          : REACH_SUBJECT;
	else if (bytes_is(p.type, KEY_SOURCE_LOCK))
		*out = REACH_PAIR;
	else
		return false;
	return true;
}

bool lock_enforced(const struct rules *rules, struct bytes pk, const struct item *row)
{
	struct key_parts p = key_split(row_text(row, "SK"));
	enum lock_reach  reach;

	return lock_reach(pk, row_text(row, "SK"), &reach) &&
	       rules_heed(rules, &(struct rule_ref){p.journey, p.classifier}, reach, lock_is_persons(row));
}

/* ---- locks that grow ---- */

static int64_t grown(const struct lock_kind *kind, int64_t level)
{
	int64_t duration = kind->duration_s;

	for (int64_t i = 1; i < level && duration < kind->cap_s; i++)
		duration *= kind->factor;
	return duration < kind->cap_s ? duration : kind->cap_s;
}

/* How long a lock holds, and as what. */
struct term {
	struct bytes kind;
	int64_t      duration_s, ends_s; /* ends_s 0: never */
};

static void level_term(const struct lock_kind *kind, int64_t level, struct term *term)
{
	const struct lock_kind *now = kind->then != NULL && level > kind->after ? kind->then : kind;

	term->kind = now->name;
	term->duration_s = grown(now, now == kind ? level : level - kind->after);
}

/* The term of this one: how many there were before is kept in a row of its own. */
static enum err_code term_of(struct context *ctx, const struct lock_new *lock, struct term *term,
                             struct err *err)
{
	struct bytes sk =
	        key_name(ctx->arena, lock->journey, BYTES(KEY_LOCK_LEVEL), lock->name, lock->qualifier);
	int64_t       now_s = ctx_now_s(ctx), level;
	struct looked old;
	struct row    row;

	*term = (struct term){.kind = lock->kind->name,
	                      .duration_s = lock->duration_s > 0 ? lock->duration_s : lock->kind->duration_s};
	if (lock->duration_s > 0 || (lock->kind->factor == 1 && lock->kind->then == NULL) ||
	    lock->kind->duration_s == 0 || bytes_is(lock->type, KEY_SHADOW_LOCK))
		return ERR_NONE;
	if (ctx_look(ctx, lock->pk, sk, &old, err) != ERR_NONE)
		return err->code;
	level = (old.found ? row_i64(&old.item, "count", 0) : 0) + 1;
	level_term(lock->kind, level, term);
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", lock->pk);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "count", level);
	row_set_i64(&row, "last_updated", now_s);
	row_set_i64(&row, "ttl", now_s + term->duration_s + lock->kind->forget_s);
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

/* ---- setting ---- */

static struct item lock_row(const struct context *ctx, const struct lock_new *lock, struct bytes sk,
                            const struct term *term)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", lock->pk);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", ctx_now_s(ctx));
	row_set_text(&row, "block_type", term->kind);
	if (term->ends_s > 0) {
		row_set_i64(&row, "ttl", term->ends_s);
		row_set_i64(&row, "block_duration", term->duration_s);
	}
	if (lock->notification_type.len > 0)
		row_set_text(&row, "notification_type", lock->notification_type);
	if (lock->method_type.len > 0)
		row_set_text(&row, "mfa_method_type", lock->method_type);
	if (lock->cause.len > 0) {
		row_set_text(&row, "cause", lock->cause);
		row_set_i64(&row, "policy_version", lock->version);
	}
	if (lock->set_by.len > 0)
		row_set_text(&row, "set_by", lock->set_by);
	if (lock->reason.len > 0)
		row_set_text(&row, "reason", lock->reason);
	if (lock->history.len > 0)
		row_set_text(&row, "history", lock->history);
	return row_item(&row);
}

/* Does it end after that time? 0 is never, and later than all. */
static bool ends_after(int64_t ends_s, int64_t other_s)
{
	return other_s != 0 && (ends_s == 0 || ends_s > other_s);
}

/* The old lock's term takes the place of the new one's if it ends later. */
static void term_keep(struct term *term, const struct item *old)
{
	struct bytes kind = row_text(old, "block_type");
	int64_t      ends_s = row_i64(old, "ttl", 0);

	if (!ends_after(ends_s, term->ends_s))
		return;
	term->ends_s = ends_s;
	term->duration_s = row_i64(old, "block_duration", term->duration_s);
	if (kind.len > 0)
		term->kind = kind;
}

/* A rule that sets a lock which a person set before leaves it the person's. */
static struct lock_new persons_kept(const struct lock_new *lock, const struct item *old)
{
	struct lock_new kept = *lock;

	if (lock->cause.len == 0 || !lock_is_persons(old))
		return kept;
	kept.cause = (struct bytes){NULL, 0};
	kept.set_by = row_text(old, "set_by");
	kept.reason = row_text(old, "reason");
	return kept;
}

enum err_code lock_add(struct context *ctx, const struct lock_new *lock, struct verdict *out, struct err *err)
{
	struct lock_new set = *lock;
	struct bytes    sk = key_name(ctx->arena, lock->journey, lock->type, lock->name, lock->qualifier);
	struct term     term;
	struct looked   old;

	if (ctx_look(ctx, lock->pk, sk, &old, err) != ERR_NONE || term_of(ctx, lock, &term, err) != ERR_NONE)
		return err->code;
	if (term.duration_s > 0)
		term.ends_s = ctx_now_s(ctx) + term.duration_s;
	if (old.found && lock_holds(&old.item, ctx->now_us)) {
		term_keep(&term, &old.item);
		set = persons_kept(lock, &old.item);
	}
	ctx_put(ctx, TABLE_AUTH_STATE, lock_row(ctx, &set, sk, &term));
	*out = (struct verdict){.kind = term.ends_s == 0 ? VERDICT_LOCKED_PERMANENT : VERDICT_LOCKED,
	                        .reason = "lock",
	                        .until_s = term.ends_s,
	                        .pk = lock->pk,
	                        .sk = sk,
	                        .block_type = term.kind};
	return ERR_NONE;
}

/* ---- clearing ---- */

enum err_code lock_clear(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err)
{
	struct key_parts p = key_split(sk);
	struct bytes     level =
	        key_name(ctx->arena, p.journey, BYTES(KEY_LOCK_LEVEL), p.classifier, p.qualifier);
	struct looked was, lock;

	if (ctx_look(ctx, pk, level, &was, err) != ERR_NONE || ctx_look(ctx, pk, sk, &lock, err) != ERR_NONE)
		return err->code;
	*held = lock.found && lock_holds(&lock.item, ctx->now_us);
	if (was.found)
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, pk, level));
	if (lock.found)
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, pk, sk));
	return ERR_NONE;
}

enum err_code lock_open(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err)
{
	struct row row;

	if (lock_clear(ctx, pk, sk, held, err) != ERR_NONE)
		return err->code;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "count", 0);
	row_set_i64(&row, "last_updated", ctx_now_s(ctx));
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}
