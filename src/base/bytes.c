/* Bytes: the few operations that are more than a comparison. */
#include "base/bytes.h"

/* The length of the well-formed UTF-8 sequence at p, or 0. Bounds per lead byte are those of Unicode's table
 * 3-7. */
static size_t utf8_sequence(const uint8_t *p, size_t len)
{
	uint8_t lead = p[0], low = 0x80, high = 0xBF;
	size_t  need;

	if (lead < 0x80)
		return 1;
	if (lead >= 0xC2 && lead <= 0xDF)
		need = 2;
	else if (lead >= 0xE0 && lead <= 0xEF)
		need = 3;
	else if (lead >= 0xF0 && lead <= 0xF4)
		need = 4;
	else
		return 0;
	if (len < need)
		return 0;
	if (lead == 0xE0)
		low = 0xA0;
	if (lead == 0xED)
		high = 0x9F;
	if (lead == 0xF0)
		low = 0x90;
	if (lead == 0xF4)
		high = 0x8F;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < need; i++)
		if (p[i] < 0x80 || p[i] > 0xBF)
			return 0;
	return need;
}

bool bytes_hold_only(struct bytes text, const char *others)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (!ascii_is_alphanumeric(c) && (c == '\0' || strchr(others, c) == NULL))
			return false;
	}
	return true;
}

void bytes_lower(struct bytes text, char *out)
{
	for (size_t i = 0; i < text.len; i++)
		out[i] = ascii_lower(text.data[i]);
}

bool bytes_folds_to(struct bytes lower, const char *text)
{
	for (size_t i = 0; i < lower.len; i++)
		if (lower.data[i] != ascii_lower(text[i]))
			return false;
	return true;
}

bool bytes_is_utf8(struct bytes text)
{
	const uint8_t *p = (const uint8_t *)text.data;
	size_t         at = 0;

	while (at < text.len) {
		size_t step = utf8_sequence(p + at, text.len - at);

		if (step == 0)
			return false;
		at += step;
	}
	return true;
}

bool bytes_to_u64(struct bytes text, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (text.len == 0)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned)(text.data[i] - '0');

		if (digit > 9 || value > (UINT64_MAX - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	if (value > max)
		return false;
	*out = value;
	return true;
}

/* ---- what was meant ---- */

enum { TYPO_NAME_MAX = 64, TYPOS_MAX = 2 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The usual table of edit distances, row by row, of which three are kept: two letters that changed places are one typo. */
static size_t distance(struct bytes a, struct bytes b)
{
	size_t rows[3][TYPO_NAME_MAX + 1];

	for (size_t j = 0; j <= b.len; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			row[j] = least(above[j - 1] + (a.data[i - 1] != b.data[j - 1]),
			               least(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] &&
			    a.data[i - 2] == b.data[j - 1])
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[a.len % 3][b.len];
}

size_t bytes_typos(struct bytes written, struct bytes meant)
{
	size_t typos;

	if (written.len > TYPO_NAME_MAX || meant.len > TYPO_NAME_MAX)
		return SIZE_MAX;
	typos = distance(written, meant);
	return typos > TYPOS_MAX || typos * 3 > meant.len ? SIZE_MAX : typos;
}

/* ---- does a text occur in another? Callers choose both, so the time must be linear for any pair: glibc's memmem takes the
 * product of both lengths for needles up to 256 bytes.
 *
 * This is Crochemore and Perrin's two-way algorithm. The needle is cut in two at a place where its local period is that
 * of the whole (`cut`). The right half is compared forwards; a mismatch there moves the needle past it. Only then is the
 * left half compared, backwards; a mismatch there moves the needle by its period. No table is needed. ---- */

struct cut {
	size_t at;     /* length of the left half */
	size_t period; /* of the right half */
};

/* The greatest suffix of the needle, by the order of bytes or by its reverse. */
static struct cut greatest_suffix(struct bytes needle, bool reverse)
{
	const uint8_t *n = (const uint8_t *)needle.data;
	size_t         best = 0, next = 1, same = 0, period = 1;

	while (next + same < needle.len) {
		uint8_t a = n[next + same], b = n[best + same];

		if (a == b) {
			if (++same == period) {
				next += period;
				same = 0;
			}
		} else if (reverse ? a > b : a < b) {
			next += same + 1;
			same = 0;
			period = next - best;
		} else {
			best = next++;
			same = 0;
			period = 1;
		}
	}
	return (struct cut){best, period};
}

static struct cut cut_make(struct bytes needle)
{
	struct cut a = greatest_suffix(needle, false), b = greatest_suffix(needle, true);

	return a.at > b.at ? a : b;
}

/* Where the right half's first byte comes next; most texts are skipped here. `at` is where the needle stands. */
static bool skip(struct bytes hay, struct bytes needle, size_t cut, size_t *at)
{
	const char *from = hay.data + *at + cut;
	const char *found = memchr(from, needle.data[cut], hay.len - needle.len - *at + 1);

	if (found != NULL)
		*at += (size_t)(found - from);
	return found != NULL;
}

/* `known`: how many bytes of the needle match where it stands, after a move by its period. */
static bool search(struct bytes hay, struct bytes needle, struct cut cut, bool periodic)
{
	const char *n = needle.data;
	size_t      half = cut.at > needle.len - cut.at ? cut.at : needle.len - cut.at;
	size_t      step = periodic ? cut.period : half + 1, known = 0, at = 0;

	while (at <= hay.len - needle.len) {
		size_t i = cut.at > known ? cut.at : known;

		if (known == 0 && !skip(hay, needle, cut.at, &at))
			return false;
		while (i < needle.len && n[i] == hay.data[at + i])
			i++;
		if (i < needle.len) {
			at += i - cut.at + 1;
			known = 0;
			continue;
		}
		i = cut.at;
		while (i > known && n[i - 1] == hay.data[at + i - 1])
			i--;
		if (i <= known)
			return true;
		at += step;
		known = periodic ? needle.len - step : 0;
	}
	return false;
}

bool bytes_contains(struct bytes hay, struct bytes needle)
{
	struct cut cut;
	bool       periodic;

	if (needle.len == 0)
		return true;
	if (needle.len > hay.len)
		return false;
	cut = cut_make(needle);
	/* Is the period of the right half that of the whole needle? */
	periodic = cut.at + cut.period <= needle.len &&
	           memcmp(needle.data, needle.data + cut.period, cut.at) == 0;
	return search(hay, needle, cut, periodic);
}
