/* Waiting: rows that are committed and not in the store yet, for a walk over a range of keys. There may be tens of thousands of them, and a walk that ends after
 * a page needs few: it takes the first ones in its order, at the cost of those and their neighbours (dirty.h), and comes back for more where those end.
 *
 * What always holds: no row of the range lies between those that were taken, or before them, that waits and was not taken. */
#ifndef ENGINE_WAITING_H
#define ENGINE_WAITING_H

#include "engine/tail.h"

enum {
	WAITING_ROWS_MAX = 1024,       /* that are taken at a time … */
	WAITING_BYTES_MAX = 256 << 10, /* … and after so many bytes no more */
};

/* Where rows wait. */
struct waiting_places {
	struct cache *cache;
	struct tail  *tail;
};

/* From low to high (excluded), beginning at high if it is backward. */
struct waiting_range {
	struct bytes low, high;
	bool         backward;
	uint32_t     rows_max; /* that are likely to be needed; 0, or more than WAITING_ROWS_MAX: so many */
};

/* Copies in the arena, in no order. *part: the part of the range for which these are all. One thread at a time: write_back.c's lock. */
void waiting_take(struct waiting_places places, const struct waiting_range *range, struct arena *a,
                  struct cache_rows *rows, struct waiting_range *part);

#endif
