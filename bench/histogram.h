/* Histogram: latencies in logarithmic buckets, for load.c and fsync.c. Keeping each sample would cost memory
 * that grows with the run, and sorting; this costs 32 KB and one increment. Every power of two is cut into
 * 128 equal buckets and a quantile is answered by its bucket's middle.
 *
 * (1) A quantile differs from the sample it stands for by less than 0.4 %.
 * (2) Values from HISTOGRAM_VALUE_MAX on share the last bucket; the maximum is kept exactly. */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
	HISTOGRAM_STEP_BITS = 7,
	HISTOGRAM_VALUE_BITS = 37,
	HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_BITS - HISTOGRAM_STEP_BITS + 1) << HISTOGRAM_STEP_BITS,
};

#define HISTOGRAM_VALUE_MAX ((UINT64_C(1) << HISTOGRAM_VALUE_BITS) - 1) /* 137 s in nanoseconds */

struct histogram {
	uint64_t count;
	uint64_t max;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Below 2^7 a bucket is one value wide; the octave from 2^(7+s) has buckets 2^s wide. */
static inline size_t histogram_bucket(uint64_t value)
{
	unsigned top_bit;
	unsigned shift;

	if (value > HISTOGRAM_VALUE_MAX)
		value = HISTOGRAM_VALUE_MAX;
	if (value < (1u << HISTOGRAM_STEP_BITS))
		return (size_t)value;
	top_bit = 63u - (unsigned)__builtin_clzll(value);
	shift = top_bit - HISTOGRAM_STEP_BITS;
	return ((size_t)shift << HISTOGRAM_STEP_BITS) + (size_t)(value >> shift);
}

static inline uint64_t histogram_bucket_middle(size_t bucket)
{
	size_t   steps = (size_t)1 << HISTOGRAM_STEP_BITS;
	unsigned shift;
	uint64_t low;

	if (bucket < 2 * steps)
		return bucket;
	shift = (unsigned)(bucket / steps) - 1;
	low = (uint64_t)(bucket % steps + steps) << shift;
	return low + (UINT64_C(1) << shift) / 2;
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
	h->buckets[histogram_bucket(value)]++;
	h->count++;
	if (value > h->max)
		h->max = value;
}

/* The value that at least `share` (0 to 1) of the samples do not exceed; 0 when there are none. */
static inline uint64_t histogram_quantile(const struct histogram *h, double share)
{
	double   wanted = share * (double)h->count;
	uint64_t seen = 0;

	if (h->count == 0)
		return 0;
	for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen > 0 && (double)seen >= wanted)
			return histogram_bucket_middle(i);
	}
	return h->max;
}

#endif
