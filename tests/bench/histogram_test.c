/* Shows that the benchmark's quantiles can be trusted: bench/histogram.h stays within its stated error,
 * everywhere. */
#include "test.h"

#include "../../bench/histogram.h"

static struct histogram *histogram_new(void)
{
	struct histogram *h = calloc(1, sizeof *h);

	assert_non_null(h);
	return h;
}

TEST(histogram, a_bucket_is_within_half_a_percent_of_every_value_it_holds)
{
	for (uint64_t value = 1; value < HISTOGRAM_VALUE_MAX; value += 1 + value / 997) {
		double middle = (double)histogram_bucket_middle(histogram_bucket(value));

		if (middle > 1.005 * (double)value || middle < 0.995 * (double)value)
			fail_msg("%llu is answered as %.0f", (unsigned long long)value, middle);
	}
}

TEST(histogram, buckets_follow_each_other_without_gap_or_overlap)
{
	size_t last = histogram_bucket(0);

	for (uint64_t value = 1; value < 1 << 20; value++) {
		size_t bucket = histogram_bucket(value);

		assert_true(bucket == last || bucket == last + 1);
		last = bucket;
	}
}

TEST(histogram, the_largest_value_has_the_last_bucket_and_a_larger_one_shares_it)
{
	assert_int_equal(histogram_bucket(HISTOGRAM_VALUE_MAX), HISTOGRAM_BUCKETS - 1);
	assert_int_equal(histogram_bucket(HISTOGRAM_VALUE_MAX + 1), HISTOGRAM_BUCKETS - 1);
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

TEST(histogram, quantiles_of_1_to_100_are_the_numbers_themselves)
{
	struct histogram *h = histogram_new();

	for (uint64_t value = 100; value >= 1; value--)
		histogram_add(h, value);
	assert_int_equal(histogram_quantile(h, 0.50), 50);
	assert_int_equal(histogram_quantile(h, 0.99), 99);
	assert_int_equal(histogram_quantile(h, 1.0), 100);
	assert_int_equal(histogram_quantile(h, 0.0), 1);
	assert_int_equal(h->max, 100);
	free(h);
}

TEST(histogram, without_samples_a_quantile_is_zero)
{
	struct histogram *h = histogram_new();

	assert_int_equal(histogram_quantile(h, 0.5), 0);
	free(h);
}
