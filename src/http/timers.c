/* Timers: lists in order of deadline, as timers.h says. */
#include "http/timers.h"

void timers_init(struct timers *t)
{
	for (int kind = 0; kind < TIMER_KINDS; kind++) {
		list_init(&t->lists[kind]);
		t->duration_us[kind] = 0;
	}
}

void timer_init(struct timer *timer, void (*expire)(struct timer *timer))
{
	list_init(&timer->link);
	timer->deadline_us = 0;
	timer->expire = expire;
}

void timers_arm(struct timers *t, struct timer *timer, enum timer_kind kind, int64_t now_us)
{
	list_remove(&timer->link);
	if (kind == TIMER_NONE)
		return;
	timer->deadline_us = now_us + t->duration_us[kind];
	list_push_back(&t->lists[kind], &timer->link);
}

static struct timer *first(const struct timers *t, int kind)
{
	return list_empty(&t->lists[kind]) ? NULL : LIST_ENTRY(t->lists[kind].next, struct timer, link);
}

struct timer *timers_expired(struct timers *t, int64_t now_us)
{
	for (int kind = 0; kind < TIMER_KINDS; kind++) {
		struct timer *timer = first(t, kind);

		if (timer != NULL && timer->deadline_us <= now_us) {
			list_remove(&timer->link);
			return timer;
		}
	}
	return NULL;
}

int64_t timers_next_us(const struct timers *t)
{
	int64_t next = INT64_MAX;

	for (int kind = 0; kind < TIMER_KINDS; kind++) {
		const struct timer *timer = first(t, kind);

		if (timer != NULL && timer->deadline_us < next)
			next = timer->deadline_us;
	}
	return next;
}
