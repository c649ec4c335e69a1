/* Random numbers for tests: a small generator with a seed that tests print, so that a failure can be repeated. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* 0 to bound - 1 */
static inline uint64_t random_below(struct random *r, uint64_t bound)
{
	return random_next(r) % bound;
}

/* The seed of a suite whose input is new in each run: what SEED says, else one that chance draws. Printed, so that a failure can be
 * repeated. */
static inline uint64_t random_seed(void)
{
	const char *said = getenv("SEED");
	uint32_t    drawn = 0;

	if (said == NULL && getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
		abort();
	return said == NULL ? drawn : strtoull(said, NULL, 10);
}

#endif
