/* Timers: lists in order of deadline, and a binary heap, as timers.h says. */
#include "http/timers.h"

#include <assert.h>
#include <stdlib.h>

#include "base/arena.h"

enum { ALARMS_CAP_MIN = 64 }; /* connections_max bounds how many there can be */

void timers_init(struct timers *t)
{
	for (int kind = 0; kind < TIMER_KINDS; kind++) {
		list_init(&t->lists[kind]);
		t->duration_us[kind] = 0;
	}
	t->alarms = NULL;
	t->alarm_count = t->alarms_cap = 0;
}

void timers_release(struct timers *t)
{
	assert(t->alarm_count == 0);
	free(t->alarms);
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
	int64_t next = t->alarm_count > 0 ? t->alarms[1]->deadline_us : INT64_MAX;

	for (int kind = 0; kind < TIMER_KINDS; kind++) {
		const struct timer *timer = first(t, kind);

		if (timer != NULL && timer->deadline_us < next)
			next = timer->deadline_us;
	}
	return next;
}

static void alarm_place(struct timers *t, struct alarm *alarm, unsigned place)
{
	t->alarms[place] = alarm;
	alarm->place = place;
}

/* Puts the alarm where the empty place would have to be: up while it is earlier than its parent, else down. */
static void alarm_sift(struct timers *t, struct alarm *alarm, unsigned place)
{
	while (place > 1 && alarm->deadline_us < t->alarms[place / 2]->deadline_us) {
		alarm_place(t, t->alarms[place / 2], place);
		place /= 2;
	}
	for (;;) {
		unsigned child = place * 2;

		if (child < t->alarm_count &&
		    t->alarms[child + 1]->deadline_us < t->alarms[child]->deadline_us)
			child++;
		if (child > t->alarm_count || alarm->deadline_us <= t->alarms[child]->deadline_us)
			break;
		alarm_place(t, t->alarms[child], place);
		place = child;
	}
	alarm_place(t, alarm, place);
}

void alarm_set(struct timers *t, struct alarm *alarm, int64_t deadline_us)
{
	alarm->deadline_us = deadline_us;
	if (alarm->place == 0) {
		if (++t->alarm_count >= t->alarms_cap) {
			t->alarms_cap = t->alarms_cap == 0 ? ALARMS_CAP_MIN : t->alarms_cap * 2;
			t->alarms = mem_realloc(t->alarms, t->alarms_cap * sizeof(struct alarm *));
		}
		alarm->place = t->alarm_count;
		t->alarms[alarm->place] = alarm;
	}
	alarm_sift(t, alarm, alarm->place);
}

void alarm_cancel(struct timers *t, struct alarm *alarm)
{
	unsigned      place = alarm->place;
	struct alarm *last;

	if (place == 0)
		return;
	last = t->alarms[t->alarm_count--];
	alarm->place = 0;
	if (last != alarm)
		alarm_sift(t, last, place);
}

struct alarm *alarms_expired(struct timers *t, int64_t now_us)
{
	struct alarm *first_alarm = t->alarm_count > 0 ? t->alarms[1] : NULL;

	if (first_alarm == NULL || first_alarm->deadline_us > now_us)
		return NULL;
	alarm_cancel(t, first_alarm);
	return first_alarm;
}
