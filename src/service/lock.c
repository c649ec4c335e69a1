/* Locks: see lock.h. */
#include "service/lock.h"

#include "service/account.h"
#include "service/identifier.h"
#include "service/lock_event.h"
#include "service/lock_group.h"
#include "service/row.h"

bool lock_holds(const struct item *row, int64_t now_us)
{
	return !row_expired(row, "ttl", now_us) && row_i64(row, "count", 1) != 0;
}

/* What people give as a reason is theirs. */
static const char *reason_of(struct bytes cause, struct bytes reason)
{
	return cause.len > 0 && bytes_is(reason, LOCK_TOO_MANY_FAILURES) ? LOCK_TOO_MANY_FAILURES : "lock";
}

struct verdict lock_verdict(const struct looked *lock)
{
	struct verdict v = {.kind = VERDICT_LOCKED,
	                    .pk = lock->pk,
	                    .sk = lock->sk,
	                    .until_s = row_i64(&lock->item, "ttl", 0),
	                    .block_type = row_text(&lock->item, "block_type")};

	if (v.until_s == 0)
		v.kind = VERDICT_LOCKED_PERMANENT;
	v.reason = reason_of(row_text(&lock->item, "cause"), row_text(&lock->item, "reason"));
	return v;
}

bool lock_is_persons(const struct item *row)
{
	return row_text(row, "cause").len == 0 &&
	       (row_text(row, "set_by").len > 0 || row_text(row, "reason").len > 0);
}

struct bytes lock_set_by(const struct item *row)
{
	struct bytes cause = row_text(row, "cause"), set_by = row_text(row, "set_by");

	if (cause.len > 0 || set_by.len > 0)
		return cause.len > 0 ? cause : set_by;
	return lock_is_persons(row) ? BYTES(LOCK_BY_SOMEONE) : (struct bytes){NULL, 0};
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

/* Of one that was set again while it held: since when it has. */
#define ROW_HELD_SINCE "held_since"

int64_t lock_set_s(const struct item *row)
{
	int64_t since_s = row_i64(row, ROW_HELD_SINCE, 0);

	return since_s > 0 ? since_s : row_i64(row, "last_updated", 0);
}

bool lock_heed(struct bytes pk, const struct item *row, struct heed_lock *out)
{
	struct key_parts p = key_split(row_text(row, "SK"));

	*out = (struct heed_lock){
	        .ref = {p.journey, p.classifier}, .persons = lock_is_persons(row), .set_s = lock_set_s(row)};
	return lock_reach(pk, row_text(row, "SK"), &out->reach);
}

bool lock_enforced(const struct rules *rules, struct bytes pk, const struct item *row)
{
	struct heed_lock lock;

	return lock_heed(pk, row, &lock) && rules_heed(rules, &lock);
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
	int64_t      since_s;            /* that it has held already; 0: it has not */

	struct looked *levels; /* of each id of its group: how many there were before */
	int64_t        level;  /* how many there are with it; 0: it does not grow */
};

static void level_term(const struct lock_kind *kind, int64_t level, struct term *term)
{
	const struct lock_kind *now = kind->then != NULL && level > kind->after ? kind->then : kind;

	term->kind = now->name;
	term->duration_s = grown(now, now == kind ? level : level - kind->after);
}

/* Does it matter how many there were before? */
static bool counts_levels(const struct lock_new *lock)
{
	return lock->duration_s == 0 && (lock->kind->factor != 1 || lock->kind->then != NULL) &&
	       lock->kind->duration_s > 0 && !bytes_is(lock->type, KEY_SHADOW_LOCK);
}

/* How many there were before is kept in a row of each id. */
static enum err_code levels_look(struct context *ctx, const struct lock_group *g, struct bytes sk,
                                 struct looked *rows, struct err *err)
{
	for (uint32_t i = 0; i < g->count; i++) {
		looked_init(&rows[i], g->ids[i], sk);
		rows[i].next = i + 1 < g->count ? &rows[i + 1] : NULL;
	}
	return g->count == 1 ? ctx_look(ctx, g->ids[0], sk, rows, err) : ctx_look_all(ctx, rows, err);
}

/* The term of this one: of the ids of a group the one that was locked most often counts. */
static enum err_code term_of(struct context *ctx, const struct lock_new *lock, const struct lock_group *g,
                             struct term *term, struct err *err)
{
	struct bytes sk =
	        key_name(ctx->arena, lock->journey, BYTES(KEY_LOCK_LEVEL), lock->name, lock->qualifier);

