/* Policy operands: the values of conditions, from JSON and from text. Quotation marks around numbers and
 * truths are optional, as in IAM. */
#include "access/policy_parser.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum {
	MICROS_DIGITS = 6,
	YEAR_MIN = 1970,
	YEAR_MAX = 9999,
	OFFSET_HOURS_MAX = 23,
	SECONDS_A_DAY = 24 * 60 * 60,
};

#define MICROS      1000000
#define SECONDS_MAX 253402300799 /* the last of the year 9999 */

/* ---- addresses ---- */

bool access_address_parse(struct bytes text, struct access_address *out)
{
	char           string[INET6_ADDRSTRLEN + 1];
	struct in_addr v4;

	if (text.len >= sizeof(string) || memchr(text.data, '\0', text.len) != NULL)
		return false;
	memcpy(string, text.data, text.len);
	string[text.len] = '\0';
	if (inet_pton(AF_INET, string, &v4) != 1)
		return inet_pton(AF_INET6, string, out->bytes) == 1;
	*out = (struct access_address){.bytes = {[10] = 0xFF, [11] = 0xFF}};
	memcpy(out->bytes + 12, &v4, sizeof(v4));
	return true;
}

static void address_mask(struct access_address *address, unsigned bits)
{
	for (unsigned i = 0; i < sizeof(address->bytes); i++) {
		unsigned keep = bits <= i * 8 ? 0 : bits - i * 8;

		if (keep < 8)
			address->bytes[i] &= (uint8_t)(0xFF00u >> keep);
	}
}

bool cidr_parse(struct bytes text, struct cidr *out)
{
	const char  *slash = memchr(text.data, '/', text.len);
	struct bytes address = {text.data, slash == NULL ? text.len : (size_t)(slash - text.data)};
	unsigned     start = memchr(text.data, ':', text.len) == NULL ? CIDR_BITS_V4 : 0;
	uint64_t     bits = CIDR_BITS - start;

	if (!access_address_parse(address, &out->address))
		return false;
	if (slash != NULL &&
	    !bytes_to_u64((struct bytes){slash + 1, text.len - address.len - 1}, CIDR_BITS - start, &bits))
		return false;
	out->bits = start + (unsigned)bits;
	address_mask(&out->address, out->bits);
	return true;
}

/* ---- truths and numbers ---- */

bool truth_parse(struct bytes text, bool *out)
{
	char lower[5];

	if (text.len > sizeof(lower))
		return false;
	bytes_lower(text, lower);
	*out = bytes_is((struct bytes){lower, text.len}, "true");
	return *out || bytes_is((struct bytes){lower, text.len}, "false");
}

/* The digits after the point, as millionths. */
static bool fraction_parse(struct bytes digits, int64_t *micros)
{
	uint64_t value;

	if (digits.len > MICROS_DIGITS || !bytes_to_u64(digits, MICROS - 1, &value))
		return false;
	for (size_t i = digits.len; i < MICROS_DIGITS; i++)
		value *= 10;
	*micros = (int64_t)value;
	return true;
}

/* [-]digits[.digits], at most SECONDS_MAX either way and six digits after the point. */
bool decimal_parse(struct bytes text, int64_t *micros)
{
	bool         minus = text.len > 0 && text.data[0] == '-';
	struct bytes digits = {text.data + minus, text.len - minus};
	const char  *point = memchr(digits.data, '.', digits.len);
	struct bytes whole = {digits.data, point == NULL ? digits.len : (size_t)(point - digits.data)};
	int64_t      fraction = 0;
	uint64_t     value;

	if (!bytes_to_u64(whole, SECONDS_MAX, &value))
		return false;
	if (point != NULL &&
	    !fraction_parse((struct bytes){point + 1, digits.len - whole.len - 1}, &fraction))
		return false;
	*micros = (int64_t)value * MICROS + fraction;
	if (minus)
		*micros = -*micros;
	return true;
}

/* ---- dates ---- */

/* Takes `len` digits, at most `max`, off the front. */
static bool take_digits(struct bytes *text, size_t len, unsigned max, unsigned *out)
{
	uint64_t value;

	if (text->len < len || !bytes_to_u64((struct bytes){text->data, len}, max, &value))
		return false;
	*text = (struct bytes){text->data + len, text->len - len};
	*out = (unsigned)value;
	return true;
}

static bool take_byte(struct bytes *text, char byte)
{
	if (text->len == 0 || text->data[0] != byte)
		return false;
	*text = (struct bytes){text->data + 1, text->len - 1};
	return true;
}

static unsigned month_days(unsigned year, unsigned month)
{
	static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool                 leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

	return days[month - 1] + (month == 2 && leap ? 1u : 0u);
}

/* Days from 1970 to a date. */
static int64_t day_number(unsigned year, unsigned month, unsigned day)
{
	unsigned before = year - 1;
	int64_t  days = before * 365 + before / 4 - before / 100 + before / 400;

	for (unsigned m = 1; m < month; m++)
		days += month_days(year, m);
	return days + day - 1 - 719162; /* of 1970-01-01, counted the same way */
}

