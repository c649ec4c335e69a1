/* Limit policies: from a tree, strictly; and asks of them decided over copies, all or nothing. */
#include "service/limit_policy.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "json/json.h"

#define SECOND_US INT64_C(1000000)

static const char *const algorithm_names[] = {"fixed", "sliding", "gcra", NULL}; /* from LIMIT_FIXED on */
static const char *const engine_names[] = {"memory", "table", NULL};
static const char *const failure_names[] = {"open", "closed", NULL};

static const char *const list_names[] = {"keys", "allow", "deny"}; /* by enum limit_list */

static const struct {
	const char *name;
	int64_t     seconds; /* 0: a calendar month */
} periods[] = {{"second", 1},  {"minute", 60},      {"hour", 3600},
               {"day", 86400}, {"week", 7 * 86400}, {"month", 0}};

enum { PERIOD_COUNT = sizeof(periods) / sizeof(periods[0]) };

/* ---- reading ---- */

static bool name_is_good(struct bytes name)
{
	if (name.len < 1 || name.len > LIMIT_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (!((name.data[i] >= 'a' && name.data[i] <= 'z') ||
		      (name.data[i] >= 'A' && name.data[i] <= 'Z') ||
		      (name.data[i] >= '0' && name.data[i] <= '9') ||
		      (i > 0 && strchr("._-", name.data[i]) != NULL)))
			return false;
	return true;
}

static struct limit_period period_read(struct fields *f, const struct limit_rule *otherwise)
{
	const struct json *member = fields_get(f, "per");
	int64_t            seconds;

	if (member == NULL && otherwise != NULL)
		return otherwise->period;
	if (member == NULL) {
		fields_fail(f, "per", ERR_INVALID, "missing");
		return (struct limit_period){0};
	}
	for (unsigned i = 0; member->type == JSON_STRING && i < PERIOD_COUNT; i++)
		if (bytes_is(json_text(member), periods[i].name))
			return (struct limit_period){periods[i].seconds * SECOND_US};
	if (json_whole(member, &seconds) && seconds >= 1 && seconds <= LIMIT_PERIOD_S_MAX)
		return (struct limit_period){seconds * SECOND_US};
	fields_fail(
	        f, "per", ERR_INVALID,
	        "must be second, minute, hour, day, week, month, or a whole number of seconds from 1 to %d",
	        LIMIT_PERIOD_S_MAX);
	return (struct limit_period){0};
}

static uint32_t near_read(struct fields *f)
{
	const struct json *member = fields_get(f, "near");
	double             share;

	if (member == NULL)
		return 0;
	share = member->type == JSON_INT      ? (double)json_integer(member)
	        : member->type == JSON_DOUBLE ? json_real(member)
	                                      : -1;
	if (share >= 0 && share <= 1)
		return (uint32_t)lround(share * LIMIT_NEAR_WHOLE);
	fields_fail(f, "near", ERR_INVALID, "must be a number from 0 to 1");
	return 0;
}

/* An empty one is fine, unlike other texts. */
static struct bytes prefix_read(struct fields *f, struct arena *a, struct bytes name)
{
	const struct json *member = fields_get(f, "prefix");

	if (member == NULL)
		return arena_printf(a, "%.*s#", BYTES_ARG(name));
	if (member->type == JSON_STRING && json_text(member).len <= LIMIT_PREFIX_MAX)
		return arena_copy(a, json_text(member));
	fields_fail(f, "prefix", ERR_INVALID, "must be a string of at most %d bytes", LIMIT_PREFIX_MAX);
	return (struct bytes){NULL, 0};
}

static void shards_check(struct fields *f, const struct limit_rule *r, unsigned shards)
{
	if (!fields_failed(f) && !limit_rule_divides(r, shards))
		fields_fail(f, "limit", ERR_INVALID,
		            "must be at least `shards`, %u, and so must `burst`: each shard has its share",
		            shards);
}

/* What a policy and a key of its own both have. `policy`: the key's; NULL: it is the policy's own. */
static void rule_read(struct fields *f, const struct limit_rule *policy, struct limit_rule *r)
{
	int64_t block_s = policy == NULL ? 0 : policy->block_us / SECOND_US;

	r->limit = (uint64_t)fields_i64(f, "limit", 1, LIMIT_UNITS_MAX);
	r->period = period_read(f, policy);
	r->block_us = fields_i64_or(f, "block", 0, LIMIT_BLOCK_S_MAX, block_s) * SECOND_US;
	if (r->algorithm == LIMIT_GCRA)
		r->burst = (uint64_t)fields_i64_or(f, "burst", 1, LIMIT_UNITS_MAX, (int64_t)r->limit);
	else if (fields_get(f, "burst") != NULL)
		fields_fail(f, "burst", ERR_INVALID, "only valid with `algorithm: gcra`");
	if (!fields_failed(f) && !limit_rule_drains(r))
		fields_fail(f, "burst", ERR_INVALID,
		            "too large for this rate: it would take more than a century to refill");
}

/* ---- limits that calls bring along ---- */

/* A calendar month is longer than thirty days. */
static int64_t longest_us(struct limit_period p)
{
	return p.us > 0 ? p.us : 31 * 86400 * SECOND_US;
}

static void inline_read(struct fields *f, struct limit_policy *p)
{
	static const struct limit_rule day = {.period = {86400 * SECOND_US}};
	const struct json             *member = fields_object(f, "inline", FIELDS_MEMBERS_MAX);
	struct fields                  in;

	if (member == NULL)
		return;
	fields_enter(&in, f, BYTES("inline"), member);
	p->inline_limit = (uint64_t)fields_i64_or(&in, "limit", 1, LIMIT_UNITS_MAX, LIMIT_INLINE_UNITS);
	p->inline_period = period_read(&in, &day);
	fields_end(&in);
}

static void asked_check(const struct limit_policy *p, struct fields *f, const struct limit_rule *r)
{
	if (longest_us(r->period) > longest_us(p->inline_period))
		fields_fail(f, "per", ERR_INVALID,
		            "must be at most %lld seconds, the longest that the policy %.*s accepts",
		            (long long)(longest_us(p->inline_period) / SECOND_US), BYTES_ARG(p->name));
	else if (!limit_rule_drains(r))
		fields_fail(f, "per", ERR_INVALID,
		            "too long for this limit: it would take more than a century to refill");
	shards_check(f, r, p->shards);
}

const struct limit_rule *limit_policy_inline(const struct limit_policy *p, struct fields *f, struct arena *a)
{
	struct limit_rule *r;

	if (!fields_has(f, "limit") && !fields_has(f, "per"))
		return NULL;
	if (p->inline_limit == 0) {
		fields_fail(f, fields_has(f, "limit") ? "limit" : "per", ERR_INVALID,
		            "not accepted: the policy %.*s has a limit of its own. Leave it out, or name a "
		            "policy "
		            "with `inline`, such as " LIMIT_POLICY_CUSTOM,
		            BYTES_ARG(p->name));
		return NULL;
	}
	if (!fields_has(f, "limit")) {
		fields_fail(f, "limit", ERR_INVALID, "missing: `per` needs the limit that it is of");
		return NULL;
	}
	r = arena_alloc(a, sizeof(*r));
	*r = p->rule;
	r->limit = (uint64_t)fields_i64(f, "limit", 1, (int64_t)p->inline_limit);
	r->burst = r->algorithm == LIMIT_GCRA ? r->limit : r->burst;
	r->period = period_read(f, &p->rule);
	if (!fields_failed(f))
		asked_check(p, f, r);
	return r;
}

struct bytes limit_inline_mark(struct arena *a, const struct limit_rule *asked)
{
	if (asked->period.us == 0)
		return arena_printf(a, "%llu/month#", (unsigned long long)asked->limit);
	return arena_printf(a, "%llu/%lld#", (unsigned long long)asked->limit,
	                    (long long)(asked->period.us / SECOND_US));
}

/* ---- keys that are treated in their own way ---- */

static struct limit_entry *entry_add(struct fields *f, struct arena *a, struct limit_policy *p,
                                     enum limit_list list, struct bytes text)
{
	struct limit_entry *e = &p->keys.list[p->keys.count++];
	const char         *wrong;

	*e = (struct limit_entry){.list = list, .text = arena_copy(a, text)};
	wrong = limit_entry_parse(e);
	if (wrong != NULL)
		fields_fail(f, list_names[list], ERR_INVALID, "%s", wrong);
	return e;
}

static void key_read(struct fields *f, struct arena *a, struct limit_policy *p, const struct json *member)
{
	struct limit_entry *e = entry_add(f, a, p, LIMIT_LIST_KEYS, member->name);
	struct fields       keys, one;

	e->unlimited = member->type == JSON_STRING && bytes_is(json_text(member), "unlimited");
	if (e->unlimited || fields_failed(f))
		return;
	if (member->type != JSON_OBJECT) {
		fields_fail(f, "keys", ERR_INVALID,
		            "each key must have an object with a `limit`, or \"unlimited\"");
		return;
	}
	e->rule = p->rule;
	fields_enter(&keys, f, BYTES("keys"), fields_get(f, "keys"));
	fields_enter(&one, &keys, member->name, member);
	rule_read(&one, &p->rule, &e->rule);
	shards_check(&one, &e->rule, p->shards);
	fields_end(&one);
}

static void list_read(struct fields *f, struct arena *a, struct limit_policy *p, enum limit_list list)
{
	const struct json *array = fields_get(f, list_names[list]);

	for (const struct json *m = fields_first(f, array); m != NULL; m = fields_next(f, m)) {
		if (m->type == JSON_STRING)
			entry_add(f, a, p, list, json_text(m));
		else
			fields_fail(f, list_names[list], ERR_INVALID,
			            "must be a list of strings: keys, addresses or networks");
	}
}

static void keys_read(struct fields *f, struct arena *a, struct limit_policy *p)
{
	const struct json        *keys = fields_object(f, "keys", LIMIT_KEYS_LISTED_MAX);
	const struct json        *allow = fields_array(f, "allow", LIMIT_KEYS_LISTED_MAX);
	const struct json        *deny = fields_array(f, "deny", LIMIT_KEYS_LISTED_MAX);
	const struct limit_entry *twice;
	uint32_t                  count;

	if (fields_failed(f))
		return;
	count = (keys == NULL ? 0 : keys->count) + (allow == NULL ? 0 : allow->count) +
	        (deny == NULL ? 0 : deny->count);
	if (count > LIMIT_KEYS_LISTED_MAX) {
		fields_fail(f, "keys", ERR_INVALID,
		            "keys, allow and deny together must have at most %d entries, not %u",
		            LIMIT_KEYS_LISTED_MAX, count);
		return;
	}
	p->keys.list = arena_array(a, count + 1, sizeof(*p->keys.list));
	for (const struct json *m = fields_first(f, keys); m != NULL; m = fields_next(f, m))
		key_read(f, a, p, m);
	list_read(f, a, p, LIMIT_LIST_ALLOW);
	list_read(f, a, p, LIMIT_LIST_DENY);
	if (!fields_failed(f) && (twice = limit_keys_sort(&p->keys)) != NULL)
		fields_fail(f, list_names[twice->list], ERR_INVALID, "lists the same key or network twice");
}

/* ---- policies ---- */

static void policy_read(struct fields *parent, struct arena *a, const struct json *tree,
                        struct limit_policy *p)
{
	struct fields f;

	fields_enter(&f, parent, tree->name, tree);
	p->name = arena_copy(a, tree->name);
	p->rule.algorithm =
	        (enum limit_algorithm)(LIMIT_FIXED + fields_choice(&f, "algorithm", algorithm_names, 0));
	p->rule.near_permille = near_read(&f);
	rule_read(&f, NULL, &p->rule);
	p->prefix = prefix_read(&f, a, tree->name);
	p->engine = (enum limit_engine)fields_choice(&f, "engine", engine_names, LIMIT_MEMORY);
	p->fail_closed = fields_choice(&f, "on_failure", failure_names, 0) == 1;
	p->shadow = fields_bool_or(&f, "shadow", false);
	p->shards = (unsigned)fields_i64_or(&f, "shards", 1, LIMIT_SHARDS_MAX, 1);
	if (p->shards > 1 && p->engine != LIMIT_TABLE)
		fields_fail(&f, "shards", ERR_INVALID, "only valid with `engine: table`");
	shards_check(&f, &p->rule, p->shards);
	inline_read(&f, p);
	keys_read(&f, a, p);
	fields_end(&f);
	if (!name_is_good(tree->name))
		fields_fail(&f, NULL, ERR_INVALID,
		            "the name of a policy must have 1 to %d letters, digits, '.', '_' and '-', a "
		            "letter or digit first",
		            LIMIT_NAME_MAX);
}

static int by_name(const void *a, const void *b)
{
	return bytes_compare(((const struct limit_policy *)a)->name, ((const struct limit_policy *)b)->name);
}

static void policies_read(struct limit_policies *p, struct fields *f, const struct json *tree)
{
	struct limit_counts *counts;

	if (!fields_failed(f) && tree->count > LIMIT_POLICIES_MAX)
		fields_fail(f, NULL, ERR_INVALID, "must have at most %d policies, not %u", LIMIT_POLICIES_MAX,
		            tree->count);
	if (fields_failed(f))
		return;
	p->list = arena_zalloc(&p->base.arena, (tree->count + 1) * sizeof(*p->list));
	for (const struct json *m = fields_first(f, tree); m != NULL; m = fields_next(f, m))
		policy_read(f, &p->base.arena, m, &p->list[p->count++]);
	qsort(p->list, p->count, sizeof(*p->list), by_name);
	counts = arena_zalloc(&p->base.arena, (p->count + 1) * sizeof(*counts));
	for (uint32_t i = 0; i < p->count; i++) {
		p->list[i].counts = &counts[i];
		if (i > 0 && bytes_equal(p->list[i - 1].name, p->list[i].name))
			fields_fail(f, NULL, ERR_SERIALIZATION, "the policy %.*s is defined twice",
			            BYTES_ARG(p->list[i].name));
	}
}

enum err_code limit_policies_parse(const struct json *tree, struct document **out, struct err *err)
{
	struct limit_policies *p = document_make(sizeof(*p));
	struct fields          f;

	fields_init(&f, tree, err);
	policies_read(p, &f, tree);
	if (fields_failed(&f)) {
		limit_policies_release(p);
		return err->code;
	}
	*out = &p->base;
	return ERR_NONE;
}

/* ---- sets ---- */

const struct limit_policy *limit_policies_find(const struct limit_policies *p, struct bytes name)
{
	struct limit_policy wanted = {.name = name};

	return bsearch(&wanted, p->list, p->count, sizeof(*p->list), by_name);
}

/* ---- writing ---- */

static void write_text(struct json_writer *w, const char *name, struct bytes text)
{
	json_name(w, bytes_of(name));
	json_string(w, text);
}

static void write_period(struct json_writer *w, struct limit_period p)
{
	json_name(w, BYTES("per"));
	for (unsigned i = 0; i < PERIOD_COUNT; i++)
		if (p.us == periods[i].seconds * SECOND_US) {
			json_string(w, bytes_of(periods[i].name));
			return;
		}
	json_i64(w, p.us / SECOND_US);
}

static void write_rule(struct json_writer *w, const struct limit_rule *r)
{
	json_name(w, BYTES("limit"));
	json_i64(w, (int64_t)r->limit);
	write_period(w, r->period);
	if (r->algorithm == LIMIT_GCRA) {
		json_name(w, BYTES("burst"));
		json_i64(w, (int64_t)r->burst);
	}
	json_name(w, BYTES("block"));
	json_i64(w, r->block_us / SECOND_US);
}

static void write_key(struct json_writer *w, const struct limit_entry *e)
{
	json_name(w, e->text);
	if (e->unlimited) {
		json_string(w, BYTES("unlimited"));
		return;
	}
	json_begin_object(w);
	write_rule(w, &e->rule);
	json_end_object(w);
}

static void write_keys(struct json_writer *w, const struct limit_keys *k)
{
	json_name(w, BYTES("keys"));
	json_begin_object(w);
	for (uint32_t i = 0; i < k->count; i++)
		if (k->list[i].list == LIMIT_LIST_KEYS)
			write_key(w, &k->list[i]);
	json_end_object(w);
	for (enum limit_list list = LIMIT_LIST_ALLOW; list <= LIMIT_LIST_DENY; list++) {
		json_name(w, bytes_of(list_names[list]));
		json_begin_array(w);
		for (uint32_t i = 0; i < k->count; i++)
			if (k->list[i].list == list)
				json_string(w, k->list[i].text);
		json_end_array(w);
	}
}

void limit_policy_write(struct json_writer *w, const struct limit_policy *p)
{
	json_begin_object(w);
	write_text(w, "algorithm", bytes_of(algorithm_names[p->rule.algorithm - LIMIT_FIXED]));
	write_rule(w, &p->rule);
	write_text(w, "engine", bytes_of(engine_names[p->engine]));
	write_text(w, "on_failure", bytes_of(failure_names[p->fail_closed]));
	json_name(w, BYTES("shadow"));
	json_bool(w, p->shadow);
	json_name(w, BYTES("near"));
	json_double(w, p->rule.near_permille / (double)LIMIT_NEAR_WHOLE);
	json_name(w, BYTES("shards"));
	json_i64(w, p->shards);
	write_text(w, "prefix", p->prefix);
	if (p->inline_limit > 0) {
		json_name(w, BYTES("inline"));
		json_begin_object(w);
		json_name(w, BYTES("limit"));
		json_i64(w, (int64_t)p->inline_limit);
		write_period(w, p->inline_period);
		json_end_object(w);
	}
	write_keys(w, &p->keys);
	json_end_object(w);
}

/* ---- asking ---- */

/* What it says when nothing is taken: the verdict stays, the numbers are those of now. */
static void look_again(struct limit_ask *ask, struct limit_state *states, int64_t now_us)
{
	if (ask->answer.allowed && ask->cost > 0)
		limit_part_take(&ask->part, states, now_us, 0, &ask->answer);
}

bool limit_decide(const struct limit_asks *asks, struct limit_state *states, bool may, int64_t now_us)
{
	struct limit_state after[LIMIT_STATES_MAX];
	bool               asked = may;
	unsigned           at = 0;

	assert(asks->count <= LIMIT_ASKS_MAX);
	for (unsigned i = 0; i < asks->count; at += limit_part_states(&asks->list[i++]->part)) {
		struct limit_ask *ask = asks->list[i];

		ask->part.rule = ask->rule;
		assert(at + limit_part_states(&ask->part) <= LIMIT_STATES_MAX);
		memcpy(&after[at], &states[at], limit_part_states(&ask->part) * sizeof(*after));
		limit_part_take(&ask->part, &after[at], now_us, ask->cost, &ask->answer);
		ask->changed =
		        asked && limit_part_block(&ask->part, &after[at], now_us, ask->cost, &ask->answer);
		may = may && !limit_ask_refuses(ask);
	}
	at = 0;
	for (unsigned i = 0; i < asks->count; at += limit_part_states(&asks->list[i++]->part)) {
		struct limit_ask *ask = asks->list[i];

		ask->changed = ask->changed || (may && ask->answer.allowed && ask->cost > 0);
		if (ask->changed)
			memcpy(&states[at], &after[at], limit_part_states(&ask->part) * sizeof(*after));
		else if (!may)
			look_again(ask, &states[at], now_us);
	}
	return may;
}
