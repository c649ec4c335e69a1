/* Rate limits: POST /v1/allow, POST /v1/refund, GET /v1/limits/top; and reading asks and writing answers, for every route
 * that has to do with limits. */
#include "api/v1_limits.h"

#include <stdio.h>

#include "api/v1_read.h"
#include "api/v1_routes.h"
#include "api/v1_write.h"
#include "base/hash.h"
#include "json/base64.h"

/* ---- naming ---- */

/* A call that brings its limit along need not name a policy. */
static struct bytes policy_name(struct fields *f)
{
	if (!fields_has(f, "policy") && (fields_has(f, "limit") || fields_has(f, "per")))
		return BYTES(LIMIT_POLICY_CUSTOM);
	if (!fields_has(f, "policy"))
		fields_fail(f, "policy", ERR_INVALID, "missing: name a policy, or send a `limit`");
	return fields_text(f, "policy", LIMIT_NAME_MAX);
}

void limit_call_name_list(struct v1_call *c, struct fields *f, const char *name, enum v1_use use)
{
	const struct json *list = fields_array(f, name, LIMIT_ASKS_MAX);
	uint32_t           count = 0;

	for (const struct json *m = fields_first(f, list); m != NULL; m = fields_next(f, m)) {
		struct fields one;

		fields_enter(&one, f, arena_printf(c->ctx.arena, "%s[%u]", name, count++), m);
		v1_resource_used(c, use, "limit", policy_name(&one));
	}
}

/* Nearly always it is one that is well-formed, and fields are only for the others. */
static enum err_code call_name(struct v1_call *c, struct err *err)
{
	struct bytes  plain = c->body == NULL ? BYTES("") : json_text(json_get(c->body, BYTES("policy")));
	struct fields f;

	if (plain.len >= 1 && plain.len <= LIMIT_NAME_MAX && json_get(c->body, BYTES("all")) == NULL) {
		v1_resource(c, "limit", plain);
		return ERR_NONE;
	}
	fields_init(&f, c->body, err);
	if (fields_has(&f, "all"))
		limit_call_name_list(c, &f, "all", V1_OWN);
	else
		v1_resource(c, "limit", policy_name(&f));
	return fields_failed(&f) ? err->code : ERR_NONE;
}

enum err_code allow_name(struct v1_call *c, struct err *err)
{
	return call_name(c, err);
}

enum err_code refund_name(struct v1_call *c, struct err *err)
{
	return call_name(c, err);
}

/* ---- reading ---- */

struct limit_policies *limit_call_policies(struct v1_call *c)
{
	struct limit_policies *set = limits_policies(c->ctx.services->limits);

	v1_hold(c, &set->base);
	return set;
}

static const struct limit_policy *read_policy(struct fields *f, const struct limit_policies *set)
{
	struct bytes               name = policy_name(f);
	const struct limit_policy *policy = limit_policies_find(set, name);

	if (policy == NULL && !fields_has(f, "policy") && !fields_failed(f))
		fields_fail(f, "policy", ERR_INVALID,
		            "missing: without one, a call needs the policy " LIMIT_POLICY_CUSTOM
		            ", which these policies do not have");
	else if (policy == NULL)
		fields_fail(f, "policy", ERR_INVALID,
		            "unknown policy; GET /v1/policies/limits shows them all");
	return policy;
}

struct limit_key limit_call_read_key(struct v1_call *c, struct fields *f, const struct json *member)
{
	struct bytes text =
	        identifier_read_key(&c->ctx.services->identifiers, c->ctx.arena, f, "key", member);
	struct limit_key key = limit_key_plain(text);

	if (fields_failed(f) || member->type != JSON_OBJECT)
		return key;
	key.hashed = true;
	key.is_address = bytes_is(json_children(member)->name, "ip") &&
	                 identifier_ip_parse(json_text(json_children(member)), key.address);
	return key;
}

void limit_call_read(struct v1_call *c, struct fields *f, const struct limit_policies *set,
                     struct limit_call *out)
{
	const struct limit_policy *policy = read_policy(f, set);
	struct limit_key           key = limit_call_read_key(c, f, fields_get(f, "key"));
	int64_t                    cost = fields_i64_or(f, "cost", 0, LIMIT_UNITS_MAX, 1);

