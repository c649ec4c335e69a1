/* Streaks: see streak.h. */
#include "service/streak.h"

#include "service/assess.h"
#include "service/lock.h"

/* Maps from "JOURNEY/TYPE" to a number. Others may have written them: what is of another type counts as absent. */
#define STRANGERS LOCK_FAILURES
#define DEVICES   LOCK_DEVICE_FAILURES

static const char *part_name(bool lane)
{
	return lane ? DEVICES : STRANGERS;
}

static struct item part_of(const struct item *row, bool lane)
{
	const struct value *v = item_get(row, bytes_of(part_name(lane)));

	return v != NULL && v->type == VALUE_M ? v->map : (struct item){NULL, 0};
}

static int64_t bounded(const struct value *v)
{
	int64_t n = value_to_i64(v, 0);

	return n < 0 ? 0 : n > RULE_MAX_MAX ? RULE_MAX_MAX : n;
}

int64_t streak_of_row(const struct item *row, bool lane)
{
	struct item part = part_of(row, lane);
	int64_t     sum = 0;

	for (uint32_t i = 0; i < part.count; i++)
		sum += bounded(&part.members[i].value);
	return sum;
}

void streak_see(struct streak *s, const struct looked *row)
{
	int64_t failures = row->found ? streak_of_row(&row->item, s->lane) : 0;
	int64_t ends_s = failures > 0 ? row_i64(&row->item, "ttl", 0) : 0;

	s->rows[s->count++] = row;
	s->total += failures;
	if (ends_s > 0 && (s->ends_s == 0 || ends_s < s->ends_s))
		s->ends_s = ends_s;
}

static void part_set(struct row *row, bool lane, struct item part)
{
	if (part.count == 0)
		row_remove(row, part_name(lane));
	else
		row_set(row, part_name(lane), (struct value){.type = VALUE_M, .map = part});
}

/* ---- failures ---- */

/* A lock stays as it was set; a row that is none lives on. (5) What comes late moves nothing back. */
static void row_renew(struct context *ctx, const struct attempt *q, struct row *row)
{
	int64_t ends_s = ctx->now_s + q->rules->consecutive.life_s, was_s = row_i64(&row->item, "ttl", 0);
	int64_t last_s = row_i64(&row->item, "last_updated", 0);

	row_set_i64(row, "count", 0);
	row_set_i64(row, "ttl", ends_s > was_s ? ends_s : was_s);
	row_set_i64(row, "last_updated", ctx->late && last_s > ctx->now_s ? last_s : ctx->now_s);
}

/* (4) */
static const struct looked *own_row(const struct attempt *q, const struct streak *s)
{
	for (uint32_t i = 0; q->owners != NULL && i < s->count; i++)
		if (bytes_equal(s->rows[i]->pk, q->owners[0]))
			return s->rows[i];
	return s->rows[0];
}

void streak_fail(struct context *ctx, const struct attempt *q, const struct streak *s)
{
	const struct looked *own = own_row(q, s);
	bool                 locked = own->found && lock_holds(&own->item, ctx->now_us);
	struct item          part = own->found ? part_of(&own->item, s->lane) : (struct item){NULL, 0};
	struct value         more = value_i64(bounded(item_get(&part, q->rule->name)) + ctx_weight(ctx));
	struct row           row;

	if (own->found) {
		row_from(&row, ctx->arena, &own->item);
	} else {
		row_init(&row, ctx->arena);
		row_set_text(&row, "PK", own->pk);
		row_set_text(&row, "SK", own->sk);
	}
	if (part.count >= 2 * RULE_LIST_MAX) /* of policies long gone */
		part = (struct item){NULL, 0};
	part_set(&row, s->lane, item_with(ctx->arena, &part, q->rule->name, &more));
	if (!locked)
		row_renew(ctx, q, &row);
	ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
}

static void row_locked(struct context *ctx, const struct looked *was)
{
	struct table_write *w = changes_find(&ctx->changes, TABLE_AUTH_STATE, was->pk, was->sk);
	struct row          row;

	if (w != NULL && w->kind == TABLE_PUT) {
		w->item = item_without(ctx->arena, &w->item, BYTES(STRANGERS));
	} else if (w == NULL && part_of(&was->item, true).count > 0) {
		row_from(&row, ctx->arena, &was->item);
		row_remove(&row, STRANGERS);
		ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
	} else if (w == NULL && !lock_holds(&was->item, ctx->now_us)) {
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, was->pk, was->sk));
	}
}

