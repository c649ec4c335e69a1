/* Wakes: sleepers that are woken once all that is meant for them is there. To wake one takes microseconds, and one that is woken for the first of many
 * things finds little, sleeps again, and is woken again. So a thread that hands over many things has a list, and runs it at the end.
 *
 * A list belongs to one thread, and lives on its stack. A sleeper must live until its list was run. */
#ifndef BASE_WAKES_H
#define BASE_WAKES_H

#include <stdbool.h>
#include <stddef.h>

enum { WAKES_MAX = 64 };

struct wake {
	void (*now)(void *sleeper);
	void *sleeper;
};

struct wakes {
	struct wake list[WAKES_MAX];
	unsigned    count;
};

static inline bool wakes_has(const struct wakes *w, const void *sleeper)
{
	for (unsigned i = 0; w != NULL && i < w->count; i++)
		if (w->list[i].sleeper == sleeper)
			return true;
	return false;
}

/* False if there is no list (NULL), or no room in it: then the caller wakes it. */
static inline bool wakes_add(struct wakes *w, void (*now)(void *sleeper), void *sleeper)
{
	if (w == NULL || w->count == WAKES_MAX)
		return false;
	w->list[w->count++] = (struct wake){now, sleeper};
	return true;
}

static inline void wakes_run(struct wakes *w)
{
	for (unsigned i = 0; i < w->count; i++)
		w->list[i].now(w->list[i].sleeper);
	w->count = 0;
}

#endif
