/* Limits: the two engines, what was refused, and what is hot. */
#include "service/limits.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "service/limit_table.h"
#include "service/limit_memory.h"

_Static_assert(LIMIT_PREFIX_MAX + LIMIT_INLINE_MARK_MAX + LIMIT_KEY_MAX <= (int)LIMIT_TOP_KEY_BYTES_MAX,
               "keys are shown whole");

#define WARN_EVERY_US INT64_C(10000000)

struct limits {
	/* set once */
	struct hash_key   seed;
	struct limit_map *memory, *denied;
	struct limit_top *tops[2]; /* by enum limits_list */

	struct document_holder policies;
	_Atomic int64_t        warned_us;
};

struct limits *limits_open(const struct limits_options *options)
{
	struct limits *l = mem_zalloc(sizeof(*l));

	l->seed = options->seed;
	l->memory = limit_map_open(options->memory_bytes_max > 0 ? options->memory_bytes_max
	                                                         : LIMITS_MEMORY_BYTES,
	                           options->seed);
	l->denied = limit_map_open(LIMITS_DENIED_BYTES, options->seed);
	l->tops[LIMITS_HOT] = limit_top_open();
	l->tops[LIMITS_DENIED] = limit_top_open();
	return l;
}

void limits_close(struct limits *l)
{
	limit_top_close(l->tops[LIMITS_HOT]);
	limit_top_close(l->tops[LIMITS_DENIED]);
	limit_map_close(l->denied);
	limit_map_close(l->memory);
	free(l);
}

struct document_holder *limits_holder(struct limits *l)
{
	return &l->policies;
}

struct limit_policies *limits_policies(struct limits *l)
{
	return document_acquire(&l->policies);
}

/* ---- calls ---- */

/* The asks of one engine that are not answered yet. */
static void asks_of(struct limit_call *c, enum limit_engine engine, struct limit_asks *out)
{
	out->count = 0;
	for (unsigned i = 0; i < c->count; i++)
		if (c->asks[i].policy->engine == engine && !limit_ask_answered(&c->asks[i]))
			out->list[out->count++] = &c->asks[i];
}

/* The answer to a key that is always allowed, or always refused: nothing is counted, so all is there, or nothing. */
static void answer_listed(struct limit_ask *ask, enum limit_reason reason)
{
	bool allowed = reason != LIMIT_ON_DENY_LIST;

	ask->listed = true;
	ask->answer = (struct limit_answer){.allowed = allowed,
	                                    .limit = ask->rule->limit,
	                                    .remaining = allowed ? limit_capacity(ask->rule) : 0,
	                                    .retry_after_us = allowed ? 0 : LIMIT_NEVER,
	                                    .reason = reason};
}

static void look_up(struct limit_ask *ask, const struct limit_entry *entry)
{
	if (entry == NULL)
		return;
	if (entry->list == LIMIT_LIST_DENY)
		answer_listed(ask, LIMIT_ON_DENY_LIST);
	else if (entry->list == LIMIT_LIST_ALLOW)
		answer_listed(ask, LIMIT_ON_ALLOW_LIST);
	else if (entry->unlimited)
		answer_listed(ask, LIMIT_UNLIMITED);
}

/* The limit of a key: what the policy lists takes precedence over what the call brings along. */
static const struct limit_rule *rule_of(const struct limit_policy *policy, const struct limit_entry *entry,
                                        const struct limit_key *key)
{
	if (entry != NULL && entry->list == LIMIT_LIST_KEYS && !entry->unlimited)
		return &entry->rule;
	return entry == NULL && key->asked != NULL ? key->asked : &policy->rule;
}

bool limit_call_has_room(const struct limit_call *c, const struct limit_policy *policy)
{
	unsigned sharded = policy->shards > 1;

	for (unsigned i = 0; i < c->count; i++)
		sharded += c->asks[i].policy->shards > 1;
	return c->count < LIMIT_ASKS_MAX && (policy->shards <= 1 || sharded <= LIMIT_ASKS_SHARDED_MAX);
}

