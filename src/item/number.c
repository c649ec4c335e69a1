/* Number: arithmetic on up to 38 decimal digits, held in one 128-bit integer (10^38 < 2^127). Every result is
 * exact or refused: a counter never drifts and a key never changes its place. */
#include "item/number.h"

#include <assert.h>

#include "item/messages.h"

enum {
	SCIENTIFIC_MAX = 125, /* exponent of the first digit */
	SCIENTIFIC_MIN = -130,
	EXPONENT_INPUT_MAX = 100000, /* past any number that could still be in range */
};

typedef unsigned __int128 digits_t; /* the one typedef: the compiler's own spelling cannot follow `struct` */

static digits_t digits_of(const struct number *n)
{
	return ((digits_t)n->hi << 64) | n->lo;
}

static digits_t power_of_ten(unsigned exponent)
{
	static const uint64_t small[] = {1u,
	                                 10u,
	                                 100u,
	                                 1000u,
	                                 10000u,
	                                 100000u,
	                                 1000000u,
	                                 10000000u,
	                                 100000000u,
	                                 1000000000u,
	                                 10000000000u,
	                                 100000000000u,
	                                 1000000000000u,
	                                 10000000000000u,
	                                 100000000000000u,
	                                 1000000000000000u,
	                                 10000000000000000u,
	                                 100000000000000000u,
	                                 1000000000000000000u,
	                                 10000000000000000000u};

	assert(exponent <= NUMBER_DIGITS_MAX);
	if (exponent < 20)
		return small[exponent];
	return (digits_t)small[19] * small[exponent - 19];
}

/* 10 has 3.32 bits: the number of bits tells the number of digits, or one too many. */
static unsigned digit_count_64(uint64_t n)
{
	unsigned bits = n == 0 ? 0 : 64 - (unsigned)__builtin_clzll(n);
	unsigned guess = bits * 1233 >> 12;

	return guess + (n >= power_of_ten(guess) ? 1 : 0);
}

static unsigned digit_count(digits_t digits)
{
	unsigned count = 0;

	if (digits >= power_of_ten(19)) {
		digits /= power_of_ten(19);
		count = 19;
	}
	if (digits > UINT64_MAX) {
		digits /= 10;
		count++;
	}
	return count + digit_count_64((uint64_t)digits);
}

unsigned number_digit_count(const struct number *n)
{
	return n->hi == 0 ? digit_count_64(n->lo) : digit_count(digits_of(n));
}

/* Exponent of the first digit. */
static int scientific(const struct number *n)
{
	return n->exponent + (int)number_digit_count(n) - 1;
}

bool number_is_normal(const struct number *n)
{
	int first;

	if (n->hi == 0 && n->lo == 0)
		return n->exponent == 0 && !n->negative;
	if ((n->hi == 0 ? n->lo % 10 : (uint64_t)(digits_of(n) % 10)) == 0)
		return false;
	first = scientific(n);
	return number_digit_count(n) <= NUMBER_DIGITS_MAX && first <= SCIENTIFIC_MAX &&
	       first >= SCIENTIFIC_MIN;
}

/* Brings digits * 10^exponent into normal form and checks its range. */
static enum err_code normalise(digits_t digits, int exponent, bool negative, struct number *out,
                               struct err *err)
{
	*out = (struct number){0};
	if (digits == 0)
		return ERR_NONE;
	while (digits > UINT64_MAX && digits % 10 == 0) {
		digits /= 10;
		exponent++;
	}
	if (digits <= UINT64_MAX) {
		uint64_t low = (uint64_t)digits;

		for (; low % 10 == 0; low /= 10)
			exponent++;
		digits = low;
	}
	if (digit_count(digits) > NUMBER_DIGITS_MAX)
		return err_set(err, ERR_INVALID, MSG_NUMBER_PRECISION);
	if (exponent + (int)digit_count(digits) - 1 > SCIENTIFIC_MAX)
		return err_set(err, ERR_INVALID, MSG_NUMBER_OVERFLOW);
	if (exponent + (int)digit_count(digits) - 1 < SCIENTIFIC_MIN)
		return err_set(err, ERR_INVALID, MSG_NUMBER_UNDERFLOW);
	*out = (struct number){(uint64_t)(digits >> 64), (uint64_t)digits, (int16_t)exponent, negative};
	return ERR_NONE;
}

