/* Memory: what the files of the kernel say, in directories that look like them. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define MB (UINT64_C(1) << 20)

struct kernel {
	char               dir[32], proc[64], cgroup[64];
	struct memory_site site;
};

static void command(const char *format, const char *a, const char *b)
{
	char text[512];

	snprintf(text, sizeof(text), format, a, b);
	assert_int_equal(system(text), 0);
}

/* The file of the directory, with what leads there. */
static void put(struct kernel *k, const char *path, const char *text)
{
	char  full[256];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", k->dir, path);
	command("mkdir -p \"$(dirname %s)\"%s", full, "");
	file = fopen(full, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void open_kernel(struct kernel *k)
{
	snprintf(k->dir, sizeof(k->dir), "/tmp/gatehouse-memory-XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	snprintf(k->proc, sizeof(k->proc), "%s/proc", k->dir);
	snprintf(k->cgroup, sizeof(k->cgroup), "%s/cgroup", k->dir);
	k->site = (struct memory_site){k->proc, k->cgroup};
	put(k, "proc/meminfo", "MemTotal:        1048576 kB\nMemFree:          100 kB\n");
}

static void close_kernel(struct kernel *k)
{
	command("rm -rf %s%s", k->dir, "");
}

TEST(memory, is_the_machines_without_a_cgroup_and_0_if_nothing_can_be_read)
{
	struct kernel k;

	open_kernel(&k);
	assert_int_equal(memory_limit(&k.site), 1024 * MB);
	put(&k, "proc/meminfo", "nothing\n");
	assert_int_equal(memory_limit(&k.site), 0);
	close_kernel(&k);
}

TEST(memory, of_version_2_is_the_least_limit_on_the_way_up)
{
	struct kernel k;

	open_kernel(&k);
	put(&k, "proc/self/cgroup", "0::/system.slice/gatehouse.service\n");
	put(&k, "cgroup/system.slice/gatehouse.service/memory.max", "max\n");
	assert_int_equal(memory_limit(&k.site), 1024 * MB);
	put(&k, "cgroup/system.slice/memory.max", "268435456\n");
	assert_int_equal(memory_limit(&k.site), 256 * MB);
	put(&k, "cgroup/system.slice/gatehouse.service/memory.max", "134217728\n");
	assert_int_equal(memory_limit(&k.site), 128 * MB);
	put(&k, "cgroup/memory.max", "67108864\n");
	assert_int_equal(memory_limit(&k.site), 64 * MB);
	close_kernel(&k);
}

TEST(memory, of_a_container_that_does_not_see_its_name_is_the_topmost_limit)
{
	struct kernel k;

	open_kernel(&k);
	put(&k, "proc/self/cgroup", "0::/kubepods/pod7\n");
	put(&k, "cgroup/memory.max", "536870912\n");
	assert_int_equal(memory_limit(&k.site), 512 * MB);
	put(&k, "proc/self/cgroup", "0::/\n");
	assert_int_equal(memory_limit(&k.site), 512 * MB);
	close_kernel(&k);
}

TEST(memory, of_version_1_comes_from_the_memory_controller)
{
	struct kernel k;

	open_kernel(&k);
	put(&k, "proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/x\n0::/\n");
	put(&k, "cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712\n");
	assert_int_equal(memory_limit(&k.site), 1024 * MB);
	put(&k, "cgroup/memory/memory.limit_in_bytes", "402653184\n");
	assert_int_equal(memory_limit(&k.site), 384 * MB);
	close_kernel(&k);
}

TEST(memory, of_this_machine_can_be_read)
{
	assert_true(memory_limit(&(struct memory_site){"/proc", "/sys/fs/cgroup"}) >= 16 * MB);
}