/* As it is kept: behind the policy's prefix. Where calls bring limits along, each limit has a state of its own. */
static struct bytes key_kept(struct arena *a, const struct limit_policy *policy,
                             const struct limit_rule *rule, struct bytes key)
{
	struct bytes mark = policy->inline_limit > 0 ? limit_inline_mark(a, rule) : (struct bytes){NULL, 0};
	size_t       at = policy->prefix.len;
	char        *text = arena_alloc(a, at + mark.len + key.len);

	if (at > 0)
		memcpy(text, policy->prefix.data, at);
	if (mark.len > 0)
		memcpy(text + at, mark.data, mark.len);
	memcpy(text + at + mark.len, key.data, key.len);
	return (struct bytes){text, at + mark.len + key.len};
}

bool limit_call_add(struct limit_call *c, struct arena *a, const struct limit_policy *policy,
                    const struct limit_key *key, uint64_t cost)
{
	const struct limit_entry *entry = limit_keys_find(&policy->keys, key);
	const struct limit_rule  *rule = rule_of(policy, entry, key);
	struct bytes              whole = key_kept(a, policy, rule, key->text);
	struct limit_ask         *ask;

	if (!limit_call_has_room(c, policy))
		return false;
	for (unsigned i = 0; i < c->count; i++)
		if (bytes_equal(c->asks[i].key, whole) && c->asks[i].policy->engine == policy->engine)
			return false;
	ask = &c->asks[c->count++];
	*ask = (struct limit_ask){
	        .policy = policy, .rule = rule, .key = whole, .hashed = key->hashed, .cost = cost};
	look_up(ask, entry);
	return true;
}

static bool is_of_table(const struct limit_ask *ask)
{
	return ask->policy->engine == LIMIT_TABLE && !limit_ask_answered(ask);
}

bool limits_needs_turn(struct limits *l, struct limit_call *c, int64_t now_us)
{
	bool writes = false, refused = false;

	for (unsigned i = 0; i < c->count; i++) {
		struct limit_ask *ask = &c->asks[i];

		if (is_of_table(ask) && ask->cost > 0 && c->verb != LIMIT_LOOK) {
			writes = true;
			if (c->verb == LIMIT_TAKE && !ask->policy->shadow)
				ask->remembered = limit_denied_find(l->denied, ask, now_us);
		}
		refused = refused ||
		          (c->verb == LIMIT_TAKE && limit_ask_answered(ask) && limit_ask_refuses(ask));
	}
	return writes && !refused;
}

struct bytes limits_line(const struct limit_call *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (is_of_table(&c->asks[i]) && c->asks[i].cost > 0)
			return c->asks[i].key;
	return (struct bytes){NULL, 0};
}

bool limits_needs_table(const struct limit_call *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (is_of_table(&c->asks[i]))
			return true;
	return false;
}

/* ---- counting ---- */

static void count_ask(struct limits *l, const struct limit_call *c, const struct limit_ask *ask,
                      int64_t now_us)
{
	struct limit_counts *n = ask->policy->counts;
	struct limit_top_ask key = {ask->key, hash_bytes(l->seed, ask->key), ask->hashed};

	limit_top_add(l->tops[LIMITS_HOT], &key, 1, now_us);
	if (ask->answer.near)
		metric_add(&n->near, 1);
	if (!ask->answer.allowed)
		limit_top_add(l->tops[LIMITS_DENIED], &key, 1, now_us);
	if (!ask->answer.allowed && ask->policy->shadow)
		metric_add(&n->shadowed, 1);
	if (limit_ask_refuses(ask))
		metric_add(&n->denied, 1);
	else if (c->allowed)
		metric_add(&n->allowed, 1);
	if (ask->remembered)
		metric_add(&n->remembered, 1);
}

