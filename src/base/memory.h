/* Memory: how much of it this process may use: the machine's, or the limit of its cgroup (a container's, systemd's MemoryMax) or of one
 * above it, whichever is least. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

/* Where the kernel says so; tests have directories of their own. */
struct memory_site {
	const char *proc;   /* "/proc" */
	const char *cgroup; /* "/sys/fs/cgroup" */
};

/* In bytes. What cannot be read is no limit; 0 if nothing can be. */
uint64_t memory_limit(const struct memory_site *site);

#endif
