/* Trap: what a test writes to standard error, to read it afterwards. */
#ifndef TESTS_BASE_TRAP_H
#define TESTS_BASE_TRAP_H

#include "test.h"

#include <unistd.h>

#include "base/log.h"

enum { CAUGHT_MAX = 16 * 1024 };

/* Standard error leads into a pipe until caught() gives back what was written. */
struct trap {
	int  saved, pipe[2];
	char text[CAUGHT_MAX];
};

static inline void trap_open(struct trap *t)
{
	assert_int_equal(pipe(t->pipe), 0);
	t->saved = dup(STDERR_FILENO);
	assert_int_equal(dup2(t->pipe[1], STDERR_FILENO), STDERR_FILENO);
	close(t->pipe[1]);
	log_set_level(LOG_INFO);
}

static inline const char *caught(struct trap *t)
{
	size_t  len = 0;
	ssize_t got;

	assert_int_equal(dup2(t->saved, STDERR_FILENO), STDERR_FILENO);
	close(t->saved);
	while ((got = read(t->pipe[0], t->text + len, sizeof(t->text) - 1 - len)) > 0)
		len += (size_t)got;
	close(t->pipe[0]);
	t->text[len] = '\0';
	return t->text;
}

#endif
