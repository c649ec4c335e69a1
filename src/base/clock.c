/* Clock: the operating system's, and one for tests. */
#include "base/clock.h"

#include <time.h>

static int64_t read_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int64_t system_wall_us(struct clock *c)
{
	(void)c;
	return read_us(CLOCK_REALTIME);
}

static int64_t system_steady_us(struct clock *c)
{
	(void)c;
	return read_us(CLOCK_BOOTTIME);
}

struct clock *clock_system(void)
{
	static struct clock c = {system_wall_us, system_steady_us};

	return &c;
}

static int64_t manual_steady_us(struct clock *c)
{
	return __atomic_load_n(&((struct clock_manual *)c)->now_us, __ATOMIC_ACQUIRE);
}

static int64_t manual_wall_us(struct clock *c)
{
	return manual_steady_us(c) + __atomic_load_n(&((struct clock_manual *)c)->shift_us, __ATOMIC_ACQUIRE);
}

void clock_manual_init(struct clock_manual *c, int64_t now_us)
{
	*c = (struct clock_manual){{manual_wall_us, manual_steady_us}, now_us, 0};
}

void clock_manual_set(struct clock_manual *c, int64_t now_us)
{
	__atomic_store_n(&c->now_us, now_us, __ATOMIC_RELEASE);
}

void clock_manual_jump(struct clock_manual *c, int64_t by_us)
{
	__atomic_fetch_add(&c->shift_us, by_us, __ATOMIC_ACQ_REL);
}
