/* Scalar: see scalar.h. Numbers end as in read.cc: an integer from 2^63 to 2^64 - 1 is a double. */
#include "json/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#define DIGITS "0123456789"

static bool is_sign(char c)
{
	return c == '-' || c == '+';
}

static bool is_null(const char *text)
{
	return *text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

/* At least one character, and none but these. */
static bool has_only(const char *text, const char *characters)
{
	return *text != '\0' && text[strspn(text, characters)] == '\0';
}

/* The base of an integer, or 0 if it is none; *digits: after its sign or prefix. */
static unsigned integer_base(const char *text, const char **digits)
{
	*digits = text + 2;
	if (strncmp(text, "0x", 2) == 0)
		return has_only(*digits, DIGITS "abcdefABCDEF") ? 16 : 0;
	if (strncmp(text, "0o", 2) == 0)
		return has_only(*digits, "01234567") ? 8 : 0;
	*digits = text + is_sign(*text);
	return has_only(*digits, DIGITS) ? 10 : 0;
}

static unsigned digit_value(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* False if it does not fit. */
static bool read_digits(const char *digits, unsigned base, uint64_t *out)
{
	*out = 0;
	for (; *digits != '\0'; digits++)
		if (__builtin_mul_overflow(*out, base, out) ||
		    __builtin_add_overflow(*out, digit_value(*digits), out))
			return false;
	return true;
}

static bool resolve_integer(const char *digits, unsigned base, bool negative, struct json *to)
{
	uint64_t value;

	if (!read_digits(digits, base, &value) || (negative && value > (uint64_t)INT64_MAX + 1))
		return false;
	if (!negative && value > INT64_MAX) {
		to->type = JSON_DOUBLE;
		to->real = (double)value;
		return true;
	}
	to->type = JSON_INT;
	to->integer = negative ? (int64_t)(0 - value) : (int64_t)value;
	return true;
}

/* [-+]? ( .digits | digits ( .digits* )? ) ( [eE] [-+]? digits )? */
static bool is_float(const char *text)
{
	size_t whole, part = 0;

	text += is_sign(*text);
	whole = strspn(text, DIGITS);
	text += whole;
	if (*text == '.') {
		part = strspn(++text, DIGITS);
		text += part;
	}
	if (whole + part == 0)
		return false;
	if (*text != 'e' && *text != 'E')
		return *text == '\0';
	text++;
	return has_only(text + is_sign(*text), DIGITS);
}

static bool is_beyond_numbers(const char *text)
{
	return strcasecmp(text + is_sign(*text), ".inf") == 0 || strcasecmp(text, ".nan") == 0;
}

bool scalar_resolve(const char *text, struct json *to)
{
	const char *digits;
	unsigned    base = integer_base(text, &digits);

	if (base != 0)
		return resolve_integer(digits, base, *text == '-', to);
	if (is_float(text)) {
		to->type = JSON_DOUBLE;
		to->real = strtod(text, NULL);
		return isfinite(to->real);
	}
	if (is_null(text)) {
		to->type = JSON_NULL;
		to->integer = 0;
	} else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
		to->type = JSON_BOOL;
		to->truth = *text == 't';
	} else {
		to->type = JSON_STRING;
		to->text = bytes_of(text);
	}
	return !is_beyond_numbers(text);
}
