/* Attempts: see attempt.h. */
#include "service/attempt.h"

#include "base/buf.h"
#include "service/attempt_event.h"
#include "service/row.h"
#include "service/lock.h"
#include "service/reservation.h"

struct recording {
	struct context        *ctx;
	const struct attempt  *q;
	enum outcome           outcome;
	struct assessment     *now;
	struct attempt_result *out;
	struct err            *err;
	bool                   due; /* it sets a lock that was due, and is not counted itself */
	bool for_good;              /* one too many in a row: that lock takes the place of the subject's */
};

/* Left for the device that is remembered, and for locks with what is told of them. */
enum { CHANGES_SPARE = 16 };

/* ---- history: what a row remembers of the attempts behind it, in one short text ---- */

/* "1794789304 failure v0 SMS" */
static void history_line(const struct recording *r, struct buf *out)
{
	static const char *const outcomes[] = {" failure v", " success v", " sent v"};
	const char              *outcome = r->q->reservation.len > 0 ? " begun v" : outcomes[r->outcome];
	struct bytes how = r->q->method_type.len > 0 ? r->q->method_type : r->q->notification_type;

	buf_add_i64(out, r->ctx->now_s);
	buf_add_bytes(out, bytes_of(outcome));
	buf_add_i64(out, r->q->rules->base.version);
	if (how.len > 0)
		buf_add_byte(out, ' ');
	buf_add_bytes(out, how);
}

/* Without its first attempt. */
static struct bytes history_rest(struct bytes history)
{
	const char *comma = memchr(history.data, ',', history.len);
	size_t      skip = comma == NULL ? history.len : (size_t)(comma - history.data) + 2;

	return skip > history.len ? (struct bytes){NULL, 0}
	                          : (struct bytes){history.data + skip, history.len - skip};
}

/* The old attempts, as many of the newest as fit, and this one. */
static struct bytes history_with(const struct recording *r, const struct item *old)
{
	struct bytes before = old == NULL ? (struct bytes){NULL, 0} : row_text(old, "history");
	struct buf   out;

	while (before.len > HISTORY_BYTES_MAX - HISTORY_LINE_BYTES)
		before = history_rest(before);
	buf_init_room(&out, r->ctx->arena, HISTORY_BYTES_MAX);
	buf_add_bytes(&out, before);
	if (before.len > 0)
		buf_add(&out, ", ", 2);
	history_line(r, &out);
	return buf_bytes(&out);
}

/* ---- the history of a lock: that of all rows it takes the place of, in order ---- */

struct history {
	struct bytes *lines;
	uint32_t      count, room;
};

static int64_t line_time(struct bytes line)
{
	int64_t at = 0;

	for (size_t i = 0; i < line.len && line.data[i] >= '0' && line.data[i] <= '9' && i < 18; i++)
		at = 10 * at + (line.data[i] - '0');
	return at;
}

/* Behind all that were not later. */
static void line_add(struct arena *a, struct history *h, struct bytes line)
{
	uint32_t at = h->count;

	if (h->count == h->room) {
		struct bytes *more = arena_array(a, h->room = 2 * h->room + 16, sizeof(*more));

		if (h->count > 0)
			memcpy(more, h->lines, h->count * sizeof(*more));
		h->lines = more;
	}
	for (; at > 0 && line_time(h->lines[at - 1]) > line_time(line); at--)
		h->lines[at] = h->lines[at - 1];
	h->lines[at] = line;
	h->count++;
}

static void lines_add(struct arena *a, struct history *h, struct bytes history)
{
	while (history.len > 0) {
		struct bytes rest = history_rest(history);
		size_t       used = rest.len > 0 ? history.len - rest.len - 2 : history.len;

		line_add(a, h, (struct bytes){history.data, used});
		history = rest;
	}
}

/* The newest, as many as fit. */
static struct bytes history_text(struct arena *a, const struct history *h)
{
	uint32_t   first = h->count;
	size_t     len = 0;
	struct buf out;

	while (first > 0 && len + h->lines[first - 1].len + 2 <= HISTORY_BYTES_MAX + 2)
		len += h->lines[--first].len + 2;
	buf_init_room(&out, a, HISTORY_BYTES_MAX);
	for (uint32_t i = first; i < h->count; i++) {
		if (i > first)
			buf_add(&out, ", ", 2);
		buf_add_bytes(&out, h->lines[i]);
	}
	return buf_bytes(&out);
}

static struct bytes lock_history(const struct recording *r, const struct counter *c, bool each)
{
	struct arena  *a = r->ctx->arena;
	struct history h = {0};
	struct buf     line;

