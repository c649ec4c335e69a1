/* Meter: adding, and adding up. */
#include "api/meter.h"

#include <assert.h>

#include "api/dynamodb.h"

unsigned meter_operation_row(const struct operation *operation)
{
	size_t index;

	if (operation == NULL)
		return 0;
	index = (size_t)(operation - operation_at(0));
	assert(index < METER_OPERATIONS_MAX);
	return (unsigned)index + 1;
}

unsigned meter_route_row(unsigned index)
{
	assert(index < METER_ROUTES_MAX);
	return 1 + METER_OPERATIONS_MAX + index;
}

void meter_note(struct meter_shard *s, unsigned row, enum err_code outcome, int64_t micros)
{
	metric_add(&s->rows[row].outcomes[outcome], 1);
	metric_observe(&s->rows[row].latency, &metric_bounds_us, micros > 0 ? (uint64_t)micros : 0);
}

uint64_t meter_sum(const struct meter *m, const struct metric_counter *in_first_shard)
{
	size_t   at = (size_t)((const char *)in_first_shard - (const char *)&m->shards[0]);
	uint64_t sum = 0;

	for (unsigned i = 0; i < METER_SHARDS; i++)
		sum += metric_value((const struct metric_counter *)((const char *)&m->shards[i] + at));
	return sum;
}

uint64_t meter_requests(const struct meter *m, unsigned row, enum err_code outcome)
{
	return meter_sum(m, &m->shards[0].rows[row].outcomes[outcome]);
}

struct metric_reading meter_latency(const struct meter *m, unsigned row)
{
	struct metric_reading sum = {0};

	for (unsigned i = 0; i < METER_SHARDS; i++)
		metric_read(&m->shards[i].rows[row].latency, &sum);
	return sum;
}
