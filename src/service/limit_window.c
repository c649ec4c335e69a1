/* Limit window: floor divisions, and libc's calendar for months and text. */
#define _GNU_SOURCE
#include "service/limit_window.h"

#include <stdio.h>
#include <time.h>

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
	time_t    seconds = (time_t)(floor_to(time_us, SECOND_US) / SECOND_US);
	struct tm t;
	char      whole[64];

	gmtime_r(&seconds, &t);
	snprintf(whole, sizeof(whole), "%04d-%02d-%02dT%02d:%02d:%02dZ", t.tm_year + 1900, t.tm_mon + 1,
	         t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
	memcpy(text, whole, LIMIT_TIME_TEXT);
}

static int digits(struct bytes text, size_t at, size_t count)
{
	uint64_t value;

	return bytes_to_u64((struct bytes){text.data + at, count}, 9999, &value) ? (int)value : -1;
}

bool limit_time_parse(struct bytes text, int64_t *time_us)
{
	struct tm t = {0};
	char      again[LIMIT_TIME_TEXT];

	if (text.len != LIMIT_TIME_TEXT)
		return false;
	t.tm_year = digits(text, 0, 4) - 1900;
	t.tm_mon = digits(text, 5, 2) - 1;
	t.tm_mday = digits(text, 8, 2);
	t.tm_hour = digits(text, 11, 2);
	t.tm_min = digits(text, 14, 2);
	t.tm_sec = digits(text, 17, 2);
	*time_us = (int64_t)timegm(&t) * SECOND_US;
	if (*time_us < 0 || *time_us >= LIMIT_TIME_MAX_US)
		return false;
	limit_time_format(*time_us, again); /* what was no date comes back as another one */
	return bytes_equal(text, (struct bytes){again, sizeof(again)});
}
