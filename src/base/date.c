/* Date: see date.h. Every byte is checked, which the C library does not do. */
#include "base/date.h"

enum { DAY_SECONDS = 24 * 60 * 60, YEAR_MIN = 1970, FRACTION_DIGITS = 6, LEAP_SECOND = 60 };

static const int64_t seconds_max = 253402300799; /* the end of the year 9999 */

struct date {
	int year, month, day, hour, minute, second;
};

/* ---- the calendar ---- */

static bool year_is_leap(int year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int month_days(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return month == 2 && year_is_leap(year) ? 29 : days[month - 1];
}

static bool date_exists(const struct date *d)
{
	return d->year >= YEAR_MIN && d->month >= 1 && d->month <= 12 && d->day >= 1 &&
	       d->day <= month_days(d->year, d->month) && d->hour < 24 && d->minute < 60 && d->second < 60;
}

/* Days before 1 January of that year, counted from the year 1. */
static int64_t days_before_year(int year)
{
	int64_t past = year - 1;

	return past * 365 + past / 4 - past / 100 + past / 400;
}

static int64_t date_seconds(const struct date *d)
{
	int64_t days = days_before_year(d->year) - days_before_year(YEAR_MIN) + d->day - 1;

	for (int month = 1; month < d->month; month++)
		days += month_days(d->year, month);
	return days * DAY_SECONDS + d->hour * 3600 + d->minute * 60 + d->second;
}

/* ---- 20150830T123600Z ---- */

/* `count` digits at `at`. */
static bool digits_read(struct bytes text, size_t at, size_t count, int *out)
{
	*out = 0;
	for (size_t i = at; i < at + count; i++) {
		if (i >= text.len || text.data[i] < '0' || text.data[i] > '9')
			return false;
		*out = *out * 10 + (text.data[i] - '0');
	}
	return true;
}

bool date_read_basic(struct bytes text, int64_t *seconds)
{
	struct date d;

	if (text.len != DATE_BASIC_CHARS || text.data[8] != 'T' || text.data[15] != 'Z')
		return false;
	if (!digits_read(text, 0, 4, &d.year) || !digits_read(text, 4, 2, &d.month) ||
	    !digits_read(text, 6, 2, &d.day) || !digits_read(text, 9, 2, &d.hour) ||
	    !digits_read(text, 11, 2, &d.minute) || !digits_read(text, 13, 2, &d.second))
		return false;
	if (!date_exists(&d))
		return false;
	*seconds = date_seconds(&d);
	return true;
}

static char *pair_write(char *at, int value)
{
	at[0] = (char)('0' + value / 10);
	at[1] = (char)('0' + value % 10);
	return at + 2;
}

static char *year_write(char *at, int year)
{
	return pair_write(pair_write(at, year / 100), year % 100);
}

/* Years begin with March here, so that the odd day comes last, and are counted in the calendar's cycles of 400. From March on the lengths of five
 * months add up to 153 days, again and again. */
static struct date date_of(int64_t seconds)
{
	enum { CYCLE_DAYS = 146097, CENTURY_DAYS = 36524, FOUR_YEARS_DAYS = 1461, MARCH_1_0000 = -719468 };

	int rest = (int)(seconds % DAY_SECONDS);
	int days = (int)(seconds / DAY_SECONDS) - MARCH_1_0000;
	int day = days % CYCLE_DAYS;
	int year = (day - day / (FOUR_YEARS_DAYS - 1) + day / CENTURY_DAYS - day / (CYCLE_DAYS - 1)) / 365;
	int month; /* from March */

	day -= 365 * year + year / 4 - year / 100;
	month = (5 * day + 2) / 153;
	return (struct date){.year = days / CYCLE_DAYS * 400 + year + month / 10,
	                     .month = month < 10 ? month + 3 : month - 9,
	                     .day = day - (153 * month + 2) / 5 + 1,
	                     .hour = rest / 3600,
	                     .minute = rest / 60 % 60,
	                     .second = rest % 60};
}

void date_write_basic(int64_t seconds, char text[DATE_BASIC_CHARS])
{
	struct date d = date_of(seconds);
	char       *at = text;

	at = year_write(at, d.year);
	at = pair_write(at, d.month);
	at = pair_write(at, d.day);
	*at++ = 'T';
	at = pair_write(at, d.hour);
	at = pair_write(at, d.minute);
	at = pair_write(at, d.second);
	*at = 'Z';
}

void date_write_iso(int64_t seconds, char text[DATE_ISO_CHARS])
{
	struct date d = date_of(seconds);
	const int   parts[] = {d.month, d.day, d.hour, d.minute, d.second};
	char       *at = year_write(text, d.year);

	for (int i = 0; i < 5; i++) {
		*at++ = "--T::"[i];
		at = pair_write(at, parts[i]);
	}
	*at = 'Z';
}

/* ---- Sun, 30 Aug 2015 12:36:00 GMT ---- */

/* Where each part of "Sun, 30 Aug 2015 12:36:00 GMT" begins. */
enum { HTTP_DAY = 5, HTTP_MONTH = 8, HTTP_YEAR = 12, HTTP_HOUR = 17, HTTP_ZONE = 26 };

static int month_of(const char *name)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (int i = 0; i < 12; i++)
		if (memcmp(names + 3 * i, name, 3) == 0)
			return i + 1;
	return 0;
}

static bool http_marks_are_right(const char *t)
{
	return t[3] == ',' && t[4] == ' ' && t[7] == ' ' && t[11] == ' ' && t[16] == ' ' && t[19] == ':' &&
	       t[22] == ':' && t[25] == ' ';
}