	if (fields_failed(f))
		return;
	key.asked = limit_policy_inline(policy, f, c->ctx.arena);
	if (fields_failed(f))
		return;
	if (key.text.len > LIMIT_KEY_MAX)
		fields_fail(f, "key", ERR_INVALID, "must have 1 to %d bytes, not %zu", LIMIT_KEY_MAX,
		            key.text.len);
	else if (!limit_call_has_room(out, policy))
		fields_fail(f, "policy", ERR_INVALID, "a call may ask about at most %d limits with `shards`",
		            LIMIT_ASKS_SHARDED_MAX);
	else if (!limit_call_add(out, c->ctx.arena, policy, &key, (uint64_t)cost))
		fields_fail(f, "key", ERR_INVALID,
		            "given twice for the same policy; each key may be asked about once per call");
}

void limit_call_read_list(struct v1_call *c, struct fields *f, const char *name,
                          const struct limit_policies *set, struct limit_call *out)
{
	const struct json *list = fields_array(f, name, LIMIT_ASKS_MAX);
	unsigned           at = 0;

	if (list != NULL && list->count == 0)
		fields_fail(f, name, ERR_INVALID, "must not be empty");
	for (const struct json *m = fields_first(f, list); m != NULL; m = fields_next(f, m), at++) {
		struct bytes  place = arena_printf(c->ctx.arena, "%s[%u]", name, at);
		struct fields one;

		fields_enter(&one, f, place, m);
		limit_call_read(c, &one, set, out);
		fields_end(&one);
	}
}

/* ---- writing ----
 *
 * Headers are put together by hand, not by printf: they would be a large part of a call's time. */

#define SECOND_US INT64_C(1000000)

static int64_t seconds_up(int64_t us)
{
	return (us + SECOND_US - 1) / SECOND_US;
}

static void write_wait(struct json_writer *w, int64_t wait_us, int64_t now_us)
{
	if (wait_us <= 0)
		return;
	json_member_i64(w, BYTES("retry_after"), seconds_up(wait_us));
	v1_write_time(w, BYTES("until"), seconds_up(now_us + wait_us));
}

static void write_result(struct json_writer *w, const struct limit_ask *ask, int64_t now_us)
{
	json_begin_object(w);
	json_member_text(w, BYTES("policy"), ask->policy->name);
	json_member_bool(w, BYTES("allowed"), ask->answer.allowed);
	json_member_i64(w, BYTES("limit"), (int64_t)ask->answer.limit);
	if (ask->rule->algorithm == LIMIT_GCRA)
		json_member_i64(w, BYTES("burst"), (int64_t)ask->rule->burst);
	json_member_i64(w, BYTES("remaining"), (int64_t)ask->answer.remaining);
	json_member_i64(w, BYTES("reset"), seconds_up(ask->answer.reset_us));
	write_wait(w, ask->answer.retry_after_us, now_us);
	if (ask->answer.reason != LIMIT_NO_REASON)
		json_member_text(w, BYTES("reason"), bytes_of(limit_reason_name(ask->answer.reason)));
	if (ask->answer.near)
		json_member_bool(w, BYTES("near"), true);
	if (ask->policy->shadow)
		json_member_bool(w, BYTES("shadow"), true);
	if (ask->degraded)
		json_member_bool(w, BYTES("degraded"), true);
	json_end_object(w);
}

void limit_call_write(struct json_writer *w, const struct limit_call *c, int64_t now_us)
{
	json_member_bool(w, BYTES("allowed"), c->allowed);
	json_member_bool(w, BYTES("degraded"), c->degraded);
	write_wait(w, c->retry_after_us, now_us);
	limit_call_write_results(w, BYTES("results"), c, now_us);
}

void limit_call_write_results(struct json_writer *w, struct bytes name, const struct limit_call *c,
                              int64_t now_us)
{
	json_key(w, name);
	json_begin_array(w);
	for (unsigned i = 0; i < c->count; i++)
		write_result(w, &c->asks[i], now_us);
	json_end_array(w);
}

/* ---- headers ---- */

/* "name", as the first part of a list's member. Names need no escapes: limit_policy.c sees to that. */
static void add_name(struct buf *out, struct bytes name)
{
	if (out->len > 0)
		buf_add(out, ", ", 2);
	buf_add_byte(out, '"');
	buf_add_bytes(out, name);
	buf_add_byte(out, '"');
}