/* Once a call, however often it had to be decided. */
static void count_call(struct limits *l, struct limit_call *c, int64_t now_us)
{
	if (c->counted || c->verb != LIMIT_TAKE)
		return;
	c->counted = true;
	for (unsigned i = 0; i < c->count; i++)
		if (c->asks[i].cost > 0)
			count_ask(l, c, &c->asks[i], now_us);
}

/* ---- deciding ---- */

static void verdict(struct limit_call *c)
{
	c->allowed = true;
	c->retry_after_us = 0;
	for (unsigned i = 0; i < c->count; i++) {
		struct limit_ask *ask = &c->asks[i];

		c->degraded = c->degraded || ask->degraded;
		if (c->verb == LIMIT_GIVE && !ask->answer.allowed) { /* a refund is no question */
			ask->answer.allowed = true;
			ask->answer.retry_after_us = 0;
		}
		if (!limit_ask_refuses(ask))
			continue;
		c->allowed = false;
		if (ask->answer.retry_after_us == LIMIT_NEVER || c->retry_after_us == LIMIT_NEVER)
			c->retry_after_us = LIMIT_NEVER;
		else if (ask->answer.retry_after_us > c->retry_after_us)
			c->retry_after_us = ask->answer.retry_after_us;
	}
}

/* Takes back what was taken of the memory engine: exactly that, for every ask that was allowed. */
static void unreserve(struct limits *l, struct limit_call *c, int64_t now_us)
{
	struct limit_asks memory, taken = {.count = 0};

	if (!c->reserved)
		return;
	c->reserved = false;
	asks_of(c, LIMIT_MEMORY, &memory);
	for (unsigned i = 0; i < memory.count; i++)
		if (memory.list[i]->answer.allowed)
			taken.list[taken.count++] = memory.list[i];
	if (taken.count > 0)
		limit_memory_give(l->memory, &taken, true, now_us);
}

void limits_undo(struct limits *l, struct limit_call *c, int64_t now_us)
{
	unreserve(l, c, now_us);
}

/* What is taken makes the refusal of a greater cost, if one is remembered, wait longer. */
static void remember(struct limits *l, const struct limit_asks *table, bool taken, int64_t now_us)
{
	for (unsigned i = 0; i < table->count; i++)
		if (limit_ask_refuses(table->list[i]) && table->list[i]->cost > 0)
			limit_denied_note(l->denied, table->list[i], now_us);
		else if (taken && table->list[i]->cost > 0)
			limit_denied_forget(l->denied, table->list[i]);
}

/* Before any engine is asked. */
static bool none_refused(const struct limit_call *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (limit_ask_answered(&c->asks[i]) && limit_ask_refuses(&c->asks[i]))
			return false;
	return true;
}

/* What rests on a guess takes nothing, and finds out what it would be answered. */
static bool take_memory(struct context *ctx, struct limit_call *c, const struct limit_asks *memory, bool may)
{
	struct limit_map *m = ctx->services->limits->memory;

	if (!ctx_guesses(ctx)) {
		c->reserved = limit_memory_take(m, memory, may, ctx->now_us);
		return c->reserved;
	}
	limit_memory_take(m, memory, false, ctx->now_us);
	for (unsigned i = 0; i < memory->count; i++)
		may = may && !limit_ask_refuses(memory->list[i]);
	return may;
}

static enum err_code take(struct context *ctx, struct limit_call *c, struct err *err)
{
	struct limits    *l = ctx->services->limits;
	struct limit_asks memory, table;
	bool              may = none_refused(c);

	asks_of(c, LIMIT_MEMORY, &memory);
	asks_of(c, LIMIT_TABLE, &table);
	if (memory.count > 0 && !c->reserved)
		may = take_memory(ctx, c, &memory, may);
	if (table.count > 0 && limit_table_take(ctx, &table, &may, err) != ERR_NONE)
		return err->code;
	if (ctx_guesses(ctx))
		return ERR_NONE;
	if (!may)
		unreserve(l, c, ctx->now_us);
	remember(l, &table, may, ctx->now_us);
	return ERR_NONE;
}

