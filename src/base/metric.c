/* Metric: the bounds, and finding the bucket. */
#include "base/metric.h"

const struct metric_bounds metric_bounds_us = {16,
                                               {50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000,
                                                100000, 250000, 500000, 1000000, 2500000, 10000000}};

const struct metric_bounds metric_bounds_count = {11, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}};

/* A walk: what is observed most is small. */
static uint32_t bucket_of(const struct metric_bounds *bounds, uint64_t value)
{
	uint32_t i = 0;

	while (i < bounds->count && value > bounds->upper[i])
		i++;
	return i;
}

/* Threads take turns, so that the first few share none. */
static unsigned stripe_of_thread(void)
{
	static atomic_uint            next;
	static _Thread_local unsigned mine; /* one more than it is; 0: not yet */

	if (mine == 0)
		mine = 1 + atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % METRIC_STRIPES;
	return mine - 1;
}

void metric_spread_add(struct metric_spread *s, uint64_t more)
{
	metric_add(&s->stripes[stripe_of_thread()].counter, more);
}

uint64_t metric_spread_value(const struct metric_spread *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < METRIC_STRIPES; i++)
		sum += metric_value(&s->stripes[i].counter);
	return sum;
}

void metric_observe(struct metric_histogram *h, const struct metric_bounds *bounds, uint64_t value)
{
	atomic_fetch_add_explicit(&h->buckets[bucket_of(bounds, value)], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, value, memory_order_relaxed);
}

void metric_read(const struct metric_histogram *h, struct metric_reading *sum)
{
	for (unsigned i = 0; i <= METRIC_BOUNDS_MAX; i++)
		sum->buckets[i] += atomic_load_explicit(&h->buckets[i], memory_order_relaxed);
	sum->sum += atomic_load_explicit(&h->sum, memory_order_relaxed);
}

uint64_t metric_reading_count(const struct metric_reading *r)
{
	uint64_t count = 0;

	for (unsigned i = 0; i <= METRIC_BOUNDS_MAX; i++)
		count += r->buckets[i];
	return count;
}
