/* Test: a thin layer over cmocka. A file under tests/ named *_test.c is a program of its own: it includes
 * this header, says what it shows with TEST(suite, behaviour) and that is all; registration and main are
 * here. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"

enum { TESTS_PER_FILE_MAX = 500 };

static struct CMUnitTest test_list[TESTS_PER_FILE_MAX];
static size_t            test_count;

#define TEST(suite, behaviour)                                                                               \
	static void                              suite##_##behaviour(void **state);                          \
	__attribute__((constructor)) static void suite##_##behaviour##_register(void)                        \
	{                                                                                                    \
		if (test_count == TESTS_PER_FILE_MAX)                                                        \
			abort();                                                                             \
		test_list[test_count++] =                                                                    \
		        (struct CMUnitTest){#suite ": " #behaviour, suite##_##behaviour, NULL, NULL, NULL};  \
	}                                                                                                    \
	static void suite##_##behaviour(void **state __attribute__((unused)))

static inline void assert_bytes(struct bytes actual, const char *expected)
{
	if (!bytes_is(actual, expected))
		fail_msg("got \"%.*s\", expected \"%s\"", BYTES_ARG(actual), expected);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests("", test_list, test_count, NULL, NULL);
}

#endif