/* `name` is with what comes before and after it: ";q=" */
static void add_parameter(struct buf *out, struct bytes name, int64_t value)
{
	buf_add_bytes(out, name);
	buf_add_i64(out, value);
}

/* The key has a limit of its own: the partition key says that this is no policy for others. A hash names the key here,
 * because a proxy may pass these headers on. */
static void add_partition(struct buf *out, const struct limit_ask *ask)
{
	uint64_t hash = hash_bytes(HASH_KEY_STABLE, ask->key);

	if (ask->rule == &ask->policy->rule)
		return;
	buf_add(out, ";pk=:", 5);
	base64_encode(out, (struct bytes){(const char *)&hash, sizeof(hash)});
	buf_add_byte(out, ':');
}

/* How many seconds the quota is for; of a calendar month, this one. */
static int64_t period_s(const struct limit_rule *rule, int64_t now_us)
{
	struct limit_window w;

	if (rule->period.us > 0)
		return rule->period.us / SECOND_US;
	w = limit_window_at(rule->period, now_us);
	return (w.end_us - w.start_us) / SECOND_US;
}

void limit_call_headers(struct v1_call *v, const struct limit_call *c, int64_t now_us)
{
	struct buf policies, limits, wait;

	buf_init(&policies, v->ctx.arena);
	buf_init(&limits, v->ctx.arena);
	buf_init(&wait, v->ctx.arena);
	for (unsigned i = 0; i < c->count; i++) {
		const struct limit_ask *ask = &c->asks[i];

		if (ask->policy->shadow || ask->degraded || ask->listed)
			continue;
		add_name(&policies, ask->policy->name);
		add_parameter(&policies, BYTES(";q="), (int64_t)ask->rule->limit);
		add_parameter(&policies, BYTES(";w="), period_s(ask->rule, now_us));
		add_partition(&policies, ask);
		add_name(&limits, ask->policy->name);
		add_parameter(&limits, BYTES(";r="), (int64_t)ask->answer.remaining);
		add_parameter(&limits, BYTES(";t="), seconds_up(ask->answer.reset_us));
	}
	if (policies.len > 0) {
		v1_header(v, BYTES("RateLimit-Policy"), buf_bytes(&policies));
		v1_header(v, BYTES("RateLimit"), buf_bytes(&limits));
	}
	if (c->retry_after_us > 0) {
		buf_add_i64(&wait, seconds_up(c->retry_after_us));
		v1_header(v, BYTES("Retry-After"), buf_bytes(&wait));
	}
}

enum { TOP_DEFAULT = 20, TOP_MAX = 100, STATUS_LIMITED = 429 };

struct limits_call {
	struct limit_call *call; /* it outlives a run: what was taken in memory stays taken */
	bool               enforce;
};

/* ---- allow and refund ---- */

/* To be answered once under its Idempotency-Key: that takes a turn, whatever it asks. */
static bool is_keyed(const struct v1_call *c)
{
	return http_header_get(c->call.http, "idempotency-key").data != NULL;
}

/* {policy, key, cost} or {all: […]}. */
static enum err_code call_decode(struct v1_call *c, enum limit_verb verb, struct err *err)
{
	struct limits_call    *l = v1_request(c, sizeof(*l));
	struct limit_policies *set = limit_call_policies(c);
	struct fields          f;

	l->call = arena_zalloc(c->ctx.arena, sizeof(*l->call));
	l->call->verb = verb;
	fields_init(&f, c->body, err);
	if (fields_has(&f, "all"))
		limit_call_read_list(c, &f, "all", set, l->call);
	else
		limit_call_read(c, &f, set, l->call);
	if (fields_end(&f) != ERR_NONE)
		return err->code;
	l->enforce = v1_read_enforce(c, &f);
	if (fields_failed(&f))
		return err->code;
	if (!is_keyed(c) && !limits_needs_turn(c->ctx.services->limits, l->call, c->ctx.now_us))
		c->call.kind = READ;
	c->call.turn.subject = limits_line(l->call);
	c->call.tableless = !limits_needs_table(l->call);
	return ERR_NONE;
}

