/* Limit table: states from rows, rows from states; and what was answered to which cost, until when. */
#include "service/limit_table.h"

#include <assert.h>

#include "service/row.h"

#define TTL "TTL"

/* What was read of one ask's row. */
struct seen {
	struct looked      row;
	struct limit_state state; /* all zeros if it was not there */
};

/* ---- rows ---- */

static struct bytes key_of(struct arena *a, const struct limit_ask *ask)
{
	char *text = arena_alloc(a, 3 + ask->key.len);

	memcpy(text, "RL#", 3);
	memcpy(text + 3, ask->key.data, ask->key.len);
	return (struct bytes){text, 3 + ask->key.len};
}

/* Others may have written it: what makes no sense counts as nothing. */
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

static int64_t row_ttl(const struct limit_ask *ask, const struct limit_state *s)
{
	return (limit_expiry(ask->rule, s) + 999999) / 1000000 + LIMIT_ROW_GRACE_S;
}

static void row_write(struct context *ctx, const struct limit_ask *ask, const struct seen *before,
                      const struct limit_state *s)
{
	struct item key = row_key_one(ctx->arena, before->row.pk);
	struct row  r;

	row_from(&r, ctx->arena, before->row.found ? &before->row.item : &key);
	if (s->algorithm == LIMIT_GCRA)
		row_set_tat(&r, s);
	else
		row_set_windows(&r, s);
	if (s->blocked_us > 0)
		row_set_i64(&r, "BlockedAt", s->blocked_us);
	else
		row_remove(&r, "BlockedAt");
	row_set_i64(&r, TTL, row_ttl(ask, s));
	ctx_put(ctx, TABLE_RATE_LIMITS, row_item(&r));
}

/* ---- adding to a count: others may add to it meanwhile, as long as there is room for all ---- */

static struct expr_path path_of(struct arena *a, const char *name)
{
	struct expr_step *step = arena_zalloc(a, sizeof(*step));

	step->name = bytes_of(name);
	return (struct expr_path){step, 1};
}

/* Is it the same window, in a row that is in order? */
static bool only_adds(const struct limit_ask *ask, const struct seen *before, const struct limit_state *s)
{
	return ask->answer.allowed && before->row.found && s->algorithm != LIMIT_GCRA &&
	       s->start_us == before->state.start_us && before->state.blocked_us == 0 &&
	       row_i64(&before->row.item, "Count", -1) == (int64_t)before->state.count;
}

static void row_add(struct context *ctx, const struct limit_ask *ask, const struct seen *before,
                    const struct limit_state *s)
{
	static const char *const kept[] = {"WindowStart", "PrevCount", "BlockedAt", NULL};
	struct expr_update      *u = arena_zalloc(ctx->arena, sizeof(*u));
	int64_t                  most = (int64_t)(before->state.count + ask->answer.remaining);

	u->count = 2;
	u->actions = arena_zalloc(ctx->arena, u->count * sizeof(*u->actions));
	u->actions[0] = (struct expr_action){.kind = ACTION_ADD,
	                                     .path = path_of(ctx->arena, "Count"),
	                                     .value = value_i64((int64_t)ask->cost)};
	u->actions[1] =
	        (struct expr_action){.kind = ACTION_SET,
	                             .path = path_of(ctx->arena, TTL),
	                             .term = {.kind = TERM_VALUE, .value = value_i64(row_ttl(ask, s))}};
	ctx_update(ctx, TABLE_RATE_LIMITS, row_key_one(ctx->arena, before->row.pk), u,
	           ctx->table->alone ? NULL
	                             : row_same_up_to(ctx->arena, &before->row.item, kept, "Count", most));
}

/* ---- reading and deciding ---- */

static enum err_code read_all(struct context *ctx, const struct limit_asks *asks, struct seen *out,
                              struct err *err)
{
	enum err_code rc;

	assert(asks->count > 0 && asks->count <= LIMIT_ASKS_MAX);
	if (asks->count == 1) {
		rc = ctx_get(ctx, TABLE_RATE_LIMITS, key_of(ctx->arena, asks->list[0]), &out[0].row, err);
	} else { /* one call, for the sake of a remote engine */
		for (unsigned i = 0; i < asks->count; i++) {
			looked_init(&out[i].row, key_of(ctx->arena, asks->list[i]), (struct bytes){NULL, 0});
			if (i > 0)
				out[i - 1].row.next = &out[i].row;
		}
		rc = ctx_get_all(ctx, TABLE_RATE_LIMITS, &out[0].row, err);
	}
	for (unsigned i = 0; i < asks->count && rc == ERR_NONE; i++) {
		out[i].state = (struct limit_state){0};
		if (out[i].row.found)
			state_read(asks->list[i]->rule, &out[i].row.item, &out[i].state);
	}
	return rc;
}

