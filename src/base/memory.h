/* Memory: how much of it this process may use: the machine's, or the limit of its cgroup (a container's, systemd's MemoryMax) or of one
 * above it, whichever is least; and that it keeps what it has used. */
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

/* From here on what is freed mostly stays with the process, for the next time: tens of megabytes. The C library would give them back to the kernel and ask for them
 * again, page by page, with each table in memory that the store fills (docs/decisions/046). */
void memory_keep(void);

#endif
