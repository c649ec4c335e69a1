/* Limit: windows are floor divisions, and libc's calendar for months; algorithms are integer arithmetic. */
#define _GNU_SOURCE
#include "service/limit.h"

#include <assert.h>
#include <time.h>

#include "base/date.h"

/* ---- windows ---- */

#define SECOND_US   INT64_C(1000000)
#define YEAR_ONE_US (INT64_C(62135596800) * SECOND_US) /* from 0001-01-01 to 1970-01-01 */

static int64_t floor_to(int64_t value, int64_t unit)
{
	int64_t rest = value % unit;

	return value - (rest < 0 ? rest + unit : rest);
}

static int64_t month_start_us(struct tm day, int months_later)
{
	struct tm first = {.tm_year = day.tm_year, .tm_mon = day.tm_mon + months_later, .tm_mday = 1};

	return (int64_t)timegm(&first) * SECOND_US;
}

struct limit_window limit_window_at(struct limit_period period, int64_t time_us)
{
	struct limit_window w;
	struct tm           day;
	time_t              seconds;

	if (period.us > 0) {
		w.start_us = floor_to(time_us + YEAR_ONE_US, period.us) - YEAR_ONE_US;
		w.end_us = w.start_us + period.us;
		return w;
	}
	seconds = (time_t)(floor_to(time_us, SECOND_US) / SECOND_US);
	gmtime_r(&seconds, &day);
	w.start_us = month_start_us(day, 0);
	w.end_us = month_start_us(day, 1);
	return w;
}

void limit_time_format(int64_t time_us, char text[LIMIT_TIME_TEXT])
{
	date_write_iso(floor_to(time_us, SECOND_US) / SECOND_US, text);
}

/* No other form that date_read_iso takes has as many characters. */
bool limit_time_parse(struct bytes text, int64_t *time_us)
{
	return text.len == LIMIT_TIME_TEXT && date_read_iso(text, time_us) && *time_us < LIMIT_TIME_MAX_US;
}

/* ---- algorithms ---- */

typedef unsigned __int128 u128; /* the compiler's own spelling cannot follow `struct` */

/* A rate needs a month of one length. */
#define GCRA_MONTH_US (UINT64_C(30) * 86400 * 1000000)

/* A state seen at a time: what the answers are computed from. */
struct sight {
	int64_t             now_us;     /* the caller's */
	int64_t             time_us;    /* windows: not before anything the state has seen */
	struct limit_window window;     /* windows: that of time_us */
	u128                used;       /* in units of 1/span */
	uint64_t            span;       /* the window's or period's length in microseconds */
	uint64_t            room;       /* whole units that could be taken, but for a block */
	int64_t             blocked_us; /* for how much longer it is blocked; 0: it is not */
};

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static int64_t divide_up(u128 value, uint64_t by)
{
	return (int64_t)((value + by - 1) / by);
}

/* ---- windows: fixed and sliding ---- */

/* Moves the state to the window of the time; never back, also if another rule laid its windows otherwise. */
static void windows_advance(const struct limit_rule *rule, struct limit_state *s,
                            const struct limit_window *w)
{
	bool adjacent;

	if (s->start_us >= w->start_us)
		return;
	adjacent = rule->algorithm == LIMIT_SLIDING &&
	           limit_window_at(rule->period, s->start_us).end_us == w->start_us;
	s->previous = adjacent ? s->count : 0;
	s->start_us = w->start_us;
	s->count = 0;
}

static void windows_see(const struct limit_rule *rule, struct limit_state *s, struct sight *v)
{
	v->time_us = later(v->now_us, s->start_us);
	v->window = limit_window_at(rule->period, v->time_us);
	v->span = (uint64_t)(v->window.end_us - v->window.start_us);
	windows_advance(rule, s, &v->window);
	v->used = (u128)s->count * v->span;
	if (rule->algorithm == LIMIT_SLIDING)
		v->used += (u128)s->previous * (uint64_t)(v->window.end_us - v->time_us);
}

/* Until a weighted previous count leaves room: `have` units of room are there without it. */
static int64_t fade_us(uint64_t previous, uint64_t have, int64_t span)
{
	return previous <= have ? 0 : span - (int64_t)((u128)have * (uint64_t)span / previous);
}