	*term = (struct term){.kind = lock->kind->name,
	                      .duration_s = lock->duration_s > 0 ? lock->duration_s : lock->kind->duration_s};
	if (counts_levels(lock)) {
		term->levels = arena_array(ctx->arena, g->count, sizeof(*term->levels));
		if (levels_look(ctx, g, sk, term->levels, err) != ERR_NONE)
			return err->code;
		for (uint32_t i = 0; i < g->count; i++)
			if (term->levels[i].found && row_i64(&term->levels[i].item, "count", 0) > term->level)
				term->level = row_i64(&term->levels[i].item, "count", 0);
		level_term(lock->kind, ++term->level, term);
	}
	if (term->duration_s > 0)
		term->ends_s = ctx->now_s + term->duration_s;
	return ERR_NONE;
}

static void level_put(struct context *ctx, const struct looked *old, int64_t level, int64_t ends_s)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", old->pk);
	row_set_text(&row, "SK", old->sk);
	row_set_i64(&row, "count", level);
	row_set_i64(&row, "last_updated", ctx->now_s);
	row_set_i64(&row, "ttl", ends_s);
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
}

static void levels_put(struct context *ctx, const struct lock_new *lock, const struct lock_group *g,
                       const struct term *term)
{
	for (uint32_t i = 0; term->level > 0 && i < g->count; i++)
		level_put(ctx, &term->levels[i], term->level,
		          ctx->now_s + term->duration_s + lock->kind->forget_s);
}

static struct verdict term_verdict(const struct lock_new *lock, struct bytes sk, const struct term *term)
{
	return (struct verdict){.kind = term->ends_s == 0 ? VERDICT_LOCKED_PERMANENT : VERDICT_LOCKED,
	                        .reason = reason_of(lock->cause, lock->reason),
	                        .until_s = term->ends_s,
	                        .pk = lock->pk,
	                        .sk = sk,
	                        .block_type = term->kind};
}

/* The ids that it is to be of. */
static struct lock_group *group_of_new(struct context *ctx, const struct lock_new *lock)
{
	struct lock_group *g = arena_alloc(ctx->arena, sizeof(*g));

	g->count = 0;
	lock_group_add(g, lock->pk);
	for (uint32_t i = 0; i < lock->other_count; i++)
		lock_group_add(g, lock->others[i]);
	return g;
}

enum err_code lock_foretell(struct context *ctx, const struct lock_new *lock, struct verdict *out,
                            struct err *err)
{
	struct term term;

	if (term_of(ctx, lock, group_of_new(ctx, lock), &term, err) != ERR_NONE)
		return err->code;
	*out = term_verdict(
	        lock, key_name(ctx->arena, lock->journey, lock->type, lock->name, lock->qualifier), &term);
	return ERR_NONE;
}

/* ---- setting ---- */

/* Does it end after that time? 0 is never, and later than all. */
static bool ends_after(int64_t ends_s, int64_t other_s)
{
	return other_s != 0 && (ends_s == 0 || ends_s > other_s);
}

static void took_set(const struct lock_took *took, struct row *row)
{
	if (took->since.len == 0)
		return;
	row_set_text(row, LOCK_TOOK_SINCE, took->since);
	row_set_i64(row, LOCK_TOOK_COUNT, took->count);
	row_set_i64(row, LOCK_TOOK_TTL, took->ends_s);
}

