/* Debt: a small table, by a hash of the caller. Two callers may share a place: then the later debt stays, and a caller is
 * never taken for another. */
#include "base/debt.h"

static unsigned place_of(const void *caller)
{
	return (unsigned)(((uint64_t)(uintptr_t)caller * 0x9E3779B97F4A7C15u) >> 32) % DEBTS_MAX;
}

bool debts_owe(const struct debts *d, const void *caller, int64_t now_us)
{
	const struct debt *debt = &d->list[place_of(caller)];

	return caller != NULL && debt->until_us > now_us && debt->caller == caller;
}

void debts_add(struct debts *d, const void *caller, size_t work_bytes, int64_t now_us)
{
	struct debt *debt = &d->list[place_of(caller)];
	int64_t      from_us = debts_owe(d, caller, now_us) ? debt->until_us : now_us;
	int64_t      until_us = from_us + (int64_t)(work_bytes / (DEBT_BYTES_PER_MS / 1000));

	if (caller == NULL || work_bytes < DEBT_HEAVY_BYTES)
		return;
	if (until_us > now_us + DEBT_MS_MAX * 1000)
		until_us = now_us + DEBT_MS_MAX * 1000;
	if (debt->until_us < until_us)
		*debt = (struct debt){caller, until_us};
}
