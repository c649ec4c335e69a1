/* Number: DynamoDB's number, exact: a sign, up to 38 decimal digits and an exponent.
 *   value = (-1)^negative * digits * 10^exponent
 * Normal form, which every function returns and expects: digits has no trailing decimal zero; zero is
 * {0, 0, false}. So equal numbers are equal structs. Magnitudes run from 1E-130 to 9.9…E+125. */
#ifndef ITEM_NUMBER_H
#define ITEM_NUMBER_H

#include "base/buf.h"
#include "base/err.h"

enum {
	NUMBER_DIGITS_MAX = 38,
	NUMBER_TEXT_MAX = 176,  /* longest canonical text: "-0." and 130 zeros and 38 digits, and some */
	NUMBER_INPUT_MAX = 512, /* longest text accepted */
};

struct number {
	uint64_t hi, lo; /* digits as one 128-bit integer, below 10^38 */
	int16_t  exponent;
	bool     negative;
};

/* Reads DynamoDB's grammar: [+-] digits [. digits] [eE [+-] digits]. ERR_INVALID with DynamoDB's text if it
 * is not a number, has more than 38 significant digits, or is out of range. */
enum err_code number_parse(struct bytes text, struct number *out, struct err *err);

/* Is it one that those here could have returned? For what comes from a disk. */
bool number_is_normal(const struct number *n);

struct number number_from_i64(int64_t value);

/* Is it a whole number that fits? */
bool number_to_i64(const struct number *n, int64_t *out);

/* Canonical text, as DynamoDB returns it: plain decimal, no exponent, no superfluous zeros. Returns the
 * length. */
size_t number_format(const struct number *n, char text[NUMBER_TEXT_MAX]);

static inline bool number_equal(const struct number *a, const struct number *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->exponent == b->exponent && a->negative == b->negative;
}

int number_compare(const struct number *a, const struct number *b);

/* ERR_INVALID if the exact result needs more than 38 digits or is out of range. */
enum err_code number_add(const struct number *a, const struct number *b, struct number *out, struct err *err);
enum err_code number_subtract(const struct number *a, const struct number *b, struct number *out,
                              struct err *err);

/* How many significant digits; 0 for zero. */
unsigned number_digit_count(const struct number *n);

#endif