/* `at`: whose, and the sort key. */
static struct item lock_row(const struct context *ctx, const struct lock_new *lock, const struct looked *at,
                            const struct lock_group *g, const struct term *term)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", at->pk);
	row_set_text(&row, "SK", at->sk);
	lock_group_name(&row, g);
	row_set_i64(&row, "count", 1);
	row_set_i64(&row, "last_updated", ctx->now_s);
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
	} else { /* always: it is what makes it a person's */
		row_set_text(&row, "set_by", lock->set_by.len > 0 ? lock->set_by : BYTES(LOCK_BY_SOMEONE));
	}
	if (lock->reason.len > 0)
		row_set_text(&row, "reason", lock->reason);
	if (lock->history.len > 0)
		row_set_text(&row, "history", lock->history);
	if (term->since_s > 0 && term->since_s < ctx->now_s)
		row_set_i64(&row, ROW_HELD_SINCE, term->since_s);
	took_set(&lock->took, &row);
	if (lock->announce_s > 0)
		row_set_i64(&row, LOCK_ANNOUNCE,
		            ends_after(lock->announce_s, term->ends_s) ? term->ends_s : lock->announce_s);
	return row_item(&row);
}

/* The old lock's term takes the place of the new one's if it ends later. */
static void term_keep(struct term *term, const struct item *old)
{
	struct bytes kind = row_text(old, "block_type");
	int64_t      ends_s = row_i64(old, "ttl", 0);

	if (term->since_s == 0 || lock_set_s(old) < term->since_s)
		term->since_s = lock_set_s(old);
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

/* Whoever sets it by hand may not do so while one of them is being erased. An attempt has looked at its subjects' accounts before it came to
 * this. */
static enum err_code group_writable(struct context *ctx, const struct lock_new *lock,
                                    const struct lock_group *g, struct err *err)
{
	for (uint32_t i = 0; lock->cause.len == 0 && i < g->count; i++)
		if (!identifier_is_hashed(g->ids[i]) && account_writable(ctx, g->ids[i], err) != ERR_NONE)
			return err->code;
	return ERR_NONE;
}

/* ---- failures in a row, which a lock's row may hold ---- */

static const char *const failures[] = {LOCK_FAILURES, LOCK_DEVICE_FAILURES};
enum { FAILURES_COUNT = sizeof(failures) / sizeof(failures[0]) };

static bool failures_copy(struct arena *a, const struct item *from, struct item *to)
{
	bool any = false;

	for (int i = 0; i < FAILURES_COUNT; i++) {
		const struct value *v = item_get(from, bytes_of(failures[i]));

		if (v != NULL && v->type == VALUE_M) {
			*to = item_with(a, to, bytes_of(failures[i]), v);
			any = true;
		}
	}
	return any;
}

/* In the row of the lock that takes the place of `old`. */
static void failures_keep(struct context *ctx, const struct item *old, struct item *row)
{
	int64_t      ends_s = row_i64(old, LOCK_FAILURES_TTL, 0);
	struct value ttl = value_i64(ends_s > 0 ? ends_s : row_i64(old, "ttl", 0));

	if (failures_copy(ctx->arena, old, row))
		*row = item_with(ctx->arena, row, BYTES(LOCK_FAILURES_TTL), &ttl);
}

/* What is left in the place of a person's lock that a person clears. A rule's took their place. */
static bool failures_rest(struct context *ctx, const struct item *lock, const char *why, struct item *out)
{
	struct row row;

	if (strcmp(why, LOCK_CLEARED_BY_PERSON) != 0 || !lock_is_persons(lock) ||
	    !lock_holds(lock, ctx->now_us) || row_i64(lock, LOCK_FAILURES_TTL, 0) <= ctx->now_s)
		return false;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", row_text(lock, "PK"));
	row_set_text(&row, "SK", row_text(lock, "SK"));
	row_set_i64(&row, "count", 0);
	row_set_i64(&row, "ttl", row_i64(lock, LOCK_FAILURES_TTL, 0));
	row_set_i64(&row, "last_updated", ctx->now_s);
	*out = row_item(&row);
	return failures_copy(ctx->arena, lock, out);
}

void lock_failures_end(struct context *ctx, const struct item *row)
{
	struct item left = item_without(ctx->arena, row, BYTES(LOCK_FAILURES_TTL));

	for (int i = 0; i < FAILURES_COUNT; i++)
		left = item_without(ctx->arena, &left, bytes_of(failures[i]));
	if (left.count < row->count)
		ctx_put(ctx, TABLE_AUTH_STATE, left);
}

/* The head of a row that is to be changed or removed: if it is not of the group, and holds no lock of its own, somebody else removed it
 * (lock_group.h, 5). */
static enum err_code head_test(struct context *ctx, const struct lock_group *g, const struct item *row,
                               struct err *err)
{
	struct value_list group = lock_group_of(row);
	struct bytes      head = group.count > 0 ? value_text(&group.items[0]) : row_text(row, "PK");
	struct looked     now;

	for (uint32_t i = 0; i < g->count; i++)
		if (bytes_equal(g->ids[i], head))
			return ERR_NONE;
	if (ctx_look(ctx, head, row_text(row, "SK"), &now, err) != ERR_NONE)
		return err->code;
	if (!now.found || !lock_holds(&now.item, ctx->now_us))
		lock_head_forget(ctx, row);
	return ERR_NONE;
}

/* The rows of all ids. */
static void group_put(struct context *ctx, const struct lock_new *lock, const struct lock_group *g,
                      const struct term *term)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct looked *old = &g->rows[i];
		struct item          row = lock_row(ctx, lock, old, g, term);
		bool                 held = old->found && lock_holds(&old->item, ctx->now_us);

		if (old->found)
			failures_keep(ctx, &old->item, &row);
		lock_changed(ctx, held ? &old->item : NULL, &row, NULL);
		ctx_put(ctx, TABLE_AUTH_STATE, row);
	}
}