	for (uint32_t i = 0; i < c->row_count; i++)
		if (!each || bytes_equal(c->rows[i].sk, c->sk))
			lines_add(a, &h, row_text(&c->rows[i].item, "history"));
	buf_init_room(&line, a, HISTORY_LINE_BYTES);
	history_line(r, &line);
	if (!r->due)
		line_add(a, &h, buf_bytes(&line));
	return history_text(a, &h);
}

/* ---- counting ---- */

static void details_set(const struct attempt *q, struct row *row)
{
	if (q->notification_type.len > 0)
		row_set_text(row, "notification_type", q->notification_type);
	if (q->method_type.len > 0)
		row_set_text(row, "mfa_method_type", q->method_type);
}

static bool is_of_source(const struct counter *c)
{
	return c->scope == SCOPE_PAIR || c->scope == SCOPE_SOURCE;
}

/* Of an attempt that is recorded late: has somebody counted since? */
static bool is_newer(const struct recording *r, const struct item *row)
{
	return r->ctx->late && row_i64(row, "last_updated", 0) > r->ctx->now_s;
}

/* A count's life runs from its first failure, or anew from each. */
static int64_t count_ends(const struct recording *r, const struct counter *c)
{
	const struct rule *rule = r->q->rule;
	int64_t            old_s = c->own == NULL ? 0 : row_i64(&c->own->item, "ttl", 0);

	if (is_of_source(c) && rule->source_life_s > 0)
		return old_s == 0 ? r->ctx->now_s + rule->source_life_s : old_s;
	if (old_s > 0 && is_newer(r, &c->own->item))
		return old_s;
	return old_s == 0 || rule->renewed ? r->ctx->now_s + rule->life_s : old_s;
}

/* When the first of a counter's rows expires, if the one that is counted in expires then. */
static int64_t first_ends(const struct counter *c, int64_t own_ends_s)
{
	int64_t first_s = own_ends_s;

	for (uint32_t i = 0; i < c->row_count; i++) {
		int64_t ends_s = row_i64(&c->rows[i].item, "ttl", 0);

		if (&c->rows[i] != c->own && ends_s > 0 && ends_s < first_s)
			first_s = ends_s;
	}
	return first_s;
}

static void count_put(struct recording *r, struct counter *c)
{
	int64_t    ends_s = count_ends(r, c);
	struct row row;

	if (c->own != NULL) {
		row_from(&row, r->ctx->arena, &c->own->item);
	} else {
		row_init(&row, r->ctx->arena);
		row_set_text(&row, "PK", c->pk);
		row_set_text(&row, "SK", c->sk);
	}
	c->ends_s = first_ends(c, ends_s);
	row_set_i64(&row, "count", (c->own == NULL ? 0 : c->own->count) + ctx_weight(r->ctx));
	row_set_i64(&row, "ttl", ends_s);
	if (c->own == NULL || !is_newer(r, &c->own->item))
		row_set_i64(&row, "last_updated", r->ctx->now_s);
	row_set_text(&row, "history", history_with(r, c->own == NULL ? NULL : &c->own->item));
	if (r->q->reservation.len > 0 && row_text(&row.item, ROW_BEGUN_SINCE).len == 0)
		row_set_text(&row, ROW_BEGUN_SINCE, r->q->reservation);
	details_set(r->q, &row);
	ctx_put(r->ctx, TABLE_AUTH_STATE, row_item(&row));
}

/* The rows that a lock or a success does away with: all that count together, or those of one qualifier. */
static void counts_delete(struct recording *r, const struct counter *c, bool each)
{
	for (uint32_t i = 0; i < c->row_count; i++) {
		const struct count_row *row = &c->rows[i];

		/* What does not fit stays until it expires: better than to refuse the call. */
		if (changes_room(&r->ctx->changes) <= CHANGES_SPARE)
			return;
		if (r->outcome == OUTCOME_SUCCESS && is_newer(r, &row->item))
			continue; /* it clears what was before it */
		if (!each || bytes_equal(row->sk, c->sk))
			ctx_delete(r->ctx, TABLE_AUTH_STATE, row_key_two(r->ctx->arena, row->pk, row->sk));
	}
}

/* In shadow mode: that it is over its line, until the lock would end. */
static void shadow_note(const struct recording *r, int64_t count, struct row *row)
{
	int64_t until_s = r->out->shadow.until_s;

	row_set_i64(row, ROW_SHADOW_COUNT, count);
	row_set_i64(row, ROW_SHADOW_UNTIL, until_s > 0 ? until_s : ROW_I64_MAX);
}

