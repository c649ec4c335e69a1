/* Check: an assessment for each action, and a look at the limits. */
#include "service/check.h"

#define SECOND_US INT64_C(1000000)

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void check_join(struct checked *c, const struct verdict *v, struct verdict_wait wait)
{
	bool first = c->verdict.kind == VERDICT_ALLOW;

	if (v->kind == VERDICT_ALLOW)
		return;
	if (first)
		c->wait = wait;
	else if (c->wait.until_s == 0 || wait.until_s == 0)
		c->wait = (struct verdict_wait){0};
	else
		c->wait = (struct verdict_wait){later(c->wait.until_s, wait.until_s),
		                                later(c->wait.whole_seconds, wait.whole_seconds)};
	verdict_add(&c->verdict, v);
}

/* `who`: the whole person, the same for all actions. */
static enum err_code check_action(struct context *ctx, struct checked *c, struct attempt *who,
                                  const struct rule *rule, struct err *err)
{
	struct check_action *action = &c->actions[c->action_count++];
	struct assessment    now;

	who->rule = rule;
	if (assess(ctx, who, &now, err) != ERR_NONE)
		return err->code;
	action->verdict = now.verdict;
	action->shadow = now.shadow;
	action->known_device = now.lane.open;
	assessment_show(&now, who, &action->nearest);
	c->required = now.required; /* they are the subjects', whatever the action */
	check_join(c, &now.verdict, verdict_wait_all(&now.verdict, ctx->now_us));
	return ERR_NONE;
}

static int64_t seconds_up(int64_t us)
{
	return (us + SECOND_US - 1) / SECOND_US;
}

/* Why waiting does not help. */
static const char *reason_of_never(const struct limit_call *call)
{
	for (unsigned i = 0; i < call->count; i++)
		if (limit_ask_refuses(&call->asks[i]) && call->asks[i].answer.retry_after_us == LIMIT_NEVER)
			return limit_reason_name(call->asks[i].answer.reason);
	return limit_reason_name(LIMIT_COST_ABOVE);
}

static enum err_code check_limits(struct context *ctx, struct limit_call *call, struct checked *c,
                                  struct err *err)
{
	struct verdict      v = {.kind = VERDICT_LIMITED, .reason = "limit"};
	struct verdict_wait wait = {0};
	enum err_code       rc = limits_run(ctx, call, err);

	if (rc != ERR_NONE && limits_failed(ctx->services->limits, call, ctx->now_us, rc, err) != ERR_NONE)
		return err->code;
	if (call->allowed)
		return ERR_NONE;
	if (call->retry_after_us == LIMIT_NEVER) {
		v.reason = reason_of_never(call);
	} else {
		v.until_s = seconds_up(ctx->now_us + call->retry_after_us);
		wait = (struct verdict_wait){v.until_s, seconds_up(call->retry_after_us)};
	}
	check_join(c, &v, wait);
	return ERR_NONE;
}

enum err_code check_run(struct context *ctx, const struct check *q, struct checked *out, struct err *err)
{
	struct attempt *who = arena_alloc(ctx->arena, sizeof(*who));

	*out = (struct checked){0};
	if (q->action_count > 0 && attempt_whole(ctx, &q->who, who, err) != ERR_NONE)
		return err->code;
	for (uint32_t i = 0; i < q->action_count; i++)
		if (check_action(ctx, out, who, q->actions[i], err) != ERR_NONE)
			return err->code;
	return q->limits == NULL ? ERR_NONE : check_limits(ctx, q->limits, out, err);
}
