/* Closest: which option was meant by a name that is none, for "did you mean". The distance is the number of
 * letters to insert, remove or replace; one letter in three may be wrong, and never more than two. */
#include "cli/options.h"

enum { NAME_BYTES_MAX = 64, DISTANCE_MAX = 2 };

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Row by row of the usual table, of which one row is kept. */
static size_t distance(struct bytes a, struct bytes b)
{
	size_t row[NAME_BYTES_MAX + 1];

	for (size_t j = 0; j <= b.len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t replaced = diagonal + (a.data[i - 1] != b.data[j - 1]);

			diagonal = row[j];
			row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[b.len];
}

const struct option_spec *option_closest(const struct option_spec *specs, size_t count,
                                         enum option_place place, struct bytes key)
{
	const struct option_spec *best = NULL;
	size_t                    best_distance = DISTANCE_MAX + 1;

	for (size_t i = 0; i < count; i++) {
		struct bytes name = bytes_of(option_key(&specs[i]));
		size_t       d;

		if (specs[i].help == NULL || option_place(&specs[i]) > place || key.len > NAME_BYTES_MAX ||
		    name.len > NAME_BYTES_MAX)
			continue;
		d = distance(key, name);
		if (d >= best_distance || d * 3 > name.len)
			continue;
		best = &specs[i];
		best_distance = d;
	}
	return best;
}
