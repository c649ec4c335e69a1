/* Times as callers write them: RFC 3339, with an offset; fractions of a second are allowed and dropped. */
#include <time.h>

#include "api/v1_read.h"

enum { YEAR_MIN = 1970 };

static const int64_t seconds_max = 253402300799; /* the end of the year 9999 */

/* A number of exactly `digits` digits, followed by `after` unless that is NUL. Moves past both. */
static bool part(struct bytes *rest, size_t digits, char after, int *out)
{
	size_t   len = digits + (after == '\0' ? 0 : 1);
	uint64_t number;

	if (rest->len < len || !bytes_to_u64((struct bytes){rest->data, digits}, 9999, &number) ||
	    (after != '\0' && rest->data[digits] != after))
		return false;
	*out = (int)number;
	*rest = (struct bytes){rest->data + len, rest->len - len};
	return true;
}

static bool fraction_skip(struct bytes *rest)
{
	size_t digits = 0;

	if (rest->len == 0 || rest->data[0] != '.')
		return true;
	while (digits + 1 < rest->len && rest->data[digits + 1] >= '0' && rest->data[digits + 1] <= '9')
		digits++;
	*rest = (struct bytes){rest->data + digits + 1, rest->len - digits - 1};
	return digits > 0;
}

/* "Z", "+02:00", "-05:30" */
static bool offset_read(struct bytes rest, int64_t *seconds)
{
	int hours, minutes, sign;

	*seconds = 0;
	if (bytes_is(rest, "Z") || bytes_is(rest, "z"))
		return true;
	if (rest.len == 0 || (rest.data[0] != '+' && rest.data[0] != '-'))
		return false;
	sign = rest.data[0] == '-' ? -1 : 1;
	rest = (struct bytes){rest.data + 1, rest.len - 1};
	if (!part(&rest, 2, ':', &hours) || !part(&rest, 2, '\0', &minutes) || rest.len > 0 || hours > 23 ||
	    minutes > 59)
		return false;
	*seconds = sign * (hours * 3600 + minutes * 60);
	return true;
}

static bool date_is(const struct tm *given)
{
	struct tm made = *given;

	if (given->tm_year < YEAR_MIN - 1900 || given->tm_hour > 23 || given->tm_min > 59 ||
	    given->tm_sec > 60)
		return false;
	made.tm_hour = made.tm_min = made.tm_sec = 0;
	timegm(&made); /* the 30th of February becomes another day */
	return made.tm_mday == given->tm_mday && made.tm_mon == given->tm_mon;
}

bool time_parse(struct bytes text, int64_t *seconds)
{
	struct tm when = {0};
	int64_t   offset;

	if (!part(&text, 4, '-', &when.tm_year) || !part(&text, 2, '-', &when.tm_mon) ||
	    !part(&text, 2, 'T', &when.tm_mday) || !part(&text, 2, ':', &when.tm_hour) ||
	    !part(&text, 2, ':', &when.tm_min) || !part(&text, 2, '\0', &when.tm_sec) ||
	    !fraction_skip(&text) || !offset_read(text, &offset))
		return false;
	when.tm_year -= 1900;
	when.tm_mon -= 1;
	if (!date_is(&when))
		return false;
	*seconds = (int64_t)timegm(&when) - offset;
	return *seconds >= 0 && *seconds <= seconds_max;
}

int64_t v1_read_time(struct fields *f, const char *name)
{
	const struct json *member = fields_get(f, name);
	int64_t            seconds = 0;

	if (member == NULL || member->type != JSON_STRING)
		return fields_i64(f, name, 0, seconds_max);
	if (!time_parse(member->text, &seconds))
		fields_fail(f, name, ERR_INVALID,
		            "must be whole seconds since 1970, or a UTC time like 2026-11-15T22:00:00Z");
	return seconds;
}