enum err_code lock_add(struct context *ctx, const struct lock_new *lock, struct verdict *out, struct err *err)
{
	struct lock_new    set = *lock;
	struct bytes       sk = key_name(ctx->arena, lock->journey, lock->type, lock->name, lock->qualifier);
	struct lock_group *g = group_of_new(ctx, lock);
	struct term        term;
	bool               held = false;

	if (lock_group_join(ctx, sk, g, err) != ERR_NONE || group_writable(ctx, lock, g, err) != ERR_NONE ||
	    term_of(ctx, lock, g, &term, err) != ERR_NONE)
		return err->code;
	levels_put(ctx, lock, g, &term);
	for (uint32_t i = 0; i < g->count; i++) {
		if (!g->rows[i].found || !lock_holds(&g->rows[i].item, ctx->now_us))
			continue;
		held = true;
		term_keep(&term, &g->rows[i].item);
		set = persons_kept(&set, &g->rows[i].item);
		set.announce_s = 0;
	}
	if (!held && lock_overdue(ctx, lock->pk, sk, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; held && i < g->count; i++)
		if (g->rows[i].found && head_test(ctx, g, &g->rows[i].item, err) != ERR_NONE)
			return err->code;
	group_put(ctx, &set, g, &term);
	*out = term_verdict(&set, sk, &term);
	return ERR_NONE;
}

/* ---- clearing ---- */

bool lock_is_removed(const struct context *ctx, struct bytes pk, struct bytes sk)
{
	const struct table_write *w = changes_find(&ctx->changes, TABLE_AUTH_STATE, pk, sk);

	return w != NULL && (w->kind == TABLE_DELETE || row_i64(&w->item, "count", 1) == 0);
}

/* A lock, the row of how often it was set, and among others the version of the partition, for each id; and what is told. */
uint32_t lock_remove_rows(const struct context *ctx, const struct item *row)
{
	uint32_t ids = lock_group_of(row).count;

	return (ids > 0 ? ids : 1) * (ctx->table->alone ? 2 : 3) + lock_changed_rows(ctx, row);
}

static enum err_code levels_remove(struct context *ctx, const struct lock_group *g, struct bytes sk,
                                   struct err *err)
{
	struct key_parts p = key_split(sk);
	struct bytes     level =
	        key_name(ctx->arena, p.journey, BYTES(KEY_LOCK_LEVEL), p.classifier, p.qualifier);
	struct looked *rows = arena_array(ctx->arena, g->count, sizeof(*rows));