static enum err_code look(struct context *ctx, struct limit_call *c, struct err *err)
{
	struct limit_asks memory, table;
	bool              taken = false;

	asks_of(c, LIMIT_MEMORY, &memory);
	asks_of(c, LIMIT_TABLE, &table);
	if (memory.count > 0)
		limit_memory_take(ctx->services->limits->memory, &memory, false, ctx->now_us);
	return table.count == 0 ? ERR_NONE : limit_table_take(ctx, &table, &taken, err);
}

/* Memory is given its units by limits_kept: until then this may fail, or be decided anew. */
static enum err_code give(struct context *ctx, struct limit_call *c, struct err *err)
{
	struct limit_asks memory, table;

	asks_of(c, LIMIT_MEMORY, &memory);
	asks_of(c, LIMIT_TABLE, &table);
	if (memory.count > 0)
		limit_memory_give(ctx->services->limits->memory, &memory, false, ctx->now_us);
	return table.count == 0 ? ERR_NONE : limit_table_give(ctx, &table, err);
}

static int64_t shortened(int64_t wait_us, int64_t by_us)
{
	if (wait_us <= 0) /* none, or LIMIT_NEVER */
		return wait_us;
	return wait_us > by_us ? wait_us - by_us : 1;
}

/* Time has passed since the call came and was compared with what is remembered: waits are told from now, so that `until`
 * stays the same. */
static void update_remembered(struct limit_call *c, int64_t now_us)
{
	for (unsigned i = 0; i < c->count; i++) {
		struct limit_ask *ask = &c->asks[i];

		if (!ask->remembered)
			continue;
		ask->answer.retry_after_us =
		        shortened(ask->answer.retry_after_us, now_us - ask->remembered_us);
		ask->answer.reset_us = shortened(ask->answer.reset_us, now_us - ask->remembered_us);
		ask->remembered_us = now_us;
	}
}

/* All that an earlier run answered is void, but for what it took in memory, and what is remembered. */
static void run_fresh(struct limit_call *c)
{
	c->allowed = c->degraded = c->decided = false;
	c->retry_after_us = 0;
	for (unsigned i = 0; i < c->count; i++)
		c->asks[i].degraded = false;
}

enum err_code limits_run(struct context *ctx, struct limit_call *c, struct err *err)
{
	enum err_code rc = ERR_NONE;

	assert(c->count > 0);
	run_fresh(c);
	update_remembered(c, ctx->now_us);
	switch (c->verb) {
	case LIMIT_TAKE:
		rc = take(ctx, c, err);
		break;
	case LIMIT_LOOK:
		rc = look(ctx, c, err);
		break;
	case LIMIT_GIVE:
		rc = give(ctx, c, err);
		break;
	}
	if (rc != ERR_NONE)
		return rc;
	verdict(c);
	c->decided = !ctx_guesses(ctx);
	if (!c->decided)
		return ERR_NONE;
	count_call(ctx->services->limits, c, ctx->now_us);
	return ERR_NONE;
}

/* ---- how it ended ---- */

void limits_written(struct context *ctx, struct limit_call *c)
{
	struct limit_asks table;

	asks_of(c, LIMIT_TABLE, &table);
	if (ctx->changes.written != NULL && table.count == 1 && c->verb == LIMIT_TAKE)
		limit_table_written(ctx, table.list[0]);
}

void limits_kept(struct limits *l, struct limit_call *c, int64_t now_us)
{
	struct limit_asks memory, table;

	if (c->verb != LIMIT_GIVE)
		return;
	asks_of(c, LIMIT_MEMORY, &memory);
	asks_of(c, LIMIT_TABLE, &table);
	if (memory.count > 0)
		limit_memory_give(l->memory, &memory, true, now_us);
	for (unsigned i = 0; i < table.count; i++)
		limit_denied_forget(l->denied, table.list[i]);
}

