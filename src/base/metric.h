/* Metric: counters and histograms that are cheap to add to from any thread: relaxed atomics, no lock, no
 * allocation. They belong to whoever counts; a reading is a copy to print or to add up with others.
 *
 * What always holds: a reading taken while others add may lack their latest additions, but never goes back,
 * and its count is the sum of its buckets. */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stdatomic.h>
#include <stdint.h>

enum { METRIC_BOUNDS_MAX = 16 };

struct metric_counter {
	_Atomic uint64_t value;
};

/* One that several threads add to with every request. Each has a line of memory that is mostly its own: of a line that two take from
 * each other, an addition costs a quarter of a microsecond. All zeros is an empty one. */
enum { METRIC_STRIPES = 4, METRIC_LINE_BYTES = 64 };

struct metric_spread {
	struct {
		struct metric_counter counter;
		char                  rest[METRIC_LINE_BYTES - sizeof(struct metric_counter)];
	} stripes[METRIC_STRIPES];
};

/* Upper bounds of a histogram's buckets, rising; a value equal to a bound is within it. What is larger than
 * the last falls into one more bucket, which has no bound. */
struct metric_bounds {
	uint32_t count; /* at most METRIC_BOUNDS_MAX */
	uint64_t upper[METRIC_BOUNDS_MAX];
};

/* From 50 microseconds to 10 seconds: requests, flushes. */
extern const struct metric_bounds metric_bounds_us;
/* Powers of two up to 1024: batches. */
extern const struct metric_bounds metric_bounds_count;

/* All zeros is an empty one. It is always used with the same bounds. */
struct metric_histogram {
	_Atomic uint64_t buckets[METRIC_BOUNDS_MAX + 1]; /* each alone, not cumulated */
	_Atomic uint64_t sum;
};

struct metric_reading {
	uint64_t buckets[METRIC_BOUNDS_MAX + 1];
	uint64_t sum;
};

static inline void metric_add(struct metric_counter *c, uint64_t more)
{
	atomic_fetch_add_explicit(&c->value, more, memory_order_relaxed);
}

/* A number that one thread alone changes, and any may read: this needs no atomic addition. */
static inline void metric_up(_Atomic uint64_t *number)
{
	uint64_t value = atomic_load_explicit(number, memory_order_relaxed);

	atomic_store_explicit(number, value + 1, memory_order_relaxed);
}

static inline void metric_down(_Atomic uint64_t *number)
{
	uint64_t value = atomic_load_explicit(number, memory_order_relaxed);

	atomic_store_explicit(number, value - 1, memory_order_relaxed);
}

static inline uint64_t metric_value(const struct metric_counter *c)
{
	return atomic_load_explicit(&c->value, memory_order_relaxed);
}

void     metric_spread_add(struct metric_spread *s, uint64_t more);
uint64_t metric_spread_value(const struct metric_spread *s);

void metric_observe(struct metric_histogram *h, const struct metric_bounds *bounds, uint64_t value);

/* Adds what the histogram holds to the reading: several can be added up. */
void metric_read(const struct metric_histogram *h, struct metric_reading *sum);

uint64_t metric_reading_count(const struct metric_reading *r);

#endif
