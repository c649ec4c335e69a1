/* Limit table: rows looked at, decided over, changed; and what was answered to which cost, until when. */
#include "service/limit_table.h"

#include <assert.h>

#include "service/limit_row.h"

/* What was read of one ask. */
struct view {
	struct limit_row  first;    /* its row; of a key that is divided, the one that was tried */
	struct limit_rows all;      /* all of them, from shard 0 on; none: the first says enough */
	bool              lay;      /* they are to be laid out as the policy says */
	bool              believed; /* the first was not read: ctx_believe */
};

static bool is_divided(const struct limit_ask *ask)
{
	return ask->policy->shards > 1;
}

/* ---- reading ---- */

static enum err_code look_at(struct context *ctx, struct looked *list, struct err *err)
{
	if (list->next == NULL)
		return ctx_look_in(ctx, TABLE_RATE_LIMITS, list, err);
	return ctx_get_all(ctx, TABLE_RATE_LIMITS, list, err); /* one call, for the sake of a remote engine */
}

/* Where everything is looked at anyway, shard 0 comes first: it tells how many there are. */
static unsigned shard_to_try(struct context *ctx, const struct limit_ask *ask, bool may)
{
	uint32_t bits;

	if (!is_divided(ask) || !may || ask->cost == 0)
		return 0;
	ctx_random(ctx, &bits, sizeof(bits));
	return bits % ask->policy->shards;
}

/* One limit, of which something will be taken if there is room: then its row is all that is written. */
static bool may_believe(const struct limit_asks *asks, bool may)
{
	return may && asks->count == 1 && !is_divided(asks->list[0]) && asks->list[0]->cost > 0;
}