static bool zone_is_utc(struct bytes zone)
{
	return bytes_is(zone, "GMT") || bytes_is(zone, "UTC") || bytes_is(zone, "-0000") ||
	       bytes_is(zone, "+0000");
}

bool date_read_http(struct bytes text, int64_t *seconds)
{
	struct date d;

	if (text.len <= HTTP_ZONE || !http_marks_are_right(text.data))
		return false;
	if (!digits_read(text, HTTP_DAY, 2, &d.day) || !digits_read(text, HTTP_YEAR, 4, &d.year) ||
	    !digits_read(text, HTTP_HOUR, 2, &d.hour) || !digits_read(text, HTTP_HOUR + 3, 2, &d.minute) ||
	    !digits_read(text, HTTP_HOUR + 6, 2, &d.second))
		return false;
	d.month = month_of(text.data + HTTP_MONTH);
	if (!date_exists(&d) || !zone_is_utc((struct bytes){text.data + HTTP_ZONE, text.len - HTTP_ZONE}))
		return false;
	*seconds = date_seconds(&d);
	return true;
}

/* ---- 2015-08-30T12:36:00.5+02:00 ---- */

static bool take_digits(struct bytes *text, size_t count, int *out)
{
	if (!digits_read(*text, 0, count, out))
		return false;
	*text = (struct bytes){text->data + count, text->len - count};
	return true;
}

static bool take_byte(struct bytes *text, char byte)
{
	if (text->len == 0 || text->data[0] != byte)
		return false;
	*text = (struct bytes){text->data + 1, text->len - 1};
	return true;
}

bool date_fraction(struct bytes digits, int64_t *micros)
{
	uint64_t value;

	if (digits.len > FRACTION_DIGITS || !bytes_to_u64(digits, 999999, &value))
		return false;
	for (size_t i = digits.len; i < FRACTION_DIGITS; i++)
		value *= 10;
	*micros = (int64_t)value;
	return true;
}

static size_t digits_len(struct bytes text)
{
	size_t len = 0;

	while (len < text.len && text.data[len] >= '0' && text.data[len] <= '9')
		len++;
	return len;
}

static bool take_day(struct bytes *text, struct date *d)
{
	return take_digits(text, 4, &d->year) && take_byte(text, '-') && take_digits(text, 2, &d->month) &&
	       take_byte(text, '-') && take_digits(text, 2, &d->day);
}

/* hh:mm[:ss[.f]] */
static bool take_time(struct bytes *text, struct date *d, int64_t *micros)
{
	size_t len;

	if (!take_digits(text, 2, &d->hour) || !take_byte(text, ':') || !take_digits(text, 2, &d->minute))
		return false;
	if (!take_byte(text, ':'))
		return true;
	if (!take_digits(text, 2, &d->second))
		return false;
	if (!take_byte(text, '.'))
		return true;
	len = digits_len(*text);
	if (!date_fraction((struct bytes){text->data, len}, micros))
		return false;
	*text = (struct bytes){text->data + len, text->len - len};
	return true;
}

/* Z, +hh:mm or -hh:mm: how far ahead of UTC. */
static bool take_zone(struct bytes *text, int64_t *ahead_s)
{
	bool west;
	int  hour, minute;

	if (take_byte(text, 'Z'))
		return true;
	west = take_byte(text, '-');
	if (!west && !take_byte(text, '+'))
		return false;
	if (!take_digits(text, 2, &hour) || hour > 23 || !take_byte(text, ':') ||
	    !take_digits(text, 2, &minute) || minute > 59)
		return false;
	*ahead_s = (west ? -1 : 1) * (hour * 3600 + minute * 60);
	return true;
}

bool date_read_iso(struct bytes text, int64_t *micros)
{
	struct date d = {0};
	int64_t     fraction = 0, ahead_s = 0;

	if (!take_day(&text, &d))
		return false;
	if (text.len > 0 &&
	    !(take_byte(&text, 'T') && take_time(&text, &d, &fraction) && take_zone(&text, &ahead_s)))
		return false;
	if (text.len > 0 || !date_exists(&d))
		return false;
	*micros = (date_seconds(&d) - ahead_s) * 1000000 + fraction;
	return true;
}

/* hh:mm:ss[.f], with any number of digits after the point */
static bool take_whole_time(struct bytes *text, struct date *d, int64_t *micros)
{
	size_t len;

	if (!take_digits(text, 2, &d->hour) || !take_byte(text, ':') || !take_digits(text, 2, &d->minute) ||
	    !take_byte(text, ':') || !take_digits(text, 2, &d->second))
		return false;
	if (!take_byte(text, '.'))
		return true;
	len = digits_len(*text);
	if (!date_fraction((struct bytes){text->data, len < FRACTION_DIGITS ? len : FRACTION_DIGITS}, micros))
		return false;
	*text = (struct bytes){text->data + len, text->len - len};
	return true;
}

bool date_read_rfc3339(struct bytes text, int64_t *micros)
{
	struct date d;
	int64_t     fraction = 0, ahead_s = 0, seconds;
	bool        leap;

	if (!take_day(&text, &d) || !take_byte(&text, 'T') || !take_whole_time(&text, &d, &fraction) ||
	    !(take_byte(&text, 'z') || take_zone(&text, &ahead_s)) || text.len > 0)
		return false;
	leap = d.second == LEAP_SECOND;
	d.second -= leap;
	if (!date_exists(&d))
		return false;
	seconds = date_seconds(&d) + leap - ahead_s;
	*micros = seconds * 1000000 + fraction;
	return seconds >= 0 && seconds <= seconds_max;
}