static bool take_day(struct bytes *text, int64_t *seconds)
{
	unsigned year, month, day;

	if (!take_digits(text, 4, YEAR_MAX, &year) || year < YEAR_MIN || !take_byte(text, '-') ||
	    !take_digits(text, 2, 12, &month) || month == 0 || !take_byte(text, '-') ||
	    !take_digits(text, 2, month_days(year, month), &day) || day == 0)
		return false;
	*seconds = day_number(year, month, day) * SECONDS_A_DAY;
	return true;
}

static bool take_fraction(struct bytes *text, int64_t *micros)
{
	size_t len = 0;
	bool   ok;

	while (len < text->len && text->data[len] >= '0' && text->data[len] <= '9')
		len++;
	ok = fraction_parse((struct bytes){text->data, len}, micros);
	*text = (struct bytes){text->data + len, text->len - len};
	return ok;
}

/* hh:mm[:ss[.f]] */
static bool take_time(struct bytes *text, int64_t *seconds, int64_t *micros)
{
	unsigned hour, minute, second = 0;

	if (!take_digits(text, 2, 23, &hour) || !take_byte(text, ':') || !take_digits(text, 2, 59, &minute))
		return false;
	if (take_byte(text, ':')) {
		if (!take_digits(text, 2, 59, &second))
			return false;
		if (take_byte(text, '.') && !take_fraction(text, micros))
			return false;
	}
	*seconds += hour * 3600 + minute * 60 + second;
	return true;
}

/* Z, +hh:mm or -hh:mm */
static bool take_zone(struct bytes *text, int64_t *seconds)
{
	unsigned hour, minute;
	int64_t  offset;
	bool     west;

	if (take_byte(text, 'Z'))
		return true;
	west = take_byte(text, '-');
	if (!west && !take_byte(text, '+'))
		return false;
	if (!take_digits(text, 2, OFFSET_HOURS_MAX, &hour) || !take_byte(text, ':') ||
	    !take_digits(text, 2, 59, &minute))
		return false;
	offset = hour * 3600 + minute * 60;
	*seconds += west ? offset : -offset;
	return true;
}

/* Four digits alone are refused: they may be meant as a year. */
bool date_parse(struct bytes text, int64_t *micros)
{
	uint64_t epoch;
	int64_t  seconds, fraction = 0;

	if (text.len != 4 && bytes_to_u64(text, SECONDS_MAX, &epoch)) {
		*micros = (int64_t)epoch * MICROS;
		return true;
	}
	if (!take_day(&text, &seconds))
		return false;
	if (text.len > 0 &&
	    !(take_byte(&text, 'T') && take_time(&text, &seconds, &fraction) && take_zone(&text, &seconds)))
		return false;
	*micros = seconds * MICROS + fraction;
	return text.len == 0;
}

/* ---- from JSON ---- */

static bool is_ascii(struct bytes text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((uint8_t)text.data[i] >= 0x80)
			return false;
	return true;
}

static enum err_code parse_text_operand(struct parser *p, struct bytes text, enum comparison comparison,
                                        struct pattern *out)
{
	char *lower;

	*out = (struct pattern){PATTERN_LITERAL, text, text.len};
	if (comparison == COMPARE_LIKE) {
		*out = pattern_of(text);
		return parser_count_runs(p, text);
	}
	if (comparison != COMPARE_FOLDED)
		return ERR_NONE;
	if (!is_ascii(text))
		return parser_refuse(p, "%s must be ASCII, because this operator ignores case",
		                     quote(text).text);
	lower = arena_alloc(p->arena, text.len);
	bytes_lower(text, lower);
	out->text.data = lower;
	return ERR_NONE;
}

/* A value without quotation marks becomes the text it would have with them. */
static enum err_code operand_text(struct parser *p, const struct json *json, enum relation_family family,
                                  struct bytes *out)
{
	bool truths = family == FAMILY_TRUTH || family == FAMILY_NULL;
	bool numbers = family == FAMILY_NUMBER || family == FAMILY_DATE;

	if (truths && json->type == JSON_BOOL)
		*out = json->truth ? BYTES("true") : BYTES("false");
	else if (numbers && json->type == JSON_INT)
		*out = arena_printf(p->arena, "%lld", (long long)json->integer);
	else
		return parser_text(p, json, POLICY_VALUE_BYTES_MAX, out);
	return ERR_NONE;
}

enum err_code parse_operand(struct parser *p, const struct json *json, const struct relation *relation,
                            union operand *out)
{
	struct bytes text;
	const char  *expected = NULL;

	if (operand_text(p, json, relation->family, &text) != ERR_NONE)
		return p->err->code;
	switch (relation->family) {
	case FAMILY_TEXT:
		return parse_text_operand(p, text, relation->comparison, &out->text);
	case FAMILY_IP:
		expected = cidr_parse(text, &out->range) ? NULL : "an address or a range such as 10.0.0.0/8";
		break;
	case FAMILY_TRUTH:
	case FAMILY_NULL:
		expected = truth_parse(text, &out->truth) ? NULL : "true or false";
		break;
	case FAMILY_NUMBER:
		expected = decimal_parse(text, &out->micros) ? NULL : "a number";
		break;
	case FAMILY_DATE:
		expected = date_parse(text, &out->micros) ? NULL : "a date such as 2024-05-01T10:00:00Z";
		break;
	}
	return expected == NULL ? ERR_NONE : parser_refuse(p, "%s is not %s", quote(text).text, expected);
}