/* A lock of one qualifier begins its count anew, but the sum over all goes on: else whoever has three devices
 * could guess three times as often. This attempt is in the sum too. */
static void counts_move(struct recording *r, const struct counter *c)
{
	int64_t    this_one = r->due ? 0 : 1;
	struct row row;

	if (c->own == NULL && !r->due) {
		row_init(&row, r->ctx->arena);
		row_set_text(&row, "PK", c->pk);
		row_set_text(&row, "SK", c->sk);
		row_set_i64(&row, "count", 0);
		row_set_i64(&row, ROW_LOCKED_COUNT, 1);
		row_set_i64(&row, "ttl", r->ctx->now_s + r->q->rule->life_s);
		row_set_i64(&row, "last_updated", r->ctx->now_s);
		if (r->q->rule->shadow)
			shadow_note(r, 1, &row);
		details_set(r->q, &row);
		ctx_put(r->ctx, TABLE_AUTH_STATE, row_item(&row));
	}

	for (uint32_t i = 0; i < c->row_count; i++) {
		const struct count_row *old = &c->rows[i];
		int64_t                 moved = row_i64(&old->item, ROW_LOCKED_COUNT, 0) + old->count +
		                (old == c->own ? this_one : 0);

		if (!bytes_equal(old->sk, c->sk))
			continue;
		row_from(&row, r->ctx->arena, &old->item);
		row_set_i64(&row, "count", 0);
		row_set_i64(&row, ROW_LOCKED_COUNT, moved);
		row_set_i64(&row, "last_updated", r->ctx->now_s);
		row_remove(&row, ROW_SHADOW_COUNT);
		row_remove(&row, ROW_SHADOW_UNTIL);
		if (old == c->own && r->q->rule->shadow)
			shadow_note(r, old->count + this_one, &row);
		ctx_put(r->ctx, TABLE_AUTH_STATE, row_item(&row));
	}
}

/* A lock in shadow mode stops nobody: that the count is full must be known when the rule comes into force. So it stays, for as long as
 * the lock. Nothing is counted meanwhile, and then it begins anew, as behind a lock that holds. */
static void count_hold(struct recording *r, const struct counter *c, const struct count_row *old)
{
	bool       counted = old == c->own && !r->due;
	struct row row;

	row_init(&row, r->ctx->arena);
	if (old != NULL)
		row_from(&row, r->ctx->arena, &old->item);
	row_set_text(&row, "PK", old == NULL ? c->pk : old->pk);
	row_set_text(&row, "SK", old == NULL ? c->sk : old->sk);
	row_set_i64(&row, "count", (old == NULL ? 0 : old->count) + (counted ? ctx_weight(r->ctx) : 0));
	row_set_i64(&row, "last_updated", r->ctx->now_s);
	if (r->out->shadow.until_s > 0)
		row_set_i64(&row, "ttl", r->out->shadow.until_s);
	else
		row_remove(&row, "ttl");
	if (counted)
		row_set_text(&row, "history", history_with(r, old == NULL ? NULL : &old->item));
	if (counted && r->q->reservation.len > 0 && row_text(&row.item, ROW_BEGUN_SINCE).len == 0)
		row_set_text(&row, ROW_BEGUN_SINCE, r->q->reservation);
	if (counted)
		details_set(r->q, &row);
	ctx_put(r->ctx, TABLE_AUTH_STATE, row_item(&row));
}

static void counts_hold(struct recording *r, const struct counter *c, bool each)
{
	if (c->own == NULL && !r->due)
		count_hold(r, c, NULL);
	for (uint32_t i = 0; i < c->row_count && changes_room(&r->ctx->changes) > CHANGES_SPARE; i++)
		if (!each || bytes_equal(c->rows[i].sk, c->sk))
			count_hold(r, c, &c->rows[i]);
}

/* ---- the maximum ---- */

/* Whom a lock is of: of several ids, the user's own comes first, if it is one of them. */
struct locked {
	struct bytes ids[2 * SUBJECTS_MAX];
	uint32_t     count;
};

static void locked_find(const struct recording *r, const struct counter *c, struct locked *out)
{
	const struct attempt *q = r->q;
	struct bytes          user = q->owners == NULL ? (struct bytes){NULL, 0} : q->owners[0];

	*out = (struct locked){.ids = {c->pk}, .count = 1};
	if (c->scope == SCOPE_SOURCE)
		return;
	for (uint32_t i = out->count = 0; i < q->main_count; i++)
		if (bytes_equal(q->subjects[i], user))
			out->ids[out->count++] = user;
	for (uint32_t i = 0; i < q->main_count; i++)
		if (!bytes_equal(q->subjects[i], user))
			out->ids[out->count++] = q->subjects[i];
}

