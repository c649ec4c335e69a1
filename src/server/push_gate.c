/* Push gate: see push_gate.h. */
#define _GNU_SOURCE
#include "server/push_gate.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

#define SECOND_US INT64_C(1000000)

enum { LATER_DOUBLED_MAX = 6 };

static int64_t steady_us(void)
{
	return clock_steady_us(clock_system());
}

void push_gate_init(struct push_gate *g, const struct push_share *share)
{
	pthread_condattr_t monotonic;

	*g = (struct push_gate){.permits = PUSH_BATCH_MAX * SECOND_US, .refilled_us = steady_us()};
	if (share != NULL)
		g->share = *share;
	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&g->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void push_gate_release(struct push_gate *g)
{
	push_gate_put(g, NULL);
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
}

/* ---- routes ---- */

static void route_drop(struct push_gate *g, struct push_route *r)
{
	bool last;

	pthread_mutex_lock(&g->lock);
	last = --r->refs == 0;
	pthread_mutex_unlock(&g->lock);
	if (!last)
		return;
	push_target_close(r->target);
	free(r);
}

void push_gate_put(struct push_gate *g, struct push_target *target)
{
	struct push_route *old, *new = NULL;

	if (target != NULL) {
		new = mem_zalloc(sizeof(*new));
		*new = (struct push_route){target, 1};
	}
	pthread_mutex_lock(&g->lock);
	old = g->route;
	g->route = new;
	g->later_us = 0;
	g->later_row = 0;
	g->probing = false;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	if (old != NULL)
		route_drop(g, old);
}

struct push_route *push_gate_take(struct push_gate *g, struct push_route **under_way)
{
	struct push_route *r;

	pthread_mutex_lock(&g->lock);
	r = *under_way = g->stopping ? NULL : g->route;
	if (r != NULL)
		r->refs++;
	pthread_mutex_unlock(&g->lock);
	return r;
}

void push_gate_return(struct push_gate *g, struct push_route **under_way)
{
	struct push_route *r;

	pthread_mutex_lock(&g->lock);
	r = *under_way;
	*under_way = NULL;
	pthread_mutex_unlock(&g->lock);
	if (r != NULL)
		route_drop(g, r);
}

void push_gate_cut(struct push_gate *g, struct push_route **under_way)
{
	struct push_route *r;

	pthread_mutex_lock(&g->lock);
	r = *under_way;
	if (r != NULL)
		r->refs++;
	pthread_mutex_unlock(&g->lock);
	if (r == NULL)
		return;
	expo_stop(r->target->expo);
	route_drop(g, r);
}

/* ---- waiting ---- */

static struct timespec after_us(int64_t us)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	us += until.tv_nsec / 1000;
	until.tv_sec += us / SECOND_US;
	until.tv_nsec = us % SECOND_US * 1000;
	return until;
}

bool push_gate_pause(struct push_gate *g, int64_t us)
{
	struct timespec until = after_us(us);
	bool            goes_on;

	pthread_mutex_lock(&g->lock);
	while (!g->stopping && pthread_cond_timedwait(&g->changed, &g->lock, &until) != ETIMEDOUT)
		;
	goes_on = !g->stopping;
	pthread_mutex_unlock(&g->lock);
	return goes_on;
}