/* What the text says, digit by digit. Zeros are held back until a digit follows, so that trailing ones never
 * count as significant. */
struct scan {
	digits_t digits;
	unsigned count;         /* significant digits in `digits` */
	unsigned zeros_pending; /* after them */
	int      fraction;      /* digits after the point */
	bool     any;           /* a digit was seen */
	bool     too_precise;
};

static void scan_digit(struct scan *s, unsigned digit, bool after_point)
{
	s->any = true;
	if (after_point)
		s->fraction++;
	if (digit == 0) {
		if (s->count > 0)
			s->zeros_pending++;
		return;
	}
	if (s->count + s->zeros_pending + 1 > NUMBER_DIGITS_MAX) {
		s->too_precise = true;
		return;
	}
	s->digits = s->digits * power_of_ten(s->zeros_pending + 1) + digit;
	s->count += s->zeros_pending + 1;
	s->zeros_pending = 0;
}

/* [eE [+-] digits]; false if malformed. */
static bool scan_exponent(struct bytes text, size_t at, int *exponent)
{
	bool negative = false;
	int  value = 0;

	*exponent = 0;
	if (at == text.len)
		return true;
	if (text.data[at] != 'e' && text.data[at] != 'E')
		return false;
	at++;
	if (at < text.len && (text.data[at] == '+' || text.data[at] == '-'))
		negative = text.data[at++] == '-';
	if (at == text.len)
		return false;
	for (; at < text.len; at++) {
		unsigned digit = (unsigned)(text.data[at] - '0');

		if (digit > 9)
			return false;
		if (value < EXPONENT_INPUT_MAX)
			value = value * 10 + (int)digit;
	}
	*exponent = negative ? -value : value;
	return true;
}

enum err_code number_parse(struct bytes text, struct number *out, struct err *err)
{
	struct scan s = {0};
	bool        negative = false, point = false;
	size_t      at = 0;
	int         exponent;

	if (text.len == 0)
		return err_set(err, ERR_INVALID, MSG_NUMBER_EMPTY);
	if (text.len > NUMBER_INPUT_MAX)
		return err_set(err, ERR_INVALID, MSG_NUMBER_BAD, 40, text.data);
	if (text.data[0] == '+' || text.data[0] == '-')
		negative = text.data[at++] == '-';
	for (; at < text.len; at++) {
		unsigned digit = (unsigned)(text.data[at] - '0');

		if (text.data[at] == '.' && !point)
			point = true;
		else if (digit <= 9)
			scan_digit(&s, digit, point);
		else
			break;
	}
	if (!s.any || !scan_exponent(text, at, &exponent))
		return err_set(err, ERR_INVALID, MSG_NUMBER_BAD, BYTES_ARG(text));
	if (s.too_precise)
		return err_set(err, ERR_INVALID, MSG_NUMBER_PRECISION);
	return normalise(s.digits, exponent - s.fraction + (int)s.zeros_pending, negative, out, err);
}

struct number number_from_i64(int64_t value)
{
	bool          negative = value < 0;
	struct number n = {0, negative ? 0 - (uint64_t)value : (uint64_t)value, 0, negative};

	for (; n.lo != 0 && n.lo % 10 == 0; n.lo /= 10)
		n.exponent++;
	return n;
}

bool number_to_i64(const struct number *n, int64_t *out)
{
	digits_t digits = digits_of(n);

	if (n->exponent < 0 || n->exponent > 18)
		return false;
	if (n->exponent == 0 && digits <= INT64_MAX) { /* as most are */
		*out = n->negative ? -(int64_t)n->lo : (int64_t)n->lo;
		return true;
	}
	if (__builtin_mul_overflow(digits, power_of_ten((unsigned)n->exponent), &digits))
		return false;
	if (digits > (digits_t)INT64_MAX + (n->negative ? 1 : 0))
		return false;
	*out = n->negative ? (int64_t)(0 - (uint64_t)digits) : (int64_t)digits;
	return true;
}