enum err_code limit_table_take(struct context *ctx, const struct limit_asks *asks, bool *may, struct err *err)
{
	struct seen        seen[LIMIT_ASKS_MAX];
	struct limit_state states[LIMIT_ASKS_MAX];

	if (read_all(ctx, asks, seen, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < asks->count; i++)
		states[i] = seen[i].state;
	*may = limit_decide(asks, states, *may, ctx->now_us);
	for (unsigned i = 0; i < asks->count; i++) {
		const struct limit_ask *ask = asks->list[i];

		if (ask->changed && only_adds(ask, &seen[i], &states[i]))
			row_add(ctx, ask, &seen[i], &states[i]);
		else if (ask->changed)
			row_write(ctx, ask, &seen[i], &states[i]);
	}
	return ERR_NONE;
}

enum err_code limit_table_give(struct context *ctx, const struct limit_asks *asks, struct err *err)
{
	struct seen        seen[LIMIT_ASKS_MAX];
	struct limit_state s;

	if (read_all(ctx, asks, seen, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < asks->count; i++) {
		struct limit_ask *ask = asks->list[i];

		s = seen[i].state;
		limit_give(ask->rule, &s, ctx->now_us, ask->cost, &ask->answer);
		if (seen[i].row.found && ask->cost > 0)
			row_write(ctx, ask, &seen[i], &s);
	}
	return ERR_NONE;
}

/* ---- keys that were refused a moment ago ---- */

struct denial {
	int64_t  retry_us, reset_us; /* when, not how long; LIMIT_NEVER */
	uint32_t cost;
	uint32_t remaining : 31, blocked : 1;
	uint64_t mark; /* the rule's: another one may answer otherwise */
};

_Static_assert(sizeof(struct denial) <= LIMIT_MAP_VALUE_BYTES, "a denial is a value of the map");

static uint64_t mark_of(const struct limit_rule *r)
{
	uint64_t parts[] = {r->algorithm, r->limit,         (uint64_t)r->period.us,
	                    r->burst,     r->near_permille, (uint64_t)r->block_us};

	return hash_bytes(HASH_KEY_STABLE, (struct bytes){(const char *)parts, sizeof(parts)});
}

static enum limit_reason reason_of(const struct denial *d)
{
	if (d->retry_us == LIMIT_NEVER)
		return LIMIT_COST_ABOVE;
	return d->blocked ? LIMIT_BLOCKED : LIMIT_NO_REASON;
}

static bool applies(const struct denial *d, const struct limit_ask *ask, int64_t now_us)
{
	return d != NULL && d->mark == mark_of(ask->rule) && ask->cost == d->cost &&
	       (d->retry_us == LIMIT_NEVER || now_us < d->retry_us);
}

bool limit_denied_find(struct limit_map *m, struct limit_ask *ask, int64_t now_us)
{
	struct limit_map_hold hold;
	const struct denial  *d;
	bool                  found;

	limit_map_lock(m, &ask->key, 1, &hold);
	d = limit_map_find(m, ask->key, hold.hashes[0], now_us);
	found = applies(d, ask, now_us);
	if (found) {
		ask->answer = (struct limit_answer){
		        .near = limit_is_near(ask->rule, d->remaining),
		        .limit = ask->rule->limit,
		        .remaining = d->remaining,
		        .reset_us = d->reset_us > now_us ? d->reset_us - now_us : 0,
		        .retry_after_us = d->retry_us == LIMIT_NEVER ? LIMIT_NEVER : d->retry_us - now_us,
		        .reason = reason_of(d)};
		ask->remembered_us = now_us;
	}
	limit_map_unlock(m, &hold);
	return found;
}

void limit_denied_note(struct limit_map *m, const struct limit_ask *ask, int64_t now_us)
{
	struct limit_map_hold hold;
	struct denial        *d;
	int64_t               wait_us = ask->answer.retry_after_us;

	limit_map_lock(m, &ask->key, 1, &hold);
	d = limit_map_put(m, ask->key, hold.hashes[0], now_us + LIMIT_DENIED_US_MAX, now_us);
	*d = (struct denial){.retry_us = wait_us == LIMIT_NEVER ? LIMIT_NEVER : now_us + wait_us,
	                     .reset_us = now_us + ask->answer.reset_us,
	                     .cost = (uint32_t)ask->cost,
	                     .remaining = (uint32_t)ask->answer.remaining & INT32_MAX,
	                     .blocked = ask->answer.reason == LIMIT_BLOCKED,
	                     .mark = mark_of(ask->rule)};
	limit_map_unlock(m, &hold);
}

void limit_denied_forget(struct limit_map *m, const struct limit_ask *ask)
{
	struct limit_map_hold hold;

	limit_map_lock(m, &ask->key, 1, &hold);
	limit_map_forget(m, ask->key, hold.hashes[0]);
	limit_map_unlock(m, &hold);
}