	if (levels_look(ctx, g, level, rows, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < g->count; i++)
		if (rows[i].found)
			ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, rows[i].pk, level));
	return ERR_NONE;
}

/* It is told once, of the head; if that one's row is not of the group any more, of the first that is left (lock_group.h, 5). */
static void removal_tell(struct context *ctx, const struct lock_group *g, const char *why)
{
	struct item told = lock_group_told(ctx->arena, g);

	if (!lock_is_removed(ctx, row_text(&told, "PK"), row_text(&told, "SK")))
		lock_changed(ctx, &told, NULL, why);
}

enum err_code lock_remove(struct context *ctx, const struct item *row, const char *why, struct err *err)
{
	struct lock_group *g = arena_alloc(ctx->arena, sizeof(*g));

	if (lock_group_find(ctx, row, g, err) != ERR_NONE ||
	    levels_remove(ctx, g, row_text(row, "SK"), err) != ERR_NONE ||
	    head_test(ctx, g, row, err) != ERR_NONE)
		return err->code;
	removal_tell(ctx, g, why);
	for (uint32_t i = 0; i < g->count; i++) {
		struct item rest;

		if (failures_rest(ctx, &g->rows[i].item, why, &rest))
			ctx_put(ctx, TABLE_AUTH_STATE, rest);
		else
			ctx_delete(ctx, TABLE_AUTH_STATE,
			           row_key_two(ctx->arena, g->rows[i].pk, g->rows[i].sk));
	}
	return ERR_NONE;
}

enum err_code lock_clear(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err)
{
	struct lock_group own = {.ids = {pk}, .count = 1};
	struct looked     lock;

	if (ctx_look(ctx, pk, sk, &lock, err) != ERR_NONE)
		return err->code;
	*held = lock.found && lock_holds(&lock.item, ctx->now_us);
	return lock.found ? lock_remove(ctx, &lock.item, LOCK_CLEARED_BY_PERSON, err)
	                  : levels_remove(ctx, &own, sk, err);
}

enum err_code lock_withdraw(struct context *ctx, const struct item *lock, struct err *err)
{
	struct arena    *a = ctx->arena;
	struct bytes     pk = row_text(lock, "PK"), sk = row_text(lock, "SK");
	struct key_parts p = key_split(sk);
	struct bytes     level = key_name(a, p.journey, BYTES(KEY_LOCK_LEVEL), p.classifier, p.qualifier);
	struct looked    was;
	struct row       row;

	if (ctx_look(ctx, pk, level, &was, err) != ERR_NONE)
		return err->code;
	was.found = was.found && !bytes_is(p.type, KEY_SHADOW_LOCK); /* those have no level */
	if (was.found && row_i64(&was.item, "count", 0) > 1) {
		row_from(&row, a, &was.item);
		row_set_i64(&row, "count", row_i64(&was.item, "count", 0) - 1);
		ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	} else if (was.found) {
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(a, pk, level));
	}
	lock_changed(ctx, lock, NULL, LOCK_CLEARED_BY_SUCCESS);
	ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(a, pk, sk));
	return ERR_NONE;
}

