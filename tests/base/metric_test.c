/* Counters and histograms, also from several threads at once. */
#include "test.h"

#include <pthread.h>

#include "base/metric.h"

TEST(metric, a_value_equal_to_a_bound_is_within_it_and_one_more_is_not)
{
	const struct metric_bounds *all[] = {&metric_bounds_us, &metric_bounds_count};

	for (unsigned i = 0; i < 2; i++)
		for (uint32_t b = 0; b < all[i]->count; b++) {
			struct metric_histogram h = {0};
			struct metric_reading   r = {0};

			metric_observe(&h, all[i], all[i]->upper[b]);
			metric_observe(&h, all[i], all[i]->upper[b] + 1);
			metric_read(&h, &r);
			assert_int_equal(r.buckets[b], 1);
			assert_int_equal(r.buckets[b + 1], 1);
			assert_int_equal(metric_reading_count(&r), 2);
			assert_int_equal(r.sum, 2 * all[i]->upper[b] + 1);
		}
}

TEST(metric, the_smallest_and_the_largest_value_have_a_bucket)
{
	struct metric_histogram h = {0};
	struct metric_reading   r = {0};

	metric_observe(&h, &metric_bounds_us, 0);
	metric_observe(&h, &metric_bounds_us, INT64_MAX);
	metric_read(&h, &r);
	assert_int_equal(r.buckets[0], 1);
	assert_int_equal(r.buckets[metric_bounds_us.count], 1);
}

TEST(metric, bounds_rise_and_fit)
{
	const struct metric_bounds *all[] = {&metric_bounds_us, &metric_bounds_count};

	for (unsigned i = 0; i < 2; i++) {
		assert_in_range(all[i]->count, 2, METRIC_BOUNDS_MAX);
		for (uint32_t b = 1; b < all[i]->count; b++)
			assert_true(all[i]->upper[b] > all[i]->upper[b - 1]);
	}
}

TEST(metric, readings_of_several_histograms_add_up)
{
	struct metric_histogram one = {0}, two = {0};
	struct metric_reading   r = {0};

	metric_observe(&one, &metric_bounds_count, 1);
	metric_observe(&two, &metric_bounds_count, 1);
	metric_observe(&two, &metric_bounds_count, 100);
	metric_read(&one, &r);
	metric_read(&two, &r);
	assert_int_equal(r.buckets[0], 2);
	assert_int_equal(metric_reading_count(&r), 3);
	assert_int_equal(r.sum, 102);
}

enum { THREADS = 4, ADDITIONS = 50000 };

struct shared {
	struct metric_counter   counter;
	struct metric_histogram histogram;
};

static void *add(void *arg)
{
	struct shared *s = arg;

	for (unsigned i = 0; i < ADDITIONS; i++) {
		metric_add(&s->counter, 2);
		metric_observe(&s->histogram, &metric_bounds_count, i % 5);
	}
	return NULL;
}

TEST(metric, nothing_is_lost_when_threads_add_at_once)
{
	struct shared         s = {0};
	struct metric_reading r = {0};
	pthread_t             threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add, &s), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	metric_read(&s.histogram, &r);
	assert_int_equal(metric_value(&s.counter), 2 * THREADS * ADDITIONS);
	assert_int_equal(metric_reading_count(&r), THREADS * ADDITIONS);
	assert_int_equal(r.sum, THREADS * ADDITIONS / 5 * (0 + 1 + 2 + 3 + 4));
}

enum { SPREAD_THREADS = 2 * METRIC_STRIPES + 1, SPREAD_EACH = 10000 };

static void *spread_add(void *ctx)
{
	for (int i = 0; i < SPREAD_EACH; i++)
		metric_spread_add(ctx, 2);
	return NULL;
}

TEST(metric, a_spread_counter_loses_nothing_when_there_are_more_threads_than_stripes)
{
	struct metric_spread s = {0};
	pthread_t            threads[SPREAD_THREADS];

	for (int i = 0; i < SPREAD_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, spread_add, &s), 0);
	for (int i = 0; i < SPREAD_THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(metric_spread_value(&s), 2 * SPREAD_THREADS * SPREAD_EACH);
	for (int i = 0; i < METRIC_STRIPES; i++)
		assert_true(metric_value(&s.stripes[i].counter) > 0);
}
