/* Meter: adding, and adding up. */
#include "api/meter.h"

#include <assert.h>

static size_t row_of(const struct operation *operation)
{
	size_t index;

	if (operation == NULL)
		return 0;
	index = (size_t)(operation - operation_at(0));
	assert(index < METER_OPERATIONS_MAX);
	return index + 1;
}

void meter_note(struct meter_shard *s, const struct operation *operation, enum err_code outcome,
                int64_t micros)
{
	struct meter_row *row = &s->rows[row_of(operation)];

	metric_add(&row->outcomes[outcome], 1);
	metric_observe(&row->latency, &metric_bounds_us, micros > 0 ? (uint64_t)micros : 0);
}

uint64_t meter_requests(const struct meter *m, const struct operation *operation, enum err_code outcome)
{
	size_t   row = row_of(operation);
	uint64_t sum = 0;

	for (unsigned i = 0; i < METER_SHARDS; i++)
		sum += metric_value(&m->shards[i].rows[row].outcomes[outcome]);
	return sum;
}

struct metric_reading meter_latency(const struct meter *m, const struct operation *operation)
{
	size_t                row = row_of(operation);
	struct metric_reading sum = {0};

	for (unsigned i = 0; i < METER_SHARDS; i++)
		metric_read(&m->shards[i].rows[row].latency, &sum);
	return sum;
}
