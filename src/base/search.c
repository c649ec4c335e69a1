/* Search: does a text occur in another? Callers choose both, so the time must be linear for any pair: glibc's memmem
 * takes the product of both lengths for needles up to 256 bytes.
 *
 * This is Crochemore and Perrin's two-way algorithm. The needle is cut in two at a place where its local period is that
 * of the whole (`cut`). The right half is compared forwards; a mismatch there moves the needle past it. Only then is the
 * left half compared, backwards; a mismatch there moves the needle by its period. No table is needed. */
#include "base/bytes.h"

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