static enum err_code call_run(struct v1_call *c, struct err *err)
{
	struct limits_call *l = c->request;

	return limits_run(&c->ctx, l->call, err);
}

static void call_encode(struct v1_call *c, struct json_writer *w)
{
	struct limits_call *l = c->request;

	if (l->enforce && !l->call->allowed)
		c->status = STATUS_LIMITED;
	limit_call_headers(c, l->call, c->ctx.now_us);
	json_begin_object(w);
	limit_call_write(w, l->call, c->ctx.now_us);
	json_end_object(w);
}

void allow_committed(struct v1_call *c)
{
	struct limits_call *l = c->request;

	limits_written(&c->ctx, l->call);
	limits_kept(c->ctx.services->limits, l->call, c->ctx.now_us);
}

enum err_code allow_refused(struct v1_call *c, enum err_code rc, struct err *err)
{
	struct limits_call *l = c->request;

	return limits_failed(c->ctx.services->limits, l->call, c->ctx.now_us, rc, err);
}

enum err_code allow_decode(struct v1_call *c, struct err *err)
{
	return call_decode(c, LIMIT_TAKE, err);
}

enum err_code allow_run(struct v1_call *c, struct err *err)
{
	return call_run(c, err);
}

void allow_encode(struct v1_call *c, struct json_writer *w)
{
	call_encode(c, w);
}

enum err_code refund_decode(struct v1_call *c, struct err *err)
{
	return call_decode(c, LIMIT_GIVE, err);
}

enum err_code refund_run(struct v1_call *c, struct err *err)
{
	return call_run(c, err);
}

void refund_encode(struct v1_call *c, struct json_writer *w)
{
	call_encode(c, w);
}

/* ---- what is hot ---- */

struct top_call {
	uint64_t                     max;
	const struct limit_policies *set;
};

enum err_code limits_top_decode(struct v1_call *c, struct err *err)
{
	struct top_call *t = v1_request(c, sizeof(*t));
	struct bytes     max;

	t->max = TOP_DEFAULT;
	t->set = limit_call_policies(c);
	if (v1_query(c, "max", &max, err) != ERR_NONE)
		return err->code;
	if (max.data != NULL && (!bytes_to_u64(max, TOP_MAX, &t->max) || t->max == 0))
		return err_field(err, ERR_INVALID, "max", "?max: must be from 1 to %d", TOP_MAX);
	return ERR_NONE;
}

enum err_code limits_top_run(struct v1_call *c, struct err *err)
{
	(void)c;
	(void)err;
	return ERR_NONE;
}

/* A key is shown as it is stored, with the prefix of its policy: one that may be of a policy that is denied is left out. */
static bool is_hidden(const struct v1_call *c, const struct limit_policies *set, struct bytes key)
{
	bool known = false;

	for (unsigned i = 0; i < set->count; i++) {
		const struct limit_policy *policy = &set->list[i];

		if (!bytes_starts_with(key, policy->prefix))
			continue;
		if (!v1_allowed(c, "limit", policy->name))
			return true;
		known = true;
	}
	return !known;
}

static void write_top(struct v1_call *c, struct json_writer *w, const char *name, enum limits_list which)
{
	const struct top_call      *t = c->request;
	bool                        all = !v1_could_deny(c, "limit");
	unsigned                    count;
	const struct limit_top_key *list =
	        limit_top_read(limits_top(c->ctx.services->limits, which), c->ctx.arena, (unsigned)t->max,
	                       c->ctx.now_us, &count);

	json_name(w, bytes_of(name));
	json_begin_array(w);
	for (unsigned i = 0; i < count; i++) {
		if (!all && is_hidden(c, t->set, list[i].key))
			continue;
		json_begin_object(w);
		json_member_text(w, BYTES("key"), list[i].key);
		json_member_i64(w, BYTES("count"), (int64_t)list[i].count);
		json_member_i64(w, BYTES("doubt"), (int64_t)list[i].doubt);
		json_end_object(w);
	}
	json_end_array(w);
}

void limits_top_encode(struct v1_call *c, struct json_writer *w)
{
	json_begin_object(w);
	write_top(c, w, "hot", LIMITS_HOT);
	write_top(c, w, "denied", LIMITS_DENIED);
	json_end_object(w);
}