enum err_code lock_open(struct context *ctx, struct bytes pk, struct bytes sk, bool *held, struct err *err)
{
	const struct table_write *w;
	struct row                row;

	if (account_writable(ctx, pk, err) != ERR_NONE || lock_clear(ctx, pk, sk, held, err) != ERR_NONE)
		return err->code;
	w = changes_find(&ctx->changes, TABLE_AUTH_STATE, pk, sk);
	if (w != NULL && w->kind == TABLE_PUT) /* failures in a row are left, and it is no lock */
		return ERR_NONE;
	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", pk);
	row_set_text(&row, "SK", sk);
	row_set_i64(&row, "count", 0);
	row_set_i64(&row, "last_updated", ctx->now_s);
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	return ERR_NONE;
}

/* ---- lists of locks ---- */

struct walk {
	struct context           *ctx;
	const struct lock_search *q;
	uint32_t                  examined;
	struct lock_page         *out;
	struct err               *err;
};

/* Families whose locks are heeded. */
static bool is_lock(struct bytes type)
{
	return bytes_is(type, KEY_LOCK) || bytes_is(type, KEY_SOURCE_LOCK);
}

static bool is_or_any(struct bytes wanted, struct bytes text)
{
	return wanted.len == 0 || bytes_equal(wanted, text);
}

static bool is_wanted(const struct walk *w, const struct item *row)
{
	struct key_parts p = key_split(row_text(row, "SK"));

	return is_lock(p.type) && is_or_any(w->q->journey, p.journey) &&
	       is_or_any(w->q->name, p.classifier) && is_or_any(w->q->kind, row_text(row, "block_type")) &&
	       is_or_any(w->q->set_by, lock_set_by(row)) && lock_holds(row, w->ctx->now_us) &&
	       (w->q->sees == NULL || w->q->sees(w->q->sees_ctx, p.journey));
}

static void stop_at(struct walk *w, struct bytes pk, struct bytes sk)
{
	w->out->more = true;
	w->out->last_pk = pk;
	w->out->last_sk = sk;
}

static void take(struct walk *w, const struct item *row)
{
	struct lock_seen *seen;

	if (w->q->not_persons && lock_is_persons(row)) {
		w->out->kept++;
		return;
	}
	seen = &w->out->list[w->out->count++];
	*seen = (struct lock_seen){.row = *row,
	                           .pk = row_text(row, "PK"),
	                           .sk = row_text(row, "SK"),
	                           .kind = row_text(row, "block_type"),
	                           .cause = row_text(row, "cause"),
	                           .set_by = lock_set_by(row),
	                           .reason = row_text(row, "reason"),
	                           .until_s = row_i64(row, "ttl", 0),
	                           .set_s = row_i64(row, "last_updated", 0)};
	if (w->out->count == w->q->limit)
		stop_at(w, seen->pk, seen->sk);
}

/* One page of a partition, or of the table if key is NULL. Sets out->more unless it read all of it. (Only a
 * scan may filter by keys.) */
static enum err_code page_walk(struct walk *w, const struct expr_key_condition *key, const struct item *start)
{
	struct table_query q = {
	        .key = key, .start = start, .limit = LOCKS_EXAMINED_MAX - w->examined, .consistent = true};
	struct table_query_result r;

	if (key == NULL)
		q.filter = row_is_lock(w->ctx->arena);
	if (ctx_query(w->ctx, &q, &r, w->err) != ERR_NONE)
		return w->err->code;
	w->examined += r.scanned;
	for (uint32_t i = 0; i < r.count && !w->out->more; i++)
		if (is_wanted(w, &r.items[i]))
			take(w, &r.items[i]);
	if (r.more && !w->out->more)
		stop_at(w, row_text(&r.last_key, "PK"), row_text(&r.last_key, "SK"));
	return ERR_NONE;
}

static enum err_code subject_walk(struct walk *w, struct bytes subject, const struct item *start)
{
	struct expr_key_condition key = row_prefix(subject, (struct bytes){NULL, 0});

