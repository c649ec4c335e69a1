/* Trouble: work that is repeated and fails again and again. That it fails is said once, when it begins; that it works again, once;
 * and each failure in a row doubles the wait before the next try. One for each thing that can fail by itself: if two share one, the one
 * that works ends what the other reported, and it is reported again with every round.
 *
 * It belongs to one thread. */
#ifndef BASE_TROUBLE_H
#define BASE_TROUBLE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	TROUBLE_WAIT_MS = 100, /* doubled with each failure in a row, up to … */
	TROUBLE_WAIT_MS_MAX = 30000,
};

struct trouble {
	unsigned failures; /* in a row */
	int64_t  due_us;   /* when it may be tried again, by the caller's clock */
};

/* It failed. True: it worked before, so it is to be said. */
static inline bool trouble_begins(struct trouble *t, int64_t now_us)
{
	int64_t ms = (int64_t)TROUBLE_WAIT_MS << (t->failures < 16 ? t->failures : 16);

	t->due_us = now_us + 1000 * (ms < TROUBLE_WAIT_MS_MAX ? ms : TROUBLE_WAIT_MS_MAX);
	return t->failures++ == 0;
}

/* It worked. True: it failed before. */
static inline bool trouble_ends(struct trouble *t)
{
	bool failed = t->failures > 0;

	*t = (struct trouble){0};
	return failed;
}

/* Is it too early to try again? */
static inline bool trouble_waits(const struct trouble *t, int64_t now_us)
{
	return t->failures > 0 && now_us < t->due_us;
}

#endif
