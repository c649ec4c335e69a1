/* Limit window: the clock-aligned stretches of time that limits count in: whole seconds to weeks, or calendar
 * months, all in UTC.
 *
 * Windows of a fixed length are laid end to end from Monday, 1 January of the year 1, as Go's time.Truncate lays
 * them: so rows that such code wrote before go on in the same windows, and weeks begin on Monday. */
#ifndef SERVICE_LIMIT_WINDOW_H
#define SERVICE_LIMIT_WINDOW_H

#include "base/bytes.h"

enum {
	LIMIT_PERIOD_S_MAX = 366 * 86400, /* a year */
	LIMIT_TIME_TEXT = 20,             /* "2026-05-04T12:00:00Z" */
};

/* The year 10000: no time in a state is that late. */
#define LIMIT_TIME_MAX_US (INT64_C(253402300800) * 1000000)

struct limit_period {
	int64_t us; /* 0: calendar months */
};

struct limit_window {
	int64_t start_us, end_us; /* the end is the next one's start */
};

/* The window that holds the time. */
struct limit_window limit_window_at(struct limit_period period, int64_t time_us);

/* ISO 8601 in UTC, whole seconds: sorts as time does. Without a NUL. */
void limit_time_format(int64_t time_us, char text[LIMIT_TIME_TEXT]);

/* The same back; false if it is not exactly that form or no such time. */
bool limit_time_parse(struct bytes text, int64_t *time_us);

#endif
