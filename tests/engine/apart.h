/* Apart: in a process of its own, which may die. RocksDB's threads do not survive a fork: a test program that calls this
 * must not use the engine itself, before or between. */
#ifndef TESTS_ENGINE_APART_H
#define TESTS_ENGINE_APART_H

#include "test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* The wait status. */
static inline int apart(void (*fn)(void *ctx), void *ctx)
{
	int   status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		alarm(TEST_PROGRAM_SECONDS_MAX);
		fn(ctx);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* Memory, all zeros, that the processes share. */
static inline void *shared_open(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static inline void shared_close(void *p, size_t len)
{
	assert_int_equal(munmap(p, len), 0);
}

#endif
