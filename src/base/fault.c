/* Fault: two counters per point. Visits still let through: disarmed is -1. Then, how often it still fires: always is LONG_MAX. */
#include "base/fault.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define X(id, name) name,
static const char *const names[FAULT_COUNT] = {FAULT_POINTS(X)};
#undef X

#define X(id, name) -1,
static atomic_long passes_left[FAULT_COUNT] = {FAULT_POINTS(X)};
#undef X

static atomic_long fires_left[FAULT_COUNT];

void fault_arm(enum fault_point point, long after)
{
	atomic_store(&fires_left[point], LONG_MAX);
	atomic_store(&passes_left[point], after);
}

void fault_disarm(enum fault_point point)
{
	atomic_store(&passes_left[point], -1);
}

static bool parse_one(const char *text)
{
	size_t len = strcspn(text, ":,");
	char  *end = NULL;
	long   after = text[len] == ':' ? strtol(text + len + 1, &end, 10) : 0;

	for (int i = 0; i < FAULT_COUNT; i++) {
		if (strlen(names[i]) != len || strncmp(names[i], text, len) != 0)
			continue;
		fault_arm((enum fault_point)i, after);
		if (end != NULL && *end == ':')
			atomic_store(&fires_left[i], strtol(end + 1, NULL, 10));
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
		return atomic_fetch_sub(&fires_left[point], 1) > 0;
	atomic_fetch_sub(&passes_left[point], 1);
	return false;
}
