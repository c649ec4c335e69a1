/* Key use: two numbers, each moved by compare and swap, so that of any number of threads exactly as many get
 * in as there is room for. */
#include "access/key_use.h"

#include <stdlib.h>

#include "base/arena.h"

#define SECOND_NS 1000000000

struct key_use *key_use_open(void)
{
	struct key_use *u = mem_zalloc(sizeof(*u));

	atomic_init(&u->refs, 1);
	return u;
}

struct key_use *key_use_ref(struct key_use *u)
{
	atomic_fetch_add(&u->refs, 1);
	return u;
}

void key_use_release(struct key_use *u)
{
	if (u != NULL && atomic_fetch_sub(&u->refs, 1) == 1)
		free(u);
}

/* They are counted without a ceiling too: there may be one tomorrow. */
bool key_use_connect(struct key_use *u, const struct key_ceilings *ceilings)
{
	unsigned now = atomic_load(&u->connections);

	do {
		if (ceilings->connections_max > 0 && now >= ceilings->connections_max)
			return false;
	} while (!atomic_compare_exchange_weak(&u->connections, &now, now + 1));
	key_use_ref(u);
	return true;
}

void key_use_disconnect(struct key_use *u)
{
	atomic_fetch_sub(&u->connections, 1);
	key_use_release(u);
}

/* Each request takes its share of a second, and they stand in line; the line may be a second long. */
bool key_use_request(struct key_use *u, const struct key_ceilings *ceilings, int64_t now_us)
{
	int64_t now_ns = now_us * 1000, line = atomic_load(&u->free_ns), after;

	if (ceilings->requests_per_second_max == 0)
		return true;
	do {
		after = (line > now_ns ? line : now_ns) + SECOND_NS / ceilings->requests_per_second_max;
		if (after - now_ns > SECOND_NS)
			return false;
	} while (!atomic_compare_exchange_weak(&u->free_ns, &line, after));
	return true;
}