static enum err_code read_first(struct context *ctx, const struct limit_asks *asks, struct view *views,
                                bool may, struct err *err)
{
	assert(asks->count > 0 && asks->count <= LIMIT_ASKS_MAX);
	for (unsigned i = 0; i < asks->count; i++) {
		limit_row_init(&views[i].first, ctx->arena, asks->list[i]->key,
		               shard_to_try(ctx, asks->list[i], may));
		views[i].first.row.loose = is_divided(asks->list[i]);
		views[i].all = (struct limit_rows){NULL, 0};
		views[i].lay = views[i].believed = false;
		if (i > 0)
			views[i - 1].first.row.next = &views[i].first.row;
	}
	views[0].believed = may_believe(asks, may) && ctx_believe(ctx, &views[0].first.row);
	if (!views[0].believed && look_at(ctx, &views[0].first.row, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < asks->count; i++)
		limit_row_read(&views[i].first, ctx->arena, asks->list[i]->rule);
	return ERR_NONE;
}

/* Does it say enough? It does if it has room, or is blocked, which all are together. */
static bool first_is_enough(const struct limit_ask *ask, const struct view *v, bool may, int64_t now_us)
{
	struct limit_rule   own = limit_shard_rule(ask->rule, ask->policy->shards, v->first.shard);
	struct limit_state  s = v->first.state;
	struct limit_answer answer;

	if (!is_divided(ask))
		return v->first.shards <= 1;
	if (!may || ask->cost == 0 || v->first.shards != ask->policy->shards || !v->first.alike ||
	    limit_row_ends(&v->first, ask->rule, now_us))
		return false;
	limit_take(&own, &s, now_us, ask->cost, &answer);
	return answer.allowed || answer.reason == LIMIT_BLOCKED;
}

static unsigned rows_wanted(const struct limit_ask *ask, const struct view *v)
{
	unsigned wanted = ask->policy->shards > v->first.shards ? ask->policy->shards : v->first.shards;

	for (unsigned i = 0; i < v->all.count; i++)
		if (v->all.list[i].shards > wanted)
			wanted = v->all.list[i].shards;
	return wanted;
}

/* Adds what is not looked at yet to the list; returns its new head. */
static struct looked *rows_add(struct context *ctx, const struct limit_ask *ask, struct view *v,
                               struct looked *list)
{
	unsigned wanted = rows_wanted(ask, v);

	if (v->all.list == NULL)
		v->all.list = arena_array(ctx->arena, LIMIT_SHARDS_MAX, sizeof(*v->all.list));
	for (unsigned i = v->all.count; i < wanted; i++) {
		struct limit_row *r = &v->all.list[i];

		if (i == v->first.shard) {
			*r = v->first;
			continue;
		}
		limit_row_init(r, ctx->arena, ask->key, i);
		r->row.loose = true;
		r->row.next = list;
		list = &r->row;
	}
	v->all.count = wanted;
	return list;
}

/* Every row of those whose first does not say enough. A second round, if there are more of them than the policy says. */
static enum err_code read_all(struct context *ctx, const struct limit_asks *asks, struct view *views,
                              const bool *enough, struct err *err)
{
	for (struct looked *list = NULL;; list = NULL) {
		for (unsigned i = 0; i < asks->count; i++)
			if (!enough[i])
				list = rows_add(ctx, asks->list[i], &views[i], list);
		if (list == NULL)
			return ERR_NONE;
		if (look_at(ctx, list, err) != ERR_NONE)
			return err->code;
		for (unsigned i = 0; i < asks->count; i++)
			for (unsigned n = 0; !enough[i] && n < views[i].all.count; n++)
				limit_row_read(&views[i].all.list[n], ctx->arena, asks->list[i]->rule);
	}
}

static enum err_code read_views(struct context *ctx, const struct limit_asks *asks, struct view *views,
                                bool may, struct err *err)
{
	bool enough[LIMIT_ASKS_MAX];

	if (read_first(ctx, asks, views, may, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < asks->count; i++)
		enough[i] = first_is_enough(asks->list[i], &views[i], may, ctx->now_us);
	return read_all(ctx, asks, views, enough, err);
}

/* ---- layouts ---- */

/* Can these rows be used as they are? */
static bool is_laid_out(const struct limit_ask *ask, const struct view *v, unsigned shards, int64_t now_us)
{
	if (shards < 2 || !limit_rule_divides(ask->rule, shards))
		return false;
	for (unsigned i = 0; i < shards; i++) {
		const struct limit_row *r = &v->all.list[i];

		if (r->shards != shards || !r->alike || limit_row_ends(r, ask->rule, now_us))
			return false;
	}
	return true;
}

/* The layout that a call works with; 0: there is none, so the policy's is to be made. */
static unsigned layout_of(const struct limit_ask *ask, const struct view *v, int64_t now_us)
{
	const struct limit_row *r = &v->all.list[0];

	if (is_laid_out(ask, v, ask->policy->shards, now_us))
		return ask->policy->shards;
	if (r->shards > 1 && now_us - r->laid_us < LIMIT_LAYOUT_HOLD_US && r->laid_us <= now_us &&
	    is_laid_out(ask, v, r->shards, now_us))
		return r->shards;
	return 0;
}

/* The states that it is decided over; returns how many. */
static unsigned states_of(struct limit_ask *ask, struct view *v, struct limit_state *out, int64_t now_us)
{
	struct limit_state before[LIMIT_SHARDS_MAX];
	unsigned           shards, found = 0;

	ask->part = (struct limit_part){ask->policy->shards, v->first.shard, 1, ask->rule};
	if (v->all.count == 0) {
		out[0] = v->first.state;
		return 1;
	}
	shards = layout_of(ask, v, now_us);
	v->lay = shards == 0;
	if (v->lay)
		shards = ask->policy->shards;
	ask->part = (struct limit_part){shards, 0, shards, ask->rule};
	for (unsigned i = 0; i < v->all.count; i++) {
		before[i] = v->all.list[i].state;
		found = v->all.list[i].shards > found ? v->all.list[i].shards : found;
	}
	if (v->lay)
		limit_shards_lay(ask->rule, (struct limit_states){before, found},
		                 (struct limit_states){out, shards}, now_us);
	else
		memcpy(out, before, shards * sizeof(*out));
	return shards;
}

/* ---- deciding ---- */

static bool same_state(const struct limit_state *a, const struct limit_state *b)
{
	return a->algorithm == b->algorithm && a->start_us == b->start_us && a->count == b->count &&
	       a->previous == b->previous && a->blocked_us == b->blocked_us;
}

static void write_changed(struct context *ctx, const struct limit_ask *ask, const struct view *v,
                          struct limit_state *states)
{
	if (v->lay)
		limit_rows_lay(ctx, ask->rule, v->all, (struct limit_states){states, ask->part.count});
	else if (v->all.count == 0)
		limit_row_write(ctx, ask->rule, &v->first, states);
	for (unsigned i = 0; !v->lay && v->all.count > 0 && i < ask->part.count; i++)
		if (!same_state(&v->all.list[i].state, &states[i]))
			limit_row_write(ctx, ask->rule, &v->all.list[i], &states[i]);
}

/* Only that is written: a refusal rests on what is read. */
static bool is_taken(const struct limit_ask *ask, const struct view *v)
{
	return ask->answer.allowed && ask->changed && v->all.count == 0;
}

enum err_code limit_table_take(struct context *ctx, const struct limit_asks *asks, bool *may, struct err *err)
{
	struct view        views[LIMIT_ASKS_MAX];
	struct limit_state states[LIMIT_STATES_MAX];
	unsigned           at = 0;

	if (read_views(ctx, asks, views, *may, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < asks->count; i++)
		at += states_of(asks->list[i], &views[i], &states[at], ctx->now_us);
	*may = limit_decide(asks, states, *may, ctx->now_us);
	if (views[0].believed && !is_taken(asks->list[0], &views[0])) {
		ctx_doubt(ctx, &views[0].first.row);
		return ERR_NONE;
	}
	ctx->changes.single = asks->count == 1;
	at = 0;
	for (unsigned i = 0; i < asks->count; at += limit_part_states(&asks->list[i++]->part))
		if (asks->list[i]->changed)
			write_changed(ctx, asks->list[i], &views[i], &states[at]);
	return ERR_NONE;
}

void limit_table_written(struct context *ctx, struct limit_ask *ask)
{
	struct limit_row    r = {.row = {.found = true, .item = *ctx->changes.written}};
	struct limit_answer now;

	limit_row_read(&r, ctx->arena, ask->rule);
	if (r.shards > 1)
		return;
	limit_take(ask->rule, &r.state, ctx->now_us, 0, &now);
	ask->answer.remaining = now.remaining;
	ask->answer.near = now.near;
	ask->answer.reset_us = now.reset_us;
}

static bool any_found(const struct view *v)
{
	for (unsigned i = 0; i < v->all.count; i++)
		if (v->all.list[i].row.found)
			return true;
	return v->first.row.found;
}

enum err_code limit_table_give(struct context *ctx, const struct limit_asks *asks, struct err *err)
{
	struct view        views[LIMIT_ASKS_MAX];
	struct limit_state states[LIMIT_SHARDS_MAX];

	if (read_views(ctx, asks, views, false, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < asks->count; i++) {
		struct limit_ask *ask = asks->list[i];

		states_of(ask, &views[i], states, ctx->now_us);
		limit_part_give(&ask->part, states, ctx->now_us, ask->cost, &ask->answer);
		if (any_found(&views[i]) && ask->cost > 0)
			write_changed(ctx, ask, &views[i], states);
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
