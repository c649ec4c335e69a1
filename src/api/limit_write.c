/* Limit calls: writing. Headers are put together by hand, not by printf: they would be a large part of a call's time. */
#include "api/limit_call.h"
#include "api/v1_read.h"

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
	v1_write_i64(w, BYTES("remaining"), (int64_t)ask->answer.remaining);
	v1_write_i64(w, BYTES("reset"), seconds_up(ask->answer.reset_us));
	write_wait(w, ask->answer.retry_after_us, now_us);
	if (ask->answer.retry_after_us == LIMIT_NEVER)
		v1_write_text(w, BYTES("reason"), BYTES("cost_above_limit"));
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
	json_name(w, name);
	json_begin_array(w);
	for (unsigned i = 0; i < c->count; i++)
		write_result(w, &c->asks[i], now_us);
	json_end_array(w);
}

/* ---- headers ---- */

enum { NUMBER_CHARS = 20 };

static void add_number(struct buf *out, uint64_t number)
{
	char  text[NUMBER_CHARS];
	char *at = text + sizeof(text);

	do
		*--at = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	buf_add(out, at, (size_t)(text + sizeof(text) - at));
}

/* "name", as the first part of a list's member. Names need no escapes: limit_policy.c sees to that. */
static void add_name(struct buf *out, struct bytes name)
{
	if (out->len > 0)
		buf_add(out, ", ", 2);
	buf_add_byte(out, '"');
	buf_add_bytes(out, name);
	buf_add_byte(out, '"');
}

static void add_parameter(struct buf *out, const char *name, uint64_t value)
{
	buf_add_byte(out, ';');
	buf_add_bytes(out, bytes_of(name));
	buf_add_byte(out, '=');
	add_number(out, value);
}

/* How many seconds the quota is for; of a calendar month, this one. */
static uint64_t period_s(const struct limit_rule *rule, int64_t now_us)
{
	struct limit_window w;

	if (rule->period.us > 0)
		return (uint64_t)(rule->period.us / SECOND_US);
	w = limit_window_at(rule->period, now_us);
	return (uint64_t)((w.end_us - w.start_us) / SECOND_US);
}

void limit_call_headers(struct v1_call *v, const struct limit_call *c, int64_t now_us)
{
	struct buf policies, limits, wait;

	buf_init(&policies, v->arena);
	buf_init(&limits, v->arena);
	buf_init(&wait, v->arena);
	for (unsigned i = 0; i < c->count; i++) {
		const struct limit_ask *ask = &c->asks[i];

		if (ask->policy->shadow || ask->degraded)
			continue;
		add_name(&policies, ask->policy->name);
		add_parameter(&policies, "q", ask->policy->rule.limit);
		add_parameter(&policies, "w", period_s(&ask->policy->rule, now_us));
		add_name(&limits, ask->policy->name);
		add_parameter(&limits, "r", ask->answer.remaining);
		add_parameter(&limits, "t", (uint64_t)seconds_up(ask->answer.reset_us));
	}
	if (policies.len > 0) {
		v1_header(v, BYTES("RateLimit-Policy"), buf_bytes(&policies));
		v1_header(v, BYTES("RateLimit"), buf_bytes(&limits));
	}
	if (c->retry_after_us > 0) {
		add_number(&wait, (uint64_t)seconds_up(c->retry_after_us));
		v1_header(v, BYTES("Retry-After"), buf_bytes(&wait));
	}
}
