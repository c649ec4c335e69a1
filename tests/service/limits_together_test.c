/* Several limits in one call, all or nothing, while many ask at once: what is gone from each limit is exactly what the
 * allowed calls took. */
#include "service/limit_world.h"

#include <pthread.h>

#include "random.h"

/* In memory calls are so quick that it takes many for two to meet; limits grow with them. */
enum { CLIENTS = 8, CALLS = 60, MEMORY_FACTOR = 300, KEYS = 4 };

static const unsigned limits[] = {30, 60, 80}; /* the first is scarce: of the table, if they are mixed */

static const char each[] = "{'p':{'limit':%u,'per':'month','engine':'%%ENGINE'},"
                           "'q':{'algorithm':'gcra','limit':%u,'per':'month','engine':'%%ENGINE'},"
                           "'r':{'algorithm':'sliding','limit':%u,'per':'month','engine':'%%ENGINE'}}";
static const char mixed[] = "{'p':{'limit':%u,'per':'month','engine':'table'},"
                            "'q':{'algorithm':'gcra','limit':%u,'per':'month'},"
                            "'r':{'algorithm':'sliding','limit':%u,'per':'month'}}";

static const char *const policies[] = {"p", "q", "r"};

struct caller {
	struct world *w;
	pthread_t     thread;
	unsigned      number, calls;
	bool          failed;
	uint64_t      took[3][KEYS]; /* by the calls that were allowed */
	unsigned      refused;
};

/* One to four asks of random policies, keys and costs. */
static void make_call(struct caller *me, struct random *r, struct arena *a, struct limit_policies *set,
                      struct limit_call *c, unsigned picks[][3], unsigned *count)
{
	unsigned asks = 1 + (unsigned)random_below(r, 4);

	call_init(c, LIMIT_TAKE);
	*count = 0;
	(void)me;
	for (unsigned i = 0; i < asks; i++) {
		unsigned    p = (unsigned)random_below(r, 3), k = (unsigned)random_below(r, KEYS);
		unsigned    cost = (unsigned)random_below(r, 4);
		const char *names[KEYS] = {"a", "b", "c", "d"};

		if (!limit_call_add(c, a, limit_policies_find(set, bytes_of(policies[p])),
		                    &(struct limit_key){.text = bytes_of(names[k])}, cost))
			continue;
		picks[*count][0] = p;
		picks[*count][1] = k;
		picks[(*count)++][2] = cost;
	}
}

static void *caller_main(void *arg)
{
	struct caller *me = arg;
	struct random  r = {.state = me->number};
	struct arena   a;
	struct err     err;

	arena_init(&a);
	for (unsigned i = 0; i < me->calls; i++) {
		struct limit_policies *set = limits_policies(me->w->limits);
		struct limit_call      c;
		unsigned               picks[4][3], count;

		make_call(me, &r, &a, set, &c, picks, &count);
		me->failed = me->failed || world_run(me->w, &c, &a, &err) != ERR_NONE;
		for (unsigned j = 0; j < count && c.allowed; j++)
			me->took[picks[j][0]][picks[j][1]] += picks[j][2];
		me->refused += !c.allowed;
		arena_reset(&a);
		limit_policies_release(set);
	}
	arena_release(&a);
	return NULL;
}

static void assert_consumed(struct world *w, struct caller *clients, unsigned p, unsigned k, unsigned factor)
{
	const char *names[KEYS] = {"a", "b", "c", "d"};
	uint64_t    took = 0;

	for (unsigned i = 0; i < CLIENTS; i++)
		took += clients[i].took[p][k];
	assert_true(took <= limits[p] * factor);
	if (w->rough !=
	    NULL) /* it loses answers: a unit may then count twice, never too rarely (single.h, 2) */
		assert_in_range(remaining(w, policies[p], names[k]), 0, limits[p] * factor - took);
	else
		assert_int_equal(remaining(w, policies[p], names[k]), limits[p] * factor - took);
}

static void together(enum way way, const char *format)
{
	struct world  w;
	struct caller clients[CLIENTS];
	unsigned      refused = 0, factor = way == MEMORY ? MEMORY_FACTOR : 1;
	char          texts[400];

	snprintf(texts, sizeof(texts), format, limits[0] * factor, limits[1] * factor, limits[2] * factor);
	world_open(&w, way, texts);
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = (struct caller){.w = &w, .number = i, .calls = CALLS * factor};
		assert_int_equal(pthread_create(&clients[i].thread, NULL, caller_main, &clients[i]), 0);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i].thread, NULL);
		assert_false(clients[i].failed);
		refused += clients[i].refused;
	}
	assert_true(refused > 0);
	for (unsigned p = 0; p < 3; p++)
		for (unsigned k = 0; k < KEYS; k++)
			assert_consumed(&w, clients, p, k, factor);
	world_close(&w);
}

TEST(together, all_or_nothing_in_memory)
{
	together(MEMORY, each);
}

TEST(together, all_or_nothing_in_the_table)
{
	together(TABLE, each);
}

TEST(together, all_or_nothing_in_a_table_shared_with_others)
{
	together(APART, each);
}

TEST(together, all_or_nothing_across_both_engines)
{
	together(TABLE, mixed);
	together(APART, mixed);
}
