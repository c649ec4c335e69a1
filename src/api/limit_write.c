/* Limit calls: writing. Headers are put together by hand, not by printf: they would be a large part of a call's time. */
#include "api/limit_call.h"
#include "api/v1_read.h"
#include "base/hash.h"
#include "json/base64.h"

#define SECOND_US INT64_C(1000000)

static int64_t seconds_up(int64_t us)
{
	return (us + SECOND_US - 1) / SECOND_US;
}

static void write_wait(struct json_writer *w, int64_t wait_us, int64_t now_us)
{
	if (wait_us <= 0)
		return;
	v1_write_i64(w, BYTES("retry_after"), seconds_up(wait_us));
	v1_write_time(w, BYTES("until"), seconds_up(now_us + wait_us));
}

static void write_result(struct json_writer *w, const struct limit_ask *ask, int64_t now_us)
{
	json_begin_object(w);
	v1_write_text(w, BYTES("policy"), ask->policy->name);
	v1_write_bool(w, BYTES("allowed"), ask->answer.allowed);
	v1_write_i64(w, BYTES("limit"), (int64_t)ask->answer.limit);
	if (ask->rule->algorithm == LIMIT_GCRA)
		v1_write_i64(w, BYTES("burst"), (int64_t)ask->rule->burst);
	v1_write_i64(w, BYTES("remaining"), (int64_t)ask->answer.remaining);
	v1_write_i64(w, BYTES("reset"), seconds_up(ask->answer.reset_us));
	write_wait(w, ask->answer.retry_after_us, now_us);
	if (ask->answer.reason != LIMIT_NO_REASON)
		v1_write_text(w, BYTES("reason"), bytes_of(limit_reason_name(ask->answer.reason)));
	if (ask->answer.near)
		v1_write_bool(w, BYTES("near"), true);
	if (ask->policy->shadow)
		v1_write_bool(w, BYTES("shadow"), true);
	if (ask->degraded)
		v1_write_bool(w, BYTES("degraded"), true);
	json_end_object(w);
}

void limit_call_write(struct json_writer *w, const struct limit_call *c, int64_t now_us)
{
	v1_write_bool(w, BYTES("allowed"), c->allowed);
	v1_write_bool(w, BYTES("degraded"), c->degraded);
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

	buf_init(&policies, v->arena);
	buf_init(&limits, v->arena);
	buf_init(&wait, v->arena);
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