/* The source's count that the lock takes the place of, if some in it were begun: they may turn out to be right. */
static struct lock_took took_of(const struct recording *r, const struct counter *c)
{
	if (c->scope != SCOPE_SOURCE || c->own == NULL)
		return (struct lock_took){0};
	return (struct lock_took){.since = row_text(&c->own->item, ROW_BEGUN_SINCE),
	                          .count = c->own->count + (r->due ? 0 : 1),
	                          .ends_s = row_i64(&c->own->item, "ttl", 0)};
}

/* A lock that an attempt which is begun may take back is published when that one fails or lapses; in whole seconds, not before. One that was
 * due before stops the attempt itself, which is not begun then. */
static int64_t announce_at(const struct recording *r, const struct lock_new *lock)
{
	bool begins = r->q->reservation.len > 0 && !r->due;

	if (r->q->rule->shadow || (!begins && lock->took.since.len == 0))
		return 0;
	return (r->ctx->now_us + 999999) / 1000000 + r->q->rule->lapse_s;
}

static enum err_code lock_set(struct recording *r, const struct counter *c, const struct locked *whom,
                              const struct rule_ref *name, struct lock_shape shape)
{
	const struct rule *rule = r->q->rule;
	struct verdict     v;
	struct lock_new    lock = {.pk = whom->ids[0],
	                           .others = &whom->ids[1],
	                           .other_count = whom->count - 1,
	                           .journey = name->journey,
	                           .type = bytes_of(shape.type),
	                           .name = name->name,
	                           .qualifier = shape.qualifier,
	                           .kind = counter_lock_kind(c, rule),
	                           .method_type = r->q->method_type,
	                           .notification_type = r->q->notification_type,
	                           .version = r->q->rules->base.version,
	                           .took = took_of(r, c)};

	lock.announce_s = announce_at(r, &lock);
	lock.cause =
	        arena_printf(r->ctx->arena, "%.*s/%.*s", BYTES_ARG(rule->journey), BYTES_ARG(rule->type));
	lock.history = lock_history(r, c, shape.qualifier.len > 0 && c->scope == SCOPE_SUBJECT);
	if (lock_add(r->ctx, &lock, &v, r->err) != ERR_NONE)
		return r->err->code;
	verdict_add(rule->shadow ? &r->out->shadow : &r->out->verdict, &v);
	return ERR_NONE;
}

/* A lock that is set late takes the place of all that was counted, also since: it ends as if the last of it had set it. */
static void time_catch_up(struct recording *r, const struct counter *c)
{
	for (uint32_t i = 0; i < c->row_count; i++) {
		int64_t last_s = row_i64(&c->rows[i].item, "last_updated", 0);

		if (!is_newer(r, &c->rows[i].item))
			continue;
		r->ctx->now_s = last_s;
		r->ctx->now_us = last_s * 1000000;
	}
}

/* Whoever was counted together is locked together, by one lock: under its other ids a subject would go on with a fresh
 * count. */
static enum err_code locks_set(struct recording *r, const struct counter *c, bool each)
{
	const struct rule      *rule = r->q->rule;
	const struct rule_refs *sets = counter_sets(c, rule);
	struct lock_shape       shape = counter_lock_shape(c, rule, each);
	struct locked           whom;

	r->out->source_locked |= is_of_source(c);
	time_catch_up(r, c);
	locked_find(r, c, &whom);
	for (uint32_t i = 0; i < sets->count; i++)
		if (lock_set(r, c, &whom, &sets->list[i], shape) != ERR_NONE)
			return r->err->code;
	if (each && c->max > 0)
		counts_move(r, c);
	else if (rule->shadow)
		counts_hold(r, c, each);
	else
		counts_delete(r, c, each);
	return ERR_NONE;
}

static void sign_out(struct recording *r, struct counter *c)
{
	struct verdict v = {.kind = VERDICT_SIGNED_OUT, .reason = "signed_out", .pk = c->pk, .sk = c->sk};

	count_put(r, c);
	v.until_s = c->ends_s;
	verdict_add(r->q->rule->shadow ? &r->out->shadow : &r->out->verdict, &v);
}

