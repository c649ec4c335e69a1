/* Timers: deadlines of connections and of the listener. Each kind of wait lasts equally long for everyone, so
 * one list per kind, with the newest at the end, is always in order: arming, cancelling and looking are a few
 * pointers each. Answers that are held open have deadlines of their own, chosen by handlers and peers: those are
 * alarms, in a heap. One thread only. */
#ifndef HTTP_TIMERS_H
#define HTTP_TIMERS_H

#include "base/list.h"

#include <stdint.h>

enum timer_kind {
	TIMER_NONE,
	TIMER_IDLE,
	TIMER_HEAD,
	TIMER_BODY,
	TIMER_SEND,
	TIMER_LINGER,
	TIMER_ACCEPT,
	TIMER_KINDS
};

struct timer {
	struct list link; /* in no list: not armed */
	int64_t     deadline_us;
	void (*expire)(struct timer *timer);
};

/* Does not move in memory while it is set. */
struct alarm {
	int64_t  deadline_us;
	unsigned place; /* in the heap, from 1; 0: not set */
	void (*ring)(struct alarm *alarm);
};

struct timers {
	struct list lists[TIMER_KINDS];
	int64_t     duration_us[TIMER_KINDS];
	struct alarm **
	        alarms; /* [1] is the earliest; each is no later than those at twice its place, and one after */
	unsigned alarm_count, alarms_cap;
};

void timers_init(struct timers *t);
void timers_release(struct timers *t);
void timer_init(struct timer *timer, void (*expire)(struct timer *timer));

/* Arms it anew from now; TIMER_NONE cancels. */
void timers_arm(struct timers *t, struct timer *timer, enum timer_kind kind, int64_t now_us);

/* Some timer whose time has come, cancelled; NULL if there is none. */
struct timer *timers_expired(struct timers *t, int64_t now_us);

/* Sets it, or moves it if it is set. */
void alarm_set(struct timers *t, struct alarm *alarm, int64_t deadline_us);
void alarm_cancel(struct timers *t, struct alarm *alarm);

/* Some alarm whose time has come, cancelled; NULL if there is none. */
struct alarm *alarms_expired(struct timers *t, int64_t now_us);

/* The earliest deadline of all, INT64_MAX if there is none. */
int64_t timers_next_us(const struct timers *t);

#endif