static int64_t sliding_wait_us(const struct limit_rule *rule, const struct limit_state *s,
                               const struct sight *v, uint64_t cost)
{
	struct limit_window next;

	if (s->count + cost <= rule->limit)
		return v->window.start_us +
		       fade_us(s->previous, rule->limit - s->count - cost, (int64_t)v->span) - v->now_us;
	next = limit_window_at(rule->period, v->window.end_us);
	return next.start_us + fade_us(s->count, rule->limit - cost, next.end_us - next.start_us) - v->now_us;
}

static int64_t windows_wait_us(const struct limit_rule *rule, const struct limit_state *s,
                               const struct sight *v, uint64_t cost)
{
	if (rule->algorithm == LIMIT_SLIDING)
		return sliding_wait_us(rule, s, v, cost);
	return v->window.end_us - v->now_us;
}

static int64_t windows_reset_us(const struct limit_rule *rule, const struct limit_state *s,
                                const struct sight *v)
{
	if (v->room == rule->limit)
		return 0;
	if (rule->algorithm == LIMIT_SLIDING && s->count > 0)
		return limit_window_at(rule->period, v->window.end_us).end_us - v->now_us;
	return v->window.end_us - v->now_us;
}

/* Of a sliding count, the newest units first. */
static void windows_give(struct limit_state *s, uint64_t cost)
{
	uint64_t newest = smaller(cost, s->count);

	s->count -= newest;
	s->previous -= smaller(cost - newest, s->previous);
}

/* ---- GCRA ---- */

static uint64_t gcra_span(const struct limit_rule *rule)
{
	return rule->period.us > 0 ? (uint64_t)rule->period.us : GCRA_MONTH_US;
}

bool limit_rule_drains(const struct limit_rule *rule)
{
	return rule->algorithm != LIMIT_GCRA ||
	       (u128)rule->burst * gcra_span(rule) <= (u128)LIMIT_DRAIN_US_MAX * rule->limit;
}

static void gcra_see(const struct limit_rule *rule, const struct limit_state *s, struct sight *v)
{
	v->span = gcra_span(rule);
	v->used = 0;
	if (s->start_us >= v->now_us)
		v->used = (u128)(uint64_t)(s->start_us - v->now_us) * rule->limit +
		          smaller(s->count, rule->limit - 1);
}

static void gcra_set(const struct limit_rule *rule, struct limit_state *s, int64_t now_us, u128 used)
{
	s->start_us = now_us + (int64_t)(used / rule->limit);
	s->count = (uint64_t)(used % rule->limit);
}

/* ---- all of them ---- */

const char *limit_reason_name(enum limit_reason reason)
{
	static const char *const names[] = {
#define X(id, name) [id] = name,
	        LIMIT_REASONS(X)
#undef X
	};

	return names[reason];
}

/* A block that begins more than its own length from now was written under another clock: it does not count. */
static int64_t block_left_us(const struct limit_rule *rule, const struct limit_state *s, int64_t now_us)
{
	if (s->blocked_us <= 0 || s->blocked_us - now_us > rule->block_us)
		return 0;
	return later(s->blocked_us + rule->block_us - now_us, 0);
}

static void see(const struct limit_rule *rule, struct limit_state *s, int64_t now_us, struct sight *v)
{
	u128 all;

	assert(rule->limit > 0 && limit_capacity(rule) > 0);
	if (s->algorithm != rule->algorithm)
		*s = (struct limit_state){.algorithm = rule->algorithm, .blocked_us = s->blocked_us};
	v->now_us = now_us;
	v->blocked_us = block_left_us(rule, s, now_us);
	if (rule->algorithm == LIMIT_GCRA)
		gcra_see(rule, s, v);
	else
		windows_see(rule, s, v);
	all = (u128)limit_capacity(rule) * v->span;
	v->room = v->used >= all ? 0 : (uint64_t)((all - v->used) / v->span);
}

static void take(const struct limit_rule *rule, struct limit_state *s, struct sight *v, uint64_t cost)
{
	v->used += (u128)cost * v->span;
	v->room -= cost;
	if (rule->algorithm == LIMIT_GCRA)
		gcra_set(rule, s, v->now_us, v->used);
	else
		s->count += cost;
}