static bool any_closed(const struct limit_asks *table)
{
	for (unsigned i = 0; i < table->count; i++)
		if (table->list[i]->policy->fail_closed && !table->list[i]->policy->shadow)
			return true;
	return false;
}

static void degrade(struct limit_ask *ask)
{
	ask->degraded = true;
	metric_add(&ask->policy->counts->degraded, 1);
	ask->answer = (struct limit_answer){
	        .allowed = true, .limit = ask->rule->limit, .remaining = limit_capacity(ask->rule)};
}

/* Now and then: under a flood a line for each call would only add to the trouble. */
static void warn(struct limits *l, const struct limit_ask *ask, int64_t now_us, const struct err *why)
{
	int64_t last_us = atomic_load(&l->warned_us);

	if (now_us - last_us >= WARN_EVERY_US &&
	    atomic_compare_exchange_strong(&l->warned_us, &last_us, now_us))
		log_warn("the limits table failed, so requests under policy %.*s are allowed uncounted "
		         "(on_failure: open): %s",
		         BYTES_ARG(ask->policy->name), why->text);
}

/* It may have failed before memory was asked. */
static void take_memory_late(struct limits *l, struct limit_call *c, int64_t now_us)
{
	struct limit_asks memory;
	bool              may = c->verb == LIMIT_TAKE && none_refused(c);

	asks_of(c, LIMIT_MEMORY, &memory);
	if (memory.count > 0 && !c->reserved)
		c->reserved = limit_memory_take(l->memory, &memory, may, now_us);
}

static void allow_degraded(struct limits *l, struct limit_call *c, const struct limit_asks *table,
                           int64_t now_us, const struct err *why)
{
	take_memory_late(l, c, now_us);
	for (unsigned i = 0; i < table->count; i++) {
		degrade(table->list[i]);
		warn(l, table->list[i], now_us, why);
	}
	verdict(c);
	count_call(l, c, now_us);
}

static bool may_pass(enum err_code rc)
{
	return rc == ERR_STORAGE || rc == ERR_OVERLOADED || rc == ERR_THROTTLED || rc == ERR_DISK_FULL;
}

/* Of a commit that failed. A call that was not decided has none. */
static bool is_unknown(const struct limit_call *c, enum err_code rc)
{
	return rc == ERR_STORAGE && c->decided;
}

/* Did the table fail? A caller that asks too much is not let pass for that, nor one that met too many others: or it would get by every open limit. */
static bool table_failed(enum err_code rc)
{
	return rc != ERR_NONE && rc != ERR_TOKEN_MISMATCH && rc != ERR_CALLER_THROTTLED &&
	       rc != ERR_CONTENDED && rc != ERR_CONDITION;
}

enum err_code limits_failed(struct limits *l, struct limit_call *c, int64_t now_us, enum err_code rc,
                            struct err *err)
{
	struct limit_asks table;

	asks_of(c, LIMIT_TABLE, &table);
	if (c->verb == LIMIT_GIVE) /* it gave nothing yet */
		return rc;
	if (rc != ERR_NONE && rc != ERR_TOKEN_MISMATCH && c->decided && !c->allowed)
		return ERR_NONE; /* a refusal takes nothing, so it holds without its commit */
	if (!table_failed(rc) || any_closed(&table)) {
		unreserve(l, c, now_us);
		return may_pass(rc) && !is_unknown(c, rc)
		               ? err_set(err, ERR_OVERLOADED,
		                         "the limit could not be checked, and its policy refuses then "
		                         "(on_failure: closed); try again shortly")
		               : rc;
	}
	allow_degraded(l, c, &table, now_us, err);
	return ERR_NONE;
}

/* ---- watching ---- */

struct limit_top *limits_top(struct limits *l, enum limits_list which)
{
	return l->tops[which];
}

struct limit_map_stats limits_memory_stats(struct limits *l)
{
	return limit_map_stats(l->memory);
}