void streak_locked(struct context *ctx, const struct streak *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		if (s->rows[i]->found)
			row_locked(ctx, s->rows[i]);
}

/* ---- a row that is put back ---- */

bool streak_row_is(struct arena *a, const struct item *row, const struct item *left)
{
	struct item x, y;

	if (part_of(row, true).count == 0 && part_of(left, true).count == 0)
		return item_equal(row, left);
	x = item_without(a, row, BYTES(DEVICES));
	y = item_without(a, left, BYTES(DEVICES));
	return item_equal(&x, &y);
}

bool streak_row_back(struct context *ctx, const struct attempt *q, const struct item *row, bool there,
                     struct item *before)
{
	struct item part = part_of(row, true);
	struct row  back;

	if (part.count == 0 && (!there || part_of(before, true).count == 0))
		return there;
	if (there) {
		row_from(&back, ctx->arena, before);
	} else {
		row_init(&back, ctx->arena);
		row_set_text(&back, "PK", row_text(row, "PK"));
		row_set_text(&back, "SK", row_text(row, "SK"));
	}
	part_set(&back, true, part);
	if (part.count > 0)
		row_renew(ctx, q, &back);
	*before = row_item(&back);
	return true;
}

/* ---- successes ---- */

static bool clears(const struct rule *rule, struct bytes name)
{
	for (uint32_t i = 0; i < rule->clears.count; i++) {
		const struct rule_ref *ref = &rule->clears.list[i];

		if (name.len == ref->journey.len + 1 + ref->name.len &&
		    bytes_starts_with(name, ref->journey) && name.data[ref->journey.len] == '/' &&
		    memcmp(name.data + ref->journey.len + 1, ref->name.data, ref->name.len) == 0)
			return true;
	}
	return bytes_equal(name, rule->name) || rule->ends_streak;
}

int64_t streak_left(const struct streak *s, const struct rule *rule)
{
	int64_t left = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		struct item part =
		        s->rows[i]->found ? part_of(&s->rows[i]->item, s->lane) : (struct item){NULL, 0};

		for (uint32_t n = 0; n < part.count; n++)
			left += clears(rule, part.members[n].name) ? 0 : bounded(&part.members[n].value);
	}
	return left;
}

/* (2) False: it ends nothing of it. */
static bool part_end(struct row *row, const struct rule *rule, bool lane)
{
	struct item part = part_of(&row->item, lane), left = part;

	for (uint32_t i = 0; i < part.count; i++)
		if (clears(rule, part.members[i].name))
			left = item_without(row->arena, &left, part.members[i].name);
	if (left.count == part.count)
		return false;
	part_set(row, lane, left);
	return true;
}

/* The row as this commit leaves it so far: what a reservation took back is not read again. */
static const struct item *row_now(const struct context *ctx, const struct looked *was)
{
	const struct table_write *w = changes_find(&ctx->changes, TABLE_AUTH_STATE, was->pk, was->sk);

	if (w != NULL)
		return w->kind == TABLE_PUT ? &w->item : NULL;
	return was->found ? &was->item : NULL;
}

static bool is_empty(const struct row *row)
{
	return part_of(&row->item, false).count == 0 && part_of(&row->item, true).count == 0;
}

static void row_succeed(struct context *ctx, const struct rule *rule, const struct looked *was, bool lane)
{
	const struct item *now = row_now(ctx, was);
	bool               ended;
	struct row         row;

	/* Late: it ends what was before it. */
	if (now == NULL || (ctx->late && row_i64(now, "last_updated", 0) > ctx->now_s))
		return;
	row_from(&row, ctx->arena, now);
	ended = part_end(&row, rule, lane);
	if (rule->ends_streak && !lane) /* (3) */
		ended |= part_end(&row, rule, true);
	if (!ended)
		return;
	if (is_empty(&row) && !lock_holds(now, ctx->now_us))
		ctx_delete(ctx, TABLE_AUTH_STATE, row_key_two(ctx->arena, was->pk, was->sk));
	else
		ctx_put(ctx, TABLE_AUTH_STATE, row_item(&row));
}

void streak_succeed(struct context *ctx, const struct attempt *q, const struct streak *s)
{
	for (uint32_t i = 0; i < s->count; i++)
		row_succeed(ctx, q->rule, s->rows[i], s->lane);
}
