/* Random numbers for tests: a small generator with a seed that failing tests print, so that they can be
 * replayed. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

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

#endif