void push_gate_stop(struct push_gate *g)
{
	pthread_mutex_lock(&g->lock);
	g->stopping = true;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* Under lock. */
static void permits_refill(struct push_gate *g, int64_t rate, int64_t whole)
{
	int64_t now_us = steady_us(), passed_us = now_us - g->refilled_us;

	passed_us = passed_us < 1000 * SECOND_US ? passed_us : 1000 * SECOND_US;
	g->permits += passed_us * rate;
	g->permits = g->permits < whole ? g->permits : whole;
	g->refilled_us = now_us;
}

/* Under lock. */
static bool may_go(const struct push_gate *g, const struct push_ask *q)
{
	return !g->stopping && g->route == q->route && g->later_us <= steady_us() && !g->probing;
}

/* Under lock. How long to wait for so many permits; 0: they are taken. */
static int64_t own_take(struct push_gate *g, int64_t rate, uint32_t messages)
{
	int64_t need = messages * SECOND_US;

	permits_refill(g, rate, PUSH_BATCH_MAX * SECOND_US);
	if (g->permits < need)
		return (need - g->permits) / rate + 1;
	g->permits -= need;
	return 0;
}

/* The same, of the share. Leaves the lock meanwhile. What was refused a moment ago is not asked for again. */
static int64_t share_take(struct push_gate *g, int64_t rate, uint32_t messages)
{
	int64_t wait_us, now_us = steady_us();

	if (g->asking)
		return SECOND_US; /* or sooner: its end is a change */
	if (messages >= g->refused && now_us < g->refused_us)
		return g->refused_us - now_us;
	g->asking = true;
	pthread_mutex_unlock(&g->lock);
	wait_us = g->share.take(g->share.ctx, rate, messages);
	pthread_mutex_lock(&g->lock);
	g->asking = false;
	g->refused = messages;
	g->refused_us = steady_us() + wait_us;
	pthread_cond_broadcast(&g->changed);
	return wait_us;
}

static int64_t permits_take(struct push_gate *g, const struct push_ask *q, uint32_t messages)
{
	int64_t rate = q->route->target->rate;

	if (q->lane != PUSH_LANE_USER && g->waiting[PUSH_LANE_USER] > 0)
		return SECOND_US / rate + 1;
	return g->share.take == NULL ? own_take(g, rate, messages) : share_take(g, rate, messages);
}

/* Not under lock. */
static void permits_give(struct push_gate *g, const struct push_route *route, uint32_t messages)
{
	if (messages == 0)
		return;
	if (g->share.give != NULL)
		g->share.give(g->share.ctx, route->target->rate, messages);
	pthread_mutex_lock(&g->lock);
	g->permits += messages * SECOND_US;
	g->refused_us = 0;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* Under lock. Permits, once they are there: those of a broadcast wait for users' messages. */
static bool permits_await(struct push_gate *g, const struct push_ask *q, struct push_pass *out)
{
	while (may_go(g, q)) {
		struct timespec until;
		int64_t         wait_us;

		out->probe = g->later_row > 0;
		out->messages = out->probe ? 1 : q->messages;
		wait_us = permits_take(g, q, out->messages);
		if (wait_us == 0)
			return true;
		out->waited = true;
		until = after_us(wait_us);
		pthread_cond_timedwait(&g->changed, &g->lock, &until);
	}
	return false;
}

bool push_gate_enter(struct push_gate *g, const struct push_ask *q, struct push_pass *out)
{
	bool taken, goes_on;

	*out = (struct push_pass){.route = q->route};
	pthread_mutex_lock(&g->lock);
	g->waiting[q->lane]++;
	taken = permits_await(g, q, out);
	g->waiting[q->lane]--;
	goes_on = taken && may_go(g, q); /* a share is asked without the lock */
	if (goes_on)
		g->probing = out->probe;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
	if (taken && !goes_on)
		permits_give(g, q->route, out->messages);
	return goes_on;
}

void push_gate_shrink(struct push_gate *g, struct push_pass *pass, uint32_t messages)
{
	uint32_t before = pass->messages;

	if (messages >= before)
		return;
	pass->messages = messages;
	permits_give(g, pass->route, before - messages);
}

/* ---- later ---- */

uint32_t push_gate_room(struct push_gate *g)
{
	uint32_t room;

	pthread_mutex_lock(&g->lock);
	room = g->later_us > steady_us() || g->probing ? 0 : g->later_row > 0 ? 1 : PUSH_BATCH_MAX;
	pthread_mutex_unlock(&g->lock);
	return room;
}

/* Under lock. A call that began before another one got nowhere says nothing new. */
static void note_later(struct push_gate *g, bool probe, int64_t asked_s)
{
	int64_t wait_s = 0, until_us;

	if (probe || g->later_row == 0) {
		wait_s = (int64_t)PUSH_LATER_S
		         << (g->later_row < LATER_DOUBLED_MAX ? g->later_row : LATER_DOUBLED_MAX);
		wait_s = wait_s < PUSH_LATER_S_MAX ? wait_s : PUSH_LATER_S_MAX;
		g->later_row++;
	}
	until_us = steady_us() + (wait_s > asked_s ? wait_s : asked_s) * SECOND_US;
	g->later_us = until_us > g->later_us ? until_us : g->later_us;
}

/* Under lock. */
static void note_call(struct push_gate *g, const struct push_pass *pass, const struct push_left *how)
{
	if (pass->probe)
		g->probing = false;
	if (how->called && how->later)
		note_later(g, pass->probe, how->asked_s);
	else if (how->called)
		g->later_row = 0;
}

void push_gate_leave(struct push_gate *g, const struct push_pass *pass, const struct push_left *how)
{
	if (!how->called)
		permits_give(g, pass->route, pass->messages);
	pthread_mutex_lock(&g->lock);
	if (g->route == pass->route) /* what another target says is its own affair */
		note_call(g, pass, how);
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}