/* Writes the digits without sign or point; returns how many. */
static size_t format_digits(digits_t digits, char out[NUMBER_DIGITS_MAX + 1])
{
	size_t count = digit_count(digits), at = count;

	while (digits > UINT64_MAX) {
		out[--at] = (char)('0' + (int)(digits % 10));
		digits /= 10;
	}
	for (uint64_t low = (uint64_t)digits; at > 0; low /= 10)
		out[--at] = (char)('0' + (int)(low % 10));
	return count;
}

size_t number_format(const struct number *n, char text[NUMBER_TEXT_MAX])
{
	char   digits[NUMBER_DIGITS_MAX + 1];
	size_t count = format_digits(digits_of(n), digits), len = 0;
	int    point = (int)count + n->exponent; /* digits before the point; may be negative */

	if (count == 0) {
		text[0] = '0';
		return 1;
	}
	if (n->negative)
		text[len++] = '-';
	if (point <= 0) {
		text[len++] = '0';
		text[len++] = '.';
		for (int i = point; i < 0; i++)
			text[len++] = '0';
		memcpy(text + len, digits, count);
		return len + count;
	}
	for (int i = 0; i < point || i < (int)count; i++) {
		if (i == point)
			text[len++] = '.';
		text[len++] = i < (int)count ? digits[i] : '0';
	}
	return len;
}

/* |a| against |b|, neither zero. */
static int compare_magnitude(const struct number *a, const struct number *b)
{
	int      shift = a->exponent - b->exponent;
	int      by_size = shift == 0 ? 0 : scientific(a) - scientific(b);
	digits_t left = digits_of(a), right = digits_of(b);

	if (by_size != 0)
		return by_size;
	if (shift > 0)
		left *= power_of_ten((unsigned)shift); /* as many digits as right: at most 38 */
	else
		right *= power_of_ten((unsigned)-shift);
	return (left > right) - (left < right);
}

static int sign_of(const struct number *n)
{
	if (n->hi == 0 && n->lo == 0)
		return 0;
	return n->negative ? -1 : 1;
}

int number_compare(const struct number *a, const struct number *b)
{
	int sign_a = sign_of(a), sign_b = sign_of(b);

	if (sign_a != sign_b)
		return sign_a - sign_b;
	if (sign_a == 0)
		return 0;
	return sign_a * compare_magnitude(a, b);
}

/* Brings a to the exponent of b, which is the lower one. If the digits do not fit 128 bits, the exact sum
 * would need more than 38 of them, since b's last digit is not zero. */
static bool align(const struct number *a, const struct number *b, digits_t *digits)
{
	int shift = a->exponent - b->exponent;

	*digits = digits_of(a);
	if (shift > NUMBER_DIGITS_MAX)
		return false;
	return !__builtin_mul_overflow(*digits, power_of_ten((unsigned)shift), digits);
}

enum err_code number_add(const struct number *a, const struct number *b, struct number *out, struct err *err)
{
	digits_t high, low;

	if (sign_of(a) == 0 || sign_of(b) == 0) {
		*out = sign_of(a) == 0 ? *b : *a;
		return ERR_NONE;
	}
	if (a->exponent < b->exponent) {
		const struct number *swap = a;

		a = b;
		b = swap;
	}
	low = digits_of(b);
	if (!align(a, b, &high))
		return err_set(err, ERR_INVALID, MSG_NUMBER_PRECISION);
	if (a->negative != b->negative) {
		if (high >= low)
			return normalise(high - low, b->exponent, a->negative, out, err);
		return normalise(low - high, b->exponent, b->negative, out, err);
	}
	if (__builtin_add_overflow(high, low, &high))
		return err_set(err, ERR_INVALID, MSG_NUMBER_PRECISION);
	return normalise(high, b->exponent, a->negative, out, err);
}

enum err_code number_subtract(const struct number *a, const struct number *b, struct number *out,
                              struct err *err)
{
	struct number minus_b = *b;

	if (sign_of(b) != 0)
		minus_b.negative = !b->negative;
	return number_add(a, &minus_b, out, err);
}
