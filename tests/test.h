/* Test: a thin layer over cmocka. A file under tests/ named *_test.c is a program of its own: it includes
 * this header, says what it shows with TEST(suite, behaviour) and that is all; registration and main are
 * here.
 *
 * A failed assertion ends the program: cmocka would jump out of the test and go on, past threads that still
 * run and servers that nobody stops. One that hangs is ended too. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"

enum { TESTS_PER_FILE_MAX = 500, TEST_PROGRAM_SECONDS_MAX = 300 };

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

/* The number that a text ends with, from its byte `from` on: bytes have no NUL behind them. */
static inline size_t test_number(struct bytes text, size_t from)
{
	uint64_t number = 0;

	if (text.len < from ||
	    !bytes_to_u64((struct bytes){text.data + from, text.len - from}, SIZE_MAX, &number))
		fail_msg("\"%.*s\" does not end with a number", BYTES_ARG(text));
	return (size_t)number;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("CMOCKA_TEST_ABORT", "1", 0);
	alarm(TEST_PROGRAM_SECONDS_MAX);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return _cmocka_run_group_tests("", test_list, test_count, NULL, NULL);
}

#endif
