/* Ends: partitions whose rows come in the order of their keys, as those of a log do. What comes behind the last of them is new, for certain. So they are left
 * out of the filter (filter.h), which would otherwise grow with the log, and be built again and again as it does.
 *
 *   write_back.c   ends_note: one more row of a large partition. After enough of them in order, and if the store has none behind, ends_leave_out
 *   view.c         ends_is_behind, of a row to write: it is absent. ends_has, of a row to read: what the filter says does not count
 *
 * (E1) A partition that is left out stays so until the process ends: so it does not matter which filter lacks its rows.
 * (E2) It is left out before anyone can see a row of it that is not in the filter. Whoever asks the filter asks it first, and then ends_has.
 * (E3) No committed row of a partition that is left out is behind its end.
 *
 * Numbers of partitions are those of layout.h. Two that share a place take turns in it until one of them is left out: the other stays in the filter. */
#ifndef ENGINE_ENDS_H
#define ENGINE_ENDS_H

#include <stdatomic.h>

#include "base/buf.h"

enum {
	ENDS_MAX = 16,      /* partitions */
	ENDS_IN_ORDER = 256 /* rows that have to come in order, one after the other */
};

struct end {
	atomic_ullong left_out; /* the number; 0: it is not, or not yet */

	/* the thread that publishes commits only */
	uint64_t   number;
	unsigned   in_order;
	struct buf last; /* key */
};

struct ends {
	struct end places[ENDS_MAX];
};

void ends_init(struct ends *e);
void ends_release(struct ends *e);

/* Is the partition left out? Any thread. */
bool ends_has(const struct ends *e, uint64_t number);
bool ends_any(const struct ends *e);

/* ---- the thread that publishes commits ---- */

/* A row of the partition is committed. True: enough have come in order; if none is behind this one, ends_leave_out may be called. */
bool ends_note(struct ends *e, uint64_t number, struct bytes key);
void ends_leave_out(struct ends *e, uint64_t number);

/* Is there certainly no such row, because it is of a partition that is left out, and behind its end? */
bool ends_is_behind(const struct ends *e, uint64_t number, struct bytes key);

#endif