/* Counting goes on past the maximum, until a success that passed the challenge clears it, or it expires. */
static void challenge(struct recording *r, struct counter *c)
{
	const struct rule *rule = r->q->rule;
	struct verdict     v = {.kind = VERDICT_CHALLENGE, .reason = "challenge", .pk = c->pk, .sk = c->sk};

	count_put(r, c);
	v.until_s = c->ends_s;
	r->out->first_time |= c->total == c->max || c->each == c->max_each;
	verdict_add(rule->shadow ? &r->out->shadow : &r->out->verdict, &v);
}

static enum err_code maximum_reached(struct recording *r, struct counter *c, bool each)
{
	if (counter_locks(c, r->q->rule)) {
		r->out->first_time = r->out->locked_now = true;
		return locks_set(r, c, each);
	}
	switch (r->q->rule->at_max) {
	case AT_MAX_LOCK:
		break;
	case AT_MAX_CHALLENGE:
		challenge(r, c);
		break;
	case AT_MAX_SIGN_OUT:
		r->out->first_time = true;
		sign_out(r, c);
		break;
	case AT_MAX_RESET:
		r->out->first_time = false;
		counts_delete(r, c, each);
		break;
	}
	return ERR_NONE;
}

static enum err_code counter_advance(struct recording *r, struct counter *c)
{
	int64_t weight = ctx_weight(r->ctx);
	bool    all, each;

	c->total += weight;
	c->each += weight;
	if (c->scope == SCOPE_LANES) { /* a full one closes all lanes until it expires */
		count_put(r, c);
		counter_show(c, &r->out->nearest);
		return ERR_NONE;
	}
	if (r->for_good && c->scope == SCOPE_SUBJECT) {
		counts_delete(r, c, false);
		counter_show(c, &r->out->nearest);
		return ERR_NONE;
	}
	all = c->max > 0 && c->total + weight > c->max;
	each = c->max_each > 0 && c->each + weight > c->max_each;
	if (!all && !each)
		count_put(r, c);
	counter_show(c, &r->out->nearest);
	return all || each ? maximum_reached(r, c, !all) : ERR_NONE;
}

/* ---- failures in a row (streak.h) ---- */

static enum err_code streak_lock(struct recording *r)
{
	static const struct counter everyone = {.scope = SCOPE_SUBJECT};
	const struct consecutive   *c = &r->q->rules->consecutive;
	const struct counter       *own = r->now->counter_count > 0 ? &r->now->counters[0] : &everyone;
	struct locked               whom;
	struct verdict              v;
	struct lock_new             lock = {.journey = c->sets.journey,
	                                    .type = BYTES(KEY_LOCK),
	                                    .name = c->sets.name,
	                                    .kind = c->lock,
	                                    .cause = r->q->rule->name,
	                                    .reason = BYTES(LOCK_TOO_MANY_FAILURES),
	                                    .method_type = r->q->method_type,
	                                    .version = r->q->rules->base.version};

	locked_find(r, &everyone, &whom);
	lock.pk = whom.ids[0];
	lock.others = &whom.ids[1];
	lock.other_count = whom.count - 1;
	lock.announce_s = announce_at(r, &lock);
	lock.history = lock_history(r, own->scope == SCOPE_SUBJECT ? own : &everyone, false);
	if (lock_add(r->ctx, &lock, &v, r->err) != ERR_NONE)
		return r->err->code;
	streak_locked(r->ctx, &r->now->streak);
	verdict_add(&r->out->verdict, &v);
	return ERR_NONE;
}

/* Known devices are stopped by what they failed before, not by a lock. */
static enum err_code streak_advance(struct recording *r)
{
	const struct streak *s = &r->now->streak;

	r->for_good = !s->lane && s->total + 2 * ctx_weight(r->ctx) > r->q->rules->consecutive.max;
	if (!r->for_good) {
		streak_fail(r->ctx, r->q, s);
		return ERR_NONE;
	}
	r->out->first_time = r->out->locked_now = true;
	return streak_lock(r);
}

/* Its session ends: the device is forgotten, so nothing of that ends by itself. */
void attempt_device_spent(const struct rule *rule, struct verdict *v)
{
	if (rule->at_max == AT_MAX_SIGN_OUT)
		verdict_add(v, &(struct verdict){.kind = VERDICT_SIGNED_OUT, .reason = "signed_out"});
}

/* A device that is forgotten is a stranger from now on, and is told what stands against strangers. */
static enum err_code lane_count(struct recording *r)
{
	struct attempt     stranger = *r->q;
	struct assessment *seen;

