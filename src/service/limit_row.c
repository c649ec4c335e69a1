/* Limit rows: states from rows, rows from states. */
#include "service/limit_row.h"

#include "service/row.h"

#define TTL "TTL"

static struct bytes key_of(struct arena *a, struct bytes key, unsigned shard)
{
	if (shard > 0)
		return arena_printf(a, "RLS#%u#%.*s", shard, BYTES_ARG(key));
	char *text = arena_alloc(a, 3 + key.len);

	memcpy(text, "RL#", 3);
	memcpy(text + 3, key.data, key.len);
	return (struct bytes){text, 3 + key.len};
}

void limit_row_init(struct limit_row *r, struct arena *a, struct bytes key, unsigned shard)
{
	*r = (struct limit_row){.shard = shard};
	looked_init(&r->row, key_of(a, key, shard), (struct bytes){NULL, 0});
}

/* ---- reading ---- */

static uint64_t read_count(const struct item *item, const char *name)
{
	int64_t count = row_i64(item, name, 0);

	return count > 0 ? (uint64_t)count : 0;
}

static void state_read(const struct limit_rule *rule, const struct item *item, struct limit_state *s)
{
	*s = (struct limit_state){.algorithm = rule->algorithm};
	if (rule->algorithm == LIMIT_GCRA) {
		s->start_us = row_i64(item, "TAT", 0);
		s->count = read_count(item, "TATRest");
		if (s->start_us < 0 || s->start_us >= LIMIT_TIME_MAX_US)
			s->start_us = 0;
	} else if (limit_time_parse(row_text(item, "WindowStart"), &s->start_us)) {
		s->count = read_count(item, "Count");
		s->previous = rule->algorithm == LIMIT_SLIDING ? read_count(item, "PrevCount") : 0;
	}
	s->blocked_us = row_i64(item, "BlockedAt", 0);
	if (s->blocked_us < 0 || s->blocked_us >= LIMIT_TIME_MAX_US)
		s->blocked_us = 0;
}

/* What a layout is for: (2). */
static struct bytes limit_text(struct arena *a, const struct limit_rule *rule)
{
	if (rule->algorithm == LIMIT_GCRA)
		return arena_printf(a, "%llu/%llu", (unsigned long long)rule->limit,
		                    (unsigned long long)rule->burst);
	return arena_printf(a, "%llu", (unsigned long long)rule->limit);
}

void limit_row_read(struct limit_row *r, struct arena *a, const struct limit_rule *rule)
{
	const struct item *item = &r->row.item;
	int64_t            shards;

	r->state = (struct limit_state){0};
	r->shards = 0;
	if (!r->row.found)
		return;
	state_read(rule, item, &r->state);
	shards = row_i64(item, "Shards", 1);
	r->shards = shards >= 2 && shards <= LIMIT_SHARDS_MAX ? (unsigned)shards : 1;
	if (r->shards == 1)
		return;
	r->alike = bytes_equal(row_text(item, "ShardsOf"), limit_text(a, rule));
	r->laid_us = row_i64(item, "LaidAt", 0);
}

static int64_t whole_seconds(int64_t time_us)
{
	return (time_us + 999999) / 1000000;
}

bool limit_row_ends(const struct limit_row *r, const struct limit_rule *rule, int64_t now_us)
{
	struct limit_rule own = limit_shard_rule(rule, r->shards, r->shard);

	return row_i64(&r->row.item, TTL, 0) <
	       whole_seconds(limit_expiry_max(&own, now_us)) + LIMIT_ROW_GRACE_S;
}

/* ---- writing ---- */

static void row_set_windows(struct row *r, const struct limit_state *s)
{
	char *text = arena_alloc(r->arena, LIMIT_TIME_TEXT);

	limit_time_format(s->start_us, text);
	row_set_text(r, "WindowStart", (struct bytes){text, LIMIT_TIME_TEXT});
	row_set_i64(r, "Count", (int64_t)s->count);
	if (s->algorithm == LIMIT_SLIDING)
		row_set_i64(r, "PrevCount", (int64_t)s->previous);
	else
		row_remove(r, "PrevCount");
	row_remove(r, "TAT");
	row_remove(r, "TATRest");
}

static void row_set_tat(struct row *r, const struct limit_state *s)
{
	row_set_i64(r, "TAT", s->start_us);
	row_set_i64(r, "TATRest", (int64_t)s->count);
	row_remove(r, "WindowStart");
	row_remove(r, "Count");
	row_remove(r, "PrevCount");
}

/* The row as it was, with the new state. */
static void row_begin(struct row *row, struct context *ctx, const struct limit_row *r,
                      const struct limit_state *s)
{
	struct item key = row_key_one(ctx->arena, r->row.pk);

	if (r->row.loose)
		ctx_rests_on(ctx, TABLE_RATE_LIMITS, &r->row);
	row_from(row, ctx->arena, r->row.found ? &r->row.item : &key);
	if (s->algorithm == LIMIT_GCRA)
		row_set_tat(row, s);
	else
		row_set_windows(row, s);
	if (s->blocked_us > 0)
		row_set_i64(row, "BlockedAt", s->blocked_us);
	else
		row_remove(row, "BlockedAt");
}

