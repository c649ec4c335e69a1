/* Meter: adding, and adding up; and the line in the log. */
#include "api/meter.h"

#include <assert.h>

#include "api/dynamodb.h"
#include "base/log.h"

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

bool meter_is_route(unsigned row)
{
	return row > METER_OPERATIONS_MAX;
}

struct bytes meter_outcome_name(unsigned row, enum err_code outcome)
{
	if (outcome == ERR_NONE)
		return BYTES("ok");
	return bytes_of(meter_is_route(row) ? err_v1_type(outcome) + sizeof(ERR_TYPE_PREFIX) - 1
	                                    : err_name(outcome));
}

int meter_outcome_status(unsigned row, enum err_code outcome)
{
	return meter_is_route(row) ? err_v1_status(outcome) : err_status(outcome);
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

/* ---- the log: the line, and the one header that reaches it ---- */

enum {
	STATUS_FAILED = 500,
	FIELDS_MAX = 7,
	TRACEPARENT_LENGTH = 55, /* 00-<32>-<16>-<2>; later versions may go on after it */
};

bool request_log_wants(bool all, int status)
{
	return all || status >= STATUS_FAILED;
}

/* An answer that says "later" is a warning: nothing is broken. */
static enum log_level level_of(int status)
{
	return status < STATUS_FAILED ? LOG_INFO : status == 503 ? LOG_WARN : LOG_ERROR;
}

void request_log(const struct request_note *n)
{
	struct bytes     trace = traceparent_trace_id(n->traceparent);
	struct log_field fields[FIELDS_MAX] = {
	        {.name = "request_id", .text = n->id},   {.name = "operation", .text = n->operation},
	        {.name = "outcome", .text = n->outcome}, {.name = "status", .number = n->status},
	        {.name = "micros", .number = n->micros},
	};
	unsigned count = 5;

	if (trace.len > 0)
		fields[count++] = (struct log_field){.name = "trace_id", .text = trace};
	if (n->key_id.len > 0)
		fields[count++] = (struct log_field){.name = "key_id", .text = n->key_id};
	log_fields(level_of(n->status), "request", fields, count);
}

/* ---- traceparent ---- */

/* `count` lower-case hexadecimal digits, and where it matters not all of them zero. */
static bool is_hex(const char *at, size_t count, bool may_be_zero)
{
	bool zero = true;

	for (size_t i = 0; i < count; i++) {
		if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f')))
			return false;
		zero = zero && at[i] == '0';
	}
	return may_be_zero || !zero;
}

struct bytes traceparent_trace_id(struct bytes header)
{
	const char *at = header.data;

	if (header.len < TRACEPARENT_LENGTH || at[2] != '-' || at[35] != '-' || at[52] != '-' ||
	    !is_hex(at, 2, true) || !is_hex(at + 3, TRACE_ID_LENGTH, false) || !is_hex(at + 36, 16, false) ||
	    !is_hex(at + 53, 2, true))
		return (struct bytes){NULL, 0};
	if (memcmp(at, "ff", 2) == 0)
		return (struct bytes){NULL, 0};
	if (header.len > TRACEPARENT_LENGTH && (memcmp(at, "00", 2) == 0 || at[TRACEPARENT_LENGTH] != '-'))
		return (struct bytes){NULL, 0};
	return (struct bytes){at + 3, TRACE_ID_LENGTH};
}