	if (r->q->rule->counts == COUNT_SENT)
		return ERR_NONE; /* what was sent is no failure (device.h, 2): the count over all lanes bounds it */
	r->out->device_revoked = device_lane_fail(r->ctx, r->q, &r->now->lane);
	lane_show(&r->now->lane, r->q->rule, &r->out->nearest);
	if (!r->out->device_revoked)
		return ERR_NONE;
	seen = arena_alloc(r->ctx->arena, sizeof(*seen));
	stranger.device = (struct bytes){NULL, 0};
	stranger.account = r->now->account;
	if (assess(r->ctx, &stranger, seen, r->err) != ERR_NONE)
		return r->err->code;
	verdict_add(&r->out->verdict, &seen->verdict);
	attempt_device_spent(r->q->rule, &r->out->verdict);
	r->out->first_time |= r->q->rule->at_max == AT_MAX_SIGN_OUT;
	return ERR_NONE;
}

static enum err_code count_all(struct recording *r)
{
	uint32_t before = r->ctx->changes.count;

	if (streak_counts(r->q->rule) && streak_advance(r) != ERR_NONE)
		return r->err->code;
	for (uint32_t i = 0; i < r->now->counter_count; i++)
		if (counter_advance(r, &r->now->counters[i]) != ERR_NONE)
			return r->err->code;
	if (r->now->lane.open && lane_count(r) != ERR_NONE)
		return r->err->code;
	if (!r->for_good) /* else the lock took their place */
		streak_show(r->q, r->now->streak.total + 1, r->ctx->now_s + r->q->rules->consecutive.life_s,
		            &r->out->nearest);
	r->out->counted = r->ctx->changes.count > before;
	if (r->q->reservation.len > 0 || !r->out->counted) /* begun: told when it is finished */
		return ERR_NONE;
	attempt_near_limit(r->ctx, r->q, &r->out->nearest);
	return r->outcome == OUTCOME_FAILURE ? attempt_new_source(r->ctx, r->q, r->outcome, r->err)
	                                     : ERR_NONE;
}

/* ---- success ---- */

/* What a success leaves as it is: what a source did to others, and the budgets of known devices (device.h, 2). */
static bool outlives_success(const struct counter *c)
{
	return c->scope == SCOPE_SOURCE || c->scope == SCOPE_LANES;
}

/* What it counted itself when it began is not told: it was no failure. */
static int64_t is_this_one(const struct recording *r, const struct count_row *row)
{
	return r->q->finishing != NULL && reservation_counts(r->q->finishing, row) ? 1 : 0;
}

/* It clears what was counted against this subject in this lane: not what others did to the owner of a known device. */
static void own_clear(struct recording *r)
{
	const struct reservation *begun = r->q->finishing;
	uint32_t                  room = begun == NULL ? 0 : begun->removed_count, n = 0;

	for (uint32_t i = 0; i < r->now->counter_count; i++)
		room += r->now->counters[i].row_count;
	r->out->cleared = arena_array(r->ctx->arena, room + 1, sizeof(struct cleared));
	for (uint32_t i = 0; begun != NULL && i < begun->removed_count; i++)
		r->out->cleared[n++] = begun->removed[i];
	for (uint32_t i = 0; i < r->now->counter_count; i++) {
		struct counter *c = &r->now->counters[i];

		if (outlives_success(c))
			continue;
		for (uint32_t j = 0; j < c->row_count; j++) {
			const struct count_row *row = &c->rows[j];
			int64_t                 mine = is_this_one(r, row);
			int64_t                 count = count_of_row(&row->item) - mine;

			if (count > 0 || mine == 0)
				r->out->cleared[n++] = (struct cleared){row->pk, row->sk, count};
		}
		counts_delete(r, c, false);
		c->total = c->each = c->ends_s = 0;
		counter_show(c, &r->out->nearest);
	}
	r->out->cleared_count = n;
}

/* Rules of one type may count in the same row: it is shown once. */
static bool is_cleared(const struct attempt_result *out, const struct count_row *row)
{
	for (uint32_t i = 0; i < out->cleared_count; i++)
		if (bytes_equal(out->cleared[i].pk, row->pk) && bytes_equal(out->cleared[i].sk, row->sk))
			return true;
	return false;
}

static void cleared_add(struct recording *r, const struct counter *c)
{
	struct cleared *more =
	        arena_array(r->ctx->arena, r->out->cleared_count + c->row_count + 1, sizeof(*more));

	if (r->out->cleared_count > 0)
		memcpy(more, r->out->cleared, r->out->cleared_count * sizeof(*more));
	r->out->cleared = more;
	for (uint32_t i = 0; i < c->row_count; i++)
		if (!is_cleared(r->out, &c->rows[i]))
			more[r->out->cleared_count++] = (struct cleared){c->rows[i].pk, c->rows[i].sk,
			                                                 count_of_row(&c->rows[i].item)};
}

