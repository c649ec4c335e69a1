/* Debt: which callers have had more than their share of a thread lately. A request that does a lot of work puts its caller into
 * debt, which passes with time. Whoever serves the callers lets those in debt wait for the others.
 *
 * Work is counted in bytes: what a request holds and what it examines, about 0.1 ns each. A caller is an address to tell it by,
 * never followed. One thread only. */
#ifndef BASE_DEBT_H
#define BASE_DEBT_H

#include "base/bytes.h"

enum {
	DEBT_HEAVY_BYTES = 1 << 20, /* from here on a request's work makes debts */
	DEBT_BYTES_PER_MS = 1 << 20,
	DEBT_MS_MAX = 1000,
	DEBTS_MAX = 64, /* callers remembered */
};

struct debt {
	const void *caller;
	int64_t     until_us;
};

/* Zeroed at first: nobody owes anything. NULL, which stands for all callers that cannot be told apart, never does. */
struct debts {
	struct debt list[DEBTS_MAX];
};

bool debts_owe(const struct debts *d, const void *caller, int64_t now_us);

/* Light work adds nothing. */
void debts_add(struct debts *d, const void *caller, size_t work_bytes, int64_t now_us);

#endif