static int64_t wait_us(const struct limit_rule *rule, const struct limit_state *s, const struct sight *v,
                       uint64_t cost)
{
	if (cost > limit_capacity(rule))
		return LIMIT_NEVER;
	if (rule->algorithm == LIMIT_GCRA)
		return divide_up(v->used + (u128)cost * v->span - (u128)rule->burst * v->span, rule->limit);
	return windows_wait_us(rule, s, v, cost);
}

static void answer(const struct limit_rule *rule, const struct limit_state *s, const struct sight *v,
                   struct limit_answer *out)
{
	out->limit = rule->limit;
	out->remaining = v->blocked_us > 0 ? 0 : v->room;
	out->near = limit_is_near(rule, out->remaining);
	if (rule->algorithm == LIMIT_GCRA)
		out->reset_us = divide_up(v->used, rule->limit);
	else
		out->reset_us = windows_reset_us(rule, s, v);
	out->reset_us = later(out->reset_us, v->blocked_us);
}

static void refuse(const struct limit_rule *rule, const struct limit_state *s, const struct sight *v,
                   uint64_t cost, struct limit_answer *out)
{
	out->allowed = false;
	out->retry_after_us = cost > v->room ? wait_us(rule, s, v, cost) : 0;
	out->reason = v->blocked_us > 0 ? LIMIT_BLOCKED : LIMIT_NO_REASON;
	if (out->retry_after_us == LIMIT_NEVER)
		out->reason = LIMIT_COST_ABOVE;
	else
		out->retry_after_us = later(out->retry_after_us, v->blocked_us);
}

void limit_take(const struct limit_rule *rule, struct limit_state *state, int64_t now_us, uint64_t cost,
                struct limit_answer *out)
{
	struct limit_state s = *state;
	struct sight       v;
	uint64_t           wanted = cost > 0 ? cost : 1;

	see(rule, &s, now_us, &v);
	if (wanted > v.room || v.blocked_us > 0) {
		refuse(rule, &s, &v, wanted, out);
	} else {
		out->allowed = true;
		out->retry_after_us = 0;
		out->reason = LIMIT_NO_REASON;
		if (cost > 0) {
			take(rule, &s, &v, cost);
			s.blocked_us = 0;
			*state = s;
		}
	}
	answer(rule, &s, &v, out);
}

bool limit_block(const struct limit_rule *rule, struct limit_state *state, int64_t now_us, uint64_t cost,
                 struct limit_answer *out)
{
	struct sight v;

	if (out->allowed || out->reason != LIMIT_NO_REASON || rule->block_us == 0 || cost == 0)
		return false;
	see(rule, state, now_us, &v);
	state->blocked_us = now_us;
	limit_take(rule, state, now_us, cost, out);
	return true;
}

void limit_give(const struct limit_rule *rule, struct limit_state *state, int64_t now_us, uint64_t cost,
                struct limit_answer *out)
{
	struct limit_state s = *state;
	struct sight       v;
	u128               given;

	see(rule, &s, now_us, &v);
	given = (u128)cost * v.span;
	if (rule->algorithm == LIMIT_GCRA)
		gcra_set(rule, &s, now_us, v.used > given ? v.used - given : 0);
	else
		windows_give(&s, cost);
	if (v.used > 0)
		*state = s;
	limit_take(rule, state, now_us, 0, out);
	out->allowed = true;
	out->retry_after_us = 0;
	out->reason = LIMIT_NO_REASON;
}

static int64_t drained_us(const struct limit_rule *rule, const struct limit_state *state)
{
	struct limit_window w;

	if (state->algorithm == LIMIT_GCRA)
		return state->start_us + 1;
	w = limit_window_at(rule->period, state->start_us);
	if (state->algorithm == LIMIT_SLIDING)
		w = limit_window_at(rule->period, w.end_us);
	return w.end_us;
}

int64_t limit_expiry(const struct limit_rule *rule, const struct limit_state *state)
{
	int64_t drained = drained_us(rule, state);

	return state->blocked_us > 0 ? later(drained, state->blocked_us + rule->block_us) : drained;
}