static enum err_code other_clear(struct recording *r, const struct rule *rule)
{
	struct attempt     other = *r->q;
	struct assessment *seen = arena_alloc(r->ctx->arena, sizeof(*seen));

	other.rule = rule;
	other.account = r->now->account;
	other.finishing = NULL;              /* the lane that it began in is its own rule's */
	if (rule->at_max == AT_MAX_SIGN_OUT) /* a sign-in ends that, on whatever device */
		other.device = (struct bytes){NULL, 0};
	other.method_id = other.method_type = other.notification_type = (struct bytes){NULL, 0};
	if (assess(r->ctx, &other, seen, r->err) != ERR_NONE)
		return r->err->code;
	for (uint32_t i = 0; i < seen->counter_count; i++) {
		if (outlives_success(&seen->counters[i]))
			continue;
		cleared_add(r, &seen->counters[i]);
		counts_delete(r, &seen->counters[i], false);
	}
	return ERR_NONE;
}

/* What else this rule's success clears: counts of other types, and of its own type by other methods. */
static enum err_code others_clear(struct recording *r)
{
	const struct rule *rule = r->q->rule;
	uint32_t           count;

	for (uint32_t i = 0; i < rule->clears.count; i++) {
		const struct rule_ref *ref = &rule->clears.list[i];
		const struct rule     *other = rules_of_type(r->q->rules, ref->journey, ref->name, &count);

		for (uint32_t j = 0; j < count; j++)
			if (&other[j] != rule && other_clear(r, &other[j]) != ERR_NONE)
				return r->err->code;
	}
	return ERR_NONE;
}

/* Whoever signed in from a device may do so again, whatever others try meanwhile. The new token has a whole budget. */
static enum err_code device_remember(struct recording *r)
{
	if (device_issue(r->ctx, r->q, &r->out->device, r->err) != ERR_NONE)
		return r->err->code;
	if (r->out->device.token.len > 0)
		r->now->lane.failures = 0;
	lane_show(&r->now->lane, r->q->rule, &r->out->nearest);
	return ERR_NONE;
}

static bool clears_own(const struct rule *rule)
{
	for (uint32_t i = 0; i < rule->clears.count; i++)
		if (bytes_equal(rule->clears.list[i].journey, rule->journey) &&
		    bytes_equal(rule->clears.list[i].name, rule->type))
			return true;
	return false;
}

/* ---- locks that grow: a success that clears the counts makes the next lock a first one again ---- */

static enum err_code levels_drop(struct recording *r, struct bytes sk, uint32_t from, uint32_t to, bool *any)
{
	struct looked rows[PERSON_IDS_MAX];

	for (uint32_t i = from; i < to; i++) {
		looked_init(&rows[i], r->q->subjects[i], sk);
		rows[i].next = i + 1 < to ? &rows[i + 1] : NULL;
	}
	if (from < to && ctx_look_all(r->ctx, &rows[from], r->err) != ERR_NONE)
		return r->err->code;
	for (uint32_t i = from; i < to; i++) {
		if (!rows[i].found)
			continue;
		*any = true;
		if (is_newer(r, &rows[i].item)) /* it forgets what was before it */
			continue;
		ctx_delete(r->ctx, TABLE_AUTH_STATE, row_key_two(r->ctx->arena, rows[i].pk, sk));
	}
	return ERR_NONE;
}

/* A lock is set on the ids that are named and on their users, and so is how often: if none of these has it, no other name of the person is asked. */
static enum err_code level_forget(struct recording *r, const struct rule_ref *lock, struct bytes qualifier)
{
	struct bytes sk =
	        key_name(r->ctx->arena, lock->journey, BYTES(KEY_LOCK_LEVEL), lock->name, qualifier);
	uint32_t all = r->q->subject_count, first = r->q->main_count > 0 ? r->q->main_count : all;
	bool     any = false;

	if (levels_drop(r, sk, 0, first, &any) != ERR_NONE)
		return r->err->code;
	return any ? levels_drop(r, sk, first, all, &any) : ERR_NONE;
}

/* Of the locks that strangers caused, a known device's success says nothing. Whether there are any no other row tells: what failed in a row is ended
 * by other types too, by people, and by policies that change. */
static bool may_have_levels(const struct recording *r)
{
	return lock_kind_grows(r->q->rule->lock) && !r->now->lane.open && clears_own(r->q->rule);
}

