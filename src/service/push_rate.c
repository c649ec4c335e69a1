/* Push rate: see push_rate.h. */
#include "service/push_rate.h"

#include <assert.h>

#include "service/limit.h"
#include "service/push_batch.h"
#include "service/row.h"

#define SECOND_US INT64_C(1000000)
#define SK_EXPO   "EXPO"

static struct limit_rule rule_of(const struct push_rate_ask *q)
{
	assert(q->rate > 0 && q->messages <= PUSH_BATCH_MAX);
	return (struct limit_rule){.algorithm = LIMIT_GCRA,
	                           .limit = (uint64_t)q->rate,
	                           .period = {SECOND_US},
	                           .burst = PUSH_BATCH_MAX};
}

/* Anyone may have written the row: what makes no sense counts as nothing. */
static enum err_code state_look(struct context *ctx, struct looked *row, struct limit_state *out,
                                struct err *err)
{
	int64_t rest;

	looked_init(row, BYTES(KEY_RATE), BYTES(SK_EXPO));
	*out = (struct limit_state){.algorithm = LIMIT_GCRA};
	if (ctx_look_in(ctx, TABLE_PUSH, row, err) != ERR_NONE)
		return err->code;
	if (!row->found)
		return ERR_NONE;
	out->start_us = row_i64(&row->item, "TAT", 0);
	rest = row_i64(&row->item, "TATRest", 0);
	out->count = rest > 0 ? (uint64_t)rest : 0;
	if (out->start_us < 0 || out->start_us >= LIMIT_TIME_MAX_US)
		*out = (struct limit_state){.algorithm = LIMIT_GCRA};
	return ERR_NONE;
}

static void state_put(struct context *ctx, const struct looked *at, const struct limit_state *s)
{
	struct row row;

	row_init(&row, ctx->arena);
	row_set_text(&row, "PK", at->pk);
	row_set_text(&row, "SK", at->sk);
	row_set_i64(&row, "TAT", s->start_us);
	row_set_i64(&row, "TATRest", (int64_t)s->count);
	ctx_put(ctx, TABLE_PUSH, row_item(&row));
}

/* The row's time. With the own clock, less is never taken than a whole burst. */
static int64_t time_of(const struct context *ctx, const struct push_rate_ask *q, const struct limit_state *s)
{
	int64_t burst_us = PUSH_BATCH_MAX * SECOND_US / q->rate;
	int64_t now_us = ctx->now_us > q->since_us ? ctx->now_us : q->since_us;

	return s->start_us - burst_us > now_us ? s->start_us - burst_us : now_us;
}

enum err_code push_rate_take(struct context *ctx, const struct push_rate_ask *q, struct push_rate_answer *out,
                             struct err *err)
{
	const struct limit_rule rule = rule_of(q);
	struct limit_answer     answer;
	struct limit_state      state;
	struct looked           row;

	if (state_look(ctx, &row, &state, err) != ERR_NONE)
		return err->code;
	out->now_us = time_of(ctx, q, &state);
	limit_take(&rule, &state, out->now_us, q->messages, &answer);
	out->allowed = answer.allowed;
	out->wait_us = answer.retry_after_us;
	if (answer.allowed)
		state_put(ctx, &row, &state);
	return ERR_NONE;
}

enum err_code push_rate_give(struct context *ctx, const struct push_rate_ask *q, struct err *err)
{
	const struct limit_rule rule = rule_of(q);
	struct limit_answer     answer;
	struct limit_state      state;
	struct looked           row;

	if (state_look(ctx, &row, &state, err) != ERR_NONE)
		return err->code;
	limit_give(&rule, &state, time_of(ctx, q, &state), q->messages, &answer);
	if (row.found)
		state_put(ctx, &row, &state);
	return ERR_NONE;
}
