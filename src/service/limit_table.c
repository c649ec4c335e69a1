/* Limit table: states from rows, rows from states. */
#include "service/limit_table.h"

#include <assert.h>

#include "service/row.h"

#define TTL "TTL"

/* What was read of one ask's row. */
struct seen {
	bool               found; /* and not expired */
	struct item        item;
	struct limit_state state;
};

/* ---- rows ---- */

static struct item key_of(struct arena *a, const struct limit_ask *ask)
{
	char *text = arena_alloc(a, 3 + ask->key.len);

	memcpy(text, "RL#", 3);
	memcpy(text + 3, ask->key.data, ask->key.len);
	return row_key_one(a, (struct bytes){text, 3 + ask->key.len});
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

static void row_write(struct changes *c, const struct limit_ask *ask, const struct seen *before,
                      const struct limit_state *s, int64_t now_us)
{
	static const char *const kept[] = {"WindowStart", "Count",     "PrevCount", "TAT",
	                                   "TATRest",     "BlockedAt", NULL};
	struct item              key = key_of(c->arena, ask);
	struct row               r;

	row_from(&r, c->arena, before->found ? &before->item : &key);
	if (s->algorithm == LIMIT_GCRA)
		row_set_tat(&r, s);
	else
		row_set_windows(&r, s);
	if (s->blocked_us > 0)
		row_set_i64(&r, "BlockedAt", s->blocked_us);
	else
		row_remove(&r, "BlockedAt");
	row_set_i64(&r, TTL, row_ttl(ask, s));
	changes_put(c, c->tables->names[TABLE_RATE_LIMITS], row_item(&r),
	            before->found ? row_same(c->arena, &before->item, kept)
	                          : row_absent(c->arena, "PK", TTL, now_us));
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
	return ask->answer.allowed && before->found && s->algorithm != LIMIT_GCRA &&
	       s->start_us == before->state.start_us && before->state.blocked_us == 0 &&
	       row_i64(&before->item, "Count", -1) == (int64_t)before->state.count;
}

static void row_add(struct changes *c, const struct limit_ask *ask, const struct seen *before,
                    const struct limit_state *s)
{
	static const char *const kept[] = {"WindowStart", "PrevCount", "BlockedAt", NULL};
	struct expr_update      *u = arena_zalloc(c->arena, sizeof(*u));
	int64_t                  most = (int64_t)(before->state.count + ask->answer.remaining);

	u->count = 2;
	u->actions = arena_zalloc(c->arena, u->count * sizeof(*u->actions));
	u->actions[0] = (struct expr_action){.kind = ACTION_ADD,
	                                     .path = path_of(c->arena, "Count"),
	                                     .value = value_i64((int64_t)ask->cost)};
	u->actions[1] =
	        (struct expr_action){.kind = ACTION_SET,
	                             .path = path_of(c->arena, TTL),
	                             .term = {.kind = TERM_VALUE, .value = value_i64(row_ttl(ask, s))}};
	changes_update(c, c->tables->names[TABLE_RATE_LIMITS], key_of(c->arena, ask), u,
	               row_same_up_to(c->arena, &before->item, kept, "Count", most));
}

static void row_take(struct changes *c, const struct limit_ask *ask, const struct seen *before,
                     const struct limit_state *s, int64_t now_us)
{
	if (only_adds(ask, before, s))
		row_add(c, ask, before, s);
	else
		row_write(c, ask, before, s, now_us);
}

/* ---- reading ---- */

static void see(const struct limit_ask *ask, const struct table_get_result *r, int64_t now_us,
                struct seen *out)
{
	*out = (struct seen){.found = r->found && !row_expired(&r->item, TTL, now_us)};
	if (!out->found)
		return;
	out->item = r->item;
	state_read(ask->rule, &r->item, &out->state);
}

static enum err_code read_one(struct table *t, struct changes *c, struct limit_ask *ask, struct seen *out,
                              struct err *err)
{
	struct table_get        q = {.table = c->tables->names[TABLE_RATE_LIMITS],
	                             .key = key_of(c->arena, ask),
	                             .consistent = true};
	struct table_get_result r;

	if (tables_get(t, c->arena, &q, &r, err) != ERR_NONE)
		return err->code;
	see(ask, &r, t->now_us, out);
	return ERR_NONE;
}

/* One call, for the sake of a remote engine. */
static enum err_code read_many(struct table *t, struct changes *c, struct limit_ask *const *asks,
                               unsigned count, struct seen *out, struct err *err)
{
	struct table_get              gets[LIMIT_ASKS_MAX];
	struct table_batch_get        q = {gets, count};
	struct table_batch_get_result r;
	enum err_code                 rc;

	for (unsigned i = 0; i < count; i++)
		gets[i] = (struct table_get){.table = c->tables->names[TABLE_RATE_LIMITS],
		                             .key = key_of(c->arena, asks[i]),
		                             .consistent = true};
	rc = tables_get_together(t, c->arena, &q, &r, err);
	for (unsigned i = 0; i < count && rc == ERR_NONE; i++)
		see(asks[i], &r.results[i], t->now_us, &out[i]);
	return rc;
}

static enum err_code read_all(struct table *t, struct changes *c, struct limit_ask *const *asks,
                              unsigned count, struct seen *out, struct err *err)
{
	assert(count <= LIMIT_ASKS_MAX);
	return count == 1 ? read_one(t, c, asks[0], out, err) : read_many(t, c, asks, count, out, err);
}

/* ---- deciding ---- */

enum err_code limit_table_take(struct table *t, struct changes *c, struct limit_ask *const *asks,
                               unsigned count, bool may, bool *allowed, struct err *err)
{
	struct seen        seen[LIMIT_ASKS_MAX];
	struct limit_state states[LIMIT_ASKS_MAX];

	if (read_all(t, c, asks, count, seen, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < count; i++)
		states[i] = seen[i].state;
	*allowed = limit_decide(asks, states, count, may, t->now_us);
	for (unsigned i = 0; i < count; i++)
		if (asks[i]->changed)
			row_take(c, asks[i], &seen[i], &states[i], t->now_us);
	return ERR_NONE;
}

enum err_code limit_table_give(struct table *t, struct changes *c, struct limit_ask *const *asks,
                               unsigned count, struct err *err)
{
	struct seen        seen[LIMIT_ASKS_MAX];
	struct limit_state s;

	if (read_all(t, c, asks, count, seen, err) != ERR_NONE)
		return err->code;
	for (unsigned i = 0; i < count; i++) {
		s = seen[i].state;
		limit_give(asks[i]->rule, &s, t->now_us, asks[i]->cost, &asks[i]->answer);
		if (seen[i].found && asks[i]->cost > 0)
			row_write(c, asks[i], &seen[i], &s, t->now_us);
	}
	return ERR_NONE;
}
