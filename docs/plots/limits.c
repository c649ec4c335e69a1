/* Plot of limits: what each algorithm lets through around a window's edge, by the server's own code. One client asks 20
 * times a second, from ten seconds before the edge of a minute to a minute after it; the limit is 100 a minute. Prints the
 * seconds since the edge and how many have passed so far, a column an algorithm. docs/plots/limits makes the picture. */
#include <stdio.h>

#include "service/limit.h"

enum { ALGORITHMS = 4, PER_SECOND = 20, FROM_S = -10, TO_S = 65 };

#define SECOND_US INT64_C(1000000)
#define EDGE_US   (INT64_C(1789041600) * SECOND_US)

int main(void)
{
	struct limit_rule  rules[ALGORITHMS] = {{.algorithm = LIMIT_FIXED},
	                                        {.algorithm = LIMIT_SLIDING},
	                                        {.algorithm = LIMIT_GCRA, .burst = 100},
	                                        {.algorithm = LIMIT_GCRA, .burst = 20}};
	struct limit_state states[ALGORITHMS] = {0};
	unsigned           passed[ALGORITHMS] = {0};

	for (int i = FROM_S * PER_SECOND; i < TO_S * PER_SECOND; i++) {
		int64_t now_us = EDGE_US + i * SECOND_US / PER_SECOND;

		for (unsigned a = 0; a < ALGORITHMS; a++) {
			struct limit_answer answer;

			rules[a].limit = 100;
			rules[a].period.us = 60 * SECOND_US;
			limit_take(&rules[a], &states[a], now_us, 1, &answer);
			passed[a] += answer.allowed;
		}
		if (i % 5 == 0)
			printf("%.2f\t%u\t%u\t%u\t%u\n", (double)i / PER_SECOND, passed[0], passed[1],
			       passed[2], passed[3]);
	}
	return 0;
}
