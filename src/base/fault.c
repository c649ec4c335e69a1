/* Fault: one counter per point. Disarmed is -1; otherwise the number of visits still let through. */
#include "base/fault.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define X(id, name) name,
static const char *const names[FAULT_COUNT] = {FAULT_POINTS(X)};
#undef X

#define X(id, name) -1,
static atomic_long passes_left[FAULT_COUNT] = {FAULT_POINTS(X)};
#undef X

void fault_arm(enum fault_point point, long after)
{
	atomic_store(&passes_left[point], after);
}

void fault_disarm(enum fault_point point)
{
	atomic_store(&passes_left[point], -1);
}

static bool parse_one(const char *text)
{
	size_t len = strcspn(text, ":,");

	for (int i = 0; i < FAULT_COUNT; i++) {
		if (strlen(names[i]) != len || strncmp(names[i], text, len) != 0)
			continue;
		fault_arm((enum fault_point)i, text[len] == ':' ? atol(text + len + 1) : 0);
		return true;
	}
	return false;
}

bool fault_parse(const char *list)
{
	for (; list != NULL; list = strchr(list, ',') == NULL ? NULL : strchr(list, ',') + 1)
		if (!parse_one(list))
			return false;
	return true;
}

bool fault_fires(enum fault_point point)
{
	long left = atomic_load_explicit(&passes_left[point], memory_order_relaxed);

	if (left < 0)
		return false;
	if (left == 0)
		return true;
	atomic_fetch_sub(&passes_left[point], 1);
	return false;
}
