/* Push sharing: see push_sharing.h. */
#include "server/push_sharing.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/own_call.h"
#include "service/push_rate.h"

enum { TURN_COST_BYTES = 4096 };

static int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

struct rating {
	struct own_call         own; /* first */
	struct push_rate_ask    ask;
	struct push_rate_answer answer;
};

static enum err_code rate_take(struct own_call *own, struct err *err)
{
	struct rating *r = (struct rating *)own;

	return push_rate_take(&r->own.ctx, &r->ask, &r->answer, err);
}

static enum err_code rate_give(struct own_call *own, struct err *err)
{
	struct rating *r = (struct rating *)own;

	return push_rate_give(&r->own.ctx, &r->ask, err);
}

/* A table that fails is asked again after a while: without it nothing could be sent either. */
static int64_t share_take(void *ctx, int64_t rate, uint32_t messages)
{
	struct push_sharing *p = ctx;
	struct rating        r = {.ask = {rate, messages, p->row_us + steady_us() - p->seen_us}};
	struct err           err;
	int64_t              wait_us;

	own_call_init(&r.own, p->services, p->store);
	if (own_call_run(&r.own, &(struct own_step){rate_take, sizeof(r), TURN_COST_BYTES}, &err) ==
	    ERR_NONE) {
		p->row_us = r.answer.now_us;
		p->seen_us = steady_us();
		wait_us = r.answer.allowed ? 0 : r.answer.wait_us;
		if (trouble_ends(&p->trouble))
			log_info("push: the rate is shared again");
	} else {
		if (trouble_begins(&p->trouble, steady_us()))
			log_warn("push: the shared rate cannot be read or written, so nothing is sent; "
			         "it is tried again, less and less often: %s",
			         err.text);
		wait_us = p->trouble.due_us - steady_us();
		wait_us = wait_us > 1 ? wait_us : 1;
	}
	own_call_release(&r.own);
	return wait_us;
}

/* If it fails they are lost, until time has brought as many. */
static void share_give(void *ctx, int64_t rate, uint32_t messages)
{
	struct push_sharing *p = ctx;
	struct rating        r = {.ask = {rate, messages, 0}};
	struct err           err;

	own_call_init(&r.own, p->services, p->store);
	(void)own_call_run(&r.own, &(struct own_step){rate_give, sizeof(r), TURN_COST_BYTES}, &err);
	own_call_release(&r.own);
}

struct push_share push_sharing_of(struct push_sharing *s)
{
	return (struct push_share){share_take, share_give, s};
}