static int64_t row_ttl(const struct limit_rule *rule, const struct limit_state *s)
{
	return whole_seconds(limit_expiry(rule, s)) + LIMIT_ROW_GRACE_S;
}

static void row_put(struct context *ctx, const struct limit_rule *rule, const struct limit_row *r,
                    const struct limit_state *s)
{
	struct row row;

	row_begin(&row, ctx, r, s);
	if (r->shards <= 1)
		row_set_i64(&row, TTL, row_ttl(rule, s));
	ctx_put(ctx, TABLE_RATE_LIMITS, row_item(&row));
}

/* ---- adding to a count: others may add to it meanwhile, as long as there is room for all ---- */

static struct expr_path path_of(struct arena *a, const char *name)
{
	struct expr_step *step = arena_zalloc(a, sizeof(*step));

	step->name = bytes_of(name);
	return (struct expr_path){step, 1};
}

/* Is it the same window, in a row that is in order, and is something taken? */
static bool only_adds(const struct limit_row *before, const struct limit_state *s)
{
	return before->row.found && s->algorithm != LIMIT_GCRA && s->start_us == before->state.start_us &&
	       s->blocked_us == 0 && before->state.blocked_us == 0 && s->count > before->state.count &&
	       s->previous == before->state.previous &&
	       row_i64(&before->row.item, "Count", -1) == (int64_t)before->state.count;
}

/* As many as may be there before this is added. */
static int64_t count_max(const struct context *ctx, const struct limit_rule *rule, const struct limit_row *r,
                         struct limit_state after)
{
	struct limit_rule   own = limit_shard_rule(rule, r->shards, r->shard);
	struct limit_answer left;

	limit_take(&own, &after, ctx->now_us, 0, &left);
	return (int64_t)(r->state.count + left.remaining);
}

static void row_add(struct context *ctx, const struct limit_rule *rule, const struct limit_row *before,
                    const struct limit_state *s)
{
	static const char *const kept[] = {"WindowStart", "PrevCount", "BlockedAt",
	                                   "Shards",      "ShardsOf",  NULL};
	struct expr_update      *u = arena_zalloc(ctx->arena, sizeof(*u));

	u->count = before->shards > 1 ? 1 : 2;
	u->actions = arena_zalloc(ctx->arena, 2 * sizeof(*u->actions));
	u->actions[0] = (struct expr_action){.kind = ACTION_ADD,
	                                     .path = path_of(ctx->arena, "Count"),
	                                     .value = value_i64((int64_t)(s->count - before->state.count))};
	u->actions[1] =
	        (struct expr_action){.kind = ACTION_SET,
	                             .path = path_of(ctx->arena, TTL),
	                             .term = {.kind = TERM_VALUE, .value = value_i64(row_ttl(rule, s))}};
	ctx_update(ctx, TABLE_RATE_LIMITS, row_key_one(ctx->arena, before->row.pk), u,
	           ctx->table->alone ? NULL
	                             : row_same_up_to(ctx->arena, &before->row.item, kept, "Count",
	                                              count_max(ctx, rule, before, *s)));
}

void limit_row_write(struct context *ctx, const struct limit_rule *rule, const struct limit_row *r,
                     const struct limit_state *s)
{
	if (only_adds(r, s))
		row_add(ctx, rule, r, s);
	else
		row_put(ctx, rule, r, s);
}

/* ---- laying out ---- */

static int64_t layout_ttl(const struct limit_rule *rule, unsigned shards, int64_t now_us)
{
	int64_t latest_us = 0;

	for (unsigned i = 0; i < shards; i++) {
		struct limit_rule own = limit_shard_rule(rule, shards, i);
		int64_t           ends_us = limit_expiry_max(&own, now_us);

		latest_us = ends_us > latest_us ? ends_us : latest_us;
	}
	return whole_seconds(latest_us) + LIMIT_ROW_GRACE_S + LIMIT_LAYOUT_S;
}

static void row_lay(struct context *ctx, const struct limit_rule *rule, const struct limit_row *r,
                    const struct limit_state *s, unsigned shards)
{
	struct row row;

	row_begin(&row, ctx, r, s);
	if (shards > 1) {
		row_set_i64(&row, "Shards", shards);
		row_set_text(&row, "ShardsOf", limit_text(ctx->arena, rule));
		row_set_i64(&row, "LaidAt", ctx->now_us);
		row_set_i64(&row, TTL, layout_ttl(rule, shards, ctx->now_us));
	} else {
		row_remove(&row, "Shards");
		row_remove(&row, "ShardsOf");
		row_remove(&row, "LaidAt");
		row_set_i64(&row, TTL, row_ttl(rule, s));
	}
	ctx_put(ctx, TABLE_RATE_LIMITS, row_item(&row));
}

void limit_rows_lay(struct context *ctx, const struct limit_rule *rule, struct limit_rows rows,
                    struct limit_states states)
{
	for (unsigned i = 0; i < states.count; i++)
		row_lay(ctx, rule, &rows.list[i], &states.list[i], states.count);
	for (unsigned i = states.count; i < rows.count; i++)
		if (rows.list[i].row.found) {
			ctx_rests_on(ctx, TABLE_RATE_LIMITS, &rows.list[i].row);
			ctx_delete(ctx, TABLE_RATE_LIMITS, row_key_one(ctx->arena, rows.list[i].row.pk));
		}
}
