/* Clock: where time comes from. Passed in everywhere, so that tests set the hour. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#include "base/err.h"

struct clock {
	/* Microseconds since 1970. May jump; whoever needs an order keeps the largest value seen. */
	int64_t (*wall_us)(struct clock *c);
	/* Microseconds since some start. Never goes back, never jumps, and runs on while the machine sleeps. */
	int64_t (*steady_us)(struct clock *c);
};

/* The operating system's clocks. */
struct clock *clock_system(void);

/* A clock that stands still until a test moves it. */
struct clock_manual {
	struct clock base;
	int64_t      now_us;   /* atomic access through clock_manual_set */
	int64_t      shift_us; /* of the wall clock, through clock_manual_jump */
};

void clock_manual_init(struct clock_manual *c, int64_t now_us);
void clock_manual_set(struct clock_manual *c, int64_t now_us);

/* The wall clock jumps, as if someone had set it; no time passes. */
void clock_manual_jump(struct clock_manual *c, int64_t by_us);

/* The operating system's clocks, and what a file adds to them, which another process changes: for tests of a running server. The
 * file holds CLOCK_FILE_HEAD and two numbers of 64 bits in this machine's order: microseconds that have passed on both clocks, which
 * never become fewer, and microseconds by which the wall clock was set. It stays in use until the process ends. */
#define CLOCK_FILE_HEAD "gatehouse-clock\n"

enum err_code clock_file_open(struct clock **out, const char *path, struct err *err);

static inline int64_t clock_wall_us(struct clock *c)
{
	return c->wall_us(c);
}

static inline int64_t clock_steady_us(struct clock *c)
{
	return c->steady_us(c);
}

/* Whole seconds from now until then, rounded up: the part of a second that has passed counts as one to come. 0 if it is past. */
static inline int64_t clock_seconds_left(int64_t until_s, int64_t now_us)
{
	int64_t left_s = until_s - now_us / 1000000;

	return left_s > 0 ? left_s : 0;
}

#endif