	if (w->examined < LOCKS_EXAMINED_MAX)
		return page_walk(w, &key, start);
	stop_at(w, subject, (struct bytes){NULL, 0}); /* at its beginning */
	return ERR_NONE;
}

/* The subject that the cursor is in; subject_count if it is none of them. */
static uint32_t subject_at(const struct lock_search *q)
{
	uint32_t i = 0;

	while (i < q->subject_count && q->after_pk.len > 0 && !bytes_equal(q->subjects[i], q->after_pk))
		i++;
	return i;
}

static enum err_code subjects_walk(struct walk *w, const struct item *start)
{
	const struct lock_search *q = w->q;
	uint32_t                  first = subject_at(q);

	if (first == q->subject_count)
		return err_field(
		        w->err, ERR_INVALID, "cursor",
		        "cursor: belongs to another query; send the same subjects that it was returned for");
	for (uint32_t i = first; i < q->subject_count && !w->out->more; i++)
		if (i - first == UNLOCK_SUBJECTS_MAX)
			stop_at(w, q->subjects[i], (struct bytes){NULL, 0}); /* the next page's */
		else if (subject_walk(w, q->subjects[i], i == first ? start : NULL) != ERR_NONE)
			return w->err->code;
	return ERR_NONE;
}

enum err_code locks_find(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                         struct err *err)
{
	struct walk w = {.ctx = ctx, .q = q, .out = out, .err = err};
	struct item key, *start = NULL;

	*out = (struct lock_page){.list = arena_array(ctx->arena, q->limit, sizeof(struct lock_seen))};
	if (q->after_sk.len > 0) {
		key = row_key_two(ctx->arena, q->after_pk, q->after_sk);
		start = &key;
	}
	if (q->subject_count > 0)
		return subjects_walk(&w, start);
	if (q->after_pk.len > 0 && start == NULL)
		return err_field(
		        err, ERR_INVALID, "cursor",
		        "cursor: belongs to another query; send the same filters that it was returned for");
	return page_walk(&w, NULL, start);
}

/* What a lock of one id that is cleared takes of a commit: its row, its level's, and the version of its partition. */
enum { CLEARED_ROWS = 3 };

/* Among others each partition that was searched takes a place in the commit too. */
static uint32_t unlock_max(const struct context *ctx, const struct lock_search *q)
{
	uint32_t searched = q->subject_count < UNLOCK_SUBJECTS_MAX ? q->subject_count : UNLOCK_SUBJECTS_MAX;
	uint32_t most = ctx->table->alone ? UNLOCK_MAX : (CHANGES_MAX - searched) / CLEARED_ROWS;

	return q->limit < most ? q->limit : most;
}

/* The rest did not fit: it is on the next page. */
static void cleared_until(struct lock_page *out, uint32_t count)
{
	out->count = count;
	out->more = true;
	out->last_pk = out->list[count - 1].pk;
	out->last_sk = out->list[count - 1].sk;
}

enum err_code locks_unlock(struct context *ctx, const struct lock_search *q, struct lock_page *out,
                           struct err *err)
{
	struct lock_search bounded = *q;
	bool               held;

	bounded.limit = unlock_max(ctx, q);
	if (locks_find(ctx, &bounded, out, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < out->count; i++) {
		if (lock_is_removed(ctx, out->list[i].pk, out->list[i].sk)) /* with others of its group */
			continue;
		if (i > 0 && changes_room(&ctx->changes) < lock_remove_rows(ctx, &out->list[i].row)) {
			cleared_until(out, i);
			break;
		}
		if (q->subject_count == 0) /* what a scan found may have changed already */
			ctx_found(ctx, &out->list[i].row);
		if (lock_clear(ctx, out->list[i].pk, out->list[i].sk, &held, err) != ERR_NONE)
			return err->code;
	}
	return ERR_NONE;
}