static enum err_code levels_forget(struct recording *r)
{
	const struct rule_refs *sets = &r->q->rule->sets;
	struct bytes            qualifier = attempt_qualifier(r->q);

	for (uint32_t i = 0; may_have_levels(r) && i < sets->count; i++) {
		if (level_forget(r, &sets->list[i], (struct bytes){NULL, 0}) != ERR_NONE)
			return r->err->code;
		if (qualifier.len > 0 && level_forget(r, &sets->list[i], qualifier) != ERR_NONE)
			return r->err->code;
	}
	return ERR_NONE;
}

static enum err_code succeed(struct recording *r)
{
	if (r->q->finishing != NULL &&
	    reservation_take_back(r->ctx, r->q->finishing, clears_own(r->q->rule), r->err) != ERR_NONE)
		return r->err->code;
	if (device_remember(r) != ERR_NONE) /* first: what is cleared takes the room that is left */
		return r->err->code;
	if (attempt_new_source(r->ctx, r->q, OUTCOME_SUCCESS, r->err) != ERR_NONE)
		return r->err->code;
	if (levels_forget(r) != ERR_NONE)
		return r->err->code;
	if (streak_counts(r->q->rule))
		streak_succeed(r->ctx, r->q, &r->now->streak);
	if (clears_own(r->q->rule))
		own_clear(r);
	streak_show(r->q, streak_left(&r->now->streak, r->q->rule), r->now->streak.ends_s, &r->out->nearest);
	return others_clear(r);
}

/* It would have been refused, but was not: what follows for others is real. */
static enum err_code succeed_in_shadow(struct recording *r)
{
	assessment_show(r->now, r->q, &r->out->nearest);
	if (device_remember(r) != ERR_NONE)
		return r->err->code;
	return others_clear(r);
}

/* ---- all of it ---- */

/* A guess that was made without the challenge is counted all the same. Its success is none, nothing is sent, and none is
 * begun. */
static bool stops(const struct attempt *q, enum verdict_kind kind, enum outcome outcome)
{
	bool guessed = outcome == OUTCOME_FAILURE && q->reservation.len == 0;

	return kind != VERDICT_ALLOW && !(kind == VERDICT_CHALLENGE && guessed);
}

/* A count that is full already has no lock yet (assess.c): this attempt sets it, whatever came of it, and is not counted. */
static enum err_code due_set(struct recording *r)
{
	bool stands = r->q->rule->shadow ? r->out->verdict.kind == VERDICT_ALLOW
	                                 : r->out->verdict.kind <= VERDICT_LOCKED_PERMANENT;

	if (r->now->due == NULL || !stands)
		return ERR_NONE;
	r->due = r->out->first_time = r->out->locked_now = true;
	return locks_set(r, r->now->due, r->now->due_each);
}

enum err_code attempt_record(struct context *ctx, const struct attempt *q, enum outcome outcome,
                             struct attempt_result *out, struct err *err)
{
	struct assessment now;
	struct attempt   *whole = arena_alloc(ctx->arena, sizeof(*whole));
	struct recording  r = {
	         .ctx = ctx, .q = whole, .outcome = outcome, .out = out, .now = &now, .err = err};
	bool in_shadow;

	*out = (struct attempt_result){0};
	if (attempt_whole(ctx, q, whole, err) != ERR_NONE || assess(ctx, whole, &now, err) != ERR_NONE)
		return err->code;
	q = whole;
	out->verdict = now.verdict;
	out->shadow = now.shadow;
	out->required = now.required;
	out->known_device = now.lane.open;
	out->lane = now.lane;
	out->account = now.account;
	out->device_name = q->device;
	out->device_of = q->device_of;
	if (due_set(&r) != ERR_NONE)
		return err->code;
	in_shadow =
	        out->verdict.kind == VERDICT_ALLOW && q->rule->shadow && stops(q, out->shadow.kind, outcome);
	if (outcome == OUTCOME_SUCCESS && out->verdict.kind == VERDICT_ALLOW)
		changes_confirm(&ctx->changes);
	if (in_shadow && outcome == OUTCOME_SUCCESS)
		return succeed_in_shadow(&r);
	if (in_shadow || stops(q, out->verdict.kind, outcome)) {
		assessment_show(&now, q, &out->nearest);
		return ERR_NONE;
	}
	if (outcome == (q->rule->counts == COUNT_SENT ? OUTCOME_SENT : OUTCOME_FAILURE))
		return count_all(&r);
	if (outcome != OUTCOME_SUCCESS)
		return ERR_NONE;
	return succeed(&r);
}
