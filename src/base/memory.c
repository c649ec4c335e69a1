/* Memory: MemTotal of /proc/meminfo, and the files that hold a cgroup's limit, in both of the kernel's versions. */
#include "base/memory.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	LINE_MAX_BYTES = 4096,
	KEPT_BYTES = 64 << 20, /* at the end of a heap, of which each thread may have one */
	PIECE_BYTES = 8 << 20, /* larger ones are the kernel's again as soon as they are free */
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The number in a file that holds nothing else; UINT64_MAX if it is not there, or says "max". */
static uint64_t read_limit(const char *path)
{
	FILE    *file = fopen(path, "re");
	uint64_t limit = UINT64_MAX;
	char     line[64], *end;

	if (file == NULL)
		return UINT64_MAX;
	if (fgets(line, sizeof(line), file) != NULL && line[0] >= '0' && line[0] <= '9') {
		limit = strtoull(line, &end, 10);
		if (limit == 0)
			limit = UINT64_MAX;
	}
	fclose(file);
	return limit;
}

/* The least limit of the cgroup and of those above it. `name` begins with / and is cut on the way up. In a container it may name what
 * cannot be seen from inside; the topmost is the container's own then. */
static uint64_t least_above(const char *root, const char *file, char *name)
{
	uint64_t limit = UINT64_MAX;
	char     path[2 * PATH_MAX];

	for (;;) {
		char *slash = strrchr(name, '/');

		snprintf(path, sizeof(path), "%s%s/%s", root, strcmp(name, "/") == 0 ? "" : name, file);
		limit = least(limit, read_limit(path));
		if (slash == NULL || name[0] == '\0')
			return limit;
		*slash = '\0';
	}
}

/* A line of /proc/self/cgroup: "0::NAME" (version 2), or "N:CONTROLLERS:NAME". */
static uint64_t line_limit(const struct memory_site *site, char *line)
{
	char *controllers = strchr(line, ':'),
	     *name = controllers == NULL ? NULL : strchr(controllers + 1, ':');
	char root[PATH_MAX];

	if (name == NULL || name[1] != '/')
		return UINT64_MAX;
	*name++ = '\0';
	name[strcspn(name, "\n")] = '\0';
	if (strcmp(controllers, ":") == 0)
		return least_above(site->cgroup, "memory.max", name);
	if (strcmp(controllers, ":memory") != 0)
		return UINT64_MAX;
	snprintf(root, sizeof(root), "%s/memory", site->cgroup);
	return least_above(root, "memory.limit_in_bytes", name);
}

static uint64_t cgroup_limit(const struct memory_site *site)
{
	uint64_t limit = UINT64_MAX;
	char     path[PATH_MAX], line[LINE_MAX_BYTES];
	FILE    *file;

	snprintf(path, sizeof(path), "%s/self/cgroup", site->proc);
	file = fopen(path, "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		limit = least(limit, line_limit(site, line));
	if (file != NULL)
		fclose(file);
	return limit;
}

static uint64_t machine_limit(const struct memory_site *site)
{
	unsigned long long kb = 0;
	char               path[PATH_MAX], line[LINE_MAX_BYTES];
	FILE              *file;

	snprintf(path, sizeof(path), "%s/meminfo", site->proc);
	file = fopen(path, "re");
	while (file != NULL && kb == 0 && fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "MemTotal: %llu kB", &kb) != 1)
			kb = 0;
	if (file != NULL)
		fclose(file);
	return kb == 0 ? UINT64_MAX : (uint64_t)kb << 10;
}

uint64_t memory_limit(const struct memory_site *site)
{
	uint64_t limit = least(machine_limit(site), cgroup_limit(site));

	return limit == UINT64_MAX ? 0 : limit;
}

void memory_keep(void)
{
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	mallopt(M_MMAP_THRESHOLD, PIECE_BYTES);
}
